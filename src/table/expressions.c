/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "expressions.h"

#include "kube-nftd/base.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>

#define MS_PER_SECOND 1000
#define WORDS_PER_REGISTER (NFT_REG_SIZE / NFT_REG32_SIZE)
#define CT_ORIGINAL 0 /* IP_CT_DIR_ORIGINAL, which only the kernel can name */

static struct nftnl_expr *add(struct builder *b, const char *name)
{
    struct nftnl_expr *expr = nftnl_expr_alloc(name);
    if (!expr)
        alloc_failed();
    nftnl_rule_add_expr(b->rule, expr);
    return expr;
}

uint32_t expr_register(size_t words)
{
    return (uint32_t)(words % WORDS_PER_REGISTER == 0 ? NFT_REG_1 + words / WORDS_PER_REGISTER
                                                      : NFT_REG32_00 + words);
}

/* ---- loading ---- */

void expr_payload(struct builder *b, uint32_t base, uint32_t offset, uint32_t length, uint32_t to)
{
    struct nftnl_expr *expr = add(b, "payload");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_BASE, base);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_LEN, length);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_DREG, to);
}

void expr_meta(struct builder *b, uint32_t key, uint32_t to)
{
    struct nftnl_expr *expr = add(b, "meta");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_KEY, key);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_DREG, to);
}

void expr_set_meta(struct builder *b, uint32_t key)
{
    struct nftnl_expr *expr = add(b, "meta");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_KEY, key);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_SREG, NFT_REG_1);
}

static struct nftnl_expr *add_ct(struct builder *b, uint32_t key, uint32_t to)
{
    struct nftnl_expr *expr = add(b, "ct");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CT_KEY, key);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CT_DREG, to);
    return expr;
}

void expr_ct(struct builder *b, uint32_t key, uint32_t to)
{
    add_ct(b, key, to);
}

void expr_ct_original(struct builder *b, uint32_t key, uint32_t to)
{
    nftnl_expr_set_u8(add_ct(b, key, to), NFTNL_EXPR_CT_DIR, CT_ORIGINAL);
}

void expr_random(struct builder *b, uint32_t modulus, uint32_t to)
{
    struct nftnl_expr *expr = add(b, "numgen");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NG_DREG, to);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NG_MODULUS, modulus);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM);
}

void expr_source_type(struct builder *b, uint32_t to)
{
    struct nftnl_expr *expr = add(b, "fib");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_FIB_FLAGS, NFTA_FIB_F_SADDR);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_FIB_DREG, to);
}

void expr_number(struct builder *b, uint32_t number)
{
    struct nftnl_expr *expr = add(b, "immediate");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DREG, NFT_REG_1);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DATA, number);
}

/* ---- computing, comparing, looking up ---- */

static void add_bitwise(struct builder *b, uint32_t reg, const void *mask, const void *toggle,
                        size_t length)
{
    struct nftnl_expr *expr = add(b, "bitwise");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_SREG, reg);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_DREG, reg);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_LEN, (uint32_t)length);
    nftnl_expr_set_data(expr, NFTNL_EXPR_BITWISE_MASK, mask, (uint32_t)length);
    nftnl_expr_set_data(expr, NFTNL_EXPR_BITWISE_XOR, toggle, (uint32_t)length);
}

void expr_bits(struct builder *b, uint32_t reg, uint32_t mask, uint32_t toggle)
{
    add_bitwise(b, reg, &mask, &toggle, sizeof(mask));
}

void expr_mask(struct builder *b, uint32_t reg, const void *mask, size_t length)
{
    const uint8_t nothing[NFT_REG_SIZE] = {0};
    add_bitwise(b, reg, mask, nothing, length);
}

void expr_compare(struct builder *b, uint32_t op, const void *data, uint32_t length)
{
    struct nftnl_expr *expr = add(b, "cmp");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_OP, op);
    nftnl_expr_set_data(expr, NFTNL_EXPR_CMP_DATA, data, length);
}

static struct nftnl_expr *add_lookup(struct builder *b, const char *set)
{
    struct nftnl_expr *expr = add(b, "lookup");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1);
    nftnl_expr_set_str(expr, NFTNL_EXPR_LOOKUP_SET, set);
    return expr;
}

void expr_lookup(struct builder *b, const char *set, bool invert)
{
    struct nftnl_expr *expr = add_lookup(b, set);
    if (invert)
        nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
}

void expr_lookup_anonymous(struct builder *b, uint32_t set_id)
{
    nftnl_expr_set_u32(add_lookup(b, "__set%d"), NFTNL_EXPR_LOOKUP_SET_ID, set_id);
}

void expr_map(struct builder *b, const char *map, uint32_t to)
{
    nftnl_expr_set_u32(add_lookup(b, map), NFTNL_EXPR_LOOKUP_DREG, to);
}

static struct nftnl_expr *add_dynset(struct builder *b, uint32_t op, const char *set)
{
    struct nftnl_expr *expr = add(b, "dynset");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_OP, op);
    nftnl_expr_set_str(expr, NFTNL_EXPR_DYNSET_SET_NAME, set);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_SREG_KEY, NFT_REG_1);
    return expr;
}

void expr_change_map(struct builder *b, uint32_t op, const char *map, uint32_t data,
                     uint32_t timeout)
{
    struct nftnl_expr *expr = add_dynset(b, op, map);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_SREG_DATA, data);
    if (timeout)
        nftnl_expr_set_u64(expr, NFTNL_EXPR_DYNSET_TIMEOUT, (uint64_t)timeout * MS_PER_SECOND);
}

void expr_count(struct builder *b, const char *set)
{
    struct nftnl_expr *counter = nftnl_expr_alloc("counter");
    if (!counter)
        alloc_failed();
    nftnl_expr_set_u64(counter, NFTNL_EXPR_CTR_PACKETS, 0);
    nftnl_expr_set_u64(counter, NFTNL_EXPR_CTR_BYTES, 0);
    nftnl_expr_set(add_dynset(b, NFT_DYNSET_OP_UPDATE, set), NFTNL_EXPR_DYNSET_EXPR, counter, 0);
}

/* ---- what becomes of the packet ---- */

void expr_dnat(struct builder *b, uint32_t port)
{
    struct nftnl_expr *expr = add(b, "nat");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_FAMILY,
                       b->family == FAMILY_IPV4 ? NFPROTO_IPV4 : NFPROTO_IPV6);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG_1);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_REG_PROTO_MIN, port);
}

void expr_masquerade(struct builder *b)
{
    nftnl_expr_set_u32(add(b, "masq"), NFTNL_EXPR_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY);
}

void expr_reject(struct builder *b)
{
    struct nftnl_expr *expr = add(b, "reject");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_ICMP_UNREACH);
    nftnl_expr_set_u8(expr, NFTNL_EXPR_REJECT_CODE,
                      b->family == FAMILY_IPV4 ? ICMP_PORT_UNREACH : ICMPV6_PORT_UNREACH);
}

void expr_verdict(struct builder *b, int verdict, const char *chain)
{
    struct nftnl_expr *expr = add(b, "immediate");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_VERDICT, (uint32_t)verdict);
    if (chain)
        nftnl_expr_set_str(expr, NFTNL_EXPR_IMM_CHAIN, chain);
}
