/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Answers on the health address and on healthCheckNodePorts, and keeps the latter's listeners.
 * Answers reflect the state at the time of the request: nothing is cached.
 */
#include "pages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "Never" in kube-proxy's JSON. */
#define TIME_NEVER "0001-01-01T00:00:00Z"

struct checked_service {
    struct hash_link link; /* by id */
    struct health *health;
    char *id; /* namespace/name */
    enum family family;
    uint16_t port;
    size_t local_ready;
    VEC(struct http_port *) ports; /* one for each of health->addresses */
};

struct health {
    struct server *server;
    struct hash_table services[FAMILY_COUNT];
    address_vec addresses[FAMILY_COUNT]; /* where services listen; may be 0.0.0.0 or :: */
};

/* ---- the answers ---- */

/* The body of docs/behaviour.md 6.1. kube-proxy has a space where cJSON has a tab. */
static char *service_body(const struct checked_service *service, bool healthy)
{
    cJSON *body = cJSON_CreateObject();
    facts_add_id(cJSON_AddObjectToObject(body, "service"), service->id);
    facts_add(body, fact_number("localEndpoints", service->local_ready),
              fact_flag("serviceProxyHealthy", healthy));
    char *text = cJSON_Print(body);
    for (char *at = text; (at = strstr(at, ":\t"));)
        at[1] = ' ';
    cJSON_Delete(body);
    return text;
}

static void answer_service(void *ctx, struct http *http)
{
    const struct checked_service *service = ctx;
    struct server *server = service->health->server;
    server_read(server);
    bool healthy = !server->now.overdue;
    http_json(http, service->local_ready > 0 && healthy ? 200 : 503,
              service_body(service, healthy));
    http_header(http, "X-Load-Balancing-Endpoint-Weight", "%zu", service->local_ready);
}

/* @eligible: whether the node is; NULL: it does not matter. */
static void answer_proxy(const struct snapshot *now, const bool *eligible, struct http *http)
{
    bool good = !now->overdue && (!eligible || *eligible);
    double time = clock_realtime(), newest = -INFINITY;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (now->family[i].in_use)
            newest = fmax(newest, now->family[i].last_updated);
    cJSON *body = cJSON_CreateObject(), *families = NULL;
    if (good || isfinite(newest))
        facts_add_time(body, "lastUpdated", good ? time : newest);
    else
        facts_add(body, fact_text("lastUpdated", TIME_NEVER));
    facts_add_time(body, "currentTime", time);
    if (eligible)
        facts_add(body, fact_flag("nodeEligible", *eligible));
    facts_add(body, fact_flag("healthy", !now->overdue));
    for (enum family i = 0; i < FAMILY_COUNT; i++) {
        if (!now->family[i].in_use)
            continue;
        families = families ? families : cJSON_AddObjectToObject(body, "status");
        cJSON *family = cJSON_AddObjectToObject(families, family_name(i));
        facts_add_time(family, "lastUpdated", now->family[i].last_updated);
        facts_add(family, fact_flag("healthy", !now->family[i].overdue));
    }
    http_json(http, good ? 200 : 503, facts_print(body));
    cJSON_Delete(body);
}

void answer_health(struct server *server, struct http *http)
{
    answer_proxy(&server->now, &server->now.node_eligible, http);
    ++*(http->status == 200 ? &server->counts.healthz.good : &server->counts.healthz.bad);
}

void answer_liveness(struct server *server, struct http *http)
{
    answer_proxy(&server->now, NULL, http);
    ++*(http->status == 200 ? &server->counts.livez.good : &server->counts.livez.bad);
}

/* kube-proxy lacks this one. */
void answer_readiness(struct server *server, struct http *http)
{
    const struct snapshot *now = &server->now;
    const char *why = now->programmed ? "" : "the tables are not fully programmed yet";
    const char *problem = now->partial && now->manifests_problem ? now->manifests_problem : "";
    if (now->programmed && !now->partial)
        http_text(http, 200, "ok");
    else
        http_text(http, 503, "%s%s%s\n", why, *why && *problem ? ": " : "", problem);
}

/* ---- the listeners of services ---- */

static struct hash_key check_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct checked_service *)link)->id);
}

static struct checked_service *service_find(const struct health *health, const char *id,
                                            enum family family)
{
    return hash_table_find(&health->services[family], check_key, hash_key_of_text(id));
}

