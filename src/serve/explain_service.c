/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Explains a Service: its policies, its ports, their addresses, and where connections go. */
#include "explain.h"

#include <string.h>

/* ---- where traffic to an address goes, as data and as text (docs/behaviour.md 3.4) ---- */

static const char *why_nothing_serves(const struct explainer *e)
{
    const struct port_state *port = e->decision.port;
    const char *id = port->owner->service->id;
    const struct endpoint_slice *slice;
    if (e->decision.endpoints.n)
        return "no endpoint is ready";
    for (size_t i = 0; (slice = endpoint_slice_cache_at(e->now->slices, id, i)); i++)
        if (slice->family == port->family && slice->endpoints.n)
            return "no slice has endpoints with this port";
    return "there are no endpoints";
}

static const char *why_nothing_is_local(const struct explainer *e)
{
    vec_each (&e->decision.endpoints, it)
        if (it->node_name && strcmp(it->node_name, e->now->node_name) == 0)
            return "no endpoint on this node is ready";
    return "no endpoint is on this node";
}

/* "from pods (10.244.0.0/16) ", owned by the caller; NULL: pods are not recognised. */
static char *from_pods(enum family family, const struct ruleset_senders *senders)
{
    char *ranges = NULL;
    if (senders->pods == DETECT_NONE)
        return NULL;
    if (senders->pods != DETECT_CIDRS)
        return xasprintf("from pods (%s) ", senders->pod_match);
    vec_each (senders->pod_cidrs, range)
        xjoin(&ranges, "%s", RANGE_TEXT(family, range));
    char *text = ranges ? xasprintf("from pods (%s) ", ranges) : NULL;
    free(ranges);
    return text;
}

/* Adds to @array where traffic @from somewhere goes, and to @text @what becomes of it, which is
 * taken and may be NULL. */
static void add_traffic(cJSON *array, char **text, const char *from, const char *action, size_t n,
                        const char *set, char *what)
{
    facts_add(facts_append(array), fact_text("from", from), fact_text("action", action),
              fact_number("endpoints", n), fact_text("set", set));
    if (what)
        xjoin(text, "%s", what);
    free(what);
}

/* Adds traffic to the @n endpoints of @set, whose senders @who names. @why there are none may be
 * NULL. */
static void add_set(cJSON *array, char **text, const char *from, const char *who, size_t n,
                    const char *set, const char *why)
{
    add_traffic(array, text, from, n ? "forward" : "drop", n, set,
                n || !why ? xasprintf("%sto %zu endpoint%s", who, n, n == 1 ? "" : "s")
                          : xasprintf("%sdropped: traffic policy Local, and %s", who, why));
}

/* Adds where traffic goes to @array; returns the same as text, owned by the caller. Source ranges
 * take precedence (docs/behaviour.md 4.8). With traffic policy Local, this host and pods reach all
 * endpoints (docs/behaviour.md 4.6). */
static char *explain_route(const struct explainer *e, const struct route *route, cJSON *array)
{
    const struct decision *decision = &e->decision;
    enum family family = decision->port->family;
    const struct ruleset *ruleset = e->now->family[family].ruleset;
    const size_t n = decision->cluster.n;
    char *text = NULL;
    if (!ruleset) {
        add_traffic(array, &text, "everywhere", "none", 0, NULL,
                    xasprintf("%s is not proxied on this node", family_name(family)));
        return text;
    }
    const struct ruleset_senders senders = ruleset_senders(ruleset);
    if (route->class & CLASS_RESTRICTED)
        add_traffic(array, &text, "outsideSourceRanges", "drop", 0, NULL, NULL);
    if (!decision->selection.has_any) {
        add_traffic(
            array, &text, "everywhere", senders.rejects ? "reject" : "drop", 0, NULL,
            xasprintf("%s: %s",
                      senders.rejects ? "rejected" : "dropped, because this kernel cannot reject",
                      why_nothing_serves(e)));
    } else if (!(route->class & CLASS_LOCAL)) {
        add_set(array, &text, "everywhere", "", n, "cluster", NULL);
    } else {
        char *pods = route->class & CLASS_EXTERNAL ? from_pods(family, &senders) : NULL;
        if (route->class & CLASS_EXTERNAL && senders.host)
            add_set(array, &text, "host", "from this node itself ", n, "cluster", NULL);
        if (pods)
            add_set(array, &text, "pods", pods, n, "cluster", NULL);
        add_set(array, &text, text ? "elsewhere" : "everywhere", text ? "from elsewhere " : "",
                decision->local.n, "local", why_nothing_is_local(e));
        free(pods);
    }
    if (!(route->class & CLASS_RESTRICTED))
        return text;
    char *whole = xasprintf("%s; sources outside the source ranges are dropped", text);
    free(text);
    return whole;
}

