/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Netlink sockets, requests and their replies, and attribute parsing. */
#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/socket.h>

/* The kernel fills a dump buffer of any size, up to its own limit. */
#define BUFFER_SIZE ((size_t)64 * 1024)

/* The kernel's MAX_ERRNO is 4095; ipset has errors of its own from 4096 on. */
#define LAST_ERRNO 8191

struct mnl_socket *netlink_open(int protocol, unsigned groups, int room, const char *what,
                                struct error *err)
{
    struct mnl_socket *nl = mnl_socket_open2(protocol, SOCK_CLOEXEC);
    if (!nl || mnl_socket_bind(nl, groups, MNL_SOCKET_AUTOPID) != 0) {
        error_set(err, "%s: cannot open a netlink socket: %s", what, strerror(errno));
        if (nl)
            mnl_socket_close(nl);
        return NULL;
    }
    int fd = mnl_socket_get_fd(nl);
    if (room > 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    return nl;
}

const struct nlmsghdr *netlink_next(const void *bytes, size_t length, const struct nlmsghdr *last)
{
    size_t at = last ? (size_t)((const char *)last - (const char *)bytes) : 0;
    at += last ? MNL_ALIGN((size_t)last->nlmsg_len) : 0;
    const struct nlmsghdr *next = (const void *)((const char *)bytes + at);
    bool whole = at < length && length - at >= sizeof(*next) && next->nlmsg_len >= sizeof(*next) &&
                 next->nlmsg_len <= length - at;
    return whole ? next : NULL;
}

int netlink_errno(const struct nlmsghdr *message)
{
    int number = message->nlmsg_type == NLMSG_DONE ? 0 : -EPROTO;
    if (mnl_nlmsg_get_payload_len(message) >= sizeof(number))
        memcpy(&number, mnl_nlmsg_get_payload(message), sizeof(number));
    return number <= 0 && number >= -LAST_ERRNO ? -number : EPROTO;
}

/* ---- requests ---- */

struct nlmsghdr *netlink_request(void *buffer, uint16_t type, uint16_t flags, uint32_t sequence,
                                 const void *header, size_t length)
{
    struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
    request->nlmsg_type = type;
    request->nlmsg_flags = NLM_F_REQUEST | flags;
    request->nlmsg_seq = sequence;
    memcpy(mnl_nlmsg_put_extra_header(request, length), header, length);
    return request;
}

int netlink_receive(struct netlink_reply *reply)
{
    ssize_t n;
    do
        n = recv(mnl_socket_get_fd(reply->nl), reply->buffer, reply->size,
                 MSG_DONTWAIT | MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    if (n > (ssize_t)reply->size)
        errno = EMSGSIZE;
    if (n < 0 || n > (ssize_t)reply->size)
        return -1;
    netlink_each (message, reply->buffer, (size_t)n) {
        uint32_t port = mnl_socket_get_portid(reply->nl);
        if ((message->nlmsg_seq && message->nlmsg_seq != reply->sequence) ||
            (message->nlmsg_pid && message->nlmsg_pid != port)) {
            errno = EPROTO;
            return -1;
        }
        if (message->nlmsg_flags & NLM_F_DUMP_INTR)
            reply->interrupted = true;
        if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) {
            errno = netlink_errno(message);
            return errno ? -1 : 0;
        }
        if (message->nlmsg_type >= NLMSG_MIN_TYPE && reply->fn &&
            reply->fn(message, reply->ctx) < 0)
            return -1;
    }
    return 1;
}

bool netlink_is_transient(int why)
{
    return why == EINTR || why == ENOBUFS || why == ENOMEM;
}

void netlink_drain(struct mnl_socket *nl, void *buffer, size_t size)
{
    ssize_t n;
    do
        n = recv(mnl_socket_get_fd(nl), buffer, size, MSG_DONTWAIT);
    while (n > 0 || (n < 0 && netlink_is_transient(errno)));
}

int netlink_ask(struct mnl_socket *nl, const struct nlmsghdr *request, mnl_cb_t fn, void *ctx,
                bool *interrupted)
{
    if (mnl_socket_sendto(nl, request, request->nlmsg_len) < 0)
        return errno;
    struct netlink_reply reply = {.nl = nl,
                                  .buffer = xreallocarray(NULL, 1, BUFFER_SIZE),
                                  .size = BUFFER_SIZE,
                                  .sequence = request->nlmsg_seq,
                                  .fn = fn,
                                  .ctx = ctx};
    int result;
    do
        result = netlink_receive(&reply);
    while (result > 0 && (interrupted || !reply.interrupted));
    int why = result < 0 ? errno : reply.interrupted && !interrupted ? EINTR : 0;
    if (interrupted && reply.interrupted)
        *interrupted = true;
    if (why)
        netlink_drain(nl, reply.buffer, BUFFER_SIZE);
    free(reply.buffer);
    return why;
}

/* ---- what messages hold ---- */

uint8_t netlink_family(enum family family)
{
    return family == FAMILY_IPV4 ? AF_INET : AF_INET6;
}

bool netlink_family_of(uint8_t number, enum family *family)
{
    *family = number == AF_INET ? FAMILY_IPV4 : FAMILY_IPV6;
    return number == AF_INET || number == AF_INET6;
}

const struct nlattr *netlink_attribute(const struct nlmsghdr *message, size_t length, uint16_t type)
{
    const struct nlattr *attribute;
    mnl_attr_for_each(attribute, message, length)
    {
        if (mnl_attr_get_type(attribute) == type)
            return attribute;
    }
    return NULL;
}

const struct nlattr *nfnl_attribute(const struct nlmsghdr *message, uint16_t type)
{
    return netlink_attribute(message, sizeof(struct nfgenmsg), type);
}

const struct nlattr *netlink_inside(const struct nlattr *nest, uint16_t type)
{
    const struct nlattr *attribute;
    if (!nest)
        return NULL;
    mnl_attr_for_each_nested(attribute, nest)
    {
        if (mnl_attr_get_type(attribute) == type)
            return attribute;
    }
    return NULL;
}

const char *netlink_text(const struct nlattr *attribute)
{
    return attribute && mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) == 0
               ? mnl_attr_get_str(attribute)
               : NULL;
}

