/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where sources hand their objects on: the one arrow from source to cache. A source knows nothing
 * of who is behind it.
 */
#ifndef KUBE_NFTD_MODEL_SINK_H
#define KUBE_NFTD_MODEL_SINK_H

#include "kube-nftd/model/object.h"

struct object_sink {
    void *ctx;

    /* The complete present contents of a kind: what is not named here is gone. An object without
     * payload keeps what was known of it. The first replace of a kind is its first sync. Takes
     * the objects and leaves the vector empty. */
    void (*replace)(void *ctx, enum object_kind kind, object_vec *objects);

    /* One object was added or changed; without payload, nothing happens but a count. Takes the
     * object and leaves it zeroed. */
    void (*put)(void *ctx, struct object *object);

    /* One object is gone. Unknown ids are fine. */
    void (*remove)(void *ctx, enum object_kind kind, const char *id);
};

#endif
