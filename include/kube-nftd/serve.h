/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The HTTP endpoints of the daemon: health, metrics, pages for people and for the commands. They
 * read the state of other modules and keep none of it.
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
 * An HTTP server on one listening socket: libmicrohttpd in the libev loop, without threads. It
 * accepts any method and keeps only the beginning of a request's body. Connections, their memory,
 * their time and the bodies are bounded; slow clients are closed in favour of new ones.
 */

struct ev_loop;
struct http_listener;

/* Bytes kept of a request's body. */
#define HTTP_BODY_KEPT 64

struct MHD_Connection;

struct http_request {
    const char *method;
    const char *path;                  /* without the query */
    const char *body;                  /* its first HTTP_BODY_KEPT bytes, up to a NUL */
    struct MHD_Connection *connection; /* only for the functions below */
};

struct http_header {
    const char *name; /* static */
    char *value;      /* owned */
};

/* Starts as status 200 with an empty body. */
struct http_answer {
    unsigned status;
    char *body;    /* owned; NULL for none */
    size_t length; /* of the body; 0: the body is a string */
    /* Called once with the length when the body is sent or abandoned; may be NULL. */
    void (*released)(void *ctx, size_t length);
    void *released_ctx; /* outlives the listener */
    /* Replaces the body: see http_answer_stream(). NULL: no stream. */
    size_t (*more)(void *stream, char *to, size_t room);
    void (*end)(void *stream);
    void *stream;
    VEC(struct http_header) headers;
};

/* Fills @answer. Must not close the listener. */
typedef void (*http_answer_fn)(void *ctx, const struct http_request *request,
                               struct http_answer *answer);

/**
 * Listens at @address and calls @answer for each request, from the loop. Both families share one
 * dual-stack socket, or get an IPv4 one if the kernel has no IPv6. NULL with an error if the
 * address cannot be bound.
 */
struct http_listener *http_listener_open(struct ev_loop *loop, const struct listen_address *address,
                                         http_answer_fn answer, void *ctx, struct error *err);

/** Closes the socket and all connections. NULL is fine. */
void http_listener_close(struct http_listener *listener);

/** The query argument @name, unescaped and borrowed: "" for "?name", NULL if absent. */
const char *http_request_argument(const struct http_request *request, const char *name);

/** Whether that argument contains a NUL (%00), which truncates http_request_argument(). */
bool http_request_argument_is_cut(const struct http_request *request, const char *name);

/** The value of a header, borrowed; NULL if absent. */
const char *http_request_header(const struct http_request *request, const char *name);

