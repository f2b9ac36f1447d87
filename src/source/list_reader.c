/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/list_reader.h"

#include "kube-nftd/base/log.h"
#include "kube-nftd/model/decode.h"
#include "kube-nftd/source/json_cutter.h"
#include "kube-nftd/source/watch_event.h"

#include <string.h>

/* One item or one page's metadata; etcd takes no object of more than about 1.5 MB. */
#define VALUE_LIMIT ((size_t)16 * 1024 * 1024)

static void take_item(struct list_reader *reader, const cJSON *json)
{
    struct object object;
    struct error err = {0};
    if (watch_object_decode(json, reader->kind, &object, &err) < 0) {
        log_warn("reflector", "bad object: %s", err.text);
        error_clear(&err);
        reader->bad_objects++;
    }
    if (object.id)
        vec_push(&reader->objects, object);
    else
        object_clear(&object);
}

/* A copy of metadata's @key, NULL if it is absent or empty. */
static char *metadata_string(const cJSON *json, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(json, "metadata");
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
    return text && *text ? xstrdup(text) : NULL;
}

static int take_envelope(struct list_reader *reader, const cJSON *json, struct error *err)
{
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "kind"));
    if (!kind || object_kind_of_list(kind) != (int)reader->kind)
        return error_set(err, "the answer is no list of %s objects",
                         object_kind_name(reader->kind));
    if (reader->has_envelope)
        return error_set(err, "the answer goes on behind the list");
    reader->has_envelope = true;
    free(reader->token);
    reader->token = metadata_string(json, "continue");
    if (!reader->version)
        reader->version = metadata_string(json, "resourceVersion");
    if (!reader->version)
        return error_set(err, "the list has no resourceVersion");
    return 0;
}

static bool on_value(void *ctx, const char *text, size_t length, bool is_item)
{
    struct list_reader *reader = ctx;
    cJSON *json = cJSON_ParseWithLength(text, length);
    int rc = 0;
    if (!json)
        rc = error_set(&reader->broken, "the list is not JSON");
    else if (is_item)
        take_item(reader, json);
    else
        rc = take_envelope(reader, json, &reader->broken);
    cJSON_Delete(json);
    return rc == 0;
}

void list_reader_reset(struct list_reader *reader)
{
    object_vec_clear(&reader->objects);
    error_clear(&reader->broken);
    json_cutter_free(reader->cutter);
    free(reader->version);
    free(reader->token);
    *reader = (struct list_reader){.kind = reader->kind, .bad_objects = reader->bad_objects};
}

void list_reader_begin_page(struct list_reader *reader)
{
    error_clear(&reader->broken);
    json_cutter_free(reader->cutter);
    reader->cutter = json_cutter_new(VALUE_LIMIT, on_value, reader);
    reader->has_envelope = false;
}

int list_reader_feed(struct list_reader *reader, const char *bytes, size_t length,
                     struct error *err)
{
    if (json_cutter_feed(reader->cutter, bytes, length, err) == 0)
        return 0;
    if (reader->broken.text)
        error_set(err, "%s", reader->broken.text);
    return -1;
}

int list_reader_end_page(struct list_reader *reader, struct error *err)
{
    if (json_cutter_finish(reader->cutter, err) < 0)
        return -1;
    if (!reader->has_envelope)
        return error_set(err, "the answer is empty");
    return 0;
}
