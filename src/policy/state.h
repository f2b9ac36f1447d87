/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of policy, and what its files ask of each other. */
#ifndef KUBE_NFTD_POLICY_STATE_H
#define KUBE_NFTD_POLICY_STATE_H

#include "kube-nftd/policy.h"

#include <linux/in.h>
#include <string.h>

/* What is done has its cost, and a sync a budget. A unit is about a quarter of a microsecond. */
enum cost {
    COST_WALKED = 1,   /* an endpoint or claim that is looked at; two source ranges passed on */
    COST_CLAIMED = 2,  /* a frontend claimed, or not any more */
    COST_BACKEND = 16, /* passed on and programmed; as a frontend or service port */
};

/* The work on a dirty service port, in this order. All ports are decided before frontends are: who
 * gets a contested one depends on which ports have endpoints. */
enum stage {
    STAGE_CLAIM,     /* renew its claims to frontends */
    STAGE_ENDPOINTS, /* decide its endpoints */
    STAGE_FRONTENDS, /* decide the frontends that it claims, or did */
    STAGES
};
#define WORK_ALL ((1U << STAGES) - 1)

/* Ports that cost little, and those that wait behind them: see queue.c. */
enum level { LEVEL_FIRST, LEVEL_LATER, LEVELS };

/* The API server's Service, and the slice of it that API servers write. */
#define API_SERVER "default/kubernetes"

/* Sources of the API server's frontends: the client's peers, and the endpoints of its Service. */
enum reserved_list { RESERVED_PEERS, RESERVED_ENDPOINTS, RESERVED_LISTS };

typedef VEC(struct frontend) frontend_vec;

/* State that only few service ports have at a time; allocated on demand. */
struct port_details {
    backend_change_vec changes;   /* since the last sync; of one backend, in their order */
    backend_vec hairpins;         /* passed to the table, in any order */
    uint32_t most;                /* it is limited to so many endpoints; 0: it is not */
    uint32_t place;               /* among the limited ports */
    uint32_t n_service_addresses; /* endpoints that are, and so are not used */
};

/* How namespaces share what service ports may hold. Starts zeroed. */
struct shares {
    struct hash_table by_namespace;
    size_t held;            /* endpoints of all service ports */
    port_state_vec limited; /* ports with fewer endpoints than they should have */
    size_t next, n_wake; /* where to look next for some that could have more; how many are left */
};

/* Where service addresses and endpoints of a family are: src/policy/service_addresses.c. */
enum area {
    AREA_SERVICES = 1 << 0,  /* there was a cluster IP or ServiceCIDR */
    AREA_ENDPOINTS = 1 << 1, /* an endpoint was decided */
};
#define AREAS (1U << 16)

struct service_addresses {
    range_vec cidrs; /* disjoint, ascending */
    /* Decided endpoints may have become some, or are none any more: */
    bool recheck;
    bool again;                   /* once more, as there was another change meanwhile */
    size_t cursor;                /* where the walk over all Services is; 0: at its begin */
    struct address_range changed; /* all that changed is in between */
    uint8_t areas[AREAS];         /* bit sets of enum area, which never lose a bit */
};

struct policy {
    struct policy_config config;
    struct surroundings here; /* its names are interned */
    address_vec node_port_addresses[FAMILY_COUNT];

    struct hash_table services;  /* of struct service_state */
    struct hash_table departed;  /* likewise, of Services whose removal is not passed on yet */
    struct hash_table frontends; /* of struct frontend_state */
    port_state_vec queues[LEVELS][STAGES];
    uint32_t last_id;                  /* of a port */
    const struct port_state *renewing; /* whose claims are marked as "mine"; NULL: nobody's */

    frontend_vec reserved[RESERVED_LISTS]; /* for the API server */
    bool api_server_changed;               /* slices of its Service changed */
    size_t conflicts;                      /* frontends with more than one claim */
    size_t withheld;                       /* claimed frontends without winner since reserved */
    struct shares shares;                  /* of endpoints */
    struct service_addresses *service_addresses; /* of each family */
    size_t n_service_addresses; /* endpoints of all service ports that are service addresses */

