/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides: which endpoints serve, which addresses a service port has, who gets an address that two
 * claim. Deltas of the caches go in, routes come out. Pure but for the log: no kernel, no clock of
 * its own.
 */
#ifndef KUBE_NFTD_POLICY_H
#define KUBE_NFTD_POLICY_H

#include "kube-nftd/base.h"
#include "kube-nftd/cache.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What policy decides about frontends and service ports, and ruleset programs. */

/* Service ports have ids from 1 to this. */
#define MOST_ROUTE_ID INT32_MAX

/* What is done with new connections to a frontend. */
struct route {
    uint32_t port; /* the id of the service port whose backends they go to */
    /* Not the cluster IP: an external IP, load-balancer IP or node port. Masqueraded, unless the
     * traffic policy is Local. */
    bool external;
    /* The traffic policy is Local: connections go to local_backends. For external frontends,
     * those from pods and from the host itself go to backends instead (short-circuit). */
    bool local;
    /* With session affinity. */
    bool affine;
    /* Only sources in these disjoint, ascending ranges may connect; NULL: everybody may. */
    const struct address_range *sources;
    size_t n_sources;
};

/* The backends of a service port, for all of its frontends. Sorted by backend_compare. */
struct port_route {
    /* Some endpoint on some node could serve. If not, connections are rejected; if so, but local is
     * asked for and empty, what is for it is dropped. */
    bool has_any;
    /* Some frontend may ask for the Cluster set; for the local one. */
    bool needs_cluster, needs_local;
    const struct backend *backends; /* the Cluster set */
    size_t n_backends;
    const struct backend *local_backends;
    size_t n_local;
    uint32_t affinity_timeout; /* of session affinity, in seconds; 0: there is none */
};

/* A backend joins those of a service port, or goes. */
struct backend_change {
    struct backend backend;
    bool comes;
};

/* How the backends of a service port change, which is otherwise as it was. Several changes of one
 * backend take turns, coming and going, beginning with what it is not. */
struct port_route_change {
    const struct backend_change *backends; /* of the Cluster set */
    size_t n_backends;
    const struct backend_change *local_backends;
    size_t n_local;
};

/*
 * What policy remembers of each service port: one entry of a Service's ports in one family in which
 * the Service has a cluster IP. It lives as long as its Service has a port of its name and
 * protocol.
 */

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

/*
 * The frontends of the API server: the addresses and ports by which the client speaks to it, and
 * the endpoints of the Service default/kubernetes. An external or load-balancer address of some
 * Service must not take them, or this node, and with it the way to mend that Service, is cut off.
 */

struct reserved;

/** Borrows the cache. */
struct reserved *reserved_new(const struct endpoint_slice_cache *slices);
void reserved_free(struct reserved *reserved);

/** The client's frontends are these @n (copied) now. */
void reserved_set_peers(struct reserved *reserved, const struct frontend *peers, size_t n);

/** The slices of the Service @service_id are others now. */
void reserved_slices_changed(struct reserved *reserved, const char *service_id);

/** Calls @changed for each frontend that is reserved now and was not at the last call, or the other
 * way. */
void reserved_settle(struct reserved *reserved,
                     void (*changed)(void *ctx, const struct frontend *frontend, bool is_reserved),
                     void *ctx);

/** Whether @frontend is one of them, as of what was told so far. */
bool reserved_has(const struct reserved *reserved, const struct frontend *frontend);

/*
 * Who has which frontend. Every service port claims some; of several that claim the same, all but
 * one are said in the log and in events on their Services, and the conflict is counted. So are
 * those of the API server's frontends (reserved.h).
 */

struct claims;

/* What a frontend's address is to the service port; a bit each, since it may be several. */
enum claim_kind {
    CLAIM_CLUSTER_IP = 1 << 0,
    CLAIM_EXTERNAL_IP = 1 << 1,
    CLAIM_LOAD_BALANCER_IP = 1 << 2,
    CLAIM_NODE_PORT = 1 << 3,
};

/* That a service port claims a frontend. */
struct claim {
    struct port_state *port;
    struct frontend_state *target;
    struct claim *next_of_port;
    struct claim *next_of_target;
    uint8_t kinds;   /* of enum claim_kind; none: it is new, and counts from claims_end() on */
    uint8_t renewed; /* likewise, while they are renewed: what they are going to be */
    bool said;       /* in the log: that the present winner has the frontend, not this one */
};

/* Noted frontends wait in one of these, or in both, so that what concerns few frontends does not
 * wait for what concerns many. */
