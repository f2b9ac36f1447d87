/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node that we run on: what its Node object, this host's interfaces and the configuration say
 * together, followed live (docs/behaviour.md 1.4, 4.6, 4.7).
 */
#ifndef KUBE_NFTD_NODE_INFO_H
#define KUBE_NFTD_NODE_INFO_H

#include "kube-nftd/host.h"
#include "kube-nftd/model.h"

struct node_info;

/* Each is called when the fact changes. */
struct node_info_ops {
    /* The zone; NULL: it has none. */
    void (*zone)(void *ctx, const char *zone);
    /* The node's own address of a family; NULL: it has none, or none is known. */
    void (*address)(void *ctx, enum family family, const struct address *address);
    /* The addresses on which node ports answer. */
    void (*node_ports)(void *ctx, enum family family, const struct node_port_selection *selection);
    /* The addresses of pods, where these are known by them: none, or one range. */
    void (*pod_cidrs)(void *ctx, enum family family, const range_vec *ranges);
    void *ctx;
};

struct node_info_config {
    const char *name;
    bool required; /* there must be a Node object; off for manifests, which need not have one */
    struct node_port_addresses node_port_addresses; /* borrowed for the life of the node info */
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

/** Reports at once what is given by @config, all else when it becomes known. */
struct node_info *node_info_new(const struct node_info_config *config,
                                const struct node_info_ops *ops);
void node_info_free(struct node_info *node);

/** The Node object as it is now; one of another name is ignored. */
void node_info_put(struct node_info *node, const struct node *object);

/** The Node object @id is gone: what it said stays valid. */
void node_info_remove(struct node_info *node, const char *id);

/** All Node objects were put: logs, once, if this node's is not among them. */
void node_info_complete(struct node_info *node);

/** The addresses of this host are these now. */
void node_info_set_host_addresses(struct node_info *node, enum family family,
                                  const address_vec *addresses);

/** Whether the node may get traffic (docs/behaviour.md 6.2): its Node object does not say that it
 * is going away, or was never seen and need not be. */
bool node_info_is_eligible(const struct node_info *node);

#endif
