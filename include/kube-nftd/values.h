/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads JSON, YAML and protobuf into one kind of value tree, and writes YAML. Trees are read in
 * place: they live until their reader takes the next object. Errors give the position in the input.
 */
#ifndef KUBE_NFTD_VALUES_H
#define KUBE_NFTD_VALUES_H

#include "kube-nftd/base.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * A value and its contents are contiguous in one array: the contents directly follow the value, and
 * the next sibling is at + size. No value needs an allocation. Values and their strings are
 * borrowed, until the reader's callback returns.
 */

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_BAD_STRING, /* not UTF-8, or with a NUL (stored as "\xc0\x80"): not usable as text */
    JSON_TIME,       /* protobuf only; a string in JSON */
    JSON_ARRAY,
    JSON_OBJECT,
    JSON_BROKEN, /* last member of an object that could not be read further */
};

struct json_value {
    const char *key; /* for members of objects, else NULL */
    union {
        const char *string; /* JSON_STRING, JSON_BAD_STRING; for JSON_BROKEN: the error */
        double number;      /* JSON_NUMBER */
        int64_t seconds;    /* JSON_TIME, since 1970 */
    };
    uint32_t size;       /* number of values, itself included; never 0 */
    uint8_t type;        /* enum json_type */
    bool integer;        /* JSON_NUMBER: written without a fraction or an exponent */
    uint16_t key_length; /* json_key_length() of the key */
};

/** The stored length of a key, capped: no key that is looked up is that long. */
static inline uint16_t json_key_length(size_t length)
{
    return length < UINT16_MAX ? (uint16_t)length : UINT16_MAX;
}

/** Whether the key of @member is @key. */
static inline bool json_has_key(const struct json_value *member, const char *key)
{
    size_t length = strlen(key);
    return member->key_length == length && memcmp(member->key, key, length) == 0;
}

/** Whether @value is not NULL and is of @type. */
static inline bool json_is(const struct json_value *value, enum json_type type)
{
    return value && value->type == type;
}

static inline bool json_is_bool(const struct json_value *value)
{
    return json_is(value, JSON_TRUE) || json_is(value, JSON_FALSE);
}

/** Whether @value is NULL or null, which mean the same throughout the Kubernetes API. */
static inline bool json_is_absent(const struct json_value *value)
{
    return !value || value->type == JSON_NULL;
}

/** Whether an array or object is empty; true for all others. */
static inline bool json_is_empty(const struct json_value *value)
{
    return !value || value->size == 1;
}

/** The text of a string; NULL for all others. */
static inline const char *json_string(const struct json_value *value)
{
    return json_is(value, JSON_STRING) ? value->string : NULL;
}

/** Whether @value has a string, even a bad one. */
static inline bool json_has_string(const struct json_value *value)
{
    return value->type == JSON_STRING || value->type == JSON_BAD_STRING ||
           value->type == JSON_BROKEN;
}

