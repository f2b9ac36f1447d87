/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One request: its options, its answer and its end; and what all requests of a client share. Only
 * api_request.c, apiserver.c, api_connection.c and curl_loop.c know curl.
 */
#ifndef KUBE_NFTD_SOURCE_API_REQUEST_H
#define KUBE_NFTD_SOURCE_API_REQUEST_H

#include "api_connection.h"
#include "curl_loop.h"
#include "kube-nftd/source.h"
#include "server_backoff.h"

#include <curl/curl.h>
#include <ev.h>

struct apiserver {
    struct curl_loop curl;
    struct ev_timer liveness;
    struct api_request *requests;
    const struct client_config *config;
    struct credential token;
    struct api_connection connection;
    struct server_backoff backoff;
    struct request_stats stats;
    char *user_agent;
    double heard_at;           /* the last byte of any answer; initially startup */
    struct api_request *probe; /* the open liveness probe, or NULL */
    double probed_at;
    bool http1; /* the last answer used a connection that cannot be shared */
};

struct api_request {
    struct api_request *prev, *next;
    struct apiserver *apiserver;
    struct api_request_ops ops;
    void *ctx;
    CURL *easy;
    struct curl_slist *headers;
    char error[CURL_ERROR_SIZE];
    VEC(char) body;
    bool added;    /* added to curl's multi handle */
    bool deferred; /* to be added again at the next nudge */
    unsigned resends;
    bool cancelled; /* done must not be called */
    bool connected; /* it has a connection */
    bool alone;     /* it does not wait to share a connection */
    bool opened;
    bool counted; /* in stats.counts */
    bool timed;   /* not a watch */
    const char *method;
    double begun_at;
    bool stopped; /* ended before the body's end */
};

/** Prepares a request, as apiserver_send() describes it; neither linked nor added to curl. NULL
 * with an error if an option or a file of credentials is bad. */
struct api_request *api_request_new(struct apiserver *apiserver, const char *path,
                                    const struct api_write *write, double timeout,
                                    struct error *err);

/** Ends it without calling done, outside of curl. */
void api_request_free(struct api_request *request);

/** It does not wait any more to share a connection. */
void api_request_go_alone(struct api_request *request);

/** curl is done with @request, which was not cancelled: defers it to be sent again, or frees it and
 * calls done. */
void api_request_finish(struct api_request *request, CURLcode code);

/** Counts an answer with @status, 0 for none; of each request the first. */
void api_request_count(struct api_request *request, long status);

#endif
