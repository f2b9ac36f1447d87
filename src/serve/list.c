/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lists of Services. */
#include "pages.h"

#include <fnmatch.h>
#include <string.h>

/* ---- one Service ---- */

struct endpoint_counts {
    size_t all, ready, most_ready, serving, local;
};

/* Counts the endpoints in the slices, in the family with more. */
static struct endpoint_counts count_in_slices(const struct snapshot *now, const char *service_id)
{
    struct endpoint_counts counts[FAMILY_COUNT] = {0};
    const char *here = policy_view(now->policy).here->location.node_name; /* interned */
    const struct endpoint_slice *slice;
    for (size_t i = 0; (slice = endpoint_slice_cache_at(now->slices, service_id, i)); i++) {
        struct endpoint_counts *to = &counts[slice->family];
        for (size_t k = 0; slice->has_family && k < slice->endpoints.n; k++) {
            const struct slice_endpoint *it = &slice->endpoints.v[k];
            bool ready = it->flags & ENDPOINT_READY;
            to->all++;
            to->ready += ready;
            to->serving += (it->flags & ENDPOINT_SERVING) != 0;
            to->local += ready && it->node_name == here;
        }
    }
    return counts[counts[FAMILY_IPV6].all > counts[FAMILY_IPV4].all ? FAMILY_IPV6 : FAMILY_IPV4];
}

/* Counts endpoints as they serve the ports: by name, protocol and family, each copy once. Of ports
 * that have some which can serve, the one with the fewest counts; the note names the others. */
static struct endpoint_counts count_for_ports(const struct service_state *state)
{
    struct endpoint_counts least = {.ready = SIZE_MAX, .serving = SIZE_MAX, .local = SIZE_MAX};
    for (const struct port_state *port = state->ports; port; port = port->next) {
        const uint32_t *n = port->counts.n;
        size_t all = n[SORT_ANY], ready = n[SORT_READY], local = n[SORT_LOCAL_READY],
               serving = ready + n[SORT_FALLBACK];
        least.all = all > least.all ? all : least.all;
        if (!serving)
            continue;
        least.ready = ready < least.ready ? ready : least.ready;
        least.most_ready = ready > least.most_ready ? ready : least.most_ready;
        least.serving = serving < least.serving ? serving : least.serving;
        least.local = local < least.local ? local : least.local;
    }
    return least.serving < SIZE_MAX ? least : (struct endpoint_counts){.all = least.all};
}

static void add_counts(cJSON *to, struct endpoint_counts n)
{
    cJSON *endpoints = cJSON_AddObjectToObject(to, "endpoints");
    facts_add(endpoints, fact_number("all", n.all), fact_number("ready", n.ready),
              fact_number("serving", n.serving), fact_number("local", n.local));
    if (n.most_ready > n.ready)
        facts_add(endpoints, fact_number("readyMost", n.most_ready));
}

static void add_endpoints(const struct snapshot *now, const struct service_state *state, cJSON *to)
{
    const char *id = state->service->id;
    struct endpoint_counts n =
        state->service->skipped ? count_in_slices(now, id) : count_for_ports(state);
    if (n.all == 0) /* the slices may have other ports */
        n.all = count_in_slices(now, id).all;
    add_counts(to, n);
}

static void add_addresses(cJSON *array, enum family family, const struct address *addresses,
                          size_t n)
{
    char text[ADDRESS_TEXT_SIZE];
    for (size_t i = 0; i < n; i++)
        facts_append_text(array, "%s", address_format(family, &addresses[i], text));
}

/* Every Service has them, perhaps empty. */
static const char *const address_lists[] = {"clusterIPs", "externalIPs", "loadBalancerIPs",
                                            "ports"};

static void add_frontends(const struct service *service, cJSON *to)
{
    const struct outside *outside = service_outside(service);
    cJSON *cluster = cJSON_AddArrayToObject(to, address_lists[0]),
          *external = cJSON_AddArrayToObject(to, address_lists[1]),
          *balancers = cJSON_AddArrayToObject(to, address_lists[2]),
          *ports = cJSON_AddArrayToObject(to, address_lists[3]);
    for (enum family i = 0; i < FAMILY_COUNT && !service->skipped; i++) {
        add_addresses(cluster, i, &service->cluster_ip[i], service->has_cluster_ip[i]);
        add_addresses(external, i, outside->external_ips[i].v, outside->external_ips[i].n);
        add_addresses(balancers, i, outside->load_balancer_ips[i].v,
                      outside->load_balancer_ips[i].n);
    }
    vec_each (&service->ports, it) {
        const char *protocol = protocol_name(it->protocol);
        if (it->node_port)
            facts_append_text(ports, "%u:%u/%s", it->port, it->node_port, protocol);
        else
            facts_append_text(ports, "%u/%s", it->port, protocol);
    }
}

