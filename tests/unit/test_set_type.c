/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Types, lengths and user data of the sets. The bytes are those that nft 1.0.6 writes for the same
 * declarations: with others, some version of nft cannot list the table or crashes.
 */
#include "unit.h"

#include "ruleset/program.h"

#include <libnftnl/set.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#define TYPE_VERDICT 0xffffff00u

struct expected {
    const char *name;
    uint32_t flags, key_type, key_length, data_type, data_length, size;
    const char *fields;    /* their lengths, where each can be a range */
    const char *user_data; /* of hosts with the lower byte first */
};

#define CONCAT_TO_ONE "000400000000010401000000030800040d0000000100060400000000"
#define ONE_TO_CONCAT "000401000000010400000000040800040d0000000100060400000000"
#define CLASSID_TO_VERDICT "000401000000010400000000060400000000"
#define CONCAT "000400000000030800040d0000000100"
#define ONE "000402000000"
#define ONE_TO_ONE "000401000000010401000000060400000000"
#define CLASSID "000401000000"
/* meta priority . numgen random mod 1 */
#define SLOT                                                                                       \
    "000400000000010400000000033400040d000000012c000e0004090000000106000402000000011a000417000000" \
    "0112000401000000010401000000020400000000"
static const char endpoints4[] =
    SLOT "043400040d000000012c0014000407000000010c00040c00000001040c0000000114000407000000010c0004"
         "0b000000010402000000060400000000";
static const char endpoints6[] =
    SLOT "043400040d000000012c0014000407000000010c00040d0000000104090000000114000407000000010c0004"
         "0b000000010402000000060400000000";

#define MAP NFT_SET_MAP
#define RANGES NFT_SET_INTERVAL
#define DYNAMIC (NFT_SET_MAP | NFT_SET_EVAL | NFT_SET_TIMEOUT)
#define SETS 23

