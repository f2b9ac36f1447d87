/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Contents of a collection that arrive object by object, from a list or as initial events, useless
 * before their end (docs/behaviour.md 10.2 A). Most are additions. A sink lets a later object of
 * the same id win, but a deletion must be applied in order: so what comes from the first one on
 * follows as changes.
 */
#ifndef KUBE_NFTD_SOURCE_CONTENTS_H
#define KUBE_NFTD_SOURCE_CONTENTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/source.h"

/* Bytes of contents: 20 times the size of 10,000 Services with 100,000 endpoints. */
#define CONTENTS_BYTES ((size_t)1 << 30)
/* About 20 times the largest clusters: more is a server error. */
#define CONTENTS_OBJECTS ((size_t)1000000)

/* Starts zeroed, but for the limit. */
struct contents {
    object_vec objects;
    VEC(struct content_change {
        struct object object;
        bool removed;
    })
    changes;
    size_t count, limit; /* of additions and deletions */
    size_t bytes;        /* received */
};

/** Adds an object or, if @removed, a deletion: takes it and leaves it zeroed. One without id only
 * counts. -1: too many. */
int contents_add(struct contents *contents, struct object *object, bool removed, struct error *err);

/** Counts @n bytes that were received. -1: too many. */
int contents_receive(struct contents *contents, size_t n, struct error *err);

/** Whether one of the two failed. */
bool contents_are_too_many(const struct contents *contents);

/** Passes complete contents to @sink; they are empty then. */
void contents_pass_on(struct contents *contents, enum object_kind kind,
                      const struct object_sink *sink);

void contents_clear(struct contents *contents);

#endif
