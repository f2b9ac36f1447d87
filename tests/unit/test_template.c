/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The templates: what is read from them, what is refused and where, and that each of their rules
 * is made of phrases that are known. */
#include "unit.h"

#include "kube-nftd/ruleset/template.h"
#include "ruleset/program.h"

#include <ctype.h>
#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

#define TEXT_SIZE 1024

/* A configuration in which every variable has a value. */
static struct layout_vars all_vars(enum family family)
{
    bool v4 = family == FAMILY_IPV4;
    return (struct layout_vars){.family = family,
                                .mark = "0x4000",
                                .from_pod = v4 ? "ip saddr @pod_cidrs" : "ip6 saddr @pod_cidrs",
                                .not_from_pod =
                                    v4 ? "ip saddr != @pod_cidrs" : "ip6 saddr != @pod_cidrs",
                                .from_host = "fib saddr type local",
                                .reject = "reject",
                                .n = 7,
                                .key = 7};
}

static void parse_with(const char *text, const struct layout_vars *vars, struct layout *layout)
{
    const struct template from = {"t.nft", text};
    struct error err = {0};
    ck_assert_msg(layout_parse(&from, vars, layout, &err) == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
    ck_assert_str_eq(layout->file, "t.nft");
    ck_assert_int_eq(layout->family, vars->family);
}

static void parse(const char *text, enum family family, struct layout *layout)
{
    struct layout_vars vars = all_vars(family);
    parse_with(text, &vars, layout);
}

static const struct layout_set *find_set(const struct layout *layout, const char *name)
{
    vec_each (&layout->sets, set)
        if (strcmp(set->name, name) == 0)
            return set;
    ck_abort_msg("no set %s", name);
    return NULL;
}

static const struct layout_chain *find_chain(const struct layout *layout, const char *name)
{
    vec_each (&layout->chains, chain)
        if (strcmp(chain->name, name) == 0)
            return chain;
    ck_abort_msg("no chain %s", name);
    return NULL;
}

/* ---- the real templates ---- */

EACH_FAMILY(base_template)
{
    enum family family = (enum family)_i;
    struct layout layout;
    parse(templates[TEMPLATE_BASE].text, family, &layout);
    ck_assert(find_set(&layout, "services")->is_map);
    ck_assert(!find_set(&layout, "rejected_ports")->is_map);
    ck_assert_str_eq(find_set(&layout, "services")->declaration,
                     family == FAMILY_IPV4
                         ? "type ipv4_addr . inet_proto . inet_service : classid"
                         : "type ipv6_addr . inet_proto . inet_service : classid");
    ck_assert_ptr_null(find_set(&layout, "services")->flags);
    ck_assert_uint_eq(find_set(&layout, "services")->size, 0);
    ck_assert_str_eq(find_set(&layout, "pod_cidrs")->flags, "interval");
    ck_assert_str_eq(find_set(&layout, "affinity")->flags, "dynamic,timeout");
    ck_assert_uint_eq(find_set(&layout, "affinity")->size, 1048576);
    ck_assert_uint_eq(find_set(&layout, "picks")->verdicts.n, 0);

    const struct layout_chain *chain = find_chain(&layout, "nat-output");
    ck_assert_str_eq(chain->hook_text, "type nat hook output priority -100;");
    ck_assert_str_eq(chain->type, "nat");
    ck_assert_str_eq(chain->hook, "output");
    ck_assert_int_eq(chain->priority, -100);
    ck_assert_uint_eq(chain->rules.n, 1);
    ck_assert_str_eq(chain->rules.v[0].text, "jump dispatch");
    chain = find_chain(&layout, "dispatch");
    ck_assert_ptr_null(chain->hook_text);
    ck_assert_ptr_null(chain->hook);
    layout_free(&layout);
}

/* What each of the others adds, with the variables of all_vars(). */
static const struct {
    enum template_id id;
    const char *file, *map, *chain;
    size_t rules;
    const char *last;
} added[] = {
    {TEMPLATE_PICK, "pick.nft", "picks", "pick-7", 1, NULL},
    {TEMPLATE_LOCAL_PICK, "local-pick.nft", "local_picks", "local-pick-7", 1, NULL},
    {TEMPLATE_LEARN, "learn.nft", "learners", "learn-7", 4, "meta priority set 0"},
};

/* Chains with a hook cost every packet something. */
TESTS(hooks_that_come_with_what_needs_them, 3)
{
    static const struct {
        enum template_id id;
        const char *file, *chain;
        size_t hooks;
    } once[] = {{TEMPLATE_BASE, "base.nft", "dispatch", 6},
                {TEMPLATE_SOURCE_RANGES, "source-ranges.nft", "source-ranges", 2},
                {TEMPLATE_AFFINITY, "affinity.nft", "learn", 2}};
    struct layout layout;
    ck_assert_str_eq(templates[once[_i].id].file, once[_i].file);
    parse(templates[once[_i].id].text, FAMILY_IPV4, &layout);
    ck_assert_ptr_null(find_chain(&layout, once[_i].chain)->hook);
    size_t hooks = 0;
    vec_each (&layout.chains, chain)
        hooks += chain->hook != NULL;
    ck_assert_uint_eq(hooks, once[_i].hooks);
    layout_free(&layout);
}

TEST_ROWS(templates_of_shapes, added)
{
    struct layout layout;
    ck_assert_str_eq(templates[row->id].file, row->file);
    parse(templates[row->id].text, FAMILY_IPV6, &layout);
    const struct layout_set *map = find_set(&layout, row->map);
    ck_assert_uint_eq(layout.sets.n, 1);
    ck_assert_uint_eq(map->verdicts.n, 1);
    ck_assert_uint_eq(map->verdicts.v[0].key, 7);
    ck_assert_str_eq(map->verdicts.v[0].chain, row->chain);
    const struct layout_chain *chain = find_chain(&layout, row->chain);
    ck_assert_uint_eq(layout.chains.n, 1);
    ck_assert_uint_eq(chain->rules.n, row->rules);
    if (row->last)
        ck_assert_str_eq(chain->rules.v[chain->rules.n - 1].text, row->last);
    layout_free(&layout);
}

/* They declare the same verdict maps as the base does, or would not fit it. */
EACH_FAMILY(templates_agree)
{
    struct layout base, other;
    parse(templates[TEMPLATE_BASE].text, (enum family)_i, &base);
    for (int id = TEMPLATE_BASE + 1; id < TEMPLATE_COUNT; id++) {
        parse(templates[id].text, (enum family)_i, &other);
        vec_each (&other.sets, set)
            ck_assert_str_eq(find_set(&base, set->name)->declaration, set->declaration);
        layout_free(&other);
    }
    layout_free(&base);
}

/* The rules of a chain of the base, one behind the other. */
static void check_rules(const struct layout_vars *vars, const char *chain, const char *expected)
{
    struct layout layout;
    char got[TEXT_SIZE] = "";
    parse_with(templates[TEMPLATE_BASE].text, vars, &layout);
    vec_each (&find_chain(&layout, chain)->rules, rule) {
        strcat(got, *got ? "; " : "");
        strcat(got, rule->text);
    }
    ck_assert_str_eq(got, expected);
    layout_free(&layout);
}

#define PORT_BEGIN "meta priority and 0:7 != 0 goto special; "
#define PORT_END                                                                                   \
    "meta priority set meta priority map @ports meta priority and 0:7fff vmap @picks; "            \
    "meta priority set 0"
#define SPECIAL_BEGIN "meta priority and 0:1 != 0 goto external; "
#define SPECIAL_END "meta priority and 0:2 != 0 goto local-pick; goto pick"
#define MARK "meta mark set meta mark or 0x4000"

TEST(what_the_configuration_leaves_out)
{
    struct layout_vars vars = all_vars(FAMILY_IPV4);
    check_rules(&vars, "external-local",
                "ip saddr @pod_cidrs goto pick; fib saddr type local " MARK
                " goto pick; goto local-pick");
    check_rules(&vars, "port", PORT_BEGIN "ip saddr != @pod_cidrs " MARK "; " PORT_END);
    check_rules(&vars, "special", SPECIAL_BEGIN "ip saddr != @pod_cidrs " MARK "; " SPECIAL_END);
    vars.from_host = NULL;
    check_rules(&vars, "external-local", "ip saddr @pod_cidrs goto pick; goto local-pick");
    vars.from_pod = vars.not_from_pod = NULL; /* no detector */
    check_rules(&vars, "external-local", "goto local-pick");
    check_rules(&vars, "port", PORT_BEGIN PORT_END);
    check_rules(&vars, "special", SPECIAL_BEGIN SPECIAL_END);
    vars.not_from_pod = ""; /* everything is masqueraded */
    check_rules(&vars, "port", PORT_BEGIN MARK "; " PORT_END);
    check_rules(&vars, "special", SPECIAL_BEGIN MARK "; " SPECIAL_END);
}

TEST(what_counts_connections)
{
    struct layout_vars vars = all_vars(FAMILY_IPV4);
    struct layout without, with;
    parse_with(templates[TEMPLATE_BASE].text, &vars, &without);
    vars.not_from_pod = "";
    vars.count_services = vars.count_endpoints = "";
    parse_with(templates[TEMPLATE_BASE].text, &vars, &with);
    check_rules(
        &vars, "port",
        "update @service_connections { meta priority and ffff:8000 counter }; " PORT_BEGIN MARK
        "; " PORT_END);
    ck_assert_str_eq(find_chain(&with, "nat-input-count")->hook, "input");
    ck_assert_int_eq(find_chain(&with, "nat-postrouting-count")->priority, 99);
    ck_assert_uint_eq(with.chains.n, without.chains.n + 3);
    ck_assert(layout_fingerprint(&with, 1) == layout_fingerprint(&without, 1));
    layout_free(&without);
    layout_free(&with);
}

/* ---- what is read ---- */

#define TABLE(body) "table ${ip} kube-nftd {\n" body "}\n"

TEST(comments_stay_with_what_they_stand_before)
{
    struct layout layout;
    parse("# the file\n"
          "\n"
          "table ip kube-nftd { # not kept\n"
          "    # first line, ${as} it is\n"
          "    #second\n"
          "    set a { # behind\n"
          "        # inside\n"
          "        type ipv4_addr # behind\n"
          "    }\n"
          "    # of nothing: a blank line follows\n"
          "\n"
          "    set b {\n"
          "        type ipv4_addr\n"
          "    }\n"
          "    # of the chain\n"
          "    chain c {\n"
          "        # of the rule\n"
          "        reject # why\n"
          "    }\n"
          "    # at the end\n"
          "}\n",
          FAMILY_IPV4, &layout);
    ck_assert_str_eq(layout.sets.v[0].comment, "# first line, ${as} it is\n#second\n");
    ck_assert_str_eq(layout.sets.v[0].declaration, "type ipv4_addr");
    ck_assert_ptr_null(layout.sets.v[1].comment);
    ck_assert_str_eq(layout.chains.v[0].comment, "# of the chain\n");
    ck_assert_str_eq(layout.chains.v[0].rules.v[0].text, "reject");
    layout_free(&layout);
}

TEST(lines_are_remembered)
{
    struct layout layout;
    parse("\n" TABLE(" set a {\n\n type ipv4_addr\n }\n chain c {\n\n  reject\n  jump c\n }\n"),
          FAMILY_IPV6, &layout);
    ck_assert_int_eq(layout.sets.v[0].line, 3);
    ck_assert_int_eq(layout.chains.v[0].line, 7);
    ck_assert_int_eq(layout.chains.v[0].rules.v[0].line, 9);
    ck_assert_int_eq(layout.chains.v[0].rules.v[1].line, 10);
    layout_free(&layout);
}

TEST(variables_are_filled_in)
{
    struct layout layout;
    struct layout_vars vars = {.family = FAMILY_IPV6, .n = 300, .key = 4 << 16 | 10};
    parse_with(TABLE("chain c-${n} {\n${ip}${ip_addr} ${n}:${key}$n $ {n}$\n}\n"), &vars, &layout);
    ck_assert_str_eq(layout.chains.v[0].name, "c-300");
    ck_assert_str_eq(layout.chains.v[0].rules.v[0].text, "ip6ipv6_addr 300:4:a$n $ {n}$");
    layout_free(&layout);

    vars = (struct layout_vars){.family = FAMILY_IPV4,
                                .mark = "1",
                                .from_pod = "2 # 3",
                                .not_from_pod = "${n}",
                                .from_host = "5",
                                .reject = "6",
                                .key = 86400};
    parse_with(TABLE("chain c {\n"
                     "${ip} ${ip_addr} ${mark}${from_pod}${not_from_pod}${from_host}${reject}"
                     "${n} ${key}\n}\n"),
               &vars, &layout);
    ck_assert_str_eq(layout.chains.v[0].rules.v[0].text, "ip ipv4_addr 12 # 3${n}560 1:5180");
    layout_free(&layout);
}

TEST(variables_without_a_value)
{
    struct layout layout;
    const struct layout_vars vars = {.family = FAMILY_IPV4, .not_from_pod = "", .reject = ""};
    parse_with(TABLE("chain c {\n"
                     "jump a\n"
                     "${mark}\n"
                     "jump ${ip} ${from_pod} ${reject}\n"
                     "${reject} ${from_host} ${nothing}\n"
                     "${not_from_pod} jump ${reject} b ${reject}\n"
                     "jump ${from_host}\n"
                     "${reject}\n"
                     "jump c # ${mark}\n"
                     "}\n"),
               &vars, &layout);
    ck_assert_uint_eq(layout.chains.v[0].rules.n, 3);
    ck_assert_str_eq(layout.chains.v[0].rules.v[0].text, "jump a");
    ck_assert_str_eq(layout.chains.v[0].rules.v[1].text, "jump  b");
    ck_assert_int_eq(layout.chains.v[0].rules.v[1].line, 7);
    ck_assert_str_eq(layout.chains.v[0].rules.v[2].text, "jump c");
    layout_free(&layout);
}

/* ---- what is refused ---- */

static const struct {
    const char *text, *error;
} broken[] = {
    {TABLE("chain c {\njump ${where}\n}\n"), "t.nft:3: unknown variable: ${where}"},
    {TABLE("chain c {\njump ${ip\n}\n"), "t.nft:3: unknown variable: ${ip"},
    {TABLE("chain c {\njump ${}\n}\n"), "t.nft:3: unknown variable: ${}"},
    {TABLE("flowtable f {\n}\n"), "t.nft:2: unknown block: flowtable"},
    {TABLE("# why\nflowtable f {\n}\n"), "t.nft:3: unknown block: flowtable"},
    {TABLE("map\n"), "t.nft:2: expected 'map', 'set' or 'chain', a name and '{': map"},
    {TABLE("map m\n{\n}\n"), "t.nft:2: expected 'map', 'set' or 'chain', a name and '{': map m"},
    {TABLE("set s { type ipv4_addr\n}\n"),
     "t.nft:2: expected 'map', 'set' or 'chain', a name and '{': set s { type ipv4_addr"},
    {TABLE("map m {\n\n}\n"), "t.nft:4: no type for m"},
    {TABLE("set s {\n}\n"), "t.nft:3: no type for s"},
    {TABLE("set s {\ntype ipv4_addr\ntype ipv4_addr\n}\n"),
     "t.nft:4: a second type: type ipv4_addr"},
    {TABLE("set s {\ntype ipv4_addr\ntypeof ip daddr\n}\n"),
     "t.nft:4: a second type: typeof ip daddr"},
    {TABLE("set s {\nflags interval\nflags timeout\n}\n"),
     "t.nft:4: a second flags: flags timeout"},
    {TABLE("map m {\nflag interval\n}\n"), "t.nft:3: unknown line in a map: flag interval"},
    {TABLE("set s {\ntimeout 3h\n}\n"), "t.nft:3: unknown line in a set: timeout 3h"},
    {TABLE("set s {\nsize\n}\n"), "t.nft:3: unknown line in a set: size"},
    {TABLE("set s {\nsize 12k\n}\n"), "t.nft:3: unknown line in a set: size 12k"},
    {TABLE("set s {\nsize many\n}\n"), "t.nft:3: unknown line in a set: size many"},
    {TABLE("map m {\nelements = { 0:1 : goto c } x\n}\n"),
     "t.nft:3: unknown line in a map: elements = { 0:1 : goto c } x"},
    {TABLE("map m {\nelements = { 0:1 : goto c\n}\n"),
     "t.nft:3: unknown line in a map: elements = { 0:1 : goto c"},
    {TABLE("chain c {\nreject\ntype nat hook output priority 0;\n}\n"),
     "t.nft:4: a hook must come first and once: type nat hook output priority 0;"},
    {TABLE("chain c {\ntype nat hook output priority 0;\ntype nat hook output priority 0;\n}\n"),
     "t.nft:4: a hook must come first and once: type nat hook output priority 0;"},
    {TABLE("chain c {\ntype nat hook output\n}\n"),
     "t.nft:3: expected 'type T hook H priority N;': type nat hook output"},
    {TABLE("chain c {\ntype nat hook output priority 0\n}\n"),
     "t.nft:3: expected 'type T hook H priority N;': type nat hook output priority 0"},
    {"table ip kube-nftd {\n", "t.nft:1: the table does not end"},
    {"table ip kube-nftd {\nchain c {\nreject\n}\n\n", "t.nft:5: the table does not end"},
    {"table ip kube-nftd {\nset s {\ntype ipv4_addr\n", "t.nft:3: the table does not end"},
    {"\ntable ip6 kube-nftd {\n}\n", "t.nft:2: expected 'table ip kube-nftd {': table ip6 "
                                     "kube-nftd {"},
    {"table ip other {\n}\n", "t.nft:1: expected 'table ip kube-nftd {': table ip other {"},
    {"table ip kube-nftd { chain c {\n}\n",
     "t.nft:1: expected 'table ip kube-nftd {': table ip kube-nftd { chain c {"},
    {"chain c {\n", "t.nft:1: expected 'table ip kube-nftd {': chain c {"},
    {TABLE("") "}\n", "t.nft:3: something behind the table: }"},
    {TABLE("") TABLE(""), "t.nft:3: something behind the table: table ip kube-nftd {"},
    {"# nothing\n", "t.nft:1: there is no table"},
};

TEST_ROWS(broken_template, broken)
{
    const struct template from = {"t.nft", row->text};
    const struct layout_vars vars = {.family = FAMILY_IPV4};
    struct error err = {0};
    struct layout layout;
    ck_assert_int_eq(layout_parse(&from, &vars, &layout, &err), -1);
    ck_assert_str_eq(err.text, row->error);
    ck_assert_uint_eq(layout.sets.n + layout.chains.n, 0);
    error_clear(&err);
}

/* Each beginning of the real templates, cut at a line, is refused and leaves nothing behind. */
TESTS(cut_template, TEMPLATE_COUNT)
{
    const char *text = templates[_i].text, *last = strstr(text, "\n}\n");
    const struct layout_vars vars = all_vars(FAMILY_IPV4);
    ck_assert_ptr_nonnull(last);
    for (const char *end = text; end <= last; end = strchr(end, '\n') + 1) {
        struct error err = {0};
        struct layout layout;
        char *part = xstrndup(text, (size_t)(end - text));
        const struct template from = {"t.nft", part};
        ck_assert_int_eq(layout_parse(&from, &vars, &layout, &err), -1);
        ck_assert_ptr_nonnull(err.text);
        error_clear(&err);
        free(part);
    }
}

/* ---- rules ---- */

/* Of the host's byte order; of what is longer, the beginning. */
static int number_of(const void *bytes, uint32_t length)
{
    uint64_t eight;
    uint32_t four = 0;
    uint16_t two;
    if (length == 8) {
        memcpy(&eight, bytes, sizeof(eight));
        return (int)eight;
    }
    if (length == 2) {
        memcpy(&two, bytes, sizeof(two));
        return two;
    }
    if (length == 1)
        return *(const uint8_t *)bytes;
    memcpy(&four, bytes, length < sizeof(four) ? length : sizeof(four));
    return (int)four;
}

/* Writes an expression as its name and what is particular to it. */
static int print_expression(struct nftnl_expr *expr, void *data)
{
    static const struct {
        const char *name;
        uint16_t attributes[4]; /* numbers to be printed */
    } kinds[] = {
        {"payload",
         {NFTNL_EXPR_PAYLOAD_BASE, NFTNL_EXPR_PAYLOAD_OFFSET, NFTNL_EXPR_PAYLOAD_LEN,
          NFTNL_EXPR_PAYLOAD_DREG}},
        {"meta", {NFTNL_EXPR_META_KEY, NFTNL_EXPR_META_DREG, NFTNL_EXPR_META_SREG}},
        {"numgen", {NFTNL_EXPR_NG_TYPE, NFTNL_EXPR_NG_MODULUS, NFTNL_EXPR_NG_DREG}},
        {"nat",
         {NFTNL_EXPR_NAT_TYPE, NFTNL_EXPR_NAT_FAMILY, NFTNL_EXPR_NAT_REG_ADDR_MIN,
          NFTNL_EXPR_NAT_REG_PROTO_MIN}},
        {"lookup", {NFTNL_EXPR_LOOKUP_SREG, NFTNL_EXPR_LOOKUP_DREG, NFTNL_EXPR_LOOKUP_FLAGS}},
        {"immediate", {NFTNL_EXPR_IMM_DREG, NFTNL_EXPR_IMM_DATA, NFTNL_EXPR_IMM_VERDICT}},
        {"ct", {NFTNL_EXPR_CT_KEY, NFTNL_EXPR_CT_DREG, NFTNL_EXPR_CT_DIR}},
        {"bitwise",
         {NFTNL_EXPR_BITWISE_SREG, NFTNL_EXPR_BITWISE_DREG, NFTNL_EXPR_BITWISE_MASK,
          NFTNL_EXPR_BITWISE_XOR}},
        {"cmp", {NFTNL_EXPR_CMP_SREG, NFTNL_EXPR_CMP_OP, NFTNL_EXPR_CMP_DATA}},
        {"fib", {NFTNL_EXPR_FIB_RESULT, NFTNL_EXPR_FIB_FLAGS, NFTNL_EXPR_FIB_DREG}},
        {"dynset",
         {NFTNL_EXPR_DYNSET_OP, NFTNL_EXPR_DYNSET_SREG_KEY, NFTNL_EXPR_DYNSET_SREG_DATA,
          NFTNL_EXPR_DYNSET_TIMEOUT}},
        {"masq", {NFTNL_EXPR_MASQ_FLAGS}},
        {"reject", {NFTNL_EXPR_REJECT_TYPE, NFTNL_EXPR_REJECT_CODE}},
    };
    char *text = data;
    const char *name = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    size_t n = strlen(text);
    n += (size_t)snprintf(text + n, TEXT_SIZE - n, "%s%s", n ? ", " : "", name);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        for (size_t k = 0; strcmp(kinds[i].name, name) == 0 && k < 4; k++) {
            uint16_t attribute = kinds[i].attributes[k];
            uint32_t length = 0;
            const void *value = attribute && nftnl_expr_is_set(expr, attribute)
                                    ? nftnl_expr_get(expr, attribute, &length)
                                    : NULL;
            if (value && attribute == NFTNL_EXPR_CMP_DATA && isalpha(*(const char *)value))
                continue; /* a name, see below */
            if (value)
                n += (size_t)snprintf(text + n, TEXT_SIZE - n, " %d", number_of(value, length));
        }
    if (strcmp(name, "lookup") == 0)
        snprintf(text + n, TEXT_SIZE - n, " @%s", nftnl_expr_get_str(expr, NFTNL_EXPR_LOOKUP_SET));
    if (strcmp(name, "dynset") == 0)
        snprintf(text + n, TEXT_SIZE - n, " @%s",
                 nftnl_expr_get_str(expr, NFTNL_EXPR_DYNSET_SET_NAME));
    if (strcmp(name, "cmp") == 0) {
        uint32_t length = 0;
        const char *bytes = nftnl_expr_get(expr, NFTNL_EXPR_CMP_DATA, &length);
        snprintf(text + n, TEXT_SIZE - n, "/%u%s%.*s", length, isalpha(*bytes) ? " " : "",
                 isalpha(*bytes) ? (int)length : 0, bytes);
    }
    if (strcmp(name, "immediate") == 0 && nftnl_expr_is_set(expr, NFTNL_EXPR_IMM_CHAIN))
        snprintf(text + n, TEXT_SIZE - n, " %s", nftnl_expr_get_str(expr, NFTNL_EXPR_IMM_CHAIN));
    return 0;
}

/* The expressions of a rule given as text. */
static int add_phrases(const char *text, enum family family, char out[TEXT_SIZE], struct error *err)
{
    struct nft_batch batch;
    struct nftnl_rule *rule = nftnl_rule_alloc();
    nft_batch_init(&batch, family, "t");
    int result = phrases_add(text, family, rule, &batch, err);
    *out = '\0';
    nftnl_expr_foreach(rule, print_expression, out);
    nftnl_rule_free(rule);
    nft_batch_release(&batch);
    return result;
}

TESTS(each_rule_is_made_of_phrases, (TEMPLATE_COUNT * FAMILY_COUNT))
{
    enum family family = (enum family)(_i / TEMPLATE_COUNT);
    char out[TEXT_SIZE];
    struct layout layout;
    parse(templates[_i % TEMPLATE_COUNT].text, family, &layout);
    vec_each (&layout.chains, chain) {
        ck_assert_uint_gt(chain->rules.n, 0);
        vec_each (&chain->rules, rule) {
            struct error err = {0};
            ck_assert_msg(add_phrases(rule->text, family, out, &err) == 0, "%s", err.text);
            ck_assert_str_ne(out, "");
        }
    }
    layout_free(&layout);
}

/* Registers: 1 is 16 bytes long and the same as 8 to 11, of 4 bytes each; 2 is 12 to 15. 0 is the
 * verdict. payload: header, offset, length, to. meta keys: 16 protocol, 2 priority, 3 mark, 6
 * interface. ct keys: 0 state, 2 status, 12 port, 20 and 22 addresses. cmp: op 0 is ==, 1 is !=. */
#define LOAD4 "payload 1 16 4 1, meta 16 9, payload 2 2 2 10"
#define LOAD6 "payload 1 24 16 1, meta 16 2, payload 2 2 2 13"
#define ORIGINAL4 "ct 20 1 0, meta 16 9, ct 12 10 0"
#define ORIGINAL6 "ct 22 1 0, meta 16 2, ct 12 13 0"
#define FRONTEND4 "ip daddr . meta l4proto . th dport"
#define FRONTEND6 "ip6 daddr . meta l4proto . th dport"
#define UPPER_HALF "-65536 0" /* ffff:0 */

static const struct {
    enum family family;
    const char *text, *expressions;
} rules[] = {
    {FAMILY_IPV4, "meta priority set " FRONTEND4 " map @services",
     LOAD4 ", lookup 1 1 @services, meta 2 1"},
    {FAMILY_IPV6, "meta priority set " FRONTEND6 " map @services",
     LOAD6 ", lookup 1 1 @services, meta 2 1"},
    {FAMILY_IPV4,
     "meta priority set ct original ip daddr . meta l4proto . ct original proto-dst map @m",
     ORIGINAL4 ", lookup 1 1 @m, meta 2 1"},
    {FAMILY_IPV6,
     "meta priority set ct original ip6 daddr . meta l4proto . ct original proto-dst map @m",
     ORIGINAL6 ", lookup 1 1 @m, meta 2 1"},
    {FAMILY_IPV4, "meta priority set meta priority . ip daddr . th dport map @m",
     "meta 2 1, payload 1 16 4 9, payload 2 2 2 10, lookup 1 1 @m, meta 2 1"},
    {FAMILY_IPV6, "meta priority set meta priority . ip6 daddr . th dport map @m",
     "meta 2 1, payload 1 24 16 9, payload 2 2 2 13, lookup 1 1 @m, meta 2 1"},
    {FAMILY_IPV4, "meta priority set ip saddr . meta priority map @m",
     "payload 1 12 4 1, meta 2 9, lookup 1 1 @m, meta 2 1"},
    {FAMILY_IPV6, "meta priority set ip6 saddr . meta priority map @m",
     "payload 1 8 16 1, meta 2 2, lookup 1 1 @m, meta 2 1"},
    {FAMILY_IPV4, "meta priority vmap @picks", "meta 2 1, lookup 1 0 @picks"},
    {FAMILY_IPV4, "meta priority set 0", "immediate 1 0, meta 2 1"},
    {FAMILY_IPV4, "meta priority set 12", "immediate 1 12, meta 2 1"},
    {FAMILY_IPV4, "meta l4proto { tcp, udp, sctp }", "meta 16 1, lookup 1 @__set%d"},
    {FAMILY_IPV4, "meta l4proto tcp", "meta 16 1, cmp 1 0 6/1"},
    {FAMILY_IPV4, "meta l4proto udp", "meta 16 1, cmp 1 0 17/1"},
    {FAMILY_IPV4, "meta l4proto sctp", "meta 16 1, cmp 1 0 132/1"},
    {FAMILY_IPV4, "dnat ip to " FRONTEND4 " . numgen random mod 5 map @endpoints",
     LOAD4 ", numgen 1 5 11, lookup 1 1 @endpoints, nat 1 2 1 9"},
    {FAMILY_IPV6, "dnat ip6 to " FRONTEND6 " . numgen random mod 5 map @endpoints",
     LOAD6 ", numgen 1 5 14, lookup 1 1 @endpoints, nat 1 10 1 2"},
    {FAMILY_IPV4, "dnat ip to meta priority map @m", "meta 2 1, lookup 1 1 @m, nat 1 2 1 9"},
    {FAMILY_IPV6, "dnat ip6 to meta priority map @m", "meta 2 1, lookup 1 1 @m, nat 1 10 1 2"},
    {FAMILY_IPV4,
     "update @a { ip saddr . meta priority and ffff:0 timeout 10800s : meta priority }",
     "payload 1 12 4 1, meta 2 9, bitwise 9 9 " UPPER_HALF ", meta 2 2, dynset 1 1 2 10800000 @a"},
    {FAMILY_IPV6, "update @a { ip6 saddr . meta priority and ffff:0 timeout 1s : meta priority }",
     "payload 1 8 16 1, meta 2 2, bitwise 2 2 " UPPER_HALF ", meta 2 13, dynset 1 1 13 1000 @a"},
    {FAMILY_IPV4, "delete @a { ip saddr . meta priority and ffff:0 : meta priority }",
     "payload 1 12 4 1, meta 2 9, bitwise 9 9 " UPPER_HALF ", meta 2 2, dynset 2 1 2 @a"},
    {FAMILY_IPV6, "delete @a { ip6 saddr . meta priority and ffff:0 : meta priority }",
     "payload 1 8 16 1, meta 2 2, bitwise 2 2 " UPPER_HALF ", meta 2 13, dynset 2 1 13 @a"},
    {FAMILY_IPV4, "update @a { meta priority and ffff:8000 . ip daddr . th dport counter }",
     "meta 2 1, bitwise 1 1 -32768 0, payload 1 16 4 9, payload 2 2 2 10, dynset 1 1 @a"},
    {FAMILY_IPV4, FRONTEND4 " @refused reject", LOAD4 ", lookup 1 @refused, reject 0 3"},
    {FAMILY_IPV6, FRONTEND6 " @refused reject", LOAD6 ", lookup 1 @refused, reject 0 4"},
    {FAMILY_IPV4, FRONTEND4 " . ip saddr != @s drop",
     LOAD4 ", payload 1 12 4 11, lookup 1 1 @s, immediate 0 0"},
    {FAMILY_IPV6, FRONTEND6 " . ip6 saddr != @s drop",
     LOAD6 ", payload 1 8 16 14, lookup 1 1 @s, immediate 0 0"},
    {FAMILY_IPV4, "ip saddr @s ip daddr @t",
     "payload 1 12 4 1, lookup 1 @s, payload 1 16 4 1, lookup 1 @t"},
    {FAMILY_IPV6, "ip6 saddr != @s", "payload 1 8 16 1, lookup 1 1 @s"},
    {FAMILY_IPV4, "ip saddr . ip daddr . meta l4proto . th dport @hairpin",
     "payload 1 12 4 1, payload 1 16 4 9, meta 16 10, payload 2 2 2 11, lookup 1 @hairpin"},
    {FAMILY_IPV6, "ip6 saddr . ip6 daddr . meta l4proto . th dport @hairpin",
     "payload 1 8 16 1, payload 1 24 16 2, meta 16 3, payload 2 2 2 17, lookup 1 @hairpin"},
    {FAMILY_IPV4, "iifname \"cni0\"", "meta 6 1, cmp 1 0/16 cni0"},
    {FAMILY_IPV4, "iifname != \"cni0\"", "meta 6 1, cmp 1 1/16 cni0"},
    {FAMILY_IPV4, "iifname \"cali*\"", "meta 6 1, cmp 1 0/4 cali"},
    {FAMILY_IPV4, "iifname != \"cali*\"", "meta 6 1, cmp 1 1/4 cali"},
    {FAMILY_IPV4, "iifname \"abcdefghijklmno\"", "meta 6 1, cmp 1 0/16 abcdefghijklmno"},
    {FAMILY_IPV4, "iifname \"abcdefghijklmno*\"", "meta 6 1, cmp 1 0/15 abcdefghijklmno"},
    {FAMILY_IPV4, "fib saddr type local", "fib 3 1 1, cmp 1 0 2/4"},
    {FAMILY_IPV4, "meta mark set meta mark or 0x4000",
     "meta 3 1, bitwise 1 1 -16385 16384, meta 3 1"},
    {FAMILY_IPV4, "meta mark and 0x4000 != 0 meta mark set meta mark xor 0x4000",
     "meta 3 1, bitwise 1 1 16384 0, cmp 1 1 0/4, meta 3 1, bitwise 1 1 -1 16384, meta 3 1"},
    {FAMILY_IPV4, "meta mark and 0x80000000 != 0",
     "meta 3 1, bitwise 1 1 -2147483648 0, "
     "cmp 1 1 0/4"},
    {FAMILY_IPV4, "masquerade fully-random", "masq 16"},
    {FAMILY_IPV4, "ct state new jump no-endpoints",
     "ct 0 1, bitwise 1 1 8 0, cmp 1 1 0/4, immediate 0 -3 no-endpoints"},
    {FAMILY_IPV4, "ct status ! seen-reply,dnat", "ct 2 1, bitwise 1 1 34 0, cmp 1 0 0/4"},
    {FAMILY_IPV4, "ct status dnat", "ct 2 1, bitwise 1 1 32 0, cmp 1 1 0/4"},
    {FAMILY_IPV4, "goto c", "immediate 0 -4 c"},
    {FAMILY_IPV4, "drop", "immediate 0 0"},
    {FAMILY_IPV4, "  reject   reject ", "reject 0 3, reject 0 3"},
    {FAMILY_IPV4, "", ""},
};

TEST_ROWS(expressions_of_a_rule, rules)
{
    char out[TEXT_SIZE];
    struct error err = {0};
    ck_assert_int_eq(add_phrases(row->text, row->family, out, &err), 0);
    ck_assert_str_eq(out, row->expressions);
}

static const struct {
    const char *text, *error; /* NULL: the whole text */
} unknown[] = {
    {"accepting", NULL},
    {"reject queue", "unknown phrase: queue"},
    {"jump", NULL},
    {"rejecting", NULL},
    {"meta priority set", NULL},
    {"meta priority set x", NULL},
    {"meta priority set 1x", NULL},
    {"meta priority set -1", NULL},
    {"meta priority vmap picks", NULL},
    {"meta priority vmap @", NULL},
    {"meta l4proto { tcp, udp }", NULL},
    {"meta l4proto icmp", NULL},
    {"meta mark set meta mark or 0x", NULL},
    {"meta mark set meta mark or 0x100000000", NULL},
    {"meta mark set meta mark or 99999999999999999999", NULL},
    {"meta mark and 1 != 1", NULL},
    {"ip6 daddr . meta l4proto . th dport @s", NULL},
    {"ip saddr . @s", NULL},
    {"ip saddr .", NULL},
    {"ip saddr ip daddr @s", NULL},
    {"ip saddr . ip saddr . ip saddr . ip saddr . ip saddr . ip saddr @s", NULL},
    {"ip saddr == @s", NULL},
    {"dnat ip to @m", NULL},
    {"dnat ip6 to meta priority map @m", NULL},
    {"dnat ip to meta priority . numgen random mod x map @m", NULL},
    {"update @a { ip saddr timeout 10 : meta priority }", NULL},
    {"update @a { ip saddr timeout s : meta priority }", NULL},
    {"update @a { ip saddr timeout 10ss : meta priority }", NULL},
    {"update @a { ip saddr timeout 10s : ip daddr }", NULL},
    {"update @a { ip saddr timeout 10s : meta priority", NULL},
    {"iifname cni0", NULL},
    {"iifname \"cni0", NULL},
    {"iifname \"", NULL},
    {"iifname \"\"", NULL},
    {"iifname \"*\"", NULL},
    {"iifname \"cni\"0\"", NULL},
    {"iifname \"abcdefghijklmnop\"", NULL},
    {"iifname \"abcdefghijklmnop*\"", NULL},
    {"masquerade", NULL},
    {"jump an-endless-name-0123456789-0123456789-0123456789-0123456789-0123456789", NULL},
};

TEST_ROWS(unknown_phrase, unknown)
{
    char out[TEXT_SIZE];
    struct error err = {0};
    ck_assert_int_eq(add_phrases(row->text, FAMILY_IPV4, out, &err), -1);
    char *expected = xasprintf("unknown phrase: %s", row->text);
    ck_assert_str_eq(err.text, row->error ? row->error : expected);
    error_clear(&err);
    free(expected);
}

/* ---- as messages ---- */

static int program(const char *text, struct error *err)
{
    struct layout layout;
    struct nft_batch batch;
    parse(text, FAMILY_IPV4, &layout);
    nft_batch_init(&batch, FAMILY_IPV4, "t");
    int result = program_layout(&layout, PROGRAM_ALL, &batch, err);
    nft_batch_release(&batch);
    layout_free(&layout);
    return result;
}

static const struct {
    const char *text, *error;
} not_programmable[] = {
    {TABLE("chain c {\n\nreject twice\n}\n"), "t.nft:4: unknown phrase: twice"},
    {TABLE("\nmap m {\ntype ipv4_addr\n}\n"), "t.nft:3: m: a map needs 'KEY : VALUE'"},
    {TABLE("set s {\ntype nothing\n}\n"), "t.nft:2: s: unknown type: nothing"},
    {TABLE("set s {\ntype ipv4_addr\nflags big\n}\n"), "t.nft:2: s: unknown flag: big"},
    {TABLE("chain c {\ntype nat hook ingress priority 0;\n}\n"), "t.nft:2: unknown hook: ingress"},
};

TEST_ROWS(errors_of_programming_say_where, not_programmable)
{
    struct error err = {0};
    ck_assert_int_eq(program(row->text, &err), -1);
    ck_assert_str_eq(err.text, row->error);
    error_clear(&err);
}

/* ---- the fingerprint ---- */

static uint64_t of_text(const char *text, unsigned meaning)
{
    struct layout layout;
    const struct template from = {"base.nft", text};
    struct layout_vars vars = all_vars(FAMILY_IPV4);
    ck_assert_int_eq(layout_parse(&from, &vars, &layout, NULL), 0);
    uint64_t hash = layout_fingerprint(&layout, meaning);
    layout_free(&layout);
    return hash;
}

/* What elements look like, and nothing of what rules do with them. */
TEST(fingerprint_of_declarations)
{
    static const char base[] = TABLE("map a {\ntype classid : verdict\n}\nchain c {\ndrop\n}\n");
    static const char *const same[] = {
        TABLE("# A word.\nmap a {\ntype classid : verdict\n}\nchain c {\nreturn\n}\n"),
        TABLE("map a {\ntype classid : verdict\nelements = { 5:0 : goto c }\n}\n"),
    };
    static const char *const others[] = {
        TABLE("map b {\ntype classid : verdict\n}\n"),
        TABLE("set a {\ntype classid : verdict\n}\n"),
        TABLE("map a {\ntype ipv4_addr : verdict\n}\n"),
        TABLE("map a {\ntype classid : verdict\nflags timeout\n}\n"),
        TABLE("map a {\ntype classid : verdict\nsize 8\n}\n"),
        TABLE("map a {\ntype classid : verdict\n}\nset b {\ntype classid\n}\n"),
        TABLE(""),
    };
    const uint64_t hash = of_text(base, 1);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        ck_assert_uint_eq(of_text(same[i], 1), hash);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        ck_assert_uint_ne(of_text(others[i], 1), hash);
        for (size_t k = 0; k < i; k++)
            ck_assert_uint_ne(of_text(others[i], 1), of_text(others[k], 1));
    }
    ck_assert_uint_ne(of_text(base, 2), hash);
}
