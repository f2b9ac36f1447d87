/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "explain.h"

#include "kube-nftd/localhost.h"

#include <linux/in.h>
#include <string.h>

/* ---- queries ---- */

/* Longer than any valid query. */
#define TEXT_MAX 512
#define NAME_LENGTH_MAX 253
#define DIGITS "0123456789"

void explain_query_clear(struct explain_query *query)
{
    free(query->text);
    free(query->service_id);
    free(query->port_name);
    memset(query, 0, sizeof(*query));
}

/* Parses an address of @length bytes, which may be in brackets, or "localhost". */
static bool parse_address(const char *text, size_t length, struct explain_query *query)
{
    bool bracketed = length > 1 && text[0] == '[' && text[length - 1] == ']';
    char *copy = bracketed ? xstrndup(text + 1, length - 2) : xstrndup(text, length);
    query->has_address = address_parse(strcmp(copy, "localhost") == 0 ? "127.0.0.1" : copy,
                                       &query->family, &query->address);
    free(copy);
    return query->has_address;
}

static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};

static uint8_t parse_protocol(const char *text)
{
    for (size_t i = 0; i < sizeof(protocols); i++)
        if (strcasecmp(text, protocol_name(protocols[i])) == 0)
            return protocols[i];
    return 0;
}

/* Parses ADDRESS[:PORT[/PROTOCOL]] or PORT[/PROTOCOL]. Returns 1 for any other form, to be parsed
 * as a Service. (A Service "tcp" in a namespace "80" is taken for a port.) */
static int parse_place(const char *text, struct explain_query *query, struct error *err)
{
    const size_t length = strcspn(text, "/");
    const char *colon = memrchr(text, ':', length), *port = NULL;
    const char *protocol = text[length] ? text + length + 1 : NULL;
    query->protocol = protocol ? parse_protocol(protocol) : 0;
    if (length && strspn(text, DIGITS) == length && (!protocol || query->protocol))
        port = text;
    else if (colon && !parse_address(text, length, query) &&
             parse_address(text, (size_t)(colon - text), query))
        port = colon + 1;
    else if (!colon)
        parse_address(text, length, query);
    if (!port && !query->has_address)
        return 1;
    if (protocol && !query->protocol)
        return error_set(err, "the protocol is not TCP, UDP or SCTP");
    if (protocol && !port)
        return error_set(err, "a protocol needs a port: ADDRESS:PORT/PROTOCOL");
    if (port && !port_parse(port, (size_t)(text + length - port), &query->port))
        return error_set(err, "the port is not a number from 1 to 65535");
    return 0;
}

static bool is_name(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= NAME_LENGTH_MAX &&
           strspn(text, DIGITS "abcdefghijklmnopqrstuvwxyz-.") == length;
}

/* Parses NAMESPACE/SERVICE[:PORT] or SERVICE.NAMESPACE[.svc[.DOMAIN]][:PORT]. */
static int parse_service(const char *text, struct explain_query *query, struct error *err)
{
    char *copy = xstrdup(text), *port = copy, *name = strsep(&port, ":"), *domain = NULL;
    char *service = name, *namespace;
    if (strchr(name, '/')) {
        namespace = strsep(&service, "/");
    } else {
        domain = name;
        service = strsep(&domain, ".");
        namespace = strsep(&domain, ".");
    }
    bool valid = namespace && is_name(namespace) && is_name(service) && (!port || is_name(port)) &&
                 (!domain || strcmp(domain, "svc") == 0 || strncmp(domain, "svc.", 4) == 0);
    if (valid) {
        query->service_id = xasprintf("%s/%s", namespace, service);
        query->port_name = xstrdup(port);
    }
    free(copy);
    return valid ? 0
                 : error_set(err, "not one of ADDRESS[:PORT[/PROTOCOL]], PORT[/PROTOCOL] (a node "
                                  "port), NAMESPACE/SERVICE[:PORT] or "
                                  "SERVICE.NAMESPACE[.svc][:PORT]");
}

int explain_query_parse(const char *text, struct explain_query *query, struct error *err)
{
    memset(query, 0, sizeof(*query));
    int result =
        strlen(text) > TEXT_MAX ? error_set(err, "it is too long") : parse_place(text, query, err);
    if (result > 0) {
        memset(query, 0, sizeof(*query));
        result = parse_service(text, query, err);
    }
    if (result == 0)
        query->text = xstrdup(text);
    return result;
}

char *service_query(const char *text)
{
    const char *slash = strchr(text, '/');
    if (!slash)
        return xstrdup(text);
    int name = (int)strcspn(slash + 1, ":");
    return xasprintf("%.*s.%.*s%s", name, slash + 1, (int)(slash - text), text, slash + 1 + name);
}

/* Version of the answer: incremented when a field is removed or changes its meaning. */
#define SCHEMA 3

/* Limits of one answer. An item costs some 10 us, so the loop is blocked for less than 50 ms, or
 * half a second with all=true. */
