/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink/conntrack_scan.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/netlink/conntrack.h"
#include "kube-nftd/netlink/request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The kernel fills 32 KiB at most, whatever there is room for. */
#define BUFFER_SIZE ((size_t)64 * 1024)

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

static int ask(struct conntrack_scan *scan)
{
    uint8_t family = scan->family == FAMILY_IPV4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
    struct nlmsghdr *request = conntrack_request(scan->buffer, IPCTNL_MSG_CT_GET, NLM_F_DUMP,
                                                 scan->filtered ? family : NFPROTO_UNSPEC, 1);
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
    scan->nl = conntrack_socket();
    if (scan->nl && ask(scan) == 0)
        return scan;
    error_set(err, "cannot ask for the conntrack table: %s", strerror(errno));
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
    error_set(err, "the kernel does not give the conntrack table: %s", strerror(number));
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
        if (conntrack_flow_read(message, &flow) && flow.to.family == scan->family)
            fn(ctx, &flow);
    }
    return CONNTRACK_MORE;
}
