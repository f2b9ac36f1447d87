/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The preflight on kernels that lack something. This file has a nft_socket_check() of its own, so
 * the linker leaves the real one in the library. test_preflight_kernel.c has the real kernel.
 */
#include "unit.h"

#include "kube-nftd/base/vec.h"
#include "kube-nftd/ruleset/preflight.h"
#include "ruleset/program.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#define TYPE_VERDICT 0xffffff00u

/* What a kernel must know to take a batch, a line each: "chain nat", "masq flags #", ... */
typedef VEC(char *) ability_vec;

static struct {
    const char *lacks; /* the beginning of the lines that it does not know; NULL for none */
    uint8_t lacking;   /* in which family: NFPROTO_...; NFPROTO_UNSPEC for both */
    int why;
    ability_vec asked; /* for */
    unsigned batches;
} kernel;

static struct preflight preflights[FAMILY_COUNT];
static struct preflight preflight; /* the one of interest */

/* ---- what a batch asks for ---- */

static void add_ability(ability_vec *out, char *line)
{
    vec_each (out, known) {
        if (strcmp(*known, line) == 0) {
            free(line);
            return;
        }
    }
    vec_push(out, line);
}

static void clear_abilities(ability_vec *abilities)
{
    vec_each (abilities, line)
        free(*line);
    vec_free(abilities);
}

/* Whether a word is a value. The verdict's register and flags matter. */
static bool is_value(const char *word)
{
    return isdigit((unsigned char)*word) && strcmp(word, "0") != 0 && strcmp(word, "0x0") != 0 &&
           strcmp(word, "0x1") != 0;
}

/* Whether a set or chain is named behind @word. "meta set" is followed by what it sets. */
static bool names_follow(const char *expression, const char *word)
{
    return (strcmp(word, "set") == 0 && strcmp(expression, "meta") != 0) || strcmp(word, "->") == 0;
}

/* The text that libnftnl has for an expression, without values and names; values in a row count
 * once. */
static int take_expression(struct nftnl_expr *expr, void *out)
{
    char text[512];
    const char *name = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    char *line = xstrdup(name), *rest = text;
    const char *before = "";
    ck_assert_int_gt(nftnl_expr_snprintf(text, sizeof(text), expr, 0, 0), 0);
    for (const char *word; (word = strsep(&rest, " "));) {
        if (is_value(word) || names_follow(name, before))
            word = "#";
        if (*word && !(strcmp(word, "#") == 0 && line[strlen(line) - 1] == '#')) {
            char *longer = xasprintf("%s %s", line, word);
            free(line);
            line = longer;
        }
        before = *word ? word : before;
    }
    add_ability(out, line);
    return 0;
}

static void take_rule(const struct nlmsghdr *message, ability_vec *out)
{
    struct nftnl_rule *rule = nftnl_rule_alloc();
    ck_assert_int_ge(nftnl_rule_nlmsg_parse(message, rule), 0);
    nftnl_expr_foreach(rule, take_expression, out);
    nftnl_rule_free(rule);
}

static void take_chain(const struct nlmsghdr *message, ability_vec *out)
{
    struct nftnl_chain *chain = nftnl_chain_alloc();
    ck_assert_int_ge(nftnl_chain_nlmsg_parse(message, chain), 0);
    const char *type = nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE);
    add_ability(out, xasprintf("chain %s", type ? type : "plain"));
    nftnl_chain_free(chain);
}

static void take_set(const struct nlmsghdr *message, ability_vec *out)
{
    struct nftnl_set *set = nftnl_set_alloc();
    ck_assert_int_ge(nftnl_set_nlmsg_parse(message, set), 0);
    uint32_t flags = nftnl_set_get_u32(set, NFTNL_SET_FLAGS);
    bool verdicts =
        (flags & NFT_SET_MAP) && nftnl_set_get_u32(set, NFTNL_SET_DATA_TYPE) == TYPE_VERDICT;
    add_ability(out, xasprintf("set 0x%x%s", flags, verdicts ? " of verdicts" : ""));
    nftnl_set_free(set);
}

static void take_table(const struct nlmsghdr *message, ability_vec *out)
{
    const struct nlattr *attribute;
    mnl_attr_for_each(attribute, message, sizeof(struct nfgenmsg))
    {
        if (mnl_attr_get_type(attribute) == NFTA_TABLE_FLAGS &&
            ntohl(mnl_attr_get_u32(attribute)) != 0)
            add_ability(out, xasprintf("owner 0x%x", ntohl(mnl_attr_get_u32(attribute))));
    }
    add_ability(out, xstrdup("table"));
}

