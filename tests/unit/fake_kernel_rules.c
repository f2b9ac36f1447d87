/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules as the kernel gives them back, and what others change in them. */
#include "fake_kernel_state.h"

#include "kube-nftd/base.h"

#include <endian.h>
#include <libmnl/libmnl.h>
#include <libnftnl/expr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#define MOST_ATTRIBUTES 32
#define RULE_SIZE 8192

/* ---- what the kernel gives ---- */

static void add_zero(struct nftnl_expr *expr, uint16_t attribute)
{
    if (!nftnl_expr_is_set(expr, attribute))
        nftnl_expr_set_u32(expr, attribute, 0);
}

static void add_copy(struct nftnl_expr *expr, uint16_t to, uint16_t from)
{
    if (nftnl_expr_is_set(expr, from) && !nftnl_expr_is_set(expr, to))
        nftnl_expr_set_u32(expr, to, nftnl_expr_get_u32(expr, from));
}

static void add_to_nat(struct nftnl_expr *expr)
{
    add_copy(expr, NFTNL_EXPR_NAT_REG_ADDR_MAX, NFTNL_EXPR_NAT_REG_ADDR_MIN);
    add_copy(expr, NFTNL_EXPR_NAT_REG_PROTO_MAX, NFTNL_EXPR_NAT_REG_PROTO_MIN);
    if (!nftnl_expr_is_set(expr, NFTNL_EXPR_NAT_FLAGS))
        nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_FLAGS,
                           NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED);
}

/* In place, where the new name is no longer: to set it, libnftnl 1.2.4 loses the old one. */
static void name_anonymous(struct nftnl_expr *expr, const char *name)
{
    char *placeholder = (char *)nftnl_expr_get_str(expr, NFTNL_EXPR_LOOKUP_SET);
    if (strcmp(placeholder, "__set%d") != 0)
        return;
    ck_assert_uint_le(strlen(name), strlen(placeholder));
    memcpy(placeholder, name, strlen(name) + 1);
}

/* What nobody has to say; a set that was new in its transaction has a name by now. */
static int add_to_expression(struct nftnl_expr *expr, void *ctx)
{
    const struct fake_rule *from = ctx;
    const char *kind = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    if (strcmp(kind, "lookup") == 0) {
        add_zero(expr, NFTNL_EXPR_LOOKUP_FLAGS);
        name_anonymous(expr, from->anonymous);
    } else if (strcmp(kind, "numgen") == 0) {
        add_zero(expr, NFTNL_EXPR_NG_OFFSET);
    } else if (strcmp(kind, "bitwise") == 0) {
        add_zero(expr, NFTNL_EXPR_BITWISE_OP);
    } else if (strcmp(kind, "dynset") == 0) {
        add_zero(expr, NFTNL_EXPR_DYNSET_FLAGS);
        if (!nftnl_expr_is_set(expr, NFTNL_EXPR_DYNSET_TIMEOUT))
            nftnl_expr_set_u64(expr, NFTNL_EXPR_DYNSET_TIMEOUT, 0);
    } else if (strcmp(kind, "nat") == 0) {
        add_to_nat(expr);
    }
    return 0;
}

struct nftnl_rule *fake_give_rule(const struct fake_rule *from)
{
    struct nftnl_rule *rule = fake_parse_rule(from);
    nftnl_expr_foreach(rule, add_to_expression, (void *)from);
    return rule;
}

/* ---- what others change ---- */

struct operand_search {
    unsigned left;
    struct nftnl_expr *expr;
    uint16_t attribute; /* 0: the expression as a whole */
};

static bool is_id(const struct nftnl_expr *expr, uint16_t attribute)
{
    return attribute == NFTNL_EXPR_LOOKUP_SET_ID &&
           strcmp(nftnl_expr_get_str(expr, NFTNL_EXPR_NAME), "lookup") == 0;
}

/* libnftnl cannot put another expression in its place. */
static bool is_counter(const struct nftnl_expr *expr, uint16_t attribute)
{
    return attribute == NFTNL_EXPR_DYNSET_EXPR &&
           strcmp(nftnl_expr_get_str(expr, NFTNL_EXPR_NAME), "dynset") == 0;
}

