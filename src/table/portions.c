/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A table that is made where there was none gets its elements in portions, one a commit, so that
 * the rest of the loop need not wait for all of them. What is to come is set aside, in the order in
 * which packets may meet it:
 *
 *     plain elements, service ports, frontends, cluster IPs
 *
 * What changes meanwhile is in the next commit, as always; a frontend waits for its service port.
 */
#include "state.h"

#include <stdlib.h>

/* In elements: some 30 milliseconds. */
#define PORTION 16384
/* Elements of a service port beside its slots. */
#define PORT_ELEMENTS 2

static void set_aside(struct ruleset *rs, struct entry *entry)
{
    entry->aside = true;
    vec_push(&rs->portions.entries, entry);
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
        if ((*it)->is_port)
            vec_push(&ports,
                     (struct ordered_port){as_port(*it), ruleset_frontend_of(as_port(*it))});
    if (ports.n)
        qsort(ports.v, ports.n, sizeof(*ports.v), compare_ports);
    vec_each (&ports, it) {
        set_aside(rs, &it->port->entry);
        numbers_request(rs, it->port);
        it->port->renumbered = false; /* nothing in the table has the number */
    }
    vec_free(&ports);
}

void portions_begin(struct ruleset *rs)
{
    portions_end(rs);
    set_ports_aside(rs);
    vec_each (&rs->dirty, it)
        if (!(*it)->is_port)
            set_aside(rs, *it);
    vec_free(&rs->dirty);
    plain_set_aside(&rs->plain);
    rs->portions.left = true;
}

static bool waits_for_port(const struct entry *entry)
{
    const struct port_entry *port = entry->is_port ? NULL : as_frontend(entry)->port;
    return port && port->entry.aside;
}

static void wait_for_ports(struct ruleset *rs)
{
    size_t n = 0;
    vec_each (&rs->dirty, it)
        if (waits_for_port(*it))
            set_aside(rs, *it);
        else
            rs->dirty.v[n++] = *it;
    rs->dirty.n = n;
}

static size_t elements_of(const struct entry *entry)
{
    const struct port_entry *port = as_port(entry);
    if (!entry->is_port)
        return 1;
    return PORT_ELEMENTS + port->all.n_desired + (port->local ? port->local->n_desired : 0);
}

/* Takes back the next entries, of some @most elements. */
static size_t take_entries(struct ruleset *rs, size_t most)
{
    struct portions *portions = &rs->portions;
    size_t n = 0;
    for (; portions->at < portions->entries.n && n < most; portions->at++) {
        struct entry *entry = portions->entries.v[portions->at];
        entry->aside = false;
        vec_push(&rs->dirty, entry);
        n += elements_of(entry);
    }
    return n;
}

void portions_next(struct ruleset *rs)
{
    const size_t most = rs->config.portion ? rs->config.portion : PORTION;
    struct portions *portions = &rs->portions;
    if (!portions->left)
        return;
    wait_for_ports(rs);
    size_t n = plain_take_back(&rs->plain, most, false);
    n += n < most ? take_entries(rs, most - n) : 0;
    if (portions->at == portions->entries.n && n < most)
        n += plain_take_back(&rs->plain, most - n, true);
    portions->left = n >= most;
}

void portions_end(struct ruleset *rs)
{
    take_entries(rs, SIZE_MAX);
    plain_take_back(&rs->plain, SIZE_MAX, true);
    vec_free(&rs->portions.entries);
    rs->portions = (struct portions){.left = false};
}
