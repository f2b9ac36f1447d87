/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which manifest file an object belongs to, when several hold it: the one whose name sorts first.
 * Turns the contents of files into what a sink is told. Knows names, not the file system.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_CLAIMS_H
#define KUBE_NFTD_SOURCE_MANIFEST_CLAIMS_H

#include "kube-nftd/base/vec.h"
#include "kube-nftd/model/sink.h"

struct manifest_claim;
struct manifest_claims;

/* What holds objects: a file. Start with a name and zeros. */
struct manifest_holder {
    const char *name; /* borrowed; must stay while it holds anything */
    VEC(struct manifest_claim *) claims;
};

/* An object that was dropped by its owner belongs to @holder now; it is to be set anew. */
typedef void (*manifest_heir_fn)(void *ctx, struct manifest_holder *holder);

/** Borrows @sink. Nothing is handed on before manifest_claims_start(). */
struct manifest_claims *manifest_claims_new(const struct object_sink *sink, manifest_heir_fn heir,
                                            void *ctx);

/** Frees all claims without telling the sink; the holders' vectors are the holders' to free. */
void manifest_claims_free(struct manifest_claims *claims);

/**
 * Says that @holder holds just @objects, and hands on what changes by that. Of two objects with
 * the same id the last counts. Takes the objects and leaves the vector empty.
 */
void manifest_claims_set(struct manifest_claims *claims, struct manifest_holder *holder,
                         object_vec *objects);

/** Hands everything that was set so far to the sink, as one replace for each kind. */
void manifest_claims_start(struct manifest_claims *claims);

#endif
