/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the operator says: command line, configuration file, kubeconfig. An error names the flag or
 * the field and its value, and is one of configuration.
 */
#ifndef KUBE_NFTD_CONFIG_H
#define KUBE_NFTD_CONFIG_H

#include "kube-nftd/base.h"
#include "kube-nftd/host.h"
#include "kube-nftd/model.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

/* ---- how to reach the API server (docs/behaviour.md 8.4) ---- */

/* Strings are owned, NULL where absent. PEM data wins over the file of the same thing; files are
 * read again for every request. */
struct client_config {
    char *server; /* https://host:port, no slash at the end */
    char *ca_file, *ca_data;
    char *client_cert_file, *client_cert_data;
    char *client_key_file, *client_key_data;
    char *token;      /* used if there is no token_file, or until that can be read */
    char *token_file; /* likewise: tokens are replaced in place */
    char *tls_server_name;
    char *proxy_url; /* of the kubeconfig, or else of the environment */
    char *accept;    /* the Accept header; not from the kubeconfig, the caller may set it */
    bool insecure_skip_tls_verify;
    bool disable_compression; /* of answers */
};

/**
 * Fills @config. @kubeconfig and @master may be NULL or empty; without both, or if the kubeconfig
 * says nothing, the service account's files in @folder are used (NULL: where a pod has them).
 * @master overrides the server of the kubeconfig. What kube-nftd cannot do (exec, auth-provider,
 * username, impersonation) is an error that names the entry. Credentials are left out (and that is
 * logged) if the server is not https. On failure nothing is left in @config.
 */
int client_config_load(const char *kubeconfig, const char *master, const char *folder,
                       struct client_config *config, struct error *err);

/** Frees what is in @config and zeroes it. */
void client_config_clear(struct client_config *config);

/* ---- files that others write ---- */

struct awaited_file;
struct config_watch;
struct ev_loop;

/**
 * Calls @edited from the loop when the configuration file is "written to" or "renamed away". As
 * with kube-proxy (docs/behaviour.md 8.1) a file that takes its place, as a ConfigMap's update
 * brings, is not noticed: whoever replaces it restarts the daemon.
 */
struct config_watch *config_watch_new(struct ev_loop *loop, const char *path,
                                      void (*edited)(void *ctx, const char *how), void *ctx,
                                      struct error *err);

/** NULL is fine. */
void config_watch_free(struct config_watch *watch);

/** Whether there is no file at @path; one that cannot be reached for another reason is there. */
bool awaited_file_is_missing(const char *path);

/** Waits for the file @path (borrowed), as a kubelet that just joins its cluster writes its
 * kubeconfig. Calls @complete from the loop, once: when the file is not empty and two looks, a
 * second apart, found the same. */
struct awaited_file *awaited_file_new(struct ev_loop *loop, const char *path,
                                      void (*complete)(void *ctx), void *ctx);

/** NULL is fine. */
void awaited_file_free(struct awaited_file *file);

/* ---- what the command line and the configuration file say (docs/behaviour.md 8.1) ---- */

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

enum version_request { VERSION_NONE, VERSION_FULL, VERSION_RAW };

enum output_format { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_WIDE, OUTPUT_NAME };

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* Something that an operator should know of the settings, for the log. */
struct note {
    enum log_level level;
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
    double audit_period;  /* seconds; 0: no audits */
    int masquerade_bit;   /* of the packet mark */
    bool no_external_ips; /* by a feature gate */
    double sync_period;   /* seconds */
    int oom_score_adj;
    struct conntrack_settings conntrack;
    enum command command;
    char *subject;    /* of the command: what to explain, a pattern of what to list */
    bool explain_all; /* every endpoint */
    enum output_format output;
    bool once; /* top prints once */
    /* The taint to take from the own Node (kube-nftd/model.h reads it); NULL: none. */
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
    enum version_request version;
    bool help;
    int verbosity;
    enum log_format log_format;
    char *flags;          /* "name=value" of each flag as it is in effect, a line each */
    cJSON *configuration; /* the effective KubeProxyConfiguration, with defaults; owned */
    note_vec notes;
};

/**
 * Reads the arguments (argv[0] is skipped): a command and flags in any order, and the file that
 * --config names. Flags are kube-proxy's where it has them, with its defaults (docs/behaviour.md
 * 8.2): "--flag value", "--flag=value", "_" for "-", "-v N"; an empty text, address or list is as
 * good as none. With a file, flags that have a field are ignored. -1 for anything unknown,
 * contradictory or out of range; nothing is left in @options then. With --help or --version only
 * the form of flags is checked.
 */
int options_parse(int argc, char *const *argv, struct options *options, struct error *err);

void options_clear(struct options *options);

/** Writes the effective configuration to write_config_to. Limits of conntrack that were not given
 * are null there, since defaults must not lower the host's limits when the file is read. */
int options_write(const struct options *options, struct error *err);

/** Logs the notes. */
void options_log_notes(const struct options *options);

/** Prints what --help says. */
void options_usage(FILE *out);

/** The name of the own Node: @override if not NULL, else the host's name; trimmed and in lower case
 * (docs/behaviour.md 1.4). The caller frees it. NULL with an error if nothing is left of it. */
char *node_name(const char *override, struct error *err);

#endif
