/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "contents.h"

int contents_add(struct contents *contents, struct object *object, bool removed, struct error *err)
{
    if (++contents->count > contents->limit)
        return error_set(err, "more than %zu objects", contents->limit);
    if (!object->id) /* a bad one */
        return 0;
    if (removed || contents->changes.n > 0)
        vec_push(&contents->changes, (struct content_change){*object, removed});
    else
        vec_push(&contents->objects, *object);
    *object = (struct object){.kind = object->kind};
    return 0;
}

int contents_receive(struct contents *contents, size_t n, struct error *err)
{
    contents->bytes += n;
    return contents->bytes <= CONTENTS_BYTES
               ? 0
               : error_set(err, "it has more than %zu MiB", CONTENTS_BYTES >> 20);
}

bool contents_are_too_many(const struct contents *contents)
{
    return contents->count > contents->limit || contents->bytes > CONTENTS_BYTES;
}

void contents_pass_on(struct contents *contents, enum object_kind kind,
                      const struct object_sink *sink)
{
    sink->replace(sink->ctx, kind, &contents->objects);
    vec_each (&contents->changes, change) {
        if (change->removed)
            sink->remove(sink->ctx, kind, change->object.id);
        else
            sink->put(sink->ctx, &change->object);
    }
    contents_clear(contents);
}

void contents_clear(struct contents *contents)
{
    object_vec_clear(&contents->objects);
    vec_each (&contents->changes, change)
        object_clear(&change->object);
    vec_free(&contents->changes);
    contents->count = contents->bytes = 0;
}
