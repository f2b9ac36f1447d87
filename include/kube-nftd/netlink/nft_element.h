/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The elements of a set or map, as nf_tables tells of them. */
#ifndef KUBE_NFTD_NETLINK_NFT_ELEMENT_H
#define KUBE_NFTD_NETLINK_NFT_ELEMENT_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/address.h"

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
    uint64_t packets;   /* of its counter; 0 without one */
};

typedef void (*nft_element_fn)(void *ctx, const struct nft_element *element);

/** Gives each element that a NFT_MSG_NEWSETELEM tells of to @fn. Returns how many there were. */
size_t nft_element_each(const struct nlmsghdr *message, nft_element_fn fn, void *ctx);

/*
 * The elements of a set, read in pieces, on a socket of its own. The kernel makes the next piece
 * when it is asked for, by counting off from the beginning what it gave already. So changes between
 * two pieces may make it leave out elements or give them twice.
 */
struct element_dump;

/** Asks for all elements of a set. NULL if the kernel does not give them. */
struct element_dump *element_dump_open(enum family family, const char *table, const char *set,
                                       struct error *err);
void element_dump_close(struct element_dump *dump);

enum element_dump_state { DUMP_GOES_ON, DUMP_ENDED, DUMP_FAILED };

/** Gives the next piece, some 32 KiB, to @fn. Does not wait. @err is set if it failed. */
enum element_dump_state element_dump_step(struct element_dump *dump, nft_element_fn fn, void *ctx,
                                          struct error *err);

#endif
