/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Collects the events that a streamed list begins with, up to its end mark (docs/behaviour.md 10.2
 * A). Most are ADDED; changes may come among them. Nothing of it is of use before the end.
 *
 * It keeps all objects in the order in which they came. What takes them lets a later one of the
 * same id win, so only what was deleted needs a memory of its own.
 */
#ifndef KUBE_NFTD_SOURCE_INITIAL_EVENTS_H
#define KUBE_NFTD_SOURCE_INITIAL_EVENTS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/hash_table.h"
#include "kube-nftd/model/object.h"

#include <stdbool.h>
#include <stddef.h>

/* Starts zeroed, but for the limit. */
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

/** Whether there were more events than the limit allows. */
bool initial_events_overrun(const struct initial_events *initial);

/** The end: moves what is there into @objects, which is zeroed, and forgets all but the limit. */
void initial_events_finish(struct initial_events *initial, object_vec *objects);

/** Forgets all but the limit. */
void initial_events_reset(struct initial_events *initial);

#endif
