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

/* @traffic as data, spec 3.4. */
static void list_traffic(cJSON *to, const struct route *route)
{
    cJSON *array = json_add_array(to, "traffic");
    if (!route->has_any) {
        add_traffic(array, "everywhere", "reject", 0, NULL);
    } else if (!route->local) {
        add_by_set(array, "everywhere", route->n_backends, "cluster");
    } else if (!route->external) {
        add_by_set(array, "everywhere", route->n_local, "local");
    } else {
        add_by_set(array, "thisNode", route->n_backends, "cluster");
        add_by_set(array, "elsewhere", route->n_local, "local");
    }
}

static char *count_text(size_t n)
{
    return n == 1 ? xstrdup("to 1 endpoint") : xasprintf("to %zu endpoints", n);
}

static char *reject_text(const struct explainer *e)
{
    return xstrdup(e->decision.endpoints.n ? "refused: no endpoint is ready"
                                           : "refused: there are no endpoints");
}

static char *local_text(const struct route *route)
{
    return route->n_local
               ? count_text(route->n_local)
               : xstrdup("dropped: traffic policy Local, and no endpoint is on this node");
}

/* The same in words. */
static char *traffic_text(const struct explainer *e, const struct route *route)
{
    if (!route->has_any)
        return reject_text(e);
    if (!route->local)
        return count_text(route->n_backends);
    char *local = local_text(route);
    if (!route->external)
        return local;
    char *all = count_text(route->n_backends);
    char *text = xasprintf("%s; from this node and its pods %s", local, all);
    free(local);
    free(all);
    return text;
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
static void add_losers(cJSON *to, const struct claim *winner)
{
    cJSON *array = json_add_array(to, "alsoWantedBy");
    for (const struct claim *it = winner->target->claims; it; it = it->next_of_target)
        if (it != winner)
            add_rival(json_append_object(array), it, claims_reason(winner, it));
}

/* ---- one frontend ---- */

static void add_sources(cJSON *to, const struct route *route, enum family family)
{
    cJSON *array = json_add_array(to, "sourceRanges");
    for (size_t i = 0; route->sources && i < route->n_sources; i++) {
        char text[RANGE_TEXT_SIZE];
        json_append_format(array, "%s", range_format(family, &route->sources[i], text));
    }
    json_add_bool(to, "restricted", route->sources != NULL);
}

static void list_ours(struct explainer *e, const struct claim *claim, cJSON *to)
{
    struct route route = decision_route(&e->decision, claim);
    char *text = traffic_text(e, &route);
    json_add_null(to, "claimedBy");
    add_losers(to, claim);
    list_traffic(to, &route);
    json_add_text(to, "policy", route.local ? "Local" : "Cluster");
    json_add_text(to, "text", text);
    add_sources(to, &route, (enum family)claim->target->frontend.family);
    explain_kernel(e, &claim->target->frontend, &route, to);
    free(text);
}

static void list_lost(const struct claim *claim, const struct claim *winner, cJSON *to)
{
    const char *why = claims_reason(winner, claim);
    add_rival(json_add_object(to, "claimedBy"), winner, why);
    json_add_array(to, "alsoWantedBy");
    json_add_array(to, "traffic");
    json_add_null(to, "policy");
    json_add_format(to, "text", "belongs to %s, which %s", service_of(winner)->id, why);
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
    if (winner && winner != claim)
        list_lost(claim, winner, to);
    else
        list_ours(e, claim, to);
}

/* The order for people: cluster IP, external IPs, load-balancer IPs, node ports; the addresses of
 * each kind ascending. */
static int compare_kinds(const void *a, const void *b)
{
    const struct claim *p = *(const struct claim *const *)a, *q = *(const struct claim *const *)b;
    int first = p->kinds & -p->kinds, second = q->kinds & -q->kinds;
    return first != second
               ? first - second
               : address_compare(&p->target->frontend.address, &q->target->frontend.address);
}

void explain_frontends(struct explainer *e, cJSON *to)
{
    VEC(const struct claim *) claims = {0};
    cJSON *array = json_add_array(to, "frontends");
    for (const struct claim *it = e->decision.port->claims; it; it = it->next_of_port)
        vec_push(&claims, it);
    if (claims.n)
        qsort(claims.v, claims.n, sizeof(*claims.v), compare_kinds);
    vec_each (&claims, claim)
        list_frontend(e, *claim, array);
    vec_free(&claims);
}
