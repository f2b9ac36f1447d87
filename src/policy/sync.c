/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a sync does with dirty service ports, stage by stage. */
#include "state.h"

#include <linux/in.h>
#include <stdlib.h>
#include <string.h>

/* At most so many addresses of the API server, and of these with a port, are reserved. */
#define MOST_SERVERS 64
#define MOST_SERVER_FRONTENDS 1024

/* ---- the API server's own addresses ---- */

/* The slice that API servers write themselves. Others that are labelled as their Service's may be
 * anybody's, and would take addresses away from load balancers. */
static const struct endpoint_slice *find_server_slice(const struct policy *policy)
{
    const struct endpoint_slice *slice =
        object_store_get(policy->config.caches->stores[KIND_ENDPOINTSLICE], API_SERVER);
    bool labelled = slice && slice->service_id && strcmp(slice->service_id, API_SERVER) == 0;
    return labelled && slice->has_family ? slice : NULL;
}

static void reserve_endpoints(struct policy *policy)
{
    frontend_vec frontends = {0};
    if (!policy->api_server_changed)
        return;
    policy->api_server_changed = false;
    const struct endpoint_slice *slice = find_server_slice(policy);
    for (size_t i = 0; slice && i < slice->endpoints.n && i < MOST_SERVERS; i++)
        vec_each (&slice->ports, port)
            if (port->protocol == IPPROTO_TCP && frontends.n < MOST_SERVER_FRONTENDS)
                vec_push(&frontends, (struct frontend){slice->endpoints.v[i].address, port->port,
                                                       port->protocol, (uint8_t)slice->family});
    if (slice && slice->endpoints.n > MOST_SERVERS)
        log_warn("policy", "slice=%s has %zu endpoints: %d of them are reserved for the API server",
                 slice->id, slice->endpoints.n, MOST_SERVERS);
    claims_reserve(policy, RESERVED_ENDPOINTS, frontends);
}

/* ---- endpoints ---- */

static void decide(struct policy *policy, const struct port_state *port)
{
    policy_decide(policy, port, &policy->decision);
    policy_spend(policy, policy->decision.walked, COST_WALKED);
}

/* Counts a service port with traffic policy Local that has endpoints, but none on this node. */
static void count_lacking(struct policy *policy, struct port_state *port, bool internal,
                          bool external)
{
    struct ports_without_local *count = &policy->without_local[port->family];
    count->internal += internal;
    count->internal -= port->lacks_internal;
    count->external += external;
    count->external -= port->lacks_external;
    port->lacks_internal = internal;
    port->lacks_external = external;
}

/* The counts that hold from now on. */
static void decide_whole(struct policy *policy, struct port_state *port)
{
    const struct decision *decision = &policy->decision;
    decide(policy, port);
    service_addresses_count(policy, port, decision->n_service_addresses,
                            &decision->service_address);
    port->counts = decision->selection.counts;
    node_names_see(policy, decision->selection.seen);
    if (claims_reorder(policy, port, decision->selection.has_any))
        port_mark(policy, port, 1U << STAGE_FRONTENDS);
    health_checks_mark(policy, port->owner->service);
}

static bool decide_endpoints(struct policy *policy, struct port_state *port)
{
    const bool whole = port->whole;
    policy_spend(policy, 1, COST_BACKEND);
    port->whole = false;
    if (whole)
        decide_whole(policy, port);
    const uint32_t *n = port->counts.n;
    bool lacks = port->has_any && !n[SORT_LOCAL_READY] && !n[SORT_LOCAL_FALLBACK];
    count_lacking(policy, port, lacks && only_local_endpoints(port, false),
                  lacks && only_local_endpoints(port, true));
    if (whole || !routes_change_port(policy, port)) {
        if (!whole)
            decide(policy, port);
        routes_set_port(policy, port);
    }
    port_forget_deltas(port);
    return true;
}

/* ---- frontends ---- */

/* One that goes to a port whose Service changed, which is not decided since, stays as it is until
 * that is: all frontends of the port are decided then. */
static void decide_frontend(struct policy *policy, struct frontend_state *target)
{
    const unsigned frontends = 1U << STAGE_FRONTENDS;
    const struct claim *winner = claims_decide(policy, target);
    if (!winner)
        routes_remove_frontend(policy, target);
    else if (winner->port->work & frontends && winner->port->work != frontends)
        port_mark(policy, winner->port, frontends);
    else
        routes_set_frontend(policy, winner);
}

/* Where an earlier turn ended. */
static struct claim **first_claim(struct port_state *port)
{
    struct claim **at = &port->claims;
    for (uint32_t i = 0; i < port->cursor && *at; i++)
        at = &(*at)->next_of_port;
    return at;
}

/* Drops the claims that do not count any more. Those of a removed port wait until other ports have
 * claimed: a frontend that another port takes over is not without one in between. */
static bool decide_frontends(struct policy *policy, struct port_state *port)
{
    if (port->removed && queue_has(policy, STAGE_CLAIM))
        return false;
    for (struct claim **at = first_claim(port); *at;) {
        struct claim *claim = *at;
        struct frontend_state *target = claim->target;
        if (policy_turn_is_over(policy))
            return false;
        policy_spend(policy, 1, COST_WALKED);
        const bool counts = claim->kinds && !port->removed;
        const bool matters = counts || claim == target->winner || target->reserved;
        if (counts) {
            at = &claim->next_of_port;
            port->cursor++;
        } else {
            *at = claim->next_of_port;
            claims_drop(policy, claim);
        }
        if (matters)
            decide_frontend(policy, target);
        claims_forget_unclaimed(policy, target);
    }
    return true;
}

static void forget_removed(struct policy *policy, struct port_state *port)
{
    if (!port->removed)
        return;
    count_lacking(policy, port, false, false);
    service_addresses_count(policy, port, 0, NULL);
    shares_release(policy, port->owner->service->id, port);
    routes_remove_port(policy, port);
    port_forget(policy, port);
}

/* ---- syncs ---- */

bool policy_sync_some(struct policy *policy, size_t most)
{
    static const struct stage_work stages[] = {
        [STAGE_CLAIM] = {claims_renew, forget_removed},
        [STAGE_ENDPOINTS] = {decide_endpoints, forget_removed},
        [STAGE_FRONTENDS] = {decide_frontends, forget_removed}};
    const size_t budget = most < SIZE_MAX / COST_BACKEND ? most * COST_BACKEND : SIZE_MAX;
    reserve_endpoints(policy);
    const bool rechecks = service_addresses_sync(policy);
    const bool limited = shares_wake(policy);
    for (enum stage stage = 0; stage < STAGES; stage++)
        for (enum level level = 0; level < LEVELS; level++)
            if (policy->queues[level][stage].n > 0)
                queue_run(policy, level, stage, budget, &stages[stage]);
    policy->syncs++;
    claims_log_rest(policy);
    policy->decision.port = NULL; /* its borrowed pointers expire */
    return queue_is_empty(policy) && !limited && !rechecks && policy->shares.n_wake == 0;
}

void policy_sync(struct policy *policy)
{
    while (!policy_sync_some(policy, SIZE_MAX))
        ;
}
