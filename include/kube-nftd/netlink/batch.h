/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A batch of nf_tables messages for one table, which the kernel takes as one transaction (or for
 * tables of one name in both families).
 * Knows nftables, not Kubernetes. Messages are written straight into one growing buffer; the
 * elements of maps and sets by libmnl, without an allocation for each.
 */
#ifndef KUBE_NFTD_NETLINK_BATCH_H
#define KUBE_NFTD_NETLINK_BATCH_H

#include "kube-nftd/base/vec.h"
#include "kube-nftd/model/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of NFTA_TABLE_FLAGS. Debian 12's header does not know the last one. */
#define NFT_TABLE_DORMANT 0x1u
#define NFT_TABLE_OWNED 0x2u
#define NFT_TABLE_PERSISTENT 0x4u

struct nlattr;
struct nftnl_set;
struct nftnl_chain;
struct nftnl_rule;

enum nft_element_op { ELEMENT_ADD, ELEMENT_DELETE };

/* A message that the kernel refused. */
struct nft_refusal {
    size_t message; /* its offset in the buffer; NFT_NO_MESSAGE if the kernel names none */
    size_t at;      /* the offset in it of what is wrong; 0 if the kernel does not tell */
    int why;        /* an errno */
};

#define NFT_NO_MESSAGE SIZE_MAX

struct nft_batch {
    char *buffer; /* whole messages, without the begin and end of the transaction */
    size_t used, capacity;
    uint32_t sequence;       /* of the next message */
    uint32_t first_sequence; /* of the first message */
    uint32_t last_set_id;
    uint8_t nf_family; /* NFPROTO_IPV4 or NFPROTO_IPV6 */
    char *table;
    size_t elements[2]; /* how many, by enum nft_element_op */
    /* Where the buffer may be cut if the kernel cannot take it in one piece, */
    VEC(size_t) cuts;
    size_t piece;  /* or if it is longer than so many bytes; 0: never for that */
    bool together; /* see nft_batch_together() */
    bool singly;   /* see nft_batch_singly() */
    /* What the last nft_socket_commit() that failed has said. */
    VEC(struct nft_refusal) refusals;
    bool nothing_in_force; /* of all of it: the kernel holds what it held before */
    /* The element message that is still open. */
    struct {
        bool open;
        enum nft_element_op op;
        const char *set;
        size_t message, list; /* offsets in buffer */
    } current;
};

/** An empty batch for table @table (copied) of @family. Release with nft_batch_release(). */
void nft_batch_init(struct nft_batch *batch, enum family family, const char *table);
void nft_batch_release(struct nft_batch *batch);

/** Empties the batch; gives memory back if it holds much. */
void nft_batch_clear(struct nft_batch *batch);

/** What follows is about the table of that name of @family. */
void nft_batch_turn_to(struct nft_batch *batch, enum family family);

/** Whether there is nothing to send. */
bool nft_batch_is_empty(const struct nft_batch *batch);

/** Makes the table, with a comment that nft shows (at most 127 bytes). */
void nft_batch_add_table(struct nft_batch *batch, const char *comment);

/**
 * Makes it a table that only this program's socket can change, until the socket is closed; then the
 * table stays and may be claimed. From Linux 6.9 on; older kernels refuse with EOPNOTSUPP.
 */
void nft_batch_add_owned_table(struct nft_batch *batch, const char *comment);

/** Gives a table that is there other flags: to become the owner of one that can be owned (EPERM if
 * it has another one), or to wake up one that was made dormant. */
void nft_batch_set_table_flags(struct nft_batch *batch, uint32_t flags);

/** Deletes the table with all that is in it; it must exist. */
void nft_batch_delete_table(struct nft_batch *batch);

/** Deletes all elements of a set. */
void nft_batch_flush_set(struct nft_batch *batch, const char *set);

/** Deletes one rule, all rules of a chain, or a chain that has none and that no rule names. */
void nft_batch_delete_rule(struct nft_batch *batch, const char *chain, uint64_t handle);
void nft_batch_flush_chain(struct nft_batch *batch, const char *chain);
void nft_batch_delete_chain(struct nft_batch *batch, const char *chain);

/** Makes a set, chain or rule. The table is filled in; the objects are borrowed. A chain must not
 * be there yet: rules that two programs add to it for the first time would be in it twice. */
void nft_batch_add_set(struct nft_batch *batch, struct nftnl_set *set);
void nft_batch_add_chain(struct nft_batch *batch, struct nftnl_chain *chain);
void nft_batch_add_rule(struct nft_batch *batch, struct nftnl_rule *rule);

/** A number for an anonymous set of this batch. */
uint32_t nft_batch_new_set_id(struct nft_batch *batch);

/**
 * Adds or deletes one element of @set (a string that lives as long as the batch). @data is NULL
 * for sets and deletions. Elements of the same set in a row share messages.
 */
void nft_batch_element(struct nft_batch *batch, enum nft_element_op op, const char *set,
                       const void *key, size_t key_length, const void *data, size_t data_length);

/**
 * Adds or deletes a range of a set with the flag interval. Both ends belong to it. The kernel
 * holds it as two elements, the second one (flagged NFT_SET_ELEM_INTERVAL_END) right behind @last,
 * unless that is the highest key there is.
 */
void nft_batch_range(struct nft_batch *batch, enum nft_element_op op, const char *set,
                     const void *first, const void *last, size_t key_length);

/** Adds an element to a verdict map: @key -> goto @chain. */
void nft_batch_goto_element(struct nft_batch *batch, const char *set, const void *key,
                            size_t key_length, const char *chain);

/** Adds an element that packets count themselves in, with so many to begin with. It is none of
 * those that the batch counts. */
void nft_batch_counting_element(struct nft_batch *batch, const char *set, const void *key,
                                size_t key_length, uint64_t packets);

/** Adds the elements of an anonymous set, each @key_length bytes long, one behind the other. */
void nft_batch_anonymous_elements(struct nft_batch *batch, uint32_t set_id, const void *keys,
                                  size_t key_length, size_t n);

/** Says that a later message does not need to be in one transaction with the earlier ones. */
void nft_batch_may_cut(struct nft_batch *batch);

/**
 * While it is on, elements that fill a message make no place to cut: for what must be in one
 * transaction. Off at the beginning.
 */
void nft_batch_together(struct nft_batch *batch, bool on);

/**
 * While it is on, each element has a message of its own: the kernel judges all messages, but each
 * only up to its first fault. Off at the beginning, and again after nft_batch_clear().
 */
void nft_batch_singly(struct nft_batch *batch, bool on);

/** The element that a refusal is about, within the batch: the one that the kernel points at, or
 * the only one of its message. NULL if it is none, or cannot be told. */
const struct nlattr *nft_batch_refused_element(const struct nft_batch *batch,
                                               const struct nft_refusal *refusal);

/** Ends the open message. The socket does so before it sends. */
void nft_batch_finish(struct nft_batch *batch);

#endif
