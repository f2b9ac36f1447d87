/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client for tests of the HTTP servers. The test runs the loop and is the client too, in one
 * thread: connecting to a listening socket of this machine needs no help from the server.
 *
 * Requests are commands of a script. Ports are letters; what listens there is "A", which is
 * 127.0.0.1, "127.0.0.2:A" or "::1:A".
 *
 *     get A /livez => 200 text: ok          status, Content-Type, body
 *     ask DELETE A /metrics/slis
 *     code A /livez => 200                  the status alone, and X-Load-Balancing-Endpoint-Weight
 *     page A /metrics                       with the body as it is
 *     refused A                             nobody listens there
 *     dial c A, say c GET / HTTP/1.1<0d>... a connection with a name; "request c PATH" says GET
 *     hear c, ends c, close c
 *     foreign A B [HOST], leave A B         another program's listeners
 *     fds begin, fds => +0                  so many more files are open
 *     wait SECONDS
 *     await => 2 lines                      how much is logged then, at once and in whatever order
 */
#ifndef KUBE_NFTD_TESTS_HTTP_SCRIPT_H
#define KUBE_NFTD_TESTS_HTTP_SCRIPT_H

#include "script.h"

#include <errno.h>
#include <ev.h>
#include <sys/socket.h>
#include <unistd.h>

extern struct ev_loop *loop; /* of the server */

/* ---- sockets ---- */

/* Whether ::1 can be bound; if not, says that this is not tested. */
bool have_ipv6(void);

uint16_t free_port(void);

/* A connection to 127.0.0.1; -1 if refused. */
int dial(uint16_t port);

void say(int fd, const char *text);

/* Runs the loop once, or for a time; the first waits 2 milliseconds for something to come. */
void turn(int fd);
void turn_for(double seconds);

int count_fds(void);

/* ---- answers ---- */

struct reply {
    int status; /* 0: none came */
    size_t length;
    char text[256 * 1024];
    size_t body; /* where in the text */
};

const char *body_of(const struct reply *reply);

/* A header's value, until the next one is asked for; NULL: it is not there. */
const char *header(const struct reply *reply, const char *name);

/* Whether all headers have come, and all of the body. */
bool complete(struct reply *reply, bool with_body);

/* Runs the loop until the reply is there; status 0 if the connection ends or @seconds pass. */
struct reply hear(int fd, bool with_body, double seconds);

/* Whether the connection ends within that time, without another byte. */
bool ends(int fd, double seconds);

/* Status 0 if the connection is refused. */
struct reply ask_at(const char *host, uint16_t port, const char *method, const char *path);

#define GET(port, path) ask_at("127.0.0.1", port, "GET", path)

/* ---- what commands name ---- */

/* The port of a letter, which is a free one at first, in a network of the test's own; begin_ports()
 * before each test. */
uint16_t port_of(char letter);
void begin_ports(void);

/* The socket of a connection. */
int *connection(const char *name);

/* The name of a Content-Type in cases. */
const char *short_type(const char *type);

#endif
