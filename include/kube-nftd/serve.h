/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the daemon answers over HTTP: health checks, metrics, pages for people and for the commands.
 * All of it is computed from a snapshot of the other modules when somebody asks.
 */
#ifndef KUBE_NFTD_SERVE_H
#define KUBE_NFTD_SERVE_H

#include "kube-nftd/base.h"
#include "kube-nftd/cache.h"
#include "kube-nftd/config.h"
#include "kube-nftd/conntrack.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/policy.h"
#include "kube-nftd/source.h"
#include "kube-nftd/table.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ev_loop;
struct health;

/* Numbers of answers. */
struct health_counts {
    struct {
        uint64_t good, bad; /* 200, 503 */
    } healthz, livez;       /* of the health address */
    uint64_t checks;        /* /healthz of the metrics address, since DELETE /metrics/slis */
};

/* The state of the daemon at one moment. All pointers are borrowed until the next change. */
struct snapshot {
    double started; /* seconds since 1970 */
    const char *node_name;
    const char *zone;   /* the node's; NULL: none */
    bool node_unknown;  /* its Node object was not seen, so its zone is unknown */
    bool node_eligible; /* load balancers may use the node (docs/behaviour.md 6.2) */
    const char *node_ports_unserved[FAMILY_COUNT]; /* why no address serves NodePorts; NULL: some */

    /* Where objects come from. Without an API server, what concerns it is zero. */
    const char *objects_from;      /* "https://...", or the path of manifests */
    const char *manifests_problem; /* why not all files are used as they are; NULL: they are */
    bool partial;                  /* some manifests could not be read since startup */
    bool from_manifests;           /* this is computed only, never programmed */
    double heard; /* seconds since the API server's last byte; negative: no server */
    struct reflector_stats watch[KIND_COUNT];
    const struct request_stats *requests;
    bool has_events; /* events are posted */
    struct event_stats events;

    bool complete;     /* all Services and EndpointSlices have come */
    bool external_ips; /* external IPs of Services are proxied */
    const struct object_store *services;
    const struct endpoint_slice_cache *slices;
    const range_vec *service_cidrs; /* addresses of the ServiceCIDRs, by family */
    const struct policy *policy;
    size_t n_services, n_slices;
    uint64_t invalid[KIND_COUNT]; /* objects received */
    size_t conflicts;             /* frontends claimed by several service ports */
    size_t reserved;              /* frontends of the API server claimed by service ports */
    size_t service_addresses;     /* endpoints of all service ports that are service addresses */
    /* Sums over families in use: a Service counts once per family (docs/behaviour.md 7). */
    uint64_t service_changes, slice_changes;
    size_t services_pending, slices_pending;

    bool programmed; /* each family in use has been fully programmed once */
    bool overdue;    /* a change has waited too long in some family (docs/behaviour.md 6.2) */
    uint64_t audits; /* completed audits of all tables */
    struct table *tables[FAMILY_COUNT]; /* to read connections; NULL: not in use */
    struct table_view family[FAMILY_COUNT];
    bool owned[FAMILY_COUNT];          /* no other program can change the table */
    enum connection_counting counting; /* never from manifests */
    const struct flow_cleaner_stats *flows[FAMILY_COUNT]; /* NULL: no flow cleaner */

    bool counts_localhost; /* feature gate KubeProxyNFTablesLocalhostNodePorts */
    bool serves_localhost[FAMILY_COUNT];
    const struct localhost *localhost; /* NULL: serves nothing, or this is no daemon */
    const struct health *health;       /* NULL: no health checks are served */
    bool health_closed;                /* the health address cannot be bound */
    struct health_counts health_counts;
};

/*
 * The server: the health address, the metrics address (docs/behaviour.md 6.2, 6.3), and a listener
 * for each healthCheckNodePort and address (6.1, KEP-1669). An address that cannot be bound is
 * logged, retried, and becomes an event on the Service or the Node. docs/operating.md describes the
 * pages.
 */

struct server;

struct server_config {
    struct ev_loop *loop;
    const struct options *options;
    const char *node_name;
    const struct event_sink *events; /* NULL: no events */
    /* Fills in @now, which is zeroed, except health_counts. Called for every answer. */
    void (*read)(void *ctx, struct snapshot *now);
    /* Applies pending changes, so that explanations do not report them; may be NULL. */
    void (*sync)(void *ctx);
    void *ctx;
};

enum server_address { ADDRESS_HEALTH, ADDRESS_METRICS, ADDRESS_COUNT };

/** Listens nowhere yet. Everything in @config is borrowed. */
struct server *server_new(const struct server_config *config);
void server_free(struct server *server);

