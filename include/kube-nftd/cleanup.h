/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef KUBE_NFTD_CLEANUP_H
#define KUBE_NFTD_CLEANUP_H

#include "kube-nftd/base.h"

#include <stdbool.h>
#include <stdio.h>

/**
 * kube-nftd --cleanup-kube-proxy: removes what kube-proxy left in the kernel (docs/behaviour.md
 * 8.3), whatever its mode was, and says so on @out, a line a thing; with @dry_run it only says what
 * it would do. kube-nftd's own tables and those of other programs stay. Connections are not
 * touched.
 *
 * 0: nothing is left behind. -1: something is (@out says what, why, and what a person can do), or
 * the kernel could not be asked.
 */
int kube_proxy_cleanup(bool dry_run, FILE *out, struct error *err);

#endif
