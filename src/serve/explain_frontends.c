/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The addresses of a service port, and what becomes of connections to each. */
#include "kube-nftd/serve/explain_parts.h"

#include <string.h>

static void add_kinds(cJSON *to, uint8_t kinds)
{
    static const struct {
        enum claim_kind kind;
        const char *name;
    } names[] = {{CLAIM_CLUSTER_IP, "clusterIP"},
                 {CLAIM_EXTERNAL_IP, "externalIP"},
                 {CLAIM_LOAD_BALANCER_IP, "loadBalancerIP"},
                 {CLAIM_NODE_PORT, "nodePort"}};
    cJSON *array = json_add_array(to, "kinds");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (kinds & names[i].kind)
            json_append_format(array, "%s", names[i].name);
}

/* ---- traffic ---- */

static void add_traffic(cJSON *array, const char *from, const char *action, size_t endpoints,
                        const char *set)
{
    cJSON *traffic = json_append_object(array);
    json_add_text(traffic, "from", from);
    json_add_text(traffic, "action", action);
    json_add_number(traffic, "endpoints", (double)endpoints);
    json_add_text(traffic, "set", set);
}

static void add_by_set(cJSON *array, const char *from, size_t n, const char *set)
{
    add_traffic(array, from, n ? "forward" : "drop", n, set);
}

/* Whose connections to a frontend with traffic policy Local go to all endpoints
 * (docs/behaviour.md 4.6). */
struct short_circuit {
    bool host, pods;
};

static struct short_circuit short_circuit_of(const struct ruleset_senders *senders)
{
    bool pods = senders->pods != DETECT_NONE;
    if (senders->pods == DETECT_CIDRS)
        pods = senders->pod_cidrs->n > 0;
    return (struct short_circuit){senders->host, pods};
}

static void list_by_source(cJSON *array, const struct route *route, struct short_circuit shortcut)
{
    if (shortcut.host)
        add_by_set(array, "host", route->n_backends, "cluster");
    if (shortcut.pods)
        add_by_set(array, "pods", route->n_backends, "cluster");
    add_by_set(array, shortcut.host || shortcut.pods ? "elsewhere" : "everywhere", route->n_local,
               "local");
}

/* @traffic as data, docs/behaviour.md 3.4. */
static void list_traffic(cJSON *to, const struct route *route,
                         const struct ruleset_senders *senders)
{
    cJSON *array = json_add_array(to, "traffic");
    if (route->sources)
        add_traffic(array, "outsideSourceRanges", "drop", 0, NULL);
    if (!route->has_any)
        add_traffic(array, "everywhere", senders->rejects ? "reject" : "drop", 0, NULL);
    else if (!route->local)
        add_by_set(array, "everywhere", route->n_backends, "cluster");
    else if (!route->external)
        add_by_set(array, "everywhere", route->n_local, "local");
    else
        list_by_source(array, route, short_circuit_of(senders));
}

static char *count_text(size_t n)
{
    return n == 1 ? xstrdup("to 1 endpoint") : xasprintf("to %zu endpoints", n);
}

static void count_endpoints(void *ctx, const struct endpoint_slice *slice)
{
    size_t *counts = ctx;
    counts[slice->family] += slice->endpoints.n;
}

static char *reject_text(const struct explainer *e, bool rejects)
{
    const struct port_state *port = e->decision.port;
    size_t counts[FAMILY_COUNT] = {0};
    endpoint_slice_cache_each(e->from->slices, port->owner->service->id, count_endpoints, counts);
    return xasprintf("%s: %s", rejects ? "refused" : "dropped, since this kernel cannot refuse",
                     e->decision.endpoints.n ? "no endpoint is ready"
                     : counts[port->family]  ? "no slice has endpoints with this port"
                                             : "there are no endpoints");
}

static bool has_any_here(const struct explainer *e)
{
    const char *here = e->from->node_name;
    vec_each (&e->decision.endpoints, endpoint)
        if (endpoint->node_name && strcmp(endpoint->node_name, here) == 0)
            return true;
    return false;
}

