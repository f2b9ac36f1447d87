/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/policy.h"

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/intern.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/policy/selection.h"

#include <string.h>

/* A frontend and the Services that want it. */
struct claim {
    UT_hash_handle hh; /* by frontend */
    struct frontend frontend;
    bool dirty;                     /* in policy->dirty */
    bool claimants_changed;         /* since the losers were said in the log */
    VEC(const struct service *) by; /* borrowed from the service cache */
};

/* A Service whose health check has to be looked at again. */
struct health_check {
    UT_hash_handle hh;
    char *service_id;
    bool open[FAMILY_COUNT];  /* handed on with a port: to be closed when it has none any more */
    bool dirty[FAMILY_COUNT]; /* in policy->dirty_health_checks */
};

struct policy {
    const struct service_cache *services;
    const struct endpoint_slice_cache *slices;
    const char *node_name; /* interned */
    struct policy_ops ops;
    struct claim *claims;
    VEC(struct claim *) dirty;
    struct health_check *health_checks;
    VEC(struct health_check *) dirty_health_checks[FAMILY_COUNT];
    /* Scratch, kept for its memory. */
    endpoint_vec endpoints;
    VEC(uint8_t) sets;
    VEC(struct backend) backends;
};

struct policy *policy_new(const struct service_cache *services,
                          const struct endpoint_slice_cache *slices, const char *node_name,
                          const struct policy_ops *ops)
{
    struct policy *policy = xcalloc(1, sizeof(*policy));
    policy->services = services;
    policy->slices = slices;
    policy->node_name = intern(node_name);
    policy->ops = *ops;
    return policy;
}

void policy_free(struct policy *policy)
{
    struct claim *claim, *next_claim;
    HASH_ITER(hh, policy->claims, claim, next_claim)
    {
        HASH_DELETE(hh, policy->claims, claim);
        vec_free(&claim->by);
        free(claim);
    }
    struct health_check *check, *next_check;
    HASH_ITER(hh, policy->health_checks, check, next_check)
    {
        HASH_DELETE(hh, policy->health_checks, check);
        free(check->service_id);
        free(check);
    }
    vec_free(&policy->dirty);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&policy->dirty_health_checks[family]);
    vec_free(&policy->endpoints);
    vec_free(&policy->sets);
    vec_free(&policy->backends);
    intern_release(policy->node_name);
    free(policy);
}

/* ---- frontends of a service port ---- */

typedef void (*frontend_fn)(struct policy *policy, const struct service *service,
                            const struct frontend *frontend);

static void each_frontend_of_port(struct policy *policy, const struct service *service,
                                  enum family family, const struct service_port *port,
                                  frontend_fn fn)
{
    if (service->skipped || !service->has_cluster_ip[family])
        return;
    struct frontend frontend = {service->cluster_ip[family], port->port, port->protocol,
                                (uint8_t)family};
    fn(policy, service, &frontend);
}

static void each_frontend(struct policy *policy, const struct service *service, frontend_fn fn)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_each (&service->ports, port)
            each_frontend_of_port(policy, service, (enum family)family, port, fn);
}

/* ---- claims ---- */

static struct claim *find_claim(struct policy *policy, const struct frontend *frontend)
{
    struct claim *claim;
    HASH_FIND(hh, policy->claims, frontend, sizeof(*frontend), claim);
    return claim;
}

static void note(struct policy *policy, struct claim *claim)
{
    if (claim->dirty)
        return;
    claim->dirty = true;
    vec_push(&policy->dirty, claim);
}

static void add_claim(struct policy *policy, const struct service *service,
                      const struct frontend *frontend)
{
    struct claim *claim = find_claim(policy, frontend);
    if (!claim) {
        claim = xcalloc(1, sizeof(*claim));
        claim->frontend = *frontend;
        HASH_ADD(hh, policy->claims, frontend, sizeof(claim->frontend), claim);
    }
    vec_push(&claim->by, service);
    claim->claimants_changed = true;
    note(policy, claim);
}

static void drop_claim(struct policy *policy, const struct service *service,
                       const struct frontend *frontend)
{
    struct claim *claim = find_claim(policy, frontend);
    for (size_t i = 0; i < claim->by.n; i++) {
        if (claim->by.v[i] == service) {
            claim->by.v[i] = claim->by.v[--claim->by.n];
            break;
        }
    }
    claim->claimants_changed = true;
    note(policy, claim);
}

/* The one of the claimants that has the frontend: the same on every node. */
static const struct service *claim_winner(const struct claim *claim)
{
    const struct service *winner = claim->by.v[0];
    vec_each (&claim->by, other) {
        if ((*other)->created < winner->created ||
            ((*other)->created == winner->created && strcmp((*other)->id, winner->id) < 0))
            winner = *other;
    }
    return winner;
}

static void log_losers(struct claim *claim, const struct service *winner)
{
    char text[FRONTEND_TEXT_SIZE];
    if (!claim->claimants_changed)
        return;
    claim->claimants_changed = false;
    vec_each (&claim->by, other) {
        if (*other != winner)
            log_warn("policy", "frontend=%s of service=%s is left to service=%s, which is %s",
                     frontend_format(&claim->frontend, text), (*other)->id, winner->id,
                     winner->created < (*other)->created ? "older" : "first by name");
    }
}

/* ---- health checks ---- */

