/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rule_text.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter/nf_nat.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* libnftnl notes in 32 bits which attributes an expression has. */
#define MOST_ATTRIBUTES 32

struct rule_print {
    FILE *out;
    set_name_vec *anonymous;
    const struct nftnl_expr *update; /* whose value the present expression reads; NULL: of none */
};

/* What some kernels say and others leave out, and what they add to what was asked for. */
static const struct addition {
    const char *kind;
    uint16_t attribute;
    uint32_t is_nothing; /* these bits */
    uint16_t repeats;    /* the value of this attribute */
} additions[] = {
    {"lookup", NFTNL_EXPR_LOOKUP_FLAGS, 0, 0},
    {"numgen", NFTNL_EXPR_NG_OFFSET, 0, 0},
    {"bitwise", NFTNL_EXPR_BITWISE_OP, 0, 0},
    {"dynset", NFTNL_EXPR_DYNSET_TIMEOUT, 0, 0},
    {"dynset", NFTNL_EXPR_DYNSET_FLAGS, 0, 0},
    {"nat", NFTNL_EXPR_NAT_FLAGS, NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED, 0},
    {"nat", NFTNL_EXPR_NAT_REG_ADDR_MAX, 0, NFTNL_EXPR_NAT_REG_ADDR_MIN},
    {"nat", NFTNL_EXPR_NAT_REG_PROTO_MAX, 0, NFTNL_EXPR_NAT_REG_PROTO_MIN},
};

/* The numbers that messages of one transaction know their new sets and chains by. */
static const struct {
    const char *kind;
    uint16_t attribute;
} ids[] = {{"lookup", NFTNL_EXPR_LOOKUP_SET_ID},
           {"dynset", NFTNL_EXPR_DYNSET_SET_ID},
           {"immediate", NFTNL_EXPR_IMM_CHAIN_ID}};

static bool is_id(const char *kind, uint16_t attribute)
{
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i].attribute == attribute && strcmp(ids[i].kind, kind) == 0)
            return true;
    return false;
}

static bool is_nothing(const uint8_t *bytes, uint32_t length, uint32_t but_for)
{
    uint32_t number = 0;
    if (length == sizeof(number)) {
        memcpy(&number, bytes, sizeof(number));
        return (number & ~but_for) == 0;
    }
    for (uint32_t i = 0; i < length; i++)
        if (bytes[i])
            return false;
    return true;
}

static bool repeats(const struct nftnl_expr *expr, uint16_t attribute, const uint8_t *bytes,
                    uint32_t length)
{
    uint32_t other_length = 0;
    const void *other = nftnl_expr_get(expr, attribute, &other_length);
    return other && other_length == length && memcmp(other, bytes, length) == 0;
}

/* Whether an attribute says nothing that is not so without it. */
static bool adds_nothing(const struct nftnl_expr *expr, const char *kind, uint16_t attribute,
                         const uint8_t *bytes, uint32_t length)
{
    for (size_t i = 0; i < sizeof(additions) / sizeof(additions[0]); i++) {
        const struct addition *a = &additions[i];
        if (a->attribute == attribute && strcmp(a->kind, kind) == 0)
            return a->repeats ? repeats(expr, a->repeats, bytes, length)
                              : is_nothing(bytes, length, a->is_nothing);
    }
    return is_id(kind, attribute);
}

static bool is_anonymous(const char *kind, uint16_t attribute, const uint8_t *bytes,
                         uint32_t length)
{
    return attribute == NFTNL_EXPR_LOOKUP_SET && strcmp(kind, "lookup") == 0 && length > 2 &&
           memcmp(bytes, "__", 2) == 0;
}

/* Whether @expr is the update of an element with a value, which @before has read. Which register
 * that goes through is not the same with all versions of nft. */
static bool is_update(const struct nftnl_expr *before, const struct nftnl_expr *expr)
{
    if (!before || strcmp(nftnl_expr_get_str(before, NFTNL_EXPR_NAME), "meta") != 0 ||
        strcmp(nftnl_expr_get_str(expr, NFTNL_EXPR_NAME), "dynset") != 0 ||
        !nftnl_expr_is_set(expr, NFTNL_EXPR_DYNSET_SREG_DATA) ||
        !nftnl_expr_is_set(before, NFTNL_EXPR_META_DREG))
        return false;
    uint32_t value = nftnl_expr_get_u32(expr, NFTNL_EXPR_DYNSET_SREG_DATA);
    return nftnl_expr_get_u32(before, NFTNL_EXPR_META_DREG) == value &&
           nftnl_expr_get_u32(expr, NFTNL_EXPR_DYNSET_SREG_KEY) != value;
}

static bool is_register_of_update(const struct rule_print *p, const struct nftnl_expr *expr,
                                  uint16_t attribute)
{
    return p->update &&
           attribute == (expr == p->update ? NFTNL_EXPR_DYNSET_SREG_DATA : NFTNL_EXPR_META_DREG);
}

/* What the element that a packet updates counts it by. */
static bool is_counting(const char *kind, uint16_t attribute)
{
    return attribute == NFTNL_EXPR_DYNSET_EXPR && strcmp(kind, "dynset") == 0;
}

static void print_attribute(struct rule_print *p, const struct nftnl_expr *expr, const char *kind,
                            uint16_t attribute)
{
    uint32_t length = 0;
    const uint8_t *bytes = nftnl_expr_get(expr, attribute, &length);
    if (!bytes || adds_nothing(expr, kind, attribute, bytes, length) ||
        is_register_of_update(p, expr, attribute))
        return;
    fprintf(p->out, " %u=", attribute);
    if (is_counting(kind, attribute)) {
        fputs(nftnl_expr_get_str((const void *)bytes, NFTNL_EXPR_NAME), p->out);
        return;
    }
    if (is_anonymous(kind, attribute, bytes, length)) {
        vec_push(p->anonymous, xstrndup((const char *)bytes, length));
        return;
    }
    for (uint32_t i = 0; i < length; i++)
        fprintf(p->out, "%02x", bytes[i]);
}

/* nft puts conversions of byte order into rules where they change nothing, some versions more than
 * others; ours have none. */
static void print_expression(struct rule_print *p, const struct nftnl_expr *expr)
{
    const char *kind = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    if (strcmp(kind, "byteorder") == 0)
        return;
    fprintf(p->out, " %s", kind);
    for (uint16_t i = NFTNL_EXPR_BASE; i < MOST_ATTRIBUTES; i++)
        if (nftnl_expr_is_set(expr, i))
            print_attribute(p, expr, kind, i);
}

char *rule_text(struct nftnl_rule *rule, set_name_vec *anonymous)
{
    char *text = NULL;
    size_t size = 0;
    struct rule_print p = {open_memstream(&text, &size), anonymous, NULL};
    struct nftnl_expr_iter *it = nftnl_expr_iter_create(rule);
    if (!p.out || !it)
        alloc_failed();
    for (struct nftnl_expr *expr = nftnl_expr_iter_next(it), *next; expr; expr = next) {
        next = nftnl_expr_iter_next(it);
        if (!p.update) /* else it is this one */
            p.update = next && is_update(expr, next) ? next : NULL;
        print_expression(&p, expr);
        if (expr == p.update)
            p.update = NULL;
    }
    nftnl_expr_iter_destroy(it);
    if (fclose(p.out))
        alloc_failed();
    return text;
}
