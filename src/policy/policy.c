/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What marks service ports and frontends dirty, and the syncs that decide them. */
#include "state.h"

#include "kube-nftd/table.h"

#include <linux/in.h>
#include <stdlib.h>
#include <string.h>

/* A Service whose frontends cost more than this fraction of a sync's limit is deferred. */
#define PORTION_OF_MANY 8
/* At most about so many changed endpoints are looked at when a slice changes, for all service ports
 * together; what is left is decided anew, within the budgets of syncs. */
#define DELTAS_AT_ONCE 20000
/* The same, between two syncs, for the copies of a Service's endpoints in several slices. */
#define COPIES_AT_ONCE 1000000
/* At most this many Services are named in the log line of a commit. */
#define NAMED 5

/* The API server's Service, and the slice of it that API servers write; at most so many of its
 * addresses, and of these with a port, are reserved. */
#define API_SERVER "default/kubernetes"
#define MOST_SERVERS 64
#define MOST_SERVER_FRONTENDS 1024

void policy_spend(struct policy *policy, size_t n, enum cost cost)
{
    policy->left -= n < policy->left / cost ? n * cost : policy->left;
}

bool policy_has_many(const struct policy *policy, const struct service *service)
{
    const size_t ranges_a_backend = 2 * COST_BACKEND / COST_WALKED;
    const struct outside *outside = service_outside(service);
    size_t of_port = 0, node_ports = 0, n = 0;
    if (policy->few == SIZE_MAX) /* without a budget */
        return false;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const size_t balancer = outside->load_balancer_ips[family].n,
                     ranges = balancer ? outside->source_ranges[family].n : 0;
        of_port += 1 + outside->external_ips[family].n + balancer + ranges / ranges_a_backend;
        node_ports += policy->node_port_addresses[family].n;
    }
    for (size_t i = 0; i < service->ports.n && n <= policy->few; i++)
        n += 1 + of_port + (service->ports.v[i].node_port ? node_ports : 0);
    return n > policy->few;
}

/* ---- changes of Services and endpoints ---- */

static void record_changed(struct policy *policy, const char *id)
{
    bool again = policy->changed.n && strcmp(policy->changed.v[policy->changed.n - 1], id) == 0;
    if (log_enabled(2) && !again)
        vec_push(&policy->changed, xstrdup(id));
}

static bool has_health_check(const struct service *service)
{
    return service && service->health_check_node_port != 0;
}

static void on_service_changed(void *ctx, const struct service *before, const struct service *after)
{
    struct policy *policy = ctx;
    const char *id = (after ? after : before)->id;
    record_changed(policy, id);
    ports_change(policy, before, after);
    routes_change_cluster_ips(policy, before, after);
    routes_change_localhost_ports(policy, before, after);
    if (has_health_check(before) || has_health_check(after))
        health_checks_mark(policy, id);
}

static bool is_local_ready(const struct slice_endpoint *endpoint, const struct location *here)
{
    return endpoint && endpoint->flags & ENDPOINT_READY && endpoint->node_name &&
           endpoint->node_name == here->node_name;
}

/* Applies the change of a slice to @port. @left: as of DELTAS_AT_ONCE. Returns whether the local
 * ready endpoints may differ. */
static bool change_port(struct policy *policy, struct port_state *port,
                        const struct slice_change *change, size_t *left)
{
    const struct location *here = &policy->here.location;
    const struct service_port_ref ref = port_state_ref(port);
    bool recheck = false;
    unsigned seen = 0;
    if (*left == 0) {
        port->whole = true;
        port_mark(policy, port);
    }
    if (port->whole) /* dirty, and whatever changed will be part of the decision */
        return true;
    const endpoint_delta_vec *deltas = slice_change_deltas(change, &ref);
    if (deltas->n == 0)
        return false;
    *left -= deltas->n < *left ? deltas->n : *left;
    port->whole = !port_add_deltas(policy, port, deltas, &seen);
    port_mark(policy, port);
    policy->some_node_named = policy->some_node_named || seen & TRAIT_NAMES_NODE;
    policy->own_node_named = policy->own_node_named || seen & TRAIT_LOCAL;
    vec_each (deltas, it)
        recheck = recheck || is_local_ready(it->before, here) != is_local_ready(it->after, here);
    return recheck;
}

/* As of DELTAS_AT_ONCE: 0 if copies have used up what a Service may cost until the next sync. */
static size_t deltas_left(const struct policy *policy, const struct service_state *state)
{
    return state->sync == policy->syncs && state->copies >= COPIES_AT_ONCE ? 0 : DELTAS_AT_ONCE;
}

static void count_copies(const struct policy *policy, struct service_state *state, size_t n)
{
    if (n == 0)
        return;
    state->copies = n + (state->sync == policy->syncs ? state->copies : 0);
    state->sync = policy->syncs;
}

