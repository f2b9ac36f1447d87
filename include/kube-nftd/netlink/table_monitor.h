/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tells what other programs do to a table of ours, by nf_tables' own events. Knows no Kubernetes.
 *
 * The kernel tells of each object that a transaction touched, then once of the transaction: by
 * which process it was. A socket filter drops what is neither about the table nor the end of
 * another program's transaction, and all that comes from our own socket, so neither our big batches
 * nor those of others fill the queue. However often others commit, the loop is woken at most every
 * TABLE_MONITOR_PAUSE for it.
 *
 * While our own socket commits a large batch, nobody listens, since that would cost the kernel 8
 * KiB for each element of it. If others committed meanwhile, it is as if events were lost.
 */
#ifndef KUBE_NFTD_NETLINK_TABLE_MONITOR_H
#define KUBE_NFTD_NETLINK_TABLE_MONITOR_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/address.h"
#include "kube-nftd/netlink/nft_element.h"

#include <linux/filter.h>

struct ev_loop;
struct nft_socket;
struct table_monitor;

#define TABLE_MONITOR_PAUSE 0.02 /* seconds */

/* Who committed a transaction. Its process may be gone by now. */
struct table_program {
    uint32_t pid;  /* as the host sees it, outside of containers; 0: not known */
    char name[16]; /* what the process calls itself; others chose it, so it may be anything */
    bool peer;     /* it calls itself as this process does: the same program, in an upgrade say */
};

/* What another program did; borrowed. The element is as it was then: it may have changed since. */
struct table_change {
    enum family family;
    const char *set; /* whose element came or went; NULL: something else of the table did */
    const struct nft_element *element;
    const struct table_program *by; /* without a set: who did it; NULL: not known yet */
};

struct table_monitor_ops {
    void (*changed)(void *ctx, const struct table_change *change);
    /* Events were lost: anything may have changed. */
    void (*lost)(void *ctx);
    /* What was told since the last call is to be looked at now; @program did (the last of) it. */
    void (*settled)(void *ctx, const struct table_program *program);
    void *ctx;
};

/**
 * Follows table @table (copied) of both families on @loop.
 * @own  the socket whose changes are not told of; it outlives the monitor, which alone watches its
 *       large batches
 */
struct table_monitor *table_monitor_new(struct ev_loop *loop, const char *table,
                                        struct nft_socket *own, const struct table_monitor_ops *ops,
                                        struct error *err);
void table_monitor_free(struct table_monitor *monitor);

/* ---- for tests ---- */

/** Takes @length bytes of messages apart, as they come from the kernel. */
void table_monitor_take(struct table_monitor *monitor, const void *messages, size_t length);

/** All that came in this turn was taken: tells if there is something to look at. */
void table_monitor_settle(struct table_monitor *monitor);

/** A monitor without a socket. */
struct table_monitor *table_monitor_detached(const char *table, uint32_t own_port,
                                             const struct table_monitor_ops *ops);

/** A large batch of our own begins; it has ended, and so many transactions of it came into force.
 */
void table_monitor_leave(void *monitor);
void table_monitor_listen_again(void *monitor, uint32_t transactions);

#define TABLE_MONITOR_FILTER_SIZE 1000

/** Writes the socket filter; returns how many instructions it has. */
size_t table_monitor_filter(const char *table, uint32_t own_port,
                            struct sock_filter out[TABLE_MONITOR_FILTER_SIZE]);

#endif
