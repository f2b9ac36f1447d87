/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides: which endpoints serve, which addresses a service port has, who gets an address that two
 * claim. It follows the caches and says to the tables what they shall hold. No kernel, no clock of
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

/* ---- selection: which endpoints take new connections (docs/behaviour.md 3, KEP-1669) ---- */

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

/* How many endpoints of a service port are of a sort; hints count with the ready ones only. */
enum endpoint_sort {
    SORT_ANY,
    SORT_READY,
    SORT_FALLBACK, /* not ready, but still serving while they terminate */
    SORT_LOCAL_READY,
    SORT_LOCAL_FALLBACK,
    SORT_NODE_HINTS,
    SORT_FOR_NODE,
    SORT_ZONE_HINTS,
    SORT_FOR_ZONE,
    SORTS
};
struct selection_counts {
    uint32_t n[SORTS];
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

/* ---- service ports and what they claim ---- */

/*
 * One entry of a Service's ports in one family in which the Service has a cluster IP. It lives as
 * long as its Service has a port of its name and protocol. Kept small: there is one for every
 * service port of the cluster.
 */
struct port_state {
    struct service_state *owner;  /* NULL: the service port is gone */
    struct port_state *next;      /* of the same Service, by family, protocol, name and index */
    struct claim *claims;         /* chained by next_of_port */
    struct port_details *details; /* of src/policy/ports.h; NULL if there are none */
    uint32_t index : 24;          /* in the Service's ports */
    uint32_t protocol : 8;
    uint32_t id;        /* of routes: never 0, nobody else's */
    uint32_t renewed;   /* how many frontends it has claimed anew, while it renews its claims */
    uint8_t few[SORTS]; /* endpoints, as struct selection_counts, if details has no counts */
    uint8_t family : 1;
    bool renew : 1;          /* what it claims may change; not of one that is gone */
    bool noted : 1;          /* to be synced, */
    bool whole : 1;          /* as a whole, not by the deltas of its endpoints */
    bool told : 1;           /* its backends were handed on */
    bool has_any : 1;        /* some endpoints that could serve, as of the last decision */
    bool lacks_internal : 1; /* as counted: see policy_ports_without_local() */
    bool lacks_external : 1;
};

struct service_state {
    struct hash_link link;         /* by service->id */
    const struct service *service; /* borrowed from the service cache */
    struct port_state *ports;
};

typedef VEC(struct port_state *) port_state_vec;

/** The entry of the Service's ports that @port stands for. */
const struct service_port *port_state_spec(const struct port_state *port);

/** "namespace/name:port", without the port's name if it has none; to be freed. Not for a port that
 * is gone. */
char *port_state_name(const struct port_state *port);

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
    uint8_t kinds;   /* of enum claim_kind; none: it is new, and does not count yet */
    uint8_t renewed; /* likewise, while they are renewed: what they are going to be */
    bool logged;     /* that the present winner has the frontend, not this one */
};

/* A frontend that somebody claims, or has claimed since the last sync. */
struct frontend_state {
    struct hash_link link; /* by frontend */
    struct frontend frontend;
    uint32_t n_claims : 27;
    uint32_t queued : 2;  /* in which queues it is, a bit each; it may be there and not noted */
    bool noted : 1;       /* to be decided for itself, not along with its only port */
    bool reserved : 1;    /* for the API server, as was decided last: it has no winner */
    bool told : 1;        /* handed on */
    struct claim *claims; /* chained by next_of_target */
    const struct port_state *winner; /* that was decided last; NULL: none yet, or it is gone */
    uint64_t serving;                /* fingerprint of the endpoints handed on for flows */
};

/** What is said of the one of two claims that goes before the other: "is older". */
const char *claims_reason(const struct claim *winner, const struct claim *loser);

/* ---- decisions: what becomes of the endpoints of one service port ---- */

/* What is known of the own node. */
struct surroundings {
    struct location location;
    bool has_ip[FAMILY_COUNT];
    struct address ip[FAMILY_COUNT];
};

/* Starts zeroed; one after the other is made in the same memory. Endpoints borrow from the slice
 * cache, sources from the Service. */
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

void decision_free(struct decision *decision);

/** Whether connections to @port go to endpoints on this node only, those to its cluster IP or
 * @external ones: the traffic policy, which counts for external ones where there can be any. */
bool only_local_endpoints(const struct port_state *port, bool external);

/** Which sets the port's frontends need (docs/behaviour.md 3.2): bits of enum endpoint_set. */
uint8_t decision_sets_needed(const struct port_state *port);

