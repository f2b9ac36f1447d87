/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/startup_taint.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/base/text.h"
#include "kube-nftd/source/apiserver.h"
#include "retry.h"

#include <cjson/cJSON.h>
#include <ev.h>
#include <math.h>
#include <string.h>

#define LOG "startup-taint"
#define TIMEOUT 10.0
/* A server that does not understand the request will not soon. */
#define REFUSED_WAIT 300.0
/* Between two removals. */
#define PAUSE_FIRST 1.0
#define PAUSE_MOST 300.0
/* What comes back later than that is not somebody's answer to the removal. */
#define AWAY_FOR_LONG 600.0
/* Conflicts in a row, with no other Node seen, that are no chance any more. */
#define CONFLICTS_SAID 3

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
    bool kept_said; /* that the taint stays, since something was refused */
    struct uid uid; /* of the Node that was seen last */
    bool fresh;     /* the Node was seen since the last request was sent */
    bool anew;      /* likewise, and with another uid */
    bool waiting;   /* the timer runs */
    unsigned conflicts;
    double removed_at, pause; /* the last removal, and the wait after it; 0: none yet */
    bool fight_said;
    struct api_request *request;
    struct retry retry;
    ev_timer timer;
};

/* ---- the patch ---- */

static cJSON *add_operation(cJSON *patch, const char *what, size_t index)
{
    cJSON *operation = cJSON_CreateObject();
    char *path = xasprintf("/spec/taints/%zu", index);
    cJSON_AddStringToObject(operation, "op", what);
    cJSON_AddStringToObject(operation, "path", path);
    cJSON_AddItemToArray(patch, operation);
    free(path);
    return operation;
}

/* The server leaves out members that have no value. */
static void add_member(cJSON *taint, const char *name, const char *value)
{
    if (value && *value)
        cJSON_AddStringToObject(taint, name, value);
}

/* The whole taint: what has another value, or one at all, is not the one that was seen. */
static void add_test(cJSON *patch, const struct found *found)
{
    cJSON *test = add_operation(patch, "test", found->index);
    cJSON *taint = cJSON_AddObjectToObject(test, "value");
    cJSON_AddStringToObject(taint, "key", found->taint.key);
    add_member(taint, "value", found->taint.value);
    cJSON_AddStringToObject(taint, "effect", found->taint.effect);
    add_member(taint, "timeAdded", found->taint.time_added);
}

