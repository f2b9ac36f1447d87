/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is answered on the health address and on the health check node ports, and which of these
 * ports are open. Answers are made from the facts of the moment they are asked for, so there is
 * nothing to invalidate.
 */
#include "kube-nftd/serve.h"

#include "kube-nftd/base.h"
#include "ports.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEALTHZ_PORT 10256

/* What kube-proxy's JSON has for "never". */
#define TIME_NEVER "0001-01-01T00:00:00Z"

struct checked_service {
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
    struct health_counts counts;
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

/* @length bytes of @text as a JSON string, quotes included. */
static char *quoted(const char *text, size_t length)
{
    char *copy = xstrndup(text, length);
    cJSON *json = cJSON_CreateString(copy);
    char *printed = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    free(copy);
    return printed;
}

/* The body of docs/behaviour.md 6.1. cJSON indents in a way of its own, hence the text here. */
static char *service_body(const struct checked_service *service, bool healthy)
{
    const char *slash = strchr(service->id, '/');
    size_t length = slash ? (size_t)(slash - service->id) : 0;
    const char *rest = slash ? slash + 1 : service->id;
    char *namespace = quoted(service->id, length);
    char *name = quoted(rest, strlen(rest));
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
    const struct checked_service *service = ctx;
    struct health_status status = {0};
    service->health->status(service->health->ctx, &status);
    bool healthy = all_healthy(&status);
    http_answer_json(answer, service->local_ready > 0 && healthy ? 200 : 503,
                     service_body(service, healthy));
    http_answer_header(answer, "X-Load-Balancing-Endpoint-Weight", "%zu", service->local_ready);
}

static void add_time(cJSON *object, const char *key, double realtime)
{
    char text[CLOCK_RFC3339_SIZE];
    clock_format(realtime, 3, text);
    facts_add(object, fact_text(key, text));
}

/* "lastUpdated" of an answer that is not 200: the newest of what the families say. */
static void add_newest(cJSON *object, const struct health_status *status)
{
    double newest = -INFINITY;
    for (int f = 0; f < FAMILY_COUNT; f++)
        if (status->family[f].reported)
            newest = fmax(newest, status->family[f].last_updated);
    if (isfinite(newest))
        add_time(object, "lastUpdated", newest);
    else
        facts_add(object, fact_text("lastUpdated", TIME_NEVER));
}

static void add_families(cJSON *object, const struct health_status *status)
{
    cJSON *families = NULL;
    for (int f = 0; f < FAMILY_COUNT; f++) {
        if (!status->family[f].reported)
            continue;
        families = families ? families : cJSON_AddObjectToObject(object, "status");
        cJSON *family = cJSON_AddObjectToObject(families, family_name((enum family)f));
        add_time(family, "lastUpdated", status->family[f].last_updated);
        facts_add(family, fact_flag("healthy", status->family[f].healthy));
    }
}

static void answer_proxy(struct health *health, bool with_node, struct http_answer *answer)
{
    struct health_status status = {0};
    health->status(health->ctx, &status);
    bool healthy = all_healthy(&status);
    bool good = healthy && (status.node_eligible || !with_node);
    double now = clock_realtime();
    uint64_t *healthz = good ? &health->counts.healthz.good : &health->counts.healthz.bad;
    uint64_t *livez = good ? &health->counts.livez.good : &health->counts.livez.bad;
    ++*(with_node ? healthz : livez);
    cJSON *body = cJSON_CreateObject();
    if (good)
        add_time(body, "lastUpdated", now);
    else
        add_newest(body, &status);
    add_time(body, "currentTime", now);
    if (with_node)
        facts_add(body, fact_flag("nodeEligible", status.node_eligible));
    facts_add(body, fact_flag("healthy", healthy));
    add_families(body, &status);
    http_answer_json(answer, good ? 200 : 503, facts_print(body));
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

void health_set_events(struct health *health, const struct event_sink *events,
                       const char *node_name)
{
    health->node_name = node_name;
    ports_set_events(health->ports, events);
}

struct health_counts health_counts(const struct health *health)
{
    return health->counts;
}

int health_listen(struct health *health, const char *bind, struct error *err)
{
    static const struct port_event event = {KIND_NODE, "FailedToStartProxierHealthcheck",
                                            "StartKubeProxy", "failed to start proxy healthz on ",
                                            ""};
    struct listen_address address;
    if (listen_address_parse(bind, HEALTHZ_PORT, &address, err) < 0)
        return -1;
    port_close(health->own);
    health->own = port_open(health->ports, &address, &event, health->node_name, answer_own, health,
                            "address=%s", bind);
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
    return hash_key_of_text(((const struct checked_service *)link)->id);
}

static struct checked_service *service_find(const struct health *health, const char *id,
                                            enum family family)
{
    return hash_table_find(&health->services[family], key_of, hash_key_of_text(id));
}

static struct port *listen_at(struct checked_service *service, const struct address *address)
{
    static const struct port_event event = {KIND_SERVICE, "FailedToStartServiceHealthcheck",
                                            "Listen", "failed to start the health check on ", ""};
    char text[ADDRESS_TEXT_SIZE];
    bool all = is_all(address);
    const struct listen_address where = {
        .family = service->family, .address = *address, .port = service->port};
    return port_open(service->health->ports, &where, &event, service->id, answer_service, service,
                     "service=%s family=%s%s%s port=%u", service->id, family_name(service->family),
                     all ? "" : " address=",
                     all ? "" : address_format(service->family, address, text), service->port);
}

bool health_service_is_listening(const struct health *health, const char *service_id,
                                 enum family family)
{
    const struct checked_service *service = service_find(health, service_id, family);
    if (!service)
        return false;
    vec_each (&service->ports, port)
        if (!port_is_listening(*port))
            return false;
    return service->ports.n > 0;
}

static bool listens_at(const struct checked_service *service, const struct address *address)
{
    vec_each (&service->ports, port) {
        if (memcmp(&port_address(*port)->address, address, sizeof(*address)) == 0)
            return true;
    }
    return false;
}

/* Makes the listeners of @service stand at @addresses. Those of all addresses and of one exclude
 * each other, so what is not wanted goes first. */
static void move_service(struct checked_service *service, const address_vec *addresses)
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

static void close_service(struct checked_service *service)
{
    vec_each (&service->ports, port)
        port_close(*port);
    vec_clear(&service->ports);
}

static void checked_service_free(struct checked_service *service)
{
    close_service(service);
    vec_free(&service->ports);
    hash_table_remove(&service->health->services[service->family], &service->link);
    free(service->id);
    free(service);
}

static struct checked_service *service_add(struct health *health, const char *id,
                                           enum family family)
{
    struct checked_service *service = xcalloc(1, sizeof(*service));
    service->health = health;
    service->id = xstrdup(id);
    service->family = family;
    hash_table_add(&health->services[family], key_of, &service->link);
    return service;
}

void health_service(struct health *health, const char *service_id, enum family family,
                    uint16_t port, size_t local_ready)
{
    struct checked_service *service = service_find(health, service_id, family);
    if (port == 0) {
        if (service)
            checked_service_free(service);
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
    hash_table_each (&health->services[family], struct checked_service, s)
        move_service(s, known);
}

void health_free(struct health *health)
{
    if (!health)
        return;
    port_close(health->own);
    for (int f = 0; f < FAMILY_COUNT; f++) {
        hash_table_each (&health->services[f], struct checked_service, service)
            checked_service_free(service);
        vec_free(&health->addresses[f]);
    }
    ports_free(health->ports);
    free(health);
}
