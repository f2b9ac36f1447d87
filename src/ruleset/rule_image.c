/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/rule_image.h"

#include "kube-nftd/ruleset/program.h"
#include "kube-nftd/ruleset/record.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdarg.h>
#include <string.h>

/* ---- rules ---- */

/* Appends to a text that was allocated, and frees it. */
__attribute__((format(printf, 2, 3))) static void append(char **text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *more = xvasprintf(format, args);
    va_end(args);
    char *longer = xasprintf("%s%s", *text, more);
    free(more);
    free(*text);
    *text = longer;
}

static void append_number(char **text, const struct nftnl_expr *expr, uint16_t attribute)
{
    if (nftnl_expr_is_set(expr, attribute))
        append(text, " %u", nftnl_expr_get_u32(expr, attribute));
}

static void append_bytes(char **text, const struct nftnl_expr *expr, uint16_t attribute)
{
    char hex[2 * NFT_DATA_VALUE_MAXLEN + 1] = "";
    uint32_t length = 0;
    const uint8_t *bytes =
        nftnl_expr_is_set(expr, attribute) ? nftnl_expr_get(expr, attribute, &length) : NULL;
    for (uint32_t i = 0; i < length && i < NFT_DATA_VALUE_MAXLEN; i++)
        snprintf(hex + 2 * (size_t)i, 3, "%02x", bytes[i]);
    append(text, " %s", hex);
}

/* Sets without a name of their own are called differently each time. */
static void append_set(char **text, const struct nftnl_expr *expr, uint16_t attribute)
{
    const char *name =
        nftnl_expr_is_set(expr, attribute) ? nftnl_expr_get_str(expr, attribute) : "";
    if (strncmp(name, "__", 2) != 0)
        append(text, " @%s", name);
}

static void append_immediate(char **text, const struct nftnl_expr *expr)
{
    bool leads = nftnl_expr_is_set(expr, NFTNL_EXPR_IMM_CHAIN);
    if (!leads && !nftnl_expr_is_set(expr, NFTNL_EXPR_IMM_VERDICT))
        append_bytes(text, expr, NFTNL_EXPR_IMM_DATA);
    else
        append(text, " %d %s", (int)nftnl_expr_get_u32(expr, NFTNL_EXPR_IMM_VERDICT),
               leads ? nftnl_expr_get_str(expr, NFTNL_EXPR_IMM_CHAIN) : "");
}

static void append_compare(char **text, const struct nftnl_expr *expr)
{
    append_number(text, expr, NFTNL_EXPR_CMP_OP);
    append_bytes(text, expr, NFTNL_EXPR_CMP_DATA);
}

static void append_bitwise(char **text, const struct nftnl_expr *expr)
{
    append_bytes(text, expr, NFTNL_EXPR_BITWISE_MASK);
    append_bytes(text, expr, NFTNL_EXPR_BITWISE_XOR);
}

static void append_lookup(char **text, const struct nftnl_expr *expr)
{
    append_set(text, expr, NFTNL_EXPR_LOOKUP_SET);
}

static void append_dynset(char **text, const struct nftnl_expr *expr)
{
    append_number(text, expr, NFTNL_EXPR_DYNSET_OP);
    append_set(text, expr, NFTNL_EXPR_DYNSET_SET_NAME);
}

/* nft puts conversions of byte order into rules where they change nothing, some versions more than
 * others; ours have none. */
static int add_expression(struct nftnl_expr *expr, void *ctx)
{
    static const struct {
        const char *kind;
        void (*append)(char **text, const struct nftnl_expr *expr);
    } details[] = {{"immediate", append_immediate},
                   {"cmp", append_compare},
                   {"bitwise", append_bitwise},
                   {"lookup", append_lookup},
                   {"dynset", append_dynset}};
    const char *kind = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    if (strcmp(kind, "byteorder") == 0)
        return 0;
    append(ctx, " %s", kind);
    for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++)
        if (strcmp(details[i].kind, kind) == 0)
            details[i].append(ctx, expr);
    return 0;
}

/* "dispatch: payload meta payload lookup @services meta meta lookup @picks" */
static void add_rule(struct rule_image *image, const char *chain, struct nftnl_rule *rule)
{
    char *line = xasprintf("%s:", chain);
    nftnl_expr_foreach(rule, add_expression, &line);
    vec_push(&image->rules, line);
}

static void on_rule(void *ctx, struct nftnl_rule *rule)
{
    add_rule(ctx, nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN), rule);
}

/* ---- chains ---- */

/* @type is NULL for a chain without a hook. */
static void add_chain(struct rule_image *image, const char *name, const char *type, int hook,
                      int priority, uint32_t policy)
{
    struct image_chain chain = {
        xstrdup(name),
        type ? xasprintf("%s: %s hook %d priority %d policy %u", name, type, hook, priority, policy)
             : xstrdup(name)};
    vec_push(&image->chains, chain);
}

static void on_chain(void *ctx, struct nftnl_chain *chain)
{
    bool based = nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM);
    add_chain(ctx, nftnl_chain_get_str(chain, NFTNL_CHAIN_NAME),
              based ? nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE) : NULL,
              based ? (int)nftnl_chain_get_u32(chain, NFTNL_CHAIN_HOOKNUM) : 0,
              based ? nftnl_chain_get_s32(chain, NFTNL_CHAIN_PRIO) : 0,
              based ? nftnl_chain_get_u32(chain, NFTNL_CHAIN_POLICY) : 0);
}

