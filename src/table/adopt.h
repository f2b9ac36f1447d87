/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Takes over a table: claim.c says whether there is one and whose it is, adopt.c reads it back, of
 * which reading.c reads the elements.
 */
#ifndef KUBE_NFTD_TABLE_ADOPT_H
#define KUBE_NFTD_TABLE_ADOPT_H

#include "element.h"
#include "rules.h"
#include "walk.h"

struct ruleset;

enum adoption_state {
    ADOPTION_LOOK,         /* not begun: is there a table of ours? */
    ADOPTION_DECLARATIONS, /* are its maps and sets declared as ours? Others are logged */
    ADOPTION_FORGET,       /* what was applied, entry by entry */
    ADOPTION_ELEMENTS,     /* set by set */
    ADOPTION_RULES,        /* all sets are read: repair the rules */
    ADOPTION_COMPARE       /* entries that are as desired become clean */
};

/* Contents of a table as found. */
struct table_contents {
    size_t elements; /* without verdicts */
    size_t counted;  /* as the kernel counts: two for most ranges */
    bool foreign;    /* has elements that we cannot have written, or lacks a set: recreate it */
};

/* Attempts to read a table that changes meanwhile. */
#define ADOPTION_TRIES 3

/* Starts zeroed. */
struct adoption {
    enum adoption_state state;
    unsigned tries;             /* that failed */
    bool exists;                /* a table, when it was looked at */
    bool ours;                  /* and is to be read; else it is to be made */
    enum entry_kind forgetting; /* FORGET: entries of this kind */
    size_t at;                  /* FORGET: next bucket; COMPARE: next dirty entry */
    bool rejected;              /* RULES: the kernel rejected the rewritten ones */
    struct table_contents found;
    struct walk walk; /* its work is that of the present piece, see ADOPTION_PIECE */
    /* Of the set being read. */
    size_t recorded, repeated; /* elements read first, and again */
    size_t next;              /* entry whose elements are looked up: quarantined, then dirty ones */
    VEC(struct entry *) sent; /* frontends of the present piece that are sent instead */
    unsigned rejections;      /* of what was sent */
};

/* Work of a piece: some milliseconds, for which the rest of the loop waits. The unit is an element
 * that the kernel passes over in a dump: 30 nanoseconds. */
#define ADOPTION_PIECE ((size_t)150000)

enum adoption_result {
    ADOPTION_ENDED,   /* the kernel's state is known */
    ADOPTION_GOES_ON, /* call again */
    ADOPTION_FAILED   /* so far, nothing is known; the error has the reason */
};

/**
 * Takes over the table if it is ours, so that the next plan is the difference to its contents. Ends
 * after about @most work; SIZE_MAX: when all is read. Desired state may change between calls;
 * nothing may be committed. What other programs change meanwhile must be reported as usual, and
 * rechecked at the end.
 */
enum adoption_result ruleset_adopt(struct ruleset *rs, struct nft_socket *socket, double now,
                                   size_t most, struct error *err);

/** Whether that has begun and goes on. */
bool ruleset_is_reading(const struct ruleset *rs);

/* ---- claim.c ---- */

/** Looks for a table: whether there is one, and whether it is like ours. That one is claimed if it
 * is to be owned, and no longer dormant. -1, and TABLE_OWNED_ELSEWHERE, if another program owns
 * it. */
int ruleset_look(struct ruleset *rs, struct nft_socket *socket, bool *exists, bool *ours,
                 struct error *err);

/** The same, but a table of another program is just not @ours. */
int ruleset_claim(struct ruleset *rs, struct nft_socket *socket, bool *ours, struct error *err);

/** Whether the kernel's maps and sets are declared as in the templates. @difference is NULL if so,
 * else the first difference as text, which the caller frees. Other programs' sets do not count. -1:
 * they could not be read. */
int declarations_check(const struct ruleset *rs, struct nft_socket *socket, char **difference,
                       struct error *err);

/** Whether the table still exists, is not dormant, and has our layout and declarations. */
bool ruleset_is_still_ours(struct ruleset *rs, struct nft_socket *socket);

/* ---- reading.c ---- */

/** Begins with the first set. */
void reading_begin(struct ruleset *rs);

/** The next piece of work in ADOPTION_ELEMENTS; enters RULES at the end. Nothing may be applied
 * before. -1: read all of it again. */
int reading_step(struct ruleset *rs, struct nft_socket *socket, struct error *err);

/** Frees what the reading holds. */
void reading_stop(struct ruleset *rs);

#endif