static struct http_port *listen_at(struct checked_service *service, const struct address *address)
{
    static const struct http_port_kind kind = {"health checks",
                                               KIND_SERVICE,
                                               "FailedToStartServiceHealthcheck",
                                               "Listen",
                                               "failed to start the health check on ",
                                               ""};
    static const struct address all_of_them;
    char text[ADDRESS_TEXT_SIZE];
    bool all = memcmp(address, &all_of_them, sizeof(all_of_them)) == 0;
    const struct listen_address where = {
        .family = service->family, .address = *address, .port = service->port};
    return http_port_open(&service->health->server->ports, &where, &kind, service->id,
                          answer_service, service, "service=%s family=%s%s%s port=%u", service->id,
                          family_name(service->family), all ? "" : " address=",
                          all ? "" : address_format(service->family, address, text), service->port);
}

bool health_service_is_listening(const struct health *health, const char *service_id,
                                 enum family family)
{
    const struct checked_service *service = service_find(health, service_id, family);
    if (!service)
        return false;
    vec_each (&service->ports, port)
        if (!(*port)->daemon)
            return false;
    return service->ports.n > 0;
}

size_t health_unbound(const struct health *health, const char **service_id, uint16_t *port)
{
    size_t n = 0;
    for (int i = 0; i < FAMILY_COUNT; i++)
        hash_table_each (&health->services[i], const struct checked_service, service)
            vec_each (&service->ports, listener) {
                if ((*listener)->daemon)
                    continue;
                n++;
                *service_id = service->id;
                *port = service->port;
            }
    return n;
}

/* Opens and closes listeners of @service so that each address has one. Closes first: a wildcard
 * listener and one of a single address exclude each other. */
static void move_service(struct checked_service *service)
{
    const address_vec *addresses = &service->health->addresses[service->family];
    size_t kept = 0;
    vec_each (&service->ports, port) {
        if (addresses_contain(addresses, &(*port)->address.address))
            service->ports.v[kept++] = *port;
        else
            http_port_close(*port);
    }
    service->ports.n = kept;
    vec_each (addresses, address) {
        bool listens = false;
        for (size_t i = 0; i < service->ports.n; i++)
            listens = listens ||
                      memcmp(&service->ports.v[i]->address.address, address, sizeof(*address)) == 0;
        if (!listens)
            vec_push(&service->ports, listen_at(service, address));
    }
}

static void close_service(struct checked_service *service)
{
    vec_each (&service->ports, port)
        http_port_close(*port);
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

/* A Service whose port changes listens nowhere then. */
static void update_service(struct health *health, enum family family,
                           const struct health_check *check)
{
    struct checked_service *service = service_find(health, check->service_id, family);
    if (check->port == 0) {
        if (service)
            checked_service_free(service);
        return;
    }
    if (!service) {
        service = xcalloc(1, sizeof(*service));
        service->health = health;
        service->id = xstrdup(check->service_id);
        service->family = family;
        hash_table_add(&health->services[family], check_key, &service->link);
    }
    service->local_ready = check->local_ready;
    if (service->port != check->port)
        close_service(service);
    service->port = check->port;
}

void health_set_checks(struct health *health, enum family family, const struct health_check *checks,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        update_service(health, family, &checks[i]);
    for (size_t i = 0; i < n; i++) {
        struct checked_service *service = service_find(health, checks[i].service_id, family);
        if (service && service->ports.n == 0)
            move_service(service);
    }
}

void health_set_addresses(struct health *health, enum family family, bool all,
                          const struct address *addresses, size_t n)
{
    vec_clear(&health->addresses[family]);
    if (all)
        vec_push(&health->addresses[family], (struct address){0});
    else
        vec_append(&health->addresses[family], addresses, n);
    hash_table_each (&health->services[family], struct checked_service, service)
        move_service(service);
}

struct health *health_new(struct server *server)
{
    struct health *health = xcalloc(1, sizeof(*health));
    health->server = server;
    return health;
}

void health_free(struct health *health)
{
    for (int i = 0; i < FAMILY_COUNT; i++) {
        hash_table_each (&health->services[i], struct checked_service, service)
            checked_service_free(service);
        vec_free(&health->addresses[i]);
    }
    free(health);
}
