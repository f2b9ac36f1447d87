/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What can wait goes in portions, one a commit, so that the rest of the loop and changes of others
 * need not wait for all of it. A table that is made where there was none gets its elements so. What
 * is to come is set aside, in the order in which packets may meet it:
 *
 *     plain elements, service ports, frontends, cluster IPs
 *
 * What changes meanwhile is in the next commit, as always; a frontend waits for its service port.
 * In a table that is there, service ports have steps: slots to add, elements to trim.
 */
#include "portions.h"

#include "state.h"

#include <stdlib.h>

/* Elements of a service port beside its slots. */
#define PORT_ELEMENTS 2

static bool is_cluster_ip(const struct entry *entry)
{
    return entry->kind == ENTRY_PLAIN && plain_set(as_plain(entry)) == SET_CLUSTER_IPS;
}

/* Returns true. */
static bool set_aside(struct ruleset *rs, struct entry *entry)
{
    entry->aside = true;
    if (is_cluster_ip(entry))
        vec_push(&rs->portions.last, entry);
    else
        vec_push(&rs->portions.entries, entry);
    return true;
}

/* A service port, and the first of its frontends in sort order, or NULL. */
struct ordered_port {
    struct port_entry *port;
    const struct frontend_entry *first;
};

static int compare_ports(const void *a, const void *b)
{
    const struct ordered_port *p = a, *q = b;
    if (!p->first != !q->first)
        return p->first ? -1 : 1;
    if (p->first && p->first != q->first)
        return compare_frontends(&p->first->frontend, &q->first->frontend);
    return (p->port->id > q->port->id) - (p->port->id < q->port->id);
}

/* Equal contents give equal numbers. */
static void set_ports_aside(struct ruleset *rs)
{
    VEC(struct ordered_port) ports = {0};
    vec_each (&rs->dirty, it)
        if ((*it)->kind == ENTRY_PORT)
            vec_push(&ports,
                     (struct ordered_port){as_port(*it), ruleset_frontend_of(as_port(*it))});
    vec_sort(&ports, compare_ports);
    vec_each (&ports, it) {
        set_aside(rs, &it->port->entry);
        numbers_request(rs, it->port);
        it->port->renumbered = false; /* nothing in the table has the number */
    }
    vec_free(&ports);
}

/* Ranges stay: they go together. */
static bool set_plain_aside(struct ruleset *rs, struct entry *entry)
{
    return entry->kind == ENTRY_PLAIN && set_owner(plain_set(as_plain(entry))) != OWNER_RANGES &&
           set_aside(rs, entry);
}

/* Service ports are already. */
static bool set_frontend_aside(struct ruleset *rs, struct entry *entry)
{
    return entry->aside || (entry->kind == ENTRY_FRONTEND && set_aside(rs, entry));
}

void portions_begin(struct ruleset *rs)
{
    portions_end(rs);
    ruleset_drop_dirty(rs, set_plain_aside);
    set_ports_aside(rs);
    ruleset_drop_dirty(rs, set_frontend_aside);
    rs->portions.left = true;
}

static bool waits_for_port(struct ruleset *rs, struct entry *entry)
{
    const struct port_entry *port = port_of_entry(entry);
    return entry->kind == ENTRY_FRONTEND && port && port->entry.aside && set_aside(rs, entry);
}

static size_t slots_at_once(const struct ruleset *rs, const struct slot_table *slots)
{
    const size_t most = ruleset_most_added(rs);
    return !slots ? 0 : slots->n_desired < most ? slots->n_desired : most;
}

static size_t elements_of(const struct ruleset *rs, const struct entry *entry)
{
    const struct port_entry *port = as_port(entry);
    if (entry->kind != ENTRY_PORT)
        return 1;
    return PORT_ELEMENTS + port_slot_elements(port) *
                               (slots_at_once(rs, &port->all) + slots_at_once(rs, port->local));
}

static size_t take_back(struct ruleset *rs, struct entry *entry)
{
    entry->aside = false;
    vec_push(&rs->dirty, entry);
    return elements_of(rs, entry);
}

/* Takes back what is next, of some @most elements. */
static size_t take_some(struct ruleset *rs, size_t most)
{
    struct portions *portions = &rs->portions;
    size_t n = 0;
    for (; portions->at < portions->entries.n && n < most; portions->at++)
        n += take_back(rs, portions->entries.v[portions->at]);
    for (; portions->last.n > 0 && n < most; portions->last.n--)
        n += take_back(rs, portions->last.v[portions->last.n - 1]);
    return n;
}

void portions_next(struct ruleset *rs)
{
    const size_t most = ruleset_piece(rs);
    if (!rs->portions.left)
        return;
    ruleset_drop_dirty(rs, waits_for_port);
    rs->portions.left = take_some(rs, most) >= most;
}

void portions_end(struct ruleset *rs)
{
    take_some(rs, SIZE_MAX);
    vec_free(&rs->portions.entries);
    vec_free(&rs->portions.last);
    rs->portions = (struct portions){.left = false};
}
