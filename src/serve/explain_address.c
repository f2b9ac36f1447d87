/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An address and port that no Service has: what becomes of traffic there, and what was perhaps
 * meant. */
#include "kube-nftd/serve/explain_parts.h"

#include <string.h>

/* How many Services are named at most as those that are perhaps meant. */
#define MEANT_MAX 5

static bool has_address(const address_vec *addresses, const struct address *address)
{
    vec_each (addresses, it)
        if (memcmp(it, address, sizeof(*it)) == 0)
            return true;
    return false;
}

/* What the asked address is to a Service; NULL: nothing. */
static const char *role_of(const struct explainer *e, const struct service *service)
{
    int family = e->asked.family;
    const struct address *address = &e->asked.address;
    if (service->skipped || !service->has_cluster_ip[family])
        return NULL;
    if (memcmp(&service->cluster_ip[family], address, sizeof(*address)) == 0)
        return "the cluster IP";
    if (has_address(&service_outside(service)->external_ips[family], address))
        return "an external IP";
    return has_address(&service_outside(service)->load_balancer_ips[family], address)
               ? "a load-balancer IP"
               : NULL;
}

static char *ports_text(const struct service *service)
{
    char *text = xstrdup("");
    vec_each (&service->ports, port) {
        char *longer = xasprintf("%s%s%u/%s", text, *text ? ", " : "", port->port,
                                 protocol_name(port->protocol));
        free(text);
        text = longer;
    }
    return text;
}

static char *node_port_places(const struct explainer *e, enum family family)
{
    const address_vec *addresses = policy_node_port_addresses(e->from->policy, family);
    char *text = xstrdup("");
    vec_each (addresses, it) {
        char address[ADDRESS_TEXT_SIZE];
        char *longer =
            xasprintf("%s%s%s", text, *text ? ", " : "", address_format(family, it, address));
        free(text);
        text = longer;
    }
    if (*text)
        return text;
    free(text);
    return xstrdup("no address (--nodeport-addresses)");
}

/* The number is a node port, but not at that address. */
static void note_node_port(struct explainer *e, const struct service *service,
                           const struct service_port *port)
{
    const char *family = family_name((enum family)e->asked.family);
    if (!service->has_cluster_ip[e->asked.family]) {
        json_append_format(e->notes, "node port %u belongs to %s, which has no %s cluster IP",
                           port->node_port, service->id, family);
        return;
    }
    char *places = node_port_places(e, (enum family)e->asked.family);
    json_append_format(e->notes, "node port %u belongs to %s, but node ports answer on %s only",
                       port->node_port, service->id, places);
    free(places);
}

static bool note_service(struct explainer *e, const struct service *service)
{
    const char *role = role_of(e, service);
    size_t before = (size_t)cJSON_GetArraySize(e->notes);
    if (role) {
        char *ports = ports_text(service);
        json_append_format(e->notes, "the address is %s of %s, which has %s %s", role, service->id,
                           service->ports.n == 1 ? "port" : "ports", ports);
        free(ports);
    }
    vec_each (&service->ports, port)
        if (port->node_port == e->asked.port && port->protocol == e->asked.protocol)
            note_node_port(e, service, port);
    if (service->health_check_node_port == e->asked.port)
        json_append_format(e->notes,
                           "%u is the healthCheckNodePort of %s: it answers balancers, and is no "
                           "way to the Service",
                           e->asked.port, service->id);
    return (size_t)cJSON_GetArraySize(e->notes) > before;
}

/* There is no index for what is asked so rarely. */
static void note_meant(struct explainer *e)
{
    size_t n = 0;
    hash_table_each (policy_services(e->from->policy), const struct service_state, it) {
        n += note_service(e, it->service);
        if (n == MEANT_MAX)
            return;
    }
}

static const char *judge(const struct explainer *e, const char **what)
{
    enum family family = (enum family)e->asked.family;
    if (!e->from->family[family].ruleset) {
        *what = "is not looked at: this family is not proxied on this node.";
        return "nothing";
    }
    if (policy_has_cluster_ip(e->from->policy, family, &e->asked.address)) {
        *what = "is no port of any Service, though the address is a cluster IP: new connections "
                "are refused.";
        return "clusterIPWithoutPort";
    }
    if (service_cidr_cache_contains(e->from->service_cidrs, family, &e->asked.address)) {
        *what = "belongs to no Service, and the address is in a ServiceCIDR: new connections are "
                "dropped.";
        return "unusedServiceCIDR";
    }
    *what = "belongs to no Service: kube-nftd lets it pass untouched.";
    return "nothing";
}

void explain_nobodys(struct explainer *e)
{
    char text[FRONTEND_TEXT_SIZE];
    const char *what;
    json_add_text(e->root, "found", judge(e, &what));
    json_append_format(e->summary, "%s %s", frontend_format(&e->asked, text), what);
    note_meant(e);
    if (e->from->no_external_ips)
        json_append_format(e->notes, "external IPs of Services are not proxied here (feature gate "
                                     "AllowServiceExternalIPs)");
    explain_kernel(e, &e->asked, NULL, json_add_object(e->root, "nobodys"));
}
