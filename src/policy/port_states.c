/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy.h"

#include "kube-nftd/model.h"
#include "turns.h"

#include <string.h>

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct service_state *)link)->service->id);
}

struct service_state *port_states_find(const struct port_states *states, const char *service_id)
{
    return hash_table_find(&states->services, key_of, hash_key_of_text(service_id));
}

const struct service_port *port_state_spec(const struct port_state *port)
{
    return &port->owner->service->ports.v[port->index];
}

char *port_state_name(const struct port_state *port)
{
    const char *name = port_state_spec(port)->name;
    return xasprintf("%s%s%s", port->owner->service->id, *name ? ":" : "", name);
}

void port_states_note_turns(struct port_states *states, struct port_state *port)
{
    if (port->noted)
        return;
    port->noted = true;
    vec_push(&states->noted, port);
}

void port_states_note_claims(struct port_states *states, struct port_state *port)
{
    port->renew = true;
    port_states_note_turns(states, port);
}

void port_states_note(struct port_states *states, struct port_state *port)
{
    port->whole = true;
    port_states_note_turns(states, port);
}

void port_state_free(struct port_state *port)
{
    if (port->details) {
        vec_free(&port->details->turns);
        vec_free(&port->details->hairpins);
    }
    free(port->details);
    free(port);
}

/* ---- their order ---- */

static int compare_names(const struct service_port *a, const struct service_port *b)
{
    if (a->protocol != b->protocol)
        return (int)a->protocol - (int)b->protocol;
    return a->name == b->name ? 0 : strcmp(a->name, b->name);
}

/* @port, of @service, and @spec in @family. */
static int compare(const struct port_state *port, const struct service *service, int family,
                   const struct service_port *spec)
{
    int order = (int)port->family - family;
    return order ? order : compare_names(&service->ports.v[port->index], spec);
}

struct port_state *port_states_seek(struct port_states *states, const struct service_state *service,
                                    enum family family, uint8_t protocol, const char *name)
{
    const struct service_port wanted = {.name = name, .protocol = protocol};
    struct port_state *passed = states->passed;
    if (passed &&
        (passed->owner != service || compare(passed, service->service, family, &wanted) >= 0))
        passed = NULL;
    struct port_state *port = passed ? passed->next : service->ports;
    for (; port && compare(port, service->service, family, &wanted) < 0; port = port->next)
        passed = port;
    states->passed = passed;
    return port && compare(port, service->service, family, &wanted) == 0 ? port : NULL;
}

struct port_state *port_state_twin(const struct port_state *port)
{
    struct port_state *next = port->next;
    return next && compare(next, port->owner->service, port->family, port_state_spec(port)) == 0
               ? next
               : NULL;
}

/* ---- lists ---- */

static void set_listed(struct port_states *states, enum port_list which, struct port_state *port,
                       bool listed)
{
    port_state_vec *list = &states->lists[which];
    uint32_t place = port->places[which];
    if (listed == (place != 0))
        return;
    if (listed) {
        vec_push(list, port);
        port->places[which] = (uint32_t)list->n;
        return;
    }
    struct port_state *last = list->v[--list->n];
    list->v[place - 1] = last;
    last->places[which] = place;
    port->places[which] = 0;
}

static void update_lists(struct port_states *states, struct port_state *port)
{
    const struct service *service = port->owner->service;
    set_listed(states, LIST_NODE_PORTS, port, port_state_spec(port)->node_port != 0);
    set_listed(states, LIST_SOURCE_RANGES, port,
               service_outside(service)->source_ranges[port->family].n > 0 &&
                   service_outside(service)->load_balancer_ips[port->family].n > 0);
}

/* ---- changes ---- */

static bool has_family(const struct service *service, int family)
{
    return service && !service->skipped && service->has_cluster_ip[family];
}

static struct port_state *new_port(struct port_states *states, struct service_state *owner,
                                   int family, uint8_t protocol)
{
    struct port_state *port = xcalloc(1, sizeof(*port));
    port->owner = owner;
    port->family = (uint8_t)family & 1;
    port->protocol = protocol;
    /* None is used again soon: what was kept under it may not be cleaned up yet. */
    states->last_id = states->last_id % MOST_ROUTE_ID + 1;
    port->id = states->last_id;
    return port;
}

