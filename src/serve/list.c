/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pages.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

/* ---- connections ---- */

bool connections_are_counted(const struct snapshot *now)
{
    for (int i = 0; i < FAMILY_COUNT && !now->from_manifests; i++)
        if (now->family[i].ruleset && ruleset_counting(now->family[i].ruleset) != COUNT_NOTHING)
            return true;
    return false;
}

bool connections_read(const struct snapshot *now, double since)
{
    bool done = true;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (now->tables[i])
            done = table_read_connections(now->tables[i], since) && done;
    return done;
}

/* The time of the counts, which lets a client compute rates. */
static double counted_at(const struct snapshot *now)
{
    double first = 0;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (now->family[i].ruleset)
            first = clock_earlier(first, ruleset_connections_read(now->family[i].ruleset));
    return first;
}

#define ALL_PORTS UINT32_MAX

/* Sums all ports of a Service, or the one with @index, over both families. */
static uint64_t connections_of(const struct snapshot *now, const struct service_state *state,
                               uint32_t index)
{
    uint64_t total = 0;
    for (const struct port_state *port = state->ports; port; port = port->next) {
        const struct ruleset *ruleset = now->family[port->family].ruleset;
        if (ruleset && (index == ALL_PORTS || port->index == index))
            total += ruleset_connections(ruleset, port->id);
    }
    return total;
}

static int compare_totals(const void *a, const void *b)
{
    const struct port_connections *p = a, *q = b;
    if (p->total != q->total)
        return p->total < q->total ? 1 : -1;
    int order = strcmp(p->service_id, q->service_id);
    return order ? order : (p->port > q->port) - (p->port < q->port);
}

size_t connections_most(const struct snapshot *now, size_t most, port_connections_vec *out)
{
    hash_table_each (policy_services(now->policy), const struct service_state, it) {
        const struct service *service = it->service;
        bool some = connections_of(now, it, ALL_PORTS) > 0;
        for (uint32_t i = 0; some && i < service->ports.n; i++) {
            uint64_t total = connections_of(now, it, i);
            if (total > 0)
                vec_push(out, (struct port_connections){service->id, &service->ports.v[i], total});
        }
    }
    size_t all = out->n;
    if (all > 1)
        qsort(out->v, all, sizeof(*out->v), compare_totals);
    out->n = all < most ? all : most;
    return all - out->n;
}

/* ---- state ---- */

/* Why frontends of a Service are not applied. */
struct problems {
    const struct claim *lost; /* the first one owned by another Service or the API server */
    size_t n_lost;
    bool refused, pending, table_lost;
    double waiting; /* seconds */
};

static bool is_pending(const struct snapshot *now, const struct object_versions *versions)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (now->family[i].ruleset && versions->family[i].concerned && !versions->family[i].applied)
            return true;
    return false;
}

/* Whether a version of the Service or of its slices is not applied yet. Checks the pending totals
 * first, which are nearly always 0. */
static bool has_pending(const struct snapshot *now, const char *id)
{
    object_versions_vec all = {0};
    struct object_versions own;
    bool some = false;
    if (service_cache_counts(now->services).pending == 0 &&
        endpoint_slice_cache_counts(now->slices).pending == 0)
        return false;
    if (service_cache_versions(now->services, id, &own))
        vec_push(&all, own);
    endpoint_slice_cache_versions(now->slices, id, &all);
    vec_each (&all, it)
        some = some || is_pending(now, it);
    vec_free(&all);
    return some;
}

static struct problems problems_of(const struct snapshot *now, const struct service_state *state)
{
    struct problems problems = {.pending = has_pending(now, state->service->id)};
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct table_view *view = &now->family[i];
        if (!view->ruleset || !state->service->has_cluster_ip[i])
            continue;
        problems.table_lost |= ruleset_is_lost(view->ruleset);
        problems.pending |= !view->programmed;
        problems.waiting = fmax(problems.waiting, view->waiting);
    }
    for (const struct port_state *port = state->ports; port; port = port->next) {
        const struct ruleset *ruleset = now->family[port->family].ruleset;
        bool some_refused = ruleset && ruleset_figures(ruleset)->refused > 0;
        for (const struct claim *it = port->claims; it; it = it->next_of_port) {
            const struct frontend_state *target = it->target;
            if (target->reserved || (target->winner && target->winner != port)) {
                problems.lost = problems.lost ? problems.lost : it;
                problems.n_lost++;
            } else if (some_refused) {
                problems.refused |= ruleset_is_refused(ruleset, &target->frontend);
            }
        }
    }
    return problems;
}

