/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Transactions and what the kernel says to them, for two tests: that of the real socket shows that
 * the kernel is like this, that of the fake kernel shows that it is like the kernel.
 */
#ifndef KUBE_NFTD_TESTS_KERNEL_CASES_H
#define KUBE_NFTD_TESTS_KERNEL_CASES_H

#include "kube-nftd/netlink/batch.h"
#include "kube-nftd/ruleset/program.h"
#include "kube-nftd/ruleset/record.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/rule.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <string.h>

static struct frontend case_frontend(enum family family, uint8_t number)
{
    struct frontend f = {.port = 80, .protocol = IPPROTO_TCP, .family = (uint8_t)family};
    f.address.bytes[0] = 11;
    f.address.bytes[3] = number;
    return f;
}

static enum family case_family(const struct nft_batch *batch)
{
    return batch->nf_family == NFPROTO_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
}

/* An element of services; deleted if @value is NULL. */
static void case_service(struct nft_batch *batch, uint8_t number, const uint32_t *value)
{
    uint8_t key[KEY_SIZE];
    struct frontend f = case_frontend(case_family(batch), number);
    size_t length = key_of_frontend(&f, key);
    nft_batch_element(batch, value ? ELEMENT_ADD : ELEMENT_DELETE, MAP_SERVICES, key, length, value,
                      value ? sizeof(*value) : 0);
}

static void case_slot(struct nft_batch *batch, enum nft_element_op op, uint8_t number,
                      uint32_t slot, uint8_t backend_number)
{
    uint8_t key[KEY_SIZE], value[KEY_SIZE];
    struct frontend f = case_frontend(case_family(batch), number);
    struct backend b = {{{10, 0, 0, backend_number}}, 8080};
    size_t length = key_of_slot(&f, slot, key);
    size_t value_length = value_of_backend(case_family(batch), &b, value);
    nft_batch_element(batch, op, MAP_ENDPOINTS, key, length, op == ELEMENT_ADD ? value : NULL,
                      op == ELEMENT_ADD ? value_length : 0);
}

static void case_reject(struct nft_batch *batch, uint8_t number, int more_key_bytes)
{
    uint8_t key[KEY_SIZE];
    struct frontend f = case_frontend(case_family(batch), number);
    size_t length = key_of_frontend(&f, key) + (size_t)more_key_bytes;
    nft_batch_element(batch, ELEMENT_ADD, SET_REJECTS, key, length, NULL, 0);
}

static void case_layout(struct nft_batch *batch, const char *text, unsigned n,
                        enum program_part part)
{
    struct error err = {0};
    struct layout layout;
    ck_assert_int_eq(layout_parse(text, "t.nft", case_family(batch), n, &layout, &err), 0);
    ck_assert_int_eq(program_layout(&layout, part, batch, &err), 0);
    layout_free(&layout);
}

static void case_rule(struct nft_batch *batch, const char *chain, const char *text)
{
    struct error err = {0};
    struct nftnl_rule *rule = nftnl_rule_alloc();
    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
    ck_assert_int_eq(phrases_add(text, case_family(batch), rule, batch, &err), 0);
    nft_batch_add_rule(batch, rule);
    nftnl_rule_free(rule);
}

/* What is there before each case: frontend 1 with backends 1 and 2, frontend 2 rejected. */
static void case_table(struct nft_batch *batch)
{
    const uint32_t two = 2;
    nft_batch_add_table(batch, "of a test");
    case_layout(batch, nft_template_base, 0, PROGRAM_ALL);
    case_layout(batch, nft_template_pick, 2, PROGRAM_WITHOUT_SETS);
    case_slot(batch, ELEMENT_ADD, 1, 0, 1);
    case_slot(batch, ELEMENT_ADD, 1, 1, 2);
    case_service(batch, 1, &two);
    case_reject(batch, 2, 0);
}

/* ---- the cases ---- */

static void add_what_is_there(struct nft_batch *batch)
{
    const uint32_t two = 2;
    case_service(batch, 1, &two);
    case_slot(batch, ELEMENT_ADD, 1, 0, 1);
    case_reject(batch, 2, 0);
}

static void add_another_count(struct nft_batch *batch)
{
    const uint32_t one = 1;
    case_service(batch, 1, &one);
}

static void add_another_backend(struct nft_batch *batch)
{
    case_slot(batch, ELEMENT_ADD, 1, 1, 9);
}

static void replace_a_backend(struct nft_batch *batch)
{
    case_slot(batch, ELEMENT_DELETE, 1, 1, 0);
    case_slot(batch, ELEMENT_ADD, 1, 1, 9);
}

