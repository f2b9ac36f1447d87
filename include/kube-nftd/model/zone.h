/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The zones of endpoints: a cluster has few, so each has a number of one byte. They are only shown,
 * so those beyond the first 255 that ever came are not known. */
#ifndef KUBE_NFTD_MODEL_ZONE_H
#define KUBE_NFTD_MODEL_ZONE_H

#include <stdint.h>

/** The number of a zone (copied); 0 for NULL, the empty one, and when there are too many. */
uint8_t zone_number(const char *name);

/** The zone with a number, valid for ever; NULL for 0. */
const char *zone_name(uint8_t number);

#endif
