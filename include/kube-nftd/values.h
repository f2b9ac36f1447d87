/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * JSON, YAML and protobuf, read into one tree of values and written. A tree is read in place: it
 * lives until its reader takes the next object. Errors name the place in the bytes.
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
 * A value and all that is in it stand side by side in one array: what is in it comes right behind
 * it, so that the next value beside it is at + size. Nothing is allocated for a value. Values and
 * their texts are borrowed, and gone when the reader's callback returns.
 */

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

static inline bool json_is_bool(const struct json_value *value)
{
    return json_is(value, JSON_TRUE) || json_is(value, JSON_FALSE);
}

/** Whether there is no value, or null, which means the same everywhere in the Kubernetes API. */
static inline bool json_is_absent(const struct json_value *value)
{
    return !value || value->type == JSON_NULL;
}

/** Whether nothing is in an array or object; true for all others. */
static inline bool json_is_empty(const struct json_value *value)
{
    return !value || value->size == 1;
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

/* ---- JSON ---- */

/*
 * Reads a stream of JSON as the bytes arrive, however they are cut, so that a long list or an
 * endless watch is decoded object by object and never held whole.
 *
 * Every top-level value is given out when it is complete. Of a top-level object with an "items"
 * array, each element is given out as it ends, and the object itself, with "items" empty, at its
 * end: the envelope of a list, with its metadata. A second "items" is one of its members.
 */

struct json_reader;

/* How many values a value may hold, itself included, if nothing else is said. Each takes 24 bytes
 * beside its text, of which it may have two. An EndpointSlice of 1,000 endpoints has some 20,000.
 */
#define JSON_READER_VALUES ((size_t)1000000)

/* Takes a value, which is borrowed. Returns false to stop: feed fails then with the error that
 * the callback has kept for itself. */
typedef bool (*json_value_fn)(void *ctx, const struct json_value *value, bool is_item);

/** A reader that gives values to @fn and refuses one longer than @limit bytes, of more than
 * JSON_READER_VALUES values, or nested more than 128 deep. No limit can be above 4 GiB. */
struct json_reader *json_reader_new(size_t limit, json_value_fn fn, void *ctx);

/** Before the first byte: another limit of values in a value. */
void json_reader_limit_values(struct json_reader *reader, size_t limit);

void json_reader_free(struct json_reader *reader);

/** Takes the next @length bytes. -1 if they are not JSON, if a value is over the limit, or if the
 * callback stopped; the reader takes nothing more then. */
int json_reader_feed(struct json_reader *reader, const char *bytes, size_t length,
                     struct error *err);

/** Says that no more bytes come. That ends a number or a word, which is given out then. -1 if they
 * end inside a value, or as json_reader_feed(). */
int json_reader_finish(struct json_reader *reader, struct error *err);

/** In the callback: the line (from 1) of the whole stream where the value begins. */
size_t json_reader_line(const struct json_reader *reader);

/** In the callback for an item: what was read of its list so far, with "items" empty. NULL if the
 * value is no item. */
const struct json_value *json_reader_envelope(const struct json_reader *reader);

/* ---- protobuf ---- */

/*
 * Reads a stream of Kubernetes' protobuf and makes the same values of it, so that there is one
 * decoder for both. Tables say which fields there are and what JSON calls them; all others are
 * skipped by their length. Of an object, the bytes are gathered until it is whole; nothing larger
 * is.
 *
 * What an object says that is no protobuf costs that object alone: it ends with a value of
 * JSON_BROKEN, and the next one begins where it should. What is around objects must be right.
 */

/* What the value of a field becomes. */
enum proto_type {
    PROTO_UNUSED, /* nothing */
    /* A number on the wire. */
    PROTO_NUMBER,
    PROTO_BOOL,
    PROTO_SECONDS, /* a time */
    /* Bytes. */
    PROTO_STRING,
    PROTO_KEY,      /* that of the value that the field is in */
    PROTO_OBJECT,   /* the fields of its message */
    PROTO_TIME,     /* the same, of which one is PROTO_SECONDS; null without it */
    PROTO_MAP,      /* the same for each entry: PROTO_KEY and PROTO_STRING */
    PROTO_ITEMS,    /* objects, given out one by one where their list streams */
    PROTO_ENVELOPE, /* as PROTO_OBJECT, behind "k8s\0" */
    PROTO_BODY,     /* the fields of a message that the value's "kind" tells */
    PROTO_EMPTY,    /* nothing; must be empty */
};

struct proto_message;

struct proto_field {
    const char *key; /* in JSON; NULL: it says more of the value that the field is in */
    const struct proto_message *message;
    uint8_t type; /* of enum proto_type */
    uint8_t key_length;
    bool list;         /* the field is repeated: an array of such values, an object of a map's */
    bool has_presence; /* 0 and "" are values; else they say that JSON leaves the field out */
};

/* No field that is used has a larger number. */
#define PROTO_FIELD_MOST 31

/* Its fields never lead back to it: that limits the depth of what is read. */
struct proto_message {
    const struct proto_field *fields; /* by number */
    size_t n;                         /* of those that there are in @fields, up to 32 */
};

/* What is read. */
struct proto_format {
    bool frames; /* messages with their lengths in four bytes, else just one, behind "k8s\0" */
    const struct proto_message *root;                      /* the envelope, or each of the frames */
    const struct proto_message *(*body)(const char *kind); /* NULL: such an object is skipped */
};

struct proto_reader;

/** As json_reader_new(), with the same limits. @format must outlive the reader. */
struct proto_reader *proto_reader_new(const struct proto_format *format, size_t limit,
                                      json_value_fn fn, void *ctx);

/** As those for JSON. */
void proto_reader_free(struct proto_reader *reader);
int proto_reader_feed(struct proto_reader *reader, const char *bytes, size_t length,
                      struct error *err);
int proto_reader_finish(struct proto_reader *reader, struct error *err);
const struct json_value *proto_reader_envelope(const struct proto_reader *reader);

/* ---- YAML, by libyaml ---- */

/* Puts up to @size bytes of the text into @buffer and their number into @n, 0 at its end. Returns
 * -1 if it cannot be read; reading fails then with the error that the callback has kept. */
typedef int (*yaml_input_fn)(void *ctx, char *buffer, size_t size, size_t *n);

/* Takes the next @length bytes of JSON. Returns -1 to stop, likewise. */
typedef int (*yaml_output_fn)(void *ctx, const char *json, size_t length);

/**
 * Writes all documents of the text that @input gives (JSON is fine too) as one JSON value behind
 * another, each in the lines where it is in the text, for a json_reader. @output is called behind
 * each document, and behind each element of the "items" of one that is a mapping, so that a long
 * List is never held whole.
 *
 * Plain scalars get the types of YAML's JSON schema as Kubernetes tools write them (null,
 * true/false, numbers; yes/no/on/off are strings). Anchors and aliases are resolved up to a bound;
 * deep nesting and alias bombs are errors. The error says line and column. @ctx is given to both
 * callbacks.
 */
int yaml_to_json(yaml_input_fn input, yaml_output_fn output, void *ctx, struct error *err);

/** Reads @text, which must be one document, as a tree that the caller deletes. NULL on error. If
 * @lenient, a mapping may have a key twice: the tree has both, in their order. */
cJSON *yaml_parse(const char *text, size_t length, bool lenient, struct error *err);

/** Writes @tree in block style, members in their order; yaml_parse() reads the same tree again.
 * Returns -1 for a text that is not UTF-8, and for what @out does not take. */
int yaml_write(FILE *out, const cJSON *tree, struct error *err);

#endif
