/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/startup_taint.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/apiserver.h"
#include "kube-nftd/source/url_escape.h"
#include "kube-nftd/source/write_trouble.h"

#include <cjson/cJSON.h>
#include <ev.h>

#define LOG "startup-taint"
#define TIMEOUT 10.0
/* A server that does not understand the request will not soon. */
#define REFUSED_WAIT 300.0

/* A taint to be removed, and where it stands among the Node's. */
struct found {
    size_t index;
    struct taint taint;
};

struct startup_taint {
    struct ev_loop *loop;
    struct apiserver *apiserver;
    char *path;
    struct taint pattern;
    VEC(struct found) found; /* in ascending order */
    bool programmed;
    bool fresh;   /* the Node was seen since the last request was sent */
    bool waiting; /* the timer runs */
    struct api_request *request;
    struct write_trouble trouble;
    ev_timer timer;
};

/* ---- the patch ---- */

static void *need(void *p)
{
    if (!p)
        alloc_failed();
    return p;
}

static cJSON *add_operation(cJSON *patch, const char *what, size_t index, const char *member)
{
    cJSON *operation = need(cJSON_CreateObject());
    char *path = xasprintf("/spec/taints/%zu%s%s", index, member ? "/" : "", member ? member : "");
    need(cJSON_AddStringToObject(operation, "op", what));
    need(cJSON_AddStringToObject(operation, "path", path));
    cJSON_AddItemToArray(patch, operation);
    free(path);
    return operation;
}

static void add_test(cJSON *patch, size_t index, const char *member, const char *value)
{
    cJSON *test = add_operation(patch, "test", index, member);
    need(cJSON_AddStringToObject(test, "value", value));
}

/* From the last one on, so that the numbers of the others stay right. */
static char *make_patch(const struct startup_taint *startup)
{
    cJSON *patch = need(cJSON_CreateArray());
    for (size_t i = startup->found.n; i-- > 0;) {
        const struct found *found = &startup->found.v[i];
        add_test(patch, found->index, "key", found->taint.key);
        add_test(patch, found->index, "effect", found->taint.effect);
        if (*found->taint.value) /* else the server leaves the member out */
            add_test(patch, found->index, "value", found->taint.value);
        add_operation(patch, "remove", found->index, NULL);
    }
    char *text = need(cJSON_PrintUnformatted(patch));
    cJSON_Delete(patch);
    return text;
}

/* ---- trying ---- */

static void try(struct startup_taint *startup);

static void clear_found(struct startup_taint *startup)
{
    vec_each (&startup->found, found)
        taint_clear(&found->taint);
    vec_clear(&startup->found);
}

static void try_later(struct startup_taint *startup, double seconds)
{
    startup->waiting = true;
    ev_timer_set(&startup->timer, seconds, 0.);
    ev_timer_start(startup->loop, &startup->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct startup_taint *startup = timer->data;
    (void)loop;
    (void)events;
    startup->waiting = false;
    try(startup);
}

static void removed(struct startup_taint *startup)
{
    log_info(LOG, "everything is in force: removed from the Node taint=%s", startup->pattern.key);
    write_trouble_over(&startup->trouble, clock_monotonic());
    if (!startup->fresh)
        clear_found(startup);
    try(startup);
}

static void failed(struct startup_taint *startup, const struct api_status *status)
{
    bool conflict = status->code == 409 || status->code == 422;
    double wait = REFUSED_WAIT;
    if (conflict) { /* the Node is another by now: the watch will say */
        log_debug(2, LOG, "the Node has changed meanwhile status=%ld", status->code);
        wait = backoff_next(&startup->trouble.backoff, clock_monotonic(), 0);
    } else if (write_may_go_well_later(status->code)) {
        wait = write_trouble_wait(&startup->trouble, "patch", status, clock_monotonic());
    } else {
        write_trouble_refused(&startup->trouble, "patch", status);
    }
    try_later(startup, wait);
}

static void on_done(void *ctx, const struct api_result *result, const char *body)
{
    struct startup_taint *startup = ctx;
    struct api_status status;
    startup->request = NULL;
    write_status(result, body, &status);
    if (status.code == 200)
        removed(startup);
    else
        failed(startup, &status);
    api_status_clear(&status);
}

static const struct api_request_ops ops = {.done = on_done};

static void try(struct startup_taint *startup)
{
    struct error err = {0};
    if (!startup->programmed || startup->waiting || startup->request || startup->found.n == 0)
        return;
    char *body = make_patch(startup);
    startup->fresh = false;
    const struct api_write write = {"PATCH", "application/json-patch+json", body};
    startup->request =
        apiserver_send(startup->apiserver, startup->path, &write, TIMEOUT, &ops, startup, &err);
    free(body);
    if (!startup->request) { /* no credentials: those who read say so */
        struct api_status status = {.message = err.text, .retry_after = -1};
        failed(startup, &status);
    }
    error_clear(&err);
}

/* ---- public ---- */

struct startup_taint *startup_taint_new(struct ev_loop *loop, struct apiserver *apiserver,
                                        const char *node_name, const struct taint *pattern)
{
    static const struct api_resource resource = {"nodes", "", "v1"};
    struct startup_taint *startup = xcalloc(1, sizeof(*startup));
    char *name = url_escape(node_name);
    startup->loop = loop;
    startup->apiserver = apiserver;
    startup->path = xasprintf("/api/v1/nodes/%s", name);
    startup->pattern =
        (struct taint){xstrdup(pattern->key), xstrdup(pattern->value), xstrdup(pattern->effect)};
    free(name);
    write_trouble_init(&startup->trouble, LOG, &resource, clock_monotonic());
    ev_init(&startup->timer, on_timer);
    startup->timer.data = startup;
    return startup;
}

void startup_taint_free(struct startup_taint *startup)
{
    if (!startup)
        return;
    if (startup->request)
        apiserver_cancel(startup->request);
    ev_timer_stop(startup->loop, &startup->timer);
    clear_found(startup);
    vec_free(&startup->found);
    taint_clear(&startup->pattern);
    write_trouble_clear(&startup->trouble);
    free(startup->path);
    free(startup);
}

void startup_taint_node_seen(struct startup_taint *startup, const struct node *node)
{
    clear_found(startup);
    startup->fresh = true;
    for (size_t i = 0; i < node->taints.n && !node->deleting; i++) {
        const struct taint *taint = &node->taints.v[i];
        if (!taint_matches(&startup->pattern, taint))
            continue;
        struct found found = {i,
                              {xstrdup(taint->key), xstrdup(taint->value), xstrdup(taint->effect)}};
        vec_push(&startup->found, found);
    }
    try(startup);
}

void startup_taint_programmed(struct startup_taint *startup)
{
    if (startup->programmed)
        return;
    startup->programmed = true;
    try(startup);
}
