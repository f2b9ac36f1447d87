/* SPDX-License-Identifier: GPL-2.0-or-later */
/* State of a reflector, for reflector.c and its tests. */
#ifndef KUBE_NFTD_SOURCE_REFLECTOR_STATE_H
#define KUBE_NFTD_SOURCE_REFLECTOR_STATE_H

#include "kube-nftd/source.h"
#include "object_reader.h"

#include <ev.h>

/* Bytes of contents: 20 times the size of 10,000 Services with 100,000 endpoints. */
#define CONTENTS_LIMIT ((size_t)1 << 30)

/* The purpose of the open request, or of the next one. */
enum purpose {
    STREAM, /* all objects, as initial events; afterwards a WATCH */
    LIST,   /* all objects, by pages */
    WATCH,  /* changes since a version */
    CHECK,  /* whether the server has our version: the server's own, by a list of one object */
};

/*
 * Contents that arrive object by object, from a list or as initial events, useless before their end
 * (docs/behaviour.md 10.2 A). Most are additions. A sink lets a later object of the same id win,
 * but a deletion must be applied in order: so what comes from the first one on follows as changes.
 */
struct contents {
    object_vec objects;
    VEC(struct content_change {
        struct object object;
        bool removed;
    })
    changes;
    size_t count, limit; /* of events */
};

enum reflector_state {
    STATE_NEW,
    STATE_CONNECTING, /* no 200 yet */
    STATE_STREAMING,  /* receiving initial events */
    STATE_LISTING,    /* receiving a page, or the answer to a check */
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
    /* BACKING_OFF: the end of the wait. CONNECTING, STREAMING, LISTING: the timeout for more data.
     * WATCHING, and STREAMING at first: when the answer counts as proven. */
    struct ev_timer timer;
    double opened_at;       /* when the 200 came; clock_monotonic */
    unsigned watch_seconds; /* requested */
    double full_time;       /* when the server ends the watch by itself; clock_monotonic */

    char *version; /* of the last contents or event; NULL: none yet */
    /* The server rejected that version: request the newest state until contents arrive. */
    bool version_unusable;
    /* The server has our version: by the contents, a check, or a later version in this watch. */
    bool confirmed;
    bool rewound;           /* an event of the current answer is older than our version */
    bool listed;            /* contents came by a list, and no watch was opened since */
    bool relisted;          /* our version was of no use; no watch lasted since, no back-off */
    bool restreamed;        /* a stream was cut and restarted at once; no contents since */
    bool proven;            /* the watch or stream has lasted or delivered something */
    unsigned absent;        /* how often the server lacked an API that is optional */
    unsigned short_watches; /* watches in a row that did not last */
    unsigned retry_afters;  /* Retry-After answers since the last data */
    size_t received;        /* bytes of the incoming contents */
    enum encoding encoding; /* of the last answer */

    bool list_limited;
    struct object_reader reader;
    struct contents contents; /* incoming */
    struct error broken;      /* why the current body was abandoned */

    struct retry retry;
    struct backoff futile; /* after answers that began well: not reset by the next that does */
    unsigned bad_reported; /* events reported for the current answer */
    const struct event_sink *events; /* borrowed; NULL: no events */
    struct reflector_stats stats;
};

#endif
