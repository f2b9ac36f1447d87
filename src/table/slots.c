/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "slots.h"

#include "element.h"

#include <stdlib.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

typedef VEC(uint32_t) slot_vec;

static const struct backend *find_backend(const struct backends *in, const struct backend *backend)
{
    return in->n ? bsearch(backend, in->v, in->n, sizeof(*in->v), backend_compare) : NULL;
}

/* ---- filling slots ---- */

/* Keeps in @open only the slots whose backend is not in @rest, or is a duplicate; marks the others'
 * backends in @placed. */
static void keep_places(const struct backends *old, const struct backends *rest, bool *placed,
                        slot_vec *open)
{
    size_t n = 0;
    vec_each (open, slot) {
        const struct backend *current = &old->v[*slot];
        const struct backend *found = slot_is_empty(current) ? NULL : find_backend(rest, current);
        if (found && !placed[found - rest->v])
            placed[found - rest->v] = true;
        else
            open->v[n++] = *slot;
    }
    open->n = n;
}

/* Puts @rest into the slots @open and, beyond the old ones, new slots: exactly enough. */
static void fill(const struct backends *old, const struct backends *rest, slot_vec *open,
                 struct slot_plan *plan)
{
    if (rest->n == 0)
        return;
    bool *placed = xcalloc(rest->n, sizeof(*placed));
    size_t next = 0, n_added = 0;
    keep_places(old, rest, placed, open);
    vec_each (open, slot) {
        while (placed[next])
            next++;
        const struct backend *backend = &rest->v[next++];
        if (slot_is_empty(&old->v[*slot]) || !backend_equal(&old->v[*slot], backend))
            vec_push(&plan->moves, (struct slot_move){*slot, *backend});
    }
    for (size_t i = next; i < rest->n; i++)
        n_added += !placed[i];
    if (n_added)
        plan->added = xreallocarray(NULL, n_added, sizeof(*plan->added));
    for (size_t i = next, at = 0; at < n_added; i++)
        if (!placed[i])
            plan->added[at++] = rest->v[i];
    free(placed);
}

static void open_slots(slot_vec *open, size_t from, size_t to)
{
    vec_reserve(open, to > from ? to - from : 0);
    for (size_t slot = from; slot < to; slot++)
        vec_push(open, (uint32_t)slot);
}

/* Plans to have exactly @desired in the slots from 0. @old are the existing slots (unsorted, some
 * may be empty). @plan must be empty. */
static void arrange_slots(const struct backends *old, const struct backends *desired,
                          struct slot_plan *plan)
{
    slot_vec open = {0};
    open_slots(&open, 0, smaller(old->n, desired->n));
    fill(old, desired, &open, plan);
    vec_free(&open);
}

/* ---- slots from a difference ---- */

/* A filter, one bit per hash: tells in a few instructions that most backends are not in a small
 * set. */
#define FILTER_BITS 12

struct filter {
    uint64_t words[(1 << FILTER_BITS) / 64];
};

/* Short, as it dominates the cost of a change in a large Service. */
static unsigned filter_hash(const struct backend *backend)
{
    uint64_t low, high;
    memcpy(&low, backend->address.bytes, sizeof(low));
    memcpy(&high, backend->address.bytes + sizeof(low), sizeof(high));
    uint64_t mixed = low ^ high ^ (uint64_t)backend->port << 48;
    return (unsigned)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FILTER_BITS));
}

static void filter_add(struct filter *filter, const struct backend *backend)
{
    unsigned hash = filter_hash(backend);
    filter->words[hash / 64] |= 1ULL << hash % 64;
}

static bool filter_may_have(const struct filter *filter, const struct backend *backend)
{
    unsigned hash = filter_hash(backend);
    return filter->words[hash / 64] >> hash % 64 & 1;
}

/* With fewer slots, a filter costs more than it saves. */
#define FILTERED_FROM 64

/* Finds the slots of @went among the first @n_used, ascending. */
static void find_slots(const struct backends *old, size_t n_used, const struct backends *went,
                       slot_vec *out)
{
    struct filter filter;
    bool filtered = n_used >= FILTERED_FROM;
    if (went->n == 0)
        return;
    if (filtered) {
        memset(&filter, 0, sizeof(filter));
        for (size_t i = 0; i < went->n; i++)
            filter_add(&filter, &went->v[i]);
    }
    for (size_t slot = 0; slot < n_used && out->n < went->n; slot++) {
        const struct backend *current = &old->v[slot];
        if ((!filtered || filter_may_have(&filter, current)) && find_backend(went, current))
            vec_push(out, (uint32_t)slot);
    }
}

