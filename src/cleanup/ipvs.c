/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cleanup.h"

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netfilter.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEVICE "kube-ipvs0"

/* Exists if ip_vs is loaded. Querying the netlink family instead would load the module. */
#define IPVS_FILE "/proc/net/ip_vs"

/* The oldest version that current kernels speak; newer ones have the same two commands. */
#define IP_SET_PROTOCOL IPSET_PROTOCOL_MIN

/* Copies the first @length bytes of @attribute to @to. False if it is NULL or shorter. */
static bool copy(const struct nlattr *attribute, void *to, size_t length)
{
    if (!attribute || mnl_attr_get_payload_len(attribute) < length)
        return false;
    memcpy(to, mnl_attr_get_payload(attribute), length);
    return true;
}

/* ---- IP sets ---- */

/* A NodePort of kube-proxy. */
struct node_port {
    uint8_t protocol;
    uint16_t port;
};

/* kube-proxy's IP sets. */
struct ip_sets {
    struct mnl_socket *nl; /* NULL: no IP sets in this kernel, or an error */
    int error;             /* errno of the failed read; 0: none */
    VEC(char *) names;
    uint8_t protocol;            /* of the set that is being read */
    VEC(struct node_port) ports; /* filled by read_node_ports() */
};

static struct nlmsghdr *begin_set(char *buffer, uint8_t command, uint16_t flags)
{
    const struct nfgenmsg about = {.nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0};
    struct nlmsghdr *request = netlink_request(buffer, (uint16_t)(NFNL_SUBSYS_IPSET << 8 | command),
                                               flags, 1, &about, sizeof(about));
    mnl_attr_put_u8(request, IPSET_ATTR_PROTOCOL, IP_SET_PROTOCOL);
    return request;
}

static int on_set(const struct nlmsghdr *header, void *data)
{
    struct ip_sets *sets = data;
    const char *name = netlink_text(nfnl_attribute(header, IPSET_ATTR_SETNAME));
    if (name && kube_proxy_has_ip_set(name))
        vec_push(&sets->names, xstrdup(name));
    return MNL_CB_OK;
}

static void open_sets(struct ip_sets *sets)
{
    char buffer[512] = {0};
    struct error err = {0};
    /* A query would load the module; a dry run must change nothing. */
    if (access("/sys/module/ip_set", F_OK) != 0 && access("/sys/module", F_OK) == 0)
        return;
    sets->nl = netlink_open(NETLINK_NETFILTER, 0, 0, "IP sets", &err);
    sets->error = sets->nl ? 0 : errno;
    error_clear(&err);
    if (!sets->nl)
        return;
    struct nlmsghdr *request = begin_set(buffer, IPSET_CMD_LIST, NLM_F_DUMP);
    mnl_attr_put_u32(request, IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER,
                     htonl(IPSET_FLAG_LIST_SETNAME));
    sets->error = netlink_ask(sets->nl, request, on_set, sets, NULL);
}

static void close_sets(struct ip_sets *sets)
{
    vec_each (&sets->names, name)
        free(*name);
    vec_free(&sets->names);
    vec_free(&sets->ports);
    if (sets->nl)
        mnl_socket_close(sets->nl);
}

static int on_members(const struct nlmsghdr *header, void *data)
{
    struct ip_sets *sets = data;
    const struct nlattr *member, *members = nfnl_attribute(header, IPSET_ATTR_ADT);
    if (!members)
        return MNL_CB_OK;
    mnl_attr_for_each_nested(member, members)
    {
        uint16_t port;
        if (copy(netlink_inside(member, IPSET_ATTR_PORT), &port, sizeof(port)))
            vec_push(&sets->ports, ((struct node_port){sets->protocol, ntohs(port)}));
    }
    return MNL_CB_OK;
}

/* The protocol of the NodePorts in the set @name; 0: not a set of NodePorts. */
static uint8_t node_port_protocol(const char *name)
{
    if (!strstr(name, "-NODE-PORT-"))
        return 0;
    return strstr(name, "-TCP")    ? IPPROTO_TCP
           : strstr(name, "-UDP")  ? IPPROTO_UDP
           : strstr(name, "-SCTP") ? IPPROTO_SCTP
                                   : 0;
}

