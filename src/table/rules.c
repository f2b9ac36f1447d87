/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rules.h"

#include "state.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <string.h>

/* libnftnl's limit: it tracks an expression's attributes in 32 bits. */
#define MOST_ATTRIBUTES 32

void rules_free_item(struct rules_item *item)
{
    free(item->name);
    free(item->hook);
    free(item->rules);
}

void rules_free(struct rules *rules)
{
    vec_each (&rules->items, item)
        rules_free_item(item);
    vec_each (&rules->anonymous, it)
        free(it->set);
    vec_free(&rules->items);
    vec_free(&rules->anonymous);
}

/* ---- a rule as text ---- */

/* Attributes that only some kernels return, or that differ without meaning. */
static const struct addition {
    const char *kind;
    uint16_t attribute;
    uint16_t repeats; /* redundant if equal to this attribute; 0: none */
    uint32_t but_for; /* else redundant if 0 except for these bits */
} additions[] = {
    {"lookup", NFTNL_EXPR_LOOKUP_FLAGS, 0, 0},
    {"numgen", NFTNL_EXPR_NG_OFFSET, 0, 0},
    {"bitwise", NFTNL_EXPR_BITWISE_OP, 0, 0},
    {"dynset", NFTNL_EXPR_DYNSET_TIMEOUT, 0, 0},
    {"dynset", NFTNL_EXPR_DYNSET_FLAGS, 0, 0},
    {"nat", NFTNL_EXPR_NAT_FLAGS, 0, NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED},
    {"nat", NFTNL_EXPR_NAT_REG_ADDR_MAX, NFTNL_EXPR_NAT_REG_ADDR_MIN, 0},
    {"nat", NFTNL_EXPR_NAT_REG_PROTO_MAX, NFTNL_EXPR_NAT_REG_PROTO_MIN, 0},
    /* IDs of new sets and chains within a transaction. */
    {"lookup", NFTNL_EXPR_LOOKUP_SET_ID, 0, UINT32_MAX},
    {"dynset", NFTNL_EXPR_DYNSET_SET_ID, 0, UINT32_MAX},
    {"immediate", NFTNL_EXPR_IMM_CHAIN_ID, 0, UINT32_MAX},
};

static bool is_nothing(const uint8_t *bytes, uint32_t length, uint32_t but_for)
{
    uint32_t number = 0;
    if (length == sizeof(number)) {
        memcpy(&number, bytes, sizeof(number));
        return (number & ~but_for) == 0;
    }
    while (length > 0 && bytes[length - 1] == 0)
        length--;
    return length == 0;
}

static bool adds_nothing(const struct nftnl_expr *expr, const char *kind, uint16_t attribute,
                         const uint8_t *bytes, uint32_t length)
{
    for (size_t i = 0; i < sizeof(additions) / sizeof(additions[0]); i++) {
        const struct addition *a = &additions[i];
        uint32_t other_length = 0;
        if (a->attribute != attribute || strcmp(a->kind, kind) != 0)
            continue;
        if (!a->repeats)
            return is_nothing(bytes, length, a->but_for);
        const void *other = nftnl_expr_get(expr, a->repeats, &other_length);
        return other && other_length == length && memcmp(other, bytes, length) == 0;
    }
    return false;
}

/* Whether @update changes an element with a value loaded by @before. The register between them
 * depends on the version of nft. */
static bool is_update(const struct nftnl_expr *before, const struct nftnl_expr *update)
{
    if (!before || !update || strcmp(nftnl_expr_get_str(before, NFTNL_EXPR_NAME), "meta") != 0 ||
        strcmp(nftnl_expr_get_str(update, NFTNL_EXPR_NAME), "dynset") != 0 ||
        !nftnl_expr_is_set(update, NFTNL_EXPR_DYNSET_SREG_DATA) ||
        !nftnl_expr_is_set(before, NFTNL_EXPR_META_DREG))
        return false;
    uint32_t value = nftnl_expr_get_u32(update, NFTNL_EXPR_DYNSET_SREG_DATA);
    return nftnl_expr_get_u32(before, NFTNL_EXPR_META_DREG) == value &&
           nftnl_expr_get_u32(update, NFTNL_EXPR_DYNSET_SREG_KEY) != value;
}

/* Prints an attribute. The name of an anonymous set always differs; its contents are compared
 * separately. */
