/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a table has besides elements: chains, rules, and where verdicts lead. Once as the kernel has
 * it and once as the templates make it, to be compared.
 *
 * Compared is what every kernel gives back alike: of chains their hooks and policies; of rules the
 * kinds of their expressions in their order, and what these compare with, look up and lead to; of
 * verdicts their chains.
 */
#ifndef KUBE_NFTD_RULESET_RULE_IMAGE_H
#define KUBE_NFTD_RULESET_RULE_IMAGE_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/netlink/nft_socket.h"

struct ruleset;

struct image_chain {
    char *name;
    char *line; /* with its hook and policy */
};

struct image_verdict {
    const char *map; /* one of our own strings */
    uint32_t key;
    char *chain; /* "" if it leads to none */
};

/* Starts zeroed. */
struct rule_image {
    VEC(struct image_chain) chains;
    VEC(struct image_verdict) verdicts;
    VEC(char *) rules; /* a line each, that begins with the name of the chain */
};

/** What the kernel has. */
int rule_image_read(const struct ruleset *ruleset, struct nft_socket *socket,
                    struct rule_image *image, struct error *err);

/** What the templates make, with the shapes of @ruleset. */
int rule_image_expect(const struct ruleset *ruleset, struct rule_image *image, struct error *err);

/** Whether two are the same. Sorts both. */
bool rule_image_same(struct rule_image *a, struct rule_image *b);

void rule_image_free(struct rule_image *image);

#endif
