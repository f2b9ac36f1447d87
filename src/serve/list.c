/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve.h"

#include "kube-nftd/base.h"
#include "kube-nftd/policy.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

/* ---- connections ---- */

bool connections_are_counted(const struct explain_sources *sources)
{
    for (int i = 0; i < FAMILY_COUNT && !sources->from_manifests; i++)
        if (sources->family[i].ruleset &&
            ruleset_counting(sources->family[i].ruleset) != COUNT_NOTHING)
            return true;
    return false;
}

static uint64_t of_port(const struct explain_sources *sources, const struct port_state *port)
{
    const struct ruleset *ruleset = sources->family[port->family].ruleset;
    return ruleset ? ruleset_connections(ruleset, port->id) : 0;
}

static uint64_t connections_of_service(const struct explain_sources *sources,
                                       const struct service_state *state)
{
    uint64_t total = 0;
    for (const struct port_state *port = state->ports; port; port = port->next)
        total += of_port(sources, port);
    return total;
}

static void add_id(cJSON *item, const struct service *service)
{
    const char *name = strchr(service->id, '/') + 1;
    facts_format(item, "namespace", "%.*s", (int)(name - 1 - service->id), service->id);
    facts_add(item, fact_text("name", name));
}

static cJSON *connections_describe(const struct explain_sources *sources,
                                   const struct service_state *state)
{
    uint64_t total = connections_of_service(sources, state);
    if (total == 0)
        return NULL;
    cJSON *item = cJSON_CreateObject();
    add_id(item, state->service);
    facts_add(item, fact_number("connections", (double)total));
    return item;
}

/* ---- the most connections ---- */

/* The families of a port stand apart in the list of a Service's ports. */
static uint64_t of_both_families(const struct explain_sources *sources,
                                 const struct service_state *state, uint32_t index)
{
    uint64_t total = 0;
    for (const struct port_state *port = state->ports; port; port = port->next)
        if (port->index == index)
            total += of_port(sources, port);
    return total;
}

static void add_service(const struct explain_sources *sources, const struct service_state *state,
                        port_connections_vec *out)
{
    if (connections_of_service(sources, state) == 0)
        return;
    for (uint32_t i = 0; i < state->service->ports.n; i++) {
        uint64_t total = of_both_families(sources, state, i);
        if (total > 0)
            vec_push(out, ((struct port_connections){state->service->id,
                                                     &state->service->ports.v[i], total}));
    }
}

static int compare_totals(const void *a, const void *b)
{
    const struct port_connections *p = a, *q = b;
    if (p->total != q->total)
        return p->total < q->total ? 1 : -1;
    int order = strcmp(p->service_id, q->service_id);
    return order ? order : (p->port > q->port) - (p->port < q->port);
}

size_t connections_most(const struct explain_sources *sources, size_t most,
                        port_connections_vec *out)
{
    hash_table_each (policy_services(sources->policy), const struct service_state, it)
        add_service(sources, it, out);
    size_t all = out->n;
    if (all > 1)
        qsort(out->v, all, sizeof(*out->v), compare_totals);
    out->n = all < most ? all : most;
    return all - out->n;
}

/* ---- endpoints ---- */

/* By what they say, in slices of one family. */
struct counts {
    const char *here; /* interned */
    size_t all[FAMILY_COUNT], ready[FAMILY_COUNT], serving[FAMILY_COUNT], local[FAMILY_COUNT];
};

static void count_slice(void *ctx, const struct endpoint_slice *slice)
{
    struct counts *counts = ctx;
    enum family family = slice->family;
    if (!slice->has_family)
        return;
    vec_each (&slice->endpoints, it) {
        bool ready = it->flags & ENDPOINT_READY;
        counts->all[family]++;
        counts->ready[family] += ready;
        counts->serving[family] += (it->flags & ENDPOINT_SERVING) != 0;
        counts->local[family] += ready && it->node_name == counts->here;
    }
}

