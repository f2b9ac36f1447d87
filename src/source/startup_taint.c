/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source.h"

#include "api_protocol.h"
#include "kube-nftd/base.h"

#include <cjson/cJSON.h>
#include <ev.h>
#include <math.h>
#include <string.h>

#define TIMEOUT 10.0
/* A server that does not understand the request will not do so soon. */
#define REJECTED_WAIT 300.0
/* Seconds between two removals. */
#define PAUSE_FIRST 1.0
#define PAUSE_MOST 300.0
/* A taint that returns later than this was not put back in response to the removal. */
#define AWAY_FOR_LONG 600.0
/* Conflicts are logged from this many in a row without an update of the Node. */
#define CONFLICTS_LOGGED 3

struct startup_taint {
    struct ev_loop *loop;
    struct apiserver *apiserver;
    char *path;
    struct taint pattern;
    char *patch; /* for the Node as last seen; NULL: it lacks the taint */
    bool programmed;
    bool kept_logged; /* logged that rejected elements keep the taint */
    struct uid uid;   /* of the Node as last seen */
    bool fresh;       /* the Node was updated since the last request */
    bool replaced;    /* and has another uid */
    unsigned conflicts;
    double removed_at, pause; /* last removal, and the pause after it; 0: none yet */
    double ready_at;          /* no request before this time */
    bool fight_logged;
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

/* The server omits empty members. */
static void add_member(cJSON *taint, const char *name, const char *value)
{
    if (value && *value)
        cJSON_AddStringToObject(taint, name, value);
}

/* Tests each taint as a whole: a taint with another value is not the one seen. From last to first,
 * so that indices stay valid. */
static char *make_patch(const struct startup_taint *startup, const struct node *node)
{
    cJSON *patch = cJSON_CreateArray();
    for (size_t i = node->deleting ? 0 : node->taints.n; i-- > 0;) {
        const struct taint *taint = &node->taints.v[i];
        if (!taint_matches(&startup->pattern, taint))
            continue;
        cJSON *test = add_operation(patch, "test", i);
        cJSON *value = cJSON_AddObjectToObject(test, "value");
        add_member(value, "key", taint->key);
        add_member(value, "value", taint->value);
        add_member(value, "effect", taint->effect);
        add_member(value, "timeAdded", taint->time_added);
        add_operation(patch, "remove", i);
    }
    char *text = patch->child ? cJSON_PrintUnformatted(patch) : NULL;
    cJSON_Delete(patch);
    return text;
}

/* ---- requests ---- */

static void try(struct startup_taint *startup);

static void set_patch(struct startup_taint *startup, char *patch)
{
    free(startup->patch);
    startup->patch = patch;
}

static void log_removal(struct startup_taint *startup, bool back)
{
    const char *key = startup->pattern.key;
    if (!back)
        log_info("source", "all tables are applied: removed from the Node taint=%s", key);
    else if (startup->fight_logged) /* once while it continues */
        log_debug(1, "source", "removed from the Node again taint=%s pause=%.0f", key,
                  startup->pause);
    else
        log_warn("source",
                 "removed from the Node again, another program puts it back: pauses grow from now "
                 "on taint=%s",
                 key);
    startup->fight_logged = back;
}

/* Returns the pause before the next removal. */
static double removed(struct startup_taint *startup, double now)
{
    bool back = startup->pause > 0 && now - startup->removed_at < AWAY_FOR_LONG;
    startup->pause = back ? fmin(2 * startup->pause, PAUSE_MOST) : PAUSE_FIRST;
    startup->removed_at = now;
    startup->conflicts = 0;
    log_removal(startup, back);
    retry_write_done(&startup->retry, now);
    if (!startup->fresh)
        set_patch(startup, NULL);
    if (startup->replaced)
        startup->pause = 0;
    return startup->pause;
}

/* Returns the wait before the next try. */
static double failed(struct startup_taint *startup, const struct api_status *status, double now)
{
    long code = status->code; /* 0: no answer */
    if (startup->replaced || code == 409 || code == 422) {
        /* The Node has changed, and the watch will deliver it. If not, something rejects the
         * patch. */
        log_debug(2, "source", "the Node changed meanwhile status=%ld", code);
        startup->conflicts = startup->fresh ? 0 : startup->conflicts + 1;
        if (startup->conflicts >= CONFLICTS_LOGGED)
            retry_log_rejected(&startup->retry, "patch", status);
        return backoff_next(&startup->retry.backoff, now, 0);
    }
    if (code == 0 || code == 401 || code == 403 || code == 429 || code >= 500)
        return retry_write_wait(&startup->retry, "patch", status, now);
    retry_log_rejected(&startup->retry, "patch", status);
    return REJECTED_WAIT;
}

static void on_done(void *ctx, const struct api_status *status)
{
    struct startup_taint *startup = ctx;
    double now = clock_monotonic();
    startup->request = NULL;
    startup->ready_at =
        now + (status->code == 200 ? removed(startup, now) : failed(startup, status, now));
    try(startup);
}

/* Sends the patch if it is due, else sets the timer for it. */
static void try(struct startup_taint *startup)
{
    static const struct api_request_ops ops = {.done = on_done};
    const struct api_write write = {"PATCH", "application/json-patch+json", startup->patch};
    struct error err = {0};
    double now = clock_monotonic();
    ev_timer_stop(startup->loop, &startup->timer);
    if (!startup->programmed || startup->request || !startup->patch)
        return;
    if (now < startup->ready_at) {
        ev_timer_set(&startup->timer, startup->ready_at - now, 0.);
        ev_timer_start(startup->loop, &startup->timer);
        return;
    }
    startup->fresh = startup->replaced = false;
    startup->request =
        apiserver_send(startup->apiserver, startup->path, &write, TIMEOUT, &ops, startup, &err);
    if (!startup->request) { /* no credentials: the reflectors log that */
        const struct api_status status = {.message = err.text, .retry_after = -1};
        on_done(startup, &status);
    }
    error_clear(&err);
}

static void on_taint_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    try(timer->data);
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
    startup->pattern = *pattern;
    free(name);
    retry_init(&startup->retry, collection_resource(KIND_NODE), clock_monotonic());
    ev_init(&startup->timer, on_taint_timer);
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
    free(startup->patch);
    taint_clear(&startup->pattern);
    retry_clear(&startup->retry);
    free(startup->path);
    free(startup);
}

void startup_taint_node_seen(struct startup_taint *startup, const struct node *node)
{
    if (!startup)
        return;
    startup->fresh = true;
    if (node && memcmp(&node->uid, &startup->uid, sizeof(startup->uid)) != 0) {
        startup->uid = node->uid;
        startup->replaced = true;
        /* the waits concern the previous Node */
        startup->pause = startup->ready_at = 0;
        startup->conflicts = 0;
    }
    set_patch(startup, node ? make_patch(startup, node) : NULL);
    try(startup);
}

void startup_taint_programmed(struct startup_taint *startup, size_t rejected)
{
    if (!startup || startup->programmed)
        return;
    startup->programmed = rejected == 0;
    if (rejected > 0 && startup->patch && !startup->kept_logged) {
        startup->kept_logged = true;
        log_warn(
            "source",
            "the Node keeps its taint until everything is applied, and the kernel rejects some "
            "elements taint=%s refused=%zu",
            startup->pattern.key, rejected);
    }
    try(startup);
}
