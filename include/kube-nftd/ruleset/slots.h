/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which backend goes into which slot of a frontend. Pure.
 */
#ifndef KUBE_NFTD_RULESET_SLOTS_H
#define KUBE_NFTD_RULESET_SLOTS_H

#include "kube-nftd/model/frontend.h"

#include <stdbool.h>
#include <stddef.h>

/** Whether @slot holds no backend: the mark is port 0. */
bool slot_is_empty(const struct backend *slot);

/**
 * Arranges the @n backends @wanted (sorted by backend_compare, without duplicates) in the slots
 * @out[0..n), so that as few slots as can be differ from the @n_old slots @old: what has a place
 * below @n keeps it, what is left fills the gaps, the last ones moving down into them.
 */
void slots_arrange(const struct backend *old, size_t n_old, const struct backend *wanted, size_t n,
                   struct backend *out);

#endif
