/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The devices of the table's flowtable (nft-templates/flowtable.nft).
 *
 * Devices come and go without our doing, and the kernel forgets those that go (Linux 6.16 and later
 * keep their names). So what it has is never known: each change reads it and sends the difference,
 * in a transaction of its own, since a device that has just gone makes the kernel reject all of it.
 */
#ifndef KUBE_NFTD_TABLE_FLOWTABLE_H
#define KUBE_NFTD_TABLE_FLOWTABLE_H

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

/* Its name, and that of the chain whose rules send packets there. */
#define FLOWTABLE "fast"
#define FLOWTABLE_CHAIN "flows"

/* Starts zeroed. */
struct flowtable {
    device_vec desired;            /* sorted */
    device_vec applied;            /* of these, those that the kernel had after the last change */
    device_rejection_vec rejected; /* by the kernel, and logged */
    size_t matching;               /* as many devices, perhaps more than are desired */
    bool due;                      /* the kernel may have others */
    bool begun;                    /* the first change was logged */
    double wait, retry_time;       /* after failures in a row; clock_monotonic; 0: none */
    char *failure;                 /* the last one, as logged; or NULL */
};

void flowtable_free(struct flowtable *flowtable);

/** See table_set_devices(). */
void ruleset_set_devices(struct ruleset *rs, const device_vec *devices);

/** Makes the kernel's devices the desired ones, if that is due at @now. Logs failures. Returns the
 * time of the next call, or 0. */
double flowtable_sync(struct ruleset *rs, struct nft_socket *socket, double now);

#endif
