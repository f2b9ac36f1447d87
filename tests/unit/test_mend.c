/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rules of a table from an earlier run, put right before anything is known of what it shall
 * hold. Against a kernel in memory (fake_kernel.h).
 */
#include "unit.h"

#include "ruleset_fixture.h"

#include <errno.h>
#include <linux/netfilter.h>

static const struct wish three = {.wanted = true, .all = "123"};
static const struct wish affine = {.wanted = true, .all = "12", .timeout = 60, .group = 5};
static const struct wish guarded = {
    .wanted = true, .external = true, .local = true, .all = "12", .here = "1", .sources = "10-19"};

static void tell_all(void)
{
    tell(1, &three);
    tell(2, &affine);
    tell(3, &guarded);
    set_service_cidrs("10-19");
}

/* A table with all kinds of chains, of a daemon that has ended. */
static void begin_earlier(int which)
{
    begin(which);
    tell_all();
    commit();
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    restart();
}

static bool mend(void)
{
    struct error err = {0};
    bool mended = false;
    int result = ruleset_mend(ruleset, sock, &mended, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    return mended;
}

/* What is there now is what the first programming wants: it adopts it and sends nothing. */
static void check_right(void)
{
    const struct world nothing = {0};
    ck_assert(!mend());
    tell_all();
    commit_sends(0, 0);
    ck_assert_uint_eq(ruleset_figures(ruleset)->replaced, 0);
    check_wish(1, &three, &nothing);
}

EACH_FAMILY(right_rules_are_left_alone)
{
    begin_earlier(_i);
    ck_assert(!mend());
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
    check_right();
}

/* It is replaced when it is known by what. */
EACH_FAMILY(a_table_of_another_shape_is_left_alone)
{
    begin_earlier(_i);
    fake_kernel_flush_chain(family, "dispatch");
    fake_kernel_set_comment(family, "kube-nftd layout 0123");
    ck_assert(!mend());
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
}

/* ---- damage ---- */

static void flush_dispatch(void)
{
    fake_kernel_flush_chain(family, "dispatch");
}

static void flush_pick(void)
{
    fake_kernel_flush_chain(family, "pick-3");
}

static void add_rule(void)
{
    fake_kernel_copy_rule(family, "refuse", "filter-output");
}

static void other_rule(void)
{
    fake_kernel_flush_chain(family, "nat-output");
    fake_kernel_copy_rule(family, "refuse", "nat-output");
}

static void add_base_chain(void)
{
    fake_kernel_put_chain(family, "intruder", NF_INET_LOCAL_OUT, true);
}

static void add_chain(void)
{
    fake_kernel_put_chain(family, "intruder", -1, false);
    fake_kernel_copy_rule(family, "refuse", "intruder");
}

static void drop_by_policy(void)
{
    fake_kernel_put_chain(family, "filter-output", 0, true);
}

static void delete_base_chain(void)
{
    fake_kernel_drop_chain(family, "nat-prerouting");
}

static void lead_elsewhere(void)
{
    fake_kernel_lead(family, "picks", 3, "no-endpoints");
}

static void take_verdict(void)
{
    struct key key = {.length = 0};
    key_put_number(&key, 3);
    fake_kernel_take(family, "picks", key.bytes, key.length);
}

static void take_learner(void)
{
    struct key key = {.length = 0};
    key_put_number(&key, 60);
    fake_kernel_take(family, "learners", key.bytes, key.length);
    fake_kernel_flush_chain(family, "learn-60");
}

static void flush_single_chains(void)
{
    fake_kernel_flush_chain(family, "source-ranges");
    fake_kernel_flush_chain(family, "learn");
}

static void (*const damages[])(void) = {flush_dispatch, flush_pick,        add_rule,
                                        other_rule,     add_base_chain,    add_chain,
                                        drop_by_policy, delete_base_chain, lead_elsewhere,
                                        take_verdict,   take_learner,      flush_single_chains};
#define DAMAGES ((int)(sizeof(damages) / sizeof(damages[0])))

TESTS(damage_is_put_right, (DAMAGES * FAMILY_COUNT))
{
    begin_earlier(_i % FAMILY_COUNT);
    size_t endpoints = fake_kernel_size(family, "endpoints");
    fake_kernel_tolerate(); /* it is broken until then */
    damages[_i / FAMILY_COUNT]();
    ck_assert(mend());
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 1);
    ck_assert_uint_eq(fake_kernel_counts()->tables, 0);
    ck_assert_uint_eq(fake_kernel_counts()->added, 0);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), endpoints);
    check_right();
}

