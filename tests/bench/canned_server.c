/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "canned_server.h"

#include "kube-nftd/base.h"
#include "kube-nftd/source.h"

#include <stdlib.h>
#include <string.h>

#define MAX_REQUESTS 4

struct api_request {
    char *resource;
    struct api_request_ops ops;
    void *ctx;
    bool opened;
};

static struct api_request *requests[MAX_REQUESTS];

/* The last part of a path before its query. */
static char *resource_of(const char *path)
{
    char *resource = xstrdup(path);
    resource[strcspn(resource, "?")] = '\0';
    char *slash = strrchr(resource, '/');
    if (slash)
        memmove(resource, slash + 1, strlen(slash));
    return resource;
}

struct api_request *apiserver_send(struct apiserver *apiserver, const char *path,
                                   const struct api_write *write, double timeout,
                                   const struct api_request_ops *ops, void *ctx, struct error *err)
{
    (void)apiserver;
    (void)timeout;
    for (int i = 0; i < MAX_REQUESTS; i++) {
        if (requests[i])
            continue;
        requests[i] = xcalloc(1, sizeof(*requests[i]));
        *requests[i] = (struct api_request){resource_of(path), *ops, ctx, false};
        return requests[i];
    }
    error_set(err, "more than %d requests", MAX_REQUESTS);
    return NULL;
}

void apiserver_cancel(struct api_request *request)
{
    for (int i = 0; i < MAX_REQUESTS; i++)
        if (requests[i] == request)
            requests[i] = NULL;
    free(request->resource);
    free(request);
}

bool canned_server_send(const char *resource, enum encoding encoding, const char *bytes,
                        size_t length)
{
    for (int i = 0; i < MAX_REQUESTS; i++) {
        struct api_request *request = requests[i];
        if (!request || strcmp(request->resource, resource) != 0)
            continue;
        if (!request->opened && request->ops.opened)
            request->ops.opened(request->ctx, encoding);
        request->opened = true;
        return request->ops.data(request->ctx, bytes, length) >= 0;
    }
    return false;
}
