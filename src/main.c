/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon.h"
#include "kube-nftd/base.h"
#include "kube-nftd/cleanup.h"
#include "kube-nftd/client.h"
#include "kube-nftd/commit.h"
#include "kube-nftd/config.h"
#include "kube-nftd/host.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"
#include "offline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static int cleanup(struct error *err)
{
    struct nft_socket *socket = nft_socket_open(err);
    if (!socket)
        return -1;
    int result = 0;
    for (int i = 0; i < FAMILY_COUNT && result == 0; i++) {
        bool existed = false;
        result = ruleset_cleanup(socket, (enum family)i, &existed, err);
        if (result == 0 && existed)
            log_info("cleanup", "removed table %s %s", nft_family_name((enum family)i),
                     RULESET_TABLE);
    }
    nft_socket_close(socket);
    return result;
}

static int print_version(bool raw)
{
    if (raw)
        puts(KUBE_NFTD_VERSION);
    else
        printf("kube-nftd %s (commit %s%s)\n", KUBE_NFTD_VERSION,
               *KUBE_NFTD_COMMIT ? KUBE_NFTD_COMMIT : "unknown",
               strcmp(KUBE_NFTD_TREE_STATE, "dirty") == 0 ? ", with changes" : "");
    return 0;
}

/* The exit status, or -1 with an error. */
static int run(const struct options *options, const struct service_manager *manager,
               struct error *err)
{
    if (options->help) {
        options_usage(stdout);
        return 0;
    }
    if (options->version)
        return print_version(options->version == VERSION_RAW);
    if (options->write_config_to)
        return options_write(options, err);
    switch (options->command) {
    case COMMAND_DAEMON:
        return daemon_run(options, manager, err);
    case COMMAND_CLEANUP:
        return cleanup(err);
    case COMMAND_CLEANUP_KUBE_PROXY:
        return kube_proxy_cleanup(options->dry_run, stdout, err);
    case COMMAND_INIT_ONLY:
        return offline_init(options, err);
    case COMMAND_PREFLIGHT:
        return offline_preflight(err);
    case COMMAND_DUMP:
        return offline_dump_rules(options, err);
    default:
        return command_run(options, offline_compute, err);
    }
}

static int run_arguments(int argc, char **argv, const struct service_manager *manager,
                         struct error *err)
{
    struct options options;
    if (options_parse(argc, argv, &options, err))
        return error_of_configuration(err);
    /* Keep log lines out of a command's output. */
    bool asks = command_asks(options.command);
    log_set_verbosity(asks && options.verbosity == 0 ? -1 : options.verbosity);
    log_set_json(options.log_format == LOG_FORMAT_JSON);
    if (!asks) /* they do not concern a command */
        options_log_notes(&options);
    int result = run(&options, manager, err);
    options_clear(&options);
    return result;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    alloc_settle();
    log_output_open();
    struct service_manager manager;
    service_manager_open(&manager);
    int status = run_arguments(argc, argv, &manager, &err);
    log_end(status < 0 ? err.text : NULL);
    if (status < 0) {
        service_manager_notify(&manager, SERVICE_STATUS, err.text);
        status = err.configuration ? EX_CONFIG : EXIT_FAILURE;
    }
    error_clear(&err);
    service_manager_close(&manager);
    return status;
}
