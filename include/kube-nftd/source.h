/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where objects come from and go to: the API server, over HTTPS, and files. Sources decode and hand
 * objects to a sink (kube-nftd/model.h); they know nothing of what becomes of them. Whoever opens
 * one closes it before the loop ends. Failures are logged, counted and tried again here.
 */
#ifndef KUBE_NFTD_SOURCE_H
#define KUBE_NFTD_SOURCE_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called from within curl: to be taken note of, no more. */
struct api_peers_ops {
    /* These are all of them now. */
    void (*changed)(void *ctx, const struct frontend *peers, size_t n);
    /* There is no connection to @peer: it was tried, and that failed. */
    void (*unreachable)(void *ctx, const struct frontend *peer);
    void *ctx;
};

/* What requests are about, in the words of RBAC rules and manifests. */
struct api_resource {
    const char *name;        /* "endpointslices.discovery.k8s.io" */
    const char *plural;      /* "endpointslices" */
    const char *group;       /* "discovery.k8s.io"; "" for the core group */
    const char *api_version; /* "discovery.k8s.io/v1" */
};

/** That of the objects of @kind. */
const struct api_resource *collection_resource(enum object_kind kind);

enum encoding { ENCODING_JSON, ENCODING_PROTOBUF };
#define ENCODING_COUNT 2

/** "json", "protobuf". */
const char *encoding_name(enum encoding encoding);

/**
 * What goes into the Accept header, for the caller to free, by kube-proxy's settings: @accepted if
 * it is not empty, else what @preferred is, and JSON. @accepted that has no form that can be read
 * is warned of and counts as empty.
 */
char *encoding_accept(const char *preferred, const char *accepted);

/*
 * What is counted of requests to the API server, as every client of Kubernetes counts it
 * (docs/behaviour.md 7): how many of each method were answered with which status, and how long they
 * took. A watch is counted when it is answered, and never timed: it lasts as long as it may.
 */

/* How often one method had one outcome. */
struct request_count {
    const char *method; /* static */
    long status;        /* of HTTP; 0: no answer came */
    uint64_t count;
};

struct request_times {
    const char *method; /* static */
    struct histogram seconds;
};

/* There are a few of either. */
struct request_stats {
    char *host; /* owned: HOST:PORT of the server, as its URL says it */
    VEC(struct request_count) counts;
    VEC(struct request_times) times;
};

/*
 * Requests to the API server, several at once over one connection where HTTP/2 is offered:
 * libcurl's multi interface on the libev loop. Knows TLS and tokens, not objects.
 */

struct ev_loop;
struct apiserver;
struct api_request;

/* Seconds of silence after which, while answers are open, the server is asked whether it lives. One
 * that does not answer loses its connections, and each request ends as if the network had done it.
 */
#define APISERVER_SILENCE 30.0

/* How a request ended. */
struct api_result {
    long status;           /* HTTP status, 0 if no answer came */
    double retry_after;    /* seconds from Retry-After, or -1 */
    const char *transport; /* why the transfer failed, or NULL for a whole body; borrowed. The same
                            * for the same error: no times or counts in it */
    size_t length;         /* of the body */
};

struct api_request_ops {
    /* The server has answered 200; what comes has this encoding, and may take its time. May be
     * NULL. */
    void (*opened)(void *ctx, enum encoding encoding);
    /* Bytes of the body of a 200 answer as they come. Returns -1 to end the request (done follows).
     * NULL: they are of no interest. */
    int (*data)(void *ctx, const char *bytes, size_t length);
    /* The request is over and freed; called once, unless it was cancelled. @body is the (bounded)
     * start of the body of an answer other than 200, else ""; there is a NUL behind it. */
    void (*done)(void *ctx, const struct api_result *result, const char *body);
};

/* What a request that changes something carries; NULL for others. */
struct api_write {
    const char *method; /* "POST", "PATCH"; static */
    const char *content_type;
    const char *body;
};

/** A client on @loop. Borrows @config, which must outlive it. */
struct apiserver *apiserver_new(struct ev_loop *loop, const struct client_config *config,
                                struct error *err);

/** Cancels every request and frees the client. Not to be called from a request's callback. */
void apiserver_free(struct apiserver *apiserver);

