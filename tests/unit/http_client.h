/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client for tests of the HTTP servers. The test runs the loop and is the client too, in one
 * thread: connecting to a listening socket of this machine needs no help from the server.
 */
#ifndef KUBE_NFTD_TESTS_HTTP_CLIENT_H
#define KUBE_NFTD_TESTS_HTTP_CLIENT_H

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/model/address.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct ev_loop *loop;

/* ---- sockets ---- */

static inline bool have_ipv6(void)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0;
    if (fd >= 0)
        close(fd);
    if (!have)
        printf("SKIPPED: no IPv6 here (::1 cannot be bound), the IPv6 part is not tested\n");
    return have;
}

static inline socklen_t socket_name(struct sockaddr_storage *out, const char *host, uint16_t port)
{
    memset(out, 0, sizeof(*out));
    if (strchr(host, ':')) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)out;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        ck_assert_int_eq(inet_pton(AF_INET6, host, &in6->sin6_addr), 1);
        return sizeof(*in6);
    }
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    ck_assert_int_eq(inet_pton(AF_INET, host, &in->sin_addr), 1);
    return sizeof(*in);
}

/* A foreign listener at an IPv4 address; @port 0 picks one, which is returned. */
static inline int foreign_listener_at(const char *host, uint16_t *port)
{
    struct sockaddr_storage name;
    struct sockaddr_in bound = {.sin_family = AF_INET};
    socklen_t length = socket_name(&name, host, *port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, length), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    length = sizeof(bound);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&bound, &length), 0);
    *port = ntohs(bound.sin_port);
    return fd;
}

static inline int foreign_listener(uint16_t *port)
{
    return foreign_listener_at("0.0.0.0", port);
}

static inline uint16_t free_port(void)
{
    uint16_t port = 0;
    close(foreign_listener(&port));
    return port;
}

/* -1 if refused. */
static inline int dial_to(const char *host, uint16_t port)
{
    struct sockaddr_storage name;
    socklen_t length = socket_name(&name, host, port);
    int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (struct sockaddr *)&name, length) == 0)
        return fd;
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fd);
    return -1;
}

static inline const char *loopback(enum family family)
{
    return family == FAMILY_IPV4 ? "127.0.0.1" : "::1";
}

static inline int dial(enum family family, uint16_t port)
{
    return dial_to(loopback(family), port);
}

static inline void say(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static inline void turn(int fd)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    ev_run(loop, EVRUN_NOWAIT);
    poll(&pollfd, 1, 2);
}

static inline void turn_for(double seconds)
{
    for (double end = clock_monotonic() + seconds; clock_monotonic() < end;)
        turn(-1);
}

/* ---- answers ---- */

struct reply {
    int status; /* 0: none came */
    size_t length;
    char text[256 * 1024];
    size_t body; /* where in the text */
};

static inline const char *body_of(const struct reply *reply)
{
    return reply->text + reply->body;
}

static inline const char *header(const struct reply *reply, const char *name)
{
    static char value[256];
    char *key = xasprintf("\r\n%s: ", name);
    const char *at = strcasestr(reply->text, key);
    size_t length = strlen(key);
    free(key);
    if (!at || at > body_of(reply))
        return NULL;
    snprintf(value, sizeof(value), "%.*s", (int)strcspn(at + length, "\r"), at + length);
    return value;
}

static inline bool complete(struct reply *reply, bool with_body)
{
    const char *end = strstr(reply->text, "\r\n\r\n");
    if (!end)
        return false;
    reply->body = (size_t)(end + 4 - reply->text);
    if (!with_body)
        return true;
    const char *length = header(reply, "Content-Length");
    ck_assert_ptr_nonnull(length);
    return strlen(body_of(reply)) >= (size_t)atoi(length);
}

/* Runs the loop until the reply is there; status 0 if the connection ends or @seconds pass. */
static inline struct reply hear(int fd, bool with_body, double seconds)
{
    struct reply reply = {0};
    double end = clock_monotonic() + seconds;
    while (clock_monotonic() < end) {
        turn(fd);
        ssize_t n = recv(fd, reply.text + reply.length, sizeof(reply.text) - 1 - reply.length,
                         MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        reply.length += n > 0 ? (size_t)n : 0;
        if (complete(&reply, with_body)) {
            ck_assert_int_eq(sscanf(reply.text, "HTTP/1.1 %d ", &reply.status), 1);
            break;
        }
    }
    return reply;
}

static inline bool ends(int fd, double seconds)
{
    char byte;
    for (double end = clock_monotonic() + seconds; clock_monotonic() < end;) {
        turn(fd);
        ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
        ck_assert_int_le(n, 0);
        if (n == 0 || errno != EAGAIN)
            return true;
    }
    return false;
}

/* Status 0 if the connection is refused. */
static inline struct reply ask_at(const char *host, uint16_t port, const char *method,
                                  const char *path)
{
    struct reply reply = {0};
    int fd = dial_to(host, port);
    if (fd < 0)
        return reply;
    char *text = xasprintf("%s %s HTTP/1.1\r\nHost: node\r\n\r\n", method, path);
    say(fd, text);
    free(text);
    reply = hear(fd, strcmp(method, "HEAD") != 0, 5);
    close(fd);
    return reply;
}

static inline struct reply ask(enum family family, uint16_t port, const char *method,
                               const char *path)
{
    return ask_at(loopback(family), port, method, path);
}

#define GET(port, path) ask(FAMILY_IPV4, port, "GET", path)

static inline int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

#endif
