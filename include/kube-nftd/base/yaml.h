/* SPDX-License-Identifier: GPL-2.0-or-later */
/* YAML (by libyaml) as cJSON trees, so that everything behind it knows one form only. */
#ifndef KUBE_NFTD_BASE_YAML_H
#define KUBE_NFTD_BASE_YAML_H

#include "kube-nftd/base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * One document, or one element of the "items" sequence of a document that is a mapping, so that a
 * long List is never held whole. Such a document itself follows its items, with an empty "items".
 */
struct yaml_value {
    const cJSON *json;
    size_t line; /* where it begins, from 1 */
    bool is_item;
    const cJSON *envelope; /* of an item: what was read of its document so far */
};

/* Takes a value, which is borrowed. Returns false to stop: reading fails then with the error that
 * the callback has kept for itself. */
typedef bool (*yaml_value_fn)(void *ctx, const struct yaml_value *value);

/* Puts up to @size bytes of the text into @buffer and their number into @n, 0 at its end. Returns
 * -1 if it cannot be read; reading fails then with the error that the callback has kept. */
typedef int (*yaml_input_fn)(void *ctx, char *buffer, size_t size, size_t *n);

/**
 * Reads all documents of @text (@length bytes, JSON is fine too). Plain scalars get the types of
 * YAML's JSON schema as Kubernetes tools write them (null, true/false, numbers; yes/no/on/off are
 * strings). Anchors and aliases are resolved up to a bound; deep nesting and alias bombs are
 * errors. The error says line and column.
 */
int yaml_read(const char *text, size_t length, yaml_value_fn fn, void *ctx, struct error *err);

/** The same with a text that @input gives piece by piece; @ctx is given to both callbacks. */
int yaml_read_from(yaml_input_fn input, yaml_value_fn fn, void *ctx, struct error *err);

/** Reads @text, which must be one document, as a tree that the caller deletes. NULL on error. */
cJSON *yaml_parse(const char *text, size_t length, struct error *err);

/** The same, but keys that a mapping has twice are no error: the tree has both, in their order. */
cJSON *yaml_parse_lenient(const char *text, size_t length, struct error *err);

#endif
