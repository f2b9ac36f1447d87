/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "json_builder.h"

#include "kube-nftd/base/utf8.h"

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
/* More memory than this is not kept for the next values. */
#define TEXT_KEPT ((size_t)128 * 1024)
#define VALUES_KEPT ((size_t)16 * 1024)
#else /* so little that a fuzzer's values go beyond */
#define TEXT_KEPT ((size_t)64)
#define VALUES_KEPT ((size_t)16)
#endif

/* The texts of all values have moved: what was at @before is at @now. Keys of fields are none of
 * them. */
static void move_texts(struct json_builder *builder, const char *before, const char *now)
{
    const char *end = before + builder->text.n;
    vec_each (&builder->values, value) {
        if (value->key >= before && value->key < end)
            value->key = now + (value->key - before);
        if (json_has_string(value) && value->string >= before && value->string < end)
            value->string = now + (value->string - before);
    }
}

/* Both buffers are there while the texts move from one to the other. */
static void grow_text(struct json_builder *builder, size_t n)
{
    size_t used = builder->text.n, room = 2 * used + n;
    char *before = builder->text.v, *now = xreallocarray(NULL, room, 1);
    if (used > 0) {
        memcpy(now, before, used);
        move_texts(builder, before, now);
    }
    builder->text.v = now;
    builder->text.cap = room;
    free(before);
}

/* There is always room for a NUL behind them. */
void json_builder_text(struct json_builder *builder, const void *bytes, size_t n)
{
    if (builder->text.n + n + 1 > builder->text.cap)
        grow_text(builder, n + 1);
    memcpy(&builder->text.v[builder->text.n], bytes, n);
    builder->text.n += n;
}

const char *json_builder_end_text(struct json_builder *builder, size_t begin)
{
    builder->text.v[builder->text.n++] = '\0';
    return builder->text.v + begin;
}

/* Up to eight bytes, some of them for a second time. */
static inline uint64_t few_bytes(const char *text, size_t n)
{
    uint32_t first, last;
    if (n < sizeof(first))
        return UINT64_C(0x0101010101000000) | (uint8_t)text[0] |
               (uint32_t)(uint8_t)text[n / 2] << 8 | (uint32_t)(uint8_t)text[n - 1] << 16;
    memcpy(&first, text, sizeof(first));
    memcpy(&last, text + n - sizeof(last), sizeof(last));
    return first | (uint64_t)last << 32;
}

/* Whether all bytes are ASCII and none is 0, as nearly always. */
static inline bool is_plain(const char *text, size_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t word, found = 0;
    if (n == 0)
        return true;
    for (; n > sizeof(word); n -= sizeof(word), text += sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        found |= (word - ones) | word; /* 0 borrows, and so may what is above it */
    }
    word = few_bytes(text, n);
    found |= (word - ones) | word;
    return (found & tops) == 0;
}

/* Each NUL of the text from @begin on becomes two bytes that are no UTF-8, as json.h says. */
static void mark_nuls(struct json_builder *builder, size_t begin)
{
    size_t nuls = 0, n = builder->text.n;
    for (size_t i = begin; i < n; i++)
        nuls += builder->text.v[i] == '\0';
    for (size_t i = 0; i < nuls; i++)
        json_builder_text(builder, "", 1);
    char *out = builder->text.v + builder->text.n;
    for (const char *in = builder->text.v + n; nuls > 0;) {
        *--out = *--in;
        if (*in == '\0') {
            *out = '\x80';
            *--out = '\xc0';
            nuls--;
        }
    }
}

static struct json_value *last_value(struct json_builder *builder)
{
    return &builder->values.v[builder->values.n - 1];
}

void json_builder_end_key(struct json_builder *builder, size_t begin)
{
    size_t length = builder->text.n - begin;
    const char *key = json_builder_end_text(builder, begin);
    last_value(builder)->key = key;
    last_value(builder)->key_length = json_key_length(length);
}

void json_builder_end_string(struct json_builder *builder, size_t begin)
{
    bool plain = is_plain(builder->text.v + begin, builder->text.n - begin);
    if (!plain)
        mark_nuls(builder, begin);
    const char *text = json_builder_end_text(builder, begin);
    last_value(builder)->string = text;
    last_value(builder)->type = plain || utf8_is_valid(text) ? JSON_STRING : JSON_BAD_STRING;
}

void json_builder_string(struct json_builder *builder, const void *bytes, size_t n)
{
    size_t begin = builder->text.n;
    json_builder_text(builder, bytes, n);
    json_builder_end_string(builder, begin);
}

void json_builder_cut(struct json_builder *builder, size_t values, size_t text)
{
    builder->values.n = values;
    builder->text.n = text;
    if (text == 0 && builder->text.cap > TEXT_KEPT)
        vec_free(&builder->text);
    if (values == 0 && builder->values.cap > VALUES_KEPT)
        vec_free(&builder->values);
}

void json_builder_clear(struct json_builder *builder)
{
    vec_free(&builder->values);
    vec_free(&builder->text);
}