enum claims_queue { CLAIMS_FEW, CLAIMS_MANY, CLAIMS_QUEUES };

/* A frontend that somebody claims, or has claimed since the last claims_settle(). */
struct frontend_state {
    struct hash_link link; /* by frontend */
    struct frontend frontend;
    uint32_t n_claims : 27;
    uint32_t queued : 2; /* in which queues it is, a bit each; it may be there and not noted */
    bool noted : 1;      /* to be decided for itself, not along with its only port */
    bool reserved : 1;   /* for the API server, as was decided last: it has no winner */
    bool told : 1;       /* handed on */
    struct claim *claims;
    const struct port_state *winner; /* that was decided last; NULL: none yet, or it is gone */
    uint64_t serving;                /* fingerprint of the endpoints handed on for flows */
};

/** Borrows @reserved. */
struct claims *claims_new(const struct reserved *reserved);

/** Where events go, borrowed. NULL, as at first: nowhere. */
void claims_set_events(struct claims *claims, const struct event_sink *events);

/** Leaves the ports' chains of claims dangling: for the end. */
void claims_free(struct claims *claims);

/**
 * Renews what @port claims: after claims_begin(), claims_add() for each frontend, as often as it
 * occurs and in any order; claims_end() drops the claims that were not named. Up to then it claims
 * what it claimed before; and all of it may begin anew. Frontends that others
 * claim too, or nobody any more, are noted here, in @queue, and those whose claim is not what it
 * was; but if the caller decides @port as a whole afterwards, not those that it alone claims.
 */
void claims_begin(struct port_state *port);
void claims_add(struct claims *claims, struct port_state *port, const struct frontend *frontend,
                enum claim_kind kind);
void claims_end(struct claims *claims, struct port_state *port, enum claims_queue queue);

/** The frontend is to be decided by the next claims_settle() of @queue. */
void claims_note(struct claims *claims, struct frontend_state *target, enum claims_queue queue);

/** The same for @frontend, if somebody claims it, and the queue of few. */
void claims_note_frontend(struct claims *claims, const struct frontend *frontend);

/**
 * Which of the claims has the frontend; NULL if there are none, or just external and load-balancer
 * addresses and the frontend is reserved. The same on every node that knows the same objects: a
 * cluster IP goes before a node port, and that before external and load-balancer addresses; then
 * one with endpoints that could serve, the oldest Service, the first by name, the first port of a
 * Service. Says in the log and in events who is left out, once for each claim and winner, and who
 * has got what it was left out of.
 */
const struct claim *claims_decide(struct claims *claims, struct frontend_state *target);

/** The frontend, if somebody claims it, else NULL. */
const struct frontend_state *claims_find(const struct claims *claims,
                                         const struct frontend *frontend);

/** What is said of the one of two claims that goes before the other: "is older". */
const char *claims_reason(const struct claim *winner, const struct claim *loser);

/** Calls @decide for each noted frontend in @queue, then forgets it if nobody claims it. Ends when
 * @left is 0, which @decide lowers. Returns whether that was all. */
bool claims_settle(struct claims *claims, enum claims_queue queue,
                   void (*decide)(void *ctx, struct frontend_state *target), void *ctx,
                   const size_t *left);

/** How many frontends have more than one claim. */
size_t claims_conflicts(const struct claims *claims);

/** How many frontends nobody has since they are reserved. */
size_t claims_reserved(const struct claims *claims);

/*
 * Which endpoints of a service port take new connections (docs/behaviour.md 3, KEP-1669). Pure
 * functions over plain values: no cache, no clock, no kernel.
 */

/* The sets that an endpoint can be in; a bit each. */
enum endpoint_set {
    SET_CLUSTER = 1 << 0, /* for traffic policy Cluster, and the short-circuit under Local */
    SET_LOCAL = 1 << 1,   /* for traffic policy Local */
};

/* Where we are: interned names, to be compared with those of endpoints and hints as pointers. */
struct location {
    const char *node_name;
    const char *zone; /* NULL if the node has none, or is not known yet */
};

/* What of an endpoint counts here, for the selection and around it; a bit each. No bits: there is
 * no endpoint. */
enum endpoint_trait {
    TRAIT_EXISTS = 1 << 0,
    TRAIT_READY = 1 << 1,
    TRAIT_FALLBACK = 1 << 2, /* see endpoint_is_fallback() */
    TRAIT_SERVING = 1 << 3,
    TRAIT_NAMES_NODE = 1 << 4,
    TRAIT_LOCAL = 1 << 5,
    TRAIT_NODE_HINTS = 1 << 6, /* some */
    TRAIT_FOR_NODE = 1 << 7,   /* one of them names us */
    TRAIT_ZONE_HINTS = 1 << 8,
    TRAIT_FOR_ZONE = 1 << 9,
};

