/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One bad element does not stop the rest: what the kernel refuses is put aside, what it belongs to
 * stays as it is in force, and everything else goes on.
 *
 * A record that is held back is not pending, whatever it wants, until it is time to try again or it
 * wants something else. So planning and encoding do not meet it. Elements that belong to no record
 * are left out in contents.h.
 */
#ifndef KUBE_NFTD_TABLE_REFUSALS_H
#define KUBE_NFTD_TABLE_REFUSALS_H

#include "kube-nftd/base.h"
#include "shapes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct content;
struct frontend_record;
struct record;
struct ruleset;

struct refusal {
    struct record *record;
    double wait, retry_time; /* seconds; clock_monotonic, if it is held back */
};

/* Whose element a message of the batch is about: a record's, or else a content. */
struct message_owner {
    size_t begin; /* in the batch */
    struct record *record;
    struct content *content;
};

/* Starts zeroed. */
struct refusals {
    VEC(struct refusal) all;
    VEC(struct message_owner) owners; /* of a batch whose elements are sent singly, in its order */
    VEC(struct frontend_record *) frontends; /* that wait for a service port among them */
    double next;             /* when the first is tried again; clock_monotonic, or 0 */
    double wait, retry_time; /* of the elements that belong to no frontend; 0: none is out */
};

/** The next element in the batch is of @record, or if that is NULL it is @content. */
void refusals_note_owner(struct ruleset *ruleset, struct record *record, struct content *content);

/**
 * Looks at what the kernel refused of the ruleset's batch, of which nothing is in force, and puts
 * that aside. True if something was: the rest is worth another try at once. Refusals that say that
 * the table is not what it was believed to be, or that the kernel is short of something, name
 * nothing that could be put aside; others may be mere consequences of those that do.
 * @singly  each element had a message of its own: only then the kernel names all that it refuses,
 *          and it is known whose that is
 */
bool refusals_isolate(struct ruleset *ruleset, double now, bool singly);

/** What was put aside is wanted again: what is due at @now, a portion. */
void refusals_release(struct ruleset *ruleset, double now);

/** Sorts pending records, which are planned: those that take up more room in the kernel come last,
 * so that a set that is full refuses these and no others. */
void refusals_sort_pending(struct ruleset *ruleset);

/** @record, which is about to become pending, is not held back any more. */
void refusals_retry(struct record *record);

/** The kernel took it, or the record is about to be freed. */
void refusals_end(struct ruleset *ruleset, struct record *record);

/** All but what was put aside is in force. */
void refusals_settled(struct ruleset *ruleset);

/** @frontend is planned again when the service port that it is to lead to is not held back any
 * more; or not, since it is about to be freed. */
void refusals_wait_for_port(struct ruleset *ruleset, struct frontend_record *frontend);
void refusals_stop_waiting(struct ruleset *ruleset, struct frontend_record *frontend);

/** Frontends whose service ports are not held back any more become pending. */
void refusals_wake_frontends(struct ruleset *ruleset);

void refusals_free(struct ruleset *ruleset);

#endif
