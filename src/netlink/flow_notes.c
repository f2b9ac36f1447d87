/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink/flow_notes.h"

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/vec.h"

#include <stdlib.h>

/* Flows to these backends are kept. */
struct serving {
    bool claimed;
    VEC(struct backend) backends;
};

struct flow_note {
    struct frontend frontend;
    struct serving said;
    struct serving judged; /* once in force */
    bool fresh;            /* said since the last time that all came into force */
    bool in_force;
    bool due;     /* no scan began since it came into force */
    bool scanned; /* by the scan that runs */
    UT_hash_handle hh;
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

static void forget(struct flow_notes *notes, struct flow_note *note)
{
    HASH_DELETE(hh, notes->by_frontend, note);
    vec_free(&note->said.backends);
    vec_free(&note->judged.backends);
    free(note);
}

void flow_notes_free(struct flow_notes *notes)
{
    struct flow_note *note, *next;
    HASH_ITER(hh, notes->by_frontend, note, next)
    {
        forget(notes, note);
    }
}

static struct flow_note *find(const struct flow_notes *notes, const struct frontend *frontend)
{
    struct flow_note *note;
    HASH_FIND(hh, notes->by_frontend, frontend, sizeof(*frontend), note);
    return note;
}

void flow_notes_say(struct flow_notes *notes, const struct frontend *frontend, bool claimed,
                    const struct backend *serving, size_t n)
{
    struct flow_note *note = find(notes, frontend);
    if (!note) {
        note = xcalloc(1, sizeof(*note));
        note->frontend = *frontend;
        HASH_ADD(hh, notes->by_frontend, frontend, sizeof(note->frontend), note);
    }
    set_serving(&note->said, claimed, serving, claimed ? n : 0);
    note->fresh = true;
    if (note->in_force)
        widen(&note->judged, &note->said);
}

bool flow_notes_put_in_force(struct flow_notes *notes)
{
    struct flow_note *note, *next;
    bool any_due = false;
    HASH_ITER(hh, notes->by_frontend, note, next)
    {
        if (note->fresh) {
            vec_free(&note->judged.backends);
            note->judged = note->said;
            note->said = (struct serving){0};
            note->fresh = false;
            note->in_force = note->due = true;
        }
        any_due = any_due || note->due;
    }
    return any_due;
}

void flow_notes_begin_scan(struct flow_notes *notes)
{
    struct flow_note *note, *next;
    HASH_ITER(hh, notes->by_frontend, note, next)
    {
        note->scanned = note->due;
        note->due = false;
    }
}

void flow_notes_end_scan(struct flow_notes *notes, bool seen)
{
    struct flow_note *note, *next;
    HASH_ITER(hh, notes->by_frontend, note, next)
    {
        bool done = note->scanned && seen && !note->due;
        note->due = note->due || (note->scanned && !seen);
        note->scanned = false;
        if (done && !note->fresh) {
            forget(notes, note);
        } else if (done) { /* as if it had just been named */
            note->in_force = false;
            vec_free(&note->judged.backends);
        }
    }
}

bool flow_notes_are_against(const struct flow_notes *notes, const struct conntrack_flow *flow)
{
    const struct flow_note *note = find(notes, &flow->to);
    if (!note || !note->in_force ||
        is_among(note->judged.backends.v, note->judged.backends.n, &flow->server))
        return false;
    return note->judged.claimed || conntrack_flow_is_translated(flow);
}
