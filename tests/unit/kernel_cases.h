/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Transactions and what the kernel says to them, for two tests: that of the real socket shows that
 * the kernel is like this, that of the fake kernel shows that it is like the kernel.
 */
#ifndef KUBE_NFTD_TESTS_KERNEL_CASES_H
#define KUBE_NFTD_TESTS_KERNEL_CASES_H

#include "kube-nftd/netlink/batch.h"
#include "ruleset/program.h"
#include "ruleset/record.h"

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

static struct backend case_backend(uint8_t number)
{
    return (struct backend){{{10, 0, 0, number}}, 8080};
}

static enum family case_family(const struct nft_batch *batch)
{
    return batch->nf_family == NFPROTO_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
}

/* An element of a map from frontends to numbers; deleted if @value is NULL. */
static void case_number(struct nft_batch *batch, const char *map, uint8_t number,
                        const uint32_t *value)
{
    struct frontend f = case_frontend(case_family(batch), number);
    struct key key = key_of_frontend(&f);
    nft_batch_element(batch, value ? ELEMENT_ADD : ELEMENT_DELETE, map, key.bytes, key.length,
                      value, value ? sizeof(*value) : 0);
}

/* P of a service port: each frontend leads to the one with its own number. */
static uint32_t case_port(uint8_t number)
{
    return (uint32_t)number << PORT_LOW_BITS;
}

/* P:class in services. */
static void case_service(struct nft_batch *batch, uint8_t number, const uint32_t *class)
{
    const uint32_t value = class ? case_port(number) | *class : 0;
    case_number(batch, set_name(SET_SERVICES), number, class ? &value : NULL);
}

/* An element of a map, or set, from service ports; deleted if @op says so. */
static void case_of_port(struct nft_batch *batch, enum nft_element_op op, const char *set,
                         uint32_t key, const uint32_t *value)
{
    nft_batch_element(batch, op, set, &key, sizeof(key), value, value ? sizeof(*value) : 0);
}

/* P:N in ports; deleted if @count is NULL. */
static void case_count(struct nft_batch *batch, uint8_t number, const uint32_t *count)
{
    const uint32_t value = count ? case_port(number) | *count : 0;
    case_of_port(batch, count ? ELEMENT_ADD : ELEMENT_DELETE, set_name(SET_PORTS),
                 case_port(number), count ? &value : NULL);
}

static void case_slot(struct nft_batch *batch, enum nft_element_op op, uint8_t number,
                      uint32_t slot, uint8_t backend_number)
{
    struct backend b = case_backend(backend_number);
    struct key key = key_of_slot(case_port(number), slot),
               value = value_of_backend(case_family(batch), &b);
    nft_batch_element(batch, op, set_name(SET_ENDPOINTS), key.bytes, key.length,
                      op == ELEMENT_ADD ? value.bytes : NULL, op == ELEMENT_ADD ? value.length : 0);
}

static void case_reject(struct nft_batch *batch, uint8_t number, int more_key_bytes)
{
    const uint32_t key[2] = {case_port(number), 0};
    nft_batch_element(batch, ELEMENT_ADD, set_name(SET_REJECTED), key,
                      sizeof(key[0]) + (size_t)more_key_bytes, NULL, 0);
}

/* An address that ends with @last; or the highest one there is. */
#define CASE_TOP 0x10000u
static struct key case_address(enum family family, uint32_t last)
{
    struct key key = {.length = address_length(family)};
    memset(key.bytes, last == CASE_TOP ? 0xff : 10, key.length);
    if (last != CASE_TOP) {
        key.bytes[key.length - 2] = (uint8_t)(last >> 8);
        key.bytes[key.length - 1] = (uint8_t)last;
    }
    return key;
}

/* A range of addresses in a set that may not be of that kind. */
static void case_range_of(struct nft_batch *batch, enum nft_element_op op, const char *set,
                          uint32_t first, uint32_t last)
{
    struct key a = case_address(case_family(batch), first),
               b = case_address(case_family(batch), last);
    nft_batch_range(batch, op, set, a.bytes, b.bytes, a.length);
}

static void case_range(struct nft_batch *batch, enum nft_element_op op, uint32_t first,
                       uint32_t last)
{
    case_range_of(batch, op, "service_cidrs", first, last);
}

