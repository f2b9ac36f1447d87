/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When the conntrack table is scanned for stale flows, and what a scan does. */
#include "kube-nftd/conntrack.h"

#include "scan.h"
#include "targets.h"

#include <ev.h>
#include <math.h>
#include <string.h>

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

struct flow_cleaner {
    struct ev_loop *loop;
    struct conntrack *conntrack;
    struct targets targets[FAMILY_COUNT];
    struct flow_cleaner_stats stats[FAMILY_COUNT];
    uint64_t last_flows[FAMILY_COUNT]; /* counted by the last scan */
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

void flow_cleaner_set(struct flow_cleaner *c, const struct frontend *frontend, uint32_t id)
{
    targets_set(&c->targets[frontend->family], frontend, id);
}

void flow_cleaner_set_port(struct flow_cleaner *c, enum family family, uint32_t id,
                           const struct backend *in_use, size_t n)
{
    targets_set_port(&c->targets[family], id, in_use, n);
}

void flow_cleaner_remove_port(struct flow_cleaner *c, enum family family, uint32_t id)
{
    targets_remove_port(&c->targets[family], id);
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
    if (targets_flow_is_stale(&c->targets[c->family], flow))
        conntrack_delete(c->conntrack, flow);
}

static int start_reading(struct flow_cleaner *c, struct error *err)
{
    const uint64_t last = c->last_flows[c->family];
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

static void count_and_log(struct flow_cleaner *c, const struct error *err)
{
    struct flow_cleaner_stats *stats = &c->stats[c->family];
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
        c->last_flows[c->family] = c->flows;
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
    const double seconds = clock_monotonic() - c->begin;
    c->scanning = false;
    targets_end_scan(&c->targets[c->family], !err->text);
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
    c->tcp = targets_begin_scan(targets, c->begin);
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

void flow_cleaner_run(struct flow_cleaner *c, enum family family)
{
    targets_apply(&c->targets[family]);
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
        c->stats[family].scan_seconds.buckets = &histogram_exponential;
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
    for (int family = 0; family < FAMILY_COUNT; family++)
        targets_clear(&c->targets[family]);
    conntrack_close(c->conntrack);
    free(c);
}

const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *c,
                                                    enum family family)
{
    return &c->stats[family];
}
