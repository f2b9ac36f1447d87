/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ca_bundle.h"

#include <stdlib.h>
#include <string.h>

#define BEGIN "-----BEGIN "
#define END "-----END "
#define DASHES "-----"
#define CERTIFICATE "CERTIFICATE"

/* DER: a sequence, and its length in so many further bytes if this bit is set. */
#define DER_SEQUENCE 0x30
#define DER_LONG 0x80

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

/* The next block from @text; every one is closed. */
static bool next_block(const char *text, struct block *block)
{
    block->at = line_with(text, BEGIN);
    if (!block->at)
        return false;
    block->label = block->at + strlen(BEGIN);
    const char *dashes = strstr(block->label, DASHES);
    const char *end = dashes ? line_with(dashes + strlen(DASHES), END) : NULL;
    const char *last = end ? strstr(end + strlen(END), DASHES) : NULL;
    if (!last)
        return false;
    block->label_length = (size_t)(dashes - block->label);
    block->body = dashes + strlen(DASHES);
    block->body_length = (size_t)(end - block->body);
    block->end = last + strlen(DASHES);
    return true;
}

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

char *ca_bundle_certificates(const char *text, const char *source, char **skipped,
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
