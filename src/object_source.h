/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What feeds a proxy: objects from manifest files or an API server, and the addresses of this host.
 * An API server also receives events, which the rest of the daemon reports to an event_sink, and
 * the removal of a startup taint from this node's Node object. */
#ifndef KUBE_NFTD_OBJECT_SOURCE_H
#define KUBE_NFTD_OBJECT_SOURCE_H

#include "kube-nftd/config.h"
#include "kube-nftd/model.h"
#include "kube-nftd/source.h"

struct ev_loop;
struct proxy;
struct service_manager;

/* Starts zeroed but for the first three members, which the caller sets. Must not be moved. */
struct object_source {
    struct ev_loop *loop;
    const struct options *options; /* borrowed */
    const char *node_name;         /* borrowed */
    struct proxy *proxy;           /* borrowed; NULL: not yet */
    struct manifests *manifests;   /* NULL: API server */
    struct client_config client;
    struct apiserver *apiserver; /* NULL: files */
    struct reflector *reflectors[KIND_COUNT];
    struct address_monitor *addresses;
    struct device_monitor *devices;  /* NULL: no --flowtable-devices */
    struct event_recorder *recorder; /* NULL: no events */
    struct startup_taint *startup;   /* NULL: no taint to remove */
    struct event_sink sink;
    const struct event_sink *events; /* receives events; NULL: none */
};

/** Runs the loop until there is a complete kubeconfig, or somebody ends it: the kubelet's appears
 * only when the node joins the cluster. Returns at once for files, and if there is one. Tells
 * @manager what it waits for. */
void object_source_wait(const struct object_source *source, const struct service_manager *manager);

/** Checks the manifests' path, or loads the kubeconfig. Sends no requests. */
int object_source_prepare(struct object_source *source, struct error *err);

/** Starts the event recorder and the startup taint's removal. Does nothing for files. */
void object_source_open_writers(struct object_source *source);

/** Starts to read objects and addresses into @proxy. @mode is for files. */
int object_source_open(struct object_source *source, struct proxy *proxy, enum manifests_mode mode,
                       struct error *err);

/** Call before the proxy is freed. */
void object_source_close(struct object_source *source);

/** Whether the proxy has received all objects available now. */
bool object_source_is_exhausted(const struct object_source *source);

/** Reports the daemon's Starting event (docs/behaviour.md 9.1). */
void object_source_started(const struct object_source *source);

/** Runs the loop at shutdown until all events are posted or the server accepts none, at most for a
 * few seconds. */
void object_source_flush(const struct object_source *source);

/**
 * Handles SIGHUP: compares all manifests and re-reads the file of --config. Log verbosity and
 * format apply at once; other changes are logged as needing a restart. Credentials are read for
 * each request anyway. Logs one line, plus one for an error, after which nothing changes.
 */
void object_source_reload(const struct object_source *source);

#endif
