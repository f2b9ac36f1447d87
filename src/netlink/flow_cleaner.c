/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink.h"

#include "conntrack.h"
#include "flow_notes.h"
#include "kube-nftd/base.h"

#include <ev.h>
#include <linux/in.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How long packets that met the old rules may take to be in the table. */
#define SETTLE_SECONDS 0.01
/* When a scan is followed by another because of what it found; each further one comes after twice
 * as long, up to the most. */
#define RECHECK_SECONDS 0.1
#define RECHECK_MOST 1.6
/* After a scan the next one waits as long again, but no longer than this, so that endless changes
 * do not take a whole CPU. */
#define PAUSE_LIMIT 1.0
/* How long it waits after a scan that failed: doubled for each more in a row, up to a limit. */
#define WAIT_FIRST 1.0
#define WAIT_MOST 30.0
/* A scan that was interrupted is begun again so many times. */
#define RETRIES 5
/* The kernel leaves out what we do not want if that is so few, or no more than so many for each
 * flow that we do want: see netlink/conntrack.h. */
#define FEW_ENTRIES 4096
#define ENTRIES_A_FLOW 8

/* The scan that runs. */
struct pass {
    struct conntrack_scan *scan; /* NULL: none runs */
    enum family family;
    unsigned retries;
    uint64_t flows; /* UDP flows of the family, seen by this try */
    struct conntrack_deletions done;
    double begin;
};

struct flow_cleaner {
    struct ev_loop *loop;
    struct conntrack *conntrack;
    struct flow_notes notes[FAMILY_COUNT];
    double due_at[FAMILY_COUNT];     /* a scan is wanted; clock_monotonic(), 0: none is */
    double recheck_at[FAMILY_COUNT]; /* likewise, because of what scans found */
    double recheck[FAMILY_COUNT];    /* the wait before that; 0: none */
    uint64_t flows[FAMILY_COUNT];    /* as the last scan saw them */
    bool filter_unknown;             /* to the kernel */
    struct flow_cleaner_stats stats[FAMILY_COUNT];
    struct pass pass;
    double wait;       /* after scans that failed in a row; 0: the last one did not */
    double rest_until; /* no scan begins before; clock_monotonic() */
    ev_timer timer;    /* begins the next scan */
    ev_io io;
};

/* ---- a scan ---- */

static void want(struct flow_cleaner *c, enum family family, double seconds)
{
    double at = clock_monotonic() + seconds, *due_at = &c->due_at[family];
    if (*due_at == 0 || at < *due_at)
        *due_at = at;
}

/* When the next scan of @family is due; 0: not at all. */
static double first_due(const struct flow_cleaner *c, enum family family)
{
    double due = c->due_at[family], recheck = c->recheck_at[family];
    return due > 0 && (recheck == 0 || due <= recheck) ? due : recheck;
}

/* The family whose scan is due first. */
static enum family next_family(const struct flow_cleaner *c)
{
    double ipv4 = first_due(c, FAMILY_IPV4), ipv6 = first_due(c, FAMILY_IPV6);
    return ipv4 > 0 && (ipv6 == 0 || ipv4 <= ipv6) ? FAMILY_IPV4 : FAMILY_IPV6;
}

static void schedule(struct flow_cleaner *c)
{
    double at = first_due(c, next_family(c));
    if (c->pass.scan || at == 0)
        return;
    ev_now_update(c->loop);
    ev_timer_stop(c->loop, &c->timer);
    ev_timer_set(&c->timer, fmax(fmax(at, c->rest_until) - clock_monotonic(), 0), 0);
    ev_timer_start(c->loop, &c->timer);
}

static void on_flow(void *ctx, const struct conntrack_flow *flow)
{
    struct flow_cleaner *c = ctx;
    c->pass.flows++;
    if (flow_notes_are_against(&c->notes[c->pass.family], flow))
        conntrack_delete(c->conntrack, flow);
}

static void delete_stale(struct flow_cleaner *c)
{
    struct conntrack_deletions now = conntrack_flush(c->conntrack);
    struct pass *pass = &c->pass;
    if (pass->done.failed == 0)
        pass->done.first_errno = now.first_errno;
    pass->done.deleted += now.deleted;
    pass->done.failed += now.failed;
    c->stats[pass->family].deleted += now.deleted;
    c->stats[pass->family].failed_deletions += now.failed;
}

static void stop_reading(struct flow_cleaner *c)
{
    if (!c->pass.scan)
        return;
    ev_io_stop(c->loop, &c->io);
    conntrack_scan_free(c->pass.scan);
    c->pass.scan = NULL;
}

/* Whether the kernel is to leave out what we do not want. */
static bool may_filter(const struct flow_cleaner *c, uint32_t entries)
{
    return !c->filter_unknown &&
           (entries <= FEW_ENTRIES || c->flows[c->pass.family] >= entries / ENTRIES_A_FLOW);
}

static int start_reading(struct flow_cleaner *c, struct error *err)
{
    uint32_t entries;
    c->pass.flows = 0;
    if (conntrack_count(c->conntrack, &entries, err))
        return -1;
    c->pass.scan = conntrack_scan_new(c->pass.family, may_filter(c, entries), err);
    if (!c->pass.scan)
        return -1;
    ev_io_set(&c->io, conntrack_scan_fd(c->pass.scan), EV_READ);
    ev_io_start(c->loop, &c->io);
    return 0;
}

