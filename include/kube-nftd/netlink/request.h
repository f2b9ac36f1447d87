/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One request to the kernel over netlink and all of its answer, for what is not on the hot path.
 * Nothing here waits for anybody but the kernel.
 */
#ifndef KUBE_NFTD_NETLINK_REQUEST_H
#define KUBE_NFTD_NETLINK_REQUEST_H

#include "kube-nftd/base/error.h"

#include <libmnl/libmnl.h>
#include <stdbool.h>

/**
 * A socket for @protocol (NETLINK_NETFILTER, ...), bound to multicast @groups, with room for @room
 * bytes that wait to be read (0: as many as usual), which the caller closes with
 * mnl_socket_close(). NULL with an error that begins with @what.
 * @flags  SOCK_NONBLOCK or 0
 */
struct mnl_socket *netlink_open(int protocol, int flags, unsigned groups, int room,
                                const char *what, struct error *err);

/**
 * Sends @request, which asks for a dump or an acknowledgement, and gives each message of the answer
 * to @fn (may be NULL). 0 or an errno; EINTR if what is read changed meanwhile. An answer that was
 * not read to its end is thrown away, so that the next request gets its own.
 */
int netlink_ask(struct mnl_socket *nl, const struct nlmsghdr *request, mnl_cb_t fn, void *ctx);

/**
 * The same, but reads on if what is read changes meanwhile, and sets @overtaken (it is not
 * cleared): then some may be missing or have come twice.
 */
int netlink_ask_overtaken(struct mnl_socket *nl, const struct nlmsghdr *request, mnl_cb_t fn,
                          void *ctx, bool *overtaken);

/**
 * How many of @length bytes, from their beginning on, are whole messages. To be asked before libmnl
 * goes through them: it takes the length of a message for a number with a sign, and so one of 2 GiB
 * or more for one that fits.
 */
size_t netlink_whole(const void *messages, size_t length);

/** The errno that the kernel answered, 0 for an acknowledgement; EPROTO for a number that is none.
 */
int netlink_errno(const struct nlmsgerr *answer);

/** The text in @attribute; NULL if that is NULL or what it holds does not end with a NUL. */
const char *netlink_text(const struct nlattr *attribute);

#endif
