/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "flow_notes.h"

#include "kube-nftd/base.h"

#include <stdlib.h>

/* How often a frontend is scanned for again because of what a scan found. */
#define RECHECKS 5

/* Flows to these backends are kept. */
struct serving {
    bool claimed;
    VEC(struct backend) backends;
};

struct flow_note {
    struct hash_link link; /* by frontend */
    struct frontend frontend;
    struct serving said;
    struct serving judged; /* once applied */
    bool fresh;            /* in notes->fresh: said since it was applied last */
    bool in_force;
    bool due;     /* no scan began since it was applied */
    bool scanned; /* by the scan that runs */
    bool found;   /* what may come back, since it was applied */
    bool rechecked;
    bool recheck_due; /* it is due, but just because of what was found */
    unsigned rechecks_left;
};

static void set_serving(struct serving *serving, bool claimed, const struct backend *backends,
                        size_t n)
{
    serving->claimed = claimed;
    vec_clear(&serving->backends);
    vec_reserve(&serving->backends, n);
    for (size_t i = 0; i < n; i++)
        vec_push(&serving->backends, backends[i]);
}

static bool is_among(const struct backend *sorted, size_t n, const struct backend *backend)
{
    return n > 0 && bsearch(backend, sorted, n, sizeof(*sorted), backend_compare);
}

/* Makes stale by @serving only what is so by @other too. */
static void widen(struct serving *serving, const struct serving *other)
{
    size_t n = serving->backends.n;
    serving->claimed = serving->claimed && other->claimed;
    vec_each (&other->backends, backend) {
        if (!is_among(serving->backends.v, n, backend))
            vec_push(&serving->backends, *backend);
    }
    if (serving->backends.n > n)
        qsort(serving->backends.v, serving->backends.n, sizeof(struct backend), backend_compare);
}

static struct hash_key key_of(const struct hash_link *link)
{
    return (struct hash_key){&((const struct flow_note *)link)->frontend, sizeof(struct frontend)};
}

static void forget(struct flow_notes *notes, struct flow_note *note)
{
    hash_table_remove(&notes->by_frontend, &note->link);
    vec_free(&note->said.backends);
    vec_free(&note->judged.backends);
    free(note);
}

void flow_notes_free(struct flow_notes *notes)
{
    hash_table_each (&notes->by_frontend, struct flow_note, note)
        forget(notes, note);
    vec_free(&notes->fresh);
    notes->owed = false;
}

static struct flow_note *find(const struct flow_notes *notes, const struct frontend *frontend)
{
    return hash_table_find(&notes->by_frontend, key_of,
                           (struct hash_key){frontend, sizeof(*frontend)});
}

void flow_notes_say(struct flow_notes *notes, const struct frontend *frontend, bool claimed,
                    const struct backend *serving, size_t n)
{
    struct flow_note *note = find(notes, frontend);
    if (!note) {
        note = xcalloc(1, sizeof(*note));
        note->frontend = *frontend;
        hash_table_add(&notes->by_frontend, key_of, &note->link);
    }
    set_serving(&note->said, claimed, serving, claimed ? n : 0);
    if (!note->fresh)
        vec_push(&notes->fresh, note);
    note->fresh = true;
    if (note->in_force)
        widen(&note->judged, &note->said);
}

static void put_in_force(struct flow_note *note)
{
    vec_free(&note->judged.backends);
    note->judged = note->said;
    note->said = (struct serving){0};
    note->fresh = false;
    note->in_force = note->due = true;
    note->found = note->rechecked = note->recheck_due = false;
}

bool flow_notes_put_in_force(struct flow_notes *notes)
{
    size_t waiting = 0;
    vec_each (&notes->fresh, it) {
        if (notes->held_back && notes->held_back(notes->ctx, &(*it)->frontend)) {
            notes->fresh.v[waiting++] = *it;
            continue;
        }
        put_in_force(*it);
        notes->owed = true;
    }
    notes->fresh.n = waiting;
    if (waiting == 0)
        vec_clear_few(&notes->fresh);
    return notes->owed;
}

void flow_notes_begin_scan(struct flow_notes *notes, bool rechecks)
{
    notes->owed = false;
    hash_table_each (&notes->by_frontend, struct flow_note, note) {
        note->scanned = note->due && (rechecks || !note->recheck_due);
        if (note->scanned)
            note->due = note->recheck_due = false;
    }
}

/* Whether @note is to be scanned for again, after a scan that saw the table. */
static bool take_recheck(struct flow_note *note)
{
    if (note->found && !note->rechecked) {
        note->rechecked = true;
        note->rechecks_left = RECHECKS;
    }
    if (note->rechecks_left == 0)
        return false;
    note->rechecks_left--;
    return true;
}

/* What becomes of @note after the scan that it was scanned for by. */
static void end_scan(struct flow_notes *notes, struct flow_note *note, bool seen)
{
    bool again = seen && take_recheck(note);
    bool done = seen && !note->due && !again;
    note->recheck_due = again && !note->due;
    note->due = note->due || again || !seen;
    notes->owed = notes->owed || (note->due && !note->recheck_due);
    note->scanned = false;
    if (done && !note->fresh) {
        forget(notes, note);
    } else if (done) { /* as if it had just been named */
        note->in_force = false;
        vec_free(&note->judged.backends);
    }
}

bool flow_notes_end_scan(struct flow_notes *notes, bool seen)
{
    bool any = false;
    hash_table_each (&notes->by_frontend, struct flow_note, note)
        if (note->scanned)
            end_scan(notes, note, seen);
    hash_table_each (&notes->by_frontend, const struct flow_note, note)
        any = any || note->recheck_due;
    return any;
}

/* Whether @note wants all flows gone but those to its backends, and @server is none of these. */
static bool is_none_of(const struct flow_note *note, const struct backend *server)
{
    return note->in_force && !is_among(note->judged.backends.v, note->judged.backends.n, server);
}

static bool is_stale_answer(const struct flow_notes *notes, const struct conntrack_flow *flow)
{
    struct frontend from;
    if (!conntrack_flow_is_plain(flow, &from))
        return false;
    struct flow_note *note = find(notes, &from);
    const struct backend server = {from.address, from.port};
    if (!note || !note->judged.claimed || !is_none_of(note, &server))
        return false;
    note->found = true;
    return true;
}

bool flow_notes_are_against(struct flow_notes *notes, const struct conntrack_flow *flow)
{
    struct flow_note *note = find(notes, &flow->to);
    if (!note)
        return is_stale_answer(notes, flow);
    if (!is_none_of(note, &flow->server))
        return false;
    bool translated = conntrack_flow_is_translated(flow);
    if (!translated && note->judged.claimed)
        note->found = true;
    return translated || note->judged.claimed;
}