/* ---- addresses ---- */

/* The kinds of an address: all as an array, the first as text. */
static void add_kinds(cJSON *to, uint8_t bits)
{
    static const struct {
        enum claim_kind kind;
        const char *name, *text;
    } kinds[] = {{CLAIM_CLUSTER_IP, "clusterIP", "cluster IP"},
                 {CLAIM_EXTERNAL_IP, "externalIP", "external IP"},
                 {CLAIM_LOAD_BALANCER_IP, "loadBalancerIP", "load-balancer IP"},
                 {CLAIM_NODE_PORT, "nodePort", "node port"}};
    const char *first = NULL;
    cJSON *array = cJSON_AddArrayToObject(to, "kinds");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!(bits & kinds[i].kind))
            continue;
        facts_append_text(array, "%s", kinds[i].name);
        first = first ? first : kinds[i].text;
    }
    facts_add(to, fact_text("kind", first));
}

static void add_rival(cJSON *to, const struct claim *rival, const char *why)
{
    facts_add(to, fact_text("service", rival->port->owner->service->id),
              fact_text("port", port_state_spec(rival->port)->name), fact_text("reason", why));
}

static bool is_asked(const struct explainer *e, const struct frontend *frontend)
{
    return e->by_address && memcmp(&e->asked, frontend, sizeof(*frontend)) == 0;
}

static void add_frontend(struct explainer *e, const struct claim *claim, cJSON *to)
{
    const struct frontend_state *target = claim->target;
    const struct frontend *frontend = &target->frontend;
    const struct route route = claim_route(claim);
    const range_vec *sources = route.class & CLASS_RESTRICTED ? e->decision.sources : NULL;
    const struct claim *winner = frontend_winner(target);
    bool ours = !target->reserved && (!winner || winner == claim);
    bool localhost = explain_is_localhost(e->now, claim);
    facts_add(to, fact_text("frontend", FRONTEND_TEXT(frontend)),
              fact_text("address", ADDRESS_TEXT(frontend->family, &frontend->address)),
              fact_number("port", frontend->port),
              fact_text("protocol", protocol_name(frontend->protocol)),
              fact_flag("asked", is_asked(e, frontend)),
              fact_text("policy", !ours                       ? NULL
                                  : route.class & CLASS_LOCAL ? "Local"
                                                              : "Cluster"),
              fact_flag("restricted", ours && route.class & CLASS_RESTRICTED));
    add_kinds(to, claim->kinds);
    cJSON *rivals = cJSON_AddArrayToObject(to, "alsoWantedBy"),
          *traffic = cJSON_AddArrayToObject(to, "traffic"),
          *ranges = cJSON_AddArrayToObject(to, "sourceRanges");
    for (size_t i = 0; ours && i < target->n_claims; i++) {
        const struct claim *it = frontend_claims(target)[i];
        if (it != claim && !it->port->removed && explain_take(e, ITEM_RIVAL, 1))
            add_rival(facts_append(rivals), it, claims_reason(claim, it));
    }
    for (size_t i = 0; ours && sources && i < sources->n; i++)
        if (explain_take(e, ITEM_SOURCE_RANGE, 1))
            facts_append_text(ranges, "%s", RANGE_TEXT(frontend->family, &sources->v[i]));
    char *text = ours     ? (localhost ? explain_localhost(e, claim, traffic)
                                       : explain_route(e, &route, traffic))
                 : winner ? xasprintf("belongs to %s, which %s", winner->port->owner->service->id,
                                      claims_reason(winner, claim))
                          : xstrdup("not programmed: the API server uses this address and port");
    facts_add(to, fact_text("text", text));
    free(text);
    if (!ours && winner)
        add_rival(cJSON_AddObjectToObject(to, "claimedBy"), winner, claims_reason(winner, claim));
    else
        cJSON_AddNullToObject(to, "claimedBy");
    if (ours && !localhost)
        explain_kernel(e, frontend, &route, to);
    else
        cJSON_AddNullToObject(to, "kernel");
}

/* Display order: the queried address, cluster IP, external IPs, load-balancer IPs, node ports;
 * addresses of each kind ascending. */
