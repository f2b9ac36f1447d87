/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parses the statements of rules: the subset of nft's language used by the templates. Each
 * statement adds its expressions while it is read, left to right (rule_reader.h).
 */
#include "rule_reader.h"
#include "template.h"

#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/rtnetlink.h>
#include <string.h>

/* Kernel-internal values: IPS_DST_NAT, NF_CT_STATE_BIT(IP_CT_ESTABLISHED). */
#define CT_STATUS_DNAT 32
#define CT_STATE_ESTABLISHED 2

#define MS_PER_SECOND 1000

/* ---- statements; @what is from the table below ---- */

/* The map after a key: loads the value into @to, which may be the verdict. */
static bool read_map(struct rule_reader *r, uint32_t to)
{
    char map[RULE_NAME_SIZE];
    if (!rule_take_set(r, map))
        return false;
    nftnl_expr_set_u32(rule_add_lookup(r, map), NFTNL_EXPR_LOOKUP_DREG, to);
    return true;
}

/* Loads what comes behind "set" into register 1. */
static bool read_value(struct rule_reader *r)
{
    uint32_t number;
    if (rule_take_number(r, "", &number)) {
        RULE_ADD(r, "immediate", {NFTNL_EXPR_IMM_DREG, NFT_REG_1}, {NFTNL_EXPR_IMM_DATA, number});
        return true;
    }
    const size_t words = rule_read_key(r);
    return words > 0 && (rule_take(r, "map") ? read_map(r, NFT_REG_1) : words == 1);
}

static bool read_set_meta(struct rule_reader *r, uint32_t key)
{
    if (!read_value(r))
        return false;
    RULE_ADD(r, "meta", {NFTNL_EXPR_META_KEY, key}, {NFTNL_EXPR_META_SREG, NFT_REG_1});
    return true;
}

static bool read_set_ct(struct rule_reader *r, uint32_t key)
{
    if (!read_value(r))
        return false;
    RULE_ADD(r, "ct", {NFTNL_EXPR_CT_KEY, key}, {NFTNL_EXPR_CT_SREG, NFT_REG_1});
    return true;
}

/* Constants that the first word of a key is compared with, by nft's names. */
static const struct constant {
    const char *words;
    uint32_t length, bits; /* bits of the word to compare; 0: all */
    enum nft_cmp_ops op;
    uint32_t value;
} constants[] = {
    {"tcp", 1, 0, NFT_CMP_EQ, IPPROTO_TCP},
    {"udp", 1, 0, NFT_CMP_EQ, IPPROTO_UDP},
    {"sctp", 1, 0, NFT_CMP_EQ, IPPROTO_SCTP},
    {"dnat", 4, CT_STATUS_DNAT, NFT_CMP_NEQ, 0},
    {"local", 4, 0, NFT_CMP_EQ, RTN_LOCAL},
    {"!= local", 4, 0, NFT_CMP_NEQ, RTN_LOCAL},
    {"! dnat", 4, CT_STATUS_DNAT, NFT_CMP_EQ, 0},
    {"established", 4, CT_STATE_ESTABLISHED, NFT_CMP_NEQ, 0},
};

static bool read_constant(struct rule_reader *r)
{
    const struct constant *c = constants, *end = c + sizeof(constants) / sizeof(constants[0]);
    const uint32_t zero = 0;
    while (c < end && !rule_take(r, c->words))
        c++;
    if (c == end)
        return false;
    const uint8_t byte = (uint8_t)c->value;
    if (c->bits)
        rule_add_bitwise(r, NFT_REG_1, &c->bits, &zero, sizeof(zero));
    rule_add_compare(r, c->op, c->length == 1 ? (const void *)&byte : &c->value, c->length);
    return true;
}

/* "== N" or "!= N". */
static bool read_operand(struct rule_reader *r)
{
    const char *before = r->rest;
    const bool equals = rule_take(r, "==");
    uint32_t number;
    if ((equals || rule_take(r, "!=")) && rule_take_number(r, "", &number)) {
        rule_add_compare(r, equals ? NFT_CMP_EQ : NFT_CMP_NEQ, &number, sizeof(number));
        return true;
    }
    r->rest = before;
    return false;
}

/* "== ADDRESS". */
static bool read_address(struct rule_reader *r)
{
    const char *before = r->rest;
    char name[RULE_NAME_SIZE];
    struct address address;
    enum family family;
    if (rule_take(r, "==") && rule_take_name(r, name) && address_parse(name, &family, &address) &&
        family == r->family) {
        rule_add_compare(r, NFT_CMP_EQ, address.bytes, address_length(family));
        return true;
    }
    r->rest = before;
    return false;
}

