/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "watch_reader.h"

/* etcd takes no object of more than about 1.5 MB. */
#define EVENT_LIMIT ((size_t)16 * 1024 * 1024)

static bool on_event(void *ctx, const struct json_value *json, bool is_item)
{
    struct watch_reader *reader = ctx;
    struct watch_event event;
    int rc = 0;
    if (is_item) {
        error_set(&reader->broken, "a list instead of an event");
        return false;
    }
    if (watch_event_decode(json, reader->kind, &event, &reader->broken) < 0)
        return false;
    reader->refused = event.type == WATCH_ERROR;
    if (reader->refused) {
        reader->status = event.status;
        event.status = (struct api_status){0};
    } else {
        rc = reader->take(reader->ctx, &event, &reader->broken);
    }
    watch_event_clear(&event);
    return rc == 0 && !reader->refused;
}

void watch_reader_begin(struct watch_reader *reader, enum encoding encoding)
{
    watch_reader_clear(reader);
    body_reader_begin(&reader->body, encoding, true, EVENT_LIMIT, on_event, reader);
}

int watch_reader_feed(struct watch_reader *reader, const char *bytes, size_t length,
                      struct error *err)
{
    if (body_reader_feed(&reader->body, bytes, length, err) == 0)
        return 0;
    if (reader->refused)
        error_clear(err);
    else if (reader->broken.text)
        error_set(err, "%s", reader->broken.text);
    return -1;
}

void watch_reader_clear(struct watch_reader *reader)
{
    body_reader_clear(&reader->body);
    api_status_clear(&reader->status);
    reader->refused = false;
    error_clear(&reader->broken);
}