/* Returns 0, or an errno: then the owner of a virtual server cannot be determined. */
static int read_node_ports(struct ip_sets *sets)
{
    int why = sets->error;
    for (size_t i = 0; i < sets->names.n && !why; i++) {
        char buffer[512] = {0};
        struct nlmsghdr *request = begin_set(buffer, IPSET_CMD_LIST, NLM_F_DUMP);
        sets->protocol = node_port_protocol(sets->names.v[i]);
        mnl_attr_put_strz(request, IPSET_ATTR_SETNAME, sets->names.v[i]);
        if (sets->protocol)
            why = netlink_ask(sets->nl, request, on_members, sets, NULL);
    }
    return why;
}

/* Runs after the rules are removed: a set in use stays. A dry run assumes that none is in use. */
static void remove_sets(struct cleanup *cleanup, const struct ip_sets *sets)
{
    if (sets->error)
        cleanup_say(cleanup, FATE_STAYS, "IP sets: cannot read them: %s", strerror(sets->error));
    vec_each (&sets->names, name) {
        char buffer[512] = {0};
        struct nlmsghdr *request = begin_set(buffer, IPSET_CMD_DESTROY, NLM_F_ACK);
        mnl_attr_put_strz(request, IPSET_ATTR_SETNAME, *name);
        int why = cleanup->dry_run ? 0 : netlink_ask(sets->nl, request, NULL, NULL, NULL);
        if (why == 0)
            cleanup_say(cleanup, FATE_REMOVED, "IP set %s", *name);
        else if (why == IPSET_ERR_BUSY)
            cleanup_say(cleanup, FATE_STAYS,
                        "IP set %s: a rule uses it: remove the rules first, then run this again",
                        *name);
        else
            cleanup_say(cleanup, FATE_STAYS, "IP set %s: %s", *name, strerror(why));
    }
}

/* ---- kube-ipvs0 ---- */

struct device {
    unsigned index; /* 0: no such device */
    address_vec addresses[FAMILY_COUNT];
};

static int on_address(const struct nlmsghdr *header, void *data)
{
    struct device *device = data;
    const struct ifaddrmsg *about = mnl_nlmsg_get_payload(header);
    struct address address = {{0}};
    enum family family;
    if (mnl_nlmsg_get_payload_len(header) >= sizeof(*about) && about->ifa_index == device->index &&
        netlink_family_of(about->ifa_family, &family) &&
        copy(netlink_attribute(header, sizeof(*about), IFA_ADDRESS), address.bytes,
             address_length(family)))
        vec_push(&device->addresses[family], address);
    return MNL_CB_OK;
}

static int read_device(struct mnl_socket *nl, struct device *device)
{
    char buffer[256] = {0};
    memset(device, 0, sizeof(*device));
    device->index = if_nametoindex(DEVICE);
    if (!device->index)
        return 0;
    const struct ifaddrmsg all = {.ifa_family = AF_UNSPEC};
    int why =
        netlink_ask(nl, netlink_request(buffer, RTM_GETADDR, NLM_F_DUMP, 1, &all, sizeof(all)),
                    on_address, device, NULL);
    for (int family = 0; family < FAMILY_COUNT; family++)
        addresses_normalize(&device->addresses[family]);
    return why;
}

static bool has_address(const struct device *device, enum family family,
                        const struct address *address)
{
    const address_vec *addresses = &device->addresses[family];
    return addresses->n > 0 &&
           bsearch(address, addresses->v, addresses->n, sizeof(*addresses->v), address_compare);
}

