/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is answered on the health address and on the health check node ports, and which of these
 * ports are open. Answers are made from the facts of the moment they are asked for, so there is
 * nothing to invalidate.
 */
#include "kube-nftd/serve/health.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/hash_table.h"
#include "kube-nftd/base/log.h"
#include "ports.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#define HEALTHZ_PORT 10256

/* What kube-proxy's JSON has for "never". */
#define TIME_NEVER "0001-01-01T00:00:00Z"

struct service {
    struct hash_link link; /* by id */
    struct health *health;
    char *id; /* namespace/name */
    enum family family;
    uint16_t port;
    size_t local_ready;
    VEC(struct port *) ports; /* one for each of health->addresses */
};

struct health {
    health_status_fn status;
    void *ctx;
    struct ports *ports;
    struct port *own;
    struct health_figures figures;
    const struct event_sink *events; /* NULL: nobody wants them */
    const char *node_name;
    struct hash_table services[FAMILY_COUNT];
    address_vec addresses[FAMILY_COUNT]; /* where services listen; 0.0.0.0 and :: are all */
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

/* @length bytes of @text as a JSON string, quotes included. */
static char *json_string(const char *text, size_t length)
{
    char *copy = xstrndup(text, length);
    cJSON *json = cJSON_CreateString(copy);
    char *printed = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    free(copy);
    return printed;
}

/* The body of docs/behaviour.md 6.1. cJSON indents in a way of its own, hence the text here. */
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
    cJSON_AddStringToObject(object, key, text);
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
        cJSON_AddStringToObject(object, "lastUpdated", TIME_NEVER);
}

static void add_families(cJSON *object, const struct health_status *status)
{
    cJSON *families = NULL;
    for (int f = 0; f < FAMILY_COUNT; f++) {
        if (!status->family[f].reported)
            continue;
        if (!families)
            families = cJSON_AddObjectToObject(object, "status");
        cJSON *family = cJSON_AddObjectToObject(families, family_name((enum family)f));
        add_time(family, "lastUpdated", status->family[f].last_updated);
        cJSON_AddBoolToObject(family, "healthy", status->family[f].healthy);
    }
}

static void count_answer(struct health_answers *answers, bool good)
{
    answers->good += good;
    answers->bad += !good;
}

static void answer_proxy(struct health *health, bool with_node, struct http_answer *answer)
{
    struct health_status status = {0};
    health->status(health->ctx, &status);
    bool healthy = all_healthy(&status);
    bool good = healthy && (status.node_eligible || !with_node);
    double now = clock_realtime();
    answer->status = good ? 200 : 503;
    count_answer(with_node ? &health->figures.healthz : &health->figures.livez, good);
    json_headers(answer);
    cJSON *body = cJSON_CreateObject();
    if (good)
        add_time(body, "lastUpdated", now);
    else
        add_newest(body, &status);
    add_time(body, "currentTime", now);
    if (with_node)
        cJSON_AddBoolToObject(body, "nodeEligible", status.node_eligible);
    cJSON_AddBoolToObject(body, "healthy", healthy);
    add_families(body, &status);
    answer->body = cJSON_PrintUnformatted(body);
    cJSON_Delete(body);
}

static void answer_ready(const struct health *health, struct http_answer *answer)
{
    struct health_status status = {0};
    health->status(health->ctx, &status);
    if (status.programmed)
        http_answer_text(answer, 200, "ok");
    else
        http_answer_text(answer, 503, "the tables are not fully programmed yet\n");
}

static void answer_own(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    if (strcmp(request->path, "/healthz") == 0)
        answer_proxy(ctx, true, answer);
    else if (strcmp(request->path, "/livez") == 0)
        answer_proxy(ctx, false, answer);
    else if (strcmp(request->path, "/readyz") == 0)
        answer_ready(ctx, answer);
    else
        http_answer_not_found(answer);
}

struct health *health_new(struct ev_loop *loop, health_status_fn status, void *ctx)
{
    struct health *health = xcalloc(1, sizeof(*health));
    *health = (struct health){.status = status, .ctx = ctx, .ports = ports_new(loop, "health")};
    return health;
}

/* ---- what cannot be bound ---- */

static void report_own(const struct health *health, const char *where, const char *why)
{
    char *note = xasprintf("failed to start proxy healthz on %s: %s", where, why);
    const struct object_event event = {.kind = KIND_NODE,
                                       .id = health->node_name,
                                       .type = EVENT_WARNING,
                                       .reason = "FailedToStartProxierHealthcheck",
                                       .action = "StartKubeProxy",
                                       .note = note};
    event_report(health->events, &event);
    free(note);
}

static void report_service(const struct service *service, const char *where, const char *why)
{
    char *note = xasprintf("failed to start the health check on %s: %s", where, why);
    const struct object_event event = {.kind = KIND_SERVICE,
                                       .id = service->id,
                                       .type = EVENT_WARNING,
                                       .reason = "FailedToStartServiceHealthcheck",
                                       .action = "Listen",
                                       .note = note};
    event_report(service->health->events, &event);
    free(note);
}

