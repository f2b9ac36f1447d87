/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libyaml's events, one after the other. Those of anchored nodes are recorded, and an alias replays
 * its node's. What the aliases of a document copy is bounded.
 */
#ifndef KUBE_NFTD_VALUES_YAML_EVENTS_H
#define KUBE_NFTD_VALUES_YAML_EVENTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <yaml.h>

/* A node, as a range of the recorded events. */
struct anchor {
    const char *name; /* in its first event */
    size_t begin, end;
};

struct yaml_events {
    yaml_event_t event; /* the current one */
    yaml_parser_t parser;
    struct error *err;
    yaml_input_fn input;
    void *ctx;
    VEC(yaml_event_t) events; /* recorded in this document */
    VEC(struct anchor) anchors;
    size_t open_anchors;        /* anchored nodes in progress */
    bool recorded;              /* the current event is the last one of @events */
    const yaml_event_t *replay; /* the current event, if it is replayed; else NULL */
    size_t copied;              /* bytes of replayed events in this document */
};

/** Begins to read from @input, or the @length bytes of @text; errors go into @err. */
void yaml_events_open(struct yaml_events *in, yaml_input_fn input, void *ctx, struct error *err);
void yaml_events_open_text(struct yaml_events *in, const char *text, size_t length,
                           struct error *err);

void yaml_events_close(struct yaml_events *in);

/** Goes on to the next event. */
int yaml_next(struct yaml_events *in);

/** Forgets the anchors of the document. */
void yaml_end_document(struct yaml_events *in);

/** Reports an error at the current event. Always -1. */
int yaml_fail(struct yaml_events *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The line of the current event, from 1 on. */
size_t yaml_line(const struct yaml_events *in);

/** Records the node that begins with the current event, if it has an anchor; returns that. Ends
 * with yaml_leave_anchor() at its last event. NULL: none, or the node is replayed. */
const char *yaml_enter_anchor(struct yaml_events *in, size_t *begin);
void yaml_leave_anchor(struct yaml_events *in, const char *name, size_t begin);

/* Where an alias was met. */
struct yaml_place {
    yaml_event_t event;
    const yaml_event_t *replay;
};

/** Replaces the current event, an alias, by the first one of its node, of which the other ones
 * follow. Ends with yaml_leave_alias() at its last event, which goes back to @place. */
int yaml_enter_alias(struct yaml_events *in, struct yaml_place *place);
void yaml_leave_alias(struct yaml_events *in, const struct yaml_place *place);

#endif
