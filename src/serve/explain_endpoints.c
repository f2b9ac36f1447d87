/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which endpoints of a service port are used from here, and why the others are not. */
#include "kube-nftd/serve/explain_parts.h"

#include <string.h>

/* A slice, and where its endpoints begin among all that were gathered. */
struct share {
    const struct endpoint_slice *slice;
    size_t first, n;
};

struct listing {
    struct explainer *e;
    struct service_port_ref ref;
    struct selection_basis basis;
    uint8_t needed;        /* sets */
    endpoint_vec gathered; /* in the order of places, copies too */
    VEC(struct share) shares;
    VEC(const char *) outdated; /* slices whose last version could not be read */
    cJSON *items;
    size_t listed;
};

static const struct location *here(const struct listing *l)
{
    return &policy_surroundings(l->e->from->policy)->location;
}

/* ---- why ---- */

static const char *verdict_code(enum endpoint_verdict verdict)
{
    static const char *const codes[] = {[VERDICT_USED] = "used",
                                        [VERDICT_NOT_READY] = "notReady",
                                        [VERDICT_TERMINATING] = "terminating",
                                        [VERDICT_OTHER_NODE] = "otherNode",
                                        [VERDICT_NODE_HINT] = "otherNodeHint",
                                        [VERDICT_ZONE_HINT] = "otherZone"};
    return codes[verdict];
}

static char *join_names(const char *const *names, size_t n)
{
    char *text = xstrdup("");
    for (size_t i = 0; i < n; i++) {
        char *longer = xasprintf("%s%s%s", text, i ? ", " : "", names[i]);
        free(text);
        text = longer;
    }
    return text;
}

static char *hint_text(const struct listing *l, const struct endpoint *endpoint, bool zone)
{
    const struct endpoint_hints *hints = endpoint->hints;
    size_t n_nodes = hints ? hints->n_nodes : 0, n_zones = hints ? hints->n_zones : 0;
    char *names =
        join_names(hints ? hints->names + (zone ? n_nodes : 0) : NULL, zone ? n_zones : n_nodes);
    const char *own = zone ? here(l)->zone : here(l)->node_name;
    char *text = xasprintf("its hints are for %s %s, and this is %s", zone ? "zone" : "node", names,
                           own ? own : "in none");
    free(names);
    return text;
}

static const char *not_ready_text(const struct endpoint *endpoint)
{
    bool serving = endpoint->flags & ENDPOINT_SERVING;
    if (endpoint->flags & ENDPOINT_TERMINATING)
        return "terminating, and does not serve any more";
    return serving ? "not ready, though it says that it serves" : "not ready";
}

static char *verdict_text(const struct listing *l, const struct endpoint *endpoint,
                          enum endpoint_verdict verdict, bool local)
{
    switch (verdict) {
    case VERDICT_USED:
        return NULL;
    case VERDICT_NOT_READY:
        return xstrdup(not_ready_text(endpoint));
    case VERDICT_TERMINATING:
        return xasprintf("terminating, and there are ready ones%s", local ? " on this node" : "");
    case VERDICT_OTHER_NODE:
        return xstrdup(endpoint->node_name ? "on another node" : "it names no node");
    case VERDICT_NODE_HINT:
    case VERDICT_ZONE_HINT:
        return hint_text(l, endpoint, verdict == VERDICT_ZONE_HINT);
    }
    return NULL;
}

/* ---- one endpoint ---- */

static void add_names(cJSON *to, const char *key, const char *const *names, size_t n)
{
    cJSON *array = json_add_array(to, key);
    for (size_t i = 0; i < n; i++)
        json_append_format(array, "%s", names[i]);
}

/* What an endpoint says of itself; @port 0: its slice has no such port. */
static cJSON *add_item(struct listing *l, const struct endpoint *endpoint,
                       const struct endpoint_slice *slice)
{
    char text[ADDRESS_TEXT_SIZE];
    const struct endpoint_hints *hints = endpoint->hints;
    size_t n_nodes = hints ? hints->n_nodes : 0;
    cJSON *item = json_append_object(l->items);
    json_add_text(item, "address", address_format(l->ref.family, &endpoint->address, text));
    if (endpoint->port)
        json_add_number(item, "port", endpoint->port);
    else
        json_add_null(item, "port");
    json_add_text(item, "node", endpoint->node_name);
    json_add_text(item, "slice", slice->id);
    json_add_bool(item, "ready", endpoint->flags & ENDPOINT_READY);
    json_add_bool(item, "serving", endpoint->flags & ENDPOINT_SERVING);
    json_add_bool(item, "terminating", endpoint->flags & ENDPOINT_TERMINATING);
    add_names(item, "nodeHints", hints ? hints->names : NULL, n_nodes);
    add_names(item, "zoneHints", hints ? hints->names + n_nodes : NULL, hints ? hints->n_zones : 0);
    l->listed++;
    return item;
}

