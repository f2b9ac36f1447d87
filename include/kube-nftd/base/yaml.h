/* SPDX-License-Identifier: GPL-2.0-or-later */
/* YAML (by libyaml) as JSON, so that everything behind it knows one form only. */
#ifndef KUBE_NFTD_BASE_YAML_H
#define KUBE_NFTD_BASE_YAML_H

#include "kube-nftd/base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

/* Puts up to @size bytes of the text into @buffer and their number into @n, 0 at its end. Returns
 * -1 if it cannot be read; reading fails then with the error that the callback has kept. */
typedef int (*yaml_input_fn)(void *ctx, char *buffer, size_t size, size_t *n);

/* Takes the next @length bytes of JSON. Returns -1 to stop, likewise. */
typedef int (*yaml_output_fn)(void *ctx, const char *json, size_t length);

/**
 * Writes all documents of the text that @input gives (JSON is fine too) as one JSON value behind
 * another, each in the lines where it is in the text, so that a reader of JSON (json_reader.h) can
 * say where something is. @output is called behind each document, and behind each element of the
 * "items" of one that is a mapping, so that a long List is never held whole.
 *
 * Plain scalars get the types of YAML's JSON schema as Kubernetes tools write them (null,
 * true/false, numbers; yes/no/on/off are strings). Anchors and aliases are resolved up to a bound;
 * deep nesting and alias bombs are errors. The error says line and column. @ctx is given to both
 * callbacks.
 */
int yaml_to_json(yaml_input_fn input, yaml_output_fn output, void *ctx, struct error *err);

/** Reads @text, which must be one document, as a tree that the caller deletes. NULL on error. */
cJSON *yaml_parse(const char *text, size_t length, struct error *err);

/** The same, but keys that a mapping has twice are no error: the tree has both, in their order. */
cJSON *yaml_parse_lenient(const char *text, size_t length, struct error *err);

#endif
