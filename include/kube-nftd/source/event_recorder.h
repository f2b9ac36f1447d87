/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Posts events to the API server (events.k8s.io/v1), under kube-proxy's name (docs/behaviour.md
 * 9.1). The same event again is only counted, until it is posted anew: after 6 minutes without it,
 * or 30 minutes after it was posted.
 *
 * An event that all nodes would post gets a name that is the same from all of them: whoever comes
 * first creates it, the others are told that it is there.
 *
 * Everything is bounded: requests in sum (kube-proxy's clientConnection.qps and burst) and at a
 * time (one), events of one object, of one namespace, events that are remembered or wait. What is
 * beyond that, and what the server refuses or does not take in 12 tries, is dropped and counted.
 * Nobody waits for it. Only what is about the server or about us holds up the others (no answer, a
 * busy server, a right that is missing), not what one object or namespace is refused for.
 */
#ifndef KUBE_NFTD_SOURCE_EVENT_RECORDER_H
#define KUBE_NFTD_SOURCE_EVENT_RECORDER_H

#include "kube-nftd/model/event.h"

#include <stdint.h>

struct apiserver;
struct ev_loop;
struct event_recorder;

/* Different events of one object, of one namespace (what has none is one too), and of all, that are
 * remembered or wait. */
#define EVENTS_PER_OBJECT 10
#define EVENTS_PER_NAMESPACE 100
#define EVENTS_LIMIT 500

struct event_recorder_config {
    const char *node_name; /* borrowed for the recorder's life */
    const char *host_name; /* goes into reportingInstance; copied */
    double qps;            /* posts a second; 0 or less: no limit */
    double burst;
};

/* What became of what was reported. */
struct event_figures {
    uint64_t posted;   /* the server has it */
    uint64_t repeated; /* it is the same as one that is remembered */
    uint64_t failed;   /* refused, or not taken in time */
    uint64_t dropped;  /* more than is remembered, in sum or of the object */
};

struct event_recorder *event_recorder_new(struct ev_loop *loop, struct apiserver *apiserver,
                                          const struct event_recorder_config *config);

/** Forgets what was not posted. Before the apiserver is freed. NULL is fine. */
void event_recorder_free(struct event_recorder *recorder);

/** Takes note of @event: an event_sink's report, with the recorder as its ctx. An event that does
 * not come from all nodes and is not about the Node gets the node's name before its note. */
void event_recorder_report(void *recorder, const struct object_event *event);

/** Whether nothing is left to post now, or nothing can be posted since the server does not take it.
 */
bool event_recorder_is_settled(const struct event_recorder *recorder);

struct event_figures event_recorder_figures(const struct event_recorder *recorder);

#endif
