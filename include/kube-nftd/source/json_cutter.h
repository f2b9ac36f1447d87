/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cuts a stream of JSON into values as the bytes arrive, however they are cut, so that a long
 * list or an endless watch is decoded object by object and never held whole.
 *
 * Every top-level value is given out when it is complete. Of a top-level object with an "items"
 * array, each element is given out as it ends, and the object itself, with "items" empty, at its
 * end: the envelope of a list, with its metadata.
 */
#ifndef KUBE_NFTD_SOURCE_JSON_CUTTER_H
#define KUBE_NFTD_SOURCE_JSON_CUTTER_H

#include "kube-nftd/base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct json_cutter;

/* How many JSON values a value may hold, itself included, if nothing else is said. A parser makes
 * some 100 bytes of each, of which the text may have had two. An EndpointSlice of 1,000 endpoints
 * has some 20,000. */
#define JSON_CUTTER_VALUES ((size_t)1000000)

/* Takes the text of one value (NUL-terminated, borrowed). Returns false to stop: feed fails then
 * with the error that the callback has kept for itself. */
typedef bool (*json_value_fn)(void *ctx, const char *text, size_t length, bool is_item);

/** A cutter that gives values to @fn and refuses one longer than @limit bytes, of more than
 * JSON_CUTTER_VALUES values, or nested more than 128 deep. */
struct json_cutter *json_cutter_new(size_t limit, json_value_fn fn, void *ctx);

/** Before the first byte: another limit of JSON values in a value. An array or object that is empty
 * may count as two. */
void json_cutter_limit_values(struct json_cutter *cutter, size_t limit);

void json_cutter_free(struct json_cutter *cutter);

/**
 * Takes the next @length bytes. -1: not JSON's structure, a value over the limit, or stopped by
 * the callback; the cutter takes nothing more then.
 */
int json_cutter_feed(struct json_cutter *cutter, const char *bytes, size_t length,
                     struct error *err);

/** In the callback: the line (from 1) of the whole stream where the value begins. */
size_t json_cutter_line(const struct json_cutter *cutter);

/**
 * In the callback for an item: what was read of its list so far, made whole with an empty "items"
 * at the end. The caller frees it. NULL if the value is no item.
 */
char *json_cutter_envelope(const struct json_cutter *cutter);

/** Says that no more bytes come. -1 if they end inside a value. */
int json_cutter_finish(struct json_cutter *cutter, struct error *err);

#endif
