/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the body of an answer in its encoding: the same values come of both (kube-nftd/values.h).
 */
#ifndef KUBE_NFTD_SOURCE_BODY_READER_H
#define KUBE_NFTD_SOURCE_BODY_READER_H

#include "kube-nftd/source.h"
#include "kube-nftd/values.h"

#include <stdbool.h>

struct proto_reader;

/* Starts zeroed; of the two, the one that is there reads. */
struct body_reader {
    struct json_reader *json;
    struct proto_reader *proto;
};

/** Gets ready for another body: a list or, if @is_watch, events. Values of more than @limit bytes
 * are refused; the others are given to @fn. */
void body_reader_begin(struct body_reader *reader, enum encoding encoding, bool is_watch,
                       size_t limit, json_value_fn fn, void *ctx);

/** As those of json_reader.h, for a body that was begun. */
int body_reader_feed(struct body_reader *reader, const char *bytes, size_t length,
                     struct error *err);
int body_reader_finish(struct body_reader *reader, struct error *err);
const struct json_value *body_reader_envelope(const struct body_reader *reader);

/** Frees what it holds. */
void body_reader_clear(struct body_reader *reader);

#endif
