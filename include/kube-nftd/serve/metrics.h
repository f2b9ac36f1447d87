/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * /metrics in the text format of Prometheus, and what else the metrics address answers: /healthz
 * and /healthz/ping, which only say that the process does, and /proxyMode (spec 6.3, 7).
 * Owns its socket. The figures are asked for at each scrape, nothing is kept here.
 */
#ifndef KUBE_NFTD_SERVE_METRICS_H
#define KUBE_NFTD_SERVE_METRICS_H

#include "kube-nftd/base/error.h"

struct ev_loop;
struct metrics;
struct metrics_page;

/* Writes all families of metrics, with metrics_family() and metrics_sample(). */
typedef void (*metrics_fn)(void *ctx, struct metrics_page *page);

/** A server without a socket. @write is called for every scrape. */
struct metrics *metrics_new(struct ev_loop *loop, metrics_fn write, void *ctx);
void metrics_free(struct metrics *metrics);

/** Listens at @bind ("IP:port", "[IPv6]:port", or an address alone for port 10249). -1 with an
 * error for an address that cannot be read or port 0. One that cannot be bound is logged and tried
 * again every 5 s. */
int metrics_listen(struct metrics *metrics, const char *bind, struct error *err);

/** Begins a family: its HELP and TYPE lines. @type is "gauge" or "counter". */
void metrics_family(struct metrics_page *page, const char *name, const char *type,
                    const char *help);

/** One sample of the family that was begun last. @label is NULL or a label's name, @value_of_label
 * its value, escaped here. */
void metrics_sample(struct metrics_page *page, const char *label, const char *value_of_label,
                    double value);

#endif
