/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What policy remembers of each service port: one entry of a Service's ports in one family in which
 * the Service has a cluster IP. It lives as long as its Service has a port of its name and
 * protocol.
 */
#ifndef KUBE_NFTD_POLICY_PORT_STATES_H
#define KUBE_NFTD_POLICY_PORT_STATES_H

#include "kube-nftd/base/hash_table.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/policy/route.h"

struct claim;
struct port_details;
struct service;

/* The service ports that some change of the node concerns, so that no others need be looked at. */
enum port_list {
    LIST_NODE_PORTS,    /* with a node port */
    LIST_SOURCE_RANGES, /* with load-balancer IPs and source ranges */
    PORT_LIST_COUNT
};

/* Kept small: there is one for every service port of the cluster. */
struct port_state {
    struct service_state *owner;  /* NULL: the service port is gone */
    struct port_state *next;      /* of the same Service, by family, protocol, name and index */
    struct claim *claims;         /* see claims.h */
    struct port_details *details; /* see turns.h; NULL if there are none */
    uint32_t index : 24;          /* in the Service's ports */
    uint32_t protocol : 8;
    uint32_t id;                      /* of routes: never 0, nobody else's */
    uint32_t places[PORT_LIST_COUNT]; /* in each list, from 1; 0: not there */
    /* What struct selection_counts says, of a port with few endpoints: see turns_counts(). */
    uint64_t endpoints : 6;
    uint64_t ready : 6;
    uint64_t fallback : 6;
    uint64_t local_ready : 6;
    uint64_t local_fallback : 6;
    uint64_t node_hints : 6;
    uint64_t for_node : 6;
    uint64_t zone_hints : 6;
    uint64_t for_zone : 6;
    uint8_t family : 1;
    bool renew : 1;          /* what it claims may be something else; not of one that is gone */
    bool noted : 1;          /* to be decided, */
    bool whole : 1;          /* as a whole, whatever its turns say */
    bool told : 1;           /* its backends were handed on */
    bool has_endpoints : 1;  /* of any sort, when it was decided last */
    bool has_any : 1;        /* some that could serve (struct selection) */
    bool lacks_internal : 1; /* as counted: see policy_ports_without_local() */
    bool lacks_external : 1;
};

struct service_state {
    struct hash_link link;         /* by service->id */
    const struct service *service; /* borrowed from the service cache */
    struct port_state *ports;
};

typedef VEC(struct port_state *) port_state_vec;

/* Start zeroed. */
struct port_states {
    struct hash_table services; /* of struct service_state */
    port_state_vec noted;
    port_state_vec late; /* noted before, of Services that let others go first */
    port_state_vec lists[PORT_LIST_COUNT];
    uint32_t last_id;
    struct port_state *passed;              /* the last one before what was sought; NULL: none */
    VEC(const struct service_port *) order; /* scratch */
};

/** Frees all of it, noted ports that are gone too. Their claims are not looked at. */
void port_states_clear(struct port_states *states);

struct service_state *port_states_find(const struct port_states *states, const char *service_id);

/**
 * The first port of @service of that family, protocol and name; NULL if there is none. Ports that
 * are sought in the order that they have take one walk together.
 */
struct port_state *port_states_seek(struct port_states *states, const struct service_state *service,
                                    enum family family, uint8_t protocol, const char *name);

/** The next one of the same Service, family, protocol and name, which an API server refuses. */
struct port_state *port_state_twin(const struct port_state *port);

/** The entry of the Service's ports that @port stands for. */
const struct service_port *port_state_spec(const struct port_state *port);

/**
 * Takes over a change of a Service: the states of its ports, all of them noted, and the lists.
 * Returns those that are gone, chained by next; they too are noted, for what they have handed on
 * is to be taken back, and then freed by port_state_free().
 */
struct port_state *port_states_change(struct port_states *states, const struct service *before,
                                      const struct service *after);

/** @port may claim other frontends, and those that are others are to be decided. */
void port_states_note_claims(struct port_states *states, struct port_state *port);

/** @port is to be decided. */
void port_states_note(struct port_states *states, struct port_state *port);

/** The same, but if nothing else comes, by its turns (turns.h). */
void port_states_note_turns(struct port_states *states, struct port_state *port);

/** "namespace/name:port", without the port's name if it has none; to be freed. Not for a port that
 * is gone. */
char *port_state_name(const struct port_state *port);

/** Frees a port that is gone. */
void port_state_free(struct port_state *port);

#endif
