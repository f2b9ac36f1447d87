/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Wires the modules to one libev loop. Sources and servers put their own watchers into it; here
 * is the one place where changes are committed: a prepare watcher, run once a turn just before the
 * loop would sleep, so that a burst is one transaction and a lone change waits for nothing.
 */
#include "daemon.h"

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/host.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/serve.h"
#include "kube-nftd/source.h"
#include "object_source.h"
#include "pages.h"
#include "proxy_options.h"

#include <ev.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

/* How long the first programming waits for what it can do without: a Node object that is only late
 * would otherwise take the node ports out of the table of the previous process. */
#define GRACE_SECONDS 30.0

struct daemon {
    struct ev_loop *loop;
    struct proxy *proxy;
    struct health *health;
    struct metrics *metrics;
    struct address_monitor *addresses;
    struct table_monitor *tables; /* NULL: nobody else can change them, or nothing tells of it */
    struct config_watch *config_watch; /* NULL: there is no file */
    const struct options *options;
    const char *config_edited; /* how: the daemon ends for it */
    bool ending;               /* it was told to */
    struct service_manager *service_manager;
    struct flow_cleaner *flows; /* NULL where the kernel has no conntrack over netlink */
    struct nft_socket *socket;
    struct object_source source;
    char *node_name;
    double synced_at; /* Services and EndpointSlices were complete; clock_monotonic; 0: not yet */
    bool begun;       /* the first programming was tried */
    bool programmed;  /* all tables were applied once */
    struct pages pages;
    ev_prepare commit;
    ev_timer wake;
    ev_signal terminate, interrupt, hangup;
};

/* ---- the loop ---- */

/* 0 if the first programming may begin, else when it may at the latest (docs/behaviour.md 9.1). */
static double time_to_begin(struct daemon *d, double now)
{
    if (d->begun || !proxy_is_synced(d->proxy))
        return 0;
    if (d->synced_at == 0)
        d->synced_at = now;
    if (!object_source_is_exhausted(&d->source, d->proxy) && now < d->synced_at + GRACE_SECONDS)
        return d->synced_at + GRACE_SECONDS;
    d->begun = true;
    return 0;
}

static void on_wake(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)timer;
    (void)events; /* the prepare watcher that runs next does the work */
}

/* Programs what has changed. Returns when to call again at the latest, or 0. */
static double sync_tables(struct daemon *d)
{
    double now = clock_monotonic(), next = time_to_begin(d, now);
    return d->begun ? proxy_turn(d->proxy, d->socket, now)
                    : clock_earlier(next, proxy_keep(d->proxy, d->socket, now));
}

/* Objects were read and everything was sent: what that took goes back, once. */
static void note_programmed(struct daemon *d)
{
    if (!d->programmed)
        alloc_give_back();
    d->programmed = true;
}

static void on_commit(struct ev_loop *loop, ev_prepare *watcher, int events)
{
    struct daemon *d = watcher->data;
    (void)events;
    double next = sync_tables(d);
    next = clock_earlier(next, log_flush(clock_monotonic()));
    if (proxy_is_programmed(d->proxy)) {
        service_manager_ready(d->service_manager, "All tables are applied");
        note_programmed(d);
        object_source_programmed(&d->source, proxy_refused(d->proxy));
    }
    ev_timer_stop(loop, &d->wake);
    if (next > 0) {
        double now = clock_monotonic();
        ev_now_update(loop);
        ev_timer_set(&d->wake, next > now ? next - now : 0, 0);
        ev_timer_start(loop, &d->wake);
    }
}

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
    struct daemon *d = watcher->data;
    (void)events;
    log_info("daemon", "signal=%s: exiting, the tables stay active", strsignal(watcher->signum));
    d->ending = true;
    if (d->service_manager)
        service_manager_stopping(d->service_manager, "Exiting, the tables stay active");
    ev_break(loop, EVBREAK_ALL);
}

static void on_hangup(struct ev_loop *loop, ev_signal *watcher, int events)
{
    const struct daemon *d = watcher->data;
    (void)loop;
    (void)events;
    object_source_reload(&d->source, d->options);
}

static void watch(struct daemon *d)
{
    ev_prepare_init(&d->commit, on_commit);
    d->commit.data = d;
    ev_prepare_start(d->loop, &d->commit);
    ev_init(&d->wake, on_wake);
}

static void watch_signals(struct daemon *d)
{
    ev_signal_init(&d->terminate, on_signal, SIGTERM);
    ev_signal_init(&d->interrupt, on_signal, SIGINT);
    ev_signal_init(&d->hangup, on_hangup, SIGHUP);
    d->terminate.data = d->interrupt.data = d->hangup.data = d;
    ev_signal_start(d->loop, &d->terminate);
    ev_signal_start(d->loop, &d->interrupt);
    ev_signal_start(d->loop, &d->hangup);
}

