/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What marks service ports dirty, and what others ask of policy. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

/* At most this many Services are named in the log line of a commit. */
#define NAMED 5

/* ---- changes of Services and endpoints ---- */

static void record_changed(struct policy *policy, const char *id)
{
    bool again = policy->changed.n && strcmp(policy->changed.v[policy->changed.n - 1], id) == 0;
    if (log_enabled(2) && !again)
        vec_push(&policy->changed, xstrdup(id));
}

void policy_change_service(struct policy *policy, const struct service *before,
                           const struct service *after)
{
    const char *id = (after ? after : before)->id;
    record_changed(policy, id);
    ports_change(policy, before, after);
    routes_change_cluster_ips(policy, before, after);
    routes_change_localhost_ports(policy, before, after);
    health_checks_mark(policy, before);
    health_checks_mark(policy, after);
}

void policy_change_slice(struct policy *policy, const struct slice_change *change)
{
    const struct service_state *state = policy_find_service(policy, change->service_id);
    bool recheck = false;
    policy->api_server_changed =
        policy->api_server_changed || strcmp(change->service_id, API_SERVER) == 0;
    for (struct port_state *port = state ? state->ports : NULL; port; port = port->next) {
        if (port->family != change->family)
            continue;
        recheck = endpoints_change(policy, port, change) || recheck;
        if (port->work)
            record_changed(policy, change->service_id);
    }
    if (recheck)
        health_checks_mark(policy, state->service);
}

struct policy *policy_new(const struct policy_config *config)
{
    struct policy *policy = xcalloc(1, sizeof(*policy));
    policy->config = *config;
    policy->here.location.node_name = intern(config->node_name);
    policy->service_addresses = xcalloc(FAMILY_COUNT, sizeof(*policy->service_addresses));
    return policy;
}

void policy_free(struct policy *policy)
{
    claims_clear(policy);
    ports_clear(policy);
    shares_clear(policy);
    for (int i = 0; i < RESERVED_LISTS; i++)
        vec_free(&policy->reserved[i]);
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
        if (port->counts.n[SORT_ANY] == 0)
            continue;
        port_mark_whole(policy, port);
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
        port_mark_whole(policy, port);
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
        port_mark(policy, port, 1U << STAGE_CLAIM | 1U << STAGE_FRONTENDS);
    }
}

void policy_set_api_server(struct policy *policy, const struct frontend *peers, size_t n)
{
    frontend_vec frontends = {0};
    vec_append(&frontends, peers, n);
    claims_reserve(policy, RESERVED_PEERS, frontends);
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
    vec_sort(&policy->changed, compare_ids);
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
