/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hash tables against plain arrays that say who is in. */
#include "kube-nftd/base/hash_table.h"

#include "unit.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

static struct item *find(const char *key)
{
    return hash_table_find(&table, key_of, hash_key_of_text(key));
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

/* That it holds those which are in, each once, and finds just these. */
static void expect_right(void)
{
    size_t n = 0;
    hash_table_each (&table, struct item, item) {
        ck_assert(item->in && !item->seen);
        item->seen = true;
        n++;
    }
    ck_assert_uint_eq(n, table.n);
    for (int i = 0; i < MANY; i++) {
        ck_assert_ptr_eq(find(items[i].key), items[i].in ? &items[i] : NULL);
        n -= items[i].in;
        items[i].seen = false;
    }
    ck_assert_uint_eq(n, 0);
}

TESTS(comings_and_goings, 3)
{
    uint64_t random = (uint64_t)_i * 2 + 1;
    for (int step = 0; step < 20000; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        /* Of few at first, so that it becomes empty at times; then of all. */
        struct item *item = &items[(random >> 33) % (step < 5000 ? 3 : MANY)];
        if (item->in)
            take_out(item);
        else
            add(item);
        if (step % 1999 == 0)
            expect_right();
    }
    expect_right();
}

TEST(those_met_on_a_walk_may_leave)
{
    size_t met = 0;
    for (int i = 0; i < MANY; i++)
        add(&items[i]);
    hash_table_each (&table, struct item, item) {
        if (met++ % 3)
            take_out(item);
    }
    ck_assert_uint_eq(met, MANY);
    ck_assert_uint_eq(table.n, MANY / 3);
    expect_right();
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