/* How many endpoints of a service port are of a sort; hints count with the ready ones only. */
struct selection_counts {
    uint32_t endpoints, ready, fallback, local_ready, local_fallback;
    uint32_t node_hints, for_node, zone_hints, for_zone;
};

struct selection {
    bool has_any;        /* some endpoint on some node could serve; if not, traffic is rejected */
    size_t cluster_size; /* endpoints with SET_CLUSTER */
    size_t local_size;   /* endpoints with SET_LOCAL */
    struct selection_counts counts;
};

/* Whether hints of one sort, for nodes or for zones, decide the Cluster set
 * (docs/behaviour.md 3.3). */
enum hint_state {
    HINTS_ABSENT,     /* no ready endpoint has any */
    HINTS_INCOMPLETE, /* some have, but not all */
    HINTS_ELSEWHERE,  /* all have, but none names us */
    HINTS_APPLY,
};

/* What the verdicts on all endpoints of one service port rest on. */
struct selection_basis {
    bool ready, fallback, local_ready; /* there are such endpoints */
    enum hint_state node_hints, zone_hints;
};

/* Whether an endpoint is in a set, and why not. */
enum endpoint_verdict {
    VERDICT_USED,
    VERDICT_NOT_READY,   /* neither ready, nor terminating and serving */
    VERDICT_TERMINATING, /* it could serve, but there are ready ones */
    VERDICT_OTHER_NODE,  /* not on this node */
    VERDICT_NODE_HINT,   /* its node hints do not name this node, others' do */
    VERDICT_ZONE_HINT,   /* its zone hints do not name this zone, others' do */
};

/** The endpoint is ready. */
bool endpoint_is_ready(const struct endpoint *endpoint);

/** The endpoint is not ready, but still serves while it terminates: the fallback. */
bool endpoint_is_fallback(const struct endpoint *endpoint);

/** The endpoint is on the node @here. */
bool endpoint_is_local(const struct endpoint *endpoint, const struct location *here);

/** What counts of an endpoint with these attributes (flags of enum endpoint_flag). */
unsigned endpoint_traits(uint8_t flags, const char *node_name, const struct endpoint_hints *hints,
                         const struct location *here);

/** One more endpoint has these traits; or, with @sign -1, one less. */
void selection_count(struct selection_counts *counts, unsigned traits, int sign);

/** All of the @n endpoints, counted. */
struct selection_counts selection_count_all(const struct endpoint *endpoints, size_t n,
                                            const struct location *here);

/** What decides if there are so many. */
struct selection_basis selection_basis_of(const struct selection_counts *counts);

/** Whether the two lead to the same verdicts on all endpoints. While some are ready, those that
 * terminate count for nothing. */
bool selection_basis_equal(const struct selection_basis *a, const struct selection_basis *b);

/** How many are in the Local set. */
size_t selection_local_size(const struct selection_counts *counts);

/** The sets of an endpoint with these traits. */
uint8_t selection_sets(unsigned traits, const struct selection_basis *basis);

/** What decides about the @n endpoints. */
struct selection_basis selection_basis(const struct endpoint *endpoints, size_t n,
                                       const struct location *here);

/** What becomes of one of them in the Cluster set, and in the Local set. */
enum endpoint_verdict endpoint_cluster_verdict(const struct endpoint *endpoint,
                                               const struct location *here,
                                               const struct selection_basis *basis);
enum endpoint_verdict endpoint_local_verdict(const struct endpoint *endpoint,
                                             const struct location *here,
                                             const struct selection_basis *basis);

/**
 * Puts the sets of each of the @n endpoints into @sets[i].
 *
 * Cluster set: the ready ones, as far as the topology filter leaves them (node hints, then zone
 * hints, docs/behaviour.md 3.3); if there is none ready at all, those that still serve while they
 * terminate. Local set: the ready ones on this node; if there is none, the terminating ones on this
 * node. Never one that neither is ready nor serves.
 */
struct selection select_endpoints(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, uint8_t *sets);

/*
 * What becomes of the endpoints of one service port: which of them each of its frontends uses (spec
 * 3.4), which serve, which may meet themselves. One decision at a time, in memory that is reused.
 */

typedef VEC(struct backend) backend_vec;

