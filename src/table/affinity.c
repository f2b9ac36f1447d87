/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "affinity.h"

#include <string.h>

static struct key key_of_value(uint32_t value)
{
    struct key key = {.length = 0};
    key_put_number(&key, value);
    return key;
}

static struct key key_of_number(enum family family, uint32_t port, const struct backend *backend)
{
    struct key key = key_of_value(port);
    key_put_address(&key, family, &backend->address);
    key_put_port(&key, backend->port);
    return key;
}

/* One that no backend has, in the kernel neither; 0 if there is none. */
static uint32_t new_value(struct affinity *affinity, const struct contents *contents, uint32_t port)
{
    for (unsigned tries = 0; !affinity->full && tries < MAX_BACKENDS; tries++) {
        affinity->last = affinity->last % MAX_BACKENDS + 1;
        struct key key = key_of_value(port | affinity->last);
        if (!contents_find(contents, SET_AFFINITY_BACKENDS, &key) &&
            !contents_find(contents, SET_LOCAL_AFFINITY_BACKENDS, &key))
            return port | affinity->last;
    }
    affinity->full = true;
    return 0;
}

/* The value that a backend has already, if any. */
static uint32_t known_value(const struct contents *contents, const struct key *key)
{
    uint32_t value = 0;
    struct content *known = contents_find(contents, SET_AFFINITY_NUMBERS, key);
    if (known && (known->wanted || known->in_kernel))
        memcpy(&value, known->wanted ? content_value(known) : content_kernel_value(known),
               sizeof(value));
    return value;
}

/* Whether a map has something else for P:B, wanted or in the kernel. */
static bool is_of_another(const struct contents *contents, enum table_set set, enum family family,
                          uint32_t value, const struct backend *backend)
{
    struct key key = key_of_value(value), ours = value_of_backend(family, backend);
    struct content *known = contents_find(contents, set, &key);
    return known && (known->wanted || known->in_kernel) &&
           memcmp(known->wanted ? content_value(known) : content_kernel_value(known), ours.bytes,
                  ours.length) != 0;
}

static uint32_t number_of(struct affinity *affinity, enum family family,
                          const struct contents *contents, uint32_t port,
                          const struct backend *backend)
{
    struct key key = key_of_number(family, port, backend);
    uint32_t value = known_value(contents, &key);
    bool keeps = port_of_value(value) == port && low_of_value(value) != 0 &&
                 !is_of_another(contents, SET_AFFINITY_BACKENDS, family, value, backend) &&
                 !is_of_another(contents, SET_LOCAL_AFFINITY_BACKENDS, family, value, backend);
    return keeps ? value : new_value(affinity, contents, port);
}

static enum table_set set_of(const struct affinity_number *number)
{
    return number->local ? SET_LOCAL_AFFINITY_BACKENDS : SET_AFFINITY_BACKENDS;
}

static void want(struct affinity *affinity, enum family family, struct contents *contents,
                 uint32_t port, const struct backends *backends, bool local)
{
    for (size_t i = 0; i < backends->n; i++) {
        struct affinity_number number = {.backend = backends->v[i], .local = local};
        if (slot_is_empty(&number.backend))
            continue;
        number.value = number_of(affinity, family, contents, port, &number.backend);
        if (number.value == 0)
            continue;
        struct key by_backend = key_of_number(family, port, &number.backend),
                   by_value = key_of_value(number.value),
                   backend = value_of_backend(family, &number.backend);
        contents_want(contents, SET_AFFINITY_NUMBERS, &by_backend, &by_value);
        contents_want(contents, set_of(&number), &by_value, &backend);
        vec_push(&affinity->numbers, number);
    }
}

static void drop(enum family family, struct contents *contents,
                 const struct affinity_number *number)
{
    struct key by_backend = key_of_number(family, port_of_value(number->value), &number->backend),
               by_value = key_of_value(number->value);
    contents_drop(contents, SET_AFFINITY_NUMBERS, &by_backend);
    contents_drop(contents, set_of(number), &by_value);
}

void affinity_hold(struct affinity *affinity, enum family family, struct contents *contents,
                   uint32_t port, const struct backends *all, const struct backends *local)
{
    size_t n_before = affinity->numbers.n;
    /* First take, then give back: what stays keeps its number. */
    want(affinity, family, contents, port, all, false);
    want(affinity, family, contents, port, local, true);
    for (size_t i = 0; i < n_before; i++)
        drop(family, contents, &affinity->numbers.v[i]);
    vec_drop_first(&affinity->numbers, n_before);
    affinity->full = affinity->full && n_before == 0;
}

void affinity_release(struct affinity *affinity, enum family family, struct contents *contents)
{
    vec_each (&affinity->numbers, number)
        drop(family, contents, number);
    vec_free(&affinity->numbers);
    affinity->full = false;
}
