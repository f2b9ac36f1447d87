/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The addresses that the interfaces of this host hold, up or down, followed through rtnetlink as
 * they come and go. Knows no Kubernetes. Not among them are loopback addresses (127.0.0.0/8, ::1),
 * and IPv6 addresses that another host turned out to have already. An address that several
 * interfaces hold goes when the last one loses it.
 */
#ifndef KUBE_NFTD_NETLINK_ADDRESS_MONITOR_H
#define KUBE_NFTD_NETLINK_ADDRESS_MONITOR_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/address.h"

struct ev_loop;
struct address_monitor;

/* Told when the addresses of a family became others: all that there are now, sorted by their bytes,
 * without duplicates, borrowed. Must not free the monitor. */
typedef void (*addresses_changed_fn)(void *ctx, enum family family, const address_vec *addresses);

/**
 * Reads the addresses and follows them on @loop. Tells of those of both families before it returns
 * (also of none), then of every change, once a turn of the loop. Lost messages (ENOBUFS) make it
 * read all of them again.
 */
struct address_monitor *address_monitor_new(struct ev_loop *loop, addresses_changed_fn changed,
                                            void *ctx, struct error *err);
void address_monitor_free(struct address_monitor *monitor);

#endif
