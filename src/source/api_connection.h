/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The way to the API server, in libcurl's terms: address, TLS, proxy, time limits of connections.
 * Part of apiserver.c; no other file knows curl.
 */
#ifndef KUBE_NFTD_SOURCE_API_CONNECTION_H
#define KUBE_NFTD_SOURCE_API_CONNECTION_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/source.h"

#include <curl/curl.h>
#include <stdbool.h>

/* ---- credentials ---- */

/* What we show to the API server or know it by: a bearer token, a certificate, its key or a bundle
 * of CAs. Perhaps in a file that is replaced while we run. */
enum credential_kind { CREDENTIAL_TOKEN, CREDENTIAL_CERTIFICATES, CREDENTIAL_KEY };

struct credential {
    enum credential_kind kind;
    const char *what; /* for messages: "CA"; borrowed */
    const char *file; /* borrowed; NULL if the text is fixed, or there is none */
    char *text;       /* owned; the last good one, NULL before it */
    bool stale;       /* the file was no good the last time, which was logged */
};

/** Takes a copy of @text and borrows @what and @file; either of the last two may be NULL. Of a
 * token the file wins, else @text. */
void credential_init(struct credential *credential, enum credential_kind kind, const char *what,
                     const char *text, const char *file);

void credential_clear(struct credential *credential);

/**
 * The token without blanks around it, or the PEM text, to use now, borrowed until the next call;
 * NULL if there is none to use. Reads the file anew; one that cannot be read, is cut off or holds
 * nothing of its kind leaves the last good text in use (logged once). -1 if there is not even that.
 */
int credential_get(struct credential *credential, const char **text, struct error *err);

/* ---- where connections go ---- */

/* One that was neither tried nor used for so long, in seconds, is forgotten. Twice the time after
 * which each watch is renewed at the latest, which counts as use. */
#define API_PEERS_KEPT 1200.0
/* Of more, those that were used last are known. */
#define API_PEERS_MOST 32

struct api_peer {
    struct frontend frontend;
    double used_at;
    bool reached; /* since it was tried last */
};

/* The addresses and ports (of the server, or of a proxy before it) that were tried or used of late.
 * Starts zeroed. */
struct api_peers {
    struct api_peers_ops ops; /* zeroed: nobody wants to know */
    VEC(struct api_peer) list;
};

/** A connection to @address is about to be made; or with @reached, a request goes out on one. */
void api_peers_note(struct api_peers *peers, const char *address, int port, bool reached,
                    double now);

/** A request ended since it found no connection. */
void api_peers_failed(const struct api_peers *peers);

/* ---- all of it ---- */

struct api_connection {
    const struct client_config *config; /* borrowed */
    char *base;                         /* what stands before the path in URLs */
    bool secure;                        /* https: credentials may be sent */
    char *proxy;                        /* its URL as curl takes it, or NULL */
    struct credential ca, client_cert, client_key;
    /* Where the certificate is checked against a name of its own; else NULL. */
    struct curl_slist *connect_to;
    char *host_header;
    struct api_peers peers;
};

/** Understands the server's URL. -1 if it is none; nothing is left in @connection then. */
int api_connection_init(struct api_connection *connection, const struct client_config *config,
                        struct error *err);

void api_connection_clear(struct api_connection *connection);

/**
 * Sets all options of @easy but those of the single request. Borrows @connection for it. Reads the
 * certificates' files; curl compares what they hold with what a connection was made with, so a
 * request after a change goes over a connection of its own. -1 with an error if there is no good
 * file, or curl refuses an option.
 */
int api_connection_apply(struct api_connection *connection, CURL *easy, struct error *err);

/**
 * Why a transfer failed with @code, @error being curl's text of it ("" for none), for the caller to
 * free: the same text each time, without times and counts; it names the server. @connected: it was
 * sent.
 */
char *api_connection_error(const struct api_connection *connection, CURL *easy, CURLcode code,
                           const char *error, bool connected);

/* Keeps the first failure of several curl_easy_setopt() calls in @code. */
#define CURL_SET(code, easy, option, value)                                                        \
    do {                                                                                           \
        if (!(code))                                                                               \
            (code) = curl_easy_setopt(easy, option, value);                                        \
    } while (0)

#endif