/* Where connections to a frontend come from, and whether they go to the Local set. */
struct claim_policy {
    bool external, local;
};
struct claim_policy decision_policy(const struct claim *claim);

/** What is done with connections to the frontend of @claim, one of the port's; borrowed. */
struct route decision_route(const struct decision *decision, const struct claim *claim);

/** What becomes of the decided port, for all of its frontends. Borrows from @decision. */
struct port_route decision_port_route(const struct decision *decision);

/* ---- policy ---- */

/*
 * Owns who has which frontend: every cluster IP, external IP and load-balancer IP with the port of
 * a service port, and each node-port address with its node port. Works only on what changed: it
 * notes the service ports that a change concerns, and policy_sync() decides each of them once.
 */
struct policy;
struct flow_cleaner;
struct health;
struct table;

/* Told of the healthCheckNodePort of a Service in a family (0: none) and its number of distinct
 * addresses of local ready endpoints (docs/behaviour.md 6.1). */
typedef void (*health_check_fn)(struct health *health, const char *service_id, enum family family,
                                uint16_t port, size_t local_ready);

/* All is borrowed, and outlives the policy. */
struct policy_config {
    const char *node_name;
    struct service_cache *services; /* empty yet, as are the slices: both are followed */
    struct endpoint_slice_cache *slices;
    struct table *tables[FAMILY_COUNT]; /* NULL: the family is not in use */
    struct flow_cleaner *flows;         /* told of stale UDP flows; may be NULL */
    struct health *health;              /* told of health checks; may be NULL */
    health_check_fn health_check;
    const struct event_sink *events; /* for events about Services; may be NULL */
};

struct policy *policy_new(const struct policy_config *config);
void policy_free(struct policy *policy);

/** The own zone, NULL for none; everything with endpoints is decided again if it is another. */
void policy_set_zone(struct policy *policy, const char *zone);

/** The node's own address of @family, NULL for none: a source range that contains it lets the
 * Service's own load-balancer addresses in as well (docs/behaviour.md 4.8). */
void policy_set_node_ip(struct policy *policy, enum family family, const struct address *address);

/** The addresses on which node ports answer: all frontends of node ports move there. */
void policy_set_node_port_addresses(struct policy *policy, enum family family,
                                    const struct address *addresses, size_t n);

/** The addresses and ports of the API server by which the client speaks to it are these @n. No
 * Service gets them, or those of the endpoints of default/kubernetes, by an external or
 * load-balancer address. */
void policy_set_api_server(struct policy *policy, const struct frontend *peers, size_t n);

/** Decides every service port noted since the last time, and hands it on. */
void policy_sync(struct policy *policy);

/**
 * The same, but just so much of it that frontends with some times @most backends are handed on,
 * each frontend counted as one more; then what was handed on is to be committed, and this called
 * again. Services with few frontends, endpoints and source ranges do not wait for those with many.
 * Returns whether that was all.
 */
bool policy_sync_some(struct policy *policy, size_t most);

/** Whether something of a Service is not applied in @family: it is not decided, not handed on, or
 * waits there. What a Service does not have any more is not looked at. @policy is a struct policy,
 * so that this can be handed to others. */
bool policy_service_waits(const void *policy, const char *service_id, enum family family);

/** Tells of the health checks of @family noted since the last time, but of Services that wait. */
void policy_sync_health_checks(struct policy *policy, enum family family);

/** "services=a/b,c/d more=7 " for the line of a commit: what changed since all was applied; for the
 * caller to free. NULL: nothing, or it is not logged. */
char *policy_changed_services(struct policy *policy);

/** All that changed is applied in both families. */
void policy_note_applied(struct policy *policy);

/* What was decided last, and from what. Borrowed until the next change. */

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

/** Who has a frontend, as port_state_name(); to be freed. NULL if nobody has it. */
char *policy_owner(const struct policy *policy, const struct frontend *frontend);

/** How many frontends more than one service port claims. */
size_t policy_conflicts(const struct policy *policy);

/** How many frontends Services ask for and do not get since they are the API server's. */
size_t policy_reserved(const struct policy *policy);

/** The service ports of @family whose internal, or external, traffic policy is Local and that have
 * endpoints that could serve, but none here (docs/behaviour.md 7). Those of external policy count
 * if they can be reached from outside at all. */
struct ports_without_local policy_ports_without_local(const struct policy *policy,
                                                      enum family family);

/** What the names of nodes in the endpoints decided so far say: some name a node, but none ever
 * named this one. */
bool policy_node_never_named(const struct policy *policy);

#endif
