/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parses the statements of rules: the subset of nft's language used by the templates. Each
 * statement adds its expressions while it is read, left to right. Keys are loaded into registers
 * from 1 on, to be compared, looked up or set.
 */
#include "template.h"

#include <ctype.h>
#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <string.h>

/* Kernel-internal values: IPS_DST_NAT, NF_CT_STATE_BIT(IP_CT_ESTABLISHED), IP_CT_DIR_ORIGINAL. */
#define CT_STATUS_DNAT 32
#define CT_STATE_ESTABLISHED 2
#define CT_ORIGINAL 0

#define MS_PER_SECOND 1000
#define NAME_SIZE 64
#define MOST_TERMS 5
#define WORDS_PER_REGISTER (NFT_REG_SIZE / NFT_REG32_SIZE)

struct reader {
    const char *rest; /* unread text */
    enum family family;
    struct nftnl_rule *rule;
};

/* ---- words ---- */

static size_t next_word(struct reader *r)
{
    r->rest += strspn(r->rest, " ");
    return strcspn(r->rest, " ");
}

/* Consumes @words if they come next; IP stands for the family's name. */
static bool take(struct reader *r, const char *words)
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

static bool take_name(struct reader *r, char name[NAME_SIZE])
{
    size_t length = next_word(r);
    if (length == 0 || length >= NAME_SIZE)
        return false;
    memcpy(name, r->rest, length);
    name[length] = '\0';
    r->rest += length;
    return true;
}

/* Consumes "@NAME", a map or set. */
static bool take_set(struct reader *r, char name[NAME_SIZE])
{
    next_word(r);
    return *r->rest == '@' && r->rest[1] != ' ' && r->rest++ && take_name(r, name);
}

