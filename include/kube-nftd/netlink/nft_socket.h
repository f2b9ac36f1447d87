/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one netlink socket to nf_tables: sends batches, reads tables back. The kernel works on a
 * batch inside the send, so its answers are there when the send returns; nothing here waits.
 */
#ifndef KUBE_NFTD_NETLINK_NFT_SOCKET_H
#define KUBE_NFTD_NETLINK_NFT_SOCKET_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/netlink/batch.h"
#include "kube-nftd/netlink/nft_element.h"

#include <libmnl/libmnl.h>

struct nft_socket;

struct nft_socket *nft_socket_open(struct error *err);
void nft_socket_close(struct nft_socket *socket);

/** By which the kernel names the socket in what it tells others. */
uint32_t nft_socket_port(const struct nft_socket *socket);

/* While a listener is there, the kernel keeps a message of 8 KiB for each element of a transaction
 * until that is committed. A large batch is cheap only without. */
struct nft_large_watch {
    void (*begins)(void *ctx);
    /* @transactions of it was applied. */
    void (*ended)(void *ctx, uint32_t transactions);
    void *ctx;
};

/** Calls @watch (copied) around each large batch, in nft_socket_commit(); NULL: nobody any more. */
void nft_socket_watch_large(struct nft_socket *socket, const struct nft_large_watch *watch);

/** The number of the ruleset's generation: one more after each transaction of anybody in this
 * network namespace. */
int nft_socket_generation(struct nft_socket *socket, uint32_t *generation, struct error *err);

/**
 * Sends @batch and reads the kernel's answers. 0: everything is applied. -1: the error names
 * what was refused first, @batch->refusals has all that the kernel named (they may be less than
 * it found: there is room for some thousands), and @batch->nothing_in_force says whether it holds
 * what it held before. If that is not so, some of it may be applied, or all if the kernel's
 * answer was lost.
 * A batch that the socket's buffer cannot hold even after growing it (that takes CAP_NET_ADMIN in
 * the first user namespace), that the kernel has no memory for in one piece, or that is longer than
 * @batch->piece, is cut where the batch allows it and goes in several transactions; then the first
 * ones may be applied after a -1.
 */
int nft_socket_commit(struct nft_socket *socket, struct nft_batch *batch, struct error *err);

/**
 * Whether the kernel would take @batch; nothing of it is applied. 0: it would. -1: the error
 * says what was refused, and @why (if not NULL) is the errno. Chains of a new table that lead to
 * each other are not found: there the kernel looks for them when it commits, and only then.
 */
int nft_socket_check(struct nft_socket *socket, struct nft_batch *batch, int *why,
                     struct error *err);

/* What the kernel holds of a table. */
struct nft_table_state {
    bool exists;
    char *comment; /* to be freed by the caller; NULL if it has none */
    uint32_t flags;
    uint32_t owner;       /* the netlink port of who alone may change it; 0: everybody may */
    bool owned_elsewhere; /* by another socket than this one */
};

/** Asks for table @table of @family. */
int nft_socket_read_table(struct nft_socket *socket, enum family family, const char *table,
                          struct nft_table_state *state, struct error *err);

/** Gives all elements of a set or map to @fn. -1 also if the set changed meanwhile: read again. */
int nft_socket_read_elements(struct nft_socket *socket, enum family family, const char *table,
                             const char *set, nft_element_fn fn, void *ctx, struct error *err);

/** How many elements a set or map has, in @count. @told: whether the kernel says so, as new ones do
 * (Linux 6.18); a set that is not there counts as untold. */
int nft_socket_count_elements(struct nft_socket *socket, enum family family, const char *table,
                              const char *set, uint32_t *count, bool *told, struct error *err);

/* Keys of one length, one behind the other. */
struct nft_keys {
    const uint8_t *bytes;
    size_t length; /* of each */
    size_t n;      /* NFT_KEYS_MOST at most */
};

/* The answers to so many fit into a socket's buffer as it is. */
#define NFT_KEYS_MOST 32

/** Gives the elements of a set or map with @keys to @fn, in their order, up to the first one that
 * is not there. Costs a lookup each, where a dump costs the more the larger the set is. @found: how
 * many were given. */
int nft_socket_get_elements(struct nft_socket *socket, enum family family, const char *table,
                            const char *set, const struct nft_keys *keys, nft_element_fn fn,
                            void *ctx, size_t *found, struct error *err);

/**
 * Gives the one element of a set or map that holds @key to @fn, if there is one; for a set of
 * ranges, the one that @key is in (of single fields: its start). Costs a lookup, whatever the set
 * holds. A set or table that is not there is as good as an empty one.
 */
int nft_socket_get_element(struct nft_socket *socket, enum family family, const char *table,
                           const char *set, const void *key, size_t key_length, nft_element_fn fn,
                           void *ctx, struct error *err);

/* Takes one rule, borrowed. */
typedef void (*nft_rule_fn)(void *ctx, struct nftnl_rule *rule);

/** Gives all rules of a table to @fn, chain by chain. */
int nft_socket_read_rules(struct nft_socket *socket, enum family family, const char *table,
                          nft_rule_fn fn, void *ctx, struct error *err);

/* Takes one chain, borrowed. */
typedef void (*nft_chain_fn)(void *ctx, struct nftnl_chain *chain);

/** Gives all chains of a table to @fn. -1 also if they changed meanwhile: read again. */
int nft_socket_read_chains(struct nft_socket *socket, enum family family, const char *table,
                           nft_chain_fn fn, void *ctx, struct error *err);

/* What to dump of a table. */
struct nft_dump {
    uint16_t type; /* NFT_MSG_GETCHAIN, NFT_MSG_GETSET, NFT_MSG_GETSETELEM or NFT_MSG_GETRULE */
    const char *table;
    const char *set; /* whose elements; for NFT_MSG_GETSETELEM alone */
};

/**
 * Gives each message of a dump to @fn as the kernel sends it: for tables of others, whose contents
 * libnftnl need not know. What is overtaken by a change is read to its end all the same, and
 * @overtaken is set (not cleared): some may be missing or have come twice. For
 * elements the kernel does not tell. Chains of other tables may come too.
 */
int nft_socket_dump(struct nft_socket *socket, enum family family, const struct nft_dump *what,
                    mnl_cb_t fn, void *ctx, bool *overtaken, struct error *err);

#endif
