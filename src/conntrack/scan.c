/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scan.h"

#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <string.h>
#include <sys/socket.h>

/* The kernel fills 32 KiB of it at most. The requests to delete all its flows are no longer. */
#define BUFFER_SIZE ((size_t)64 * 1024)
#define REQUEST_ROOM 512

/* Bit of CTA_FILTER_ORIG_FLAGS: compare the protocol. The UAPI headers lack it. */
#define FILTER_PROTOCOL (1 << 3)

/* The seconds that the kernel gives an entry of TCP after a reset. */
#define AFTER_RESET 10

struct conntrack {
    struct mnl_socket *nl; /* counts and deletes */
    uint32_t sequence;
    struct netlink_reply scan; /* without a socket: no scan runs */
    enum family family;        /* of the scan */
    bool tcp;
    conntrack_flow_fn fn;
    void *ctx;
    char *deletions; /* requests */
    size_t used, pending;
    struct conntrack_deletions done;
};

struct nlmsghdr *conntrack_request(void *buffer, uint8_t type, uint16_t flags, uint8_t nf_family,
                                   uint32_t sequence)
{
    const struct nfgenmsg about = {.nfgen_family = nf_family, .version = NFNETLINK_V0};
    return netlink_request(buffer, (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type), flags, sequence,
                           &about, sizeof(about));
}

struct conntrack *conntrack_open(struct error *err)
{
    struct conntrack *c = xcalloc(1, sizeof(*c));
    uint32_t entries;
    const int one = 1;
    c->nl = netlink_open(NETLINK_NETFILTER, 0, 0, "conntrack", err);
    /* Errors do not quote the request, so those of many deletions fit the receive buffer. */
    if (c->nl)
        mnl_socket_setsockopt(c->nl, NETLINK_CAP_ACK, (void *)&one, sizeof(one));
    if (!c->nl || conntrack_count(c, &entries, err)) {
        conntrack_close(c);
        return NULL;
    }
    return c;
}

void conntrack_close(struct conntrack *c)
{
    if (!c)
        return;
    conntrack_scan_end(c);
    if (c->nl)
        mnl_socket_close(c->nl);
    free(c);
}

/* Attempts: whoever opens the socket does without it after a failure. */
#define COUNT_TRIES 8

static int on_count(const struct nlmsghdr *answer, void *data)
{
    *(uint32_t *)data = netlink_number(nfnl_attribute(answer, CTA_STATS_GLOBAL_ENTRIES), 0);
    return MNL_CB_OK;
}

int conntrack_count(struct conntrack *c, uint32_t *n, struct error *err)
{
    char buffer[REQUEST_ROOM] = {0};
    int why = EINTR;
    *n = 0;
    for (int i = 0; i < COUNT_TRIES && netlink_is_transient(why); i++)
        why = netlink_ask(c->nl,
                          conntrack_request(buffer, IPCTNL_MSG_CT_GET_STATS, NLM_F_ACK,
                                            NFPROTO_UNSPEC, ++c->sequence),
                          on_count, n, NULL);
    if (why == 0)
        return 0;
    return error_set(err, "conntrack: the kernel does not answer over netlink: %s",
                     why == EPERM    ? "Operation not permitted (CAP_NET_ADMIN is missing)"
                     : why == EINVAL ? "CONFIG_NF_CT_NETLINK is missing"
                                     : strerror(why));
}

/* ---- flows ---- */

/* Puts the attributes in @bytes with a type below @n into @found. A scan reads some 20 attributes
 * of each entry; with a library call for each, it took a sixth longer. */
static void index_attributes(const void *bytes, size_t length, const struct nlattr **found,
                             uint16_t n)
{
    memset(found, 0, n * sizeof(*found));
    for (size_t at = 0; at + sizeof(struct nlattr) <= length;) {
        const struct nlattr *attribute = (const void *)((const char *)bytes + at);
        uint16_t type = attribute->nla_type & NLA_TYPE_MASK;
        if (attribute->nla_len < sizeof(*attribute) || attribute->nla_len > length - at)
            break;
        if (type < n)
            found[type] = attribute;
        at += MNL_ALIGN((size_t)attribute->nla_len);
    }
}

static void index_nest(const struct nlattr *nest, const struct nlattr **found, uint16_t n)
{
    index_attributes(nest ? nest + 1 : NULL, nest ? nest->nla_len - sizeof(*nest) : 0, found, n);
}

