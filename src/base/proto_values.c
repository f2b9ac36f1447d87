/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto_values.h"

#include "kube-nftd/base/text.h"

/* Bytes behind the last text that may be overwritten. */
#define PADDING sizeof(uint64_t)

/* The texts of all values have moved: what was at @before is at @now. Keys of fields are none of
 * them. */
static void move_texts(struct proto_values *values, const char *before, const char *now)
{
    const char *end = before + values->text.n;
    vec_each (&values->values, value) {
        if (value->key >= before && value->key < end)
            value->key = now + (value->key - before);
        if (json_has_string(value) && value->string >= before && value->string < end)
            value->string = now + (value->string - before);
    }
}

/* Both buffers are there while the texts move from one to the other. */
void proto_values_reserve(struct proto_values *values, size_t n)
{
    size_t used = values->text.n, room = used + n + PADDING;
    if (room <= values->text.cap)
        return;
    char *before = values->text.v, *now = xreallocarray(NULL, room, 1);
    if (used > 0) {
        memcpy(now, before, used);
        move_texts(values, before, now);
    }
    values->text.v = now;
    values->text.cap = room;
    free(before);
}

/* Whether all bytes are ASCII and none is 0, as nearly always; those behind them are overwritten.
 */
static inline bool is_plain(char *text, size_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t word, found = 0;
    memcpy(text + n, &ones, sizeof(ones));
    for (size_t i = 0; i < n; i += sizeof(word)) {
        memcpy(&word, text + i, sizeof(word));
        found |= (word - ones) | word; /* 0 borrows, and so may what is above it */
    }
    return (found & tops) == 0;
}

static char *add_text(struct proto_values *values, const void *bytes, size_t n)
{
    char *text = values->text.v + values->text.n;
    memcpy(text, bytes, n);
    text[n] = '\0';
    values->text.n += n + 1;
    return text;
}

void proto_values_key(struct proto_values *values, struct json_value *value, const void *bytes,
                      size_t n)
{
    value->key = add_text(values, bytes, n);
    value->key_length = json_key_length(n);
}

void proto_values_string(struct proto_values *values, struct json_value *value, const void *bytes,
                         size_t n)
{
    static const char nul[] = "\xc0\x80"; /* as json.h says */
    char *text = add_text(values, bytes, n);
    bool plain = is_plain(text, n);
    text[n] = '\0';
    size_t length = plain ? n : strlen(text);
    if (length < n) {
        memcpy(text + length, nul, sizeof(nul));
        values->text.n += length + sizeof(nul) - (n + 1);
    }
    value->string = text;
    value->type = plain || utf8_is_valid(text) ? JSON_STRING : JSON_BAD_STRING;
}
