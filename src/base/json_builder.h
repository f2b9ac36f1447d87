/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Values (json.h) that grow one behind the other, and their texts. Both arrays are kept for the
 * next values, so that nothing is allocated for one.
 */
#ifndef KUBE_NFTD_BASE_JSON_BUILDER_H
#define KUBE_NFTD_BASE_JSON_BUILDER_H

#include "kube-nftd/base/json.h"
#include "kube-nftd/base/vec.h"

/* Starts zeroed. */
struct json_builder {
    VEC(struct json_value) values;
    VEC(char) text; /* NUL-terminated texts, and perhaps one that is not complete */
};

/** Adds a value that holds nothing as yet. @key is not copied. */
static inline struct json_value *json_builder_add(struct json_builder *builder, const char *key,
                                                  uint16_t key_length, enum json_type type)
{
    vec_push(&builder->values,
             (struct json_value){
                 .key = key, .type = (uint8_t)type, .size = 1, .key_length = key_length});
    return &builder->values.v[builder->values.n - 1];
}

/** All values behind the one at @index are in it. */
static inline void json_builder_close(struct json_builder *builder, size_t index)
{
    builder->values.v[index].size = (uint32_t)(builder->values.n - index);
}

/** Adds @n bytes to the present text. Texts may move, and those of all values with them. */
void json_builder_text(struct json_builder *builder, const void *bytes, size_t n);

/** Ends the text that begins at the byte @begin, to which something was added, if only no bytes,
 * and returns it. */
const char *json_builder_end_text(struct json_builder *builder, size_t begin);

/** The same of bytes of others, as the last value's key. */
void json_builder_end_key(struct json_builder *builder, size_t begin);

/** And as its string, a bad one if they are not UTF-8 or with a NUL. */
void json_builder_end_string(struct json_builder *builder, size_t begin);

/** The same of @n bytes that are there as a whole. */
void json_builder_string(struct json_builder *builder, const void *bytes, size_t n);

/** Forgets the values from @values on and the texts from the byte @text on. If none are left, gives
 * back much memory. */
void json_builder_cut(struct json_builder *builder, size_t values, size_t text);

/** Frees what it holds. */
void json_builder_clear(struct json_builder *builder);

#endif
