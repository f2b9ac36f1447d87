/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack.h"

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* What is sent or read at once. The kernel fills 32 KiB at most, whatever there is room for. The
 * deletions of all entries that it tells of at once fit in: each is smaller than the entry. */
#define BUFFER_SIZE ((size_t)64 * 1024)
/* Room for the errors of that many deletions. */
#define RECEIVE_BUFFER (1 << 20)

/* An end of a tuple, and the types of the attributes that hold it. */
struct end_types {
    uint16_t address[FAMILY_COUNT], port;
};

static const struct end_types source = {{CTA_IP_V4_SRC, CTA_IP_V6_SRC}, CTA_PROTO_SRC_PORT};
static const struct end_types destination = {{CTA_IP_V4_DST, CTA_IP_V6_DST}, CTA_PROTO_DST_PORT};

/* ---- attributes, as in libmnl, but inline: a scan looks at some twenty for each flow ---- */

struct span {
    const uint8_t *at;
    size_t left;
};

static inline size_t payload_length(const struct nlattr *attribute)
{
    return (size_t)attribute->nla_len - NLA_HDRLEN;
}

static inline const void *payload(const struct nlattr *attribute)
{
    return (const uint8_t *)attribute + NLA_HDRLEN;
}

static inline struct span span_of(const struct nlattr *nest)
{
    return (struct span){payload(nest), payload_length(nest)};
}

/* The next attribute; NULL behind the last one. */
static inline const struct nlattr *take(struct span *span)
{
    const struct nlattr *attribute = (const void *)span->at;
    if (span->left < sizeof(*attribute) || attribute->nla_len < sizeof(*attribute) ||
        attribute->nla_len > span->left)
        return NULL;
    size_t length = NLA_ALIGN((size_t)attribute->nla_len);
    length = length < span->left ? length : span->left;
    span->at += length;
    span->left -= length;
    return attribute;
}

static inline const struct nlattr *member(const struct nlattr *nest, uint16_t type)
{
    struct span span = span_of(nest);
    const struct nlattr *attribute;
    while ((attribute = take(&span)) && (attribute->nla_type & NLA_TYPE_MASK) != type)
        ;
    return attribute;
}

/* Copies the member @type of @nest to @out if it has just @length bytes. */
static inline bool copy(const struct nlattr *nest, uint16_t type, void *out, size_t length)
{
    const struct nlattr *attribute = member(nest, type);
    if (!attribute || payload_length(attribute) != length)
        return false;
    memcpy(out, payload(attribute), length);
    return true;
}

/* ---- flows ---- */

/* Reads one end of the tuple @nest into @address and @port, which are zero. */
static bool read_end(const struct nlattr *nest, enum family family, const struct end_types *types,
                     struct address *address, uint16_t *port)
{
    const struct nlattr *ip = member(nest, CTA_TUPLE_IP), *proto = member(nest, CTA_TUPLE_PROTO);
    uint8_t protocol;
    if (!ip || !proto || !copy(proto, CTA_PROTO_NUM, &protocol, sizeof(protocol)) ||
        protocol != IPPROTO_UDP || !copy(proto, types->port, port, sizeof(*port)))
        return false;
    *port = ntohs(*port);
    return copy(ip, types->address[family], address->bytes, address_length(family));
}

static bool read_flow(const struct nlmsghdr *message, struct conntrack_flow *flow)
{
    if (mnl_nlmsg_get_payload_len(message) < sizeof(struct nfgenmsg))
        return false;
    const struct nfgenmsg *about = mnl_nlmsg_get_payload(message);
    enum family family;
    if (!netlink_family_of(about->nfgen_family, &family))
        return false;
    struct span span = {(const uint8_t *)about + NLA_ALIGN(sizeof(*about)),
                        mnl_nlmsg_get_payload_len(message) - NLA_ALIGN(sizeof(*about))};
    const struct nlattr *attribute;
    *flow = (struct conntrack_flow){.to = {.protocol = IPPROTO_UDP, .family = (uint8_t)family}};
    while ((attribute = take(&span))) {
        uint16_t type = attribute->nla_type & NLA_TYPE_MASK;
        if (type == CTA_TUPLE_ORIG)
            flow->original = attribute;
        else if (type == CTA_TUPLE_REPLY)
            flow->reply = attribute;
        else if (type == CTA_ZONE)
            flow->zone = attribute;
        else if (type == CTA_ID)
            flow->id = attribute;
    }
    return flow->original && flow->reply &&
           read_end(flow->original, family, &destination, &flow->to.address, &flow->to.port) &&
           read_end(flow->reply, family, &source, &flow->server.address, &flow->server.port);
}

