/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps a sink true to one collection of the API server, for ever (docs/behaviour.md 10): takes all
 * there is, by a streamed list or else by pages, and then follows the changes. One explicit state
 * machine a collection.
 */
#ifndef KUBE_NFTD_SOURCE_REFLECTOR_H
#define KUBE_NFTD_SOURCE_REFLECTOR_H

#include "kube-nftd/model/event.h"
#include "kube-nftd/model/sink.h"
#include "kube-nftd/source/apiserver.h"

#include <stdbool.h>
#include <stdint.h>

struct reflector;

/* What happened since the start. Texts are borrowed until the next event. */
struct reflector_figures {
    uint64_t lists;       /* whole contents taken, by a list or a stream */
    uint64_t resumes;     /* watches opened that go on from a version remembered, without a list */
    uint64_t events;      /* of watches, each with an object */
    uint64_t bad_objects; /* objects that could not be read, each time they came */
    uint64_t bad_answers; /* answers given up since they could not be read, or did not end */
    uint64_t failures;    /* requests refused, cut or not answered */
    uint64_t received[ENCODING_COUNT]; /* bytes of answers, uncompressed */
    bool has_encoding;                 /* there was an answer */
    enum encoding encoding;            /* of the last one */
    const char *resource, *state;      /* "services"; "watching" */
    const char *trouble;               /* what is wrong with requests now; NULL: nothing */
};

/**
 * Starts to reflect all objects of @kind (with kube-proxy's selectors, docs/behaviour.md 1.1; of
 * Nodes just @node_name) into @sink, which is borrowed. While the server cannot be reached
 * everything known stays active. Never fails: errors are logged when they change and retried with
 * back-off.
 */
struct reflector *reflector_start(struct ev_loop *loop, struct apiserver *apiserver,
                                  enum object_kind kind, const char *node_name,
                                  const struct object_sink *sink);

/** Objects that cannot be read become events for @events, which is borrowed. */
void reflector_set_events(struct reflector *reflector, const struct event_sink *events);

/** Ends the request that is open. Not to be called from the sink. */
void reflector_free(struct reflector *reflector);

/** Whether it is known what there is: the sink has its first contents, or the server has said that
 * there are none to be had (403, 404). */
bool reflector_has_answer(const struct reflector *reflector);

/** Writes the counts up to now into @out. */
void reflector_figures(const struct reflector *reflector, struct reflector_figures *out);

#endif
