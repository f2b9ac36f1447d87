/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Session affinity of a service port (base.nft): each of its backends has a number B that no other
 * backend of it had for as long as there are enough, so that records of one that is gone do not
 * come to life again.
 */
#ifndef KUBE_NFTD_TABLE_AFFINITY_H
#define KUBE_NFTD_TABLE_AFFINITY_H

#include "kube-nftd/base.h"
#include "kube-nftd/table.h"
#include "plain.h"
#include "slots.h"

/* A backend and its number P:B; those of a port stand in no order. */
struct affinity_number {
    struct backend backend;
    uint32_t value;
    bool local; /* of the local part */
};

/* What few ports have. Starts zeroed. */
struct affinity {
    uint32_t timeout;                    /* desired, in seconds; 0: none */
    uint32_t last;                       /* the B given last */
    bool full;                           /* no B was left, and none was given back since */
    VEC(struct affinity_number) numbers; /* whose elements are desired */
};

/**
 * Gives the backends (some may be empty slots) of both parts of @port (its number) numbers, by
 * plain elements, and takes back those that they do not need any more. What a backend has in the
 * kernel already is kept. A backend for which no number is left gets none: connections to it are
 * balanced without memory.
 */
void affinity_hold(struct affinity *affinity, enum family family, struct plain_elements *elements,
                   uint32_t port, const struct backends *all, const struct backends *local);

/** Takes back all numbers. */
void affinity_release(struct affinity *affinity, enum family family,
                      struct plain_elements *elements);

/** While session affinity is in use: counts the records that packets have written, for the figures,
 * and logs when there is hardly room for more. One question, however many there are. */
void affinity_count_records(struct ruleset *rs, struct nft_socket *socket);

#endif
