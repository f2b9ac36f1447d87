/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metadata.uid of an object, which the API server makes as UUIDs: kept as the 16 bytes that it
 * stands for. */
#ifndef KUBE_NFTD_MODEL_UID_H
#define KUBE_NFTD_MODEL_UID_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: unknown. */
struct uid {
    uint8_t bytes[16];
};

/* Room for 36 characters and the NUL. */
#define UID_TEXT_SIZE 37

/** Reads a UUID in lower case as the server writes it. What is none (NULL too) is as good as
 * unknown: false, and @uid is all zero. */
bool uid_parse(const char *text, struct uid *uid);

/** Writes @uid into @text and returns it; "" if it is unknown. */
const char *uid_format(const struct uid *uid, char text[UID_TEXT_SIZE]);

#endif
