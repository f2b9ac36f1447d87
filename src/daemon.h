/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon: all modules on one event loop (daemon.c), and the pages on its metrics address
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
    struct table_monitor *tables; /* NULL: all tables are owned, or no monitor is available */
    struct address_monitor *addresses;
    struct config_watch *config_watch; /* NULL: no --config */
    struct flow_cleaner *flows;        /* NULL: no conntrack netlink in the kernel */
    struct object_source source;
    struct proxy *proxy; /* NULL until the servers are open */
    struct health *health;
    struct metrics *metrics;
    struct explain_gate explain_gate;
    struct list_page list;
    ev_prepare commit;
    ev_timer wake;
    ev_signal terminate, interrupt, hangup;
    double synced_at; /* all Services and EndpointSlices had come; clock_monotonic; 0: not yet */
    bool begun;       /* the first sync was attempted */
    bool programmed;  /* all tables have been applied once */
    const char *config_edited; /* how --config changed, which ends the daemon; NULL: it did not */
    bool ending;               /* SIGTERM or SIGINT came */
};

/** Runs until SIGTERM or SIGINT; the tables stay active. Notifies @manager. -1 with an error if
 * startup fails or the configuration file was edited. */
int daemon_run(const struct options *options, struct service_manager *manager, struct error *err);

/** Applies pending changes. Returns the latest time for the next call (clock_monotonic), or 0. */
double daemon_sync(struct daemon *daemon);

/** Registers the pages of @daemon on its metrics address. */
void pages_add(struct daemon *daemon);

/** A metrics_fn for the daemon @ctx. */
void pages_write_metrics(void *ctx, struct metrics_page *page);

#endif
