/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chains that nothing leads to any more go, and no others. */
#include "unit.h"

#include "ruleset_fixture.h"

#include <errno.h>

/* A chain goes when it was not used at two looks, which are some seconds apart. */
#define TWO_LOOKS 3

static bool has_chain(const char *name)
{
    return fake_kernel_has_chain(family, name);
}

/* Commits whenever something is due. */
static void rest(void)
{
    settle();
    for (int turns = 0; ruleset_collect_time(ruleset) != 0 && turns < TWO_LOOKS; turns++) {
        now = ruleset_collect_time(ruleset);
        ck_assert(ruleset_needs_commit(ruleset, now));
        commit();
    }
    ck_assert(!ruleset_needs_commit(ruleset, now));
}

static void check(unsigned number, const struct wish *wish)
{
    static const struct world world = {.cluster_ip = false};
    check_wish(number, wish, &world);
}

static const struct wish one = {.wanted = true, .all = "1"}, two = {.wanted = true, .all = "12"},
                         three = {.wanted = true, .all = "123"},
                         outside = {.wanted = true, .external = true, .all = "123"},
                         here = {.wanted = true,
                                 .external = true,
                                 .local = true,
                                 .all = "12",
                                 .here = "1"},
                         affine = {.wanted = true, .all = "12", .timeout = 10800, .group = 7},
                         guarded = {.wanted = true, .external = true, .all = "1", .sources = "12"},
                         nobody = {.wanted = false};

/* What each way of being needs, as long as a frontend has it. */
static const struct {
    const struct wish *wish;
    const char *chains[5];
} needs[] = {
    {&two, {"pick-2"}},
    {&outside, {"pick-3"}},
    {&here, {"pick-2", "local-pick-1"}},
    {&affine, {"pick-2", "learn-10800", "learn", "filter-prerouting-after-dnat"}},
    {&guarded, {"pick-1", "source-ranges", "allowed-source"}},
};
#define NEEDS (int)(sizeof(needs) / sizeof(needs[0]))

TESTS(chains_go_with_their_last_use, (NEEDS * FAMILY_COUNT))
{
    begin((int)FAMILY_IPV4 + _i % 2);
    const char *const *chains = needs[_i / 2].chains;
    tell(1, needs[_i / 2].wish);
    tell(2, needs[_i / 2].wish);
    commit();
    size_t elements = ruleset_figures(ruleset)->elements;
    tell(2, &nobody);
    rest();
    for (int i = 0; i < 5 && chains[i]; i++)
        ck_assert_msg(has_chain(chains[i]), "%s", chains[i]);
    check(1, needs[_i / 2].wish);
    tell(1, &nobody);
    rest();
    for (int i = 0; i < 5 && chains[i]; i++)
        ck_assert_msg(!has_chain(chains[i]), "%s", chains[i]);
    ck_assert_uint_eq(fake_kernel_size(family, "picks"), 0);
    ck_assert_uint_eq(ruleset_figures(ruleset)->elements, 0);
    ck_assert_uint_gt(elements, 0);
    tell(1, needs[_i / 2].wish);
    commit();
    check(1, needs[_i / 2].wish);
}

EACH_FAMILY(what_is_used_again_stays)
{
    begin(_i);
    tell(1, &two);
    commit();
    for (int i = 0; i < 4; i++) {
        tell(1, i % 2 ? &two : &three);
        settle();
        now = ruleset_collect_time(ruleset);
        fake_kernel_forget_counts();
        commit();
        ck_assert_uint_eq(fake_kernel_counts()->chains, 0);
    }
    ck_assert(has_chain("pick-2") && has_chain("pick-3"));
    rest();
    ck_assert(has_chain("pick-2") && !has_chain("pick-3"));
    check(1, &two);
}

/* A service that grows to many backends and shrinks leaves nothing. */
EACH_FAMILY(all_counts_from_one_to_many)
{
    struct backend backends[200];
    begin(_i);
    tell(1, &one);
    for (unsigned i = 0; i < 200; i++)
        backends[i] = backend(i);
    for (size_t n = 1; n <= 200; n++) {
        const struct port_route route = {
            .has_any = true, .needs_cluster = true, .backends = backends, .n_backends = n};
        ruleset_set_port(ruleset, port_id(1, &one), &route);
        commit();
    }
    ck_assert_uint_eq(fake_kernel_size(family, "picks"), 200);
    tell(1, &one);
    rest();
    ck_assert_uint_eq(fake_kernel_size(family, "picks"), 1);
    check(1, &one);
}

/* Without an owner, others can have rules that lead there. Nothing else is the worse for it. */
EACH_FAMILY(what_cannot_go_stays)
{
    begin(_i);
    tell(1, &two);
    commit();
    tell(1, &three);
    settle();
    fake_kernel_refuse_chain("pick-2", EBUSY);
    double waited = 0;
    for (int i = 0; i < 6; i++) {
        ck_assert_double_ge(ruleset_collect_time(ruleset) - now, waited);
        waited = i ? ruleset_collect_time(ruleset) - now : 0;
        now = ruleset_collect_time(ruleset);
        commit();
        ck_assert(has_chain("pick-2"));
        check(1, &three);
    }
    ck_assert_double_gt(waited, 30);
    ck_assert_uint_eq(fake_kernel_counts()->tables, 1);
    fake_kernel_forgive();
    rest();
    ck_assert(!has_chain("pick-2"));
}

/* Of two daemons for one table each collects what both do not use. */
EACH_FAMILY(another_daemon_collects_them)
{
    begin(_i);
    tell(1, &two);
    commit();
    tell(1, &three);
    settle();
    struct ruleset *first = ruleset;
    ruleset = new_ruleset();
    tell(1, &three);
    rest();
    ck_assert(!has_chain("pick-2"));
    ruleset_free(ruleset);
    ruleset = first;
    ruleset_suspect_rules(ruleset); /* it was seen that chains went */
    ruleset_check_suspects(ruleset, sock);
    fake_kernel_forget_counts();
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->chains + fake_kernel_counts()->rules, 0);
    rest();
    ck_assert(!has_chain("pick-2"));
    tell(1, &two);
    commit();
    ck_assert(has_chain("pick-2"));
    check(1, &two);
}

UNIT_FIXTURE(setup, teardown)