/* A prefix in a list of sources: so many of an address's last bits do not count. */
static struct key case_source_key(enum family family, uint32_t list, uint32_t last, unsigned bits)
{
    struct key address = case_address(family, last);
    struct cidr prefix = {.length = (uint8_t)(8 * address.length - bits)};
    memcpy(prefix.address.bytes, address.bytes, address.length);
    return key_of_source(family, list, &prefix);
}

static void case_source(struct nft_batch *batch, enum nft_element_op op, uint32_t list,
                        uint32_t last, unsigned bits)
{
    struct key key = case_source_key(case_family(batch), list, last, bits);
    nft_batch_element(batch, op, "allowed_sources", key.bytes, key.length, NULL, 0);
}

/* Variables of a table that knows its pods by their addresses. */
static struct layout_vars case_vars(enum family family, unsigned n, uint32_t key)
{
    const bool v4 = family == FAMILY_IPV4;
    return (struct layout_vars){.family = family,
                                .mark = "0x4000",
                                .from_pod = v4 ? "ip saddr @pod_cidrs" : "ip6 saddr @pod_cidrs",
                                .not_from_pod =
                                    v4 ? "ip saddr != @pod_cidrs" : "ip6 saddr != @pod_cidrs",
                                .from_host = "fib saddr type local",
                                .reject = "reject",
                                .count_services = "",
                                .count_endpoints = "",
                                .n = n,
                                .key = key};
}

static void case_layout(struct nft_batch *batch, enum template_id id,
                        const struct layout_vars *vars)
{
    struct error err = {0};
    struct layout layout;
    int result = layout_parse(&templates[id], vars, &layout, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    result = program_layout(&layout, id == TEMPLATE_BASE ? PROGRAM_ALL : PROGRAM_WITHOUT_SETS,
                            batch, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    layout_free(&layout);
}

/* What a template adds for @n and the number @key. */
static void case_shape(struct nft_batch *batch, enum template_id id, unsigned n, uint32_t key)
{
    const struct layout_vars vars = case_vars(case_family(batch), n, key);
    case_layout(batch, id, &vars);
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

/* What is there before each case: frontend 1 with backends 1 and 2, service port 2 rejected, which
 * frontend 2 leads to; ranges 10 to 19 and 50 to the top in service_cidrs; 12 to 15 in list 1 of
 * allowed_sources. */
static void case_table(struct nft_batch *batch)
{
    const uint32_t plain = 0, two = 2;
    nft_batch_add_table(batch, "of a test");
    case_shape(batch, TEMPLATE_BASE, 0, 0);
    case_shape(batch, TEMPLATE_PICK, 2, 2);
    case_slot(batch, ELEMENT_ADD, 1, 0, 1);
    case_slot(batch, ELEMENT_ADD, 1, 1, 2);
    case_count(batch, 1, &two);
    case_service(batch, 1, &plain);
    case_reject(batch, 2, 0);
    case_service(batch, 2, &plain);
    case_range(batch, ELEMENT_ADD, 10, 19);
    case_range(batch, ELEMENT_ADD, 50, CASE_TOP);
    case_source(batch, ELEMENT_ADD, 1, 12, 2);
}

/* ---- the cases ---- */

static void add_what_is_there(struct nft_batch *batch)
{
    const uint32_t plain = 0, two = 2;
    case_service(batch, 1, &plain);
    case_count(batch, 1, &two);
    case_slot(batch, ELEMENT_ADD, 1, 0, 1);
    case_reject(batch, 2, 0);
}

static void add_another_class(struct nft_batch *batch)
{
    const uint32_t external = CLASS_EXTERNAL;
    case_service(batch, 1, &external);
}

static void add_another_count(struct nft_batch *batch)
{
    const uint32_t one = 1;
    case_count(batch, 1, &one);
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
    nft_batch_goto_element(batch, "picks", &key, sizeof(key), "pick-77");
}

static void short_key(struct nft_batch *batch)
{
    case_reject(batch, 5, -2);
}

static void long_key(struct nft_batch *batch)
{
    case_reject(batch, 5, 4);
}

static void no_value(struct nft_batch *batch)
{
    case_of_port(batch, ELEMENT_ADD, set_name(SET_PORTS), case_port(5), NULL);
}

static void value_of_other_length(struct nft_batch *batch)
{
    const uint8_t value[8] = {1};
    struct frontend f = case_frontend(case_family(batch), 5);
    struct key key = key_of_frontend(&f);
    nft_batch_element(batch, ELEMENT_ADD, set_name(SET_SERVICES), key.bytes, key.length, value,
                      sizeof(value));
}

static void value_in_a_set(struct nft_batch *batch)
{
    const uint32_t value = 1;
    case_of_port(batch, ELEMENT_ADD, set_name(SET_REJECTED), case_port(5), &value);
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

/* A rule about the frontend that a packet is for. */
static void case_frontend_rule(struct nft_batch *batch, const char *format)
{
    const char *ip = case_family(batch) == FAMILY_IPV4 ? "ip" : "ip6";
    char *frontend = xasprintf("%s daddr . meta l4proto . th dport", ip);
    char text[128];
    const char *at = strchr(format, 'F');
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - format), format, frontend, at + 1);
    case_rule(batch, "dispatch", text);
    free(frontend);
}

static void verdict_of_a_data_map(struct nft_batch *batch)
{
    case_frontend_rule(batch, "F vmap @services");
}

static void value_of_a_set(struct nft_batch *batch)
{
    case_rule(batch, "dispatch", "meta priority set meta priority map @rejected_ports");
}

static void map_as_a_set(struct nft_batch *batch)
{
    case_frontend_rule(batch, "F @services");
}

static void record_in_nothing(struct nft_batch *batch)
{
    case_frontend_rule(batch, "delete @nothing { F : meta priority }");
}

static void record_in_a_set(struct nft_batch *batch)
{
    case_rule(batch, "dispatch", "delete @rejected_ports { meta priority : meta priority }");
}

static void record_in_a_verdict_map(struct nft_batch *batch)
{
    case_frontend_rule(batch, "delete @picks { F : meta priority }");
}

static void record_with_a_timeout_in_a_plain_map(struct nft_batch *batch)
{
    case_frontend_rule(batch, "update @services { F timeout 10s : meta priority }");
}

/* ---- ranges of single fields ---- */

static void ranges_that_are_there(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 10, 19);
    case_range(batch, ELEMENT_ADD, 50, CASE_TOP);
}

static void ranges_side_by_side(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 20, 29);
    case_range(batch, ELEMENT_ADD, 5, 9);
    case_range(batch, ELEMENT_ADD, 30, 30);
    case_range(batch, ELEMENT_ADD, 40, 49);
    case_range(batch, ELEMENT_ADD, 31, 39);
}