bool conntrack_flow_is_translated(const struct conntrack_flow *flow)
{
    return flow->to.port != flow->server.port ||
           memcmp(&flow->to.address, &flow->server.address, sizeof(struct address)) != 0;
}

bool conntrack_flow_is_plain(const struct conntrack_flow *flow, struct frontend *from)
{
    enum family family = (enum family)flow->to.family;
    struct backend back = {.port = 0};
    *from = (struct frontend){.protocol = flow->to.protocol, .family = flow->to.family};
    return !conntrack_flow_is_translated(flow) &&
           read_end(flow->original, family, &source, &from->address, &from->port) &&
           read_end(flow->reply, family, &destination, &back.address, &back.port) &&
           from->port == back.port &&
           memcmp(&from->address, &back.address, sizeof(struct address)) == 0;
}

/* ---- sockets and requests ---- */

struct nlmsghdr *conntrack_request(void *buffer, uint8_t type, uint16_t flags, uint8_t nf_family,
                                   uint32_t sequence)
{
    const struct nfgenmsg about = {.nfgen_family = nf_family, .version = NFNETLINK_V0};
    return netlink_request(buffer, (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type), flags, sequence,
                           &about, sizeof(about));
}

/* ---- reading the table ---- */

/* Bit of CTA_FILTER_ORIG_FLAGS: compare the protocol. The kernel's headers for programs give the
 * attribute, but not its bits. */
#define FILTER_PROTOCOL (1 << 3)

struct conntrack_scan {
    struct mnl_socket *nl;
    enum family family;
    bool filtered;
    bool interrupted;
    _Alignas(struct nlmsghdr) char buffer[BUFFER_SIZE];
};

static void put_filter(struct nlmsghdr *request)
{
    struct nlattr *tuple = mnl_attr_nest_start(request, CTA_TUPLE_ORIG);
    struct nlattr *protocol = mnl_attr_nest_start(request, CTA_TUPLE_PROTO);
    mnl_attr_put_u8(request, CTA_PROTO_NUM, IPPROTO_UDP);
    mnl_attr_nest_end(request, protocol);
    mnl_attr_nest_end(request, tuple);
    struct nlattr *filter = mnl_attr_nest_start(request, CTA_FILTER);
    mnl_attr_put_u32(request, CTA_FILTER_ORIG_FLAGS, FILTER_PROTOCOL);
    mnl_attr_nest_end(request, filter);
}

