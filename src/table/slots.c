/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "slots.h"

#include <string.h>

typedef VEC(uint32_t) slot_vec;

bool slot_is_empty(const struct backend *slot)
{
    return slot->port == 0;
}

static const struct backend *find(const struct backends *in, const struct backend *backend)
{
    return in->n ? bsearch(backend, in->v, in->n, sizeof(*in->v), backend_compare) : NULL;
}

/* ---- filling ---- */

/* Leaves of @open just those slots whose backend is none of @rest, or is there twice; notes in
 * @placed whose is. */
static void keep_places(const struct backends *old, const struct backends *rest, bool *placed,
                        slot_vec *open)
{
    size_t n = 0;
    vec_each (open, slot) {
        const struct backend *held = &old->v[*slot];
        const struct backend *found = slot_is_empty(held) ? NULL : find(rest, held);
        if (found && !placed[found - rest->v])
            placed[found - rest->v] = true;
        else
            open->v[n++] = *slot;
    }
    open->n = n;
}

/* Puts @rest into the slots @open, and those that are left behind the old ones: they fit just so.
 */
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

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void slots_arrange(const struct backends *old, const struct backends *wanted,
                   struct slot_plan *plan)
{
    slot_vec open = {0};
    open_slots(&open, 0, smaller(old->n, wanted->n));
    fill(old, wanted, &open, plan);
    vec_free(&open);
}

/* ---- from a difference ---- */

/* What tells most backends that are not in a small set from those that are, in a few instructions:
 * a bit for each hash. */
#define FILTER_BITS 12

struct filter {
    uint64_t words[(1 << FILTER_BITS) / 64];
};

/* Short: of a large Service it is most of the cost of a change. */
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

/* From so few slots on, a filter costs more than it saves. */
#define FILTERED_FROM 64

/* The slots of @went among the first @n_used, in ascending order. */
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
        const struct backend *held = &old->v[slot];
        if ((!filtered || filter_may_have(&filter, held)) && find(went, held))
            vec_push(out, (uint32_t)slot);
    }
}

/* One backend goes, or one comes, or one takes the place of another: most changes are such, and
 * there is nothing to sort. */
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
            qsort(rest.v, rest.n, sizeof(*rest.v), backend_compare);
        fill(old, &(struct backends){rest.v, rest.n}, &open, plan);
    }
    vec_free(&gone);
    vec_free(&open);
    vec_free(&rest);
    return found;
}

bool slots_rearrange(const struct backends *old, size_t n_used, const struct backends *went,
                     const struct backends *came, struct slot_plan *plan)
{
    if (went->n + came->n == 0)
        return true;
    if (went->n <= 1 && came->n <= 1)
        return rearrange_one(old, n_used, went->n ? went->v : NULL, came->n ? came->v : NULL, plan);
    return rearrange_many(old, n_used, went, came, plan);
}

void slot_plan_clear(struct slot_plan *plan)
{
    vec_free(&plan->moves);
    free(plan->added);
    plan->added = NULL;
}
