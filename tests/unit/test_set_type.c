/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Types, lengths and user data of the sets. The bytes are those that nft 1.0.6 writes for the same
 * declarations: with others, some version of nft cannot list the table or crashes.
 */
#include "unit.h"

#include "kube-nftd/ruleset/program.h"

#include <libnftnl/set.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#define TYPE_VERDICT 0xffffff00u

struct expected {
    const char *name;
    uint32_t flags, key_type, key_length, data_type, data_length;
    const char *user_data; /* of hosts with the lower byte first */
};

static const struct expected sets[FAMILY_COUNT][4] = {
    {{"services", NFT_SET_MAP, 0x730d, 12, 0x17, 4,
      "000400000000010401000000030800040d0000000100060400000000"},
     {"endpoints", NFT_SET_MAP, 0x1cc344, 16, 0x1cd, 8,
      "000400000000010400000000036000040d00000001580014000407000000010c00040c00000001040c000000010e"
      "0004090000000106000410000000021400040700000001"
      "0c00040b000000010402000000031a0004170000000112000401000000010401000000020400000000043400040d"
      "000000012c0014000407000000010c00040c00000001040c0000000114000407000000010c00040b000000010402"
      "000000060400000000"},
     {"picks", NFT_SET_MAP, 0x17, 4, TYPE_VERDICT, 0, "000401000000010400000000060400000000"},
     {"reject_frontends", 0, 0x730d, 12, 0, 0, "000400000000030800040d0000000100"}},
    {{"services", NFT_SET_MAP, 0x830d, 24, 0x17, 4,
      "000400000000010401000000030800040d0000000100060400000000"},
     {"endpoints", NFT_SET_MAP, 0x20c344, 28, 0x20d, 20,
      "000400000000010400000000036000040d00000001580014000407000000010c00040d000000010409000000010e"
      "00040900000001060004100000000214000407000000010c00040b000000010402000000031a0004170000000112"
      "000401000000010401000000020400000000043400040d000000012c0014000407000000010c00040d0000000104"
      "090000000114000407000000010c00040b000000010402000000060400000000"},
     {"picks", NFT_SET_MAP, 0x17, 4, TYPE_VERDICT, 0, "000401000000010400000000060400000000"},
     {"reject_frontends", 0, 0x830d, 24, 0, 0, "000400000000030800040d0000000100"}}};

static void check_user_data(const struct nftnl_set *set, const char *hex)
{
    uint32_t length = 0;
    const uint8_t *bytes = nftnl_set_get_data(set, NFTNL_SET_USERDATA, &length);
    char text[1024] = "";
    ck_assert_uint_lt(2 * length, sizeof(text));
    for (uint32_t i = 0; i < length; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", bytes[i]);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    ck_assert_str_eq(text, hex);
#else
    ck_assert_uint_eq(strlen(text), strlen(hex));
#endif
}

static void check_set(const struct layout_set *layout, const struct expected *expected)
{
    struct error err = {0};
    struct nftnl_set *set = nftnl_set_alloc();
    ck_assert_str_eq(layout->name, expected->name);
    ck_assert_int_eq(set_declare(layout, set, &err), 0);
    ck_assert_ptr_null(err.text);
    ck_assert_uint_eq(nftnl_set_get_u32(set, NFTNL_SET_FLAGS), expected->flags);
    ck_assert_uint_eq(nftnl_set_get_u32(set, NFTNL_SET_KEY_TYPE), expected->key_type);
    ck_assert_uint_eq(nftnl_set_get_u32(set, NFTNL_SET_KEY_LEN), expected->key_length);
    ck_assert_int_eq(nftnl_set_is_set(set, NFTNL_SET_DATA_TYPE), expected->data_type != 0);
    if (expected->data_type)
        ck_assert_uint_eq(nftnl_set_get_u32(set, NFTNL_SET_DATA_TYPE), expected->data_type);
    if (expected->data_length) /* the kernel does not look at the length of a verdict */
        ck_assert_uint_eq(nftnl_set_get_u32(set, NFTNL_SET_DATA_LEN), expected->data_length);
    check_user_data(set, expected->user_data);
    nftnl_set_free(set);
}

START_TEST(sets_of_the_base_template)
{
    struct error err = {0};
    struct layout layout;
    ck_assert_int_eq(layout_parse(nft_template_base, "base.nft", (enum family)_i, 0, &layout, &err),
                     0);
    ck_assert_uint_eq(layout.sets.n, 4);
    for (size_t i = 0; i < 4; i++)
        check_set(&layout.sets.v[i], &sets[_i][i]);
    layout_free(&layout);
}
END_TEST

static const struct {
    const char *declaration;
    struct expected expected;
} single[] = {
    {"type ipv4_addr", {"one", 0, 7, 4, 0, 0, "000402000000"}},
    {"type ipv6_addr", {"one", 0, 8, 16, 0, 0, "000402000000"}},
    {"type inet_service", {"one", 0, 13, 2, 0, 0, "000402000000"}},
    {"typeof meta l4proto",
     {"one", 0, 12, 1, 0, 0, "000401000000030e0004090000000106000410000000"}},
};

START_TEST(set_of_a_single_type)
{
    char *declaration = xstrdup(single[_i].declaration), name[] = "one";
    struct layout_set layout = {.name = name, .declaration = declaration};
    check_set(&layout, &single[_i].expected);
    free(declaration);
}
END_TEST

static const struct {
    const char *declaration;
    bool is_map;
    const char *error;
} broken[] = {
    {"type ipv4_address", false, "unknown type: ipv4_address"},
    {"type ipv4_addr . nonsense . inet_service", false, "unknown type: nonsense"},
    {"type ipv4_addr : nonsense", true, "unknown type: nonsense"},
    {"type ipv4_addr . ", false, "a type is missing"},
    {"type ipv4_addr .  . inet_proto", false, "a type is missing"},
    {"type ipv4_addr", true, "a map needs 'KEY : VALUE'"},
    {"type ipv4_addr : classid", false, "a set has no value"},
    {"type ipv4_addr : ", true, "a type is missing"},
    {"type ", false, "a type is missing"},
    {"type  : classid", true, "a type is missing"},
    {"type classid . classid . classid . classid . classid . classid", false,
     "unknown type: classid"},
};

START_TEST(broken_declaration)
{
    struct error err = {0};
    char *declaration = xstrdup(broken[_i].declaration), name[] = "broken";
    struct layout_set layout = {
        .name = name, .declaration = declaration, .is_map = broken[_i].is_map};
    struct nftnl_set *set = nftnl_set_alloc();
    ck_assert_int_eq(set_declare(&layout, set, &err), -1);
    ck_assert_str_eq(err.text, broken[_i].error);
    error_clear(&err);
    nftnl_set_free(set);
    free(declaration);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, sets_of_the_base_template, 0, FAMILY_COUNT);
    tcase_add_loop_test(tcase, set_of_a_single_type, 0, sizeof(single) / sizeof(single[0]));
    tcase_add_loop_test(tcase, broken_declaration, 0, sizeof(broken) / sizeof(broken[0]));
}

UNIT_MAIN("set_type", add_tests)