static void remove_device(struct cleanup *cleanup, struct mnl_socket *nl,
                          const struct device *device)
{
    char buffer[256] = {0};
    const struct ifinfomsg link = {.ifi_index = (int)device->index};
    if (!device->index)
        return;
    const struct nlmsghdr *request =
        netlink_request(buffer, RTM_DELLINK, NLM_F_ACK, 1, &link, sizeof(link));
    int why = cleanup->dry_run ? 0 : netlink_ask(nl, request, NULL, NULL, NULL);
    if (why)
        cleanup_say(cleanup, FATE_STAYS, "device %s: %s: run 'ip link delete %s'", DEVICE,
                    strerror(why), DEVICE);
    else
        cleanup_say(cleanup, FATE_REMOVED, "device %s (addresses: %zu)", DEVICE,
                    device->addresses[FAMILY_IPV4].n + device->addresses[FAMILY_IPV6].n);
}

/* ---- virtual servers ---- */

typedef VEC(struct virtual_server) server_vec;

static struct nlmsghdr *begin_generic(char *buffer, uint16_t family, uint16_t flags,
                                      uint8_t command, uint8_t version)
{
    const struct genlmsghdr generic = {.cmd = command, .version = version};
    return netlink_request(buffer, family, flags, 1, &generic, sizeof(generic));
}

static int on_family(const struct nlmsghdr *header, void *data)
{
    copy(netlink_attribute(header, sizeof(struct genlmsghdr), CTRL_ATTR_FAMILY_ID), data,
         sizeof(uint16_t));
    return MNL_CB_OK;
}

/* Resolves the netlink family of ip_vs. Returns 0 or an errno. */
static int find_family(struct mnl_socket *nl, uint16_t *id)
{
    char buffer[256] = {0};
    struct nlmsghdr *request =
        begin_generic(buffer, GENL_ID_CTRL, NLM_F_ACK, CTRL_CMD_GETFAMILY, 1);
    mnl_attr_put_strz(request, CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME);
    return netlink_ask(nl, request, on_family, id, NULL);
}

bool virtual_server_read(const struct nlmsghdr *message, struct virtual_server *server)
{
    const struct nlattr *service =
        netlink_attribute(message, sizeof(struct genlmsghdr), IPVS_CMD_ATTR_SERVICE);
    uint16_t family = 0, protocol = 0, port = 0;
    memset(server, 0, sizeof(*server));
    copy(netlink_inside(service, IPVS_SVC_ATTR_AF), &family, sizeof(family));
    copy(netlink_inside(service, IPVS_SVC_ATTR_PROTOCOL), &protocol, sizeof(protocol));
    copy(netlink_inside(service, IPVS_SVC_ATTR_PORT), &port, sizeof(port));
    copy(netlink_inside(service, IPVS_SVC_ATTR_FWMARK), &server->fwmark, sizeof(server->fwmark));
    server->family = family == AF_INET6 ? FAMILY_IPV6 : FAMILY_IPV4;
    server->protocol = (uint8_t)protocol;
    server->port = ntohs(port);
    copy(netlink_inside(service, IPVS_SVC_ATTR_ADDR), server->address.bytes,
         address_length(server->family)); /* the kernel sends 16 bytes for IPv4 too */
    return service != NULL;
}

static int on_server(const struct nlmsghdr *header, void *data)
{
    server_vec *servers = data;
    struct virtual_server server;
    if (virtual_server_read(header, &server))
        vec_push(servers, server);
    return MNL_CB_OK;
}

/* 0 or an errno. */
static int list_servers(struct mnl_socket *nl, uint16_t family, server_vec *servers)
{
    char buffer[256] = {0};
    return netlink_ask(
        nl, begin_generic(buffer, family, NLM_F_DUMP, IPVS_CMD_GET_SERVICE, IPVS_GENL_VERSION),
        on_server, servers, NULL);
}

