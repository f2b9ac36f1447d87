/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Short chains: at least one bucket per two items. Each bucket has a 16-bit filter that rules out
 * most absent keys, since most lookups are for new items. */
#include "kube-nftd/base.h"

#define FIRST_BUCKETS 8
#define MOST_IN_BUCKET 2 /* on average */
#define BUCKETS_AHEAD 8  /* prefetch distance */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint32_t hash_of(struct hash_key key)
{
    const char *at = key.bytes;
    uint64_t hash = key.length, word = 0;
    size_t left = key.length;
    for (; left > sizeof(word); left -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = mix(hash, word);
    }
    word = 0;
    if (key.length >= sizeof(word))
        memcpy(&word, at + left - sizeof(word), sizeof(word)); /* may overlap */
    else
        for (; left > 0; left--)
            word = word << 8 | (unsigned char)*at++;
    return (uint32_t)mix(mix(hash, word), 0);
}

static size_t bucket_of(const struct hash_table *table, uint32_t hash)
{
    return hash & (table->n_buckets - 1);
}

/* The filters follow the buckets. Reaching an item is usually a cache miss; the filters of a whole
 * table are small enough to stay cached. */
static uint16_t *marks_of(const struct hash_table *table)
{
    return (uint16_t *)(table->buckets + table->n_buckets);
}

/* One of sixteen bits, by hash bits that do not select the bucket. */
static uint16_t mark_of(uint32_t hash)
{
    return (uint16_t)(1u << (hash >> 28));
}

static void put(struct hash_table *table, struct hash_link *item)
{
    size_t bucket = bucket_of(table, item->hash);
    item->next = table->buckets[bucket];
    table->buckets[bucket] = item;
    marks_of(table)[bucket] |= mark_of(item->hash);
}

static void set_buckets(struct hash_table *table, size_t n_buckets)
{
    struct hash_table before = *table;
    table->buckets = xcalloc(n_buckets, sizeof(struct hash_link *) + sizeof(uint16_t));
    table->n_buckets = n_buckets;
    for (size_t i = 0; i < before.n_buckets; i++) {
        /* Overlaps the cache misses of several buckets. */
        if (i + BUCKETS_AHEAD < before.n_buckets)
            __builtin_prefetch(before.buckets[i + BUCKETS_AHEAD], 1);
        for (struct hash_link *item = before.buckets[i], *next; item; item = next) {
            next = item->next;
            put(table, item);
        }
    }
    free(before.buckets);
}

void *hash_table_find(const struct hash_table *table, hash_key_fn key_of, struct hash_key key)
{
    if (table->n == 0)
        return NULL;
    uint32_t hash = hash_of(key);
    size_t bucket = bucket_of(table, hash);
    if (!(marks_of(table)[bucket] & mark_of(hash)))
        return NULL;
    for (struct hash_link *item = table->buckets[bucket]; item; item = item->next) {
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
    size_t bucket = bucket_of(table, item->hash);
    uint16_t marks = 0;
    for (struct hash_link **at = &table->buckets[bucket]; *at;) {
        if (*at == item) {
            *at = item->next;
            continue;
        }
        marks |= mark_of((*at)->hash);
        at = &(*at)->next;
    }
    marks_of(table)[bucket] = marks;
    if (--table->n > 0)
        return;
    free(table->buckets);
    *table = (struct hash_table){NULL, 0, 0};
}

/* Reads the successor first: the caller may free the item. */
void *hash_walk_next(struct hash_walk *walk)
{
    struct hash_link *item = walk->next;
    while (!item && walk->bucket < walk->table->n_buckets)
        item = walk->table->buckets[walk->bucket++];
    walk->next = item ? item->next : NULL;
    return item;
}

static size_t reverse_bits(size_t value)
{
    size_t reversed = 0;
    for (size_t i = 0; i < sizeof(value) * 8; i++, value >>= 1)
        reversed = reversed << 1 | (value & 1);
    return reversed;
}

/* Increments the cursor from its highest bit down: when the table doubles, the items of visited
 * buckets move to buckets that count as visited. */
size_t hash_table_scan(const struct hash_table *table, size_t cursor,
                       void (*take)(void *ctx, void *item), void *ctx)
{
    if (table->n == 0)
        return 0;
    size_t mask = table->n_buckets - 1;
    for (struct hash_link *item = table->buckets[cursor & mask]; item; item = item->next)
        take(ctx, item);
    return reverse_bits(reverse_bits(cursor | ~mask) + 1);
}

/* ---- interned strings ---- */

/* A short name's entry fits one cache line. */
struct interned {
    struct hash_link link; /* by text */
    uint32_t count, length;
    char text[];
};

static struct hash_table pool;

static struct hash_key text_of(const struct hash_link *link)
{
    const struct interned *entry = (const struct interned *)link;
    return (struct hash_key){entry->text, entry->length};
}

const char *intern(const char *s)
{
    if (!s)
        return NULL;
    struct hash_key key = hash_key_of_text(s);
    struct interned *entry = hash_table_find(&pool, text_of, key);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry) + key.length + 1);
        entry->length = (uint32_t)key.length;
        memcpy(entry->text, s, key.length);
        hash_table_add(&pool, text_of, &entry->link);
    }
    entry->count++;
    return entry->text;
}

void intern_release(const char *s)
{
    union {
        const char *in;
        char *out;
    } text = {s}; /* const for callers only */
    if (!s)
        return;
    struct interned *entry = (void *)(text.out - offsetof(struct interned, text));
    if (--entry->count > 0)
        return;
    hash_table_remove(&pool, &entry->link);
    free(entry);
}