/* Consumes a number, or two hexadecimal ones of 16 bits separated by a colon. */
static bool take_number(struct reader *r, const char *unit, uint32_t *number)
{
    const size_t length = next_word(r);
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

struct attribute {
    uint16_t type;
    uint32_t value;
};

static struct nftnl_expr *add_expression(struct reader *r, const char *kind,
                                         const struct attribute *attributes, size_t n)
{
    struct nftnl_expr *expr = alloc_check(nftnl_expr_alloc(kind));
    for (size_t i = 0; i < n; i++)
        nftnl_expr_set_u32(expr, attributes[i].type, attributes[i].value);
    nftnl_rule_add_expr(r->rule, expr);
    return expr;
}

/* Appends an expression with {attribute, number} pairs to the rule. */
#define ADD(r, kind, ...)                                                                          \
    add_expression(r, kind, (const struct attribute[]){__VA_ARGS__},                               \
                   sizeof((const struct attribute[]){__VA_ARGS__}) / sizeof(struct attribute))

/* The register @words * 4 bytes after the start of register 1, named as nft does: registers 1 to 4
 * have 16 bytes each, and separate names for their four 4-byte parts. */
static uint32_t register_at(size_t words)
{
    return (uint32_t)(words % WORDS_PER_REGISTER == 0 ? NFT_REG_1 + words / WORDS_PER_REGISTER
                                                      : NFT_REG32_00 + words);
}

/* Sets the first bytes of @reg to (value & @mask) ^ @toggle. */
static void add_bitwise(struct reader *r, uint32_t reg, const void *mask, const void *toggle,
                        size_t length)
{
    struct nftnl_expr *expr =
        ADD(r, "bitwise", {NFTNL_EXPR_BITWISE_SREG, reg}, {NFTNL_EXPR_BITWISE_DREG, reg},
            {NFTNL_EXPR_BITWISE_LEN, (uint32_t)length});
    nftnl_expr_set_data(expr, NFTNL_EXPR_BITWISE_MASK, mask, (uint32_t)length);
    nftnl_expr_set_data(expr, NFTNL_EXPR_BITWISE_XOR, toggle, (uint32_t)length);
}

/* Ends the rule unless register 1 compares to @data according to @op. */
static void add_compare(struct reader *r, enum nft_cmp_ops op, const void *data, size_t length)
{
    struct nftnl_expr *expr =
        ADD(r, "cmp", {NFTNL_EXPR_CMP_SREG, NFT_REG_1}, {NFTNL_EXPR_CMP_OP, op});
    nftnl_expr_set_data(expr, NFTNL_EXPR_CMP_DATA, data, (uint32_t)length);
}

static struct nftnl_expr *add_lookup(struct reader *r, const char *set)
{
    struct nftnl_expr *expr = ADD(r, "lookup", {NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1});
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

static void load_meta(struct reader *r, uint32_t key, uint32_t to)
{
    ADD(r, "meta", {NFTNL_EXPR_META_KEY, key}, {NFTNL_EXPR_META_DREG, to});
}

static bool load_term(struct reader *r, const struct term *term, uint32_t to)
{
    const uint32_t what = term->what[r->family];
    struct nftnl_expr *expr;
    uint32_t modulus;
    switch (term->source) {
    case PACKET:
        ADD(r, "payload",
            {NFTNL_EXPR_PAYLOAD_BASE,
             term->is_address ? NFT_PAYLOAD_NETWORK_HEADER : NFT_PAYLOAD_TRANSPORT_HEADER},
            {NFTNL_EXPR_PAYLOAD_OFFSET, what},
            {NFTNL_EXPR_PAYLOAD_LEN,
             (uint32_t)(term->is_address ? address_length(r->family) : sizeof(uint16_t))},
            {NFTNL_EXPR_PAYLOAD_DREG, to});
        break;
    case META:
        load_meta(r, what, to);
        break;
    case CT:
    case ORIGINAL:
        expr = ADD(r, "ct", {NFTNL_EXPR_CT_KEY, what}, {NFTNL_EXPR_CT_DREG, to});
        if (term->source == ORIGINAL)
            nftnl_expr_set_u8(expr, NFTNL_EXPR_CT_DIR, CT_ORIGINAL);
        break;
    case RANDOM:
        if (!take_number(r, "", &modulus))
            return false;
        ADD(r, "numgen", {NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM}, {NFTNL_EXPR_NG_MODULUS, modulus},
            {NFTNL_EXPR_NG_DREG, to});
        break;
    case ADDRESS_TYPE:
        ADD(r, "fib", {NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE},
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
static bool read_mask(struct reader *r, uint32_t reg)
{
    const uint8_t nothing[NFT_REG_SIZE] = {0};
    char name[NAME_SIZE];
    struct address mask;
    enum family family;
    if (!take(r, "and"))
        return true;
    if (!take_name(r, name) || !address_parse(name, &family, &mask) || family != r->family)
        return false;
    add_bitwise(r, reg, mask.bytes, nothing, address_length(family));
    return true;
}

/* "and N", "or N", "and N or N" or "xor N" after another term. */
static bool read_bits(struct reader *r, uint32_t reg)
{
    uint32_t mask = UINT32_MAX, toggle = 0;
    const bool masks = take(r, "and");
    if (masks && !take_number(r, "", &mask))
        return false;
    const bool sets = take(r, "or"), toggles = !sets && take(r, "xor");
    if ((sets || toggles) && !take_number(r, "", &toggle))
        return false;
    if (sets)
        mask &= ~toggle;
    if (masks || sets || toggles)
        add_bitwise(r, reg, &mask, &toggle, sizeof(mask));
    return true;
}

/* Loads a key. Returns its number of 4-byte words; 0 on a syntax error. */
static size_t read_key(struct reader *r)
{
    size_t words = 0, n = 0;
    do {
        const struct term *term = terms, *end = terms + TERMS;
        const uint32_t reg = register_at(words);
        while (term < end && !take(r, term->words))
            term++;
        if (n++ == MOST_TERMS || term == end || !load_term(r, term, reg) ||
            !(term->is_address ? read_mask : read_bits)(r, reg))
            return 0;
        words += term->is_address ? address_length(r->family) / NFT_REG32_SIZE : 1;
    } while (take(r, "."));
    return words;
}

/* The map after a key: loads the value into @to, which may be the verdict. */
static bool read_map(struct reader *r, uint32_t to)
{
    char map[NAME_SIZE];
    if (!take_set(r, map))
        return false;
    nftnl_expr_set_u32(add_lookup(r, map), NFTNL_EXPR_LOOKUP_DREG, to);
    return true;
}

/* ---- statements; @what is from the table below ---- */

/* Loads what comes behind "set" into register 1. */
static bool read_value(struct reader *r)
{
    uint32_t number;
    if (take_number(r, "", &number)) {
        ADD(r, "immediate", {NFTNL_EXPR_IMM_DREG, NFT_REG_1}, {NFTNL_EXPR_IMM_DATA, number});
        return true;
    }
    const size_t words = read_key(r);
    return words > 0 && (take(r, "map") ? read_map(r, NFT_REG_1) : words == 1);
}

static bool read_set_meta(struct reader *r, uint32_t key)
{
    if (!read_value(r))
        return false;
    ADD(r, "meta", {NFTNL_EXPR_META_KEY, key}, {NFTNL_EXPR_META_SREG, NFT_REG_1});
    return true;
}

static bool read_set_ct(struct reader *r, uint32_t key)
{
    if (!read_value(r))
        return false;
    ADD(r, "ct", {NFTNL_EXPR_CT_KEY, key}, {NFTNL_EXPR_CT_SREG, NFT_REG_1});
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

static bool read_constant(struct reader *r)
{
    const struct constant *c = constants, *end = c + sizeof(constants) / sizeof(constants[0]);
    const uint32_t zero = 0;
    while (c < end && !take(r, c->words))
        c++;
    if (c == end)
        return false;
    const uint8_t byte = (uint8_t)c->value;
    if (c->bits)
        add_bitwise(r, NFT_REG_1, &c->bits, &zero, sizeof(zero));
    add_compare(r, c->op, c->length == 1 ? (const void *)&byte : &c->value, c->length);
    return true;
}

/* "== N" or "!= N". */
static bool read_operand(struct reader *r)
{
    const char *before = r->rest;
    const bool equals = take(r, "==");
    uint32_t number;
    if ((equals || take(r, "!=")) && take_number(r, "", &number)) {
        add_compare(r, equals ? NFT_CMP_EQ : NFT_CMP_NEQ, &number, sizeof(number));
        return true;
    }
    r->rest = before;
    return false;
}

/* "== ADDRESS". */
static bool read_address(struct reader *r)
{
    const char *before = r->rest;
    char name[NAME_SIZE];
    struct address address;
    enum family family;
    if (take(r, "==") && take_name(r, name) && address_parse(name, &family, &address) &&
        family == r->family) {
        add_compare(r, NFT_CMP_EQ, address.bytes, address_length(family));
        return true;
    }
    r->rest = before;
    return false;
}

/* "KEY @S", "KEY != @S", "KEY vmap @S", or a key and a constant or number. */
static bool read_match(struct reader *r)
{
    const size_t words = read_key(r);
    char set[NAME_SIZE];
    if (words == 0)
        return false;
    if (take(r, "vmap"))
        return read_map(r, NFT_REG_VERDICT);
    if ((words == 1 && (read_constant(r) || read_operand(r))) || read_address(r))
        return true;
    const bool differs = take(r, "!=");
    if (!take_set(r, set))
        return false;
    struct nftnl_expr *lookup = add_lookup(r, set);
    if (differs)
        nftnl_expr_set_u32(lookup, NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
    return true;
}

const uint8_t anonymous_protocols[ANONYMOUS_PROTOCOLS] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};

static bool read_protocols(struct reader *r, uint32_t what)
{
    load_meta(r, what, NFT_REG_1);
    add_lookup(r, ANONYMOUS_SET);
    return true;
}

/* Compares a name including its NUL padding; a prefix, "cali*", without. */
static bool read_interface(struct reader *r, uint32_t op)
{
    const size_t quoted = next_word(r);
    const char *text = r->rest;
    char name[IFNAMSIZ] = {0};
    if (quoted < 3 || text[0] != '"' || memchr(text + 1, '"', quoted - 1) != text + quoted - 1)
        return false;
    const bool is_prefix = text[quoted - 2] == '*';
    const size_t length = quoted - 2 - is_prefix;
    if (length == 0 || length >= IFNAMSIZ)
        return false;
    memcpy(name, text + 1, length);
    load_meta(r, NFT_META_IIFNAME, NFT_REG_1);
    add_compare(r, (enum nft_cmp_ops)op, name, is_prefix ? length : sizeof(name));
    r->rest += quoted;
    return true;
}

static struct nftnl_expr *add_dynset(struct reader *r, uint32_t op, const char *set)
{
    struct nftnl_expr *expr =
        ADD(r, "dynset", {NFTNL_EXPR_DYNSET_OP, op}, {NFTNL_EXPR_DYNSET_SREG_KEY, NFT_REG_1});
    nftnl_expr_set_str(expr, NFTNL_EXPR_DYNSET_SET_NAME, set);
    return expr;
}

/* "update @S { KEY counter }": counts the packet in the element, created if missing while the set
 * has room. */
static void add_count(struct reader *r, const char *set)
{
    struct nftnl_expr *counter = alloc_check(nftnl_expr_alloc("counter"));
    nftnl_expr_set_u64(counter, NFTNL_EXPR_CTR_PACKETS, 0);
    nftnl_expr_set_u64(counter, NFTNL_EXPR_CTR_BYTES, 0);
    nftnl_expr_set(add_dynset(r, NFT_DYNSET_OP_UPDATE, set), NFTNL_EXPR_DYNSET_EXPR, counter, 0);
}

/* "update @S { KEY timeout Ns : meta priority }", "delete @S { KEY : meta priority }". As in nft,
 * the value follows the key, and is never in a part of register 1. */
static bool read_element(struct reader *r, uint32_t op)
{
    char set[NAME_SIZE];
    uint32_t seconds;
    const bool updates = op == NFT_DYNSET_OP_UPDATE;
    const size_t words = take_set(r, set) && take(r, "{") ? read_key(r) : 0;
    if (words == 0)
        return false;
    if (updates && take(r, "counter }")) {
        add_count(r, set);
        return true;
    }
    if ((updates && !(take(r, "timeout") && take_number(r, "s", &seconds))) ||
        !take(r, ": meta priority }"))
        return false;
    const uint32_t value = register_at(words > WORDS_PER_REGISTER ? words : WORDS_PER_REGISTER);
    load_meta(r, NFT_META_PRIORITY, value);
    struct nftnl_expr *expr = add_dynset(r, op, set);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_SREG_DATA, value);
    if (updates)
        nftnl_expr_set_u64(expr, NFTNL_EXPR_DYNSET_TIMEOUT, (uint64_t)seconds * MS_PER_SECOND);
    return true;
}

/* The backend's port directly follows its address. */
static bool read_dnat(struct reader *r, uint32_t what)
{
    (void)what;
    if (read_key(r) == 0 || !take(r, "map") || !read_map(r, NFT_REG_1))
        return false;
    ADD(r, "nat", {NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT},
        {NFTNL_EXPR_NAT_FAMILY, r->family == FAMILY_IPV4 ? NFPROTO_IPV4 : NFPROTO_IPV6},
        {NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG_1},
        {NFTNL_EXPR_NAT_REG_PROTO_MIN, register_at(address_length(r->family) / NFT_REG32_SIZE)});
    return true;
}

static bool read_masquerade(struct reader *r, uint32_t flags)
{
    ADD(r, "masq", {NFTNL_EXPR_MASQ_FLAGS, flags});
    return true;
}

static bool read_flow(struct reader *r, uint32_t what)
{
    char flowtable[NAME_SIZE];
    (void)what;
    if (!take_set(r, flowtable))
        return false;
    nftnl_expr_set_str(add_expression(r, "flow_offload", NULL, 0), NFTNL_EXPR_FLOW_TABLE_NAME,
                       flowtable);
    return true;
}

/* Port unreachable for every protocol, as kube-proxy does (docs/behaviour.md 4.3). */
static bool read_reject(struct reader *r, uint32_t type)
{
    nftnl_expr_set_u8(ADD(r, "reject", {NFTNL_EXPR_REJECT_TYPE, type}), NFTNL_EXPR_REJECT_CODE,
                      r->family == FAMILY_IPV4 ? ICMP_PORT_UNREACH : ICMPV6_PORT_UNREACH);
    return true;
}

static bool read_verdict(struct reader *r, uint32_t verdict)
{
    const bool leads = verdict == (uint32_t)NFT_JUMP || verdict == (uint32_t)NFT_GOTO;
    char chain[NAME_SIZE];
    if (leads && !take_name(r, chain))
        return false;
    struct nftnl_expr *expr = ADD(r, "immediate", {NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT},
                                  {NFTNL_EXPR_IMM_VERDICT, verdict});
    if (leads)
        nftnl_expr_set_str(expr, NFTNL_EXPR_IMM_CHAIN, chain);
    return true;
}

/* Statements by their first words; a prefix of another comes after it. All others are matches. */
static const struct statement {
    const char *words;
    bool (*read)(struct reader *r, uint32_t what);
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

static bool read_statement(struct reader *r)
{
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
        if (take(r, statements[i].words))
            return statements[i].read(r, statements[i].what);
    return read_match(r);
}

int statements_add(const char *text, enum family family, struct nftnl_rule *rule, struct error *err)
{
    struct reader r = {.rest = text, .family = family, .rule = rule};
    while (next_word(&r) > 0) {
        const char *statement = r.rest;
        if (!read_statement(&r))
            return error_set(err, "unknown statement: %s", statement);
    }
    return 0;
}
