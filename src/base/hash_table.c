/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chains that are kept short: as many buckets as half of the items, at least. */
#include "kube-nftd/base/hash_table.h"

#include "kube-nftd/base/alloc.h"

#include <stdint.h>
#include <stdlib.h>

#define FIRST_BUCKETS 8
#define MOST_IN_BUCKET 2 /* on average */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint32_t hash_of(struct hash_key key)
{
    const char *at = key.bytes;
    uint64_t hash = key.length, word;
    size_t left = key.length;
    for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = mix(hash, word);
    }
    word = 0;
    memcpy(&word, at, left);
    return (uint32_t)mix(mix(hash, word), 0);
}

/* Where the chain begins that items of this hash are in. */
static struct hash_link **bucket_of(const struct hash_table *table, uint32_t hash)
{
    return &table->buckets[hash & (table->n_buckets - 1)];
}

static void put(struct hash_table *table, struct hash_link *item)
{
    struct hash_link **bucket = bucket_of(table, item->hash);
    item->next = *bucket;
    *bucket = item;
}

static void set_buckets(struct hash_table *table, size_t n_buckets)
{
    struct hash_table before = *table;
    table->buckets = xcalloc(n_buckets, sizeof(struct hash_link *));
    table->n_buckets = n_buckets;
    hash_table_each (&before, struct hash_link, item)
        put(table, item);
    free(before.buckets);
}

void *hash_table_find(const struct hash_table *table, hash_key_fn key_of, struct hash_key key)
{
    if (table->n == 0)
        return NULL;
    uint32_t hash = hash_of(key);
    for (struct hash_link *item = *bucket_of(table, hash); item; item = item->next) {
        if (item->hash != hash)
            continue;
        struct hash_key other = key_of(item);
        if (other.length == key.length && memcmp(other.bytes, key.bytes, key.length) == 0)
            return item;
    }
    return NULL;
}

void hash_table_add(struct hash_table *table, hash_key_fn key_of, struct hash_link *item)
{
    if (table->n == table->n_buckets * MOST_IN_BUCKET)
        set_buckets(table, table->n_buckets ? 2 * table->n_buckets : FIRST_BUCKETS);
    item->hash = hash_of(key_of(item));
    put(table, item);
    table->n++;
}

void hash_table_remove(struct hash_table *table, struct hash_link *item)
{
    struct hash_link **at = bucket_of(table, item->hash);
    while (*at != item)
        at = &(*at)->next;
    *at = item->next;
    if (--table->n > 0)
        return;
    free(table->buckets);
    *table = (struct hash_table){NULL, 0, 0};
}

/* An item's successor is looked up before the item is given away. */
void *hash_walk_next(struct hash_walk *walk)
{
    struct hash_link *item = walk->next;
    while (!item && walk->bucket < walk->table->n_buckets)
        item = walk->table->buckets[walk->bucket++];
    walk->next = item ? item->next : NULL;
    return item;
}