static char *local_text(const struct explainer *e, const struct route *route)
{
    if (route->n_local)
        return count_text(route->n_local);
    return xasprintf("dropped: traffic policy Local, and %s",
                     has_any_here(e) ? "no endpoint on this node is ready"
                                     : "no endpoint is on this node");
}

/* Who counts as a pod. */
static char *pods_text(enum family family, const struct ruleset_senders *senders)
{
    if (senders->pods != DETECT_CIDRS)
        return xasprintf("pods (%s)", senders->pod_match);
    char *text = xstrdup("pods (");
    vec_each (senders->pod_cidrs, range) {
        char one[RANGE_TEXT_SIZE];
        char *longer = xasprintf("%s%s%s", text, range == senders->pod_cidrs->v ? "" : ", ",
                                 range_format(family, range, one));
        free(text);
        text = longer;
    }
    char *whole = xasprintf("%s)", text);
    free(text);
    return whole;
}

static char *senders_text(enum family family, const struct ruleset_senders *senders)
{
    struct short_circuit shortcut = short_circuit_of(senders);
    if (!shortcut.pods)
        return xstrdup("this node itself");
    char *pods = pods_text(family, senders);
    char *text = shortcut.host ? xasprintf("this node itself and from %s", pods) : xstrdup(pods);
    free(pods);
    return text;
}

static char *by_source_text(const struct explainer *e, const struct route *route,
                            const struct ruleset_senders *senders)
{
    struct short_circuit shortcut = short_circuit_of(senders);
    char *local = local_text(e, route);
    if (!shortcut.host && !shortcut.pods)
        return local;
    char *all = count_text(route->n_backends);
    char *from = senders_text((enum family)e->decision.port->family, senders);
    char *text = xasprintf("%s; from %s %s", local, from, all);
    free(local);
    free(all);
    free(from);
    return text;
}

static char *allowed_text(const struct explainer *e, const struct route *route,
                          const struct ruleset_senders *senders)
{
    if (!route->has_any)
        return reject_text(e, senders->rejects);
    if (!route->local)
        return count_text(route->n_backends);
    return route->external ? by_source_text(e, route, senders) : local_text(e, route);
}

/* The same in words. Source ranges come before everything else (docs/behaviour.md 4.8). */
static char *traffic_text(const struct explainer *e, const struct route *route,
                          const struct ruleset_senders *senders)
{
    char *text = allowed_text(e, route, senders);
    if (!route->sources)
        return text;
    char *longer = xasprintf("from the source ranges %s; all others are dropped", text);
    free(text);
    return longer;
}

/* ---- who has it ---- */

static const struct service *service_of(const struct claim *claim)
{
    return claim->port->owner->service;
}

static const struct claim *winner_of(const struct frontend_state *target)
{
    const struct claim *claim = target->claims;
    while (claim && claim->port != target->winner)
        claim = claim->next_of_target;
    return claim;
}

static void add_rival(cJSON *to, const struct claim *rival, const char *why)
{
    json_add_text(to, "service", service_of(rival)->id);
    json_add_text(to, "port", port_state_spec(rival->port)->name);
    json_add_text(to, "reason", why);
}

/* Others that want it too, and do not get it. */
static void add_losers(struct explainer *e, cJSON *to, const struct claim *winner)
{
    cJSON *array = json_add_array(to, "alsoWantedBy");
    for (const struct claim *it = winner->target->claims; it; it = it->next_of_target)
        if (it != winner && explain_may_add(e, &e->left_out.rivals))
            add_rival(json_append_object(array), it, claims_reason(winner, it));
}

/* ---- one frontend ---- */

static void add_sources(struct explainer *e, cJSON *to, const struct route *route,
                        enum family family)
{
    cJSON *array = json_add_array(to, "sourceRanges");
    for (size_t i = 0; route->sources && i < route->n_sources; i++) {
        char text[RANGE_TEXT_SIZE];
        if (explain_may_add(e, &e->left_out.source_ranges))
            json_append_format(array, "%s", range_format(family, &route->sources[i], text));
    }
    json_add_bool(to, "restricted", route->sources != NULL);
}

