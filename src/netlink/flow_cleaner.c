/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A note is kept for a frontend from when it is named until the end of the last scan for it:
 *
 *     flow_cleaner_note   pending; if it was applied before, a flow has to be stale by both
 *     flow_cleaner_run    applied, a scan is due
 *     on_timer            scanned for
 *     end_scan            forgotten, unless it is pending or a scan is due again
 *
 * A scan is due again for some time if one found an untranslated flow: an answer that was on its
 * way when the entry went makes a new one.
 */
#include "kube-nftd/netlink.h"

#include "conntrack.h"

#include <errno.h>
#include <ev.h>
#include <linux/in.h>
#include <math.h>
#include <string.h>

/* How long packets that met the old rules may take to be in the table. */
#define SETTLE_SECONDS 0.01
/* A frontend is scanned for again so many times because of what a scan found; each further scan
 * comes after twice as long. */
#define RECHECKS 5
#define RECHECK_SECONDS 0.1
/* After a scan the next one waits as long again, but no longer than this, so that endless changes
 * do not take a whole CPU. */
#define PAUSE_LIMIT 1.0
/* How long it waits after a scan that failed: doubled for each more in a row, up to a limit. */
#define WAIT_FIRST 1.0
#define WAIT_MOST 30.0
/* A scan that was interrupted is begun again so many times. */
#define RETRIES 5
/* The kernel leaves out what we do not want if that is so few, or no more than so many for each
 * flow that we do want: see conntrack.h. */
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
    struct serving noted;   /* last, while it is pending */
    struct serving applied; /* by which flows are judged */
    bool is_pending, is_applied;
    double due;   /* when a scan for it may begin; 0: none is due */
    bool scanned; /* by the scan that runs */
    bool found;   /* an untranslated flow */
    unsigned rechecks;
};

/* Of a family. */
struct notes {
    struct hash_table by_frontend;
    VEC(struct note *) pending;
    double due;                  /* when the first scan may begin; 0: none is due */
    uint64_t flows;              /* as the last scan saw them */
    flow_held_back_fn held_back; /* NULL: nothing ever is */
    const void *ctx;
};

