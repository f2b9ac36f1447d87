/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/port_states.h"

#include "kube-nftd/model/object.h"
#include "kube-nftd/policy/turns.h"

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

void port_states_note_turns(struct port_states *states, struct port_state *port)
{
    if (port->noted)
        return;
    port->noted = true;
    vec_push(&states->noted, port);
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

/* Takes the state of a port of that name and protocol out of the chain @old; NULL if there is
 * none. Mostly it is the first. */
static struct port_state *take_match(struct port_state **old, const struct service *before,
                                     int family, const struct service_port *spec)
{
    for (struct port_state **at = old; *at; at = &(*at)->next) {
        struct port_state *port = *at;
        if (port->family != family || port->protocol != spec->protocol ||
            strcmp(before->ports.v[port->index].name, spec->name) != 0)
            continue;
        *at = port->next;
        return port;
    }
    return NULL;
}

static struct port_state *new_port(struct port_states *states, struct service_state *owner,
                                   int family, uint8_t protocol)
{
    struct port_state *port = xcalloc(1, sizeof(*port));
    port->owner = owner;
    port->family = (uint8_t)family & 1;
    port->protocol = protocol;
    /* None is used again soon: what was kept under it may not be cleaned up yet. */
    if (++states->last_group == 0)
        states->last_group = 1;
    port->affinity_group = states->last_group;
    return port;
}

/* Makes the chain of the ports of @state anew. Returns what is left of the old one. */
static struct port_state *renew_ports(struct port_states *states, struct service_state *state,
                                      const struct service *before)
{
    const struct service *service = state->service;
    struct port_state *old = before ? state->ports : NULL, **end = &state->ports;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (!has_family(service, family))
            continue;
        for (size_t i = 0; i < service->ports.n; i++) {
            const struct service_port *spec = &service->ports.v[i];
            struct port_state *port = take_match(&old, before, family, spec);
            if (!port)
                port = new_port(states, state, family, spec->protocol);
            port->index = (uint32_t)i & 0xffffff;
            *end = port;
            end = &port->next;
            update_lists(states, port);
            port_states_note(states, port);
        }
    }
    *end = NULL;
    return old;
}

static void abandon(struct port_states *states, struct port_state *gone)
{
    for (struct port_state *port = gone; port; port = port->next) {
        for (int i = 0; i < PORT_LIST_COUNT; i++)
            set_listed(states, (enum port_list)i, port, false);
        port->owner = NULL;
        port_states_note(states, port);
    }
}

struct port_state *port_states_change(struct port_states *states, const struct service *before,
                                      const struct service *after)
{
    struct port_state *gone;
    struct service_state *state = before ? port_states_find(states, before->id) : NULL;
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

void port_states_clear(struct port_states *states)
{
    vec_each (&states->noted, port)
        if (!(*port)->owner)
            port_state_free(*port);
    hash_table_each (&states->services, struct service_state, state)
        free_service(states, state);
    vec_free(&states->noted);
    for (int i = 0; i < PORT_LIST_COUNT; i++)
        vec_free(&states->lists[i]);
}
