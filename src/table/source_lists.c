/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source_lists.h"

#include "kube-nftd/table.h"
#include "plain.h"
#include "state.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct source_list {
    struct hash_link link; /* by prefixes */
    struct hash_link by_number;
    uint32_t number; /* 0: none yet, and no element desired */
    uint32_t holds, parked;
    cidr_vec prefixes; /* ascending */
    double left_at;
    bool filled; /* its elements are desired */
    bool found;  /* in by_content, unless another list has the same content */
    bool unused; /* in lists->unused; may stay there while held again */
};

_Static_assert(sizeof(struct cidr) == 17, "prefixes are hashed as bytes");

/* Valid for no prefixes, too: a key must not be NULL. */
static struct hash_key key_of_prefixes(const cidr_vec *prefixes)
{
    return (struct hash_key){prefixes->n ? (const void *)prefixes->v : "",
                             prefixes->n * sizeof(*prefixes->v)};
}

static struct hash_key list_key(const struct hash_link *link)
{
    return key_of_prefixes(&((const struct source_list *)link)->prefixes);
}

static struct source_list *find_content(const struct source_lists *lists, const cidr_vec *prefixes)
{
    return hash_table_find(&lists->by_content, list_key, key_of_prefixes(prefixes));
}

static struct source_list *of_number(const struct hash_link *link)
{
    return (void *)((char *)link - offsetof(struct source_list, by_number));
}

static struct hash_key key_by_number(const struct hash_link *link)
{
    return (struct hash_key){&of_number(link)->number, sizeof(uint32_t)};
}

static struct source_list *find_number(const struct source_lists *lists, uint32_t number)
{
    const struct hash_key key = {&number, sizeof(number)};
    const struct hash_link *link = hash_table_find(&lists->by_number, key_by_number, key);
    return link ? of_number(link) : NULL;
}

/* Takes ownership of the prefixes. */
static struct source_list *make(struct source_lists *lists, cidr_vec *prefixes)
{
    struct source_list *list = xcalloc(1, sizeof(*list));
    list->found = !find_content(lists, prefixes);
    list->prefixes = *prefixes;
    memset(prefixes, 0, sizeof(*prefixes));
    if (list->found)
        hash_table_add(&lists->by_content, list_key, &list->link);
    return list;
}

static void give_number(struct source_lists *lists, struct source_list *list, uint32_t number)
{
    list->number = number;
    hash_table_add(&lists->by_number, key_by_number, &list->by_number);
}

/* None of its elements are desired. */
static void leave(struct source_lists *lists, struct source_list *list)
{
    if (list->number)
        hash_table_remove(&lists->by_number, &list->by_number);
    list->number = 0;
    if (list->holds > 0 || list->parked > 0)
        return;
    if (list->found)
        hash_table_remove(&lists->by_content, &list->link);
    vec_free(&list->prefixes);
    free(list);
}

/* ---- holding ---- */

struct source_list *source_list_hold(struct source_list *list)
{
    if (list)
        list->holds++;
    return list;
}

struct source_list *source_lists_hold(struct source_lists *lists,
                                      const struct address_range *ranges, size_t n)
{
    cidr_vec prefixes = {0};
    for (size_t i = 0; i < n; i++)
        range_prefixes(lists->family, &ranges[i], &prefixes);
    struct source_list *list = find_content(lists, &prefixes);
    if (!list)
        list = make(lists, &prefixes);
    vec_free(&prefixes);
    return source_list_hold(list);
}

struct source_list *source_lists_find(const struct source_lists *lists, uint32_t value)
{
    return value ? find_number(lists, list_of_value(value)) : NULL;
}

static void queue_unused(struct source_lists *lists, struct source_list *list)
{
    double due = list->left_at + RULESET_TRIM_DELAY;
    if (lists->unused.n == 0 || due < lists->trim_time)
        lists->trim_time = due;
    if (!list->unused)
        vec_push(&lists->unused, list);
    list->unused = true;
}

void source_lists_release(struct source_lists *lists, struct source_list *list, double left_at)
{
    if (!list)
        return;
    list->left_at = fmax(list->left_at, left_at);
    if (--list->holds > 0)
        return;
    if (list->filled || list->unused)
        queue_unused(lists, list);
    else
        leave(lists, list);
}

/* ---- filling and emptying ---- */

uint32_t source_list_value(const struct source_list *list)
{
    return list ? value_of_list(list->number) : 0;
}

/* A free number always exists: memory cannot hold that many lists. */
static uint32_t new_number(struct source_lists *lists)
{
    do
        lists->last_number = lists->last_number % MOST_LISTS + 1;
    while (find_number(lists, lists->last_number));
    return lists->last_number;
}

