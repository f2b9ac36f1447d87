/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is wanted, as it comes from policy. It is only noted, and pending until a commit. */
#include "record.h"

/* ---- service ports ---- */

uint8_t route_flags(const struct port_route *route)
{
    if (!route->has_any)
        return FLAG_REJECTED;
    return route->needs_local && route->n_local == 0 ? FLAG_DROPPED : 0;
}

/* The same for both parts: the Cluster set has all of the local one, or there is none. */
static void want_backends(struct port_record *port, struct part *part,
                          const struct backend *backends, size_t n)
{
    if (n > MAX_BACKENDS)
        port->n_offered = (uint32_t)n;
    part_want(part, backends, n < MAX_BACKENDS ? n : MAX_BACKENDS);
}

static void want_port(struct ruleset *rs, struct port_record *port, const struct port_route *route,
                      bool wanted)
{
    refusals_retry(&port->record);
    port->record.wanted = wanted;
    port->removed = false;
    port->has_any = route->has_any;
    port->needs_cluster = route->needs_cluster;
    port->needs_local = route->needs_local;
    port->n_offered = 0;
    want_backends(port, &port->all, route->backends, route->n_backends);
    if (route->n_local > 0 || port->local)
        want_backends(port, port_local(port), route->local_backends, route->n_local);
    if (route->affinity_timeout || port->affinity)
        port_affinity(port)->wanted_timeout = route->affinity_timeout;
    ruleset_mark_pending(rs, &port->record);
}

void ruleset_set_port(struct ruleset *rs, uint32_t id, const struct port_route *route)
{
    want_port(rs, ruleset_get_port(rs, id), route, true);
}

static void want_no_port(struct ruleset *rs, struct port_record *port)
{
    const struct port_route nothing = {.has_any = false};
    want_port(rs, port, &nothing, false);
}

void ruleset_remove_port(struct ruleset *rs, uint32_t id)
{
    struct port_record *port = ruleset_find_port(rs, id);
    if (port && port->refs > 0)
        port->removed = true;
    else if (port)
        want_no_port(rs, port);
}

/* Whether what is wanted of @port is known as a list or difference that changes can be put on.
 * Session affinity gives each backend a number, so it wants to see them all. */
static bool can_change(const struct port_record *port, const struct port_route_change *change)
{
    return port && port->record.wanted && !port->record.refusal &&
           !(port->affinity && port->affinity->wanted_timeout) &&
           part_can_change(&port->all, change->backends, change->n_backends) &&
           (port->local ? part_can_change(port->local, change->local_backends, change->n_local)
                        : change->n_local == 0);
}

bool ruleset_change_port(struct ruleset *rs, uint32_t id, const struct port_route_change *change)
{
    struct port_record *port = ruleset_find_port(rs, id);
    if (!can_change(port, change))
        return false;
    part_change(&port->all, change->backends, change->n_backends);
    if (port->local)
        part_change(port->local, change->local_backends, change->n_local);
    ruleset_mark_pending(rs, &port->record);
    return true;
}

/* ---- frontends ---- */

/* A frontend less is to lead to @port, which may have been the last thing that kept it. */
static void release(struct ruleset *rs, struct port_record *port)
{
    if (--port->refs > 0)
        return;
    if (port->removed)
        want_no_port(rs, port);
    else if (!port->record.wanted)
        ruleset_mark_pending(rs, &port->record); /* that commit frees it, if nothing is left */
}

/* @frontend is to lead to @port, or nowhere (NULL). */
static void lead_to(struct ruleset *rs, struct frontend_record *frontend, struct port_record *port)
{
    struct port_record *before = frontend->port;
    const bool pending = frontend->record.pending;
    if (before == port)
        return;
    frontend->port = port;
    if (port) {
        port->refs++;
        port->n_pending += pending;
    }
    if (before) {
        before->n_pending -= pending;
        release(rs, before);
    }
}

unsigned route_class(const struct route *route)
{
    return (route->external ? CLASS_EXTERNAL : 0u) | (route->local ? CLASS_LOCAL : 0u) |
           (route->affine ? CLASS_AFFINE : 0u);
}

/* The list is held. */
static struct source_list *hold_sources(struct ruleset *rs, const struct route *route)
{
    return route->sources ? source_lists_hold(&rs->lists, route->sources, route->n_sources) : NULL;
}

