/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "list_reader.h"

#include "kube-nftd/model/decode.h"
#include "kube-nftd/source/collection.h"
#include "watch_reader.h"

#include <stdlib.h>
#include <string.h>

/* One item or one page's metadata; etcd takes no object of more than about 1.5 MB. */
#define VALUE_LIMIT ((size_t)16 * 1024 * 1024)
/* A token holds a version and a key, and goes into a URL. */
#define TOKEN_LIMIT ((size_t)8 * 1024)

/* Of 500 objects each, five times as many as a list may have. */
#define EMPTY_PAGES_LIMIT 10000

static int check_kind(const struct list_reader *reader, const struct json_value *json,
                      struct error *err)
{
    const char *expected = collection_resource(reader->kind)->api_version;
    const char *kind = json_string(json_member(json, "kind"));
    const char *version = json_string(json_member(json, "apiVersion"));
    if (kind && object_kind_of_list(kind) == (int)reader->kind &&
        (!version || strcmp(version, expected) == 0))
        return 0;
    return error_set(err, "the response is not a list of %s objects",
                     object_kind_name(reader->kind));
}

/* Where the kind stands before the items, none of a list of another kind needs to be looked at. */
static int check_early(const struct list_reader *reader, struct error *err)
{
    const struct json_value *json = body_reader_envelope(&reader->body);
    return json_member(json, "kind") ? check_kind(reader, json, err) : 0;
}

static int take_item(struct list_reader *reader, const struct json_value *json, struct error *err)
{
    struct object object;
    struct error why = {0};
    if (!reader->has_item && check_early(reader, err) < 0)
        return -1;
    reader->has_item = true;
    if (++reader->count > reader->limit)
        return error_set(err, "more than %zu objects", reader->limit);
    if (watch_object_decode(json, reader->kind, &object, &why) < 0)
        bad_objects_add(reader->bad, &object, &why);
    if (object.id)
        vec_push(&reader->objects, object);
    else
        object_clear(&object);
    return 0;
}

/* The items came before, if they were an array: anything else in their place would look like an
 * empty list, and of two arrays only the last one would count. */
static int check_once(const struct json_value *json, struct error *err)
{
    const struct json_value *items = json_member(json, "items");
    if (items && !json_is(items, JSON_ARRAY))
        return error_set(err, "the list's items are not an array");
    if (json_is_doubled(json, "items"))
        return error_set(err, "the list has items twice");
    if (json_is_doubled(json, "metadata"))
        return error_set(err, "the list has metadata twice");
    return 0;
}

/* Puts a copy of metadata's @key into @out, NULL if it is absent or empty. -1 if it is no string
 * or too long. */
static int metadata_string(const struct json_value *json, const char *key, size_t limit, char **out,
                           struct error *err)
{
    const struct json_value *metadata = json_member(json, "metadata");
    const struct json_value *value = json_member(metadata, key);
    const char *text = json_string(value);
    if (value && !text)
        return error_set(err, "the list's %s is not a string", key);
    if (text && strlen(text) > limit)
        return error_set(err, "the list's %s has %zu bytes", key, strlen(text));
    free(*out);
    *out = text && *text ? xstrdup(text) : NULL;
    return 0;
}

/* Each page must lead on, or the list would never end. */
static int take_token(struct list_reader *reader, const struct json_value *json, struct error *err)
{
    char *before = reader->token;
    reader->token = NULL;
    int rc = metadata_string(json, "continue", TOKEN_LIMIT, &reader->token, err);
    reader->empty_pages += !reader->has_item; /* of some, the selector may have taken all items */
    if (rc == 0 && reader->token && before && strcmp(reader->token, before) == 0)
        rc = error_set(err, "a page leads to itself");
    else if (rc == 0 && reader->empty_pages > EMPTY_PAGES_LIMIT)
        rc = error_set(err, "more than %d empty pages", EMPTY_PAGES_LIMIT);
    free(before);
    return rc;
}

static int take_envelope(struct list_reader *reader, const struct json_value *json,
                         struct error *err)
{
    if (check_kind(reader, json, err) < 0)
        return -1;
    if (reader->has_envelope)
        return error_set(err, "the response continues after the list");
    reader->has_envelope = true;
    if (check_once(json, err) < 0 || take_token(reader, json, err) < 0)
        return -1;
    if (!reader->version &&
        metadata_string(json, "resourceVersion", RESOURCE_VERSION_LIMIT, &reader->version, err) < 0)
        return -1;
    if (!reader->version)
        return error_set(err, "the list has no resourceVersion");
    return 0;
}

static bool on_value(void *ctx, const struct json_value *json, bool is_item)
{
    struct list_reader *reader = ctx;
    return (is_item ? take_item(reader, json, &reader->broken)
                    : take_envelope(reader, json, &reader->broken)) == 0;
}

void list_reader_reset(struct list_reader *reader)
{
    object_vec_clear(&reader->objects);
    error_clear(&reader->broken);
    body_reader_clear(&reader->body);
    free(reader->version);
    free(reader->token);
    *reader =
        (struct list_reader){.kind = reader->kind, .limit = reader->limit, .bad = reader->bad};
}

void list_reader_begin_page(struct list_reader *reader, enum encoding encoding)
{
    error_clear(&reader->broken);
    body_reader_begin(&reader->body, encoding, false, VALUE_LIMIT, on_value, reader);
    reader->has_envelope = reader->has_item = false;
}

/* What the callback said, if it stopped the reader, says more. */
static int failed(const struct list_reader *reader, struct error *err)
{
    return reader->broken.text ? error_set(err, "%s", reader->broken.text) : -1;
}

int list_reader_feed(struct list_reader *reader, const char *bytes, size_t length,
                     struct error *err)
{
    return body_reader_feed(&reader->body, bytes, length, err) ? failed(reader, err) : 0;
}

int list_reader_end_page(struct list_reader *reader, struct error *err)
{
    if (body_reader_finish(&reader->body, err) < 0)
        return failed(reader, err);
    if (!reader->has_envelope)
        return error_set(err, "the response is empty");
    return 0;
}
