/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The preflight on kernels that lack something. This file has a nft_socket_check() of its own, so
 * the linker leaves the real one in the library. test_nft_socket.c has the real kernel.
 */
#include "script.h"

#include "kube-nftd/client.h"
#include "kube-nftd/host.h"
#include "kube-nftd/table.h"
#include "table/template.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>

/* libnftnl's headers need stdio.h before them. */
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

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
    return (strcmp(word, "set") == 0 && strcmp(expression, "meta") != 0) ||
           strcmp(word, "->") == 0 || strcmp(word, "flowtable") == 0;
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
    else if (type == NFT_MSG_NEWFLOWTABLE)
        add_ability(out, xstrdup("flowtable"));
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

/* In place of src/host/proc.c. */
static long long tcp_timeout = 30; /* of flowtables; -1: there is no such setting */

long long host_net_setting(const char *path)
{
    ck_assert_str_eq(path, "netfilter/nf_flowtable_tcp_timeout");
    return tcp_timeout;
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
    tcp_timeout = 30;
}

/* ---- commands: tests/unit/cases/preflight ---- */

/* lacks FAMILIES ERRNO WORDS: what begins so is not known, in a family or all. */
COMMAND(lacks)
{
    const char *families = script_word(&words), *why = script_word(&words);
    static char *text;
    free(text);
    kernel.lacks = text = xstrdup(words);
    kernel.lacking = strcmp(families, "4") == 0   ? NFPROTO_IPV4
                     : strcmp(families, "6") == 0 ? NFPROTO_IPV6
                                                  : NFPROTO_UNSPEC;
    kernel.why = strcmp(why, "ENOENT") == 0       ? ENOENT
                 : strcmp(why, "EOPNOTSUPP") == 0 ? EOPNOTSUPP
                 : strcmp(why, "ENOMEM") == 0     ? ENOMEM
                                                  : EPERM;
}

/* Before Linux 5.14. */
COMMAND(old)
{
    tcp_timeout = -1;
}

/* What a family can do, in one line. */
static void print_facts(const struct preflight *preflight, FILE *out)
{
    static const struct {
        enum preflight_need need;
        const char *name;
    } needs[] = {{NEED_REJECT, "reject"},
                 {NEED_FIB, "fib"},
                 {NEED_OWNER, "owner"},
                 {NEED_COUNTERS, "counters"},
                 {NEED_FLOWTABLE, "flowtables"}};
    char *missing = preflight_missing(preflight);
    fprintf(out, preflight_passed(preflight) ? "passed, has" : "failed, has");
    for (int i = 0; i < COUNT(needs); i++)
        if (preflight_has(preflight, needs[i].need))
            fprintf(out, " %s", needs[i].name);
    fprintf(out, "; missing: %s\n", missing ? missing : "nothing");
    free(missing);
}

/* What is printed, but for features that work; with @all, everything. */
static void print_table(const struct preflight *preflight, bool all, FILE *out)
{
    char *text = NULL;
    size_t length = 0;
    FILE *table = open_memstream(&text, &length);
    preflight_print(preflight, &(struct view_style){.width = 0}, table);
    ck_assert_int_eq(fclose(table), 0);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && rest;) {
        size_t n = strlen(line);
        bool is_ok = n > 3 && strcmp(line + n - 3, " ok") == 0;
        if (all || (*line && !is_ok && strncmp(line, "FAMILY", 6) != 0))
            fprintf(out, "%s\n", line);
    }
    free(text);
}

/* run FAMILIES: how many batches it takes, and what is found. */
COMMAND(run)
{
    const bool families[FAMILY_COUNT] = {
        [FAMILY_IPV4] = strchr(words, '4'), [FAMILY_IPV6] = strchr(words, '6')};
    clear_preflights();
    kernel.batches = 0;
    preflight_run(NULL, families, true, preflights);
    fprintf(out, "%u batches\n", kernel.batches);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct preflight *preflight = &preflights[i];
        ck_assert_int_eq(preflight->n > 0, families[i]);
        ck_assert(preflight->n == 0 || preflight->family == (enum family)i);
        for (size_t k = 0; k < preflight->n; k++)
            ck_assert(!preflight->results[k].works || !preflight->results[k].error ||
                      kernel.why == ENOMEM);
        if (preflight->n > 0) {
            print_facts(preflight, out);
            print_table(preflight, false, out);
        }
    }
}

/* All of the table of the last run. */
COMMAND(print)
{
    print_table(&preflights[*words == '6' ? FAMILY_IPV6 : FAMILY_IPV4], true, out);
}

CASES("preflight")

/* ---- every expression in use is probed ---- */

static void take_template(const struct template *from, const struct layout_vars *vars,
                          ability_vec *out)
{
    struct error err = {0};
    struct nft_batch batch;
    struct layout layout = {.sets = {0}};
    nft_batch_init(&batch, vars->family, "kube-nftd");
    nft_batch_add_table(&batch, false, "of a test");
    int result = layout_parse(from, vars, &layout, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    program_layout(&layout, true, &batch);
    layout_free(&layout);
    take_batch(&batch, NFPROTO_UNSPEC, out);
    nft_batch_release(&batch);
}

/* All templates, with all that their variables may stand for. */
static void take_templates(enum family family, ability_vec *out)
{
    static const struct layout_vars variants[] = {
        {.reject = "drop"},
        {.from_pod = "iifname \"cni0\"", .not_from_pod = "iifname != \"cni0\""},
        {.from_pod = "iifname \"veth*\"", .not_from_pod = "iifname != \"veth*\""},
        {.from_pod = "ip saddr @pod_cidrs", .not_from_pod = "ip saddr != @pod_cidrs"},
        {.from_pod = "ip6 saddr @pod_cidrs", .not_from_pod = "ip6 saddr != @pod_cidrs"},
    };
    for (int i = 0; i < COUNT(variants); i++) {
        struct layout_vars vars = variants[i];
        if (i == (family == FAMILY_IPV4 ? 4 : 3)) /* of the other family */
            continue;
        vars.family = family;
        vars.mark = "0x4000";
        vars.from_host = "fib saddr type local";
        vars.reject = vars.reject ? vars.reject : "reject";
        vars.count_services = vars.count_endpoints = "";
        vars.to_localhost =
            family == FAMILY_IPV4 ? "ip daddr and 255.0.0.0 == 127.0.0.0" : "ip6 daddr == ::1";
        vars.n = 3;
        for (int id = 0; id < TEMPLATE_COUNT; id++)
            take_template(&templates[id], &vars, out);
        take_template(&flowtable_template, &vars, out);
    }
}

EACH_FAMILY(all_that_is_in_use_is_probed)
{
    ability_vec used = {0};
    const bool families[FAMILY_COUNT] = {_i == FAMILY_IPV4, _i == FAMILY_IPV6};
    preflight_run(NULL, families, true, preflights);
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

UNIT_FIXTURE(NULL, teardown)
