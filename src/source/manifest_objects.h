/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which manifest each object belongs to: of several that hold it, the one whose path sorts first.
 * Tells a sink what that comes to. The objects themselves are not kept, only who holds them. So
 * when the owner of an object drops it and others hold it as well, these are to be read again;
 * until then the sink keeps the old version.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_OBJECTS_H
#define KUBE_NFTD_SOURCE_MANIFEST_OBJECTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdbool.h>

/* What one file holds. */
struct holding {
    const char *path; /* borrowed */
    VEC(struct manifest_object *) objects;
};

/* Starts zeroed, but for the sink. */
struct manifest_objects {
    struct object_sink sink;
    struct hash_table by_id[KIND_COUNT];
    unsigned pass;
    bool orphans; /* some have no owner, and nobody was read for them */
    bool started;
    object_vec first[KIND_COUNT]; /* until then */
};

void manifest_objects_clear(struct manifest_objects *all);

/** @holding has just @objects now, which are taken. */
void manifest_objects_set(struct manifest_objects *all, struct holding *holding,
                          object_vec *objects);

/** Hands everything so far to the sink, as one replace for each kind; from now on, each change. */
void manifest_objects_start(struct manifest_objects *all);

/** Whether @holding has an object that nobody owns. */
bool manifest_objects_inherits(const struct holding *holding);

#endif
