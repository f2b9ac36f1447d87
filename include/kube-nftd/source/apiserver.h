/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests to the API server, several at once over one connection where HTTP/2 is offered:
 * libcurl's multi interface on the libev loop. Knows TLS and tokens, not objects.
 */
#ifndef KUBE_NFTD_SOURCE_APISERVER_H
#define KUBE_NFTD_SOURCE_APISERVER_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/client_config.h"
#include "kube-nftd/source/api_peers.h"
#include "kube-nftd/source/collection.h"
#include "kube-nftd/source/request_figures.h"

#include <stdbool.h>
#include <stddef.h>

struct ev_loop;
struct apiserver;
struct api_request;

/* Seconds of silence after which, while answers are open, the server is asked whether it lives. One
 * that does not answer loses its connections, and each request ends as if the network had done it.
 */
#define APISERVER_SILENCE 30.0

/* How a request ended. */
struct api_result {
    long status;           /* HTTP status, 0 if no answer came */
    double retry_after;    /* seconds from Retry-After, or -1 */
    const char *transport; /* why the transfer failed, or NULL for a whole body; borrowed. The same
                            * for the same trouble: no times or counts in it */
    size_t length;         /* of the body */
};

struct api_request_ops {
    /* The server has answered 200; what comes has this encoding, and may take its time. May be
     * NULL. */
    void (*opened)(void *ctx, enum encoding encoding);
    /* Bytes of the body of a 200 answer as they come. Returns -1 to end the request (done follows).
     * NULL: they are of no interest. */
    int (*data)(void *ctx, const char *bytes, size_t length);
    /* The request is over and freed; called once, unless it was cancelled. @body is the (bounded)
     * start of the body of an answer other than 200, else ""; there is a NUL behind it. */
    void (*done)(void *ctx, const struct api_result *result, const char *body);
};

/* What a request that changes something carries; NULL for others. */
struct api_write {
    const char *method; /* "POST", "PATCH"; static */
    const char *content_type;
    const char *body;
};

/** A client on @loop. Borrows @config, which must outlive it. */
struct apiserver *apiserver_new(struct ev_loop *loop, const struct client_config *config,
                                struct error *err);

/** Cancels every request and frees the client. Not to be called from a request's callback. */
void apiserver_free(struct apiserver *apiserver);

/**
 * Starts a request for @path (with its query, already escaped): GET, or what @write (copied) says.
 * That may reach the server twice, when the connection is cut after it was sent: the server must be
 * able to tell, by a name or by a test in a patch. @timeout: seconds for the whole transfer.
 * Returns the request, for apiserver_cancel(); NULL with an error if it could not be started.
 */
struct api_request *apiserver_send(struct apiserver *apiserver, const char *path,
                                   const struct api_write *write, double timeout,
                                   const struct api_request_ops *ops, void *ctx, struct error *err);

/** What was counted of all requests so far. A request that was cancelled before its answer came
 * counts as one without. */
const struct request_figures *apiserver_request_figures(const struct apiserver *apiserver);

/** Tells @ops (copied) of the addresses of connections that are tried from now on. */
void apiserver_watch_peers(struct apiserver *apiserver, const struct api_peers_ops *ops);

/** Seconds since the last byte of any answer, or since the start. */
double apiserver_silence(const struct apiserver *apiserver);

/** Ends @request without calling done. Fine from any callback but its own done. */
void apiserver_cancel(struct api_request *request);

#endif
