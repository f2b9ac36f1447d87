/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics page: names, labels and help of what proxy and flow cleaner count (spec 7). */
#ifndef KUBE_NFTD_FIGURES_H
#define KUBE_NFTD_FIGURES_H

struct flow_cleaner;
struct metrics_page;
struct proxy;

/** Writes all of it. @flows may be NULL. */
void figures_write(const struct proxy *proxy, const struct flow_cleaner *flows,
                   struct metrics_page *page);

#endif