/* The common case: one backend is removed, added, or replaced, and nothing needs sorting. */
static bool rearrange_one(const struct backends *old, size_t n_used, const struct backend *went,
                          const struct backend *came, struct slot_plan *plan)
{
    size_t slot = went ? 0 : n_used;
    while (went && slot < n_used && !backend_equal(&old->v[slot], went))
        slot++;
    if (went && slot == n_used)
        return false;
    if (!came && slot + 1 == n_used)
        return true;
    const struct backend *backend = came ? came : &old->v[n_used - 1];
    if (slot == old->n) {
        plan->added = xreallocarray(NULL, 1, sizeof(*plan->added));
        *plan->added = *backend;
    } else if (slot_is_empty(&old->v[slot]) || !backend_equal(&old->v[slot], backend)) {
        vec_push(&plan->moves, (struct slot_move){(uint32_t)slot, *backend});
    }
    return true;
}

static bool rearrange_many(const struct backends *old, size_t n_used, const struct backends *went,
                           const struct backends *came, struct slot_plan *plan)
{
    slot_vec gone = {0}, open = {0};
    VEC(struct backend) rest = {0};
    find_slots(old, n_used, went, &gone);
    bool found = gone.n == went->n;
    size_t n = n_used - went->n + came->n, next = 0;
    if (found) {
        for (; next < gone.n && gone.v[next] < n; next++)
            vec_push(&open, gone.v[next]);
        open_slots(&open, n_used, smaller(n, old->n));
        for (size_t i = 0; i < came->n; i++)
            vec_push(&rest, came->v[i]);
        for (size_t slot = n; slot < n_used; slot++) {
            if (next < gone.n && gone.v[next] == slot)
                next++;
            else
                vec_push(&rest, old->v[slot]);
        }
        if (rest.n > came->n)
            vec_sort(&rest, backend_compare);
        fill(old, &(struct backends){rest.v, rest.n}, &open, plan);
    }
    vec_free(&gone);
    vec_free(&open);
    vec_free(&rest);
    return found;
}

/* The same from a difference: of the backends in the first @n_used slots of @old, @went are removed
 * and @came added. Scans the slots once. False, without a plan, if a backend of @went is missing.
 */
static bool rearrange_slots(const struct backends *old, size_t n_used, const struct backends *went,
                            const struct backends *came, struct slot_plan *plan)
{
    if (went->n + came->n == 0)
        return true;
    if (went->n <= 1 && came->n <= 1)
        return rearrange_one(old, n_used, went->n ? went->v : NULL, came->n ? came->v : NULL, plan);
    return rearrange_many(old, n_used, went, came, plan);
}

/* ---- desired state ---- */

static struct slot_change *get_change(struct slot_table *table)
{
    if (!table->change)
        table->change = xcalloc(1, sizeof(*table->change));
    return table->change;
}

static void drop_change(struct slot_table *table)
{
    if (!table->change)
        return;
    free(table->change->desired);
    vec_free(&table->change->plan.moves);
    free(table->change->plan.added);
    free(table->change);
    table->change = NULL;
    table->n_added = 0;
}

static struct backend *copy_of(const struct backend *backends, size_t n)
{
    if (n == 0)
        return NULL;
    struct backend *copy = xreallocarray(NULL, n, sizeof(*copy));
    memcpy(copy, backends, n * sizeof(*copy));
    return copy;
}

/* Takes ownership of the array. */
static void set_list(struct slot_table *table, struct backend *backends, size_t n)
{
    drop_change(table);
    get_change(table)->desired = backends;
    table->n_desired = (uint32_t)n;
}

void slots_set(struct slot_table *table, const struct backend *backends, size_t n)
{
    set_list(table, copy_of(backends, n), n);
}

enum slots_verdict slots_try_change(struct slot_table *table, const backend_change_vec *changes,
                                    enum backend_set set, size_t most)
{
    const struct backends old = {table->slots, table->n_slots};
    backend_vec went = {0}, came = {0};
    struct slot_plan plan = {.added = NULL};
    enum slots_verdict verdict = SLOTS_CHANGED;
    /* At the limit there may be backends not known here. */
    if (table->change || table->n_slots < table->n_desired || table->n_desired >= MAX_BACKENDS)
        return SLOTS_UNKNOWN;
    vec_each (changes, change)
        if (backend_comes(change, set))
            vec_push(&came, change->backend);
        else if (backend_goes(change, set))
            vec_push(&went, change->backend);
    if (went.n + came.n == 0)
        return SLOTS_CHANGED;
    if (table->n_desired + came.n > smaller(MAX_BACKENDS, table->n_slots + most) + went.n)
        verdict = SLOTS_UNKNOWN;
    else if (went.n > table->n_desired ||
             !rearrange_slots(&old, table->n_desired, &(struct backends){went.v, went.n},
                              &(struct backends){came.v, came.n}, &plan))
        verdict = SLOTS_MISTAKEN;
    if (verdict == SLOTS_CHANGED) {
        *get_change(table) = (struct slot_change){.planned = true, .plan = plan};
        table->n_desired += (uint32_t)came.n - (uint32_t)went.n;
        table->n_added = (uint32_t)slots_missing(table);
    }
    vec_free(&went);
    vec_free(&came);
    return verdict;
}

