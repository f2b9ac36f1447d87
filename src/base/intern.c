/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/intern.h"

#include "kube-nftd/base/hash.h"

#include <stddef.h>
#include <string.h>

struct interned {
    UT_hash_handle hh;
    size_t count;
    char text[];
};

static struct interned *pool;

static struct interned *entry_of(const char *s)
{
    union {
        const char *in;
        char *out;
    } text = {s}; /* the text is const to those who hold it; its count is ours */
    return (struct interned *)(void *)(text.out - offsetof(struct interned, text));
}

const char *intern(const char *s)
{
    if (!s)
        return NULL;
    size_t length = strlen(s);
    struct interned *entry;
    HASH_FIND(hh, pool, s, length, entry);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry) + length + 1);
        memcpy(entry->text, s, length);
        HASH_ADD_KEYPTR(hh, pool, entry->text, length, entry);
    }
    entry->count++;
    return entry->text;
}

const char *intern_ref(const char *s)
{
    if (s)
        entry_of(s)->count++;
    return s;
}

void intern_release(const char *s)
{
    if (!s)
        return;
    struct interned *entry = entry_of(s);
    if (--entry->count > 0)
        return;
    HASH_DELETE(hh, pool, entry);
    free(entry);
}
