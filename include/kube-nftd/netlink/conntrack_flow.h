/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A UDP flow as the kernel's conntrack tells of it over netlink, read where it lies. */
#ifndef KUBE_NFTD_NETLINK_CONNTRACK_FLOW_H
#define KUBE_NFTD_NETLINK_CONNTRACK_FLOW_H

#include "kube-nftd/model/frontend.h"

struct nlattr;
struct nlmsghdr;

struct conntrack_flow {
    struct frontend to;    /* where it was sent, before translation */
    struct backend server; /* where its replies come from */
    /* What names just this entry; borrowed from the message. No zone: the default one. */
    const struct nlattr *original, *zone, *id;
    const struct nlattr *reply; /* the tuple of its replies, borrowed too */
};

/** False if @message is about no UDP flow of IPv4 or IPv6. */
bool conntrack_flow_read(const struct nlmsghdr *message, struct conntrack_flow *flow);

/** Whether replies come from elsewhere than the flow went to. */
bool conntrack_flow_is_translated(const struct conntrack_flow *flow);

/**
 * Whether nothing is translated, neither way; then @from is who sent the first packet. So it looks
 * when that packet was the answer to a question whose own entry has gone: what the client asks next
 * counts as the reply to it, and is not translated either.
 */
bool conntrack_flow_is_plain(const struct conntrack_flow *flow, struct frontend *from);

#endif
