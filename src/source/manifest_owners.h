/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which file owns which object: of several that define it, the one whose path sorts first. When the
 * owner drops an object, the other files are to be read again, in a further round; until one of
 * them can be read, the sink keeps the old version. Objects are not kept, only who defines them.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_OWNERS_H
#define KUBE_NFTD_SOURCE_MANIFEST_OWNERS_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/source.h"

struct definition;

/* A file that defines objects. Starts zeroed, but for the path. */
struct definer {
    char *path;
    VEC(struct definition *) defs;
};

/* Starts zeroed. */
struct manifest_owners {
    struct hash_table by_id[KIND_COUNT];
    unsigned pass; /* counts calls of owners_set() */
    unsigned round;
    VEC(struct definition *) abandoned; /* by all files, as it seems */
    bool orphans; /* some objects have no owner yet: a further round is needed */
};

/** The objects of @file are @objects now, which are taken. Passes those that it owns, and removals
 * of what no file defines any more, to @sink. Logs duplicates.
 * @more  other files are read next, to which objects may have moved: removals wait for
 *        owners_remove_abandoned(), or for a call without */
void owners_set(struct manifest_owners *owners, struct definer *file, object_vec *objects,
                bool more, const struct object_sink *sink);
void owners_remove_abandoned(struct manifest_owners *owners, const struct object_sink *sink);

/** Begins a further round if one is needed: then all files that need it are to be read again, as
 * they sort. */
bool owners_next_round(struct manifest_owners *owners);

/** Whether @file defines objects that have no owner: it is to be read again. */
bool owners_need(const struct definer *file);

/** Forgets all of that; the second, what @file defines, first. */
void owners_forget(struct manifest_owners *owners);
void definer_forget(struct definer *file);

#endif