static void range_with_the_same_start(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 10, 19);
    case_range(batch, ELEMENT_ADD, 10, 29);
}

static void range_around_the_old_one(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 10, 19);
    case_range(batch, ELEMENT_ADD, 5, 25);
}

static void range_that_goes_and_comes(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 10, 19);
    case_range(batch, ELEMENT_ADD, 10, 19);
}

static void range_split(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 10, 19);
    case_range(batch, ELEMENT_ADD, 10, 14);
    case_range(batch, ELEMENT_ADD, 15, 19);
}

static void range_added_and_deleted(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 20, 29);
    case_range(batch, ELEMENT_DELETE, 20, 29);
}

static void range_to_the_top_replaced(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 50, CASE_TOP);
    case_range(batch, ELEMENT_ADD, 50, 99);
    case_range(batch, ELEMENT_ADD, 100, CASE_TOP);
}

static void range_inside_another(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 12, 15);
}

static void range_around_another(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 5, 25);
}

static void range_over_the_start(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 5, 12);
}

static void range_over_the_end(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 15, 25);
}

static void longer_range(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 10, 25);
}

static void shorter_range(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 10, 15);
}

static void range_below_the_top(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 60, 70);
}

static void add_before_delete(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_ADD, 10, 25);
    case_range(batch, ELEMENT_DELETE, 10, 19);
}

static void delete_no_range(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 30, 39);
}

static void delete_a_range_twice(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 10, 19);
    case_range(batch, ELEMENT_DELETE, 10, 19);
}

static void delete_with_another_start(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 11, 19);
}