static struct source_list *sources_of(const struct frontend_record *frontend)
{
    return frontend->restriction ? frontend->restriction->sources : NULL;
}

static bool is_wanted_so(const struct frontend_record *frontend, const struct port_record *port,
                         unsigned class_wanted, const struct source_list *sources)
{
    return frontend->record.wanted && !frontend->record.refusal && frontend->port == port &&
           frontend->class_wanted == class_wanted && sources_of(frontend) == sources;
}

void ruleset_set(struct ruleset *rs, const struct frontend *frontend, const struct route *route)
{
    struct frontend_record *record = ruleset_get_frontend(rs, frontend);
    struct port_record *port = ruleset_get_port(rs, route->port);
    struct source_list *sources = hold_sources(rs, route), *before = sources_of(record);
    if (is_wanted_so(record, port, route_class(route), sources)) {
        source_lists_release(&rs->lists, sources, 0);
        return;
    }
    rs->n_wanted += !record->record.wanted;
    refusals_retry(&record->record);
    record->record.wanted = true;
    record->class_wanted = (uint8_t)route_class(route);
    lead_to(rs, record, port);
    if (sources || record->restriction)
        frontend_restriction(record)->sources = sources;
    source_lists_release(&rs->lists, before, 0);
    ruleset_mark_pending(rs, &record->record);
}

void ruleset_remove(struct ruleset *rs, const struct frontend *frontend)
{
    struct frontend_record *record = ruleset_find_frontend(rs, frontend);
    if (!record)
        return;
    rs->n_wanted -= record->record.wanted;
    refusals_retry(&record->record);
    record->record.wanted = false;
    lead_to(rs, record, NULL);
    if (record->restriction) {
        source_lists_release(&rs->lists, record->restriction->sources, 0);
        record->restriction->sources = NULL;
    }
    ruleset_mark_pending(rs, &record->record);
}

/* ---- what belongs to no frontend ---- */

static void want_or_drop(struct ruleset *rs, enum table_set set, const struct key *key, bool want)
{
    if (want)
        contents_want(&rs->contents, set, key, NULL);
    else
        contents_drop(&rs->contents, set, key);
}

static struct key key_of_address(const struct ruleset *rs, const struct address *address)
{
    struct key key = {.length = 0};
    key_put_address(&key, rs->family, address);
    return key;
}

void ruleset_use_cluster_ip(struct ruleset *rs, const struct address *address, bool in_use)
{
    struct key key = key_of_address(rs, address);
    want_or_drop(rs, SET_CLUSTER_IPS, &key, in_use);
}

bool ruleset_has_cluster_ip(const struct ruleset *rs, const struct address *address)
{
    struct key key = key_of_address(rs, address);
    const struct content *known = contents_find(&rs->contents, SET_CLUSTER_IPS, &key);
    return known && known->wanted;
}

void ruleset_use_hairpin(struct ruleset *rs, uint8_t protocol, const struct backend *backend,
                         bool in_use)
{
    struct key key = key_of_address(rs, &backend->address);
    key_put_address(&key, rs->family, &backend->address);
    key_put_protocol(&key, protocol);
    key_put_port(&key, backend->port);
    want_or_drop(rs, SET_HAIRPIN, &key, in_use);
}

static void want_ranges(struct ruleset *rs, enum table_set set, const range_vec *ranges,
                        bool wanted)
{
    vec_each (ranges, range) {
        struct key key = key_of_range(rs->family, range);
        want_or_drop(rs, set, &key, wanted);
    }
}

static void set_ranges(struct ruleset *rs, enum table_set set, range_vec *held,
                       const range_vec *ranges)
{
    want_ranges(rs, set, ranges, true);
    want_ranges(rs, set, held, false);
    vec_clear(held);
    vec_each (ranges, range)
        vec_push(held, *range);
}

void ruleset_set_service_cidrs(struct ruleset *rs, const range_vec *ranges)
{
    set_ranges(rs, SET_SERVICE_CIDRS, &rs->service_cidrs, ranges);
}

void ruleset_set_pod_cidrs(struct ruleset *rs, const range_vec *ranges)
{
    set_ranges(rs, SET_POD_CIDRS, &rs->pod_cidrs, ranges);
}
