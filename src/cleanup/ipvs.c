/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cleanup.h"

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

#define REQUEST_ROOM 512

/* A NodePort of kube-proxy. */
struct node_port {
    uint8_t protocol;
    uint16_t port;
};

/* What kube-proxy left. The functions that read or remove return 0 or an errno. */
struct ipvs {
    /* kube-ipvs0 */
    struct mnl_socket *links;
    unsigned device; /* index; 0: no such device */
    address_vec addresses[FAMILY_COUNT];
    /* IP sets */
    struct mnl_socket *sets; /* NULL: no IP sets in this kernel, or an error */
    int sets_error;          /* errno of the failed read; 0: none */
    VEC(char *) names;
    uint8_t protocol; /* of the set that is being read */
    VEC(struct node_port) ports;
    /* virtual servers, of other programs too */
    struct mnl_socket *ip_vs;
    uint16_t family; /* its netlink family */
    VEC(struct virtual_server) servers;
};

/* Opens a socket. 0 or an errno. */
static int open_ipvs_socket(struct mnl_socket **nl, int protocol)
{
    struct error err = {0};
    *nl = netlink_open(protocol, 0, 0, "ipvs", &err);
    int why = *nl ? 0 : errno;
    error_clear(&err);
    return why;
}

/* ---- IP sets ---- */

/* Sends a request about the IP set @name; NULL: lists the names of all. */
static int ask_sets(const struct ipvs *ipvs, uint8_t command, uint16_t flags, const char *name,
                    mnl_cb_t fn, void *ctx)
{
    char buffer[REQUEST_ROOM] = {0};
    const struct nfgenmsg about = {.nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0};
    struct nlmsghdr *request = netlink_request(buffer, (uint16_t)(NFNL_SUBSYS_IPSET << 8 | command),
                                               flags, 1, &about, sizeof(about));
    mnl_attr_put_u8(request, IPSET_ATTR_PROTOCOL, IP_SET_PROTOCOL);
    if (name)
        mnl_attr_put_strz(request, IPSET_ATTR_SETNAME, name);
    else
        mnl_attr_put_u32(request, IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER,
                         htonl(IPSET_FLAG_LIST_SETNAME));
    return netlink_ask(ipvs->sets, request, fn, ctx, NULL);
}

static int on_set(const struct nlmsghdr *header, void *data)
{
    struct ipvs *ipvs = data;
    const char *name = netlink_text(nfnl_attribute(header, IPSET_ATTR_SETNAME));
    if (name && kube_proxy_has_ip_set(name))
        vec_push(&ipvs->names, xstrdup(name));
    return MNL_CB_OK;
}

static int read_sets(struct ipvs *ipvs)
{
    /* A query would load the module; a dry run must change nothing. */
    if (access("/sys/module/ip_set", F_OK) != 0 && access("/sys/module", F_OK) == 0)
        return 0;
    int why = open_ipvs_socket(&ipvs->sets, NETLINK_NETFILTER);
    return why ? why : ask_sets(ipvs, IPSET_CMD_LIST, NLM_F_DUMP, NULL, on_set, ipvs);
}