static void add_verdict(cJSON *item, const char *key, const char *code, const char *text)
{
    cJSON *verdict = json_add_object(item, key);
    json_add_bool(verdict, "used", strcmp(code, "used") == 0);
    json_add_text(verdict, "reason", code);
    json_add_text(verdict, "text", text);
}

static bool may_list(struct listing *l)
{
    if (l->e->endpoints == 0) {
        l->e->left_out.endpoints++;
        return false;
    }
    l->e->endpoints--;
    return true;
}

/* One that is neither, for a reason that both sets share. */
static void add_left_out(struct listing *l, const struct endpoint *endpoint,
                         const struct endpoint_slice *slice, const char *code, const char *text)
{
    cJSON *item = add_item(l, endpoint, slice);
    add_verdict(item, "cluster", code, text);
    add_verdict(item, "local", code, text);
    json_add_bool(item, "used", false);
    json_add_text(item, "text", text);
}

/* What it all comes to for the sets that somebody needs. */
static void add_conclusion(const struct listing *l, cJSON *item, const char *cluster,
                           const char *local)
{
    bool wants_cluster = l->needed & SET_CLUSTER, wants_local = l->needed & SET_LOCAL;
    json_add_bool(item, "used", (wants_cluster && !cluster) || (wants_local && !local));
    if (!wants_local || !wants_cluster)
        json_add_text(item, "text", wants_local ? local : cluster);
    else if (!cluster && local)
        json_add_format(item, "text", "not with policy Local: %s", local);
    else if (cluster && !local)
        json_add_format(item, "text", "with policy Local only: %s", cluster);
    else
        json_add_text(item, "text", cluster);
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
    if (!may_list(l))
        return;
    enum endpoint_verdict in_cluster = endpoint_cluster_verdict(endpoint, here(l), &l->basis);
    enum endpoint_verdict in_local = endpoint_local_verdict(endpoint, here(l), &l->basis);
    char *cluster = verdict_text(l, endpoint, in_cluster, false);
    char *local = verdict_text(l, endpoint, in_local, true);
    cJSON *item = add_item(l, endpoint, slice_at(l, endpoint->place));
    add_verdict(item, "cluster", verdict_code(in_cluster), cluster);
    add_verdict(item, "local", verdict_code(in_local), local);
    add_conclusion(l, item, cluster, local);
    free(cluster);
    free(local);
}

/* ---- copies ---- */

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
    if (!winner || winner->place == copy->place || !may_list(l))
        return;
    char *text = xasprintf("the same address and port is in slice %s, which counts",
                           slice_at(l, winner->place)->id);
    add_left_out(l, copy, slice_at(l, copy->place), "duplicate", text);
    free(text);
}

/* ---- slices ---- */

static void gather_slice(void *ctx, const struct endpoint_slice *slice)
{
    struct listing *l = ctx;
    size_t before = l->gathered.n;
    endpoint_slice_gather(slice, &l->ref, &l->gathered);
    vec_push(&l->shares, (struct share){slice, before, l->gathered.n - before});
}

static bool has_port(const struct listing *l, const struct endpoint_slice *slice)
{
    return endpoint_slice_ports(slice, l->ref.port_name, l->ref.protocol).n > 0;
}

/* Why a slice gives nothing to this port; NULL: it does. The caller frees it. */
static char *slice_reason(const struct listing *l, const struct endpoint_slice *slice)
{
    if (slice->family != l->ref.family)
        return xasprintf("its addresses are %s", family_name(slice->family));
    if (!has_port(l, slice))
        return xasprintf("it has no %s port named \"%s\"", protocol_name(l->ref.protocol),
                         l->ref.port_name);
    return slice->endpoints.n ? NULL : xstrdup("it has no endpoints");
}

static void note_outdated(void *ctx, const struct receipt *receipt)
{
    struct listing *l = ctx;
    if (receipt->left_out)
        vec_push(&l->outdated, receipt->id);
}

static bool is_outdated(const struct listing *l, const struct endpoint_slice *slice)
{
    vec_each (&l->outdated, id)
        if (strcmp(*id, slice->id) == 0)
            return true;
    return false;
}

static void add_slices(struct listing *l, cJSON *to)
{
    cJSON *array = json_add_array(to, "slices");
    vec_each (&l->shares, share) {
        if (!explain_may_add(l->e, &l->e->left_out.slices))
            continue;
        cJSON *slice = json_append_object(array);
        char *reason = slice_reason(l, share->slice);
        json_add_text(slice, "name", share->slice->id);
        json_add_text(slice, "family", family_name(share->slice->family));
        json_add_number(slice, "endpoints", (double)share->slice->endpoints.n);
        json_add_bool(slice, "used", !reason);
        json_add_text(slice, "text", reason);
        json_add_bool(slice, "outdated", is_outdated(l, share->slice));
        free(reason);
    }
}

