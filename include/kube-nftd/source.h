/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sources of Kubernetes objects: the API server, over HTTPS, and manifest files. A source decodes
 * objects and passes them to a sink. Every source must be closed before the
 * loop ends. Sources log, count and retry their own failures.
 */
#ifndef KUBE_NFTD_SOURCE_H
#define KUBE_NFTD_SOURCE_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Receives the objects: the cache, which a source does not know. */
struct object_sink {
    void *ctx;

    /* The complete contents of a kind: objects not listed are gone. An object without payload keeps
     * its known state. The first replace of a kind is its first sync. Takes the objects and leaves
     * the vector empty. */
    void (*replace)(void *ctx, enum object_kind kind, object_vec *objects);

    /* One object was added or changed; one without payload is only counted. Takes the object and
     * leaves it zeroed. */
    void (*put)(void *ctx, struct object *object);

    /* One object was deleted. Unknown ids are fine. */
    void (*remove)(void *ctx, enum object_kind kind, const char *id);
};

/*
 * Events about objects, for their owners; the API server's source posts them. Reporters call an
 * event_sink and do not wait; delivery is the sink's concern.
 */

enum event_type { EVENT_NORMAL, EVENT_WARNING };

/* Pointers are borrowed for the call. */
struct object_event {
    enum object_kind kind; /* of the object concerned */
    const char *id;
    struct uid uid; /* unknown: looked up for a known Service */
    enum event_type type;
    const char *reason; /* one word for programs: "FailedToStartServiceHealthcheck"; static */
    const char *action; /* the attempted action in one word */
    const char *note;   /* free text; cut at 1024 bytes */
    /* Every node would report the same event: post it once. */
    bool everywhere;
};

struct event_sink {
    void *ctx;
    void (*report)(void *ctx, const struct object_event *event);
};

/** Reports to @sink, if not NULL. */
static inline void event_report(const struct event_sink *sink, const struct object_event *event)
{
    if (sink)
        sink->report(sink->ctx, event);
}

/* Called from within curl: callbacks may only record what they get. */
struct api_peers_ops {
    /* The complete list of current peers. */
    void (*changed)(void *ctx, const struct frontend *peers, size_t n);
    /* Connecting to @peer failed. */
    void (*unreachable)(void *ctx, const struct frontend *peer);
    void *ctx;
};

/* A resource type, as RBAC rules and manifests name it. */
struct api_resource {
    const char *name;        /* "endpointslices.discovery.k8s.io" */
    const char *plural;      /* "endpointslices" */
    const char *group;       /* "discovery.k8s.io"; "" for the core group */
    const char *api_version; /* "discovery.k8s.io/v1" */
};

enum encoding { ENCODING_JSON, ENCODING_PROTOBUF };
#define ENCODING_COUNT 2

/**
 * The value of the Accept header, for the caller to free, as kube-proxy's settings define it:
 * @accepted unless empty, else @preferred followed by JSON. If @accepted contains no supported
 * type, a warning is logged and it counts as empty.
 */
char *encoding_accept(const char *preferred, const char *accepted);

/*
 * Request metrics, the same ones that every Kubernetes client reports (docs/behaviour.md 7):
 * answers by method and status, and their duration. A watch counts when its answer begins and is
 * never timed, because it is meant to stay open.
 */

/* Requests with one method and one outcome. */
struct request_count {
    const char *method; /* static */
    long status;        /* HTTP status; 0: no answer */
    uint64_t count;
};

struct request_times {
    const char *method; /* static */
    struct histogram seconds;
};

/* Both vectors stay short. */
struct request_stats {
    const char *host; /* HOST:PORT from the server's URL */
    VEC(struct request_count) counts;
    VEC(struct request_times) times;
};

/*
 * Concurrent requests to the API server, over one connection if the server offers HTTP/2. Runs
 * libcurl's multi interface on the libev loop. Handles TLS and tokens, not objects.
 */

struct ev_loop;
struct apiserver;
struct api_request;

/* The server is probed after this many seconds of silence while answers are open. If it does not
 * reply, its connections are cut and every request ends with a network error. */
#define APISERVER_SILENCE 30.0

/* How a request ended: the server's answer, or why there is none. Also the object of an ERROR
 * event. */
struct api_status {
    long code;             /* HTTP status; 0: no answer, or an event without a code */
    const char *transport; /* why the transfer failed; NULL: the answer is complete. Borrowed. The
                              text is constant for the same error: no times or counts in it */
    char *message;         /* owned, of limited length: the first line of what the server says about
                              an error; never NULL, may be "" */
    double retry_after;    /* seconds to wait as requested by the server, or -1 */
    double wait;           /* no answer: seconds to wait, the same for all requests; else 0 */
    bool starting;         /* the server was away a short while ago: rejections may pass soon */
    bool expired;          /* the resourceVersion or page is older than the server's history */
    bool too_large;        /* the resourceVersion is from the server's future */
    bool exists;           /* an object of that name exists */
};

