/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads a stream of Kubernetes' protobuf as the bytes come, however they are cut, and makes the
 * same values of it as json_reader.h makes of JSON, so that there is one decoder for both. Tables
 * say which fields there are and what JSON calls them; all others are skipped by their length, and
 * no byte of them is kept.
 *
 * What an object says that is no protobuf costs that object alone: it ends with a value of
 * JSON_BROKEN, and the next one begins where it should. What is around objects must be right.
 */
#ifndef KUBE_NFTD_BASE_PROTO_READER_H
#define KUBE_NFTD_BASE_PROTO_READER_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/json.h"
#include "kube-nftd/base/json_reader.h"

/* What the value of a field becomes. */
enum proto_type {
    PROTO_UNUSED, /* nothing */
    PROTO_STRING,
    PROTO_NUMBER,
    PROTO_BOOL,
    PROTO_OBJECT,    /* of the field's message */
    PROTO_TIME,      /* seconds and nanoseconds: a string as RFC 3339 has it, or null */
    PROTO_MAP,       /* strings by strings */
    PROTO_ITEMS,     /* objects that are given out one by one */
    PROTO_INLINE,    /* of its message, whose fields are those of the object around */
    PROTO_ENVELOPE,  /* the same behind "k8s\0" */
    PROTO_BODY,      /* the same of a message that "kind" of the object around tells */
    PROTO_EMPTY,     /* nothing; must be empty */
    PROTO_ENTRY_KEY, /* of a PROTO_MAP; not for tables */
    PROTO_ENTRY_STRING,
};

struct proto_message;

struct proto_field {
    const char *key; /* in JSON */
    const struct proto_message *message;
    uint8_t type; /* of enum proto_type */
    uint8_t key_length;
    bool list;         /* the field is repeated: an array of such values */
    bool has_presence; /* 0 and "" are values; else they say that JSON leaves the field out */
};

/* No field that is used has a larger number. */
#define PROTO_FIELD_MOST 31

struct proto_message {
    const struct proto_field *fields; /* by number */
    size_t n;                         /* of those that there are in @fields, up to 32 */
};

/* Where to look. */
struct proto_format {
    bool frames;                    /* messages with their lengths in four bytes, else just one */
    const struct proto_field *root; /* what those are; of one, PROTO_ENVELOPE */
    const struct proto_message *(*body)(const char *kind); /* NULL: such an object is skipped */
};

struct proto_reader;

/** As json_reader_new(), with the same limits. @format must outlive the reader. */
struct proto_reader *proto_reader_new(const struct proto_format *format, size_t limit,
                                      json_value_fn fn, void *ctx);

/** As those of json_reader.h. */
void proto_reader_limit_values(struct proto_reader *reader, size_t limit);
void proto_reader_free(struct proto_reader *reader);
int proto_reader_feed(struct proto_reader *reader, const char *bytes, size_t length,
                      struct error *err);
int proto_reader_finish(struct proto_reader *reader, struct error *err);
const struct json_value *proto_reader_envelope(const struct proto_reader *reader);

#endif
