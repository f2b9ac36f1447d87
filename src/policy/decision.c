/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy.h"

#include <linux/in.h>
#include <string.h>

/* ---- which sets are needed (docs/behaviour.md 3.2) ---- */

static bool is_externally_reachable(const struct port_state *port)
{
    const struct service *service = port->owner->service;
    return port_state_spec(port)->node_port != 0 ||
           service_outside(service)->external_ips[port->family].n > 0 ||
           service_outside(service)->load_balancer_ips[port->family].n > 0;
}

uint8_t decision_sets_needed(const struct port_state *port)
{
    const struct service *service = port->owner->service;
    bool reachable = is_externally_reachable(port);
    bool cluster = !service->internal_local || reachable;
    bool local = service->internal_local || (service->external_local && reachable);
    return (uint8_t)((cluster ? SET_CLUSTER : 0) | (local ? SET_LOCAL : 0));
}

/* ---- endpoints ---- */

static void merge(struct decision *decision, const struct endpoint_slice_cache *slices,
                  const struct port_state *port)
{
    struct service_port_ref ref = {port->owner->service->id, (enum family)port->family,
                                   port_state_spec(port)->name, port->protocol};
    endpoint_slice_cache_merge(slices, &ref, &decision->endpoints);
}

static void sort_out(struct decision *decision, const struct location *here,
                     const struct endpoint *endpoint, uint8_t sets)
{
    struct backend backend = {endpoint->address, endpoint->port};
    if (sets & SET_CLUSTER)
        vec_push(&decision->cluster, backend);
    if (sets & SET_LOCAL)
        vec_push(&decision->local, backend);
    if (sets && endpoint_is_local(endpoint, here))
        vec_push(&decision->hairpins, backend);
    if (decision->port->protocol == IPPROTO_UDP && endpoint->flags & ENDPOINT_SERVING)
        vec_push(&decision->serving, backend);
}

/* ---- source ranges (docs/behaviour.md 4.8) ---- */

static const range_vec *allowed_sources(struct decision *decision, const struct surroundings *here)
{
    const struct service *service = decision->port->owner->service;
    enum family family = (enum family)decision->port->family;
    const range_vec *ranges = &service_outside(service)->source_ranges[family];
    if (ranges->n == 0)
        return NULL;
    if (!here->has_ip[family] || !ranges_contain(ranges, &here->ip[family]))
        return ranges;
    /* A load-balancer IP that is an address of this node is what the node speaks to it from. */
    range_vec *wider = &decision->wider_sources;
    vec_clear(wider);
    vec_each (ranges, range)
        vec_push(wider, *range);
    vec_each (&service_outside(service)->load_balancer_ips[family], address)
        vec_push(wider, (struct address_range){*address, *address});
    ranges_normalize(family, wider);
    return wider;
}

/* ---- all of it ---- */

void decision_make(struct decision *decision, const struct endpoint_slice_cache *slices,
                   const struct surroundings *here, const struct port_state *port)
{
    merge(decision, slices, port);
    decision->port = port;
    size_t n = decision->endpoints.n;
    vec_clear(&decision->sets);
    vec_reserve(&decision->sets, n);
    decision->selection =
        select_endpoints(decision->endpoints.v, n, &here->location, decision->sets.v);
    vec_clear(&decision->cluster);
    vec_clear(&decision->local);
    vec_clear(&decision->serving);
    vec_clear(&decision->hairpins);
    uint8_t needed = decision_sets_needed(port);
    for (size_t i = 0; i < n; i++)
        sort_out(decision, &here->location, &decision->endpoints.v[i],
                 decision->sets.v[i] & needed);
    decision->sources = allowed_sources(decision, here);
}

struct claim_policy decision_policy(const struct claim *claim)
{
    const struct service *service = claim->port->owner->service;
    bool external = !(claim->kinds & CLAIM_CLUSTER_IP);
    return (struct claim_policy){external,
                                 external ? service->external_local : service->internal_local};
}

struct route decision_route(const struct decision *decision, const struct claim *claim)
{
    const struct claim_policy policy = decision_policy(claim);
    struct route route = {
        .port = decision->port->id,
        .external = policy.external,
        .local = policy.local,
        .affine = decision->port->owner->service->affinity_timeout > 0,
    };
    /* Also if the address is another of the Service's as well: a guarded door stays guarded. */
    if (claim->kinds & CLAIM_LOAD_BALANCER_IP && decision->sources) {
        route.sources = decision->sources->v;
        route.n_sources = decision->sources->n;
    }
    return route;
}

struct port_route decision_port_route(const struct decision *decision)
{
    const uint8_t needed = decision_sets_needed(decision->port);
    return (struct port_route){
        .has_any = decision->selection.has_any,
        .needs_cluster = needed & SET_CLUSTER,
        .needs_local = needed & SET_LOCAL,
        .backends = decision->cluster.v,
        .n_backends = decision->cluster.n,
        .local_backends = decision->local.v,
        .n_local = decision->local.n,
        .affinity_timeout = decision->port->owner->service->affinity_timeout,
    };
}

bool decision_asks_for_local(const struct port_state *port, bool external)
{
    const struct service *service = port->owner->service;
    return external ? service->external_local && is_externally_reachable(port)
                    : service->internal_local;
}

/* FNV-1a. */
uint64_t backends_fingerprint(const backend_vec *backends)
{
    uint64_t hash = 0xcbf29ce484222325;
    _Static_assert(sizeof(struct backend) == 18, "backends are hashed as bytes");
    const uint8_t *bytes = (const uint8_t *)backends->v;
    for (size_t i = 0; i < backends->n * sizeof(struct backend); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash;
}

void decision_free(struct decision *decision)
{
    vec_free(&decision->endpoints);
    vec_free(&decision->cluster);
    vec_free(&decision->local);
    vec_free(&decision->serving);
    vec_free(&decision->hairpins);
    vec_free(&decision->wider_sources);
    vec_free(&decision->sets);
}