struct flow_cleaner {
    struct ev_loop *loop;
    struct conntrack *conntrack;
    struct notes notes[FAMILY_COUNT];
    struct flow_cleaner_stats stats[FAMILY_COUNT];
    double wait;       /* after scans that failed in a row; 0: the last one did not */
    double rest_until; /* no scan begins before; clock_monotonic() */
    ev_timer timer;    /* begins the next scan */
    ev_io io;
    /* The scan that runs, */
    bool scanning;
    enum family family;
    double begin;
    unsigned retries;
    uint64_t flows; /* of the family, seen by this try */
    uint64_t deleted, failed;
    int first_errno; /* of the deletions that failed */
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

static void forget(struct notes *notes, struct note *note)
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

/* Whether a flow is stale whose replies come from @server. */
static bool is_stale_by(const struct serving *serving, const struct backend *server,
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

/* The note about @end of a flow. */
static struct note *note_about(const struct notes *notes, enum family family,
                               const struct backend *end)
{
    const struct frontend frontend = {end->address, end->port, IPPROTO_UDP, (uint8_t)family};
    return find(notes, &frontend);
}

/* A flow without translation, either way, may be the answer to a question whose own entry has gone:
 * what the client asks next counts as the reply to it, and is not translated either. So it is
 * judged by who sent its first packet, if nothing is known of where that went. */
static bool is_stale(const struct notes *notes, const struct conntrack_flow *flow)
{
    const struct backend *server = &flow->reply.source;
    bool translated = !same(&flow->original.destination, server);
    struct note *note = note_about(notes, flow->family, &flow->original.destination);
    if (!note && !translated && same(&flow->original.source, &flow->reply.destination)) {
        server = &flow->original.source;
        note = note_about(notes, flow->family, server);
    }
    if (!note || !note->is_applied || !is_stale_by(&note->applied, server, translated) ||
        (note->is_pending && !is_stale_by(&note->noted, server, translated)))
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
    if (!is_stale(&c->notes[c->family], flow))
        return;
    int why = conntrack_delete(c->conntrack, flow);
    c->deleted += why == 0;
    if (why == 0 || why == ENOENT)
        return;
    if (c->failed++ == 0)
        c->first_errno = why;
}

static int start_reading(struct flow_cleaner *c, struct error *err)
{
    uint32_t entries;
    c->flows = 0;
    if (conntrack_count(c->conntrack, &entries, err))
        return -1;
    bool filtered = entries <= FEW_ENTRIES || c->notes[c->family].flows >= entries / ENTRIES_A_FLOW;
    if (conntrack_scan_begin(c->conntrack, c->family, filtered, err))
        return -1;
    ev_io_set(&c->io, conntrack_scan_fd(c->conntrack), EV_READ);
    ev_io_start(c->loop, &c->io);
    return 0;
}

/* What becomes of @note after the scan for it, which saw the table or not. */
static void end_scan_for(struct notes *notes, struct note *note, bool seen)
{
    double now = clock_monotonic();
    note->scanned = false;
    if (!seen)
        note->due = now;
    else if (note->due == 0 && note->found && note->rechecks < RECHECKS)
        note->due = now + RECHECK_SECONDS * (1U << note->rechecks++);
    if (note->due == 0 && note->is_pending)
        note->is_applied = false; /* as if it had just been named */
    else if (note->due == 0)
        forget(notes, note);
}

static void log_failures(const struct flow_cleaner *c, const struct error *err)
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
    if (c->failed > 0)
        log_warn("conntrack", "family=%s cannot delete stale UDP flows flows=%llu: %s", family,
                 (unsigned long long)c->failed, strerror(c->first_errno));
}

static void end_scan(struct flow_cleaner *c, struct error *err)
{
    struct notes *notes = &c->notes[c->family];
    struct flow_cleaner_stats *stats = &c->stats[c->family];
    double seconds = clock_monotonic() - c->begin;
    c->scanning = false;
    hash_table_each (&notes->by_frontend, struct note, note)
        if (note->scanned)
            end_scan_for(notes, note, !err->text);
    hash_table_each (&notes->by_frontend, const struct note, note)
        notes->due = clock_earlier(notes->due, note->due);
    if (!err->text || c->wait == 0)
        log_failures(c, err);
    c->wait = err->text ? fmin(fmax(2 * c->wait, WAIT_FIRST), WAIT_MOST) : 0;
    stats->deleted += c->deleted;
    stats->failed_deletions += c->failed;
    if (err->text || c->retries > RETRIES) {
        stats->failed_scans++;
    } else {
        stats->scans++;
        stats->total_scan_seconds += seconds;
        histogram_add(&stats->scan_seconds, seconds);
        notes->flows = c->flows;
        log_debug(2, "conntrack", "family=%s scanned flows=%llu deleted=%llu seconds=%.3f",
                  family_name(c->family), (unsigned long long)c->flows,
                  (unsigned long long)c->deleted, seconds);
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
    enum conntrack_progress progress = conntrack_scan_step(c->conntrack, on_flow, c, &err);
    if (progress == CONNTRACK_MORE)
        return;
    ev_io_stop(loop, &c->io);
    conntrack_scan_end(c->conntrack);
    if (progress == CONNTRACK_INTERRUPTED && c->retries++ < RETRIES && start_reading(c, &err) == 0)
        return;
    end_scan(c, &err);
}

/* Begins a scan of the family whose time has come, for all frontends that one is due for. */
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
    c->deleted = c->failed = 0;
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
    ev_io_stop(c->loop, &c->io);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        struct notes *notes = &c->notes[family];
        hash_table_each (&notes->by_frontend, struct note, note)
            forget(notes, note);
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
