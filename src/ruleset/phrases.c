/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The phrases that rules are made of: each has its nft text and the function that adds its
 * expressions. A rule is read from left to right; at each place the first phrase that fits is
 * taken, so one that begins another stands behind it.
 *
 * In a pattern, IP stands for the family's name, FRONTEND for the three fields that name one,
 * N for a number, @S for a map or set and C for a chain.
 */
#include "kube-nftd/ruleset/program.h"

#include <ctype.h>
#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/udata.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

#define NAME_SIZE 64
/* Where headers have the destination. */
#define IPV4_DESTINATION 16
#define IPV6_DESTINATION 24
#define TRANSPORT_DESTINATION 2
#define CT_STATE_NEW 8 /* NF_CT_STATE_BIT(IP_CT_NEW), which only the kernel can name */

/* What a pattern picked up from the text. */
struct words {
    unsigned number;
    char set[NAME_SIZE], chain[NAME_SIZE];
};

struct builder {
    enum family family;
    struct nftnl_rule *rule;
    struct nft_batch *batch;
};

typedef void (*emit_fn)(struct builder *b, const struct words *words);

/* ---- expressions ---- */

static struct nftnl_expr *add(struct builder *b, const char *name)
{
    struct nftnl_expr *expr = nftnl_expr_alloc(name);
    if (!expr)
        alloc_failed();
    nftnl_rule_add_expr(b->rule, expr);
    return expr;
}

static void add_payload(struct builder *b, uint32_t base, uint32_t offset, uint32_t length,
                        uint32_t to)
{
    struct nftnl_expr *expr = add(b, "payload");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_BASE, base);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_LEN, length);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_DREG, to);
}

static void add_meta_load(struct builder *b, uint32_t key, uint32_t to)
{
    struct nftnl_expr *expr = add(b, "meta");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_KEY, key);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_DREG, to);
}

static void add_set_priority(struct builder *b)
{
    struct nftnl_expr *expr = add(b, "meta");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_KEY, NFT_META_PRIORITY);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_SREG, NFT_REG_1);
}

static struct nftnl_expr *add_lookup(struct builder *b, const char *set)
{
    struct nftnl_expr *expr = add(b, "lookup");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1);
    nftnl_expr_set_str(expr, NFTNL_EXPR_LOOKUP_SET, set);
    return expr;
}

static void add_map_lookup(struct builder *b, const char *map, uint32_t to)
{
    nftnl_expr_set_u32(add_lookup(b, map), NFTNL_EXPR_LOOKUP_DREG, to);
}

static void add_verdict(struct builder *b, int verdict, const char *chain)
{
    struct nftnl_expr *expr = add(b, "immediate");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_VERDICT, (uint32_t)verdict);
    if (chain)
        nftnl_expr_set_str(expr, NFTNL_EXPR_IMM_CHAIN, chain);
}

/* The register behind the address, when a frontend is loaded from register 1 on. */
static uint32_t register_after_address(const struct builder *b, unsigned more)
{
    return NFT_REG32_00 + (uint32_t)address_length(b->family) / 4 + more;
}

/* The first register after the address, under the name that nft gives it. */
static uint32_t protocol_register(const struct builder *b)
{
    return b->family == FAMILY_IPV4 ? (uint32_t)NFT_REG32_01 : (uint32_t)NFT_REG_2;
}

static void load_frontend(struct builder *b)
{
    bool v4 = b->family == FAMILY_IPV4;
    add_payload(b, NFT_PAYLOAD_NETWORK_HEADER, v4 ? IPV4_DESTINATION : IPV6_DESTINATION,
                (uint32_t)address_length(b->family), NFT_REG_1);
    add_meta_load(b, NFT_META_L4PROTO, protocol_register(b));
    add_payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, TRANSPORT_DESTINATION, 2,
                register_after_address(b, 1));
}

/* ---- one function a phrase ---- */

static void emit_priority_from_frontend(struct builder *b, const struct words *w)
{
    load_frontend(b);
    add_map_lookup(b, w->set, NFT_REG_1);
    add_set_priority(b);
}

