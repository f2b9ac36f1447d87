/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why traffic goes where it goes: the Service of an address, its endpoints and why each of them is
 * used from here or not, what the kernel holds, and whether that is what was decided. Reads caches,
 * policy and kernel, and changes nothing. docs/operating.md describes the fields.
 *
 * What it costs is bounded by budgets for the whole answer; --all has larger ones. What is left out
 * is counted.
 */
#ifndef KUBE_NFTD_SERVE_EXPLAIN_H
#define KUBE_NFTD_SERVE_EXPLAIN_H

#include "kube-nftd/cache/endpoint_slice_cache.h"
#include "kube-nftd/cache/service_cache.h"
#include "kube-nftd/cache/service_cidr_cache.h"
#include "kube-nftd/policy/policy.h"
#include "kube-nftd/ruleset/ruleset.h"
#include "kube-nftd/serve/explain_query.h"
#include "kube-nftd/serve/http_listener.h"

#include <cjson/cJSON.h>

/* Of the answer: one more when a field changes its meaning or goes; new fields do not count. */
#define EXPLAIN_SCHEMA 3
#define EXPLAIN_KIND "KubeNftdExplanation"

/* What one answer may hold: some 10 us each, so that the loop stands still for less than 50 ms, and
 * with all=true for less than half a second. */
#define EXPLAIN_ENDPOINTS 1000 /* that are listed */
#define EXPLAIN_LOOKUPS 2000   /* elements that the kernel is asked for */
#define EXPLAIN_ENTRIES 1000   /* ports, addresses, rivals, slices, source ranges */
#define EXPLAIN_ALL 8          /* times as many if all are wanted */

struct health;

/* What an explanation is made from; all borrowed. */
struct explain_sources {
    bool complete;       /* Services and EndpointSlices are all known */
    bool from_manifests; /* nobody programs this: it was just computed */
    bool unhealthy;      /* health checks answer 503 for it, whatever endpoints there are */
    const char *node_name;
    const char
        *encodings[KIND_COUNT]; /* in which objects come, "protobuf"; NULL: none came, or files */
    const struct service_cache *services;
    const struct endpoint_slice_cache *slices;
    const struct service_cidr_cache *service_cidrs;
    const struct policy *policy;
    const struct health *health; /* NULL: nobody answers balancers here */
    bool no_external_ips;        /* external IPs of Services are not proxied */
    struct {
        const struct ruleset *ruleset; /* NULL: the family is not in use */
        bool programmed;               /* at least once */
        double waiting;      /* for so many seconds a change was not in force; 0: none waits */
        const char *failure; /* why the kernel refused the last transaction; NULL: it did not */
    } family[FAMILY_COUNT];
};

/* An answer made from what is known, for the caller to delete. */
typedef cJSON *(*explain_answer_fn)(const struct explain_sources *sources, const void *query);

/** The answer, which the caller frees. @sources must be complete. */
cJSON *explain(const struct explain_sources *sources, const struct explain_query *query);

/* Keeps questions from taking all of the loop's time or memory: after an answer that cost much
 * there is a pause, and answers that nobody reads hold up the next. Starts zeroed; outlives the
 * listener. */
struct explain_gate {
    double closed_until; /* clock_monotonic */
    size_t unread;       /* bytes of answers that are not sent yet */
};

/** Answers GET /explain?what=...[&all=true] from @sources; 503 while @gate is closed. */
void explain_answer(const struct explain_sources *sources, struct explain_gate *gate,
                    const struct http_request *request, struct http_answer *answer);

/** Whether a question is answered now: else there is no use in preparing for it. */
bool explain_gate_is_open(const struct explain_gate *gate);

#endif