/**
 * Starts a request for @path (with its query, already escaped): GET, or what @write (copied) says.
 * That may reach the server twice, when the connection is cut after it was sent: the server must be
 * able to tell, by a name or by a test in a patch. @timeout: seconds for the whole transfer.
 * Returns the request, for apiserver_cancel(); NULL with an error if it could not be started.
 */
struct api_request *apiserver_send(struct apiserver *apiserver, const char *path,
                                   const struct api_write *write, double timeout,
                                   const struct api_request_ops *ops, void *ctx, struct error *err);

/** What was counted of all requests so far. A request that was cancelled before its answer came
 * counts as one without. */
const struct request_stats *apiserver_request_stats(const struct apiserver *apiserver);

/** Tells @ops (copied) of the addresses of connections that are tried from now on. */
void apiserver_watch_peers(struct apiserver *apiserver, const struct api_peers_ops *ops);

/** Seconds since the last byte of any answer, or since the start. */
double apiserver_silence(const struct apiserver *apiserver);

/** Ends @request without calling done. Fine from any callback but its own done. */
void apiserver_cancel(struct api_request *request);

/*
 * Posts events to the API server (events.k8s.io/v1), under kube-proxy's name (docs/behaviour.md
 * 9.1). The same event again is only counted, until it is posted anew: after 6 minutes without it,
 * or 30 minutes after it was posted.
 *
 * An event that all nodes would post gets a name that is the same from all of them: whoever comes
 * first creates it, the others hear that it is there.
 *
 * Everything is bounded: requests in sum (kube-proxy's clientConnection.qps and burst) and at a
 * time (one), events of one object, of one namespace, events that are remembered or wait. What is
 * beyond that, and what the server refuses or does not take in 12 tries, is dropped and counted.
 * Nobody waits for it. Only what is about the server or about us holds up the others (no answer, a
 * busy server, a right that is missing), not what one object or namespace is refused for.
 */

struct event_recorder;

/* Different events of one object, of one namespace (what has none is one too), and of all, that are
 * remembered or wait. */
#define EVENTS_PER_OBJECT 10
#define EVENTS_PER_NAMESPACE 100
#define EVENTS_LIMIT 500

/* What became of what was reported. */
struct event_stats {
    uint64_t posted;   /* the server has it */
    uint64_t repeated; /* it is the same as one that is remembered */
    uint64_t failed;   /* refused, or not taken in time */
    uint64_t dropped;  /* more than is remembered, in sum or of the object */
};

/** @node_name is borrowed; @host_name goes into reportingInstance. @qps: posts a second; 0 or less:
 * no limit. */
struct event_recorder *event_recorder_new(struct ev_loop *loop, struct apiserver *apiserver,
                                          const char *node_name, const char *host_name, double qps,
                                          double burst);

/** Forgets what was not posted. Before the apiserver is freed. NULL is fine. */
void event_recorder_free(struct event_recorder *recorder);

/** Takes note of @event: an event_sink's report, with the recorder as its ctx. An event that does
 * not come from all nodes and is not about the Node gets the node's name before its note. */
void event_recorder_report(void *recorder, const struct object_event *event);

/** Whether nothing is left to post now, or nothing can be posted since the server does not take it.
 */
bool event_recorder_is_settled(const struct event_recorder *recorder);

struct event_stats event_recorder_stats(const struct event_recorder *recorder);

/*
 * Objects from a file or a folder of files (*.yaml, *.yml, *.json; not below subfolders, names
 * with a leading dot are left out), followed by inotify.
 *
 * Contents are taken when a writer closes a file or moves one into place, so a change is not read
 * half-written; only at the start, and where all files are compared since names are not enough, is
 * a file taken as it is, and once more when its writer closes it. A file that does not parse, or
 * that looks like the first part of one, keeps what was loaded from it before. An object that two
 * files hold belongs to the file whose name sorts first; when that one drops it, the next file is
 * read again. Objects that the API server would keep from kube-proxy by its selectors are left out.
 *
 * Links are followed, those in the way to @path too: what they lead to may be rewritten, replaced
 * or missing for a while, and they may be switched (as the kubelet does with a ConfigMap, which is
 * noticed at once; other changes outside of the folder are, in a second or two). The folder may be
 * replaced as a whole, and is compared then when nothing has changed in it for two seconds, since
 * it may be filled file by file; an empty one is not compared. While the folder, or what a link
 * leads to, is away, what was loaded is kept.
 */