/* What is known of the own node. */
struct surroundings {
    struct location location;
    bool has_ip[FAMILY_COUNT];
    struct address ip[FAMILY_COUNT];
};

/* Start zeroed. Endpoints borrow from the slice cache, sources from the Service. */
struct decision {
    const struct port_state *port; /* whose it is; NULL: none */
    struct selection selection;
    endpoint_vec endpoints;   /* all, merged */
    backend_vec cluster;      /* the Cluster set, if the port needs it (docs/behaviour.md 3.2) */
    backend_vec local;        /* the Local set, likewise */
    backend_vec hairpins;     /* on this node, in one of the two sets */
    backend_vec serving;      /* whatever is said of ready and terminating; UDP only */
    const range_vec *sources; /* of load-balancer IPs; NULL: everybody */
    range_vec wider_sources;
    VEC(uint8_t) sets;
};

/** Which sets the port's frontends need (docs/behaviour.md 3.2): bits of enum endpoint_set. */
uint8_t decision_sets_needed(const struct port_state *port);

/** Makes @decision that of @port, which is not gone. */
void decision_make(struct decision *decision, const struct endpoint_slice_cache *slices,
                   const struct surroundings *here, const struct port_state *port);

/* Where connections to a frontend come from, and whether they go to the Local set. */
struct claim_policy {
    bool external, local;
};
struct claim_policy decision_policy(const struct claim *claim);

/** What is done with connections to the frontend of @claim, one of the port's; borrowed. */
struct route decision_route(const struct decision *decision, const struct claim *claim);

/** What becomes of the decided port, for all of its frontends. Borrows from @decision. */
struct port_route decision_port_route(const struct decision *decision);

/** Whether @port has the traffic policy Local, for connections from inside, or from outside. */
bool decision_asks_for_local(const struct port_state *port, bool external);

/** Equal for equal lists, and hardly ever for others. */
uint64_t backends_fingerprint(const backend_vec *backends);

void decision_free(struct decision *decision);

/*
 * From Services and endpoints to frontends and backends.
 *
 * Owns who has which frontend: every cluster IP, external IP and load-balancer IP with the port of
 * a service port, and each node-port address with its node port. Two service ports may claim the
 * same frontend: it goes to the one whose cluster IP it is, then to the one whose node port it is;
 * of those that are left and have any endpoints (or if none has, of all) to the one of the older
 * Service, then of the one whose namespace/name sorts first. The others are said in the log and
 * counted; the next one takes over when the first goes. Works only on what changed: told of
 * changes, it notes the service ports concerned, and policy_settle() decides each of them once.
 */

struct policy;

/* Where decisions go. */
struct policy_ops {
    /* The backends of @port are those of @route (borrowed). Comes before the first frontend that
     * leads there. */
    void (*set_port)(void *ctx, const struct port_state *port, const struct port_route *route);
    /* They are others by @change (borrowed). False: that cannot be done; all of them follow. */
    bool (*change_port)(void *ctx, const struct port_state *port,
                        const struct port_route_change *change);
    /* There is no @port any more: just its id and family count. */
    void (*remove_port)(void *ctx, const struct port_state *port);
    /* New connections to @frontend are treated as @route (borrowed) says. */
    void (*set)(void *ctx, const struct frontend *frontend, const struct route *route);
    /* Nobody claims @frontend any more. */
    void (*remove)(void *ctx, const struct frontend *frontend);
    /* @address is the cluster IP of one Service more, or less (docs/behaviour.md 4.3). */
    void (*cluster_ip)(void *ctx, enum family family, const struct address *address, bool in_use);
    /* @backend is on this node and one service port of @protocol more, or less, may send it
     * connections: what it sends to itself is masqueraded (docs/behaviour.md 4.5). */
    void (*hairpin)(void *ctx, enum family family, uint8_t protocol, const struct backend *backend,
                    bool in_use);
    /* The serving endpoints behind a UDP frontend became others (docs/behaviour.md 5.1): flows to
     * any but the @n @serving ones (sorted, borrowed) are stale. @claimed is false when nobody has
     * the frontend any more; then @n is 0. */
    void (*flows)(void *ctx, const struct frontend *frontend, bool claimed,
                  const struct backend *serving, size_t n);
    /* The healthCheckNodePort of a service in a family (0: none) and its number of distinct
     * addresses of local ready endpoints (docs/behaviour.md 6.1). */
    void (*health_check)(void *ctx, const char *service_id, enum family family, uint16_t port,
                         size_t local_ready);
    /* Whether what was handed on last of @port and its frontends is not in force yet. */
    bool (*waits)(const void *ctx, const struct port_state *port);
    void *ctx;
};

