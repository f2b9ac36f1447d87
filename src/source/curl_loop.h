/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libcurl's multi interface on libev: curl requests descriptors and a timeout, libev reports when
 * they are due, and curl_multi_socket_action() does the work.
 *
 * curl forbids adding and removing transfers inside its own callbacks. There (@inside) they are
 * only marked, by who owns them; @returned adds and removes them after curl has returned.
 */
#ifndef KUBE_NFTD_SOURCE_CURL_LOOP_H
#define KUBE_NFTD_SOURCE_CURL_LOOP_H

#include <curl/curl.h>
#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Whether to wait a moment for more bytes before the next read. The API server flushes each event
 * by itself: during a streamed list, thousands per second, most CPU time would go into waking up
 * for single events. Nothing can be done with them before the last one arrives. Everything else is
 * read at once: changes are applied as they come.
 */

/* Starts zeroed. */
struct gathering {
    size_t contents, others; /* bytes since the last wake-up: of incomplete contents, of the rest */
    unsigned wakes;          /* in a row that brought only contents */
};

/** A wake-up has read its bytes. Returns the seconds to wait before the next read, 0 for none. */
double gathering_woken(struct gathering *gathering);

struct curl_loop_ops {
    /* curl has returned: transfers may be added and removed, before the ends are reported. */
    void (*returned)(void *ctx);
    /* A transfer ended; it is still added. */
    void (*ended)(CURL *easy, CURLcode code);
    /* Whether some transfer waits for a connection; begins a nudge. */
    bool (*nudged)(void *ctx);
    void *ctx;
};

struct curl_loop {
    struct ev_loop *loop;
    CURLM *multi;
    struct curl_loop_ops ops;
    struct ev_timer timer;
    struct ev_timer nudge;
    struct socket_watch *watches;
    struct gathering gathering; /* who gets bytes counts them here */
    bool inside;                /* curl is running: in its callbacks */
    bool due;                   /* it requested an immediate call */
};

/** Aborts without memory. */
void curl_loop_init(struct curl_loop *curl, struct ev_loop *loop, const struct curl_loop_ops *ops);

/** Call once no transfer is added any more. */
void curl_loop_clear(struct curl_loop *curl);

/** Adds a transfer, not inside. Remove it by curl_multi_remove_handle(). */
void curl_loop_add(struct curl_loop *curl, CURL *easy);

/** Transfers wait for a connection, or will: nudges begin anew. */
void curl_loop_nudge(struct curl_loop *curl);

/** Ends all transfers with a network error, from the next turn of the loop on. */
void curl_loop_cut(struct curl_loop *curl);

#endif
