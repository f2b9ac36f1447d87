/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kinds.h"

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

/* It is there when ip_vs is. Asking for the netlink family instead would load the module. */
#define IPVS_FILE "/proc/net/ip_vs"

/* The oldest that kernels of today speak; both commands are the same in newer ones. */
#define IP_SET_PROTOCOL IPSET_PROTOCOL_MIN

/* Copies the first @length bytes of @attribute to @to. False if it is NULL or has not so many. */
static bool copy(const struct nlattr *attribute, void *to, size_t length)
{
    if (!attribute || mnl_attr_get_payload_len(attribute) < length)
        return false;
    memcpy(to, mnl_attr_get_payload(attribute), length);
    return true;
}

/* ---- IP sets ---- */

/* A port that is one of kube-proxy's node ports. */
struct node_port {
    uint8_t protocol;
    uint16_t port;
};

struct node_ports {
    uint8_t protocol; /* of those that are read */
    VEC(struct node_port) list;
};

static struct nlmsghdr *begin_set(char *buffer, uint8_t command, uint16_t flags)
{
    const struct nfgenmsg about = {.nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0};
    struct nlmsghdr *request = netlink_request(buffer, (uint16_t)(NFNL_SUBSYS_IPSET << 8 | command),
                                               flags, 1, &about, sizeof(about));
    mnl_attr_put_u8(request, IPSET_ATTR_PROTOCOL, IP_SET_PROTOCOL);
    return request;
}

/* Asking a kernel whose module is not loaded would load it; who looks wants to change nothing. */
static bool kernel_has_sets(void)
{
    return access("/sys/module/ip_set", F_OK) == 0 || access("/sys/module", F_OK) != 0;
}

/* NULL if there can be no sets, or with @err. */
static struct mnl_socket *open_sets(struct error *err)
{
    return kernel_has_sets() ? netlink_open(NETLINK_NETFILTER, 0, 0, 0, "IP sets", err) : NULL;
}

static const struct {
    const char *name;
    uint8_t protocol;
} node_port_sets[] = {
    {"NODE-PORT-TCP", IPPROTO_TCP},        {"NODE-PORT-LOCAL-TCP", IPPROTO_TCP},
    {"NODE-PORT-UDP", IPPROTO_UDP},        {"NODE-PORT-LOCAL-UDP", IPPROTO_UDP},
    {"NODE-PORT-SCTP-HASH", IPPROTO_SCTP}, {"NODE-PORT-LOCAL-SCTP-HASH", IPPROTO_SCTP},
};

static int on_members(const struct nlmsghdr *header, void *data)
{
    struct node_ports *ports = data;
    const struct nlattr *member, *members = nfnl_attribute(header, IPSET_ATTR_ADT);
    if (!members)
        return MNL_CB_OK;
    mnl_attr_for_each_nested(member, members)
    {
        uint16_t port;
        if (copy(netlink_inside(member, IPSET_ATTR_PORT), &port, sizeof(port)))
            vec_push(&ports->list, ((struct node_port){ports->protocol, ntohs(port)}));
    }
    return MNL_CB_OK;
}

/* 0 or an errno. */
static int read_ports(struct mnl_socket *nl, const char *prefix, const char *set,
                      struct node_ports *ports)
{
    char buffer[512] = {0}, name[IPSET_MAXNAMELEN];
    snprintf(name, sizeof(name), "%s%s", prefix, set); /* cut as kube-proxy does */
    struct nlmsghdr *request = begin_set(buffer, IPSET_CMD_LIST, NLM_F_DUMP);
    mnl_attr_put_strz(request, IPSET_ATTR_SETNAME, name);
    int why = netlink_ask(nl, request, on_members, ports, NULL);
    return why == ENOENT ? 0 : why; /* no such set: no ports */
}

/* Reads the sets in which kube-proxy keeps its node ports. 0, or an errno: they cannot be read, so
 * nobody knows whose a virtual server is. */
static int read_node_ports(struct node_ports *ports)
{
    struct error err = {0};
    struct mnl_socket *nl = open_sets(&err);
    int why = err.text ? EIO : 0;
    error_clear(&err);
    for (size_t i = 0; nl && !why && i < sizeof(node_port_sets) / sizeof(node_port_sets[0]); i++) {
        ports->protocol = node_port_sets[i].protocol;
        why = read_ports(nl, "KUBE-", node_port_sets[i].name, ports);
        if (!why)
            why = read_ports(nl, "KUBE-6-", node_port_sets[i].name, ports);
    }
    if (nl)
        mnl_socket_close(nl);
    return why;
}

typedef VEC(char *) name_vec;

static int on_set(const struct nlmsghdr *header, void *data)
{
    name_vec *names = data;
    const char *name = netlink_text(nfnl_attribute(header, IPSET_ATTR_SETNAME));
    if (name && kube_proxy_has_ip_set(name))
        vec_push(names, xstrdup(name));
    return MNL_CB_OK;
}

static int list_sets(struct mnl_socket *nl, name_vec *names)
{
    char buffer[512] = {0};
    struct nlmsghdr *request = begin_set(buffer, IPSET_CMD_LIST, NLM_F_DUMP);
    mnl_attr_put_u32(request, IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER,
                     htonl(IPSET_FLAG_LIST_SETNAME));
    return netlink_ask(nl, request, on_set, names, NULL);
}

