/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model.h"

#include "kube-nftd/base.h"

#include <string.h>

static const char *zones[UINT8_MAX]; /* interned; that with number 1 first */

uint8_t zone_number(const char *name)
{
    if (!name || !*name)
        return 0;
    for (uint8_t i = 0; i < UINT8_MAX; i++) {
        if (!zones[i])
            zones[i] = intern(name);
        if (strcmp(zones[i], name) == 0)
            return i + 1;
    }
    return 0;
}

const char *zone_name(uint8_t number)
{
    return number ? zones[number - 1] : NULL;
}
