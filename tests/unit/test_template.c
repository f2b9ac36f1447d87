/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The templates: what is read from them, what is refused and where, and that each of their rules
 * is made of phrases that are known. */
#include "unit.h"

#include "kube-nftd/ruleset/program.h"
#include "kube-nftd/ruleset/template.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

#define TEXT_SIZE 1024

static void parse(const char *text, enum family family, unsigned n, struct layout *layout)
{
    struct error err = {0};
    ck_assert_msg(layout_parse(text, "t.nft", family, n, layout, &err) == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
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

START_TEST(base_template)
{
    enum family family = (enum family)_i;
    struct layout layout;
    parse(nft_template_base, family, 0, &layout);
    ck_assert_int_eq(layout.family, family);
    ck_assert(find_set(&layout, "services")->is_map);
    ck_assert(find_set(&layout, "endpoints")->is_map);
    ck_assert(find_set(&layout, "picks")->is_map);
    ck_assert(!find_set(&layout, "reject_frontends")->is_map);
    ck_assert_str_eq(find_set(&layout, "services")->declaration,
                     family == FAMILY_IPV4
                         ? "type ipv4_addr . inet_proto . inet_service : classid"
                         : "type ipv6_addr . inet_proto . inet_service : classid");

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
END_TEST

START_TEST(pick_template)
{
    struct layout layout;
    parse(nft_template_pick, (enum family)_i, 31, &layout);
    const struct layout_set *picks = find_set(&layout, "picks");
    ck_assert_uint_eq(layout.sets.n, 1);
    ck_assert_uint_eq(picks->verdicts.n, 1);
    ck_assert_uint_eq(picks->verdicts.v[0].key, 31); /* 0:1f */
    ck_assert_str_eq(picks->verdicts.v[0].chain, "pick-31");
    const struct layout_chain *chain = find_chain(&layout, "pick-31");
    ck_assert_uint_eq(chain->rules.n, 1);
    ck_assert_ptr_nonnull(strstr(chain->rules.v[0].text, " numgen random mod 31 map @endpoints"));
    layout_free(&layout);
}
END_TEST

/* The two templates declare the same verdict map, or the second one does not fit the first. */
START_TEST(templates_agree)
{
    struct layout base, pick;
    parse(nft_template_base, (enum family)_i, 0, &base);
    parse(nft_template_pick, (enum family)_i, 1, &pick);
    ck_assert_str_eq(find_set(&base, "picks")->declaration, find_set(&pick, "picks")->declaration);
    layout_free(&base);
    layout_free(&pick);
}
END_TEST

/* ---- what is read ---- */

#define TABLE(body) "table ${ip} kube-nftd {\n" body "}\n"

START_TEST(comments_stay_with_what_they_stand_before)
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
          FAMILY_IPV4, 0, &layout);
    ck_assert_str_eq(layout.sets.v[0].comment, "# first line, ${as} it is\n#second\n");
    ck_assert_str_eq(layout.sets.v[0].declaration, "type ipv4_addr");
    ck_assert_ptr_null(layout.sets.v[1].comment);
    ck_assert_str_eq(layout.chains.v[0].comment, "# of the chain\n");
    ck_assert_str_eq(layout.chains.v[0].rules.v[0].text, "reject");
    layout_free(&layout);
}
END_TEST

START_TEST(lines_are_remembered)
{
    struct layout layout;
    parse("\n" TABLE(" set a {\n\n type ipv4_addr\n }\n chain c {\n\n  reject\n  jump c\n }\n"),
          FAMILY_IPV6, 0, &layout);
    ck_assert_int_eq(layout.sets.v[0].line, 3);
    ck_assert_int_eq(layout.chains.v[0].line, 7);
    ck_assert_int_eq(layout.chains.v[0].rules.v[0].line, 9);
    ck_assert_int_eq(layout.chains.v[0].rules.v[1].line, 10);
    layout_free(&layout);
}
END_TEST

START_TEST(variables_are_filled_in)
{
    struct layout layout;
    parse(TABLE("chain c-${n} {\n${ip}${ip_addr} ${n}:${n_hex}$n\n}\n"), FAMILY_IPV6, 300, &layout);
    ck_assert_str_eq(layout.chains.v[0].name, "c-300");
    ck_assert_str_eq(layout.chains.v[0].rules.v[0].text, "ip6ipv6_addr 300:12c$n");
    layout_free(&layout);
    parse(TABLE("chain c {\n${ip} ${ip_addr}\n}\n"), FAMILY_IPV4, 300, &layout);
    ck_assert_str_eq(layout.chains.v[0].rules.v[0].text, "ip ipv4_addr");
    layout_free(&layout);
}
END_TEST

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
    {TABLE("map m {\nflags interval\n}\n"), "t.nft:3: unknown line in a map: flags interval"},
    {TABLE("set s {\nflags interval\n}\n"), "t.nft:3: unknown line in a set: flags interval"},
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

START_TEST(broken_template)
{
    struct error err = {0};
    struct layout layout;
    ck_assert_int_eq(layout_parse(broken[_i].text, "t.nft", FAMILY_IPV4, 0, &layout, &err), -1);
    ck_assert_str_eq(err.text, broken[_i].error);
    ck_assert_uint_eq(layout.sets.n + layout.chains.n, 0);
    error_clear(&err);
}
END_TEST

/* Each beginning of the real templates, cut at a line, is refused and leaves nothing behind. */
START_TEST(cut_template)
{
    const char *text = _i ? nft_template_pick : nft_template_base;
    const char *last = strstr(text, "\n}\n");
    ck_assert_ptr_nonnull(last);
    for (const char *end = text; end <= last; end = strchr(end, '\n') + 1) {
        struct error err = {0};
        struct layout layout;
        char *part = xstrndup(text, (size_t)(end - text));
        ck_assert_int_eq(layout_parse(part, "t.nft", FAMILY_IPV4, 2, &layout, &err), -1);
        ck_assert_ptr_nonnull(err.text);
        error_clear(&err);
        free(part);
    }
}
END_TEST

/* ---- rules ---- */

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
        {"lookup", {NFTNL_EXPR_LOOKUP_SREG, NFTNL_EXPR_LOOKUP_DREG}},
        {"immediate", {NFTNL_EXPR_IMM_DREG, NFTNL_EXPR_IMM_DATA, NFTNL_EXPR_IMM_VERDICT}},
        {"ct", {NFTNL_EXPR_CT_KEY, NFTNL_EXPR_CT_DREG}},
        {"bitwise", {NFTNL_EXPR_BITWISE_SREG, NFTNL_EXPR_BITWISE_DREG, NFTNL_EXPR_BITWISE_MASK}},
        {"cmp", {NFTNL_EXPR_CMP_SREG, NFTNL_EXPR_CMP_OP, NFTNL_EXPR_CMP_DATA}},
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
            uint32_t number = 0;
            memcpy(&number, value ? value : &number, length < 4 ? length : 4);
            if (value)
                n += (size_t)snprintf(text + n, TEXT_SIZE - n, " %d", (int)number);
        }
    if (strcmp(name, "lookup") == 0)
        snprintf(text + n, TEXT_SIZE - n, " @%s", nftnl_expr_get_str(expr, NFTNL_EXPR_LOOKUP_SET));
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

