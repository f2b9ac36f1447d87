/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hash tables, small, since there is very much of some items: each has 16 bytes for its table, and
 * the table has at most 10 more for it. Items have no order. Their hashes are kept, since a key is
 * most often in memory that no cache has.
 *
 * An item begins with a struct hash_link and belongs to its user, as does its key, which may be
 * anywhere and stays as it is while the item is in the table. A table starts zeroed; when its last
 * item has left, there is nothing to free.
 */
#ifndef KUBE_NFTD_BASE_HASH_TABLE_H
#define KUBE_NFTD_BASE_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first member of an item. */
struct hash_link {
    struct hash_link *next; /* in its bucket */
    uint32_t hash;          /* of its key */
};

struct hash_key {
    const void *bytes;
    size_t length;
};

/* Says what an item is found by. All calls for a table name the same function. */
typedef struct hash_key (*hash_key_fn)(const struct hash_link *item);

struct hash_table {
    struct hash_link **buckets;
    size_t n_buckets; /* 0 or a power of 2 */
    size_t n;         /* items */
};

static inline struct hash_key hash_key_of_text(const char *text)
{
    return (struct hash_key){text, strlen(text)};
}

/** The item with a key of these bytes, or NULL. */
void *hash_table_find(const struct hash_table *table, hash_key_fn key_of, struct hash_key key);

/** Adds an item whose key no other item has. */
void hash_table_add(struct hash_table *table, hash_key_fn key_of, struct hash_link *item);

/** Takes out an item that is in the table. */
void hash_table_remove(struct hash_table *table, struct hash_link *item);

/* How far hash_table_each() has come. */
struct hash_walk {
    const struct hash_table *table;
    size_t bucket;
    struct hash_link *next;
};

/** The next item; NULL if that was the last one. */
void *hash_walk_next(struct hash_walk *walk);

/* Runs the statement with @it, a pointer to @type, for each item. The item may leave the table and
 * be freed meanwhile, but no other may, and none may come. */
#define hash_table_each(hash_table, type, it)                                                      \
    for (struct hash_walk it##_walk_ = {(hash_table), 0, NULL}; it##_walk_.table;                  \
         it##_walk_.table = NULL)                                                                  \
        for (type * it; (it = hash_walk_next(&it##_walk_)) != NULL;)

/**
 * For a walk in pieces, between which items come and go: calls @take with the items of some bucket,
 * which must not add or remove any. Begins with @cursor 0; returns that of the next call, 0 after
 * the last one. An item that is there all the while is passed, and perhaps again when the table has
 * become smaller meanwhile.
 */
size_t hash_table_scan(const struct hash_table *table, size_t cursor,
                       void (*take)(void *ctx, void *item), void *ctx);

#endif
