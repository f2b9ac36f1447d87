/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model/uid.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* 8-4-4-4-12 digits. */
static bool is_dash(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool uid_parse(const char *text, struct uid *uid)
{
    struct uid parsed = {0};
    int found = 0; /* below 0: something else than a digit */
    *uid = parsed;
    if (!text || strlen(text) != UID_TEXT_SIZE - 1)
        return false;
    const char *at = text;
    for (size_t i = 0; i < sizeof(parsed.bytes); i++, at += 2) {
        if (is_dash((size_t)(at - text)) && *at++ != '-')
            return false;
        int high = digit_value(at[0]), low = digit_value(at[1]);
        parsed.bytes[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
        found |= high | low;
    }
    if (found < 0)
        return false;
    *uid = parsed;
    return true;
}

const char *uid_format(const struct uid *uid, char text[UID_TEXT_SIZE])
{
    static const struct uid unknown;
    char *at = text;
    *at = '\0';
    if (memcmp(uid, &unknown, sizeof(unknown)) == 0)
        return text;
    for (size_t i = 0; i < sizeof(uid->bytes); i++) {
        if (is_dash((size_t)(at - text)))
            *at++ = '-';
        at += snprintf(at, 3, "%02x", uid->bytes[i]);
    }
    return text;
}