static void take_message(const struct nlmsghdr *message, ability_vec *out)
{
    int type = NFNL_MSG_TYPE(message->nlmsg_type);
    if (type == NFT_MSG_NEWTABLE)
        take_table(message, out);
    else if (type == NFT_MSG_NEWSET)
        take_set(message, out);
    else if (type == NFT_MSG_NEWCHAIN)
        take_chain(message, out);
    else if (type == NFT_MSG_NEWRULE)
        take_rule(message, out);
    else
        ck_assert_int_eq(type, NFT_MSG_NEWSETELEM);
}

/* What the messages of a family ask for; NFPROTO_UNSPEC for both. */
static void take_batch(struct nft_batch *batch, uint8_t nf_family, ability_vec *out)
{
    nft_batch_finish(batch);
    for (size_t at = 0; at < batch->used;) {
        const struct nlmsghdr *message = (const void *)(batch->buffer + at);
        const struct nfgenmsg *head = mnl_nlmsg_get_payload(message);
        if (nf_family == NFPROTO_UNSPEC || head->nfgen_family == nf_family)
            take_message(message, out);
        at += MNL_ALIGN(message->nlmsg_len);
    }
}

/* ---- the kernel ---- */

int nft_socket_check(struct nft_socket *socket, struct nft_batch *batch, int *why,
                     struct error *err)
{
    bool refused = false;
    ability_vec asked = {0};
    ck_assert_ptr_null(socket);
    ck_assert_str_eq(batch->table, PREFLIGHT_TABLE);
    kernel.batches++;
    take_batch(batch, kernel.lacking, &asked);
    vec_each (&asked, line) {
        refused =
            refused || (kernel.lacks && strncmp(*line, kernel.lacks, strlen(kernel.lacks)) == 0);
        add_ability(&kernel.asked, *line);
    }
    vec_free(&asked);
    if (!refused)
        return 0;
    if (why)
        *why = kernel.why;
    return error_set(err, "refused: %s", strerror(kernel.why));
}

static void setup(void)
{
    kernel.lacks = NULL;
    kernel.lacking = NFPROTO_UNSPEC;
    kernel.why = ENOENT;
}

static void clear_preflights(void)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        preflight_clear(&preflights[i]);
}

static void teardown(void)
{
    clear_preflights();
    clear_abilities(&kernel.asked);
}

static void run(const char *lacks, bool ipv4, bool ipv6)
{
    const bool families[FAMILY_COUNT] = {[FAMILY_IPV4] = ipv4, [FAMILY_IPV6] = ipv6};
    clear_preflights();
    kernel.lacks = lacks;
    kernel.batches = 0;
    preflight_run(NULL, families, preflights);
}

static void run_without(const char *lacks, enum family family)
{
    run(lacks, family == FAMILY_IPV4, family == FAMILY_IPV6);
    preflight = preflights[family];
    ck_assert_int_eq(preflight.family, family);
    ck_assert_uint_eq(preflights[!family].n, 0);
}