static struct key key_of_prefix(const struct source_lists *lists, const struct source_list *list,
                                size_t i)
{
    return key_of_source(lists->family, list->number, &list->prefixes.v[i]);
}

static void empty(struct ruleset *rs, struct source_list *list)
{
    for (size_t i = 0; list->filled && i < list->prefixes.n; i++) {
        const struct key key = key_of_prefix(&rs->lists, list, i);
        plain_drop(rs, SET_ALLOWED_SOURCES, &key);
    }
    list->filled = false;
}

void source_list_fill(struct ruleset *rs, struct source_list *list)
{
    if (!list || list->filled)
        return;
    if (!list->number)
        give_number(&rs->lists, list, new_number(&rs->lists));
    for (size_t i = 0; i < list->prefixes.n; i++) {
        const struct key key = key_of_prefix(&rs->lists, list, i);
        plain_desire(rs, SET_ALLOWED_SOURCES, &key, NULL);
    }
    list->filled = true;
}

void source_lists_park(struct ruleset *rs, struct source_list *list)
{
    if (!list)
        return;
    list->parked++;
    if (list->holds == 1 && list->left_at == 0)
        empty(rs, list);
    source_lists_release(&rs->lists, list, 0);
}

struct source_list *source_lists_unpark(struct source_list *list)
{
    if (list)
        list->parked--;
    return source_list_hold(list);
}

void source_lists_trim(struct ruleset *rs, double now)
{
    struct source_lists *lists = &rs->lists;
    size_t n = 0;
    if (lists->unused.n == 0 || now < lists->trim_time)
        return;
    lists->trim_time = INFINITY;
    vec_each (&lists->unused, it) {
        struct source_list *list = *it;
        double due = list->left_at + RULESET_TRIM_DELAY;
        list->unused = list->holds == 0;
        if (!list->unused)
            continue;
        if (now >= due) {
            empty(rs, list);
            list->unused = false;
            leave(lists, list);
            continue;
        }
        lists->trim_time = fmin(lists->trim_time, due);
        lists->unused.v[n++] = list;
    }
    lists->unused.n = n;
}

/* ---- the kernel's lists ---- */

void source_lists_forget(struct ruleset *rs)
{
    struct source_lists *lists = &rs->lists;
    vec_clear(&lists->unused);
    hash_table_each (&lists->by_number, struct hash_link, link) {
        struct source_list *list = of_number(link);
        empty(rs, list);
        list->unused = false;
        leave(lists, list);
    }
}

/* An element of allowed_sources. */
struct found_source {
    uint32_t list;
    struct cidr prefix;
};

typedef VEC(struct found_source) found_source_vec;

static int compare_found(const void *a, const void *b)
{
    const struct found_source *p = a, *q = b;
    if (p->list != q->list)
        return p->list < q->list ? -1 : 1;
    return memcmp(&p->prefix, &q->prefix, sizeof(p->prefix));
}

static void find_sources(const struct ruleset *rs, found_source_vec *out)
{
    hash_table_each (&rs->plains, struct plain, plain) {
        struct found_source found;
        if (plain_set(plain) == SET_ALLOWED_SOURCES && plain->applied &&
            source_of_key(rs->family, plain_key(plain), plain->key_length, &found.list,
                          &found.prefix))
            vec_push(out, found);
    }
    if (out->n)
        qsort(out->v, out->n, sizeof(*out->v), compare_found);
}

/* The index of the first element of a list, or where it would be. */
static size_t first_of(const found_source_vec *found, uint32_t number)
{
    size_t from = 0, to = found->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (found->v[middle].list < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void adopt_list(struct ruleset *rs, const found_source_vec *found, uint32_t number,
                       double now)
{
    struct source_lists *lists = &rs->lists;
    cidr_vec prefixes = {0};
    if (find_number(lists, number))
        return;
    for (size_t i = first_of(found, number); i < found->n && found->v[i].list == number; i++)
        vec_push(&prefixes, found->v[i].prefix);
    struct source_list *list = find_content(lists, &prefixes);
    if (!list || list->number)
        list = make(lists, &prefixes);
    vec_free(&prefixes);
    give_number(lists, list, number);
    source_list_fill(rs, list);
    list->left_at = now;
    if (list->holds == 0)
        queue_unused(lists, list);
}

void source_lists_adopt(struct ruleset *rs, const list_value_vec *values, double now)
{
    found_source_vec found = {0};
    find_sources(rs, &found);
    vec_each (values, value)
        adopt_list(rs, &found, list_of_value(*value), now);
    vec_each (&found, it)
        adopt_list(rs, &found, it->list, now);
    vec_free(&found);
}
