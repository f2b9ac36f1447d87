/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/selection.h"

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

/* ---- the topology filter (spec 3.3) ---- */

static bool names_contain(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (names[i] == name)
            return true;
    return false;
}

/* Whether a hint of @endpoint names the own node. @any says whether it has such hints at all. */
static bool hinted_to_node(const struct endpoint *endpoint, const struct location *here, bool *any)
{
    const struct endpoint_hints *hints = endpoint->hints;
    *any = hints && hints->n_nodes > 0;
    return *any && names_contain(hints->names, hints->n_nodes, here->node_name);
}

/* The same for the own zone. */
static bool hinted_to_zone(const struct endpoint *endpoint, const struct location *here, bool *any)
{
    const struct endpoint_hints *hints = endpoint->hints;
    *any = hints && hints->n_zones > 0;
    return *any && names_contain(hints->names + hints->n_nodes, hints->n_zones, here->zone);
}

typedef bool (*hinted_fn)(const struct endpoint *endpoint, const struct location *here, bool *any);

/* Hints of one sort apply if all ready endpoints have some, and one names us. */
static enum hint_state hint_state(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, hinted_fn hinted)
{
    bool one_for_us = false, some = false, all = true;
    for (size_t i = 0; i < n; i++) {
        bool any;
        if (!endpoint_is_ready(&endpoints[i]))
            continue;
        one_for_us = hinted(&endpoints[i], here, &any) || one_for_us;
        some = some || any;
        all = all && any;
    }
    if (!some)
        return HINTS_ABSENT;
    if (!all)
        return HINTS_INCOMPLETE;
    return one_for_us ? HINTS_APPLY : HINTS_ELSEWHERE;
}

/* ---- the sets (spec 3.2) ---- */

struct selection_basis selection_basis(const struct endpoint *endpoints, size_t n,
                                       const struct location *here)
{
    struct selection_basis basis = {0};
    for (size_t i = 0; i < n; i++) {
        bool ready = endpoint_is_ready(&endpoints[i]);
        basis.ready = basis.ready || ready;
        basis.fallback = basis.fallback || endpoint_is_fallback(&endpoints[i]);
        basis.local_ready = basis.local_ready || (ready && endpoint_is_local(&endpoints[i], here));
    }
    basis.node_hints = hint_state(endpoints, n, here, hinted_to_node);
    basis.zone_hints = hint_state(endpoints, n, here, hinted_to_zone);
    return basis;
}

/* Each set decides for itself whether it falls back: @ready says whether it has ready ones. */
static enum endpoint_verdict by_conditions(const struct endpoint *endpoint, bool ready)
{
    if (endpoint_is_ready(endpoint))
        return VERDICT_USED;
    if (!endpoint_is_fallback(endpoint))
        return VERDICT_NOT_READY;
    return ready ? VERDICT_TERMINATING : VERDICT_USED;
}

enum endpoint_verdict endpoint_cluster_verdict(const struct endpoint *endpoint,
                                               const struct location *here,
                                               const struct selection_basis *basis)
{
    enum endpoint_verdict verdict = by_conditions(endpoint, basis->ready);
    bool any;
    if (verdict != VERDICT_USED || !endpoint_is_ready(endpoint))
        return verdict;
    if (basis->node_hints == HINTS_APPLY)
        return hinted_to_node(endpoint, here, &any) ? VERDICT_USED : VERDICT_NODE_HINT;
    if (basis->zone_hints == HINTS_APPLY)
        return hinted_to_zone(endpoint, here, &any) ? VERDICT_USED : VERDICT_ZONE_HINT;
    return VERDICT_USED;
}

enum endpoint_verdict endpoint_local_verdict(const struct endpoint *endpoint,
                                             const struct location *here,
                                             const struct selection_basis *basis)
{
    enum endpoint_verdict verdict = by_conditions(endpoint, basis->local_ready);
    return verdict == VERDICT_USED && !endpoint_is_local(endpoint, here) ? VERDICT_OTHER_NODE
                                                                         : verdict;
}

struct selection select_endpoints(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, uint8_t *sets)
{
    struct selection_basis basis = selection_basis(endpoints, n, here);
    struct selection selection = {.has_any = basis.ready || basis.fallback};
    for (size_t i = 0; i < n; i++) {
        bool cluster = endpoint_cluster_verdict(&endpoints[i], here, &basis) == VERDICT_USED;
        bool local = endpoint_local_verdict(&endpoints[i], here, &basis) == VERDICT_USED;
        sets[i] = (uint8_t)((cluster ? SET_CLUSTER : 0) | (local ? SET_LOCAL : 0));
        selection.cluster_size += cluster;
        selection.local_size += local;
    }
    return selection;
}
