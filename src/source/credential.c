/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file is read for every request: requests are few, the file is small, and so nothing can be
 * missed that a look at its time stamp would miss. What PEM holds is looked at from outside only
 * (all blocks closed, one of the right kind), enough to tell a file that is being written.
 */
#include "credential.h"

#include "kube-nftd/base.h"

#include <stdlib.h>
#include <string.h>

/* Real tokens have one or two thousand characters; the CAs of the whole web take a quarter of a
 * megabyte. */
#define TOKEN_LIMIT ((size_t)64 * 1024)
#define PEM_LIMIT ((size_t)1024 * 1024)

/* ---- what it holds ---- */

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

/* A token is one word; anything else would end up as other headers. */
static int check_token(const char *token, const char *source, struct error *err)
{
    if (*token == '\0')
        return error_set(err, "%s is empty", source);
    for (const unsigned char *s = (const unsigned char *)token; *s; s++) {
        if (*s <= ' ' || *s >= 0x7f)
            return error_set(err, "%s is not a token", source);
    }
    return 0;
}

/* How many lines begin with @mark; the last of them goes into @last. */
static size_t count_lines(const char *text, const char *mark, const char **last)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, mark)); at++) {
        if (at > text && at[-1] != '\n' && at[-1] != '\r')
            continue;
        *last = at;
        n++;
    }
    return n;
}

static int check_pem(bool is_key, const char *text, const char *source, struct error *err)
{
    static const char begin[] = "-----BEGIN ", end[] = "-----END ";
    const char *last = text;
    if (count_lines(text, begin, &last) != count_lines(text, end, &last) ||
        (last > text && !strstr(last + strlen(end), "-----")))
        return error_set(err, "%s is cut off: a PEM block does not end", source);
    if (!strstr(text, is_key ? "PRIVATE KEY-----" : "CERTIFICATE-----"))
        return error_set(err, "%s contains no %s in PEM format", source,
                         is_key ? "private key" : "certificate");
    /* To ask for a pass phrase, OpenSSL would stop the daemon at a terminal. */
    if (is_key && strstr(text, "ENCRYPTED"))
        return error_set(err, "%s is encrypted, which is not supported", source);
    return 0;
}

static int check(const struct credential *c, const char *text, const char *source,
                 struct error *err)
{
    return c->kind == CREDENTIAL_TOKEN ? check_token(text, source, err)
                                       : check_pem(c->kind == CREDENTIAL_KEY, text, source, err);
}

/* ---- public ---- */

/* A secret that is of use no more does not stay in memory. */
static void forget(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void credential_init(struct credential *c, enum credential_kind kind, const char *what,
                     const char *text, const char *file)
{
    *c = (struct credential){.kind = kind, .what = what, .text = xstrdup(text)};
    if (kind == CREDENTIAL_TOKEN && text)
        trim(c->text);
    if (kind == CREDENTIAL_TOKEN || !text)
        c->file = file;
}

void credential_clear(struct credential *c)
{
    forget(c->text);
    *c = (struct credential){0};
}

/* Replaces the text by what the file holds now, if that is good. */
static int refresh(struct credential *c, struct error *err)
{
    bool is_token = c->kind == CREDENTIAL_TOKEN;
    char *fresh = file_read(c->file, is_token ? TOKEN_LIMIT : PEM_LIMIT, err);
    if (!fresh)
        error_prefix(err, "%s", c->file);
    else if (is_token)
        trim(fresh);
    if (fresh && check(c, fresh, c->file, err) == 0) {
        if (!is_token && c->text && strcmp(c->text, fresh) != 0)
            log_info("apiserver", "the %s was replaced file=%s", c->what, c->file);
        forget(c->text);
        c->text = fresh;
        c->stale = false;
        return 0;
    }
    forget(fresh);
    if (!c->text)
        return error_prefix(err, "no %s", c->what);
    if (!c->stale)
        log_warn("apiserver", "the last good %s stays in use: %s", c->what, err->text);
    c->stale = true;
    error_clear(err);
    return 0;
}

int credential_get(struct credential *c, const char **text, struct error *err)
{
    bool is_token = c->kind == CREDENTIAL_TOKEN;
    if (c->file && refresh(c, err) < 0)
        return -1;
    if (c->text && (!c->file || c->stale) &&
        check(c, c->text, is_token ? "the token" : c->what, err) < 0)
        return is_token ? -1 : error_prefix(err, "kubeconfig");
    *text = c->text;
    return 0;
}
