/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One line of a watch, decoded (docs/behaviour.md 10.3). */
#ifndef KUBE_NFTD_SOURCE_WATCH_EVENT_H
#define KUBE_NFTD_SOURCE_WATCH_EVENT_H

#include "api_status.h"
#include "kube-nftd/base/error.h"
#include "kube-nftd/model/object.h"

#include <stdbool.h>
#include <stddef.h>

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

/**
 * Decodes @json into @event, for the caller to clear. -1 for what is no event: no or an unknown
 * type, no object, a resourceVersion that is too long; nothing is left in @event then.
 */
int watch_event_decode(const struct json_value *json, enum object_kind kind,
                       struct watch_event *event, struct error *err);

void watch_event_clear(struct watch_event *event);

/**
 * Decodes one object of the collection of @kind, which need not say its kind itself. -1 if it is
 * bad: the error says why, and @object holds no payload and, where it could be read, the id.
 */
int watch_object_decode(const struct json_value *json, enum object_kind kind, struct object *object,
                        struct error *err);

#endif
