/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files are read for every request: requests are rare, files are small, and a change can hide from
 * time stamps. PEM is only checked superficially (every block is closed, one is of the right
 * kind), enough to detect a file that is still being written.
 */
#include "credential.h"

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

/* ---- PEM ---- */

#define BEGIN "-----BEGIN "
#define END "-----END "
#define DASHES "-----"
#define CERTIFICATE "CERTIFICATE"

struct block {
    const char *at, *label, *body, *end; /* END is where the next one may begin */
    size_t label_length, body_length;
};

static const char *line_with(const char *text, const char *mark)
{
    const char *at = text;
    while ((at = strstr(at, mark)) && at > text && at[-1] != '\n' && at[-1] != '\r')
        at++;
    return at;
}

/* The next block from @text; false if there is none, or if it does not end. */
static bool next_block(const char *text, struct block *block)
{
    block->at = line_with(text, BEGIN);
    if (!block->at)
        return false;
    block->label = block->at + strlen(BEGIN);
    const char *dashes = strstr(block->label, DASHES), *other = line_with(block->label, BEGIN);
    const char *end = dashes ? line_with(dashes + strlen(DASHES), END) : NULL;
    const char *last = end ? strstr(end + strlen(END), DASHES) : NULL;
    if (!last || (other && other < end))
        return false;
    block->label_length = (size_t)(dashes - block->label);
    block->body = dashes + strlen(DASHES);
    block->body_length = (size_t)(end - block->body);
    block->end = last + strlen(DASHES);
    return true;
}

static int check_pem(bool is_key, const char *text, const char *source, struct error *err)
{
    struct block block;
    const char *at = text;
    while (next_block(at, &block))
        at = block.end;
    if (line_with(at, BEGIN))
        return error_set(err, "%s is cut off: a PEM block does not end", source);
    if (!strstr(text, is_key ? "PRIVATE KEY-----" : CERTIFICATE DASHES))
        return error_set(err, "%s contains no %s in PEM format", source,
                         is_key ? "private key" : "certificate");
    /* OpenSSL would block on a terminal to read the pass phrase. */
    if (is_key && strstr(text, "ENCRYPTED"))
        return error_set(err, "%s is encrypted, which is not supported", source);
    return 0;
}

/* ---- CA bundles ---- */

/*
 * libcurl rejects all of a bundle for one bad block; client-go skips it. The contents of a
 * certificate are left to libcurl: only its encoding is looked at.
 */

/* DER: a sequence, and its length in so many further bytes if this bit is set. */
#define DER_SEQUENCE 0x30
#define DER_LONG 0x80

/* Whether the bytes are one sequence, as all certificates are. */
static bool is_sequence(const uint8_t *bytes, size_t n)
{
    size_t length = n > 1 ? bytes[1] : 0, head = 2;
    if (n < head || bytes[0] != DER_SEQUENCE)
        return false;
    if (length & DER_LONG) {
        const size_t more = length & ~(size_t)DER_LONG;
        length = 0;
        if (more == 0 || more > sizeof(uint32_t) || n < head + more)
            return false;
        for (size_t i = 0; i < more; i++)
            length = length << 8 | bytes[head + i];
        head += more;
    }
    return n - head == length;
}

/* What is wrong with a block; NULL: it may be a certificate. */
static const char *fault_of(const struct block *block)
{
    size_t n;
    if (block->label_length != strlen(CERTIFICATE) ||
        memcmp(block->label, CERTIFICATE, block->label_length) != 0)
        return "is no certificate";
    if (memchr(block->body, ':', block->body_length))
        return "has headers";
    char *der = base64_decode(block->body, block->body_length, &n);
    const bool good = der && is_sequence((const uint8_t *)der, n);
    const char *fault = !der ? "is not base64" : good ? NULL : "is cut off or damaged";
    free(der);
    return fault;
}

/* The blocks of @text that hold a certificate, for the caller to free. @skipped gets what is wrong
 * with the first other block, owned by the caller, or NULL. NULL with an error that names it if
 * there is no good one. */
static char *certificates_of(const char *text, const char *source, char **skipped,
                             struct error *err)
{
    struct block block;
    size_t number = 0, length = 0;
    char *good =
        xcalloc(strlen(text) + 2, 1); /* a line end for each block is in the text already */
    *skipped = NULL;
    for (const char *at = text; next_block(at, &block); at = block.end) {
        const char *fault = fault_of(&block);
        number++;
        if (fault && !*skipped)
            *skipped = xasprintf("%s: PEM block %zu %s", source, number, fault);
        if (fault)
            continue;
        const size_t n = (size_t)(block.end - block.at);
        memcpy(good + length, block.at, n);
        good[length + n] = '\n';
        length += n + 1;
    }
    if (length > 0)
        return good;
    free(good);
    error_set(err, "%s has no certificate that can be used%s%s", source, *skipped ? ": " : "",
              *skipped ? *skipped : "");
    free(*skipped);
    *skipped = NULL;
    return NULL;
}

/* ---- credentials ---- */

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
    good = certificates_of(text, source, &skipped, err);
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
