/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/base64.h"

#include "kube-nftd/base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* What follows the last digit must make a group of four whole. */
static int padding_is_right(const char *text, size_t digits)
{
    size_t padding = 0;
    for (; *text; text++) {
        if (*text == '=')
            padding++;
        else if (*text != '\n' && *text != '\r')
            return 0;
    }
    return digits % 4 != 1 && padding == (4 - digits % 4) % 4;
}

char *base64_decode(const char *text, size_t *length)
{
    char *out = xcalloc(strlen(text) + 1, 1);
    size_t digits = 0, n = 0;
    uint32_t bits = 0;
    for (; *text && *text != '='; text++) {
        if (*text == '\n' || *text == '\r')
            continue;
        int value = digit(*text);
        if (value < 0)
            break;
        bits = bits << 6 | (uint32_t)value;
        digits++;
        if (digits % 4 != 1)
            out[n++] = (char)(bits >> (6 - 2 * ((digits - 1) % 4)) & 0xff);
    }
    if (!padding_is_right(text, digits)) {
        free(out);
        return NULL;
    }
    *length = n;
    out[n] = '\0';
    return out;
}
