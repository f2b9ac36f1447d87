/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef KUBE_NFTD_SOURCE_REQUEST_STATS_H
#define KUBE_NFTD_SOURCE_REQUEST_STATS_H

#include "kube-nftd/source.h"

/** Counts a request with the static @method and an answer's @status, 0 for none. */
void request_stats_count(struct request_stats *stats, const char *method, long status);

/** Its answer took @seconds. */
void request_stats_time(struct request_stats *stats, const char *method, double seconds);

void request_stats_clear(struct request_stats *stats);

#endif