static cJSON *describe(const struct snapshot *now, const struct service_state *state)
{
    const struct service *service = state->service;
    cJSON *item = cJSON_CreateObject();
    char *text = NULL;
    facts_add_id(item, service->id);
    facts_add(item, fact_text("type", service_type_name(service->type)),
              fact_text("internalTrafficPolicy", service->internal_local ? "Local" : "Cluster"),
              fact_text("externalTrafficPolicy", service->external_local ? "Local" : "Cluster"),
              fact_number("affinitySeconds", service->affinity_timeout));
    add_frontends(service, item);
    add_endpoints(now, state, item);
    if (now->counting != COUNT_NOTHING)
        facts_add(item, fact_number("connections", service_connections(now, state)));
    const char *word = service_word(now, state, &text);
    if (service->by_hostname)
        xjoin(&text, "load balancer by hostname");
    if (service->by_proxy)
        xjoin(&text, "load balancer in mode Proxy");
    facts_add(item, fact_text("state", word), fact_text("note", text));
    free(text);
    return item;
}

/* The facts about a Service that slices name, but nobody has seen; NULL: it is known. */
static cJSON *describe_absent(const struct snapshot *now, const char *id)
{
    struct object_versions versions;
    size_t slices = 0;
    if (policy_find_service(now->policy, id))
        return NULL;
    bool invalid = object_store_versions(now->services, id, NULL, &versions) && versions.rejected;
    cJSON *item = cJSON_CreateObject();
    facts_add_id(item, id);
    facts_add(item, fact_text("type", NULL), fact_text("internalTrafficPolicy", NULL),
              fact_text("externalTrafficPolicy", NULL), fact_number("affinitySeconds", 0));
    for (size_t i = 0; i < sizeof(address_lists) / sizeof(address_lists[0]); i++)
        cJSON_AddArrayToObject(item, address_lists[i]);
    add_counts(item, count_in_slices(now, id));
    if (now->counting != COUNT_NOTHING)
        facts_add(item, fact_number("connections", 0));
    facts_add(item, fact_text("state", invalid ? "invalid" : "no Service"));
    while (endpoint_slice_cache_at(now->slices, id, slices))
        slices++;
    facts_format(item, "note", "%zu EndpointSlice%s it", slices, slices == 1 ? " names" : "s name");
    return item;
}

/* NULL if it has no connections. */
static cJSON *describe_connections(const struct snapshot *now, const struct service_state *state)
{
    uint64_t total = service_connections(now, state);
    cJSON *item = total ? cJSON_CreateObject() : NULL;
    if (item) {
        facts_add_id(item, state->service->id);
        facts_add(item, fact_number("connections", total));
    }
    return item;
}

/* ---- the walk over all Services ---- */

static bool is_selected(const char *pattern, const char *service_id)
{
    return fnmatch(pattern, service_id, FNM_PATHNAME) == 0;
}

static cJSON *make_head(const struct snapshot *now, const char *kind)
{
    cJSON *head = cJSON_CreateObject();
    facts_add(head, fact_text("kind", kind), fact_number("schema", 1),
              fact_text("version", KUBE_NFTD_VERSION), fact_text("node", now->node_name),
              fact_text("computedFrom", now->from_manifests ? "manifests" : "daemon"));
    return head;
}

/* In arbitrary order. */
struct walk {
    const struct snapshot *now;
    const char *pattern;
    describe_fn *describe;
    enum { WALK_SERVICES, WALK_ABSENT, WALK_DONE } state;
    size_t cursor; /* in the Services, then in those that only slices name */
    cJSON *items;
};

static void add_service(void *ctx, void *item)
{
    const struct walk *walk = ctx;
    const struct service_state *state = item;
    if (is_selected(walk->pattern, state->service->id))
        cJSON_AddItemToArray(walk->items, walk->describe(walk->now, state)); /* unless NULL */
}

static void add_absent(void *ctx, const char *service_id)
{
    const struct walk *walk = ctx;
    if (is_selected(walk->pattern, service_id))
        cJSON_AddItemToArray(walk->items, describe_absent(walk->now, service_id));
}

static void walk_on(struct walk *walk)
{
    const struct snapshot *now = walk->now;
    if (walk->state == WALK_SERVICES)
        walk->cursor =
            hash_table_scan(policy_services(now->policy), walk->cursor, add_service, walk);
    else
        walk->cursor = endpoint_slice_cache_scan(now->slices, walk->cursor, add_absent, walk);
    if (walk->cursor == 0)
        walk->state =
            walk->state == WALK_SERVICES && walk->describe == describe ? WALK_ABSENT : WALK_DONE;
}

/* ---- all at once ---- */

static cJSON *list(const struct snapshot *now, const char *pattern, describe_fn *item,
                   const char *kind)
{
    cJSON *root = make_head(now, kind);
    struct walk walk = {.now = now,
                        .pattern = pattern,
                        .describe = item,
                        .items = cJSON_AddArrayToObject(root, "items")};
    while (walk.state != WALK_DONE)
        walk_on(&walk);
    return root;
}

