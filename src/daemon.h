/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon: all rooms on one loop (daemon.c), and what its metrics address answers about them
 * (pages.c). */
#ifndef KUBE_NFTD_DAEMON_H
#define KUBE_NFTD_DAEMON_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/host.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/serve.h"
#include "object_source.h"
#include "proxy.h"

#include <ev.h>

struct daemon {
    const struct options *options;
    struct service_manager *service_manager;
    struct ev_loop *loop;
    double started; /* clock_realtime */
    char *node_name;
    bool owned[FAMILY_COUNT]; /* no other program can change the table */
    struct nft_socket *socket;
    struct table_monitor *tables; /* NULL: all are owned, or changes cannot be followed */
    struct address_monitor *addresses;
    struct config_watch *config_watch; /* NULL: there is no file */
    struct flow_cleaner *flows;        /* NULL: the kernel has no conntrack over netlink */
    struct object_source source;
    struct proxy *proxy; /* NULL until the servers were opened */
    struct health *health;
    struct metrics *metrics;
    struct explain_gate explain_gate;
    struct list_page list;
    ev_prepare commit;
    ev_timer wake;
    ev_signal terminate, interrupt, hangup;
    double synced_at; /* Services and EndpointSlices were complete; clock_monotonic; 0: not yet */
    bool begun;       /* the first programming was tried */
    bool programmed;  /* all tables were applied once */
    const char *config_edited; /* how: the daemon ends for it */
    bool ending;               /* a signal said so */
};

/** Runs until SIGTERM or SIGINT; the tables stay. @manager is told. -1 if it could not start, or if
 * it ended because its configuration file was edited. */
int daemon_run(const struct options *options, struct service_manager *manager, struct error *err);

/** Programs what has changed. Returns when to call it again at the latest, or 0. */
double daemon_sync(struct daemon *daemon);

/** Adds the pages about @daemon to its metrics address. */
void pages_add(struct daemon *daemon);

/** A metrics_fn for the daemon @ctx. */
void pages_write_metrics(void *ctx, struct metrics_page *page);

#endif
