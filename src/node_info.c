/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "node_info.h"

#include "kube-nftd/base.h"
#include "kube-nftd/localhost.h"
#include "kube-nftd/policy.h"
#include "kube-nftd/serve.h"
#include "kube-nftd/table.h"

#include <string.h>

/* Facts of one family. */
struct facts {
    bool is_fixed; /* the address is that of --bind-address */
    bool has_address;
    struct address address;
    bool has_pod_cidr;
    struct cidr pod_cidr;
    address_vec host;                 /* on this host's interfaces */
    bool host_known;                  /* host was set, and ports were reported */
    struct node_port_selection ports; /* as last reported */
    char *unserved;                   /* why no address serves NodePorts, as logged; NULL: served */
};

struct node_info {
    struct node_info_config config;
    char *zone;
    bool seen, leaving;
    bool complete; /* all Node objects were passed, without this one */
    struct facts facts[FAMILY_COUNT];
};

/* Manifests need not have a Node. */
static bool is_expected(const struct node_info *node)
{
    return !node->config.options->manifests;
}

static void set_address(struct node_info *node, enum family family, const struct address *address)
{
    struct facts *facts = &node->facts[family];
    facts->has_address = address != NULL;
    if (address)
        facts->address = *address;
    policy_set_node_ip(node->config.policy, family, address);
}

/* @cidr  NULL: none known */
static void set_pod_cidr(struct node_info *node, enum family family, const struct cidr *cidr)
{
    struct facts *facts = &node->facts[family];
    struct table *table = node->config.tables[family];
    range_vec ranges = {0};
    if (facts->has_pod_cidr == (cidr != NULL) && (!cidr || cidr_equal(&facts->pod_cidr, cidr)))
        return;
    facts->has_pod_cidr = cidr != NULL;
    if (cidr) {
        facts->pod_cidr = *cidr;
        vec_push(&ranges, cidr_range(family, cidr));
    }
    if (table)
        ruleset_set_pod_cidrs(table_changing(table), &ranges);
    vec_free(&ranges);
}

struct node_info *node_info_new(const struct node_info_config *config)
{
    struct node_info *node = xcalloc(1, sizeof(*node));
    const struct options *options = config->options;
    enum family family;
    struct address address;
    node->config = *config;
    if (options->bind_address && address_parse(options->bind_address, &family, &address)) {
        node->facts[family].is_fixed = true;
        set_address(node, family, &address);
    }
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (options->detect_local_mode == DETECT_LOCAL_CLUSTER_CIDR && options->has_cluster_cidr[i])
            set_pod_cidr(node, (enum family)i, &options->cluster_cidr[i]);
    return node;
}

void node_info_free(struct node_info *node)
{
    if (!node)
        return;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        vec_free(&node->facts[i].host);
        vec_free(&node->facts[i].ports.addresses);
        free(node->facts[i].unserved);
    }
    free(node->zone);
    free(node);
}

/* ---- NodePorts ---- */

static bool contains(const cidr_vec *cidrs, const struct address *address)
{
    vec_each (cidrs, cidr)
        if (cidr_contains(cidr, address))
            return true;
    return false;
}

bool node_port_addresses_have_localhost(const struct node_port_addresses *setting,
                                        enum family family)
{
    const struct address localhost = localhost_address(family);
    vec_each (&setting->cidrs[family], cidr)
        if (address_is_loopback(family, &cidr->address) && cidr_contains(cidr, &localhost))
            return true;
    return false;
}

void node_port_addresses_select(const struct node_port_addresses *setting, enum family family,
                                const address_vec *host, const struct address *own,
                                struct node_port_selection *out)
{
    const cidr_vec *cidrs = &setting->cidrs[family];
    bool all = cidrs->n == 0 && !setting->primary;
    vec_each (cidrs, cidr)
        all = all || cidr->length == 0;
    *out = (struct node_port_selection){.all = all};
    vec_each (host, address) {
        bool is_own = own && memcmp(own, address, sizeof(*own)) == 0;
        bool answers = family == FAMILY_IPV4 || !address_is_link_local(family, address);
        bool selected = (setting->primary && is_own) || (all ? answers : contains(cidrs, address));
        if (selected && !address_is_loopback(family, address))
            vec_push(&out->addresses, *address);
    }
}

/* Loopback addresses are meant, which are served apart. */
static bool serves_localhost(const struct node_info *node, enum family family)
{
    return node_port_addresses_have_localhost(&node->config.options->node_port_addresses, family);
}

/* Why no address of the family serves NodePorts. The caller frees it. */
static char *why_unserved(const struct node_info *node, enum family family)
{
    const struct facts *facts = &node->facts[family];
    const struct node_port_addresses *setting = &node->config.options->node_port_addresses;
    char text[ADDRESS_TEXT_SIZE];
    if (!setting->primary)
        return xasprintf("no interface of this host has an address in --nodeport-addresses%s",
                         serves_localhost(node, family) ? " (loopback addresses are served apart)"
                                                        : "");
    if (!facts->has_address)
        return xasprintf("node=%s has no address of this family, or none is known yet",
                         node->config.name);
    return xasprintf("no interface of this host has address=%s of node=%s",
                     address_format(family, &facts->address, text), node->config.name);
}

static void set_unserved(struct facts *facts, char *why)
{
    free(facts->unserved);
    facts->unserved = why;
}

