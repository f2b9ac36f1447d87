/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the events of a watch (docs/behaviour.md 10.3) as the bytes come, however they are cut. */
#ifndef KUBE_NFTD_SOURCE_WATCH_READER_H
#define KUBE_NFTD_SOURCE_WATCH_READER_H

#include "api_status.h"
#include "body_reader.h"
#include "kube-nftd/base/error.h"
#include "kube-nftd/model/event.h"
#include "kube-nftd/model/object.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum watch_event_type {
    WATCH_PUT,      /* ADDED or MODIFIED: the object */
    WATCH_REMOVE,   /* DELETED: the object, of which only the id is sure */
    WATCH_BAD,      /* ADDED, MODIFIED or DELETED, but not understood: the object has no payload,
                       perhaps no id, and @problem says why */
    WATCH_BOOKMARK, /* just a version */
    WATCH_ERROR,    /* the status; the server ends the watch */
};

struct watch_event {
    enum watch_event_type type;
    struct object object;
    struct api_status status;
    char *version;    /* where a watch may go on behind this event; NULL if it does not say */
    bool initial_end; /* a bookmark that says: all that there is was sent */
    struct error problem;
};

/* Takes one event other than ERROR; may take out of it what it keeps. -1: give the watch up. */
typedef int (*watch_event_fn)(void *ctx, struct watch_event *event, struct error *err);

/* Starts zeroed, but for the kind and who takes the events. */
struct watch_reader {
    enum object_kind kind;
    watch_event_fn take;
    void *ctx;

    bool refused;             /* an ERROR event ended the watch */
    struct api_status status; /* what it said */

    struct body_reader body;
    struct error broken; /* why the callback stopped it */
};

/** Gets ready for a new watch. */
void watch_reader_begin(struct watch_reader *reader, enum encoding encoding);

/** Takes bytes of the watch. -1: they are no events, without an error if the watch was refused. */
int watch_reader_feed(struct watch_reader *reader, const char *bytes, size_t length,
                      struct error *err);

/** Frees what it holds. */
void watch_reader_clear(struct watch_reader *reader);

/**
 * Decodes one object of the collection of @kind, which need not say its kind itself. -1 if it is
 * bad: the error says why, and @object holds no payload and, where it could be read, the id.
 */
int watch_object_decode(const struct json_value *json, enum object_kind kind, struct object *object,
                        struct error *err);

/* Objects that cannot be decoded: counts them and says why, without a flood of events. Starts
 * zeroed. */
struct bad_objects {
    uint64_t total;
    unsigned reported;               /* as events, of the present answer */
    const struct event_sink *events; /* borrowed; NULL: events are for nobody */
};

/** A new answer begins: as many as before may be reported again. */
void bad_objects_begin(struct bad_objects *bad);

/** Takes the reason out of @why and warns of it, and of @object, which has no payload, in an event
 * if it has an id, but for those of one answer from some number on. */
void bad_objects_add(struct bad_objects *bad, const struct object *object, struct error *why);

#endif
