/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of figures_write(), by whose names they bear. */
#ifndef KUBE_NFTD_FIGURES_PARTS_H
#define KUBE_NFTD_FIGURES_PARTS_H

#include "kube-nftd/model/address.h"

struct flow_cleaner;
struct health;
struct metrics_page;
struct proxy_figures;
struct request_figures;

/**
 * kube-proxy's metrics (docs/behaviour.md 7), with its names, labels, types and buckets. Left out,
 * since there is nothing to count: kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total (what
 * falls out of use goes in a transaction like any other). @flows and @health may be NULL.
 */
void figures_write_kube_proxy(const struct proxy_figures *figures, const struct flow_cleaner *flows,
                              const struct health *health, struct metrics_page *page);

/** Our own of the tables and of what is in them. */
void figures_write_tables(const struct proxy_figures *figures, struct metrics_page *page);

/** rest_client_*. */
void figures_write_requests(const struct request_figures *requests, struct metrics_page *page);

/** kubernetes_feature_enabled: the feature gates of kube-proxy that say what is done here. */
void figures_write_gates(const struct proxy_figures *figures, struct metrics_page *page);

/** process_*, kubernetes_build_info and our build. What /proc does not tell is left out. */
void figures_write_process(struct metrics_page *page);

/** A family of metrics with one sample, of @values, for each IP family in use. */
void figures_by_family(struct metrics_page *page, const struct proxy_figures *figures,
                       const char *name, const char *type, const char *help,
                       const double values[FAMILY_COUNT]);

#endif
