/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node that the daemon runs on: facts from its Node object, this host's interfaces and the
 * configuration, followed live (docs/behaviour.md 1.4, 4.6, 4.7).
 */
#ifndef KUBE_NFTD_NODE_INFO_H
#define KUBE_NFTD_NODE_INFO_H

#include "kube-nftd/config.h"
#include "kube-nftd/model.h"

struct health;
struct node_info;
struct policy;
struct table;

struct node_port_selection {
    address_vec addresses; /* sorted, without duplicates, no loopback addresses */
    bool all;              /* every address of the family, present or future */
};

/**
 * Selects the addresses that serve NodePorts (docs/behaviour.md 4.7). The caller frees those of
 * @out. A pure function.
 *
 * With "primary", a family serves no NodePorts until the node's own address is known. kube-proxy
 * would serve them on every address of the family meanwhile; the difference is deliberate
 * (docs/behaviour.md 11, row 12). "All" IPv6 addresses exclude link-local ones (fe80::/10): every
 * pod interface on the host has one, and no client uses them for NodePorts.
 *
 * @host  the addresses of @family on this host's interfaces, sorted, without duplicates
 * @own   the node's own address of @family; NULL: none, or not known yet
 */
void node_port_addresses_select(const struct node_port_addresses *setting, enum family family,
                                const address_vec *host, const struct address *own,
                                struct node_port_selection *out);

/** Whether TCP NodePorts of @family are to be served on 127.0.0.1 or ::1: it is in one of the
 * CIDRs, and they are loopback addresses only, unlike 0.0.0.0/0. */
bool node_port_addresses_have_localhost(const struct node_port_addresses *setting,
                                        enum family family);

/* Pointers are borrowed until node_info_free(). */
struct node_info_config {
    const struct options *options;
    const char *name;
    bool offline; /* this may be another host: the node's addresses count as present on it */
    /* Who learns of the zone, the addresses, the pod CIDRs and the NodePort addresses. */
    struct policy *policy;
    struct table *tables[FAMILY_COUNT]; /* NULL: the family is not in use */
    struct health *health;              /* may be NULL */
};

/** Passes on what the options set at once, other facts when they become known. */
struct node_info *node_info_new(const struct node_info_config *config);
void node_info_free(struct node_info *node);

/** Takes the current Node object; ignores other nodes. */
void node_info_put(struct node_info *node, const struct node *object);

/** The Node object @id was deleted: its last facts stay valid. */
void node_info_remove(struct node_info *node, const char *id);

/** All Node objects were passed: logs once if this node's was not among them. */
void node_info_complete(struct node_info *node);

/** Sets the addresses of this host: an addresses_changed_fn for the node info @ctx. */
void node_info_set_host_addresses(void *ctx, enum family family, const address_vec *addresses);

/** Whether the node may receive traffic (docs/behaviour.md 6.2): its Node object is not being
 * removed, or was never seen and is not expected. */
bool node_info_is_eligible(const struct node_info *node);

/** Why no address serves NodePorts of @family, borrowed until the next change; NULL: some do, or
 * are not known yet. */
const char *node_info_unserved(const struct node_info *node, enum family family);

/** Whether its Node object was seen. */
bool node_info_is_known(const struct node_info *node);

#endif
