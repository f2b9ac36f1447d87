/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The templates: what is read from them, and what is rejected and where. Most is in
 * tests/unit/cases/template. */
#include "script.h"

#include "kube-nftd/table.h"
#include "table/template.h"

#include <ctype.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

static struct layout layout; /* the present one */
static char *values[16];     /* of its variables, as given */
static size_t n_values;

static void clear(void)
{
    layout_free(&layout);
    memset(&layout, 0, sizeof(layout));
    while (n_values > 0)
        free(values[--n_values]);
}

static uint64_t fingerprints[26]; /* that were met */

static void tear_down(void)
{
    clear();
    memset(fingerprints, 0, sizeof(fingerprints));
}

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
                                .n = 7};
}

static enum family family_of(const char *word)
{
    return *word == '4' ? FAMILY_IPV4 : FAMILY_IPV6;
}

/* "-NAME": the variable has no value. "NAME=TEXT": it has that one, with ~ for blanks. */
static void change_variable(struct layout_vars *vars, char *word)
{
    const struct {
        const char *name, **text;
    } texts[] = {{"mark", &vars->mark},
                 {"from_pod", &vars->from_pod},
                 {"not_from_pod", &vars->not_from_pod},
                 {"from_host", &vars->from_host},
                 {"reject", &vars->reject},
                 {"to_localhost", &vars->to_localhost},
                 {"count_services", &vars->count_services},
                 {"count_endpoints", &vars->count_endpoints}};
    char *value;
    for (size_t i = 0; i < COUNT(texts); i++)
        if (*word == '-' && strcmp(word + 1, texts[i].name) == 0) {
            *texts[i].text = NULL;
        } else if (script_option(word, texts[i].name, &value)) {
            for (char *at; (at = strchr(value, '~'));)
                *at = ' ';
            *texts[i].text = values[n_values++] = xstrdup(value);
        }
    if (script_option(word, "n", &value))
        vars->n = (unsigned)strtoul(value, NULL, 0);
}

