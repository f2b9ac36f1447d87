/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From the desired state to the differences that a commit sends: numbers of service ports, slots,
 * affinity, source lists (plan.c); the desired value of an entry in each set (desired_value.c).
 */
#ifndef KUBE_NFTD_TABLE_PLAN_H
#define KUBE_NFTD_TABLE_PLAN_H

#include "entry.h"

struct ruleset;

/* A desired value of an entry that differs from the applied one, in the phase in which it is sent.
 */
struct difference {
    struct entry *entry;
    enum set_phase phase;
    enum table_set set;
    uint32_t applied, desired; /* 0: none */
};

/** The values of a service port in SET_REJECTED and SET_DROPPED: whether new connections are
 * refused. */
uint32_t route_rejects(const struct port_route *route);
uint32_t route_drops(const struct port_route *route);

/** The desired value of a planned @entry in a number set; while it is quarantined, the applied
 * one. */
uint32_t entry_desired(enum table_set set, const struct entry *entry);

/** Plans dirty entries: service port numbers, slots, affinity, source lists. Service ports that
 * wait for a number are not dirty then. The second plans one entry that has a number.
 * @most_added  slots that a service port may get at once: with more, it grows in steps */
void ruleset_plan(struct ruleset *rs, size_t most_added);
void ruleset_plan_entry(struct ruleset *rs, struct entry *entry, size_t most_added);

/** Adds up to @most of the missing slots of a planned part, in this commit. Returns how many
 * elements that takes. */
size_t ruleset_add_slots(struct ruleset *rs, struct port_entry *port, enum port_part which,
                         size_t most);

/** Lists the differences of planned dirty entries, in the order in which they are sent. */
void ruleset_find_differences(struct ruleset *rs);

/** Whether backends of @port have affinity numbers. */
bool port_is_affine(const struct port_entry *port);

/** How many of the values of @port stay only until no frontend leads to them, or wait to be
 * another's: a trim deletes them. */
size_t port_values_left(const struct port_entry *port);

#endif