static int on_members(const struct nlmsghdr *header, void *data)
{
    struct ipvs *ipvs = data;
    const struct nlattr *member, *members = nfnl_attribute(header, IPSET_ATTR_ADT);
    if (!members)
        return MNL_CB_OK;
    mnl_attr_for_each_nested(member, members)
    {
        uint16_t port;
        if (netlink_copy(netlink_inside(member, IPSET_ATTR_PORT), &port, sizeof(port)))
            vec_push(&ipvs->ports, ((struct node_port){ipvs->protocol, ntohs(port)}));
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

/* After an error the owner of a virtual server cannot be determined. */
static int read_node_ports(struct ipvs *ipvs)
{
    int why = ipvs->sets_error;
    for (size_t i = 0; i < ipvs->names.n && !why; i++) {
        ipvs->protocol = node_port_protocol(ipvs->names.v[i]);
        if (ipvs->protocol)
            why = ask_sets(ipvs, IPSET_CMD_LIST, NLM_F_DUMP, ipvs->names.v[i], on_members, ipvs);
    }
    return why;
}

/* Runs after the rules are removed: a set in use stays. A dry run assumes that none is in use. */
static void remove_sets(struct cleanup *cleanup, const struct ipvs *ipvs)
{
    if (ipvs->sets_error)
        cleanup_report(cleanup, FATE_LEFT, "IP sets: cannot read them: %s",
                       strerror(ipvs->sets_error));
    vec_each (&ipvs->names, name) {
        int why = 0;
        if (!cleanup->dry_run)
            why = ask_sets(ipvs, IPSET_CMD_DESTROY, NLM_F_ACK, *name, NULL, NULL);
        if (why == 0)
            cleanup_report(cleanup, FATE_REMOVED, "IP set %s", *name);
        else if (why == IPSET_ERR_BUSY)
            cleanup_report(cleanup, FATE_LEFT,
                           "IP set %s: a rule uses it: remove the rules first, then run this again",
                           *name);
        else
            cleanup_report(cleanup, FATE_LEFT, "IP set %s: %s", *name, strerror(why));
    }
}

/* ---- kube-ipvs0 ---- */

static int on_address(const struct nlmsghdr *header, void *data)
{
    struct ipvs *ipvs = data;
    const struct ifaddrmsg *about = mnl_nlmsg_get_payload(header);
    struct address address = {{0}};
    enum family family;
    if (mnl_nlmsg_get_payload_len(header) >= sizeof(*about) && about->ifa_index == ipvs->device &&
        netlink_family_of(about->ifa_family, &family) &&
        netlink_copy(netlink_attribute(header, sizeof(*about), IFA_ADDRESS), address.bytes,
                     address_length(family)))
        vec_push(&ipvs->addresses[family], address);
    return MNL_CB_OK;
}

static int read_device(struct ipvs *ipvs)
{
    char buffer[REQUEST_ROOM] = {0};
    const struct ifaddrmsg all = {.ifa_family = AF_UNSPEC};
    int why = open_ipvs_socket(&ipvs->links, NETLINK_ROUTE);
    if (why)
        return why;
    ipvs->device = if_nametoindex(DEVICE);
    if (!ipvs->device)
        return 0;
    why = netlink_ask(ipvs->links,
                      netlink_request(buffer, RTM_GETADDR, NLM_F_DUMP, 1, &all, sizeof(all)),
                      on_address, ipvs, NULL);
    for (int family = 0; family < FAMILY_COUNT; family++)
        addresses_normalize(&ipvs->addresses[family]);
    return why;
}

static void remove_device(struct cleanup *cleanup, const struct ipvs *ipvs)
{
    char buffer[REQUEST_ROOM] = {0};
    const struct ifinfomsg link = {.ifi_index = (int)ipvs->device};
    if (!ipvs->device)
        return;
    const struct nlmsghdr *request =
        netlink_request(buffer, RTM_DELLINK, NLM_F_ACK, 1, &link, sizeof(link));
    int why = cleanup->dry_run ? 0 : netlink_ask(ipvs->links, request, NULL, NULL, NULL);
    if (why)
        cleanup_report(cleanup, FATE_LEFT, "device %s: %s: run 'ip link delete %s'", DEVICE,
                       strerror(why), DEVICE);
    else
        cleanup_report(cleanup, FATE_REMOVED, "device %s (addresses: %zu)", DEVICE,
                       ipvs->addresses[FAMILY_IPV4].n + ipvs->addresses[FAMILY_IPV6].n);
}

/* ---- virtual servers ---- */

/* Begins a request to a generic netlink family. */
static struct nlmsghdr *begin_generic(char *buffer, uint16_t family, uint16_t flags,
                                      uint8_t command, uint8_t version)
{
    const struct genlmsghdr generic = {.cmd = command, .version = version};
    return netlink_request(buffer, family, flags, 1, &generic, sizeof(generic));
}

static int on_family(const struct nlmsghdr *header, void *data)
{
    netlink_copy(netlink_attribute(header, sizeof(struct genlmsghdr), CTRL_ATTR_FAMILY_ID), data,
                 sizeof(uint16_t));
    return MNL_CB_OK;
}

bool virtual_server_read(const struct nlmsghdr *message, struct virtual_server *server)
{
    const struct nlattr *service =
        netlink_attribute(message, sizeof(struct genlmsghdr), IPVS_CMD_ATTR_SERVICE);
    uint16_t family = 0, protocol = 0, port = 0;
    memset(server, 0, sizeof(*server));
    netlink_copy(netlink_inside(service, IPVS_SVC_ATTR_AF), &family, sizeof(family));
    netlink_copy(netlink_inside(service, IPVS_SVC_ATTR_PROTOCOL), &protocol, sizeof(protocol));
    netlink_copy(netlink_inside(service, IPVS_SVC_ATTR_PORT), &port, sizeof(port));
    netlink_copy(netlink_inside(service, IPVS_SVC_ATTR_FWMARK), &server->fwmark,
                 sizeof(server->fwmark));
    server->family = family == AF_INET6 ? FAMILY_IPV6 : FAMILY_IPV4;
    server->protocol = (uint8_t)protocol;
    server->port = ntohs(port);
    netlink_copy(netlink_inside(service, IPVS_SVC_ATTR_ADDR), server->address.bytes,
                 address_length(server->family)); /* the kernel sends 16 bytes for IPv4 too */
    return service != NULL;
}

static int on_server(const struct nlmsghdr *header, void *data)
{
    struct ipvs *ipvs = data;
    struct virtual_server server;
    if (virtual_server_read(header, &server))
        vec_push(&ipvs->servers, server);
    return MNL_CB_OK;
}

static int read_servers(struct ipvs *ipvs)
{
    char buffer[REQUEST_ROOM] = {0};
    int why = open_ipvs_socket(&ipvs->ip_vs, NETLINK_GENERIC);
    if (why)
        return why;
    struct nlmsghdr *request =
        begin_generic(buffer, GENL_ID_CTRL, NLM_F_ACK, CTRL_CMD_GETFAMILY, 1);
    mnl_attr_put_strz(request, CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME);
    why = netlink_ask(ipvs->ip_vs, request, on_family, &ipvs->family, NULL);
    if (why)
        return why;
    request =
        begin_generic(buffer, ipvs->family, NLM_F_DUMP, IPVS_CMD_GET_SERVICE, IPVS_GENL_VERSION);
    return netlink_ask(ipvs->ip_vs, request, on_server, ipvs, NULL);
}

static int delete_server(const struct ipvs *ipvs, const struct virtual_server *server)
{
    char buffer[REQUEST_ROOM] = {0};
    struct nlmsghdr *request =
        begin_generic(buffer, ipvs->family, NLM_F_ACK, IPVS_CMD_DEL_SERVICE, IPVS_GENL_VERSION);
    struct nlattr *nest = mnl_attr_nest_start(request, IPVS_CMD_ATTR_SERVICE);
    mnl_attr_put_u16(request, IPVS_SVC_ATTR_AF, netlink_family(server->family));
    mnl_attr_put_u16(request, IPVS_SVC_ATTR_PROTOCOL, server->protocol);
    mnl_attr_put(request, IPVS_SVC_ATTR_ADDR, sizeof(server->address), &server->address);
    mnl_attr_put_u16(request, IPVS_SVC_ATTR_PORT, htons(server->port));
    mnl_attr_nest_end(request, nest);
    return netlink_ask(ipvs->ip_vs, request, NULL, NULL, NULL);
}

static bool is_kube_proxys(const struct virtual_server *server, const struct ipvs *ipvs)
{
    const address_vec *addresses = &ipvs->addresses[server->family];
    if (server->fwmark)
        return false;
    if (addresses->n > 0 && bsearch(&server->address, addresses->v, addresses->n,
                                    sizeof(*addresses->v), address_compare))
        return true;
    vec_each (&ipvs->ports, it)
        if (it->protocol == server->protocol && it->port == server->port)
            return true;
    return false;
}

/* Removes them one by one, but reports one line: there may be thousands. Returns 0, or the errno of
 * a failed removal. */
static int remove_servers(struct cleanup *cleanup, const struct ipvs *ipvs)
{
    size_t removed = 0, others = 0;
    int why = 0;
    vec_each (&ipvs->servers, server) {
        if (!is_kube_proxys(server, ipvs)) {
            others++;
            continue;
        }
        int result = cleanup->dry_run ? 0 : delete_server(ipvs, server);
        removed += result == 0;
        why = result ? result : why;
    }
    if (removed)
        cleanup_report(cleanup, FATE_REMOVED, "virtual servers of ipvs: %zu", removed);
    /* Without traces of kube-proxy, other virtual servers are not worth a line. */
    if (others && (removed || ipvs->device))
        cleanup_report(cleanup, FATE_OTHERS,
                       "virtual servers of ipvs: %zu, neither at an address of %s nor at a node "
                       "port of kube-proxy: see 'ipvsadm -Ln'",
                       others, DEVICE);
    return why;
}

/* ---- all of them ---- */

static void close_all(struct ipvs *ipvs)
{
    struct mnl_socket *sockets[] = {ipvs->links, ipvs->sets, ipvs->ip_vs};
    for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++)
        if (sockets[i])
            mnl_socket_close(sockets[i]);
    vec_each (&ipvs->names, name)
        free(*name);
    vec_free(&ipvs->names);
    vec_free(&ipvs->ports);
    vec_free(&ipvs->servers);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&ipvs->addresses[family]);
}

void cleanup_ipvs(struct cleanup *cleanup)
{
    struct ipvs ipvs = {.sets_error = 0};
    int why = read_device(&ipvs);
    ipvs.sets_error = read_sets(&ipvs);
    if (why) {
        cleanup_report(cleanup, FATE_LEFT, "device %s: cannot read it: %s", DEVICE, strerror(why));
        close_all(&ipvs);
        return;
    }
    if (access(IPVS_FILE, F_OK) == 0) {
        why = read_servers(&ipvs);
        why = why ? why : read_node_ports(&ipvs);
        why = why ? why : remove_servers(cleanup, &ipvs);
    }
    if (why) {
        cleanup_report(cleanup, FATE_LEFT,
                       "virtual servers of ipvs, with %s and the IP sets, which show whose they "
                       "are: %s: see 'ipvsadm -Ln'",
                       DEVICE, strerror(why));
    } else {
        remove_device(cleanup, &ipvs);
        remove_sets(cleanup, &ipvs);
    }
    close_all(&ipvs);
}