#define ENDPOINTS_MOST 1000 /* listed */
#define ELEMENTS_MOST 2000  /* queried from the kernel */
#define OTHERS_MOST 1000    /* ports, addresses, rivals, slices, source ranges */
#define TIMES_FOR_ALL 8

bool explain_take(struct explainer *e, enum item item, size_t n)
{
    size_t *budget = item == ITEM_ENDPOINT  ? &e->endpoints
                     : item == ITEM_ELEMENT ? &e->elements
                                            : &e->others;
    if (*budget < n) {
        e->omitted[item] += n;
        return false;
    }
    *budget -= n;
    return true;
}

/* ---- what was asked ---- */

/* The default protocol is TCP, unless only another one has the address and port. */
static const struct frontend_state *find_frontend(struct explainer *e)
{
    const struct frontend_state *target = NULL;
    for (size_t i = 0; i < sizeof(protocols) && !e->query->protocol && !target; i++) {
        e->asked.protocol = protocols[i];
        target = policy_find_frontend(e->now->policy, &e->asked);
    }
    if (target)
        return target;
    e->asked.protocol = e->query->protocol ? e->query->protocol : IPPROTO_TCP;
    return policy_find_frontend(e->now->policy, &e->asked);
}

static const struct frontend_state *find_at(struct explainer *e, enum family family,
                                            const struct address *address)
{
    e->asked.family = (uint8_t)family;
    e->asked.address = *address;
    const struct frontend_state *target = find_frontend(e);
    e->by_address = target != NULL;
    return target;
}

/* A loopback address comes last. */
static const struct frontend_state *find_node_port(struct explainer *e)
{
    const struct frontend_state *target = NULL;
    for (enum family family = 0; family < FAMILY_COUNT && !target; family++)
        vec_each (&policy_view(e->now->policy).node_port_addresses[family], address)
            target = target ? target : find_at(e, family, address);
    for (enum family family = 0; family < FAMILY_COUNT && !target; family++) {
        const struct address address = localhost_address(family);
        if (e->now->serves_localhost[family])
            target = find_at(e, family, &address);
    }
    return target;
}

/* Fills e->asked and returns its frontend; NULL if unknown or if the query names a Service. A lone
 * port is a NodePort on the first address that has it. */
static const struct frontend_state *find_asked(struct explainer *e)
{
    const struct explain_query *query = e->query;
    e->by_address = query->has_address;
    e->asked = (struct frontend){query->address, query->port, query->protocol, query->family};
    if (query->service_id || !query->port)
        return NULL;
    if (query->has_address)
        return find_frontend(e);
    return find_node_port(e);
}

static void describe_query(struct explainer *e)
{
    const struct explain_query *query = e->query;
    cJSON *to = cJSON_AddObjectToObject(e->root, "query");
    facts_add(to, fact_text("text", query->text), fact_flag("all", query->all));
    if (query->service_id)
        facts_add(to, fact_text("service", query->service_id),
                  fact_text("portName", query->port_name));
    else
        facts_add(to,
                  fact_text("address", e->by_address
                                           ? ADDRESS_TEXT(e->asked.family, &e->asked.address)
                                           : NULL),
                  fact_nonzero("port", e->asked.port),
                  fact_text("protocol", e->asked.port ? protocol_name(e->asked.protocol) : NULL),
                  fact_flag("protocolGiven", query->protocol != 0));
    if (!query->port)
        return;
    for (size_t i = 0; i < sizeof(protocols); i++) {
        struct frontend other = e->asked;
        other.protocol = protocols[i];
        if (other.protocol != e->asked.protocol && policy_find_frontend(e->now->policy, &other))
            explain_note(e, "%s exists for %s", query->text, protocol_name(other.protocol));
    }
    if (!query->protocol && e->asked.protocol && e->asked.protocol != IPPROTO_TCP)
        explain_note(e, "no protocol was given: it exists for %s, not for TCP",
                     protocol_name(e->asked.protocol));
}

static void describe_surroundings(struct explainer *e)
{
    const struct snapshot *now = e->now;
    facts_add(cJSON_AddObjectToObject(e->root, "node"), fact_text("name", now->node_name),
              fact_text("zone", now->zone));
    if (policy_view(now->policy).node_never_named)
        explain_note(e,
                     "no endpoint is on %s, though endpoints name their nodes: if some are here, "
                     "see --hostname-override",
                     now->node_name);
    cJSON *encodings = cJSON_AddObjectToObject(e->root, "encodings");
    for (enum object_kind kind = 0; kind < KIND_COUNT; kind++)
        if (now->watch[kind].encoding)
            facts_add(encodings, fact_text(object_kind_name(kind), now->watch[kind].encoding));
}

/* ---- the summary ---- */