struct api_request_ops {
    /* The server answered 200; the body has this encoding and may take its time. May be NULL. */
    void (*opened)(void *ctx, enum encoding encoding);
    /* Bytes of the body of a 200 answer as they arrive. Returns -1 to end the request (done
     * follows), 1 if they are of no use before more arrive, else 0. NULL: the body is discarded. */
    int (*data)(void *ctx, const char *bytes, size_t length);
    /* The request is over and freed. Called once, unless the request was cancelled. */
    void (*done)(void *ctx, const struct api_status *status);
};

/* The payload of a request that writes; NULL for others. */
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
 * Starts a request for @path (with its query, already escaped): GET, or the write in @write
 * (copied). A write may reach the server twice if the connection is cut after it was sent, so the
 * server must be able to detect a repeat, by the object's name or by a test in the patch. @timeout:
 * seconds for the whole transfer. Returns the request, for apiserver_cancel(); NULL with an error
 * if it could not be started.
 */
struct api_request *apiserver_send(struct apiserver *apiserver, const char *path,
                                   const struct api_write *write, double timeout,
                                   const struct api_request_ops *ops, void *ctx, struct error *err);

/** Metrics of all requests so far. A request cancelled before its answer counts as unanswered. */
const struct request_stats *apiserver_request_stats(const struct apiserver *apiserver);

/** Reports the peer addresses of all later connections to @ops (copied). */
void apiserver_watch_peers(struct apiserver *apiserver, const struct api_peers_ops *ops);

/** Seconds since the last byte of any answer, or since startup. */
double apiserver_silence(const struct apiserver *apiserver);

/** Ends @request without calling done. Allowed in any callback except its own done. */
void apiserver_cancel(struct api_request *request);

/*
 * Posts events to the API server (events.k8s.io/v1) under kube-proxy's name (docs/behaviour.md
 * 9.1). A repeated event is only counted, unless 6 minutes have passed without a report of it, or
 * 30 minutes since it was posted.
 *
 * An event that every node would post gets the same name on all of them: the first node creates it,
 * the others get AlreadyExists.
 *
 * Everything is limited: the request rate (kube-proxy's clientConnection.qps and burst), one
 * request at a time, and the number of remembered or queued events per object, per namespace and in
 * total. Excess events, events that the server rejects and events not accepted in 12 tries are
 * dropped and counted. Nothing waits for an event. Only errors of the server or of our access (no
 * answer, a busy server, a missing permission) delay other events; the rejection of a single object
 * or namespace does not.
 */

struct event_recorder;

/* Limits on distinct events remembered or queued: per object, per namespace (events of
 * cluster-scoped objects go to "default") and in total. */
#define EVENTS_PER_OBJECT 10
#define EVENTS_PER_NAMESPACE 100
#define EVENTS_LIMIT 500

/* Outcomes of reported events. */
struct event_stats {
    uint64_t posted;   /* accepted by the server */
    uint64_t repeated; /* same as a remembered event */
    uint64_t failed;   /* rejected, or not accepted in time */
    uint64_t dropped;  /* over one of the limits */
};

/** Borrows @node_name; @host_name goes into reportingInstance. @qps: posts per second; <= 0: no
 * limit. */
struct event_recorder *event_recorder_new(struct ev_loop *loop, struct apiserver *apiserver,
                                          const char *node_name, const char *host_name, double qps,
                                          double burst);

/** Drops events not yet posted. Call before the apiserver is freed. NULL is fine. */
void event_recorder_free(struct event_recorder *recorder);

/** Queues @event: the report function of an event_sink, with the recorder as its ctx. The node's
 * name is prepended to the note of an event that is neither posted by all nodes nor about the
 * Node. */
void event_recorder_report(void *recorder, const struct object_event *event);

/** Whether nothing is left to post, or the server currently accepts nothing. */
bool event_recorder_is_idle(const struct event_recorder *recorder);

struct event_stats event_recorder_stats(const struct event_recorder *recorder);

/*
 * Objects from a file or a folder of files (*.yaml, *.yml, *.json; subfolders and names with a
 * leading dot are ignored), followed by inotify.
 *
 * A file is read when its writer closes it or moves it into place, so never half-written. Only
 * where all files are compared (at startup, after lost events, in a replaced folder) is a file read
 * as it is, and again when its writer closes it. A file that does not parse, or looks truncated,
 * keeps the objects loaded from it before. If two files define the same object, the file whose name
 * sorts first wins; when that file drops the object, the next one is read again. Objects that
 * kube-proxy's selectors exclude at the API server are ignored.
 *
 * Symbolic links are followed, including those on the way to @path. Their targets may be rewritten,
 * replaced or missing for a while, and links may be switched, as the kubelet does for a ConfigMap.
 * A switch is noticed at once, other changes outside the folder within a second or two. The folder
 * itself may be replaced: the new one is compared after two seconds without changes, since it may
 * be filled file by file, but not while it is empty. While the folder or a link's target is
 * missing, the loaded objects are kept.
 */

struct manifests;