static void emit_priority_vmap(struct builder *b, const struct words *w)
{
    add_meta_load(b, NFT_META_PRIORITY, NFT_REG_1);
    add_map_lookup(b, w->set, NFT_REG_VERDICT);
}

static void emit_priority_number(struct builder *b, const struct words *w)
{
    struct nftnl_expr *expr = add(b, "immediate");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DREG, NFT_REG_1);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DATA, w->number);
    add_set_priority(b);
}

static uint32_t add_protocols_set(struct builder *b)
{
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};
    static char declaration[] = "typeof meta l4proto";
    const struct layout_set layout = {.declaration = declaration};
    uint32_t id = nft_batch_new_set_id(b->batch);
    struct nftnl_set *set = nftnl_set_alloc();
    if (!set)
        alloc_failed();
    set_declare(&layout, set, NULL); /* a declaration of our own: cannot fail */
    nftnl_set_set_str(set, NFTNL_SET_NAME, "__set%d");
    nftnl_set_set_u32(set, NFTNL_SET_ID, id);
    nftnl_set_set_u32(set, NFTNL_SET_FLAGS, NFT_SET_ANONYMOUS | NFT_SET_CONSTANT);
    nftnl_set_set_u32(set, NFTNL_SET_DESC_SIZE, sizeof(protocols));
    nft_batch_add_set(b->batch, set);
    nftnl_set_free(set);
    nft_batch_anonymous_elements(b->batch, id, protocols, 1, sizeof(protocols));
    return id;
}

static void emit_protocols(struct builder *b, const struct words *w)
{
    (void)w;
    uint32_t id = add_protocols_set(b);
    add_meta_load(b, NFT_META_L4PROTO, NFT_REG_1);
    nftnl_expr_set_u32(add_lookup(b, "__set%d"), NFTNL_EXPR_LOOKUP_SET_ID, id);
}

