/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve/gzip.h"

#include "kube-nftd/base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

/* Of deflateInit2(): the largest window, and a gzip header instead of zlib's. */
#define WINDOW_BITS (15 + 16)
#define MEMORY_LEVEL 8

static const char *skip_space(const char *text)
{
    return text + strspn(text, " \t");
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

/* What follows a name: "" or ";q=0.5". Other parameters do not exist. */
static bool has_quality(const char *text)
{
    text = skip_space(text);
    if (*text != ';')
        return true;
    text = skip_space(text + 1);
    if (strncasecmp(text, "q=", 2) != 0)
        return true;
    return strtod(text + 2, NULL) > 0;
}

bool gzip_is_accepted(const char *accept_encoding)
{
    bool any = false;
    for (const char *at = accept_encoding; at && *at; at += strspn(at, ",")) {
        at = skip_space(at);
        size_t length = strcspn(at, " \t;,");
        if (is_word(at, length, "gzip") || is_word(at, length, "x-gzip"))
            return has_quality(at + length);
        if (is_word(at, length, "*"))
            any = has_quality(at + length);
        at += strcspn(at, ",");
    }
    return any;
}

char *gzip_pack(const char *bytes, size_t size, size_t *packed_size)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    size_t room = deflateBound(&stream, size);
    char *packed = xcalloc(room, 1);
    stream.next_in = (z_const Bytef *)bytes;
    stream.avail_in = (uInt)size;
    stream.next_out = (Bytef *)packed;
    stream.avail_out = (uInt)room;
    bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    *packed_size = stream.total_out;
    deflateEnd(&stream);
    if (done)
        return packed;
    free(packed);
    return NULL;
}
