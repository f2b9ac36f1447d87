/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where objects come from: files, or an API server, to which something may be written as well. */
#ifndef KUBE_NFTD_OBJECT_SOURCE_H
#define KUBE_NFTD_OBJECT_SOURCE_H

#include "kube-nftd/config/client_config.h"
#include "kube-nftd/config/options.h"
#include "kube-nftd/model/object_metadata.h"

struct daemon_status;
struct ev_loop;
struct proxy;

/* Starts zeroed. */
struct object_source {
    struct manifests *manifests; /* NULL: an API server */
    struct client_config client;
    struct apiserver *apiserver; /* NULL: files */
    struct reflector *reflectors[KIND_COUNT];
    struct writers *writers; /* NULL: nothing is written */
};

/** Finds out what can be known before objects are read: nothing is requested yet. */
int object_source_prepare(struct object_source *source, struct ev_loop *loop,
                          const struct options *options, struct error *err);

/** Begins to read objects into @proxy. @strict: every file must parse. */
int object_source_open(struct object_source *source, struct ev_loop *loop,
                       const struct options *options, const char *node_name, struct proxy *proxy,
                       bool strict, struct error *err);

/** Before @proxy is freed. */
void object_source_close(struct object_source *source);

/** Whether it has given @proxy all that it has for now. */
bool object_source_is_exhausted(const struct object_source *source, const struct proxy *proxy);

/** In which encoding the last answer of each kind came; NULL: none came as yet. */
void object_source_encodings(const struct object_source *source, const char *encodings[KIND_COUNT]);

/** Fills in what @status says of the source. */
void object_source_status(const struct object_source *source, struct daemon_status *status);

#endif
