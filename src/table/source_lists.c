/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source_lists.h"

#include "plain.h"
#include "state.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct source_list {
    struct hash_link link; /* by prefixes */
    struct hash_link by_number;
    uint32_t number;   /* while it is held; else 0 */
    uint32_t refs;     /* service ports that desire it */
    uint32_t holds;    /* with one, its elements are desired */
    uint32_t leaving;  /* of these, those in lists->left */
    cidr_vec prefixes; /* ascending */
    bool is_twin;      /* another one has the same content, and is in by_content */
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
    list->is_twin = find_content(lists, prefixes) != NULL;
    list->prefixes = *prefixes;
    memset(prefixes, 0, sizeof(*prefixes));
    if (!list->is_twin)
        hash_table_add(&lists->by_content, list_key, &list->link);
    return list;
}

static void free_unused(struct source_lists *lists, struct source_list *list)
{
    if (list->refs > 0 || list->holds > 0)
        return;
    if (!list->is_twin)
        hash_table_remove(&lists->by_content, &list->link);
    vec_free(&list->prefixes);
    free(list);
}

/* ---- elements ---- */

/* A free number always exists: memory cannot hold that many lists. */
static uint32_t new_number(struct source_lists *lists)
{
    do
        lists->last_number = lists->last_number % MOST_LISTS + 1;
    while (find_number(lists, lists->last_number));
    return lists->last_number;
}

static void hold(struct ruleset *rs, struct source_list *list, uint32_t number)
{
    if (list->holds++ > 0)
        return;
    list->number = number;
    hash_table_add(&rs->lists.by_number, key_by_number, &list->by_number);
    vec_each (&list->prefixes, prefix) {
        const struct key key = key_of_source(rs->family, number, prefix);
        plain_desire(rs, SET_ALLOWED_SOURCES, &key, NULL);
    }
}

static void release(struct ruleset *rs, struct source_list *list)
{
    if (--list->holds > 0)
        return;
    vec_each (&list->prefixes, prefix) {
        const struct key key = key_of_source(rs->family, list->number, prefix);
        plain_drop(rs, SET_ALLOWED_SOURCES, &key);
    }
    hash_table_remove(&rs->lists.by_number, &list->by_number);
    list->number = 0;
    free_unused(&rs->lists, list);
}

/* ---- desired lists ---- */

uint32_t port_list_value(const struct port_entry *port)
{
    return port->sources ? value_of_list(port->sources->number) : 0;
}

void port_hold_sources(struct ruleset *rs, struct port_entry *port, bool holds)
{
    struct source_list *list = port->sources;
    if (!list || port->holds_sources == holds)
        return;
    port->holds_sources = holds;
    if (!holds)
        release(rs, list);
    else
        hold(rs, list, list->number ? list->number : new_number(&rs->lists));
}

static struct source_list *get(struct ruleset *rs, const struct address_range *ranges, size_t n)
{
    cidr_vec prefixes = {0};
    for (size_t i = 0; i < n; i++)
        range_prefixes(rs->family, &ranges[i], &prefixes);
    struct source_list *list = find_content(&rs->lists, &prefixes);
    if (!list)
        list = make(&rs->lists, &prefixes);
    vec_free(&prefixes);
    return list;
}

void port_set_sources(struct ruleset *rs, struct port_entry *port,
                      const struct address_range *ranges, size_t n)
{
    struct source_list *list = ranges ? get(rs, ranges, n) : NULL, *before = port->sources;
    if (list == before)
        return;
    port_hold_sources(rs, port, false);
    port->sources = list;
    if (list)
        list->refs++;
    if (list && list->holds > 0)
        port_hold_sources(rs, port, true); /* so that it is not deleted before the plan */
    if (!before)
        return;
    before->refs--;
    free_unused(&rs->lists, before);
}

/* ---- applied lists ---- */

static void leave(struct source_lists *lists, struct source_list *list)
{
    list->leaving++;
    vec_push(&lists->left, (struct left_list){list, lists->now});
}

void source_lists_lead(struct ruleset *rs, uint32_t before, uint32_t after)
{
    struct source_lists *lists = &rs->lists;
    struct source_list *from = find_number(lists, list_of_value(before)),
                       *to = find_number(lists, list_of_value(after));
    if (to)
        hold(rs, to, to->number);
    if (from)
        leave(lists, from);
}

/* Drops the holds of the first @n lists that were left. */
static void drop_left(struct ruleset *rs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rs->lists.left.v[i].list->leaving--;
        release(rs, rs->lists.left.v[i].list);
    }
    vec_drop_first(&rs->lists.left, n);
}

void source_lists_trim(struct ruleset *rs, double now)
{
    struct source_lists *lists = &rs->lists;
    size_t n = 0;
    lists->now = now;
    while (n < lists->left.n && now >= lists->left.v[n].at + RULESET_TRIM_DELAY)
        n++;
    drop_left(rs, n);
}

double source_lists_due(const struct source_lists *lists)
{
    vec_each (&lists->left, it)
        if (it->list->leaving == it->list->holds)
            return it->at + RULESET_TRIM_DELAY;
    return 0;
}

void source_lists_forget(struct ruleset *rs)
{
    drop_left(rs, rs->lists.left.n);
    vec_free(&rs->lists.left);
}

void source_lists_keep(struct ruleset *rs, uint32_t value)
{
    struct source_list *list = find_number(&rs->lists, list_of_value(value));
    if (!list)
        return;
    list->refs++;
    vec_push(&rs->lists.kept, (struct kept_list){list, list->number});
}

void source_lists_unkeep(struct ruleset *rs)
{
    vec_each (&rs->lists.kept, it) {
        it->list->refs--;
        free_unused(&rs->lists, it->list);
    }
    vec_free(&rs->lists.kept);
}

/* ---- the kernel's lists ---- */

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
    vec_sort(out, compare_found);
}

/* It stays for as long as packets may have been led to it. */
static void hold_found(struct ruleset *rs, struct source_list *list, uint32_t number)
{
    hold(rs, list, number);
    leave(&rs->lists, list);
}

/* Takes ownership of the prefixes. */
static void adopt_list(struct ruleset *rs, uint32_t number, cidr_vec *prefixes)
{
    struct source_list *list = find_content(&rs->lists, prefixes);
    if (!find_number(&rs->lists, number))
        hold_found(rs, list && !list->number ? list : make(&rs->lists, prefixes), number);
    vec_free(prefixes);
}

/* One of its values may name a list without elements. */
static void adopt_list_of(struct ruleset *rs, const struct port_entry *port)
{
    const uint32_t value = entry_applied(SET_SOURCE_LISTS, &port->entry);
    cidr_vec none = {0};
    if (value)
        adopt_list(rs, list_of_value(value), &none);
    source_lists_lead(rs, 0, value);
}

void source_lists_adopt(struct ruleset *rs, double now)
{
    found_source_vec found = {0};
    rs->lists.now = now;
    vec_each (&rs->lists.kept, it)
        if (!it->list->number)
            hold_found(rs, it->list, it->number);
    find_sources(rs, &found);
    for (size_t i = 0; i < found.n;) {
        const uint32_t number = found.v[i].list;
        cidr_vec prefixes = {0};
        for (; i < found.n && found.v[i].list == number; i++)
            vec_push(&prefixes, found.v[i].prefix);
        adopt_list(rs, number, &prefixes);
    }
    vec_free(&found);
    if (instances_have(&rs->instances, (struct instance){TEMPLATE_SOURCE_RANGES, 0}))
        hash_table_each (&rs->ports, const struct port_entry, port)
            adopt_list_of(rs, port);
}
