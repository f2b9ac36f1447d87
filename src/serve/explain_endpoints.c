/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which endpoints of a service port are used from here, and why the others are not. */
#include "explainer.h"
#include "kube-nftd/model.h"
#include "kube-nftd/table.h"

#include <string.h>

/* A slice, and where its endpoints begin among all that were gathered. */
struct share {
    const struct endpoint_slice *slice;
    size_t first;
};

struct listing {
    struct explainer *e;
    const struct location *here;
    struct service_port_ref ref;
    struct selection_basis basis;
    uint8_t needed;        /* sets */
    endpoint_vec gathered; /* in the order of places, copies too */
    VEC(struct share) shares;
    VEC(const char *) outdated; /* slices whose last version could not be read */
    cJSON *items;
    size_t total, listed;
};

/* Whether an endpoint is in a set, or why not. */
struct verdict {
    const char *code;
    char *text; /* owned; NULL: it is */
};

/* ---- why ---- */

static char *hint_text(const struct listing *l, const struct endpoint *endpoint, bool zone)
{
    const struct endpoint_hints *hints = endpoint->hints;
    size_t first = hints && zone ? hints->n_nodes : 0;
    size_t n = !hints ? 0 : zone ? hints->n_zones : hints->n_nodes;
    const char *own = zone ? l->here->zone : l->here->node_name;
    char *names = NULL;
    for (size_t i = 0; i < n; i++)
        xjoin(&names, "%s", hints->names[first + i]);
    char *text = xasprintf("its hints are for %s %s, and this is %s", zone ? "zone" : "node",
                           names ? names : "", own ? own : "in none");
    free(names);
    return text;
}

static const char *not_ready_text(const struct endpoint *endpoint)
{
    if (endpoint->flags & ENDPOINT_TERMINATING)
        return "terminating, and no longer serving";
    return endpoint->flags & ENDPOINT_SERVING ? "not ready, though serving" : "not ready";
}

static struct verdict judge(const struct listing *l, const struct endpoint *endpoint, bool local)
{
    switch (local ? endpoint_local_verdict(endpoint, l->here, &l->basis)
                  : endpoint_cluster_verdict(endpoint, l->here, &l->basis)) {
    case VERDICT_USED:
        break;
    case VERDICT_NOT_READY:
        return (struct verdict){"notReady", xstrdup(not_ready_text(endpoint))};
    case VERDICT_TERMINATING:
        return (struct verdict){"terminating", xasprintf("terminating, and others are ready%s",
                                                         local ? " on this node" : "")};
    case VERDICT_OTHER_NODE:
        return (struct verdict){
            "otherNode", xstrdup(endpoint->node_name ? "on another node" : "it names no node")};
    case VERDICT_NODE_HINT:
        return (struct verdict){"otherNodeHint", hint_text(l, endpoint, false)};
    case VERDICT_ZONE_HINT:
        return (struct verdict){"otherZone", hint_text(l, endpoint, true)};
    }
    return (struct verdict){"used", NULL};
}

/* ---- one endpoint ---- */

static void add_hints(cJSON *item, const char *key, const char *const *names, size_t n)
{
    cJSON *array = cJSON_AddArrayToObject(item, key);
    for (size_t i = 0; i < n; i++)
        facts_append_text(array, "%s", names[i]);
}

/* What it all comes to for the sets that somebody needs. */
static void add_conclusion(const struct listing *l, cJSON *item, const char *cluster,
                           const char *local)
{
    bool wants_cluster = l->needed & SET_CLUSTER, wants_local = l->needed & SET_LOCAL;
    facts_add(item, fact_flag("used", (wants_cluster && !cluster) || (wants_local && !local)));
    if (!wants_local || !wants_cluster)
        facts_add(item, fact_text("text", wants_local ? local : cluster));
    else if (!cluster && local)
        facts_format(item, "text", "not with policy Local: %s", local);
    else if (cluster && !local)
        facts_format(item, "text", "with policy Local only: %s", cluster);
    else
        facts_add(item, fact_text("text", cluster));
}

/* New connections that left for it, where these are counted. */
static void add_connections(const struct listing *l, const struct backend *backend, cJSON *item)
{
    struct explainer *e = l->e;
    const struct ruleset *ruleset = e->from->family[l->ref.family].ruleset;
    struct error err = {0};
    uint64_t total;
    if (!e->socket || !e->table[l->ref.family] || e->from->from_manifests ||
        ruleset_counting(ruleset) != COUNT_ENDPOINTS)
        return;
    if (e->lookups == 0)
        e->left_out[LEFT_ELEMENTS]++;
    else if (e->lookups--, ruleset_endpoint_connections(ruleset, e->socket, e->decision.port->id,
                                                        backend, &total, &err) == 0)
        facts_add(item, fact_number("connections", (double)total));
    error_clear(&err);
}