/* Adds "state" (one word) and "stateText". */
static void add_state(const struct snapshot *now, const struct service_state *state, cJSON *to)
{
    const struct problems problems = problems_of(now, state);
    const char *word = now->from_manifests ? "computed" : "applied", *more = NULL;
    char *text = NULL;
    if (state->service->skipped) {
        word = state->service->type == TYPE_EXTERNAL_NAME ? "ExternalName" : "headless";
    } else if (problems.table_lost) {
        word = "lost";
        more = "the table is gone, or belongs to another program";
    } else if (problems.refused) {
        word = "rejected";
        more = "rejected by the kernel: see explain";
    } else if (problems.pending && !now->from_manifests) {
        word = "pending";
        if (problems.waiting >= 1)
            text = xasprintf("pending for %.0f s", floor(problems.waiting));
    } else if (problems.lost) {
        const struct frontend_state *target = problems.lost->target;
        char frontend[FRONTEND_TEXT_SIZE];
        word = "claimed";
        xjoin(&text, "%s belongs to %s", frontend_format(&target->frontend, frontend),
              target->reserved ? "the API server" : target->winner->owner->service->id);
        if (problems.n_lost > 1)
            xjoin(&text, "and %zu more to others", problems.n_lost - 1);
    }
    facts_add(to, fact_text("state", word),
              fact_text("stateText", text   ? text
                                     : more ? more
                                            : word));
    free(text);
}

/* ---- one Service ---- */

/* Counts the endpoints in the slices. Dual-stack Services have each endpoint in slices of both
 * families, so only the family with more counts. */
static void add_endpoints(const struct snapshot *now, const char *service_id, cJSON *to)
{
    struct {
        size_t all, ready, serving, local;
    } counts[FAMILY_COUNT] = {0}, *most;
    const char *here = policy_view(now->policy).here->location.node_name; /* interned */
    const struct endpoint_slice *slice;
    for (size_t i = 0; (slice = endpoint_slice_cache_at(now->slices, service_id, i)); i++) {
        if (!slice->has_family)
            continue;
        vec_each (&slice->endpoints, it) {
            bool ready = it->flags & ENDPOINT_READY;
            counts[slice->family].all++;
            counts[slice->family].ready += ready;
            counts[slice->family].serving += (it->flags & ENDPOINT_SERVING) != 0;
            counts[slice->family].local += ready && it->node_name == here;
        }
    }
    most = &counts[counts[FAMILY_IPV6].all > counts[FAMILY_IPV4].all ? FAMILY_IPV6 : FAMILY_IPV4];
    facts_add(cJSON_AddObjectToObject(to, "endpoints"), fact_number("all", most->all),
              fact_number("ready", most->ready), fact_number("serving", most->serving),
              fact_number("local", most->local));
}

static void add_addresses(cJSON *array, enum family family, const address_vec *addresses)
{
    char text[ADDRESS_TEXT_SIZE];
    vec_each (addresses, it)
        facts_append_text(array, "%s", address_format(family, it, text));
}

static void add_frontends(const struct service *service, cJSON *to)
{
    char text[ADDRESS_TEXT_SIZE];
    const struct outside *outside = service_outside(service);
    cJSON *cluster = cJSON_AddArrayToObject(to, "clusterIPs"),
          *external = cJSON_AddArrayToObject(to, "externalIPs"),
          *balancers = cJSON_AddArrayToObject(to, "loadBalancerIPs"),
          *ports = cJSON_AddArrayToObject(to, "ports");
    for (enum family i = 0; i < FAMILY_COUNT && !service->skipped; i++) {
        if (service->has_cluster_ip[i])
            facts_append_text(cluster, "%s", address_format(i, &service->cluster_ip[i], text));
        add_addresses(external, i, &outside->external_ips[i]);
        add_addresses(balancers, i, &outside->load_balancer_ips[i]);
    }
    vec_each (&service->ports, it) {
        if (it->node_port)
            facts_append_text(ports, "%u:%u/%s", it->port, it->node_port,
                              protocol_name(it->protocol));
        else
            facts_append_text(ports, "%u/%s", it->port, protocol_name(it->protocol));
    }
}

static cJSON *describe_id(const struct service *service)
{
    cJSON *item = cJSON_CreateObject();
    const char *name = strchr(service->id, '/') + 1;
    facts_format(item, "namespace", "%.*s", (int)(name - 1 - service->id), service->id);
    facts_add(item, fact_text("name", name));
    return item;
}

static cJSON *describe(const struct snapshot *now, const struct service_state *state)
{
    const struct service *service = state->service;
    cJSON *item = describe_id(service);
    facts_add(item, fact_text("type", service_type_name(service->type)),
              fact_text("internalTrafficPolicy", service->internal_local ? "Local" : "Cluster"),
              fact_text("externalTrafficPolicy", service->external_local ? "Local" : "Cluster"),
              fact_number("affinitySeconds", service->affinity_timeout));
    add_frontends(service, item);
    add_endpoints(now, service->id, item);
    if (connections_are_counted(now))
        facts_add(item, fact_number("connections", connections_of(now, state, ALL_PORTS)));
    add_state(now, state, item);
    return item;
}

static cJSON *describe_connections(const struct snapshot *now, const struct service_state *state)
{
    uint64_t total = connections_of(now, state, ALL_PORTS);
    cJSON *item = total ? describe_id(state->service) : NULL;
    if (item)
        facts_add(item, fact_number("connections", total));
    return item;
}

static bool is_selected(const struct list_query *query, const struct service *service)
{
    const char *name = strchr(service->id, '/') + 1;
    if (query->name && fnmatch(query->name, name, 0) != 0)
        return false;
    if (!query->namespace)
        return true;
    char *namespace = xstrndup(service->id, (size_t)(name - 1 - service->id));
    bool matches = fnmatch(query->namespace, namespace, 0) == 0;
    free(namespace);
    return matches;
}

