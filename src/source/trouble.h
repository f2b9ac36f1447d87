/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Says what is wrong with requests of one collection when it changes, not at each try. */
#ifndef KUBE_NFTD_SOURCE_TROUBLE_H
#define KUBE_NFTD_SOURCE_TROUBLE_H

#include "api_status.h"
#include "kube-nftd/source/collection.h"

#include <stdbool.h>

/* Starts zeroed. */
struct trouble {
    char *said; /* the last one, owned; NULL while all is well */
};

/**
 * Warns that we cannot @verb ("list") @collection, unless that and @what are what was said last.
 * @detail is said too and may differ from try to try; "" for none.
 */
void trouble_say(struct trouble *trouble, const char *verb, const struct collection *collection,
                 const char *what, const char *detail);

/** The same, for a request that the server answered with @status: what to do about it. That it
 * lacks what kube-nftd does without is no warning. */
void trouble_say_refused(struct trouble *trouble, const char *verb,
                         const struct collection *collection, const struct api_status *status);

/** Whether @status just says that the server is too old to have what kube-nftd does without. */
bool trouble_is_harmless(const struct collection *collection, const struct api_status *status);

/** Forgets it. Returns whether there was any. */
bool trouble_over(struct trouble *trouble);

#endif
