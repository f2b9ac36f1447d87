/* SPDX-License-Identifier: GPL-2.0-or-later */
/* HTTP: libmicrohttpd in the libev loop, without threads. */
#ifndef KUBE_NFTD_SRC_SERVE_HTTP_H
#define KUBE_NFTD_SRC_SERVE_HTTP_H

#include "kube-nftd/serve.h"

#include <ev.h>

/* ---- a request and its answer ---- */

/* Bytes kept of a request's body. */
#define HTTP_BODY_KEPT 64

struct MHD_Connection;

struct http_header {
    const char *name; /* static */
    char *value;      /* owned */
};

struct http {
    /* The request. */
    const char *method;
    const char *path;                  /* without the query */
    size_t seen;                       /* bytes of the body */
    char body[HTTP_BODY_KEPT + 1];     /* the first of them */
    struct MHD_Connection *connection; /* only for the functions below */

    /* The answer: 200 without a body, unless it is set. */
    unsigned status;
    char *text;    /* owned */
    size_t length; /* of the text; 0: it is a string */
    /* If not NULL, generates the body in pieces as the client reads: writes at most @room bytes to
     * @to and returns their number; 0 ends the body. */
    size_t (*more)(void *ctx, char *to, size_t room);
    void (*end)(void *ctx); /* called once when the answer is sent or abandoned; may be NULL */
    void *ctx;              /* of both */
    VEC(struct http_header) headers;
};

/* Answers @http. Must not close the listener. */
typedef void (*http_answer_fn)(void *ctx, struct http *http);

/** The query argument @name, unescaped and borrowed: "" for "?name", NULL if absent. */
const char *http_argument(const struct http *http, const char *name);

/** Whether that argument contains a NUL (%00), which truncates http_argument(). */
bool http_argument_is_cut(const struct http *http, const char *name);

/** The value of a header of the request, borrowed; NULL if absent. */
const char *http_request_header(const struct http *http, const char *name);

/* ---- http_answer.c ---- */

/** Adds a header to the answer. @name must be static. */
void http_header(struct http *http, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Answers @status with plain text. */
void http_text(struct http *http, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Answers @status with JSON; takes @text, which is NULL if @http->more generates it. */
void http_json(struct http *http, unsigned status, char *text);

/** Answers 503: too many other requests in progress. */
void http_busy(struct http *http);

/* ---- listening sockets ----
 *
 * They accept any method. Connections, their memory, their time and the bodies are bounded; slow
 * clients are closed in favour of new ones.
 *
 * A socket that cannot be bound is logged once and waits. Every 0.2 s one waiting socket is
 * retried, round robin; if it succeeds, so are all others, which keeps the gap short when this
 * daemon replaces another. Every 5 s all are retried and failures reported. Closing a socket
 * retries all immediately, since it may have blocked one of them.
 */

struct http_ports {
    struct ev_loop *loop;
    const struct event_sink *events; /* NULL: no events */
    struct http_port *waiting;       /* the head is retried next */
    unsigned tries;                  /* until all are retried */
    ev_timer retry;
};

/* A use of sockets. One that cannot be bound becomes an event, at first and then every 5 s; its
 * note is @before, the address, @after and the error. Static. */
struct http_port_kind {
    const char *what; /* is served there, for log lines */
    enum object_kind object;
    const char *reason, *action, *before, *after;
};

struct http_port {
    struct http_port *prev, *next; /* in ports->waiting */
    struct http_ports *ports;
    struct listen_address address;
    const struct http_port_kind *kind;
    const char *id; /* of the object of the event */
    char *name;
    http_answer_fn answer;
    void *ctx;
    struct MHD_Daemon *daemon;   /* NULL: not bound yet */
    struct http_client *clients; /* ordered by last progress; without ended ones */
    size_t n_clients;
    bool connected, closed; /* some client did, since run() began */
    ev_io io;
    ev_timer timer;
};

/** Everything is borrowed. @ports owns nothing once its sockets are closed. */
void http_ports_init(struct http_ports *ports, struct ev_loop *loop,
                     const struct event_sink *events);

/**
 * Listens at @address and calls @answer for each request, from the loop; now, or once the address
 * can be bound. Both families share one dual-stack socket, or get an IPv4 one if the kernel has no
 * IPv6. @id (borrowed) names the object of the event. @name is formatted as key=value pairs for log
 * lines.
 */
struct http_port *http_port_open(struct http_ports *ports, const struct listen_address *address,
                                 const struct http_port_kind *kind, const char *id,
                                 http_answer_fn answer, void *ctx, const char *name, ...)
    __attribute__((format(printf, 7, 8)));

/** Closes the socket and all its connections, or stops waiting. NULL is fine. */
void http_port_close(struct http_port *port);

/* ---- for http_ports.c ---- */

/** Listens at its address and answers requests. -1: it cannot be bound, say. */
int http_port_start(struct http_port *port, struct error *err);

/** Closes what that opened. */
void http_port_stop(struct http_port *port);

#endif