    VEC(char *) dirty_checks[FAMILY_COUNT]; /* ids of Services */

    VEC(char *) changed; /* ids of Services, possibly repeated; for the log */
    bool some_node_named, own_node_named;
    struct ports_without_local without_local[FAMILY_COUNT];

    uint64_t syncs;
    size_t turn,
        spent; /* what a port may cost before others have their turn; and has (enum cost) */
    /* The current sync, or the last one: */
    size_t unlogged;          /* conflicts that are not logged, as there are so many */
    size_t logged;            /* conflicts */
    struct decision decision; /* the last one */
    VEC(const struct service_port *) order; /* scratch */
};

/* Whether flows of a protocol can be stale: those of UDP, and TCP connections that a flowtable
 * forwards (kube-nftd/conntrack.h). */
static inline bool policy_cleans_flows(const struct policy *policy, enum family family,
                                       uint8_t protocol)
{
    return protocol == IPPROTO_UDP ||
           (protocol == IPPROTO_TCP && policy->config.flowtables[family]);
}

/* ---- queue.c: what waits, and what it may cost ---- */

/** Adds @n times @cost to what the turn has cost. */
void policy_spend(struct policy *policy, size_t n, enum cost cost);

/** Whether an unfinished stage should go on in a later turn. */
bool policy_turn_is_over(const struct policy *policy);

/** What the Service has cost since the last sync; for adding to it. */
size_t *service_spent(const struct policy *policy, struct service_state *state);

/** Marks @port dirty: it waits for @work, 1 << stage for each. */
void port_mark(struct policy *policy, struct port_state *port, unsigned work);

/** Marks @port dirty: all of its endpoints are decided anew. */
void port_mark_whole(struct policy *policy, struct port_state *port);

/** Gives each port that waits for @stage a turn, until @budget (as of enum cost) is used up. @work
 * works on one, and returns whether the stage is complete; @complete is called once all are, and
 * the port is in no queue. */
struct stage_work {
    bool (*work)(struct policy *policy, struct port_state *port);
    void (*complete)(struct policy *policy, struct port_state *port);
};
void queue_run(struct policy *policy, enum level level, enum stage stage, size_t budget,
               const struct stage_work *work);

/** Whether ports wait for @stage. */
bool queue_has(const struct policy *policy, enum stage stage);

bool queue_is_empty(const struct policy *policy);

void queue_clear(struct policy *policy);

/* ---- selection.c: traits and counts, to track single endpoints ---- */

/* What selection depends on, as bits: 1 << SORT_* for each sort of an endpoint, and these. 0: no
 * endpoint. */
enum endpoint_trait {
    TRAIT_IN_USE = 1 << SORTS,
    TRAIT_NAMES_NODE = 2 << SORTS,
    TRAIT_LOCAL = 4 << SORTS,
};

/** The traits of an endpoint with these attributes (flags of enum endpoint_flag). */
unsigned endpoint_traits(uint8_t flags, const char *node_name, const struct endpoint_hints *hints,
                         const struct location *here);

/** Adds an endpoint with these traits to @counts, or removes it (@sign 1 or -1). */
void selection_count(struct selection_counts *counts, unsigned traits, int sign);

struct selection_basis selection_basis_of(const struct selection_counts *counts);

/** Whether both give the same verdicts on all endpoints. */
bool selection_basis_equal(const struct selection_basis *a, const struct selection_basis *b);

/** The sets of an endpoint with these traits. */
uint8_t selection_sets(unsigned traits, const struct selection_basis *basis);

