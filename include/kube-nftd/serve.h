/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the daemon answers over HTTP: health, metrics, pages for people and for the commands. Reads
 * what other rooms lend, keeps nothing of it.
 */
#ifndef KUBE_NFTD_SERVE_H
#define KUBE_NFTD_SERVE_H

#include "kube-nftd/base.h"
#include "kube-nftd/cache.h"
#include "kube-nftd/host.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/policy.h"
#include "kube-nftd/source.h"
#include "kube-nftd/table.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One listening socket that answers HTTP: libmicrohttpd inside the libev loop, without threads.
 * Any method is taken; of a request's body just the beginning is kept. Connections, their memory,
 * their time and the bodies are bounded, and whoever is slow makes room for others.
 */

struct ev_loop;
struct http_listener;

/* What is kept of the body of a request. */
#define HTTP_BODY_KEPT 64

struct MHD_Connection;

struct http_request {
    const char *method;
    const char *path;                  /* without the query */
    const char *body;                  /* its first HTTP_BODY_KEPT bytes, up to a NUL */
    struct MHD_Connection *connection; /* for the functions below alone */
};

struct http_header {
    const char *name; /* static */
    char *value;      /* owned */
};

/* Starts as status 200 with an empty body. */
struct http_answer {
    unsigned status;
    char *body;    /* owned; NULL for none */
    size_t length; /* of the body; 0: it is a string */
    /* Called once when the body was sent or given up, with its length; may be NULL. */
    void (*released)(void *ctx, size_t length);
    void *released_ctx; /* outlives the listener */
    /* In place of a body: see http_answer_stream(). NULL: there is a body. */
    size_t (*more)(void *stream, char *to, size_t room);
    void (*end)(void *stream);
    void *stream;
    VEC(struct http_header) headers;
};

/* Fills @answer. Must not close the listener. */
typedef void (*http_answer_fn)(void *ctx, const struct http_request *request,
                               struct http_answer *answer);

/**
 * Listens at @address; @answer is called for each request, in turns of the loop. For both families
 * that is one dual-stack socket, or an IPv4 one if the kernel has no IPv6. NULL with an error if
 * the address cannot be had.
 */
struct http_listener *http_listener_open(struct ev_loop *loop, const struct listen_address *address,
                                         http_answer_fn answer, void *ctx, struct error *err);

/** Closes the socket and all connections. NULL is fine. */
void http_listener_close(struct http_listener *listener);

/** The query's value of @name, unescaped and borrowed: "" for "?name", NULL without it. */
const char *http_request_argument(const struct http_request *request, const char *name);

/** Whether that value has a NUL in it (%00), so that what http_request_argument() gives is cut. */
bool http_request_argument_is_cut(const struct http_request *request, const char *name);

/** The value of a header, borrowed; NULL if it is not there. */
const char *http_request_header(const struct http_request *request, const char *name);

