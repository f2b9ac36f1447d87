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
    return (uint8_t)((cluster ? BACKENDS_CLUSTER : 0) | (local ? BACKENDS_LOCAL : 0));
}

struct selection select_endpoints(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, uint8_t *sets)
{
    struct selection selection = {0};
    for (size_t i = 0; i < n; i++) {
        const unsigned traits = traits_of(&endpoints[i], here);
        selection_count(&selection.counts, traits, 1);
        selection.seen |= traits;
    }
    selection.basis = selection_basis_of(&selection.counts);
    selection.has_any = selection.basis.ready || selection.basis.fallback;
    for (size_t i = 0; i < n; i++) {
        sets[i] = selection_sets(traits_of(&endpoints[i], here), &selection.basis);
        selection.cluster_size += (sets[i] & BACKENDS_CLUSTER) != 0;
        selection.local_size += (sets[i] & BACKENDS_LOCAL) != 0;
    }
    return selection;
}
