/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kinds.h"

#include "kube-nftd/base/vec.h"
#include "kube-nftd/netlink/request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The oldest that kernels of today speak; both commands are the same in newer ones. */
#define PROTOCOL IPSET_PROTOCOL_MIN

typedef VEC(char *) name_vec;

static struct nlmsghdr *begin(char *buffer, uint8_t command, uint16_t flags)
{
    struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
    request->nlmsg_type = (uint16_t)(NFNL_SUBSYS_IPSET << 8 | command);
    request->nlmsg_flags = NLM_F_REQUEST | flags;
    request->nlmsg_seq = 1;
    struct nfgenmsg *about = mnl_nlmsg_put_extra_header(request, sizeof(*about));
    about->nfgen_family = NFPROTO_IPV4;
    about->version = NFNETLINK_V0;
    mnl_attr_put_u8(request, IPSET_ATTR_PROTOCOL, PROTOCOL);
    return request;
}

/* Asking a kernel whose module is not loaded would load it; who looks wants to change nothing. */
static bool kernel_has_sets(void)
{
    return access("/sys/module/ip_set", F_OK) == 0 || access("/sys/module", F_OK) != 0;
}

/* NULL if there can be no sets, or with @err. */
static struct mnl_socket *open_socket(struct error *err)
{
    return kernel_has_sets() ? netlink_open(NETLINK_NETFILTER, 0, 0, 0, "IP sets", err) : NULL;
}

/* ---- node ports ---- */

static const struct {
    const char *name;
    uint8_t protocol;
} node_port_sets[] = {
    {"NODE-PORT-TCP", IPPROTO_TCP},        {"NODE-PORT-LOCAL-TCP", IPPROTO_TCP},
    {"NODE-PORT-UDP", IPPROTO_UDP},        {"NODE-PORT-LOCAL-UDP", IPPROTO_UDP},
    {"NODE-PORT-SCTP-HASH", IPPROTO_SCTP}, {"NODE-PORT-LOCAL-SCTP-HASH", IPPROTO_SCTP},
};

static void take_member(const struct nlattr *member, bool *ports)
{
    const struct nlattr *attribute;
    mnl_attr_for_each_nested(attribute, member)
    {
        if (mnl_attr_get_type(attribute) == IPSET_ATTR_PORT &&
            mnl_attr_get_payload_len(attribute) >= sizeof(uint16_t))
            ports[ntohs(mnl_attr_get_u16(attribute))] = true;
    }
}

static int on_members(const struct nlmsghdr *header, void *ports)
{
    const struct nlattr *attribute, *member;
    mnl_attr_for_each(attribute, header, sizeof(struct nfgenmsg))
    {
        if (mnl_attr_get_type(attribute) != IPSET_ATTR_ADT)
            continue;
        mnl_attr_for_each_nested(member, attribute) take_member(member, ports);
    }
    return MNL_CB_OK;
}

/* 0 or an errno. */
static int read_ports(struct mnl_socket *nl, const char *set, bool *ports)
{
    char buffer[512] = {0}, name[IPSET_MAXNAMELEN] = "";
    strncpy(name, set, sizeof(name) - 1); /* as kube-proxy cuts it */
    struct nlmsghdr *request = begin(buffer, IPSET_CMD_LIST, NLM_F_DUMP);
    mnl_attr_put_strz(request, IPSET_ATTR_SETNAME, name);
    int why = netlink_ask(nl, request, on_members, ports);
    return why == ENOENT ? 0 : why; /* no such set: no ports */
}

int leftovers_read_node_ports(struct leftover_node_ports *ports)
{
    static const char *const prefixes[] = {"KUBE-", "KUBE-6-"};
    memset(ports, 0, sizeof(*ports));
    struct error err = {0};
    struct mnl_socket *nl = open_socket(&err);
    int why = err.text ? EIO : 0;
    error_clear(&err);
    for (size_t i = 0; nl && !why && i < 2 * sizeof(node_port_sets) / sizeof(node_port_sets[0]);
         i++) {
        uint8_t protocol = node_port_sets[i / 2].protocol;
        char *name = xasprintf("%s%s", prefixes[i % 2], node_port_sets[i / 2].name);
        why = read_ports(nl, name,
                         protocol == IPPROTO_TCP   ? ports->tcp
                         : protocol == IPPROTO_UDP ? ports->udp
                                                   : ports->sctp);
        free(name);
    }
    if (nl)
        mnl_socket_close(nl);
    return why;
}

/* ---- all sets ---- */

static int on_set(const struct nlmsghdr *header, void *data)
{
    name_vec *names = data;
    const struct nlattr *attribute;
    mnl_attr_for_each(attribute, header, sizeof(struct nfgenmsg))
    {
        const char *name = netlink_text(attribute);
        if (mnl_attr_get_type(attribute) == IPSET_ATTR_SETNAME && name &&
            kube_proxy_has_ip_set(name))
            vec_push(names, xstrdup(name));
    }
    return MNL_CB_OK;
}

static int list_sets(struct mnl_socket *nl, name_vec *names)
{
    char buffer[512] = {0};
    struct nlmsghdr *request = begin(buffer, IPSET_CMD_LIST, NLM_F_DUMP);
    mnl_attr_put_u32(request, IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER,
                     htonl(IPSET_FLAG_LIST_SETNAME));
    return netlink_ask(nl, request, on_set, names);
}

static void destroy_set(struct mnl_socket *nl, const char *name, struct leftovers_report *report)
{
    char buffer[512] = {0};
    int why = 0;
    if (!report->dry_run) {
        struct nlmsghdr *request = begin(buffer, IPSET_CMD_DESTROY, NLM_F_ACK);
        mnl_attr_put_strz(request, IPSET_ATTR_SETNAME, name);
        why = netlink_ask(nl, request, NULL, NULL);
    }
    if (why == 0)
        leftovers_say(report, FATE_REMOVED, "IP set %s", name);
    else if (why == IPSET_ERR_BUSY)
        leftovers_say(report, FATE_STAYS,
                      "IP set %s: a rule uses it: remove the rules first, then run this again",
                      name);
    else
        leftovers_say(report, FATE_STAYS, "IP set %s: %s", name, strerror(why));
}

void leftovers_remove_ip_sets(struct leftovers_report *report)
{
    name_vec names = {0};
    struct error err = {0};
    struct mnl_socket *nl = open_socket(&err);
    int why = nl ? list_sets(nl, &names) : 0;
    if (err.text || why)
        leftovers_say(report, FATE_STAYS, "IP sets: cannot read them: %s",
                      err.text ? err.text : strerror(why));
    vec_each (&names, name) {
        destroy_set(nl, *name, report);
        free(*name);
    }
    vec_free(&names);
    error_clear(&err);
    if (nl)
        mnl_socket_close(nl);
}
