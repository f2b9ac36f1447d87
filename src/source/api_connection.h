/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections to the API server in libcurl's terms: address, TLS, proxy, timeouts.
 */
#ifndef KUBE_NFTD_SOURCE_API_CONNECTION_H
#define KUBE_NFTD_SOURCE_API_CONNECTION_H

#include "credential.h"
#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/source.h"

#include <curl/curl.h>
#include <stdbool.h>

/* ---- where connections go ---- */

/* Peers not tried or used for this many seconds are dropped. Twice the maximum duration of a watch,
 * whose renewal counts as use. */
#define API_PEERS_KEPT 1200.0
/* Beyond this number, the least recently used peer is dropped. */
#define API_PEERS_MOST 32

struct api_peer {
    struct frontend frontend;
    double used_at;
    bool reached; /* since the last attempt */
};

/* The recently tried or used addresses and ports of the server, or of a proxy before it. Starts
 * zeroed. */
struct api_peers {
    struct api_peers_ops ops; /* zeroed: no callbacks */
    VEC(struct api_peer) list;
};

/** Records a coming connection to @address or, if @reached, a request sent over one. */
void api_peers_use(struct api_peers *peers, const char *address, int port, bool reached,
                   double now);

/** A request ended because no connection could be made. */
void api_peers_failed(const struct api_peers *peers);

/* ---- connection ---- */

struct api_connection {
    const struct client_config *config; /* borrowed */
    char *base;                         /* URL prefix before the path */
    char *authority;                    /* HOST:PORT of the configured server */
    bool secure;                        /* https: credentials may be sent */
    char *proxy;                        /* its URL in curl's form, or NULL */
    struct credential ca, client_cert, client_key;
    struct curl_slist *connect_to; /* the real server if tls-server-name is set; else NULL */
    struct api_peers peers;
};

/** Parses the server's URL. On -1, @connection holds nothing. */
int api_connection_init(struct api_connection *connection, const struct client_config *config,
                        struct error *err);

void api_connection_clear(struct api_connection *connection);

/**
 * Sets all options of @easy except those of the single request. @easy borrows @connection. Reads
 * the certificate files; curl reuses a connection only for the same certificates, so the first
 * request after a change opens a new one. -1 with an error if no good file exists or curl rejects
 * an option.
 */
int api_connection_apply(struct api_connection *connection, CURL *easy, struct error *err);

/**
 * Why a transfer failed with @code, for the caller to free. Names the server; free of times and
 * counts, so the same error gives the same text. @error: curl's own text, "" for none. @connected:
 * the request was sent.
 */
char *api_connection_error(const struct api_connection *connection, CURL *easy, CURLcode code,
                           const char *error, bool connected);

/* ---- options ---- */

/* Leaves the first failure of several curl_easy_setopt() calls in @code. */
#define CURL_SET(code, easy, option, value)                                                        \
    do {                                                                                           \
        if (!(code))                                                                               \
            (code) = curl_easy_setopt(easy, option, value);                                        \
    } while (0)

#endif
