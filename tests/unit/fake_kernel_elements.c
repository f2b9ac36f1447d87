/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adding, deleting and looking up elements as the kernel does. What it says to ranges was found by
 * trying (kernel_cases.h), odd answers too: each end of a range is an element of its own, and is
 * judged by its neighbours alone. So some ranges that overlap are taken: one that ends where
 * another does, and one that reaches into a range without an end.
 */
#include "fake_kernel_state.h"

#include <errno.h>
#include <string.h>

static struct fake_element *find_same(const struct fake_set *set, const struct fake_element *like)
{
    return fake_find_key(like->is_end ? &set->ends : &set->elements, like->key, like->key_length);
}

/* ---- ranges ---- */

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
    hash_table_each (&set->elements, const struct fake_element, e)
        vec_push(out, e);
    hash_table_each (&set->ends, const struct fake_element, e)
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

/* ---- all ---- */

static int judge_kind(const struct fake_set *set, const struct fake_element *element)
{
    bool is_wrong = element->is_end && !set->interval;
    return is_wrong || element->key_length != set->key_length ? EINVAL : 0;
}

static bool is_equal(const struct fake_element *a, const struct fake_element *b)
{
    return memcmp(a->data, b->data, FAKE_BYTES) == 0 && strcmp(a->chain, b->chain) == 0;
}

int fake_add_element(struct fake_set *set, const struct fake_element *element)
{
    const struct fake_element *old = find_same(set, element);
    int why = judge_kind(set, element);
    if (why || element->data_length != set->data_length)
        return EINVAL;
    if (old)
        return is_equal(old, element) ? 0 : EEXIST;
    if (set->interval)
        why = judge_neighbours(set, element);
    if (why == 0)
        fake_insert(set, element);
    return why;
}

int fake_delete_element(struct fake_set *set, const struct fake_element *element)
{
    if (judge_kind(set, element))
        return EINVAL;
    struct fake_element *old = find_same(set, element);
    if (!old)
        return ENOENT;
    fake_remove(set, old);
    return 0;
}

/* The start at or right below @key, if no end comes between. */
static struct fake_element *lookup_single(const struct fake_set *set, const uint8_t *key)
{
    struct fake_element *found = NULL;
    hash_table_each (&set->elements, struct fake_element, e)
        if (memcmp(e->key, key, set->key_length) <= 0 &&
            (!found || memcmp(e->key, found->key, set->key_length) > 0))
            found = e;
    hash_table_each (&set->ends, const struct fake_element, e)
        if (found && memcmp(e->key, key, set->key_length) <= 0 &&
            memcmp(e->key, found->key, set->key_length) > 0)
            return NULL;
    return found;
}

struct fake_element *fake_lookup(const struct fake_set *set, const uint8_t *key)
{
    return set->interval ? lookup_single(set, key)
                         : fake_find_key(&set->elements, key, set->key_length);
}
