/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The phrases that rules are made of: each has its nft text and the function that adds its
 * expressions. A rule is read from left to right; at each place the first phrase that fits is
 * taken, so one that begins another stands behind it. pattern.h says how patterns are written.
 */
#include "pattern.h"
#include "program.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/set.h>
#include <linux/if.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/rtnetlink.h>
#include <string.h>

/* Bits of conntrack that only the kernel can name: NF_CT_STATE_BIT(IP_CT_NEW), IPS_DST_NAT. */
#define CT_STATE_NEW 8
#define CT_STATUS_SEEN_REPLY 2
#define CT_STATUS_DNAT 32

/* ---- what phrases do; @what is from the table ---- */

/* Compares what register 1 has of the bits @mask with none of them: NFT_CMP_NEQ goes on if there is
 * one, NFT_CMP_EQ if there is none. */
static void compare_bits(struct builder *b, uint32_t mask, enum nft_cmp_ops op)
{
    const uint32_t zero = 0;
    expr_bits(b, NFT_REG_1, mask, 0);
    expr_compare(b, op, &zero, sizeof(zero));
}

static void emit_set_priority(struct builder *b, const struct words *w, uint32_t what)
{
    (void)what;
    expr_number(b, w->number);
    expr_set_meta(b, NFT_META_PRIORITY);
}

static void emit_set_priority_bits(struct builder *b, const struct words *w, uint32_t mask)
{
    expr_meta(b, NFT_META_PRIORITY, NFT_REG_1);
    expr_bits(b, NFT_REG_1, mask & ~w->number, w->number);
    expr_set_meta(b, NFT_META_PRIORITY);
}

static void emit_has_priority(struct builder *b, const struct words *w, uint32_t what)
{
    (void)w;
    expr_meta(b, NFT_META_PRIORITY, NFT_REG_1);
    expr_compare(b, NFT_CMP_NEQ, &what, sizeof(what));
}

static void emit_priority_has(struct builder *b, const struct words *w, uint32_t what)
{
    (void)what;
    expr_meta(b, NFT_META_PRIORITY, NFT_REG_1);
    compare_bits(b, w->number, NFT_CMP_NEQ);
}

static void emit_set_priority_from_map(struct builder *b, const struct words *w, uint32_t what)
{
    (void)what;
    terms_load(&w->terms, b);
    expr_map(b, w->name, NFT_REG_1);
    expr_set_meta(b, NFT_META_PRIORITY);
}

static void emit_vmap(struct builder *b, const struct words *w, uint32_t what)
{
    (void)what;
    terms_load(&w->terms, b);
    expr_map(b, w->name, NFT_REG_VERDICT);
}

/* The backend's port stands right behind its address. */
static void emit_dnat(struct builder *b, const struct words *w, uint32_t what)
{
    (void)what;
    terms_load(&w->terms, b);
    expr_map(b, w->name, NFT_REG_1);
    expr_dnat(b, expr_register(address_length(b->family) / NFT_REG32_SIZE));
}

static void emit_in_set(struct builder *b, const struct words *w, uint32_t invert)
{
    terms_load(&w->terms, b);
    expr_lookup(b, w->name, invert);
}

/* The value stands behind the key, and never in a part of register 1: so nft does it. */
static void emit_change_map(struct builder *b, const struct words *w, uint32_t op)
{
    const size_t words = terms_load(&w->terms, b), least = NFT_REG_SIZE / NFT_REG32_SIZE;
    uint32_t value = expr_register(words > least ? words : least);
    expr_meta(b, NFT_META_PRIORITY, value);
    expr_change_map(b, op, w->name, value, w->number);
}

static void emit_count(struct builder *b, const struct words *w, uint32_t what)
{
    (void)what;
    terms_load(&w->terms, b);
    expr_count(b, w->name);
}