static void emit_dnat(struct builder *b, const struct words *w)
{
    load_frontend(b);
    struct nftnl_expr *numgen = add(b, "numgen");
    nftnl_expr_set_u32(numgen, NFTNL_EXPR_NG_DREG, register_after_address(b, 2));
    nftnl_expr_set_u32(numgen, NFTNL_EXPR_NG_MODULUS, w->number);
    nftnl_expr_set_u32(numgen, NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM);
    add_map_lookup(b, w->set, NFT_REG_1);
    struct nftnl_expr *nat = add(b, "nat");
    nftnl_expr_set_u32(nat, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
    nftnl_expr_set_u32(nat, NFTNL_EXPR_NAT_FAMILY,
                       b->family == FAMILY_IPV4 ? NFPROTO_IPV4 : NFPROTO_IPV6);
    nftnl_expr_set_u32(nat, NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG_1);
    nftnl_expr_set_u32(nat, NFTNL_EXPR_NAT_REG_PROTO_MIN, protocol_register(b));
}

static void emit_frontend_in_set(struct builder *b, const struct words *w)
{
    load_frontend(b);
    add_lookup(b, w->set);
}

static void emit_ct_state_new(struct builder *b, const struct words *w)
{
    (void)w;
    const uint32_t mask = CT_STATE_NEW, zero = 0;
    struct nftnl_expr *ct = add(b, "ct");
    nftnl_expr_set_u32(ct, NFTNL_EXPR_CT_KEY, NFT_CT_STATE);
    nftnl_expr_set_u32(ct, NFTNL_EXPR_CT_DREG, NFT_REG_1);
    struct nftnl_expr *bitwise = add(b, "bitwise");
    nftnl_expr_set_u32(bitwise, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
    nftnl_expr_set_u32(bitwise, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
    nftnl_expr_set_u32(bitwise, NFTNL_EXPR_BITWISE_LEN, sizeof(mask));
    nftnl_expr_set_data(bitwise, NFTNL_EXPR_BITWISE_MASK, &mask, sizeof(mask));
    nftnl_expr_set_data(bitwise, NFTNL_EXPR_BITWISE_XOR, &zero, sizeof(zero));
    struct nftnl_expr *cmp = add(b, "cmp");
    nftnl_expr_set_u32(cmp, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
    nftnl_expr_set_u32(cmp, NFTNL_EXPR_CMP_OP, NFT_CMP_NEQ);
    nftnl_expr_set_data(cmp, NFTNL_EXPR_CMP_DATA, &zero, sizeof(zero));
}

/* Port unreachable for every protocol, as kube-proxy does (spec 4.3). */
static void emit_reject(struct builder *b, const struct words *w)
{
    (void)w;
    struct nftnl_expr *expr = add(b, "reject");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_ICMP_UNREACH);
    nftnl_expr_set_u8(expr, NFTNL_EXPR_REJECT_CODE,
                      b->family == FAMILY_IPV4 ? ICMP_PORT_UNREACH : ICMPV6_PORT_UNREACH);
}

static void emit_jump(struct builder *b, const struct words *w)
{
    add_verdict(b, NFT_JUMP, w->chain);
}

static const struct phrase {
    const char *pattern;
    emit_fn emit;
} phrases[] = {
    {"meta priority set FRONTEND map @S", emit_priority_from_frontend},
    {"meta priority vmap @S", emit_priority_vmap},
    {"meta priority set N", emit_priority_number},
    {"meta l4proto { tcp, udp, sctp }", emit_protocols},
    {"dnat IP to FRONTEND . numgen random mod N map @S", emit_dnat},
    {"FRONTEND @S", emit_frontend_in_set},
    {"ct state new", emit_ct_state_new},
    {"reject", emit_reject},
    {"jump C", emit_jump},
};

/* ---- matching ---- */

static const char *skip_blanks(const char *s)
{
    while (*s == ' ')
        s++;
    return s;
}

static size_t word_length(const char *s)
{
    return strcspn(s, " ");
}

static bool take_name(const char *text, size_t length, char out[NAME_SIZE])
{
    if (length == 0 || length >= NAME_SIZE)
        return false;
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

static const char *match(const char *pattern, const char *text, enum family family,
                         struct words *words);

/* Matches one word of a pattern; the rest of the text, or NULL. */
static const char *match_word(const char *word, size_t length, const char *text, enum family family,
                              struct words *words)
{
    size_t text_length = word_length(text);
    if (length == 8 && memcmp(word, "FRONTEND", 8) == 0)
        return match("IP daddr . meta l4proto . th dport", text, family, words);
    if (length == 1 && *word == 'N') {
        int used = 0;
        if (!isdigit((unsigned char)*text) || sscanf(text, "%u%n", &words->number, &used) != 1 ||
            (size_t)used != text_length)
            return NULL;
    } else if (length == 2 && memcmp(word, "@S", 2) == 0) {
        if (*text != '@' || !take_name(text + 1, text_length - 1, words->set))
            return NULL;
    } else if (length == 1 && *word == 'C') {
        if (!take_name(text, text_length, words->chain))
            return NULL;
    } else {
        if (length == 2 && memcmp(word, "IP", 2) == 0) {
            word = nft_family_name(family);
            length = strlen(word);
        }
        if (text_length != length || memcmp(word, text, length) != 0)
            return NULL;
    }
    return text + text_length;
}

/* Matches @pattern with the beginning of @text; the rest of the text, or NULL. */
static const char *match(const char *pattern, const char *text, enum family family,
                         struct words *words)
{
    while (*pattern) {
        size_t length = word_length(pattern);
        text = match_word(pattern, length, skip_blanks(text), family, words);
        if (!text)
            return NULL;
        pattern = skip_blanks(pattern + length);
    }
    return text;
}

int phrases_add(const char *text, enum family family, struct nftnl_rule *rule,
                struct nft_batch *batch, struct error *err)
{
    struct builder b = {family, rule, batch};
    for (text = skip_blanks(text); *text; text = skip_blanks(text)) {
        const char *rest = NULL;
        for (size_t i = 0; !rest && i < sizeof(phrases) / sizeof(phrases[0]); i++) {
            struct words words = {0};
            rest = match(phrases[i].pattern, text, family, &words);
            if (rest)
                phrases[i].emit(&b, &words);
        }
        if (!rest)
            return error_set(err, "unknown phrase: %s", text);
        text = rest;
    }
    return 0;
}
