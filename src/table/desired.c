/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The desired state, as set by policy. Entries are dirty until committed. */
#include "plain.h"
#include "state.h"

#include <utlist.h>

/* ---- service ports ---- */

static void set_slots(struct port_entry *port, enum port_part which, const struct backend *backends,
                      size_t n)
{
    slots_set(port_make_slots(port, which), backends, n < MAX_BACKENDS ? n : MAX_BACKENDS);
}

/* The Cluster backends, if any, include the local ones. */
static size_t excess_of(const struct port_route *route)
{
    const size_t n = route->n_backends > route->n_local ? route->n_backends : route->n_local;
    return route->left_out + (n > MAX_BACKENDS ? n - MAX_BACKENDS : 0);
}

static void set_port(struct ruleset *rs, struct port_entry *port, const struct port_route *route,
                     bool desired)
{
    quarantine_leave(rs, &port->entry);
    port_set_sources(rs, port, route->sources, route->n_sources);
    port->entry.desired = desired;
    port->removed = false;
    port->has_any = route->has_any;
    port->needs_all = route->needs_cluster;
    port->needs_local = route->needs_local;
    rs->stats.limited[LIMIT_ENDPOINTS] -= port->excess;
    port->excess = excess_of(route) & 0xffffff;
    set_slots(port, PART_ALL, route->backends, route->n_backends);
    if (route->n_local > 0 || port->local)
        set_slots(port, PART_LOCAL, route->local_backends, route->n_local);
    rs->stats.limited[LIMIT_ENDPOINTS] += port->excess;
    if (port->entry.dirty && !route->affinity_timeout && port->affinity && port->affinity->timeout)
        port_keep_affinity(rs, port);
    if (route->affinity_timeout || port->affinity) {
        port_affinity(port)->timeout = route->affinity_timeout;
        port->affinity->identity = route->identity;
        port->affinity->current = false;
    }
    ruleset_mark_dirty(rs, &port->entry);
}

void ruleset_set_port(struct ruleset *rs, uint32_t id, const struct port_route *route)
{
    struct port_entry *port = ruleset_get_port(rs, id);
    numbers_join(rs, port, route->service_id);
    set_port(rs, port, route, true);
}

static void set_no_port(struct ruleset *rs, struct port_entry *port)
{
    const struct port_route nothing = {.has_any = false};
    set_port(rs, port, &nothing, false);
}

void ruleset_remove_port(struct ruleset *rs, uint32_t id)
{
    struct port_entry *port = ruleset_find_port(rs, id);
    if (port && port->refs > 0)
        port->removed = true;
    else if (port)
        set_no_port(rs, port);
}

static void log_mistake(struct ruleset *rs, const struct port_entry *port)
{
    char text[FRONTEND_TEXT_SIZE];
    const struct frontend_entry *frontend = ruleset_frontend_of(port);
    rs->stats.mistakes++;
    log_error(
        "table",
        "frontend=%s is computed from scratch: a removed endpoint is not among the applied ones",
        frontend ? frontend_format(&frontend->frontend, text) : "");
}

/* Whether numbers of single backends can change: none lacks one, which could get another's. */
static bool affinity_follows(const struct affinity *affinity)
{
    return !affinity || !affinity->timeout || (affinity->current && !affinity->full);
}

static enum slots_verdict try_change(const struct ruleset *rs, struct port_entry *port,
                                     const backend_change_vec *changes)
{
    const size_t most = ruleset_most_added(rs);
    const enum slots_verdict verdict =
        slots_try_change(&port->all, changes, BACKENDS_CLUSTER, most);
    if (verdict != SLOTS_CHANGED)
        return verdict;
    if (port->local)
        return slots_try_change(port->local, changes, BACKENDS_LOCAL, most);
    const size_t n =
        backends_coming(changes, BACKENDS_LOCAL) + backends_going(changes, BACKENDS_LOCAL);
    return n > 0 ? SLOTS_UNKNOWN : SLOTS_CHANGED;
}

bool ruleset_change_port(struct ruleset *rs, uint32_t id, const backend_change_vec *changes)
{
    struct port_entry *port = ruleset_find_port(rs, id);
    if (!port || !port->entry.desired || port->entry.rejection || !affinity_follows(port->affinity))
        return false;
    const enum slots_verdict verdict = try_change(rs, port, changes);
    if (verdict == SLOTS_MISTAKEN)
        log_mistake(rs, port);
    if (verdict != SLOTS_CHANGED)
        return false;
    if (port->affinity && port->affinity->timeout)
        affinity_change(rs, port, changes);
    ruleset_mark_dirty(rs, &port->entry);
    return true;
}

/* ---- frontends ---- */

/* Makes @frontend lead to @port, or nowhere (NULL). */
static void lead_to(struct ruleset *rs, struct frontend_entry *frontend, struct port_entry *port)
{
    struct port_entry *before = frontend->port;
    const bool dirty = frontend->entry.dirty;
    if (before == port)
        return;
    frontend->port = port;
    if (before) {
        DL_DELETE(before->frontends, frontend);
        before->n_dirty -= dirty;
        before->refs--;
        before->refs_plain -= frontend->class == 0;
        frontend_renew_counted(frontend, before);
        rs->numbers.n_refused -= before->waits;
    }
    if (port) {
        DL_APPEND(port->frontends, frontend);
        port->refs++;
        port->refs_plain += frontend->class == 0;
        port->n_dirty += dirty;
        rs->numbers.n_refused += port->waits;
    }
    if (!before || before->refs > 0)
        return;
    if (before->removed)
        set_no_port(rs, before);
    else if (!before->entry.desired)
        ruleset_mark_dirty(rs, &before->entry); /* the commit frees it if nothing is left */
}

