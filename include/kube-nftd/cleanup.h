/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef KUBE_NFTD_CLEANUP_H
#define KUBE_NFTD_CLEANUP_H

#include "kube-nftd/base.h"

#include <stdbool.h>
#include <stdio.h>

/**
 * kube-nftd --cleanup-kube-proxy: removes the kernel state of kube-proxy, in any of its modes
 * (docs/behaviour.md 8.3), and prints a line for each object to @out; with @dry_run it only prints.
 * Tables of kube-nftd and of other programs and connections stay untouched.
 *
 * 0 if nothing remains. -1 if something does (@out names it, the reason and the remedy), or if the
 * kernel cannot be queried.
 */
int kube_proxy_cleanup(bool dry_run, FILE *out, struct error *err);

#endif
