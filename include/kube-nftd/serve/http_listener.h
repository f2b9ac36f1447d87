/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One listening socket that answers HTTP: libmicrohttpd inside the libev loop, without threads.
 * Any method is taken; of a request's body just the beginning is kept. Connections, their memory,
 * their time (http_clients.h) and the bodies are bounded, and whoever is slow makes room for
 * others.
 */
#ifndef KUBE_NFTD_SERVE_HTTP_LISTENER_H
#define KUBE_NFTD_SERVE_HTTP_LISTENER_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/model/address.h"

#include <stdbool.h>
#include <stdint.h>

struct ev_loop;
struct http_listener;

/* What is kept of the body of a request. */
#define HTTP_BODY_KEPT 64

struct MHD_Connection;

struct http_request {
    const char *method;
    const char *path;                  /* without the query */
    const char *body;                  /* its first HTTP_BODY_KEPT bytes, up to a NUL */
    struct MHD_Connection *connection; /* for the functions below alone */
};

struct http_header {
    const char *name; /* static */
    char *value;      /* owned */
};

/* Starts as status 200 with an empty body. */
struct http_answer {
    unsigned status;
    char *body;    /* owned; NULL for none */
    size_t length; /* of the body; 0: it is a string */
    /* Called once when the body was sent or given up, with its length; may be NULL. */
    void (*released)(void *ctx, size_t length);
    void *released_ctx; /* outlives the listener */
    /* In place of a body: see http_answer_stream(). NULL: there is a body. */
    size_t (*more)(void *stream, char *to, size_t room);
    void (*end)(void *stream);
    void *stream;
    VEC(struct http_header) headers;
};

/* Fills @answer. Must not close the listener. */
typedef void (*http_answer_fn)(void *ctx, const struct http_request *request,
                               struct http_answer *answer);

/**
 * Listens at @address; @answer is called for each request, in turns of the loop. For both families
 * that is one dual-stack socket, or an IPv4 one if the kernel has no IPv6. NULL with an error if
 * the address cannot be had.
 */
struct http_listener *http_listener_open(struct ev_loop *loop, const struct listen_address *address,
                                         http_answer_fn answer, void *ctx, struct error *err);

/** Closes the socket and all connections. NULL is fine. */
void http_listener_close(struct http_listener *listener);

/** Whether the query has @name, with or without a value: "?verbose". */
bool http_request_has_argument(const struct http_request *request, const char *name);

/** What the query says @name is, unescaped and borrowed: "" for "?name", NULL without it. */
const char *http_request_argument(const struct http_request *request, const char *name);

/** Whether that value has a NUL in it (%00), so that what http_request_argument() gives is cut. */
bool http_request_argument_is_cut(const struct http_request *request, const char *name);

/** The value of a header, borrowed; NULL if it is not there. */
const char *http_request_header(const struct http_request *request, const char *name);

/** Adds a header. @name must be static. */
void http_answer_header(struct http_answer *answer, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** A plain text with @status. */
void http_answer_text(struct http_answer *answer, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** JSON with @status; takes @body. */
void http_answer_json(struct http_answer *answer, unsigned status, char *body);

/**
 * 200 with a body that is made piece by piece: each time that the client has taken some, @more
 * writes at most @room bytes to @to and returns how many; 0: that was all. @end is called once with
 * @stream, which it frees, when the answer is over or given up.
 */
void http_answer_stream(struct http_answer *answer, const char *type,
                        size_t (*more)(void *stream, char *to, size_t room),
                        void (*end)(void *stream), void *stream);

/** Whether the request is a GET or HEAD; else answers 405. */
bool http_answer_reads(const struct http_request *request, struct http_answer *answer);

/* How a 503 begins after which it is worth to ask again soon. */
#define HTTP_BUSY "busy"

/** 503 for who asks while others are answered. */
void http_answer_busy(struct http_answer *answer);

/** The answer for a path that is not there: 404, "404 page not found". */
void http_answer_not_found(struct http_answer *answer);

#endif