/* By protocol and name, and equal ones in their order. */
static int compare_specs(const void *a, const void *b)
{
    const struct service_port *p = *(const struct service_port *const *)a,
                              *q = *(const struct service_port *const *)b;
    int order = compare_names(p, q);
    return order ? order : (p > q) - (p < q);
}

static void sort_specs(struct port_states *states, const struct service *service)
{
    vec_clear_few(&states->order);
    vec_each (&service->ports, spec)
        vec_push(&states->order, spec);
    if (states->order.n > 1)
        qsort(states->order.v, states->order.n, sizeof(*states->order.v), compare_specs);
}

/* A chain that is made at its end. */
struct chain {
    struct port_state *first, **end;
};

static void append(struct chain *chain, struct port_state *port)
{
    *chain->end = port;
    chain->end = &port->next;
}

/* Takes what stands for @spec off @old, which is in the order of what is asked for: those before it
 * are gone. NULL if there is none. */
static struct port_state *take_match(struct port_state **old, const struct service *before,
                                     int family, const struct service_port *spec,
                                     struct chain *gone)
{
    while (*old) {
        struct port_state *port = *old;
        int order = compare(port, before, family, spec);
        if (order > 0)
            return NULL;
        *old = port->next;
        if (order == 0)
            return port;
        append(gone, port);
    }
    return NULL;
}

/* Makes the chain of the ports of @state anew. Returns what is left of the old one. */
static struct port_state *renew_ports(struct port_states *states, struct service_state *state,
                                      const struct service *before)
{
    const struct service *service = state->service;
    struct port_state *old = before ? state->ports : NULL;
    struct chain now = {.end = &now.first}, gone = {.end = &gone.first};
    sort_specs(states, service);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (!has_family(service, family))
            continue;
        vec_each (&states->order, spec) {
            struct port_state *port = take_match(&old, before, family, *spec, &gone);
            if (!port)
                port = new_port(states, state, family, (*spec)->protocol);
            port->index = (uint32_t)(*spec - service->ports.v) & 0xffffff;
            append(&now, port);
            update_lists(states, port);
            port_states_note_claims(states, port);
            port_states_note(states, port);
        }
    }
    *now.end = NULL;
    *gone.end = old;
    state->ports = now.first;
    return gone.first;
}

static void abandon(struct port_states *states, struct port_state *gone)
{
    for (struct port_state *port = gone; port; port = port->next) {
        for (int i = 0; i < PORT_LIST_COUNT; i++)
            set_listed(states, (enum port_list)i, port, false);
        port->owner = NULL;
        port->renew = false;
        port_states_note(states, port);
    }
}

struct port_state *port_states_change(struct port_states *states, const struct service *before,
                                      const struct service *after)
{
    struct port_state *gone;
    struct service_state *state = before ? port_states_find(states, before->id) : NULL;
    states->passed = NULL;
    if (state)
        hash_table_remove(&states->services, &state->link); /* its key goes with the old version */
    else
        state = xcalloc(1, sizeof(*state));
    if (after) {
        state->service = after;
        hash_table_add(&states->services, key_of, &state->link);
        gone = renew_ports(states, state, before);
    } else {
        gone = state->ports;
        free(state);
    }
    abandon(states, gone);
    return gone;
}

static void free_service(struct port_states *states, struct service_state *state)
{
    struct port_state *port, *next;
    for (port = state->ports; port; port = next) {
        next = port->next;
        port_state_free(port);
    }
    hash_table_remove(&states->services, &state->link);
    free(state);
}

static void free_gone(port_state_vec *noted)
{
    vec_each (noted, port)
        if (!(*port)->owner)
            port_state_free(*port);
    vec_free(noted);
}

void port_states_clear(struct port_states *states)
{
    free_gone(&states->noted);
    free_gone(&states->late);
    hash_table_each (&states->services, struct service_state, state)
        free_service(states, state);
    vec_free(&states->order);
    for (int i = 0; i < PORT_LIST_COUNT; i++)
        vec_free(&states->lists[i]);
}