static int delete_server(struct mnl_socket *nl, uint16_t family,
                         const struct virtual_server *server)
{
    char buffer[512] = {0};
    struct nlmsghdr *request =
        begin_generic(buffer, family, NLM_F_ACK, IPVS_CMD_DEL_SERVICE, IPVS_GENL_VERSION);
    struct nlattr *nest = mnl_attr_nest_start(request, IPVS_CMD_ATTR_SERVICE);
    mnl_attr_put_u16(request, IPVS_SVC_ATTR_AF, netlink_family(server->family));
    mnl_attr_put_u16(request, IPVS_SVC_ATTR_PROTOCOL, server->protocol);
    mnl_attr_put(request, IPVS_SVC_ATTR_ADDR, sizeof(server->address), &server->address);
    mnl_attr_put_u16(request, IPVS_SVC_ATTR_PORT, htons(server->port));
    mnl_attr_nest_end(request, nest);
    return netlink_ask(nl, request, NULL, NULL, NULL);
}

static bool is_kube_proxys(const struct virtual_server *server, const struct device *device,
                           const struct ip_sets *sets)
{
    if (server->fwmark)
        return false;
    if (has_address(device, server->family, &server->address))
        return true;
    vec_each (&sets->ports, it)
        if (it->protocol == server->protocol && it->port == server->port)
            return true;
    return false;
}

/* Removes them one by one, but reports one line: there may be thousands. Returns 0, or the errno of
 * a failed removal. */
static int remove_listed(struct cleanup *cleanup, struct mnl_socket *nl, uint16_t family,
                         const server_vec *servers, const struct device *device,
                         const struct ip_sets *sets)
{
    size_t removed = 0, others = 0;
    int why = 0;
    vec_each (servers, server) {
        if (!is_kube_proxys(server, device, sets)) {
            others++;
            continue;
        }
        int result = cleanup->dry_run ? 0 : delete_server(nl, family, server);
        removed += result == 0;
        why = result ? result : why;
    }
    if (removed)
        cleanup_say(cleanup, FATE_REMOVED, "virtual servers of ipvs: %zu", removed);
    /* Without traces of kube-proxy, other virtual servers are not worth a line. */
    if (others && (removed || device->index))
        cleanup_say(cleanup, FATE_OTHERS,
                    "virtual servers of ipvs: %zu, neither at an address of %s nor at a node "
                    "port of kube-proxy: see 'ipvsadm -Ln'",
                    others, DEVICE);
    return why;
}

/* 0 or an errno. */
static int remove_servers(struct cleanup *cleanup, const struct device *device,
                          struct ip_sets *sets)
{
    struct error err = {0};
    uint16_t family = 0;
    server_vec servers = {0};
    struct mnl_socket *nl = netlink_open(NETLINK_GENERIC, 0, 0, "ipvs", &err);
    int why = nl ? find_family(nl, &family) : errno;
    error_clear(&err);
    why = why ? why : list_servers(nl, family, &servers);
    why = why ? why : read_node_ports(sets);
    why = why ? why : remove_listed(cleanup, nl, family, &servers, device, sets);
    vec_free(&servers);
    if (nl)
        mnl_socket_close(nl);
    return why;
}

void cleanup_ipvs(struct cleanup *cleanup)
{
    struct error err = {0};
    struct device device = {0};
    struct ip_sets sets = {0};
    struct mnl_socket *nl = netlink_open(NETLINK_ROUTE, 0, 0, DEVICE, &err);
    int unread = nl ? read_device(nl, &device) : errno, unremoved = 0;
    error_clear(&err);
    open_sets(&sets);
    if (unread)
        cleanup_say(cleanup, FATE_STAYS, "device %s: cannot read it: %s", DEVICE, strerror(unread));
    else if (access(IPVS_FILE, F_OK) == 0)
        unremoved = remove_servers(cleanup, &device, &sets);
    if (unremoved)
        cleanup_say(cleanup, FATE_STAYS,
                    "virtual servers of ipvs, with %s and the IP sets, which show whose they "
                    "are: %s: see 'ipvsadm -Ln'",
                    DEVICE, strerror(unremoved));
    if (!unread && !unremoved) {
        remove_device(cleanup, nl, &device);
        remove_sets(cleanup, &sets);
    }
    close_sets(&sets);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&device.addresses[family]);
    if (nl)
        mnl_socket_close(nl);
}
