/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The server and its pages. */
#ifndef KUBE_NFTD_SRC_SERVE_PAGES_H
#define KUBE_NFTD_SRC_SERVE_PAGES_H

#include "http.h"

struct server {
    struct server_config config;
    struct snapshot now; /* valid during an answer */
    struct http_ports ports;
    struct http_port *own[ADDRESS_COUNT]; /* NULL: not served */
    struct health *health;
    struct health_counts counts;
    double explain_after;         /* no explanations before this time; clock_monotonic */
    unsigned explanations, lists; /* answers that are not sent yet */
};

/** Refreshes server->now. Done already for every page. */
void server_read(struct server *server);

/* Answers the requests for one path. */
typedef void page_fn(struct server *server, struct http *http);

/* ---- health.c ---- */

page_fn answer_health, answer_liveness, answer_readiness;

/** Without health checks; reads snapshots of @server and listens at its ports. */
struct health *health_new(struct server *server);
void health_free(struct health *health);

/* ---- status.c: the state of the daemon in JSON, and for people ---- */

page_fn answer_status;

/** /status as text, owned by the caller. */
char *status_text(const struct snapshot *now);

/* ---- programmed.c: the received and the applied resourceVersion of a Service and of each of its
 * EndpointSlices ---- */

page_fn answer_programmed;

/** Whether the kernel rejected a frontend of @service. */
bool service_is_rejected(const struct snapshot *now, const struct service_state *service,
                         enum family family);

/** How much of @service a limit leaves out in @family, as ruleset_port_limited(). */
size_t service_limited(const struct snapshot *now, const struct service_state *service,
                       enum family family, enum ruleset_limit limit);

/** Whether a version of the Service @id or of its slices is not applied yet. */
bool service_is_pending(const struct snapshot *now, const char *id);

/* ---- service_word.c ---- */

/** The state of a Service in one word ("applied", "pending", ...), static; more about it, or NULL,
 * goes to *@text, which the caller frees. */
const char *service_word(const struct snapshot *now, const struct service_state *state,
                         char **text);

/* ---- list.c: pages that are generated in pieces of less than a millisecond, so that the loop
 * handles other events in between ---- */

page_fn answer_list, answer_connections, answer_frontends;

/* The facts about a Service in a list; NULL: it is not listed. */
typedef cJSON *describe_fn(const struct snapshot *now, const struct service_state *state);

/** Its frontends: kind, policy, action ("forward", "drop", "reject") and endpoints of each, as for
 * connections from outside of this node and its pods. Bounded; "leftOut" counts the others. */
describe_fn describe_frontends;

/* ---- connections.c ---- */

/** Whether the connection counts date from @since (clock_monotonic) or later; if not, reads a piece
 * of them. */
bool connections_read(const struct snapshot *now, double since);

/** New connections to all ports of a Service, in both families. */
uint64_t service_connections(const struct snapshot *now, const struct service_state *state);

/* ---- metrics_page.c: the Prometheus text format 0.0.4 ----
 *
 * A metric family without samples is omitted, as in kube-proxy (docs/behaviour.md 7).
 */

page_fn answer_metrics, answer_slis;

struct metrics_page;

struct metrics_label {
    const char *name;
    const char *value; /* escaped on output */
};

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

/** Returns the page that @write writes, owned by the caller, and its *@length. */
char *metrics_print(void (*write)(const struct snapshot *now, struct metrics_page *page),
                    const struct snapshot *now, size_t *length);

/* ---- metrics.c ---- */

/** The Service ports with the most connections; adds a family. */
void metrics_connections(const struct snapshot *now, struct metrics_page *page);

/** Samples of NodePorts on loopback addresses, with the feature gate; the last one adds families.
 */
void metrics_localhost_listeners(const struct snapshot *now, struct metrics_page *page);
void metrics_localhost_failures(const struct snapshot *now, struct metrics_page *page);
void metrics_localhost_rejected(const struct snapshot *now, struct metrics_page *page);
void metrics_localhost_connections(const struct snapshot *now, struct metrics_page *page);

/** Writes all metrics. */
void metrics_write(const struct snapshot *now, struct metrics_page *page);

#endif