static int ask_for_table(struct conntrack_scan *scan)
{
    uint8_t family = scan->filtered ? netlink_family(scan->family) : NFPROTO_UNSPEC;
    struct nlmsghdr *request =
        conntrack_request(scan->buffer, IPCTNL_MSG_CT_GET, NLM_F_DUMP, family, 1);
    if (scan->filtered)
        put_filter(request);
    ssize_t sent;
    do
        sent = mnl_socket_sendto(scan->nl, request, request->nlmsg_len);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

struct conntrack_scan *conntrack_scan_new(enum family family, bool filtered, struct error *err)
{
    struct conntrack_scan *scan = xcalloc(1, sizeof(*scan));
    scan->family = family;
    scan->filtered = filtered;
    scan->nl = netlink_open(NETLINK_NETFILTER, SOCK_NONBLOCK, 0, 0, "conntrack", err);
    if (scan->nl && ask_for_table(scan) == 0)
        return scan;
    if (scan->nl)
        error_set(err, "cannot request the conntrack table: %s", strerror(errno));
    conntrack_scan_free(scan);
    return NULL;
}

void conntrack_scan_free(struct conntrack_scan *scan)
{
    if (!scan)
        return;
    if (scan->nl)
        mnl_socket_close(scan->nl);
    free(scan);
}

int conntrack_scan_fd(const struct conntrack_scan *scan)
{
    return mnl_socket_get_fd(scan->nl);
}

/* The error with which the kernel ends the table; 0 for none. */
static int end_errno(const struct nlmsghdr *message)
{
    struct nlmsgerr answer = {.error = 0}; /* both kinds of message begin with its number */
    if (mnl_nlmsg_get_payload_len(message) >= sizeof(answer.error))
        memcpy(&answer.error, mnl_nlmsg_get_payload(message), sizeof(answer.error));
    return answer.error < 0 ? netlink_errno(&answer) : 0;
}

static enum conntrack_progress end_of(const struct conntrack_scan *scan,
                                      const struct nlmsghdr *message, struct error *err)
{
    int number = end_errno(message);
    if (number == 0)
        return scan->interrupted ? CONNTRACK_INTERRUPTED : CONNTRACK_DONE;
    if (number == EINTR)
        return CONNTRACK_INTERRUPTED;
    if (scan->filtered && (number == EINVAL || number == EOPNOTSUPP))
        return CONNTRACK_UNFILTERED;
    error_set(err, "the kernel refused to list the conntrack table: %s", strerror(number));
    return CONNTRACK_FAILED;
}

static enum conntrack_progress after_error(int number, struct error *err)
{
    if (number == EAGAIN || number == EINTR)
        return CONNTRACK_MORE;
    if (number == ENOBUFS)
        return CONNTRACK_INTERRUPTED;
    error_set(err, "cannot read the conntrack table: %s", strerror(number));
    return CONNTRACK_FAILED;
}

enum conntrack_progress conntrack_scan_step(struct conntrack_scan *scan, conntrack_flow_fn fn,
                                            void *ctx, struct error *err)
{
    ssize_t n = recv(conntrack_scan_fd(scan), scan->buffer, BUFFER_SIZE, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0)
        return after_error(errno, err);
    if ((size_t)n > BUFFER_SIZE) {
        scan->interrupted = true;
        n = BUFFER_SIZE;
    }
    int left = (int)netlink_whole(scan->buffer, (size_t)n);
    const struct nlmsghdr *message = (const void *)scan->buffer;
    for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
        struct conntrack_flow flow;
        if (message->nlmsg_flags & NLM_F_DUMP_INTR)
            scan->interrupted = true;
        if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
            return end_of(scan, message, err);
        if (read_flow(message, &flow) && flow.to.family == scan->family)
            fn(ctx, &flow);
    }
    return CONNTRACK_MORE;
}

struct conntrack {
    struct mnl_socket *nl;
    uint32_t sequence;
    char *buffer;
    size_t used, pending;            /* bytes and number of the deletions in it */
    struct conntrack_deletions done; /* since the last flush */
};

struct conntrack *conntrack_open(struct error *err)
{
    struct conntrack *c = xcalloc(1, sizeof(*c));
    uint32_t entries;
    int one = 1;
    c->buffer = xcalloc(1, BUFFER_SIZE);
    c->nl = netlink_open(NETLINK_NETFILTER, SOCK_NONBLOCK, 0, RECEIVE_BUFFER, "conntrack", err);
    if (c->nl)
        mnl_socket_setsockopt(c->nl, NETLINK_CAP_ACK, &one, sizeof(one));
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
    if (c->nl)
        mnl_socket_close(c->nl);
    free(c->buffer);
    free(c);
}

/* ---- counting ---- */

static int on_count(const struct nlmsghdr *answer, void *data)
{
    *(uint32_t *)data = netlink_number(nfnl_attribute(answer, CTA_STATS_GLOBAL_ENTRIES), 0);
    return MNL_CB_OK;
}