static char *printed(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    preflight_print(&preflight, out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

static void check_missing(const char *expected)
{
    char *missing = preflight_missing(&preflight);
    ck_assert_pstr_eq(missing, expected);
    free(missing);
}

/* ---- tests ---- */

EACH_FAMILY(nothing_is_missing)
{
    run_without(NULL, (enum family)_i);
    check_missing(NULL);
    ck_assert(preflight_passed(&preflight));
    ck_assert(preflight_has(&preflight, NEED_FIB));
    ck_assert(preflight_has(&preflight, NEED_REJECT));
    for (size_t i = 0; i < preflight.n; i++)
        ck_assert(preflight.results[i].works && !preflight.results[i].error);
}

/* That is every kernel before 6.9, which should not wait for all features one by one. */
TEST(an_owner_is_missing)
{
    run("owner ", true, true);
    ck_assert_uint_eq(kernel.batches, 4); /* all, all others, and that one of each family */
    for (int i = 0; i < FAMILY_COUNT; i++) {
        preflight = preflights[i];
        check_missing("tables that stay ours (owner): Linux 6.9");
    }
    run("owner ", false, true);
    ck_assert_uint_eq(kernel.batches, 3);
}

EACH_FAMILY(one_family_lacks_something)
{
    enum family whole = (enum family)_i, less = whole == FAMILY_IPV4 ? FAMILY_IPV6 : FAMILY_IPV4;
    kernel.lacking = less == FAMILY_IPV4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
    run("fib ", true, true);
    ck_assert(preflight_passed(&preflights[less]));
    ck_assert(!preflight_has(&preflights[less], NEED_FIB));
    ck_assert(preflight_has(&preflights[whole], NEED_FIB));
    preflight = preflights[whole];
    check_missing(NULL);
}

/* Each row: the line of an ability, and what is said when the kernel does not have it. In the
 * order of the features, of which none is left out. */
static const struct {
    const char *lacks, *missing;
    enum preflight_need need;
} rows[] = {
    {"set 0x8 of verdicts", "maps and verdict maps: CONFIG_NF_TABLES", NEED_ALWAYS},
    {"meta set mark", "packet mark and interface (meta): CONFIG_NF_TABLES", NEED_ALWAYS},
    {"set 0x4", "sets of ranges: CONFIG_NF_TABLES", NEED_ALWAYS},
    {"ct ", "connection tracking (ct): CONFIG_NF_CONNTRACK, CONFIG_NFT_CT", NEED_ALWAYS},
    {"chain nat", "chains that translate (nat): CONFIG_NF_NAT, CONFIG_NFT_NAT", NEED_ALWAYS},
    {"nat ", "destinations from a map (dnat): CONFIG_NF_NAT, CONFIG_NFT_NAT", NEED_ALWAYS},
    {"numgen ", "random choice (numgen): CONFIG_NFT_NUMGEN", NEED_ALWAYS},
    {"masq ", "masquerade fully-random: CONFIG_NFT_MASQ", NEED_ALWAYS},
    {"dynset delete ", "elements made by packets (dynset): Linux 5.4", NEED_ALWAYS},
    {"dynset update reg_key # set # expr", "counters of elements (counter): CONFIG_NFT_COUNTER",
     NEED_COUNTERS},
    {"reject ", "reject: CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV%c", NEED_REJECT},
    {"fib ", "type of an address (fib): CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV%c", NEED_FIB},
    {"owner ", "tables that stay ours (owner): Linux 6.9", NEED_OWNER},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

EACH_FAMILY(each_feature_may_be_missing)
{
    enum family family = (enum family)_i;
    for (size_t i = 0; i < ROWS; i++) {
        run_without(rows[i].lacks, family);
        char *missing = xasprintf(rows[i].missing, family == FAMILY_IPV4 ? '4' : '6');
        check_missing(missing);
        free(missing);
        ck_assert_int_eq(preflight_passed(&preflight), rows[i].need != NEED_ALWAYS);
        ck_assert_int_eq(preflight_has(&preflight, NEED_REJECT), rows[i].need != NEED_REJECT);
        ck_assert_int_eq(preflight_has(&preflight, NEED_FIB), rows[i].need != NEED_FIB);
        ck_assert_int_eq(preflight_has(&preflight, NEED_OWNER), rows[i].need != NEED_OWNER);
        ck_assert_int_eq(preflight_has(&preflight, NEED_COUNTERS), rows[i].need != NEED_COUNTERS);
        ck_assert_uint_eq(preflight.n, ROWS + 1);
        for (size_t k = 0; k < preflight.n; k++) {
            ck_assert_int_eq(preflight.results[k].works, k != i + 1);
            ck_assert_pstr_eq(preflight.results[k].error,
                              k == i + 1 ? "refused: No such file or directory" : NULL);
        }
    }
}

/* Without the first feature, the kernel's answers to the others say nothing about them. */
TEST(nf_tables_is_missing)
{
    kernel.why = EOPNOTSUPP;
    run_without("table", FAMILY_IPV6);
    check_missing("nf_tables: CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV6");
    ck_assert(!preflight_passed(&preflight));
    ck_assert(!preflight_has(&preflight, NEED_REJECT));
    ck_assert(!preflight_has(&preflight, NEED_FIB));
    for (size_t i = 1; i < preflight.n; i++)
        ck_assert(!preflight.results[i].works && !preflight.results[i].error);
    char *text = printed();
    ck_assert_ptr_nonnull(strstr(text, "missing (Operation not supported)\n"));
    ck_assert_ptr_nonnull(strstr(text, "not tried\n"));
    free(text);
}

TEST(other_failures_are_told_as_they_are)
{
    kernel.why = EPERM;
    run_without("table", FAMILY_IPV4);
    check_missing("nf_tables: refused: Operation not permitted");
    ck_assert(!preflight_passed(&preflight));
    kernel.why = ENOMEM;
    run_without("fib", FAMILY_IPV4);
    /* says nothing about the kernel */
    check_missing(NULL);
    ck_assert(preflight_passed(&preflight) && preflight_has(&preflight, NEED_FIB));
    char *text = printed();
    ck_assert_ptr_nonnull(strstr(text, "unknown (Cannot allocate memory)\n"));
    free(text);
}

/* ---- print ---- */

static const char *line_of(const char *text, const char *needle)
{
    static char line[512];
    const char *at = strstr(text, needle);
    ck_assert_msg(at != NULL, "%s is not in:\n%s", needle, text);
    while (at > text && at[-1] != '\n')
        at--;
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

TEST(a_table_is_printed)
{
    run_without(NULL, FAMILY_IPV6);
    char *text = printed();
    const char *title = line_of(text, "FAMILY");
    size_t column = (size_t)(strstr(title, "RESULT") - title), lines = 0;
    ck_assert_str_eq(line_of(text, "numgen"),
                     "IPv6    random choice (numgen)             CONFIG_NFT_NUMGEN                 "
                     "         picking an endpoint                  ok");
    for (const char *at = strchr(text, '\n') + 1; *at != '\n'; at = strchr(at, '\n') + 1) {
        ck_assert_int_eq(strncmp(at, "IPv6 ", 5), 0);
        ck_assert_int_eq(strncmp(at + column - 1, " ok\n", 4), 0);
        lines++;
    }
    ck_assert_uint_eq(lines, preflight.n);
    const char *end = "\n\nIPv6: everything needed is available\n";
    ck_assert_str_eq(text + strlen(text) - strlen(end), end);
    free(text);
}

TEST(what_follows_is_printed)
{
    static const struct {
        const char *lacks, *follows;
    } cases[] = {
        {"numgen", "IPv4 without random choice (numgen) (CONFIG_NFT_NUMGEN): the family cannot be "
                   "proxied"},
        {"reject", "IPv4 without reject (CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV4): packets are "
                   "dropped instead of rejected, so clients wait"},
        {"fib", "IPv4 without type of an address (fib) (CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV4): "
                "this host itself reaches only its own endpoints under traffic policy Local"},
        {"dynset update reg_key # set # expr",
         "IPv4 without counters of elements (counter) (CONFIG_NFT_COUNTER): "
         "--count-connections has no effect"},
        {"owner", "IPv4 without tables that stay ours (owner) (Linux 6.9): other "
                  "programs can change the table: their changes are detected and repaired"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run_without(cases[i].lacks, FAMILY_IPV4);
        char *text = printed();
        ck_assert_str_eq(line_of(text, " without "), cases[i].follows);
        ck_assert_ptr_nonnull(strstr(text, "  missing (No such file or directory)\n"));
        ck_assert_ptr_null(strstr(text, "everything needed is available"));
        free(text);
    }
}

/* ---- every expression in use is probed ---- */

static void take_template(const struct template *from, const struct layout_vars *vars,
                          ability_vec *out)
{
    struct error err = {0};
    struct nft_batch batch;
    struct layout layout;
    nft_batch_init(&batch, vars->family, "kube-nftd");
    nft_batch_add_table(&batch, "of a test");
    int result = layout_parse(from, vars, &layout, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    result = program_layout(&layout, PROGRAM_ALL, &batch, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    layout_free(&layout);
    take_batch(&batch, NFPROTO_UNSPEC, out);
    nft_batch_release(&batch);
}

/* All templates, with all that their variables may stand for. */
static void take_templates(enum family family, ability_vec *out)
{
    const struct layout_vars base = {.family = family,
                                     .mark = "0x4000",
                                     .from_host = "fib saddr type local",
                                     .reject = "reject",
                                     .count_services = "",
                                     .count_endpoints = "",
                                     .n = 3,
                                     .key = 3};
    const struct {
        const char *from_pod, *not_from_pod, *reject;
    } variants[] = {
        {NULL, NULL, "drop"},
        {"iifname \"cni0\"", "iifname != \"cni0\"", "reject"},
        {"iifname \"veth*\"", "iifname != \"veth*\"", "reject"},
        {family == FAMILY_IPV4 ? "ip saddr @pod_cidrs" : "ip6 saddr @pod_cidrs",
         family == FAMILY_IPV4 ? "ip saddr != @pod_cidrs" : "ip6 saddr != @pod_cidrs", "reject"},
    };
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        struct layout_vars vars = base;
        vars.from_pod = variants[i].from_pod;
        vars.not_from_pod = variants[i].not_from_pod;
        vars.reject = variants[i].reject;
        for (int id = 0; id < TEMPLATE_COUNT; id++)
            take_template(&templates[id], &vars, out);
    }
}

EACH_FAMILY(all_that_is_in_use_is_probed)
{
    ability_vec used = {0};
    run_without(NULL, (enum family)_i);
    take_templates((enum family)_i, &used);
    ck_assert_uint_gt(used.n, 30);
    vec_each (&used, line) {
        bool probed = false;
        vec_each (&kernel.asked, asked)
            probed = probed || strcmp(*line, *asked) == 0;
        ck_assert_msg(probed, "no feature probes: %s", *line);
    }
    clear_abilities(&used);
}

UNIT_FIXTURE(setup, teardown)
