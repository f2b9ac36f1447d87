/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel alone takes: everything that the pipeline commits is kept, and sent once more,
 * byte for byte, into a table of another name that holds the same. So the bare transaction has the
 * same elements, meets a table of the same size, and computes nothing.
 *
 * The linker puts mirror.c between the pipeline and nft_socket_commit() (--wrap).
 */
#ifndef KUBE_NFTD_BENCH_MIRROR_H
#define KUBE_NFTD_BENCH_MIRROR_H

#include "kube-nftd/netlink.h"

/* What the pipeline has committed since mirror_start(). */
struct mirror_figures {
    double commit;    /* seconds inside nft_socket_commit() */
    double aside;     /* seconds that keeping it took: not the pipeline's */
    size_t bytes;     /* of netlink messages */
    size_t elements;  /* added and deleted */
    unsigned commits; /* transactions */
};

/** From now on commits are only counted: there is nothing to replay. */
void mirror_keep_nothing(void);

/** Forgets what was kept and counts from zero. */
void mirror_start(void);

/** What was committed since mirror_start(); valid until the next one. */
const struct mirror_figures *mirror_figures(void);

/** Sends what was kept into the other table. Returns the seconds, or -1 with @err. What was kept
 * may be sent again only after mirror_remove(). */
double mirror_replay(struct nft_socket *socket, struct error *err);

/** Deletes the other table. */
int mirror_remove(struct nft_socket *socket, struct error *err);

#endif