static void on_slice_changed(void *ctx, const struct slice_change *change)
{
    struct policy *policy = ctx;
    struct service_state *state =
        (struct service_state *)policy_find_service(policy, change->service_id);
    bool recheck = false, affected = false;
    size_t left = state ? deltas_left(policy, state) : 0;
    policy->api_server_changed =
        policy->api_server_changed || strcmp(change->service_id, API_SERVER) == 0;
    for (struct port_state *port = state ? state->ports : NULL; port; port = port->next) {
        if (port->family != change->family)
            continue;
        recheck = change_port(policy, port, change, &left) || recheck;
        affected = affected || port->dirty;
        if (slice_change_copies(change) >= COPIES_AT_ONCE)
            left = 0;
    }
    if (state)
        count_copies(policy, state, slice_change_copies(change));
    if (affected)
        record_changed(policy, change->service_id);
    if (recheck && has_health_check(state->service))
        health_checks_mark(policy, change->service_id);
}

struct policy *policy_new(const struct policy_config *config)
{
    struct policy *policy = xcalloc(1, sizeof(*policy));
    policy->config = *config;
    policy->here.location.node_name = intern(config->node_name);
    policy->few = SIZE_MAX;
    policy->service_addresses = xcalloc(FAMILY_COUNT, sizeof(*policy->service_addresses));
    config->caches->follower =
        (struct cache_follower){on_service_changed, on_slice_changed, policy};
    return policy;
}

void policy_free(struct policy *policy)
{
    claims_clear(policy);
    ports_clear(policy);
    health_checks_clear(policy);
    service_addresses_clear(policy);
    policy_mark_applied(policy);
    decision_free(&policy->decision);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&policy->node_port_addresses[family]);
    intern_release(policy->here.location.node_name);
    intern_release(policy->here.location.zone);
    free(policy);
}

/* ---- changes of the node ---- */

/* Runs the statement for each service port. */
#define each_port(policy, port)                                                                    \
    hash_table_each (&(policy)->services, struct service_state, service)                           \
        for (struct port_state *port = service->ports; port; port = port->next)

void policy_set_zone(struct policy *policy, const char *zone)
{
    zone = intern(zone);
    bool same = zone == policy->here.location.zone;
    intern_release(policy->here.location.zone);
    policy->here.location.zone = zone;
    if (same)
        return;
    each_port (policy, port) {
        if (port_counts(port).n[SORT_ANY] == 0)
            continue;
        port->whole = true;
        port_mark(policy, port);
    }
}

void policy_set_node_ip(struct policy *policy, enum family family, const struct address *address)
{
    struct surroundings *here = &policy->here;
    if (here->has_ip[family] == (address != NULL) &&
        (!address || memcmp(&here->ip[family], address, sizeof(*address)) == 0))
        return;
    here->has_ip[family] = address != NULL;
    if (address)
        here->ip[family] = *address;
    each_port (policy, port) {
        const struct outside *outside = service_outside(service->service);
        if (port->family != family || outside->source_ranges[family].n == 0 ||
            outside->load_balancer_ips[family].n == 0)
            continue;
        port->whole = true;
        port_mark(policy, port);
    }
}

void policy_set_node_port_addresses(struct policy *policy, enum family family,
                                    const struct address *addresses, size_t n)
{
    address_vec *known = &policy->node_port_addresses[family];
    if (known->n == n && (n == 0 || memcmp(known->v, addresses, n * sizeof(*addresses)) == 0))
        return;
    vec_clear(known);
    vec_append(known, addresses, n);
    each_port (policy, port) {
        if (port->family != family || port_state_spec(port)->node_port == 0)
            continue;
        port->renew = true;
        port->renewed = 0;
        port_mark(policy, port);
    }
}

void policy_set_api_server(struct policy *policy, const struct frontend *peers, size_t n)
{
    frontend_vec frontends = {0};
    vec_append(&frontends, peers, n);
    claims_reserve(policy, RESERVED_PEERS, frontends);
}

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

/* ---- passing decisions on ---- */

static void decide(struct policy *policy, const struct port_state *port)
{
    policy_decide(policy, port, &policy->decision);
    policy_spend(policy, policy->decision.walked, COST_WALKED);
}

