/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which endpoints of a service port this node uses, and why not the others. */
#include "explain.h"

#include <string.h>

struct listing {
    struct explainer *e;
    const struct location *here;
    struct service_port_ref ref;
    struct selection_basis basis;
    uint8_t needed;        /* SET_... flags */
    endpoint_vec gathered; /* of the slices so far, with duplicates */
    cJSON *items;
    size_t total, listed;
};

/* Whether an endpoint is in a set, and if not, why. */
struct verdict {
    const char *code, *text; /* text NULL: it is in the set */
};

static const struct verdict verdicts[] = {
    [VERDICT_USED] = {"used", NULL},
    [VERDICT_NOT_READY] = {"notReady", "not ready"},
    [VERDICT_TERMINATING] = {"terminating", "terminating, and others are ready"},
    [VERDICT_OTHER_NODE] = {"otherNode", "not on this node"},
    [VERDICT_NODE_HINT] = {"otherNodeHint", "its hints are for other nodes"},
    [VERDICT_ZONE_HINT] = {"otherZone", "its hints are for other zones"},
    [VERDICT_SERVICE_ADDRESS] = {"serviceAddress", "a cluster IP, or inside a ServiceCIDR"}};
static const struct verdict duplicate = {"duplicate", "another copy of it is used"};
static const struct verdict portless = {"portNotInSlice", "its slice does not have this port"};

/* ---- endpoints ---- */

/* Adds the number of connections to @backend, if endpoints are counted. */
static void add_connections(struct explainer *e, enum family family, const struct backend *backend,
                            cJSON *item)
{
    const struct ruleset *ruleset = e->now->family[family].ruleset;
    struct error err = {0};
    uint64_t total;
    if (!e->socket || !e->table[family] || e->now->counting != COUNT_ENDPOINTS ||
        !explain_take(e, ITEM_ELEMENT, 1))
        return;
    if (ruleset_endpoint_connections(ruleset, e->socket, e->decision.port->id, backend, &total,
                                     &err) == 0)
        facts_add(item, fact_number("connections", total));
    error_clear(&err);
}

/* Combines the verdicts of the sets that the port needs. */
static void add_conclusion(const struct listing *l, const char *cluster, const char *local,
                           cJSON *item)
{
    bool wants_cluster = l->needed & BACKENDS_CLUSTER, wants_local = l->needed & BACKENDS_LOCAL;
    bool both = wants_cluster && wants_local && !cluster != !local;
    facts_add(item, fact_flag("used", (wants_cluster && !cluster) || (wants_local && !local)));
    if (both)
        facts_format(item, "text", "%s: %s",
                     local ? "not with policy Local" : "with policy Local only",
                     local ? local : cluster);
    else
        facts_add(item, fact_text("text", wants_cluster ? cluster : local));
}

static void add_verdict(cJSON *item, const char *set, const struct verdict *verdict)
{
    facts_add(cJSON_AddObjectToObject(item, set), fact_flag("used", !verdict->text),
              fact_text("reason", verdict->code), fact_text("text", verdict->text));
}

/* Lists an endpoint; port 0 means it has none. */
static void list(struct listing *l, const struct endpoint *endpoint, const char *slice,
                 const struct verdict *cluster, const struct verdict *local)
{
    static const struct endpoint_hints none;
    const struct endpoint_hints *hints = endpoint->hints ? endpoint->hints : &none;
    const struct backend backend = {endpoint->address, endpoint->port};
    const char *address = ADDRESS_TEXT(l->ref.family, &endpoint->address);
    l->total++;
    if (!explain_take(l->e, ITEM_ENDPOINT, 1))
        return;
    l->listed++;
    cJSON *item = facts_append(l->items);
    facts_add(
        item, fact_text("address", address), fact_nonzero("port", endpoint->port),
        fact_text("endpoint", endpoint->port ? BACKEND_TEXT(l->ref.family, &backend) : address),
        fact_text("node", endpoint->node_name), fact_text("zone", zone_name(endpoint->zone)),
        fact_text("slice", slice), fact_flag("ready", endpoint->flags & ENDPOINT_READY),
        fact_flag("serving", endpoint->flags & ENDPOINT_SERVING),
        fact_flag("terminating", endpoint->flags & ENDPOINT_TERMINATING));
    cJSON_AddItemToObject(item, "nodeHints", cJSON_CreateStringArray(hints->names, hints->n_nodes));
    cJSON_AddItemToObject(item, "zoneHints",
                          cJSON_CreateStringArray(hints->names + hints->n_nodes, hints->n_zones));
    add_verdict(item, "cluster", cluster);
    add_verdict(item, "local", local);
    add_conclusion(l, cluster->text, local->text, item);
    add_connections(l->e, l->ref.family, &backend, item);
}

static int compare_backends(const void *a, const void *b)
{
    const struct endpoint *p = a, *q = b;
    return backend_compare(&(struct backend){p->address, p->port},
                           &(struct backend){q->address, q->port});
}

/* Lists the endpoints of a slice with the port. Those that are not merged lost against a copy. */
static void list_slice(struct listing *l, const struct endpoint_slice *slice)
{
    const endpoint_vec *merged = &l->e->decision.endpoints;
    size_t i = l->gathered.n;
    for (endpoint_slice_gather(slice, &l->ref, &l->gathered); i < l->gathered.n; i++) {
        const struct endpoint *it = &l->gathered.v[i], *winner;
        enum endpoint_verdict cluster, local;
        winner = bsearch(it, merged->v, merged->n, sizeof(*it), compare_backends);
        if (!winner || winner->place != it->place) {
            list(l, it, slice->id, &duplicate, &duplicate);
            continue;
        }
        endpoint_verdicts(winner, l->here, &l->basis, &cluster, &local);
        list(l, it, slice->id, &verdicts[cluster], &verdicts[local]);
    }
}