static int compare_claims(const void *a, const void *b, void *ctx)
{
    const struct claim *p = *(const struct claim *const *)a, *q = *(const struct claim *const *)b;
    const struct frontend *first = &p->target->frontend, *second = &q->target->frontend;
    int asked = is_asked(ctx, second) - is_asked(ctx, first);
    int kind = (p->kinds & -p->kinds) - (q->kinds & -q->kinds);
    return asked ? asked : kind ? kind : address_compare(&first->address, &second->address);
}

static void add_frontends(struct explainer *e, cJSON *to)
{
    VEC(const struct claim *) claims = {0};
    cJSON *array = cJSON_AddArrayToObject(to, "frontends");
    for (const struct claim *it = e->decision.port->claims; it; it = it->next_of_port)
        vec_push(&claims, it);
    if (claims.n)
        qsort_r(claims.v, claims.n, sizeof(*claims.v), compare_claims, e);
    vec_each (&claims, it)
        if (is_asked(e, &(*it)->target->frontend) || explain_take(e, ITEM_FRONTEND, 1))
            add_frontend(e, *it, facts_append(array));
    vec_free(&claims);
}

/* ---- ports ---- */

/* Deciding a port's endpoints has a cost too, even if none is listed. */
#define ENDPOINTS_PER_ITEM 16

static void add_port(struct explainer *e, const struct port_state *port, cJSON *to)
{
    const struct service_port *spec = port_state_spec(port);
    enum family family = port->family;
    uint8_t needed = port_sets_needed(port);
    policy_decide(e->now->policy, port, &e->decision);
    facts_add(to, fact_text("name", spec->name),
              fact_text("protocol", protocol_name(spec->protocol)), fact_number("port", spec->port),
              fact_nonzero("nodePort", spec->node_port), fact_text("family", family_name(family)),
              fact_flag("needsCluster", needed & BACKENDS_CLUSTER),
              fact_flag("needsLocal", needed & BACKENDS_LOCAL),
              fact_flag("brief", e->by_address && family != e->asked.family));
    add_frontends(e, to);
    explain_endpoints(e, to);
    size_t cost = e->decision.endpoints.n / ENDPOINTS_PER_ITEM;
    e->others -= cost < e->others ? cost : e->others;
    if (!e->now->family[family].ruleset)
        explain_note(e, "%s is not proxied on this node", family_name(family));
    if (spec->node_port && policy_view(e->now->policy).node_port_addresses[family].n == 0 &&
        !policy_serves_localhost(e->now->policy, port))
        explain_note(e,
                     "node port %u is not served over %s: no address for NodePorts is known "
                     "(--nodeport-addresses)",
                     spec->node_port, family_name(family));
}

/* Whether @port is the same entry of spec.ports as @only, in either family, or has the name or
 * number @name. */
static bool is_selected(const struct port_state *port, const struct port_state *only,
                        const char *name)
{
    const struct service_port *spec = port_state_spec(port);
    char number[8];
    snprintf(number, sizeof(number), "%u", spec->port);
    if (only)
        return port->index == only->index;
    return !name || strcmp(spec->name, name) == 0 || strcmp(number, name) == 0;
}

/* The queried family first, then IPv4; in each the order of spec.ports. */
static int compare_ports(const void *a, const void *b, void *ctx)
{
    const struct explainer *e = ctx;
    const struct port_state *p = *(struct port_state *const *)a,
                            *q = *(struct port_state *const *)b;
    int order = (int)p->family - (int)q->family;
    if (order)
        return e->by_address && e->asked.family == FAMILY_IPV6 ? -order : order;
    return (p->index > q->index) - (p->index < q->index);
}

/* ---- the Service ---- */

bool explain_is_outdated(const struct explainer *e, const char *id)
{
    struct object_versions versions;
    return object_store_versions(e->now->services, id, NULL, &versions) && versions.rejected;
}

