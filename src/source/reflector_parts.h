/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the reflector share: reflector.c (requests, states, time), reflector_events.c
 * (what comes) and reflector_endings.c (what comes next). Not for others.
 */
#ifndef KUBE_NFTD_SOURCE_REFLECTOR_PARTS_H
#define KUBE_NFTD_SOURCE_REFLECTOR_PARTS_H

#include "backoff.h"
#include "bad_objects.h"
#include "initial_events.h"
#include "kube-nftd/source/collection.h"
#include "kube-nftd/source/reflector.h"
#include "list_reader.h"
#include "trouble.h"
#include "watch_reader.h"

#include <ev.h>

/* A watch that stays open so long without an event was worth opening. */
#define WATCH_PROOF 1.0
/* Between two bytes of a page or of initial events, and for all of them. */
#define SILENCE_TIMEOUT 60.0
#define CONTENTS_TIMEOUT 300.0

/* Of contents: twenty times what 10,000 Services and their 100,000 endpoints take. */
#define CONTENTS_LIMIT ((size_t)1 << 30)

/* What the request that is open, or comes next, is for. */
enum purpose {
    STREAM, /* all there is, as initial events; from their end on, it is a WATCH */
    LIST,   /* all there is, by pages */
    WATCH,  /* changes from a version on */
};

enum reflector_state {
    STATE_NEW,
    STATE_CONNECTING, /* no 200 yet */
    STATE_STREAMING,  /* initial events come */
    STATE_LISTING,    /* a page comes */
    STATE_WATCHING,
    STATE_BACKING_OFF,
};

struct reflector {
    struct ev_loop *loop;
    struct apiserver *apiserver;
    const struct object_sink *sink;
    struct collection collection;

    enum reflector_state state;
    enum purpose purpose;
    struct api_request *request;
    /* BACKING_OFF: its end. CONNECTING, STREAMING, LISTING: how long we wait for more. WATCHING,
     * and the beginning of STREAMING: the proof. */
    struct ev_timer timer;
    struct backoff backoff;
    double opened_at; /* when the 200 came; clock_monotonic */

    char *version; /* of the last contents or event; NULL before them */
    /* The server refused that version: the newest state is asked for until contents come. */
    bool version_unusable;
    bool answered;   /* by contents, or by 403 or 404 */
    bool listed;     /* by a list, and no watch was opened since */
    bool relisted;   /* a watch was refused as too old; since then none has lasted, and we did not
                        wait */
    bool restreamed; /* a stream was cut and begun again at once, and no contents came since */
    bool proven;     /* the watch or stream has lived for a while or brought something */
    unsigned absent; /* how often in all the server did not have what we can do without */
    unsigned hasty;  /* how many watches in a row did not last */
    unsigned told_to_wait; /* how often by the server, since something came */
    size_t received;       /* bytes of the contents that are coming */

    bool list_limited;
    struct list_reader list;
    struct initial_events initial;
    struct watch_reader watch;
    struct error broken; /* why the body that is coming was given up */

    struct trouble trouble;
    struct bad_objects bad;
    struct reflector_figures figures;
};

/* The name for log lines. */
static inline const char *resource_of(const struct reflector *r)
{
    return collection_resource(&r->collection);
}

/* ---- reflector.c ---- */

/** The only place that changes the state; logs old and new. */
void reflector_enter(struct reflector *r, enum reflector_state state);

/** Sends the request for @purpose; of a list, for its next page. */
void reflector_ask(struct reflector *r, enum purpose purpose);

/** Waits before it asks for @next: @retry_after seconds if the server wants that, else (it is 0 or
 * less) as long as it is due. */
void reflector_back_off(struct reflector *r, enum purpose next, double retry_after);

/** Lets the timer be due in @seconds, in place of what it ran for. */
void reflector_start_timer(struct reflector *r, double seconds);

/* ---- reflector_events.c ---- */

/** Takes an event of a watch or stream; a watch_event_fn for the reflector @ctx. */
int reflector_take_event(void *ctx, struct watch_event *event, struct error *err);

/** Hands all there is, as of @version, to the sink; both are empty then. */
void reflector_take_contents(struct reflector *r, object_vec *objects, char **version);

/** The watch begins: it was opened, or the initial events are over. */
void reflector_begin_watching(struct reflector *r);

/** The watch or stream is worth its name. Of a watch, whatever was said before is over. */
void reflector_prove(struct reflector *r);

/* ---- reflector_endings.c: no request is open, and each decides on the next ---- */

/** The server said no, @in_event or by the answer's status. */
void reflector_refused(struct reflector *r, const struct api_status *status, bool in_event);

/** What came is of no use; r->broken says why. */
void reflector_unreadable(struct reflector *r);

/** There is no answer, or it cannot even be asked for. */
void reflector_failed(struct reflector *r, const char *why);

/** The server took too long, to answer or to go on. */
void reflector_stalled(struct reflector *r, const char *why);

/** A 200 answer is over; @transport says why if it did not end as it should, else it is NULL. */
void reflector_ended(struct reflector *r, const char *transport);

#endif
