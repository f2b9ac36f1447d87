/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Follows what rtnetlink lists, addresses or devices. One socket is notified of changes; the other
 * then reads the whole list, which takes 0.4 ms for a thousand addresses. Changes during a read are
 * still queued on the first, so none is missed.
 */
#ifndef KUBE_NFTD_NETLINK_ROUTE_MONITOR_H
#define KUBE_NFTD_NETLINK_ROUTE_MONITOR_H

#include "kube-nftd/base.h"

#include <libmnl/libmnl.h>

struct ev_loop;
struct route_monitor;

/* What is followed, and who is notified. Strings and @request are borrowed. */
struct route_list {
    const char *component, *what; /* for logs: "addresses", "the addresses of this host" */
    unsigned groups;              /* multicast groups, as bits */
    uint16_t type;                /* of the request: RTM_GETADDR */
    const void *request;          /* its protocol header, with attributes */
    size_t length;
    double pause; /* least seconds between two reads */
    /* A read begins (perhaps again); gives a message; ends. Without @whole some may be missing. */
    void (*begin)(void *ctx);
    mnl_cb_t take;
    void (*end)(void *ctx, bool whole);
    void *ctx;
};

/** Reads the list and follows it on @loop. Its first end() comes before this returns. NULL if it
 * cannot be read. */
struct route_monitor *route_monitor_new(struct ev_loop *loop, const struct route_list *list,
                                        struct error *err);
void route_monitor_free(struct route_monitor *monitor);

#endif
