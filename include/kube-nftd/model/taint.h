/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A taint of a Node, and what may be asked for of one. */
#ifndef KUBE_NFTD_MODEL_TAINT_H
#define KUBE_NFTD_MODEL_TAINT_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/vec.h"

#include <stdbool.h>

/* Texts are owned. Of a Node's taint just time_added may be NULL; of a pattern a NULL value or
 * effect means any. */
struct taint {
    char *key, *value, *effect;
    char *time_added; /* as the server wrote it; a pattern has none */
};

typedef VEC(struct taint) taint_vec;

/**
 * Reads a pattern: KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT, for the caller to clear. KEY and
 * VALUE as label keys and values are, EFFECT NoSchedule, PreferNoSchedule or NoExecute. -1 with an
 * error, and @pattern all NULL, for anything else.
 */
int taint_parse(const char *text, struct taint *pattern, struct error *err);

/** Frees the texts. */
void taint_clear(struct taint *taint);

/** Whether @taint is one that @pattern means. */
bool taint_matches(const struct taint *pattern, const struct taint *taint);

#endif
