/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where connections to the API server go: the addresses and ports (of the server, or of a proxy
 * before it) that were tried or used of late. Knows no curl.
 */
#ifndef KUBE_NFTD_SOURCE_API_PEERS_H
#define KUBE_NFTD_SOURCE_API_PEERS_H

#include "kube-nftd/base/vec.h"
#include "kube-nftd/model/frontend.h"

/* One that was neither tried nor used for so long, in seconds, is forgotten. Twice the time after
 * which each watch is renewed at the latest, which counts as use. */
#define API_PEERS_KEPT 1200.0
/* Of more, those that were used last are known. */
#define API_PEERS_MOST 32

/* Called from within curl: to be taken note of, no more. */
struct api_peers_ops {
    /* These are all of them now. */
    void (*changed)(void *ctx, const struct frontend *peers, size_t n);
    /* There is no connection to @peer: it was tried, and that failed. */
    void (*unreachable)(void *ctx, const struct frontend *peer);
    void *ctx;
};

struct api_peer {
    struct frontend frontend;
    double used_at;
    bool reached; /* since it was tried last */
};

/* Start zeroed. */
struct api_peers {
    struct api_peers_ops ops; /* zeroed: nobody wants to know */
    VEC(struct api_peer) list;
};

void api_peers_clear(struct api_peers *peers);

/** A connection to @address is about to be made; or with @reached, a request goes out on one. */
void api_peers_note(struct api_peers *peers, const char *address, int port, bool reached,
                    double now);

/** A request ended since it found no connection. */
void api_peers_failed(const struct api_peers *peers);

#endif
