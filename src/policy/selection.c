/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy.h"

/* ---- traits ---- */

static bool names_contain(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (names[i] == name)
            return true;
    return false;
}

static unsigned traits_of_hints(const struct endpoint_hints *hints, const struct location *here)
{
    unsigned traits = 0;
    if (hints->n_nodes > 0)
        traits |= TRAIT_NODE_HINTS;
    if (names_contain(hints->names, hints->n_nodes, here->node_name))
        traits |= TRAIT_FOR_NODE;
    if (hints->n_zones > 0)
        traits |= TRAIT_ZONE_HINTS;
    if (names_contain(hints->names + hints->n_nodes, hints->n_zones, here->zone))
        traits |= TRAIT_FOR_ZONE;
    return traits;
}

unsigned endpoint_traits(uint8_t flags, const char *node_name, const struct endpoint_hints *hints,
                         const struct location *here)
{
    unsigned traits = TRAIT_EXISTS | (hints ? traits_of_hints(hints, here) : 0);
    if (flags & ENDPOINT_READY)
        traits |= TRAIT_READY;
    else if (flags & ENDPOINT_SERVING && flags & ENDPOINT_TERMINATING)
        traits |= TRAIT_FALLBACK;
    if (flags & ENDPOINT_SERVING)
        traits |= TRAIT_SERVING;
    if (node_name)
        traits |= TRAIT_NAMES_NODE;
    if (node_name && node_name == here->node_name)
        traits |= TRAIT_LOCAL;
    return traits;
}

static unsigned traits_of(const struct endpoint *endpoint, const struct location *here)
{
    return endpoint_traits(endpoint->flags, endpoint->node_name, endpoint->hints, here);
}

bool endpoint_is_ready(const struct endpoint *endpoint)
{
    return endpoint->flags & ENDPOINT_READY;
}

bool endpoint_is_fallback(const struct endpoint *endpoint)
{
    return !endpoint_is_ready(endpoint) && (endpoint->flags & ENDPOINT_SERVING) &&
           (endpoint->flags & ENDPOINT_TERMINATING);
}

bool endpoint_is_local(const struct endpoint *endpoint, const struct location *here)
{
    return endpoint->node_name && endpoint->node_name == here->node_name;
}

/* ---- what decides ---- */

static void add(uint32_t *count, unsigned traits, unsigned wanted, int sign)
{
    if ((traits & wanted) == wanted)
        *count += (uint32_t)sign;
}

void selection_count(struct selection_counts *counts, unsigned traits, int sign)
{
    add(&counts->endpoints, traits, TRAIT_EXISTS, sign);
    add(&counts->ready, traits, TRAIT_READY, sign);
    add(&counts->fallback, traits, TRAIT_FALLBACK, sign);
    add(&counts->local_ready, traits, TRAIT_LOCAL | TRAIT_READY, sign);
    add(&counts->local_fallback, traits, TRAIT_LOCAL | TRAIT_FALLBACK, sign);
    add(&counts->node_hints, traits, TRAIT_READY | TRAIT_NODE_HINTS, sign);
    add(&counts->for_node, traits, TRAIT_READY | TRAIT_FOR_NODE, sign);
    add(&counts->zone_hints, traits, TRAIT_READY | TRAIT_ZONE_HINTS, sign);
    add(&counts->for_zone, traits, TRAIT_READY | TRAIT_FOR_ZONE, sign);
}

/* Hints of one sort apply if all ready endpoints have some, and one names us
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
    return (struct selection_basis){
        .ready = counts->ready > 0,
        .fallback = counts->fallback > 0,
        .local_ready = counts->local_ready > 0,
        .node_hints = hint_state(counts->node_hints, counts->ready, counts->for_node),
        .zone_hints = hint_state(counts->zone_hints, counts->ready, counts->for_zone),
    };
}

bool selection_basis_equal(const struct selection_basis *a, const struct selection_basis *b)
{
    return a->ready == b->ready && (a->ready || a->fallback == b->fallback) &&
           a->local_ready == b->local_ready && a->node_hints == b->node_hints &&
           a->zone_hints == b->zone_hints;
}

size_t selection_local_size(const struct selection_counts *counts)
{
    return counts->local_ready ? counts->local_ready : counts->local_fallback;
}

struct selection_counts selection_count_all(const struct endpoint *endpoints, size_t n,
                                            const struct location *here)
{
    struct selection_counts counts = {0};
    for (size_t i = 0; i < n; i++)
        selection_count(&counts, traits_of(&endpoints[i], here), 1);
    return counts;
}

struct selection_basis selection_basis(const struct endpoint *endpoints, size_t n,
                                       const struct location *here)
{
    struct selection_counts counts = selection_count_all(endpoints, n, here);
    return selection_basis_of(&counts);
}

/* ---- the sets (docs/behaviour.md 3.2) ---- */

/* Each set decides for itself whether it falls back: @ready says whether it has ready ones. */
static enum endpoint_verdict by_conditions(unsigned traits, bool ready)
{
    if (traits & TRAIT_READY)
        return VERDICT_USED;
    if (!(traits & TRAIT_FALLBACK))
        return VERDICT_NOT_READY;
    return ready ? VERDICT_TERMINATING : VERDICT_USED;
}

static enum endpoint_verdict cluster_verdict(unsigned traits, const struct selection_basis *basis)
{
    enum endpoint_verdict verdict = by_conditions(traits, basis->ready);
    if (verdict != VERDICT_USED || !(traits & TRAIT_READY))
        return verdict;
    if (basis->node_hints == HINTS_APPLY)
        return traits & TRAIT_FOR_NODE ? VERDICT_USED : VERDICT_NODE_HINT;
    if (basis->zone_hints == HINTS_APPLY)
        return traits & TRAIT_FOR_ZONE ? VERDICT_USED : VERDICT_ZONE_HINT;
    return VERDICT_USED;
}

static enum endpoint_verdict local_verdict(unsigned traits, const struct selection_basis *basis)
{
    enum endpoint_verdict verdict = by_conditions(traits, basis->local_ready);
    return verdict == VERDICT_USED && !(traits & TRAIT_LOCAL) ? VERDICT_OTHER_NODE : verdict;
}

enum endpoint_verdict endpoint_cluster_verdict(const struct endpoint *endpoint,
                                               const struct location *here,
                                               const struct selection_basis *basis)
{
    return cluster_verdict(traits_of(endpoint, here), basis);
}

enum endpoint_verdict endpoint_local_verdict(const struct endpoint *endpoint,
                                             const struct location *here,
                                             const struct selection_basis *basis)
{
    return local_verdict(traits_of(endpoint, here), basis);
}

uint8_t selection_sets(unsigned traits, const struct selection_basis *basis)
{
    unsigned sets = 0;
    if (cluster_verdict(traits, basis) == VERDICT_USED)
        sets |= SET_CLUSTER;
    if (local_verdict(traits, basis) == VERDICT_USED)
        sets |= SET_LOCAL;
    return (uint8_t)sets;
}

struct selection select_endpoints(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, uint8_t *sets)
{
    struct selection selection = {.counts = selection_count_all(endpoints, n, here)};
    struct selection_basis basis = selection_basis_of(&selection.counts);
    selection.has_any = basis.ready || basis.fallback;
    for (size_t i = 0; i < n; i++) {
        sets[i] = selection_sets(traits_of(&endpoints[i], here), &basis);
        selection.cluster_size += (sets[i] & SET_CLUSTER) != 0;
        selection.local_size += (sets[i] & SET_LOCAL) != 0;
    }
    return selection;
}