/* From the last one on, so that the numbers of the others stay right. */
static char *make_patch(const struct startup_taint *startup)
{
    cJSON *patch = cJSON_CreateArray();
    for (size_t i = startup->found.n; i-- > 0;) {
        const struct found *found = &startup->found.v[i];
        add_test(patch, found);
        add_operation(patch, "remove", found->index);
    }
    char *text = cJSON_PrintUnformatted(patch);
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

/* Once for as long as it goes on. */
static void say_removed(struct startup_taint *startup, bool back)
{
    const char *key = startup->pattern.key;
    if (!back)
        log_info(LOG, "all tables are applied: removed from the Node taint=%s", key);
    else if (startup->fight_said)
        log_debug(1, LOG, "removed from the Node again taint=%s pause=%.0f", key, startup->pause);
    else
        log_warn(LOG,
                 "removed from the Node again, another program puts it back: pauses grow from now "
                 "on taint=%s",
                 key);
    startup->fight_said = back;
}

static void removed(struct startup_taint *startup)
{
    double now = clock_monotonic();
    bool back = startup->pause > 0 && now - startup->removed_at < AWAY_FOR_LONG;
    startup->pause = back ? fmin(2 * startup->pause, PAUSE_MOST) : PAUSE_FIRST;
    startup->removed_at = now;
    startup->conflicts = 0;
    say_removed(startup, back);
    retry_write_done(&startup->retry, now);
    if (!startup->fresh)
        clear_found(startup);
    if (startup->anew)
        startup->pause = 0;
    else
        try_later(startup, startup->pause);
    try(startup);
}

/* The Node is another by now: the watch will say. If it does not, somebody refuses the patch. */
static double conflict(struct startup_taint *startup, const struct api_status *status)
{
    log_debug(2, LOG, "the Node changed meanwhile status=%ld", status->code);
    startup->conflicts = startup->fresh ? 0 : startup->conflicts + 1;
    if (startup->conflicts >= CONFLICTS_SAID)
        retry_log_refused(&startup->retry, "patch", status);
    return backoff_next(&startup->retry.backoff, clock_monotonic(), 0);
}

/* Whether the very same request may go well later. 0: no answer. */
static bool is_passing(long code)
{
    return code == 0 || code == 401 || code == 403 || code == 429 || code >= 500;
}

static void failed(struct startup_taint *startup, const struct api_status *status)
{
    double wait = REFUSED_WAIT;
    if (startup->anew || status->code == 409 || status->code == 422) {
        wait = conflict(startup, status);
    } else if (is_passing(status->code)) {
        wait = retry_write_wait(&startup->retry, "patch", status, clock_monotonic());
    } else {
        retry_log_refused(&startup->retry, "patch", status);
    }
    try_later(startup, wait);
}

static void on_done(void *ctx, const struct api_result *result, const char *body)
{
    struct startup_taint *startup = ctx;
    struct api_status status;
    startup->request = NULL;
    api_status_from_result(result, body, &status);
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
    startup->fresh = startup->anew = false;
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

/* ---- what is known of the Node ---- */

static struct taint copy_taint(const struct taint *taint)
{
    return (struct taint){xstrdup(taint->key), xstrdup(taint->value), xstrdup(taint->effect),
                          xstrdup(taint->time_added)};
}

/* What is waited for concerns the Node before. */
static void begin_anew(struct startup_taint *startup, const struct uid *uid)
{
    startup->uid = *uid;
    startup->anew = true;
    startup->pause = 0;
    startup->conflicts = 0;
    startup->waiting = false;
    ev_timer_stop(startup->loop, &startup->timer);
}

/* ---- public ---- */

struct startup_taint *startup_taint_new(struct ev_loop *loop, struct apiserver *apiserver,
                                        const char *node_name, const struct taint *pattern)
{
    struct startup_taint *startup = xcalloc(1, sizeof(*startup));
    char *name = url_escape(node_name);
    startup->loop = loop;
    startup->apiserver = apiserver;
    startup->path = xasprintf("/api/v1/nodes/%s", name);
    startup->pattern = copy_taint(pattern);
    free(name);
    retry_init(&startup->retry, LOG, collection_resource(KIND_NODE), clock_monotonic());
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
    retry_clear(&startup->retry);
    free(startup->path);
    free(startup);
}

void startup_taint_node_seen(struct startup_taint *startup, const struct node *node)
{
    clear_found(startup);
    startup->fresh = true;
    if (!node)
        return;
    if (memcmp(&node->uid, &startup->uid, sizeof(startup->uid)) != 0)
        begin_anew(startup, &node->uid);
    for (size_t i = 0; i < node->taints.n && !node->deleting; i++) {
        const struct taint *taint = &node->taints.v[i];
        if (!taint_matches(&startup->pattern, taint))
            continue;
        struct found found = {i, copy_taint(taint)};
        vec_push(&startup->found, found);
    }
    try(startup);
}

void startup_taint_programmed(struct startup_taint *startup, size_t refused)
{
    if (startup->programmed)
        return;
    if (refused > 0) {
        if (!startup->kept_said && startup->found.n > 0) {
            startup->kept_said = true;
            log_warn(LOG,
                     "the Node keeps it until everything is applied, and the kernel rejects some "
                     "elements taint=%s "
                     "refused=%zu",
                     startup->pattern.key, refused);
        }
        return;
    }
    startup->programmed = true;
    try(startup);
}
