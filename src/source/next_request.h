/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What follows a request of a reflector that ended, and when. After a missing answer, a rejection,
 * a cut or garbage, the next request (at once, or after a wait) is:
 *
 *     stream  the list, if the server answers but does not stream; else the stream
 *     list    the stream
 *     watch,  the check; the stream, if the server cannot continue from our version
 *     check
 */
#ifndef KUBE_NFTD_SOURCE_NEXT_REQUEST_H
#define KUBE_NFTD_SOURCE_NEXT_REQUEST_H

#include "reflector_state.h"

/* A watch open for this many seconds without an event counts as proven. */
#define WATCH_PROOF 1.0

/* How a request ended. */
struct ending {
    enum {
        COMPLETE,   /* the server ended its answer */
        CUT,        /* the answer ended early */
        REJECTED,   /* by @status */
        UNANSWERED, /* or it could not be sent */
        STALLED,    /* we gave up */
        UNREADABLE, /* we abandoned the answer */
        REWOUND,    /* the server's version is below ours */
    } how;
    const struct api_status *status; /* of REJECTED; else NULL */
    bool in_event;                   /* it came as an ERROR event */
    const char *why;                 /* unless COMPLETE or REJECTED */
    double wait;                     /* as in struct api_status */
    bool starting;
};

struct next {
    enum purpose purpose;
    double wait; /* seconds before it is sent; 0: at once */
};

/** What follows @ending of the current attempt. Logs errors, and counts them. */
struct next next_request(struct reflector *reflector, const struct ending *ending);

/** Whether the server's history is not the one that our version is of; logs it. */
bool server_is_rewound(const struct reflector *reflector, const char *version);

/** The resource's name, for log lines. */
const char *reflector_resource(const struct reflector *reflector);

#endif