/* Summarises the queried address, or the first address of each port and family of a Service. */
static void sum_up(struct explainer *e)
{
    const cJSON *service = facts_at(e->root, "service"), *port, *frontend;
    cJSON_ArrayForEach (port, facts_at(service, "ports"))
        cJSON_ArrayForEach (frontend, facts_at(port, "frontends")) {
            const char *name = facts_text_at(port, "name"), *kind = facts_text_at(frontend, "kind");
            if (e->by_address && !cJSON_IsTrue(facts_at(frontend, "asked")))
                continue;
            explain_summary(e, "%s is %s %s of %s/%s%s%s.", facts_text_at(frontend, "frontend"),
                            *kind == 'c'   ? "the"
                            : *kind == 'e' ? "an"
                                           : "a",
                            kind, facts_text_at(service, "namespace"),
                            facts_text_at(service, "name"), *name ? ", port " : "", name);
            explain_summary(e, "New connections: %s.", facts_text_at(frontend, "text"));
            break;
        }
}

/* A Service that is not known may be another proxy's, or its slices may be there alone. */
static void explain_absent(struct explainer *e, const char *id)
{
    size_t slices = 0;
    while (endpoint_slice_cache_at(e->now->slices, id, slices))
        slices++;
    if (slices)
        explain_note(e, "%zu EndpointSlice%s it (label kubernetes.io/service-name)", slices,
                     slices == 1 ? " names" : "s name");
    explain_note(e,
                 "a Service with the label service.kubernetes.io/service-proxy-name is served by "
                 "another proxy, and is not known here");
}

/* Returns the value of "found". */
static const char *explain_named(struct explainer *e)
{
    const char *id = e->query->service_id, *name = e->query->port_name;
    const struct service_state *state = policy_find_service(e->now->policy, id);
    if (!state) {
        explain_summary(e, "%s%s.", id,
                        explain_is_outdated(e, id) ? " is invalid: the log names the field"
                                                   : ": no such Service exists");
        explain_absent(e, id);
        return "noSuchService";
    }
    if (explain_service(e, state, NULL, name) > 0)
        return "service";
    if (state->service->skipped) {
        explain_summary(
            e, "%s has no cluster IP (headless, or ExternalName): there is nothing to proxy.", id);
        return "noFrontends";
    }
    explain_summary(e, "%s has no port %s.", id, name ? name : "at all");
    return "noSuchPort";
}

/* ---- the answer ---- */

static void add_omitted(struct explainer *e)
{
    static const struct {
        const char *key, *text;
    } names[] = {[ITEM_PORT] = {"ports", "ports"},
                 [ITEM_FRONTEND] = {"frontends", "addresses"},
                 [ITEM_RIVAL] = {"rivals", "Services that want the same address"},
                 [ITEM_SOURCE_RANGE] = {"sourceRanges", "source ranges"},
                 [ITEM_SLICE] = {"slices", "slices"},
                 [ITEM_ENDPOINT] = {"endpoints", "endpoints"},
                 [ITEM_ELEMENT] = {"elements", "elements of the kernel"}};
    cJSON *to = cJSON_AddObjectToObject(e->root, "leftOut");
    char *text = NULL;
    for (size_t i = 0; i < ITEM_COUNT; i++) {
        facts_add(to, fact_number(names[i].key, e->omitted[i]));
        if (e->omitted[i])
            xjoin(&text, "%zu %s", e->omitted[i], names[i].text);
    }
    if (text)
        explain_note(e, "omitted to keep this short: %s (ask for one port or address%s)", text,
                     e->query->all ? "" : ", or --all");
    free(text);
}

cJSON *explain(const struct snapshot *now, const void *asked)
{
    const struct explain_query *query = asked;
    size_t times = query->all ? TIMES_FOR_ALL : 1;
    struct explainer e = {.now = now,
                          .query = query,
                          .endpoints = times * ENDPOINTS_MOST,
                          .elements = times * ELEMENTS_MOST,
                          .others = times * OTHERS_MOST,
                          .root = cJSON_CreateObject()};
    const struct frontend_state *target = find_asked(&e);
    facts_add(e.root, fact_text("kind", EXPLAIN_KIND), fact_number("schema", SCHEMA),
              fact_text("version", KUBE_NFTD_VERSION),
              fact_text("computedFrom", now->from_manifests ? "manifests" : "daemon"));
    e.summary = cJSON_AddArrayToObject(e.root, "summary");
    e.notes = cJSON_AddArrayToObject(e.root, "notes");
    describe_query(&e);
    describe_surroundings(&e);
    explain_kernel_open(&e);
    if (query->service_id) {
        facts_add(e.root, fact_text("found", explain_named(&e)));
    } else if (target) {
        const struct claim *claim = frontend_winner(target);
        for (size_t i = 0; !claim || claim->port->removed; i++)
            claim = frontend_claims(target)[i];
        const struct port_state *port = claim->port;
        facts_add(e.root, fact_text("found", "service"));
        explain_service(&e, port->owner, port, NULL);
    } else {
        explain_unclaimed(&e);
    }
    sum_up(&e);
    if (!now->from_manifests)
        explain_surroundings(&e);
    add_omitted(&e);
    explain_kernel_close(&e);
    decision_free(&e.decision);
    return e.root;
}
