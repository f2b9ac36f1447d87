/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rule_reader.h"

#include "template.h"

#include <ctype.h>
#include <linux/in.h>
#include <stdlib.h>
#include <string.h>

#define CT_ORIGINAL 0 /* kernel-internal: IP_CT_DIR_ORIGINAL */
#define MOST_TERMS 5

/* ---- words ---- */

size_t rule_next_word(struct rule_reader *r)
{
    r->rest += strspn(r->rest, " ");
    return strcspn(r->rest, " ");
}

bool rule_take(struct rule_reader *r, const char *words)
{
    const char *text = r->rest;
    while (*words) {
        const char *word = words;
        size_t length = strcspn(words, " "), expected = length;
        if (length == 2 && memcmp(words, "IP", length) == 0) {
            word = nft_family_name(r->family);
            expected = strlen(word);
        }
        text += strspn(text, " ");
        if (strcspn(text, " ") != expected || memcmp(text, word, expected) != 0)
            return false;
        text += expected;
        words += length + strspn(words + length, " ");
    }
    r->rest = text;
    return true;
}

bool rule_take_name(struct rule_reader *r, char name[RULE_NAME_SIZE])
{
    size_t length = rule_next_word(r);
    if (length == 0 || length >= RULE_NAME_SIZE)
        return false;
    memcpy(name, r->rest, length);
    name[length] = '\0';
    r->rest += length;
    return true;
}

bool rule_take_set(struct rule_reader *r, char name[RULE_NAME_SIZE])
{
    rule_next_word(r);
    return *r->rest == '@' && r->rest[1] != ' ' && r->rest++ && rule_take_name(r, name);
}

bool rule_take_number(struct rule_reader *r, const char *unit, uint32_t *number)
{
    const size_t length = rule_next_word(r);
    const bool is_classid = memchr(r->rest, ':', length);
    char *end;
    if (!isxdigit((unsigned char)*r->rest))
        return false;
    unsigned long long value = strtoull(r->rest, &end, is_classid ? 16 : 0);
    if (is_classid && *end == ':')
        value = value << 16 | strtoull(end + 1, &end, 16);
    *number = (uint32_t)value;
    if (value > UINT32_MAX || strncmp(end, unit, strlen(unit)) != 0 ||
        end + strlen(unit) != r->rest + length)
        return false;
    r->rest += length;
    return true;
}

/* ---- expressions ---- */

struct nftnl_expr *rule_add_expression(struct rule_reader *r, const char *kind,
                                       const struct expression_attribute *attributes, size_t n)
{
    struct nftnl_expr *expr = alloc_check(nftnl_expr_alloc(kind));
    for (size_t i = 0; i < n; i++)
        nftnl_expr_set_u32(expr, attributes[i].type, attributes[i].value);
    nftnl_rule_add_expr(r->rule, expr);
    return expr;
}

uint32_t rule_register(size_t words)
{
    return (uint32_t)(words % RULE_WORDS_PER_REGISTER == 0
                          ? NFT_REG_1 + words / RULE_WORDS_PER_REGISTER
                          : NFT_REG32_00 + words);
}

void rule_add_bitwise(struct rule_reader *r, uint32_t reg, const void *mask, const void *toggle,
                      size_t length)
{
    struct nftnl_expr *expr =
        RULE_ADD(r, "bitwise", {NFTNL_EXPR_BITWISE_SREG, reg}, {NFTNL_EXPR_BITWISE_DREG, reg},
                 {NFTNL_EXPR_BITWISE_LEN, (uint32_t)length});
    nftnl_expr_set_data(expr, NFTNL_EXPR_BITWISE_MASK, mask, (uint32_t)length);
    nftnl_expr_set_data(expr, NFTNL_EXPR_BITWISE_XOR, toggle, (uint32_t)length);
}

void rule_add_compare(struct rule_reader *r, enum nft_cmp_ops op, const void *data, size_t length)
{
    struct nftnl_expr *expr =
        RULE_ADD(r, "cmp", {NFTNL_EXPR_CMP_SREG, NFT_REG_1}, {NFTNL_EXPR_CMP_OP, op});
    nftnl_expr_set_data(expr, NFTNL_EXPR_CMP_DATA, data, (uint32_t)length);
}

struct nftnl_expr *rule_add_lookup(struct rule_reader *r, const char *set)
{
    struct nftnl_expr *expr = RULE_ADD(r, "lookup", {NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1});
    nftnl_expr_set_str(expr, NFTNL_EXPR_LOOKUP_SET, set);
    return expr;
}

/* ---- keys: "ip daddr . meta l4proto . th dport" ---- */

enum source { PACKET, META, CT, ORIGINAL, RANDOM, ADDRESS_TYPE };

struct term {
    const char *words;
    enum source source;
    uint32_t what[FAMILY_COUNT]; /* header offset, or the kernel's number */
    bool is_address;             /* else 4 bytes */
};

void rule_add_meta(struct rule_reader *r, uint32_t key, uint32_t to)
{
    RULE_ADD(r, "meta", {NFTNL_EXPR_META_KEY, key}, {NFTNL_EXPR_META_DREG, to});
}

