/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink/conntrack.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/netlink/request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* What is sent at once. Holds the deletions of all entries that the kernel tells of at once: each
 * is smaller than the entry. */
#define BUFFER_SIZE ((size_t)64 * 1024)
/* Room for the errors of that many deletions. */
#define RECEIVE_BUFFER (1 << 20)

struct conntrack {
    struct mnl_socket *nl;
    uint32_t sequence;
    char *buffer;
    size_t used, pending;            /* bytes and number of the deletions in it */
    struct conntrack_deletions done; /* since the last flush */
};

struct mnl_socket *conntrack_socket(void)
{
    struct mnl_socket *nl = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (nl && mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0) {
        int why = errno;
        mnl_socket_close(nl);
        errno = why;
        return NULL;
    }
    return nl;
}

struct nlmsghdr *conntrack_request(void *buffer, uint8_t type, uint16_t flags, uint8_t nf_family,
                                   uint32_t sequence)
{
    struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
    request->nlmsg_type = (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type);
    request->nlmsg_flags = NLM_F_REQUEST | flags;
    request->nlmsg_seq = sequence;
    struct nfgenmsg *about = mnl_nlmsg_put_extra_header(request, sizeof(*about));
    about->nfgen_family = nf_family;
    about->version = NFNETLINK_V0;
    return request;
}

struct conntrack *conntrack_open(struct error *err)
{
    struct conntrack *c = xcalloc(1, sizeof(*c));
    c->nl = conntrack_socket();
    if (!c->nl) {
        error_set(err, "conntrack: cannot open a netlink socket: %s", strerror(errno));
        conntrack_close(c);
        return NULL;
    }
    int one = 1, size = RECEIVE_BUFFER, fd = mnl_socket_get_fd(c->nl);
    mnl_socket_setsockopt(c->nl, NETLINK_CAP_ACK, &one, sizeof(one));
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    c->buffer = xcalloc(1, BUFFER_SIZE);
    uint32_t entries;
    if (conntrack_count(c, &entries, err)) {
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
    const struct nlattr *attribute;
    mnl_attr_for_each(attribute, answer, sizeof(struct nfgenmsg))
    {
        if (mnl_attr_get_type(attribute) == CTA_STATS_GLOBAL_ENTRIES &&
            mnl_attr_validate(attribute, MNL_TYPE_U32) == 0)
            *(uint32_t *)data = ntohl(mnl_attr_get_u32(attribute));
    }
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
    uint8_t nf_family = flow->to.family == FAMILY_IPV4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
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
