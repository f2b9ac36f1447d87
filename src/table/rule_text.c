/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A rule as text, for comparison. */
#include "rules.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter/nf_nat.h>
#include <stdlib.h>
#include <string.h>

/* libnftnl's limit: it tracks an expression's attributes in 32 bits. */
#define MOST_ATTRIBUTES 32

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

static void print_bytes(FILE *out, const uint8_t *bytes, uint32_t length)
{
    static const char digits[] = "0123456789abcdef";
    for (uint32_t i = 0; i < length; i++) {
        fputc(digits[bytes[i] >> 4], out);
        fputc(digits[bytes[i] & 15], out);
    }
}

/* Prints an attribute. The name of an anonymous set always differs; its contents are compared
 * separately. */
static void print_attribute(FILE *out, const struct nftnl_expr *expr, uint16_t attribute,
                            char **anonymous)
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
             memcmp(bytes, "__", 2) == 0) {
        free(*anonymous);
        *anonymous = xstrndup((const char *)bytes, length);
    } else {
        print_bytes(out, bytes, length);
    }
}

void rule_text_append(char **text, char **anonymous, struct nftnl_rule *rule)
{
    char *longer = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&longer, &size);
    struct nftnl_expr_iter *it = nftnl_expr_iter_create(rule);
    const struct nftnl_expr *before = NULL, *next;
    if (!out || !it)
        alloc_failed();
    fputs(*text, out);
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
                print_attribute(out, expr, i, anonymous);
    }
    fputc('\n', out);
    nftnl_expr_iter_destroy(it);
    if (fclose(out))
        alloc_failed();
    free(*text);
    *text = longer;
}
