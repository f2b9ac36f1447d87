/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

size_t utf8_decode(const char *text, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t length = *s < 0x80   ? 1
                    : *s < 0xc2 ? 0
                    : *s < 0xe0 ? 2
                    : *s < 0xf0 ? 3
                    : *s < 0xf5 ? 4
                                : 0;
    if (length < 2) {
        *code = *s;
        return length;
    }
    *code = *s & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) /* or the terminating NUL */
            return 0;
        *code = *code << 6 | (s[i] & 0x3fU);
    }
    bool is_surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[length] || *code > 0x10ffff || is_surrogate ? 0 : length;
}

bool utf8_is_valid(const char *text)
{
    uint32_t code;
    for (size_t length; *text; text += length) {
        length = utf8_decode(text, &code);
        if (length == 0)
            return false;
    }
    return true;
}

bool utf8_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

char *utf8_repair(const char *text)
{
    char *copy = xcalloc(strlen(text) * strlen(REPLACEMENT) + 1, 1), *out = copy;
    for (const char *s = text; *s;) {
        uint32_t code;
        size_t length = utf8_decode(s, &code), n = length ? length : strlen(REPLACEMENT);
        for (size_t i = 0; i < n; i++)
            *out++ = (length ? s : REPLACEMENT)[i];
        s += length ? length : 1;
    }
    return copy;
}

char *url_escape(const char *text)
{
    static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789-._~";
    static const char hex[] = "0123456789ABCDEF";
    char *out = xcalloc(strlen(text) * 3 + 1, 1);
    char *at = out;
    for (const char *s = text; *s; s++) {
        if (strchr(unreserved, *s)) {
            *at++ = *s;
            continue;
        }
        *at++ = '%';
        *at++ = hex[(unsigned char)*s >> 4];
        *at++ = hex[(unsigned char)*s & 15];
    }
    return out;
}
