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

/* All ready endpoints have hints of this sort, and one names us. */
static bool hints_apply(const struct endpoint *endpoints, size_t n, const struct location *here,
                        hinted_fn hinted)
{
    bool one_for_us = false, any = false;
    for (size_t i = 0; i < n; i++) {
        if (!endpoint_is_ready(&endpoints[i]))
            continue;
        one_for_us = hinted(&endpoints[i], here, &any) || one_for_us;
        if (!any)
            return false;
    }
    return one_for_us;
}

/* The step of the filter that applies; NULL if none does. */
static hinted_fn topology_step(const struct endpoint *endpoints, size_t n,
                               const struct location *here)
{
    if (hints_apply(endpoints, n, here, hinted_to_node))
        return hinted_to_node;
    return hints_apply(endpoints, n, here, hinted_to_zone) ? hinted_to_zone : NULL;
}

/* ---- the sets (spec 3.2) ---- */

/* Which classes of endpoints there are. */
struct census {
    bool ready, fallback, local_ready;
};

static struct census take_census(const struct endpoint *endpoints, size_t n,
                                 const struct location *here)
{
    struct census census = {0};
    for (size_t i = 0; i < n; i++) {
        bool ready = endpoint_is_ready(&endpoints[i]);
        census.ready = census.ready || ready;
        census.fallback = census.fallback || endpoint_is_fallback(&endpoints[i]);
        census.local_ready =
            census.local_ready || (ready && endpoint_is_local(&endpoints[i], here));
    }
    return census;
}

/* Each set decides for itself whether it falls back. */
static uint8_t sets_of(const struct endpoint *endpoint, const struct location *here,
                       const struct census *census, hinted_fn hinted)
{
    bool ready = endpoint_is_ready(endpoint), fallback = endpoint_is_fallback(endpoint), any;
    bool in_cluster = census->ready ? ready && (!hinted || hinted(endpoint, here, &any)) : fallback;
    bool in_local = (census->local_ready ? ready : fallback) && endpoint_is_local(endpoint, here);
    return (uint8_t)((in_cluster ? SET_CLUSTER : 0) | (in_local ? SET_LOCAL : 0));
}

struct selection select_endpoints(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, uint8_t *sets)
{
    struct census census = take_census(endpoints, n, here);
    hinted_fn hinted = topology_step(endpoints, n, here);
    struct selection selection = {.has_any = census.ready || census.fallback};
    for (size_t i = 0; i < n; i++) {
        sets[i] = sets_of(&endpoints[i], here, &census, hinted);
        selection.cluster_size += (sets[i] & SET_CLUSTER) != 0;
        selection.local_size += (sets[i] & SET_LOCAL) != 0;
    }
    return selection;
}
