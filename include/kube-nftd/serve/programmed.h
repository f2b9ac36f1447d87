/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page /programmed?namespace=N&service=S: which resourceVersion of a Service and of each of its
 * EndpointSlices has come, and which one this node's kernel holds. docs/operating.md has the shape
 * of the answer.
 */
#ifndef KUBE_NFTD_SERVE_PROGRAMMED_H
#define KUBE_NFTD_SERVE_PROGRAMMED_H

#include "kube-nftd/cache/endpoint_slice_cache.h"
#include "kube-nftd/cache/service_cache.h"
#include "kube-nftd/serve/http_listener.h"

/* What it is answered from. */
struct programmed {
    const struct service_cache *services;
    const struct endpoint_slice_cache *slices;
    bool families[FAMILY_COUNT]; /* those in use */
    bool lost[FAMILY_COUNT];     /* the table is not ours now: it holds nothing */
    /* Whether the kernel refused a frontend of a Service in a family that is in use. */
    bool (*refused)(const void *ctx, const char *service_id, enum family family);
    const void *ctx;
    bool complete; /* Services and EndpointSlices both came: what is not there is unknown */
};

/** Answers 200 if all that came of the Service is in the kernel, 503 if not, 404 if nothing is
 * known of it, 400 if the question has no namespace or service. */
void programmed_answer(const struct programmed *facts, const struct http_request *request,
                       struct http_answer *answer);

#endif
