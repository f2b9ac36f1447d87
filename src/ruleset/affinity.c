/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "affinity.h"

#include "kube-nftd/base/log.h"

#include <stdlib.h>
#include <string.h>

/* A backend that frontends of the group hold, and its number. */
struct affinity_number {
    UT_hash_handle hh; /* by backend */
    struct backend backend;
    uint32_t refs;
    uint32_t value; /* P:B */
};

/* A service port. */
struct affinity_group {
    UT_hash_handle hh;
    uint32_t group; /* of its routes */
    uint32_t refs;  /* frontends that hold it */
    uint16_t id;    /* P */
    uint16_t last;  /* the B given last */
    bool full;      /* no B was left, and none was given back since */
    struct affinity_number *numbers;
};

_Static_assert(sizeof(struct backend) == 18, "backends are hashed as bytes");

/* ---- P ---- */

static bool get_bit(const uint8_t *bits, uint16_t id)
{
    return bits[id / 8] & 1 << id % 8;
}

static void set_bit(uint8_t *bits, uint16_t id)
{
    bits[id / 8] |= (uint8_t)(1 << id % 8);
}

static void clear_bit(uint8_t *bits, uint16_t id)
{
    bits[id / 8] &= (uint8_t) ~(1 << id % 8);
}

void affinity_note_kernel_id(struct affinity *affinity, uint32_t id)
{
    set_bit(affinity->kernel_ids, (uint16_t)(id >> 16));
}

/* The next one that nobody uses; 0 if there is none. */
static uint16_t new_id(struct affinity *affinity)
{
    for (unsigned tries = 0; tries <= UINT16_MAX; tries++) {
        uint16_t id = ++affinity->last_id;
        if (id != 0 && !get_bit(affinity->given_ids, id) && !get_bit(affinity->kernel_ids, id))
            return id;
    }
    return 0;
}

static struct affinity_group *get_group(struct affinity *affinity, uint32_t number,
                                        uint32_t kernel_id)
{
    struct affinity_group *group;
    HASH_FIND(hh, affinity->groups, &number, sizeof(number), group);
    if (group)
        return group;
    uint16_t id = (uint16_t)(kernel_id >> 16);
    bool known = id != 0 && !get_bit(affinity->given_ids, id);
    if (!known)
        id = new_id(affinity);
    if (id == 0) {
        log_error("ruleset",
                  "a service port gets no session affinity: %u service ports have it already",
                  UINT16_MAX);
        return NULL;
    }
    set_bit(affinity->given_ids, id);
    group = xcalloc(1, sizeof(*group));
    group->group = number;
    group->id = id;
    /* Which ones were given before is not known any more: there may be records of each. */
    group->last = known ? (uint16_t)arc4random() : 0;
    HASH_ADD(hh, affinity->groups, group, sizeof(number), group);
    return group;
}

uint32_t affinity_group_of(const struct affinity *affinity, uint32_t kernel_id)
{
    const struct affinity_group *group = affinity->groups;
    while (group && group->id != kernel_id >> 16)
        group = group->hh.next;
    return group ? group->group : UINT32_MAX - (kernel_id >> 16);
}

/* ---- B ---- */

static struct key key_of_value(uint32_t value)
{
    struct key key = {.length = 0};
    key_put_number(&key, value);
    return key;
}

static struct key key_of_number(const struct affinity *affinity, const struct affinity_group *group,
                                const struct backend *backend)
{
    struct key key = key_of_value((uint32_t)group->id << 16);
    key_put_address(&key, affinity->family, &backend->address);
    key_put_port(&key, backend->port);
    return key;
}

/* One that no backend has, in the kernel neither; 0 if there is none. */
static uint32_t new_value(const struct contents *contents, struct affinity_group *group)
{
    for (unsigned tries = 0; !group->full && tries <= UINT16_MAX; tries++) {
        uint32_t value = (uint32_t)group->id << 16 | ++group->last;
        struct key key = key_of_value(value);
        if (group->last != 0 && !contents_find(contents, SET_AFFINITY_BACKENDS, &key) &&
            !contents_find(contents, SET_LOCAL_AFFINITY_BACKENDS, &key))
            return value;
    }
    group->full = true;
    return 0;
}

/* The value that the kernel has for it already, if any. */
static uint32_t kernel_value(const struct contents *contents, const struct key *key)
{
    uint32_t value = 0;
    struct content *known = contents_find(contents, SET_AFFINITY_NUMBERS, key);
    if (known && known->in_kernel)
        memcpy(&value, content_kernel_value(known), sizeof(value));
    return value;
}

/* Whether a map has something else for P:B, wanted or in the kernel. */
static bool is_of_another(const struct affinity *affinity, const struct contents *contents,
                          enum table_set set, uint32_t value, const struct backend *backend)
{
    struct key key = key_of_value(value);
    struct key ours = value_of_backend(affinity->family, backend);
    struct content *known = contents_find(contents, set, &key);
    return known && memcmp(known->wanted ? content_value(known) : content_kernel_value(known),
                           ours.bytes, ours.length) != 0;
}