/** Adds a header. @name must be static. */
void http_answer_header(struct http_answer *answer, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Answers @status with plain text. */
void http_answer_text(struct http_answer *answer, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Answers @status with JSON; takes @body. */
void http_answer_json(struct http_answer *answer, unsigned status, char *body);

/**
 * Answers 200 with a body that is generated in pieces as the client reads: @more writes at most
 * @room bytes to @to and returns their number; 0 ends the body. @end is called once, when the
 * answer is sent or abandoned, and frees @stream.
 */
void http_answer_stream(struct http_answer *answer, const char *type,
                        size_t (*more)(void *stream, char *to, size_t room),
                        void (*end)(void *stream), void *stream);

/** Returns whether the request is a GET or HEAD; if not, answers 405. */
bool http_answer_reads(const struct http_request *request, struct http_answer *answer);

/* The beginning of a 503 body that invites a retry. */
#define HTTP_BUSY "busy"

/** Answers 503: too many other requests in progress. */
void http_answer_busy(struct http_answer *answer);

/** Answers 404, "404 page not found". */
void http_answer_not_found(struct http_answer *answer);

/* Facts: the cJSON tree that a page of the daemon answers and a command prints. Adding to it never
 * fails. */

struct fact {
    const char *key;
    enum { FACT_NULL, FACT_TEXT, FACT_NUMBER, FACT_FLAG } type;
    const char *text;
    double number;
};

/** null if @text is NULL. */
static inline struct fact fact_text(const char *key, const char *text)
{
    return (struct fact){key, text ? FACT_TEXT : FACT_NULL, text, 0};
}

#define fact_number(key, number) ((struct fact){(key), FACT_NUMBER, NULL, (double)(number)})

/* null if @number is 0. */
#define fact_nonzero(key, number)                                                                  \
    ((struct fact){(key), (number) ? FACT_NUMBER : FACT_NULL, NULL, (double)(number)})

static inline struct fact fact_flag(const char *key, bool value)
{
    return (struct fact){key, FACT_FLAG, NULL, value};
}

/* Adds facts to the object @to. */
#define facts_add(to, ...)                                                                         \
    facts_add_all((to), (const struct fact[]){__VA_ARGS__},                                        \
                  sizeof((const struct fact[]){__VA_ARGS__}) / sizeof(struct fact))
void facts_add_all(cJSON *to, const struct fact *facts, size_t n);

/** Adds a text to the object @to; with @key NULL, appends it to the array @to. */
void facts_format(cJSON *to, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define facts_append_text(array, ...) facts_format((array), NULL, __VA_ARGS__)

/** Appends a new object to @array and returns it. */
cJSON *facts_append(cJSON *array);

/** A member of @object; NULL if there is none or @object is no object. */
const cJSON *facts_at(const cJSON *object, const char *key);

/** The same member if it is a text, else "". */
const char *facts_text_at(const cJSON *object, const char *key);

/** The JSON on one line, always valid UTF-8, owned by the caller. */
char *facts_print(const cJSON *facts);

/*
 * Prints facts as text, laid out by views; or as JSON.
 *
 * A line of a view is text with
 *
 *     {path}           the value at that path ("a.b"); {} is the item itself; lists get commas
 *     {path|other}     the value, or other if there is none
 *     [path?text]      text, if there is a value; [!path?text], if there is none;
 *                      [path=word?text], if it is that word
 *
 * where false, 0, "" and empty lists count as no value, although {path} prints 0. Sections may be
 * nested. An item whose line comes out empty is not printed. Lines of a list that contain tabs form
 * a table; VIEW_... are terminal styles. Control characters in values become '?'.
 */

#define VIEW_BOLD "\1"
#define VIEW_GOOD "\2"
#define VIEW_DOUBT "\3"
#define VIEW_BAD "\4"
#define VIEW_PLAIN "\5" /* ends the other styles */

/* A column of a table with titles; arrays end with a zeroed one. */
struct column {
    const char *title, *line;
    enum {
        ALWAYS,
        WIDE,    /* only in wide tables */
        COUNTED, /* only if also the first item has "connections" */
    } when;
};

/* A part of the text; arrays end with a zeroed one. */
struct view {
    const char *path;  /* of an object or a list of items to print; NULL: the item itself */
    const char *title; /* printed once before the items; NULL: none */
    const char *line;
    const struct column *columns; /* replaces line; NULL: no columns */
    const struct view *inner;     /* printed after the line of each item; NULL: nothing */
};

struct view_style {
    size_t width; /* of tables, in characters; 0: no limit */
    bool colours;
    bool wide;
};

/** The style for @out: a terminal has a width, and colours unless NO_COLOR is set. */
struct view_style view_style(FILE *out);

void view_print(const struct view *views, const cJSON *facts, const struct view_style *style,
                FILE *out);

/** Prints the whole tree as JSON, with control characters escaped. */
void view_print_json(const cJSON *facts, FILE *out);

struct health;

/* The inputs of explanations and lists; all borrowed. */
struct explain_sources {
    bool complete;       /* all Services and EndpointSlices have come */
    bool from_manifests; /* computed only, never programmed */
    bool unhealthy;      /* healthCheckNodePorts answer 503 regardless of endpoints */
    const char *node_name;
    const char *encodings[KIND_COUNT]; /* of API objects, such as "protobuf"; or NULL */
    const struct service_cache *services;
    const struct endpoint_slice_cache *slices;
    const range_vec *service_cidrs; /* addresses of the ServiceCIDRs, by family */
    const struct policy *policy;
    const struct health *health; /* NULL: no health checks are served */
    bool no_external_ips;        /* external IPs of Services are not proxied */
    struct table_view family[FAMILY_COUNT];
};

/* Computes an answer, owned by the caller. */
typedef cJSON *(*explain_answer_fn)(const struct explain_sources *sources, const void *query);

/*
 * Explains where traffic goes and why: the Service of an address, its endpoints and why this node
 * uses each of them or not, the elements in the kernel, and whether these match the decision.
 * Read-only. docs/operating.md describes the fields.
 */

#define EXPLAIN_KIND "KubeNftdExplanation"

/* The subject of an explanation: "10.96.0.10:80", "[fd00::1]:53/UDP", "localhost:30001", an address
 * alone, a NodePort alone, "default/web:http", "web.default.svc". */
struct explain_query {
    char *text; /* as given; owned */
    bool all;   /* raise the limits, to list every endpoint */
    /* A Service, if service_id is not NULL; else an address, a port, or both. */
    bool has_address;
    enum family family;
    struct address address;
    uint16_t port;    /* 0: not given */
    uint8_t protocol; /* likewise */
    char *service_id; /* "namespace/name"; owned */
    char *port_name;  /* name or number; NULL: all ports; owned */
};

/** Parses @text, which is untrusted. -1 with an error that states the fault; @query is then
 * cleared. */
int explain_query_parse(const char *text, struct explain_query *query, struct error *err);

void explain_query_clear(struct explain_query *query);

/** An explain_answer_fn for a struct explain_query. @sources must be complete. Its cost is bounded;
 * the answer counts what it omits. */
cJSON *explain(const struct explain_sources *sources, const void *query);

/* Limits the loop's time and memory spent on explanations: an expensive answer is followed by a
 * pause, and too many unread bytes delay the next one. Starts zeroed; outlives the listener. */
struct explain_gate {
    double closed_until; /* clock_monotonic */
    size_t unread;       /* bytes of answers not yet sent */
};

/** Answers GET /explain?what=...[&all=true] from @sources; 503 while @gate is closed. */
void explain_answer(const struct explain_sources *sources, struct explain_gate *gate,
                    const struct http_request *request, struct http_answer *answer);

/** Whether a query would be answered now; if not, the caller need not prepare for it. */
bool explain_gate_is_open(const struct explain_gate *gate);

/*
 * A list of Services: addresses and ports, numbers of endpoints, and whether all of it is applied.
 * docs/operating.md describes the fields. The page is generated in pieces of less than a
 * millisecond, and the loop handles other events in between. The order is arbitrary.
 */

#define LIST_KIND "KubeNftdServiceList"
#define CONNECTIONS_KIND "KubeNftdConnections"

/* Shell patterns that select Services; NULL: all. Borrowed. */
struct list_query {
    const char *namespace, *name;
};

/** The whole list at once. An explain_answer_fn for a struct list_query. */
cJSON *list_facts(const struct explain_sources *sources, const void *query);

/* The inputs of the page; outlives the listener. */
struct list_page {
    /* Fills @sources; false while no data is available. */
    bool (*sources)(void *ctx, struct explain_sources *sources);
    /* Whether the connection counts date from @since (clock_monotonic) or later; if not, reads a
     * piece of them. The second returns their time. */
    bool (*counted)(void *ctx, double since);
    double (*counted_at)(void *ctx);
    void *ctx;
    unsigned open; /* unfinished answers; starts as 0 */
};

/** Answers GET /list[?namespace=PATTERN][&name=PATTERN] from the list_page @page; 503 while too
 * many others are in progress. An http_answer_fn. */
void list_answer(void *page, const struct http_request *request, struct http_answer *answer);

/** Answers GET /connections likewise: Services with their connection counts, without those that
 * have none. */
void list_answer_connections(void *page, const struct http_request *request,
                             struct http_answer *answer);

/* Connection counts by Service (kube-nftd/table.h). */

/** Whether connections are counted in any family. */
bool connections_are_counted(const struct explain_sources *sources);

struct port_connections {
    const char *service_id; /* borrowed until the next change */
    const struct service_port *port;
    uint64_t total; /* of both families */
};

typedef VEC(struct port_connections) port_connections_vec;

/** Stores up to @most service ports with the most connections in @out, largest first. Returns the
 * number of other ports with connections. */
size_t connections_most(const struct explain_sources *sources, size_t most,
                        port_connections_vec *out);

/*
 * Health checks for load balancers and probes:
 *
 * - /healthz and /livez on the health address (docs/behaviour.md 6.2), and /readyz, which
 *   kube-proxy lacks: 200 once all families have been fully programmed,
 * - one listener for each healthCheckNodePort and family (docs/behaviour.md 6.1, KEP-1669): 200
 *   while this node has a local ready endpoint, 503 when it has none, or only terminating ones.
 *
 * Owns its sockets.
 */

/* A snapshot for one answer. A family is healthy if no change is overdue. */
struct health_status {
    bool node_eligible;
    bool programmed; /* each family in use has been fully programmed once */
    struct table_view family[FAMILY_COUNT];
};

/* Answers on the health address: good is 200, bad 503. */
struct health_counts {
    struct {
        uint64_t good, bad;
    } healthz, livez;
};

typedef void (*health_status_fn)(void *ctx, struct health_status *status);

/** A server without listeners. @status is called for every answer. An address that cannot be bound
 * becomes an event in @events, on the Service or on the Node @node_name (docs/behaviour.md 6.1,
 * 6.2). Both are borrowed. */
struct health *health_new(struct ev_loop *loop, const struct event_sink *events,
                          const char *node_name, health_status_fn status, void *ctx);
void health_free(struct health *health);

/**
 * Listens for /healthz and /livez at @bind ("IP:port", "[IPv6]:port", or an address alone for port
 * 10256; 0.0.0.0 and [::] mean both families). -1 with an error if @bind is malformed. An address
 * that cannot be bound is logged and retried.
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
 * A port that cannot be bound is logged once per address and retried.
 */
void health_service(struct health *health, const char *service_id, enum family family,
                    uint16_t port, size_t local_ready);

/** Whether the listener of health_service(), if any, is bound to each of its addresses. */
bool health_service_is_listening(const struct health *health, const char *service_id,
                                 enum family family);

/**
 * Sets where services listen (docs/behaviour.md 6.1): on all addresses of @family if @all, else on
 * each of the @n @addresses (copied; 0 is fine). Listeners that are still desired stay open. Before
 * the first call services do not listen.
 */
void health_set_addresses(struct health *health, enum family family, bool all,
                          const struct address *addresses, size_t n);

/*
 * A page in the Prometheus text format 0.0.4. A metric family without samples is omitted, as in
 * kube-proxy (docs/behaviour.md 7).
 */

struct metrics_page;

struct metrics_label {
    const char *name;
    const char *value; /* escaped on output */
};

/* Writes all metric families of a page. */
typedef void (*metrics_fn)(void *ctx, struct metrics_page *page);

/** Returns the page that @write writes, owned by the caller, and its *@length. */
char *metrics_print(metrics_fn write, void *ctx, size_t *length);

/** Begins a family. @type is "gauge", "counter" or "histogram". The texts are borrowed until the
 * next family begins. */
void metrics_family(struct metrics_page *page, const char *name, const char *type,
                    const char *help);

/* Maximum number of labels of a sample. */
#define METRICS_LABELS_MOST 9

/** Adds a sample to the current family. */
void metrics_sample(struct metrics_page *page, const struct metrics_label *labels, size_t n,
                    double value);

/** Adds the samples of a histogram: buckets, sum and count. */
void metrics_histogram(struct metrics_page *page, const struct metrics_label *labels, size_t n,
                       const struct histogram *histogram);

/*
 * The server on the metrics address (docs/behaviour.md 6.3): /metrics in the Prometheus text
 * format, with gzip on request; /healthz and /healthz/ping, which only show that the process runs;
 * /metrics/slis, which counts them; /proxyMode; and added pages. Owns its socket. Values are
 * gathered at each scrape and not kept.
 */

struct metrics;

/** A server without a socket. @write is called for every scrape. An address that cannot be bound
 * becomes an event in @events on the Node @node_name (docs/behaviour.md 6.3). Both are borrowed. */
struct metrics *metrics_new(struct ev_loop *loop, const struct event_sink *events,
                            const char *node_name, metrics_fn write, void *ctx);
void metrics_free(struct metrics *metrics);

/** Listens at @bind ("IP:port", "[IPv6]:port", or an address alone for port 10249). -1 with an
 * error if @bind is malformed or has port 0. An address that cannot be bound is logged and
 * retried. */
int metrics_listen(struct metrics *metrics, const char *bind, struct error *err);

/** Whether that address could be bound. */
bool metrics_is_listening(const struct metrics *metrics);

/** The paths served, sorted and separated by spaces, owned by the caller. */
char *metrics_paths(const struct metrics *metrics);

/** Serves @path (static) with @answer. */
void metrics_add_page(struct metrics *metrics, const char *path, http_answer_fn answer, void *ctx);

/*
 * The page /programmed?namespace=N&service=S: the received and the applied resourceVersion of a
 * Service and of each of its EndpointSlices. docs/operating.md describes the answer.
 */

/** Answers 200 if all received versions are applied, 503 if not, 404 if the Service is unknown, 400
 * if namespace or service is missing. */
void programmed_answer(const struct explain_sources *sources, const struct http_request *request,
                       struct http_answer *answer);

/* The state of the daemon: GET /status in JSON (docs/operating.md describes the fields), and
 * /statusz for people. */

#define STATUS_KIND "KubeNftdStatus"

/* Statistics of objects and tables. */
struct proxy_stats {
    bool complete;    /* all Services and EndpointSlices have come */
    const char *zone; /* the node's; NULL: none; borrowed */
    size_t conflicts; /* frontends claimed by several service ports */
    size_t reserved;  /* frontends of the API server claimed by service ports */
    size_t services, slices;
    bool external_ips;             /* external IPs are proxied */
    uint64_t left_out[KIND_COUNT]; /* invalid objects that were received */
    /* Sums over families in use: a Service counts once per family (docs/behaviour.md 7). */
    uint64_t service_changes, slice_changes;
    size_t services_pending, slices_pending;
    uint64_t audits; /* completed audits of all tables */
    struct table_view family[FAMILY_COUNT];
};

/* The inputs of /metrics at one moment; all borrowed. */
struct metrics_sources {
    struct proxy_stats proxy;
    const struct flow_cleaner_stats *flows[FAMILY_COUNT]; /* NULL: no flow cleaner */
    struct reflector_stats reflectors[KIND_COUNT]; /* without a resource: objects come from files */
    const struct request_stats *requests;          /* NULL: objects come from files */
    struct health_counts health;
    struct event_stats events;
    bool has_events; /* events are posted to an API server */
    struct process_usage process;
    uint64_t log_lines_dropped;
    bool counted;                 /* connections are counted */
    port_connections_vec busiest; /* up to METRICS_CONNECTIONS ports, largest first */
    size_t omitted;               /* other ports with connections */
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
    double silence;           /* seconds without data from the API server, if too long; else 0 */
    double heard;             /* seconds since its last byte; negative: objects come from files */
    struct reflector_stats watch[KIND_COUNT]; /* zeroed: objects come from files */
    struct proxy_stats proxy;
    bool owned[FAMILY_COUNT]; /* no other program can change the table */
    double resident;          /* bytes of memory; 0: unknown */
    const char *paths;        /* paths of the metrics address, separated by spaces */
};

/** Answers GET /status. */
void status_answer(const struct daemon_status *status, struct http_answer *answer);

extern const struct view view_status[]; /* layout of /status as text */

/* Pages for people, without a stable format (docs/behaviour.md 6.3). /statusz is /status printed
 * with view_status. */
void diagnostics_statusz(const struct daemon_status *status, struct http_answer *answer);

/** Answers /flagz. @flags has a line "name=value" for each flag. */
void diagnostics_flagz(const char *flags, struct http_answer *answer);

/** Answers PUT /debug/flags/v, with the verbosity as body. An http_answer_fn without context. */
void diagnostics_verbosity(void *ctx, const struct http_request *request,
                           struct http_answer *answer);

#endif