/* An endpoint of a dual-stack Service is in slices of both families, so one counts. */
static void add_endpoints(const struct explain_sources *from, const struct service *service,
                          cJSON *to)
{
    const struct surroundings *around = policy_surroundings(from->policy);
    struct counts counts = {.here = around->location.node_name};
    endpoint_slice_cache_each(from->slices, service->id, count_slice, &counts);
    int f = counts.all[FAMILY_IPV6] > counts.all[FAMILY_IPV4] ? FAMILY_IPV6 : FAMILY_IPV4;
    facts_add(cJSON_AddObjectToObject(to, "endpoints"), fact_number("all", (double)counts.all[f]),
              fact_number("ready", (double)counts.ready[f]),
              fact_number("serving", (double)counts.serving[f]),
              fact_number("local", (double)counts.local[f]));
}

/* ---- state ---- */

/* What is the matter with the frontends of a Service. */
struct trouble {
    const struct claim *lost; /* the first one that another Service has, or the API server */
    size_t n_lost;
    bool refused, pending, table_lost;
    double waiting; /* seconds */
};

static void look_at_port(const struct explain_sources *from, const struct port_state *port,
                         struct trouble *trouble)
{
    const struct ruleset *ruleset = from->family[port->family].ruleset;
    bool some_refused = ruleset && ruleset_figures(ruleset)->refused > 0;
    for (const struct claim *it = port->claims; it; it = it->next_of_port) {
        const struct frontend_state *target = it->target;
        if (target->reserved || (target->winner && target->winner != port)) {
            trouble->lost = trouble->lost ? trouble->lost : it;
            trouble->n_lost++;
        } else if (some_refused && ruleset_is_refused(ruleset, &target->frontend)) {
            trouble->refused = true;
        }
    }
}

static bool is_pending(const struct explain_sources *from, const struct object_versions *versions)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (from->family[i].ruleset && versions->family[i].concerned &&
            !versions->family[i].applied)
            return true;
    return false;
}

struct slices_pending {
    const struct explain_sources *from;
    bool any;
};

static void look_at_slice(void *ctx, const struct object_versions *versions)
{
    struct slices_pending *pending = ctx;
    pending->any = pending->any || is_pending(pending->from, versions);
}

/* Nearly always there is none. */
static bool has_pending(const struct explain_sources *from, const char *id)
{
    struct slices_pending slices = {from, false};
    struct object_versions versions;
    if (service_cache_counts(from->services).pending == 0 &&
        endpoint_slice_cache_counts(from->slices).pending == 0)
        return false;
    endpoint_slice_cache_versions(from->slices, id, look_at_slice, &slices);
    return slices.any ||
           (service_cache_versions(from->services, id, &versions) && is_pending(from, &versions));
}

static struct trouble trouble_of(const struct explain_sources *from,
                                 const struct service_state *state)
{
    struct trouble trouble = {0};
    for (const struct port_state *port = state->ports; port; port = port->next)
        look_at_port(from, port, &trouble);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct ruleset *ruleset = from->family[i].ruleset;
        if (!ruleset || !state->service->has_cluster_ip[i])
            continue;
        trouble.table_lost = trouble.table_lost || ruleset_is_lost(ruleset);
        trouble.pending = trouble.pending || !from->family[i].programmed;
        trouble.waiting = fmax(trouble.waiting, from->family[i].waiting);
    }
    trouble.pending = trouble.pending || has_pending(from, state->service->id);
    return trouble;
}

static char *lost_text(const struct trouble *trouble)
{
    const struct frontend_state *target = trouble->lost->target;
    const char *whose = target->reserved ? "the API server" : target->winner->owner->service->id;
    char frontend[FRONTEND_TEXT_SIZE];
    frontend_format(&target->frontend, frontend);
    if (trouble->n_lost == 1)
        return xasprintf("%s belongs to %s", frontend, whose);
    return xasprintf("%s belongs to %s, and %zu more to others", frontend, whose,
                     trouble->n_lost - 1);
}

