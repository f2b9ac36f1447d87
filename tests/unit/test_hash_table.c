/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hash tables against plain arrays that say who is in. */

#include "unit.h"

#include <stdbool.h>
#include <stdint.h>

#define MANY 3000

struct item {
    struct hash_link link;
    char key[24];
    bool in, seen;
};

static struct item items[MANY];
static struct hash_table table;

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct item *)link)->key);
}

static void add(struct item *item)
{
    hash_table_add(&table, key_of, &item->link);
    item->in = true;
}

static void take_out(struct item *item)
{
    hash_table_remove(&table, &item->link);
    item->in = false;
}

/* Keys of all lengths up to 23, many of which begin or end alike. */
static void setup(void)
{
    memset(&table, 0, sizeof(table));
    for (int i = 0; i < MANY; i++)
        items[i] = (struct item){.in = false};
    for (int i = 0; i < MANY; i++)
        snprintf(items[i].key, sizeof(items[i].key), "%.*s%d", i % 20, "service-of-the-shop-", i);
    items[0].key[0] = '\0';
}

static void teardown(void)
{
    hash_table_each (&table, struct item, item)
        take_out(item);
    ck_assert_uint_eq(table.n, 0);
    ck_assert_ptr_null(table.buckets); /* nothing is left to free */
}

/* What it is for: short chains with little room for them, whatever the keys look like. */
TEST(room_and_chains)
{
    for (int i = 0; i < MANY; i++)
        add(&items[i]);
    ck_assert_uint_le(table.n_buckets, MANY);
    ck_assert_uint_ge(2 * table.n_buckets, MANY);
    for (size_t bucket = 0; bucket < table.n_buckets; bucket++) {
        size_t length = 0;
        for (const struct hash_link *item = table.buckets[bucket]; item; item = item->next)
            length++;
        ck_assert_uint_le(length, 12);
    }
}

static void see(void *ctx, void *met)
{
    struct item *item = met;
    ck_assert(item->in);
    ck_assert(!item->seen); /* the table only grows here */
    item->seen = true;
    ++*(size_t *)ctx;
}

/* Between its pieces items come, for which the table grows, and go again. */
TEST(a_walk_in_pieces)
{
    size_t n = 0, cursor = 0, next = 100;
    ck_assert_uint_eq(hash_table_scan(&table, 0, see, &n), 0);
    for (int i = 0; i < 100; i++)
        add(&items[i]);
    do {
        cursor = hash_table_scan(&table, cursor, see, &n);
        for (int i = 0; i < 100 && next < MANY; i++)
            add(&items[next++]);
    } while (cursor);
    ck_assert_uint_ge(n, 100);
    for (int i = 0; i < 100; i++)
        ck_assert(items[i].seen);
    for (int i = 0; i < MANY; i++)
        items[i].seen = false;
    for (n = 0; cursor || n == 0;)
        cursor = hash_table_scan(&table, cursor, see, &n);
    ck_assert_uint_eq(n, table.n);
}

UNIT_FIXTURE(setup, teardown)