static void list_ours(struct explainer *e, const struct claim *claim, cJSON *to)
{
    struct route route = decision_route(&e->decision, claim);
    enum family family = (enum family)claim->target->frontend.family;
    const struct ruleset *ruleset = e->from->family[family].ruleset;
    json_add_null(to, "claimedBy");
    add_losers(e, to, claim);
    char *text;
    if (ruleset) {
        const struct ruleset_senders senders = ruleset_senders(ruleset);
        text = traffic_text(e, &route, &senders);
        list_traffic(to, &route, &senders);
    } else {
        text = xasprintf("%s is not proxied on this node", family_name(family));
        add_traffic(json_add_array(to, "traffic"), "everywhere", "none", 0, NULL);
    }
    json_add_text(to, "policy", route.local ? "Local" : "Cluster");
    json_add_text(to, "text", text);
    add_sources(e, to, &route, family);
    explain_kernel(e, &claim->target->frontend, &route, to);
    free(text);
}

/* @winner is NULL where nobody has it, since it is the API server's. */
static void list_lost(const struct claim *claim, const struct claim *winner, cJSON *to)
{
    const char *why = winner ? claims_reason(winner, claim) : NULL;
    if (winner)
        add_rival(json_add_object(to, "claimedBy"), winner, why);
    else
        json_add_null(to, "claimedBy");
    json_add_array(to, "alsoWantedBy");
    json_add_array(to, "traffic");
    json_add_null(to, "policy");
    if (winner)
        json_add_format(to, "text", "belongs to %s, which %s", service_of(winner)->id, why);
    else
        json_add_text(to, "text", "left alone: the API server is at this address and port");
    json_add_array(to, "sourceRanges");
    json_add_bool(to, "restricted", false);
    json_add_null(to, "kernel");
}

static bool is_asked(const struct explainer *e, const struct frontend *frontend)
{
    return e->by_address && memcmp(&e->asked, frontend, sizeof(*frontend)) == 0;
}

static void list_frontend(struct explainer *e, const struct claim *claim, cJSON *array)
{
    const struct frontend *frontend = &claim->target->frontend;
    const struct claim *winner = winner_of(claim->target);
    char address[ADDRESS_TEXT_SIZE], text[FRONTEND_TEXT_SIZE];
    cJSON *to = json_append_object(array);
    json_add_text(to, "frontend", frontend_format(frontend, text));
    json_add_text(to, "address",
                  address_format((enum family)frontend->family, &frontend->address, address));
    json_add_number(to, "port", frontend->port);
    json_add_text(to, "protocol", protocol_name(frontend->protocol));
    add_kinds(to, claim->kinds);
    json_add_bool(to, "asked", is_asked(e, frontend));
    if (claim->target->reserved || (winner && winner != claim))
        list_lost(claim, winner, to);
    else
        list_ours(e, claim, to);
}

/* A claim, and whether it is the one of the asked address. */
struct listed {
    const struct claim *claim;
    bool asked;
};

/* What was asked for comes first. Then the order for people: cluster IP, external IPs,
 * load-balancer IPs, node ports; the addresses of each kind ascending. */
static int compare_listed(const void *a, const void *b)
{
    const struct listed *first = a, *second = b;
    const struct claim *p = first->claim, *q = second->claim;
    int lowest = p->kinds & -p->kinds, other = q->kinds & -q->kinds;
    if (first->asked != second->asked)
        return first->asked ? -1 : 1;
    return lowest != other
               ? lowest - other
               : address_compare(&p->target->frontend.address, &q->target->frontend.address);
}

void explain_frontends(struct explainer *e, cJSON *to)
{
    VEC(struct listed) claims = {0};
    cJSON *array = json_add_array(to, "frontends");
    for (const struct claim *it = e->decision.port->claims; it; it = it->next_of_port)
        vec_push(&claims, (struct listed){it, is_asked(e, &it->target->frontend)});
    if (claims.n)
        qsort(claims.v, claims.n, sizeof(*claims.v), compare_listed);
    vec_each (&claims, it)
        if (it->asked || explain_may_add(e, &e->left_out.frontends))
            list_frontend(e, it->claim, array);
    vec_free(&claims);
}
