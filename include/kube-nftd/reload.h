/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SIGHUP: reads anew what can be without a new start. */
#ifndef KUBE_NFTD_RELOAD_H
#define KUBE_NFTD_RELOAD_H

#include "kube-nftd/config/options.h"

struct manifests;

/**
 * Compares all @manifests (NULL: there are none) and reads the file of --config: how much is
 * logged, and in which format, counts at once; that anything else in it is not as in @options is
 * said. Credentials are read for each request anyway. One line in the log, and one more for an
 * error, which changes nothing.
 */
void reload(const struct options *options, struct manifests *manifests);

#endif