static void add_header(struct explainer *e, cJSON *to, const struct service *service)
{
    bool outdated = explain_is_outdated(e, service->id);
    facts_add_id(to, service->id);
    facts_add_time(to, "created", service->created == INT64_MAX ? 0 : service->created);
    facts_add(to, fact_flag("outdated", outdated), fact_text("ignoredFields", service->warnings),
              fact_text("internalTrafficPolicy", service->internal_local ? "Local" : "Cluster"),
              fact_text("externalTrafficPolicy", service->external_local ? "Local" : "Cluster"));
    facts_add(cJSON_AddObjectToObject(to, "sessionAffinity"),
              fact_text("type", service->affinity_timeout ? "ClientIP" : "None"),
              fact_number("timeoutSeconds", service->affinity_timeout));
    cJSON *ranges = cJSON_AddArrayToObject(to, "sourceRanges");
    for (enum family family = 0; family < FAMILY_COUNT; family++)
        vec_each (&service_outside(service)->source_ranges[family], range)
            if (explain_take(e, ITEM_SOURCE_RANGE, 1))
                facts_append_text(ranges, "%s", RANGE_TEXT(family, range));
    if (outdated)
        explain_note(e,
                     "the last version of Service %s is invalid, and this is about an older one: "
                     "the log names the field",
                     service->id);
    if (service->by_hostname)
        explain_note(e, "its load balancer has a hostname: no address of it is served here, and "
                        "clients go through the balancer");
    if (service->by_proxy)
        explain_note(e, "its load balancer has ipMode Proxy: that address is not served here, and "
                        "clients go through the balancer");
    if (service->warnings)
        explain_note(e, "ignored in Service %s: %s", service->id, service->warnings);
}

static void add_health_check(struct explainer *e, cJSON *to, const struct service *service)
{
    if (!service->health_check_node_port) {
        cJSON_AddNullToObject(to, "healthCheck");
        return;
    }
    cJSON *check = cJSON_AddObjectToObject(to, "healthCheck");
    facts_add(check, fact_number("port", service->health_check_node_port));
    cJSON *answers = cJSON_AddObjectToObject(check, "answers");
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        if (!service->has_cluster_ip[family] || !e->now->family[family].ruleset)
            continue;
        const struct health *health = e->now->health;
        size_t ready = policy_local_ready(e->now->policy, service, family);
        bool open = !health || health_service_is_listening(health, service->id, family);
        facts_add(cJSON_AddObjectToObject(answers, family_name(family)),
                  fact_nonzero("status", !open                       ? 0
                                         : ready && !e->now->overdue ? 200
                                                                     : 503),
                  fact_number("localEndpoints", ready));
        if (!open)
            explain_note(e,
                         "healthCheckNodePort %u does not answer everywhere over %s: it has no "
                         "address, or another program uses it (the log says which)",
                         service->health_check_node_port, family_name(family));
    }
}

/* Notes easily overlooked causes. */
static void note_slices(struct explainer *e, const struct service *service)
{
    size_t counts[FAMILY_COUNT] = {0};
    const struct endpoint_slice *slice;
    object_versions_vec versions = {0};
    for (size_t i = 0; (slice = endpoint_slice_cache_at(e->now->slices, service->id, i)); i++)
        counts[slice->family]++;
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        const char *name = family_name(family);
        if (counts[family] && !service->has_cluster_ip[family])
            explain_note(e, "%s EndpointSlices exist, but %s has no %s cluster IP", name,
                         service->id, name);
        if (!counts[family] && service->has_cluster_ip[family])
            explain_note(e, "no %s EndpointSlice names %s (label kubernetes.io/service-name)", name,
                         service->id);
    }
    endpoint_slice_cache_versions(e->now->slices, service->id, NULL, &versions);
    vec_each (&versions, it)
        if (it->rejected && explain_take(e, ITEM_SLICE, 1))
            explain_note(e, "EndpointSlice %s is invalid%s: the log names the field", it->id,
                         it->received ? ", an older version of it is used" : "");
    vec_free(&versions);
}

size_t explain_service(struct explainer *e, const struct service_state *state,
                       const struct port_state *only, const char *port_name)
{
    cJSON *service = cJSON_AddObjectToObject(e->root, "service");
    port_state_vec ports = {0};
    add_header(e, service, state->service);
    add_health_check(e, service, state->service);
    cJSON *to = cJSON_AddArrayToObject(service, "ports");
    for (struct port_state *port = state->ports; port; port = port->next)
        if (is_selected(port, only, port_name))
            vec_push(&ports, port);
    size_t n = ports.n;
    if (n > 1)
        qsort_r(ports.v, n, sizeof(*ports.v), compare_ports, e);
    /* Always list the first port. */
    vec_each (&ports, port)
        if (port == ports.v || explain_take(e, ITEM_PORT, 1))
            add_port(e, *port, facts_append(to));
    vec_free(&ports);
    if (!state->service->skipped)
        note_slices(e, state->service);
    return n;
}