/** A policy for the node @node_name over the two caches, which are empty yet and outlive it: it
 * follows them. */
struct policy *policy_new(struct service_cache *services, struct endpoint_slice_cache *slices,
                          const char *node_name, const struct policy_ops *ops);
void policy_free(struct policy *policy);

/** Where events about Services go, borrowed. NULL, as at first: nowhere. */
void policy_set_events(struct policy *policy, const struct event_sink *events);

/** The own zone, NULL for none; everything with endpoints is decided again if it is another. */
void policy_set_zone(struct policy *policy, const char *zone);

/** The node's own address of @family, NULL for none: a source range that contains it lets the
 * Service's own load-balancer addresses in as well (docs/behaviour.md 4.8). */
void policy_set_node_ip(struct policy *policy, enum family family, const struct address *address);

/** The addresses on which node ports answer: all frontends of node ports move there. Looks at
 * Services with node ports only. */
void policy_set_node_port_addresses(struct policy *policy, enum family family,
                                    const struct address *addresses, size_t n);

/** The addresses and ports of the API server by which the client speaks to it are these @n. No
 * Service gets them, or those of the endpoints of default/kubernetes, by an external or
 * load-balancer address (reserved.h). */
void policy_set_api_server(struct policy *policy, const struct frontend *peers, size_t n);

/** Decides every service port noted since the last time, through the operations. */
void policy_settle(struct policy *policy);

/**
 * The same, but just so much of it that frontends with some times @most backends are handed on,
 * each frontend counted as one more; then what was handed on is to be put into force, and this
 * called again. Services with few frontends, endpoints and source ranges do not wait for those with
 * many. Returns whether that was all.
 */
bool policy_settle_some(struct policy *policy, size_t most);

/** Whether something of a Service is not in force in @family: it is not decided, not handed on, or
 * waits there (struct policy_ops). What a Service does not have any more is not looked at. @policy
 * is a struct policy, so that this can be handed to others. */
bool policy_service_waits(const void *policy, const char *service_id, enum family family);

/** Hands on the health checks of @family noted since the last time, but of Services that wait. */
void policy_settle_health_checks(struct policy *policy, enum family family);

/** "services=a/b,c/d more=7 " for the line of a commit: what changed since all was applied; for the
 * caller to free. NULL: nothing, or it is not logged. */
char *policy_changed_services(struct policy *policy);

/** All that changed is applied in both families. */
void policy_note_applied(struct policy *policy);

/*
 * For who explains decisions (decision.h, claims.h): what was decided last, and from what. Borrowed
 * until the next change.
 */

/** NULL if nobody claims @frontend. */
const struct frontend_state *policy_find_frontend(const struct policy *policy,
                                                  const struct frontend *frontend);

/** NULL if there is no such Service. */
const struct service_state *policy_find_service(const struct policy *policy, const char *id);

/** All Services, as struct service_state. */
const struct hash_table *policy_services(const struct policy *policy);

/** Decides @port again, into @decision. */
void policy_decide(const struct policy *policy, const struct port_state *port,
                   struct decision *decision);

/** What is known of the own node; and the addresses on which its node ports answer. */
const struct surroundings *policy_surroundings(const struct policy *policy);
const address_vec *policy_node_port_addresses(const struct policy *policy, enum family family);

/** How many distinct addresses of local ready endpoints a Service has: what its health check
 * counts. */
size_t policy_local_ready(const struct policy *policy, const struct service *service,
                          enum family family);

/** Who has a frontend, as "namespace/name:port" (without the port's name if it has none); to be
 * freed. NULL if nobody has it. */
char *policy_owner(const struct policy *policy, const struct frontend *frontend);

/** How many frontends more than one service port claims. */
size_t policy_conflicts(const struct policy *policy);

/** How many frontends Services ask for and do not get since they are the API server's. */
size_t policy_reserved(const struct policy *policy);

/* Numbers of service ports. */
struct ports_without_local {
    size_t internal, external;
};

/** The service ports of @family whose internal, or external, traffic policy is Local and that have
 * endpoints that could serve, but none here (docs/behaviour.md 7). Those of external policy count
 * if they can be reached from outside at all. */
struct ports_without_local policy_ports_without_local(const struct policy *policy,
                                                      enum family family);

/** What the names of nodes in the endpoints decided so far say: some name a node, but none ever
 * named this one. */
bool policy_node_never_named(const struct policy *policy);

#endif