static void emit_protocol(struct builder *b, const struct words *w, uint32_t what)
{
    (void)w;
    const uint8_t protocol = (uint8_t)what;
    expr_meta(b, NFT_META_L4PROTO, NFT_REG_1);
    expr_compare(b, NFT_CMP_EQ, &protocol, sizeof(protocol));
}

const uint8_t phrase_protocols[PHRASE_PROTOCOLS] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};

static uint32_t add_protocols_set(struct builder *b)
{
    static char declaration[] = "typeof meta l4proto";
    const struct layout_set layout = {.declaration = declaration, .size = PHRASE_PROTOCOLS};
    uint32_t id = nft_batch_new_set_id(b->batch);
    struct nftnl_set *set = nftnl_set_alloc();
    if (!set)
        alloc_failed();
    set_declare(&layout, set, NULL); /* a declaration of our own: cannot fail */
    nftnl_set_set_str(set, NFTNL_SET_NAME, "__set%d");
    nftnl_set_set_u32(set, NFTNL_SET_ID, id);
    nftnl_set_set_u32(set, NFTNL_SET_FLAGS, NFT_SET_ANONYMOUS | NFT_SET_CONSTANT);
    nft_batch_add_set(b->batch, set);
    nftnl_set_free(set);
    nft_batch_anonymous_elements(b->batch, id, phrase_protocols, 1, PHRASE_PROTOCOLS);
    return id;
}

static void emit_protocols(struct builder *b, const struct words *w, uint32_t what)
{
    (void)w;
    (void)what;
    uint32_t id = add_protocols_set(b);
    expr_meta(b, NFT_META_L4PROTO, NFT_REG_1);
    expr_lookup_anonymous(b, id);
}

static void emit_ct_state(struct builder *b, const struct words *w, uint32_t bit)
{
    (void)w;
    expr_ct(b, NFT_CT_STATE, NFT_REG_1);
    compare_bits(b, bit, NFT_CMP_NEQ);
}

static void emit_ct_status(struct builder *b, const struct words *w, uint32_t bit)
{
    (void)w;
    expr_ct(b, NFT_CT_STATUS, NFT_REG_1);
    compare_bits(b, bit, NFT_CMP_NEQ);
}

static void emit_ct_status_lacks(struct builder *b, const struct words *w, uint32_t bits)
{
    (void)w;
    expr_ct(b, NFT_CT_STATUS, NFT_REG_1);
    compare_bits(b, bits, NFT_CMP_EQ);
}

static void emit_mark_has(struct builder *b, const struct words *w, uint32_t what)
{
    (void)what;
    expr_meta(b, NFT_META_MARK, NFT_REG_1);
    compare_bits(b, w->number, NFT_CMP_NEQ);
}

static void emit_mark_or(struct builder *b, const struct words *w, uint32_t what)
{
    (void)what;
    expr_meta(b, NFT_META_MARK, NFT_REG_1);
    expr_bits(b, NFT_REG_1, ~w->number, w->number);
    expr_set_meta(b, NFT_META_MARK);
}

static void emit_mark_xor(struct builder *b, const struct words *w, uint32_t what)
{
    (void)what;
    expr_meta(b, NFT_META_MARK, NFT_REG_1);
    expr_bits(b, NFT_REG_1, UINT32_MAX, w->number);
    expr_set_meta(b, NFT_META_MARK);
}

/* A name is compared with the NUL bytes behind it; the beginning of one, without. */
static void emit_interface(struct builder *b, const struct words *w, uint32_t op)
{
    char name[IFNAMSIZ] = {0};
    size_t length = strlen(w->name);
    bool prefix = w->name[length - 1] == '*';
    memcpy(name, w->name, prefix ? length - 1 : length);
    expr_meta(b, NFT_META_IIFNAME, NFT_REG_1);
    expr_compare(b, op, name, (uint32_t)(prefix ? length - 1 : sizeof(name)));
}

