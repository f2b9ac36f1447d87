/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Small parts of objects: resourceVersion, uid, and the zones of endpoints. */
#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An object without a resourceVersion; encoded as a number that never occurs. */
#define UNVERSIONED UINT64_MAX
#define NUMBER_MOST (UINT64_MAX / 2 - 1)

static char *text_of(const struct object_version *version)
{
    if (version->bits == 0 || (version->bits & 1))
        return NULL;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): as the header says */
    return (char *)(uintptr_t)version->bits;
}

/* Parses @text if it is a canonical decimal number that fits. */
static bool read_number(const char *text, uint64_t *number)
{
    uint64_t n = 0;
    if (text[0] == '0' && text[1])
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (n > (NUMBER_MOST - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *number = n;
    return true;
}

void object_version_set(struct object_version *version, const char *text)
{
    uint64_t number;
    object_version_clear(version);
    if (!text || !*text)
        version->bits = UNVERSIONED;
    else if (read_number(text, &number))
        version->bits = number << 1 | 1;
    else
        version->bits = (uintptr_t)xstrdup(text);
}

const char *object_version_text(const struct object_version *version,
                                char number[OBJECT_VERSION_SIZE])
{
    if (version->bits == UNVERSIONED)
        return "";
    if (!(version->bits & 1))
        return text_of(version);
    snprintf(number, OBJECT_VERSION_SIZE, "%" PRIu64, version->bits >> 1);
    return number;
}

bool object_version_is_set(const struct object_version *version)
{
    return version->bits != 0;
}

bool object_version_equal(const struct object_version *a, const struct object_version *b)
{
    const char *text = text_of(a), *other = text_of(b);
    return text && other ? strcmp(text, other) == 0 : a->bits == b->bits;
}

void object_version_copy(struct object_version *version, const struct object_version *from)
{
    const char *text = text_of(from);
    object_version_clear(version);
    version->bits = text ? (uintptr_t)xstrdup(text) : from->bits;
}

void object_version_move(struct object_version *version, struct object_version *from)
{
    object_version_clear(version);
    *version = *from;
    from->bits = 0;
}

void object_version_clear(struct object_version *version)
{
    free(text_of(version));
    version->bits = 0;
}

/* ---- uid ---- */

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
    int found = 0; /* negative: an invalid digit */
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

/* ---- zones ---- */

static const char *zones[UINT8_MAX]; /* interned; zone number 1 first */

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
