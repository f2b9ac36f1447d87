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
    size_t digits = 0;
    *uid = parsed;
    if (!text || strlen(text) != UID_TEXT_SIZE - 1)
        return false;
    for (size_t at = 0; at < UID_TEXT_SIZE - 1; at++) {
        int value = digit_value(text[at]);
        if (is_dash(at) ? text[at] != '-' : value < 0)
            return false;
        if (is_dash(at))
            continue;
        parsed.bytes[digits / 2] = (uint8_t)(parsed.bytes[digits / 2] << 4 | value);
        digits++;
    }
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
