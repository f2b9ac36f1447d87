/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The monitor for this room, and its parts, each for itself: a socket of this kind is not to be had
 * everywhere that they are tested (emulated machines of other byte orders). */
#ifndef KUBE_NFTD_NETLINK_TABLE_MONITOR_H
#define KUBE_NFTD_NETLINK_TABLE_MONITOR_H

#include "kube-nftd/netlink.h"

#include <linux/filter.h>

/** Called by nft_socket.c before and after a large batch; @transactions of it were applied. */
void table_monitor_leave(struct table_monitor *monitor);
void table_monitor_rejoin(struct table_monitor *monitor, uint32_t transactions);

/** A monitor without a socket. */
struct table_monitor *table_monitor_detached(const char *table, uint32_t own_port,
                                             const struct table_monitor_ops *ops);

/** Processes messages as the kernel sends them. */
void table_monitor_take(struct table_monitor *monitor, const void *messages, size_t length);

/** Ends a loop iteration. */
void table_monitor_finish(struct table_monitor *monitor);

#define TABLE_MONITOR_FILTER_SIZE 1000

/** Builds the socket filter. Returns its number of instructions. */
size_t table_monitor_filter(const char *table, uint32_t own_port,
                            struct sock_filter out[TABLE_MONITOR_FILTER_SIZE]);

#endif