static void close_servers(struct daemon *d)
{
    metrics_free(d->metrics);
    health_free(d->health);
    d->metrics = NULL;
    d->health = NULL;
}

static void daemon_close(struct daemon *d)
{
    object_source_close(&d->source);
    address_monitor_free(d->addresses);
    table_monitor_free(d->tables);
    config_watch_free(d->config_watch);
    proxy_free(d->proxy);
    flow_cleaner_free(d->flows);
    close_servers(d);
    if (d->service_manager)
        service_manager_detach(d->service_manager);
    nft_socket_close(d->socket);
    free(d->node_name);
    if (d->loop)
        ev_loop_destroy(d->loop);
}

/* ---- start ---- */

/* Each health check node port takes descriptors: use as many as we are allowed. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void health_status(void *ctx, struct health_status *status)
{
    proxy_health_status(((struct daemon *)ctx)->proxy, status);
}

static int open_loop(struct daemon *d, const struct options *options, struct error *err)
{
    d->node_name = node_name(options->hostname_override, err);
    d->pages.node_name = d->node_name;
    if (!d->node_name)
        return error_of_configuration(err);
    d->loop = ev_default_loop(EVFLAG_AUTO);
    return d->loop ? 0 : error_set(err, "cannot create an event loop");
}

static void sync_now(void *ctx)
{
    sync_tables(ctx);
}

static int open_proxy(struct daemon *d, const struct proxy_config *config, struct error *err)
{
    d->proxy = d->pages.proxy = proxy_new(config, err);
    if (!d->proxy)
        return -1;
    d->addresses = address_monitor_new(d->loop, proxy_set_host_addresses, d->proxy, err);
    return d->addresses ? 0 : -1;
}

static void open_flow_cleaner(struct daemon *d)
{
    struct error err = {0};
    d->flows = flow_cleaner_new(d->loop, &err);
    d->pages.flows = d->flows;
    if (!d->flows)
        log_warn("daemon", "stale UDP flows are not deleted, and stay on their endpoints: %s",
                 err.text);
    error_clear(&err);
}

/* Tables that have an owner need not be watched. */
static void watch_tables(struct daemon *d, const struct proxy_config *config)
{
    const struct table_monitor_ops ops = {proxy_foreign_change, proxy_foreign_lost,
                                          proxy_foreign_settled, d->proxy};
    struct error err = {0};
    bool all_owned = true;
    for (int i = 0; i < FAMILY_COUNT; i++)
        all_owned = all_owned && (config->rulesets[i].owned || !config->families[i]);
    if (all_owned)
        return;
    d->tables = table_monitor_new(d->loop, RULESET_TABLE, d->socket, &ops, &err);
    if (!d->tables)
        log_warn("daemon", "changes by other programs to the tables are not detected: %s",
                 err.text);
    error_clear(&err);
}

static int fail_to_bind(const char *field, const char *address, struct error *err)
{
    return error_set(err, "cannot listen on %s %s, and bindAddressHardFail is set", field, address);
}

static int open_servers(struct daemon *d, const struct options *options, struct error *err)
{
    const char *healthz = options->healthz_bind_address, *metrics = options->metrics_bind_address;
    bool hard = options->bind_address_hard_fail;
    d->health = health_new(d->loop, health_status, d);
    d->metrics = metrics_new(d->loop, pages_write_metrics, &d->pages);
    d->pages.health = d->health;
    pages_add(&d->pages, d->metrics);
    health_set_events(d->health, d->source.events, d->node_name);
    metrics_set_events(d->metrics, d->source.events, d->node_name);
    if (healthz && health_listen(d->health, healthz, err))
        return error_prefix(err, "healthzBindAddress");
    if (metrics_listen(d->metrics, metrics, err))
        return error_prefix(err, "metricsBindAddress");
    if (hard && healthz && !health_is_listening(d->health))
        return fail_to_bind("healthzBindAddress", healthz, err);
    if (hard && !metrics_is_listening(d->metrics))
        return fail_to_bind("metricsBindAddress", metrics, err);
    return 0;
}

static void on_config_edited(void *ctx, const char *how)
{
    struct daemon *d = ctx;
    d->config_edited = how;
    ev_break(d->loop, EVBREAK_ALL);
}

static void watch_config(struct daemon *d, const char *path)
{
    struct error err = {0};
    d->config_watch = config_watch_new(d->loop, path, on_config_edited, d, &err);
    if (!d->config_watch)
        log_warn("config", "edits of --config are not detected: %s", err.text);
    error_clear(&err);
}