static void log_node_ports(struct node_info *node, enum family family, bool changed)
{
    struct facts *facts = &node->facts[family];
    const char *name = family_name(family);
    bool no_address = node->config.options->node_port_addresses.primary && !facts->has_address;
    bool may_come = no_address && !node->seen && !node->complete;
    if (facts->ports.addresses.n > 0) {
        set_unserved(facts, NULL);
        if (changed)
            log_info("daemon", "family=%s NodePorts are served on addresses=%zu%s", name,
                     facts->ports.addresses.n, facts->ports.all ? ", all of this host" : "");
        return;
    }
    /* Logged once, until addresses appear or the node's address changes. */
    if (facts->unserved || facts->ports.all || may_come)
        return;
    set_unserved(facts, why_unserved(node, family));
    log_at(no_address || serves_localhost(node, family) ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "daemon",
           "family=%s NodePorts are not served: %s", name, facts->unserved);
}

/* Health checks are this process's own, so loopback addresses have them, too. */
static void set_health_addresses(const struct node_info *node, enum family family)
{
    const struct node_port_selection *ports = &node->facts[family].ports;
    address_vec addresses = {0};
    vec_append(&addresses, ports->addresses.v, ports->addresses.n);
    if (serves_localhost(node, family))
        vec_push(&addresses, localhost_address(family));
    health_set_addresses(node->config.health, family, ports->all, addresses.v, addresses.n);
    vec_free(&addresses);
}

/* @always: reports even without a change. */
static void decide_node_ports(struct node_info *node, enum family family, bool always)
{
    struct facts *facts = &node->facts[family];
    struct node_port_selection now, before = facts->ports;
    address_vec present = {0};
    const struct address *own = facts->has_address ? &facts->address : NULL;
    if (!facts->host_known)
        return;
    vec_append(&present, facts->host.v, facts->host.n);
    if (node->config.offline && own) {
        vec_push(&present, *own);
        addresses_normalize(&present);
    }
    node_port_addresses_select(&node->config.options->node_port_addresses, family, &present, own,
                               &now);
    vec_free(&present);
    size_t n = now.addresses.n;
    bool same = now.all == before.all && n == before.addresses.n &&
                (n == 0 || memcmp(now.addresses.v, before.addresses.v, n * sizeof(*own)) == 0);
    vec_free(&before.addresses);
    facts->ports = now;
    log_node_ports(node, family, always || !same);
    if (!always && same)
        return;
    policy_set_node_port_addresses(node->config.policy, family, now.addresses.v, n);
    if (node->config.health && node->config.tables[family])
        set_health_addresses(node, family);
}

void node_info_set_host_addresses(void *ctx, enum family family, const address_vec *addresses)
{
    struct node_info *node = ctx;
    struct facts *facts = &node->facts[family];
    vec_clear(&facts->host);
    vec_append(&facts->host, addresses->v, addresses->n);
    bool first = !facts->host_known;
    facts->host_known = true;
    decide_node_ports(node, family, first);
}

/* ---- the Node object ---- */

static void put_zone(struct node_info *node, const char *zone)
{
    if (node->zone == zone || (node->zone && zone && strcmp(node->zone, zone) == 0))
        return;
    log_info("daemon", "node=%s zone=%s", node->config.name, zone ? zone : "none");
    free(node->zone);
    node->zone = xstrdup(zone);
    policy_set_zone(node->config.policy, node->zone);
}

static void put_address(struct node_info *node, enum family family, const struct node *object)
{
    struct facts *facts = &node->facts[family];
    const struct address *address = object->has_ip[family] ? &object->ip[family] : NULL;
    char text[ADDRESS_TEXT_SIZE];
    bool changed = facts->has_address != object->has_ip[family] ||
                   (address && memcmp(address, &facts->address, sizeof(*address)) != 0);
    if (facts->is_fixed || !changed)
        return;
    set_unserved(facts, NULL);
    log_info("daemon", "node=%s family=%s address=%s", node->config.name, family_name(family),
             address ? address_format(family, address, text) : "none");
    set_address(node, family, address);
}

void node_info_put(struct node_info *node, const struct node *object)
{
    if (strcmp(object->id, node->config.name) != 0)
        return;
    node->seen = true;
    node->leaving = object->deleting || object->to_be_deleted;
    put_zone(node, object->zone);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        put_address(node, (enum family)i, object);
        if (node->config.options->detect_local_mode == DETECT_LOCAL_NODE_CIDR)
            set_pod_cidr(node, (enum family)i,
                         object->has_pod_cidr[i] ? &object->pod_cidr[i] : NULL);
        decide_node_ports(node, (enum family)i, false);
    }
}

void node_info_remove(struct node_info *node, const char *id)
{
    if (strcmp(id, node->config.name) == 0)
        log_warn("daemon", "node=%s: the Node object was deleted; its last version stays in use",
                 id);
}

void node_info_complete(struct node_info *node)
{
    if (node->seen || node->complete)
        return;
    node->complete = true;
    if (is_expected(node))
        log_warn("daemon",
                 "node=%s: no Node object has this name (yet), so its zone and addresses are "
                 "unknown; see --hostname-override",
                 node->config.name);
    else
        log_info("daemon", "node=%s: no Node object, so its zone and addresses are unknown",
                 node->config.name);
    for (int i = 0; i < FAMILY_COUNT; i++)
        decide_node_ports(node, (enum family)i, false);
}

const char *node_info_unserved(const struct node_info *node, enum family family)
{
    const bool is_meant =
        serves_localhost(node, family) && !node->config.options->node_port_addresses.primary;
    return is_meant ? NULL : node->facts[family].unserved;
}

bool node_info_is_known(const struct node_info *node)
{
    return node->seen;
}

bool node_info_is_eligible(const struct node_info *node)
{
    return node->seen ? !node->leaving : !is_expected(node);
}
