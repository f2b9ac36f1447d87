/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An address, or port, that no Service has for clients: whose endpoint it is, what becomes of
 * traffic there, and what was perhaps meant. */
#include "explainer.h"

#include <string.h>

/* How many Services are named at most as those that are perhaps meant, or use an endpoint. */
#define MEANT_MAX 5

/* ---- Services that use it as an endpoint ---- */

struct use {
    const struct address *address;
    enum family family;
    bool found;
};

static void find_in_slice(void *ctx, const struct endpoint_slice *slice)
{
    struct use *use = ctx;
    if (slice->family != use->family)
        return;
    vec_each (&slice->endpoints, it)
        use->found = use->found || memcmp(&it->address, use->address, sizeof(*use->address)) == 0;
}

static bool has_backend(const backend_vec *backends, const struct backend *backend)
{
    return backends->n &&
           bsearch(backend, backends->v, backends->n, sizeof(*backend), backend_compare);
}

static bool sends_to(const struct decision *decision, const struct claim *claim,
                     const struct backend *backend)
{
    const struct claim_policy policy = decision_policy(claim);
    return ((!policy.local || policy.external) && has_backend(&decision->cluster, backend)) ||
           (policy.local && has_backend(&decision->local, backend));
}

/* The addresses of the port of e->decision from which connections go to @backend. */
static void add_use(struct explainer *e, const struct backend *backend)
{
    const struct port_state *port = e->decision.port;
    const char *id = port->owner->service->id, *name = port_state_spec(port)->name;
    char text[FRONTEND_TEXT_SIZE], place[BACKEND_TEXT_SIZE], *all = NULL;
    backend_format((enum family)port->family, backend, place);
    cJSON *item = facts_append(e->uses);
    facts_add(item, fact_text("endpoint", place), fact_text("service", id),
              fact_text("port", name));
    cJSON *frontends = cJSON_AddArrayToObject(item, "frontends");
    for (const struct claim *it = port->claims; it; it = it->next_of_port) {
        if (it->target->winner != port || !sends_to(&e->decision, it, backend) ||
            !explain_may_add(e, LEFT_FRONTENDS))
            continue;
        frontend_format(&it->target->frontend, text);
        facts_append_text(frontends, "%s", text);
        xjoin(&all, "%s", text);
    }
    if (all)
        facts_append_text(e->summary,
                          "%s is an endpoint of %s%s%s: new connections are sent to it from %s.",
                          place, id, *name ? ", port " : "", name, all);
    else
        facts_append_text(
            e->summary,
            "%s is an endpoint of %s%s%s: not used from this node (ask for %s to see why).", place,
            id, *name ? ", port " : "", name, id);
    free(all);
}

static bool add_uses(struct explainer *e, const struct service_state *state)
{
    struct use use = {&e->asked.address, (enum family)e->asked.family, false};
    size_t before = (size_t)cJSON_GetArraySize(e->summary);
    endpoint_slice_cache_each(e->from->slices, state->service->id, find_in_slice, &use);
    for (struct port_state *port = state->ports; use.found && port; port = port->next) {
        if (port->family != use.family)
            continue;
        policy_decide(e->from->policy, port, &e->decision);
        vec_each (&e->decision.endpoints, it)
            if (memcmp(&it->address, use.address, sizeof(it->address)) == 0 &&
                (!e->asked.port || e->asked.port == it->port))
                add_use(e, &(struct backend){it->address, it->port});
    }
    return (size_t)cJSON_GetArraySize(e->summary) > before;
}

/* ---- what was perhaps meant ---- */

/* What the asked address is to a Service; NULL: nothing. */
static const char *role_of(const struct explainer *e, const struct service *service)
{
    int family = e->asked.family;
    const struct address *address = &e->asked.address;
    if (!e->by_address || service->skipped || !service->has_cluster_ip[family])
        return NULL;
    if (memcmp(&service->cluster_ip[family], address, sizeof(*address)) == 0)
        return "the cluster IP";
    if (addresses_contain(&service_outside(service)->external_ips[family], address))
        return "an external IP";
    return addresses_contain(&service_outside(service)->load_balancer_ips[family], address)
               ? "a load-balancer IP"
               : NULL;
}