static void print_attribute(FILE *out, const struct nftnl_expr *expr, uint16_t attribute,
                            struct rules *rules, const struct rules_item *chain)
{
    const char *kind = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    uint32_t length = 0;
    const uint8_t *bytes = nftnl_expr_get(expr, attribute, &length);
    if (!bytes || adds_nothing(expr, kind, attribute, bytes, length))
        return;
    fprintf(out, " %u=", attribute);
    if (attribute == NFTNL_EXPR_DYNSET_EXPR && strcmp(kind, "dynset") == 0)
        fputs(nftnl_expr_get_str((const void *)bytes, NFTNL_EXPR_NAME), out);
    else if (attribute == NFTNL_EXPR_LOOKUP_SET && strcmp(kind, "lookup") == 0 && length > 2 &&
             memcmp(bytes, "__", 2) == 0)
        vec_push(&rules->anonymous, ((struct rules_set){xstrndup((const char *)bytes, length),
                                                        (size_t)(chain - rules->items.v)}));
    else
        for (uint32_t i = 0; i < length; i++)
            fprintf(out, "%02x", bytes[i]);
}

/* Appends a line with all operands of a rule's expressions: rules with equal text act alike,
 * whichever kernel returned them. */
static void add_rule(struct rules *rules, struct rules_item *chain, struct nftnl_rule *rule)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct nftnl_expr_iter *it = nftnl_expr_iter_create(rule);
    const struct nftnl_expr *before = NULL, *next;
    if (!out || !it)
        alloc_failed();
    fputs(chain->rules, out);
    for (const struct nftnl_expr *expr = nftnl_expr_iter_next(it); expr; expr = next) {
        const char *kind = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
        next = nftnl_expr_iter_next(it);
        const uint16_t skipped = is_update(before, expr) ? NFTNL_EXPR_DYNSET_SREG_DATA
                                 : is_update(expr, next) ? NFTNL_EXPR_META_DREG
                                                         : 0;
        before = expr;
        /* nft adds byte order conversions without effect, depending on its version; ours have
         * none. */
        if (strcmp(kind, "byteorder") == 0)
            continue;
        fprintf(out, " %s", kind);
        for (uint16_t i = NFTNL_EXPR_BASE; i < MOST_ATTRIBUTES; i++)
            if (i != skipped && nftnl_expr_is_set(expr, i))
                print_attribute(out, expr, i, rules, chain);
    }
    fputc('\n', out);
    nftnl_expr_iter_destroy(it);
    if (fclose(out))
        alloc_failed();
    free(chain->rules);
    chain->rules = text;
}

/* ---- sorting and searching ---- */

static int compare_items(const void *a, const void *b)
{
    return strcmp(((const struct rules_item *)a)->name, ((const struct rules_item *)b)->name);
}

void rules_sort(struct rules *rules)
{
    if (rules->items.n)
        qsort(rules->items.v, rules->items.n, sizeof(*rules->items.v), compare_items);
}

struct rules_item *rules_find(const struct rules *rules, const char *name)
{
    const struct rules_item key = {.name = (char *)name};
    return rules->items.n
               ? bsearch(&key, rules->items.v, rules->items.n, sizeof(key), compare_items)
               : NULL;
}

bool rules_have(const struct rules *rules, const struct rules_item *item)
{
    const struct rules_item *other = rules_find(rules, item->name);
    return other && strcmp(item->hook, other->hook) == 0 && strcmp(item->rules, other->rules) == 0;
}

bool rules_same(const struct rules *a, const struct rules *b)
{
    if (a->items.n != b->items.n)
        return false;
    vec_each (&a->items, item)
        if (!rules_have(b, item))
            return false;
    return true;
}

/* @type is NULL for a chain without a hook. */
static void add_chain(struct rules *rules, const char *name, const char *type, int hook,
                      int priority, uint32_t policy)
{
    char *text =
        type ? xasprintf("%s hook %d priority %d policy %u", type, hook, priority, policy) : NULL;
    vec_push(&rules->items,
             ((struct rules_item){
                 .name = xstrdup(name), .hook = text ? text : xstrdup(""), .rules = xstrdup("")}));
}

static void add_verdict(struct rules *rules, const char *map, uint32_t key, const char *chain)
{
    vec_push(&rules->items, ((struct rules_item){.name = xasprintf("@%s %x", map, key),
                                                 .map = map,
                                                 .key = key,
                                                 .hook = xstrdup(""),
                                                 .rules = xstrdup(chain ? chain : "")}));
}

/* ---- the kernel's rules ---- */

static void on_chain(void *ctx, struct nftnl_chain *chain)
{
    bool based = nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM);
    add_chain(ctx, nftnl_chain_get_str(chain, NFTNL_CHAIN_NAME),
              based ? nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE) : NULL,
              based ? (int)nftnl_chain_get_u32(chain, NFTNL_CHAIN_HOOKNUM) : 0,
              based ? nftnl_chain_get_s32(chain, NFTNL_CHAIN_PRIO) : 0,
              based ? nftnl_chain_get_u32(chain, NFTNL_CHAIN_POLICY) : 0);
}