static void note_health_check(struct policy *policy, const char *service_id)
{
    struct health_check *check;
    HASH_FIND_STR(policy->health_checks, service_id, check);
    if (!check) {
        check = xcalloc(1, sizeof(*check));
        check->service_id = xstrdup(service_id);
        HASH_ADD_KEYPTR(hh, policy->health_checks, check->service_id, strlen(service_id), check);
    }
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (!check->dirty[family])
            vec_push(&policy->dirty_health_checks[family], check);
        check->dirty[family] = true;
    }
}

/* ---- changes ---- */

static bool has_health_check(const struct service *service)
{
    return service && service->health_check_node_port != 0;
}

void policy_service_changed(struct policy *policy, const struct service *before,
                            const struct service *after)
{
    /* First add, then drop: a frontend that stays never looks abandoned. */
    if (after)
        each_frontend(policy, after, add_claim);
    if (before)
        each_frontend(policy, before, drop_claim);
    if (has_health_check(before) || has_health_check(after))
        note_health_check(policy, (after ? after : before)->id);
}

static void note_frontend(struct policy *policy, const struct service *service,
                          const struct frontend *frontend)
{
    (void)service;
    note(policy, find_claim(policy, frontend));
}

void policy_endpoints_changed(struct policy *policy, const struct service_port_ref *ref)
{
    const struct service *service = service_cache_get(policy->services, ref->service_id);
    if (!service)
        return;
    vec_each (&service->ports, port) {
        if (port->protocol == ref->protocol && strcmp(port->name, ref->port_name) == 0)
            each_frontend_of_port(policy, service, ref->family, port, note_frontend);
    }
    if (has_health_check(service))
        note_health_check(policy, service->id);
}

/* ---- decisions ---- */

static const struct service_port *port_of_frontend(const struct service *service,
                                                   const struct frontend *frontend)
{
    vec_each (&service->ports, port) {
        if (port->port == frontend->port && port->protocol == frontend->protocol)
            return port;
    }
    return NULL;
}

static void merge_port(struct policy *policy, const struct service *service, enum family family,
                       const struct service_port *port)
{
    struct service_port_ref ref = {service->id, family, port->name, port->protocol};
    endpoint_slice_cache_merge(policy->slices, &ref, &policy->endpoints);
}

static void decide(struct policy *policy, struct claim *claim)
{
    const struct service *winner = claim_winner(claim);
    log_losers(claim, winner);
    merge_port(policy, winner, (enum family)claim->frontend.family,
               port_of_frontend(winner, &claim->frontend));
    size_t n = policy->endpoints.n;
    vec_clear(&policy->sets);
    vec_reserve(&policy->sets, n);
    select_endpoints(policy->endpoints.v, n, policy->sets.v);
    vec_clear(&policy->backends);
    for (size_t i = 0; i < n; i++) {
        const struct endpoint *endpoint = &policy->endpoints.v[i];
        if (policy->sets.v[i] & SET_CLUSTER)
            vec_push(&policy->backends, (struct backend){endpoint->address, endpoint->port});
    }
    policy->ops.set(policy->ops.ctx, &claim->frontend, policy->backends.v, policy->backends.n);
}

void policy_settle(struct policy *policy)
{
    vec_each (&policy->dirty, it) {
        struct claim *claim = *it;
        claim->dirty = false;
        if (claim->by.n > 0) {
            decide(policy, claim);
            continue;
        }
        policy->ops.remove(policy->ops.ctx, &claim->frontend);
        HASH_DELETE(hh, policy->claims, claim);
        vec_free(&claim->by);
        free(claim);
    }
    vec_clear(&policy->dirty);
}

/* Distinct addresses of local ready endpoints over all ports of the service (spec 6.1). */
static size_t count_local_ready(struct policy *policy, const struct service *service,
                                enum family family)
{
    vec_clear(&policy->backends);
    vec_each (&service->ports, port) {
        merge_port(policy, service, family, port);
        vec_each (&policy->endpoints, endpoint) {
            if (endpoint->node_name && endpoint->node_name == policy->node_name &&
                endpoint_is_ready(endpoint))
                vec_push(&policy->backends, (struct backend){endpoint->address, 0});
        }
    }
    if (policy->backends.n == 0)
        return 0;
    qsort(policy->backends.v, policy->backends.n, sizeof(struct backend), backend_compare);
    size_t distinct = 1;
    for (size_t i = 1; i < policy->backends.n; i++)
        distinct += backend_compare(&policy->backends.v[i - 1], &policy->backends.v[i]) != 0;
    return distinct;
}

static bool is_idle(const struct health_check *check)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (check->open[family] || check->dirty[family])
            return false;
    return true;
}

static void settle_health_check(struct policy *policy, struct health_check *check,
                                enum family family)
{
    const struct service *service = service_cache_get(policy->services, check->service_id);
    bool wanted = has_health_check(service) && !service->skipped && service->has_cluster_ip[family];
    if (wanted || check->open[family])
        policy->ops.health_check(policy->ops.ctx, check->service_id, family,
                                 wanted ? service->health_check_node_port : 0,
                                 wanted ? count_local_ready(policy, service, family) : 0);
    check->open[family] = wanted;
    check->dirty[family] = false;
    if (!is_idle(check))
        return;
    HASH_DELETE(hh, policy->health_checks, check);
    free(check->service_id);
    free(check);
}

void policy_settle_health_checks(struct policy *policy, enum family family)
{
    vec_each (&policy->dirty_health_checks[family], it)
        settle_health_check(policy, *it, family);
    vec_clear(&policy->dirty_health_checks[family]);
}
