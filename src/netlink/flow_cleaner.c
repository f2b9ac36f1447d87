/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A target is a frontend from its first change to the end of the last scan for it:
 *
 *     flow_cleaner_set    pending; if it was applied before, a flow has to be stale by both
 *     flow_cleaner_run    applied, a scan is due
 *     on_timer            being scanned
 *     end_scan            forgotten, unless it is pending or another scan is due
 *
 * If a scan found an untranslated flow, more scans follow for some time: an answer in flight when
 * the entry was deleted creates a new one.
 */
#include "kube-nftd/netlink.h"

#include "conntrack.h"

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
 * the family: see conntrack.h. */
#define FEW_ENTRIES 4096
#define ENTRIES_A_FLOW 8

/* Flows to these backends are kept. */
struct serving {
    bool claimed;
    VEC(struct backend) backends; /* sorted */
};

struct target {
    struct hash_link link; /* by frontend */
    struct frontend frontend;
    struct serving desired; /* while it is pending */
    struct serving applied;
    bool is_pending, is_applied;
    bool scanned; /* by the running scan */
    bool found;   /* an untranslated flow */
    double due;   /* earliest time of a scan; 0: none is due */
    unsigned rechecks;
};

/* The state of a family. */
struct targets {
    struct hash_table by_frontend;
    VEC(struct target *) pending;
    double due;                      /* the earliest of its targets; 0: none is due */
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
    unsigned retries;
    uint64_t flows; /* seen by this attempt */
};

/* ---- targets ---- */

static struct hash_key key_of(const struct hash_link *link)
{
    return (struct hash_key){&((const struct target *)link)->frontend, sizeof(struct frontend)};
}

static struct target *find(const struct targets *targets, const struct frontend *frontend)
{
    return hash_table_find(&targets->by_frontend, key_of,
                           (struct hash_key){frontend, sizeof(*frontend)});
}

static void forget(struct targets *targets, struct target *target)
{
    hash_table_remove(&targets->by_frontend, &target->link);
    vec_free(&target->desired.backends);
    vec_free(&target->applied.backends);
    free(target);
}

void flow_cleaner_set(struct flow_cleaner *c, const struct frontend *frontend, bool claimed,
                      const struct backend *serving, size_t n)
{
    struct targets *targets = &c->targets[frontend->family];
    if (frontend->protocol != IPPROTO_UDP)
        return;
    struct target *target = find(targets, frontend);
    if (!target) {
        target = xcalloc(1, sizeof(*target));
        target->frontend = *frontend;
        hash_table_add(&targets->by_frontend, key_of, &target->link);
    }
    target->desired.claimed = claimed;
    vec_clear(&target->desired.backends);
    vec_append(&target->desired.backends, serving, claimed ? n : 0);
    if (!target->is_pending)
        vec_push(&targets->pending, target);
    target->is_pending = true;
}

/* Whether a flow with replies from @server is stale. */
static bool is_stale_under(const struct serving *serving, const struct backend *server,
                           bool translated)
{
    return (translated || serving->claimed) &&
           (serving->backends.n == 0 || !bsearch(server, serving->backends.v, serving->backends.n,
                                                 sizeof(*server), backend_compare));
}

/* The target whose frontend is @end. */
static struct target *target_at(const struct targets *targets, enum family family,
                                const struct backend *end)
{
    const struct frontend frontend = {end->address, end->port, IPPROTO_UDP, (uint8_t)family};
    return find(targets, &frontend);
}

/* An untranslated flow may be an answer to a client whose own entry is gone: conntrack takes the
 * client's next packet as a reply to it and does not translate it. So if its destination is not a
 * target, its original source is checked. */
static bool is_stale(const struct targets *targets, const struct conntrack_flow *flow)
{
    const struct backend *server = &flow->reply.source;
    bool translated = !backend_equal(&flow->original.destination, server);
    struct target *target = target_at(targets, flow->family, &flow->original.destination);
    if (!target && !translated && backend_equal(&flow->original.source, &flow->reply.destination)) {
        server = &flow->original.source;
        target = target_at(targets, flow->family, server);
    }
    if (!target || !target->is_applied || !is_stale_under(&target->applied, server, translated) ||
        (target->is_pending && !is_stale_under(&target->desired, server, translated)))
        return false;
    target->found = target->found || !translated;
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
    if (conntrack_scan_begin(c->conntrack, c->family, filtered, on_flow, c, err))
        return -1;
    ev_io_set(&c->io, conntrack_scan_fd(c->conntrack), EV_READ);
    ev_io_start(c->loop, &c->io);
    return 0;
}

/* Decides what follows a scan for @target. @seen: the scan read the table. */
static void end_scan_for(struct targets *targets, struct target *target, bool seen)
{
    double now = clock_monotonic();
    target->scanned = false;
    if (!seen)
        target->due = now;
    else if (target->due == 0 && target->found && target->rechecks < RECHECKS)
        target->due = now + RECHECK_SECONDS * (1U << target->rechecks++);
    if (target->due == 0 && target->is_pending)
        target->is_applied = false; /* as for a new target */
    else if (target->due == 0)
        forget(targets, target);
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
    hash_table_each (&targets->by_frontend, struct target, target)
        if (target->scanned)
            end_scan_for(targets, target, !err->text);
    hash_table_each (&targets->by_frontend, const struct target, target)
        targets->due = clock_earlier(targets->due, target->due);
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
static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
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
    hash_table_each (&targets->by_frontend, struct target, target) {
        target->scanned = target->due > 0 && target->due <= c->begin;
        if (target->scanned)
            target->due = 0;
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

void flow_cleaner_run(struct flow_cleaner *c, enum family family)
{
    struct targets *targets = &c->targets[family];
    size_t skipped = 0;
    vec_each (&targets->pending, it) {
        struct target *target = *it;
        if (targets->not_applied && targets->not_applied(targets->ctx, &target->frontend)) {
            targets->pending.v[skipped++] = target;
            continue;
        }
        vec_free(&target->applied.backends);
        target->applied = target->desired;
        target->desired = (struct serving){0};
        target->is_applied = true;
        target->is_pending = target->found = false;
        target->rechecks = 0;
        target->due = clock_monotonic() + FLIGHT_SECONDS;
        targets->due = clock_earlier(targets->due, target->due);
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
    ev_init(&c->timer, on_timer);
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
        hash_table_each (&targets->by_frontend, struct target, target)
            forget(targets, target);
        vec_free(&targets->pending);
    }
    conntrack_close(c->conntrack);
    free(c);
}

const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *c,
                                                    enum family family)
{
    return &c->targets[family].stats;
}