/* What becomes of a folder's initial contents when some of its files cannot be read: they do not
 * parse, look truncated, or are links to nothing. */
enum manifests_mode {
    MANIFESTS_STRICT,  /* manifests_open() fails */
    MANIFESTS_PARTIAL, /* the other files are passed on */
    MANIFESTS_WHOLE,   /* nothing is passed on until all of them can be read, and there is one */
};

/**
 * Reads @path once and passes everything to @sink: one replace for each kind. A missing @path, or a
 * single file that cannot be read, is an error. Returns NULL on error. From time to time meanwhile,
 * what is due on @between runs, so that probes need not wait; NULL: nothing does.
 */
struct manifests *manifests_open(const char *path, const struct object_sink *sink,
                                 enum manifests_mode mode, struct ev_loop *between,
                                 struct error *err);

/** Passes on what can be read if MANIFESTS_WHOLE still waits for the rest, unless tables of the
 * @previous process are active; logs which files that concerns. Else, and for NULL, returns false.
 */
bool manifests_begin(struct manifests *manifests, bool previous);

/** Why some files are not used as they are: "PATH: what is wrong". Borrowed until the next change;
 * NULL: all are. */
const char *manifests_problem(const struct manifests *manifests);

/** Whether everything was passed on, with no problem at some time. */
bool manifests_are_whole(const struct manifests *manifests);

/** Starts to follow the files on @loop: changes arrive as put and remove. */
int manifests_follow(struct manifests *manifests, struct ev_loop *loop, struct error *err);

/** Compares all files with what was last read of them, without waiting for events. False if the
 * folder is gone, or its replacement is empty. */
bool manifests_rescan(struct manifests *manifests);

void manifests_free(struct manifests *manifests);

/*
 * Keeps a sink in sync with one collection of the API server, forever (docs/behaviour.md 10): reads
 * all objects, by a streamed list or else by pages, then follows the changes. One explicit state
 * machine per collection.
 */

struct reflector;

/* Statistics since startup. Texts are borrowed until the next event. */
struct reflector_stats {
    /* The initial state is known: the sink has its first contents, or the server answered that the
     * resource is not available (403, 404). */
    bool answered;
    uint64_t lists;       /* complete lists received, paged or streamed */
    uint64_t resumes;     /* watches opened from a remembered version, without a list */
    uint64_t events;      /* watch events with an object */
    uint64_t bad_objects; /* objects that could not be decoded, every time one arrived */
    uint64_t bad_answers; /* answers abandoned because they were unreadable or did not end */
    uint64_t failures;    /* requests rejected, cut or unanswered */
    uint64_t received[ENCODING_COUNT]; /* bytes of answers, uncompressed */
    const char *encoding;              /* of the last answer; NULL: none yet */
    const char *resource, *state;      /* "services"; "watching" */
    const char *error;                 /* the current error; NULL: none */
    double error_age;                  /* seconds since it came last */
    double next_try;                   /* in so many seconds; 0: it is being tried */
};

/**
 * Starts to reflect all objects of @kind (with kube-proxy's selectors, docs/behaviour.md 1.1; of
 * Nodes only @node_name) into @sink. Objects that cannot be decoded are reported to @events, if not
 * NULL. Both are borrowed. While the server is unreachable, all known objects stay active. Never
 * fails: errors are logged when they change and retried with back-off.
 */
struct reflector *reflector_start(struct ev_loop *loop, struct apiserver *apiserver,
                                  enum object_kind kind, const char *node_name,
                                  const struct object_sink *sink, const struct event_sink *events);

/** Cancels the open request. Must not be called from the sink. */
void reflector_free(struct reflector *reflector);

/** All zero for NULL. */
struct reflector_stats reflector_stats(const struct reflector *reflector);

/*
 * Removes a taint from this node's Node object that keeps pods away until the node can reach
 * services: after the first sync is fully applied, and whenever the taint reappears. Uses a JSON
 * patch that tests each taint it removes as a whole, so no other taint is ever lost. After a
 * conflict the patch is retried for the Node that the watch has delivered by then.
 *
 * Another program may keep putting the taint back. So removals from the same Node are spaced: 1 s
 * apart, doubled up to 5 minutes while the taint returns within 10 minutes. A Node with a new uid
 * is not delayed.
 */

struct startup_taint;

/** Removes every taint that matches @pattern, which is taken. The functions below accept NULL. */
struct startup_taint *startup_taint_new(struct ev_loop *loop, struct apiserver *apiserver,
                                        const char *node_name, const struct taint *pattern);

/** Call before the apiserver is freed. */
void startup_taint_free(struct startup_taint *startup);

/** The current Node object of this node; NULL: it is gone. */
void startup_taint_node_seen(struct startup_taint *startup, const struct node *node);

/**
 * All tables are applied, except for so many frontends and elements that the kernel rejected. With
 * 0 of them the taint is removed, and later calls do nothing. Cheap to call again.
 */
void startup_taint_programmed(struct startup_taint *startup, size_t rejected);

#endif
