/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command top: new connections per second, from two readings of totals. */
#ifndef KUBE_NFTD_CLIENT_TOP_H
#define KUBE_NFTD_CLIENT_TOP_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"

#include <cjson/cJSON.h>

/** The facts of one period, owned by the caller; NULL with an error. */
cJSON *top_once(const struct options *options, struct error *err);

/** Shows a live table on the terminal until the user quits. */
int top_live(const struct options *options, struct error *err);

#endif
