/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What statements of rules are read by and made of: words, keys and expressions. Keys are loaded
 * into registers from 1 on. A reading function returns false on a syntax error, which the statement
 * reports.
 */
#ifndef KUBE_NFTD_TABLE_RULE_READER_H
#define KUBE_NFTD_TABLE_RULE_READER_H

#include "kube-nftd/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter/nf_tables.h>

struct rule_reader {
    const char *rest; /* unread text */
    enum family family;
    struct nftnl_rule *rule; /* gets the expressions */
};

#define RULE_NAME_SIZE 64
#define RULE_WORDS_PER_REGISTER (NFT_REG_SIZE / NFT_REG32_SIZE)

/* ---- words ---- */

/** Consumes @words if they come next; IP stands for the family's name. */
bool rule_take(struct rule_reader *r, const char *words);

/** The length of the next word; r->rest is at its beginning then. */
size_t rule_next_word(struct rule_reader *r);

/** Consumes a name; "@NAME", a map or set. */
bool rule_take_name(struct rule_reader *r, char name[RULE_NAME_SIZE]);
bool rule_take_set(struct rule_reader *r, char name[RULE_NAME_SIZE]);

/** Consumes a number that ends with @unit, or two hexadecimal ones of 16 bits separated by a colon.
 */
bool rule_take_number(struct rule_reader *r, const char *unit, uint32_t *number);

/* ---- expressions, appended to the rule, which owns them ---- */

struct expression_attribute {
    uint16_t type;
    uint32_t value;
};

struct nftnl_expr *rule_add_expression(struct rule_reader *r, const char *kind,
                                       const struct expression_attribute *attributes, size_t n);

/* The same with {attribute, number} pairs. */
#define RULE_ADD(r, kind, ...)                                                                     \
    rule_add_expression(r, kind, (const struct expression_attribute[]){__VA_ARGS__},               \
                        sizeof((const struct expression_attribute[]){__VA_ARGS__}) /               \
                            sizeof(struct expression_attribute))

/** The register @words * 4 bytes after the start of register 1, named as nft does: registers 1 to 4
 * have 16 bytes each, and separate names for their four 4-byte parts. */
uint32_t rule_register(size_t words);

/** Sets the first bytes of @reg to (value & @mask) ^ @toggle. */
void rule_add_bitwise(struct rule_reader *r, uint32_t reg, const void *mask, const void *toggle,
                      size_t length);

/** Ends the rule unless register 1 compares to @data according to @op. */
void rule_add_compare(struct rule_reader *r, enum nft_cmp_ops op, const void *data, size_t length);

/** Loads what the kernel knows of a packet, NFT_META_*, into a register. */
void rule_add_meta(struct rule_reader *r, uint32_t key, uint32_t to);

/** Looks register 1 up in @set. */
struct nftnl_expr *rule_add_lookup(struct rule_reader *r, const char *set);

/* ---- keys: "ip daddr . meta l4proto . th dport" ---- */

/** Loads a key. Returns its number of 4-byte words; 0 on a syntax error. */
size_t rule_read_key(struct rule_reader *r);

#endif
