/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "affinity.h"

#include "fill.h"
#include "plain.h"
#include "state.h"

#include <stdlib.h>
#include <string.h>

static struct key key_by_backend(enum family family, uint32_t port, const struct backend *backend)
{
    struct key key = key_of_number(port);
    key_put_address(&key, family, &backend->address);
    key_put_port(&key, backend->port);
    return key;
}

static enum table_set set_by_value(bool local)
{
    return local ? SET_LOCAL_AFFINITY_BACKENDS : SET_AFFINITY_BACKENDS;
}

/* The value of a plain element, desired or else applied; NULL if none. */
static const uint8_t *known_value(const struct ruleset *rs, enum table_set set,
                                  const struct key *key)
{
    struct plain *known = plain_find(rs, set, key);
    if (!known || (!known->entry.desired && !known->applied))
        return NULL;
    return known->entry.desired ? plain_value(known) : plain_applied_value(known);
}

/* A value that no backend has, not even in the kernel; 0 if none is left. */
static uint32_t new_value(const struct ruleset *rs, struct port_entry *port)
{
    struct affinity *affinity = port->affinity;
    for (unsigned tries = 0; !affinity->full && tries < MAX_BACKENDS; tries++) {
        affinity->last = affinity->last % MAX_BACKENDS + 1;
        struct key key = key_of_number(port->number | affinity->last);
        if (!plain_find(rs, SET_AFFINITY_BACKENDS, &key) &&
            !plain_find(rs, SET_LOCAL_AFFINITY_BACKENDS, &key))
            return port->number | affinity->last;
    }
    affinity->full = true;
    return 0;
}

/* The value a backend already has, unless a map has a different one for it; else a new one. */
static uint32_t value_of(const struct ruleset *rs, struct port_entry *port,
                         const struct backend *backend)
{
    const struct key key = key_by_backend(rs->family, port->number, backend);
    const struct key ours = value_of_backend(rs->family, backend);
    const uint8_t *known = known_value(rs, SET_AFFINITY_NUMBERS, &key);
    uint32_t value = 0;
    if (known)
        memcpy(&value, known, sizeof(value));
    bool keeps = port_of_value(value) == port->number && low_of_value(value) != 0;
    for (int local = 0; keeps && local < 2; local++) {
        const struct key by_value = key_of_number(value);
        const uint8_t *other = known_value(rs, set_by_value(local), &by_value);
        keeps = !other || memcmp(other, ours.bytes, ours.length) == 0;
    }
    return keeps ? value : new_value(rs, port);
}

static void desire(struct ruleset *rs, struct port_entry *port, const struct backend *backend,
                   bool local)
{
    const uint32_t value = slot_is_empty(backend) ? 0 : value_of(rs, port, backend);
    if (value == 0)
        return;
    struct key by_backend = key_by_backend(rs->family, port->number, backend),
               by_value = key_of_number(value), data = value_of_backend(rs->family, backend);
    plain_desire(rs, SET_AFFINITY_NUMBERS, &by_backend, &by_value);
    plain_desire(rs, set_by_value(local), &by_value, &data);
    vec_push(&port->affinity->numbers, (struct affinity_number){*backend, value, local});
}

void affinity_add(struct ruleset *rs, struct port_entry *port, const struct backends *backends,
                  bool local)
{
    for (size_t i = 0; i < backends->n; i++)
        desire(rs, port, &backends->v[i], local);
}

static void drop(struct ruleset *rs, const struct affinity_number *number)
{
    struct key by_backend =
                   key_by_backend(rs->family, port_of_value(number->value), &number->backend),
               by_value = key_of_number(number->value);
    plain_drop(rs, SET_AFFINITY_NUMBERS, &by_backend);
    plain_drop(rs, set_by_value(number->local), &by_value);
}

/* Drops the first @n numbers. */
static void drop_first(struct ruleset *rs, struct affinity *affinity, size_t n)
{
    for (size_t i = 0; i < n; i++)
        drop(rs, &affinity->numbers.v[i]);
    vec_drop_first(&affinity->numbers, n);
}

