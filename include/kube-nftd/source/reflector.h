/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps a sink true to one collection of the API server: list, then watch, for ever (spec 10).
 * One explicit state machine a collection; reflector_enter() is the only place that changes state.
 */
#ifndef KUBE_NFTD_SOURCE_REFLECTOR_H
#define KUBE_NFTD_SOURCE_REFLECTOR_H

#include "kube-nftd/model/sink.h"
#include "kube-nftd/source/apiserver.h"

#include <stdbool.h>
#include <stddef.h>

struct reflector;

/**
 * Starts to reflect all objects of @kind (with kube-proxy's selectors, spec 1.1; of Nodes just
 * @node_name) into @sink, which is borrowed. While the server cannot be reached everything known
 * stays in force. Never fails: trouble is logged once a state and retried with back-off.
 */
struct reflector *reflector_start(struct ev_loop *loop, struct apiserver *apiserver,
                                  enum object_kind kind, const char *node_name,
                                  const struct object_sink *sink);

/** Ends the request that is open. Not to be called from the sink. */
void reflector_free(struct reflector *reflector);

/** Whether it is known what there is: the sink has a first list, or the server has said that there
 * is none to be had (403, 404). */
bool reflector_has_answer(const struct reflector *reflector);

/** How many objects could not be read up to now, each time they came. */
size_t reflector_bad_objects(const struct reflector *reflector);

#endif
