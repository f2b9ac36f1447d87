/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which endpoints take new connections (docs/behaviour.md 3, KEP-1669). */
#include "state.h"

#include <linux/in.h>
#include <string.h>

static bool names_contain(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (names[i] == name)
            return true;
    return false;
}

bool endpoint_is_in_use(uint8_t flags)
{
    return flags & (ENDPOINT_READY | ENDPOINT_SERVING);
}

unsigned endpoint_traits(uint8_t flags, const char *node_name, const struct endpoint_hints *hints,
                         const struct location *here)
{
    const bool local = node_name && node_name == here->node_name;
    unsigned traits = 1 << SORT_ANY;
    if (endpoint_is_in_use(flags))
        traits |= TRAIT_IN_USE;
    if (node_name)
        traits |= TRAIT_NAMES_NODE;
    if (local)
        traits |= TRAIT_LOCAL;
    if (!(flags & ENDPOINT_READY)) {
        if (flags & ENDPOINT_SERVING && flags & ENDPOINT_TERMINATING)
            traits |= 1 << SORT_FALLBACK | local << SORT_LOCAL_FALLBACK;
        return traits;
    }
    traits |= 1 << SORT_READY | local << SORT_LOCAL_READY;
    if (!hints)
        return traits;
    const char *const *nodes = hints->names, *const *zones = nodes + hints->n_nodes;
    traits |= (hints->n_nodes > 0) << SORT_NODE_HINTS | (hints->n_zones > 0) << SORT_ZONE_HINTS;
    traits |= names_contain(nodes, hints->n_nodes, here->node_name) << SORT_FOR_NODE;
    traits |= names_contain(zones, hints->n_zones, here->zone) << SORT_FOR_ZONE;
    return traits;
}

static unsigned traits_of(const struct endpoint *endpoint, const struct location *here)
{
    return endpoint_traits(endpoint->flags, endpoint->node_name, endpoint->hints, here);
}

/* ---- the basis of all verdicts ---- */

void selection_count(struct selection_counts *counts, unsigned traits, int sign)
{
    for (traits &= (1 << SORTS) - 1; traits; traits &= traits - 1)
        counts->n[__builtin_ctz(traits)] += (uint32_t)sign;
}

/* Hints apply if all ready endpoints have some, and one names this node or zone
 * (docs/behaviour.md 3.3). */
static enum hint_state hint_state(uint32_t hinted, uint32_t ready, uint32_t for_us)
{
    if (hinted == 0)
        return HINTS_ABSENT;
    if (hinted < ready)
        return HINTS_INCOMPLETE;
    return for_us ? HINTS_APPLY : HINTS_ELSEWHERE;
}

struct selection_basis selection_basis_of(const struct selection_counts *counts)
{
    const uint32_t *n = counts->n;
    return (struct selection_basis){
        .ready = n[SORT_READY] > 0,
        .fallback = n[SORT_FALLBACK] > 0,
        .local_ready = n[SORT_LOCAL_READY] > 0,
        .node_hints = hint_state(n[SORT_NODE_HINTS], n[SORT_READY], n[SORT_FOR_NODE]),
        .zone_hints = hint_state(n[SORT_ZONE_HINTS], n[SORT_READY], n[SORT_FOR_ZONE]),
    };
}

/* While an endpoint is ready, terminating ones do not matter. */
bool selection_basis_equal(const struct selection_basis *a, const struct selection_basis *b)
{
    return a->ready == b->ready && (a->ready || a->fallback == b->fallback) &&
           a->local_ready == b->local_ready && a->node_hints == b->node_hints &&
           a->zone_hints == b->zone_hints;
}

/* ---- the sets (docs/behaviour.md 3.2) ---- */

/* Each set falls back on its own: @ready says whether it has ready endpoints. */
static enum endpoint_verdict by_conditions(unsigned traits, bool ready)
{
    if (traits & 1 << SORT_READY)
        return VERDICT_USED;
    if (!(traits & 1 << SORT_FALLBACK))
        return VERDICT_NOT_READY;
    return ready ? VERDICT_TERMINATING : VERDICT_USED;
}

static enum endpoint_verdict cluster_verdict(unsigned traits, const struct selection_basis *basis)
{
    if (!(traits & 1 << SORT_READY))
        return by_conditions(traits, basis->ready);
    if (basis->node_hints == HINTS_APPLY)
        return traits & 1 << SORT_FOR_NODE ? VERDICT_USED : VERDICT_NODE_HINT;
    if (basis->zone_hints == HINTS_APPLY)
        return traits & 1 << SORT_FOR_ZONE ? VERDICT_USED : VERDICT_ZONE_HINT;
    return VERDICT_USED;
}

