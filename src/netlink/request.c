/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink/request.h"

#include "kube-nftd/base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Dumps come in parts as large as there is room for. */
#define BUFFER_SIZE ((size_t)64 * 1024)

struct mnl_socket *netlink_open(int protocol, int flags, unsigned groups, int room,
                                const char *what, struct error *err)
{
    struct mnl_socket *nl = mnl_socket_open2(protocol, SOCK_CLOEXEC | flags);
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

static void drop_answers(struct mnl_socket *nl, char *buffer)
{
    ssize_t n;
    do
        n = recv(mnl_socket_get_fd(nl), buffer, BUFFER_SIZE, MSG_DONTWAIT);
    while (n > 0 || (n < 0 && (errno == EINTR || errno == ENOBUFS)));
}

/* One piece of an answer: its length, or -1 with errno. The kernel writes the next one when this
 * one is taken, so if there is none, it got lost. */
static ssize_t receive(struct mnl_socket *nl, char *buffer)
{
    ssize_t n;
    do
        n = recv(mnl_socket_get_fd(nl), buffer, BUFFER_SIZE, MSG_DONTWAIT | MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    if (n > (ssize_t)BUFFER_SIZE) {
        errno = EMSGSIZE;
        return -1;
    }
    return n;
}

size_t netlink_whole(const void *messages, size_t length)
{
    const char *at = messages;
    struct nlmsghdr header;
    size_t whole = 0;
    while (whole < length && length - whole >= sizeof(header)) {
        memcpy(&header, at + whole, sizeof(header));
        if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > length - whole)
            break;
        whole += MNL_ALIGN((size_t)header.nlmsg_len);
    }
    return whole < length ? whole : length;
}

/* As many as the kernel has (MAX_ERRNO); others it never sends. */
#define LAST_ERRNO 4095

int netlink_errno(const struct nlmsgerr *answer)
{
    return answer->error <= 0 && answer->error >= -LAST_ERRNO ? -answer->error : EPROTO;
}

const char *netlink_text(const struct nlattr *attribute)
{
    return attribute && mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) == 0
               ? mnl_attr_get_str(attribute)
               : NULL;
}

/* Takes the mark off the messages of a piece that says that what is read has changed, so that they
 * are read all the same. Returns whether there was one. */
static bool take_mark_off(char *piece, size_t length)
{
    bool marked = false;
    int left = (int)netlink_whole(piece, length);
    for (struct nlmsghdr *header = (void *)piece; mnl_nlmsg_ok(header, left);
         header = mnl_nlmsg_next(header, &left)) {
        marked = marked || header->nlmsg_flags & NLM_F_DUMP_INTR;
        header->nlmsg_flags &= (uint16_t)~NLM_F_DUMP_INTR;
    }
    return marked;
}

/* @overtaken: NULL if an answer that was overtaken is an error. */
static int ask(struct mnl_socket *nl, const struct nlmsghdr *request, mnl_cb_t fn, void *ctx,
               bool *overtaken)
{
    if (mnl_socket_sendto(nl, request, request->nlmsg_len) < 0)
        return errno;
    char *buffer = xcalloc(1, BUFFER_SIZE);
    int result;
    do {
        ssize_t n = receive(nl, buffer);
        if (n > 0 && overtaken && take_mark_off(buffer, (size_t)n))
            *overtaken = true;
        result = n < 0 ? -1
                       : mnl_cb_run(buffer, netlink_whole(buffer, (size_t)n), request->nlmsg_seq,
                                    mnl_socket_get_portid(nl), fn, ctx);
    } while (result > MNL_CB_STOP);
    int why = result < 0 ? errno : 0;
    if (why)
        drop_answers(nl, buffer);
    free(buffer);
    return why;
}

int netlink_ask(struct mnl_socket *nl, const struct nlmsghdr *request, mnl_cb_t fn, void *ctx)
{
    return ask(nl, request, fn, ctx, NULL);
}

int netlink_ask_overtaken(struct mnl_socket *nl, const struct nlmsghdr *request, mnl_cb_t fn,
                          void *ctx, bool *overtaken)
{
    return ask(nl, request, fn, ctx, overtaken);
}
