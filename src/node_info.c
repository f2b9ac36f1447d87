/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "node_info.h"

#include "kube-nftd/base.h"

#include <string.h>

/* Facts of one family. */
struct facts {
    bool has_address; /* the node's: configured, or from the Node object */
    struct address address;
    bool has_pod_cidr;
    struct cidr pod_cidr;
    address_vec host;                 /* on this host's interfaces */
    bool host_known;                  /* host was set, and ports were reported */
    struct node_port_selection ports; /* as last reported */
    bool unserved_logged;             /* that no address serves NodePorts */
};

struct node_info {
    struct node_info_config config;
    struct node_info_ops ops;
    char *name;
    char *zone;
    bool seen, leaving;
    bool complete; /* all Node objects were passed, without this one */
    struct facts facts[FAMILY_COUNT];
};

static void set_address(struct node_info *node, enum family family, const struct address *address)
{
    struct facts *facts = &node->facts[family];
    facts->has_address = address != NULL;
    if (address)
        facts->address = *address;
    node->ops.address(node->ops.ctx, family, address);
}

static void set_pod_cidr(struct node_info *node, enum family family, const struct cidr *cidr)
{
    struct facts *facts = &node->facts[family];
    range_vec ranges = {0};
    facts->has_pod_cidr = cidr != NULL;
    if (cidr) {
        facts->pod_cidr = *cidr;
        vec_push(&ranges, cidr_range(family, cidr));
    }
    node->ops.pod_cidrs(node->ops.ctx, family, &ranges);
    vec_free(&ranges);
}

struct node_info *node_info_new(const struct node_info_config *config,
                                const struct node_info_ops *ops)
{
    struct node_info *node = xcalloc(1, sizeof(*node));
    node->config = *config;
    node->ops = *ops;
    node->name = xstrdup(config->name);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (config->has_bind_address[i])
            set_address(node, (enum family)i, &config->bind_address[i]);
        if (config->has_cluster_cidr[i])
            set_pod_cidr(node, (enum family)i, &config->cluster_cidr[i]);
    }
    return node;
}

void node_info_free(struct node_info *node)
{
    if (!node)
        return;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        vec_free(&node->facts[i].host);
        node_port_selection_clear(&node->facts[i].ports);
    }
    free(node->name);
    free(node->zone);
    free(node);
}

/* ---- node ports ---- */

static void log_node_ports(struct node_info *node, enum family family, bool changed)
{
    struct facts *facts = &node->facts[family];
    const char *name = family_name(family);
    char text[ADDRESS_TEXT_SIZE];
    bool by_primary = node->config.node_port_addresses.primary;
    bool may_come = by_primary && !facts->has_address && !node->seen && !node->complete;
    if (facts->ports.addresses.n > 0) {
        facts->unserved_logged = false;
        if (changed)
            log_info("node", "family=%s NodePorts are served on addresses=%zu%s", name,
                     facts->ports.addresses.n, facts->ports.all ? ", all of this host" : "");
        return;
    }
    /* Logged once, until addresses appear or the node's address changes. */
    if (facts->unserved_logged || facts->ports.all || may_come)
        return;
    facts->unserved_logged = true;
    char *why =
        !by_primary ? xstrdup("no interface of this host has an address in "
                              "--nodeport-addresses")
        : facts->has_address
            ? xasprintf("no interface of this host has address=%s of node=%s",
                        address_format(family, &facts->address, text), node->name)
            : xasprintf("node=%s has no address of this family, or none is known yet", node->name);
    log_at(by_primary && !facts->has_address ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "node",
           "family=%s NodePorts are not served: %s", name, why);
    free(why);
}

static bool same(const struct node_port_selection *a, const struct node_port_selection *b)
{
    size_t n = a->addresses.n;
    return a->all == b->all && n == b->addresses.n &&
           (n == 0 || memcmp(a->addresses.v, b->addresses.v, n * sizeof(*a->addresses.v)) == 0);
}

/* @always: reports even without a change. */
static void decide_node_ports(struct node_info *node, enum family family, bool always)
{
    struct facts *facts = &node->facts[family];
    struct node_port_selection now = {0};
    address_vec present = {0};
    const struct address *own = facts->has_address ? &facts->address : NULL;
    if (!facts->host_known)
        return;
    vec_append(&present, facts->host.v, facts->host.n);
    if (node->config.assume_held && own) {
        vec_push(&present, *own);
        addresses_normalize(&present);
    }
    node_port_addresses_select(&node->config.node_port_addresses, family, &present, own, &now);
    vec_free(&present);
    bool changed = always || !same(&now, &facts->ports);
    node_port_selection_clear(&facts->ports);
    facts->ports = now;
    log_node_ports(node, family, changed);
    if (changed)
        node->ops.node_ports(node->ops.ctx, family, &facts->ports);
}

void node_info_set_host_addresses(struct node_info *node, enum family family,
                                  const address_vec *addresses)
{
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
    log_info("node", "node=%s zone=%s", node->name, zone ? zone : "none");
    free(node->zone);
    node->zone = xstrdup(zone);
    node->ops.zone(node->ops.ctx, node->zone);
}

static void put_address(struct node_info *node, enum family family, const struct node *object)
{
    struct facts *facts = &node->facts[family];
    const struct address *address = object->has_ip[family] ? &object->ip[family] : NULL;
    char text[ADDRESS_TEXT_SIZE];
    bool changed = facts->has_address != object->has_ip[family] ||
                   (address && memcmp(address, &facts->address, sizeof(*address)) != 0);
    if (node->config.has_bind_address[family] || !changed)
        return;
    facts->unserved_logged = false;
    log_info("node", "node=%s family=%s address=%s", node->name, family_name(family),
             address ? address_format(family, address, text) : "none");
    set_address(node, family, address);
}

static void put_pod_cidr(struct node_info *node, enum family family, const struct node *object)
{
    const struct facts *facts = &node->facts[family];
    const struct cidr *cidr = object->has_pod_cidr[family] ? &object->pod_cidr[family] : NULL;
    bool changed = facts->has_pod_cidr != object->has_pod_cidr[family] ||
                   (cidr && !cidr_equal(&facts->pod_cidr, cidr));
    if (node->config.follow_pod_cidrs && changed)
        set_pod_cidr(node, family, cidr);
}

void node_info_put(struct node_info *node, const struct node *object)
{
    if (strcmp(object->id, node->name) != 0)
        return;
    node->seen = true;
    node->leaving = object->deleting || object->to_be_deleted;
    put_zone(node, object->zone);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        put_address(node, (enum family)i, object);
        put_pod_cidr(node, (enum family)i, object);
        decide_node_ports(node, (enum family)i, false);
    }
}

void node_info_remove(struct node_info *node, const char *id)
{
    if (strcmp(id, node->name) == 0)
        log_warn("node", "node=%s: the Node object was deleted; its last version stays in use", id);
}

void node_info_complete(struct node_info *node)
{
    if (node->seen || node->complete)
        return;
    node->complete = true;
    if (node->config.required)
        log_warn("node",
                 "node=%s: no Node object has this name (yet), so its zone and addresses are "
                 "unknown; see --hostname-override",
                 node->name);
    else
        log_info("node", "node=%s: no Node object, so its zone and addresses are unknown",
                 node->name);
    for (int i = 0; i < FAMILY_COUNT; i++)
        decide_node_ports(node, (enum family)i, false);
}

bool node_info_is_eligible(const struct node_info *node)
{
    return node->seen ? !node->leaving : !node->config.required;
}
