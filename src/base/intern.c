/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/intern.h"

#include "kube-nftd/base/hash.h"

#include <stddef.h>
#include <stdint.h>
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

/* Each endpoint has a name to be found, so eight bytes are mixed in at once: the last ones, too,
 * which may be among those before. */
static unsigned hash_of(const char *s, size_t length)
{
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = length, word = 0;
    for (size_t at = 0; at + sizeof(word) < length; at += sizeof(word)) {
        memcpy(&word, s + at, sizeof(word));
        hash = (hash ^ word) * factor;
        hash ^= hash >> 29;
    }
    if (length >= sizeof(word))
        memcpy(&word, s + length - sizeof(word), sizeof(word));
    else
        for (word = 0; length > 0; length--)
            word = word << 8 | (unsigned char)*s++;
    hash = (hash ^ word) * factor;
    hash ^= hash >> 32;
    return (unsigned)((hash * factor) >> 32);
}

const char *intern(const char *s)
{
    if (!s)
        return NULL;
    size_t length = strlen(s);
    unsigned hash = hash_of(s, length);
    struct interned *entry;
    HASH_FIND_BYHASHVALUE(hh, pool, s, length, hash, entry);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry) + length + 1);
        memcpy(entry->text, s, length);
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, pool, entry->text, length, hash, entry);
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