static void set_class(struct frontend_entry *frontend, unsigned class)
{
    struct port_entry *port = frontend->port;
    if (port)
        port->refs_plain += (uint32_t)(class == 0) - (frontend->class == 0);
    frontend->class = (uint8_t) class;
    frontend_renew_counted(frontend, port);
}

void ruleset_set(struct ruleset *rs, const struct frontend *frontend, const struct route *route)
{
    struct frontend_entry *entry = ruleset_get_frontend(rs, frontend);
    struct port_entry *port = ruleset_get_port(rs, route->port);
    if (entry->entry.desired && !entry->entry.rejection && entry->port == port &&
        entry->class == route->class)
        return;
    rs->n_desired += !entry->entry.desired;
    quarantine_leave(rs, &entry->entry);
    entry->entry.desired = true;
    set_class(entry, route->class);
    lead_to(rs, entry, port);
    ruleset_mark_dirty(rs, &entry->entry);
}

void ruleset_remove(struct ruleset *rs, const struct frontend *frontend)
{
    struct frontend_entry *entry = ruleset_find_frontend(rs, frontend);
    if (!entry)
        return;
    rs->n_desired -= entry->entry.desired;
    quarantine_leave(rs, &entry->entry);
    entry->entry.desired = false;
    lead_to(rs, entry, NULL);
    ruleset_mark_dirty(rs, &entry->entry);
}

/* ---- elements without a frontend ---- */

static void desire(struct ruleset *rs, enum table_set set, const struct key *key, bool desired)
{
    if (desired)
        plain_desire(rs, set, key, NULL);
    else
        plain_drop(rs, set, key);
}

static struct key key_of_address(const struct ruleset *rs, const struct address *address)
{
    struct key key = {.length = 0};
    key_put_address(&key, rs->family, address);
    return key;
}

bool ruleset_has_cluster_ip(const struct ruleset *rs, const struct address *address)
{
    struct key key = key_of_address(rs, address);
    const struct plain *known = plain_find(rs, SET_CLUSTER_IPS, &key);
    return known && known->entry.desired;
}

void ruleset_use_hairpin(struct ruleset *rs, const struct address *address, bool in_use)
{
    struct key key = key_of_address(rs, address);
    key_put_address(&key, rs->family, address);
    desire(rs, SET_HAIRPIN, &key, in_use);
}

void ruleset_refuse_localhost(struct ruleset *rs, uint8_t protocol, uint16_t port, bool refused)
{
    struct key key = {.length = 0};
    key_put_protocol(&key, protocol);
    key_put_port(&key, port);
    desire(rs, SET_LOCALHOST_PORTS, &key, refused);
}

static void desire_ranges(struct ruleset *rs, enum table_set set, const range_vec *ranges,
                          bool desired)
{
    vec_each (ranges, range) {
        struct key key = key_of_range(rs->family, range);
        desire(rs, set, &key, desired);
    }
}

static void set_ranges(struct ruleset *rs, enum table_set set, range_vec *known,
                       const range_vec *ranges)
{
    desire_ranges(rs, set, ranges, true);
    desire_ranges(rs, set, known, false);
    vec_clear(known);
    vec_append(known, ranges->v, ranges->n);
}

/* ---- where cluster IPs are looked for ---- */

/* It only grows, so that Services that come one by one change it once for each bit at most. */
static void cover(struct ruleset *rs, const struct address *address)
{
    if (!rs->has_cover)
        rs->cover = (struct cidr){*address, (uint8_t)(8 * address_length(rs->family))};
    rs->has_cover = true;
    cidr_widen(&rs->cover, address);
}

static void renew_service_ranges(struct ruleset *rs)
{
    range_vec ranges = {0};
    vec_append(&ranges, rs->service_cidrs.v, rs->service_cidrs.n);
    if (rs->has_cover)
        vec_push(&ranges, cidr_range(rs->family, &rs->cover));
    ranges_normalize(rs->family, &ranges);
    set_ranges(rs, SET_SERVICE_RANGES, &rs->service_ranges, &ranges);
    vec_free(&ranges);
}

void ruleset_use_cluster_ip(struct ruleset *rs, const struct address *address, bool in_use)
{
    struct key key = key_of_address(rs, address);
    desire(rs, SET_CLUSTER_IPS, &key, in_use);
    if (in_use && !ranges_contain(&rs->service_ranges, address)) {
        cover(rs, address);
        renew_service_ranges(rs);
    }
}

void ruleset_set_service_cidrs(struct ruleset *rs, const range_vec *ranges)
{
    set_ranges(rs, SET_SERVICE_CIDRS, &rs->service_cidrs, ranges);
    rs->has_cover = false;
    hash_table_each (&rs->plains, const struct plain, plain) {
        struct address address = {0};
        if (plain_set(plain) != SET_CLUSTER_IPS || !plain->entry.desired)
            continue;
        memcpy(address.bytes, plain_key(plain), address_length(rs->family));
        if (!ranges_contain(&rs->service_cidrs, &address))
            cover(rs, &address);
    }
    renew_service_ranges(rs);
}

void ruleset_set_pod_cidrs(struct ruleset *rs, const range_vec *ranges)
{
    set_ranges(rs, SET_POD_CIDRS, &rs->pod_cidrs, ranges);
}