cJSON *list_services(const struct snapshot *now, const void *pattern)
{
    return list(now, pattern, describe, LIST_KIND);
}

cJSON *list_frontends(const struct snapshot *now, const void *pattern)
{
    return list(now, pattern, describe_frontends, FRONTENDS_KIND);
}

/* ---- in pieces: [?namespace=PATTERN][&name=PATTERN] ---- */

/* A piece ends with the first Service after this time. */
#define PIECE_SECONDS 0.0003
/* Maximum concurrent answers: each generates a piece per loop iteration. */
#define OPEN_MOST 2
/* Maximum age of connection counts when an answer begins. */
#define COUNTED_SECONDS 0.1

struct pieces {
    struct server *server;
    struct walk walk;
    char *pattern; /* owned */
    double begun;  /* clock_monotonic */
    bool some;
    VEC(char) text; /* the current piece */
    size_t sent;    /* bytes of it */
};

/* Takes @text. */
static void put(struct pieces *pieces, char *text)
{
    vec_append(&pieces->text, text, strlen(text));
    free(text);
}

/* Ends the list. The time of the connection counts lets a client compute rates. */
static void put_end(struct pieces *pieces)
{
    const struct snapshot *now = pieces->walk.now;
    double counted_at = 0;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (now->family[i].ruleset)
            counted_at =
                clock_earlier(counted_at, ruleset_connections_read(now->family[i].ruleset));
    put(pieces, pieces->walk.describe == describe_connections
                    ? xasprintf("\n],\"countedAt\":%.6f}\n", counted_at)
                    : xstrdup("\n]}\n"));
}

static void put_bucket(struct pieces *pieces)
{
    struct walk *walk = &pieces->walk;
    const cJSON *item;
    walk->items = cJSON_CreateArray();
    walk_on(walk);
    cJSON_ArrayForEach (item, walk->items) {
        put(pieces, xstrdup(pieces->some ? ",\n" : "\n"));
        put(pieces, facts_print(item));
        pieces->some = true;
    }
    cJSON_Delete(walk->items);
    if (walk->state == WALK_DONE)
        put_end(pieces);
}

static void make_piece(struct pieces *pieces)
{
    double end = clock_monotonic() + PIECE_SECONDS;
    vec_clear(&pieces->text);
    pieces->sent = 0;
    server_read(pieces->server);
    while (pieces->walk.state != WALK_DONE && clock_monotonic() < end)
        if (connections_read(pieces->walk.now, pieces->begun - COUNTED_SECONDS))
            put_bucket(pieces);
    if (pieces->text.n == 0)
        put(pieces, xstrdup("\n")); /* nothing is selected, and an empty piece would end the body */
}

static size_t send_piece(void *ctx, char *to, size_t room)
{
    struct pieces *pieces = ctx;
    if (pieces->sent == pieces->text.n && pieces->walk.state == WALK_DONE)
        return 0;
    if (pieces->sent == pieces->text.n)
        make_piece(pieces);
    size_t left = pieces->text.n - pieces->sent, n = left < room ? left : room;
    memcpy(to, pieces->text.v + pieces->sent, n);
    pieces->sent += n;
    return n;
}

static void end(void *ctx)
{
    struct pieces *pieces = ctx;
    pieces->server->lists--;
    vec_free(&pieces->text);
    free(pieces->pattern);
    free(pieces);
}

static void answer_in_pieces(struct server *server, struct http *http, describe_fn *item,
                             const char *kind)
{
    if (server->lists >= OPEN_MOST) {
        http_busy(http);
        return;
    }
    const char *namespace = http_argument(http, "namespace"), *name = http_argument(http, "name");
    struct pieces *pieces = xcalloc(1, sizeof(*pieces));
    pieces->server = server;
    pieces->pattern = xasprintf("%s/%s", namespace ? namespace : "*", name ? name : "*");
    pieces->walk = (struct walk){.now = &server->now, .pattern = pieces->pattern, .describe = item};
    pieces->begun = clock_monotonic();
    server->lists++;
    cJSON *head = make_head(&server->now, kind);
    char *text = facts_print(head);
    put(pieces, xasprintf("%.*s,\"items\":[", (int)strlen(text) - 1, text)); /* without "}" */
    free(text);
    cJSON_Delete(head);
    http_json(http, 200, NULL);
    http->more = send_piece;
    http->end = end;
    http->ctx = pieces;
}

void answer_list(struct server *server, struct http *http)
{
    answer_in_pieces(server, http, describe, LIST_KIND);
}

void answer_frontends(struct server *server, struct http *http)
{
    answer_in_pieces(server, http, describe_frontends, FRONTENDS_KIND);
}

void answer_connections(struct server *server, struct http *http)
{
    answer_in_pieces(server, http, describe_connections, CONNECTIONS_KIND);
}