static const struct expected sets[FAMILY_COUNT][SETS] = {
    {
        {"services", MAP, 0x730d, 12, 0x17, 4, 0, "", CONCAT_TO_ONE},
        {"ports", MAP, 0x17, 4, 0x17, 4, 0, "", ONE_TO_ONE},
        {"local_ports", MAP, 0x17, 4, 0x17, 4, 0, "", ONE_TO_ONE},
        {"endpoints", MAP, 0x5c4, 8, 0x1cd, 8, 0, "", endpoints4},
        {"local_endpoints", MAP, 0x5c4, 8, 0x1cd, 8, 0, "", endpoints4},
        {"picks", MAP, 0x17, 4, TYPE_VERDICT, 0, 0, "", CLASSID_TO_VERDICT},
        {"local_picks", MAP, 0x17, 4, TYPE_VERDICT, 0, 0, "", CLASSID_TO_VERDICT},
        {"affinity", DYNAMIC, 0x5c7, 8, 0x17, 4, 1048576, "", CONCAT_TO_ONE},
        {"affinity_backends", MAP, 0x17, 4, 0x1cd, 8, 0, "", ONE_TO_CONCAT},
        {"local_affinity_backends", MAP, 0x17, 4, 0x1cd, 8, 0, "", ONE_TO_CONCAT},
        {"affinity_numbers", MAP, 0x171cd, 12, 0x17, 4, 0, "", CONCAT_TO_ONE},
        {"affinity_timeouts", MAP, 0x17, 4, 0x17, 4, 0, "", ONE_TO_ONE},
        {"learners", MAP, 0x17, 4, TYPE_VERDICT, 0, 0, "", CLASSID_TO_VERDICT},
        {"service_connections", NFT_SET_EVAL, 0x17, 4, 0, 0, 0, "", CLASSID},
        {"endpoint_connections", NFT_SET_EVAL, 0x171cd, 12, 0, 0, 0, "", CONCAT},
        {"rejected_ports", 0, 0x17, 4, 0, 0, 0, "", CLASSID},
        {"dropped_ports", 0, 0x17, 4, 0, 0, 0, "", CLASSID},
        {"restricted", MAP, 0x730d, 12, 0x17, 4, 0, "", CONCAT_TO_ONE},
        {"allowed_sources", 0, 0x1d7, 8, 0, 0, 0, "", CONCAT},
        {"hairpin", 0, 0x1c730d, 16, 0, 0, 0, "", CONCAT},
        {"cluster_ips", 0, 0x7, 4, 0, 0, 0, "", ONE},
        {"service_cidrs", RANGES, 0x7, 4, 0, 0, 0, "", ONE},
        {"pod_cidrs", RANGES, 0x7, 4, 0, 0, 0, "", ONE},
    },
    {
        {"services", MAP, 0x830d, 24, 0x17, 4, 0, "", CONCAT_TO_ONE},
        {"ports", MAP, 0x17, 4, 0x17, 4, 0, "", ONE_TO_ONE},
        {"local_ports", MAP, 0x17, 4, 0x17, 4, 0, "", ONE_TO_ONE},
        {"endpoints", MAP, 0x5c4, 8, 0x20d, 20, 0, "", endpoints6},
        {"local_endpoints", MAP, 0x5c4, 8, 0x20d, 20, 0, "", endpoints6},
        {"picks", MAP, 0x17, 4, TYPE_VERDICT, 0, 0, "", CLASSID_TO_VERDICT},
        {"local_picks", MAP, 0x17, 4, TYPE_VERDICT, 0, 0, "", CLASSID_TO_VERDICT},
        {"affinity", DYNAMIC, 0x5c8, 20, 0x17, 4, 1048576, "", CONCAT_TO_ONE},
        {"affinity_backends", MAP, 0x17, 4, 0x20d, 20, 0, "", ONE_TO_CONCAT},
        {"local_affinity_backends", MAP, 0x17, 4, 0x20d, 20, 0, "", ONE_TO_CONCAT},
        {"affinity_numbers", MAP, 0x1720d, 24, 0x17, 4, 0, "", CONCAT_TO_ONE},
        {"affinity_timeouts", MAP, 0x17, 4, 0x17, 4, 0, "", ONE_TO_ONE},
        {"learners", MAP, 0x17, 4, TYPE_VERDICT, 0, 0, "", CLASSID_TO_VERDICT},
        {"service_connections", NFT_SET_EVAL, 0x17, 4, 0, 0, 0, "", CLASSID},
        {"endpoint_connections", NFT_SET_EVAL, 0x1720d, 24, 0, 0, 0, "", CONCAT},
        {"rejected_ports", 0, 0x17, 4, 0, 0, 0, "", CLASSID},
        {"dropped_ports", 0, 0x17, 4, 0, 0, 0, "", CLASSID},
        {"restricted", MAP, 0x830d, 24, 0x17, 4, 0, "", CONCAT_TO_ONE},
        {"allowed_sources", 0, 0x217, 20, 0, 0, 0, "", CONCAT},
        {"hairpin", 0, 0x20830d, 40, 0, 0, 0, "", CONCAT},
        {"cluster_ips", 0, 0x8, 16, 0, 0, 0, "", ONE},
        {"service_cidrs", RANGES, 0x8, 16, 0, 0, 0, "", ONE},
        {"pod_cidrs", RANGES, 0x8, 16, 0, 0, 0, "", ONE},
    }};

