/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is worth telling whoever owns an object: it becomes an Event of the API server. Whoever has
 * something to tell calls an event_sink and forgets it; where it goes, how often and whether at all
 * is the sink's affair (source/event_recorder.h).
 */
#ifndef KUBE_NFTD_MODEL_EVENT_H
#define KUBE_NFTD_MODEL_EVENT_H

#include "kube-nftd/model/object_metadata.h"

enum event_type { EVENT_NORMAL, EVENT_WARNING };

/* All is borrowed for the time of the call. */
struct object_event {
    enum object_kind kind; /* what it is about */
    const char *id;
    struct uid uid; /* unknown: looked up, if it is a Service's that is known */
    enum event_type type;
    const char *reason; /* one word for programs: "FailedToStartServiceHealthcheck"; static */
    const char *action; /* what was done or tried, one word: "Listen"; static */
    const char *note;   /* for people; cut at 1024 bytes */
    /* Every node sees the same and would say the same: one Event of it is enough. */
    bool everywhere;
};

struct event_sink {
    void *ctx;
    void (*report)(void *ctx, const struct object_event *event);
};

/** Tells @sink, if it is not NULL. */
static inline void event_report(const struct event_sink *sink, const struct object_event *event)
{
    if (sink)
        sink->report(sink->ctx, event);
}

#endif
