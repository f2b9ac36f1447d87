/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many connections flowtables forward: the kernel does not count them, but marks their entries.
 */
#include "kube-nftd/conntrack.h"

#include "kube-nftd/netlink.h"
#include "scan.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#define PIECE_SIZE ((size_t)32 * 1024)

/* Some 10 ms. The table is read by hash, so that these stand for all. */
#define LOOKED_AT 4096

struct look {
    uint32_t seen;
    uint64_t flows[FAMILY_COUNT];
};

static int on_entry(const struct nlmsghdr *header, void *data)
{
    const uint32_t translated_and_forwarded = IPS_DST_NAT | IPS_OFFLOAD;
    const struct nfgenmsg *about = mnl_nlmsg_get_payload(header);
    struct look *look = data;
    enum family family;
    if (look->seen == LOOKED_AT)
        return MNL_CB_ERROR;
    look->seen++;
    const uint32_t status = netlink_number(nfnl_attribute(header, CTA_STATUS), 0);
    if ((status & translated_and_forwarded) == translated_and_forwarded &&
        netlink_family_of(about->nfgen_family, &family))
        look->flows[family]++;
    return MNL_CB_OK;
}

/* On a socket of its own, so that the dump can be left. */
static bool look_at_entries(struct look *look)
{
    struct error err = {0};
    struct mnl_socket *nl = netlink_open(NETLINK_NETFILTER, 0, 0, "conntrack", &err);
    error_clear(&err);
    if (!nl)
        return false;
    char *buffer = xcalloc(PIECE_SIZE, 1);
    struct nlmsghdr *request =
        conntrack_request(buffer, IPCTNL_MSG_CT_GET, NLM_F_DUMP, NFPROTO_UNSPEC, 1);
    struct netlink_reply reply = {
        .nl = nl, .buffer = buffer, .size = PIECE_SIZE, .sequence = 1, .fn = on_entry, .ctx = look};
    int result = mnl_socket_sendto(nl, request, request->nlmsg_len) < 0 ? -1 : 1;
    while (result > 0)
        result = netlink_receive(&reply);
    mnl_socket_close(nl);
    free(buffer);
    return result == 0 || look->seen == LOOKED_AT;
}

bool flowtable_flows(struct flowtable_flows *flows)
{
    struct error err = {0};
    struct look look = {.seen = 0};
    uint32_t entries = 0;
    struct conntrack *conntrack = conntrack_open(&err);
    const bool counted = conntrack && conntrack_count(conntrack, &entries, &err) == 0;
    conntrack_close(conntrack);
    error_clear(&err);
    *flows = (struct flowtable_flows){.estimated = false};
    if (!counted || !look_at_entries(&look))
        return false;
    flows->estimated = look.seen == LOOKED_AT && entries > look.seen;
    for (int i = 0; i < FAMILY_COUNT; i++)
        flows->n[i] = flows->estimated ? look.flows[i] * entries / look.seen : look.flows[i];
    return true;
}
