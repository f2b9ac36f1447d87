/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What of a service port can wait goes in steps, of which a commit has a piece: slots beyond those
 * that a change adds at once, and elements that packets no longer reach, for RULESET_TRIM_DELAY.
 */
#ifndef KUBE_NFTD_TABLE_STEPS_H
#define KUBE_NFTD_TABLE_STEPS_H

#include "entry.h"

struct ruleset;

/** How many slots of a part remain after this commit. */
uint32_t port_kept_slots(const struct port_entry *port, enum port_part which);

/** The existing slots of a part that a planned commit empties: beyond the new count, where its
 * chain draws (octave_of()). */
struct slot_range port_emptied_slots(const struct port_entry *port, enum port_part which);

/** How many elements a slot of @port takes, with those of its backend. */
size_t port_slot_elements(const struct port_entry *port);

/** Whether @port gets further slots in later commits: it has the first of those that are desired.
 */
bool port_grows(const struct port_entry *port);

/** Marks service ports dirty whose steps are due, for a portion. */
void steps_begin(struct ruleset *rs, double now);

/** After a failed commit: what is tried again may be more than steps. */
void steps_failed(struct ruleset *rs);

/** After a commit that concerned @port: queues its next step, or frees it if it is unused.
 * @goes_on  the commit did nothing but trim it, so nothing else has fallen out of use */
void steps_finish(struct ruleset *rs, struct port_entry *port, bool goes_on, double now);

#endif