/* Whether a value found in the kernel can stay the number of a backend. */
static bool can_keep(const struct affinity *affinity, const struct contents *contents,
                     const struct affinity_group *group, uint32_t value,
                     const struct backend *backend)
{
    return value >> 16 == group->id && (value & UINT16_MAX) != 0 &&
           !is_of_another(affinity, contents, SET_AFFINITY_BACKENDS, value, backend) &&
           !is_of_another(affinity, contents, SET_LOCAL_AFFINITY_BACKENDS, value, backend);
}

static struct affinity_number *make_number(const struct affinity *affinity,
                                           struct contents *contents, struct affinity_group *group,
                                           const struct backend *backend)
{
    struct key key = key_of_number(affinity, group, backend);
    uint32_t value = kernel_value(contents, &key);
    if (!can_keep(affinity, contents, group, value, backend))
        value = new_value(contents, group);
    if (value == 0)
        return NULL;
    struct affinity_number *number = xcalloc(1, sizeof(*number));
    number->backend = *backend;
    number->value = value;
    HASH_ADD(hh, group->numbers, backend, sizeof(*backend), number);
    struct key as_key = key_of_value(value);
    contents_want(contents, SET_AFFINITY_NUMBERS, &key, &as_key);
    return number;
}

static struct affinity_number *get_number(const struct affinity *affinity,
                                          struct contents *contents, struct affinity_group *group,
                                          const struct backend *backend)
{
    struct affinity_number *number;
    HASH_FIND(hh, group->numbers, backend, sizeof(*backend), number);
    if (!number)
        number = make_number(affinity, contents, group, backend);
    if (number)
        number->refs++;
    return number;
}

static void put_number(const struct affinity *affinity, struct contents *contents,
                       struct affinity_group *group, struct affinity_number *number)
{
    if (--number->refs > 0)
        return;
    struct key key = key_of_number(affinity, group, &number->backend);
    contents_drop(contents, SET_AFFINITY_NUMBERS, &key);
    group->full = false;
    HASH_DELETE(hh, group->numbers, number);
    free(number);
}

/* ---- what a frontend holds ---- */

static void hold_backends(const struct affinity *affinity, struct contents *contents,
                          struct affinity_group *group, enum table_set set,
                          const struct backend *backends, size_t n, affinity_number_vec *out)
{
    for (size_t i = 0; i < n; i++) {
        struct affinity_number *number = get_number(affinity, contents, group, &backends[i]);
        if (!number)
            continue; /* connections to it are balanced without memory */
        struct key key = key_of_value(number->value);
        struct key value = value_of_backend(affinity->family, &backends[i]);
        contents_want(contents, set, &key, &value);
        vec_push(out, number);
    }
}

static void release_backends(const struct affinity *affinity, struct contents *contents,
                             struct affinity_group *group, enum table_set set,
                             affinity_number_vec *numbers)
{
    vec_each (numbers, it) {
        struct key key = key_of_value((*it)->value);
        contents_drop(contents, set, &key);
        put_number(affinity, contents, group, *it);
    }
    vec_free(numbers);
}

void affinity_release(struct affinity *affinity, struct contents *contents,
                      struct affinity_hold *hold)
{
    struct affinity_group *group = hold->group;
    if (!group)
        return;
    release_backends(affinity, contents, group, SET_AFFINITY_BACKENDS, &hold->backends);
    release_backends(affinity, contents, group, SET_LOCAL_AFFINITY_BACKENDS, &hold->local_backends);
    hold->group = NULL;
    if (--group->refs > 0)
        return;
    clear_bit(affinity->given_ids, group->id);
    clear_bit(affinity->kernel_ids, group->id);
    HASH_DELETE(hh, affinity->groups, group);
    free(group);
}

uint32_t affinity_hold(struct affinity *affinity, struct contents *contents,
                       struct affinity_hold *hold, uint32_t group_number, uint32_t kernel_id,
                       const struct backend *backends, size_t n,
                       const struct backend *local_backends, size_t n_local)
{
    struct affinity_hold before = *hold;
    struct affinity_group *group =
        group_number ? get_group(affinity, group_number, kernel_id) : NULL;
    memset(hold, 0, sizeof(*hold));
    /* First take, then give back: what stays keeps its number. */
    if (group) {
        group->refs++;
        hold->group = group;
        hold_backends(affinity, contents, group, SET_AFFINITY_BACKENDS, backends, n,
                      &hold->backends);
        hold_backends(affinity, contents, group, SET_LOCAL_AFFINITY_BACKENDS, local_backends,
                      n_local, &hold->local_backends);
    }
    affinity_release(affinity, contents, &before);
    return group ? (uint32_t)group->id << 16 : 0;
}
