/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/config/config_file.h"
#include "kube-nftd/config/options.h"
#include "kube-nftd/daemon.h"
#include "kube-nftd/explain_command.h"
#include "kube-nftd/leftovers/leftovers.h"
#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/ruleset/ruleset.h"
#include "kube-nftd/ruleset/template.h"

#include <stdio.h>
#include <stdlib.h>

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

static int explained(const struct options *options, struct error *err)
{
    enum explain_status status = explain_command(options, err);
    return status == EXPLAIN_FAILED ? -1 : (int)status;
}

/* The exit status, or -1 with an error. */
static int run(const struct options *options, struct error *err)
{
    if (options->help) {
        options_usage(stdout);
        return 0;
    }
    if (options->version) {
        printf("%s%s\n", options->version == VERSION_WANTED_RAW ? "" : "kube-nftd ",
               KUBE_NFTD_VERSION);
        return 0;
    }
    if (options->write_config_to)
        return config_file_write(options->write_config_to, options->configuration, err);
    if (options->cleanup)
        return cleanup(err);
    if (options->cleanup_kube_proxy)
        return leftovers_remove(options->dry_run, stdout, err);
    if (options->init_only)
        return daemon_init_only(options, err);
    if (options->preflight)
        return daemon_preflight(err);
    if (options->explain)
        return explained(options, err);
    return options->dump_rules ? daemon_dump_rules(options, err) : daemon_run(options, err);
}

int main(int argc, char **argv)
{
    struct options options;
    struct error err = {0};
    alloc_settle();
    if (options_parse(argc, argv, &options, &err)) {
        fprintf(stderr, "kube-nftd: %s\n", err.text);
        error_clear(&err);
        return EXIT_FAILURE;
    }
    /* An answer on a terminal is not mixed with what is done for it. */
    log_set_verbosity(options.explain && options.verbosity == 0 ? -1 : options.verbosity);
    log_set_json(options.log_format == LOG_FORMAT_JSON);
    if (!options.explain) /* whose answer is not about them */
        options_log_notes(&options);
    int result = run(&options, &err);
    if (result < 0)
        fprintf(stderr, "kube-nftd: %s\n", err.text);
    error_clear(&err);
    options_clear(&options);
    return result < 0 ? EXIT_FAILURE : result;
}
