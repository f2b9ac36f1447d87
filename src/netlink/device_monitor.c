/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink.h"

#include "route_monitor.h"

#include <fnmatch.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

/* Minimum interval between reads. A new pod is several events, and no packet waits for this. */
#define PAUSE_SECONDS 0.1

struct device_monitor {
    struct route_monitor *route;
    char *patterns; /* comma-separated */
    devices_changed_fn changed;
    void *ctx;
    device_vec found;   /* by the running read */
    device_vec devices; /* as last reported */
    bool begun;         /* they were */
};

static int compare_devices(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct device));
}

bool device_matches(const char *patterns, const char *name)
{
    for (size_t length; *patterns; patterns += length + (patterns[length] == ',')) {
        length = strcspn(patterns, ",");
        char *pattern = xstrndup(patterns, length);
        const bool matches = fnmatch(pattern, name, FNM_NOESCAPE) == 0;
        free(pattern);
        if (matches)
            return true;
    }
    return false;
}

static void on_begin(void *ctx)
{
    vec_clear(&((struct device_monitor *)ctx)->found);
}

static int on_device(const struct nlmsghdr *header, void *ctx)
{
    const struct ifinfomsg *message = mnl_nlmsg_get_payload(header);
    struct device_monitor *m = ctx;
    if (header->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(header) < sizeof(*message))
        return MNL_CB_OK;
    const char *name = netlink_text(netlink_attribute(header, sizeof(*message), IFLA_IFNAME));
    struct device device = {.index = (uint32_t)message->ifi_index};
    if (!name || strlen(name) >= sizeof(device.name) || message->ifi_flags & IFF_LOOPBACK ||
        !device_matches(m->patterns, name))
        return MNL_CB_OK;
    memcpy(device.name, name, strlen(name));
    vec_push(&m->found, device);
    return MNL_CB_OK;
}

/* What an interrupted read may have missed is in the next one, which follows. */
static void on_end(void *ctx, bool whole)
{
    struct device_monitor *m = ctx;
    device_vec *known = &m->devices, *found = &m->found;
    if (!whole && m->begun)
        return;
    vec_sort(found, compare_devices);
    const bool same =
        found->n == known->n &&
        (known->n == 0 || memcmp(found->v, known->v, known->n * sizeof(*known->v)) == 0);
    if (same && m->begun)
        return;
    m->begun = true;
    vec_free(known);
    *known = *found;
    *found = (device_vec){0};
    m->changed(m->ctx, known);
}

struct device_monitor *device_monitor_new(struct ev_loop *loop, const char *patterns,
                                          devices_changed_fn changed, void *ctx, struct error *err)
{
    /* Statistics would be most of the answer. */
    static const struct {
        struct ifinfomsg header;
        struct nlattr attribute;
        uint32_t filter;
    } request = {{.ifi_family = AF_UNSPEC},
                 {.nla_len = sizeof(struct nlattr) + sizeof(uint32_t), .nla_type = IFLA_EXT_MASK},
                 RTEXT_FILTER_SKIP_STATS};
    struct device_monitor *m = xcalloc(1, sizeof(*m));
    m->patterns = xstrdup(patterns);
    m->changed = changed;
    m->ctx = ctx;
    m->route = route_monitor_new(loop,
                                 &(struct route_list){.component = "devices",
                                                      .what = "the devices of this host",
                                                      .groups = RTMGRP_LINK,
                                                      .type = RTM_GETLINK,
                                                      .request = &request,
                                                      .length = sizeof(request),
                                                      .pause = PAUSE_SECONDS,
                                                      .begin = on_begin,
                                                      .take = on_device,
                                                      .end = on_end,
                                                      .ctx = m},
                                 err);
    if (m->route)
        return m;
    device_monitor_free(m);
    return NULL;
}

void device_monitor_free(struct device_monitor *m)
{
    if (!m)
        return;
    route_monitor_free(m->route);
    vec_free(&m->found);
    vec_free(&m->devices);
    free(m->patterns);
    free(m);
}