static bool load_term(struct rule_reader *r, const struct term *term, uint32_t to)
{
    const uint32_t what = term->what[r->family];
    struct nftnl_expr *expr;
    uint32_t modulus;
    switch (term->source) {
    case PACKET:
        RULE_ADD(r, "payload",
                 {NFTNL_EXPR_PAYLOAD_BASE,
                  term->is_address ? NFT_PAYLOAD_NETWORK_HEADER : NFT_PAYLOAD_TRANSPORT_HEADER},
                 {NFTNL_EXPR_PAYLOAD_OFFSET, what},
                 {NFTNL_EXPR_PAYLOAD_LEN,
                  (uint32_t)(term->is_address ? address_length(r->family) : sizeof(uint16_t))},
                 {NFTNL_EXPR_PAYLOAD_DREG, to});
        break;
    case META:
        rule_add_meta(r, what, to);
        break;
    case CT:
    case ORIGINAL:
        expr = RULE_ADD(r, "ct", {NFTNL_EXPR_CT_KEY, what}, {NFTNL_EXPR_CT_DREG, to});
        if (term->source == ORIGINAL)
            nftnl_expr_set_u8(expr, NFTNL_EXPR_CT_DIR, CT_ORIGINAL);
        break;
    case RANDOM:
        if (!rule_take_number(r, "", &modulus))
            return false;
        RULE_ADD(r, "numgen", {NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM}, {NFTNL_EXPR_NG_MODULUS, modulus},
                 {NFTNL_EXPR_NG_DREG, to});
        break;
    case ADDRESS_TYPE:
        RULE_ADD(r, "fib", {NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE},
                 {NFTNL_EXPR_FIB_FLAGS, what}, {NFTNL_EXPR_FIB_DREG, to});
        break;
    }
    return true;
}

#define BOTH(what)                                                                                 \
    {                                                                                              \
        what, what                                                                                 \
    }

static const struct term terms[] = {
    {"IP saddr", PACKET, {12, 8}, true},
    {"IP daddr", PACKET, {16, 24}, true},
    {"th dport", PACKET, BOTH(2), false},
    {"ct original IP daddr", ORIGINAL, {NFT_CT_DST_IP, NFT_CT_DST_IP6}, true},
    {"ct original proto-dst", ORIGINAL, BOTH(NFT_CT_PROTO_DST), false},
    {"meta l4proto", META, BOTH(NFT_META_L4PROTO), false},
    {"meta priority", META, BOTH(NFT_META_PRIORITY), false},
    {"meta mark", META, BOTH(NFT_META_MARK), false},
    {"ct status", CT, BOTH(NFT_CT_STATUS), false},
    {"ct mark", CT, BOTH(NFT_CT_MARK), false},
    {"ct state", CT, BOTH(NFT_CT_STATE), false},
    {"fib saddr type", ADDRESS_TYPE, BOTH(NFTA_FIB_F_SADDR), false},
    {"fib daddr type", ADDRESS_TYPE, BOTH(NFTA_FIB_F_DADDR), false},
    {"numgen random mod", RANDOM, BOTH(0), false},
};
#define TERMS (sizeof(terms) / sizeof(terms[0]))

/* "and ADDRESS" after an address. */
static bool read_mask(struct rule_reader *r, uint32_t reg)
{
    const uint8_t nothing[NFT_REG_SIZE] = {0};
    char name[RULE_NAME_SIZE];
    struct address mask;
    enum family family;
    if (!rule_take(r, "and"))
        return true;
    if (!rule_take_name(r, name) || !address_parse(name, &family, &mask) || family != r->family)
        return false;
    rule_add_bitwise(r, reg, mask.bytes, nothing, address_length(family));
    return true;
}

/* "and N", "or N", "and N or N" or "xor N" after another term. */
static bool read_bits(struct rule_reader *r, uint32_t reg)
{
    uint32_t mask = UINT32_MAX, toggle = 0;
    const bool masks = rule_take(r, "and");
    if (masks && !rule_take_number(r, "", &mask))
        return false;
    const bool sets = rule_take(r, "or"), toggles = !sets && rule_take(r, "xor");
    if ((sets || toggles) && !rule_take_number(r, "", &toggle))
        return false;
    if (sets)
        mask &= ~toggle;
    if (masks || sets || toggles)
        rule_add_bitwise(r, reg, &mask, &toggle, sizeof(mask));
    return true;
}

size_t rule_read_key(struct rule_reader *r)
{
    size_t words = 0, n = 0;
    do {
        const struct term *term = terms, *end = terms + TERMS;
        const uint32_t reg = rule_register(words);
        while (term < end && !rule_take(r, term->words))
            term++;
        if (n++ == MOST_TERMS || term == end || !load_term(r, term, reg) ||
            !(term->is_address ? read_mask : read_bits)(r, reg))
            return 0;
        words += term->is_address ? address_length(r->family) / NFT_REG32_SIZE : 1;
    } while (rule_take(r, "."));
    return words;
}
