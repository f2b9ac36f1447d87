/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the command line and the configuration file say together (docs/behaviour.md 8.1). */
#ifndef KUBE_NFTD_CONFIG_OPTIONS_H
#define KUBE_NFTD_CONFIG_OPTIONS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/host/conntrack_sysctls.h"
#include "kube-nftd/host/node_port_addresses.h"
#include "kube-nftd/model/cidr.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

/* The words of the command line that are no flags. */
enum command {
    COMMAND_NONE, /* the daemon, or what a flag asks for */
    COMMAND_LIST,
    COMMAND_ENDPOINTS, /* "list endpoints" */
    COMMAND_STATUS,
    COMMAND_TOP,
    COMMAND_EXPLAIN,
    COMMAND_PREFLIGHT,
    COMMAND_DUMP,
    COMMAND_CLEANUP,
};

enum detect_local_mode {
    DETECT_LOCAL_CLUSTER_CIDR, /* the default */
    DETECT_LOCAL_NODE_CIDR,
    DETECT_LOCAL_BRIDGE_INTERFACE,
    DETECT_LOCAL_INTERFACE_NAME_PREFIX
};

enum table_owner {
    TABLE_OWNER_AUTO, /* the default: the daemon, where the kernel can do that */
    TABLE_OWNER_OFF
};

enum count_connections {
    COUNT_CONNECTIONS_OFF,
    COUNT_CONNECTIONS_SERVICES,
    COUNT_CONNECTIONS_ENDPOINTS
};

enum version_wish { VERSION_NOT_WANTED, VERSION_WANTED, VERSION_WANTED_RAW };

enum output_format { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_WIDE, OUTPUT_NAME };

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* Something that an operator should know of the settings, for the log. */
struct note {
    enum { NOTE_WARNING, NOTE_INFO, NOTE_DETAIL } importance;
    char *text; /* owned */
};

typedef VEC(struct note) note_vec;

/* Strings are owned; NULL if not given. */
struct options {
    int argc; /* of what they were read from, borrowed */
    char *const *argv;
    char *config; /* the file */
    char *write_config_to;
    char *kubeconfig;
    char *master;
    char *manifests;
    char *hostname_override;
    /* Replaces the node's own address of its family. An address; NULL for 0.0.0.0 and ::, too. */
    char *bind_address;
    char *healthz_bind_address; /* with a port; NULL: /healthz and /livez do not answer */
    char *metrics_bind_address; /* with a port */
    bool bind_address_hard_fail;
    bool profiling; /* /debug/flags/v answers */
    enum detect_local_mode detect_local_mode;
    char *pod_bridge_interface;
    char *pod_interface_name_prefix;
    bool has_cluster_cidr[FAMILY_COUNT];
    struct cidr cluster_cidr[FAMILY_COUNT]; /* the first of each family in --cluster-cidr */
    struct node_port_addresses node_port_addresses;
    bool masquerade_all;
    enum table_owner table_owner;
    enum count_connections count_connections;
    double audit_period; /* seconds; 0: no audits */
    int masquerade_bit;  /* of the packet mark */
    bool no_external_ips;
    double sync_period; /* seconds */
    int oom_score_adj;
    struct conntrack_settings conntrack;
    enum command command;
    char *subject;    /* of the command: what to explain, a pattern of what to list */
    bool explain_all; /* every endpoint */
    enum output_format output;
    bool once; /* top prints once */
    /* The taint to take from the own Node (model/taint.h reads it); NULL: none. */
    char *remove_startup_taint;
    char *content_type; /* of what the API server sends, at best */
    char *accept_content_types;
    double kube_api_qps; /* of what is written to the API server; below 0: no limit */
    int kube_api_burst;
    bool dump_rules; /* the command, too */
    bool cleanup;    /* likewise */
    bool cleanup_kube_proxy;
    bool dry_run;
    bool init_only;
    enum version_wish version;
    bool help;
    int verbosity;
    enum log_format log_format;
    char *flags;          /* "name=value" of each flag as it is in effect, a line each */
    cJSON *configuration; /* the effective KubeProxyConfiguration, with defaults; owned */
    note_vec notes;
};

/**
 * Reads the arguments (argv[0] is skipped): a command and flags in any order; and the file that
 * --config names. Flags are
 * kube-proxy's where it has them, with its defaults (docs/behaviour.md 8.2): "--flag value",
 * "--flag=value", "_" for "-", "-v N"; an empty text, address or list is as good as none for those.
 * With a file, flags that have a field are ignored (docs/behaviour.md 8.1). -1 for anything
 * unknown, contradictory or out of range; nothing is left in @options then. With --help or
 * --version nothing but the form of flags is looked at.
 */
int options_parse(int argc, char *const *argv, struct options *options, struct error *err);

void options_clear(struct options *options);

/**
 * Writes the effective configuration to write_config_to. conntrack's limits are null there if
 * nobody gave them: whoever reads the file must not take the defaults for an order to lower the
 * host's.
 */
int options_write(const struct options *options, struct error *err);

/** Logs the notes. */
void options_log_notes(const struct options *options);

/** Prints what --help says. */
void options_usage(FILE *out);

/**
 * The name of the own Node: @override if not NULL, else the host's name; trimmed and in lower case
 * (docs/behaviour.md 1.4). The caller frees it. NULL with an error if nothing is left of it.
 */
char *node_name(const char *override, struct error *err);

#endif
