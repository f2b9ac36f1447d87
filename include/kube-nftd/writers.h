/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the daemon writes to the API server: events, and a startup taint that it takes from its own
 * Node. Everything else knows of it just an event_sink. */
#ifndef KUBE_NFTD_WRITERS_H
#define KUBE_NFTD_WRITERS_H

#include "kube-nftd/config/options.h"
#include "kube-nftd/model/event.h"
#include "kube-nftd/model/object.h"

struct apiserver;
struct ev_loop;
struct event_recorder;
struct proxy;
struct writers;

/** @node_name and @options are borrowed for the writers' life. */
struct writers *writers_new(struct ev_loop *loop, struct apiserver *apiserver,
                            const char *node_name, const struct options *options);

/** Before the apiserver is freed. NULL is fine. */
void writers_free(struct writers *writers);

/** Where events go; NULL if @writers is. */
const struct event_sink *writers_events(const struct writers *writers);

/** @proxy, which is borrowed, is asked for the uids of Services. */
void writers_set_proxy(struct writers *writers, const struct proxy *proxy);

/** The own Node as it is now, or NULL: proxy_config's node_seen, with the writers as its ctx. */
void writers_node_seen(void *writers, const struct node *node);

/** All tables are applied but for @refused things, as startup_taint_programmed() says. NULL is
 * fine. */
void writers_programmed(struct writers *writers, size_t refused);

/** The daemon says that it has started (docs/behaviour.md 9.1). NULL is fine. */
void writers_started(struct writers *writers);

/** Runs the loop until all events are posted or the server does not take them, at most for a few
 * seconds: for the end. NULL is fine. */
void writers_flush(struct writers *writers);

/** For figures; NULL if @writers is. */
const struct event_recorder *writers_recorder(const struct writers *writers);

#endif
