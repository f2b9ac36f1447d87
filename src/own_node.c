/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "own_node.h"

#include "kube-nftd/base.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* What is known of one family. */
struct facts {
    bool has_address; /* the node's own one: configured, or of the Node object */
    struct address address;
    bool has_pod_cidr;
    struct cidr pod_cidr;
    address_vec host;                 /* on this host's interfaces */
    bool host_known;                  /* they were told at least once */
    bool said;                        /* node_ports was told at least once */
    struct node_port_selection ports; /* as they were told last */
    bool nowhere_said;                /* in the log: that node ports answer nowhere, and why */
};

struct own_node {
    struct own_node_config config;
    struct own_node_ops ops;
    char *name;
    char *zone;
    bool seen, leaving;
    bool complete; /* all Node objects were told once */
    struct facts facts[FAMILY_COUNT];
};

static void tell_pod_cidrs(struct own_node *node, enum family family)
{
    const struct facts *facts = &node->facts[family];
    range_vec ranges = {0};
    if (facts->has_pod_cidr)
        vec_push(&ranges, cidr_range(family, &facts->pod_cidr));
    node->ops.pod_cidrs(node->ops.ctx, family, &ranges);
    vec_free(&ranges);
}

struct own_node *own_node_new(const struct own_node_config *config, const struct own_node_ops *ops)
{
    struct own_node *node = xcalloc(1, sizeof(*node));
    node->config = *config;
    node->ops = *ops;
    node->name = xstrdup(config->name);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct facts *facts = &node->facts[i];
        facts->has_address = config->has_bind_address[i];
        facts->address = config->bind_address[i];
        facts->has_pod_cidr = config->has_cluster_cidr[i];
        facts->pod_cidr = config->cluster_cidr[i];
        if (facts->has_address)
            node->ops.address(node->ops.ctx, (enum family)i, &facts->address);
        if (facts->has_pod_cidr)
            tell_pod_cidrs(node, (enum family)i);
    }
    return node;
}

void own_node_free(struct own_node *node)
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

static bool same_selection(const struct node_port_selection *a, const struct node_port_selection *b)
{
    return a->all == b->all && a->addresses.n == b->addresses.n &&
           (a->addresses.n == 0 ||
            memcmp(a->addresses.v, b->addresses.v, a->addresses.n * sizeof(*a->addresses.v)) == 0);
}

/* The host's addresses, and with assume_held the node's own one among them. */
static void held_addresses(const struct own_node *node, const struct facts *facts, address_vec *out)
{
    vec_each (&facts->host, address)
        vec_push(out, *address);
    if (node->config.assume_held && facts->has_address) {
        vec_push(out, facts->address);
        addresses_normalize(out);
    }
}

/* Once, until there are addresses or the node has another one. */
static void say_nowhere(struct own_node *node, enum family family)
{
    struct facts *facts = &node->facts[family];
    char text[ADDRESS_TEXT_SIZE];
    bool may_come = !facts->has_address && !node->seen && !node->complete;
    if (facts->nowhere_said || facts->ports.all ||
        (may_come && node->config.node_port_addresses.primary))
        return;
    facts->nowhere_said = true;
    if (!node->config.node_port_addresses.primary)
        log_warn("node",
                 "family=%s NodePorts are not served: no interface of this host has an address in "
                 "--nodeport-addresses",
                 family_name(family));
    else if (facts->has_address)
        log_warn("node",
                 "family=%s NodePorts are not served: no interface of this host has "
                 "address=%s of node=%s",
                 family_name(family), address_format(family, &facts->address, text), node->name);
    else
        log_info(
            "node",
            "family=%s NodePorts are not served: node=%s has no address of this family, or none is "
            "known yet",
            family_name(family), node->name);
}

static void say_node_ports(struct own_node *node, enum family family, bool changed)
{
    struct facts *facts = &node->facts[family];
    if (facts->ports.addresses.n == 0) {
        say_nowhere(node, family);
        return;
    }
    facts->nowhere_said = false;
    if (changed)
        log_info("node", "family=%s NodePorts are served on addresses=%zu%s", family_name(family),
                 facts->ports.addresses.n, facts->ports.all ? ", all of this host" : "");
}

