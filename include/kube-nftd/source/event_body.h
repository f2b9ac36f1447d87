/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An event as the API server wants it written: part of event_recorder.c. */
#ifndef KUBE_NFTD_SOURCE_EVENT_BODY_H
#define KUBE_NFTD_SOURCE_EVENT_BODY_H

#include "kube-nftd/model/event.h"

/* What the server takes, in bytes. */
#define EVENT_NOTE_LIMIT 1024
#define EVENT_INSTANCE_LIMIT 128

/* Strings are owned but for reason and action. */
struct event_record {
    char *name; /* of the event */
    char *namespace;
    enum object_kind kind;  /* of what it is about, like the next three */
    char *object_namespace; /* "" for a Node or ServiceCIDR */
    char *object_name;
    char *object_uid; /* "": unknown */
    enum event_type type;
    const char *reason, *action;
    char *note;
    double time; /* seconds since 1970, like the next */
    double last_time;
    unsigned count;
};

/**
 * Fills in @record from @event, with @time for both times. @suffix goes behind the object's name to
 * make the event's; @prefix before the note. For event_record_clear() to free.
 */
void event_record_init(struct event_record *record, const struct object_event *event,
                       const char *suffix, const char *prefix, double time);
void event_record_clear(struct event_record *record);

/** The path to POST to, or with @named to PATCH. The caller frees it, and what the next two give.
 */
char *event_path(const struct event_record *record, bool named);

/** What to POST. @instance is the reportingInstance. */
char *event_body(const struct event_record *record, const char *instance);

/** What to PATCH, strategically: the series. */
char *event_series_patch(const struct event_record *record);

#endif
