/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * JSON values as a reader gives them (json_reader.h), for those who look into them.
 *
 * A value and all that is in it stand side by side in one array: what is in it comes right behind
 * it, so that the next value beside it is at + size. Nothing is allocated for a value. Values and
 * their texts are borrowed, and gone when the reader's callback returns.
 */
#ifndef KUBE_NFTD_BASE_JSON_H
#define KUBE_NFTD_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_BAD_STRING, /* not UTF-8, or with a NUL (which is "\xc0\x80" then): no text for anybody */
    JSON_TIME,       /* of protobuf, where JSON has a string */
    JSON_ARRAY,
    JSON_OBJECT,
    JSON_BROKEN, /* what the object that it is the last member of ends with, if it cannot be read */
};

struct json_value {
    const char *key; /* of a member of an object; NULL for all others */
    union {
        const char *string; /* of JSON_STRING, JSON_BAD_STRING and, what is wrong, JSON_BROKEN */
        double number;      /* of JSON_NUMBER */
        int64_t seconds;    /* of JSON_TIME, since 1970 */
    };
    uint32_t size;       /* how many values it is, itself included; never 0 */
    uint8_t type;        /* of enum json_type */
    bool integer;        /* of JSON_NUMBER: written without a fraction or an exponent */
    uint16_t key_length; /* of the key, by json_key_length() */
};

/** What is kept of the length of a key: none that is looked for is so long. */
static inline uint16_t json_key_length(size_t length)
{
    return length < UINT16_MAX ? (uint16_t)length : UINT16_MAX;
}

/** Whether the key of @member of an object is @key. */
static inline bool json_has_key(const struct json_value *member, const char *key)
{
    size_t length = strlen(key);
    return member->key_length == length && memcmp(member->key, key, length) == 0;
}

/** Whether there is a value and it is of @type. */
static inline bool json_is(const struct json_value *value, enum json_type type)
{
    return value && value->type == type;
}

/** Whether there is a value and it is true or false. */
static inline bool json_is_bool(const struct json_value *value)
{
    return json_is(value, JSON_TRUE) || json_is(value, JSON_FALSE);
}

/** The text of a string; NULL for all others. */
static inline const char *json_string(const struct json_value *value)
{
    return json_is(value, JSON_STRING) ? value->string : NULL;
}

/** Whether @value has a text, be it a bad one. */
static inline bool json_has_string(const struct json_value *value)
{
    return value->type == JSON_STRING || value->type == JSON_BAD_STRING ||
           value->type == JSON_BROKEN;
}

/** Whether nothing is in an array or object; true for all others. */
static inline bool json_is_empty(const struct json_value *value)
{
    return !value || value->size == 1;
}

/* Runs the statement with @it pointing at each element or member of @container, a variable (NULL:
 * none). */
#define json_each(container, it)                                                                   \
    for (const struct json_value *it = (container) ? (container) + 1 : NULL,                       \
                                 *it##_end_ = (container) ? (container) + (container)->size : it;  \
         it < it##_end_; it += it->size)

/** How many elements or members it has; none for all others and NULL. */
static inline size_t json_count(const struct json_value *container)
{
    size_t n = 0;
    json_each (container, it)
        n++;
    return n;
}

/** The member @key of @object (which may be NULL or no object), be it null; NULL if it is absent.
 * Of several, the last one counts, as for the Kubernetes API. */
static inline const struct json_value *json_find(const struct json_value *object, const char *key)
{
    const struct json_value *found = NULL;
    if (!json_is(object, JSON_OBJECT))
        return NULL;
    json_each (object, member)
        if (json_has_key(member, key))
            found = member;
    return found;
}

/** Whether there is no value, or null, which means the same everywhere in the Kubernetes API. */
static inline bool json_is_absent(const struct json_value *value)
{
    return !value || value->type == JSON_NULL;
}

/** The same as json_find(), but NULL for null too. */
static inline const struct json_value *json_member(const struct json_value *object, const char *key)
{
    const struct json_value *found = json_find(object, key);
    return json_is_absent(found) ? NULL : found;
}

/** Whether @object (which may be NULL or no object) has the member @key more than once. */
static inline bool json_is_doubled(const struct json_value *object, const char *key)
{
    size_t n = 0;
    if (!json_is(object, JSON_OBJECT))
        return false;
    json_each (object, member)
        n += json_has_key(member, key);
    return n > 1;
}

/** What is wrong with @object, of which no more could be read; NULL if it is whole. */
static inline const char *json_fault(const struct json_value *object)
{
    const struct json_value *last = NULL;
    json_each (object, member)
        last = member;
    return json_is(last, JSON_BROKEN) ? last->string : NULL;
}

#endif