/* "KEY @S", "KEY != @S", "KEY vmap @S", or a key and a constant or number. */
static bool read_match(struct rule_reader *r)
{
    const size_t words = rule_read_key(r);
    char set[RULE_NAME_SIZE];
    if (words == 0)
        return false;
    if (rule_take(r, "vmap"))
        return read_map(r, NFT_REG_VERDICT);
    if ((words == 1 && (read_constant(r) || read_operand(r))) || read_address(r))
        return true;
    const bool differs = rule_take(r, "!=");
    if (!rule_take_set(r, set))
        return false;
    struct nftnl_expr *lookup = rule_add_lookup(r, set);
    if (differs)
        nftnl_expr_set_u32(lookup, NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
    return true;
}

const uint8_t anonymous_protocols[ANONYMOUS_PROTOCOLS] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};

static bool read_protocols(struct rule_reader *r, uint32_t what)
{
    rule_add_meta(r, what, NFT_REG_1);
    rule_add_lookup(r, ANONYMOUS_SET);
    return true;
}

/* Compares a name including its NUL padding; a prefix, "cali*", without. */
static bool read_interface(struct rule_reader *r, uint32_t op)
{
    const size_t quoted = rule_next_word(r);
    const char *text = r->rest;
    char name[IFNAMSIZ] = {0};
    if (quoted < 3 || text[0] != '"' || memchr(text + 1, '"', quoted - 1) != text + quoted - 1)
        return false;
    const bool is_prefix = text[quoted - 2] == '*';
    const size_t length = quoted - 2 - is_prefix;
    if (length == 0 || length >= IFNAMSIZ)
        return false;
    memcpy(name, text + 1, length);
    rule_add_meta(r, NFT_META_IIFNAME, NFT_REG_1);
    rule_add_compare(r, (enum nft_cmp_ops)op, name, is_prefix ? length : sizeof(name));
    r->rest += quoted;
    return true;
}

static struct nftnl_expr *add_dynset(struct rule_reader *r, uint32_t op, const char *set)
{
    struct nftnl_expr *expr =
        RULE_ADD(r, "dynset", {NFTNL_EXPR_DYNSET_OP, op}, {NFTNL_EXPR_DYNSET_SREG_KEY, NFT_REG_1});
    nftnl_expr_set_str(expr, NFTNL_EXPR_DYNSET_SET_NAME, set);
    return expr;
}

/* "update @S { KEY counter }": counts the packet in the element, created if missing while the set
 * has room. */
static void add_count(struct rule_reader *r, const char *set)
{
    struct nftnl_expr *counter = alloc_check(nftnl_expr_alloc("counter"));
    nftnl_expr_set_u64(counter, NFTNL_EXPR_CTR_PACKETS, 0);
    nftnl_expr_set_u64(counter, NFTNL_EXPR_CTR_BYTES, 0);
    nftnl_expr_set(add_dynset(r, NFT_DYNSET_OP_UPDATE, set), NFTNL_EXPR_DYNSET_EXPR, counter, 0);
}

/* "update @S { KEY timeout Ns : meta priority }", "delete @S { KEY : meta priority }". As in nft,
 * the value follows the key, and is never in a part of register 1. */
static bool read_element(struct rule_reader *r, uint32_t op)
{
    char set[RULE_NAME_SIZE];
    uint32_t seconds;
    const bool updates = op == NFT_DYNSET_OP_UPDATE;
    const size_t words = rule_take_set(r, set) && rule_take(r, "{") ? rule_read_key(r) : 0;
    if (words == 0)
        return false;
    if (updates && rule_take(r, "counter }")) {
        add_count(r, set);
        return true;
    }
    if ((updates && !(rule_take(r, "timeout") && rule_take_number(r, "s", &seconds))) ||
        !rule_take(r, ": meta priority }"))
        return false;
    const uint32_t value =
        rule_register(words > RULE_WORDS_PER_REGISTER ? words : RULE_WORDS_PER_REGISTER);
    rule_add_meta(r, NFT_META_PRIORITY, value);
    struct nftnl_expr *expr = add_dynset(r, op, set);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_SREG_DATA, value);
    if (updates)
        nftnl_expr_set_u64(expr, NFTNL_EXPR_DYNSET_TIMEOUT, (uint64_t)seconds * MS_PER_SECOND);
    return true;
}

