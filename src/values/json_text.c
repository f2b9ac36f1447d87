/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "json_text.h"

#include "kube-nftd/base.h"

#include <stdlib.h>

char *json_text_scalar_end(char *p, const char *end)
{
    static const bool parts[256] = {
        ['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true,
        ['+'] = true,         ['-'] = true,         ['.'] = true,
    };
    while (p < end && parts[(unsigned char)*p])
        p++;
    return p;
}

/* ---- strings ---- */

/* The four digits at @p, -1 if they are not. */
static int hex4(const char *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)p[i], lower = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + c - '0';
        else if (lower >= 'a' && lower <= 'f')
            value = value * 16 + lower - 'a' + 10;
        else
            return -1;
    }
    return value;
}

/* U+0000 takes two bytes, which is not UTF-8: a NUL would end the text. */
static char *put_utf8(char *out, unsigned c)
{
    if (c > 0 && c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* The character of "\u" escapes at @in, of which there are two if they make a pair. Returns what
 * is behind them, NULL if they are none. */
static const char *read_unicode(const char *in, const char *end, unsigned *c)
{
    int first = end - in >= 6 ? hex4(in + 2) : -1;
    if (first < 0)
        return NULL;
    in += 6;
    *c = (unsigned)first;
    if (first < 0xd800 || first > 0xdbff)
        return in;
    int second = end - in >= 6 && in[0] == '\\' && in[1] == 'u' ? hex4(in + 2) : -1;
    if (second < 0xdc00 || second > 0xdfff)
        return in;
    *c = 0x10000u + ((unsigned)first - 0xd800u) * 0x400u + (unsigned)second - 0xdc00u;
    return in + 6;
}

/* The character of the escape at @in into @out. Returns what is behind it, NULL if it is none. */
static const char *read_escape(const char *in, const char *end, char **out)
{
    static const char meanings[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    unsigned c;
    if (end - in < 2)
        return NULL;
    if (in[1] == 'u') {
        in = read_unicode(in, end, &c);
        if (in)
            *out = put_utf8(*out, c);
        return in;
    }
    char meaning = meanings[(unsigned char)in[1]];
    *(*out)++ = meaning;
    return meaning ? in + 2 : NULL;
}

bool json_text_unescape(char *text, size_t length)
{
    const char *in = text, *end = text + length;
    char *out = text;
    while (in < end) {
        if (*in != '\\')
            *out++ = *in++;
        else if (!(in = read_escape(in, end, &out)))
            return false;
    }
    *out = '\0';
    return true;
}

/* ---- numbers and words ---- */

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Whether it is a number, and whether an integer. */
static bool is_number(const char *p, const char *end, bool *integer)
{
    const char *digits = p + (*p == '-');
    p = skip_digits(digits, end);
    if (p == digits || (*digits == '0' && p - digits > 1))
        return false;
    *integer = p == end;
    if (p < end && *p == '.') {
        digits = p + 1;
        p = skip_digits(digits, end);
        if (p == digits)
            return false;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        digits = p + 1;
        digits += digits < end && (*digits == '+' || *digits == '-');
        p = skip_digits(digits, end);
        if (p == digits)
            return false;
    }
    return p == end;
}

/* Integers of so many digits are exact as double. */
#define EXACT_DIGITS 15

/* Plain integers are by far the most. */
static bool read_number(const char *text, size_t length, struct json_value *out)
{
    const char *end = text + length;
    if (!is_number(text, end, &out->integer))
        return false;
    if (*text == '-' || length > EXACT_DIGITS || !out->integer) {
        char *copy = xstrndup(text, length);
        out->number = strtod(copy, NULL);
        free(copy);
        return true;
    }
    int64_t value = 0;
    for (const char *p = text; p < end; p++)
        value = value * 10 + (*p - '0');
    out->number = (double)value;
    return true;
}

bool json_text_scalar(const char *text, size_t length, struct json_value *value)
{
    static const struct {
        const char *text;
        enum json_type type;
    } words[] = {{"true", JSON_TRUE}, {"false", JSON_FALSE}, {"null", JSON_NULL}};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (*text == *words[i].text && strlen(words[i].text) == length &&
            memcmp(text, words[i].text, length) == 0) {
            value->type = (uint8_t)words[i].type;
            return true;
        }
    }
    value->type = JSON_NUMBER;
    return length > 0 && read_number(text, length, value);
}
