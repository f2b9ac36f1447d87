/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Frontends lead to service ports, and both can change. A change of either is
 *
 *     flow_cleaner_set, _set_port    pending
 *     flow_cleaner_run               applied, a scan is due
 *     on_scan_timer                  being scanned for
 *     end_scan                       done, unless another scan is due
 *
 * From its application on, flows are judged by it; while it is pending, those that are judged for
 * another reason have to be stale both with and without it.
 *
 * If a scan found an untranslated flow, more scans follow for some time: an answer in flight when
 * the entry was deleted creates a new one.
 */
#include "kube-nftd/conntrack.h"

#include "scan.h"

#include <errno.h>
#include <ev.h>
#include <linux/in.h>
#include <math.h>
#include <string.h>

/* Time for packets in flight under the old rules to reach the conntrack table. */
#define FLIGHT_SECONDS 0.01
/* Limit of repeated scans for a frontend after findings; the delay doubles each time. */
#define RECHECKS 5
#define RECHECK_SECONDS 0.1
/* The next scan waits as long as the last one took, up to this limit, so that constant changes do
 * not use a whole CPU. */
#define PAUSE_LIMIT 1.0
/* Delay after a failed scan, doubled per failure in a row. */
#define WAIT_FIRST 1.0
#define WAIT_MOST 30.0
/* Restarts of an interrupted scan. */
#define RETRIES 5
/* The kernel filters if the table is this small, or has at most this many entries per UDP flow of
 * the family: see scan.h. */
#define FEW_ENTRIES 4096
#define ENTRIES_A_FLOW 8

/* A frontend or service port. */
struct target {
    struct hash_link link; /* by frontend, or id */
    bool is_port;
    bool is_pending;
    bool is_active; /* a scan is due or running: flows are judged by what is applied */
    bool scanned;   /* by the running scan */
    bool found;     /* an untranslated flow */
    unsigned rechecks;
    double due; /* earliest time of a scan; 0: none is due */
};

typedef VEC(struct target *) target_vec;

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

/* The state of a family. */
struct targets {
    struct hash_table frontends, ports;
    target_vec pending, active;
    double due;                      /* the earliest of the active ones; 0: none is due */
    uint64_t flows;                  /* counted by the last scan */
    flow_not_applied_fn not_applied; /* may be NULL */
    const void *ctx;
    struct flow_cleaner_stats stats;
};

struct flow_cleaner {
    struct ev_loop *loop;
    struct conntrack *conntrack;
    struct targets targets[FAMILY_COUNT];
    double wait;       /* backoff after failures in a row; 0: the last scan succeeded */
    double rest_until; /* no scan starts earlier; clock_monotonic() */
    ev_timer timer;    /* starts the next scan */
    ev_io io;
    /* The running scan. */
    bool scanning;
    enum family family;
    double begin;
    bool tcp; /* one of the targets that it is for is of TCP */
    unsigned retries;
    uint64_t flows; /* seen by this attempt */
};

/* ---- targets ---- */

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

