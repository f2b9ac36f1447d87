/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "steps.h"

#include "state.h"

/* ---- leftovers ---- */

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Neither needed nor led to: a trim deletes it. */
static bool is_left(const struct port_entry *port, enum port_part which)
{
    return port_count(port, which) && !port_needs(port, which) && port->led.to[which] == 0;
}

/* Slots beyond those that packets can reach, before or after this commit. */
static uint32_t unreached_slots(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    uint32_t reached = is_left(port, which) ? 0 : port_count(port, which);
    if (!slots)
        return 0;
    if (slots->change || port_needs(port, which))
        reached = most(reached, slots->n_desired);
    return slots->n_slots > reached ? slots->n_slots - reached : 0;
}

uint32_t port_kept_slots(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    uint32_t trimmed = port->entry.trim ? slots->n_trimmed : 0;
    if (trimmed > 0 && trimmed > unreached_slots(port, which)) /* desired since a failed commit */
        trimmed = unreached_slots(port, which);
    return slots->n_slots - trimmed;
}

struct slot_range port_emptied_slots(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    struct slot_range emptied = {0, 0};
    if (!slots || !slots->change || !port_needs(port, which) || slots->n_desired < EXACT_COUNTS)
        return emptied;
    const uint32_t kept = port_kept_slots(port, which), drawn = drawn_slots(slots->n_desired);
    if (slots->n_desired < kept)
        emptied = (struct slot_range){slots->n_desired, drawn < kept ? drawn : kept};
    return emptied;
}

/* The elements that trims have to delete. */
static size_t leftovers(const struct port_entry *port)
{
    const bool gives_up_numbers = port->affinity && !port_is_affine(port);
    return unreached_slots(port, PART_ALL) + unreached_slots(port, PART_LOCAL) +
           port_values_left(port) +
           (gives_up_numbers ? port->affinity->numbers.n * AFFINITY_ELEMENTS : 0);
}

/* ---- growth ---- */

size_t port_slot_elements(const struct port_entry *port)
{
    return port_is_affine(port) ? SLOT_ELEMENTS : 1;
}

bool port_grows(const struct port_entry *port)
{
    bool grows = false;
    for (enum port_part which = 0; which < PARTS; which++) {
        const struct slot_table *slots = port_slots(port, which);
        grows = grows || (slots && slots->change && slots->change->planned && slots_missing(slots));
    }
    return grows && !port->entry.quarantined;
}

/* Adds some of the missing slots, of up to @most elements. Returns how many elements. */
static size_t begin_growth(struct ruleset *rs, struct port_entry *port, size_t most)
{
    size_t n = 0;
    for (enum port_part which = 0; which < PARTS; which++)
        n += ruleset_add_slots(rs, port, which, (most - n) / port_slot_elements(port));
    return n;
}

static uint32_t take(uint32_t *from, size_t most)
{
    const uint32_t n = most < *from ? (uint32_t)most : *from;
    *from -= n;
    return n;
}

/* Deletes up to @most of these, beside the few that are not of backends. Returns how many. */
static size_t begin_trim(struct ruleset *rs, struct port_entry *port, uint32_t most)
{
    uint32_t left = most;
    if (leftovers(port) > 0 && left > 0)
        left--; /* for the elements of the service port itself */
    for (enum port_part which = 0; which < PARTS; which++) {
        struct slot_table *slots = port_slots(port, which);
        if (slots)
            slots->n_trimmed = take(&left, unreached_slots(port, which));
    }
    if (port->affinity && !port_is_affine(port)) {
        const size_t before = port->affinity->numbers.n;
        affinity_release(rs, port, port->led.affine > 0 ? SIZE_MAX : left / AFFINITY_ELEMENTS);
        take(&left, (before - port->affinity->numbers.n) * AFFINITY_ELEMENTS);
    }
    return most - left;
}
/* ---- the queue ---- */

static void queue_step(struct ruleset *rs, struct port_entry *port)
{
    if (port->entry.queued)
        return;
    port->entry.queued = true;
    if (rs->steps.n == 0)
        rs->step_time = port->shrunk_at + RULESET_TRIM_DELAY;
    vec_push(&rs->steps, port);
}

static bool can_trim(const struct port_entry *port, double now)
{
    return now >= port->shrunk_at + RULESET_TRIM_DELAY;
}

static bool step_is_due(const struct port_entry *port, double now)
{
    return port_grows(port) || can_trim(port, now);
}

/* Marks @port dirty, to add some of its slots and delete leftovers: up to @most elements. Returns
 * how many. */
static size_t begin_step(struct ruleset *rs, struct port_entry *port, size_t most, double now)
{
    port->entry.queued = false;
    const bool changes = port->entry.dirty;
    ruleset_mark_dirty(rs, &port->entry);
    if (!port->entry.dirty)
        return 0;
    const size_t n = begin_growth(rs, port, most);
    port->trimmed = !changes && n == 0;
    port->entry.trim = can_trim(port, now);
    return port->entry.trim ? n + begin_trim(rs, port, (uint32_t)(most - n)) : n;
}

/* Trims commit at most once per RULESET_TRIM_DELAY, but what is left after a piece goes on in the
 * next turn. */
void steps_begin(struct ruleset *rs, double now)
{
    size_t n = 0, left = ruleset_piece(rs);
    if (rs->steps.n == 0 || now < rs->step_time)
        return;
    rs->step_time = now + RULESET_TRIM_DELAY;
    rs->growing = false;
    vec_each (&rs->steps, it) {
        struct port_entry *port = *it;
        const bool due = step_is_due(port, now);
        if (due && left > SLOT_ELEMENTS) {
            left -= begin_step(rs, port, left, now);
            continue;
        }
        rs->steps.v[n++] = port;
        rs->growing = rs->growing || port_grows(port);
        if (due)
            rs->step_time = now;
    }
    rs->steps.n = n;
}

void steps_failed(struct ruleset *rs)
{
    vec_each (&rs->dirty, it)
        if ((*it)->kind == ENTRY_PORT)
            as_port(*it)->trimmed = false;
}

void steps_finish(struct ruleset *rs, struct port_entry *port, bool goes_on, double now)
{
    const bool in_use = port->entry.desired || port->refs > 0 || port->led.to[PART_ALL] > 0 ||
                        port->led.to[PART_LOCAL] > 0;
    const bool grows = port_grows(port);
    if (port->entry.dirty || port->entry.quarantined)
        return;
    rs->growing = rs->growing || grows;
    if (!goes_on)
        port->shrunk_at = now;
    if (grows || leftovers(port) > 0) {
        queue_step(rs, port);
        if (step_is_due(port, now))
            rs->step_time = now;
    } else if (!in_use && !port->entry.queued) {
        ruleset_free_entry(rs, &port->entry);
    }
}
