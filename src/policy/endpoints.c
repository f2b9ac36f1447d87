/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changes of endpoints between two syncs. While what all verdicts depend on (selection_basis) is
 * unchanged, only changed endpoints can enter or leave a set; else the port is decided as a whole.
 */
#include "state.h"

#include <linux/in.h>

/* At most about so many changed endpoints of a Service are looked at between two syncs when its
 * slices change; what is left is decided anew, within the budgets of syncs. */
#define DELTAS_AT_ONCE 20000

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

/* The sets that an endpoint with these traits is in, of those that are needed. */
static uint8_t sets_of(unsigned traits, const struct selection_basis *basis, uint8_t needed)
{
    const uint8_t sets = selection_sets(traits, basis) & needed;
    return sets && traits & TRAIT_LOCAL ? sets | BACKENDS_HAIRPIN : sets;
}

/* Counts the deltas, and adds what they change in the sets of @port, with the same @basis before
 * and after, to its details. False if an endpoint is, or was, a service address. */
static bool take_deltas(const struct policy *policy, struct port_state *port,
                        const endpoint_delta_vec *deltas, const struct selection_basis *basis,
                        struct effect *effect)
{
    const struct location *here = &policy->here.location;
    const uint8_t needed = port_sets_needed(port);
    vec_each (deltas, it) {
        if (service_addresses_concern(policy, (enum family)port->family, &it->backend.address))
            return false;
        const unsigned before = traits_of(it->before, here), after = traits_of(it->after, here);
        const struct backend_change change = {it->backend, sets_of(before, basis, needed),
                                              sets_of(after, basis, needed)};
        if (change.before != change.after)
            vec_push(&port_make_details(port)->changes, change);
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

bool endpoints_change(struct policy *policy, struct port_state *port,
                      const struct slice_change *change)
{
    const struct service_port_ref ref = port_state_ref(port);
    size_t *spent = service_spent(policy, port->owner);
    if (port->whole) /* whatever changed will be part of the decision */
        return false;
    const endpoint_delta_vec *deltas =
        *spent < DELTAS_AT_ONCE ? slice_change_deltas(change, &ref) : NULL;
    if (!deltas)
        port_mark_whole(policy, port);
    if (!deltas || deltas->n == 0)
        return false;
    *spent += deltas->n;
    struct effect effect = {.counts = port->counts};
    const struct selection_basis was = selection_basis_of(&effect.counts);
    const bool taken = take_deltas(policy, port, deltas, &was, &effect);
    const struct selection_basis basis = selection_basis_of(&effect.counts);
    port->whole =
        !taken || !selection_basis_equal(&was, &basis) || changes_flows(policy, port, &effect);
    port_mark(policy, port, 1U << STAGE_ENDPOINTS);
    if (port->whole)
        return false;
    port->counts = effect.counts;
    node_names_see(policy, effect.seen);
    return effect.changed & 1 << SORT_LOCAL_READY;
}
