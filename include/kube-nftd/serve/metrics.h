/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the metrics address answers (spec 6.3): /metrics in the text format of Prometheus, packed by
 * gzip for who asks; /healthz and /healthz/ping, which only say that the process does, and
 * /metrics/slis, which counts these; /proxyMode; /configz.
 * Owns its socket. The figures are asked for at each scrape, nothing is kept here.
 */
#ifndef KUBE_NFTD_SERVE_METRICS_H
#define KUBE_NFTD_SERVE_METRICS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/serve/metrics_page.h"

#include <stdbool.h>

struct ev_loop;
struct metrics;

/** A server without a socket. @write is called for every scrape. */
struct metrics *metrics_new(struct ev_loop *loop, metrics_fn write, void *ctx);
void metrics_free(struct metrics *metrics);

/** Listens at @bind ("IP:port", "[IPv6]:port", or an address alone for port 10249). -1 with an
 * error for an address that cannot be read or port 0. One that cannot be bound is logged and tried
 * again every 5 s. */
int metrics_listen(struct metrics *metrics, const char *bind, struct error *err);

/** Whether that address could be bound. */
bool metrics_is_listening(const struct metrics *metrics);

/* The JSON text for /configz, which the caller frees; NULL if there is none. */
typedef char *(*metrics_configz_fn)(void *ctx);

/** /configz is asked of @configz from now on. Before, and when that gives NULL, it is not found. */
void metrics_set_configz(struct metrics *metrics, metrics_configz_fn configz, void *ctx);

#endif