static enum endpoint_verdict local_verdict(unsigned traits, const struct selection_basis *basis)
{
    enum endpoint_verdict verdict = by_conditions(traits, basis->local_ready);
    return verdict == VERDICT_USED && !(traits & TRAIT_LOCAL) ? VERDICT_OTHER_NODE : verdict;
}

void endpoint_verdicts(const struct endpoint *endpoint, const struct location *here,
                       const struct selection_basis *basis, enum endpoint_verdict *cluster,
                       enum endpoint_verdict *local)
{
    const unsigned traits = traits_of(endpoint, here);
    const bool is_service = endpoint->flags & ENDPOINT_SERVICE_ADDRESS;
    *cluster = is_service ? VERDICT_SERVICE_ADDRESS : cluster_verdict(traits, basis);
    *local = is_service ? VERDICT_SERVICE_ADDRESS : local_verdict(traits, basis);
}

uint8_t selection_sets(unsigned traits, const struct selection_basis *basis)
{
    bool cluster = cluster_verdict(traits, basis) == VERDICT_USED;
    bool local = local_verdict(traits, basis) == VERDICT_USED;
    return (uint8_t)((cluster ? SET_CLUSTER : 0) | (local ? SET_LOCAL : 0));
}

struct selection select_endpoints(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, uint8_t *sets)
{
    struct selection selection = {0};
    for (size_t i = 0; i < n; i++)
        selection_count(&selection.counts, traits_of(&endpoints[i], here), 1);
    selection.basis = selection_basis_of(&selection.counts);
    selection.has_any = selection.basis.ready || selection.basis.fallback;
    for (size_t i = 0; i < n; i++) {
        sets[i] = selection_sets(traits_of(&endpoints[i], here), &selection.basis);
        selection.cluster_size += (sets[i] & SET_CLUSTER) != 0;
        selection.local_size += (sets[i] & SET_LOCAL) != 0;
    }
    return selection;
}

/* ---- the sets a service port needs ---- */

static bool is_externally_reachable(const struct port_state *port)
{
    const struct outside *outside = service_outside(port->owner->service);
    return port_state_spec(port)->node_port != 0 || outside->external_ips[port->family].n > 0 ||
           outside->load_balancer_ips[port->family].n > 0;
}

bool only_local_endpoints(const struct port_state *port, bool external)
{
    const struct service *service = port->owner->service;
    return external ? service->external_local && is_externally_reachable(port)
                    : service->internal_local;
}

uint8_t decision_sets_needed(const struct port_state *port)
{
    bool internal_local = only_local_endpoints(port, false);
    bool cluster = !internal_local || is_externally_reachable(port);
    bool local = internal_local || only_local_endpoints(port, true);
    return (uint8_t)((cluster ? SET_CLUSTER : 0) | (local ? SET_LOCAL : 0));
}

/* ---- decisions ---- */

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
            decision->n_service_addresses++;
        }
}

void policy_decide(const struct policy *policy, const struct port_state *port,
                   struct decision *decision)
{
    const struct surroundings *here = &policy->here;
    const struct service_port_ref ref = port_state_ref(port);
    const uint8_t needed = decision_sets_needed(port);
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
        if (sets & SET_CLUSTER)
            vec_push(&decision->cluster, backend);
        if (sets & SET_LOCAL)
            vec_push(&decision->local, backend);
        if (sets && it->node_name && it->node_name == here->location.node_name)
            vec_push(&decision->hairpins, backend);
        if (cleans_flows && (port->protocol == IPPROTO_TCP || endpoint_is_in_use(it->flags)))
            vec_push(&decision->in_use, backend);
    }
}

struct route claim_route(const struct claim *claim)
{
    const bool external = !(claim->kinds & CLAIM_CLUSTER_IP);
    return (struct route){
        .port = claim->port->id,
        .external = external,
        .local = only_local_endpoints(claim->port, external),
        .affine = claim->port->owner->service->affinity_timeout > 0,
        /* Even if the address has other roles for the Service too. */
        .restricted = claim->kinds & CLAIM_LOAD_BALANCER_IP && has_source_ranges(claim->port),
    };
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
    const uint8_t needed = decision_sets_needed(decision->port);
    const struct port_details *details = decision->port->details;
    const size_t most = details && details->most ? details->most : SIZE_MAX;
    const size_t n = decision->cluster.n, n_local = decision->local.n;
    const uint32_t timeout = decision->port->owner->service->affinity_timeout;
    return (struct port_route){
        .service_id = decision->port->owner->service->id,
        .has_any = decision->selection.has_any,
        .needs_cluster = needed & SET_CLUSTER,
        .needs_local = needed & SET_LOCAL,
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