/* With port 0 it has none. */
static void list_under(struct listing *l, const struct endpoint *endpoint,
                       const struct endpoint_slice *slice, const struct verdict verdicts[2])
{
    static const char *const keys[] = {"cluster", "local"};
    const struct endpoint_hints *hints = endpoint->hints;
    size_t n_nodes = hints ? hints->n_nodes : 0;
    struct backend backend = {endpoint->address, endpoint->port};
    char text[ADDRESS_TEXT_SIZE], place[BACKEND_TEXT_SIZE];
    if (l->e->endpoints == 0) {
        l->e->left_out[LEFT_ENDPOINTS]++;
        return;
    }
    l->e->endpoints--;
    l->listed++;
    cJSON *item = facts_append(l->items);
    address_format(l->ref.family, &endpoint->address, text);
    facts_add(item, fact_text("address", text), fact_nonzero("port", endpoint->port),
              fact_text("endpoint",
                        endpoint->port ? backend_format(l->ref.family, &backend, place) : text),
              fact_text("node", endpoint->node_name), fact_text("zone", zone_name(endpoint->zone)),
              fact_text("slice", slice->id), fact_flag("ready", endpoint->flags & ENDPOINT_READY),
              fact_flag("serving", endpoint->flags & ENDPOINT_SERVING),
              fact_flag("terminating", endpoint->flags & ENDPOINT_TERMINATING));
    add_hints(item, "nodeHints", hints ? hints->names : NULL, n_nodes);
    add_hints(item, "zoneHints", hints ? hints->names + n_nodes : NULL, hints ? hints->n_zones : 0);
    for (int i = 0; i < 2; i++)
        facts_add(cJSON_AddObjectToObject(item, keys[i]), fact_flag("used", !verdicts[i].text),
                  fact_text("reason", verdicts[i].code), fact_text("text", verdicts[i].text));
    add_conclusion(l, item, verdicts[0].text, verdicts[1].text);
    add_connections(l, &backend, item);
}

static const struct endpoint_slice *slice_at(const struct listing *l, size_t place)
{
    size_t i = l->shares.n;
    while (i > 1 && l->shares.v[i - 1].first > place)
        i--;
    return l->shares.v[i - 1].slice;
}

static void list_merged(struct listing *l, const struct endpoint *endpoint)
{
    struct verdict verdicts[] = {judge(l, endpoint, false), judge(l, endpoint, true)};
    list_under(l, endpoint, slice_at(l, endpoint->place), verdicts);
    free(verdicts[0].text);
    free(verdicts[1].text);
}

/* ---- those that no set can have ---- */

static int compare_places(const void *a, const void *b)
{
    const struct endpoint *p = a, *q = b;
    struct backend x = {p->address, p->port}, y = {q->address, q->port};
    return backend_compare(&x, &y);
}

/* A copy that lost against the one that was merged. */
static void list_copy(struct listing *l, const struct endpoint *copy)
{
    const endpoint_vec *merged = &l->e->decision.endpoints;
    const struct endpoint *winner =
        bsearch(copy, merged->v, merged->n, sizeof(*merged->v), compare_places);
    if (!winner || winner->place == copy->place)
        return;
    char *text = xasprintf("the same address and port is in slice %s, which is used",
                           slice_at(l, winner->place)->id);
    list_under(l, copy, slice_at(l, copy->place),
               (struct verdict[]){{"duplicate", text}, {"duplicate", text}});
    free(text);
}

static bool has_port(const struct listing *l, const struct endpoint_slice *slice)
{
    return endpoint_slice_ports(slice, l->ref.port_name, l->ref.protocol).n > 0;
}

static char *no_port_text(const struct listing *l, const char *whose)
{
    return xasprintf("%s no %s port named \"%s\"", whose, protocol_name(l->ref.protocol),
                     l->ref.port_name);
}

/* The endpoints of a slice of our family that lacks the port. */
static void list_portless(struct listing *l, const struct endpoint_slice *slice)
{
    if (slice->family != l->ref.family || has_port(l, slice))
        return;
    char *text = no_port_text(l, "its slice has");
    const struct verdict verdict = {"portNotInSlice", text};
    vec_each (&slice->endpoints, it) {
        struct endpoint endpoint = {it->address, it->node_name, it->hints, 0,
                                    it->flags,   it->zone,      0};
        list_under(l, &endpoint, slice, (struct verdict[]){verdict, verdict});
    }
    l->total += slice->endpoints.n;
    free(text);
}

/* ---- slices ---- */

static void gather_slice(void *ctx, const struct endpoint_slice *slice)
{
    struct listing *l = ctx;
    vec_push(&l->shares, (struct share){slice, l->gathered.n});
    endpoint_slice_gather(slice, &l->ref, &l->gathered);
}

static void note_outdated(void *ctx, const struct object_versions *versions)
{
    struct listing *l = ctx;
    if (versions->rejected)
        vec_push(&l->outdated, versions->id);
}

static bool is_outdated(const struct listing *l, const struct endpoint_slice *slice)
{
    vec_each (&l->outdated, id)
        if (strcmp(*id, slice->id) == 0)
            return true;
    return false;
}

