/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line. */
#ifndef KUBE_NFTD_CONFIG_OPTIONS_H
#define KUBE_NFTD_CONFIG_OPTIONS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/host/conntrack_sysctls.h"
#include "kube-nftd/host/node_port_addresses.h"
#include "kube-nftd/model/cidr.h"

#include <stdbool.h>
#include <stdio.h>

enum detect_local_mode {
    DETECT_LOCAL_CLUSTER_CIDR, /* the default */
    DETECT_LOCAL_NODE_CIDR,
    DETECT_LOCAL_BRIDGE_INTERFACE,
    DETECT_LOCAL_INTERFACE_NAME_PREFIX
};

/* Strings are owned; NULL if not given. */
struct options {
    char *kubeconfig;
    char *master;
    char *manifests;
    char *hostname_override;
    /* Replaces the node's own address of its family. An address; NULL for 0.0.0.0 and ::, too. */
    char *bind_address;
    char *healthz_bind_address;
    char *metrics_bind_address; /* "[::1]:10249" if not given and --bind-address is IPv6 */
    enum detect_local_mode detect_local_mode;
    char *pod_bridge_interface;
    char *pod_interface_name_prefix;
    bool has_cluster_cidr[FAMILY_COUNT];
    struct cidr cluster_cidr[FAMILY_COUNT]; /* the first of each family in --cluster-cidr */
    struct node_port_addresses node_port_addresses;
    bool masquerade_all;
    struct conntrack_settings conntrack;
    bool preflight;
    bool dump_rules;
    bool cleanup;
    bool version;
    bool help;
    int verbosity;
};

/**
 * Reads the arguments (argv[0] is skipped). Flags are kube-proxy's where it has them, with its
 * defaults (spec 8.2): "--flag value", "--flag=value", "_" for "-", "-v N"; an empty text, address
 * or list is as good as none for those. -1 for anything unknown or contradictory; nothing is left
 * in @options then.
 */
int options_parse(int argc, char *const *argv, struct options *options, struct error *err);

void options_clear(struct options *options);

/** Prints what --help says. */
void options_usage(FILE *out);

/**
 * The name of the own Node: @override if not NULL, else the host's name; trimmed and in lower case
 * (spec 1.4). The caller frees it. NULL with an error if nothing is left of it.
 */
char *node_name(const char *override, struct error *err);

#endif