/* As one that a map of others leads to: it does no harm, and goes at another start. */
EACH_FAMILY(a_chain_that_cannot_go_stays)
{
    begin_earlier(_i);
    fake_kernel_tolerate();
    add_chain();
    flush_dispatch();
    fake_kernel_refuse_chain("intruder", EBUSY);
    ck_assert(mend());
    const struct world nothing = {0};
    check_wish(1, &three, &nothing);
    tell_all();
    commit_sends_rules(100);
    ruleset_suspect_rules(ruleset); /* as audits do again and again */
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 0);
    fake_kernel_forgive();
    restart();
    ck_assert(mend());
    check_right();
}

/* ---- owners, faults ---- */

EACH_FAMILY(a_table_without_an_owner_is_claimed)
{
    config.owned = true;
    begin_earlier(_i);
    ck_assert(!mend());
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 1);
    ck_assert_uint_eq(fake_kernel_table_flags(family), NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT);
}

EACH_FAMILY(an_owned_table_is_left_alone)
{
    config.owned = true;
    begin_earlier(_i);
    fake_kernel_flush_chain(family, "dispatch");
    fake_kernel_set_owner(family, FAKE_OWNER_ELSEWHERE);
    ck_assert(!mend());
    ck_assert_uint_eq(fake_kernel_counts()->attempts, 0);
}

EACH_FAMILY(a_refusal_leaves_it_as_it_was)
{
    struct error err = {0};
    bool mended = true;
    begin_earlier(_i);
    fake_kernel_tolerate();
    fake_kernel_flush_chain(family, "dispatch");
    fake_kernel_lack("lookup");
    ck_assert_int_eq(ruleset_mend(ruleset, sock, &mended, &err), -1);
    ck_assert(!mended);
    ck_assert_ptr_nonnull(err.text);
    error_clear(&err);
    fake_kernel_lack(NULL);
    ck_assert(mend());
    check_right();
}

/* Of all templates that add chains. */
TEST(each_chain_tells_of_its_shape)
{
    static const struct shape shapes[] = {{TEMPLATE_PICK, 12},
                                          {TEMPLATE_LOCAL_PICK, 12},
                                          {TEMPLATE_LEARN, 12},
                                          {TEMPLATE_SOURCE_RANGES, 0},
                                          {TEMPLATE_AFFINITY, 0}};
    begin(FAMILY_IPV4);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct layout layout;
        struct shape told;
        ck_assert_int_eq(ruleset_read_shape(ruleset, shapes[i], &layout, NULL), 0);
        ck_assert(shape_of_chain(layout.chains.v[0].name, &told));
        ck_assert_mem_eq(&told, &shapes[i], sizeof(told));
        layout_free(&layout);
    }
}

TESTS(other_chains_tell_nothing, 15)
{
    static const char *const names[] = {
        "dispatch",   "pick",    "pick-",    "pick-0",           "pick-03",
        "pick-32768", "pick-3x", "xpick-3",  "learn-0",          "learn-",
        "learn-1e",   "",        "intruder", "learn-4294967296", "pick-3 pick-4"};
    struct shape shape;
    ck_assert(!shape_of_chain(names[_i], &shape));
}

UNIT_FIXTURE(setup, teardown)
