/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why traffic goes where it goes: the Service of an address, its endpoints and why each of them is
 * used from here or not, what the kernel holds, and whether that is what was decided. Reads caches,
 * policy and kernel, and changes nothing. docs/operating.md describes the fields.
 *
 * What it costs is bounded: endpoints that are listed, elements that are looked up; --all lifts the
 * bounds up to a higher one.
 */
#ifndef KUBE_NFTD_SERVE_EXPLAIN_H
#define KUBE_NFTD_SERVE_EXPLAIN_H

#include "kube-nftd/cache/endpoint_slice_cache.h"
#include "kube-nftd/cache/service_cache.h"
#include "kube-nftd/cache/service_cidr_cache.h"
#include "kube-nftd/policy/policy.h"
#include "kube-nftd/ruleset/ruleset.h"
#include "kube-nftd/serve/explain_query.h"

#include <cjson/cJSON.h>

/* Of the answer: one more when a field changes its meaning or goes; new fields do not count. */
#define EXPLAIN_SCHEMA 1
#define EXPLAIN_KIND "KubeNftdExplanation"

/* How many endpoints are listed, and slots and source ranges looked up, unless all are wanted; and
 * then. */
#define EXPLAIN_ENDPOINTS 1000
#define EXPLAIN_LOOKUPS 2000
#define EXPLAIN_MOST 100000

/* What an explanation is made from; all borrowed. */
struct explain_sources {
    bool complete;       /* Services and EndpointSlices are all known */
    bool from_manifests; /* nobody programs this: it was just computed */
    bool unhealthy;      /* health checks answer 503 for it, whatever endpoints there are */
    const char *node_name;
    const struct service_cache *services;
    const struct endpoint_slice_cache *slices;
    const struct service_cidr_cache *service_cidrs;
    const struct policy *policy;
    struct {
        const struct ruleset *ruleset; /* NULL: the family is not in use */
        bool programmed;               /* at least once */
        const char *failure; /* why the kernel refused the last transaction; NULL: it did not */
    } family[FAMILY_COUNT];
};

/** The answer, which the caller frees. @sources must be complete. */
cJSON *explain(const struct explain_sources *sources, const struct explain_query *query);

#endif
