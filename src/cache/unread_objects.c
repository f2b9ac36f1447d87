/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/unread_objects.h"

#include "kube-nftd/base/hash.h"

#include <string.h>

struct unread_object {
    UT_hash_handle hh;
    char id[];
};

struct unread_objects {
    struct unread_object *kinds[KIND_COUNT]; /* each by id */
};

struct unread_objects *unread_objects_new(void)
{
    return xcalloc(1, sizeof(struct unread_objects));
}

static struct unread_object *find(const struct unread_objects *unread, enum object_kind kind,
                                  const char *id)
{
    struct unread_object *object;
    HASH_FIND_STR(unread->kinds[kind], id, object);
    return object;
}

void unread_objects_note(struct unread_objects *unread, enum object_kind kind, const char *id)
{
    if (find(unread, kind, id) || HASH_COUNT(unread->kinds[kind]) >= UNREAD_OBJECTS_MAX)
        return;
    size_t size = strlen(id) + 1;
    struct unread_object *object = xcalloc(1, sizeof(*object) + size);
    memcpy(object->id, id, size);
    HASH_ADD_KEYPTR(hh, unread->kinds[kind], object->id, size - 1, object);
}

void unread_objects_forget(struct unread_objects *unread, enum object_kind kind, const char *id)
{
    struct unread_object *object = find(unread, kind, id);
    if (!object)
        return;
    HASH_DELETE(hh, unread->kinds[kind], object);
    free(object);
}

void unread_objects_forget_all(struct unread_objects *unread, enum object_kind kind)
{
    struct unread_object *object, *next;
    HASH_ITER(hh, unread->kinds[kind], object, next)
    {
        HASH_DELETE(hh, unread->kinds[kind], object);
        free(object);
    }
}

bool unread_objects_has(const struct unread_objects *unread, enum object_kind kind, const char *id)
{
    return find(unread, kind, id) != NULL;
}

size_t unread_objects_count(const struct unread_objects *unread, enum object_kind kind)
{
    return HASH_COUNT(unread->kinds[kind]);
}

void unread_objects_free(struct unread_objects *unread)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        unread_objects_forget_all(unread, (enum object_kind)kind);
    free(unread);
}
