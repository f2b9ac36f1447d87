/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "targets.h"

#include <linux/in.h>
#include <stdlib.h>
#include <string.h>

/* Limit of repeated scans for a frontend after findings; the delay doubles each time. */
#define RECHECKS 5
#define RECHECK_SECONDS 0.1

struct port_target {
    struct target target;
    uint32_t id;
    bool is_tcp;   /* by the frontends that led here */
    uint32_t refs; /* of frontends: their @applied and @desired */
    bool removed;
    backend_vec applied; /* in use, sorted */
    backend_vec desired; /* while it is pending */
};

struct frontend_target {
    struct target target;
    struct frontend frontend;
    struct port_target *applied, *desired; /* NULL: no service has it; the same unless pending */
};

static struct hash_key frontend_key(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct frontend_target *)link)->frontend);
}

static struct hash_key port_key(const struct hash_link *link)
{
    const struct port_target *port = (const struct port_target *)link;
    return (struct hash_key){&port->id, sizeof(port->id)};
}

static struct frontend_target *find_frontend(const struct targets *targets,
                                             const struct frontend *frontend)
{
    return hash_table_find(&targets->frontends, frontend_key, hash_key_of_frontend(frontend));
}

static struct port_target *find_port(const struct targets *targets, uint32_t id)
{
    return hash_table_find(&targets->ports, port_key, (struct hash_key){&id, sizeof(id)});
}

static void free_port(struct targets *targets, struct port_target *port)
{
    hash_table_remove(&targets->ports, &port->target.link);
    vec_free(&port->applied);
    vec_free(&port->desired);
    free(port);
}

static void free_frontend(struct targets *targets, struct frontend_target *frontend)
{
    hash_table_remove(&targets->frontends, &frontend->target.link);
    free(frontend);
}

static void forget_if_unused(struct targets *targets, struct target *target)
{
    struct port_target *port = (struct port_target *)target;
    struct frontend_target *frontend = (struct frontend_target *)target;
    if (target->is_pending || target->is_active)
        return;
    if (target->is_port && port->removed && port->refs == 0)
        free_port(targets, port);
    else if (!target->is_port && !frontend->applied && !frontend->desired)
        free_frontend(targets, frontend);
}

static bool is_tcp(const struct target *target)
{
    return target->is_port
               ? ((const struct port_target *)target)->is_tcp
               : ((const struct frontend_target *)target)->frontend.protocol == IPPROTO_TCP;
}

static void mark_pending(struct targets *targets, struct target *target)
{
    if (!target->is_pending)
        vec_push(&targets->pending, target);
    target->is_pending = true;
}

/* @at is a frontend's applied or desired service port. */
static void lead_to(struct targets *targets, struct port_target **at, struct port_target *port)
{
    struct port_target *before = *at;
    if (port)
        port->refs++;
    *at = port;
    if (before && --before->refs == 0)
        forget_if_unused(targets, &before->target);
}

void targets_set(struct targets *targets, const struct frontend *frontend, uint32_t id)
{
    struct frontend_target *target = find_frontend(targets, frontend);
    struct port_target *port = id ? find_port(targets, id) : NULL;
    if (target && target->desired == port)
        return;
    if (!target) {
        target = xcalloc(1, sizeof(*target));
        target->frontend = *frontend;
        hash_table_add(&targets->frontends, frontend_key, &target->target.link);
    }
    if (port)
        port->is_tcp = frontend->protocol == IPPROTO_TCP;
    lead_to(targets, &target->desired, port);
    mark_pending(targets, &target->target);
}

static bool has_backends(const struct port_target *port, const struct backend *backends, size_t n)
{
    const backend_vec *known = port->target.is_pending ? &port->desired : &port->applied;
    return known->n == n && (n == 0 || memcmp(known->v, backends, n * sizeof(*backends)) == 0);
}

void targets_set_port(struct targets *targets, uint32_t id, const struct backend *in_use, size_t n)
{
    struct port_target *port = find_port(targets, id);
    if (port && has_backends(port, in_use, n))
        return;
    if (!port) {
        port = xcalloc(1, sizeof(*port));
        port->id = id;
        port->target.is_port = true;
        hash_table_add(&targets->ports, port_key, &port->target.link);
    }
    vec_free(&port->desired);
    vec_append(&port->desired, in_use, n);
    vec_trim(&port->desired);
    mark_pending(targets, &port->target);
}

void targets_remove_port(struct targets *targets, uint32_t id)
{
    struct port_target *port = find_port(targets, id);
    if (!port)
        return;
    port->removed = true;
    forget_if_unused(targets, &port->target);
}

/* ---- which flows are stale ---- */

/* Whether a flow with replies from @server is stale if its frontend leads to @port. A connection to
 * a Service that is gone stays, one over UDP does not. */
static bool is_stale_at(const struct port_target *port, const struct backend *server,
                        bool translated, uint8_t protocol)
{
    if (!port)
        return translated && protocol == IPPROTO_UDP;
    return !backends_contain(&port->applied, server) &&
           !(port->target.is_pending && backends_contain(&port->desired, server));
}

