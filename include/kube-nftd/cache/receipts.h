/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which version of each object of a kind has come, and which one the kernel's tables hold.
 *
 * Time is counted in generations: one for each time that changes are sent to the kernel. An object
 * is stamped with the generation in which it last became another; a family holds it when the
 * generation is applied there. Nothing is looked through for that. What was held before a change
 * is remembered until the change is applied in both families, and so are objects that went;
 * besides, the last version of each object that could not be read.
 */
#ifndef KUBE_NFTD_CACHE_RECEIPTS_H
#define KUBE_NFTD_CACHE_RECEIPTS_H

#include "kube-nftd/model/object.h"

#include <stdbool.h>
#include <stdint.h>

/* 63 bits: there is always another one. */
typedef uint64_t generation;

struct receipts;

/* An object as it is known. */
struct received_object {
    const struct object_version *version; /* borrowed */
    generation changed;                   /* in which it became what it is */
    bool concerns[FAMILY_COUNT];          /* the tables of these families hold something of it */
};

/* What there is to say of an object. All texts are borrowed until the next change. */
struct receipt {
    const char *id;
    const struct object_version *received; /* NULL: it is gone, or never could be read */
    const struct object_version *left_out; /* came later, but could not be read; NULL: none */
    struct {
        bool concerned; /* the table of the family holds something of it, or shall */
        bool in_force;  /* what was received is what the table holds */
        const struct object_version *held; /* NULL: nothing of it */
    } family[FAMILY_COUNT];
};

struct receipts *receipts_new(void);
void receipts_free(struct receipts *receipts);

/** The generation to stamp what changes now with. The first one is 1. */
generation receipts_now(const struct receipts *receipts);

/** Whether all that was stamped with @changed is applied in both families. */
bool receipts_is_in_force(const struct receipts *receipts, generation changed);

/**
 * The object @id becomes another; its stamp has to become receipts_now().
 * @owner   the Service of an EndpointSlice, as @before has it; else NULL
 * @before  what it was; NULL: it was not there
 * @goes    it is not there from now on
 */
void receipts_change(struct receipts *receipts, const char *id, const char *owner,
                     const struct received_object *before, bool goes);

/** @version of @id came and could not be read: what was known of it stays. @owner as above, or
 * NULL if it is not known. */
void receipts_leave_out(struct receipts *receipts, const char *id, const char *owner,
                        const struct object_version *version);

/** @id could be read again, or is gone. */
void receipts_take_in(struct receipts *receipts, const char *id);

/** The same for all objects. */
void receipts_take_all_in(struct receipts *receipts);

/** What was stamped so far is applied in these families (true for one that is not in use). The
 * next generation begins. */
void receipts_next(struct receipts *receipts, const bool in_force[FAMILY_COUNT]);

/** Says in @out what there is to say of @id, which is @known, or unknown if that is NULL. False if
 * nothing is. */
bool receipts_of(const struct receipts *receipts, const char *id,
                 const struct received_object *known, struct receipt *out);

/** Calls @take with the id of each object that went or could not be read and whose owner is
 * @owner. The object may be there again, of another owner or the same. */
void receipts_each_of_owner(const struct receipts *receipts, const char *owner,
                            void (*take)(void *ctx, const char *id), void *ctx);

#endif
