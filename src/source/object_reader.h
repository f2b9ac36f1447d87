/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads objects from the API server, from chunks of any size: the events of a watch
 * (docs/behaviour.md 10.3), or a list page by page, whose items are delivered as events too.
 */
#ifndef KUBE_NFTD_SOURCE_OBJECT_READER_H
#define KUBE_NFTD_SOURCE_OBJECT_READER_H

#include "api_protocol.h"
#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

enum watch_event_type {
    WATCH_PUT,    /* ADDED, MODIFIED or an item of a list: the object */
    WATCH_REMOVE, /* DELETED: the object; only its id is reliable */
    WATCH_BAD, /* an object that cannot be decoded: no payload, perhaps no id; @problem says why */
    WATCH_BOOKMARK, /* just a version */
};

struct watch_event {
    enum watch_event_type type;
    struct object object;
    char *version;    /* where a watch can resume after this event; NULL if not given */
    bool initial_end; /* a bookmark that ends the initial events */
    struct error problem;
};

/* Called for each event other than ERROR; may move parts out of it. -1: abandon the answer. */
typedef int (*watch_event_fn)(void *ctx, struct watch_event *event, struct error *err);

/* Starts zeroed, except for the kind and the callback. */
struct object_reader {
    enum object_kind kind;
    watch_event_fn take;
    void *ctx;

    /* Of a watch. */
    bool rejected;            /* an ERROR event ended it */
    struct api_status status; /* of the ERROR event */

    /* Of a list. */
    char *version; /* resourceVersion of its first page */
    char *token;   /* of the next page; NULL after the last page */
    int empty_pages;
    bool has_envelope; /* the page's metadata was read */
    bool has_item;     /* the page has items */

    bool is_list;
    struct value_reader *values; /* owned */
};

/** Starts a new watch, or the next page of a list. */
void object_reader_begin(struct object_reader *reader, enum encoding encoding, bool is_list);

/** Reads the next bytes. -1: not events or not a list of this kind; no error is set if an ERROR
 * event ended the watch. */
int object_reader_feed(struct object_reader *reader, const char *bytes, size_t length,
                       struct error *err);

/** Ends a page of a list. -1: the page is incomplete. */
int object_reader_end_page(struct object_reader *reader, struct error *err);

/** Frees its data and forgets the pages read. */
void object_reader_reset(struct object_reader *reader);

#endif
