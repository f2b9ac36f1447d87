/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file is read in blocks. It is never mapped (truncating a mapped file kills the reader) and
 * never kept whole: both parsers deliver object by object, and only decoded objects are kept.
 */
#include "manifest_file.h"

#include "api_protocol.h"
#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/values.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_SIZE ((size_t)64 * 1024)
/* Between two looks at the loop: some 10 milliseconds of JSON. */
#define BLOCKS_BETWEEN 16

/* What became of the last document, if it is a single object. */
enum last_object { LAST_FINE, LAST_BAD, LAST_UNNAMED };

/* A file being read. */
struct reading {
    const char *path;
    int fd;
    char *block;
    size_t length; /* bytes in the block */
    size_t taken;  /* of those passed to a parser */
    struct value_reader *values;
    struct reading_pauses *pauses;

    object_vec *objects;
    size_t others; /* skipped objects */
    struct error *err;

    size_t line;      /* of the current value */
    size_t items;     /* of the current list so far */
    size_t documents; /* other than null */
    enum last_object last;
    size_t last_line; /* where it begins */
    char last_byte;   /* of a YAML file */
};

/* ---- bytes ---- */

/* Refills the block; at the end of the file it is empty. */
static int read_block(struct reading *reading)
{
    ssize_t n;
    if (reading->pauses->loop && ++reading->pauses->blocks % BLOCKS_BETWEEN == 0)
        ev_run(reading->pauses->loop, EVRUN_NOWAIT);
    do
        n = read(reading->fd, reading->block, BLOCK_SIZE);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_set(reading->err, "cannot be read: %s", strerror(errno));
    reading->length = (size_t)n;
    reading->taken = 0;
    return 0;
}

/* ---- objects ---- */

/* Applies kube-proxy's selectors, as the API server would (docs/behaviour.md 1.1). */
static bool is_selected(const struct json_value *json, enum object_kind kind)
{
    const char *label = collection_excluding_label(kind);
    const struct json_value *labels = json_member(json_member(json, "metadata"), "labels");
    return !label || !json_find(labels, label);
}

static enum last_object take_object(struct reading *reading, const struct json_value *json,
                                    int expected)
{
    struct object object = {0};
    struct error err = {0};
    enum decode_result result = object_decode(json, expected, &object, &err);
    bool ours = result != DECODE_OTHER && is_selected(json, object.kind);
    bool named = object.id != NULL;
    if (ours && result == DECODE_BAD)
        log_warn("source", "%s: %s", reading->path, err.text);
    if (ours && named)
        vec_push(reading->objects, object);
    else
        object_clear(&object);
    reading->others += !ours;
    error_clear(&err);
    if (ours && !named)
        return LAST_UNNAMED;
    bool nameless = !json_member(json_member(json, "metadata"), "name");
    return (ours && result == DECODE_BAD) || nameless ? LAST_BAD : LAST_FINE;
}

static int looks_cut(struct reading *reading, const char *what)
{
    return error_set(reading->err, "%s: the file looks cut off", what);
}

/* Every object and list has a kind and an apiVersion. kubectl sorts keys, so a list's kind follows
 * its items. */
static int check_type(struct reading *reading, const struct json_value *json)
{
    if (!json_is(json, JSON_OBJECT))
        return error_set(reading->err, "not an object");
    if (!json_is(json_member(json, "kind"), JSON_STRING))
        return looks_cut(reading, "no kind");
    if (!json_is(json_member(json, "apiVersion"), JSON_STRING))
        return looks_cut(reading, "no apiVersion");
    return 0;
}

/* A single object: a document, or an element of an array. */
static int take_single(struct reading *reading, const struct json_value *json)
{
    if (json_is(json, JSON_NULL)) /* an empty document */
        return 0;
    if (check_type(reading, json))
        return -1;
    reading->last = take_object(reading, json, -1);
    reading->last_line = reading->line;
    return 0;
}

/* An item without a kind has the kind of its list. */
static int take_item(struct reading *reading, const struct json_value *json,
                     const struct json_value *list)
{
    size_t n = ++reading->items;
    int expected = -1;
    if (!json_is(json, JSON_OBJECT))
        return error_set(reading->err, "item %zu is not an object", n);
    if (json_member(json, "kind")) {
        if (check_type(reading, json))
            return -1;
    } else {
        const char *kind = json_string(json_member(list, "kind"));
        if (!kind)
            return error_set(reading->err, "item %zu has no kind, and its list has none before it",
                             n);
        if (strcmp(kind, "List") == 0)
            return error_set(reading->err, "item %zu of the List has no kind", n);
        expected = object_kind_of_list(kind);
    }
    take_object(reading, json, expected);
    return 0;
}

static bool is_list_kind(const struct json_value *kind)
{
    static const char ending[] = "List";
    const char *text = json_string(kind);
    size_t length = text ? strlen(text) : 0;
    return length >= strlen(ending) && strcmp(text + length - strlen(ending), ending) == 0;
}

