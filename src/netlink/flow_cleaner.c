/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A note exists for a frontend from its first change to the end of the last scan for it:
 *
 *     flow_cleaner_note   pending; if it was applied before, a flow has to be stale by both
 *     flow_cleaner_run    applied, a scan is due
 *     on_timer            being scanned
 *     end_scan            dropped, unless it is pending or another scan is due
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
#define SETTLE_SECONDS 0.01
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
/* The kernel filters if the table is this small, or has at most this many entries per flow that we
 * want: see conntrack.h. */
#define FEW_ENTRIES 4096
#define ENTRIES_A_FLOW 8

/* Flows to these backends are kept. */
struct serving {
    bool claimed;
    VEC(struct backend) backends; /* sorted */
};

struct note {
    struct hash_link link; /* by frontend */
    struct frontend frontend;
    struct serving noted;   /* latest state, while pending */
    struct serving applied; /* the state in the kernel */
    bool is_pending, is_applied;
    double due;   /* earliest time of a scan; 0: none is due */
    bool scanned; /* by the running scan */
    bool found;   /* an untranslated flow */
    unsigned rechecks;
};

struct notes {
    struct hash_table by_frontend;
    VEC(struct note *) pending;
    double due;                  /* earliest time of the next scan; 0: none is due */
    uint64_t flows;              /* counted by the last scan */
    flow_held_back_fn held_back; /* may be NULL */
    const void *ctx;
};

