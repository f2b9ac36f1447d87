/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads a stream of JSON as the bytes arrive, however they are cut, so that a long list or an
 * endless watch is decoded object by object and never held whole.
 *
 * Every top-level value is given out when it is complete. Of a top-level object with an "items"
 * array, each element is given out as it ends, and the object itself, with "items" empty, at its
 * end: the envelope of a list, with its metadata.
 */
#ifndef KUBE_NFTD_BASE_JSON_READER_H
#define KUBE_NFTD_BASE_JSON_READER_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/json.h"

struct json_reader;

/* How many JSON values a value may hold, itself included, if nothing else is said. Each takes 24
 * bytes beside its text, of which it may have two. An EndpointSlice of 1,000 endpoints has some
 * 20,000. */
#define JSON_READER_VALUES ((size_t)1000000)

/* Takes a value, which is borrowed. Returns false to stop: feed fails then with the error that
 * the callback has kept for itself. */
typedef bool (*json_value_fn)(void *ctx, const struct json_value *value, bool is_item);

/** A reader that gives values to @fn and refuses one longer than @limit bytes, of more than
 * JSON_READER_VALUES values, or nested more than 128 deep. No limit can be above 4 GiB. */
struct json_reader *json_reader_new(size_t limit, json_value_fn fn, void *ctx);

/** Before the first byte: another limit of JSON values in a value. */
void json_reader_limit_values(struct json_reader *reader, size_t limit);

void json_reader_free(struct json_reader *reader);

/**
 * Takes the next @length bytes. -1: no JSON, a value over the limit, or stopped by the callback;
 * the reader takes nothing more then.
 */
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

#endif