/* ---- lists and plans ---- */

/* The first @count of the existing slots, with the plan and @n_added of the slots that it adds. */
static backend_vec list_slots(const struct slot_table *table, uint32_t count, size_t n_added)
{
    backend_vec list = {0};
    vec_append(&list, table->slots, smaller(count, table->n_slots));
    if (table->change) {
        vec_each (&table->change->plan.moves, move)
            if (move->slot < list.n)
                list.v[move->slot] = move->backend;
        vec_append(&list, table->change->plan.added, n_added);
    }
    return list;
}

backend_vec slots_planned(const struct slot_table *table)
{
    return list_slots(table, table->n_desired, table->n_added);
}

static backend_vec list_desired(const struct slot_table *table, uint32_t count)
{
    backend_vec list = list_slots(table, count, slots_missing(table)), kept = {0};
    vec_each (&list, backend)
        if (!slot_is_empty(backend))
            vec_push(&kept, *backend);
    vec_free(&list);
    vec_sort(&kept, backend_compare);
    return kept;
}

void slots_list(struct slot_table *table, uint32_t count)
{
    if (table->change && !table->change->planned)
        return;
    const backend_vec list = list_desired(table, table->change ? table->n_desired : count);
    set_list(table, list.v, list.n);
}

void slots_make_plan(struct slot_table *table)
{
    struct slot_change *change = table->change;
    if (!change || change->planned)
        return;
    change->planned = true;
    if (table->n_slots == 0) { /* all slots are new */
        change->plan.added = change->desired;
    } else {
        const struct backends old = {table->slots, table->n_slots},
                              new = {change->desired, table->n_desired};
        arrange_slots(&old, &new, &change->plan);
        free(change->desired);
    }
    change->desired = NULL;
}

/* ---- commits ---- */

static void drop_slots(struct slot_table *table, struct slot_range range)
{
    if (range.from == range.to)
        return;
    if (range.to == table->n_slots)
        table->n_slots = range.from;
    else
        memset(table->slots + range.from, 0, (range.to - range.from) * sizeof(*table->slots));
}

/* Appends the first @n of those that the plan adds. */
static void append_slots(struct slot_table *table, struct slot_plan *plan, uint32_t n)
{
    const size_t missing = slots_missing(table), size = sizeof(*table->slots);
    if (n == 0)
        return;
    if (table->n_slots == 0 && n == missing) {
        free(table->slots);
        table->slots = plan->added;
        plan->added = NULL;
    } else {
        table->slots = xreallocarray(table->slots, table->n_slots + n, size);
        memcpy(table->slots + table->n_slots, plan->added, n * size);
        memmove(plan->added, plan->added + n, (missing - n) * size);
    }
    table->n_slots += n;
}

void slots_apply(struct slot_table *table, struct slot_range emptied)
{
    struct slot_change *change = table->change;
    if (!change)
        return;
    vec_each (&change->plan.moves, move)
        table->slots[move->slot] = move->backend;
    vec_free(&change->plan.moves);
    append_slots(table, &change->plan, table->n_added);
    table->n_added = 0;
    drop_slots(table, emptied);
    if (slots_missing(table) == 0)
        drop_change(table);
}

/* ---- the kernel's slots ---- */

void slots_forget(struct slot_table *table)
{
    free(table->slots);
    table->slots = NULL;
    table->n_slots = 0;
}

void slots_put(struct slot_table *table, uint32_t slot, const struct backend *backend)
{
    if (slot >= table->n_slots) {
        table->slots = xreallocarray(table->slots, slot + 1, sizeof(*table->slots));
        memset(table->slots + table->n_slots, 0,
               (slot + 1 - table->n_slots) * sizeof(*table->slots));
        table->n_slots = slot + 1;
    }
    table->slots[slot] = *backend;
}

void slots_clear(struct slot_table *table)
{
    drop_change(table);
    slots_forget(table);
}
