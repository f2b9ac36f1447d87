/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads objects as the API server sends them, however the bytes are cut: the events of a watch
 * (docs/behaviour.md 10.3), or a list page by page, whose items are given on as events, too.
 */
#ifndef KUBE_NFTD_SOURCE_OBJECT_READER_H
#define KUBE_NFTD_SOURCE_OBJECT_READER_H

#include "api_protocol.h"
#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum watch_event_type {
    WATCH_PUT,      /* ADDED, MODIFIED or an item of a list: the object */
    WATCH_REMOVE,   /* DELETED: the object, of which only the id is sure */
    WATCH_BAD,      /* an object that is not understood: it has no payload, perhaps no id, and
                       @problem says why */
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
struct object_reader {
    enum object_kind kind;
    watch_event_fn take;
    void *ctx;

    /* Of a watch. */
    bool refused;             /* an ERROR event ended it */
    struct api_status status; /* what it said */

    /* Of a list. */
    char *version; /* its resourceVersion, that of its first page */
    char *token;   /* of the next page; NULL if the last page was the last one */
    int empty_pages;
    bool has_envelope; /* the page's metadata was seen */
    bool has_item;     /* and one of its items */

    bool is_list;
    struct body_reader body;
    struct error broken; /* why the callback stopped it */
};

/** Gets ready for a new watch, or the next page of a list. */
void object_reader_begin(struct object_reader *reader, enum encoding encoding, bool is_list);

/** Takes bytes of it. -1: they are no events or no list of the kind, without an error if the watch
 * was refused. */
int object_reader_feed(struct object_reader *reader, const char *bytes, size_t length,
                       struct error *err);

/** The page of a list is over. -1: it is no whole page. */
int object_reader_end_page(struct object_reader *reader, struct error *err);

/** Frees what it holds, and forgets the pages that were read. */
void object_reader_reset(struct object_reader *reader);

/*
 * Collects contents that come object by object, by a list or by the events that a streamed one
 * begins with, up to its end mark (docs/behaviour.md 10.2 A). Most are ADDED; changes may come
 * among them. Nothing of it is of use before the end.
 *
 * It keeps all objects in the order in which they came. What takes them lets a later one of the
 * same id win, so only what was deleted needs a memory of its own. Starts zeroed, but for the
 * limit.
 */
struct initial_events {
    size_t limit; /* of events */
    size_t count;
    object_vec objects;
    struct hash_table removals; /* by id */
};

/** An object is there. Takes it and leaves it zeroed; one without id is only counted. -1 if there
 * are too many. */
int initial_events_put(struct initial_events *initial, struct object *object, struct error *err);

/** What was put as @id up to now is gone. -1 if there are too many events. */
int initial_events_remove(struct initial_events *initial, const char *id, struct error *err);

/** The end: moves what is there into @objects, which is zeroed, and forgets all but the limit. */
void initial_events_finish(struct initial_events *initial, object_vec *objects);

/** Forgets all but the limit. */
void initial_events_reset(struct initial_events *initial);

#endif