/* The endpoints of a slice of our family that lacks the port. */
static void list_portless(struct listing *l, const struct endpoint_slice *slice)
{
    if (slice->family != l->ref.family || has_port(l, slice))
        return;
    char *reason = xasprintf("its slice has no %s port named \"%s\"",
                             protocol_name(l->ref.protocol), l->ref.port_name);
    vec_each (&slice->endpoints, it) {
        struct endpoint endpoint = {it->address, it->node_name, it->hints, 0, it->flags, 0};
        if (may_list(l))
            add_left_out(l, &endpoint, slice, "portNotInSlice", reason);
    }
    free(reason);
}

/* ---- topology ---- */

static const char *hint_code(enum hint_state state)
{
    static const char *const codes[] = {[HINTS_ABSENT] = "absent",
                                        [HINTS_INCOMPLETE] = "incomplete",
                                        [HINTS_ELSEWHERE] = "elsewhere",
                                        [HINTS_APPLY] = "applied"};
    return codes[state];
}

static bool has_hints(const struct listing *l)
{
    vec_each (&l->e->decision.endpoints, endpoint)
        if (endpoint->hints)
            return true;
    return false;
}

static const char *topology_text(const struct listing *l)
{
    if (!(l->needed & SET_CLUSTER))
        return "endpoints on this node: hints do not count with policy Local";
    enum hint_state nodes = l->basis.node_hints, zones = l->basis.zone_hints;
    if (nodes == HINTS_APPLY)
        return "endpoints whose hints name this node";
    if (zones == HINTS_APPLY)
        return "endpoints whose hints name this zone";
    if (nodes == HINTS_ABSENT && zones == HINTS_ABSENT)
        return has_hints(l) ? "endpoints everywhere: no ready one has a hint"
                            : "no hints, so endpoints everywhere";
    if (zones == HINTS_INCOMPLETE || nodes == HINTS_INCOMPLETE)
        return "endpoints everywhere: some ready ones have no hint";
    if (zones == HINTS_ELSEWHERE && !here(l)->zone)
        return "endpoints everywhere: this node is in no zone";
    return "endpoints everywhere: no hint is for here";
}

static void add_topology(const struct listing *l, cJSON *to)
{
    cJSON *topology = json_add_object(to, "topology");
    bool counts = l->needed & SET_CLUSTER;
    bool node = counts && l->basis.node_hints == HINTS_APPLY;
    bool zone = counts && l->basis.zone_hints == HINTS_APPLY;
    json_add_text(topology, "mode", node ? "node" : zone ? "zone" : "none");
    json_add_text(topology, "nodeHints", hint_code(l->basis.node_hints));
    json_add_text(topology, "zoneHints", hint_code(l->basis.zone_hints));
    json_add_text(topology, "text", topology_text(l));
}

/* ---- all of it ---- */

static size_t count_all(const struct listing *l)
{
    size_t n = l->gathered.n;
    vec_each (&l->shares, share)
        if (share->slice->family == l->ref.family && !has_port(l, share->slice))
            n += share->slice->endpoints.n;
    return n;
}

static void list_all(struct listing *l, cJSON *to)
{
    const struct decision *decision = &l->e->decision;
    cJSON *endpoints = json_add_object(to, "endpoints");
    l->items = json_add_array(endpoints, "items");
    vec_each (&decision->endpoints, endpoint)
        list_merged(l, endpoint);
    if (l->gathered.n > decision->endpoints.n)
        vec_each (&l->gathered, copy)
            list_copy(l, copy);
    vec_each (&l->shares, share)
        list_portless(l, share->slice);
    size_t total = count_all(l);
    json_add_number(endpoints, "total", (double)total);
    json_add_number(endpoints, "inCluster", (double)decision->selection.cluster_size);
    json_add_number(endpoints, "inLocal", (double)decision->selection.local_size);
    json_add_bool(endpoints, "truncated", l->listed < total);
}

void explain_endpoints(struct explainer *e, cJSON *to)
{
    const struct port_state *port = e->decision.port;
    const endpoint_vec *merged = &e->decision.endpoints;
    struct listing l = {.e = e,
                        .ref = {port->owner->service->id, (enum family)port->family,
                                port_state_spec(port)->name, port->protocol},
                        .needed = decision_sets_needed(port)};
    l.basis = selection_basis(merged->v, merged->n, here(&l));
    endpoint_slice_cache_each(e->from->slices, l.ref.service_id, gather_slice, &l);
    endpoint_slice_cache_receipts(e->from->slices, l.ref.service_id, note_outdated, &l);
    add_topology(&l, to);
    list_all(&l, to);
    add_slices(&l, to);
    vec_free(&l.gathered);
    vec_free(&l.shares);
    vec_free(&l.outdated);
}