/* The backend's port directly follows its address. */
static bool read_dnat(struct rule_reader *r, uint32_t what)
{
    (void)what;
    if (rule_read_key(r) == 0 || !rule_take(r, "map") || !read_map(r, NFT_REG_1))
        return false;
    RULE_ADD(
        r, "nat", {NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT},
        {NFTNL_EXPR_NAT_FAMILY, r->family == FAMILY_IPV4 ? NFPROTO_IPV4 : NFPROTO_IPV6},
        {NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG_1},
        {NFTNL_EXPR_NAT_REG_PROTO_MIN, rule_register(address_length(r->family) / NFT_REG32_SIZE)});
    return true;
}

static bool read_masquerade(struct rule_reader *r, uint32_t flags)
{
    RULE_ADD(r, "masq", {NFTNL_EXPR_MASQ_FLAGS, flags});
    return true;
}

static bool read_flow(struct rule_reader *r, uint32_t what)
{
    char flowtable[RULE_NAME_SIZE];
    (void)what;
    if (!rule_take_set(r, flowtable))
        return false;
    nftnl_expr_set_str(rule_add_expression(r, "flow_offload", NULL, 0), NFTNL_EXPR_FLOW_TABLE_NAME,
                       flowtable);
    return true;
}

/* Port unreachable for every protocol, as kube-proxy does (docs/behaviour.md 4.3). */
static bool read_reject(struct rule_reader *r, uint32_t type)
{
    nftnl_expr_set_u8(RULE_ADD(r, "reject", {NFTNL_EXPR_REJECT_TYPE, type}), NFTNL_EXPR_REJECT_CODE,
                      r->family == FAMILY_IPV4 ? ICMP_PORT_UNREACH : ICMPV6_PORT_UNREACH);
    return true;
}

static bool read_verdict(struct rule_reader *r, uint32_t verdict)
{
    const bool leads = verdict == (uint32_t)NFT_JUMP || verdict == (uint32_t)NFT_GOTO;
    char chain[RULE_NAME_SIZE];
    if (leads && !rule_take_name(r, chain))
        return false;
    struct nftnl_expr *expr = RULE_ADD(r, "immediate", {NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT},
                                       {NFTNL_EXPR_IMM_VERDICT, verdict});
    if (leads)
        nftnl_expr_set_str(expr, NFTNL_EXPR_IMM_CHAIN, chain);
    return true;
}

/* Statements by their first words; a prefix of another comes after it. All others are matches. */
static const struct statement {
    const char *words;
    bool (*read)(struct rule_reader *r, uint32_t what);
    uint32_t what;
} statements[] = {
    {"meta priority set", read_set_meta, NFT_META_PRIORITY},
    {"meta mark set", read_set_meta, NFT_META_MARK},
    {"ct mark set", read_set_ct, NFT_CT_MARK},
    {"meta l4proto { tcp, udp, sctp }", read_protocols, NFT_META_L4PROTO},
    {"iifname !=", read_interface, NFT_CMP_NEQ},
    {"iifname", read_interface, NFT_CMP_EQ},
    {"update", read_element, NFT_DYNSET_OP_UPDATE},
    {"delete", read_element, NFT_DYNSET_OP_DELETE},
    {"dnat IP to", read_dnat, 0},
    {"masquerade fully-random", read_masquerade, NF_NAT_RANGE_PROTO_RANDOM_FULLY},
    {"flow add", read_flow, 0},
    {"reject", read_reject, NFT_REJECT_ICMP_UNREACH},
    {"accept", read_verdict, NF_ACCEPT},
    {"drop", read_verdict, NF_DROP},
    {"return", read_verdict, (uint32_t)NFT_RETURN},
    {"jump", read_verdict, (uint32_t)NFT_JUMP},
    {"goto", read_verdict, (uint32_t)NFT_GOTO},
};

static bool read_statement(struct rule_reader *r)
{
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
        if (rule_take(r, statements[i].words))
            return statements[i].read(r, statements[i].what);
    return read_match(r);
}

int statements_add(const char *text, enum family family, struct nftnl_rule *rule, struct error *err)
{
    struct rule_reader r = {.rest = text, .family = family, .rule = rule};
    while (rule_next_word(&r) > 0) {
        const char *statement = r.rest;
        if (!read_statement(&r))
            return error_set(err, "unknown statement: %s", statement);
    }
    return 0;
}