static bool is_ending(const struct daemon *d)
{
    return d->ending || d->config_edited;
}

static void on_kubeconfig(void *ctx)
{
    ev_break(((struct daemon *)ctx)->loop, EVBREAK_ALL);
}

/* Waits for it: the kubelet writes its own when the node has joined. Whether to go on. */
static bool have_kubeconfig(struct daemon *d, const struct options *options)
{
    const char *path = options->kubeconfig;
    if (options->manifests || !path || !*path || !awaited_file_is_missing(path))
        return true;
    log_info("daemon", "waiting for the kubeconfig, which does not exist yet file=%s", path);
    char *status = xasprintf("Waiting for the kubeconfig %s", path);
    service_manager_status(d->service_manager, status);
    free(status);
    struct awaited_file *file = awaited_file_new(d->loop, path, on_kubeconfig, d);
    ev_run(d->loop, 0);
    awaited_file_free(file);
    return !is_ending(d);
}

/* What others are to find when they ask, and what needs privileges, which then go. */
static int open_to_others(struct daemon *d, const struct options *options, struct error *err)
{
    if (object_source_prepare(&d->source, d->loop, d->node_name, options, err))
        return error_of_configuration(err);
    /* Before the servers, whose failure is worth an event. */
    object_source_open_writers(&d->source, options);
    if (open_servers(d, options, err)) {
        close_servers(d); /* they would answer for what is not there yet */
        object_source_flush(&d->source);
        return -1;
    }
    oom_score_adjust(options->oom_score_adj, "");
    privileges_drop(); /* the servers do not answer yet, and nothing was requested */
    return 0;
}

static void complete_config(struct daemon *d, const struct options *options,
                            struct proxy_config *config)
{
    config->health = d->health;
    config->flows = d->flows;
    config->events = d->source.events;
    config->node_seen = object_source_node_seen;
    config->node_seen_ctx = &d->source;
    proxy_options_apply(options, d->node_name, config);
    for (int i = 0; i < FAMILY_COUNT; i++)
        d->pages.owned[i] = config->rulesets[i].owned;
}

/* From here on objects come. */
static int open_pipeline(struct daemon *d, const struct options *options,
                         struct proxy_config *config, struct error *err)
{
    open_flow_cleaner(d);
    complete_config(d, options, config);
    if (open_proxy(d, config, err))
        return -1;
    if (object_source_open(&d->source, options, d->proxy, false, err))
        return -1;
    watch_tables(d, config);
    return d->source.manifests ? manifests_follow(d->source.manifests, d->loop, err) : 0;
}

/* 0 too if it is told to end meanwhile. */
static int daemon_start(struct daemon *d, const struct options *options, struct error *err)
{
    struct proxy_config config = {.families = {true, host_has_ipv6()}};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* until there is a loop: what would be read anew is read below */
    raise_descriptor_limit();
    if (!config.families[FAMILY_IPV6])
        log_info("daemon", "IPv6 is disabled on this host: only the IPv4 table is programmed");
    d->socket = nft_socket_open(err);
    if (!d->socket || proxy_options_check_kernel(d->socket, &config, err) ||
        proxy_options_check_cluster_cidr(options, &config, err) || open_loop(d, options, err))
        return -1;
    watch_signals(d);
    service_manager_attach(d->service_manager, d->loop);
    if (options->config)
        watch_config(d, options->config);
    if (!have_kubeconfig(d, options))
        return 0;
    if (open_to_others(d, options, err) || open_pipeline(d, options, &config, err))
        return -1;
    /* The host's own settings last, when nothing can end the start any more. */
    conntrack_sysctls_apply(&options->conntrack, "");
    return 0;
}

int daemon_run(const struct options *options, struct service_manager *manager, struct error *err)
{
    struct daemon d = {.options = options, .service_manager = manager};
    d.pages = (struct pages){.options = options,
                             .source = &d.source,
                             .started = clock_realtime(),
                             .sync = sync_now,
                             .sync_ctx = &d};
    int result = daemon_start(&d, options, err);
    if (result == 0 && !is_ending(&d)) {
        log_info("daemon", "version=%s node=%s started", KUBE_NFTD_VERSION, d.node_name);
        service_manager_status(manager, "Waiting for Services and EndpointSlices");
        watch(&d);
        object_source_started(&d.source);
        ev_run(d.loop, 0);
    }
    if (d.config_edited)
        result = error_set(
            err, "--config %s was %s: exiting so that a restart reads it; the tables stay active",
            options->config, d.config_edited);
    daemon_close(&d);
    return result;
}
