/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Explains an address or port that no Service claims: whose endpoint it is, where its traffic goes,
 * and which Service may have been meant. */
#include "explain.h"

#include <string.h>

/* Maximum number of Services named as possibly meant, and as users of an endpoint. */
#define MEANT_MAX 5

/* ---- Services with this endpoint ---- */

static bool has_backend(const backend_vec *backends, const struct backend *backend)
{
    return backends->n &&
           bsearch(backend, backends->v, backends->n, sizeof(*backend), backend_compare);
}

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
        const struct claim_policy policy = decision_policy(it);
        bool cluster =
            (!policy.local || policy.external) && has_backend(&e->decision.cluster, backend);
        bool local = policy.local && has_backend(&e->decision.local, backend);
        if (it->target->winner != port || (!cluster && !local) ||
            !explain_take(e, ITEM_FRONTEND, 1))
            continue;
        const char *text = FRONTEND_TEXT(&it->target->frontend);
        facts_append_text(frontends, "%s", text);
        xjoin(&all, "%s", text);
    }
    char *use = all ? xasprintf("new connections are sent to it from %s", all)
                    : xasprintf("not used from this node (ask for %s to see why)", id);
    explain_say(e, "%s is an endpoint of %s%s%s: %s.", place, id, *name ? ", port " : "", name,
                use);
    free(use);
    free(all);
}

/* Returns whether the Service of @state has it as an endpoint. */
static bool add_uses(struct explainer *e, const struct service_state *state, cJSON *uses)
{
    int before = cJSON_GetArraySize(uses);
    const struct address *address = &e->asked.address;
    const struct endpoint_slice *slice;
    bool found = false;
    for (size_t i = 0; (slice = endpoint_slice_cache_at(e->now->slices, state->service->id, i));
         i++)
        vec_each (&slice->endpoints, it)
            found |= slice->family == e->asked.family &&
                     memcmp(&it->address, address, sizeof(*address)) == 0;
    for (struct port_state *port = state->ports; found && port; port = port->next) {
        if (port->family != e->asked.family)
            continue;
        policy_decide(e->now->policy, port, &e->decision);
        vec_each (&e->decision.endpoints, it)
            if (memcmp(&it->address, address, sizeof(*address)) == 0 &&
                (!e->asked.port || e->asked.port == it->port))
                add_use(e, &(struct backend){it->address, it->port}, uses);
    }
    return cJSON_GetArraySize(uses) > before;
}

/* ---- what may have been meant ---- */

/* The role of the queried address in @service; NULL: none. */
static const char *role_of(const struct explainer *e, const struct service *service)
{
    enum family family = e->asked.family;
    const struct address *address = &e->asked.address;
    const struct outside *outside = service_outside(service);
    if (!e->by_address || service->skipped || !service->has_cluster_ip[family])
        return NULL;
    if (memcmp(&service->cluster_ip[family], address, sizeof(*address)) == 0)
        return "the cluster IP";
    if (addresses_contain(&outside->external_ips[family], address))
        return "an external IP";
    return addresses_contain(&outside->load_balancer_ips[family], address) ? "a load-balancer IP"
                                                                           : NULL;
}

/* For an address without a port this is the summary, else a note. */
static void note_role(struct explainer *e, const struct service *service, const char *role)
{
    char *ports = NULL;
    vec_each (&service->ports, port)
        xjoin(&ports, "%u/%s", port->port, protocol_name(port->protocol));
    facts_append_text(e->asked.port ? e->notes : e->summary, "%s is %s of %s, which has %s %s%s",
                      e->asked.port ? "the address"
                                    : ADDRESS_TEXT(e->asked.family, &e->asked.address),
                      role, service->id, service->ports.n == 1 ? "port" : "ports",
                      ports ? ports : "none", e->asked.port ? "" : ".");
    free(ports);
}

/* The port is a NodePort, but not on this address. */
static void note_node_port(struct explainer *e, const struct service *service)
{
    enum family family = e->asked.family;
    char *places = NULL;
    vec_each (&policy_view(e->now->policy).node_port_addresses[family], it)
        xjoin(&places, "%s", ADDRESS_TEXT(family, it));
    if (service->has_cluster_ip[family])
        explain_note(e, "node port %u belongs to %s, but NodePorts are served on %s only",
                     e->asked.port, service->id,
                     places ? places : "no address (--nodeport-addresses)");
    else
        explain_note(e, "node port %u belongs to %s, which has no %s cluster IP", e->asked.port,
                     service->id, family_name(family));
    free(places);
}

static bool note_service(struct explainer *e, const struct service *service)
{
    const char *role = role_of(e, service);
    uint16_t number = e->asked.port;
    bool meant = role != NULL;
    if (role)
        note_role(e, service, role);
    vec_each (&service->ports, port) {
        if (!number || port->node_port != number ||
            (e->asked.protocol && port->protocol != e->asked.protocol))
            continue;
        note_node_port(e, service);
        meant = true;
    }
    if (!number || service->health_check_node_port != number)
        return meant;
    explain_note(e,
                 "%u is the healthCheckNodePort of %s: it answers load balancers, and does not "
                 "lead to the Service",
                 number, service->id);
    return true;
}

/* ---- where traffic goes ---- */

static const char *judge(const struct explainer *e, const char **what)
{
    enum family family = e->asked.family;
    const struct ruleset *ruleset = e->now->family[family].ruleset;
    if (ruleset && ruleset_has_cluster_ip(ruleset, &e->asked.address)) {
        *what = "is not a port of a Service, though the address is a cluster IP: new connections "
                "are refused.";
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
    const char *what, *found;
    cJSON *uses = cJSON_AddArrayToObject(e->root, "endpointOf");
    /* A scan: such queries are too rare for an index. */
    hash_table_each (policy_services(e->now->policy), const struct service_state, it) {
        if (n_meant < MEANT_MAX)
            n_meant += note_service(e, it->service);
        if (e->by_address && n_uses < MEANT_MAX)
            n_uses += add_uses(e, it, uses);
    }
    if (!e->by_address) {
        facts_add(e->root, fact_text("found", "nothing"));
        explain_say(e, "No Service has node port %u on this node.", e->asked.port);
        return;
    }
    if (e->summary->child) {
        found = uses->child ? "endpoint" : "address";
    } else {
        found = judge(e, &what);
        explain_say(e, "%s %s",
                    e->asked.port ? FRONTEND_TEXT(&e->asked)
                                  : ADDRESS_TEXT(e->asked.family, &e->asked.address),
                    what);
    }
    facts_add(e->root, fact_text("found", found));
    if (!e->now->external_ips)
        explain_note(e, "external IPs of Services are not proxied here (feature gate "
                        "AllowServiceExternalIPs)");
    if (e->asked.port)
        explain_kernel(e, &e->asked, NULL, cJSON_AddObjectToObject(e->root, "nobodys"));
}