/* In one word, and in more, for the caller to free. */
static const char *state_of(const struct explain_sources *from, const struct service_state *state,
                            char **text)
{
    const struct trouble trouble = trouble_of(from, state);
    const char *word = from->from_manifests ? "computed" : "applied";
    *text = NULL;
    if (state->service->skipped) {
        word = state->service->type == TYPE_EXTERNAL_NAME ? "ExternalName" : "headless";
    } else if (trouble.table_lost) {
        word = "lost";
        *text = xstrdup("the table is gone, or belongs to another program");
    } else if (trouble.refused) {
        word = "rejected";
        *text = xstrdup("rejected by the kernel: see explain");
    } else if (trouble.pending && !from->from_manifests) {
        word = "pending";
        if (trouble.waiting >= 1)
            *text = xasprintf("pending for %.0f s", floor(trouble.waiting));
    } else if (trouble.lost) {
        word = "claimed";
        *text = lost_text(&trouble);
    }
    *text = *text ? *text : xstrdup(word);
    return word;
}

/* ---- one Service ---- */

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
    for (int i = 0; i < FAMILY_COUNT && !service->skipped; i++) {
        enum family family = (enum family)i;
        if (service->has_cluster_ip[i])
            facts_append_text(cluster, "%s", address_format(family, &service->cluster_ip[i], text));
        add_addresses(external, family, &outside->external_ips[i]);
        add_addresses(balancers, family, &outside->load_balancer_ips[i]);
    }
    vec_each (&service->ports, it) {
        if (it->node_port)
            facts_append_text(ports, "%u:%u/%s", it->port, it->node_port,
                              protocol_name(it->protocol));
        else
            facts_append_text(ports, "%u/%s", it->port, protocol_name(it->protocol));
    }
}

static cJSON *describe(const struct explain_sources *from, const struct service_state *state)
{
    const struct service *service = state->service;
    char *text;
    const char *word = state_of(from, state, &text);
    cJSON *item = cJSON_CreateObject();
    add_id(item, service);
    facts_add(item, fact_text("type", service_type_name((enum service_type)service->type)),
              fact_text("internalTrafficPolicy", service->internal_local ? "Local" : "Cluster"),
              fact_text("externalTrafficPolicy", service->external_local ? "Local" : "Cluster"),
              fact_number("affinitySeconds", service->affinity_timeout));
    add_frontends(service, item);
    add_endpoints(from, service, item);
    if (connections_are_counted(from))
        facts_add(item, fact_number("connections", (double)connections_of_service(from, state)));
    facts_add(item, fact_text("state", word), fact_text("stateText", text));
    free(text);
    return item;
}

static bool is_wanted(const struct list_query *query, const struct service *service)
{
    size_t length = strcspn(service->id, "/");
    if (query->name && fnmatch(query->name, service->id + length + 1, 0) != 0)
        return false;
    if (!query->namespace)
        return true;
    char *namespace = xstrndup(service->id, length);
    bool matches = fnmatch(query->namespace, namespace, 0) == 0;
    free(namespace);
    return matches;
}

/* ---- all at once ---- */

/* What is said of Services. */
struct topic {
    const char *kind;
    double schema;
    cJSON *(*describe)(const struct explain_sources *from, const struct service_state *state);
};

static const struct topic services = {LIST_KIND, LIST_SCHEMA, describe};
static const struct topic connections = {CONNECTIONS_KIND, CONNECTIONS_SCHEMA,
                                         connections_describe};

static cJSON *describe_all(const struct explain_sources *from, const struct topic *topic)
{
    cJSON *head = cJSON_CreateObject();
    facts_add(head, fact_text("kind", topic->kind), fact_number("schema", topic->schema),
              fact_text("version", KUBE_NFTD_VERSION), fact_text("node", from->node_name),
              fact_text("computedFrom", from->from_manifests ? "manifests" : "daemon"));
    return head;
}

cJSON *list_facts(const struct explain_sources *sources, const void *query)
{
    cJSON *root = describe_all(sources, &services), *items = cJSON_AddArrayToObject(root, "items");
    hash_table_each (policy_services(sources->policy), const struct service_state, it)
        if (is_wanted(query, it->service))
            cJSON_AddItemToArray(items, describe(sources, it));
    return root;
}

/* ---- in pieces ---- */

/* So long a piece takes, and one Service more. */
#define PIECE_SECONDS 0.0003
/* Answers at a time: each has a piece of each turn of the loop. */
#define OPEN_MOST 2
/* Counts of connections are no older than that when an answer begins. */
#define COUNTED_SECONDS 0.1

