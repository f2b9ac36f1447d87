/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What top shows: new connections a second, from two readings of totals. */
#ifndef KUBE_NFTD_CLIENT_TOP_H
#define KUBE_NFTD_CLIENT_TOP_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/config/options.h"

#include <cjson/cJSON.h>
#include <stdint.h>

/* Seconds from one reading to the next. */
#define TOP_PERIOD 1.0

struct top_row {
    char *name; /* "NAMESPACE/SERVICE", or an endpoint "IP:PORT" */
    uint64_t total;
    double rate; /* a second */
};

/* Starts zeroed. */
struct top_table {
    double at; /* when the totals were so, in seconds */
    VEC(struct top_row) rows;
};

enum top_order { TOP_BY_RATE, TOP_BY_TOTAL, TOP_BY_NAME, TOP_ORDERS };

/** Asks the daemon for Services (@service NULL), or for the endpoints of one. Rows are by name, and
 * @table is empty before. */
int top_read(const char *bind, const char *service, struct top_table *table, struct error *err);

/** The rates since @before, whose rows are by name, too. Without any time between the two, they are
 * those of @before. */
void top_compare(struct top_table *table, const struct top_table *before);

/** A copy of the rows in some order, as facts for a view: "items" with name, connections and
 * perSecond. */
cJSON *top_facts(const struct top_table *table, enum top_order order);

void top_clear(struct top_table *table);

/** Shows it on the terminal until somebody ends it. */
int top_live(const struct options *options, struct error *err);

#endif
