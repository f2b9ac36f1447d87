/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics page: names, labels and help of what proxy, flow cleaner and reflectors count
 * (docs/behaviour.md 7). */
#ifndef KUBE_NFTD_FIGURES_H
#define KUBE_NFTD_FIGURES_H

#include "kube-nftd/model/object.h"

struct event_recorder;
struct flow_cleaner;
struct health;
struct metrics_page;
struct proxy;
struct reflector;
struct request_figures;

/** Writes all of it. @flows, @health and @requests may be NULL; of @reflectors either all are, or
 * none. */
void figures_write(const struct proxy *proxy, const struct flow_cleaner *flows,
                   const struct health *health,
                   const struct reflector *const reflectors[KIND_COUNT],
                   const struct request_figures *requests, struct metrics_page *page);

/** What became of events. */
void figures_write_events(const struct event_recorder *recorder, struct metrics_page *page);

#endif