static void decide_node_ports(struct own_node *node, enum family family)
{
    struct facts *facts = &node->facts[family];
    struct node_port_selection now = {0}, before = facts->ports;
    address_vec held = {0};
    if (!facts->host_known)
        return;
    held_addresses(node, facts, &held);
    node_port_addresses_select(&node->config.node_port_addresses, family, &held,
                               facts->has_address ? &facts->address : NULL, &now);
    vec_free(&held);
    bool changed = !facts->said || !same_selection(&now, &before);
    facts->ports = now;
    facts->said = true;
    node_port_selection_clear(&before);
    say_node_ports(node, family, changed);
    if (changed)
        node->ops.node_ports(node->ops.ctx, family, &facts->ports);
}

void own_node_set_host_addresses(struct own_node *node, enum family family,
                                 const address_vec *addresses)
{
    struct facts *facts = &node->facts[family];
    vec_clear(&facts->host);
    vec_each (addresses, address)
        vec_push(&facts->host, *address);
    facts->host_known = true;
    decide_node_ports(node, family);
}

/* ---- the Node object ---- */

static void put_zone(struct own_node *node, const char *zone)
{
    if (node->zone == zone || (node->zone && zone && strcmp(node->zone, zone) == 0))
        return;
    log_info("node", "node=%s zone=%s", node->name, zone ? zone : "none");
    free(node->zone);
    node->zone = xstrdup(zone);
    node->ops.zone(node->ops.ctx, node->zone);
}

static void put_address(struct own_node *node, enum family family, const struct node *object)
{
    struct facts *facts = &node->facts[family];
    char text[ADDRESS_TEXT_SIZE];
    if (node->config.has_bind_address[family])
        return;
    if (object->has_ip[family] == facts->has_address &&
        (!facts->has_address ||
         memcmp(&object->ip[family], &facts->address, sizeof(facts->address)) == 0))
        return;
    facts->has_address = object->has_ip[family];
    facts->address = object->ip[family];
    facts->nowhere_said = false;
    log_info("node", "node=%s family=%s address=%s", node->name, family_name(family),
             facts->has_address ? address_format(family, &facts->address, text) : "none");
    node->ops.address(node->ops.ctx, family, facts->has_address ? &facts->address : NULL);
}

static void put_pod_cidr(struct own_node *node, enum family family, const struct node *object)
{
    struct facts *facts = &node->facts[family];
    bool has = object->has_pod_cidr[family];
    if (!node->config.follow_pod_cidrs ||
        (has == facts->has_pod_cidr &&
         (!has || cidr_equal(&facts->pod_cidr, &object->pod_cidr[family]))))
        return;
    facts->has_pod_cidr = has;
    facts->pod_cidr = object->pod_cidr[family];
    tell_pod_cidrs(node, family);
}

void own_node_put(struct own_node *node, const struct node *object)
{
    if (strcmp(object->id, node->name) != 0)
        return;
    node->seen = true;
    node->leaving = object->deleting || object->to_be_deleted;
    put_zone(node, object->zone);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        put_address(node, (enum family)i, object);
        put_pod_cidr(node, (enum family)i, object);
        decide_node_ports(node, (enum family)i);
    }
}

void own_node_remove(struct own_node *node, const char *id)
{
    if (strcmp(id, node->name) == 0)
        log_warn("node", "node=%s: the Node object was deleted; its last version stays in use", id);
}

void own_node_complete(struct own_node *node)
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
        decide_node_ports(node, (enum family)i);
}

bool own_node_is_seen(const struct own_node *node)
{
    return node->seen;
}

bool own_node_is_leaving(const struct own_node *node)
{
    return node->leaving;
}

bool host_has_ipv6(void)
{
    char value = '1';
    int fd = open("/proc/sys/net/ipv6/conf/all/disable_ipv6", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (read(fd, &value, 1) != 1)
        value = '1';
    close(fd);
    return value == '0';
}
