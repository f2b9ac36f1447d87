/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kubernetes' protobuf from JSON, as kube-apiserver writes it: what Go holds in no pointer is
 * always there, empty strings and zeros too. Which fields there are is what the stand-in API server
 * has (tests/apiserver/protobuf.py), which knows far more of them than the daemon reads.
 */
#ifndef KUBE_NFTD_TESTS_PROTO_WRITER_H
#define KUBE_NFTD_TESTS_PROTO_WRITER_H

#include "kube-nftd/base.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <endian.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef VEC(char) bytes;

struct written_field {
    char *message, *key, *type;
    uint32_t number;
    bool many, pointer;
};

typedef VEC(struct written_field) written_field_vec;
extern written_field_vec written_fields;

/* Not an assertion of Check: benchmarks use this too. */
#define must(holds, what)                                                                          \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            fprintf(stderr, "proto_writer: %s\n", what);                                           \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

void put(bytes *out, const void *data, size_t n);

void put_number(bytes *out, uint32_t number, uint64_t value);

void put_data(bytes *out, uint32_t number, const void *data, size_t n);

void put_text(bytes *out, uint32_t number, const char *text);

void put_bytes(bytes *out, uint32_t number, bytes *data);

/* ---- which fields there are ---- */

/* A part of a recording, as tests/recordings/README.md says, for the caller to free. */
char *read_recorded(const char *name, const char *part, size_t *size);

void read_written_fields(void);

/* ---- values ---- */

/* Each puts a value, and returns whether it is what the field is for, and could be in JSON that a
 * server writes. */

/* JSON has it even if it is zero: an object that no pointer holds in Go, or what is not to be left
 * out. */
bool is_always_there(const struct written_field *field);

bool is_zero(const cJSON *json);

/* ---- what is around objects ---- */

const char *text_of(const cJSON *json, const char *key);

/* The envelope of a message, whose bytes it takes. */
void put_envelope(bytes *out, const char *api_version, const char *kind, bytes *raw);

/* An object or a list of them, which says its kind. */
bool put_body(bytes *out, const cJSON *json);

/* A frame of a watch around a body, whose bytes it takes. */
void put_frame(bytes *out, const char *type, bytes *body);

#endif
