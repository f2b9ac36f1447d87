/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A Service: its policies and its ports. */
#include "kube-nftd/base/clock.h"
#include "kube-nftd/serve/explain_parts.h"
#include "kube-nftd/serve/health.h"

#include <string.h>

/* ---- what it says itself ---- */

static void add_id(cJSON *to, const char *id)
{
    const char *slash = strchr(id, '/');
    json_add_format(to, "namespace", "%.*s", (int)(slash ? slash - id : 0), id);
    json_add_text(to, "name", slash ? slash + 1 : id);
}

static void add_created(cJSON *to, const struct service *service)
{
    char text[CLOCK_RFC3339_SIZE];
    if (service->created == INT64_MAX) {
        json_add_null(to, "created");
        return;
    }
    clock_rfc3339((double)service->created, text);
    json_add_text(to, "created", text);
}

static void add_affinity(cJSON *to, const struct service *service)
{
    cJSON *affinity = json_add_object(to, "sessionAffinity");
    json_add_text(affinity, "type", service->affinity_timeout ? "ClientIP" : "None");
    json_add_number(affinity, "timeoutSeconds", service->affinity_timeout);
}

static void add_ranges(struct explainer *e, cJSON *to, const struct service *service)
{
    cJSON *array = json_add_array(to, "sourceRanges");
    char text[RANGE_TEXT_SIZE];
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_each (&service_outside(service)->source_ranges[family], range)
            if (explain_may_add(e, &e->left_out.source_ranges))
                json_append_format(array, "%s", range_format((enum family)family, range, text));
}

static void add_health_check(struct explainer *e, cJSON *to, const struct service *service)
{
    if (!service->health_check_node_port) {
        json_add_null(to, "healthCheck");
        return;
    }
    cJSON *check = json_add_object(to, "healthCheck");
    json_add_number(check, "port", service->health_check_node_port);
    cJSON *answers = json_add_object(check, "answers");
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (!service->has_cluster_ip[family] || !e->from->family[family].ruleset)
            continue;
        size_t ready = policy_local_ready(e->from->policy, service, (enum family)family);
        cJSON *answer = json_add_object(answers, family_name((enum family)family));
        bool open = !e->from->health ||
                    health_service_is_listening(e->from->health, service->id, (enum family)family);
        if (open)
            json_add_number(answer, "status", ready > 0 && !e->from->unhealthy ? 200 : 503);
        else
            json_add_null(answer, "status");
        if (!open)
            json_append_format(e->notes,
                               "healthCheckNodePort %u answers not everywhere over %s: it has no "
                               "address, or is in use by another program (the log says which)",
                               service->health_check_node_port, family_name((enum family)family));
        json_add_number(answer, "localEndpoints", (double)ready);
    }
}

bool explain_is_outdated(const struct explainer *e, const char *id)
{
    struct receipt receipt;
    return service_cache_receipt(e->from->services, id, &receipt) && receipt.left_out;
}

static void add_header(struct explainer *e, cJSON *to, const struct service *service)
{
    bool outdated = explain_is_outdated(e, service->id);
    add_id(to, service->id);
    add_created(to, service);
    json_add_bool(to, "outdated", outdated);
    json_add_text(to, "ignoredFields", service->warnings);
    json_add_text(to, "internalTrafficPolicy", service->internal_local ? "Local" : "Cluster");
    json_add_text(to, "externalTrafficPolicy", service->external_local ? "Local" : "Cluster");
    add_affinity(to, service);
    add_ranges(e, to, service);
    add_health_check(e, to, service);
    if (outdated)
        json_append_format(e->notes,
                           "the last version of Service %s could not be read, and this is about an "
                           "older one: the log names the field",
                           service->id);
    if (service->warnings)
        json_append_format(e->notes, "ignored in Service %s: %s", service->id, service->warnings);
}

/* ---- its ports ---- */

/* To go through a port's endpoints to decide costs, too, even if none of them is listed. */
#define ENDPOINTS_AN_ENTRY 16

