/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "health_checks.h"

#include "kube-nftd/base.h"

#include <string.h>

/* A Service whose health check has to be looked at again. */
struct health_check {
    struct hash_link link;
    char *service_id;
    bool open[FAMILY_COUNT];  /* handed on with a port: to be closed when it has none any more */
    bool noted[FAMILY_COUNT]; /* in checks->noted */
};

struct health_checks {
    const struct service_cache *services;
    const struct endpoint_slice_cache *slices;
    struct hash_table by_service;
    VEC(struct health_check *) noted[FAMILY_COUNT];
    /* Scratch, kept for its memory. */
    endpoint_vec endpoints;
    VEC(struct backend) addresses; /* with port 0 */
};

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct health_check *)link)->service_id);
}

struct health_checks *health_checks_new(const struct service_cache *services,
                                        const struct endpoint_slice_cache *slices)
{
    struct health_checks *checks = xcalloc(1, sizeof(*checks));
    checks->services = services;
    checks->slices = slices;
    return checks;
}

static void forget(struct health_checks *checks, struct health_check *check)
{
    hash_table_remove(&checks->by_service, &check->link);
    free(check->service_id);
    free(check);
}

void health_checks_free(struct health_checks *checks)
{
    hash_table_each (&checks->by_service, struct health_check, check)
        forget(checks, check);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&checks->noted[family]);
    vec_free(&checks->endpoints);
    vec_free(&checks->addresses);
    free(checks);
}

void health_checks_note(struct health_checks *checks, const char *service_id)
{
    struct health_check *check =
        hash_table_find(&checks->by_service, key_of, hash_key_of_text(service_id));
    if (!check) {
        check = xcalloc(1, sizeof(*check));
        check->service_id = xstrdup(service_id);
        hash_table_add(&checks->by_service, key_of, &check->link);
    }
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (!check->noted[family])
            vec_push(&checks->noted[family], check);
        check->noted[family] = true;
    }
}

/* Puts the addresses of local ready endpoints, over all ports of the Service, into the scratch. */
static void gather(struct health_checks *checks, const struct service *service, enum family family,
                   const struct location *here)
{
    vec_clear(&checks->addresses);
    vec_each (&service->ports, port) {
        struct service_port_ref ref = {service->id, family, port->name, port->protocol};
        endpoint_slice_cache_merge(checks->slices, &ref, &checks->endpoints);
        vec_each (&checks->endpoints, endpoint) {
            if (endpoint_is_local(endpoint, here) && endpoint_is_ready(endpoint))
                vec_push(&checks->addresses, (struct backend){endpoint->address, 0});
        }
    }
}

size_t health_checks_count(struct health_checks *checks, const struct service *service,
                           enum family family, const struct location *here)
{
    gather(checks, service, family, here);
    const struct backend *addresses = checks->addresses.v;
    size_t n = checks->addresses.n;
    if (n == 0)
        return 0;
    qsort(checks->addresses.v, n, sizeof(*addresses), backend_compare);
    size_t distinct = 1;
    for (size_t i = 1; i < n; i++)
        distinct += backend_compare(&addresses[i - 1], &addresses[i]) != 0;
    return distinct;
}

static bool is_idle(const struct health_check *check)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (check->open[family] || check->noted[family])
            return false;
    return true;
}

static void settle(struct health_checks *checks, struct health_check *check, enum family family,
                   const struct location *here, const struct policy_ops *ops)
{
    const struct service *service = service_cache_get(checks->services, check->service_id);
    bool wanted = service && service->health_check_node_port != 0 && !service->skipped &&
                  service->has_cluster_ip[family];
    if (wanted || check->open[family])
        ops->health_check(ops->ctx, check->service_id, family,
                          wanted ? service->health_check_node_port : 0,
                          wanted ? health_checks_count(checks, service, family, here) : 0);
    check->open[family] = wanted;
    check->noted[family] = false;
    if (is_idle(check))
        forget(checks, check);
}

void health_checks_settle(struct health_checks *checks, enum family family,
                          const struct location *here,
                          bool (*waits)(const void *ctx, const char *service_id,
                                        enum family family),
                          const void *ctx, const struct policy_ops *ops)
{
    size_t n = 0;
    vec_each (&checks->noted[family], check) {
        if (waits(ctx, (*check)->service_id, family))
            checks->noted[family].v[n++] = *check;
        else
            settle(checks, *check, family, here, ops);
    }
    checks->noted[family].n = n;
}
