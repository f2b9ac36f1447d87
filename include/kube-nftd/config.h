/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Configuration: command line, configuration file, kubeconfig. Errors name the flag or field and
 * its value, and are marked as configuration errors.
 */
#ifndef KUBE_NFTD_CONFIG_H
#define KUBE_NFTD_CONFIG_H

#include "kube-nftd/base.h"
#include "kube-nftd/host.h"
#include "kube-nftd/net.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

/* ---- how to reach the API server (docs/behaviour.md 8.4) ---- */

/* Strings are owned, NULL if absent. PEM data replaces the corresponding file; files are read again
 * for every request. */
struct client_config {
    char *server; /* https://host:port, no slash at the end */
    char *ca_file, *ca_data;
    char *client_cert_file, *client_cert_data;
    char *client_key_file, *client_key_data;
    char *token;      /* used without a token_file, or until that is readable */
    char *token_file; /* tokens are rotated in place */
    char *tls_server_name;
    char *proxy_url; /* from the kubeconfig, else the environment */
    char *accept;    /* the Accept header; set by the caller */
    bool insecure_skip_tls_verify;
    bool disable_compression; /* of responses */
};

/**
 * Fills @config. @kubeconfig and @master may be NULL or empty. @master overrides the kubeconfig's
 * server. If neither gives a server, the service account's files in @folder are used (NULL: the
 * usual path in a pod). Unsupported authentication (exec, auth-provider, username, impersonation)
 * is an error that names the entry. Credentials are dropped, with a log line, if the server is not
 * https. On failure @config is empty.
 */
int client_config_load(const char *kubeconfig, const char *master, const char *folder,
                       struct client_config *config, struct error *err);

/** Frees the members of @config and zeroes it. */
void client_config_clear(struct client_config *config);

/* ---- options: command line and configuration file (docs/behaviour.md 8.1) ---- */

/* What to do: the command line's words other than flags, or a flag. */
enum command {
    COMMAND_DAEMON,
    COMMAND_LIST,
    COMMAND_ENDPOINTS, /* "list endpoints" */
    COMMAND_STATUS,
    COMMAND_TOP,
    COMMAND_EXPLAIN,
    COMMAND_PREFLIGHT,
    COMMAND_DUMP,               /* or --dump-rules */
    COMMAND_CLEANUP,            /* or --cleanup */
    COMMAND_CLEANUP_KUBE_PROXY, /* --cleanup-kube-proxy */
    COMMAND_INIT_ONLY,          /* --init-only */
    COMMAND_HELP,
    COMMAND_VERSION,
};

enum detect_local_mode {
    DETECT_LOCAL_CLUSTER_CIDR, /* the default */
    DETECT_LOCAL_NODE_CIDR,
    DETECT_LOCAL_BRIDGE_INTERFACE,
    DETECT_LOCAL_INTERFACE_NAME_PREFIX
};

enum table_owner {
    TABLE_OWNER_AUTO, /* the default: the daemon, if the kernel supports it */
    TABLE_OWNER_OFF
};

enum count_connections {
    COUNT_CONNECTIONS_OFF,
    COUNT_CONNECTIONS_SERVICES,
    COUNT_CONNECTIONS_ENDPOINTS
};

enum version_request { VERSION_NONE, VERSION_FULL, VERSION_RAW };

enum output_format { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_WIDE, OUTPUT_NAME, OUTPUT_YAML };

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* The setting nodePortAddresses. A family with neither a CIDR nor primary has all addresses. */
struct node_port_addresses {
    bool primary;                 /* the default: the node's own address of each family */
    cidr_vec cidrs[FAMILY_COUNT]; /* those that "localhost" and "all" stand for, too */
};

/* A remark about the settings, for the log. */
struct note {
    enum log_level level;
    char *text; /* owned */
};

typedef VEC(struct note) note_vec;

/* Strings are owned; NULL: not given. */
struct options {
    int argc; /* the parsed arguments, borrowed */
    char *const *argv;
    char *config; /* the file */
    char *write_config_to;
    char *kubeconfig;
    char *master;
    char *manifests;
    char *hostname_override;
    /* Overrides the node's address of its family; NULL also for 0.0.0.0 and ::. */
    char *bind_address;
    char *healthz_bind_address; /* with a port; NULL: no /healthz and /livez */
    char *metrics_bind_address; /* with a port */
    bool bind_address_hard_fail;
    bool profiling; /* serve /debug/flags/v */
    enum detect_local_mode detect_local_mode;
    char *pod_bridge_interface;
    char *pod_interface_name_prefix;
    bool has_cluster_cidr[FAMILY_COUNT];
    struct cidr cluster_cidr[FAMILY_COUNT]; /* the first of each family in --cluster-cidr */
    struct node_port_addresses node_port_addresses;
    bool masquerade_all;
    enum table_owner table_owner;
    enum count_connections count_connections;
    char *flowtable_devices;   /* comma-separated names and patterns */
    double audit_period;       /* seconds; 0: no audits */
    int masquerade_bit;        /* of the packet mark */
    bool no_external_ips;      /* from a feature gate, as the next one */
    int localhost_connections; /* the most on loopback addresses */
    bool localhost_node_ports; /* serve node_port_addresses that are loopback addresses */
    double sync_period;        /* seconds */
    int oom_score_adj;
    struct conntrack_settings conntrack;
    enum command command;
    char *subject;   /* the command's argument: what to explain, or a pattern to list */
    char *namespace; /* of the subject; NULL: it is in the subject */
    bool all_namespaces;
    bool explain_all; /* every endpoint */
    enum output_format output;
    bool once; /* top prints one sample */
    /* Taint to remove from this node's Node object (parsed by kube-nftd/model.h); NULL: none. */
    char *remove_startup_taint;
    char *content_type; /* preferred encoding of responses */
    char *accept_content_types;
    double kube_api_qps; /* limit of writes to the API server; below 0: none */
    int kube_api_burst;
    bool dry_run; /* of the clean-up after kube-proxy */
    enum version_request version;
    bool help;
    int verbosity;
    enum log_format log_format;
    char *flags;          /* a "name=value" line for each flag's effective value */
    cJSON *configuration; /* the effective KubeProxyConfiguration, with defaults; owned */
    note_vec notes;
};

/**
 * Parses the arguments (argv[0] is skipped), a command and flags in any order, and the file of
 * --config. Flags and defaults are those of kube-proxy where it has them (docs/behaviour.md 8.2):
 * "--flag value", "--flag=value", "_" for "-", "-v N". An empty string, address or list means
 * unset. With a file, flags that have a field are ignored. -1 for unknown, conflicting or
 * out-of-range input; @options is empty then. With --help or --version only the syntax of flags is
 * checked.
 */
int options_parse(int argc, char *const *argv, struct options *options, struct error *err);

void options_clear(struct options *options);

/** Writes the effective configuration to write_config_to. Conntrack limits that were not given
 * become null: as numbers, the defaults would lower a host's limits when the file is read. */
int options_write(const struct options *options, struct error *err);

void options_log_notes(const struct options *options);

/** The command of two words that @first and @second are a mistyped form of, static; NULL: none. */
const char *command_meant(const char *first, const char *second);

/** Prints help for options->command, or for all if that is COMMAND_HELP or the daemon. */
void options_usage(const struct options *options, FILE *out);

/** The name of this node's Node object: @override, or the host name if NULL; trimmed and lowercased
 * (docs/behaviour.md 1.4). The caller frees it. NULL with an error if the result is empty. */
char *node_name(const char *override, struct error *err);

#endif
