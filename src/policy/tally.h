/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counts who uses a thing, and says only when the first begins and the last ends. Things are
 * written as frontends, with zeros for what they do not have.
 */
#ifndef KUBE_NFTD_POLICY_TALLY_H
#define KUBE_NFTD_POLICY_TALLY_H

#include "kube-nftd/policy/route.h"

struct tally;

struct tally *tally_new(void);
void tally_free(struct tally *tally);

/** One more uses @thing. */
void tally_add(struct tally *tally, const struct frontend *thing);

/** One of those who use @thing does not any more. */
void tally_drop(struct tally *tally, const struct frontend *thing);

/** Whether anybody uses @thing. */
bool tally_has(const struct tally *tally, const struct frontend *thing);

/** Calls @tell for each thing that is used now and was not at the last time, or the other way. */
void tally_settle(struct tally *tally,
                  void (*tell)(void *ctx, const struct frontend *thing, bool in_use), void *ctx);

#endif
