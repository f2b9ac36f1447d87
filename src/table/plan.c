/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Plans slots from the desired state, and what is left of them for later steps. */
#include "plan.h"

#include "state.h"

#include <stdlib.h>

/* ---- numbers of service ports ---- */

/* Service ports that wait for a number take no part in the commit: without one, the elements of all
 * of them would have the same keys. */
static bool drop_waiting(struct ruleset *rs, struct entry *entry)
{
    (void)rs;
    const bool waits = entry->kind == ENTRY_PORT && as_port(entry)->waits;
    if (waits)
        entry_clean(entry);
    return waits;
}

static void request_numbers(struct ruleset *rs)
{
    for (size_t i = 0; i < rs->dirty.n; i++) {
        struct entry *entry = rs->dirty.v[i];
        struct port_entry *port = port_of_entry(entry);
        if (port)
            numbers_request(rs, port);
    }
    ruleset_drop_dirty(rs, drop_waiting);
}

/* ---- planning ---- */

size_t ruleset_add_slots(struct ruleset *rs, struct port_entry *port, enum port_part which,
                         size_t most)
{
    struct slot_table *slots = port_slots(port, which);
    const size_t missing = slots && slots->change ? slots_missing(slots) : 0;
    if (missing == 0 || most == 0 || !slots->change->planned || slots->n_added > 0)
        return 0;
    slots->n_added = (uint32_t)(missing < most ? missing : most);
    const struct backends added = {slots->change->plan.added, slots->n_added};
    if (port_is_affine(port) && port->affinity->current) {
        affinity_add(rs, port, &added, which == PART_LOCAL);
        port->affinity->current = !port->affinity->full;
    }
    return added.n * port_slot_elements(port);
}

static void plan_slots(struct ruleset *rs, struct port_entry *port, size_t most_added)
{
    for (enum port_part which = 0; which < PARTS; which++) {
        struct slot_table *slots = port_slots(port, which);
        if (slots)
            slots_make_plan(slots);
        ruleset_add_slots(rs, port, which, most_added);
    }
}

static void plan_affinity(struct ruleset *rs, struct port_entry *port)
{
    struct affinity *affinity = port->affinity;
    backend_vec planned[PARTS] = {{0}};
    if (!affinity || !port_is_affine(port) || affinity->current)
        return;
    if (port->adopted && affinity->last == 0) /* records with any B may exist */
        affinity->last = arc4random() & PORT_LOW_MASK;
    for (enum port_part which = 0; which < PARTS; which++)
        if (port_slots(port, which))
            planned[which] = slots_planned(port_slots(port, which));
    const struct backends all = {planned[PART_ALL].v, planned[PART_ALL].n},
                          local = {planned[PART_LOCAL].v, planned[PART_LOCAL].n};
    affinity_hold(rs, port, &all, &local);
    vec_free(&planned[PART_ALL]);
    vec_free(&planned[PART_LOCAL]);
}

static bool backends_change(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    return slots && slots->change &&
           (slots->change->plan.moves.n > 0 || slots->n_desired != port_count(port, which));
}

/* Numbers that are not needed any more wait for trims; but while frontends still ask for them, each
 * backend has one, or none has. */
static void give_up_affinity(struct ruleset *rs, struct port_entry *port)
{
    if (port->affinity && !port_is_affine(port) && port->led.affine > 0 && port->entry.desired &&
        (backends_change(port, PART_ALL) || backends_change(port, PART_LOCAL)))
        affinity_release(rs, port, SIZE_MAX);
}

void ruleset_plan_entry(struct ruleset *rs, struct entry *entry, size_t most_added)
{
    if (entry->kind != ENTRY_PORT)
        return;
    struct port_entry *port = as_port(entry);
    port_hold_sources(rs, port, true);
    limits_log_excess(rs, port);
    plan_slots(rs, port, most_added);
    plan_affinity(rs, port);
    give_up_affinity(rs, port);
}

/* One frontend of class 0 has the count of its service port in its value: there is one in a family
 * at most, the cluster IP. */
static void choose_counted(struct port_entry *port)
{
    struct frontend_entry *it = port->frontends;
    if (port->counted || port->refs_plain == 0)
        return;
    while (it->class != 0)
        it = it->next;
    port->counted = it;
}

/* A new count of its service port makes a frontend dirty, and a frontend that needs its element
 * makes a service port dirty. */
static void plan_counts(struct ruleset *rs, const struct entry *entry)
{
    struct port_entry *port = port_of_entry(entry);
    if (!port)
        return;
    choose_counted(port);
    if (port->counted &&
        entry_desired(SET_SERVICES, &port->counted->entry) != port->counted->applied)
        ruleset_mark_dirty(rs, &port->counted->entry);
    if (entry_desired(SET_PORTS, &port->entry) != entry_applied(SET_PORTS, &port->entry))
        ruleset_mark_dirty(rs, &port->entry);
}

void ruleset_plan(struct ruleset *rs, size_t most_added)
{
    request_numbers(rs);
    for (size_t i = 0; i < rs->dirty.n; i++) {
        ruleset_plan_entry(rs, rs->dirty.v[i], most_added);
        plan_counts(rs, rs->dirty.v[i]);
    }
}

#define RANKS ((size_t)PHASES * TABLE_SETS)
#define FEW_DIFFERENCES 16

static size_t rank_of(const struct difference *difference)
{
    return (size_t)difference->phase * TABLE_SETS + difference->set;
}

static void sort_few(struct difference *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const struct difference moved = v[i];
        size_t to = i;
        for (; to > 0 && rank_of(&v[to - 1]) > rank_of(&moved); to--)
            v[to] = v[to - 1];
        v[to] = moved;
    }
}

static void sort_many(struct ruleset *rs)
{
    size_t places[RANKS] = {0}, n = 0;
    vec_each (&rs->differences, it)
        places[rank_of(it)]++;
    for (size_t rank = 0; rank < RANKS; rank++) {
        const size_t begin = n;
        n += places[rank];
        places[rank] = begin;
    }
    struct difference *sorted = xreallocarray(NULL, n, sizeof(*sorted));
    vec_each (&rs->differences, it)
        sorted[places[rank_of(it)]++] = *it;
    free(rs->differences.v);
    rs->differences.v = sorted;
    rs->differences.cap = n;
}

/* By phase and set, else in the order of the dirty entries. In nearly all commits they are few. */
static void sort_differences(struct ruleset *rs)
{
    if (rs->differences.n <= FEW_DIFFERENCES)
        sort_few(rs->differences.v, rs->differences.n);
    else
        sort_many(rs);
}

void ruleset_find_differences(struct ruleset *rs)
{
    vec_clear_few(&rs->differences);
    vec_each (&rs->dirty, it)
        for (enum table_set set = first_set(*it); set < end_of_sets(*it); set++) {
            const uint32_t applied = entry_applied(set, *it), desired = entry_desired(set, *it);
            const enum set_phase phase = desired ? set_schema[set].comes : set_schema[set].goes;
            if (applied != desired)
                vec_push(&rs->differences, (struct difference){*it, phase, set, applied, desired});
        }
    sort_differences(rs);
}