void flow_cleaner_set(struct flow_cleaner *c, const struct frontend *frontend, uint32_t id)
{
    struct targets *targets = &c->targets[frontend->family];
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

void flow_cleaner_set_port(struct flow_cleaner *c, enum family family, uint32_t id,
                           const struct backend *in_use, size_t n)
{
    struct targets *targets = &c->targets[family];
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

void flow_cleaner_remove_port(struct flow_cleaner *c, enum family family, uint32_t id)
{
    struct targets *targets = &c->targets[family];
    struct port_target *port = find_port(targets, id);
    if (!port)
        return;
    port->removed = true;
    forget_if_unused(targets, &port->target);
}

/* ---- which flows are stale ---- */

static bool has_backend(const backend_vec *backends, const struct backend *server)
{
    return backends->n > 0 &&
           bsearch(server, backends->v, backends->n, sizeof(*server), backend_compare) != NULL;
}

/* Whether a flow with replies from @server is stale if its frontend leads to @port. A connection to
 * a Service that is gone stays, one over UDP does not. */
static bool is_stale_at(const struct port_target *port, const struct backend *server,
                        bool translated, uint8_t protocol)
{
    if (!port)
        return translated && protocol == IPPROTO_UDP;
    return !has_backend(&port->applied, server) &&
           !(port->target.is_pending && has_backend(&port->desired, server));
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
static bool is_stale(const struct targets *targets, const struct conntrack_flow *flow)
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

/* ---- a scan ---- */

static void schedule(struct flow_cleaner *c)
{
    double due = clock_earlier(c->targets[FAMILY_IPV4].due, c->targets[FAMILY_IPV6].due);
    if (c->scanning || due == 0)
        return;
    ev_now_update(c->loop);
    ev_timer_stop(c->loop, &c->timer);
    ev_timer_set(&c->timer, fmax(fmax(due, c->rest_until) - clock_monotonic(), 0), 0);
    ev_timer_start(c->loop, &c->timer);
}

static void on_flow(void *ctx, const struct conntrack_flow *flow)
{
    struct flow_cleaner *c = ctx;
    c->flows++;
    if (is_stale(&c->targets[c->family], flow))
        conntrack_delete(c->conntrack, flow);
}

static int start_reading(struct flow_cleaner *c, struct error *err)
{
    const uint64_t last = c->targets[c->family].flows;
    uint32_t entries;
    c->flows = 0;
    if (conntrack_count(c->conntrack, &entries, err))
        return -1;
    bool filtered = entries <= FEW_ENTRIES || last >= entries / ENTRIES_A_FLOW;
    if (conntrack_scan_begin(c->conntrack, c->family, filtered, c->tcp, on_flow, c, err))
        return -1;
    ev_io_set(&c->io, conntrack_scan_fd(c->conntrack), EV_READ);
    ev_io_start(c->loop, &c->io);
    return 0;
}

/* Decides what follows a scan for @target. @seen: the scan read the table. */
static void end_scan_for(struct target *target, bool seen)
{
    double now = clock_monotonic();
    target->scanned = false;
    if (!seen)
        target->due = now;
    else if (target->due == 0 && target->found && target->rechecks < RECHECKS)
        target->due = now + RECHECK_SECONDS * (1U << target->rechecks++);
    target->is_active = target->due > 0;
}

static void end_scans(struct targets *targets, bool seen)
{
    size_t n = 0;
    vec_each (&targets->active, it) {
        struct target *target = *it;
        if (target->scanned)
            end_scan_for(target, seen);
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

static void count_and_log(struct flow_cleaner *c, const struct error *err)
{
    struct targets *targets = &c->targets[c->family];
    struct flow_cleaner_stats *stats = &targets->stats;
    const struct conntrack_deletions done = conntrack_take_deletions(c->conntrack);
    const char *family = family_name(c->family);
    const double seconds = clock_monotonic() - c->begin;
    stats->deleted += done.deleted;
    stats->failed_deletions += done.failed;
    if (err->text || c->retries > RETRIES) {
        stats->failed_scans++;
    } else {
        stats->scans++;
        stats->total_scan_seconds += seconds;
        histogram_add(&stats->scan_seconds, seconds);
        targets->flows = c->flows;
        log_debug(2, "conntrack", "family=%s scanned flows=%llu deleted=%llu seconds=%.3f", family,
                  (unsigned long long)c->flows, (unsigned long long)done.deleted, seconds);
    }
    if (err->text && c->wait > 0)
        return; /* logged before */
    if (err->text)
        log_warn("conntrack", "family=%s cannot scan for stale UDP flows: %s; retrying", family,
                 err->text);
    else if (c->retries > RETRIES)
        log_warn("conntrack",
                 "family=%s every scan of the conntrack table was interrupted in %d tries; some "
                 "stale UDP flows may remain",
                 family, RETRIES + 1);
    if (done.failed > 0)
        log_warn("conntrack", "family=%s cannot delete stale UDP flows flows=%llu: %s", family,
                 (unsigned long long)done.failed, strerror(done.first_errno));
}

static void end_scan(struct flow_cleaner *c, struct error *err)
{
    struct targets *targets = &c->targets[c->family];
    const double seconds = clock_monotonic() - c->begin;
    c->scanning = false;
    end_scans(targets, !err->text);
    count_and_log(c, err);
    c->wait = err->text ? fmin(fmax(2 * c->wait, WAIT_FIRST), WAIT_MOST) : 0;
    c->rest_until = clock_monotonic() + FLIGHT_SECONDS + fmin(seconds, PAUSE_LIMIT) + c->wait;
    error_clear(err);
    schedule(c);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct flow_cleaner *c = io->data;
    struct error err = {0};
    (void)revents;
    enum conntrack_progress progress = conntrack_scan_step(c->conntrack, &err);
    if (progress == CONNTRACK_MORE)
        return;
    ev_io_stop(loop, &c->io);
    conntrack_scan_end(c->conntrack);
    if (progress == CONNTRACK_INTERRUPTED && c->retries++ < RETRIES && start_reading(c, &err) == 0)
        return;
    end_scan(c, &err);
}

/* Scans the family that is due first, for all of its targets that are due. */
static void on_scan_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct flow_cleaner *c = timer->data;
    struct error err = {0};
    (void)loop;
    (void)revents;
    double ipv4 = c->targets[FAMILY_IPV4].due, ipv6 = c->targets[FAMILY_IPV6].due;
    c->family = clock_earlier(ipv4, ipv6) == ipv4 ? FAMILY_IPV4 : FAMILY_IPV6;
    struct targets *targets = &c->targets[c->family];
    c->begin = fmax(clock_monotonic(), targets->due);
    targets->due = 0;
    c->tcp = false;
    vec_each (&targets->active, it) {
        struct target *target = *it;
        target->scanned = target->due > 0 && target->due <= c->begin;
        if (target->scanned)
            target->due = 0;
        c->tcp = c->tcp || (target->scanned && is_tcp(target));
    }
    c->scanning = true;
    c->retries = 0;
    if (start_reading(c, &err))
        end_scan(c, &err);
}

/* ---- the cleaner ---- */

void flow_cleaner_skip(struct flow_cleaner *c, enum family family, flow_not_applied_fn fn,
                       const void *ctx)
{
    c->targets[family].not_applied = fn;
    c->targets[family].ctx = ctx;
}

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
        if (!has_backend(&port->desired, backend))
            return true;
    return false;
}

static void apply(struct targets *targets, struct target *target)
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
    target->due = clock_monotonic() + FLIGHT_SECONDS;
    targets->due = clock_earlier(targets->due, target->due);
    if (!target->is_active)
        vec_push(&targets->active, target);
    target->is_active = true;
}

void flow_cleaner_run(struct flow_cleaner *c, enum family family)
{
    struct targets *targets = &c->targets[family];
    size_t skipped = 0;
    vec_each (&targets->pending, it) {
        if (is_not_applied(targets, *it))
            targets->pending.v[skipped++] = *it;
        else
            apply(targets, *it);
    }
    targets->pending.n = skipped;
    if (skipped == 0)
        vec_clear_few(&targets->pending);
    schedule(c);
}

struct flow_cleaner *flow_cleaner_new(struct ev_loop *loop, struct error *err)
{
    struct conntrack *conntrack = conntrack_open(err);
    if (!conntrack)
        return NULL;
    struct flow_cleaner *c = xcalloc(1, sizeof(*c));
    c->loop = loop;
    c->conntrack = conntrack;
    for (int family = 0; family < FAMILY_COUNT; family++)
        c->targets[family].stats.scan_seconds.buckets = &histogram_exponential;
    ev_init(&c->timer, on_scan_timer);
    ev_init(&c->io, on_readable);
    /* Other events of a loop iteration go first. */
    ev_set_priority(&c->io, EV_MINPRI);
    c->timer.data = c->io.data = c;
    return c;
}

void flow_cleaner_free(struct flow_cleaner *c)
{
    if (!c)
        return;
    ev_timer_stop(c->loop, &c->timer);
    ev_io_stop(c->loop, &c->io);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        struct targets *targets = &c->targets[family];
        hash_table_each (&targets->frontends, struct frontend_target, frontend)
            free_frontend(targets, frontend);
        hash_table_each (&targets->ports, struct port_target, port)
            free_port(targets, port);
        vec_free(&targets->pending);
        vec_free(&targets->active);
    }
    conntrack_close(c->conntrack);
    free(c);
}

const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *c,
                                                    enum family family)
{
    return &c->targets[family].stats;
}