static void destroy_set(struct mnl_socket *nl, const char *name, struct leftovers_report *report)
{
    char buffer[512] = {0};
    int why = 0;
    if (!report->dry_run) {
        struct nlmsghdr *request = begin_set(buffer, IPSET_CMD_DESTROY, NLM_F_ACK);
        mnl_attr_put_strz(request, IPSET_ATTR_SETNAME, name);
        why = netlink_ask(nl, request, NULL, NULL, NULL);
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

/* A set that a rule names stays, so those rules go first. In a dry run, all sets count as if they
 * were gone. */
static void remove_sets(struct leftovers_report *report)
{
    name_vec names = {0};
    struct error err = {0};
    struct mnl_socket *nl = open_sets(&err);
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

/* ---- kube-ipvs0 ---- */

struct device {
    unsigned index; /* 0: there is none */
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

static void free_device(struct device *device)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&device->addresses[family]);
}

static bool has_address(const struct device *device, enum family family,
                        const struct address *address)
{
    const address_vec *addresses = &device->addresses[family];
    return addresses->n > 0 &&
           bsearch(address, addresses->v, addresses->n, sizeof(*addresses->v), address_compare);
}

static int delete_device(struct mnl_socket *nl, unsigned index)
{
    char buffer[256] = {0};
    const struct ifinfomsg link = {.ifi_index = (int)index};
    return netlink_ask(nl, netlink_request(buffer, RTM_DELLINK, NLM_F_ACK, 1, &link, sizeof(link)),
                       NULL, NULL, NULL);
}

static void remove_device(struct mnl_socket *nl, const struct device *device,
                          struct leftovers_report *report)
{
    if (!device->index)
        return;
    int why = report->dry_run ? 0 : delete_device(nl, device->index);
    if (why)
        leftovers_say(report, FATE_STAYS, "device %s: %s: run 'ip link delete %s'", DEVICE,
                      strerror(why), DEVICE);
    else
        leftovers_say(report, FATE_REMOVED, "device %s (addresses: %zu)", DEVICE,
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

/* The number of the netlink family of ip_vs. 0 or an errno. */
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
         address_length(server->family)); /* 16 bytes for IPv4, too */
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
                           const struct node_ports *ports)
{
    if (server->fwmark)
        return false;
    if (has_address(device, server->family, &server->address))
        return true;
    vec_each (&ports->list, it)
        if (it->protocol == server->protocol && it->port == server->port)
            return true;
    return false;
}

/* One by one, but in one line: there may be thousands. 0, or an errno of one that stays. */
static int remove_servers(struct mnl_socket *nl, uint16_t family, const server_vec *servers,
                          const struct device *device, const struct node_ports *ports,
                          struct leftovers_report *report)
{
    size_t removed = 0, others = 0;
    int why = 0;
    vec_each (servers, server) {
        if (!is_kube_proxys(server, device, ports)) {
            others++;
            continue;
        }
        int result = report->dry_run ? 0 : delete_server(nl, family, server);
        removed += result == 0;
        why = result ? result : why;
    }
    if (removed)
        leftovers_say(report, FATE_REMOVED, "virtual servers of ipvs: %zu", removed);
    /* Without the others it is no question whose they are. */
    if (others && (removed || device->index))
        leftovers_say(report, FATE_OTHERS,
                      "virtual servers of ipvs: %zu, neither at an address of %s nor at a node "
                      "port of kube-proxy: see 'ipvsadm -Ln'",
                      others, DEVICE);
    return why;
}

/* 0 or an errno. */
static int work_on_servers(const struct device *device, struct leftovers_report *report)
{
    struct error err = {0};
    uint16_t family = 0;
    server_vec servers = {0};
    struct node_ports ports = {.protocol = 0};
    struct mnl_socket *nl = netlink_open(NETLINK_GENERIC, 0, 0, 0, "ipvs", &err);
    int why = nl ? find_family(nl, &family) : errno;
    error_clear(&err);
    if (!why)
        why = list_servers(nl, family, &servers);
    if (!why)
        why = read_node_ports(&ports);
    if (!why)
        why = remove_servers(nl, family, &servers, device, &ports, report);
    vec_free(&servers);
    vec_free(&ports.list);
    if (nl)
        mnl_socket_close(nl);
    return why;
}

void leftovers_remove_ipvs(struct leftovers_report *report)
{
    struct error err = {0};
    struct device device = {0};
    struct mnl_socket *nl = netlink_open(NETLINK_ROUTE, 0, 0, 0, DEVICE, &err);
    int why = nl ? read_device(nl, &device) : errno;
    error_clear(&err);
    if (why) {
        leftovers_say(report, FATE_STAYS, "device %s: cannot read it: %s", DEVICE, strerror(why));
    } else {
        why = access(IPVS_FILE, F_OK) == 0 ? work_on_servers(&device, report) : 0;
        if (why)
            leftovers_say(report, FATE_STAYS,
                          "virtual servers of ipvs, with %s and the IP sets, which show whose they "
                          "are: %s: see 'ipvsadm -Ln'",
                          DEVICE, strerror(why));
        else
            remove_device(nl, &device, report);
    }
    free_device(&device);
    if (nl)
        mnl_socket_close(nl);
    if (!why)
        remove_sets(report); /* else they tell whose the servers are */
}