/* An address alone is answered by that. */
static void note_role(struct explainer *e, const struct service *service, const char *role)
{
    char address[ADDRESS_TEXT_SIZE] = "the address", *ports = NULL;
    vec_each (&service->ports, port)
        xjoin(&ports, "%u/%s", port->port, protocol_name(port->protocol));
    if (!e->asked.port)
        address_format((enum family)e->asked.family, &e->asked.address, address);
    facts_append_text(e->asked.port ? e->notes : e->summary, "%s is %s of %s, which has %s %s%s",
                      address, role, service->id, service->ports.n == 1 ? "port" : "ports",
                      ports ? ports : "none", e->asked.port ? "" : ".");
    free(ports);
}

/* The number is a node port, but not at that address. */
static void note_node_port(struct explainer *e, const struct service *service, uint16_t number)
{
    enum family family = (enum family)e->asked.family;
    char text[ADDRESS_TEXT_SIZE], *places = NULL;
    if (!service->has_cluster_ip[family]) {
        facts_append_text(e->notes, "node port %u belongs to %s, which has no %s cluster IP",
                          number, service->id, family_name(family));
        return;
    }
    vec_each (policy_node_port_addresses(e->from->policy, family), it)
        xjoin(&places, "%s", address_format(family, it, text));
    facts_append_text(e->notes, "node port %u belongs to %s, but NodePorts are served on %s only",
                      number, service->id, places ? places : "no address (--nodeport-addresses)");
    free(places);
}

static bool note_service(struct explainer *e, const struct service *service)
{
    const char *role = role_of(e, service);
    int before = cJSON_GetArraySize(e->notes);
    if (role)
        note_role(e, service, role);
    vec_each (&service->ports, port)
        if (e->asked.port && port->node_port == e->asked.port &&
            (!e->asked.protocol || port->protocol == e->asked.protocol))
            note_node_port(e, service, port->node_port);
    if (e->asked.port && service->health_check_node_port == e->asked.port)
        facts_append_text(e->notes,
                          "%u is the healthCheckNodePort of %s: it answers load balancers, and "
                          "does not lead to the Service",
                          e->asked.port, service->id);
    return role || cJSON_GetArraySize(e->notes) > before;
}

/* There is no index for what is asked so rarely. */
static void look_around(struct explainer *e)
{
    size_t n_meant = 0, n_uses = 0;
    hash_table_each (policy_services(e->from->policy), const struct service_state, it) {
        if (n_meant < MEANT_MAX)
            n_meant += note_service(e, it->service);
        if (e->by_address && n_uses < MEANT_MAX)
            n_uses += add_uses(e, it);
    }
}

/* ---- what becomes of traffic ---- */

static const char *judge(const struct explainer *e, const char **what)
{
    enum family family = (enum family)e->asked.family;
    const struct ruleset *ruleset = e->from->family[family].ruleset;
    if (!ruleset) {
        *what = "is ignored: this family is not proxied on this node.";
        return "nothing";
    }
    if (ruleset_has_cluster_ip(ruleset, &e->asked.address)) {
        *what = "is not a port of a Service, though the address is a cluster IP: new connections "
                "are refused.";
        return "clusterIPWithoutPort";
    }
    if (service_cidr_cache_contains(e->from->service_cidrs, family, &e->asked.address)) {
        *what = "belongs to no Service, and the address is in a ServiceCIDR: new connections are "
                "dropped.";
        return "unusedServiceCIDR";
    }
    *what = "belongs to no Service: kube-nftd does not touch its packets.";
    return "nothing";
}

void explain_nobodys(struct explainer *e)
{
    char text[FRONTEND_TEXT_SIZE];
    const char *what = "", *found;
    e->uses = cJSON_AddArrayToObject(e->root, "endpointOf");
    look_around(e);
    if (!e->by_address) {
        facts_add(e->root, fact_text("found", "nothing"));
        facts_append_text(e->summary, "No Service has node port %u on this node.", e->asked.port);
        return;
    }
    found = e->uses->child ? "endpoint" : e->summary->child ? "address" : judge(e, &what);
    facts_add(e->root, fact_text("found", found));
    if (!e->asked.port)
        address_format((enum family)e->asked.family, &e->asked.address, text);
    else
        frontend_format(&e->asked, text);
    if (!e->summary->child)
        facts_append_text(e->summary, "%s %s", text, what);
    if (e->from->no_external_ips)
        facts_append_text(e->notes, "external IPs of Services are not proxied here (feature gate "
                                    "AllowServiceExternalIPs)");
    if (e->asked.port)
        explain_kernel(e, &e->asked, NULL, cJSON_AddObjectToObject(e->root, "nobodys"));
}
