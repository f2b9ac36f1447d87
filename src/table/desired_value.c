/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The desired value of an entry in each set. */
#include "plain.h"
#include "state.h"

uint32_t route_rejects(const struct port_route *route)
{
    return !route->has_any;
}

uint32_t route_drops(const struct port_route *route)
{
    return route->has_any && route->needs_local && route->n_local == 0;
}

static uint32_t port_applied(const struct port_entry *port, enum table_set set)
{
    return port->applied[set - FRONTEND_SETS];
}

static uint32_t element_count(const struct port_entry *port, enum port_part which)
{
    return low_of_value(port_applied(port, set_of_count(which)));
}

/* Whether the applied state of its service port forwards or refuses packets from @frontend. */
static bool serves(const struct port_entry *port, const struct frontend_entry *frontend)
{
    if ((frontend->class & CLASS_AFFINE && !port_applied(port, SET_AFFINITY_TIMEOUTS)) ||
        (frontend->class & CLASS_RESTRICTED && !port_applied(port, SET_SOURCE_LISTS)))
        return false;
    if (port_applied(port, SET_REJECTED) || frontend_wants_count(frontend))
        return port_applied(port, SET_REJECTED) || port_count(port, PART_ALL);
    for (enum port_part which = 0; which < PARTS; which++)
        if (class_leads_to(frontend->class, which) && !element_count(port, which) &&
            !(which == PART_LOCAL && port_applied(port, SET_DROPPED)))
            return false;
    return true;
}

static uint32_t count_desired(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    return port_needs(port, which) && slots ? slots_count(slots) : 0;
}

/* A frontend keeps its applied value if its service port is quarantined and the port's applied
 * state does not suffice for it; and its count while the part is unneeded, which is the case until
 * policy has decided it, too. */
static uint32_t desired_service(const struct frontend_entry *frontend)
{
    const struct port_entry *port = frontend->port;
    if (port && port->entry.quarantined &&
        (frontend_has_count(frontend, port) || !serves(port, frontend)))
        return frontend->applied;
    if (!port || !port->number)
        return 0;
    if (!frontend_wants_count(frontend))
        return port->number | CLASS_BASE | frontend->class;
    const bool changes = !port->entry.quarantined && port_needs(port, PART_ALL);
    return port->number | (changes ? count_desired(port, PART_ALL) : port_count(port, PART_ALL));
}

/* Whether frontends without the count in their own value desire to lead to a part. */
static bool needs_element(const struct port_entry *port, enum port_part which)
{
    const bool counts = port->counted && port->counted->port == port && port->counted->class == 0;
    return port_needs(port, which) && (which == PART_LOCAL || port->refs > (uint32_t)counts);
}

/* And whether they lead there in the kernel. */
static bool leads_by_element(const struct port_entry *port, enum port_part which)
{
    return port->led.to[which] > (which == PART_ALL ? port->led.counted : 0);
}

/* Whether some lead there in the kernel without a backend. */
static bool is_led_in_vain(const struct port_entry *port, enum port_part which)
{
    return leads_by_element(port, which) ? !element_count(port, which)
                                         : port->led.to[which] > 0 && !port_count(port, which);
}

/* Nobody asks for it any more. */
static bool element_is_left(const struct port_entry *port, enum port_part which)
{
    return element_count(port, which) && !needs_element(port, which) &&
           !leads_by_element(port, which);
}

/* An unneeded element stays until nothing leads to it; while the part is needed, it says how many
 * backends it has. */
static uint32_t desired_count(const struct port_entry *port, enum port_part which)
{
    const uint32_t n = count_desired(port, which), applied = element_count(port, which);
    if (port->entry.trim && element_is_left(port, which))
        return 0;
    if (needs_element(port, which) ||
        (port_needs(port, which) && (applied || leads_by_element(port, which))))
        return n && port->number ? port->number | n : 0;
    return port_applied(port, set_of_count(which));
}

/* A frontend that has no backends by its own count stays so: the kernel rejected what would change
 * it, or the service port that it waits for. */
static bool none_is_kept(const struct port_entry *port)
{
    const struct frontend_entry *counted = port->counted;
    return counted && frontend_has_count(counted, port) && low_of_value(counted->applied) == 0 &&
           entry_desired(SET_SERVICES, &counted->entry) == counted->applied;
}

/* The value that refuses new connections. It also stays while it replaces the backends of an
 * unneeded part, until nothing leads there. */
static uint32_t desired_reject(const struct port_entry *port, enum table_set set)
{
    const struct port_route route = {.has_any = port->has_any,
                                     .needs_local = port->needs_local,
                                     .n_local = port->local ? port->local->n_desired : 0};
    if (port->entry.desired && port->number &&
        (set == SET_REJECTED ? route_rejects(&route) : route_drops(&route)))
        return 1;
    if (set == SET_REJECTED && none_is_kept(port))
        return port_applied(port, set);
    for (enum port_part which = 0; which < PARTS; which++)
        if (is_led_in_vain(port, which) && !port_needs(port, which) &&
            (set == SET_REJECTED || which == PART_LOCAL))
            return port_applied(port, set);
    return 0;
}

/* Whether a trim deletes what @port has in SET_SOURCE_LISTS. */
static bool list_is_left(const struct port_entry *port)
{
    return port_applied(port, SET_SOURCE_LISTS) && !port->sources && port->led.restricted == 0;
}

/* An undesired list stays until no frontend is restricted by it. */
static uint32_t desired_list(const struct port_entry *port)
{
    if (port->sources && port->number)
        return port_list_value(port);
    return port->entry.trim && list_is_left(port) ? 0 : port_applied(port, SET_SOURCE_LISTS);
}

bool port_is_affine(const struct port_entry *port)
{
    return port->affinity && port->affinity->timeout && port->entry.desired && port->number;
}

uint32_t entry_desired(enum table_set set, const struct entry *entry)
{
    if (entry->quarantined)
        return entry_applied(set, entry);
    if (entry->kind == ENTRY_PLAIN)
        return plain_desired(as_plain(entry));
    switch (set) {
    case SET_SERVICES:
        return desired_service(as_frontend(entry));
    case SET_SOURCE_LISTS:
        return desired_list(as_port(entry));
    case SET_PORTS:
        return desired_count(as_port(entry), PART_ALL);
    case SET_LOCAL_PORTS:
        return desired_count(as_port(entry), PART_LOCAL);
    case SET_AFFINITY_TIMEOUTS:
        return port_is_affine(as_port(entry)) ? affinity_value(as_port(entry)->affinity) : 0;
    default:
        return desired_reject(as_port(entry), set);
    }
}

size_t port_values_left(const struct port_entry *port)
{
    size_t n = list_is_left(port);
    for (enum port_part which = 0; which < PARTS; which++)
        n += element_is_left(port, which);
    n += !port->counted && port->refs_plain > 0;
    for (enum table_set set = SET_REJECTED; set <= SET_DROPPED; set++)
        n += port_applied(port, set) && !desired_reject(port, set);
    return n;
}
