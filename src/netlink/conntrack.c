/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack.h"

#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <string.h>
#include <sys/socket.h>

/* Receive buffer. The kernel fills 32 KiB of it at most. */
#define BUFFER_SIZE ((size_t)64 * 1024)
/* An entry's identity takes about 100 bytes. */
#define REQUEST_ROOM 512

/* Bit of CTA_FILTER_ORIG_FLAGS: compare the protocol. The UAPI headers lack it. */
#define FILTER_PROTOCOL (1 << 3)

struct conntrack {
    struct mnl_socket *nl; /* counts and deletes */
    uint32_t sequence;
    struct mnl_socket *scan; /* NULL: no scan runs */
    char *piece;             /* its receive buffer */
    enum family family;
    bool interrupted;
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
    c->nl = netlink_open(NETLINK_NETFILTER, SOCK_NONBLOCK, 0, 0, "conntrack", err);
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

static int on_count(const struct nlmsghdr *answer, void *data)
{
    *(uint32_t *)data = netlink_number(nfnl_attribute(answer, CTA_STATS_GLOBAL_ENTRIES), 0);
    return MNL_CB_OK;
}

int conntrack_count(struct conntrack *c, uint32_t *n, struct error *err)
{
    char buffer[REQUEST_ROOM] = {0};
    *n = 0;
    int why = netlink_ask(c->nl,
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

/* ---- scans ---- */

int conntrack_scan_begin(struct conntrack *c, enum family family, bool filtered, struct error *err)
{
    conntrack_scan_end(c);
    c->scan = netlink_open(NETLINK_NETFILTER, SOCK_NONBLOCK, 0, 0, "conntrack", err);
    if (!c->scan)
        return -1;
    c->piece = xcalloc(1, BUFFER_SIZE);
    c->family = family;
    c->interrupted = false;
    struct nlmsghdr *request =
        conntrack_request(c->piece, IPCTNL_MSG_CT_GET, NLM_F_DUMP,
                          filtered ? netlink_family(family) : NFPROTO_UNSPEC, 1);
    if (filtered) {
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
        sent = mnl_socket_sendto(c->scan, request, request->nlmsg_len);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? error_set(err, "cannot request the conntrack table: %s", strerror(errno)) : 0;
}

void conntrack_scan_end(struct conntrack *c)
{
    if (c->scan)
        mnl_socket_close(c->scan);
    c->scan = NULL;
    free(c->piece);
    c->piece = NULL;
}

int conntrack_scan_fd(const struct conntrack *c)
{
    return mnl_socket_get_fd(c->scan);
}

/* Copies attribute @type of @nest if it has exactly @length bytes. */
static bool copy(const struct nlattr *nest, uint16_t type, void *out, size_t length)
{
    const struct nlattr *attribute = netlink_inside(nest, type);
    if (!attribute || mnl_attr_get_payload_len(attribute) != length)
        return false;
    memcpy(out, mnl_attr_get_payload(attribute), length);
    return true;
}

/* False if @nest is not UDP. */
static bool read_tuple(const struct nlattr *nest, enum family family, struct conntrack_tuple *tuple)
{
    const struct nlattr *ip = netlink_inside(nest, CTA_TUPLE_IP);
    const struct nlattr *proto = netlink_inside(nest, CTA_TUPLE_PROTO);
    struct backend *source = &tuple->source, *destination = &tuple->destination;
    bool v4 = family == FAMILY_IPV4;
    size_t length = address_length(family);
    uint8_t protocol;
    if (!copy(proto, CTA_PROTO_NUM, &protocol, sizeof(protocol)) || protocol != IPPROTO_UDP ||
        !copy(proto, CTA_PROTO_SRC_PORT, &source->port, sizeof(source->port)) ||
        !copy(proto, CTA_PROTO_DST_PORT, &destination->port, sizeof(destination->port)) ||
        !copy(ip, v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, source->address.bytes, length) ||
        !copy(ip, v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, destination->address.bytes, length))
        return false;
    source->port = ntohs(source->port);
    destination->port = ntohs(destination->port);
    return true;
}

/* False if it is not a UDP flow. */
static bool read_flow(const struct nlmsghdr *message, struct conntrack_flow *flow)
{
    const struct nfgenmsg *about = mnl_nlmsg_get_payload(message);
    const struct nlattr *attribute, *reply = NULL;
    *flow = (struct conntrack_flow){.family = FAMILY_IPV4};
    if (mnl_nlmsg_get_payload_len(message) < sizeof(*about) ||
        !netlink_family_of(about->nfgen_family, &flow->family))
        return false;
    mnl_attr_for_each(attribute, message, sizeof(*about))
    {
        switch (mnl_attr_get_type(attribute)) {
        case CTA_TUPLE_ORIG:
            flow->names[0] = attribute;
            break;
        case CTA_TUPLE_REPLY:
            reply = attribute;
            break;
        case CTA_ZONE:
            flow->names[1] = attribute;
            break;
        case CTA_ID:
            flow->names[2] = attribute;
            break;
        default:
            break;
        }
    }
    return read_tuple(flow->names[0], flow->family, &flow->original) &&
           read_tuple(reply, flow->family, &flow->reply);
}

/* The errno at the end of the dump, 0 for success: NLMSG_DONE and NLMSG_ERROR both start with it.
 */
static int errno_of_end(const struct nlmsghdr *message)
{
    struct nlmsgerr answer = {.error = 0};
    if (mnl_nlmsg_get_payload_len(message) >= sizeof(answer.error))
        memcpy(&answer.error, mnl_nlmsg_get_payload(message), sizeof(answer.error));
    return answer.error < 0 ? netlink_errno(&answer) : 0;
}

static enum conntrack_progress ended(const struct conntrack *c, int why, struct error *err)
{
    if (why == EINTR || why == ENOBUFS || (why == 0 && c->interrupted))
        return CONNTRACK_INTERRUPTED;
    if (why == 0)
        return CONNTRACK_DONE;
    error_set(err, "cannot read the conntrack table: %s", strerror(why));
    return CONNTRACK_FAILED;
}

enum conntrack_progress conntrack_scan_step(struct conntrack *c, conntrack_flow_fn fn, void *ctx,
                                            struct error *err)
{
    ssize_t n = recv(conntrack_scan_fd(c), c->piece, BUFFER_SIZE, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? CONNTRACK_MORE : ended(c, errno, err);
    if ((size_t)n > BUFFER_SIZE) {
        c->interrupted = true;
        n = BUFFER_SIZE;
    }
    int left = (int)netlink_whole(c->piece, (size_t)n);
    const struct nlmsghdr *message = (const void *)c->piece;
    for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
        struct conntrack_flow flow;
        if (message->nlmsg_flags & NLM_F_DUMP_INTR)
            c->interrupted = true;
        if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
            return ended(c, errno_of_end(message), err);
        if (read_flow(message, &flow) && flow.family == c->family)
            fn(ctx, &flow);
    }
    return CONNTRACK_MORE;
}

int conntrack_delete(struct conntrack *c, const struct conntrack_flow *flow)
{
    _Alignas(struct nlmsghdr) char buffer[REQUEST_ROOM] = {0};
    struct nlmsghdr *request = conntrack_request(buffer, IPCTNL_MSG_CT_DELETE, 0,
                                                 netlink_family(flow->family), ++c->sequence);
    for (size_t i = 0; i < CONNTRACK_NAMES; i++) {
        const struct nlattr *name = flow->names[i];
        if (name && !mnl_attr_put_check(request, sizeof(buffer), name->nla_type,
                                        mnl_attr_get_payload_len(name), mnl_attr_get_payload(name)))
            return EMSGSIZE;
    }
    if (mnl_socket_sendto(c->nl, request, request->nlmsg_len) < 0)
        return errno;
    /* Errors are queued when the send returns; success sends no answer. */
    ssize_t n = recv(mnl_socket_get_fd(c->nl), buffer, sizeof(buffer), MSG_DONTWAIT);
    bool is_error =
        n >= (ssize_t)mnl_nlmsg_size(sizeof(struct nlmsgerr)) && request->nlmsg_type == NLMSG_ERROR;
    return is_error ? netlink_errno(mnl_nlmsg_get_payload(request)) : 0;
}
