/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A Service: its policies and its ports. */
#include "explainer.h"
#include "kube-nftd/base.h"
#include "kube-nftd/serve.h"

#include <string.h>

/* ---- what it says itself ---- */

static void add_ranges(struct explainer *e, cJSON *to, const struct service *service)
{
    cJSON *array = cJSON_AddArrayToObject(to, "sourceRanges");
    char text[RANGE_TEXT_SIZE];
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_each (&service_outside(service)->source_ranges[family], range)
            if (explain_may_add(e, LEFT_SOURCE_RANGES))
                facts_append_text(array, "%s", range_format((enum family)family, range, text));
}

static void add_health_answer(struct explainer *e, cJSON *answers, const struct service *service,
                              enum family family)
{
    size_t ready = policy_local_ready(e->from->policy, service, family);
    bool open =
        !e->from->health || health_service_is_listening(e->from->health, service->id, family);
    facts_add(cJSON_AddObjectToObject(answers, family_name(family)),
              fact_nonzero("status", !open                          ? 0
                                     : ready && !e->from->unhealthy ? 200
                                                                    : 503),
              fact_number("localEndpoints", (double)ready));
    if (!open)
        facts_append_text(e->notes,
                          "healthCheckNodePort %u does not answer everywhere over %s: it has no "
                          "address, or another program uses it (the log says which)",
                          service->health_check_node_port, family_name(family));
}

static void add_health_check(struct explainer *e, cJSON *to, const struct service *service)
{
    if (!service->health_check_node_port) {
        facts_add(to, fact_text("healthCheck", NULL));
        return;
    }
    cJSON *check = cJSON_AddObjectToObject(to, "healthCheck");
    facts_add(check, fact_number("port", service->health_check_node_port));
    cJSON *answers = cJSON_AddObjectToObject(check, "answers");
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (service->has_cluster_ip[family] && e->from->family[family].ruleset)
            add_health_answer(e, answers, service, (enum family)family);
}

bool explain_is_outdated(const struct explainer *e, const char *id)
{
    struct object_versions versions;
    return service_cache_versions(e->from->services, id, &versions) && versions.rejected;
}

static void add_header(struct explainer *e, cJSON *to, const struct service *service)
{
    bool outdated = explain_is_outdated(e, service->id), dated = service->created != INT64_MAX;
    char created[CLOCK_RFC3339_SIZE] = "";
    if (dated)
        clock_rfc3339((double)service->created, created);
    const char *name = strchr(service->id, '/') + 1;
    facts_format(to, "namespace", "%.*s", (int)(name - 1 - service->id), service->id);
    facts_add(to, fact_text("name", name), fact_text("created", dated ? created : NULL),
              fact_flag("outdated", outdated), fact_text("ignoredFields", service->warnings),
              fact_text("internalTrafficPolicy", service->internal_local ? "Local" : "Cluster"),
              fact_text("externalTrafficPolicy", service->external_local ? "Local" : "Cluster"));
    facts_add(cJSON_AddObjectToObject(to, "sessionAffinity"),
              fact_text("type", service->affinity_timeout ? "ClientIP" : "None"),
              fact_number("timeoutSeconds", service->affinity_timeout));
    add_ranges(e, to, service);
    add_health_check(e, to, service);
    if (outdated)
        facts_append_text(e->notes,
                          "the last version of Service %s is invalid, and this is about an "
                          "older one: the log names the field",
                          service->id);
    if (service->warnings)
        facts_append_text(e->notes, "ignored in Service %s: %s", service->id, service->warnings);
}

/* ---- its ports ---- */

/* To go through a port's endpoints to decide costs, too, even if none of them is listed. */
#define ENDPOINTS_AN_ENTRY 16

static void add_port(struct explainer *e, const struct port_state *port, cJSON *to)
{
    const struct service_port *spec = port_state_spec(port);
    enum family family = (enum family)port->family;
    const char *family_text = family_name(family);
    uint8_t needed = decision_sets_needed(port);
    policy_decide(e->from->policy, port, &e->decision);
    facts_add(to, fact_text("name", spec->name),
              fact_text("protocol", protocol_name(spec->protocol)), fact_number("port", spec->port),
              fact_nonzero("nodePort", spec->node_port), fact_text("family", family_text),
              fact_flag("needsCluster", needed & SET_CLUSTER),
              fact_flag("needsLocal", needed & SET_LOCAL),
              fact_flag("brief", e->by_address && family != e->asked.family));
    explain_frontends(e, to);
    explain_endpoints(e, to);
    size_t cost = e->decision.endpoints.n / ENDPOINTS_AN_ENTRY;
    e->entries -= cost < e->entries ? cost : e->entries;
    if (!e->from->family[family].ruleset)
        facts_append_text(e->notes, "%s is not proxied on this node", family_text);
    if (spec->node_port && policy_node_port_addresses(e->from->policy, family)->n == 0)
        facts_append_text(e->notes,
                          "node port %u is not served over %s: no address for NodePorts is "
                          "known (--nodeport-addresses)",
                          spec->node_port, family_text);
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
static void note_rejected(void *ctx, const struct object_versions *versions)
{
    struct explainer *e = ctx;
    if (versions->rejected && explain_may_add(e, LEFT_SLICES))
        facts_append_text(e->notes, "EndpointSlice %s is invalid%s: the log names the field",
                          versions->id,
                          versions->received ? ", an older version of it is used" : "");
}

/* What is easily overlooked. */
static void note_slices(struct explainer *e, const struct service *service)
{
    size_t counts[FAMILY_COUNT] = {0};
    endpoint_slice_cache_each(e->from->slices, service->id, count_family, counts);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const char *name = family_name((enum family)family);
        if (counts[family] && !service->has_cluster_ip[family])
            facts_append_text(e->notes, "%s EndpointSlices exist, but %s has no %s cluster IP",
                              name, service->id, name);
        if (!counts[family] && service->has_cluster_ip[family])
            facts_append_text(e->notes,
                              "no %s EndpointSlice names %s (label kubernetes.io/service-name)",
                              name, service->id);
    }
    endpoint_slice_cache_versions(e->from->slices, service->id, note_rejected, e);
}

/* The asked family first, then IPv4; in each as the Service lists them. */
static int compare_places(const void *a, const void *b, void *asked_family)
{
    const struct port_state *p = *(struct port_state *const *)a,
                            *q = *(struct port_state *const *)b;
    int order = (int)p->family - (int)q->family;
    if (order)
        return *(int *)asked_family == FAMILY_IPV6 ? -order : order;
    return (p->index > q->index) - (p->index < q->index);
}

size_t explain_service(struct explainer *e, const struct service_state *state,
                       const struct port_state *only, const char *port_name)
{
    int family = e->by_address ? e->asked.family : FAMILY_IPV4;
    cJSON *service = cJSON_AddObjectToObject(e->root, "service");
    add_header(e, service, state->service);
    cJSON *to = cJSON_AddArrayToObject(service, "ports");
    port_state_vec ports = {0};
    for (struct port_state *port = state->ports; port; port = port->next)
        if (is_wanted(port, only, port_name))
            vec_push(&ports, port);
    size_t n = ports.n;
    if (n > 1)
        qsort_r(ports.v, n, sizeof(*ports.v), compare_places, &family);
    /* The first one is listed whatever it costs. */
    vec_each (&ports, port)
        if (port == ports.v || explain_may_add(e, LEFT_PORTS))
            add_port(e, *port, facts_append(to));
    vec_free(&ports);
    if (!state->service->skipped)
        note_slices(e, state->service);
    return n;
}