static int find_operand(struct nftnl_expr *expr, void *ctx)
{
    struct operand_search *search = ctx;
    for (uint16_t i = NFTNL_EXPR_BASE; i <= MOST_ATTRIBUTES; i++) {
        bool is_whole = i == MOST_ATTRIBUTES;
        if (!is_whole && (!nftnl_expr_is_set(expr, i) || is_id(expr, i) || is_counter(expr, i)))
            continue;
        if (search->left-- == 0) {
            search->expr = expr;
            search->attribute = is_whole ? 0 : i;
            return -1;
        }
    }
    return 0;
}

/* Where the lowest bits of a number are; a letter comes first in a name. */
static size_t lowest_byte(const uint8_t *bytes, uint32_t length)
{
    bool is_number = length <= sizeof(uint64_t) && (bytes[0] == 0 || bytes[0] == UINT8_MAX);
    return BYTE_ORDER == BIG_ENDIAN && is_number ? length - 1 : 0;
}

static bool is_return(const struct nftnl_expr *expr, uint16_t attribute)
{
    return strcmp(nftnl_expr_get_str(expr, NFTNL_EXPR_NAME), "immediate") == 0 &&
           attribute == NFTNL_EXPR_IMM_VERDICT &&
           nftnl_expr_get_u32(expr, attribute) == (uint32_t)NFT_RETURN;
}

/* A bit of a number or of bytes; a letter of a name. What NAT maps is the kernel's to say. */
static void change_operand(struct nftnl_expr *expr, uint16_t attribute)
{
    uint32_t length = 0;
    uint8_t *bytes = (uint8_t *)nftnl_expr_get(expr, attribute, &length); /* see name_anonymous() */
    bool is_nat = strcmp(nftnl_expr_get_str(expr, NFTNL_EXPR_NAME), "nat") == 0;
    ck_assert(bytes && length > 0);
    if (is_return(expr, attribute)) { /* with another bit it is no verdict */
        nftnl_expr_set_u32(expr, attribute, NF_ACCEPT);
        return;
    }
    bytes[lowest_byte(bytes, length)] ^=
        is_nat && attribute == NFTNL_EXPR_NAT_FLAGS ? NF_NAT_RANGE_PROTO_RANDOM : 1;
}

static void forget_parsed(struct fake_rule *rule)
{
    if (rule->parsed)
        nftnl_rule_free(rule->parsed);
    rule->parsed = NULL;
}

static void replace_rule(struct fake_rule *to, struct nftnl_rule *rule)
{
    char buffer[RULE_SIZE];
    const struct nfgenmsg *family = mnl_nlmsg_get_payload(to->message);
    struct nlmsghdr *message = nftnl_nlmsg_build_hdr(buffer, NFNL_MSG_TYPE(to->message->nlmsg_type),
                                                     family->nfgen_family, 0, 0);
    nftnl_rule_nlmsg_build_payload(message, rule);
    forget_parsed(to);
    free(to->before);
    to->before = to->message;
    to->message = xcalloc(1, message->nlmsg_len);
    memcpy(to->message, message, message->nlmsg_len);
}

char *fake_change_operand(struct fake_rule *from, unsigned nth)
{
    struct operand_search search = {.left = nth};
    struct nftnl_rule *rule = fake_give_rule(from);
    char *what = NULL;
    nftnl_expr_foreach(rule, find_operand, &search);
    if (search.expr) {
        what = xasprintf("%s %u in %s", nftnl_expr_get_str(search.expr, NFTNL_EXPR_NAME),
                         search.attribute, from->chain);
        if (search.attribute)
            change_operand(search.expr, search.attribute);
        else
            nftnl_rule_del_expr(search.expr);
        replace_rule(from, rule);
        if (!search.attribute)
            nftnl_expr_free(search.expr);
    }
    nftnl_rule_free(rule);
    return what;
}

void fake_undo_change(struct fake_rule *rule)
{
    ck_assert_ptr_nonnull(rule->before);
    forget_parsed(rule);
    free(rule->message);
    rule->message = rule->before;
    rule->before = NULL;
}

void fake_free_rule(struct fake_rule *rule)
{
    forget_parsed(rule);
    free(rule->message);
    free(rule->before);
}
