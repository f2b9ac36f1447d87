/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "part.h"

#include <string.h>

/* Allocated while there is one. */
struct part_difference {
    VEC(struct backend_change) changes; /* of WISH_CHANGES, in any order */
    struct slot_plan plan;              /* of WISH_PLANNED; what it adds is in part->wanted */
    bool staged;                        /* not all of that goes with this commit, but */
    size_t moves, added;                /* so many of the first ones */
};

static void drop_difference(struct part *part)
{
    if (!part->difference)
        return;
    vec_free(&part->difference->changes);
    slot_plan_clear(&part->difference->plan);
    free(part->difference);
    part->difference = NULL;
}

static struct part_difference *get_difference(struct part *part)
{
    if (!part->difference)
        part->difference = xcalloc(1, sizeof(*part->difference));
    return part->difference;
}

/* ---- lists ---- */

static struct backend *copy_of(const struct backend *backends, size_t n)
{
    if (n == 0)
        return NULL;
    struct backend *copy = xreallocarray(NULL, n, sizeof(*copy));
    memcpy(copy, backends, n * sizeof(*copy));
    return copy;
}

static void take_wish(struct part *part, struct backend *backends, size_t n)
{
    drop_difference(part);
    free(part->wanted);
    part->wanted = backends;
    part->n_wanted = (uint32_t)n & 0xffffff;
    part->wish = WISH_LIST;
}

void part_want(struct part *part, const struct backend *backends, size_t n)
{
    take_wish(part, copy_of(backends, n), n);
}

static void sort(struct backend *backends, size_t n)
{
    if (n)
        qsort(backends, n, sizeof(*backends), backend_compare);
}

void part_want_slots(struct part *part, uint32_t count)
{
    uint32_t n = count < part->n_slots ? count : part->n_slots, kept = 0;
    struct backend *backends = copy_of(part->slots, n);
    for (uint32_t i = 0; i < n; i++)
        if (!slot_is_empty(&backends[i]))
            backends[kept++] = backends[i];
    sort(backends, kept);
    take_wish(part, backends, kept);
}

/* Of a plan, all of it. */
static size_t count_moves(const struct part *part)
{
    return part->difference ? part->difference->plan.moves.n : 0;
}

static size_t count_added(const struct part *part)
{
    return part->wanted && part->n_wanted > part->n_slots ? part->n_wanted - part->n_slots : 0;
}

static struct backend *list_planned(const struct part *part)
{
    size_t n = part->n_wanted, n_held = n < part->n_slots ? n : part->n_slots;
    size_t n_moves = count_moves(part);
    const struct slot_move *moves = n_moves ? part->difference->plan.moves.v : NULL;
    if (n == 0)
        return NULL;
    struct backend *list = xreallocarray(NULL, n, sizeof(*list));
    if (n_held)
        memcpy(list, part->slots, n_held * sizeof(*list));
    for (size_t i = 0; i < n_moves; i++)
        list[moves[i].slot] = moves[i].backend;
    if (n > n_held)
        memcpy(list + n_held, part->wanted, (n - n_held) * sizeof(*list));
    sort(list, n);
    return list;
}

void part_list(struct part *part)
{
    if (part->wish == WISH_LIST)
        return;
    if (part->wish == WISH_IN_FORCE) {
        part_want_slots(part, part->n_wanted);
        return;
    }
    part_plan(part);
    take_wish(part, list_planned(part), part->n_wanted);
}

/* ---- differences ---- */

bool part_can_change(const struct part *part, const struct backend_change *changes, size_t n)
{
    size_t more = 0, less = 0;
    for (size_t i = 0; i < n; i++) {
        more += changes[i].comes;
        less += !changes[i].comes;
    }
    /* What is as many as can be may be more than is known here. */
    return (part->wish == WISH_IN_FORCE ? part->n_slots >= part->n_wanted
                                        : part->wish == WISH_CHANGES) &&
           part->n_wanted < MAX_BACKENDS && part->n_wanted + more <= MAX_BACKENDS + less;
}

void part_change(struct part *part, const struct backend_change *changes, size_t n)
{
    if (n == 0)
        return;
    struct part_difference *difference = get_difference(part);
    size_t n_wanted = part->n_wanted;
    vec_reserve(&difference->changes, n);
    for (size_t i = 0; i < n; i++) {
        vec_push(&difference->changes, changes[i]);
        n_wanted = changes[i].comes ? n_wanted + 1 : n_wanted - 1;
    }
    part->n_wanted = (uint32_t)n_wanted & 0xffffff;
    part->wish = WISH_CHANGES;
}

static int compare_changes(const void *a, const void *b)
{
    const struct backend_change *p = a, *q = b;
    return backend_compare(&p->backend, &q->backend);
}

/* What the changes come to. Those of one backend take turns. */
static void sum_up(struct part_difference *difference, backend_vec *went, backend_vec *came)
{
    struct backend_change *changes = difference->changes.v;
    size_t n = difference->changes.n;
    if (n > 1)
        qsort(changes, n, sizeof(*changes), compare_changes);
    for (size_t i = 0; i < n;) {
        const struct backend *backend = &changes[i].backend;
        int sum = 0;
        for (; i < n && backend_equal(&changes[i].backend, backend); i++)
            sum += changes[i].comes ? 1 : -1;
        if (sum > 0)
            vec_push(came, *backend);
        else if (sum < 0)
            vec_push(went, *backend);
    }
}

static bool has(const backend_vec *sorted, const struct backend *backend)
{
    return sorted->n && bsearch(backend, sorted->v, sorted->n, sizeof(*backend), backend_compare);
}

