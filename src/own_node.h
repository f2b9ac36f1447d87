/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node that we are on: what its Node object, this host's interfaces and the configuration say
 * together, followed live (docs/behaviour.md 1.4, 4.6, 4.7). Whoever needs one of the facts is told
 * when it becomes another.
 */
#ifndef KUBE_NFTD_OWN_NODE_H
#define KUBE_NFTD_OWN_NODE_H

#include "kube-nftd/host.h"
#include "kube-nftd/model.h"

struct own_node;

struct own_node_ops {
    /* The zone; NULL: it has none. */
    void (*zone)(void *ctx, const char *zone);
    /* The node's own address of a family; NULL: it has none, or none is known. */
    void (*address)(void *ctx, enum family family, const struct address *address);
    /* The addresses on which node ports answer. */
    void (*node_ports)(void *ctx, enum family family, const struct node_port_selection *selection);
    /* The addresses of pods, where they are told by them: none, or one range. */
    void (*pod_cidrs)(void *ctx, enum family family, const range_vec *ranges);
    void *ctx;
};

struct own_node_config {
    const char *name;
    /* There must be a Node object: a node without one is not eligible (docs/behaviour.md 6.2). Off
     * for manifests, which need not have one. */
    bool required;
    struct node_port_addresses node_port_addresses; /* borrowed for the node's life */
    /* Replaces the node's own address of a family. */
    bool has_bind_address[FAMILY_COUNT];
    struct address bind_address[FAMILY_COUNT];
    /* Addresses of pods that are given; or those of the Node object are followed. */
    bool has_cluster_cidr[FAMILY_COUNT];
    struct cidr cluster_cidr[FAMILY_COUNT];
    bool follow_pod_cidrs;
    /* The node's own addresses count as held by this host, whatever its interfaces say: for
     * computing another node's rules. */
    bool assume_held;
};

/** Tells at once of what is given by @config, of all else when it becomes known. */
struct own_node *own_node_new(const struct own_node_config *config, const struct own_node_ops *ops);
void own_node_free(struct own_node *node);

/** The Node object as it is now; one of another name is ignored. */
void own_node_put(struct own_node *node, const struct node *object);

/** The Node object @id is gone: what it said stays valid. */
void own_node_remove(struct own_node *node, const char *id);

/** All Node objects were told: says so, once, if this node's is not among them. */
void own_node_complete(struct own_node *node);

/** The addresses of this host (of address_monitor.h) are these now. */
void own_node_set_host_addresses(struct own_node *node, enum family family,
                                 const address_vec *addresses);

/** Whether the Node object was ever seen, and whether it says that the node is going away. */
bool own_node_is_seen(const struct own_node *node);
bool own_node_is_leaving(const struct own_node *node);

/** Whether this host's kernel has IPv6 and it is not switched off (docs/behaviour.md 9.1). */
bool host_has_ipv6(void);

#endif
