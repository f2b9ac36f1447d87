/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Explains an address or port that no Service claims: whose endpoint it is, where its traffic goes,
 * and which Service may have been meant. */
#include "explain.h"

#include <string.h>

/* Maximum number of Services named as possibly meant, and as users of an endpoint. */
#define MEANT_MAX 5

static bool is_same(const struct address *a, const struct address *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* ---- Services with this endpoint ---- */

/* Adds the frontends of the port of e->decision that send connections to @backend. */
static void add_use(struct explainer *e, const struct backend *backend, cJSON *uses)
{
    const struct port_state *port = e->decision.port;
    const char *id = port->owner->service->id, *name = port_state_spec(port)->name;
    const char *place = BACKEND_TEXT(port->family, backend);
    char *all = NULL;
    cJSON *item = facts_append(uses);
    facts_add(item, fact_text("endpoint", place), fact_text("service", id),
              fact_text("port", name));
    cJSON *frontends = cJSON_AddArrayToObject(item, "frontends");
    for (const struct claim *it = port->claims; it; it = it->next_of_port) {
        const struct route policy = claim_route(it);
        const bool only_local = policy.class & CLASS_LOCAL;
        bool cluster = (!only_local || policy.class & CLASS_EXTERNAL) &&
                       backends_contain(&e->decision.cluster, backend);
        bool local = only_local && backends_contain(&e->decision.local, backend);
        if (it->target->winner != it || (!cluster && !local) || !explain_take(e, ITEM_FRONTEND, 1))
            continue;
        const char *text = FRONTEND_TEXT(&it->target->frontend);
        facts_append_text(frontends, "%s", text);
        xjoin(&all, "%s", text);
    }
    char *use = all ? xasprintf("new connections are sent to it from %s", all)
                    : xasprintf("not used from this node (ask for %s to see why)", id);
    explain_summary(e, "%s is an endpoint of %s%s%s: %s.", place, id, *name ? ", port " : "", name,
                    use);
    free(use);
    free(all);
}

/* Returns whether the Service of @state has the queried address and port as an endpoint. */
static bool add_uses(struct explainer *e, const struct service_state *state, cJSON *uses)
{
    const struct endpoint_slice *slice;
    const char *id = state->service->id;
    bool is_in_slice = false, is_used = false;
    for (size_t i = 0; (slice = endpoint_slice_cache_at(e->now->slices, id, i)); i++)
        vec_each (&slice->endpoints, it)
            is_in_slice |=
                slice->family == e->asked.family && is_same(&it->address, &e->asked.address);
    for (struct port_state *port = state->ports; is_in_slice && port; port = port->next) {
        if (port->family != e->asked.family)
            continue;
        policy_decide(e->now->policy, port, &e->decision);
        vec_each (&e->decision.endpoints, it) {
            if (!is_same(&it->address, &e->asked.address) ||
                (e->asked.port && e->asked.port != it->port))
                continue;
            add_use(e, &(struct backend){it->address, it->port}, uses);
            is_used = true;
        }
    }
    return is_used;
}

/* ---- what may have been meant ---- */

/* Names a Service that has the address. Without a queried port this is the summary, else a note. */
static bool note_address(struct explainer *e, const struct service *service)
{
    const struct address *address = &e->asked.address;
    const struct outside *outside = service_outside(service);
    enum family family = e->asked.family;
    char *ports = NULL;
    if (!e->by_address || service->skipped || !service->has_cluster_ip[family])
        return false;
    const char *role =
        is_same(&service->cluster_ip[family], address)                    ? "the cluster IP"
        : addresses_contain(&outside->external_ips[family], address)      ? "an external IP"
        : addresses_contain(&outside->load_balancer_ips[family], address) ? "a load-balancer IP"
                                                                          : NULL;
    if (!role)
        return false;
    vec_each (&service->ports, port)
        xjoin(&ports, "%u/%s", port->port, protocol_name(port->protocol));
    facts_append_text(e->asked.port ? e->notes : e->summary, "%s is %s of %s, which has %s %s%s",
                      e->asked.port ? "the address" : ADDRESS_TEXT(family, address), role,
                      service->id, service->ports.n == 1 ? "port" : "ports", ports ? ports : "none",
                      e->asked.port ? "" : ".");
    free(ports);
    return true;
}

/* Names a Service that has the port as its NodePort, on other addresses, or for health checks. */
static bool note_port(struct explainer *e, const struct service *service)
{
    enum family family = e->asked.family;
    uint16_t number = e->asked.port;
    bool is_node_port = false, is_health_check = service->health_check_node_port == number;
    char *places = NULL;
    if (!number)
        return false;
    vec_each (&service->ports, port)
        is_node_port |= port->node_port == number &&
                        (!e->asked.protocol || e->asked.protocol == port->protocol);
    vec_each (&policy_view(e->now->policy).node_port_addresses[family], it)
        if (is_node_port)
            xjoin(&places, "%s", ADDRESS_TEXT(family, it));
    if (is_node_port && e->by_address && e->now->counts_localhost &&
        address_is_loopback(family, &e->asked.address))
        explain_note(e, "connections to it on loopback addresses are counted, and refused unless a "
                        "process of this host listens there");
    if (is_node_port && service->has_cluster_ip[family] && places)
        explain_note(e, "node port %u belongs to %s, but NodePorts are served on %s only", number,
                     service->id, places);
    else if (is_node_port && service->has_cluster_ip[family])
        explain_note(e,
                     "node port %u belongs to %s, but no address for NodePorts is known "
                     "(--nodeport-addresses)",
                     number, service->id);
    else if (is_node_port)
        explain_note(e, "node port %u belongs to %s, which has no %s cluster IP", number,
                     service->id, family_name(family));
    if (is_health_check)
        explain_note(e,
                     "%u is the healthCheckNodePort of %s: it answers load balancers, and does not "
                     "lead to the Service",
                     number, service->id);
    free(places);
    return is_node_port || is_health_check;
}

/* Returns whether it may have been meant. */
static bool note_service(struct explainer *e, const struct service *service)
{
    bool has_address = note_address(e, service), has_port = note_port(e, service);
    return has_address || has_port;
}

/* ---- where traffic goes ---- */

/* Returns the value of "found"; sets @what becomes of traffic. */
static const char *judge(const struct explainer *e, const char **what)
{
    enum family family = e->asked.family;
    const struct ruleset *ruleset = e->now->family[family].ruleset;
    if (ruleset && ruleset_has_cluster_ip(ruleset, &e->asked.address)) {
        *what = "is not a port of a Service, though the address is a cluster IP: new connections "
                "are rejected.";
        return "clusterIPWithoutPort";
    }
    if (ruleset && ranges_contain(&e->now->service_cidrs[family], &e->asked.address)) {
        *what = "belongs to no Service, and the address is in a ServiceCIDR: new connections are "
                "dropped.";
        return "unusedServiceCIDR";
    }
    *what = ruleset ? "belongs to no Service: kube-nftd does not touch its packets."
                    : "is ignored: this family is not proxied on this node.";
    return "nothing";
}

void explain_unclaimed(struct explainer *e)
{
    size_t n_meant = 0, n_uses = 0;
    const char *what, *found = "nothing";
    cJSON *uses = cJSON_AddArrayToObject(e->root, "endpointOf");
    /* A scan: such queries are too rare for an index. */
    hash_table_each (policy_services(e->now->policy), const struct service_state, it) {
        if (n_meant < MEANT_MAX && note_service(e, it->service))
            n_meant++;
        if (e->by_address && n_uses < MEANT_MAX)
            n_uses += add_uses(e, it, uses);
    }
    if (!e->by_address) {
        explain_summary(e, "No Service has node port %u on this node.", e->asked.port);
    } else if (e->summary->child) {
        found = uses->child ? "endpoint" : "address";
    } else {
        found = judge(e, &what);
        explain_summary(e, "%s %s",
                        e->asked.port ? FRONTEND_TEXT(&e->asked)
                                      : ADDRESS_TEXT(e->asked.family, &e->asked.address),
                        what);
    }
    facts_add(e->root, fact_text("found", found));
    if (e->by_address && !e->now->external_ips)
        explain_note(e, "external IPs of Services are not proxied here (feature gate "
                        "AllowServiceExternalIPs)");
    if (e->by_address && e->asked.port)
        explain_kernel(e, &e->asked, NULL, cJSON_AddObjectToObject(e->root, "nobodys"));
}
