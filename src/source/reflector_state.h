/* SPDX-License-Identifier: GPL-2.0-or-later */
/* State of a reflector, for reflector.c, next_request.c and their tests. */
#ifndef KUBE_NFTD_SOURCE_REFLECTOR_STATE_H
#define KUBE_NFTD_SOURCE_REFLECTOR_STATE_H

#include "contents.h"
#include "kube-nftd/source.h"
#include "object_reader.h"

#include <ev.h>

/* The purpose of the open request, or of the next one. */
enum purpose {
    STREAM, /* all objects, as initial events; afterwards a WATCH */
    LIST,   /* all objects, by pages */
    WATCH,  /* changes since a version */
    CHECK,  /* whether the server has our version: the server's own, by a list of one object */
};

enum reflector_state {
    STATE_NEW,
    STATE_CONNECTING, /* no 200 yet */
    STATE_STREAMING,  /* receiving initial events */
    STATE_LISTING,    /* receiving a page, or the answer to a check */
    STATE_WATCHING,
    STATE_BACKING_OFF,
};

/* What is known of our version. */
enum version_trust {
    VERSION_ASSUMED,
    VERSION_CONFIRMED, /* the server has it: by the contents, a check, or a later one in a watch */
    VERSION_REJECTED,  /* the newest state is requested until contents arrive */
};

/* The request that is open or was the last one. Zeroed for each. */
struct attempt {
    struct api_request *request; /* NULL: it ended */
    unsigned watch_seconds;      /* requested */
    double opened_at;            /* when the 200 came, or its initial events ended */
    double full_time;            /* when the server ends the watch by itself; clock_monotonic */
    enum encoding encoding;
    bool proven;         /* the watch or stream has lasted or delivered something */
    bool rewound;        /* an event is older than our version */
    struct error broken; /* why its body was abandoned */
};

struct reflector {
    struct ev_loop *loop;
    struct apiserver *apiserver;
    const struct object_sink *sink;
    const struct event_sink *events; /* borrowed; NULL: no events */
    struct collection collection;

    enum reflector_state state;
    enum purpose purpose;
    struct attempt attempt;
    /* BACKING_OFF: the end of the wait. CONNECTING, STREAMING, LISTING: the timeout for more data.
     * WATCHING, and STREAMING at first: when the answer counts as proven. */
    struct ev_timer timer;

    char *version; /* of the last contents or event; NULL: none yet */
    enum version_trust trust;

    /* Of an answer; the pages of a list are one. */
    struct object_reader reader;
    struct contents contents; /* incoming */
    unsigned bad_reported;    /* events reported */

    /* What earlier requests leave to the next ones. */
    bool listed;            /* contents came by a list, and no watch was opened since */
    bool relisted;          /* our version was of no use; no watch lasted since, no back-off */
    bool restreamed;        /* a stream was cut and restarted at once; no contents since */
    unsigned absent;        /* how often the server lacked an API that is optional */
    unsigned short_watches; /* watches in a row that did not last */
    unsigned retry_afters;  /* Retry-After answers since the last data */
    struct retry retry;
    struct backoff futile; /* after answers that began well: not reset by the next that does */
    struct reflector_stats stats;
};

#endif