/** Remembers whether endpoints name their nodes, and this one. @seen: the traits of some. */
static inline void node_names_see(struct policy *policy, unsigned seen)
{
    policy->some_node_named = policy->some_node_named || seen & TRAIT_NAMES_NODE;
    policy->own_node_named = policy->own_node_named || seen & TRAIT_LOCAL;
}

/* ---- ports.c: the service ports of all Services ---- */

/** Frees all ports and their claims, whose frontends are gone. */
void ports_clear(struct policy *policy);

/** Applies a change of a Service, and marks all of its ports dirty, removed ones too. The sync of a
 * removed port drops its claims and removes its routes, then calls port_forget(). */
void ports_change(struct policy *policy, const struct service *before, const struct service *after);

/** Frees a removed port, which has no claims any more and is in no queue, and with the last one its
 * Service, if that is removed. */
void port_forget(struct policy *policy, struct port_state *port);

/** The details of @port, allocated if NULL. */
struct port_details *port_make_details(struct port_state *port);

/** Discards the changes since the last sync. */
void port_forget_deltas(struct port_state *port);

/* ---- endpoints.c: changes between two syncs ---- */

/**
 * Applies the change of a slice to @port: adds what changes in its sets to its details, or marks it
 * to be decided as a whole. That is necessary if the verdicts on other endpoints change, or the
 * ones that keep their flows, if a changed endpoint is or was a service address or has
 * copies in several slices, or if the Service's changes have cost too much since the last sync.
 * Returns whether the local ready endpoints of a port that is not decided as a whole may differ.
 */
bool endpoints_change(struct policy *policy, struct port_state *port,
                      const struct slice_change *change);

/* ---- service_addresses.c: endpoints that are not used, as others lead to their addresses ---- */

/** The area of @address: the first 16 bits of an IPv4 address; a hash of the first 64 bits of an
 * IPv6 address. */
static inline uint32_t service_area(enum family family, const struct address *address)
{
    uint64_t network;
    if (family == FAMILY_IPV4)
        return (uint32_t)address->bytes[0] << 8 | address->bytes[1];
    memcpy(&network, address->bytes, sizeof(network));
    return (uint32_t)(network * UINT64_C(0x9e3779b97f4a7c15) >> 48);
}

/** Whether service addresses have been near an endpoint at @address, which is there from now on. */
static inline bool service_addresses_near(const struct policy *policy, enum family family,
                                          const struct address *address)
{
    uint8_t *area = &policy->service_addresses[family].areas[service_area(family, address)];
    *area |= AREA_ENDPOINTS;
    return *area & AREA_SERVICES;
}

/* The same as below, of an endpoint that service addresses are near. */
bool service_addresses_find(const struct policy *policy, enum family family,
                            const struct address *address);
bool service_addresses_find_any(const struct policy *policy, enum family family,
                                const struct address *address);

/** Whether the endpoint @address is a cluster IP or inside a ServiceCIDR. */
static inline bool service_addresses_contain(const struct policy *policy, enum family family,
                                             const struct address *address)
{
    return service_addresses_near(policy, family, address) &&
           service_addresses_find(policy, family, address);
}

/** Whether the endpoint @address is one, or that may have changed since the last sync: it is
 * decided with its service port as a whole. */
static inline bool service_addresses_concern(const struct policy *policy, enum family family,
                                             const struct address *address)
{
    return service_addresses_near(policy, family, address) &&
           service_addresses_find_any(policy, family, address);
}

/** A Service has got the cluster IP @address, or has it no more. */
void service_addresses_change(const struct policy *policy, enum family family,
                              const struct address *address);

/** Continues to mark the service ports dirty whose endpoints have become service addresses, or are
 * none any more. Returns whether something is left. */
bool service_addresses_sync(struct policy *policy);

/** Keeps that @n endpoints of @port are service addresses. Logs and reports @example, one of them;
 * unused if @n is 0. */
void service_addresses_count(struct policy *policy, struct port_state *port, size_t n,
                             const struct backend *example);

void service_addresses_clear(struct policy *policy);