/* Loops over the elements or members of @container, a variable (NULL: none); @it points at each. */
#define json_each(container, it)                                                                   \
    for (const struct json_value *it = (container) ? (container) + 1 : NULL,                       \
                                 *it##_end_ = (container) ? (container) + (container)->size : it;  \
         it < it##_end_; it += it->size)

/** The number of elements or members; 0 for all others and NULL. */
static inline size_t json_count(const struct json_value *container)
{
    size_t n = 0;
    json_each (container, it)
        n++;
    return n;
}

/** The member @key of @object (which may be NULL or no object), even if null; NULL if absent. Of
 * duplicates the last one is used, as in the Kubernetes API. */
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

/** Like json_find(), but NULL for null, too. */
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

/** The error that ended the reading of @object; NULL if it is complete. */
static inline const char *json_fault(const struct json_value *object)
{
    const struct json_value *last = NULL;
    json_each (object, member)
        last = member;
    return json_is(last, JSON_BROKEN) ? last->string : NULL;
}

/* ---- readers ---- */

/*
 * A reader takes a stream in pieces of any size and passes on each top-level value when it is
 * complete: the events of a watch one by one. A long list is never held as a whole either: the
 * elements of its "items" are passed on as they end, then the list itself, with "items" empty. A
 * second "items" is an ordinary member.
 */

struct value_reader;

/* The most values in a value, itself included. Each takes 24 bytes beside its text. An
 * EndpointSlice of 1,000 endpoints has about 20,000. */
#define VALUES_LIMIT ((size_t)1000000)

/* Takes a value. @list: for an item, its list as read so far, with "items" empty; else NULL. Both
 * are borrowed. -1 stops the reader, whose feed or finish then fails with what is in @err. */
typedef int (*value_fn)(void *ctx, const struct json_value *value, const struct json_value *list,
                        struct error *err);

/** Creates a reader of JSON that passes values to @fn. It rejects values of more than @limit bytes
 * or VALUES_LIMIT values (with SIZE_MAX: more than 4 GiB, or as many values), or nested more than
 * 128 deep. */
struct value_reader *json_reader_new(size_t limit, value_fn fn, void *ctx);

void value_reader_free(struct value_reader *reader);

/** Reads the next @length bytes. -1 if they are malformed, a value exceeds a limit, or the callback
 * stopped; the reader is unusable then. */
int value_reader_feed(struct value_reader *reader, const char *bytes, size_t length,
                      struct error *err);

/** Ends the input, which completes a pending number or word. -1 if the input ends inside a value,
 * or as value_reader_feed(). */
int value_reader_finish(struct value_reader *reader, struct error *err);

/** In the callback: the line of the text, from 1, where the value begins. */
size_t value_reader_line(const struct value_reader *reader);

/* ---- protobuf ---- */

/*
 * Reads a stream of Kubernetes protobuf into the same values, so that one decoder serves both.
 * Tables list the known fields and their JSON names; other fields are skipped by length. Nothing
 * larger than one object is buffered.
 *
 * Bad protobuf inside an object affects only that object: it ends with a JSON_BROKEN value, and the
 * next object begins where expected. Outside of objects, any error is fatal.
 */

/* What a field's value becomes. */
enum proto_type {
    PROTO_UNUSED, /* nothing */
    /* Varints. */
    PROTO_NUMBER,
    PROTO_BOOL,
    PROTO_SECONDS, /* a time */
    /* Length-delimited. */
    PROTO_STRING,
    PROTO_KEY,      /* the key of the enclosing value */
    PROTO_OBJECT,   /* the fields of its message */
    PROTO_TIME,     /* the same, with a PROTO_SECONDS field; null without it */
    PROTO_MAP,      /* entries of PROTO_KEY and PROTO_STRING */
    PROTO_ITEMS,    /* objects, passed on one by one where their list streams */
    PROTO_ENVELOPE, /* as PROTO_OBJECT, after "k8s\0" */
    PROTO_BODY,     /* the fields of the message given by the value's "kind" */
    PROTO_EMPTY,    /* nothing; must be empty */
};

struct proto_message;

struct proto_field {
    const char *key; /* in JSON; NULL: the field adds to the enclosing value */
    const struct proto_message *message;
    uint8_t type; /* enum proto_type */
    uint8_t key_length;
    bool list;         /* repeated: becomes an array; for maps, an object */
    bool has_presence; /* 0 and "" are values; else they mean absent */
};

/* The largest field number in use. */
#define PROTO_FIELD_MOST 31

/* Messages are not recursive, which bounds the nesting. */
struct proto_message {
    const struct proto_field *fields; /* indexed by field number */
    size_t n;                         /* length of @fields, at most 32 */
};

/* A stream's format. */
struct proto_format {
    bool frames; /* messages with a 4-byte length each; else one message, after "k8s\0" */
    const struct proto_message *root;                      /* the envelope, or each frame */
    const struct proto_message *(*body)(const char *kind); /* returns NULL to skip the object */
};

/** Creates a reader of protobuf, like json_reader_new(). @format must outlive the reader. */
struct value_reader *proto_reader_new(const struct proto_format *format, size_t limit, value_fn fn,
                                      void *ctx);

/* ---- YAML, by libyaml ---- */

/* Reads up to @size bytes into @buffer and stores their number in @n, 0 at the end. Returns -1 on
 * error: reading then fails, and the callback keeps the error. */
typedef int (*yaml_input_fn)(void *ctx, char *buffer, size_t size, size_t *n);

/**
 * Reads all documents from @input (YAML or JSON) and passes them to the callback of @reader, a new
 * json_reader.
 *
 * Read as Kubernetes' tools do (sigs.k8s.io/yaml), that is by YAML 1.1: yes, on, n are booleans,
 * 017 and 0b11 numbers, and a merge key (<<) replaces keys that stand before it. But 1:30 is text.
 * Anchors and aliases are expanded up to a limit; deep nesting and alias bombs are errors. Errors
 * give line and column.
 */
int yaml_read(struct value_reader *reader, yaml_input_fn input, void *ctx, struct error *err);

/** Parses the first document of @text into a tree that the caller deletes; what follows it is not
 * read. NULL on error. With @lenient, duplicate keys are allowed and all kept, in order. */
cJSON *yaml_parse(const char *text, size_t length, bool lenient, struct error *err);

/** Writes @tree in block style, members in order; yaml_parse() reads it back unchanged. -1 for
 * strings that are not UTF-8, and for write errors. */
int yaml_write(FILE *out, const cJSON *tree, struct error *err);

#endif