int conntrack_count(struct conntrack *c, uint32_t *n, struct error *err)
{
    struct nlmsghdr *request =
        conntrack_request(c->buffer, IPCTNL_MSG_CT_GET_STATS, 0, NFPROTO_UNSPEC, ++c->sequence);
    *n = 0;
    ssize_t length = mnl_socket_sendto(c->nl, request, request->nlmsg_len);
    if (length >= 0) /* the answer is there when the request has gone */
        length = mnl_socket_recvfrom(c->nl, c->buffer, BUFFER_SIZE);
    if (length >= 0 && mnl_cb_run(c->buffer, netlink_whole(c->buffer, (size_t)length), c->sequence,
                                  mnl_socket_get_portid(c->nl), on_count, n) >= 0)
        return 0;
    return error_set(err, "conntrack: the kernel does not answer over netlink: %s",
                     errno == EPERM    ? "Operation not permitted (CAP_NET_ADMIN is missing)"
                     : errno == EINVAL ? "CONFIG_NF_CT_NETLINK is missing"
                                       : strerror(errno));
}

/* ---- deleting ---- */

static void count_failures(struct conntrack *c, uint64_t n, int why)
{
    if (c->done.failed == 0)
        c->done.first_errno = why;
    c->done.failed += n;
}

/* Reads the errors of what was sent. Returns how many deletions were not done. */
static uint64_t read_errors(struct conntrack *c)
{
    uint64_t not_done = 0;
    for (;;) {
        ssize_t n = recv(mnl_socket_get_fd(c->nl), c->buffer, BUFFER_SIZE, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == ENOBUFS) { /* at least one was lost */
            not_done++;
            count_failures(c, 1, ENOBUFS);
            continue;
        }
        if (n <= 0)
            return not_done;
        const struct nlmsghdr *message = (const void *)c->buffer;
        if (netlink_whole(message, (size_t)n) < mnl_nlmsg_size(sizeof(struct nlmsgerr)) ||
            message->nlmsg_len < mnl_nlmsg_size(sizeof(struct nlmsgerr)) ||
            message->nlmsg_type != NLMSG_ERROR)
            continue;
        const struct nlmsgerr *answer = mnl_nlmsg_get_payload(message);
        not_done++;
        if (answer->error != -ENOENT)
            count_failures(c, 1, netlink_errno(answer));
    }
}

static void send_deletions(struct conntrack *c)
{
    if (c->pending == 0)
        return;
    ssize_t sent;
    do
        sent = mnl_socket_sendto(c->nl, c->buffer, c->used);
    while (sent < 0 && errno == EINTR);
    uint64_t not_done = c->pending;
    if (sent < 0)
        count_failures(c, c->pending, errno);
    else
        not_done = read_errors(c);
    if (not_done < c->pending)
        c->done.deleted += c->pending - not_done;
    c->pending = c->used = 0;
}

void conntrack_delete(struct conntrack *c, const struct conntrack_flow *flow)
{
    const struct nlattr *names[] = {flow->original, flow->zone, flow->id};
    const size_t n_names = sizeof(names) / sizeof(names[0]);
    size_t length = mnl_nlmsg_size(sizeof(struct nfgenmsg));
    for (size_t i = 0; i < n_names; i++)
        length += names[i] ? MNL_ALIGN(names[i]->nla_len) : 0;
    if (c->used + length > BUFFER_SIZE)
        send_deletions(c);
    uint8_t nf_family = netlink_family((enum family)flow->to.family);
    struct nlmsghdr *request =
        conntrack_request(c->buffer + c->used, IPCTNL_MSG_CT_DELETE, 0, nf_family, ++c->sequence);
    for (size_t i = 0; i < n_names; i++) {
        if (names[i])
            mnl_attr_put(request, names[i]->nla_type, mnl_attr_get_payload_len(names[i]),
                         mnl_attr_get_payload(names[i]));
    }
    c->used += MNL_ALIGN(request->nlmsg_len);
    c->pending++;
}

struct conntrack_deletions conntrack_flush(struct conntrack *c)
{
    send_deletions(c);
    struct conntrack_deletions done = c->done;
    c->done = (struct conntrack_deletions){0};
    return done;
}