/* False if @nest is of another protocol. */
static bool read_tuple(const struct nlattr *nest, enum family family, uint8_t protocol,
                       struct conntrack_tuple *tuple)
{
    const struct nlattr *parts[CTA_TUPLE_PROTO + 1], *ip[CTA_IP_V6_DST + 1],
        *proto[CTA_PROTO_DST_PORT + 1];
    struct backend *source = &tuple->source, *destination = &tuple->destination;
    bool v4 = family == FAMILY_IPV4;
    size_t length = address_length(family);
    uint8_t its;
    index_nest(nest, parts, CTA_TUPLE_PROTO + 1);
    index_nest(parts[CTA_TUPLE_PROTO], proto, CTA_PROTO_DST_PORT + 1);
    if (!netlink_copy(proto[CTA_PROTO_NUM], &its, sizeof(its)) || its != protocol)
        return false;
    index_nest(parts[CTA_TUPLE_IP], ip, CTA_IP_V6_DST + 1);
    if (!netlink_copy(proto[CTA_PROTO_SRC_PORT], &source->port, sizeof(source->port)) ||
        !netlink_copy(proto[CTA_PROTO_DST_PORT], &destination->port, sizeof(destination->port)) ||
        !netlink_copy(ip[v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC], source->address.bytes, length) ||
        !netlink_copy(ip[v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST], destination->address.bytes, length))
        return false;
    source->port = ntohs(source->port);
    destination->port = ntohs(destination->port);
    return true;
}

/* Whether an entry, if it is of TCP, is one of a flowtable: the kernel tells no time-out of those
 * that it forwards. One that was reset has little left, but the state of before: what the flowtable
 * forwarded is not known to conntrack, so that the reset seems to be out of order. */
static bool is_of_flowtable(const struct nlattr *const *found)
{
    const struct nlattr *tcp = netlink_inside(found[CTA_PROTOINFO], CTA_PROTOINFO_TCP);
    uint8_t state;
    if (netlink_number(found[CTA_STATUS], 0) & IPS_OFFLOAD)
        return true;
    return netlink_number(found[CTA_TIMEOUT], UINT32_MAX) <= AFTER_RESET &&
           netlink_copy(netlink_inside(tcp, CTA_PROTOINFO_TCP_STATE), &state, sizeof(state)) &&
           state == TCP_CONNTRACK_ESTABLISHED;
}

/* Passes on a flow of the family that is scanned for; ignores other entries. */
static int on_entry(const struct nlmsghdr *message, void *data)
{
    struct conntrack *c = data;
    const struct nfgenmsg *header = mnl_nlmsg_get_payload(message);
    const struct nlattr *found[CTA_ZONE + 1];
    if (mnl_nlmsg_get_payload_len(message) < sizeof(*header) ||
        header->nfgen_family != netlink_family(c->family))
        return MNL_CB_OK;
    index_attributes(header + 1, mnl_nlmsg_get_payload_len(message) - sizeof(*header), found,
                     CTA_ZONE + 1);
    struct conntrack_flow flow = {c->family, IPPROTO_UDP, .tuple = found[CTA_TUPLE_ORIG],
                                  .zone = found[CTA_ZONE], .id = found[CTA_ID]};
    bool is_one = read_tuple(flow.tuple, c->family, flow.protocol, &flow.original);
    if (!is_one && c->tcp && is_of_flowtable(found)) {
        flow.protocol = IPPROTO_TCP;
        is_one = read_tuple(flow.tuple, c->family, flow.protocol, &flow.original);
    }
    if (is_one && read_tuple(found[CTA_TUPLE_REPLY], c->family, flow.protocol, &flow.reply))
        c->fn(c->ctx, &flow);
    return MNL_CB_OK;
}

/* ---- deletions ---- */

void conntrack_delete(struct conntrack *c, const struct conntrack_flow *flow)
{
    const struct nlattr *identity[] = {flow->tuple, flow->zone, flow->id};
    struct nlmsghdr *request = conntrack_request(c->deletions + c->used, IPCTNL_MSG_CT_DELETE, 0,
                                                 netlink_family(flow->family), ++c->sequence);
    for (size_t i = 0; i < sizeof(identity) / sizeof(identity[0]); i++)
        if (identity[i])
            mnl_attr_put(request, identity[i]->nla_type, mnl_attr_get_payload_len(identity[i]),
                         mnl_attr_get_payload(identity[i]));
    c->used += MNL_ALIGN(request->nlmsg_len);
    c->pending++;
}