/* The frontend at @end, if flows of @flow's kind to it are judged. */
static struct frontend_target *frontend_at(const struct targets *targets,
                                           const struct conntrack_flow *flow,
                                           const struct backend *end)
{
    const struct frontend frontend = {end->address, end->port, flow->protocol,
                                      (uint8_t)flow->family};
    struct frontend_target *target = find_frontend(targets, &frontend);
    bool judged = target && (target->target.is_active ||
                             (target->applied && target->applied->target.is_active));
    return judged ? target : NULL;
}

/* An untranslated flow may be an answer to a client whose own entry is gone: conntrack takes the
 * client's next packet as a reply to it and does not translate it. So if its destination is not a
 * target, its original source is checked. */
bool targets_flow_is_stale(const struct targets *targets, const struct conntrack_flow *flow)
{
    const struct backend *server = &flow->reply.source;
    bool translated = !backend_equal(&flow->original.destination, server);
    struct frontend_target *to = frontend_at(targets, flow, &flow->original.destination);
    if (!translated && flow->protocol == IPPROTO_TCP)
        return false;
    if (!to && !translated && backend_equal(&flow->original.source, &flow->reply.destination)) {
        server = &flow->original.source;
        to = frontend_at(targets, flow, server);
    }
    if (!to || !is_stale_at(to->applied, server, translated, flow->protocol) ||
        (to->target.is_pending && !is_stale_at(to->desired, server, translated, flow->protocol)))
        return false;
    if (!translated)
        to->target.found = true;
    if (!translated && to->applied)
        to->applied->target.found = true;
    return true;
}

/* ---- scans ---- */

bool targets_begin_scan(struct targets *targets, double time)
{
    bool tcp = false;
    targets->due = 0;
    vec_each (&targets->active, it) {
        struct target *target = *it;
        target->scanned = target->due > 0 && target->due <= time;
        if (target->scanned)
            target->due = 0;
        tcp = tcp || (target->scanned && is_tcp(target));
    }
    return tcp;
}

/* Decides what follows a scan for @target. @seen: the scan read the table. */
static void end_scan_for(struct target *target, bool seen, double now)
{
    target->scanned = false;
    if (!seen)
        target->due = now;
    else if (target->due == 0 && target->found && target->rechecks < RECHECKS)
        target->due = now + RECHECK_SECONDS * (1U << target->rechecks++);
    target->is_active = target->due > 0;
}

void targets_end_scan(struct targets *targets, bool seen)
{
    const double now = clock_monotonic(); /* one for all: see targets_apply() */
    size_t n = 0;
    vec_each (&targets->active, it) {
        struct target *target = *it;
        if (target->scanned)
            end_scan_for(target, seen, now);
        targets->due = clock_earlier(targets->due, target->due);
        if (target->is_active)
            targets->active.v[n++] = target;
        else
            forget_if_unused(targets, target);
    }
    targets->active.n = n;
    if (n == 0)
        vec_clear_few(&targets->active);
}

/* ---- applying ---- */

static bool is_not_applied(const struct targets *targets, const struct target *target)
{
    if (!targets->not_applied)
        return false;
    if (target->is_port)
        return targets->not_applied(targets->ctx, NULL, ((const struct port_target *)target)->id);
    return targets->not_applied(targets->ctx, &((const struct frontend_target *)target)->frontend,
                                0);
}

/* Whether flows may be stale after the change of @target, and were not before. Of UDP, any change
 * can be one: what is not translated counts, too. */
static bool can_make_stale(const struct target *target)
{
    const struct port_target *port = (const struct port_target *)target;
    if (!is_tcp(target))
        return true;
    if (!target->is_port)
        return ((const struct frontend_target *)target)->desired != NULL;
    vec_each (&port->applied, backend)
        if (!backends_contain(&port->desired, backend))
            return true;
    return false;
}

/* @due: of a scan */
static void apply(struct targets *targets, struct target *target, double due)
{
    struct port_target *port = (struct port_target *)target;
    struct frontend_target *frontend = (struct frontend_target *)target;
    const bool scans = can_make_stale(target);
    if (target->is_port) {
        vec_free(&port->applied);
        port->applied = port->desired;
        port->desired = (backend_vec){0};
    } else {
        lead_to(targets, &frontend->applied, frontend->desired);
    }
    target->is_pending = target->found = false;
    target->rechecks = 0;
    if (!scans) {
        forget_if_unused(targets, target);
        return;
    }
    target->due = due;
    targets->due = clock_earlier(targets->due, target->due);
    if (!target->is_active)
        vec_push(&targets->active, target);
    target->is_active = true;
}

void targets_apply(struct targets *targets)
{
    /* One time for all of them, so that one scan is for all. */
    const double due = clock_monotonic() + FLIGHT_SECONDS;
    size_t skipped = 0;
    vec_each (&targets->pending, it) {
        if (is_not_applied(targets, *it))
            targets->pending.v[skipped++] = *it;
        else
            apply(targets, *it, due);
    }
    targets->pending.n = skipped;
    if (skipped == 0)
        vec_clear_few(&targets->pending);
}

void targets_clear(struct targets *targets)
{
    hash_table_each (&targets->frontends, struct frontend_target, frontend)
        free_frontend(targets, frontend);
    hash_table_each (&targets->ports, struct port_target, port)
        free_port(targets, port);
    vec_free(&targets->pending);
    vec_free(&targets->active);
}
