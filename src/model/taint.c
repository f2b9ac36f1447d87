/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LIMIT 63
#define PREFIX_LIMIT 253

void taint_clear(struct taint *taint)
{
    free(taint->key);
    free(taint->value);
    free(taint->effect);
    free(taint->time_added);
    *taint = (struct taint){0};
}

/* Letters, digits and, between them, what stands in @between. */
static bool is_name(const char *text, size_t length, const char *between, size_t limit)
{
    if (length == 0 || length > limit || !isalnum((unsigned char)text[0]) ||
        !isalnum((unsigned char)text[length - 1]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(between, text[i]))
            return false;
    return true;
}

static bool is_key(const char *text)
{
    const char *slash = strchr(text, '/');
    if (slash && !is_name(text, (size_t)(slash - text), "-.", PREFIX_LIMIT))
        return false;
    const char *name = slash ? slash + 1 : text;
    return is_name(name, strlen(name), "-_.", NAME_LIMIT);
}

static bool is_value(const char *text)
{
    return !*text || is_name(text, strlen(text), "-_.", NAME_LIMIT);
}

static bool is_effect(const char *text)
{
    return strcmp(text, "NoSchedule") == 0 || strcmp(text, "PreferNoSchedule") == 0 ||
           strcmp(text, "NoExecute") == 0;
}

static int check(const char *text, const struct taint *pattern, struct error *err)
{
    if (pattern->effect && !is_effect(pattern->effect))
        return error_set(
            err, "\"%s\": the effect is none of NoSchedule, PreferNoSchedule and NoExecute", text);
    if (!is_key(pattern->key))
        return error_set(err, "\"%s\" does not begin with a taint's key", text);
    if (pattern->value && !is_value(pattern->value))
        return error_set(err, "\"%s\": \"%s\" cannot be the value of a taint", text,
                         pattern->value);
    return 0;
}

int taint_parse(const char *text, struct taint *pattern, struct error *err)
{
    const char *colon = strrchr(text, ':'), *end = colon ? colon : text + strlen(text);
    const char *equals = memchr(text, '=', (size_t)(end - text));
    const char *key_end = equals ? equals : end;
    *pattern = (struct taint){
        .key = xstrndup(text, (size_t)(key_end - text)),
        .value = equals ? xstrndup(equals + 1, (size_t)(end - equals - 1)) : NULL,
        .effect = colon ? xstrdup(colon + 1) : NULL,
    };
    if (check(text, pattern, err) == 0)
        return 0;
    taint_clear(pattern);
    return -1;
}

static bool same(const char *wanted, const char *text)
{
    return !wanted || strcmp(wanted, text) == 0;
}

bool taint_matches(const struct taint *pattern, const struct taint *taint)
{
    return same(pattern->key, taint->key) && same(pattern->value, taint->value) &&
           same(pattern->effect, taint->effect);
}