static void list_slice_without_port(struct listing *l, const struct endpoint_slice *slice)
{
    vec_each (&slice->endpoints, it)
        list(l,
             &(struct endpoint){.address = it->address,
                                .node_name = it->node_name,
                                .hints = it->hints,
                                .flags = it->flags,
                                .zone = it->zone},
             slice->id, &portless, &portless);
}

/* ---- slices ---- */

static void add_slice(const struct listing *l, const struct endpoint_slice *slice, bool has_port,
                      const object_versions_vec *versions, cJSON *to)
{
    /* Why it adds no endpoints to this port; NULL: it does. */
    char *reason = !has_port             ? xasprintf("it has no %s port named \"%s\"",
                                                     protocol_name(l->ref.protocol), l->ref.port_name)
                   : !slice->endpoints.n ? xstrdup("it has no endpoints")
                                         : NULL;
    bool outdated = false;
    vec_each (versions, it)
        outdated = outdated || (it->rejected && strcmp(it->id, slice->id) == 0);
    facts_add(to, fact_text("name", slice->id), fact_text("family", family_name(slice->family)),
              fact_number("endpoints", slice->endpoints.n), fact_flag("used", !reason),
              fact_text("text", reason), fact_flag("outdated", outdated));
    free(reason);
}

/* Adds the slices of the family and their endpoints. */
static void add_slices(struct listing *l, cJSON *slices)
{
    const struct endpoint_slice_cache *cache = l->e->now->slices;
    const struct endpoint_slice *slice;
    object_versions_vec versions = {0};
    endpoint_slice_cache_versions(cache, l->ref.service_id, NULL, &versions);
    for (size_t i = 0; (slice = endpoint_slice_cache_at(cache, l->ref.service_id, i)); i++) {
        if (slice->family != l->ref.family)
            continue;
        bool has_port = endpoint_slice_ports(slice, l->ref.port_name, l->ref.protocol).n > 0;
        if (has_port)
            list_slice(l, slice);
        else
            list_slice_without_port(l, slice);
        if (explain_take(l->e, ITEM_SLICE, 1))
            add_slice(l, slice, has_port, &versions, facts_append(slices));
    }
    vec_free(&versions);
}

/* ---- topology ---- */

static const char *topology_text(const struct listing *l)
{
    enum hint_state nodes = l->basis.node_hints, zones = l->basis.zone_hints;
    if (!(l->needed & BACKENDS_CLUSTER))
        return "endpoints on this node: hints are ignored with policy Local";
    if (nodes == HINTS_APPLY)
        return "endpoints whose hints name this node";
    if (zones == HINTS_APPLY)
        return "endpoints whose hints name this zone";
    if (zones == HINTS_INCOMPLETE || nodes == HINTS_INCOMPLETE)
        return "endpoints everywhere: some ready ones have no hint";
    if (zones == HINTS_ELSEWHERE && !l->here->zone)
        return "endpoints everywhere: this node has no zone";
    if (zones == HINTS_ELSEWHERE || nodes == HINTS_ELSEWHERE)
        return "endpoints everywhere: no hint names this node or zone";
    vec_each (&l->e->decision.endpoints, endpoint)
        if (endpoint->hints)
            return "endpoints everywhere: no ready one has a hint";
    return "no hints, so endpoints everywhere";
}

static void add_topology(const struct listing *l, cJSON *to)
{
    static const char *const states[] = {[HINTS_ABSENT] = "absent",
                                         [HINTS_INCOMPLETE] = "incomplete",
                                         [HINTS_ELSEWHERE] = "elsewhere",
                                         [HINTS_APPLY] = "applied"};
    const char *mode = !(l->needed & BACKENDS_CLUSTER)      ? "none"
                       : l->basis.node_hints == HINTS_APPLY ? "node"
                       : l->basis.zone_hints == HINTS_APPLY ? "zone"
                                                            : "none";
    facts_add(cJSON_AddObjectToObject(to, "topology"), fact_text("mode", mode),
              fact_text("nodeHints", states[l->basis.node_hints]),
              fact_text("zoneHints", states[l->basis.zone_hints]),
              fact_text("text", topology_text(l)));
}

void explain_endpoints(struct explainer *e, cJSON *to)
{
    const struct port_state *port = e->decision.port;
    struct listing l = {.e = e,
                        .here = &policy_view(e->now->policy).here->location,
                        .basis = e->decision.selection.basis,
                        .ref = port_state_ref(port),
                        .needed = port_sets_needed(port)};
    add_topology(&l, to);
    cJSON *endpoints = cJSON_AddObjectToObject(to, "endpoints");
    l.items = cJSON_AddArrayToObject(endpoints, "items");
    add_slices(&l, cJSON_AddArrayToObject(to, "slices"));
    facts_add(endpoints, fact_number("total", l.total),
              fact_number("inCluster", e->decision.selection.cluster_size),
              fact_number("inLocal", e->decision.selection.local_size),
              fact_flag("truncated", l.listed < l.total));
    vec_free(&l.gathered);
}
