/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the metrics address answers (docs/behaviour.md 6.3): /metrics in the text format of
 * Prometheus, packed by gzip for who asks; /healthz and /healthz/ping, which only say that the
 * process does, and /metrics/slis, which counts these; /proxyMode; and pages that others answer.
 * Owns its socket. The figures are asked for at each scrape, nothing is kept here.
 */
#ifndef KUBE_NFTD_SERVE_METRICS_H
#define KUBE_NFTD_SERVE_METRICS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/event.h"
#include "kube-nftd/serve/http_listener.h"
#include "kube-nftd/serve/metrics_page.h"

#include <stdbool.h>

struct ev_loop;
struct metrics;

/** A server without a socket. @write is called for every scrape. */
struct metrics *metrics_new(struct ev_loop *loop, metrics_fn write, void *ctx);
void metrics_free(struct metrics *metrics);

/** An address that cannot be bound becomes an event for @events on the Node @node_name
 * (docs/behaviour.md 6.3). Both are borrowed. */
void metrics_set_events(struct metrics *metrics, const struct event_sink *events,
                        const char *node_name);

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

#endif
