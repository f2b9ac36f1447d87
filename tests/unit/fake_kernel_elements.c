/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adding, deleting and looking up elements as the kernel does. What it says to ranges was found by
 * trying (kernel_cases.h), odd answers too:
 *  - In a set of single fields each end of a range is an element of its own, and is judged by its
 *    neighbours alone. So some ranges that overlap are taken: one that ends where another does, and
 *    one that reaches into a range without an end.
 *  - In a concatenated set a new range is compared by its two corners; one around another is taken.
 *    A deletion takes the range that its first key is in, whatever its end.
 */
#include "fake_kernel_parts.h"

#include <errno.h>
#include <string.h>

static struct fake_element *find_same(const struct fake_set *set, const struct fake_element *like)
{
    struct fake_element *found = NULL;
    if (like->is_end)
        HASH_FIND(hh, set->ends, like->key, like->key_length, found);
    else
        HASH_FIND(hh, set->elements, like->key, like->key_length, found);
    return found;
}

/* ---- single fields ---- */

/* Where an element stands among others: an end before the start that has its key. */
static int compare_places(const struct fake_element *a, const struct fake_element *b)
{
    int order = memcmp(a->key, b->key, a->key_length);
    return order ? order : (int)b->is_end - (int)a->is_end;
}

static int compare_refs(const void *a, const void *b)
{
    return compare_places(*(const struct fake_element *const *)a,
                          *(const struct fake_element *const *)b);
}

void fake_sorted(const struct fake_set *set, fake_element_refs *out)
{
    for (const struct fake_element *e = set->elements; e; e = e->hh.next)
        vec_push(out, e);
    for (const struct fake_element *e = set->ends; e; e = e->hh.next)
        vec_push(out, e);
    if (out->n > 0)
        qsort(out->v, out->n, sizeof(*out->v), compare_refs);
}

/* Two starts or two ends must not follow one another. That of a start behind the new one is not
 * looked at. */
static int judge_neighbours(const struct fake_set *set, const struct fake_element *fresh)
{
    fake_element_refs refs = {0};
    size_t place = 0;
    fake_sorted(set, &refs);
    while (place < refs.n && compare_places(refs.v[place], fresh) < 0)
        place++;
    bool clash = place > 0 && refs.v[place - 1]->is_end == fresh->is_end;
    if (fresh->is_end && place < refs.n)
        clash = clash || refs.v[place]->is_end;
    vec_free(&refs);
    return clash ? EEXIST : 0;
}

/* ---- concatenated ---- */

static const uint8_t *last_key(const struct fake_element *element)
{
    return element->has_end ? element->key_end : element->key;
}

/* Each field fills whole registers. */
static size_t padded(uint8_t length)
{
    return ((size_t)length + 3) / 4 * 4;
}

/* Whether each field of @a is at most that of @b. */
static bool is_at_most(const struct fake_set *set, const uint8_t *a, const uint8_t *b)
{
    size_t at = 0;
    for (size_t i = 0; i < set->n_fields; at += padded(set->fields[i++]))
        if (memcmp(a + at, b + at, set->fields[i]) > 0)
            return false;
    return true;
}

static struct fake_element *range_with(const struct fake_set *set, const uint8_t *key)
{
    for (struct fake_element *e = set->elements; e; e = e->hh.next)
        if (is_at_most(set, e->key, key) && is_at_most(set, key, last_key(e)))
            return e;
    return NULL;
}

bool fake_ranges_meet(const struct fake_set *set, const struct fake_element *a,
                      const struct fake_element *b)
{
    return is_at_most(set, a->key, last_key(b)) && is_at_most(set, b->key, last_key(a));
}

static int judge_corners(const struct fake_set *set, const struct fake_element *fresh)
{
    if (!is_at_most(set, fresh->key, last_key(fresh)))
        return EINVAL;
    return range_with(set, fresh->key) || range_with(set, last_key(fresh)) ? EEXIST : 0;
}

/* ---- all ---- */

static int judge_kind(const struct fake_set *set, const struct fake_element *element)
{
    bool is_wrong = (element->is_end && (!set->interval || set->concatenated)) ||
                    (element->has_end && !set->concatenated);
    return is_wrong || element->key_length != set->key_length ? EINVAL : 0;
}

static bool is_equal(const struct fake_element *a, const struct fake_element *b)
{
    return memcmp(last_key(a), last_key(b), FAKE_BYTES) == 0 &&
           memcmp(a->data, b->data, FAKE_BYTES) == 0 && strcmp(a->chain, b->chain) == 0;
}

int fake_add_element(struct fake_set *set, const struct fake_element *element)
{
    const struct fake_element *old = find_same(set, element);
    int why = judge_kind(set, element);
    if (why || element->data_length != set->data_length)
        return EINVAL;
    if (old)
        return is_equal(old, element) ? 0 : EEXIST;
    if (set->concatenated)
        why = judge_corners(set, element);
    else if (set->interval)
        why = judge_neighbours(set, element);
    if (why == 0)
        fake_insert(set, element);
    return why;
}

int fake_delete_element(struct fake_set *set, const struct fake_element *element)
{
    if (judge_kind(set, element))
        return EINVAL;
    struct fake_element *old =
        set->concatenated ? range_with(set, element->key) : find_same(set, element);
    if (!old)
        return ENOENT;
    fake_remove(set, old);
    return 0;
}

/* The start at or right below @key, if no end comes between. */
static struct fake_element *lookup_single(const struct fake_set *set, const uint8_t *key)
{
    struct fake_element *found = NULL;
    for (struct fake_element *e = set->elements; e; e = e->hh.next)
        if (memcmp(e->key, key, set->key_length) <= 0 &&
            (!found || memcmp(e->key, found->key, set->key_length) > 0))
            found = e;
    for (const struct fake_element *e = set->ends; found && e; e = e->hh.next)
        if (memcmp(e->key, key, set->key_length) <= 0 &&
            memcmp(e->key, found->key, set->key_length) > 0)
            return NULL;
    return found;
}

struct fake_element *fake_lookup(const struct fake_set *set, const uint8_t *key)
{
    struct fake_element *found = NULL;
    if (set->concatenated)
        return range_with(set, key);
    if (set->interval)
        return lookup_single(set, key);
    HASH_FIND(hh, set->elements, key, set->key_length, found);
    return found;
}
