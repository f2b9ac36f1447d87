/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The values (json.h) that are made of protobuf, one behind the other, and their texts. Both arrays
 * are kept for the next values, so that nothing is allocated for one.
 */
#ifndef KUBE_NFTD_BASE_PROTO_VALUES_H
#define KUBE_NFTD_BASE_PROTO_VALUES_H

#include "kube-nftd/base/json.h"
#include "kube-nftd/base/vec.h"

/* Starts zeroed; whoever has it cuts it off, and frees both. */
struct proto_values {
    VEC(struct json_value) values;
    VEC(char) text; /* NUL-terminated texts */
};

/** Makes room for texts: @n bytes, two more than it has included for each of them. (As the tag and
 * the length before it in a message; it takes a NUL, and one byte more where it has one in it.) */
void proto_values_reserve(struct proto_values *values, size_t n);

/** Adds a value that holds nothing as yet. @key is not copied. */
static inline struct json_value *proto_values_add(struct proto_values *values, const char *key,
                                                  uint16_t key_length, enum json_type type)
{
    vec_push(&values->values,
             (struct json_value){
                 .key = key, .type = (uint8_t)type, .size = 1, .key_length = key_length});
    return &values->values.v[values->values.n - 1];
}

/** All values behind the one at @index are in it. */
static inline void proto_values_close(struct proto_values *values, size_t index)
{
    values->values.v[index].size = (uint32_t)(values->values.n - index);
}

/** Copies @n bytes, for which there is room, as the key of @value. */
void proto_values_key(struct proto_values *values, struct json_value *value, const void *bytes,
                      size_t n);

/** The same as its string: a bad one if they are not UTF-8; with a NUL, it ends there. */
void proto_values_string(struct proto_values *values, struct json_value *value, const void *bytes,
                         size_t n);

#endif
