/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each endpoint has a name to be found, so what is looked at on the way is kept close together: an
 * entry of a short name is in one line of the processor's cache. */
#include "kube-nftd/base.h"

#include <stdlib.h>

struct interned {
    struct hash_link link; /* by text */
    size_t count;
    char text[];
};

static struct hash_table pool;

static struct interned *entry_of(const char *s)
{
    union {
        const char *in;
        char *out;
    } text = {s}; /* the text is const to those who hold it; its count is ours */
    return (struct interned *)(void *)(text.out - offsetof(struct interned, text));
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct interned *)link)->text);
}

const char *intern(const char *s)
{
    if (!s)
        return NULL;
    struct hash_key key = hash_key_of_text(s);
    struct interned *entry = hash_table_find(&pool, key_of, key);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry) + key.length + 1);
        memcpy(entry->text, s, key.length);
        hash_table_add(&pool, key_of, &entry->link);
    }
    entry->count++;
    return entry->text;
}

void intern_release(const char *s)
{
    if (!s)
        return;
    struct interned *entry = entry_of(s);
    if (--entry->count > 0)
        return;
    hash_table_remove(&pool, &entry->link);
    free(entry);
}
