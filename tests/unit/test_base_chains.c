/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Walks of all chains and of a table's rules, which end where they are told to, in a network
 * namespace with one table. */
#include "kernel_cases.h"
#include "namespaces.h"

#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>

#define MARK 0x11223344u
#define RULE "rule nat-output meta mark set meta mark or 0x11223344"

static void setup(void)
{
    enter_namespaces();
    case_open();
    begin(FAMILY_IPV4);
}

/* ---- chains ---- */

static VEC(bool) is_base; /* of each chain, in the order of the dump */

static void see_chain(void *ctx, struct nftnl_chain *chain)
{
    vec_push(&is_base, nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM));
}

static void count_chain(void *ctx, const struct base_chain *chain)
{
    ck_assert_str_eq(chain->table, RULESET_TABLE);
    ck_assert_str_eq(chain->type, "nat");
    ++*(size_t *)ctx;
}

TEST(as_many_chains_as_said)
{
    size_t expected = 0;
    ck_assert_int_eq(
        nft_socket_read_chains(sock, FAMILY_IPV4, RULESET_TABLE, see_chain, NULL, &err), 0);
    for (size_t most = 0; most <= is_base.n + 1; most++) {
        size_t seen = 0;
        expected += most > 0 && most <= is_base.n && is_base.v[most - 1];
        base_chains_each(most, count_chain, &seen);
        ck_assert_msg(seen == expected, "of %zu chains %zu, not %zu", most, seen, expected);
    }
    ck_assert_uint_gt(expected, 1);
    vec_free(&is_base);
}

/* ---- rules ---- */

struct position {
    size_t passed, at; /* @at from 1; 0: not yet */
};

static void see_rule(void *ctx, struct nftnl_rule *rule)
{
    struct position *position = ctx;
    char text[4096];
    nftnl_rule_snprintf(text, sizeof(text), rule, NFTNL_OUTPUT_DEFAULT, 0);
    position->passed++;
    if (position->at == 0 && strstr(text, "0x11223344"))
        position->at = position->passed;
}

TEST(as_many_rules_as_said)
{
    const uint32_t mark = MARK;
    struct position position = {0};
    put(RULE);
    put(RULE);
    commit();
    ck_assert_int_eq(
        nft_socket_read_rules(sock, FAMILY_IPV4, RULESET_TABLE, see_rule, &position, &err), 0);
    ck_assert_uint_gt(position.at, 2);
    for (size_t most = position.at - 2; most <= position.at + 1; most++) {
        char *chain = rules_find_bytes(NFPROTO_IPV4, RULESET_TABLE, &mark, sizeof(mark), most);
        ck_assert_msg((chain != NULL) == (most >= position.at), "of %zu rules, up to number %zu",
                      most, position.at);
        ck_assert(!chain || strcmp(chain, "nat-output") == 0);
        free(chain);
    }
    ck_assert_ptr_null(
        rules_find_bytes(NFPROTO_IPV6, RULESET_TABLE, &mark, sizeof(mark), SIZE_MAX));
}

UNIT_FIXTURE(setup, case_close)