/* @words: family and variables. */
static void read_layout(const struct template *from, char *words, FILE *out)
{
    struct error err = {0};
    clear();
    struct layout_vars vars = all_vars(family_of(script_word(&words)));
    for (char *word; *(word = script_word(&words));)
        change_variable(&vars, word);
    int result = layout_parse(from, &vars, &layout, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    if (result) {
        fprintf(out, "%s\n", err.text);
        clear();
    }
    error_clear(&err);
}

/* ---- commands ---- */

/* use FILE FAMILY VARIABLE...: one of the real templates. */
COMMAND(use)
{
    const char *file = script_word(&words);
    int id = 0;
    if (strcmp(flowtable_template.file, file) == 0) {
        read_layout(&flowtable_template, words, out);
        return;
    }
    while (id < TEMPLATE_COUNT && strcmp(templates[id].file, file) != 0)
        id++;
    ck_assert_msg(id < TEMPLATE_COUNT, "no template %s", file);
    read_layout(&templates[id], words, out);
}

static void print_comment(const char *comment, FILE *out)
{
    if (comment)
        fprintf(out, "%s", comment);
}

static void print_set(const struct layout_set *set, FILE *out)
{
    fprintf(out, "%s %s: %s", set->is_map ? "map" : "set", set->name, set->declaration);
    if (set->flags)
        fprintf(out, ", flags %s", set->flags);
    if (set->size)
        fprintf(out, ", size %u", set->size);
    vec_each (&set->verdicts, verdict)
        fprintf(out, ", %x : %s", verdict->key, verdict->chain);
    fprintf(out, "\n");
}

static void print_hook(const struct layout_chain *chain, FILE *out)
{
    if (chain->hook)
        fprintf(out, " %s %u %d: %s", nftnl_chain_get_str(chain->chain, NFTNL_CHAIN_TYPE),
                nftnl_chain_get_u32(chain->chain, NFTNL_CHAIN_HOOKNUM),
                nftnl_chain_get_s32(chain->chain, NFTNL_CHAIN_PRIO), chain->hook);
}

/* show NAME...: sets and chains, with a rule a line. */
COMMAND(show)
{
    for (const char *name; *(name = script_word(&words));) {
        vec_each (&layout.sets, set)
            if (strcmp(set->name, name) == 0)
                print_set(set, out);
        vec_each (&layout.chains, chain) {
            if (strcmp(chain->name, name) != 0)
                continue;
            fprintf(out, "chain %s", name);
            print_hook(chain, out);
            fprintf(out, "\n");
            vec_each (&chain->rules, rule)
                fprintf(out, "  %s\n", rule->text);
        }
    }
}

COMMAND(count)
{
    size_t hooks = 0;
    vec_each (&layout.chains, chain)
        hooks += chain->hook != NULL;
    fprintf(out, "sets %zu, chains %zu, hooks %zu\n", layout.sets.n, layout.chains.n, hooks);
}

/* The text below as it is, or in a table that begins in line 1. */
static struct template given(bool whole)
{
    static char *text;
    free(text);
    text =
        whole ? xstrdup(script_text()) : xasprintf("table ${ip} kube-nftd {\n%s}\n", script_text());
    return (struct template){"t.nft", text};
}

static void print_layout(FILE *out)
{
    vec_each (&layout.sets, set) {
        print_comment(set->comment, out);
        print_set(set, out);
    }
    vec_each (&layout.chains, chain) {
        print_comment(chain->comment, out);
        fprintf(out, "chain %s", chain->name);
        print_hook(chain, out);
        fprintf(out, "\n");
        vec_each (&chain->rules, rule)
            fprintf(out, "  %s\n", rule->text);
    }
}

/* table FAMILY VARIABLE...: what is read of the text below, which stands in a table. file: it is
 * all there is. */
COMMAND(table)
{
    const struct template from = given(false);
    read_layout(&from, words, out);
    print_layout(out);
}

COMMAND(file)
{
    const struct template from = given(true);
    read_layout(&from, words, out);
    print_layout(out);
}

/* A letter for each fingerprint of the case, of the text below or else the present layout. */
COMMAND(fingerprint)
{
    size_t i = 0;
    if (*script_text()) {
        const struct template from = given(false);
        read_layout(&from, (char[]){"4"}, out);
    }
    uint64_t hash = layout_fingerprint(&layout, (unsigned)atoi(words));
    while (fingerprints[i] != 0 && fingerprints[i] != hash)
        i++;
    fingerprints[i] = hash;
    fprintf(out, "%c\n", (int)('a' + i));
}

/* ---- rules ---- */

/* Of the host's byte order; of what is longer, the beginning. */
static int number_of(const void *bytes, uint32_t length)
{
    uint64_t eight;
    uint32_t four = 0;
    uint16_t two;
    memcpy(&eight, bytes, length == 8 ? 8 : 0);
    memcpy(&two, bytes, length == 2 ? 2 : 0);
    memcpy(&four, bytes, length < sizeof(four) ? length : sizeof(four));
    return length == 8   ? (int)eight
           : length == 2 ? two
           : length == 1 ? *(const uint8_t *)bytes
                         : (int)four;
}

/* Names of sets, chains and interfaces; the last may be cut to their beginning. */
static bool is_name(const char *kind, uint16_t attribute, const char *value)
{
    return (attribute == NFTNL_EXPR_LOOKUP_SET && strcmp(kind, "lookup") == 0) ||
           (attribute == NFTNL_EXPR_DYNSET_SET_NAME && strcmp(kind, "dynset") == 0) ||
           (attribute == NFTNL_EXPR_IMM_CHAIN && strcmp(kind, "immediate") == 0) ||
           (attribute == NFTNL_EXPR_CMP_DATA && strcmp(kind, "cmp") == 0 && isalpha(*value));
}

/* Its kind, and all that is set, by the numbers of libnftnl's attributes; what is compared with its
 * length. */
static int print_expression(struct nftnl_expr *expr, void *out)
{
    const char *kind = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    fprintf(out, "%s%s", ftell(out) > 0 ? ", " : "", kind);
    for (uint16_t i = NFTNL_EXPR_BASE; i < 32; i++) {
        uint32_t length = 0;
        const void *value = nftnl_expr_is_set(expr, i) ? nftnl_expr_get(expr, i, &length) : NULL;
        if (value && is_name(kind, i, value))
            fprintf(out, " %.*s", (int)length, (const char *)value);
        else if (value && length > 0)
            fprintf(out, " %d", number_of(value, length));
        if (value && i == NFTNL_EXPR_CMP_DATA && strcmp(kind, "cmp") == 0)
            fprintf(out, "/%u", length);
    }
    return 0;
}

/* rule FAMILY TEXT: its expressions. */
COMMAND(rule)
{
    enum family family = family_of(script_word(&words));
    struct error err = {0};
    struct nftnl_rule *rule = nftnl_rule_alloc();
    int result = statements_add(words, family, rule, &err);
    if (result)
        fprintf(out, "%s\n", err.text);
    else if (nftnl_expr_foreach(rule, print_expression, out) == 0 && ftell(out) > 0)
        fprintf(out, "\n");
    ck_assert_int_eq(result, err.text ? -1 : 0);
    error_clear(&err);
    nftnl_rule_free(rule);
}

CASES("template")

/* ---- the real templates ---- */

static void parse(enum template_id id, enum family family, struct layout *out)
{
    struct layout_vars vars = all_vars(family);
    struct error err = {0};
    ck_assert_msg(layout_parse(&templates[id], &vars, out, &err) == 0, "%s", err.text);
}

/* They declare the same verdict maps as the base does, or would not fit it. */
EACH_FAMILY(templates_agree)
{
    parse(TEMPLATE_BASE, (enum family)_i, &layout);
    for (int id = TEMPLATE_BASE + 1; id < TEMPLATE_COUNT; id++) {
        struct layout other = {.sets = {0}};
        parse((enum template_id)id, (enum family)_i, &other);
        vec_each (&other.sets, set) {
            bool agrees = false;
            vec_each (&layout.sets, it)
                agrees = agrees || (strcmp(it->name, set->name) == 0 &&
                                    strcmp(it->declaration, set->declaration) == 0);
            ck_assert_msg(agrees, "%s", set->name);
        }
        layout_free(&other);
    }
}

/* Each beginning of the real templates, cut at a line, is rejected. */
TESTS(cut_template, TEMPLATE_COUNT)
{
    const char *text = templates[_i].text, *last = strstr(text, "\n}\n");
    const struct layout_vars vars = all_vars(FAMILY_IPV4);
    ck_assert_ptr_nonnull(last);
    for (const char *end = text; end <= last; end = strchr(end, '\n') + 1) {
        struct error err = {0};
        char *part = xstrndup(text, (size_t)(end - text));
        const struct template from = {"t.nft", part};
        ck_assert_int_eq(layout_parse(&from, &vars, &layout, &err), -1);
        ck_assert_ptr_nonnull(err.text);
        error_clear(&err);
        clear();
        free(part);
    }
}

TESTS(each_chain_has_rules, (TEMPLATE_COUNT * FAMILY_COUNT))
{
    parse((enum template_id)(_i % TEMPLATE_COUNT), (enum family)(_i / TEMPLATE_COUNT), &layout);
    vec_each (&layout.chains, chain)
        ck_assert_uint_gt(chain->rules.n, 0);
}

UNIT_FIXTURE(NULL, tear_down)
