/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The addresses of a service port, and what becomes of connections to each. */
#include "explainer.h"

#include <string.h>

/* What an address is to a Service: for scripts, in the summary, and in a table. */
static const struct {
    enum claim_kind kind;
    const char *name, *text;
} kinds[] = {{CLAIM_CLUSTER_IP, "clusterIP", "cluster IP"},
             {CLAIM_EXTERNAL_IP, "externalIP", "external IP"},
             {CLAIM_LOAD_BALANCER_IP, "loadBalancerIP", "load-balancer IP"},
             {CLAIM_NODE_PORT, "nodePort", "node port"}};

static void add_kinds(cJSON *to, uint8_t bits)
{
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

/* ---- traffic, as data and in words (docs/behaviour.md 3.4) ---- */

static void add_traffic(cJSON *array, const char *from, const char *action, size_t endpoints,
                        const char *set)
{
    facts_add(facts_append(array), fact_text("from", from), fact_text("action", action),
              fact_number("endpoints", (double)endpoints), fact_text("set", set));
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

static char *without_any(const struct explainer *e, cJSON *array, bool rejects)
{
    const struct port_state *port = e->decision.port;
    size_t counts[FAMILY_COUNT] = {0};
    endpoint_slice_cache_each(e->from->slices, port->owner->service->id, count_endpoints, counts);
    add_traffic(array, "everywhere", rejects ? "reject" : "drop", 0, NULL);
    return xasprintf("%s: %s", rejects ? "refused" : "dropped, because this kernel cannot reject",
                     e->decision.endpoints.n ? "no endpoint is ready"
                     : counts[port->family]  ? "no slice has endpoints with this port"
                                             : "there are no endpoints");
}

static char *to_local(const struct explainer *e, cJSON *array, const char *from)
{
    const char *here = e->from->node_name;
    const size_t n = e->decision.local.n;
    add_traffic(array, from, n ? "forward" : "drop", n, "local");
    if (n)
        return count_text(n);
    vec_each (&e->decision.endpoints, endpoint)
        if (endpoint->node_name && strcmp(endpoint->node_name, here) == 0)
            return xstrdup("dropped: traffic policy Local, and no endpoint on this node is ready");
    return xstrdup("dropped: traffic policy Local, and no endpoint is on this node");
}

/* Who counts as a pod; NULL: nobody does. */
static char *pods_text(enum family family, const struct ruleset_senders *senders)
{
    char *text = NULL, one[RANGE_TEXT_SIZE];
    if (senders->pods == DETECT_NONE)
        return NULL;
    if (senders->pods != DETECT_CIDRS)
        return xasprintf("pods (%s)", senders->pod_match);
    vec_each (senders->pod_cidrs, range)
        xjoin(&text, "%s", range_format(family, range, one));
    char *whole = text ? xasprintf("pods (%s)", text) : NULL;
    free(text);
    return whole;
}

/* With traffic policy Local, this host and pods get to all endpoints (docs/behaviour.md 4.6). */
static char *by_source(const struct explainer *e, cJSON *array,
                       const struct ruleset_senders *senders)
{
    const size_t n = e->decision.cluster.n;
    const char *action = n ? "forward" : "drop";
    char *pods = pods_text((enum family)e->decision.port->family, senders), *text;
    if (senders->host)
        add_traffic(array, "host", action, n, "cluster");
    if (pods)
        add_traffic(array, "pods", action, n, "cluster");
    if (!senders->host && !pods)
        return to_local(e, array, "everywhere");
    char *local = to_local(e, array, "elsewhere"), *all = count_text(n);
    text = xasprintf("%s; from %s%s%s %s", local, senders->host ? "this node itself" : "",
                     senders->host && pods ? " and from " : "", pods ? pods : "", all);
    free(local);
    free(all);
    free(pods);
    return text;
}

static char *to_cluster(const struct explainer *e, cJSON *array)
{
    const size_t n = e->decision.cluster.n;
    add_traffic(array, "everywhere", n ? "forward" : "drop", n, "cluster");
    return count_text(n);
}

/* Source ranges come before everything else (docs/behaviour.md 4.8). */
static void add_route(const struct explainer *e, const struct route *route,
                      const struct ruleset_senders *senders, cJSON *to)
{
    cJSON *array = cJSON_AddArrayToObject(to, "traffic");
    if (route->sources)
        add_traffic(array, "outsideSourceRanges", "drop", 0, NULL);
    char *text = !e->decision.selection.has_any ? without_any(e, array, senders->rejects)
                 : !route->local                ? to_cluster(e, array)
                 : route->external              ? by_source(e, array, senders)
                                                : to_local(e, array, "everywhere");
    if (route->sources)
        facts_format(to, "text", "from the source ranges %s; all others are dropped", text);
    else
        facts_add(to, fact_text("text", text));
    free(text);
}

/* ---- who has it ---- */

static const struct claim *winner_of(const struct frontend_state *target)
{
    const struct claim *claim = target->claims;
    while (claim && claim->port != target->winner)
        claim = claim->next_of_target;
    return claim;
}

static void add_rival(cJSON *to, const struct claim *rival, const char *why)
{
    facts_add(to, fact_text("service", rival->port->owner->service->id),
              fact_text("port", port_state_spec(rival->port)->name), fact_text("reason", why));
}

/* Others that want it too, and do not get it. */
static void add_losers(struct explainer *e, cJSON *to, const struct claim *winner)
{
    cJSON *array = cJSON_AddArrayToObject(to, "alsoWantedBy");
    for (const struct claim *it = winner->target->claims; it; it = it->next_of_target)
        if (it != winner && explain_may_add(e, LEFT_RIVALS))
            add_rival(facts_append(array), it, claims_reason(winner, it));
}

/* ---- one frontend ---- */

static void list_ours(struct explainer *e, const struct claim *claim, cJSON *to)
{
    struct route route = decision_route(&e->decision, claim);
    enum family family = (enum family)claim->target->frontend.family;
    const struct ruleset *ruleset = e->from->family[family].ruleset;
    char range[RANGE_TEXT_SIZE];
    add_losers(e, to, claim);
    if (ruleset) {
        const struct ruleset_senders senders = ruleset_senders(ruleset);
        add_route(e, &route, &senders, to);
    } else {
        add_traffic(cJSON_AddArrayToObject(to, "traffic"), "everywhere", "none", 0, NULL);
        facts_format(to, "text", "%s is not proxied on this node", family_name(family));
    }
    cJSON *array = cJSON_AddArrayToObject(to, "sourceRanges");
    for (size_t i = 0; route.sources && i < route.n_sources; i++)
        if (explain_may_add(e, LEFT_SOURCE_RANGES))
            facts_append_text(array, "%s", range_format(family, &route.sources[i], range));
    facts_add(to, fact_text("claimedBy", NULL),
              fact_text("policy", route.local ? "Local" : "Cluster"),
              fact_flag("restricted", route.sources != NULL));
    explain_kernel(e, &claim->target->frontend, &route, to);
}

/* @winner is NULL where nobody has it, since it is the API server's. */
static void list_lost(const struct claim *claim, const struct claim *winner, cJSON *to)
{
    const char *why = winner ? claims_reason(winner, claim) : NULL;
    cJSON_AddArrayToObject(to, "alsoWantedBy");
    cJSON_AddArrayToObject(to, "traffic");
    if (winner)
        facts_format(to, "text", "belongs to %s, which %s", winner->port->owner->service->id, why);
    else
        facts_add(to,
                  fact_text("text", "not programmed: the API server uses this address and port"));
    cJSON_AddArrayToObject(to, "sourceRanges");
    if (winner)
        add_rival(cJSON_AddObjectToObject(to, "claimedBy"), winner, why);
    else
        facts_add(to, fact_text("claimedBy", NULL));
    facts_add(to, fact_text("policy", NULL), fact_flag("restricted", false),
              fact_text("kernel", NULL));
}

static bool is_asked(const struct explainer *e, const struct frontend *frontend)
{
    return e->by_address && memcmp(&e->asked, frontend, sizeof(*frontend)) == 0;
}

static void list_frontend(struct explainer *e, const struct claim *claim, cJSON *to)
{
    const struct frontend *frontend = &claim->target->frontend;
    const struct claim *winner = winner_of(claim->target);
    char address[ADDRESS_TEXT_SIZE], text[FRONTEND_TEXT_SIZE];
    address_format((enum family)frontend->family, &frontend->address, address);
    facts_add(to, fact_text("frontend", frontend_format(frontend, text)),
              fact_text("address", address), fact_number("port", frontend->port),
              fact_text("protocol", protocol_name(frontend->protocol)),
              fact_flag("asked", is_asked(e, frontend)));
    add_kinds(to, claim->kinds);
    if (claim->target->reserved || (winner && winner != claim))
        list_lost(claim, winner, to);
    else
        list_ours(e, claim, to);
}

/* ---- all of them ---- */

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
    cJSON *array = cJSON_AddArrayToObject(to, "frontends");
    for (const struct claim *it = e->decision.port->claims; it; it = it->next_of_port)
        vec_push(&claims, (struct listed){it, is_asked(e, &it->target->frontend)});
    if (claims.n)
        qsort(claims.v, claims.n, sizeof(*claims.v), compare_listed);
    vec_each (&claims, it)
        if (it->asked || explain_may_add(e, LEFT_FRONTENDS))
            list_frontend(e, it->claim, facts_append(array));
    vec_free(&claims);
}