static void delete_what_is_not_there(struct nft_batch *batch)
{
    case_slot(batch, ELEMENT_DELETE, 1, 2, 0);
}

static void delete_a_service_twice(struct nft_batch *batch)
{
    case_service(batch, 1, NULL);
    case_service(batch, 1, NULL);
}

static void goto_nowhere(struct nft_batch *batch)
{
    const uint32_t key = 77;
    nft_batch_goto_element(batch, MAP_PICKS, &key, sizeof(key), "pick-77");
}

static void short_key(struct nft_batch *batch)
{
    case_reject(batch, 5, -4);
}

static void long_key(struct nft_batch *batch)
{
    case_reject(batch, 5, 4);
}

static void no_value(struct nft_batch *batch)
{
    uint8_t key[KEY_SIZE];
    struct frontend f = case_frontend(case_family(batch), 5);
    nft_batch_element(batch, ELEMENT_ADD, MAP_SERVICES, key, key_of_frontend(&f, key), NULL, 0);
}

static void value_of_other_length(struct nft_batch *batch)
{
    uint8_t key[KEY_SIZE], value[8] = {1};
    struct frontend f = case_frontend(case_family(batch), 5);
    nft_batch_element(batch, ELEMENT_ADD, MAP_SERVICES, key, key_of_frontend(&f, key), value,
                      sizeof(value));
}

static void value_in_a_set(struct nft_batch *batch)
{
    uint8_t key[KEY_SIZE], value[4] = {1};
    struct frontend f = case_frontend(case_family(batch), 5);
    nft_batch_element(batch, ELEMENT_ADD, SET_REJECTS, key, key_of_frontend(&f, key), value,
                      sizeof(value));
}

static void set_that_is_not_there(struct nft_batch *batch)
{
    const uint32_t key = 1;
    nft_batch_element(batch, ELEMENT_ADD, "nothing", &key, sizeof(key), NULL, 0);
}

static void rule_in_no_chain(struct nft_batch *batch)
{
    case_rule(batch, "nowhere", "reject");
}

static void jump_nowhere(struct nft_batch *batch)
{
    case_rule(batch, "dispatch", "jump nowhere");
}

static void lookup_of_nothing(struct nft_batch *batch)
{
    case_rule(batch, "dispatch", "meta priority vmap @nothing");
}

static void table_deleted_twice(struct nft_batch *batch)
{
    nft_batch_delete_table(batch);
    nft_batch_delete_table(batch);
}

static void table_made_anew(struct nft_batch *batch)
{
    nft_batch_delete_table(batch);
    case_table(batch);
    case_reject(batch, 99, 0);
}

static void table_that_is_there(struct nft_batch *batch)
{
    nft_batch_add_table(batch, "another comment is not taken");
}

/* Each begins with an element that is fine: rejecting frontend 99. */
static const struct kernel_case {
    void (*make)(struct nft_batch *batch);
    int why; /* errno; 0: it is taken */
    const char *object;
} kernel_cases[] = {
    {add_what_is_there, 0, NULL},
    {replace_a_backend, 0, NULL},
    {table_made_anew, 0, NULL},
    {table_that_is_there, 0, NULL},
    {add_another_count, EEXIST, "add elements to services"},
    {add_another_backend, EEXIST, "add elements to endpoints"},
    {delete_what_is_not_there, ENOENT, "delete elements of endpoints"},
    {delete_a_service_twice, ENOENT, "delete elements of services"},
    {goto_nowhere, ENOENT, "add elements to picks"},
    {short_key, EINVAL, "add elements to reject_frontends"},
    {long_key, EINVAL, "add elements to reject_frontends"},
    {no_value, EINVAL, "add elements to services"},
    {value_of_other_length, EINVAL, "add elements to services"},
    {value_in_a_set, EINVAL, "add elements to reject_frontends"},
    {set_that_is_not_there, ENOENT, "add elements to nothing"},
    {rule_in_no_chain, ENOENT, "add rule to chain nowhere"},
    {jump_nowhere, ENOENT, "add rule to chain dispatch"},
    {lookup_of_nothing, ENOENT, "add rule to chain dispatch"},
    {table_deleted_twice, ENOENT, "delete table kube-nftd"},
};
#define KERNEL_CASES (int)(sizeof(kernel_cases) / sizeof(kernel_cases[0]))

static void make_case(const struct kernel_case *which, struct nft_batch *batch)
{
    case_reject(batch, 99, 0);
    which->make(batch);
}

#endif