static void on_failure(void *ctx, void *port_ctx, const struct listen_address *where,
                       const char *why)
{
    const struct health *health = ctx;
    char *text = listen_address_format(where);
    if (port_ctx == ctx)
        report_own(health, text, why);
    else
        report_service(port_ctx, text, why);
    free(text);
}

void health_set_events(struct health *health, const struct event_sink *events,
                       const char *node_name)
{
    health->events = events;
    health->node_name = node_name;
    ports_on_failure(health->ports, on_failure, health);
}

struct health_figures health_figures(const struct health *health)
{
    return health->figures;
}

int health_listen(struct health *health, const char *bind, struct error *err)
{
    struct listen_address address;
    if (listen_address_parse(bind, HEALTHZ_PORT, &address, err) < 0)
        return -1;
    port_close(health->own);
    health->own = port_open(health->ports, &address, answer_own, health, "address=%s", bind);
    if (port_is_listening(health->own))
        log_info("health", "serving /healthz and /livez address=%s", bind);
    return 0;
}

bool health_is_listening(const struct health *health)
{
    return port_is_listening(health->own);
}

/* ---- the listeners of services ---- */

static bool is_all(const struct address *address)
{
    static const struct address all;
    return memcmp(address, &all, sizeof(all)) == 0;
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct service *)link)->id);
}

static struct service *service_find(const struct health *health, const char *id, enum family family)
{
    return hash_table_find(&health->services[family], key_of, hash_key_of_text(id));
}

static struct port *listen_at(struct service *service, const struct address *address)
{
    char text[ADDRESS_TEXT_SIZE];
    bool all = is_all(address);
    const struct listen_address where = {
        .family = service->family, .address = *address, .port = service->port};
    return port_open(service->health->ports, &where, answer_service, service,
                     "service=%s family=%s%s%s port=%u", service->id, family_name(service->family),
                     all ? "" : " address=",
                     all ? "" : address_format(service->family, address, text), service->port);
}

bool health_service_is_listening(const struct health *health, const char *service_id,
                                 enum family family)
{
    const struct service *service = service_find(health, service_id, family);
    if (!service)
        return false;
    vec_each (&service->ports, port)
        if (!port_is_listening(*port))
            return false;
    return service->ports.n > 0;
}

static bool listens_at(const struct service *service, const struct address *address)
{
    vec_each (&service->ports, port) {
        if (memcmp(&port_address(*port)->address, address, sizeof(*address)) == 0)
            return true;
    }
    return false;
}

/* Makes the listeners of @service stand at @addresses. Those of all addresses and of one exclude
 * each other, so what is not wanted goes first. */
static void move_service(struct service *service, const address_vec *addresses)
{
    size_t kept = 0;
    vec_each (&service->ports, port) {
        if (addresses_contain(addresses, &port_address(*port)->address))
            service->ports.v[kept++] = *port;
        else
            port_close(*port);
    }
    service->ports.n = kept;
    vec_each (addresses, address) {
        if (!listens_at(service, address))
            vec_push(&service->ports, listen_at(service, address));
    }
}

static void close_service(struct service *service)
{
    vec_each (&service->ports, port)
        port_close(*port);
    vec_clear(&service->ports);
}

static void service_free(struct service *service)
{
    close_service(service);
    vec_free(&service->ports);
    hash_table_remove(&service->health->services[service->family], &service->link);
    free(service->id);
    free(service);
}

static struct service *service_add(struct health *health, const char *id, enum family family)
{
    struct service *service = xcalloc(1, sizeof(*service));
    service->health = health;
    service->id = xstrdup(id);
    service->family = family;
    hash_table_add(&health->services[family], key_of, &service->link);
    return service;
}

void health_service(struct health *health, const char *service_id, enum family family,
                    uint16_t port, size_t local_ready)
{
    struct service *service = service_find(health, service_id, family);
    if (port == 0) {
        if (service)
            service_free(service);
        return;
    }
    if (!service)
        service = service_add(health, service_id, family);
    service->local_ready = local_ready;
    if (service->port == port)
        return;
    close_service(service);
    service->port = port;
    move_service(service, &health->addresses[family]);
}

void health_set_addresses(struct health *health, enum family family, bool all,
                          const struct address *addresses, size_t n)
{
    address_vec *known = &health->addresses[family];
    vec_clear(known);
    if (all)
        vec_push(known, (struct address){0});
    for (size_t i = 0; !all && i < n; i++)
        vec_push(known, addresses[i]);
    hash_table_each (&health->services[family], struct service, s)
        move_service(s, known);
}

void health_free(struct health *health)
{
    if (!health)
        return;
    port_close(health->own);
    for (int f = 0; f < FAMILY_COUNT; f++) {
        hash_table_each (&health->services[f], struct service, service)
            service_free(service);
        vec_free(&health->addresses[f]);
    }
    ports_free(health->ports);
    free(health);
}