struct walk {
    struct list_page *page;
    const struct topic *topic;
    struct explain_sources from; /* while a piece is made */
    double begun;                /* clock_monotonic */
    char *namespace, *name;
    size_t cursor;
    bool some, done;
    VEC(char) text; /* that was not given on yet */
    size_t given;   /* of it */
};

static void put(struct walk *walk, const char *text)
{
    vec_append(&walk->text, text, strlen(text));
}

static void put_head(struct walk *walk)
{
    cJSON *head = describe_all(&walk->from, walk->topic);
    char *text = facts_print(head);
    text[strlen(text) - 1] = '\0';
    put(walk, text);
    put(walk, ",\"items\":[");
    free(text);
    cJSON_Delete(head);
}

static void put_service(void *ctx, void *item)
{
    struct walk *walk = ctx;
    const struct service_state *state = item;
    if (!is_wanted(&(struct list_query){walk->namespace, walk->name}, state->service))
        return;
    cJSON *facts = walk->topic->describe(&walk->from, state);
    if (!facts)
        return;
    char *text = facts_print(facts);
    put(walk, walk->some ? ",\n" : "\n");
    put(walk, text);
    walk->some = true;
    free(text);
    cJSON_Delete(facts);
}

/* The time of what was counted lets a client compute rates. */
static void put_end(struct walk *walk)
{
    char *text = xasprintf("\n],\"countedAt\":%.6f}\n", walk->page->counted_at(walk->page->ctx));
    put(walk, walk->topic == &connections ? text : "\n]}\n");
    free(text);
}

/* Makes a piece, if there is more to say. */
static void go_on(struct walk *walk)
{
    double end = clock_monotonic() + PIECE_SECONDS;
    vec_clear(&walk->text);
    walk->given = 0;
    if (walk->done)
        return;
    walk->done = !walk->page->sources(walk->page->ctx, &walk->from);
    while (!walk->done && clock_monotonic() < end) {
        if (!walk->page->counted(walk->page->ctx, walk->begun - COUNTED_SECONDS))
            continue;
        walk->cursor =
            hash_table_scan(policy_services(walk->from.policy), walk->cursor, put_service, walk);
        walk->done = walk->cursor == 0;
    }
    if (walk->done)
        put_end(walk);
    else if (walk->text.n == 0)
        put(walk, "\n"); /* of what was not wanted; an empty piece would be the end */
}

static size_t give_on(void *ctx, char *to, size_t room)
{
    struct walk *walk = ctx;
    if (walk->given == walk->text.n)
        go_on(walk);
    size_t left = walk->text.n - walk->given, n = left < room ? left : room;
    if (n)
        memcpy(to, walk->text.v + walk->given, n);
    walk->given += n;
    return n;
}

static void end(void *ctx)
{
    struct walk *walk = ctx;
    walk->page->open--;
    vec_free(&walk->text);
    free(walk->namespace);
    free(walk->name);
    free(walk);
}

static void answer_topic(struct list_page *page, const struct topic *topic,
                         const struct http_request *request, struct http_answer *answer)
{
    struct explain_sources sources;
    if (!http_answer_reads(request, answer))
        return;
    if (!page->sources(page->ctx, &sources) || !sources.complete) {
        http_answer_text(answer, 503, "not all Services and EndpointSlices are known yet\n");
    } else if (page->open >= OPEN_MOST) {
        http_answer_busy(answer);
    } else {
        struct walk *walk = xcalloc(1, sizeof(*walk));
        *walk = (struct walk){.page = page,
                              .topic = topic,
                              .begun = clock_monotonic(),
                              .from = sources,
                              .namespace = xstrdup(http_request_argument(request, "namespace")),
                              .name = xstrdup(http_request_argument(request, "name"))};
        page->open++;
        put_head(walk);
        http_answer_stream(answer, "application/json", give_on, end, walk);
    }
}

void list_answer(void *page, const struct http_request *request, struct http_answer *answer)
{
    answer_topic(page, &services, request, answer);
}

void list_answer_connections(void *page, const struct http_request *request,
                             struct http_answer *answer)
{
    answer_topic(page, &connections, request, answer);
}