struct flow_cleaner {
    struct ev_loop *loop;
    struct conntrack *conntrack;
    struct notes notes[FAMILY_COUNT];
    struct flow_cleaner_stats stats[FAMILY_COUNT];
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

/* ---- notes ---- */

static struct hash_key key_of(const struct hash_link *link)
{
    return (struct hash_key){&((const struct note *)link)->frontend, sizeof(struct frontend)};
}

static struct note *find(const struct notes *notes, const struct frontend *frontend)
{
    return hash_table_find(&notes->by_frontend, key_of,
                           (struct hash_key){frontend, sizeof(*frontend)});
}

static void drop_note(struct notes *notes, struct note *note)
{
    hash_table_remove(&notes->by_frontend, &note->link);
    vec_free(&note->noted.backends);
    vec_free(&note->applied.backends);
    free(note);
}

void flow_cleaner_note(struct flow_cleaner *c, const struct frontend *frontend, bool claimed,
                       const struct backend *serving, size_t n)
{
    struct notes *notes = &c->notes[frontend->family];
    if (frontend->protocol != IPPROTO_UDP)
        return;
    struct note *note = find(notes, frontend);
    if (!note) {
        note = xcalloc(1, sizeof(*note));
        note->frontend = *frontend;
        hash_table_add(&notes->by_frontend, key_of, &note->link);
    }
    note->noted.claimed = claimed;
    vec_clear(&note->noted.backends);
    vec_append(&note->noted.backends, serving, claimed ? n : 0);
    if (!note->is_pending)
        vec_push(&notes->pending, note);
    note->is_pending = true;
}

/* Whether a flow with replies from @server is stale. */
static bool is_stale_under(const struct serving *serving, const struct backend *server,
                           bool translated)
{
    return (translated || serving->claimed) &&
           (serving->backends.n == 0 || !bsearch(server, serving->backends.v, serving->backends.n,
                                                 sizeof(*server), backend_compare));
}

static bool same(const struct backend *a, const struct backend *b)
{
    return a->port == b->port && memcmp(&a->address, &b->address, sizeof(a->address)) == 0;
}

/* The note whose frontend is @end. */
static struct note *note_of(const struct notes *notes, enum family family,
                            const struct backend *end)
{
    const struct frontend frontend = {end->address, end->port, IPPROTO_UDP, (uint8_t)family};
    return find(notes, &frontend);
}

/* An untranslated flow may be an answer to a client whose own entry is gone: conntrack takes the
 * client's next packet as a reply to it and does not translate it. So if its destination is not a
 * noted frontend, its original source is checked. */
static bool is_stale(const struct notes *notes, const struct conntrack_flow *flow)
{
    const struct backend *server = &flow->reply.source;
    bool translated = !same(&flow->original.destination, server);
    struct note *note = note_of(notes, flow->family, &flow->original.destination);
    if (!note && !translated && same(&flow->original.source, &flow->reply.destination)) {
        server = &flow->original.source;
        note = note_of(notes, flow->family, server);
    }
    if (!note || !note->is_applied || !is_stale_under(&note->applied, server, translated) ||
        (note->is_pending && !is_stale_under(&note->noted, server, translated)))
        return false;
    note->found = note->found || !translated;
    return true;
}

/* ---- a scan ---- */

static void schedule(struct flow_cleaner *c)
{
    double due = clock_earlier(c->notes[FAMILY_IPV4].due, c->notes[FAMILY_IPV6].due);
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
    if (is_stale(&c->notes[c->family], flow))
        conntrack_delete(c->conntrack, flow);
}

static int start_reading(struct flow_cleaner *c, struct error *err)
{
    uint32_t entries;
    c->flows = 0;
    if (conntrack_count(c->conntrack, &entries, err))
        return -1;
    bool filtered = entries <= FEW_ENTRIES || c->notes[c->family].flows >= entries / ENTRIES_A_FLOW;
    if (conntrack_scan_begin(c->conntrack, c->family, filtered, on_flow, c, err))
        return -1;
    ev_io_set(&c->io, conntrack_scan_fd(c->conntrack), EV_READ);
    ev_io_start(c->loop, &c->io);
    return 0;
}

/* Decides what follows a scan for @note. @seen: the scan read the table. */
static void end_scan_for(struct notes *notes, struct note *note, bool seen)
{
    double now = clock_monotonic();
    note->scanned = false;
    if (!seen)
        note->due = now;
    else if (note->due == 0 && note->found && note->rechecks < RECHECKS)
        note->due = now + RECHECK_SECONDS * (1U << note->rechecks++);
    if (note->due == 0 && note->is_pending)
        note->is_applied = false; /* as for a new note */
    else if (note->due == 0)
        drop_note(notes, note);
}

static void log_failures(const struct flow_cleaner *c, const struct conntrack_deletions *done,
                         const struct error *err)
{
    const char *family = family_name(c->family);
    if (err->text)
        log_warn("conntrack", "family=%s cannot scan for stale UDP flows: %s; retrying", family,
                 err->text);
    else if (c->retries > RETRIES)
        log_warn("conntrack",
                 "family=%s every scan of the conntrack table was interrupted in %d tries; some "
                 "stale UDP flows may remain",
                 family, RETRIES + 1);
    if (done->failed > 0)
        log_warn("conntrack", "family=%s cannot delete stale UDP flows flows=%llu: %s", family,
                 (unsigned long long)done->failed, strerror(done->first_errno));
}

static void end_scan(struct flow_cleaner *c, struct error *err)
{
    struct notes *notes = &c->notes[c->family];
    struct flow_cleaner_stats *stats = &c->stats[c->family];
    const struct conntrack_deletions done = conntrack_take_deletions(c->conntrack);
    double seconds = clock_monotonic() - c->begin;
    c->scanning = false;
    hash_table_each (&notes->by_frontend, struct note, note)
        if (note->scanned)
            end_scan_for(notes, note, !err->text);
    hash_table_each (&notes->by_frontend, const struct note, note)
        notes->due = clock_earlier(notes->due, note->due);
    if (!err->text || c->wait == 0)
        log_failures(c, &done, err);
    c->wait = err->text ? fmin(fmax(2 * c->wait, WAIT_FIRST), WAIT_MOST) : 0;
    stats->deleted += done.deleted;
    stats->failed_deletions += done.failed;
    if (err->text || c->retries > RETRIES) {
        stats->failed_scans++;
    } else {
        stats->scans++;
        stats->total_scan_seconds += seconds;
        histogram_add(&stats->scan_seconds, seconds);
        notes->flows = c->flows;
        log_debug(2, "conntrack", "family=%s scanned flows=%llu deleted=%llu seconds=%.3f",
                  family_name(c->family), (unsigned long long)c->flows,
                  (unsigned long long)done.deleted, seconds);
    }
    error_clear(err);
    c->rest_until = clock_monotonic() + SETTLE_SECONDS + fmin(seconds, PAUSE_LIMIT) + c->wait;
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

/* Scans the family that is due first, for all of its frontends that are due. */
static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct flow_cleaner *c = timer->data;
    struct error err = {0};
    (void)loop;
    (void)revents;
    double ipv4 = c->notes[FAMILY_IPV4].due, ipv6 = c->notes[FAMILY_IPV6].due;
    c->family = clock_earlier(ipv4, ipv6) == ipv4 ? FAMILY_IPV4 : FAMILY_IPV6;
    struct notes *notes = &c->notes[c->family];
    c->begin = fmax(clock_monotonic(), notes->due);
    notes->due = 0;
    hash_table_each (&notes->by_frontend, struct note, note) {
        note->scanned = note->due > 0 && note->due <= c->begin;
        if (note->scanned)
            note->due = 0;
    }
    c->scanning = true;
    c->retries = 0;
    if (start_reading(c, &err))
        end_scan(c, &err);
}

/* ---- the cleaner ---- */

void flow_cleaner_hold_back(struct flow_cleaner *c, enum family family, flow_held_back_fn held_back,
                            const void *ctx)
{
    c->notes[family].held_back = held_back;
    c->notes[family].ctx = ctx;
}

void flow_cleaner_run(struct flow_cleaner *c, enum family family)
{
    struct notes *notes = &c->notes[family];
    size_t waiting = 0;
    vec_each (&notes->pending, it) {
        struct note *note = *it;
        if (notes->held_back && notes->held_back(notes->ctx, &note->frontend)) {
            notes->pending.v[waiting++] = note;
            continue;
        }
        vec_free(&note->applied.backends);
        note->applied = note->noted;
        note->noted = (struct serving){0};
        note->is_applied = true;
        note->is_pending = note->found = false;
        note->rechecks = 0;
        note->due = clock_monotonic() + SETTLE_SECONDS;
        notes->due = clock_earlier(notes->due, note->due);
    }
    notes->pending.n = waiting;
    if (waiting == 0)
        vec_clear_few(&notes->pending);
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
        struct notes *notes = &c->notes[family];
        hash_table_each (&notes->by_frontend, struct note, note)
            drop_note(notes, note);
        vec_free(&notes->pending);
    }
    conntrack_close(c->conntrack);
    free(c);
}

const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *c,
                                                    enum family family)
{
    return &c->stats[family];
}
