/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Says what is wrong with requests of one kind when it changes, not at each try. */
#ifndef KUBE_NFTD_SOURCE_TROUBLE_H
#define KUBE_NFTD_SOURCE_TROUBLE_H

#include "kube-nftd/source/api_status.h"

#include <stdbool.h>

/* Starts zeroed. */
struct trouble {
    char *said; /* the last one, owned; NULL while all is well */
};

/**
 * Warns that we cannot @verb ("list") @resource, unless that and @what are what was said last.
 * @detail is said too and may differ from try to try; "" for none.
 */
void trouble_say(struct trouble *trouble, const char *verb, const char *resource, const char *what,
                 const char *detail);

/** The same, for a request that the server answered with @status. */
void trouble_say_refused(struct trouble *trouble, const char *verb, const char *resource,
                         const struct api_status *status);

/** Forgets it. Returns whether there was any. */
bool trouble_over(struct trouble *trouble);

#endif
