/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Session affinity of a service port (base.nft). Each backend has a number B that no other backend
 * of the port has had, as long as unused numbers last, so that records of a removed backend do not
 * become valid again.
 */
#ifndef KUBE_NFTD_TABLE_AFFINITY_H
#define KUBE_NFTD_TABLE_AFFINITY_H

#include "element.h"
#include "kube-nftd/base.h"
#include "kube-nftd/table.h"
#include "slots.h"

struct port_entry;
struct ruleset;

/* A backend and its number P:B; a port's are unsorted. */
struct affinity_number {
    struct backend backend;
    uint32_t value;
    bool local; /* in the local part */
};

/* Elements of a number, at most; and of a slot with it. */
#define AFFINITY_ELEMENTS 2
#define SLOT_ELEMENTS (1 + AFFINITY_ELEMENTS)

/* Allocated only for ports that need it. Starts zeroed. */
struct affinity {
    uint32_t timeout;                    /* desired, in seconds; 0: none */
    uint32_t identity;                   /* see struct port_route */
    uint32_t last;                       /* the last B assigned */
    bool full;                           /* no B was left, and none was released since */
    bool current;                        /* each backend that is planned has one, and no other */
    VEC(struct affinity_number) numbers; /* those with desired elements */
};

/** The desired value in affinity_timeouts. */
static inline uint32_t affinity_value(const struct affinity *affinity)
{
    return value_of_timeout(affinity->timeout, affinity->identity);
}

/**
 * Assigns numbers to the backends (some may be empty slots) of both parts of @port, by plain
 * elements, and releases numbers no longer needed. Backends keep the numbers they have in the
 * kernel. When no number is left a backend gets none: its connections are balanced without
 * affinity.
 */
void affinity_hold(struct ruleset *rs, struct port_entry *port, const struct backends *all,
                   const struct backends *local);

/** Assigns numbers to backends that are added to a part. */
void affinity_add(struct ruleset *rs, struct port_entry *port, const struct backends *backends,
                  bool local);

/** Assigns numbers to backends that come to parts, and releases those of others. The changes are
 * sorted, one of each backend. Costs as much as they are, plus one scan of the numbers. Only while
 * these are current, and not full. */
void affinity_change(struct ruleset *rs, struct port_entry *port,
                     const backend_change_vec *changes);

/** Releases up to @most numbers, if @port has any. */
void affinity_release(struct ruleset *rs, struct port_entry *port, size_t most);

/** While session affinity is in use: counts the records written by packets, for metrics, and logs
 * when the map is nearly full. Costs one query, however many records exist (fill.h). */
void affinity_count_records(struct ruleset *rs, struct nft_socket *socket);

#endif