/** Adds a header. @name must be static. */
void http_answer_header(struct http_answer *answer, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** A plain text with @status. */
void http_answer_text(struct http_answer *answer, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** JSON with @status; takes @body. */
void http_answer_json(struct http_answer *answer, unsigned status, char *body);

/**
 * 200 with a body that is made piece by piece: each time that the client has taken some, @more
 * writes at most @room bytes to @to and returns how many; 0: that was all. @end is called once with
 * @stream, which it frees, when the answer is over or given up.
 */
void http_answer_stream(struct http_answer *answer, const char *type,
                        size_t (*more)(void *stream, char *to, size_t room),
                        void (*end)(void *stream), void *stream);

/** Whether the request is a GET or HEAD; else answers 405. */
bool http_answer_reads(const struct http_request *request, struct http_answer *answer);

/* How a 503 begins after which it is worth to try again soon. */
#define HTTP_BUSY "busy"

/** 503, while other requests are answered. */
void http_answer_busy(struct http_answer *answer);

/** The answer for a path that is not there: 404, "404 page not found". */
void http_answer_not_found(struct http_answer *answer);

/* Trees of facts, as cJSON: what a page of the daemon says, and a command prints. Adding to one
 * never fails. */

struct fact {
    const char *key;
    enum { FACT_NULL, FACT_TEXT, FACT_NUMBER, FACT_FLAG } type;
    const char *text;
    double number;
};

/** @text NULL: null. */
static inline struct fact fact_text(const char *key, const char *text)
{
    return (struct fact){key, text ? FACT_TEXT : FACT_NULL, text, 0};
}

static inline struct fact fact_number(const char *key, double number)
{
    return (struct fact){key, FACT_NUMBER, NULL, number};
}

/** @number 0: null. */
static inline struct fact fact_nonzero(const char *key, double number)
{
    return (struct fact){key, number != 0 ? FACT_NUMBER : FACT_NULL, NULL, number};
}

static inline struct fact fact_flag(const char *key, bool value)
{
    return (struct fact){key, FACT_FLAG, NULL, value};
}

/* Adds facts to the object @to. */
#define facts_add(to, ...)                                                                         \
    facts_add_all((to), (const struct fact[]){__VA_ARGS__},                                        \
                  sizeof((const struct fact[]){__VA_ARGS__}) / sizeof(struct fact))
void facts_add_all(cJSON *to, const struct fact *facts, size_t n);

/** A text in the object @to; or at the end of the array @to, with @key NULL. */
void facts_format(cJSON *to, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define facts_append_text(array, ...) facts_format((array), NULL, __VA_ARGS__)

/** A new object at the end of an array. */
cJSON *facts_append(cJSON *array);

/** A member of @object; NULL if there is none, or no object. */
const cJSON *facts_at(const cJSON *object, const char *key);

/** The text that it is, or "". */
const char *facts_text_at(const cJSON *object, const char *key);

/** The JSON, on one line and UTF-8 whatever the texts are, for the caller to free. */
char *facts_print(const cJSON *facts);

/*
 * Trees of facts as text, by views, which are data; or as JSON.
 *
 * A line of a view is text with
 *
 *     {path}           the value there ("a.b"); {} is the item itself; lists get commas
 *     {path|other}     or other, if there is none
 *     [path?text]      text, if there is a value; [!path?text], if there is none;
 *                      [path=word?text], if it is that word
 *
 * where false, 0, "" and empty lists are no values, although {path} prints 0. Sections may be
 * nested. A line that comes out empty is not printed, and nothing of its item. The lines of a list
 * that have tabs are a table; VIEW_... are styles, for terminals. Control characters in values
 * become '?'.
 */

#define VIEW_BOLD "\1"
#define VIEW_GOOD "\2"
#define VIEW_DOUBT "\3"
#define VIEW_BAD "\4"
#define VIEW_PLAIN "\5" /* ends the others */

/* Of a table with titles; an array of them ends with a zeroed one. */
struct column {
    const char *title, *line;
    enum {
        ALWAYS,
        WIDE,    /* only in wide tables */
        COUNTED, /* likewise, and only if the first item has "connections" */
    } when;
};

/* Part of a text; an array of them ends with a zeroed one. */
struct view {
    const char *path;  /* of an object, or of a list for each item of it; NULL: the item itself */
    const char *title; /* a line before all of them; NULL: none */
    const char *line;
    const struct column *columns; /* in place of the line; NULL: that */
    const struct view *inner;     /* printed behind the line of each item; NULL: nothing */
};

struct view_style {
    size_t width; /* of tables in characters; 0: no limit */
    bool colours;
    bool wide;
};

/** What suits @out: a terminal has a width, and colours unless NO_COLOR is set. */
struct view_style view_style(FILE *out);

void view_print(const struct view *views, const cJSON *facts, const struct view_style *style,
                FILE *out);

/** The whole tree, with what would do something to a terminal escaped. */
void view_print_json(const cJSON *facts, FILE *out);

struct health;

/* What explanations and lists are made from; all borrowed. */
struct explain_sources {
    bool complete;       /* Services and EndpointSlices are all known */
    bool from_manifests; /* nobody programs this: it was just computed */
    bool unhealthy;      /* health checks answer 503 for it, whatever endpoints there are */
    const char *node_name;
    const char *encodings[KIND_COUNT]; /* of what the API server sends, "protobuf"; or NULL */
    const struct service_cache *services;
    const struct endpoint_slice_cache *slices;
    const range_vec *service_cidrs; /* what they cover, by family */
    const struct policy *policy;
    const struct health *health; /* NULL: nobody answers balancers here */
    bool no_external_ips;        /* external IPs of Services are not proxied */
    struct table_view family[FAMILY_COUNT];
};

/* An answer made from what is known, for the caller to delete. */
typedef cJSON *(*explain_answer_fn)(const struct explain_sources *sources, const void *query);

/*
 * Why traffic goes where it goes: the Service of an address, its endpoints and why each of them is
 * used from here or not, what the kernel holds, and whether that is what was decided. Reads caches,
 * policy and kernel, and changes nothing. docs/operating.md describes the fields.
 */

#define EXPLAIN_KIND "KubeNftdExplanation"

/* What an explanation is asked of: "10.96.0.10:80", "[fd00::1]:53/UDP", "localhost:30001", an
 * address alone, a node port alone, "default/web:http", "web.default.svc". */
struct explain_query {
    char *text; /* as it was asked; owned */
    bool all;   /* list every endpoint, however many there are */
    /* A Service, if service_id is not NULL; else an address, a port, or both. */
    bool has_address;
    enum family family;
    struct address address;
    uint16_t port;    /* 0: not given */
    uint8_t protocol; /* likewise */
    char *service_id; /* "namespace/name"; owned */
    char *port_name;  /* or its number; NULL: all ports; owned */
};

/** Reads @text, which may come from anywhere. -1 with an error that says what is wrong with it;
 * @query is cleared then. */
int explain_query_parse(const char *text, struct explain_query *query, struct error *err);

void explain_query_clear(struct explain_query *query);

/** An explain_answer_fn of a struct explain_query. @sources must be complete. What it costs is
 * bounded: what is left out is counted. */
cJSON *explain(const struct explain_sources *sources, const void *query);

/* Keeps questions from taking all of the loop's time or memory: after an answer that cost much
 * there is a pause, and answers that nobody reads hold up the next. Starts zeroed; outlives the
 * listener. */
struct explain_gate {
    double closed_until; /* clock_monotonic */
    size_t unread;       /* bytes of answers that are not sent yet */
};

/** Answers GET /explain?what=...[&all=true] from @sources; 503 while @gate is closed. */
void explain_answer(const struct explain_sources *sources, struct explain_gate *gate,
                    const struct http_request *request, struct http_answer *answer);

/** Whether a question is answered now: else there is no use in preparing for it. */
bool explain_gate_is_open(const struct explain_gate *gate);

/*
 * Services in short: what each has for clients, how many endpoints, and whether the kernel holds
 * that. docs/operating.md describes the fields. The page is answered in pieces, each of which takes
 * less than a millisecond, however many Services there are: between two of them the loop does what
 * has come. Services are in no order.
 */

#define LIST_KIND "KubeNftdServiceList"
#define CONNECTIONS_KIND "KubeNftdConnections"

/* Which Services: patterns as in a shell; NULL: all. Borrowed. */
struct list_query {
    const char *namespace, *name;
};

/** All of them at once: an explain_answer_fn of a struct list_query. */
cJSON *list_facts(const struct explain_sources *sources, const void *query);

/* What the page is answered from; outlives the listener. */
struct list_page {
    /* What is known now; false while there is nothing. */
    bool (*sources)(void *ctx, struct explain_sources *sources);
    /* Whether the counts of connections are as of @since (clock_monotonic) or later; if not, it
     * reads a piece of them. And as of when they are. */
    bool (*counted)(void *ctx, double since);
    double (*counted_at)(void *ctx);
    void *ctx;
    unsigned open; /* answers that are not complete; starts as 0 */
};

/** Answers GET /list[?namespace=PATTERN][&name=PATTERN] from the list_page @page; 503 while others
 * are answered. An http_answer_fn. */
void list_answer(void *page, const struct http_request *request, struct http_answer *answer);

/** The same for GET /connections: the Services that anybody connected to, and how often. */
void list_answer_connections(void *page, const struct http_request *request,
                             struct http_answer *answer);

/* Connections counted (kube-nftd/table.h), by Service. */

/** Whether any are. */
bool connections_are_counted(const struct explain_sources *sources);

struct port_connections {
    const char *service_id; /* borrowed until the next change */
    const struct service_port *port;
    uint64_t total; /* of both families */
};

typedef VEC(struct port_connections) port_connections_vec;

/** Puts the service ports with the most connections into @out, at most @most, the largest first.
 * Returns how many others there are with any. */
size_t connections_most(const struct explain_sources *sources, size_t most,
                        port_connections_vec *out);

/*
 * What load balancers and probes request:
 *
 * - /healthz and /livez on the health address (docs/behaviour.md 6.2), and /readyz, which is not
 *   one of kube-proxy: 200 once all families were programmed in full,
 * - one listener for each healthCheckNodePort and family (docs/behaviour.md 6.1, KEP-1669): 200
 *   while this node has a local ready endpoint, 503 when it has none, or only terminating ones.
 *
 * Owns its sockets.
 */

/* A snapshot, asked for at each answer. A family is healthy if no change is overdue. */
struct health_status {
    bool node_eligible;
    bool programmed; /* each family in use, in full, once */
    struct table_view family[FAMILY_COUNT];
};

/* How often each was answered on the health address: 200, or 503. */
struct health_counts {
    struct {
        uint64_t good, bad;
    } healthz, livez;
};

typedef void (*health_status_fn)(void *ctx, struct health_status *status);

/** A server without any listener. @status is called for every answer. Addresses that cannot be
 * bound become events for @events, on the Service or on the Node @node_name
 * (docs/behaviour.md 6.1, 6.2). Both are borrowed. */
struct health *health_new(struct ev_loop *loop, const struct event_sink *events,
                          const char *node_name, health_status_fn status, void *ctx);
void health_free(struct health *health);

/**
 * Listens for /healthz and /livez at @bind ("IP:port", "[IPv6]:port", or an address alone for port
 * 10256; 0.0.0.0 and [::] mean both families). -1 with an error for an address that cannot be read.
 * An address that cannot be bound is logged and tried again every 5 s.
 */
int health_listen(struct health *health, const char *bind, struct error *err);

/** Whether that address could be bound. */
bool health_is_listening(const struct health *health);

struct health_counts health_counts(const struct health *health);

/**
 * Opens, updates or moves the listeners of a service.
 * @service_id   "namespace/name"
 * @family       the family of the listener
 * @port         the healthCheckNodePort; 0 closes the listener of the family
 * @local_ready  number of distinct addresses of local ready endpoints of the family
 * A port that cannot be bound is logged once for each address and tried again every 5 s.
 */
void health_service(struct health *health, const char *service_id, enum family family,
                    uint16_t port, size_t local_ready);

/** Whether the listener that health_service() opened, if any, has each of its addresses. */
bool health_service_is_listening(const struct health *health, const char *service_id,
                                 enum family family);

/**
 * Where the listeners of services are opened (docs/behaviour.md 6.1): on all addresses of @family
 * if @all, else on each of the @n @addresses (copied), which may be none. Those that are open
 * already and are still desired stay open. Before the first call, nowhere.
 */
void health_set_addresses(struct health *health, enum family family, bool all,
                          const struct address *addresses, size_t n);

/*
 * A page in the text format of Prometheus 0.0.4. A family of metrics stands on it with its first
 * sample: one without any is left out, as kube-proxy's are (docs/behaviour.md 7).
 */

struct metrics_page;

struct metrics_label {
    const char *name;
    const char *value; /* escaped when it is written */
};

/* Writes all families of metrics of a page. */
typedef void (*metrics_fn)(void *ctx, struct metrics_page *page);

/** The page that @write writes, for the caller to free, and its *@length. */
char *metrics_print(metrics_fn write, void *ctx, size_t *length);

/** Begins a family, with its HELP and TYPE lines. @type is "gauge", "counter" or "histogram". The
 * texts are borrowed until the next family begins. */
void metrics_family(struct metrics_page *page, const char *name, const char *type,
                    const char *help);

/* The most labels that a sample may have. */
#define METRICS_LABELS_MOST 9

/** One sample of the family that was begun last. */
void metrics_sample(struct metrics_page *page, const struct metrics_label *labels, size_t n,
                    double value);

/** The samples of a histogram: its buckets, sum and count. */
void metrics_histogram(struct metrics_page *page, const struct metrics_label *labels, size_t n,
                       const struct histogram *histogram);

/*
 * What the metrics address answers (docs/behaviour.md 6.3): /metrics in the text format of
 * Prometheus, compressed with gzip on request; /healthz and /healthz/ping, which only say that the
 * process runs, and /metrics/slis, which counts these; /proxyMode; and pages that are added. Owns
 * its socket. Values are gathered at each scrape, nothing is kept here.
 */

struct metrics;

/** A server without a socket. @write is called for every scrape. An address that cannot be bound
 * becomes an event for @events on the Node @node_name (docs/behaviour.md 6.3). Both are borrowed.
 */
struct metrics *metrics_new(struct ev_loop *loop, const struct event_sink *events,
                            const char *node_name, metrics_fn write, void *ctx);
void metrics_free(struct metrics *metrics);

/** Listens at @bind ("IP:port", "[IPv6]:port", or an address alone for port 10249). -1 with an
 * error for an address that cannot be read or port 0. One that cannot be bound is logged and tried
 * again every 5 s. */
int metrics_listen(struct metrics *metrics, const char *bind, struct error *err);

/** Whether that address could be bound. */
bool metrics_is_listening(const struct metrics *metrics);

/** The paths that are answered, between blanks, sorted, for the caller to free. */
char *metrics_paths(const struct metrics *metrics);

/** @path (static) is answered by @answer from now on. */
void metrics_add_page(struct metrics *metrics, const char *path, http_answer_fn answer, void *ctx);

/*
 * The page /programmed?namespace=N&service=S: which resourceVersion of a Service and of each of its
 * EndpointSlices has come, and which one this node's kernel holds. docs/operating.md has the shape
 * of the answer.
 */

/** Answers 200 if all that was received of the Service is applied, 503 if not, 404 if it is
 * unknown, 400 if the request has no namespace or service. */
void programmed_answer(const struct explain_sources *sources, const struct http_request *request,
                       struct http_answer *answer);

/* How the daemon does, as GET /status says it in JSON (docs/operating.md has the fields), and
 * /statusz for people. */

#define STATUS_KIND "KubeNftdStatus"

/* What is counted of objects and tables. */
struct proxy_stats {
    bool complete;    /* Services and EndpointSlices both came */
    const char *zone; /* the node's; NULL: none; borrowed */
    size_t conflicts; /* frontends that more than one service port claims */
    size_t reserved;  /* frontends of the API server that service ports claim */
    size_t services, slices;
    bool external_ips;             /* are proxied */
    uint64_t left_out[KIND_COUNT]; /* objects that came and could not be read */
    /* Of families in use: a Service counts once for each (docs/behaviour.md 7). */
    uint64_t service_changes, slice_changes;
    size_t services_pending, slices_pending;
    uint64_t audits; /* times that all tables were looked through */
    struct table_view family[FAMILY_COUNT];
};

/* What /metrics is made from, as it is at one moment; all borrowed. */
struct metrics_sources {
    struct proxy_stats proxy;
    const struct flow_cleaner_stats *flows[FAMILY_COUNT]; /* NULL: nothing is deleted */
    struct reflector_stats reflectors[KIND_COUNT];        /* without a resource: objects of files */
    const struct request_stats *requests;                 /* NULL: likewise */
    struct health_counts health;
    struct event_stats events;
    bool has_events; /* there is somebody to post them to */
    struct process_usage process;
    uint64_t log_lines_dropped;
    bool counted;                 /* connections are: */
    port_connections_vec busiest; /* the METRICS_CONNECTIONS service ports with the most of them */
    size_t omitted;               /* others that have any */
};

#define METRICS_CONNECTIONS 1000
#define METRICS_CONNECTIONS_TEXT "1,000"

/** Writes all metrics. */
void metrics_write(const struct metrics_sources *sources, struct metrics_page *page);

/* All texts are borrowed. */
struct daemon_status {
    double started; /* seconds since 1970 */
    const char *node;
    const char *objects_from; /* "https://...", or the path of manifests */
    double silence; /* the API server has sent nothing for so many seconds; 0: that is no news */
    double heard;   /* seconds since its last byte; below 0: objects are of files */
    struct reflector_stats watch[KIND_COUNT]; /* zeroed: objects are of files */
    struct proxy_stats proxy;
    bool owned[FAMILY_COUNT]; /* no other program can change the table */
    double resident;          /* bytes of memory; 0: not known */
    const char *paths;        /* that the metrics address answers, between blanks */
};

/** Answers GET /status. */
void status_answer(const struct daemon_status *status, struct http_answer *answer);

extern const struct view view_status[]; /* of that page */

/* Pages for people, which promise no format (docs/behaviour.md 6.3). This one is /status by
 * view_status. */
void diagnostics_statusz(const struct daemon_status *status, struct http_answer *answer);

/** @flags: a line "name=value" each. */
void diagnostics_flagz(const char *flags, struct http_answer *answer);

/** PUT, with the number as body. An http_answer_fn without a context. */
void diagnostics_verbosity(void *ctx, const struct http_request *request,
                           struct http_answer *answer);

#endif
