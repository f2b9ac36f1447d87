/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line. */
#ifndef KUBE_NFTD_CONFIG_OPTIONS_H
#define KUBE_NFTD_CONFIG_OPTIONS_H

#include "kube-nftd/base/error.h"

#include <stdbool.h>
#include <stdio.h>

/* Strings are owned; NULL if not given. */
struct options {
    char *kubeconfig;
    char *master;
    char *manifests;
    char *hostname_override;
    char *healthz_bind_address;
    bool dump_rules;
    bool cleanup;
    bool version;
    bool help;
    int verbosity;
};

/**
 * Reads the arguments (argv[0] is skipped). Flags are kube-proxy's where it has them: "--flag
 * value", "--flag=value", "_" for "-", "-v N"; an empty text is as good as none for those. -1 for
 * anything unknown or contradictory; nothing is left in @options then.
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