/* The backends in force, of which there are @n, but for those that went, and those that came. */
static void want_all_of(struct part *part, size_t n, const backend_vec *went,
                        const backend_vec *came)
{
    backend_vec all = {0};
    size_t kept = 0;
    for (size_t i = 0; i < n && i < part->n_slots; i++)
        if (!slot_is_empty(&part->slots[i]) && !has(went, &part->slots[i]))
            vec_push(&all, part->slots[i]);
    vec_each (came, backend)
        vec_push(&all, *backend);
    sort(all.v, all.n);
    for (size_t i = 0; i < all.n; i++)
        if (kept == 0 || !backend_equal(&all.v[kept - 1], &all.v[i]))
            all.v[kept++] = all.v[i];
    take_wish(part, all.v, kept);
}

/* ---- plans ---- */

static void plan_list(struct part *part);

static void plan_changes(struct part *part)
{
    struct part_difference *difference = part->difference;
    const struct backends old = {part->slots, part->n_slots};
    backend_vec went = {0}, came = {0};
    sum_up(difference, &went, &came);
    vec_free(&difference->changes);
    size_t n_used = part->n_wanted + went.n - came.n;
    if (slots_rearrange(&old, n_used, &(struct backends){went.v, went.n},
                        &(struct backends){came.v, came.n}, &difference->plan)) {
        part->wanted = difference->plan.added;
        difference->plan.added = NULL;
    } else {
        part->mistaken = true;
        want_all_of(part, n_used, &went, &came);
        plan_list(part);
    }
    vec_free(&went);
    vec_free(&came);
}

static void plan_list(struct part *part)
{
    if (part->n_slots == 0 || part->n_wanted == 0)
        return; /* all of it is added */
    const struct backends old = {part->slots, part->n_slots}, new = {part->wanted, part->n_wanted};
    struct slot_plan *plan = &get_difference(part)->plan;
    slots_arrange(&old, &new, plan);
    free(part->wanted);
    part->wanted = plan->added;
    plan->added = NULL;
    if (plan->moves.n == 0)
        drop_difference(part);
}

void part_plan(struct part *part)
{
    if (part->wish == WISH_LIST)
        plan_list(part);
    else if (part->wish == WISH_CHANGES)
        plan_changes(part);
    else
        return;
    part->wish = WISH_PLANNED;
}

/* ---- commits ---- */

size_t part_weight(const struct part *part)
{
    return count_moves(part) + count_added(part);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t part_stage(struct part *part, size_t most)
{
    size_t moves = least(count_moves(part), most), added = least(count_added(part), most - moves);
    bool staged = moves < count_moves(part) || added < count_added(part);
    if (staged || part->difference) {
        struct part_difference *difference = get_difference(part);
        difference->staged = staged;
        difference->moves = moves;
        difference->added = added;
    }
    return moves + added;
}

bool part_is_staged(const struct part *part)
{
    return part->difference && part->difference->staged;
}

const struct slot_move *part_moves(const struct part *part, size_t *n)
{
    *n = part_is_staged(part) ? part->difference->moves : count_moves(part);
    return part->difference ? part->difference->plan.moves.v : NULL;
}

const struct backend *part_added(const struct part *part, size_t *n)
{
    *n = part_is_staged(part) ? part->difference->added : count_added(part);
    return part->wanted;
}

/* The rest stays a plan. */
static void apply_stage(struct part *part)
{
    struct part_difference *difference = part->difference;
    size_t added = difference->added, left = count_added(part) - added;
    vec_drop_first(&difference->plan.moves, difference->moves);
    difference->staged = false;
    if (added == 0)
        return;
    part->slots = xreallocarray(part->slots, part->n_slots + added, sizeof(*part->slots));
    memcpy(part->slots + part->n_slots, part->wanted, added * sizeof(*part->slots));
    memmove(part->wanted, part->wanted + added, left * sizeof(*part->wanted));
    part->n_slots += (uint32_t)added;
}

void part_apply(struct part *part)
{
    size_t n_moves;
    const struct slot_move *moves = part_moves(part, &n_moves);
    for (size_t i = 0; i < n_moves; i++)
        part->slots[moves[i].slot] = moves[i].backend;
    if (part_is_staged(part)) {
        apply_stage(part);
        return;
    }
    if (part->n_slots == 0) {
        free(part->slots);
        part->slots = part->wanted;
        part->n_slots = part->wanted ? part->n_wanted : 0;
    } else if (part->n_wanted > part->n_slots && part->wanted) {
        part->slots = xreallocarray(part->slots, part->n_wanted, sizeof(*part->slots));
        memcpy(part->slots + part->n_slots, part->wanted,
               (part->n_wanted - part->n_slots) * sizeof(*part->slots));
        part->n_slots = part->n_wanted;
        free(part->wanted);
    } else {
        free(part->wanted);
    }
    part->wanted = NULL;
    part->wish = WISH_IN_FORCE;
    drop_difference(part);
}

/* ---- the kernel ---- */

void part_forget_kernel(struct part *part)
{
    free(part->slots);
    part->slots = NULL;
    part->n_slots = 0;
}

void part_put_slot(struct part *part, uint32_t slot, const struct backend *backend)
{
    if (slot >= part->n_slots) {
        part->slots = xreallocarray(part->slots, slot + 1, sizeof(*part->slots));
        memset(part->slots + part->n_slots, 0, (slot + 1 - part->n_slots) * sizeof(*part->slots));
        part->n_slots = slot + 1;
    }
    part->slots[slot] = *backend;
}

void part_clear(struct part *part)
{
    drop_difference(part);
    free(part->slots);
    free(part->wanted);
}
