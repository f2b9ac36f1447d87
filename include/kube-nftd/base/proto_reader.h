/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads a stream of Kubernetes' protobuf as the bytes come, however they are cut, and makes the
 * same values of it as json_reader.h makes of JSON, so that there is one decoder for both. Tables
 * say which fields there are and what JSON calls them; all others are skipped by their length. Of
 * an object, the bytes are gathered until it is whole; nothing larger is.
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

/** As those of json_reader.h. */
void proto_reader_free(struct proto_reader *reader);
int proto_reader_feed(struct proto_reader *reader, const char *bytes, size_t length,
                      struct error *err);
int proto_reader_finish(struct proto_reader *reader, struct error *err);
const struct json_value *proto_reader_envelope(const struct proto_reader *reader);

#endif
