/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where objects come from: files, or an API server, to which something is written as well: events,
 * of which everything else knows just an event_sink, and a startup taint that is taken from the own
 * Node. */
#ifndef KUBE_NFTD_OBJECT_SOURCE_H
#define KUBE_NFTD_OBJECT_SOURCE_H

#include "kube-nftd/config.h"
#include "kube-nftd/model.h"

struct ev_loop;
struct proxy;

/* Starts zeroed, and stays where it is. */
struct object_source {
    struct ev_loop *loop;
    const char *node_name;
    const struct proxy *proxy;   /* asked for the uids of Services; NULL: there is none yet */
    struct manifests *manifests; /* NULL: an API server */
    struct client_config client;
    struct apiserver *apiserver; /* NULL: files */
    struct reflector *reflectors[KIND_COUNT];
    struct event_recorder *recorder; /* NULL: nothing is written */
    struct startup_taint *startup;   /* NULL: no taint is to be removed */
    struct event_sink sink;
    const struct event_sink *events; /* where events go; NULL: nowhere */
};

/** Finds out what can be known before objects are read: nothing is requested yet. @node_name is
 * borrowed. */
int object_source_prepare(struct object_source *source, struct ev_loop *loop, const char *node_name,
                          const struct options *options, struct error *err);

/** From now on an API server is written to. For files it does nothing. */
void object_source_open_writers(struct object_source *source, const struct options *options);

/** Begins to read objects into @proxy. @strict: every file must parse. */
int object_source_open(struct object_source *source, const struct options *options,
                       struct proxy *proxy, bool strict, struct error *err);

/** Before @proxy is freed. */
void object_source_close(struct object_source *source);

/** Whether it has given @proxy all that it has for now. */
bool object_source_is_exhausted(const struct object_source *source, const struct proxy *proxy);

/** The own Node as it is now, or NULL: proxy_config's node_seen, with the source as its ctx. */
void object_source_node_seen(void *source, const struct node *node);

/** The daemon says that it has started (docs/behaviour.md 9.1). */
void object_source_started(const struct object_source *source);

/** Runs the loop until all events are posted or the server does not take them, at most for a few
 * seconds: for the end. */
void object_source_flush(const struct object_source *source);

/**
 * For SIGHUP: compares all manifests and reads the file of --config. How much is logged, and in
 * which format, counts at once; that anything else in it is not as in @options is logged.
 * Credentials are read for each request anyway. One line in the log, and one more for an error,
 * which changes nothing.
 */
void object_source_reload(const struct object_source *source, const struct options *options);

#endif
