/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the flow cleaner was told of the frontends of one family: which UDP flows are stale (the
 * rules are in kube-nftd/netlink.h), and which frontends a scan is still owed to.
 *
 * A frontend is kept from when it is noted until the end of a scan that began after the note came
 * into force:
 *
 *     flow_notes_say            said, fresh; judged by all that was said if it was applied before
 *     flow_notes_put_in_force   judged by what was said last, due
 *     flow_notes_begin_scan     scanned for
 *     flow_notes_end_scan       forgotten, unless it is fresh or due again
 *
 * It is due again for some more scans if one found an untranslated flow against it: an answer that
 * was on its way when the entry went makes a new one, see conntrack_flow_is_plain().
 */
#ifndef KUBE_NFTD_NETLINK_FLOW_NOTES_H
#define KUBE_NFTD_NETLINK_FLOW_NOTES_H

#include "conntrack.h"
#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

struct flow_note;

/* Start zeroed. */
struct flow_notes {
    struct hash_table by_frontend;
    VEC(struct flow_note *) fresh; /* said, but not applied yet */
    bool owed;                     /* a scan, and not just because of what one found */
    flow_held_back_fn held_back;   /* NULL: nothing ever is */
    const void *ctx;
};

void flow_notes_free(struct flow_notes *notes);

/** See flow_cleaner_note(). */
void flow_notes_say(struct flow_notes *notes, const struct frontend *frontend, bool claimed,
                    const struct backend *serving, size_t n);

/** What was said is applied, but of frontends that are held back. Costs as much as what was said
 * and is not applied yet. Returns whether a scan is owed to some frontend, apart from those that
 * flow_notes_end_scan() told of. */
bool flow_notes_put_in_force(struct flow_notes *notes);

/** A scan begins, for all frontends that one is owed to; if @rechecks, for those too that
 * flow_notes_end_scan() told of. */
void flow_notes_begin_scan(struct flow_notes *notes, bool rechecks);

/** The scan ended. If it did not see the table, it is owed still. Returns whether another one is
 * owed to a frontend because of what this one, or one before, found. */
bool flow_notes_end_scan(struct flow_notes *notes, bool seen);

/** Whether @flow is stale. Remembers a find that may come back. */
bool flow_notes_are_against(struct flow_notes *notes, const struct conntrack_flow *flow);

#endif