/* The kernel answers only failed deletions, before the send returns. */
static void send_deletions(struct conntrack *c)
{
    struct conntrack_deletions *done = &c->done;
    _Alignas(struct nlmsghdr) char answers[REQUEST_ROOM];
    size_t pending = c->pending;
    ssize_t n;
    if (pending == 0)
        return;
    bool sent = mnl_socket_sendto(c->nl, c->deletions, c->used) >= 0;
    if (!sent && done->failed == 0)
        done->first_errno = errno;
    done->failed += sent ? 0 : pending;
    c->used = c->pending = 0;
    if (!sent)
        return;
    while ((n = recv(mnl_socket_get_fd(c->nl), answers, sizeof(answers), MSG_DONTWAIT)) > 0 ||
           (n < 0 && (errno == EINTR || errno == ENOBUFS))) {
        netlink_each (answer, answers, n > 0 ? (size_t)n : 0) {
            int why = answer->nlmsg_type == NLMSG_ERROR ? netlink_errno(answer) : 0;
            if (why == 0 || pending == 0)
                continue;
            pending--;
            if (why != ENOENT && done->failed++ == 0)
                done->first_errno = why;
        }
    }
    done->deleted += pending;
}

struct conntrack_deletions conntrack_take_deletions(struct conntrack *c)
{
    struct conntrack_deletions done = c->done;
    c->done = (struct conntrack_deletions){0};
    return done;
}

/* ---- scans ---- */

int conntrack_scan_begin(struct conntrack *c, enum family family, bool filtered, bool tcp,
                         conntrack_flow_fn fn, void *ctx, struct error *err)
{
    conntrack_scan_end(c);
    struct mnl_socket *nl = netlink_open(NETLINK_NETFILTER, 0, 0, "conntrack", err);
    if (!nl)
        return -1;
    c->scan = (struct netlink_reply){.nl = nl,
                                     .buffer = xcalloc(1, BUFFER_SIZE),
                                     .size = BUFFER_SIZE,
                                     .sequence = 1,
                                     .fn = on_entry,
                                     .ctx = c};
    c->deletions = xcalloc(1, BUFFER_SIZE);
    c->family = family;
    c->tcp = tcp;
    c->fn = fn;
    c->ctx = ctx;
    struct nlmsghdr *request =
        conntrack_request(c->scan.buffer, IPCTNL_MSG_CT_GET, NLM_F_DUMP,
                          filtered ? netlink_family(family) : NFPROTO_UNSPEC, c->scan.sequence);
    if (filtered && !tcp) {
        struct nlattr *tuple = mnl_attr_nest_start(request, CTA_TUPLE_ORIG);
        struct nlattr *protocol = mnl_attr_nest_start(request, CTA_TUPLE_PROTO);
        mnl_attr_put_u8(request, CTA_PROTO_NUM, IPPROTO_UDP);
        mnl_attr_nest_end(request, protocol);
        mnl_attr_nest_end(request, tuple);
        struct nlattr *filter = mnl_attr_nest_start(request, CTA_FILTER);
        mnl_attr_put_u32(request, CTA_FILTER_ORIG_FLAGS, FILTER_PROTOCOL);
        mnl_attr_nest_end(request, filter);
    }
    ssize_t sent;
    do
        sent = mnl_socket_sendto(nl, request, request->nlmsg_len);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? error_set(err, "cannot request the conntrack table: %s", strerror(errno)) : 0;
}

void conntrack_scan_end(struct conntrack *c)
{
    if (c->scan.nl)
        mnl_socket_close(c->scan.nl);
    free(c->scan.buffer);
    free(c->deletions);
    c->scan = (struct netlink_reply){.nl = NULL};
    c->deletions = NULL;
    c->used = c->pending = 0;
}

int conntrack_scan_fd(const struct conntrack *c)
{
    return mnl_socket_get_fd(c->scan.nl);
}

enum conntrack_progress conntrack_scan_step(struct conntrack *c, struct error *err)
{
    int result = netlink_receive(&c->scan), why = errno;
    send_deletions(c);
    if (result > 0 || (result < 0 && why == EAGAIN))
        return CONNTRACK_MORE;
    if (result == 0)
        return c->scan.interrupted ? CONNTRACK_INTERRUPTED : CONNTRACK_DONE;
    if (why == EINTR || why == ENOBUFS || why == EMSGSIZE)
        return CONNTRACK_INTERRUPTED;
    error_set(err, "cannot read the conntrack table: %s", strerror(why));
    return CONNTRACK_FAILED;
}
