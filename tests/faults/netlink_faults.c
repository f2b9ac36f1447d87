/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Netlink calls that fail. These take the place of those of libc and libmnl in the program
 * kube-nftd-faulty, which is otherwise the daemon; the daemon itself has nothing of this.
 *
 *     NETLINK_REJECTS=FILE   the kernel rejects elements with the address in FILE, if it exists at
 *                            a transaction, and nothing else fails
 *     NETLINK_FAULTS=SEED/N  one call in N fails; without both, a seed by chance, and N is 50
 *
 * Some faults begin a burst, as when memory is short: one call in BURST_ODDS fails for a while.
 *
 * What happens is what kernels do: a call is interrupted, or lacks memory or room in a buffer; a
 * datagram, the answer to a request, or the rest of a dump is lost. Each fault is one that the
 * kernel reports, or that can be told from the missing end of an answer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STANDARD_ODDS 50
#define MOST_SOCKETS 1024
#define BURSTS 4 /* one fault in so many begins one */
#define BURST_ODDS 3
/* To read a table back takes more calls, so no attempt in a burst succeeds. After each the daemon
 * waits twice as long: with 40 calls, for minutes. */
#define BURST_CALLS 12

static const char *rejects;
static unsigned seed, odds = STANDARD_ODDS, burst; /* calls that are left of it */

/* By descriptor: the answers to the last request are lost after so many datagrams. That of a
 * transaction may be lost without a word. */
static struct {
    bool lossy, silent;
    unsigned after;
} sockets[MOST_SOCKETS];

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("NETLINK_FAULTS");
    rejects = getenv("NETLINK_REJECTS");
    if (rejects)
        return;
    if (!text || sscanf(text, "%u/%u", &seed, &odds) < 1)
        if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
            abort();
    if (odds == 0)
        odds = STANDARD_ODDS;
    fprintf(stderr, "netlink faults: NETLINK_FAULTS=%u/%u\n", seed, odds);
}

static unsigned below(unsigned n)
{
    return (unsigned)rand_r(&seed) % n;
}

static bool is_due(void)
{
    const bool due = below(burst > 0 ? BURST_ODDS : odds) == 0;
    burst -= burst > 0;
    if (due && burst == 0 && below(BURSTS) == 0)
        burst = BURST_CALLS;
    return due;
}

static bool is_netlink(int fd)
{
    int domain = 0;
    socklen_t length = sizeof(domain);
    return fd >= 0 && fd < MOST_SOCKETS &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_NETLINK;
}

static int some_errno(void)
{
    static const int all[] = {EINTR, ENOBUFS, ENOMEM};
    return all[below(3)];
}

/* Whether the request cannot be sent. It may also lose its answer. */
static bool request_fails(int fd, bool transaction)
{
    if (rejects || !is_netlink(fd))
        return false;
    sockets[fd].lossy = false;
    if (!is_due())
        return false;
    if (below(2)) {
        sockets[fd].lossy = true;
        sockets[fd].silent = transaction && below(2);
        sockets[fd].after = below(3);
        return false;
    }
    errno = some_errno();
    return true;
}

/* The address in the file @rejects: its bytes in @address and their number, or 0. */
static size_t rejected_address(char address[static sizeof(struct in6_addr)])
{
    char text[INET6_ADDRSTRLEN] = "";
    FILE *file = rejects ? fopen(rejects, "r") : NULL;
    if (!file)
        return 0;
    const bool any = fscanf(file, "%45s", text) == 1;
    fclose(file);
    if (any && inet_pton(AF_INET, text, address) == 1)
        return sizeof(struct in_addr);
    return any && inet_pton(AF_INET6, text, address) == 1 ? sizeof(struct in6_addr) : 0;
}

/* The kernel rejects a message of another type than it knows, and that one alone. */
static void exchange_types(const struct iovec *part, const char *address, size_t length, int from,
                           int to)
{
    int left = (int)part->iov_len;
    for (struct nlmsghdr *it = part->iov_base; mnl_nlmsg_ok(it, left);
         it = mnl_nlmsg_next(it, &left))
        if (it->nlmsg_type == (NFNL_SUBSYS_NFTABLES << 8 | from) &&
            memmem(it, it->nlmsg_len, address, length))
            it->nlmsg_type = (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | to);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    char address[sizeof(struct in6_addr)];
    const size_t length = is_netlink(fd) ? rejected_address(address) : 0;
    if (request_fails(fd, true))
        return -1;
    for (size_t i = 0; length && i < message->msg_iovlen; i++)
        exchange_types(&message->msg_iov[i], address, length, NFT_MSG_NEWSETELEM, NFT_MSG_MAX);
    ssize_t sent = syscall(SYS_sendmsg, fd, message, flags);
    for (size_t i = 0; length && i < message->msg_iovlen; i++)
        exchange_types(&message->msg_iov[i], address, length, NFT_MSG_MAX, NFT_MSG_NEWSETELEM);
    return sent;
}

ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *bytes, size_t length)
{
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    const int fd = mnl_socket_get_fd(nl);
    return request_fails(fd, false)
               ? -1
               : sendto(fd, bytes, length, 0, (const void *)&kernel, sizeof(kernel));
}

static ssize_t receive(int fd, void *buffer, size_t size, int flags)
{
    return syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
}

/* Throws away what is left of the answers. */
static ssize_t lose_answers(int fd, void *buffer, size_t size, int flags)
{
    sockets[fd].lossy = false;
    while (receive(fd, buffer, size, flags | MSG_DONTWAIT) > 0)
        continue;
    errno = sockets[fd].silent ? EAGAIN : ENOBUFS;
    return -1;
}

/* The daemon's own recv() calls it (src/source/read_budget.c). */
ssize_t recvfrom(int fd, void *buffer, size_t size, int flags, struct sockaddr *from,
                 socklen_t *from_length)
{
    if (rejects || from || !is_netlink(fd))
        return syscall(SYS_recvfrom, fd, buffer, size, flags, from, from_length);
    if (sockets[fd].lossy && sockets[fd].after-- == 0)
        return lose_answers(fd, buffer, size, flags);
    if (!is_due())
        return receive(fd, buffer, size, flags);
    errno = some_errno();
    if (errno == ENOBUFS && below(2)) { /* with one datagram less */
        receive(fd, buffer, size, flags | MSG_DONTWAIT);
        errno = ENOBUFS;
    }
    return -1;
}
