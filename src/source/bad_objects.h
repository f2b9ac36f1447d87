/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts objects that cannot be decoded and says why, without a flood of events. */
#ifndef KUBE_NFTD_SOURCE_BAD_OBJECTS_H
#define KUBE_NFTD_SOURCE_BAD_OBJECTS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/event.h"
#include "kube-nftd/model/object.h"

#include <stdint.h>

/* Starts zeroed. */
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
