/* SPDX-License-Identifier: GPL-2.0-or-later */
/* main(), and the commands that are neither the daemon nor questions to it. */
#include "daemon.h"
#include "kube-nftd/base.h"
#include "kube-nftd/cleanup.h"
#include "kube-nftd/client.h"
#include "kube-nftd/commit.h"
#include "kube-nftd/config.h"
#include "kube-nftd/host.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"
#include "object_source.h"
#include "proxy.h"

#include <ev.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* ---- the kernel ---- */

/* Warns if kube-proxy has no table in place of those just removed. */
static void warn_unserved(struct nft_socket *socket)
{
    bool any = false;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct error err = {0};
        struct nft_table_state state = {.exists = false};
        if (nft_socket_read_table(socket, (enum family)i, "kube-proxy", &state, &err) == 0) {
            any = any || state.exists;
            free(state.comment);
        }
        error_clear(&err);
    }
    if (!any)
        log_warn("cleanup",
                 "no table kube-proxy is here: unless kube-proxy in mode iptables or ipvs, or a "
                 "CNI plugin, serves this node, Services do not answer now, and open connections "
                 "to them may break");
}

static int cleanup(struct error *err)
{
    struct nft_socket *socket = nft_socket_open(err);
    if (!socket)
        return -1;
    int result = 0;
    bool removed = false;
    for (int i = 0; i < FAMILY_COUNT && result == 0; i++) {
        bool existed = false;
        result = ruleset_cleanup(socket, (enum family)i, &existed, err);
        if (result == 0 && existed)
            log_info("cleanup", "removed table %s %s", nft_family_name((enum family)i),
                     RULESET_TABLE);
        removed = removed || (result == 0 && existed);
    }
    if (removed)
        warn_unserved(socket);
    nft_socket_close(socket);
    return result;
}

/* The steps that need more privileges than the daemon. -1 if no family can be proxied. */
static int init_only(const struct options *options, struct error *err)
{
    struct proxy_config config = {.options = options, .families = {true, host_has_ipv6()}};
    struct nft_socket *socket = nft_socket_open(err);
    int result = socket ? proxy_check_kernel(socket, &config, err) : -1;
    nft_socket_close(socket);
    if (result)
        return result;
    size_t failed = conntrack_sysctls_apply(&options->conntrack, sysconf(_SC_NPROCESSORS_ONLN), "");
    if (failed)
        log_warn("host", "some conntrack settings could not be set failed=%zu", failed);
    else
        log_info("host", "all conntrack settings of this host are as desired");
    return 0;
}

/* Prints what on this host would make right tables useless. */
static void print_obstacles(const struct view_style *style)
{
    static const struct view view[] = {{"obstacles", .line = "Host  {}"}, {0}};
    const bool families[FAMILY_COUNT] = {true, host_has_ipv6()};
    cJSON *facts = cJSON_CreateObject(), *texts = cJSON_AddArrayToObject(facts, "obstacles");
    obstacles_find(families, texts);
    if (!texts->child)
        facts_append_text(texts, "forwards packets, and no chain drops what no rule accepts");
    view_print(view, facts, style, stdout);
    cJSON_Delete(facts);
}

/* Prints the features of this kernel. -1 if no family can be proxied. */
static int preflight(struct error *err)
{
    static const bool families[FAMILY_COUNT] = {true, true};
    const struct view_style style = view_style(stdout);
    struct preflight preflights[FAMILY_COUNT];
    bool any = false;
    struct nft_socket *socket = nft_socket_open(err);
    if (!socket)
        return -1;
    preflight_run(socket, families, true, preflights);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        preflight_print(&preflights[i], &style, stdout);
        any = any || preflight_passed(&preflights[i]);
        preflight_clear(&preflights[i]);
    }
    nft_socket_close(socket);
    print_obstacles(&style);
    fflush(stdout); /* before the error on stderr */
    return any ? 0 : error_set(err, "no family can be proxied on this kernel");
}

/* ---- tables that are only computed ---- */

/* A proxy that never programs the kernel, with its inputs. */
struct offline {
    char *node_name;
    struct proxy *proxy;
    struct object_source source;
};

/* Returns o->proxy, or NULL with an error. */
static struct proxy *offline_open(struct offline *o, const struct options *options,
                                  enum manifests_mode mode, struct error *err)
{
    /* Both families: the manifests may be for another host. */
    struct proxy_config config = {.options = options, .offline = true, .families = {true, true}};
    struct object_source *source = &o->source;
    source->options = options;
    source->loop = ev_default_loop(EVFLAG_AUTO);
    if (!source->loop) {
        error_set(err, "cannot create an event loop");
        return NULL;
    }
    config.node_name = source->node_name = o->node_name =
        node_name(options->hostname_override, err);
    if (!o->node_name || object_source_prepare(source, err)) {
        error_of_configuration(err);
        return NULL;
    }
    o->proxy = proxy_new(&config, err);
    return o->proxy && object_source_open(source, o->proxy, mode, err) == 0 ? o->proxy : NULL;
}

static void offline_close(struct offline *o)
{
    object_source_close(&o->source);
    proxy_free(o->proxy);
    free(o->node_name);
    if (o->source.loop)
        ev_loop_destroy(o->source.loop);
}

/* Answers @query from the objects of --manifests: a command_compute_fn. */
static cJSON *compute(const struct options *options, answer_fn answer, const void *query,
                      struct error *err)
{
    struct offline o = {0};
    cJSON *json = NULL;
    struct proxy *proxy = offline_open(&o, options, MANIFESTS_PARTIAL, err);
    if (proxy) {
        struct snapshot now = {.from_manifests = true};
        policy_sync(proxy->policy);
        proxy_snapshot(proxy, &now);
        now.counting = COUNT_NOTHING;
        json = answer(&now, query);
    }
    offline_close(&o);
    return json;
}

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
    (void)loop;
    (void)events;
    *(bool *)watcher->data = true;
}

static int wait_for_objects(const struct object_source *source, struct error *err)
{
    bool interrupted = false;
    ev_signal terminate, interrupt;
    ev_signal_init(&terminate, on_signal, SIGTERM);
    ev_signal_init(&interrupt, on_signal, SIGINT);
    terminate.data = interrupt.data = &interrupted;
    ev_signal_start(source->loop, &terminate);
    ev_signal_start(source->loop, &interrupt);
    while (!interrupted && !object_source_is_exhausted(source))
        ev_run(source->loop, EVRUN_ONCE);
    ev_signal_stop(source->loop, &terminate);
    ev_signal_stop(source->loop, &interrupt);
    return interrupted ? error_set(err, "interrupted before all objects were received") : 0;
}

/* Reads all objects once and prints the resulting tables. */
static int dump_rules(const struct options *options, struct error *err)
{
    struct offline o = {0};
    struct proxy *proxy = offline_open(&o, options, MANIFESTS_STRICT, err);
    int result = proxy ? wait_for_objects(&o.source, err) : -1;
    if (result == 0) {
        proxy_dump(proxy, stdout);
        if (fflush(stdout) != 0 || ferror(stdout))
            result = error_set(err, "cannot write the rules to standard output");
    }
    offline_close(&o);
    return result;
}

/* ---- the program ---- */

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
        options_usage(options, stdout);
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
        return init_only(options, err);
    case COMMAND_PREFLIGHT:
        return preflight(err);
    case COMMAND_DUMP:
        return dump_rules(options, err);
    default:
        return command_run(options, compute, err);
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
    alloc_init();
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