START_TEST(each_rule_is_made_of_phrases)
{
    enum family family = (enum family)(_i % FAMILY_COUNT);
    char out[TEXT_SIZE];
    struct layout layout;
    parse(_i < FAMILY_COUNT ? nft_template_base : nft_template_pick, family, 7, &layout);
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
END_TEST

/* Registers: 1 is 16 bytes long and the same as 8 to 11, of 4 bytes each; 2 is 12 to 15. 0 is the
 * verdict. payload: header, offset, length, to. meta keys: 16 protocol, 2 priority. */
#define LOAD4 "payload 1 16 4 1, meta 16 9, payload 2 2 2 10"
#define LOAD6 "payload 1 24 16 1, meta 16 2, payload 2 2 2 13"

static const struct {
    enum family family;
    const char *text, *expressions;
} rules[] = {
    {FAMILY_IPV4, "meta priority set ip daddr . meta l4proto . th dport map @services",
     LOAD4 ", lookup 1 1 @services, meta 2 1"},
    {FAMILY_IPV6, "meta priority set ip6 daddr . meta l4proto . th dport map @services",
     LOAD6 ", lookup 1 1 @services, meta 2 1"},
    {FAMILY_IPV4, "meta priority vmap @picks", "meta 2 1, lookup 1 0 @picks"},
    {FAMILY_IPV4, "meta priority set 0", "immediate 1 0, meta 2 1"},
    {FAMILY_IPV4, "meta priority set 12", "immediate 1 12, meta 2 1"},
    {FAMILY_IPV4, "meta l4proto { tcp, udp, sctp }", "meta 16 1, lookup 1 @__set%d"},
    {FAMILY_IPV4,
     "dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 5 map @endpoints",
     LOAD4 ", numgen 1 5 11, lookup 1 1 @endpoints, nat 1 2 1 9"},
    {FAMILY_IPV6,
     "dnat ip6 to ip6 daddr . meta l4proto . th dport . numgen random mod 5 map @endpoints",
     LOAD6 ", numgen 1 5 14, lookup 1 1 @endpoints, nat 1 10 1 2"},
    {FAMILY_IPV4, "ip daddr . meta l4proto . th dport @reject_frontends reject",
     LOAD4 ", lookup 1 @reject_frontends, reject 0 3"},
    {FAMILY_IPV6, "ip6 daddr . meta l4proto . th dport @reject_frontends reject",
     LOAD6 ", lookup 1 @reject_frontends, reject 0 4"},
    {FAMILY_IPV4, "ct state new jump no-endpoints",
     "ct 0 1, bitwise 1 1 8, cmp 1 1 0, immediate 0 -3 no-endpoints"},
    {FAMILY_IPV4, "  reject   reject ", "reject 0 3, reject 0 3"},
    {FAMILY_IPV4, "", ""},
};

START_TEST(expressions_of_a_rule)
{
    char out[TEXT_SIZE];
    struct error err = {0};
    ck_assert_int_eq(add_phrases(rules[_i].text, rules[_i].family, out, &err), 0);
    ck_assert_str_eq(out, rules[_i].expressions);
}
END_TEST

static const struct {
    const char *text, *error;
} unknown[] = {
    {"accept", "unknown phrase: accept"},
    {"reject accept", "unknown phrase: accept"},
    {"jump", "unknown phrase: jump"},
    {"rejecting", "unknown phrase: rejecting"},
    {"meta priority set", "unknown phrase: meta priority set"},
    {"meta priority set x", "unknown phrase: meta priority set x"},
    {"meta priority set 1x", "unknown phrase: meta priority set 1x"},
    {"meta priority set -1", "unknown phrase: meta priority set -1"},
    {"meta priority vmap picks", "unknown phrase: meta priority vmap picks"},
    {"meta priority vmap @", "unknown phrase: meta priority vmap @"},
    {"meta l4proto { tcp, udp }", "unknown phrase: meta l4proto { tcp, udp }"},
    {"ip6 daddr . meta l4proto . th dport @s", "unknown phrase: ip6 daddr . meta l4proto . th "
                                               "dport @s"},
    {"jump an-endless-name-0123456789-0123456789-0123456789-0123456789-0123456789",
     "unknown phrase: jump "
     "an-endless-name-0123456789-0123456789-0123456789-0123456789-0123456789"},
};

START_TEST(unknown_phrase)
{
    char out[TEXT_SIZE];
    struct error err = {0};
    ck_assert_int_eq(add_phrases(unknown[_i].text, FAMILY_IPV4, out, &err), -1);
    ck_assert_str_eq(err.text, unknown[_i].error);
    error_clear(&err);
}
END_TEST

/* ---- as messages ---- */

static int program(const char *text, struct error *err)
{
    struct layout layout;
    struct nft_batch batch;
    parse(text, FAMILY_IPV4, 0, &layout);
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
    {TABLE("chain c {\ntype nat hook ingress priority 0;\n}\n"), "t.nft:2: unknown hook: ingress"},
};

START_TEST(errors_of_programming_say_where)
{
    struct error err = {0};
    ck_assert_int_eq(program(not_programmable[_i].text, &err), -1);
    ck_assert_str_eq(err.text, not_programmable[_i].error);
    error_clear(&err);
}
END_TEST

/* ---- the fingerprint ---- */

START_TEST(fingerprint)
{
    uint64_t hash = template_fingerprint();
    ck_assert_uint_eq(template_fingerprint(), hash);
    ck_assert_uint_eq(fingerprint_of(nft_template_base, nft_template_pick), hash);

    char *changed = xstrdup(nft_template_base);
    changed[strlen(changed) / 2] ^= 1;
    ck_assert_uint_ne(fingerprint_of(changed, nft_template_pick), hash);
    free(changed);
    changed = xasprintf("%s\n", nft_template_pick);
    ck_assert_uint_ne(fingerprint_of(nft_template_base, changed), hash);
    free(changed);

    ck_assert_uint_ne(fingerprint_of("a", "b"), fingerprint_of("b", "a"));
    ck_assert_uint_ne(fingerprint_of("ab", "c"), fingerprint_of("a", "bc"));
    ck_assert_uint_ne(fingerprint_of("", "a"), fingerprint_of("a", ""));
    /* The number of FNV-1a over the bytes 'a', 0, 'b', 0: it is in tables that outlive us. */
    ck_assert_uint_eq(fingerprint_of("a", "b"), 0xab40d7820d408076u);
}
END_TEST

#define COUNT(table) (int)(sizeof(table) / sizeof((table)[0]))

static void add_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, base_template, 0, FAMILY_COUNT);
    tcase_add_loop_test(tcase, pick_template, 0, FAMILY_COUNT);
    tcase_add_loop_test(tcase, templates_agree, 0, FAMILY_COUNT);
    tcase_add_test(tcase, comments_stay_with_what_they_stand_before);
    tcase_add_test(tcase, lines_are_remembered);
    tcase_add_test(tcase, variables_are_filled_in);
    tcase_add_loop_test(tcase, broken_template, 0, COUNT(broken));
    tcase_add_loop_test(tcase, cut_template, 0, 2);
    tcase_add_loop_test(tcase, each_rule_is_made_of_phrases, 0, 2 * FAMILY_COUNT);
    tcase_add_loop_test(tcase, expressions_of_a_rule, 0, COUNT(rules));
    tcase_add_loop_test(tcase, unknown_phrase, 0, COUNT(unknown));
    tcase_add_loop_test(tcase, errors_of_programming_say_where, 0, COUNT(not_programmable));
    tcase_add_test(tcase, fingerprint);
}

UNIT_MAIN("template", add_tests)
