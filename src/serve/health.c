/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is answered on the health address and on the health check node ports, and which of these
 * ports are open. Answers are made from the facts of the moment they are asked for, so there is
 * nothing to invalidate. A port that cannot be had waits: one timer tries all that wait, and a
 * port that closes here wakes it, since it may be the very one another service waits for.
 */
#include "kube-nftd/serve/health.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/serve/http_listener.h"

#include <cjson/cJSON.h>
#include <ev.h>
#include <string.h>

#define RETRY_SECONDS 5.0
#define HEALTHZ_PORT 10256

/* What kube-proxy's JSON has for "never". */
#define TIME_NEVER "0001-01-01T00:00:00Z"

/* A port to listen on. While it is wanted and has no listener, it waits. */
struct port {
    struct http_address address; /* port 0: not wanted */
    struct http_listener *listener;
    char *name; /* owned; what it serves, for log lines */
};

struct service {
    UT_hash_handle hh;
    struct health *health;
    char *id; /* namespace/name */
    size_t local_ready;
    struct port port;
};

struct health {
    struct ev_loop *loop;
    health_status_fn status;
    void *ctx;
    struct port own;
    struct service *services[FAMILY_COUNT]; /* by id */
    size_t waiting;                         /* ports that wait */
    ev_timer retry;
};

static bool all_healthy(const struct health_status *status)
{
    for (int f = 0; f < FAMILY_COUNT; f++) {
        if (status->family[f].reported && !status->family[f].healthy)
            return false;
    }
    return true;
}

static void json_headers(struct http_answer *answer)
{
    http_answer_header(answer, "Content-Type", "application/json");
    http_answer_header(answer, "X-Content-Type-Options", "nosniff");
}

static void *need(void *p)
{
    if (!p)
        alloc_failed();
    return p;
}

/* @length bytes of @text as a JSON string, quotes included. */
static char *json_string(const char *text, size_t length)
{
    char *copy = xstrndup(text, length);
    cJSON *json = need(cJSON_CreateString(copy));
    char *printed = need(cJSON_PrintUnformatted(json));
    cJSON_Delete(json);
    free(copy);
    return printed;
}

/* The body of spec 6.1. cJSON indents in a way of its own, hence the text here. */
static char *service_body(const struct service *service, bool healthy)
{
    const char *slash = strchr(service->id, '/');
    size_t length = slash ? (size_t)(slash - service->id) : 0;
    const char *rest = slash ? slash + 1 : service->id;
    char *namespace = json_string(service->id, length);
    char *name = json_string(rest, strlen(rest));
    char *body = xasprintf("{\n"
                           "\t\"service\": {\n"
                           "\t\t\"namespace\": %s,\n"
                           "\t\t\"name\": %s\n"
                           "\t},\n"
                           "\t\"localEndpoints\": %zu,\n"
                           "\t\"serviceProxyHealthy\": %s\n"
                           "}",
                           namespace, name, service->local_ready, healthy ? "true" : "false");
    free(namespace);
    free(name);
    return body;
}

static void answer_service(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    (void)request;
    const struct service *service = ctx;
    struct health_status status = {0};
    service->health->status(service->health->ctx, &status);
    bool healthy = all_healthy(&status);
    answer->status = service->local_ready > 0 && healthy ? 200 : 503;
    json_headers(answer);
    http_answer_header(answer, "X-Load-Balancing-Endpoint-Weight", "%zu", service->local_ready);
    answer->body = service_body(service, healthy);
}

static void add_time(cJSON *object, const char *key, double realtime)
{
    char text[CLOCK_RFC3339_SIZE];
    clock_rfc3339(realtime, text);
    need(cJSON_AddStringToObject(object, key, text));
}

/* "lastUpdated" of an answer that is not 200: the newest of what the families say. */
static void add_newest(cJSON *object, const struct health_status *status)
{
    bool any = false;
    double newest = 0;
    for (int f = 0; f < FAMILY_COUNT; f++) {
        if (!status->family[f].reported)
            continue;
        if (!any || status->family[f].last_updated > newest)
            newest = status->family[f].last_updated;
        any = true;
    }
    if (any)
        add_time(object, "lastUpdated", newest);
    else
        need(cJSON_AddStringToObject(object, "lastUpdated", TIME_NEVER));
}

static void add_families(cJSON *object, const struct health_status *status)
{
    cJSON *families = NULL;
    for (int f = 0; f < FAMILY_COUNT; f++) {
        if (!status->family[f].reported)
            continue;
        if (!families)
            families = need(cJSON_AddObjectToObject(object, "status"));
        cJSON *family = need(cJSON_AddObjectToObject(families, family_name((enum family)f)));
        add_time(family, "lastUpdated", status->family[f].last_updated);
        need(cJSON_AddBoolToObject(family, "healthy", status->family[f].healthy));
    }
}

