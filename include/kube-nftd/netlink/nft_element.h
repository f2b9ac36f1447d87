/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An element of a set or map, as nf_tables tells of it. */
#ifndef KUBE_NFTD_NETLINK_NFT_ELEMENT_H
#define KUBE_NFTD_NETLINK_NFT_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nlattr;
struct nlmsghdr;

/* Borrowed. */
struct nft_element {
    const uint8_t *key;
    size_t key_length;
    const uint8_t *data;
    size_t data_length; /* 0 for sets and verdict maps */
    const char *chain;  /* that a verdict goes to; NULL if it is none, or another one */
    uint32_t flags;     /* NFT_SET_ELEM_INTERVAL_END, NFT_SET_ELEM_CATCHALL */
};

typedef void (*nft_element_fn)(void *ctx, const struct nft_element *element);

/** Gives each element that a NFT_MSG_NEWSETELEM tells of to @fn. Returns how many there were. */
size_t nft_element_each(const struct nlmsghdr *message, nft_element_fn fn, void *ctx);

#endif
