/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changes of endpoints between two syncs. While what all verdicts depend on (selection_basis) is
 * unchanged, only changed endpoints can enter or leave a set; else the port is decided as a whole.
 */
#include "state.h"

#include <linux/in.h>
#include <stdlib.h>

/* At most about so many changed endpoints of a Service are looked at between two syncs when its
 * slices change; what is left is decided anew, within the budgets of syncs. */
#define DELTAS_AT_ONCE 20000
/* So many copies in several slices count as one of them. */
#define COPIES_A_DELTA 50

struct selection_counts port_counts(const struct port_state *port)
{
    struct selection_counts counts;
    if (port->details && port->details->many)
        return port->details->counts;
    for (int i = 0; i < SORTS; i++)
        counts.n[i] = port->few[i];
    return counts;
}

void port_keep_counts(struct port_state *port, const struct selection_counts *counts)
{
    bool many = counts->n[SORT_ANY] > UINT8_MAX; /* the other counts are no larger */
    if (many) {
        port_make_details(port)->counts = *counts;
    } else {
        for (int i = 0; i < SORTS; i++)
            port->few[i] = (uint8_t)counts->n[i];
    }
    if (port->details)
        port->details->many = many;
}

/* ---- deltas ---- */

/* What deltas do to a port, as traits. */
struct effect {
    struct selection_counts counts; /* after them */
    unsigned changed, seen;         /* of one endpoint at least */
    bool comes_or_goes;
};

static unsigned traits_of(const struct slice_endpoint *endpoint, const struct location *here)
{
    return endpoint ? endpoint_traits(endpoint->flags, endpoint->node_name, endpoint->hints, here)
                    : 0;
}

/* False if an endpoint is, or was, a service address. */
static bool count_deltas(const struct policy *policy, const struct port_state *port,
                         const endpoint_delta_vec *deltas, struct effect *effect)
{
    const struct location *here = &policy->here.location;
    vec_each (deltas, it) {
        if (service_addresses_concern(policy, (enum family)port->family, &it->backend.address))
            return false;
        const unsigned before = traits_of(it->before, here), after = traits_of(it->after, here);
        selection_count(&effect->counts, before, -1);
        selection_count(&effect->counts, after, 1);
        effect->comes_or_goes = effect->comes_or_goes || !it->before != !it->after;
        effect->changed |= before ^ after;
        effect->seen |= after;
    }
    return true;
}

/* Whether the endpoints that keep their flows differ: see struct decision. */
static bool changes_flows(const struct policy *policy, const struct port_state *port,
                          const struct effect *effect)
{
    if (port->protocol == IPPROTO_UDP)
        return effect->changed & TRAIT_IN_USE;
    return effect->comes_or_goes &&
           policy_cleans_flows(policy, (enum family)port->family, port->protocol);
}

static void add_change(backend_change_vec *changes, const struct backend *backend, bool before,
                       bool after)
{
    if (before != after)
        vec_push(changes, (struct backend_change){*backend, after});
}

/* Adds what changes in the sets of @port to its details. */
static void add_changes(const struct policy *policy, struct port_state *port,
                        const endpoint_delta_vec *deltas, const struct selection_basis *basis)
{
    const struct location *here = &policy->here.location;
    const uint8_t needed = port_sets_needed(port);
    struct port_details *details = port_make_details(port);
    vec_each (deltas, it) {
        const unsigned before = traits_of(it->before, here), after = traits_of(it->after, here);
        const uint8_t left = selection_sets(before, basis) & needed,
                      joined = selection_sets(after, basis) & needed;
        add_change(&details->cluster, &it->backend, left & SET_CLUSTER, joined & SET_CLUSTER);
        add_change(&details->local, &it->backend, left & SET_LOCAL, joined & SET_LOCAL);
        add_change(&details->hairpin_changes, &it->backend, left && before & TRAIT_LOCAL,
                   joined && after & TRAIT_LOCAL);
    }
}

bool endpoints_change(struct policy *policy, struct port_state *port,
                      const struct slice_change *change)
{
    const struct service_port_ref ref = port_state_ref(port);
    size_t *spent = service_spent(policy, port->owner);
    if (*spent >= DELTAS_AT_ONCE)
        port_mark_whole(policy, port);
    if (port->whole) /* whatever changed will be part of the decision */
        return false;
    const size_t copies = slice_change_copies(change);
    const endpoint_delta_vec *deltas = slice_change_deltas(change, &ref);
    *spent += deltas->n + (slice_change_copies(change) - copies) / COPIES_A_DELTA;
    if (deltas->n == 0)
        return false;
    struct effect effect = {.counts = port_counts(port)};
    const struct selection_basis was = selection_basis_of(&effect.counts);
    const bool counted = count_deltas(policy, port, deltas, &effect);
    const struct selection_basis basis = selection_basis_of(&effect.counts);
    port->whole =
        !counted || !selection_basis_equal(&was, &basis) || changes_flows(policy, port, &effect);
    port_mark(policy, port, 1U << STAGE_ENDPOINTS);
    if (port->whole)
        return false;
    add_changes(policy, port, deltas, &basis);
    port_keep_counts(port, &effect.counts);
    node_names_see(policy, effect.seen);
    return effect.changed & 1 << SORT_LOCAL_READY;
}