static void check_user_data(const struct nftnl_set *set, const char *hex)
{
    uint32_t length = 0;
    const uint8_t *bytes = nftnl_set_get_data(set, NFTNL_SET_USERDATA, &length);
    char text[1024] = "";
    ck_assert_uint_lt(2 * (size_t)length, sizeof(text));
    for (uint32_t i = 0; i < length; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", bytes[i]);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    ck_assert_str_eq(text, hex);
#else
    ck_assert_uint_eq(strlen(text), strlen(hex));
#endif
}

static void check_fields(const struct nftnl_set *set, const char *fields)
{
    uint32_t length = 0;
    const uint8_t *bytes = nftnl_set_get_data(set, NFTNL_SET_DESC_CONCAT, &length);
    char text[64] = "";
    ck_assert_uint_lt(4 * (size_t)length, sizeof(text));
    for (uint32_t i = 0; bytes && i < length; i++)
        sprintf(text + strlen(text), "%u ", bytes[i]);
    ck_assert_str_eq(text, fields);
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
    ck_assert_int_eq(nftnl_set_is_set(set, NFTNL_SET_DESC_SIZE), expected->size != 0);
    if (expected->size)
        ck_assert_uint_eq(nftnl_set_get_u32(set, NFTNL_SET_DESC_SIZE), expected->size);
    check_fields(set, expected->fields);
    check_user_data(set, expected->user_data);
    nftnl_set_free(set);
}

EACH_FAMILY(sets_of_the_base_template)
{
    struct error err = {0};
    struct layout layout;
    const struct layout_vars vars = {.family = (enum family)_i};
    ck_assert_int_eq(layout_parse(&templates[TEMPLATE_BASE], &vars, &layout, &err), 0);
    ck_assert_uint_eq(layout.sets.n, SETS);
    for (size_t i = 0; i < SETS; i++)
        check_set(&layout.sets.v[i], &sets[_i][i]);
    layout_free(&layout);
}

static const struct {
    const char *declaration, *flags;
    struct expected expected;
} single[] = {
    {"type ipv4_addr", NULL, {"one", 0, 7, 4, 0, 0, 0, "", ONE}},
    {"type ipv6_addr", NULL, {"one", 0, 8, 16, 0, 0, 0, "", ONE}},
    {"type inet_service", "interval", {"one", RANGES, 13, 2, 0, 0, 0, "", ONE}},
    {"type inet_service", "timeout", {"one", NFT_SET_TIMEOUT, 13, 2, 0, 0, 0, "", ONE}},
    {"typeof meta l4proto",
     NULL,
     {"one", 0, 12, 1, 0, 0, 0, "", "000401000000030e0004090000000106000410000000"}},
};

TEST_ROWS(set_of_a_single_type, single)
{
    char *declaration = xstrdup(row->declaration), name[] = "one";
    char *flags = xstrdup(row->flags);
    struct layout_set layout = {.name = name, .declaration = declaration, .flags = flags};
    check_set(&layout, &row->expected);
    free(declaration);
    free(flags);
}

static const struct {
    const char *declaration, *flags;
    bool is_map;
    const char *error;
} broken[] = {
    {"type ipv4_address", NULL, false, "unknown type: ipv4_address"},
    {"type ipv4_addr . nonsense . inet_service", NULL, false, "unknown type: nonsense"},
    {"type ipv4_addr : nonsense", NULL, true, "unknown type: nonsense"},
    {"type ipv4_addr . ", NULL, false, "a type is missing"},
    {"type ipv4_addr .  . inet_proto", NULL, false, "a type is missing"},
    {"type ipv4_addr", NULL, true, "a map needs 'KEY : VALUE'"},
    {"type ipv4_addr : classid", NULL, false, "a set has no value"},
    {"type ipv4_addr : ", NULL, true, "a type is missing"},
    {"type ", NULL, false, "a type is missing"},
    {"type  : classid", NULL, true, "a type is missing"},
    {"type classid . classid . classid . classid . classid . classid", NULL, false,
     "unknown type: classid"},
    {"type ipv4_addr", "intervals", false, "unknown flag: intervals"},
    {"type ipv4_addr", "interval,", false, "unknown flag: "},
    {"type ipv4_addr", "interval, timeout", false, "unknown flag:  timeout"},
    {"type ipv4_addr", "", false, "unknown flag: "},
};

TEST_ROWS(broken_declaration, broken)
{
    struct error err = {0};
    char *declaration = xstrdup(row->declaration), *flags = xstrdup(row->flags);
    char name[] = "broken";
    struct layout_set layout = {
        .name = name, .declaration = declaration, .flags = flags, .is_map = row->is_map};
    struct nftnl_set *set = nftnl_set_alloc();
    ck_assert_int_eq(set_declare(&layout, set, &err), -1);
    ck_assert_str_eq(err.text, row->error);
    error_clear(&err);
    nftnl_set_free(set);
    free(declaration);
    free(flags);
}