struct manifests;

/** Whether @path is a folder or a file that can be read. -1 with an error if not. */
int manifests_check(const char *path, struct error *err);

/**
 * Reads @path once and hands everything to @sink: one replace for each kind.
 * A folder with an unreadable file is loaded without it (logged) unless @strict, which
 * --dump-rules wants. A @path that is not there, or a single file that does not parse, is an error.
 * Returns NULL on error.
 */
struct manifests *manifests_open(const char *path, const struct object_sink *sink, bool strict,
                                 struct error *err);

/** Follows the files from now on, on @loop: changes arrive as put and remove. */
int manifests_follow(struct manifests *manifests, struct ev_loop *loop, struct error *err);

/** Compares all files that are followed with what was read of them, without waiting for events.
 * False if the folder is gone. */
bool manifests_look_again(struct manifests *manifests);

void manifests_free(struct manifests *manifests);

/*
 * Keeps a sink true to one collection of the API server, for ever (docs/behaviour.md 10): takes all
 * there is, by a streamed list or else by pages, and then follows the changes. One explicit state
 * machine a collection.
 */

struct reflector;

/* What happened since the start. Texts are borrowed until the next event. */
struct reflector_stats {
    /* It is known what there is: the sink has its first contents, or the server has answered that
     * there are none to be had (403, 404). */
    bool answered;
    uint64_t lists;       /* whole contents taken, by a list or a stream */
    uint64_t resumes;     /* watches opened that go on from a version remembered, without a list */
    uint64_t events;      /* of watches, each with an object */
    uint64_t bad_objects; /* objects that could not be read, each time they came */
    uint64_t bad_answers; /* answers given up since they could not be read, or did not end */
    uint64_t failures;    /* requests refused, cut or not answered */
    uint64_t received[ENCODING_COUNT]; /* bytes of answers, uncompressed */
    const char *encoding;              /* of the last answer; NULL: there was none */
    const char *resource, *state;      /* "services"; "watching" */
    const char *error;                 /* what is wrong with requests now; NULL: nothing */
};

/**
 * Starts to reflect all objects of @kind (with kube-proxy's selectors, docs/behaviour.md 1.1; of
 * Nodes just @node_name) into @sink. Objects that cannot be read become events for @events, if not
 * NULL. Both are borrowed. While the server cannot be reached everything known stays active. Never
 * fails: errors are logged when they change and retried with back-off.
 */
struct reflector *reflector_start(struct ev_loop *loop, struct apiserver *apiserver,
                                  enum object_kind kind, const char *node_name,
                                  const struct object_sink *sink, const struct event_sink *events);

/** Ends the request that is open. Not to be called from the sink. */
void reflector_free(struct reflector *reflector);

/** What has happened up to now; of NULL, nothing. */
struct reflector_stats reflector_stats(const struct reflector *reflector);

/*
 * Takes a taint from the own Node that keeps pods away until the node can reach services: when the
 * first programming is applied everywhere, and again whenever the Node has it after that. A JSON
 * patch that tests each taint it removes as a whole, so nothing else is ever lost; what has changed
 * meanwhile is tried again with what the watch has brought by then.
 *
 * Somebody else may put the taint back each time. So between two removals from the same Node there
 * is a pause: 1 s, doubled up to 5 minutes while the taint comes back within 10 minutes. A Node
 * with another uid waits for nothing.
 */

struct startup_taint;

/** Removes any taint that @pattern means, which is taken. The functions below take NULL, too. */
struct startup_taint *startup_taint_new(struct ev_loop *loop, struct apiserver *apiserver,
                                        const char *node_name, const struct taint *pattern);

/** Before the apiserver is freed. */
void startup_taint_free(struct startup_taint *startup);

/** The own Node as it is now; NULL: it is gone. */
void startup_taint_node_seen(struct startup_taint *startup, const struct node *node);

/**
 * All tables are applied, but for @refused frontends and elements that the kernel refuses: the
 * taint goes if there are none. Cheap to be called again; the first time without any counts for
 * good.
 */
void startup_taint_programmed(struct startup_taint *startup, size_t refused);

#endif