bool netlink_copy(const struct nlattr *attribute, void *to, size_t length)
{
    if (!attribute || attribute->nla_len < sizeof(*attribute) + length)
        return false;
    memcpy(to, attribute + 1, length);
    return true;
}

uint32_t netlink_number(const struct nlattr *attribute, uint32_t standard)
{
    uint32_t number;
    return netlink_copy(attribute, &number, sizeof(number)) ? ntohl(number) : standard;
}

/* ---- elements ---- */

/* The NFTA_DATA_VALUE in @nest; NULL for a verdict. */
static const uint8_t *value_of(const struct nlattr *nest, size_t *length)
{
    const struct nlattr *value = netlink_inside(nest, NFTA_DATA_VALUE);
    *length = value ? mnl_attr_get_payload_len(value) : 0;
    return value ? mnl_attr_get_payload(value) : NULL;
}

/* The chain of a goto in @nest. */
static const char *chain_of(const struct nlattr *nest)
{
    const struct nlattr *verdict = netlink_inside(nest, NFTA_DATA_VERDICT);
    uint32_t code = netlink_number(netlink_inside(verdict, NFTA_VERDICT_CODE), 0);
    return code == (uint32_t)NFT_GOTO ? netlink_text(netlink_inside(verdict, NFTA_VERDICT_CHAIN))
                                      : NULL;
}

static uint64_t packets_of(const struct nlattr *expression)
{
    const char *name = netlink_text(netlink_inside(expression, NFTA_EXPR_NAME));
    const struct nlattr *data = netlink_inside(expression, NFTA_EXPR_DATA);
    uint64_t packets;
    bool counts =
        name && strcmp(name, "counter") == 0 &&
        netlink_copy(netlink_inside(data, NFTA_COUNTER_PACKETS), &packets, sizeof(packets));
    return counts ? be64toh(packets) : 0;
}

static struct nft_element read_element(const struct nlattr *from)
{
    struct nft_element element = {.key = NULL};
    const struct nlattr *attribute;
    mnl_attr_for_each_nested(attribute, from)
    {
        switch (mnl_attr_get_type(attribute)) {
        case NFTA_SET_ELEM_KEY:
            element.key = value_of(attribute, &element.key_length);
            break;
        case NFTA_SET_ELEM_DATA:
            element.data = value_of(attribute, &element.data_length);
            element.chain = element.data ? NULL : chain_of(attribute);
            break;
        case NFTA_SET_ELEM_FLAGS:
            element.flags = netlink_number(attribute, 0);
            break;
        case NFTA_SET_ELEM_EXPR:
            element.packets = packets_of(attribute);
            break;
        default: /* timeouts */
            break;
        }
    }
    return element;
}

size_t nft_element_each(const struct nlmsghdr *message, nft_element_fn fn, void *ctx)
{
    const struct nlattr *at, *list = nfnl_attribute(message, NFTA_SET_ELEM_LIST_ELEMENTS);
    size_t n = 0;
    if (!list)
        return 0;
    mnl_attr_for_each_nested(at, list)
    {
        const struct nft_element element = read_element(at);
        if (!element.key && !(element.flags & NFT_SET_ELEM_CATCHALL))
            continue;
        fn(ctx, &element);
        n++;
    }
    return n;
}