/* ---- verdicts ---- */

static const char *const verdict_maps[] = {"picks", "local_picks", "learners"};
#define VERDICT_MAPS (sizeof(verdict_maps) / sizeof(verdict_maps[0]))

struct verdict_reading {
    struct rule_image *image;
    const char *map;
};

static void add_verdict(struct rule_image *image, const char *map, uint32_t key, const char *chain)
{
    struct image_verdict verdict = {map, key, xstrdup(chain)};
    vec_push(&image->verdicts, verdict);
}

static void on_verdict(void *ctx, const struct nft_element *element)
{
    const struct verdict_reading *reading = ctx;
    uint32_t key = 0;
    if (element->key_length == sizeof(key))
        memcpy(&key, element->key, sizeof(key));
    add_verdict(reading->image, reading->map, key, element->chain ? element->chain : "");
}

static const char *verdict_map(const char *name)
{
    for (size_t i = 0; i < VERDICT_MAPS; i++)
        if (strcmp(verdict_maps[i], name) == 0)
            return verdict_maps[i];
    abort(); /* templates have no other */
}

/* ---- all of it ---- */

int rule_image_read(const struct ruleset *rs, struct nft_socket *socket, struct rule_image *image,
                    struct error *err)
{
    if (nft_socket_read_chains(socket, rs->family, RULESET_TABLE, on_chain, image, err) ||
        nft_socket_read_rules(socket, rs->family, RULESET_TABLE, on_rule, image, err))
        return -1;
    for (size_t i = 0; i < VERDICT_MAPS; i++) {
        struct verdict_reading reading = {image, verdict_maps[i]};
        if (nft_socket_read_elements(socket, rs->family, RULESET_TABLE, verdict_maps[i], on_verdict,
                                     &reading, err))
            return -1;
    }
    return 0;
}

static int expect_layout(const struct layout *layout, struct rule_image *image, struct error *err)
{
    struct nft_batch scratch; /* for the anonymous sets that rules need */
    int result = 0;
    nft_batch_init(&scratch, layout->family, RULESET_TABLE);
    vec_each (&layout->chains, chain) {
        add_chain(image, chain->name, chain->type, chain->hook ? program_hook(chain->hook) : 0,
                  chain->priority, NF_ACCEPT);
        vec_each (&chain->rules, from) {
            struct nftnl_rule *rule = nftnl_rule_alloc();
            if (!rule)
                alloc_failed();
            result = result ? result : phrases_add(from->text, layout->family, rule, &scratch, err);
            add_rule(image, chain->name, rule);
            nftnl_rule_free(rule);
        }
    }
    vec_each (&layout->sets, set)
        vec_each (&set->verdicts, verdict)
            add_verdict(image, verdict_map(set->name), verdict->key, verdict->chain);
    nft_batch_release(&scratch);
    return result;
}

int rule_image_expect(const struct ruleset *rs, struct rule_image *image, struct error *err)
{
    shape_vec shapes = {0};
    shapes_list(&rs->shapes, &shapes);
    int result = expect_layout(&rs->base, image, err);
    for (size_t i = 0; i < shapes.n && result == 0; i++) {
        struct layout layout;
        result = ruleset_read_shape(rs, shapes.v[i], &layout, err);
        if (result == 0) {
            result = expect_layout(&layout, image, err);
            layout_free(&layout);
        }
    }
    vec_free(&shapes);
    return result;
}

/* ---- comparing ---- */

static int compare_chains(const void *a, const void *b)
{
    return strcmp(((const struct image_chain *)a)->line, ((const struct image_chain *)b)->line);
}

static int compare_rules(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int compare_verdicts(const void *a, const void *b)
{
    const struct image_verdict *p = a, *q = b;
    int order = strcmp(p->map, q->map);
    if (order == 0)
        order = (p->key > q->key) - (p->key < q->key);
    return order ? order : strcmp(p->chain, q->chain);
}

/* Sorts both. */
static bool same(void *a, size_t a_n, void *b, size_t b_n, size_t size,
                 int (*compare)(const void *a, const void *b))
{
    if (a_n != b_n || a_n == 0)
        return a_n == b_n;
    qsort(a, a_n, size, compare);
    qsort(b, b_n, size, compare);
    for (size_t i = 0; i < a_n; i++)
        if (compare((const char *)a + i * size, (const char *)b + i * size) != 0)
            return false;
    return true;
}

bool rule_image_same(struct rule_image *a, struct rule_image *b)
{
    return same(a->chains.v, a->chains.n, b->chains.v, b->chains.n, sizeof(*a->chains.v),
                compare_chains) &&
           same(a->rules.v, a->rules.n, b->rules.v, b->rules.n, sizeof(*a->rules.v),
                compare_rules) &&
           same(a->verdicts.v, a->verdicts.n, b->verdicts.v, b->verdicts.n, sizeof(*a->verdicts.v),
                compare_verdicts);
}

void rule_image_free(struct rule_image *image)
{
    vec_each (&image->chains, chain) {
        free(chain->name);
        free(chain->line);
    }
    vec_each (&image->rules, line)
        free(*line);
    vec_each (&image->verdicts, verdict)
        free(verdict->chain);
    vec_free(&image->chains);
    vec_free(&image->rules);
    vec_free(&image->verdicts);
}
