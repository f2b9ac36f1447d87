/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Health checks (docs/behaviour.md 6.1): publishes how many local endpoints a Service has. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

/* Of a Service that is known, slices may change often until the next report. */
void health_checks_mark(struct policy *policy, const struct service *service)
{
    if (!service || service->health_check_node_port == 0)
        return;
    const char *service_id = service->id;
    struct service_state *state = (struct service_state *)policy_find_service(policy, service_id);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (!state || !state->check_dirty[family])
            vec_push(&policy->dirty_checks[family], xstrdup(service_id));
        if (state)
            state->check_dirty[family] = true;
    }
}

void health_checks_clear(struct policy *policy)
{
    for (int family = 0; family < FAMILY_COUNT; family++) {
        vec_each (&policy->dirty_checks[family], it)
            free(*it);
        vec_free(&policy->dirty_checks[family]);
    }
}

size_t policy_local_ready(const struct policy *policy, const struct service *service,
                          enum family family)
{
    const char *here = policy->here.location.node_name;
    endpoint_vec endpoints = {0};
    address_vec addresses = {0};
    vec_each (&service->ports, port) {
        struct service_port_ref ref = {service->id, family, port->name, port->protocol};
        endpoint_slice_cache_merge(policy->config.caches->slices, &ref, &endpoints);
        vec_each (&endpoints, it)
            if (it->flags & ENDPOINT_READY && it->node_name && it->node_name == here &&
                !service_addresses_contain(policy, family, &it->address))
                vec_push(&addresses, it->address);
    }
    addresses_normalize(&addresses);
    const size_t n = addresses.n;
    vec_free(&endpoints);
    vec_free(&addresses);
    return n;
}

static struct health_check decide_check(struct policy *policy, const char *service_id,
                                        enum family family)
{
    struct service_state *state = (struct service_state *)policy_find_service(policy, service_id);
    const struct service *service = state ? state->service : NULL;
    const bool open = service && service->health_check_node_port != 0 && !service->skipped &&
                      service->has_cluster_ip[family];
    if (state)
        state->check_dirty[family] = false;
    return (struct health_check){service_id, open ? service->health_check_node_port : 0,
                                 open ? policy_local_ready(policy, service, family) : 0};
}

/* All at once: one Service may take the port of another. */
void policy_sync_health_checks(struct policy *policy, enum family family)
{
    const struct policy_config *config = &policy->config;
    VEC(struct health_check) checks = {0};
    VEC(char *) decided = {0};
    size_t n = 0;
    vec_each (&policy->dirty_checks[family], it) {
        if (policy_service_waits(policy, *it, family)) {
            policy->dirty_checks[family].v[n++] = *it;
            continue;
        }
        vec_push(&checks, decide_check(policy, *it, family));
        vec_push(&decided, *it);
    }
    policy->dirty_checks[family].n = n;
    if (checks.n > 0 && config->health && config->tables[family])
        config->set_health_checks(config->health, family, checks.v, checks.n);
    vec_each (&decided, it)
        free(*it);
    vec_free(&decided);
    vec_free(&checks);
}
