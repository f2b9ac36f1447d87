/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether a table's rules and verdicts are the ones that the templates make. Compared is what every
 * kernel gives back alike: the chain of each rule and the kinds of its expressions, in their order,
 * and where each verdict leads. That finds rules that were flushed, deleted or added by others.
 */
#include "kube-nftd/ruleset/program.h"
#include "kube-nftd/ruleset/record.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <string.h>

typedef VEC(char *) signature_vec;

/* nft puts conversions of byte order into rules where they change nothing, some versions more than
 * others; ours have none. */
static int add_kind(struct nftnl_expr *expr, void *ctx)
{
    char **text = ctx;
    const char *kind = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    if (strcmp(kind, "byteorder") == 0)
        return 0;
    char *longer = xasprintf("%s %s", *text, kind);
    free(*text);
    *text = longer;
    return 0;
}

/* "dispatch: payload meta payload lookup meta meta lookup" */
static char *signature(const char *chain, struct nftnl_rule *rule)
{
    char *text = xasprintf("%s:", chain);
    nftnl_expr_foreach(rule, add_kind, &text);
    return text;
}

static void on_rule(void *ctx, struct nftnl_rule *rule)
{
    signature_vec *found = ctx;
    vec_push(found, signature(nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN), rule));
}

/* ---- verdicts ---- */

static const char *const verdict_maps[] = {"picks", "local_picks", "learners"};

struct verdict_reading {
    const char *map;
    signature_vec *found;
};

/* "picks 196611: masquerade-pick-3" */
static char *verdict_signature(const char *map, uint32_t key, const char *chain)
{
    return xasprintf("%s %u: %s", map, key, chain);
}

static void on_verdict(void *ctx, const struct nft_element *element)
{
    const struct verdict_reading *reading = ctx;
    uint32_t key = 0;
    if (element->key_length == sizeof(key))
        memcpy(&key, element->key, sizeof(key));
    vec_push(reading->found, verdict_signature(reading->map, key,
                                               element->chain ? element->chain : "something else"));
}

static int find_verdicts(const struct ruleset *rs, struct nft_socket *socket, signature_vec *found,
                         struct error *err)
{
    for (size_t i = 0; i < sizeof(verdict_maps) / sizeof(verdict_maps[0]); i++) {
        struct verdict_reading reading = {verdict_maps[i], found};
        if (nft_socket_read_elements(socket, rs->family, RULESET_TABLE, verdict_maps[i], on_verdict,
                                     &reading, err))
            return -1;
    }
    return 0;
}

static void expect_verdicts(const struct layout *layout, signature_vec *expected)
{
    vec_each (&layout->sets, set)
        vec_each (&set->verdicts, verdict)
            vec_push(expected, verdict_signature(set->name, verdict->key, verdict->chain));
}

/* ---- all of it ---- */

static int expect_layout(const struct layout *layout, signature_vec *expected, struct error *err)
{
    struct nft_batch scratch; /* for the anonymous sets that rules need */
    int result = 0;
    nft_batch_init(&scratch, layout->family, RULESET_TABLE);
    vec_each (&layout->chains, chain) {
        vec_each (&chain->rules, from) {
            struct nftnl_rule *rule = nftnl_rule_alloc();
            if (!rule)
                alloc_failed();
            result = result ? result : phrases_add(from->text, layout->family, rule, &scratch, err);
            vec_push(expected, signature(chain->name, rule));
            nftnl_rule_free(rule);
        }
    }
    expect_verdicts(layout, expected);
    nft_batch_release(&scratch);
    return result;
}

static int expect_all(const struct ruleset *rs, signature_vec *expected, struct error *err)
{
    shape_vec shapes = {0};
    shapes_list(&rs->shapes, &shapes);
    int result = expect_layout(&rs->base, expected, err);
    for (size_t i = 0; i < shapes.n && result == 0; i++) {
        struct layout layout;
        result = ruleset_read_shape(rs, shapes.v[i], &layout, err);
        if (result == 0) {
            result = expect_layout(&layout, expected, err);
            layout_free(&layout);
        }
    }
    vec_free(&shapes);
    return result;
}

static int compare_signatures(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool same_signatures(signature_vec *a, signature_vec *b)
{
    if (a->n != b->n)
        return false;
    if (a->n == 0)
        return true;
    qsort(a->v, a->n, sizeof(*a->v), compare_signatures);
    qsort(b->v, b->n, sizeof(*b->v), compare_signatures);
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->v[i], b->v[i]) != 0)
            return false;
    return true;
}

static void signatures_free(signature_vec *signatures)
{
    vec_each (signatures, text)
        free(*text);
    vec_free(signatures);
}

static int find_all(const struct ruleset *rs, struct nft_socket *socket, signature_vec *found,
                    struct error *err)
{
    return nft_socket_read_rules(socket, rs->family, RULESET_TABLE, on_rule, found, err) ||
                   find_verdicts(rs, socket, found, err)
               ? -1
               : 0;
}

static int compare_all(const struct ruleset *rs, signature_vec *found, bool *same,
                       struct error *err)
{
    signature_vec expected = {0};
    int result = expect_all(rs, &expected, err);
    *same = result == 0 && same_signatures(found, &expected);
    signatures_free(&expected);
    return result;
}

int ruleset_verify_rules(const struct ruleset *rs, struct nft_socket *socket, bool *same,
                         struct error *err)
{
    signature_vec found = {0};
    int result = find_all(rs, socket, &found, err);
    result = result ? result : compare_all(rs, &found, same, err);
    signatures_free(&found);
    return result;
}

/* Notes the shapes that rules tell of, by their chains. */
static void take_shapes(struct shapes *shapes, const signature_vec *found)
{
    vec_each (found, text) {
        struct shape shape;
        char *chain = xstrndup(*text, strcspn(*text, ": "));
        if (shape_of_chain(chain, &shape))
            shapes_add(shapes, shape);
        free(chain);
    }
}

int ruleset_take_over_rules(struct ruleset *rs, struct nft_socket *socket, bool *same,
                            struct error *err)
{
    signature_vec found = {0};
    int result = find_all(rs, socket, &found, err);
    if (result == 0) {
        take_shapes(&rs->shapes, &found);
        result = compare_all(rs, &found, same, err);
    }
    signatures_free(&found);
    return result;
}