/**
 * Listens at @bind for the pages of @address: "IP:port", "[IPv6]:port", or an address alone for
 * kube-proxy's port; 0.0.0.0 and [::] mean both families. -1 with an error if @bind is malformed.
 */
int server_listen(struct server *server, enum server_address address, const char *bind,
                  struct error *err);

/** Whether the address of server_listen() could be bound. */
bool server_is_listening(const struct server *server, enum server_address address);

/** The health checks of Services, owned by @server. */
struct health *server_health(struct server *server);

/** Opens, updates, moves or closes the health checks of @n Services in @family (copied). A port
 * that one of them leaves is free for another. */
void health_set_checks(struct health *health, enum family family, const struct health_check *checks,
                       size_t n);

/** How many addresses of health checks cannot be bound; @service_id (borrowed) and @port of one. */
size_t health_unbound(const struct health *health, const char **service_id, uint16_t *port);

/** Whether the health check of that Service, if any, is bound to each of its addresses. */
bool health_service_is_listening(const struct health *health, const char *service_id,
                                 enum family family);

/**
 * Sets where health checks listen: on all addresses of @family if @all, else on each of the @n
 * @addresses (copied; 0 is fine). Before the first call they do not listen.
 */
void health_set_addresses(struct health *health, enum family family, bool all,
                          const struct address *addresses, size_t n);

/* ---- facts ---- */

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

/** Adds "namespace" and "name" of the object @id, "namespace/name". */
void facts_add_id(cJSON *to, const char *id);

/** Adds a time, given in seconds since 1970, in RFC 3339; null if it is 0. */
void facts_add_time(cJSON *to, const char *key, double time);

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
 *     {path+other}     of two lists: the first, then what is in the other alone
 *     {5:path}         of a list, the first 5 values, and how many more there are
 *     [path?text]      text, if there is a value; [!path?text], if there is none;
 *                      [path=word?text], if it is that word
 *
 * where false, 0, "" and empty lists count as no value, although {path} prints 0. Sections may be
 * nested. An item whose line comes out empty is not printed. Lines of a list that contain tabs form
 * a table; VIEW_... are terminal styles. Control characters in values become '?'. On a terminal,
 * other lines are broken between words, as is the last cell of a table's line; columns are cut or
 * left out as they say, and the table says so.
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
    /* On a terminal that is too narrow: cells are cut to this width, with "..."; 0: never. For the
     * last column: the room it needs beside the others; with less, it goes on lines below. */
    unsigned char least;
    unsigned char leaves; /* then columns are left out in this order; 0: never */
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

/** The same, as a string for the caller to free. */
char *view_text(const struct view *views, const cJSON *facts, const struct view_style *style);

/** Prints the whole tree as JSON, with control characters escaped. */
void view_print_json(const cJSON *facts, FILE *out);

/* ---- explanations and lists, also for the commands ---- */

#define EXPLAIN_KIND "KubeNftdExplanation"
#define LIST_KIND "KubeNftdServiceList"
#define FRONTENDS_KIND "KubeNftdFrontendList"
#define CONNECTIONS_KIND "KubeNftdConnections"
#define STATUS_KIND "KubeNftdStatus"

/* The beginning of a 503 body that invites a retry. */
#define HTTP_BUSY "busy"

extern const struct view view_status[]; /* layout of /status as text */

/* Computes an answer, owned by the caller. */
typedef cJSON *(*answer_fn)(const struct snapshot *now, const void *query);

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

/** The text that names the Service @text, "NAMESPACE/SERVICE[:PORT]", also if these are "80/tcp".
 * The caller frees it. */
char *service_query(const char *text);

/**
 * Explains where traffic goes and why: the Service of an address, its endpoints and why this node
 * uses each of them or not, the elements in the kernel, and whether these match the decision. An
 * answer_fn for a struct explain_query; @now must be complete. Its cost is bounded; the answer
 * counts what it omits.
 */
cJSON *explain(const struct snapshot *now, const void *query);

/** Appends to the array @to what on this host keeps packets from endpoints although the tables are
 * right: forwarding that is off, a chain of another program that drops what no rule accepts. */
void obstacles_find(const bool families[FAMILY_COUNT], cJSON *to);

/** Lists Services: addresses and ports, numbers of endpoints, and whether all of it is applied. An
 * answer_fn for a shell pattern, "NAMESPACE/NAME". */
cJSON *list_services(const struct snapshot *now, const void *pattern);

/** Lists the frontends of Services and the endpoints that each leads to, likewise. */
cJSON *list_frontends(const struct snapshot *now, const void *pattern);

#endif