static void say_failures(const struct pass *pass, const struct error *err)
{
    const char *family = family_name(pass->family);
    if (err->text)
        log_warn("conntrack", "family=%s cannot scan for stale UDP flows: %s; retrying", family,
                 err->text);
    else if (pass->retries > RETRIES)
        log_warn("conntrack",
                 "family=%s every scan of the conntrack table was interrupted in %d tries; some "
                 "stale UDP flows may remain",
                 family, RETRIES + 1);
    if (pass->done.failed > 0)
        log_warn("conntrack", "family=%s cannot delete stale UDP flows flows=%llu: %s", family,
                 (unsigned long long)pass->done.failed, strerror(pass->done.first_errno));
}

static void plan_recheck(struct flow_cleaner *c, enum family family, bool owed)
{
    double *wait = &c->recheck[family], *at = &c->recheck_at[family];
    if (!owed) {
        *wait = *at = 0;
    } else if (*at == 0) {
        *wait = fmin(fmax(2 * *wait, RECHECK_SECONDS), RECHECK_MOST);
        *at = clock_monotonic() + *wait;
    }
}

static void end_scan(struct flow_cleaner *c, struct error *err)
{
    struct pass *pass = &c->pass;
    struct flow_cleaner_stats *stats = &c->stats[pass->family];
    double seconds = clock_monotonic() - pass->begin;
    stop_reading(c);
    plan_recheck(c, pass->family, flow_notes_end_scan(&c->notes[pass->family], !err->text));
    if (!err->text || c->wait == 0)
        say_failures(pass, err);
    c->wait = err->text ? fmin(fmax(2 * c->wait, WAIT_FIRST), WAIT_MOST) : 0;
    if (err->text || pass->retries > RETRIES) {
        stats->failed_scans++;
    } else {
        stats->scans++;
        stats->total_scan_seconds += seconds;
        histogram_add(&stats->scan_seconds, seconds);
        c->flows[pass->family] = pass->flows;
        log_debug(2, "conntrack", "family=%s scanned flows=%llu deleted=%llu seconds=%.3f",
                  family_name(pass->family), (unsigned long long)pass->flows,
                  (unsigned long long)pass->done.deleted, seconds);
    }
    error_clear(err);
    c->rest_until = clock_monotonic() + SETTLE_SECONDS + fmin(seconds, PAUSE_LIMIT) + c->wait;
    schedule(c);
}

static void read_again(struct flow_cleaner *c, struct error *err)
{
    stop_reading(c);
    if (c->pass.retries > RETRIES || start_reading(c, err))
        end_scan(c, err);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct flow_cleaner *c = io->data;
    struct error err = {0};
    (void)loop;
    (void)revents;
    enum conntrack_progress progress = conntrack_scan_step(c->pass.scan, on_flow, c, &err);
    delete_stale(c);
    switch (progress) {
    case CONNTRACK_MORE:
        break;
    case CONNTRACK_INTERRUPTED:
        c->pass.retries++;
        read_again(c, &err);
        break;
    case CONNTRACK_UNFILTERED:
        c->filter_unknown = true;
        read_again(c, &err);
        break;
    case CONNTRACK_DONE:
    case CONNTRACK_FAILED:
        end_scan(c, &err);
        break;
    }
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct flow_cleaner *c = timer->data;
    struct error err = {0};
    (void)loop;
    (void)revents;
    enum family family = next_family(c);
    c->pass = (struct pass){.family = family, .begin = clock_monotonic()};
    bool rechecks = c->recheck_at[family] > 0 && c->recheck_at[family] <= c->pass.begin;
    c->due_at[family] = 0;
    if (rechecks)
        c->recheck_at[family] = 0;
    flow_notes_begin_scan(&c->notes[family], rechecks);
    if (start_reading(c, &err))
        end_scan(c, &err);
}

void flow_cleaner_hold_back(struct flow_cleaner *c, enum family family, flow_held_back_fn held_back,
                            const void *ctx)
{
    c->notes[family].held_back = held_back;
    c->notes[family].ctx = ctx;
}

void flow_cleaner_run(struct flow_cleaner *c, enum family family)
{
    if (flow_notes_put_in_force(&c->notes[family]))
        want(c, family, SETTLE_SECONDS);
    schedule(c);
}

void flow_cleaner_note(struct flow_cleaner *c, const struct frontend *frontend, bool claimed,
                       const struct backend *serving, size_t n)
{
    if (frontend->protocol == IPPROTO_UDP)
        flow_notes_say(&c->notes[frontend->family], frontend, claimed, serving, n);
}

/* ---- the cleaner ---- */

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
    ev_init(&c->timer, on_timer);
    ev_init(&c->io, on_readable);
    /* What else happened in a turn goes first. */
    ev_set_priority(&c->io, EV_MINPRI);
    c->timer.data = c->io.data = c;
    return c;
}

void flow_cleaner_free(struct flow_cleaner *c)
{
    if (!c)
        return;
    ev_timer_stop(c->loop, &c->timer);
    stop_reading(c);
    for (int family = 0; family < FAMILY_COUNT; family++)
        flow_notes_free(&c->notes[family]);
    conntrack_close(c->conntrack);
    free(c);
}

const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *c,
                                                    enum family family)
{
    return &c->stats[family];
}
