/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What top shows: new connections a second, from two readings of totals. */
#ifndef KUBE_NFTD_CLIENT_TOP_H
#define KUBE_NFTD_CLIENT_TOP_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"

#include <cjson/cJSON.h>

/** The facts of one period, which the caller deletes; NULL with an error. */
cJSON *top_once(const struct options *options, struct error *err);

/** Shows it on the terminal until somebody ends it. */
int top_live(const struct options *options, struct error *err);

#endif
