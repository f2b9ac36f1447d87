/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides which endpoints serve, which addresses a service port has, and who wins an address that
 * two Services claim. Hears of changes from the caches and sets the desired state of the tables.
 * Uses neither the kernel nor a clock.
 */
#ifndef KUBE_NFTD_POLICY_H
#define KUBE_NFTD_POLICY_H

#include "kube-nftd/base.h"
#include "kube-nftd/cache.h"
#include "kube-nftd/model.h"
#include "kube-nftd/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- selection: which endpoints take new connections (docs/behaviour.md 3, KEP-1669) ---- */

/* This node. Names are interned: compare them with those of endpoints and hints by pointer. */
struct location {
    const char *node_name;
    const char *zone; /* NULL: none, or the Node is not known yet */
};

/* Categories of endpoints, which overlap. Hints count on ready endpoints only. */
enum endpoint_sort {
    SORT_ANY,
    SORT_READY,
    SORT_FALLBACK, /* not ready, but serving while terminating */
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

/* Whether node hints, or zone hints, decide the Cluster set (docs/behaviour.md 3.3). */
enum hint_state {
    HINTS_ABSENT,     /* no ready endpoint has hints */
    HINTS_INCOMPLETE, /* only some ready endpoints have hints */
    HINTS_ELSEWHERE,  /* all have hints, but none names this node or zone */
    HINTS_APPLY,
};

/* The facts about all endpoints of a service port that each verdict depends on. */
struct selection_basis {
    bool ready, fallback, local_ready; /* such endpoints exist */
    enum hint_state node_hints, zone_hints;
};

struct selection {
    struct selection_counts counts;
    struct selection_basis basis;
    unsigned seen;       /* traits of endpoints (src/policy/state.h) */
    bool has_any;        /* an endpoint on some node can serve; if none can, traffic is rejected */
    size_t cluster_size; /* endpoints with BACKENDS_CLUSTER */
    size_t local_size;   /* endpoints with BACKENDS_LOCAL */
};

/**
 * Puts the sets of each of the @n endpoints into @sets[i].
 *
 * Cluster set: the ready endpoints that pass the topology filter (node hints, then zone hints,
 * docs/behaviour.md 3.3); if no endpoint is ready, those serving while terminating. Local set: the
 * ready endpoints on this node; if none is, those on this node serving while terminating.
 */
struct selection select_endpoints(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, uint8_t *sets);

/* Whether an endpoint is in a set; if not, why. */
enum endpoint_verdict {
    VERDICT_USED,
    VERDICT_NOT_READY,       /* neither ready, nor terminating and serving */
    VERDICT_TERMINATING,     /* could serve, but ready endpoints exist */
    VERDICT_OTHER_NODE,      /* not on this node */
    VERDICT_NODE_HINT,       /* only other endpoints have hints for this node */
    VERDICT_ZONE_HINT,       /* only other endpoints have hints for this zone */
    VERDICT_SERVICE_ADDRESS, /* a cluster IP, or inside a ServiceCIDR */
};

/** Whether an endpoint with these flags (of enum endpoint_flag) keeps its flows: it is ready and
 * takes new connections somewhere, or serves old ones at least (docs/behaviour.md 5.1). */
bool endpoint_is_in_use(uint8_t flags);

/** The verdicts on one endpoint for the Cluster set and the Local set. */
void endpoint_verdicts(const struct endpoint *endpoint, const struct location *here,
                       const struct selection_basis *basis, enum endpoint_verdict *cluster,
                       enum endpoint_verdict *local);

/* ---- service ports and their claims ---- */

struct policy;

/*
 * One port of a Service in one family in which the Service has a cluster IP. It exists as long as
 * its Service has a port of that name and protocol. Kept small: every service port of the cluster
 * has one.
 */
struct port_state {
    struct service_state *owner;
    struct port_state *next;      /* of the same Service, by family, protocol, name and index */
    struct claim *claims;         /* chained by next_of_port */
    struct port_details *details; /* of src/policy/state.h; may be NULL */
    uint32_t index : 24;          /* in the Service's ports */
    uint32_t protocol : 8;
    uint32_t id;                    /* of its routes: unique, never 0 */
    uint32_t cursor;                /* how far an unfinished stage of its work has come */
    uint32_t held;                  /* endpoints passed to the table */
    struct selection_counts counts; /* of the last decision, and the deltas since */
    uint8_t work : 3;               /* 1 << stage (src/policy/state.h) for each that it waits for */
    uint8_t listed : 3;             /* the same: where it is in a queue, maybe without need */
    uint8_t family : 1;
    bool removed : 1;        /* its Service has it no more: only its claims and routes are left */
    bool whole : 1;          /* decide all endpoints, not only the deltas */
    bool passed : 1;         /* its backends were passed to the table */
    bool localhost : 1;      /* and to what serves loopback addresses */
    bool has_any : 1;        /* selection.has_any of the last decision */
    bool lacks_internal : 1; /* as counted in policy_view.without_local */
    bool lacks_external : 1;
};

struct service_state {
    struct hash_link link;         /* by service->id */
    const struct service *service; /* borrowed from the service cache */
    struct port_state *ports;      /* those that are not removed */
    uint32_t n_removed;            /* ports */
    bool departed;                 /* removed: it stays until its ports are gone */
    bool check_dirty[FAMILY_COUNT];
    /* What its changes and the sync after them cost, and the number of that sync. */
    uint64_t sync;
    size_t spent;
    uint64_t behind; /* the others, until this sync */
};

typedef VEC(struct port_state *) port_state_vec;

/** The Service's port that @port belongs to. */
const struct service_port *port_state_spec(const struct port_state *port);

/** What the endpoints of @port, which must not be removed, are merged by. */
struct service_port_ref port_state_ref(const struct port_state *port);

/** Whether @port, which must not be removed, has a NodePort that is served on the loopback address.
 */
bool policy_serves_localhost(const struct policy *policy, const struct port_state *port);

/** "namespace/name:port", or "namespace/name" if the port has no name. The caller frees it. @port
 * must not be removed. */
char *port_state_name(const struct port_state *port);

/** Whether the traffic policy for connections to the cluster IP, or for @external ones, is Local.
 * False for @external if the port cannot be reached from outside. */
bool only_local_endpoints(const struct port_state *port, bool external);

/** Which sets the port's frontends need (docs/behaviour.md 3.2): bits of enum backend_set. */
uint8_t port_sets_needed(const struct port_state *port);

/* The role of a frontend's address for the service port; a bit each, since it can have several. */
enum claim_kind {
    CLAIM_CLUSTER_IP = 1 << 0,
    CLAIM_EXTERNAL_IP = 1 << 1,
    CLAIM_LOAD_BALANCER_IP = 1 << 2,
    CLAIM_NODE_PORT = 1 << 3,
    CLAIM_KINDS = 15,
};

/* A service port's claim to a frontend. */
struct claim {
    struct port_state *port;
    struct frontend_state *target;
    struct claim *next_of_port;
    uint32_t index : 24;  /* of the port; as of the last renewal, like the kinds */
    uint32_t kinds : 4;   /* of enum claim_kind; 0: it does not count yet, or no more */
    uint32_t renewed : 4; /* the next kinds, while the port's claims are renewed */
    bool logged;          /* logged as losing to the current winner */
};

/* A frontend that is claimed. */
struct frontend_state {
    struct hash_link link; /* by frontend */
    struct frontend frontend;
    uint32_t n_claims : 24;
    /* What was passed on: */
    uint32_t class : 4; /* that of the route (enum frontend_class) */
    bool served : 1;    /* somebody listens there, so the table has no route */
    bool reserved : 1;  /* last decision: reserved for the API server, no winner */
    bool passed : 1;    /* the table has a route */
    bool current : 1;   /* which is that of the winner */
    union {
        struct claim *claim;   /* if it is the only one */
        struct claim **claims; /* the best first; room for the next power of two */
    };
    const struct claim *winner; /* of the last decision; NULL: none, or dropped since */
    struct claim *mine;         /* found or added by the latest renewal; may be NULL */
};

/** The n_claims claims of a frontend, the best first. Those of removed ports may be among them. */
struct claim *const *frontend_claims(const struct frontend_state *target);

/** The winner of the last decision, unless its port was removed since. NULL: none. */
const struct claim *frontend_winner(const struct frontend_state *target);

/** Whether a service port that claims the frontend, or did, is undecided. */
bool frontend_waits(const struct frontend_state *target);

/** Why @winner goes before @loser, as a predicate: "is older". */
const char *claims_reason(const struct claim *winner, const struct claim *loser);

/* ---- decisions: the endpoints used for one service port ---- */

/* What policy knows of this node. */
struct surroundings {
    struct location location;
    bool has_ip[FAMILY_COUNT];
    struct address ip[FAMILY_COUNT];
};

/* Starts zeroed and can be reused. Endpoints borrow from the slice cache, sources from the Service.
 */
struct decision {
    const struct port_state *port; /* NULL: none */
    struct selection selection;
    endpoint_vec endpoints; /* all, merged; flagged if they are service addresses */
    size_t n_service_addresses;
    struct backend service_address; /* one of them */
    size_t walked;                  /* what that cost: slices and endpoints, copies included */
    backend_vec cluster;      /* the Cluster set, if the port needs it (docs/behaviour.md 3.2) */
    backend_vec local;        /* the Local set, likewise */
    backend_vec hairpins;     /* backends of either set on this node */
    backend_vec in_use;       /* that keep their flows: of UDP, endpoint_is_in_use(); of TCP, with a
                               * flowtable, all; else none */
    const range_vec *sources; /* allowed to reach load-balancer IPs; NULL: all, or there are none */
    range_vec wider_sources;
    VEC(uint8_t) sets;
};

void decision_free(struct decision *decision);

/** The route of the frontend of @claim. */
struct route claim_route(const struct claim *claim);

/** The route shared by all frontends of the decided port, with no more endpoints than it may have.
 * Borrows from @decision. */
struct port_route decision_port_route(const struct decision *decision);

/* ---- policy ---- */

/*
 * Assigns frontends to service ports: each cluster IP, external IP and load-balancer IP with the
 * service port's number, and each node-port address with its node port. A change marks the affected
 * service ports dirty; policy_sync() decides each of them once.
 */
struct policy;
struct flow_cleaner;
struct health;
struct localhost;
struct table;

/* The health check of a Service in a family (docs/behaviour.md 6.1). */
struct health_check {
    const char *service_id; /* "namespace/name" */
    uint16_t port;          /* the healthCheckNodePort; 0: none, or no more */
    size_t local_ready;     /* distinct addresses among its local ready endpoints */
};

/* Called with the @n checks that changed in one sync. */
typedef void (*health_checks_fn)(struct health *health, enum family family,
                                 const struct health_check *checks, size_t n);

/* Everything is borrowed and must outlive the policy. */
struct policy_config {
    const char *node_name;
    struct caches *caches;              /* empty */
    struct table *tables[FAMILY_COUNT]; /* NULL: the family is not in use */
    struct flow_cleaner *flows;         /* notified of stale UDP flows; may be NULL */
    bool flowtables[FAMILY_COUNT];      /* and of TCP flows, which a flowtable forwards */
    /* NodePorts on loopback addresses: TCP ones are served in these families, by @localhost (NULL:
     * that is decided only); the tables count connections to others. */
    bool counts_localhost, serves_localhost[FAMILY_COUNT];
    struct localhost *localhost;
    struct health *health; /* notified of health checks; may be NULL */
    health_checks_fn set_health_checks;
    const struct event_sink *events; /* for events about Services; may be NULL */
    size_t most_endpoints;           /* of all service ports together; 0: the built-in number */
};

struct policy *policy_new(const struct policy_config *config);
void policy_free(struct policy *policy);

/** Changes of objects, as struct caches_ops reports them. */
void policy_change_service(struct policy *policy, const struct service *before,
                           const struct service *after);
void policy_change_slice(struct policy *policy, const struct slice_change *change);

/** Sets this node's zone (NULL: none). A change marks every port with endpoints dirty. */
void policy_set_zone(struct policy *policy, const char *zone);

/** Sets this node's address of @family (NULL: none). A source range that contains it also admits
 * the Service's own load-balancer addresses (docs/behaviour.md 4.8). */
void policy_set_node_ip(struct policy *policy, enum family family, const struct address *address);

/** Sets the addresses that serve node ports. All node-port frontends move there. */
void policy_set_node_port_addresses(struct policy *policy, enum family family,
                                    const struct address *addresses, size_t n);

/** Sets the ranges of all ServiceCIDRs of @family: disjoint, ascending, copied. Endpoints inside
 * are not used (docs/behaviour.md 4.3). */
void policy_set_service_cidrs(struct policy *policy, enum family family, const range_vec *ranges);

/** Sets the @n addresses and ports at which the client reaches the API server. No external or
 * load-balancer address takes them, nor the first 64 endpoints of the slice default/kubernetes. */
void policy_set_api_server(struct policy *policy, const struct frontend *peers, size_t n);

/** Decides every dirty service port and passes the result to the tables. */
void policy_sync(struct policy *policy);

/**
 * As policy_sync(), but limited: each stage of the work passes on about @most backends, where a
 * frontend counts as one more; once for Services that cost little, and once for others, for which
 * the former do not wait. The caller commits and calls again. Returns true once nothing is left.
 */
bool policy_sync_some(struct policy *policy, size_t most);

/** Whether something of a Service, which may be removed, is not applied yet in @family: undecided,
 * or pending in the table, except for frontends that it lost there: as long as the table applied
 * all that was passed on, it says whether all is applied. Other Services do not matter. @policy is
 * a struct policy; void, to serve as a callback. */
bool policy_service_waits(const void *policy, const char *service_id, enum family family);

/** Reports the dirty health checks of @family, except those of Services that wait. */
void policy_sync_health_checks(struct policy *policy, enum family family);

/** "services=a/b,c/d more=7 " for the log line of a commit: the Services changed since everything
 * was applied. The caller frees it. NULL: none, or the log level hides it. */
char *policy_changed_services(struct policy *policy);

/** Marks all changes as applied in both families. */
void policy_mark_applied(struct policy *policy);

/* The last decisions and their inputs. Borrowed until the next change. */

/** NULL if no service port claims @frontend. */
const struct frontend_state *policy_find_frontend(const struct policy *policy,
                                                  const struct frontend *frontend);

/** NULL if unknown. */
const struct service_state *policy_find_service(const struct policy *policy, const char *id);

/** All Services, as struct service_state. */
const struct hash_table *policy_services(const struct policy *policy);

/** Decides @port again, into @decision. */
void policy_decide(const struct policy *policy, const struct port_state *port,
                   struct decision *decision);

/** The number of distinct addresses among a Service's local ready endpoints, as its health check
 * reports it. */
size_t policy_local_ready(const struct policy *policy, const struct service *service,
                          enum family family);

/** The port_state_name() of a frontend's winner; the caller frees it. NULL if it has none. */
char *policy_owner(const struct policy *policy, const struct frontend *frontend);

/** Reports an event on the Service of a frontend's winner: a limit of the table leaves it out, or a
 * part of it. */
void policy_report_limit(const struct policy *policy, const struct frontend *frontend,
                         const char *reason, const char *note);

/* Pointers are borrowed. */
struct policy_view {
    const struct surroundings *here;
    const address_vec *node_port_addresses; /* of each family; they serve this node's node ports */
    size_t conflicts;                       /* frontends that several service ports claim */
    size_t reserved; /* claimed frontends without route, as they are the API server's */
    size_t limited;  /* service ports with fewer endpoints, since their namespace has too many */
    size_t service_addresses; /* endpoints of all service ports that are service addresses */
    /* Service ports with internal, or external, traffic policy Local whose usable endpoints are all
     * on other nodes (docs/behaviour.md 7). The external policy counts only if the port can be
     * reached from outside. */
    struct ports_without_local without_local[FAMILY_COUNT];
    /* Endpoints decided so far name nodes, but none ever named this one. */
    bool node_never_named;
};
struct policy_view policy_view(const struct policy *policy);

#endif
