/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Services in short: what each has for clients, how many endpoints, and whether the kernel holds
 * that. docs/operating.md describes the fields. The page is answered in pieces, each of which takes
 * less than a millisecond, however many Services there are: between two of them the loop does what
 * has come. Services are in no order.
 */
#ifndef KUBE_NFTD_SERVE_LIST_H
#define KUBE_NFTD_SERVE_LIST_H

#include "kube-nftd/serve/explain.h"

#define LIST_KIND "KubeNftdServiceList"
#define LIST_SCHEMA 1

/* Which Services: patterns as in a shell; NULL: all. Borrowed. */
struct list_query {
    const char *namespace, *name;
};

/** All of them at once, for the caller to delete. */
cJSON *list(const struct explain_sources *sources, const struct list_query *query);

/* What the page is answered from; outlives the listener. */
struct list_page {
    /* What is known now; false while there is nothing. */
    bool (*sources)(void *ctx, struct explain_sources *sources);
    /* Whether the counts of connections are as of @since (clock_monotonic) or later; if not, it
     * reads a piece of them. And as of when they are. */
    bool (*counted)(void *ctx, double since);
    double (*counted_at)(void *ctx);
    void *ctx;
    unsigned open; /* answers that are not complete; starts as 0 */
};

/** Answers GET /list[?namespace=PATTERN][&name=PATTERN]; 503 while others are answered. */
void list_answer(struct list_page *page, const struct http_request *request,
                 struct http_answer *answer);

/** The same for GET /connections: the Services that anybody connected to, and how often. */
void list_answer_connections(struct list_page *page, const struct http_request *request,
                             struct http_answer *answer);

#endif