/* A document: an object, an array of objects, or the envelope of a list after its items. */
static int take_document(struct reading *reading, const struct json_value *json)
{
    const struct json_value *items = json_member(json, "items");
    bool is_list = is_list_kind(json_member(json, "kind"));
    /* These would look like an empty list, or lose some items. */
    if (json_is_doubled(json, "items"))
        return error_set(reading->err, "the list has items twice");
    if (items && !json_is(items, JSON_ARRAY) && is_list)
        return error_set(reading->err, "the list's items are not an array");
    reading->documents += !json_is(json, JSON_NULL);
    reading->last = LAST_FINE;
    if (json_is(items, JSON_ARRAY)) {
        reading->items = 0;
        if (check_type(reading, json))
            return -1;
        return is_list ? 0 : looks_cut(reading, "items, but its kind is not a list");
    }
    if (!json_is(json, JSON_ARRAY))
        return take_single(reading, json);
    json_each (json, element) {
        if (take_single(reading, element))
            return -1;
    }
    return 0;
}

/* ---- the text ---- */

static int take_value(void *ctx, const struct json_value *json, const struct json_value *list,
                      struct error *err)
{
    struct reading *reading = ctx;
    reading->line = value_reader_line(reading->values);
    int result = list ? take_item(reading, json, list) : take_document(reading, json);
    return result ? error_prefix(err, "line %zu", reading->line) : 0;
}

static int read_json(struct reading *reading)
{
    while (reading->length > 0) {
        if (value_reader_feed(reading->values, reading->block + reading->taken,
                              reading->length - reading->taken, reading->err) ||
            read_block(reading))
            return -1;
    }
    return value_reader_finish(reading->values, reading->err);
}

static int yaml_input(void *ctx, char *buffer, size_t size, size_t *n)
{
    struct reading *reading = ctx;
    if (reading->taken == reading->length && read_block(reading))
        return -1;
    size_t left = reading->length - reading->taken;
    *n = left < size ? left : size;
    memcpy(buffer, reading->block + reading->taken, *n);
    reading->taken += *n;
    if (*n > 0)
        reading->last_byte = buffer[*n - 1];
    return 0;
}

static int read_yaml(struct reading *reading)
{
    if (yaml_read(reading->values, yaml_input, reading, reading->err))
        return -1;
    if (reading->documents == 0)
        return error_set(reading->err, "the file is empty");
    if (reading->last == LAST_UNNAMED)
        looks_cut(reading, "the last object has no name");
    else if (reading->last == LAST_BAD && reading->last_byte != '\n')
        looks_cut(reading, "the last object is incomplete, and its last line does not end");
    else
        return 0;
    return error_prefix(reading->err, "line %zu", reading->last_line);
}

/* ---- the file ---- */

/* Recognises JSON by its first byte, and skips a byte order mark. So JSON always has a value. */
static bool looks_like_json(struct reading *reading)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t skip = 0;
    if (reading->length >= strlen(mark) && memcmp(reading->block, mark, strlen(mark)) == 0)
        skip = strlen(mark);
    size_t at = skip;
    while (at < reading->length && strchr(" \t\r\n", reading->block[at]) && reading->block[at])
        at++;
    if (at == reading->length || (reading->block[at] != '{' && reading->block[at] != '['))
        return false;
    reading->taken = skip;
    return true;
}

static int read_objects(struct reading *reading)
{
    if (read_block(reading))
        return -1;
    /* one array may hold all objects */
    reading->values = json_reader_new(SIZE_MAX, take_value, reading);
    int result = looks_like_json(reading) ? read_json(reading) : read_yaml(reading);
    value_reader_free(reading->values);
    if (result == 0 && reading->others > 0)
        log_debug(2, "source", "%s: skipped objects of other kinds or for other proxies count=%zu",
                  reading->path, reading->others);
    return result;
}

static int read_open_file(struct reading *reading, struct stat *status)
{
    if (reading->fd < 0 || fstat(reading->fd, status)) {
        error_set(reading->err, "cannot be opened: %s", strerror(errno));
        stat(reading->path, status);
        return -1;
    }
    if (!S_ISREG(status->st_mode))
        return error_set(reading->err, "is not a regular file");
    reading->block = xreallocarray(NULL, BLOCK_SIZE, 1);
    int result = read_objects(reading);
    free(reading->block);
    return result;
}

enum manifest_result manifest_file_read(const char *path, struct reading_pauses *pauses,
                                        object_vec *objects, struct stat *status, struct error *err)
{
    /* O_NONBLOCK: do not wait for the writer of a fifo. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return MANIFEST_GONE;
    struct reading reading = {
        .path = path, .fd = fd, .pauses = pauses, .objects = objects, .err = err};
    int result = read_open_file(&reading, status);
    if (fd >= 0)
        close(fd);
    if (result == 0)
        return MANIFEST_OK;
    object_vec_clear(objects);
    return MANIFEST_BAD;
}
