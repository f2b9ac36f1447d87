/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "turns.h"

/* What fits into a port's own fields. */
#define FEW_MOST 63

struct selection_counts turns_counts(const struct port_state *port)
{
    return port->details ? port->details->counts
                         : (struct selection_counts){
                               port->endpoints,   port->ready,          port->fallback,
                               port->local_ready, port->local_fallback, port->node_hints,
                               port->for_node,    port->zone_hints,     port->for_zone};
}

static void keep_few(struct port_state *port, const struct selection_counts *counts)
{
    port->endpoints = counts->endpoints & FEW_MOST;
    port->ready = counts->ready & FEW_MOST;
    port->fallback = counts->fallback & FEW_MOST;
    port->local_ready = counts->local_ready & FEW_MOST;
    port->local_fallback = counts->local_fallback & FEW_MOST;
    port->node_hints = counts->node_hints & FEW_MOST;
    port->for_node = counts->for_node & FEW_MOST;
    port->zone_hints = counts->zone_hints & FEW_MOST;
    port->for_zone = counts->for_zone & FEW_MOST;
}

void turns_keep_counts(struct port_state *port, const struct selection_counts *counts)
{
    bool many = counts->endpoints > FEW_MOST; /* the other counts are no larger */
    if (!many)
        keep_few(port, counts);
    if (!many && !port->details)
        return;
    struct port_details *details = turns_details(port);
    details->many = many;
    details->counts = *counts;
}

struct port_details *turns_details(struct port_state *port)
{
    if (!port->details) {
        struct selection_counts counts = turns_counts(port);
        port->details = xcalloc(1, sizeof(*port->details));
        port->details->counts = counts;
    }
    return port->details;
}

static unsigned traits_of(const struct slice_endpoint *endpoint, const struct location *here)
{
    return endpoint ? endpoint_traits(endpoint->flags, endpoint->node_name, endpoint->hints, here)
                    : 0;
}

static bool is_local_ready(unsigned traits)
{
    return traits & TRAIT_LOCAL && traits & TRAIT_READY;
}

bool turns_add(struct port_state *port, const struct endpoint_delta *changes, size_t n,
               const struct location *here)
{
    struct port_details *details = turns_details(port);
    bool local_ready = false;
    for (size_t i = 0; i < n; i++) {
        unsigned before = traits_of(changes[i].before, here);
        unsigned after = traits_of(changes[i].after, here);
        if (!port->whole)
            vec_push(&details->turns,
                     (struct endpoint_turn){changes[i].backend, (uint16_t)before, (uint16_t)after});
        selection_count(&details->counts, before, -1);
        selection_count(&details->counts, after, 1);
        local_ready = local_ready || is_local_ready(before) != is_local_ready(after);
    }
    return local_ready;
}

struct selection_counts turns_undo(const struct port_state *port,
                                   const struct selection_counts *now)
{
    struct selection_counts counts = *now;
    vec_each (&port->details->turns, turn) {
        selection_count(&counts, turn->after, -1);
        selection_count(&counts, turn->before, 1);
    }
    return counts;
}

static void note(backend_change_vec *changes, const struct backend *backend, bool before,
                 bool after)
{
    if (before != after)
        vec_push(changes, (struct backend_change){*backend, after});
}

void turns_sum_up(const struct port_state *port, const struct selection_basis *basis,
                  uint8_t needed, struct difference *out)
{
    vec_clear(&out->cluster);
    vec_clear(&out->local);
    vec_clear(&out->hairpins);
    out->serving = out->names_node = out->names_here = false;
    vec_each (&port->details->turns, turn) {
        unsigned before = selection_sets(turn->before, basis) & needed;
        unsigned after = selection_sets(turn->after, basis) & needed;
        note(&out->cluster, &turn->backend, before & SET_CLUSTER, after & SET_CLUSTER);
        note(&out->local, &turn->backend, before & SET_LOCAL, after & SET_LOCAL);
        note(&out->hairpins, &turn->backend, before && turn->before & TRAIT_LOCAL,
             after && turn->after & TRAIT_LOCAL);
        out->serving = out->serving || ((turn->before ^ turn->after) & TRAIT_SERVING) != 0;
        out->names_node = out->names_node || (turn->after & TRAIT_NAMES_NODE) != 0;
        out->names_here = out->names_here || (turn->after & TRAIT_LOCAL) != 0;
    }
}

bool turns_has_some(const struct port_state *port)
{
    return port->details && port->details->turns.n > 0;
}

void turns_forget(struct port_state *port)
{
    struct port_details *details = port->details;
    if (!details)
        return;
    vec_free(&details->turns);
    if (details->many || details->hairpins.n > 0)
        return;
    vec_free(&details->hairpins);
    free(details);
    port->details = NULL;
}

void difference_free(struct difference *difference)
{
    vec_free(&difference->cluster);
    vec_free(&difference->local);
    vec_free(&difference->hairpins);
}
