/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a service port's endpoints and Service make of it: its backends, and the routes that lead to
 * them. */
#include "state.h"

#include <linux/in.h>
#include <stdlib.h>
#include <string.h>

/* Whether the port's load-balancer IPs, if any, are restricted. */
static bool has_source_ranges(const struct port_state *port)
{
    return service_outside(port->owner->service)->source_ranges[port->family].n > 0;
}

/* The source ranges of load-balancer IPs (docs/behaviour.md 4.8). */
static const range_vec *allowed_sources(struct decision *decision, const struct surroundings *here)
{
    const struct outside *outside = service_outside(decision->port->owner->service);
    enum family family = (enum family)decision->port->family;
    const range_vec *ranges = &outside->source_ranges[family];
    if (ranges->n == 0 || outside->load_balancer_ips[family].n == 0)
        return NULL;
    if (!here->has_ip[family] || !ranges_contain(ranges, &here->ip[family]))
        return ranges;
    /* If a load-balancer IP is assigned to this node, the node uses it as source address. */
    range_vec *wider = &decision->wider_sources;
    vec_clear(wider);
    vec_append(wider, ranges->v, ranges->n);
    vec_each (&outside->load_balancer_ips[family], address)
        vec_push(wider, (struct address_range){*address, *address});
    ranges_normalize(family, wider);
    return wider;
}

/* Service addresses are neither ready nor serving, whatever their slices say. */
static void flag_service_addresses(const struct policy *policy, struct decision *decision)
{
    const enum family family = (enum family)decision->port->family;
    decision->n_service_addresses = 0;
    vec_each (&decision->endpoints, it)
        if (service_addresses_contain(policy, family, &it->address)) {
            it->flags = ENDPOINT_SERVICE_ADDRESS;
            if (decision->n_service_addresses++ == 0)
                decision->service_address = (struct backend){it->address, it->port};
        }
}

void policy_decide(const struct policy *policy, const struct port_state *port,
                   struct decision *decision)
{
    const struct surroundings *here = &policy->here;
    const struct service_port_ref ref = port_state_ref(port);
    const uint8_t needed = port_sets_needed(port);
    const bool cleans_flows =
        policy_cleans_flows(policy, (enum family)port->family, port->protocol);
    decision->port = port;
    decision->sources = allowed_sources(decision, here);
    decision->walked =
        endpoint_slice_cache_merge(policy->config.caches->slices, &ref, &decision->endpoints);
    flag_service_addresses(policy, decision);
    vec_clear(&decision->sets);
    vec_reserve(&decision->sets, decision->endpoints.n);
    decision->selection = select_endpoints(decision->endpoints.v, decision->endpoints.n,
                                           &here->location, decision->sets.v);
    vec_clear(&decision->cluster);
    vec_clear(&decision->local);
    vec_clear(&decision->in_use);
    vec_clear(&decision->hairpins);
    vec_each (&decision->endpoints, it) {
        const uint8_t sets = decision->sets.v[it - decision->endpoints.v] & needed;
        const struct backend backend = {it->address, it->port};
        if (sets & BACKENDS_CLUSTER)
            vec_push(&decision->cluster, backend);
        if (sets & BACKENDS_LOCAL)
            vec_push(&decision->local, backend);
        if (sets && it->node_name && it->node_name == here->location.node_name)
            vec_push(&decision->hairpins, backend);
        if (cleans_flows && (port->protocol == IPPROTO_TCP || endpoint_is_in_use(it->flags)))
            vec_push(&decision->in_use, backend);
    }
}

struct route claim_route(const struct claim *claim)
{
    const struct port_state *port = claim->port;
    const bool external = !(claim->kinds & CLAIM_CLUSTER_IP);
    unsigned class = external ? CLASS_EXTERNAL : 0;
    if (only_local_endpoints(port, external))
        class |= CLASS_LOCAL;
    if (port->owner->service->affinity_timeout > 0)
        class |= CLASS_AFFINE;
    /* Even if the address has other roles for the Service too. */
    if (claim->kinds & CLAIM_LOAD_BALANCER_IP && has_source_ranges(port))
        class |= CLASS_RESTRICTED;
    return (struct route){port->id, class};
}

/* Over NUL-terminated strings, so that their boundaries matter. Never 0. */
static uint32_t port_identity(const struct port_state *port)
{
    const struct service *service = port->owner->service;
    const char *name = port_state_spec(port)->name;
    const uint8_t protocol = port->protocol;
    uint64_t hash = fnv(FNV_START, service->uid.bytes, sizeof(service->uid.bytes));
    hash = fnv(hash, service->id, strlen(service->id) + 1);
    hash = fnv(hash, name, strlen(name) + 1);
    hash = fnv(hash, &protocol, sizeof(protocol));
    return (uint32_t)(hash ^ hash >> 32) | 1;
}

struct port_route decision_port_route(const struct decision *decision)
{
    const uint8_t needed = port_sets_needed(decision->port);
    const struct port_details *details = decision->port->details;
    const size_t most = details && details->most ? details->most : SIZE_MAX;
    const size_t n = decision->cluster.n, n_local = decision->local.n;
    const uint32_t timeout = decision->port->owner->service->affinity_timeout;
    return (struct port_route){
        .service_id = decision->port->owner->service->id,
        .has_any = decision->selection.has_any,
        .needs_cluster = needed & BACKENDS_CLUSTER,
        .needs_local = needed & BACKENDS_LOCAL,
        .backends = decision->cluster.v,
        .n_backends = n < most ? n : most,
        .local_backends = decision->local.v,
        .n_local = n_local < most ? n_local : most,
        .left_out = n > most         ? n - most
                    : n_local > most ? n_local - most
                                     : 0,
        .affinity_timeout = timeout,
        .identity = timeout ? port_identity(decision->port) : 0,
        .sources = decision->sources ? decision->sources->v : NULL,
        .n_sources = decision->sources ? decision->sources->n : 0,
    };
}

void decision_free(struct decision *decision)
{
    vec_free(&decision->endpoints);
    vec_free(&decision->cluster);
    vec_free(&decision->local);
    vec_free(&decision->in_use);
    vec_free(&decision->hairpins);
    vec_free(&decision->wider_sources);
    vec_free(&decision->sets);
}