static void decide_frontend(struct policy *policy, struct frontend_state *target)
{
    const struct claim *winner = claims_decide(policy, target);
    if (!winner) {
        routes_remove_frontend(policy, target);
        return;
    }
    if (winner->port->pass) /* its sync marks this frontend again */
        policy_spend(policy, 1, COST_CLAIMED);
    else
        routes_set_frontend(policy, winner);
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

static void look_for_node_names(struct policy *policy)
{
    vec_each (&policy->decision.endpoints, it) {
        if (policy->own_node_named)
            return;
        policy->some_node_named = policy->some_node_named || it->node_name;
        policy->own_node_named = it->node_name && it->node_name == policy->here.location.node_name;
    }
}

static void count_service_addresses(struct policy *policy, struct port_state *port)
{
    const struct decision *decision = &policy->decision;
    struct backend first = {0};
    for (size_t i = 0; decision->n_service_addresses > 0 && i < decision->endpoints.n; i++) {
        const struct endpoint *it = &decision->endpoints.v[i];
        first = (struct backend){it->address, it->port};
        if (it->flags & ENDPOINT_SERVICE_ADDRESS)
            break;
    }
    service_addresses_count(policy, port, decision->n_service_addresses, &first);
}

/* The counts that hold from now on. */
static void decide_whole(struct policy *policy, struct port_state *port)
{
    decide(policy, port);
    count_service_addresses(policy, port);
    port_keep_counts(port, &policy->decision.selection.counts);
    claims_reorder(policy, port, policy->decision.selection.has_any, port->index);
    look_for_node_names(policy);
}

static void sync_removed_port(struct policy *policy, struct port_state *port)
{
    count_lacking(policy, port, false, false);
    service_addresses_count(policy, port, 0, NULL);
    shares_release(policy, port->owner->service->id, port);
    routes_remove_port(policy, port);
    port_forget(port);
}

/* First the port, then its frontends, in a queue of their own: contested ones need to know whether
 * each port has endpoints. */
static void sync_port(struct policy *policy, struct port_state *port)
{
    const bool whole = port->whole, pass = port->pass;
    policy_spend(policy, 1, COST_BACKEND);
    port->dirty = port->whole = port->pass = false;
    if (port->removed) {
        sync_removed_port(policy, port);
        return;
    }
    if (whole)
        decide_whole(policy, port);
    const struct selection_counts counts = port_counts(port);
    bool lacks = port->has_any && !counts.n[SORT_LOCAL_READY] && !counts.n[SORT_LOCAL_FALLBACK];
    count_lacking(policy, port, lacks && only_local_endpoints(port, false),
                  lacks && only_local_endpoints(port, true));
    if (whole) {
        routes_set_port(policy, port);
    } else if (!routes_change_port(policy, port)) {
        if (policy->decision.port != port)
            decide(policy, port);
        routes_set_port(policy, port);
    }
    for (struct claim *it = pass ? port->claims : NULL; it; it = it->next_of_port) {
        policy_spend(policy, 1, COST_WALKED);
        claims_mark(policy, port, it->target);
    }
    port_forget_deltas(port);
}

/* ---- syncs ---- */

static void defer(struct policy *policy, struct port_state *port)
{
    port->many = true;
    port->renewed = 0; /* what it has claimed so far is not known in the other queue */
    vec_push(&policy->dirty[QUEUE_MANY].ports, port);
}

/* Moves the ports of Services with expensive frontends behind the others. */
static void defer_many(struct policy *policy)
{
    port_state_vec *ports = &policy->dirty[QUEUE_FEW].ports;
    size_t n = 0;
    vec_each (ports, it) {
        struct port_state *port = *it;
        port->many = policy_has_many(policy, port->owner->service) || (port->many && port->removed);
        if (port->many)
            defer(policy, port);
        else
            ports->v[n++] = port;
    }
    ports->n = n;
}

/* Removed ports last: a frontend that another port takes over is not without one in between. */
static void renew_claims(struct policy *policy, const port_state_vec *ports)
{
    bool left = false;
    for (int removed = 0; removed < 2 && !left; removed++)
        for (size_t i = 0; i < ports->n && !left; i++) {
            struct port_state *port = ports->v[i];
            if (port->renew && port->removed == removed)
                claims_renew(policy, port);
            left = policy->left == 0;
        }
}

/* Once a Service has spent more than policy->few, its remaining ports, usually adjacent, are
 * deferred. */
static void sync_ports(struct policy *policy, enum queue queue, size_t budget)
{
    port_state_vec *ports = &policy->dirty[queue].ports;
    const struct service_state *owner = NULL;
    size_t i, n = ports->n, before = budget;
    policy->left = budget; /* claims first: the winners then change less often */
    renew_claims(policy, ports);
    policy->left = budget;
    for (i = 0; i < n && !ports->v[i]->renew; i++) {
        struct port_state *port = ports->v[i];
        if (!owner || owner != port->owner)
            before = policy->left;
        owner = port->owner;
        if (queue == QUEUE_FEW && !port->removed &&
            (before - policy->left) / COST_BACKEND > policy->few)
            defer(policy, port);
        else if (policy->left > 0)
            sync_port(policy, port);
        else
            break;
    }
    vec_drop_first(ports, i);
}

static void sync_frontends(struct policy *policy, enum queue queue, size_t budget)
{
    size_t i, n = policy->dirty[queue].frontends.n;
    policy->left = budget;
    for (i = 0; i < n && policy->left > 0; i++) {
        struct frontend_state *target = policy->dirty[queue].frontends.v[i];
        if (target->dirty)
            decide_frontend(policy, target);
        claims_unmark(policy, target, queue);
    }
    vec_drop_first(&policy->dirty[queue].frontends, i);
    policy->dirty[queue].done += i;
}

bool policy_sync_some(struct policy *policy, size_t most)
{
    const size_t budget = most < SIZE_MAX / COST_BACKEND ? most * COST_BACKEND : SIZE_MAX;
    size_t left = 0;
    policy->syncs++;
    reserve_endpoints(policy);
    const bool rechecks = service_addresses_sync(policy);
    policy->few = most == SIZE_MAX ? SIZE_MAX : most / PORTION_OF_MANY;
    bool limited = shares_wake(policy);
    defer_many(policy);
    for (enum queue queue = 0; queue < QUEUES; queue++)
        sync_ports(policy, queue, budget);
    for (enum queue queue = 0; queue < QUEUES; queue++) {
        sync_frontends(policy, queue, budget);
        left += policy->dirty[queue].ports.n + policy->dirty[queue].frontends.n;
    }
    services_forget_departed(policy);
    claims_log_rest(policy);
    policy->decision.port = NULL; /* their borrowed pointers expire */
    return left == 0 && !limited && !rechecks && policy->shares.n_wake == 0;
}

void policy_sync(struct policy *policy)
{
    while (!policy_sync_some(policy, SIZE_MAX))
        ;
}

static bool port_waits(const struct policy *policy, const struct port_state *port)
{
    const struct table *table = policy->config.tables[port->family];
    return port->dirty || (table && ruleset_port_is_waiting(table_ruleset(table), port->id));
}

bool policy_service_waits(const void *ctx, const char *service_id, enum family family)
{
    const struct policy *policy = ctx;
    const struct service_state *service = policy_find_service(policy, service_id);
    if ((service && service_is_dirty(policy, service)) || service_has_departed(policy, service_id))
        return true;
    for (const struct port_state *port = service ? service->ports : NULL; port; port = port->next)
        if (port->family == family && port_waits(policy, port))
            return true;
    return false;
}

/* ---- the log ---- */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char *policy_changed_services(struct policy *policy)
{
    char *names = NULL, *text;
    size_t n = 0;
    if (policy->changed.n == 0)
        return NULL;
    qsort(policy->changed.v, policy->changed.n, sizeof(*policy->changed.v), compare_ids);
    vec_each (&policy->changed, id) {
        if ((id > policy->changed.v && strcmp(id[0], id[-1]) == 0) || n++ >= NAMED)
            continue;
        text = xasprintf("%s%s%s", names ? names : "", names ? "," : "", *id);
        free(names);
        names = text;
    }
    text = n > NAMED ? xasprintf("services=%s more=%zu ", names, n - NAMED)
                     : xasprintf("services=%s ", names);
    free(names);
    return text;
}

void policy_mark_applied(struct policy *policy)
{
    vec_each (&policy->changed, id)
        free(*id);
    vec_free(&policy->changed);
}

/* ---- queries ---- */

char *policy_owner(const struct policy *policy, const struct frontend *frontend)
{
    const struct frontend_state *target = policy_find_frontend(policy, frontend);
    const struct claim *winner = target ? frontend_winner(target) : NULL;
    return winner ? port_state_name(winner->port) : NULL;
}

void policy_report_limit(const struct policy *policy, const struct frontend *frontend,
                         const char *reason, const char *note)
{
    const struct frontend_state *target = policy_find_frontend(policy, frontend);
    const struct claim *winner = target ? frontend_winner(target) : NULL;
    if (!winner)
        return;
    const struct service *service = winner->port->owner->service;
    const struct object_event event = {.kind = KIND_SERVICE,
                                       .id = service->id,
                                       .uid = service->uid,
                                       .type = EVENT_WARNING,
                                       .reason = reason,
                                       .action = "Program",
                                       .note = note};
    event_report(policy->config.events, &event);
}

struct policy_view policy_view(const struct policy *policy)
{
    return (struct policy_view){
        .here = &policy->here,
        .node_port_addresses = policy->node_port_addresses,
        .conflicts = policy->conflicts,
        .reserved = policy->withheld,
        .limited = policy->shares.limited.n,
        .service_addresses = policy->n_service_addresses,
        .without_local = {policy->without_local[0], policy->without_local[1]},
        .node_never_named = policy->some_node_named && !policy->own_node_named,
    };
}
