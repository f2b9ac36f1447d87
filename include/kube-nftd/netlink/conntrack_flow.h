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
};

/** False if @message is about no UDP flow of IPv4 or IPv6. */
bool conntrack_flow_read(const struct nlmsghdr *message, struct conntrack_flow *flow);

/** Whether replies come from elsewhere than the flow went to. */
bool conntrack_flow_is_translated(const struct conntrack_flow *flow);

#endif
