/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node that the daemon runs on: facts from its Node object, this host's interfaces and the
 * configuration, followed live (docs/behaviour.md 1.4, 4.6, 4.7).
 */
#ifndef KUBE_NFTD_NODE_INFO_H
#define KUBE_NFTD_NODE_INFO_H

#include "kube-nftd/host.h"
#include "kube-nftd/model.h"

struct node_info;

/* Called when a fact changes. */
struct node_info_ops {
    /* The zone; NULL: none. */
    void (*zone)(void *ctx, const char *zone);
    /* The node's address of a family; NULL: none known. */
    void (*address)(void *ctx, enum family family, const struct address *address);
    /* The addresses that serve NodePorts. */
    void (*node_ports)(void *ctx, enum family family, const struct node_port_selection *selection);
    /* The pod CIDR, if pods are recognised by address: at most one range. */
    void (*pod_cidrs)(void *ctx, enum family family, const range_vec *ranges);
    void *ctx;
};

struct node_info_config {
    const char *name;
    bool required; /* a Node object is expected; false with manifests */
    struct node_port_addresses node_port_addresses; /* borrowed until node_info_free() */
    /* Overrides the node's address of a family. */
    bool has_bind_address[FAMILY_COUNT];
    struct address bind_address[FAMILY_COUNT];
    /* Configured pod CIDRs, or whether to follow those of the Node object. */
    bool has_cluster_cidr[FAMILY_COUNT];
    struct cidr cluster_cidr[FAMILY_COUNT];
    bool follow_pod_cidrs;
    /* Treat the node's addresses as present on this host's interfaces: for computing another node's
     * rules. */
    bool assume_held;
};

/** Reports what @config sets at once, other facts when they become known. */
struct node_info *node_info_new(const struct node_info_config *config,
                                const struct node_info_ops *ops);
void node_info_free(struct node_info *node);

/** Takes the current Node object; ignores other nodes. */
void node_info_put(struct node_info *node, const struct node *object);

/** The Node object @id was deleted: its last facts stay valid. */
void node_info_remove(struct node_info *node, const char *id);

/** All Node objects were passed: logs once if this node's was not among them. */
void node_info_complete(struct node_info *node);

/** Sets the addresses of this host. */
void node_info_set_host_addresses(struct node_info *node, enum family family,
                                  const address_vec *addresses);

/** Whether the node may receive traffic (docs/behaviour.md 6.2): its Node object is not being
 * removed, or was never seen and is not required. */
bool node_info_is_eligible(const struct node_info *node);

#endif
