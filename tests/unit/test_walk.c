/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a set is read in pieces. What its readers make of it: tests/unit/cases/table and
 * table_foreign. */
#include "unit.h"

#include "table_model.h"

#include "table/walk.h"

/* A reader of services that knows the first frontends, and finds none of them in its first piece:
 * its entries lie in buckets behind that. */
struct reader {
    struct walk walk;
    unsigned n, pieces, asked, taken;
};

static uint64_t known(void *ctx, enum table_set set)
{
    const struct reader *reader = ctx;
    return reader->n;
}

static bool ask(void *ctx)
{
    struct reader *reader = ctx;
    if (reader->pieces++ == 0)
        return true;
    while (reader->asked < reader->n) {
        const struct frontend f = frontend(++reader->asked);
        const struct key key = key_of_frontend(&f);
        walk_ask(&reader->walk, &key);
    }
    return false;
}

static void take(void *ctx, const struct nft_element *element)
{
    struct reader *reader = ctx;
    reader->taken++;
}

static uint64_t found(void *ctx, enum table_set set)
{
    const struct reader *reader = ctx;
    return reader->taken;
}

/* The work of the next piece. */
static size_t step(struct reader *reader, enum walk_result expected)
{
    const size_t before = reader->walk.work;
    ck_assert_int_eq(walk_step(&reader->walk, ruleset, sock, NULL), expected);
    return reader->walk.work - before;
}

/* The first piece counts, and so does the last one, which does nothing else. */
EACH_FAMILY(a_piece_that_finds_nothing_to_look_up_requests_nothing)
{
    static const struct walk_ops ops = {known, ask, take, found};
    struct reader reader = {.walk.ops = &ops, .walk.ctx = &reader, .n = 3};
    config.dump_most = 1;
    begin(_i);
    want("1..3 12");
    commit();
    walk_begin(&reader.walk, SET_SERVICES);
    const size_t first = step(&reader, WALK_GOES_ON);
    ck_assert_int_eq(reader.walk.state, WALK_KEYS);
    ck_assert_uint_eq(reader.taken, 0);
    step(&reader, WALK_GOES_ON);
    ck_assert_uint_eq(reader.taken, 3);
    ck_assert_uint_eq(step(&reader, WALK_ENDED), first);
    walk_begin(&reader.walk, SET_SERVICES); /* frees what it holds */
}

UNIT_FIXTURE(set_up_desired, teardown)
