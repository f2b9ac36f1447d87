/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a reflector knows: for reflector.c and its tests. */
#ifndef KUBE_NFTD_SOURCE_REFLECTOR_STATE_H
#define KUBE_NFTD_SOURCE_REFLECTOR_STATE_H

#include "kube-nftd/source.h"
#include "object_reader.h"
#include "pace.h"

#include <ev.h>

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
    double opened_at; /* when the 200 came; clock_monotonic */

    char *version; /* of the last contents or event; NULL before them */
    /* The server refused that version: the newest state is asked for until contents come. */
    bool version_unusable;
    bool listed;     /* by a list, and no watch was opened since */
    bool relisted;   /* a watch was refused as too old; since then none has lasted, and we did not
                        wait */
    bool restreamed; /* a stream was cut and begun again at once, and no contents came since */
    bool proven;     /* the watch or stream has lived for a while or brought something */
    unsigned absent; /* how often in all the server did not have what we can do without */
    unsigned hasty;  /* how many watches in a row did not last */
    unsigned told_to_wait;  /* how often by the server, since something came */
    size_t received;        /* bytes of the contents that are coming */
    enum encoding encoding; /* of the last answer */

    bool list_limited;
    struct object_reader reader;
    struct initial_events initial; /* the contents that are coming, in a stream or a list */
    struct error broken;           /* why the body that is coming was given up */

    struct retry retry;
    unsigned bad_reported;           /* as events, of the present answer */
    const struct event_sink *events; /* borrowed; NULL: events are for nobody */
    struct reflector_stats stats;
};

#endif