/* ---- all at once ---- */

static cJSON *make_head(const struct snapshot *now, const char *kind)
{
    cJSON *head = cJSON_CreateObject();
    facts_add(head, fact_text("kind", kind), fact_number("schema", 1),
              fact_text("version", KUBE_NFTD_VERSION), fact_text("node", now->node_name),
              fact_text("computedFrom", now->from_manifests ? "manifests" : "daemon"));
    return head;
}

cJSON *list_services(const struct snapshot *now, const void *query)
{
    cJSON *root = make_head(now, LIST_KIND);
    cJSON *items = cJSON_AddArrayToObject(root, "items");
    hash_table_each (policy_services(now->policy), const struct service_state, it)
        if (is_selected(query, it->service))
            cJSON_AddItemToArray(items, describe(now, it));
    return root;
}

/* ---- in pieces ---- */

/* A piece ends with the first Service after this time. */
#define PIECE_SECONDS 0.0003
/* Maximum concurrent answers: each generates a piece per loop iteration. */
#define OPEN_MOST 2
/* Maximum age of connection counts when an answer begins. */
#define COUNTED_SECONDS 0.1

struct walk {
    struct server *server;
    bool connections;        /* answers /connections rather than /list */
    struct list_query query; /* its texts are owned */
    double begun;            /* clock_monotonic */
    size_t cursor;
    bool some, done;
    VEC(char) text; /* the current piece */
    size_t sent;    /* bytes of it */
};

static void put(struct walk *walk, const char *text)
{
    vec_append(&walk->text, text, strlen(text));
}

static void put_service(void *ctx, void *item)
{
    struct walk *walk = ctx;
    const struct service_state *state = item;
    cJSON *facts = !is_selected(&walk->query, state->service) ? NULL
                   : walk->connections ? describe_connections(&walk->server->now, state)
                                       : describe(&walk->server->now, state);
    if (!facts)
        return;
    char *text = facts_print(facts);
    put(walk, walk->some ? ",\n" : "\n");
    put(walk, text);
    walk->some = true;
    free(text);
    cJSON_Delete(facts);
}

/* Generates the next piece, if any. */
static void make_piece(struct walk *walk)
{
    double end = clock_monotonic() + PIECE_SECONDS;
    vec_clear(&walk->text);
    walk->sent = 0;
    if (walk->done)
        return;
    server_read(walk->server);
    while (!walk->done && clock_monotonic() < end) {
        if (!connections_read(&walk->server->now, walk->begun - COUNTED_SECONDS))
            continue;
        walk->cursor = hash_table_scan(policy_services(walk->server->now.policy), walk->cursor,
                                       put_service, walk);
        walk->done = walk->cursor == 0;
    }
    if (walk->done && walk->connections) {
        char *text = xasprintf("\n],\"countedAt\":%.6f}\n", counted_at(&walk->server->now));
        put(walk, text);
        free(text);
    } else if (walk->done) {
        put(walk, "\n]}\n");
    } else if (walk->text.n == 0) {
        put(walk, "\n"); /* no Service matched, and an empty piece would end the body */
    }
}

static size_t send_piece(void *ctx, char *to, size_t room)
{
    struct walk *walk = ctx;
    if (walk->sent == walk->text.n)
        make_piece(walk);
    size_t left = walk->text.n - walk->sent, n = left < room ? left : room;
    if (n)
        memcpy(to, walk->text.v + walk->sent, n);
    walk->sent += n;
    return n;
}

static void end(void *ctx)
{
    struct walk *walk = ctx;
    walk->server->lists--;
    vec_free(&walk->text);
    free((char *)walk->query.namespace);
    free((char *)walk->query.name);
    free(walk);
}

static void answer_in_pieces(struct server *server, bool connections, struct http *http)
{
    if (server->lists >= OPEN_MOST) {
        http_busy(http);
        return;
    }
    struct walk *walk = xcalloc(1, sizeof(*walk));
    *walk = (struct walk){
        .server = server,
        .connections = connections,
        .query = {xstrdup(http_argument(http, "namespace")), xstrdup(http_argument(http, "name"))},
        .begun = clock_monotonic()};
    server->lists++;
    cJSON *head = make_head(&server->now, connections ? CONNECTIONS_KIND : LIST_KIND);
    char *text = facts_print(head);
    text[strlen(text) - 1] = '\0'; /* the closing brace comes last */
    put(walk, text);
    put(walk, ",\"items\":[");
    free(text);
    cJSON_Delete(head);
    http_json(http, 200, NULL);
    http->more = send_piece;
    http->end = end;
    http->ctx = walk;
}

/* /list[?namespace=PATTERN][&name=PATTERN] */
void answer_list(struct server *server, struct http *http)
{
    answer_in_pieces(server, false, http);
}

/* Likewise; omits Services without connections. */
void answer_connections(struct server *server, struct http *http)
{
    answer_in_pieces(server, true, http);
}