static void answer_proxy(struct health *health, bool with_node, struct http_answer *answer)
{
    struct health_status status = {0};
    health->status(health->ctx, &status);
    bool healthy = all_healthy(&status);
    bool good = healthy && (status.node_eligible || !with_node);
    double now = clock_realtime();
    answer->status = good ? 200 : 503;
    json_headers(answer);
    cJSON *body = need(cJSON_CreateObject());
    if (good)
        add_time(body, "lastUpdated", now);
    else
        add_newest(body, &status);
    add_time(body, "currentTime", now);
    if (with_node)
        need(cJSON_AddBoolToObject(body, "nodeEligible", status.node_eligible));
    need(cJSON_AddBoolToObject(body, "healthy", healthy));
    add_families(body, &status);
    answer->body = need(cJSON_PrintUnformatted(body));
    cJSON_Delete(body);
}

static void answer_own(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    if (strcmp(request->path, "/healthz") == 0)
        answer_proxy(ctx, true, answer);
    else if (strcmp(request->path, "/livez") == 0)
        answer_proxy(ctx, false, answer);
    else
        http_answer_not_found(answer);
}

static void schedule(struct health *health, double seconds)
{
    ev_timer_stop(health->loop, &health->retry);
    ev_timer_set(&health->retry, seconds, RETRY_SECONDS);
    ev_timer_start(health->loop, &health->retry);
}

/* The first try of a port: on failure it is said and the port waits. */
static void port_open(struct health *health, struct port *port, http_answer_fn answer, void *ctx)
{
    struct error err = {0};
    port->listener = http_listener_open(health->loop, &port->address, answer, ctx, &err);
    if (port->listener) {
        log_debug(2, "health", "listening %s", port->name);
        return;
    }
    log_warn("health", "cannot listen, trying again every %.0f s %s error=\"%s\"", RETRY_SECONDS,
             port->name, err.text);
    error_clear(&err);
    if (health->waiting++ == 0)
        schedule(health, RETRY_SECONDS);
}

/* Another try; a failure is not said again. */
static void port_retry(struct health *health, struct port *port, http_answer_fn answer, void *ctx)
{
    if (port->address.port == 0 || port->listener)
        return;
    struct error err = {0};
    port->listener = http_listener_open(health->loop, &port->address, answer, ctx, &err);
    error_clear(&err);
    if (!port->listener)
        return;
    health->waiting--;
    log_info("health", "listening at last %s", port->name);
}

static void port_close(struct health *health, struct port *port)
{
    if (port->address.port != 0 && !port->listener)
        health->waiting--;
    if (port->listener && health->waiting > 0)
        schedule(health, 0);
    http_listener_close(port->listener);
    free(port->name);
    *port = (struct port){0};
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    struct health *health = timer->data;
    port_retry(health, &health->own, answer_own, health);
    for (int f = 0; f < FAMILY_COUNT; f++) {
        for (struct service *s = health->services[f]; s; s = s->hh.next)
            port_retry(health, &s->port, answer_service, s);
    }
    if (health->waiting == 0)
        ev_timer_stop(loop, timer);
}

struct health *health_new(struct ev_loop *loop, health_status_fn status, void *ctx)
{
    struct health *health = xcalloc(1, sizeof(*health));
    *health = (struct health){.loop = loop, .status = status, .ctx = ctx};
    ev_timer_init(&health->retry, on_retry, RETRY_SECONDS, RETRY_SECONDS);
    health->retry.data = health;
    return health;
}

static void service_free(struct service *service, enum family family)
{
    struct health *health = service->health;
    port_close(health, &service->port);
    HASH_DELETE(hh, health->services[family], service);
    free(service->id);
    free(service);
}

void health_free(struct health *health)
{
    if (!health)
        return;
    port_close(health, &health->own);
    for (int f = 0; f < FAMILY_COUNT; f++) {
        struct service *service, *next;
        HASH_ITER(hh, health->services[f], service, next)
        {
            service_free(service, (enum family)f);
        }
    }
    ev_timer_stop(health->loop, &health->retry);
    free(health);
}

int health_listen(struct health *health, const char *bind, struct error *err)
{
    struct http_address address;
    if (http_address_parse(bind, HEALTHZ_PORT, &address, err) < 0)
        return -1;
    port_close(health, &health->own);
    health->own.address = address;
    health->own.name = xasprintf("address=%s", bind);
    port_open(health, &health->own, answer_own, health);
    if (health->own.listener)
        log_info("health", "/healthz and /livez answer %s", health->own.name);
    return 0;
}

static struct service *service_add(struct health *health, const char *id, enum family family)
{
    struct service *service = xcalloc(1, sizeof(*service));
    service->health = health;
    service->id = xstrdup(id);
    HASH_ADD_KEYPTR(hh, health->services[family], service->id, strlen(service->id), service);
    return service;
}

void health_service(struct health *health, const char *service_id, enum family family,
                    uint16_t port, size_t local_ready)
{
    struct service *service;
    HASH_FIND_STR(health->services[family], service_id, service);
    if (port == 0) {
        if (service)
            service_free(service, family);
        return;
    }
    if (!service)
        service = service_add(health, service_id, family);
    service->local_ready = local_ready;
    if (service->port.address.port == port)
        return;
    port_close(health, &service->port);
    service->port.address = (struct http_address){.family = family, .port = port};
    service->port.name =
        xasprintf("service=%s family=%s port=%u", service_id, family_name(family), port);
    port_open(health, &service->port, answer_service, service);
}