void affinity_hold(struct ruleset *rs, struct port_entry *port, const struct backends *all,
                   const struct backends *local)
{
    struct affinity *affinity = port->affinity;
    const size_t n_before = affinity->numbers.n;
    /* Acquire before release: remaining backends keep their numbers. */
    affinity_add(rs, port, all, false);
    affinity_add(rs, port, local, true);
    drop_first(rs, affinity, n_before);
    affinity->current = !affinity->full;
    affinity->full = affinity->full && n_before == 0;
}

static bool is_dropped(const struct affinity_number *number, const backend_change_vec *changes)
{
    const struct backend_change *change =
        bsearch(&number->backend, changes->v, changes->n, sizeof(*changes->v), backend_compare);
    return change && backend_goes(change, number->local ? BACKENDS_LOCAL : BACKENDS_CLUSTER);
}

static void drop_going(struct ruleset *rs, struct affinity *affinity,
                       const backend_change_vec *changes)
{
    size_t n = 0;
    vec_each (&affinity->numbers, number)
        if (is_dropped(number, changes))
            drop(rs, number);
        else
            affinity->numbers.v[n++] = *number;
    affinity->numbers.n = n;
}

void affinity_change(struct ruleset *rs, struct port_entry *port, const backend_change_vec *changes)
{
    if (backends_going(changes, BACKENDS_CLUSTER) + backends_going(changes, BACKENDS_LOCAL) > 0)
        drop_going(rs, port->affinity, changes);
    vec_each (changes, change) {
        if (backend_comes(change, BACKENDS_CLUSTER))
            desire(rs, port, &change->backend, false);
        if (backend_comes(change, BACKENDS_LOCAL))
            desire(rs, port, &change->backend, true);
    }
}

void affinity_release(struct ruleset *rs, struct port_entry *port, size_t most)
{
    struct affinity *affinity = port->affinity;
    if (!affinity)
        return;
    for (; affinity->numbers.n > 0 && most > 0; most--)
        drop(rs, &affinity->numbers.v[--affinity->numbers.n]);
    if (affinity->numbers.n == 0)
        vec_free(&affinity->numbers);
    affinity->full = affinity->current = false;
}

/* ---- fill level of the map written by packets, which all service ports share ---- */

static const char MAP_AFFINITY[] = "affinity";

enum { HAS_ROOM, NEARLY_FULL, FULL };

/* Logs each level once, until the level has dropped well below it. */
static void log_level(struct ruleset *rs)
{
    const struct ruleset_stats *stats = &rs->stats;
    const char *family = nft_family_name(rs->family);
    const uint64_t n = stats->records, most = stats->most_records;
    const int level = !stats->records_known ? HAS_ROOM
                      : n >= most           ? FULL
                      : n * 10 >= most * 9  ? NEARLY_FULL
                                            : HAS_ROOM;
    if (level > rs->records_logged && level == FULL)
        log_warn("table",
                 "family=%s records=%u: the session affinity map is full, new clients are balanced "
                 "without affinity until records expire",
                 family, stats->records);
    else if (level > rs->records_logged)
        log_warn("table", "family=%s records=%u of %u for session affinity are in use", family,
                 stats->records, stats->most_records);
    if (level > rs->records_logged || n * 10 < most * 8)
        rs->records_logged = level;
}

void affinity_count_records(struct ruleset *rs, struct nft_socket *socket)
{
    struct ruleset_stats *stats = &rs->stats;
    struct key key = key_of_number(0);
    stats->records = stats->most_records = 0;
    stats->records_known = true;
    vec_each (&rs->base.sets, set)
        if (strcmp(set->name, MAP_AFFINITY) == 0)
            stats->most_records = set->size;
    if (!instances_have(&rs->instances, (struct instance){TEMPLATE_AFFINITY, 0})) {
        rs->records_logged = HAS_ROOM;
        stats->limited[LIMIT_AFFINITY_RECORDS] = 0;
        return;
    }
    key_put_address(&key, rs->family, &(struct address){{0}});
    const enum fill fill = set_fill(rs, socket, MAP_AFFINITY, &key, true, &stats->records);
    stats->records_known = fill != FILL_UNKNOWN;
    if (fill != FILL_COUNTED)
        stats->records = fill == FILL_FULL ? stats->most_records : 0;
    stats->limited[LIMIT_AFFINITY_RECORDS] = stats->records >= stats->most_records;
    log_level(rs);
}
