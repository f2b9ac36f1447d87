/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares what the kernel has under a key with the applied state, and what other programs may have
 * changed. Apart from this, only commits change the applied state.
 */
#ifndef KUBE_NFTD_TABLE_OBSERVE_H
#define KUBE_NFTD_TABLE_OBSERVE_H

#include "entry.h"

struct ruleset;

/* An element that another program may have changed. */
struct recheck {
    enum table_set set;
    struct key key; /* unused for sets of ranges */
};

/* What else another program may have changed. */
enum recheck_scope {
    RECHECK_ELEMENTS, /* nothing else */
    RECHECK_RULES,    /* rules, chains, declarations or table flags */
    RECHECK_ALL       /* anything */
};

enum observation {
    OBSERVED_SAME,
    OBSERVED_CHANGED, /* repaired; or dirty now or to be restored by the next commit */
    OBSERVED_ALIEN    /* needs a read-back of the table */
};

/* What a recheck found. */
struct recheck_result {
    size_t differences;      /* in elements, rules or all of it */
    size_t missing, strange; /* elements that are applied but not there; there but not applied */
    bool all;                /* the table is to be read back: there may be more of them */
};

/** Records that the kernel has @from (value decoded), or nothing under its key. Needs the @applied
 * of that key. */
void ruleset_record(struct ruleset *rs, enum table_set set, const struct nft_element *from,
                    const struct applied_element *applied, bool there);

/**
 * Another program changed an element of @set; or other parts of the table; or something unknown.
 * Only recorded, until ruleset_recheck(), or forgotten, since all is read.
 */
void ruleset_recheck_element(struct ruleset *rs, const char *set, const struct nft_element *from);
void ruleset_recheck_rules(struct ruleset *rs);
void ruleset_recheck_all(struct ruleset *rs);
bool ruleset_has_rechecks(const struct ruleset *rs);
void ruleset_forget_rechecks(struct ruleset *rs);

/**
 * Queries the recorded elements from the kernel, and rewrites rules that differ. The next commit,
 * which is then due, repairs all else: single elements, after a read-back of the whole table, or by
 * replacing a table with other maps and sets.
 */
struct recheck_result ruleset_recheck(struct ruleset *rs, struct nft_socket *socket);

#endif
