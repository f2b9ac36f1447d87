/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of one family: what it shall hold, what the kernel is known to hold, and the batches
 * that make the one into the other.
 *
 * Changes only note what is wanted (pending); a commit computes the difference for the frontends
 * concerned, sends it as one transaction and believes it only when the kernel has said so. After a
 * failure the table is read back before the next try. A table found at the start is adopted: what
 * it holds already is not sent again.
 *
 * A slot outlives its count by one transaction (design, section 4): packets look up the two one
 * after the other. So slots that no count reaches any more are deleted by a later commit.
 */
#ifndef KUBE_NFTD_RULESET_RULESET_H
#define KUBE_NFTD_RULESET_RULESET_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/policy/frontend.h"

#include <stdbool.h>
#include <stdio.h>

#define RULESET_TABLE "kube-nftd"

/* How long an unreachable slot stays, in seconds: longer than a packet takes from one lookup to
 * the next. */
#define RULESET_TRIM_DELAY 0.1

struct ruleset;

/* Figures of the last commit that sent something. */
struct ruleset_stats {
    size_t elements_added, elements_deleted; /* of maps and sets */
    size_t bytes;
    double seconds; /* inside the kernel */
};

/** An empty ruleset for the table of @family; NULL if a template is broken (the error says where).
 */
struct ruleset *ruleset_new(enum family family, struct error *err);
void ruleset_free(struct ruleset *ruleset);

/**
 * New connections to @frontend shall be spread over the @n @backends (sorted by backend_compare,
 * copied); with none they shall be rejected.
 */
void ruleset_set(struct ruleset *ruleset, const struct frontend *frontend,
                 const struct backend *backends, size_t n);

/** @frontend shall not be there. */
void ruleset_remove(struct ruleset *ruleset, const struct frontend *frontend);

/** Whether it is known what the kernel holds, from a read-back or acknowledged commits since. */
bool ruleset_knows_kernel(const struct ruleset *ruleset);

/** Whether a commit at @now (clock_monotonic) would have something to do. */
bool ruleset_needs_commit(const struct ruleset *ruleset, double now);

/** When the next unreachable slots are to be deleted (clock_monotonic), or 0 if there are none. */
double ruleset_trim_time(const struct ruleset *ruleset);

/**
 * Makes the kernel hold what is wanted. 0: it does. -1: nothing that was wanted is lost; call
 * again later.
 * @stats  filled in if not NULL; zero if nothing had to be sent
 */
int ruleset_commit(struct ruleset *ruleset, struct nft_socket *socket, double now,
                   struct ruleset_stats *stats, struct error *err);

/** How many frontends are wanted. */
size_t ruleset_frontends(const struct ruleset *ruleset);

/**
 * Prints the table as it shall be, in nft syntax that nft -f loads in place of an existing one.
 * For a ruleset that was never committed. Sorted, so that equal contents give equal text.
 */
void ruleset_dump(struct ruleset *ruleset, FILE *out);

/** Deletes the table of @family from the kernel. @existed says whether there was one. */
int ruleset_cleanup(struct nft_socket *socket, enum family family, bool *existed,
                    struct error *err);

#endif
