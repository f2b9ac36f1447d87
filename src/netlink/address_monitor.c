/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink.h"

#include "route_monitor.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

/* Minimum interval between reads. */
#define PAUSE_SECONDS 0.02

struct address_monitor {
    struct route_monitor *route;
    addresses_changed_fn changed;
    void *ctx;
    address_vec found[FAMILY_COUNT];     /* by the running read */
    address_vec addresses[FAMILY_COUNT]; /* as last reported */
    bool begun;                          /* both were reported once */
};

static void on_begin(void *ctx)
{
    struct address_monitor *m = ctx;
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_clear(&m->found[family]);
}

static int on_address(const struct nlmsghdr *header, void *ctx)
{
    const struct ifaddrmsg *message = mnl_nlmsg_get_payload(header);
    struct address_monitor *m = ctx;
    enum family family;
    if (header->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(header) < sizeof(*message) ||
        !netlink_family_of(message->ifa_family, &family))
        return MNL_CB_OK;
    /* On point-to-point links IFA_ADDRESS is the peer. */
    const struct nlattr *address = netlink_attribute(header, sizeof(*message), IFA_LOCAL);
    if (!address)
        address = netlink_attribute(header, sizeof(*message), IFA_ADDRESS);
    struct address out = {.bytes = {0}};
    uint32_t flags;
    if (!netlink_copy(netlink_attribute(header, sizeof(*message), IFA_FLAGS), &flags,
                      sizeof(flags)))
        flags = message->ifa_flags;
    if (!(flags & IFA_F_DADFAILED) && netlink_copy(address, out.bytes, address_length(family)) &&
        !address_is_loopback(family, &out))
        vec_push(&m->found[family], out);
    return MNL_CB_OK;
}

/* Reports changed families, at first both. What the read may have missed is kept. */
static void on_end(void *ctx, bool whole)
{
    struct address_monitor *m = ctx;
    const bool first = !m->begun;
    m->begun = true;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        address_vec *known = &m->addresses[i], *found = &m->found[i];
        if (!whole)
            vec_append(found, known->v, known->n);
        addresses_normalize(found);
        bool same =
            found->n == known->n &&
            (known->n == 0 || memcmp(found->v, known->v, known->n * sizeof(*known->v)) == 0);
        if (same && !first)
            continue;
        vec_free(known);
        *known = *found;
        *found = (address_vec){0};
        m->changed(m->ctx, (enum family)i, known);
    }
}

struct address_monitor *address_monitor_new(struct ev_loop *loop, addresses_changed_fn changed,
                                            void *ctx, struct error *err)
{
    static const struct ifaddrmsg both = {.ifa_family = AF_UNSPEC};
    struct address_monitor *m = xcalloc(1, sizeof(*m));
    m->changed = changed;
    m->ctx = ctx;
    m->route =
        route_monitor_new(loop,
                          &(struct route_list){.component = "addresses",
                                               .what = "the addresses of this host",
                                               .groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
                                               .type = RTM_GETADDR,
                                               .request = &both,
                                               .length = sizeof(both),
                                               .pause = PAUSE_SECONDS,
                                               .begin = on_begin,
                                               .take = on_address,
                                               .end = on_end,
                                               .ctx = m},
                          err);
    if (m->route)
        return m;
    address_monitor_free(m);
    return NULL;
}

void address_monitor_free(struct address_monitor *m)
{
    if (!m)
        return;
    route_monitor_free(m->route);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        vec_free(&m->found[i]);
        vec_free(&m->addresses[i]);
    }
    free(m);
}
