/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The expressions that rules are made of, as the kernel knows them: each function puts one at the
 * end of a rule. What is compared or looked up stands in register 1 and those behind it.
 */
#ifndef KUBE_NFTD_TABLE_EXPRESSIONS_H
#define KUBE_NFTD_TABLE_EXPRESSIONS_H

#include "kube-nftd/netlink.h"

#include <linux/netfilter/nf_tables.h>
#include <stdbool.h>

struct builder {
    enum family family;
    struct nftnl_rule *rule;
    struct nft_batch *batch; /* for the anonymous sets that the rule needs */
};

/**
 * The register @words times 4 bytes behind the beginning of register 1, under the name that nft
 * gives it: the registers 1 to 4 have 16 bytes each, and four names of their own for 4 bytes each.
 */
uint32_t expr_register(size_t words);

/** Loads @length bytes of a header (enum nft_payload_bases) into a register. */
void expr_payload(struct builder *b, uint32_t base, uint32_t offset, uint32_t length, uint32_t to);

/** Loads what the packet carries besides its bytes (enum nft_meta_keys); sets it from register 1.
 */
void expr_meta(struct builder *b, uint32_t key, uint32_t to);
void expr_set_meta(struct builder *b, uint32_t key);

/** Loads what conntrack knows of the packet (enum nft_ct_keys); of its original direction. */
void expr_ct(struct builder *b, uint32_t key, uint32_t to);
void expr_ct_original(struct builder *b, uint32_t key, uint32_t to);

/** Loads a random number below @modulus. */
void expr_random(struct builder *b, uint32_t modulus, uint32_t to);

/** Loads the type of the source address: RTN_LOCAL, ... */
void expr_source_type(struct builder *b, uint32_t to);

/** Loads @number into register 1. */
void expr_number(struct builder *b, uint32_t number);

/** Makes the first @length bytes of @reg those that @mask has, too. */
void expr_mask(struct builder *b, uint32_t reg, const void *mask, size_t length);

/** Makes 4 bytes of @reg (value & @mask) ^ @toggle. */
void expr_bits(struct builder *b, uint32_t reg, uint32_t mask, uint32_t toggle);

/** Goes on with the rule only if register 1 compares to the @length bytes at @data as @op (enum
 * nft_cmp_ops) says. */
void expr_compare(struct builder *b, uint32_t op, const void *data, uint32_t length);

/** Goes on only if register 1 is in @set; with @invert, only if it is not. */
void expr_lookup(struct builder *b, const char *set, bool invert);
void expr_lookup_anonymous(struct builder *b, uint32_t set_id);

/** Goes on only if register 1 is in @map; loads what is there into @to, which may be the verdict.
 */
void expr_map(struct builder *b, const char *map, uint32_t to);

/** Adds, refreshes or deletes (enum nft_dynset_ops) an element of @map: register 1 -> @data. It
 * lives for @timeout seconds; 0: as long as the map says. */
void expr_change_map(struct builder *b, uint32_t op, const char *map, uint32_t data,
                     uint32_t timeout);

/** Counts the packet in the element of @set with the key in register 1, which is made if there is
 * none and room for it. */
void expr_count(struct builder *b, const char *set);

/** Translates the destination to the address in register 1 and the port in @port. */
void expr_dnat(struct builder *b, uint32_t port);

/** Translates the source to an address of the interface that the packet leaves by. */
void expr_masquerade(struct builder *b);

/** Answers "port unreachable". */
void expr_reject(struct builder *b);

/** Ends the rule with a verdict: NF_DROP, NFT_JUMP, NFT_GOTO. @chain is NULL for those that lead
 * nowhere. */
void expr_verdict(struct builder *b, int verdict, const char *chain);

#endif