static void delete_with_another_end(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 10, 18);
}

static void delete_less_than_the_top(struct nft_batch *batch)
{
    case_range(batch, ELEMENT_DELETE, 50, 99);
}

static void range_in_a_plain_set(struct nft_batch *batch)
{
    case_range_of(batch, ELEMENT_ADD, "cluster_ips", 10, 19);
}

/* ---- tables ---- */

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

/* Each begins with an element that is fine: rejecting service port 99. */
static const struct kernel_case {
    void (*make)(struct nft_batch *batch);
    int why; /* errno; 0: it is taken */
    const char *object;
} kernel_cases[] = {
    {add_what_is_there, 0, NULL},
    {replace_a_backend, 0, NULL},
    {table_made_anew, 0, NULL},
    {table_that_is_there, 0, NULL},
    {map_as_a_set, 0, NULL},
    {ranges_that_are_there, 0, NULL},
    {ranges_side_by_side, 0, NULL},
    {range_with_the_same_start, 0, NULL},
    {range_around_the_old_one, 0, NULL},
    {range_that_goes_and_comes, 0, NULL},
    {range_split, 0, NULL},
    {range_added_and_deleted, 0, NULL},
    {range_to_the_top_replaced, 0, NULL},
    {add_another_class, EEXIST, "add elements to services"},
    {add_another_count, EEXIST, "add elements to ports"},
    {add_another_backend, EEXIST, "add elements to endpoints"},
    {delete_what_is_not_there, ENOENT, "delete elements of endpoints"},
    {delete_a_service_twice, ENOENT, "delete elements of services"},
    {goto_nowhere, ENOENT, "add elements to picks"},
    {short_key, EINVAL, "add elements to rejected_ports"},
    {long_key, EINVAL, "add elements to rejected_ports"},
    {no_value, EINVAL, "add elements to ports"},
    {value_of_other_length, EINVAL, "add elements to services"},
    {value_in_a_set, EINVAL, "add elements to rejected_ports"},
    {set_that_is_not_there, ENOENT, "add elements to nothing"},
    {rule_in_no_chain, ENOENT, "add rule to chain nowhere"},
    {jump_nowhere, ENOENT, "add rule to chain dispatch"},
    {lookup_of_nothing, ENOENT, "add rule to chain dispatch"},
    {verdict_of_a_data_map, EINVAL, "add rule to chain dispatch"},
    {value_of_a_set, EINVAL, "add rule to chain dispatch"},
    {record_in_nothing, ENOENT, "add rule to chain dispatch"},
    {record_in_a_set, EOPNOTSUPP, "add rule to chain dispatch"},
    {record_in_a_verdict_map, EOPNOTSUPP, "add rule to chain dispatch"},
    {record_with_a_timeout_in_a_plain_map, EOPNOTSUPP, "add rule to chain dispatch"},
    {range_inside_another, EEXIST, "add elements to service_cidrs"},
    {range_around_another, EEXIST, "add elements to service_cidrs"},
    {range_over_the_start, EEXIST, "add elements to service_cidrs"},
    {range_over_the_end, EEXIST, "add elements to service_cidrs"},
    {longer_range, EEXIST, "add elements to service_cidrs"},
    {shorter_range, EEXIST, "add elements to service_cidrs"},
    {range_below_the_top, EEXIST, "add elements to service_cidrs"},
    {add_before_delete, EEXIST, "add elements to service_cidrs"},
    {delete_no_range, ENOENT, "delete elements of service_cidrs"},
    {delete_a_range_twice, ENOENT, "delete elements of service_cidrs"},
    {delete_with_another_start, ENOENT, "delete elements of service_cidrs"},
    {delete_with_another_end, ENOENT, "delete elements of service_cidrs"},
    {delete_less_than_the_top, ENOENT, "delete elements of service_cidrs"},
    {range_in_a_plain_set, EINVAL, "add elements to cluster_ips"},
    {table_deleted_twice, ENOENT, "delete table kube-nftd"},
};
#define KERNEL_CASES (int)(sizeof(kernel_cases) / sizeof(kernel_cases[0]))

static inline void make_case(const struct kernel_case *which, struct nft_batch *batch)
{
    case_reject(batch, 99, 0);
    which->make(batch);
}

#endif
