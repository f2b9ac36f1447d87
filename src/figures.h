/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics page: names, labels and help of what proxy, flow cleaner, reflectors and the rest
 * count (docs/behaviour.md 7). */
#ifndef KUBE_NFTD_FIGURES_H
#define KUBE_NFTD_FIGURES_H

#include "kube-nftd/model.h"

struct event_recorder;
struct explain_sources;
struct flow_cleaner;
struct health;
struct metrics_page;
struct proxy;
struct reflector;
struct request_figures;

/* Who counts; all but the proxy may be NULL. */
struct figures_sources {
    const struct proxy *proxy;
    const struct flow_cleaner *flows;
    const struct health *health;
    const struct reflector *reflectors[KIND_COUNT]; /* all of them, or none */
    const struct request_figures *requests;
    const struct event_recorder *recorder;
    const struct explain_sources *services; /* whose connections may be counted */
};

/** Writes all of it. */
void figures_write(const struct figures_sources *sources, struct metrics_page *page);

/** Its part about the process and its build: process_*, kubernetes_build_info and our own. What
 * /proc does not tell is left out. */
void figures_write_process(struct metrics_page *page);

/** Memory of this process that is in use; 0: not known. */
double figures_resident_bytes(void);

#endif