static void add_port(struct explainer *e, const struct port_state *port, cJSON *to)
{
    const struct service_port *spec = port_state_spec(port);
    enum family family = (enum family)port->family;
    json_add_text(to, "name", spec->name);
    json_add_text(to, "protocol", protocol_name(spec->protocol));
    json_add_number(to, "port", spec->port);
    if (spec->node_port)
        json_add_number(to, "nodePort", spec->node_port);
    else
        json_add_null(to, "nodePort");
    json_add_text(to, "family", family_name(family));
    policy_decide(e->from->policy, port, &e->decision);
    uint8_t needed = decision_sets_needed(port);
    json_add_bool(to, "needsCluster", needed & SET_CLUSTER);
    json_add_bool(to, "needsLocal", needed & SET_LOCAL);
    explain_frontends(e, to);
    explain_endpoints(e, to);
    size_t cost = e->decision.endpoints.n / ENDPOINTS_AN_ENTRY;
    e->entries -= cost < e->entries ? cost : e->entries;
    if (!e->from->family[family].ruleset)
        json_append_format(e->notes, "%s is not proxied on this node", family_name(family));
    if (spec->node_port && policy_node_port_addresses(e->from->policy, family)->n == 0)
        json_append_format(e->notes,
                           "node port %u answers nowhere over %s: no address for node ports is "
                           "known (--nodeport-addresses)",
                           spec->node_port, family_name(family));
}

static bool is_named(const struct port_state *port, const char *name)
{
    const struct service_port *spec = port_state_spec(port);
    char number[8];
    snprintf(number, sizeof(number), "%u", spec->port);
    return strcmp(spec->name, name) == 0 || strcmp(number, name) == 0;
}

/* The same entry of spec.ports, in whatever family. */
static bool is_wanted(const struct port_state *port, const struct port_state *only,
                      const char *port_name)
{
    if (only)
        return port->index == only->index;
    return !port_name || is_named(port, port_name);
}

static void count_family(void *ctx, const struct endpoint_slice *slice)
{
    size_t *counts = ctx;
    counts[slice->family]++;
}

/* Slices that were read before are listed. */
static void note_left_out(void *ctx, const struct receipt *receipt)
{
    struct explainer *e = ctx;
    if (receipt->left_out && explain_may_add(e, &e->left_out.slices))
        json_append_format(e->notes,
                           "EndpointSlice %s could not be read%s: the log names the field",
                           receipt->id, receipt->received ? ", an older version of it counts" : "");
}

/* What is easily overlooked. */
static void note_slices(struct explainer *e, const struct service *service)
{
    size_t counts[FAMILY_COUNT] = {0};
    endpoint_slice_cache_each(e->from->slices, service->id, count_family, counts);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const char *name = family_name((enum family)family);
        if (counts[family] && !service->has_cluster_ip[family])
            json_append_format(e->notes, "there are %s EndpointSlices, but %s has no %s cluster IP",
                               name, service->id, name);
        if (!counts[family] && service->has_cluster_ip[family])
            json_append_format(e->notes,
                               "no %s EndpointSlice names %s (label "
                               "kubernetes.io/service-name)",
                               name, service->id);
    }
    endpoint_slice_cache_receipts(e->from->slices, service->id, note_left_out, e);
}

static int compare_places(const void *a, const void *b)
{
    const struct port_state *p = *(struct port_state *const *)a,
                            *q = *(struct port_state *const *)b;
    int order = (int)p->family - (int)q->family;
    return order ? order : (p->index > q->index) - (p->index < q->index);
}

/* As the Service lists them, family by family. */
static port_state_vec ports_in_order(const struct service_state *state)
{
    port_state_vec ports = {0};
    for (struct port_state *port = state->ports; port; port = port->next)
        vec_push(&ports, port);
    if (ports.n > 1)
        qsort(ports.v, ports.n, sizeof(*ports.v), compare_places);
    return ports;
}

/* The wanted ports of one family. Returns how many there are; the first one that is listed at all
 * is so whatever it costs. */
static size_t add_ports(struct explainer *e, const port_state_vec *ports,
                        const struct port_state *only, const char *port_name, bool asked_family,
                        cJSON *to)
{
    size_t n = 0;
    vec_each (ports, it) {
        const struct port_state *port = *it;
        bool asked = !e->by_address || port->family == e->asked.family;
        if (asked != asked_family || !is_wanted(port, only, port_name))
            continue;
        n++;
        if (!to->child || explain_may_add(e, &e->left_out.ports))
            add_port(e, port, json_append_object(to));
    }
    return n;
}

size_t explain_service(struct explainer *e, const struct service_state *state,
                       const struct port_state *only, const char *port_name)
{
    cJSON *service = json_add_object(e->root, "service");
    add_header(e, service, state->service);
    cJSON *to = json_add_array(service, "ports");
    port_state_vec ports = ports_in_order(state);
    size_t n = add_ports(e, &ports, only, port_name, true, to);
    n += add_ports(e, &ports, only, port_name, false, to);
    vec_free(&ports);
    if (!state->service->skipped)
        note_slices(e, state->service);
    return n;
}
