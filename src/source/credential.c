/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files are read for every request: requests are rare, files are small, and a change can hide from
 * time stamps. PEM is only checked superficially (every block is closed, one is of the right
 * kind), enough to detect a file that is still being written.
 */
#include "credential.h"

#include "ca_bundle.h"
#include "kube-nftd/base.h"

#include <stdlib.h>
#include <string.h>

/* Real tokens have 1 to 2 KB; a bundle of all public CAs has 250 KB. */
#define TOKEN_LIMIT ((size_t)64 * 1024)
#define PEM_LIMIT ((size_t)1024 * 1024)

/* A token is one word; anything else could inject headers. */
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

/* Counts lines that begin with @mark; the last of them goes into @last. */
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
    /* OpenSSL would block on a terminal to read the pass phrase. */
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

/* Wipes a secret before freeing it. */
static void wipe(char *text)
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
        text_trim(c->text);
    if (kind == CREDENTIAL_TOKEN || !text)
        c->file = file;
}

void credential_clear(struct credential *c)
{
    wipe(c->text);
    *c = (struct credential){0};
}

/* What can be used of @text, which it takes, or NULL with an error. */
static char *usable(const struct credential *c, char *text, const char *source, struct error *err)
{
    char *good = NULL, *skipped = NULL;
    if (check(c, text, source, err)) {
        wipe(text);
        return NULL;
    }
    if (c->kind != CREDENTIAL_CA)
        return text;
    good = ca_bundle_certificates(text, source, &skipped, err);
    if (skipped && (!c->text || strcmp(c->text, good) != 0))
        log_warn("source", "a part of the CA is skipped: %s", skipped);
    free(skipped);
    free(text);
    return good;
}

/* The contents of the file, if good, for the caller to wipe. NULL with an error if not. */
static char *load_credential(const struct credential *c, struct error *err)
{
    bool is_token = c->kind == CREDENTIAL_TOKEN;
    char *text = file_read(c->file, is_token ? TOKEN_LIMIT : PEM_LIMIT, err);
    if (!text)
        error_prefix(err, "%s", c->file);
    else if (is_token)
        text_trim(text);
    return text ? usable(c, text, c->file, err) : NULL;
}

int credential_get(struct credential *c, const char **text, struct error *err)
{
    bool is_token = c->kind == CREDENTIAL_TOKEN;
    char *fresh = c->file ? load_credential(c, err) : NULL;
    if (c->file && !fresh && !c->text)
        return error_prefix(err, "no %s", c->what);
    if (c->file && !fresh) {
        if (!c->stale)
            log_warn("source", "the last good %s stays in use: %s", c->what, err->text);
        error_clear(err);
    }
    c->stale = c->file && !fresh;
    if (fresh) {
        if (!is_token && c->text && strcmp(c->text, fresh) != 0)
            log_info("source", "the %s was replaced file=%s", c->what, c->file);
        wipe(c->text);
        c->text = fresh;
    } else if (c->text && !c->usable) {
        fresh = usable(c, xstrdup(c->text), is_token ? "the token" : c->what, err);
        if (!fresh)
            return is_token ? -1 : error_prefix(err, "kubeconfig");
        wipe(c->text);
        c->text = fresh;
    }
    c->usable = c->text != NULL;
    *text = c->text;
    return 0;
}
