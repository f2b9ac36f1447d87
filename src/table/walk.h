/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads what the kernel has in a set, in pieces between turns of the loop, while others may change
 * it. Linear work: small sets are dumped, in large ones the known elements are looked up.
 *
 * For each 32 KiB of a dump the kernel walks a set from its beginning, so the work grows with the
 * square of the size: 800,000 elements take 20 s. By key it takes 4 microseconds for each. Whether
 * the known ones are all is known from the kernel's count; if not, a dump follows.
 *
 *     COUNT -> DUMP
 *     COUNT -> KEYS -> (DUMP)
 */
#ifndef KUBE_NFTD_TABLE_WALK_H
#define KUBE_NFTD_TABLE_WALK_H

#include "entry.h"

enum walk_state {
    WALK_COUNT, /* how large is it? */
    WALK_KEYS,  /* the known elements are looked up */
    WALK_DUMP   /* all elements are read */
};

struct walk;

/* Who reads; @ctx is theirs. */
struct walk_ops {
    /* How many elements of the set are known by their keys; 0: not all of them can be. */
    uint64_t (*known)(void *ctx, enum table_set set);
    /* Calls walk_ask() for the next of these; looks at so many entries as take a piece's time.
     * False if these were the last ones. */
    bool (*ask)(void *ctx);
    nft_element_fn take; /* of each element that is there; some may come twice. Of ranges, both ends
                            are the key */
    /* How many elements of the set are accounted for. If the kernel has as many, it has no others.
     */
    uint64_t (*found)(void *ctx, enum table_set set);
};

/* The reading of one set. Starts zeroed; walk_begin() for each other set. */
struct walk {
    const struct walk_ops *ops;
    void *ctx;
    enum table_set set;
    enum walk_state state;
    bool counted;        /* the kernel reports the number of elements: */
    uint32_t count;      /* at the beginning, and at the end of KEYS */
    uint32_t generation; /* otherwise, of the ruleset at the beginning */
    bool all_asked;      /* KEYS */
    VEC(uint8_t) keys;   /* not looked up yet, from byte @at on */
    size_t at, key_length;
    struct element_dump *dump;
    size_t dumped;                /* elements */
    struct boundaries boundaries; /* of these, in a set of ranges */
    size_t work;                  /* done since the caller zeroed it, see ADOPTION_PIECE */
};

enum walk_result {
    WALK_GOES_ON,
    WALK_ENDED,
    WALK_MISSING, /* there is no such set */
    WALK_FOREIGN, /* it has ends that form no ranges, so they are not ours, or they changed */
    WALK_FAILED
};

/** Begins with @set; frees what an earlier reading holds. */
void walk_begin(struct walk *walk, enum table_set set);

/** The next piece: some tenths of a millisecond in a small set. */
enum walk_result walk_step(struct walk *walk, struct ruleset *rs, struct nft_socket *socket,
                           struct error *err);

/** Looks @key up, too. While ops->ask runs, or before the next step in KEYS. */
void walk_ask(struct walk *walk, const struct key *key);

/** How many keys are still to be looked up: a request has NFT_KEYS_MOST. */
size_t walk_asked(const struct walk *walk);

/** The order of sets: the values that lead to a service port come before its slots, and what is
 * known of affinity records first, since ports take numbers when their frontends are read.
 * TABLE_SETS after the last one. */
#define WALK_FIRST SET_AFFINITY_TIMEOUTS
enum table_set walk_after(enum table_set set);

/** When the next piece in the background is due, after one at @now that took @spent seconds: they
 * use at most 1/@share of a core. */
double walk_rest(double now, double spent, double share);

#endif
