/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The source of objects: manifest files or an API server. An API server also receives events, which
 * the rest of the daemon reports to an event_sink, and the removal of a startup taint from this
 * node's Node object. */
#ifndef KUBE_NFTD_OBJECT_SOURCE_H
#define KUBE_NFTD_OBJECT_SOURCE_H

#include "kube-nftd/config.h"
#include "kube-nftd/model.h"

struct ev_loop;
struct proxy;

/* Starts zeroed. Must not be moved. */
struct object_source {
    struct ev_loop *loop;
    const char *node_name;
    const struct proxy *proxy;   /* provides uids of Services; NULL: not yet */
    struct manifests *manifests; /* NULL: API server */
    struct client_config client;
    struct apiserver *apiserver; /* NULL: files */
    struct reflector *reflectors[KIND_COUNT];
    struct event_recorder *recorder; /* NULL: no events */
    struct startup_taint *startup;   /* NULL: no taint to remove */
    struct event_sink sink;
    const struct event_sink *events; /* receives events; NULL: none */
};

/** Checks the manifests' path, or loads the kubeconfig. Sends no requests. Borrows @node_name. */
int object_source_prepare(struct object_source *source, struct ev_loop *loop, const char *node_name,
                          const struct options *options, struct error *err);

/** Starts the event recorder and the startup taint's removal. Does nothing for files. */
void object_source_open_writers(struct object_source *source, const struct options *options);

/** Starts to read objects into @proxy. @strict: every file must parse. */
int object_source_open(struct object_source *source, const struct options *options,
                       struct proxy *proxy, bool strict, struct error *err);

/** Call before @proxy is freed. */
void object_source_close(struct object_source *source);

/** Whether @proxy has received all objects available now. */
bool object_source_is_exhausted(const struct object_source *source, const struct proxy *proxy);

/** This node's current Node object, or NULL: proxy_config's node_seen, with the source as ctx. */
void object_source_node_seen(void *source, const struct node *node);

/** Reports the daemon's Starting event (docs/behaviour.md 9.1). */
void object_source_started(const struct object_source *source);

/** Runs the loop at shutdown until all events are posted or the server accepts none, at most for a
 * few seconds. */
void object_source_flush(const struct object_source *source);

/**
 * Handles SIGHUP: compares all manifests and re-reads the file of --config. Log verbosity and
 * format apply at once; other changes relative to @options are logged as needing a restart.
 * Credentials are read for each request anyway. Logs one line, plus one for an error, after which
 * nothing changes.
 */
void object_source_reload(const struct object_source *source, const struct options *options);

#endif
