/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The numbers of session affinity (base.nft): a service port has a number P, each of its backends
 * a number B that no other backend of it had before, so that records of one that is gone never
 * come to life again.
 */
#ifndef KUBE_NFTD_RULESET_AFFINITY_H
#define KUBE_NFTD_RULESET_AFFINITY_H

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/ruleset/contents.h"

struct affinity_group;
struct affinity_number;

/* Starts zeroed. */
struct affinity {
    enum family family;
    struct affinity_group *groups;            /* by the group of a route */
    uint8_t given_ids[(UINT16_MAX + 1) / 8];  /* P that groups have; a bit each */
    uint8_t kernel_ids[(UINT16_MAX + 1) / 8]; /* P that were found in the kernel */
    uint16_t last_id;
};

typedef VEC(struct affinity_number *) affinity_number_vec;

/* What one frontend holds of it. Starts zeroed. */
struct affinity_hold {
    struct affinity_group *group;
    affinity_number_vec backends;
    affinity_number_vec local_backends;
};

/**
 * Gives the frontend of @hold numbers for its backends, through @contents, and takes back those
 * that it held before. What a group or backend has in the kernel already is kept.
 * @group      of the route; 0: none, everything is taken back
 * @kernel_id  P:0 that the kernel has for this frontend; 0 if none
 * Returns P:0, or 0 if there is no number left (or no group).
 */
uint32_t affinity_hold(struct affinity *affinity, struct contents *contents,
                       struct affinity_hold *hold, uint32_t group, uint32_t kernel_id,
                       const struct backend *backends, size_t n,
                       const struct backend *local_backends, size_t n_local);

/** The group that has P:0, so that a frontend which has it in the kernel can keep it: that of
 * routes if one has it, else one of its own that no route is of. */
uint32_t affinity_group_of(const struct affinity *affinity, uint32_t kernel_id);

/** Notes that the kernel's table uses P:0, so that no new group gets it. */
void affinity_note_kernel_id(struct affinity *affinity, uint32_t id);

/** Gives everything back that @hold has. */
void affinity_release(struct affinity *affinity, struct contents *contents,
                      struct affinity_hold *hold);

#endif