/* ---- shares.c: how many endpoints a service port may have ---- */

/** @port is about to get @n endpoints anew: sets details->most if it gets fewer. */
void shares_set(struct policy *policy, struct port_state *port, size_t n);

/** The same for a change. False: set it anew, since it does not get all, or did not before. */
bool shares_change(struct policy *policy, struct port_state *port, size_t came, size_t went);

/** @port, of the Service @service_id, is removed: gives back what it has. */
void shares_release(struct policy *policy, const char *service_id, struct port_state *port);

/** Marks some limited ports dirty if they can get more endpoints. Returns whether there may be
 * others. */
bool shares_wake(struct policy *policy);

void shares_clear(struct policy *policy);

/* ---- claims.c: what service ports claim ---- */

/** Frees all frontends: for shutdown only. */
void claims_clear(struct policy *policy);

/** The frontend; NULL: nobody claims it. */
struct frontend_state *claims_find(const struct policy *policy, const struct frontend *frontend);

/**
 * Goes on to renew the claims of @port. Old claims stay until that is complete; from then on, those
 * that it has no more do not count: their kinds are 0. Returns whether it is complete.
 */
bool claims_renew(struct policy *policy, struct port_state *port);

/** Changes whether @port has usable endpoints, on which the order of claims depends. Returns
 * whether frontends may go to another port by that. */
bool claims_reorder(struct policy *policy, struct port_state *port, bool has_any);

/** Frees @claim, which its port's list has no more. */
void claims_drop(struct policy *policy, struct claim *claim);

/** Frees a frontend that nobody claims any more. */
void claims_forget_unclaimed(struct policy *policy, struct frontend_state *target);

/* ---- winners.c: which claim wins ---- */

/**
 * Returns the winning claim. NULL if none exists, or if the frontend is reserved and claimed only
 * as external or load-balancer address. Every node with the same objects decides the same: a
 * cluster IP goes before a node port, and that before external and load-balancer addresses; then
 * ports with usable endpoints, the oldest Service, the first by name, the first port of a Service.
 * Logs and reports the best losers once per winner, and takeovers.
 */
const struct claim *claims_decide(struct policy *policy, struct frontend_state *target);

/** Replaces one list of frontends reserved for the API server. Takes @frontends. */
void claims_reserve(struct policy *policy, enum reserved_list which, frontend_vec frontends);

/** Logs how many conflicts were not logged since the last call. */
void claims_log_rest(struct policy *policy);

/* ---- routes.c: passes decisions to the tables, loopback listeners and the flow cleaner ---- */

/** Replaces the NodePorts of @before, as they are refused on loopback addresses, by those of
 * @after; either may be NULL. */
void routes_change_localhost_ports(const struct policy *policy, const struct service *before,
                                   const struct service *after);

/** Replaces the cluster IPs of @before by those of @after; either may be NULL. */
void routes_change_cluster_ips(const struct policy *policy, const struct service *before,
                               const struct service *after);

/** Routes the frontend of @claim to the claim's port, unless it is. */
void routes_set_frontend(struct policy *policy, const struct claim *claim);

/** Removes the route of a frontend without winner, if there is one. */
void routes_remove_frontend(struct policy *policy, struct frontend_state *target);

/** Sets all backends of @port as decided by policy->decision. */
void routes_set_port(struct policy *policy, struct port_state *port);

/** Applies the changes in the port's details. False: call routes_set_port() instead. */
bool routes_change_port(struct policy *policy, struct port_state *port);

/** Removes the backends of a removed port, which has no frontends any more, but those that are
 * still to be led to another one. */
void routes_remove_port(struct policy *policy, struct port_state *port);

/* ---- checks.c: health checks ---- */

/** Marks the health check of a Service, current or former, dirty, if it has one. NULL: nothing. */
void health_checks_mark(struct policy *policy, const struct service *service);

void health_checks_clear(struct policy *policy);

#endif