/* Why a slice gives nothing to this port; NULL: it does. The caller frees it. */
static char *slice_reason(const struct listing *l, const struct endpoint_slice *slice)
{
    if (!has_port(l, slice))
        return no_port_text(l, "it has");
    return slice->endpoints.n ? NULL : xstrdup("it has no endpoints");
}

/* Those of the other family are there for it. */
static void add_slices(struct listing *l, cJSON *to)
{
    cJSON *array = cJSON_AddArrayToObject(to, "slices");
    vec_each (&l->shares, share) {
        if (share->slice->family != l->ref.family || !explain_may_add(l->e, LEFT_SLICES))
            continue;
        char *reason = slice_reason(l, share->slice);
        facts_add(facts_append(array), fact_text("name", share->slice->id),
                  fact_text("family", family_name(share->slice->family)),
                  fact_number("endpoints", (double)share->slice->endpoints.n),
                  fact_flag("used", !reason), fact_text("text", reason),
                  fact_flag("outdated", is_outdated(l, share->slice)));
        free(reason);
    }
}

/* ---- topology ---- */

static bool has_hints(const struct listing *l)
{
    vec_each (&l->e->decision.endpoints, endpoint)
        if (endpoint->hints)
            return true;
    return false;
}

static const char *topology_text(const struct listing *l)
{
    enum hint_state nodes = l->basis.node_hints, zones = l->basis.zone_hints;
    if (!(l->needed & SET_CLUSTER))
        return "endpoints on this node: hints are ignored with policy Local";
    if (nodes == HINTS_APPLY)
        return "endpoints whose hints name this node";
    if (zones == HINTS_APPLY)
        return "endpoints whose hints name this zone";
    if (nodes == HINTS_ABSENT && zones == HINTS_ABSENT)
        return has_hints(l) ? "endpoints everywhere: no ready one has a hint"
                            : "no hints, so endpoints everywhere";
    if (zones == HINTS_INCOMPLETE || nodes == HINTS_INCOMPLETE)
        return "endpoints everywhere: some ready ones have no hint";
    if (zones == HINTS_ELSEWHERE && !l->here->zone)
        return "endpoints everywhere: this node has no zone";
    return "endpoints everywhere: no hint names this node or zone";
}

static void add_topology(const struct listing *l, cJSON *to)
{
    static const char *const states[] = {[HINTS_ABSENT] = "absent",
                                         [HINTS_INCOMPLETE] = "incomplete",
                                         [HINTS_ELSEWHERE] = "elsewhere",
                                         [HINTS_APPLY] = "applied"};
    bool counts = l->needed & SET_CLUSTER;
    bool node = counts && l->basis.node_hints == HINTS_APPLY;
    bool zone = counts && l->basis.zone_hints == HINTS_APPLY;
    facts_add(cJSON_AddObjectToObject(to, "topology"),
              fact_text("mode", node   ? "node"
                                : zone ? "zone"
                                       : "none"),
              fact_text("nodeHints", states[l->basis.node_hints]),
              fact_text("zoneHints", states[l->basis.zone_hints]),
              fact_text("text", topology_text(l)));
}

/* ---- all of it ---- */

static void list_all(struct listing *l, cJSON *to)
{
    const struct decision *decision = &l->e->decision;
    cJSON *endpoints = cJSON_AddObjectToObject(to, "endpoints");
    l->items = cJSON_AddArrayToObject(endpoints, "items");
    l->total = l->gathered.n;
    vec_each (&decision->endpoints, endpoint)
        list_merged(l, endpoint);
    if (l->gathered.n > decision->endpoints.n)
        vec_each (&l->gathered, copy)
            list_copy(l, copy);
    vec_each (&l->shares, share)
        list_portless(l, share->slice);
    facts_add(endpoints, fact_number("total", (double)l->total),
              fact_number("inCluster", (double)decision->selection.cluster_size),
              fact_number("inLocal", (double)decision->selection.local_size),
              fact_flag("truncated", l->listed < l->total));
}

void explain_endpoints(struct explainer *e, cJSON *to)
{
    const struct port_state *port = e->decision.port;
    const endpoint_vec *merged = &e->decision.endpoints;
    struct listing l = {.e = e,
                        .here = &policy_surroundings(e->from->policy)->location,
                        .ref = {port->owner->service->id, (enum family)port->family,
                                port_state_spec(port)->name, port->protocol},
                        .needed = decision_sets_needed(port)};
    l.basis = selection_basis(merged->v, merged->n, l.here);
    endpoint_slice_cache_each(e->from->slices, l.ref.service_id, gather_slice, &l);
    endpoint_slice_cache_versions(e->from->slices, l.ref.service_id, note_outdated, &l);
    add_topology(&l, to);
    list_all(&l, to);
    add_slices(&l, to);
    vec_free(&l.gathered);
    vec_free(&l.shares);
    vec_free(&l.outdated);
}
