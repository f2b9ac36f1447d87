/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rules.h"

#include "state.h"
#include "template.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <string.h>

/* ---- chains and rules ---- */

static int compare_chains(const void *a, const void *b)
{
    return strcmp(((const struct rules_chain *)a)->name, ((const struct rules_chain *)b)->name);
}

struct rules_chain *rules_find_chain(const struct rules *rules, const char *name)
{
    const struct rules_chain key = {.name = (char *)name};
    return rules->chains.n ? bsearch(&key, rules->chains.v, rules->chains.n,
                                     sizeof(*rules->chains.v), compare_chains)
                           : NULL;
}

/* @type is NULL for a chain without a hook. */
static void add_chain(struct rules *rules, const char *name, const char *type, int hook,
                      int priority, uint32_t policy)
{
    struct rules_chain chain = {
        xstrdup(name),
        type ? xasprintf("%s hook %d priority %d policy %u", type, hook, priority, policy)
             : xstrdup(""),
        xstrdup("")};
    vec_push(&rules->chains, chain);
}

static void append(char **text, const char *more)
{
    char *longer = xasprintf("%s%s\n", *text, more);
    free(*text);
    *text = longer;
}

static void add_rule(struct rules *rules, struct rules_chain *chain, struct nftnl_rule *rule)
{
    set_name_vec anonymous = {0};
    char *text = rule_text(rule, &anonymous);
    append(&chain->rules, text);
    vec_each (&anonymous, name)
        vec_push(&rules->anonymous, ((struct rules_set){xstrdup(chain->name), *name}));
    vec_free(&anonymous);
    free(text);
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

/* A chain that is not there was made since: then the generation is another one. */
static void on_rule(void *ctx, struct nftnl_rule *rule)
{
    struct rules_chain *chain = rules_find_chain(ctx, nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN));
    if (chain)
        add_rule(ctx, chain, rule);
}

/* ---- sets without a name ---- */

/* The templates have just one kind of them. */
struct set_reading {
    unsigned found; /* the protocols, a bit each */
    bool strange, torn;
};

static void on_protocol(void *ctx, const struct nft_element *element)
{
    struct set_reading *reading = ctx;
    for (unsigned i = 0; i < ANONYMOUS_PROTOCOLS; i++)
        if (element->key_length == 1 && *element->key == anonymous_protocols[i]) {
            reading->torn = reading->torn || reading->found & 1u << i;
            reading->found |= 1u << i;
            return;
        }
    reading->strange = true;
}

/* What differs becomes a part of the chain's text. */
static int read_anonymous(const struct ruleset *rs, struct nft_socket *socket, struct rules *rules,
                          struct error *err)
{
    vec_each (&rules->anonymous, it) {
        struct set_reading reading = {.strange = false};
        if (nft_socket_read_elements(socket, rs->family, RULESET_TABLE, it->set, on_protocol,
                                     &reading, err))
            return -1;
        if (reading.torn)
            return error_set(err, "the kernel returned elements twice");
        if (reading.strange || reading.found != (1u << ANONYMOUS_PROTOCOLS) - 1)
            append(&rules_find_chain(rules, it->chain)->rules, "with other protocols");
    }
    return 0;
}

/* ---- verdicts ---- */

static const char *const verdict_maps[] = {"picks", "local_picks", "learners"};
#define VERDICT_MAPS (sizeof(verdict_maps) / sizeof(verdict_maps[0]))

struct verdict_reading {
    struct rules *rules;
    const char *map;
};

static void add_verdict(struct rules *rules, const char *map, uint32_t key, const char *chain)
{
    struct rules_verdict verdict = {map, key, xstrdup(chain)};
    vec_push(&rules->verdicts, verdict);
}

static void on_verdict(void *ctx, const struct nft_element *element)
{
    const struct verdict_reading *reading = ctx;
    uint32_t key = 0;
    if (element->key_length == sizeof(key))
        memcpy(&key, element->key, sizeof(key));
    add_verdict(reading->rules, reading->map, key, element->chain ? element->chain : "");
}

static int compare_verdicts(const void *a, const void *b)
{
    const struct rules_verdict *p = a, *q = b;
    int order = strcmp(p->map, q->map);
    if (order == 0)
        order = (p->key > q->key) - (p->key < q->key);
    return order ? order : strcmp(p->chain, q->chain);
}

bool rules_have_verdict(const struct rules *rules, const struct rules_verdict *verdict)
{
    return rules->verdicts.n && bsearch(verdict, rules->verdicts.v, rules->verdicts.n,
                                        sizeof(*verdict), compare_verdicts);
}

const char *rules_map(const char *name)
{
    for (size_t map = 0; map < VERDICT_MAPS; map++)
        if (strcmp(verdict_maps[map], name) == 0)
            return verdict_maps[map];
    return NULL;
}

static int expect_verdicts(struct rules *rules, const struct layout_set *set, struct error *err)
{
    const char *map = rules_map(set->name);
    if (!map && set->verdicts.n > 0)
        return error_set(err, "no map of verdicts: %s", set->name);
    vec_each (&set->verdicts, verdict)
        add_verdict(rules, map, verdict->key, verdict->chain);
    return 0;
}

