/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The open healthCheckNodePorts and their endpoint counts (docs/behaviour.md 6.1). */
#include "state.h"

#include <stdlib.h>
#include <string.h>

/* A Service whose health check is open or dirty. */
struct health_check {
    struct hash_link link;
    char *service_id;
    bool open[FAMILY_COUNT];  /* last reported with a port: report its closing */
    bool dirty[FAMILY_COUNT]; /* in policy->dirty_checks */
};

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct health_check *)link)->service_id);
}

static void forget(struct policy *policy, struct health_check *check)
{
    hash_table_remove(&policy->health_checks, &check->link);
    free(check->service_id);
    free(check);
}

void health_checks_clear(struct policy *policy)
{
    hash_table_each (&policy->health_checks, struct health_check, check)
        forget(policy, check);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&policy->dirty_checks[family]);
}

void health_checks_mark(struct policy *policy, const char *service_id)
{
    struct health_check *check =
        hash_table_find(&policy->health_checks, key_of, hash_key_of_text(service_id));
    if (!check) {
        check = xcalloc(1, sizeof(*check));
        check->service_id = xstrdup(service_id);
        hash_table_add(&policy->health_checks, key_of, &check->link);
    }
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (!check->dirty[family])
            vec_push(&policy->dirty_checks[family], check);
        check->dirty[family] = true;
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
            if (it->flags & ENDPOINT_READY && it->node_name && it->node_name == here)
                vec_push(&addresses, it->address);
    }
    addresses_normalize(&addresses);
    const size_t n = addresses.n;
    vec_free(&endpoints);
    vec_free(&addresses);
    return n;
}

static void sync_check(struct policy *policy, struct health_check *check, enum family family)
{
    const struct policy_config *config = &policy->config;
    const struct service *service =
        object_store_get(config->caches->stores[KIND_SERVICE], check->service_id);
    const bool open = config->health && config->tables[family] && service &&
                      service->health_check_node_port != 0 && !service->skipped &&
                      service->has_cluster_ip[family];
    if (open)
        config->health_check(config->health, check->service_id, family,
                             service->health_check_node_port,
                             policy_local_ready(policy, service, family));
    else if (check->open[family])
        config->health_check(config->health, check->service_id, family, 0, 0);
    check->open[family] = open;
    check->dirty[family] = false;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (check->open[i] || check->dirty[i])
            return;
    forget(policy, check);
}

void policy_sync_health_checks(struct policy *policy, enum family family)
{
    size_t n = 0;
    vec_each (&policy->dirty_checks[family], it) {
        if (policy_service_waits(policy, (*it)->service_id, family))
            policy->dirty_checks[family].v[n++] = *it;
        else
            sync_check(policy, *it, family);
    }
    policy->dirty_checks[family].n = n;
}
