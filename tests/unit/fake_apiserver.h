/* SPDX-License-Identifier: GPL-2.0-or-later */
/* apiserver.h for modules that write: the test is the server. One request is open at most. */
#ifndef KUBE_NFTD_TESTS_FAKE_APISERVER_H
#define KUBE_NFTD_TESTS_FAKE_APISERVER_H

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/source/apiserver.h"

#include <check.h>
#include <cjson/cJSON.h>

struct api_request {
    char *path, *method, *content_type;
    cJSON *body;
    struct api_request_ops ops;
    void *ctx;
};

static struct api_request *request; /* the one that is open */
static bool can_ask = true;
static unsigned sent;

struct api_request *apiserver_send(struct apiserver *apiserver, const char *path,
                                   const struct api_write *write, double timeout,
                                   const struct api_request_ops *ops, void *ctx, struct error *err)
{
    ck_assert_ptr_null(request);
    ck_assert_double_eq(timeout, 10);
    if (!can_ask) {
        error_set(err, "no token");
        return NULL;
    }
    sent++;
    request = xcalloc(1, sizeof(*request));
    *request = (struct api_request){xstrdup(path),
                                    xstrdup(write->method),
                                    xstrdup(write->content_type),
                                    cJSON_Parse(write->body),
                                    *ops,
                                    ctx};
    ck_assert_ptr_nonnull(request->body);
    return request;
}

void apiserver_cancel(struct api_request *open)
{
    ck_assert_ptr_eq(open, request);
    request = NULL;
    cJSON_Delete(open->body);
    free(open->path);
    free(open->method);
    free(open->content_type);
    free(open);
}

/* Ends the open request the way apiserver.c does: it is gone when done is called. */
static void answer_with(long status, double retry_after, const char *body)
{
    ck_assert_ptr_nonnull(request);
    struct api_request_ops ops = request->ops;
    void *ctx = request->ctx;
    struct api_result result = {status, retry_after, status ? NULL : "no answer in time",
                                strlen(body)};
    apiserver_cancel(request);
    ops.done(ctx, &result, body);
}

static void answer(long status)
{
    answer_with(status, -1, "");
}

#endif