/* A missing chain was created meanwhile: then the generation has changed, too. */
static void on_rule(void *ctx, struct nftnl_rule *rule)
{
    struct rules_item *chain = rules_find(ctx, nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN));
    if (chain)
        add_rule(ctx, chain, rule);
}

static const char *const verdict_maps[] = {"picks", "local_picks", "learners"};
#define VERDICT_MAPS (sizeof(verdict_maps) / sizeof(verdict_maps[0]))

const char *rules_map(const char *name)
{
    for (size_t map = 0; map < VERDICT_MAPS; map++)
        if (strcmp(verdict_maps[map], name) == 0)
            return verdict_maps[map];
    return NULL;
}

struct set_reading {
    struct rules *rules; /* of a verdict map */
    const char *map;
    unsigned protocols; /* bits, of an anonymous set: the only kind in the templates */
    bool other, twice;
};

static void on_verdict(void *ctx, const struct nft_element *element)
{
    const struct set_reading *reading = ctx;
    uint32_t key = 0;
    if (element->key_length == sizeof(key))
        memcpy(&key, element->key, sizeof(key));
    add_verdict(reading->rules, reading->map, key, element->chain);
}

static void on_protocol(void *ctx, const struct nft_element *element)
{
    struct set_reading *reading = ctx;
    unsigned i = 0;
    while (i < ANONYMOUS_PROTOCOLS && *element->key != anonymous_protocols[i])
        i++;
    if (element->key_length != 1 || i == ANONYMOUS_PROTOCOLS)
        reading->other = true;
    else if (reading->protocols & 1u << i)
        reading->twice = true;
    reading->protocols |= 1u << i;
}

/* Adds differences to the chain's text. */
static int read_anonymous(enum family family, struct nft_socket *socket, struct rules *rules,
                          struct error *err)
{
    vec_each (&rules->anonymous, it) {
        struct set_reading reading = {.rules = rules};
        if (nft_socket_read_elements(socket, family, RULESET_TABLE, it->set, on_protocol, &reading,
                                     err))
            return -1;
        if (reading.twice)
            return error_set(err, "the kernel returned elements twice");
        if (reading.other || reading.protocols != (1u << ANONYMOUS_PROTOCOLS) - 1) {
            char **text = &rules->items.v[it->chain].rules, *before = *text;
            *text = xasprintf("%swith other protocols\n", before);
            free(before);
        }
    }
    return 0;
}

int rules_read(enum family family, struct nft_socket *socket, struct rules *rules,
               struct error *err)
{
    if (nft_socket_read_chains(socket, family, RULESET_TABLE, on_chain, rules, err))
        return -1;
    for (size_t i = 0; i < VERDICT_MAPS; i++) {
        struct set_reading reading = {.rules = rules, .map = verdict_maps[i]};
        if (nft_socket_read_elements(socket, family, RULESET_TABLE, verdict_maps[i], on_verdict,
                                     &reading, err))
            return -1;
    }
    rules_sort(rules);
    for (size_t i = 1; i < rules->items.n; i++)
        if (compare_items(&rules->items.v[i - 1], &rules->items.v[i]) == 0)
            return error_set(err, "the kernel returned elements twice");
    if (nft_socket_read_rules(socket, family, RULESET_TABLE, on_rule, rules, err))
        return -1;
    return read_anonymous(family, socket, rules, err);
}

/* ---- the templates' rules ---- */

static int expect_chain(struct rules *rules, const struct layout *layout,
                        const struct layout_chain *chain, struct error *err)
{
    struct nft_batch scratch; /* for anonymous sets */
    int result = 0;
    add_chain(rules, chain->name, chain->hook_text ? chain->type : NULL, chain->hook,
              chain->priority, NF_ACCEPT);
    nft_batch_init(&scratch, layout->family, RULESET_TABLE);
    for (size_t i = 0; i < chain->rules.n && result == 0; i++) {
        struct nftnl_rule *rule = nftnl_rule_alloc();
        if (!rule)
            alloc_failed();
        result = statements_add(chain->rules.v[i].text, layout->family, rule, &scratch, err);
        add_rule(rules, &rules->items.v[rules->items.n - 1], rule);
        nftnl_rule_free(rule);
    }
    nft_batch_release(&scratch);
    return result;
}

int rules_expect(struct rules *rules, const struct layout *layout, struct error *err)
{
    vec_each (&layout->chains, chain)
        if (expect_chain(rules, layout, chain, err))
            return -1;
    vec_each (&layout->sets, set)
        vec_each (&set->verdicts, it) {
            const char *map = rules_map(set->name);
            if (!map)
                return error_set(err, "no map of verdicts: %s", set->name);
            add_verdict(rules, map, it->key, it->chain);
        }
    return 0;
}
