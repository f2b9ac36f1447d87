/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "health_checks.h"

#include <stdlib.h>
#include <string.h>

/* A Service whose health check is open or dirty. */
struct health_check {
    struct hash_link link;
    char *service_id;
    bool open[FAMILY_COUNT];  /* last reported with a port: report its closing */
    bool dirty[FAMILY_COUNT]; /* in checks->dirty */
};

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct health_check *)link)->service_id);
}

static void forget(struct health_checks *checks, struct health_check *check)
{
    hash_table_remove(&checks->by_service, &check->link);
    free(check->service_id);
    free(check);
}

void health_checks_clear(struct health_checks *checks)
{
    hash_table_each (&checks->by_service, struct health_check, check)
        forget(checks, check);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&checks->dirty[family]);
    vec_free(&checks->endpoints);
    vec_free(&checks->addresses);
}

void health_checks_mark(struct health_checks *checks, const char *service_id)
{
    struct health_check *check =
        hash_table_find(&checks->by_service, key_of, hash_key_of_text(service_id));
    if (!check) {
        check = xcalloc(1, sizeof(*check));
        check->service_id = xstrdup(service_id);
        hash_table_add(&checks->by_service, key_of, &check->link);
    }
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (!check->dirty[family])
            vec_push(&checks->dirty[family], check);
        check->dirty[family] = true;
    }
}

size_t health_checks_count(struct health_checks *checks, const struct service *service,
                           enum family family, const struct location *here)
{
    vec_clear(&checks->addresses);
    vec_each (&service->ports, port) {
        struct service_port_ref ref = {service->id, family, port->name, port->protocol};
        endpoint_slice_cache_merge(checks->caches->slices, &ref, &checks->endpoints);
        vec_each (&checks->endpoints, it)
            if (it->flags & ENDPOINT_READY && it->node_name && it->node_name == here->node_name)
                vec_push(&checks->addresses, it->address);
    }
    addresses_normalize(&checks->addresses);
    return checks->addresses.n;
}

static bool is_idle(const struct health_check *check)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (check->open[family] || check->dirty[family])
            return false;
    return true;
}

static void sync_check(struct health_checks *checks, struct health_check *check, enum family family,
                       const struct location *here)
{
    const struct service *service = service_cache_get(checks->caches->services, check->service_id);
    const bool open = checks->in_use[family] && service && service->health_check_node_port != 0 &&
                      !service->skipped && service->has_cluster_ip[family];
    if (open)
        checks->report(checks->health, check->service_id, family, service->health_check_node_port,
                       health_checks_count(checks, service, family, here));
    else if (check->open[family])
        checks->report(checks->health, check->service_id, family, 0, 0);
    check->open[family] = open;
    check->dirty[family] = false;
    if (is_idle(check))
        forget(checks, check);
}

void health_checks_sync(struct health_checks *checks, enum family family,
                        const struct location *here, service_waits_fn waits, const void *ctx)
{
    size_t n = 0;
    vec_each (&checks->dirty[family], check) {
        if (waits(ctx, (*check)->service_id, family))
            checks->dirty[family].v[n++] = *check;
        else
            sync_check(checks, *check, family, here);
    }
    checks->dirty[family].n = n;
}