static void emit_source_type(struct builder *b, const struct words *w, uint32_t type)
{
    (void)w;
    expr_source_type(b, NFT_REG_1);
    expr_compare(b, NFT_CMP_EQ, &type, sizeof(type));
}

static void emit_masquerade(struct builder *b, const struct words *w, uint32_t what)
{
    (void)w;
    (void)what;
    expr_masquerade(b);
}

/* Port unreachable for every protocol, as kube-proxy does (docs/behaviour.md 4.3). */
static void emit_reject(struct builder *b, const struct words *w, uint32_t what)
{
    (void)w;
    (void)what;
    expr_reject(b);
}

static void emit_verdict(struct builder *b, const struct words *w, uint32_t verdict)
{
    expr_verdict(b, (int)verdict, *w->name ? w->name : NULL);
}

static const struct phrase {
    const char *pattern;
    void (*emit)(struct builder *b, const struct words *words, uint32_t what);
    uint32_t what;
} phrases[] = {
    {"meta priority != 0", emit_has_priority, 0},
    {"meta priority and CLASSID != 0", emit_priority_has, 0},
    {"meta priority set N", emit_set_priority, 0},
    {"meta priority set meta priority and ffff:ff00 or CLASSID", emit_set_priority_bits,
     0xffffff00},
    {"meta priority set KEY map @S", emit_set_priority_from_map, 0},
    {"meta mark set meta mark or N", emit_mark_or, 0},
    {"meta mark set meta mark xor N", emit_mark_xor, 0},
    {"meta mark and N != 0", emit_mark_has, 0},
    {"meta l4proto { tcp, udp, sctp }", emit_protocols, 0},
    {"meta l4proto tcp", emit_protocol, IPPROTO_TCP},
    {"meta l4proto udp", emit_protocol, IPPROTO_UDP},
    {"meta l4proto sctp", emit_protocol, IPPROTO_SCTP},
    {"iifname I", emit_interface, NFT_CMP_EQ},
    {"iifname != I", emit_interface, NFT_CMP_NEQ},
    {"ct state new", emit_ct_state, CT_STATE_NEW},
    {"ct status dnat", emit_ct_status, CT_STATUS_DNAT},
    {"ct status ! seen-reply,dnat", emit_ct_status_lacks, CT_STATUS_SEEN_REPLY | CT_STATUS_DNAT},
    {"fib saddr type local", emit_source_type, RTN_LOCAL},
    {"KEY @S", emit_in_set, false},
    {"KEY != @S", emit_in_set, true},
    {"KEY vmap @S", emit_vmap, 0},
    {"update @S { KEY counter }", emit_count, 0},
    {"update @S { KEY timeout Ns : meta priority }", emit_change_map, NFT_DYNSET_OP_UPDATE},
    {"delete @S { KEY : meta priority }", emit_change_map, NFT_DYNSET_OP_DELETE},
    {"dnat IP to KEY map @S", emit_dnat, 0},
    {"masquerade fully-random", emit_masquerade, 0},
    {"reject", emit_reject, 0},
    {"accept", emit_verdict, NF_ACCEPT},
    {"drop", emit_verdict, NF_DROP},
    {"return", emit_verdict, (uint32_t)NFT_RETURN},
    {"jump C", emit_verdict, (uint32_t)NFT_JUMP},
    {"goto C", emit_verdict, (uint32_t)NFT_GOTO},
};

int phrases_add(const char *text, enum family family, struct nftnl_rule *rule,
                struct nft_batch *batch, struct error *err)
{
    struct builder b = {family, rule, batch};
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        const char *rest = NULL;
        for (size_t i = 0; !rest && i < sizeof(phrases) / sizeof(phrases[0]); i++) {
            struct words words = {0};
            rest = pattern_match(phrases[i].pattern, text, family, &words);
            if (rest)
                phrases[i].emit(&b, &words, phrases[i].what);
        }
        if (!rest)
            return error_set(err, "unknown phrase: %s", text);
        text = rest;
    }
    return 0;
}
