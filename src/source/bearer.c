/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/bearer.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/small_file.h"

#include <stdlib.h>
#include <string.h>

/* Real ones have one or two thousand characters. */
#define TOKEN_LIMIT ((size_t)64 * 1024)

/* Cuts the blanks off both ends, in place. */
static void trim(char *text)
{
    static const char blanks[] = " \t\r\n\v\f";
    size_t start = strspn(text, blanks);
    size_t end = strlen(text);
    while (end > start && strchr(blanks, text[end - 1]))
        end--;
    memmove(text, text + start, end - start);
    text[end - start] = '\0';
}

/* A secret that is of use no more does not stay in memory. */
static void forget(char *token)
{
    if (token)
        explicit_bzero(token, strlen(token));
    free(token);
}

void bearer_init(struct bearer *bearer, const char *token, const char *file)
{
    *bearer = (struct bearer){.file = file};
    if (!token)
        return;
    bearer->token = xstrdup(token);
    trim(bearer->token);
}

void bearer_clear(struct bearer *bearer)
{
    forget(bearer->token);
    *bearer = (struct bearer){0};
}

/* A token is one word; anything else would end up as other headers. */
static int check(const char *token, const char *source, struct error *err)
{
    if (*token == '\0')
        return error_set(err, "%s is empty", source);
    for (const unsigned char *s = (const unsigned char *)token; *s; s++) {
        if (*s <= ' ' || *s >= 0x7f)
            return error_set(err, "%s is not a token", source);
    }
    return 0;
}

/* The token in @file, which the caller frees; NULL if there is none. */
static char *read_token(const char *file, struct error *err)
{
    char *text = small_file_read(file, TOKEN_LIMIT, err);
    if (!text)
        return NULL;
    trim(text);
    if (check(text, file, err) == 0)
        return text;
    forget(text);
    return NULL;
}

/* Replaces the token by what the file holds now, if it holds one. */
static int refresh(struct bearer *bearer, struct error *err)
{
    char *fresh = read_token(bearer->file, err);
    if (fresh) {
        forget(bearer->token);
        bearer->token = fresh;
        bearer->stale = false;
        return 0;
    }
    if (!bearer->token)
        return error_prefix(err, "no token");
    if (!bearer->stale)
        log_warn("apiserver", "the last good token is used on: %s", err->text);
    bearer->stale = true;
    error_clear(err);
    return 0;
}

int bearer_get(struct bearer *bearer, const char **token, struct error *err)
{
    if (bearer->file && refresh(bearer, err) < 0)
        return -1;
    if (bearer->token && check(bearer->token, "the token", err) < 0)
        return -1;
    *token = bearer->token;
    return 0;
}