/* -1 if one came twice: the kernel was moving them to a larger table, and may have left out others
 * as well. */
static int sort_verdicts(struct rules *rules, struct error *err)
{
    const struct rules_verdict *verdicts = rules->verdicts.v;
    if (rules->verdicts.n)
        qsort(rules->verdicts.v, rules->verdicts.n, sizeof(*rules->verdicts.v), compare_verdicts);
    for (size_t i = 1; i < rules->verdicts.n; i++)
        if (compare_verdicts(&verdicts[i - 1], &verdicts[i]) == 0)
            return error_set(err, "the kernel returned elements twice");
    return 0;
}

/* ---- all of it ---- */

static void sort_chains(struct rules *rules)
{
    if (rules->chains.n)
        qsort(rules->chains.v, rules->chains.n, sizeof(*rules->chains.v), compare_chains);
}

int rules_read(const struct ruleset *rs, struct nft_socket *socket, struct rules *rules,
               struct error *err)
{
    if (nft_socket_read_chains(socket, rs->family, RULESET_TABLE, on_chain, rules, err))
        return -1;
    sort_chains(rules);
    if (nft_socket_read_rules(socket, rs->family, RULESET_TABLE, on_rule, rules, err))
        return -1;
    for (size_t i = 0; i < VERDICT_MAPS; i++) {
        struct verdict_reading reading = {rules, verdict_maps[i]};
        if (nft_socket_read_elements(socket, rs->family, RULESET_TABLE, verdict_maps[i], on_verdict,
                                     &reading, err))
            return -1;
    }
    return sort_verdicts(rules, err) ? -1 : read_anonymous(rs, socket, rules, err);
}

int rules_each_layout(const struct ruleset *rs, const struct shapes *which,
                      int (*fn)(void *ctx, const struct layout *layout, struct error *err),
                      void *ctx, struct error *err)
{
    shape_vec shapes = {0};
    shapes_list(which, &shapes);
    int result = fn(ctx, &rs->base, err);
    for (size_t i = 0; i < shapes.n && result == 0; i++) {
        struct layout layout;
        result = ruleset_read_shape(rs, shapes.v[i], &layout, err);
        if (result == 0) {
            result = fn(ctx, &layout, err);
            layout_free(&layout);
        }
    }
    vec_free(&shapes);
    return result;
}

static int expect_rules(struct rules *rules, const struct layout *layout,
                        const struct layout_chain *chain, struct error *err)
{
    struct nft_batch scratch; /* for the anonymous sets that rules need */
    int result = 0;
    nft_batch_init(&scratch, layout->family, RULESET_TABLE);
    for (size_t i = 0; i < chain->rules.n && result == 0; i++) {
        struct nftnl_rule *rule = nftnl_rule_alloc();
        if (!rule)
            alloc_failed();
        result = statements_add(chain->rules.v[i].text, layout->family, rule, &scratch, err);
        add_rule(rules, &rules->chains.v[rules->chains.n - 1], rule);
        nftnl_rule_free(rule);
    }
    nft_batch_release(&scratch);
    return result;
}

static int expect_layout(void *ctx, const struct layout *layout, struct error *err)
{
    struct rules *rules = ctx;
    vec_each (&layout->chains, chain) {
        add_chain(rules, chain->name, chain->hook_text ? chain->type : NULL, chain->hook,
                  chain->priority, NF_ACCEPT);
        if (expect_rules(rules, layout, chain, err))
            return -1;
    }
    vec_each (&layout->sets, set)
        if (expect_verdicts(rules, set, err))
            return -1;
    return 0;
}

int rules_expect(const struct ruleset *rs, const struct shapes *shapes, struct rules *rules,
                 struct error *err)
{
    int result = rules_each_layout(rs, shapes, expect_layout, rules, err);
    sort_chains(rules);
    return result ? result : sort_verdicts(rules, err);
}

bool rules_same_chain(const struct rules_chain *a, const struct rules_chain *b)
{
    return a && b && strcmp(a->hook, b->hook) == 0 && strcmp(a->rules, b->rules) == 0;
}

bool rules_same(const struct rules *a, const struct rules *b)
{
    if (a->chains.n != b->chains.n || a->verdicts.n != b->verdicts.n)
        return false;
    vec_each (&a->chains, chain)
        if (!rules_same_chain(chain, rules_find_chain(b, chain->name)))
            return false;
    vec_each (&a->verdicts, verdict)
        if (!rules_have_verdict(b, verdict))
            return false;
    return true;
}

void rules_free(struct rules *rules)
{
    vec_each (&rules->chains, chain) {
        free(chain->name);
        free(chain->hook);
        free(chain->rules);
    }
    vec_each (&rules->verdicts, verdict)
        free(verdict->chain);
    vec_each (&rules->anonymous, it) {
        free(it->chain);
        free(it->set);
    }
    vec_free(&rules->chains);
    vec_free(&rules->verdicts);
    vec_free(&rules->anonymous);
}
