/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connects all modules to one libev loop. Sources and servers add their own watchers. Changes are
 * committed here only, by a prepare watcher that runs just before the loop sleeps: a burst becomes
 * one transaction, and a single change does not wait.
 */
#include "daemon.h"

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/conntrack.h"
#include "kube-nftd/host.h"
#include "kube-nftd/localhost.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/serve.h"
#include "object_source.h"
#include "proxy.h"

#include <ev.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* How long the first sync waits for optional objects: programming before a late Node object arrives
 * would remove the NodePorts that the previous process left in the table. */
#define GRACE_SECONDS 30.0

/* How long connections to NodePorts on loopback addresses may go on after a signal, and between two
 * looks whether any is left. systemd (TimeoutStopSec) and the kubelet wait longer. */
#define DRAIN_SECONDS 10.0
#define DRAIN_LOOK_SECONDS 0.05

struct daemon {
    const struct options *options;
    const struct service_manager *service_manager;
    struct ev_loop *loop;
    double started; /* clock_realtime */
    char *node_name;
    struct nft_socket *socket;
    struct table_monitor *tables; /* NULL: all tables are owned, or no monitor is available */
    struct flow_cleaner *flows;   /* NULL: no conntrack netlink in the kernel */
    struct localhost *localhost;  /* NULL: no NodePorts on loopback addresses */
    struct object_source source;
    struct proxy *proxy; /* NULL until the server is open */
    struct server *server;
    ev_prepare commit;
    ev_timer wake, keep_alive, drain;
    double drained_by; /* clock_monotonic */
    ev_signal terminate, interrupt, hangup;
    int config_fd; /* from edits_open(); -1: no --config, or it cannot be watched */
    ev_io config_edits;
    const char *config_edited; /* how --config changed, which ends the daemon; NULL: it did not */
    double synced_at; /* all Services and EndpointSlices had come; clock_monotonic; 0: not yet */
    bool begun;       /* the first sync was attempted */
    bool programmed;  /* all tables have been applied once */
    bool ending;      /* SIGTERM or SIGINT came */
};

/* ---- the loop ---- */

/* 0 if the first sync may begin, else its latest time (docs/behaviour.md 9.1). */
static double time_to_begin(struct daemon *d, double now)
{
    if (d->begun || !caches_are_synced(&d->proxy->caches))
        return 0;
    if (d->synced_at == 0)
        d->synced_at = now;
    if (!object_source_is_exhausted(&d->source) && now < d->synced_at + GRACE_SECONDS)
        return d->synced_at + GRACE_SECONDS;
    d->begun = true;
    return 0;
}

/* Applies pending changes. Returns the latest time for the next call (clock_monotonic), or 0. */
static double sync_tables(struct daemon *d)
{
    double now = clock_monotonic(), next = time_to_begin(d, now);
    if (d->begun)
        return proxy_sync(d->proxy, d->socket, now);
    next = clock_earlier(next, proxy_keep(d->proxy, d->socket, now));
    /* Unless there is a table that files which cannot be read now may have made. */
    if (manifests_begin(d->source.manifests, proxy_has_previous(d->proxy)))
        return now;
    return next;
}

/* The commit point. */
static void on_commit(struct ev_loop *loop, ev_prepare *watcher, int events)
{
    struct daemon *d = watcher->data;
    (void)events;
    double next = sync_tables(d);
    next = clock_earlier(next, log_flush(clock_monotonic()));
    if (proxy_is_programmed(d->proxy)) {
        if (!d->programmed) {
            service_manager_notify(d->service_manager, SERVICE_READY, "All tables are applied");
            alloc_trim(); /* memory of the initial lists and the full sync */
        }
        d->programmed = true;
        startup_taint_programmed(d->source.startup, proxy_rejected(d->proxy));
    }
    ev_timer_stop(loop, &d->wake);
    if (next > 0) {
        double now = clock_monotonic();
        ev_now_update(loop);
        ev_timer_set(&d->wake, next > now ? next - now : 0, 0);
        ev_timer_start(loop, &d->wake);
    }
}

static void on_wake(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)timer;
    (void)events; /* on_commit() runs next and does the work */
}

static void on_drain(struct ev_loop *loop, ev_timer *timer, int events)
{
    const struct daemon *d = timer->data;
    const uint64_t left = localhost_stats(d->localhost).connections;
    (void)events;
    if (left > 0 && clock_monotonic() < d->drained_by)
        return;
    if (left > 0)
        log_info("daemon", "connections=%" PRIu64 " to loopback NodePorts are closed", left);
    ev_break(loop, EVBREAK_ALL);
}

/* Ends the loop: once the connections that this process passes on have ended, if there are any, but
 * at once when called again. Everything else goes on meanwhile. */
static void end_loop(struct daemon *d)
{
    const uint64_t connections = localhost_stats(d->localhost).connections;
    if (connections == 0 || ev_is_active(&d->drain)) {
        ev_break(d->loop, EVBREAK_ALL);
        return;
    }
    log_info("daemon",
             "connections=%" PRIu64 " to loopback NodePorts may end by themselves within "
             "seconds=%.0f; another signal closes them",
             connections, DRAIN_SECONDS);
    localhost_drain(d->localhost);
    d->drained_by = clock_monotonic() + DRAIN_SECONDS;
    ev_timer_init(&d->drain, on_drain, DRAIN_LOOK_SECONDS, DRAIN_LOOK_SECONDS);
    d->drain.data = d;
    ev_timer_start(d->loop, &d->drain);
}

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
    struct daemon *d = watcher->data;
    (void)loop;
    (void)events;
    log_info("daemon", "signal=%s: exiting, the tables stay active", strsignal(watcher->signum));
    d->ending = true;
    service_manager_notify(d->service_manager, SERVICE_STOPPING, "Exiting, the tables stay active");
    end_loop(d);
}

static void on_hangup(struct ev_loop *loop, ev_signal *watcher, int events)
{
    const struct daemon *d = watcher->data;
    (void)loop;
    (void)events;
    object_source_reload(&d->source);
}

static void on_keep_alive(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    service_manager_notify(timer->data, SERVICE_KEEP_ALIVE, NULL);
}

static bool is_ending(const struct daemon *d)
{
    return d->ending || d->config_edited;
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

static void start_keep_alive(struct daemon *d)
{
    const struct service_manager *manager = d->service_manager;
    if (manager->error)
        log_warn("host", "%s", manager->error);
    if (manager->keep_alive <= 0)
        return;
    ev_now_update(d->loop); /* startup may have taken long */
    ev_timer_init(&d->keep_alive, on_keep_alive, manager->keep_alive, manager->keep_alive);
    d->keep_alive.data = (void *)manager;
    ev_timer_start(d->loop, &d->keep_alive);
}

/* ---- files that others write ---- */

static void on_config(struct ev_loop *loop, ev_io *io, int events)
{
    struct daemon *d = io->data;
    const char *edited = edits_read(io->fd);
    (void)loop;
    (void)events;
    if (!edited || is_ending(d))
        return;
    d->config_edited = edited;
    end_loop(d);
}

static void watch_config(struct daemon *d)
{
    struct error err = {0};
    if (!d->options->config)
        return;
    d->config_fd = edits_open(d->options->config, &err);
    if (d->config_fd < 0) {
        log_warn("config", "edits of --config are not detected: %s", err.text);
        error_clear(&err);
        return;
    }
    ev_io_init(&d->config_edits, on_config, d->config_fd, EV_READ);
    d->config_edits.data = d;
    ev_io_start(d->loop, &d->config_edits);
}

/* ---- the server ---- */

static void read_snapshot(void *ctx, struct snapshot *now)
{
    const struct daemon *d = ctx;
    const struct object_source *source = &d->source;
    proxy_snapshot(d->proxy, now);
    now->started = d->started;
    now->objects_from = source->apiserver ? source->client.server : d->options->manifests;
    now->heard = source->apiserver ? apiserver_silence(source->apiserver) : -1;
    now->manifests_problem = source->manifests ? manifests_problem(source->manifests) : NULL;
    now->partial = source->manifests && !manifests_are_whole(source->manifests);
    now->requests = source->apiserver ? apiserver_request_stats(source->apiserver) : NULL;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        now->watch[kind] = reflector_stats(source->reflectors[kind]);
    now->has_events = source->recorder != NULL;
    if (source->recorder)
        now->events = event_recorder_stats(source->recorder);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        now->owned[i] = d->proxy->config.rulesets[i].owned;
        now->flows[i] = d->flows ? flow_cleaner_stats(d->flows, (enum family)i) : NULL;
    }
}

static void on_explain(void *ctx)
{
    sync_tables(ctx);
}

static int open_server(struct daemon *d, struct error *err)
{
    const char *healthz = d->options->healthz_bind_address,
               *metrics = d->options->metrics_bind_address;
    d->server = server_new(&(struct server_config){.loop = d->loop,
                                                   .options = d->options,
                                                   .node_name = d->node_name,
                                                   .events = d->source.events,
                                                   .read = read_snapshot,
                                                   .sync = on_explain,
                                                   .ctx = d});
    if (healthz && server_listen(d->server, ADDRESS_HEALTH, healthz, err))
        return error_prefix(err, "healthzBindAddress");
    if (server_listen(d->server, ADDRESS_METRICS, metrics, err))
        return error_prefix(err, "metricsBindAddress");
    bool no_health = healthz && !server_is_listening(d->server, ADDRESS_HEALTH);
    if (d->options->bind_address_hard_fail &&
        (no_health || !server_is_listening(d->server, ADDRESS_METRICS)))
        return error_set(err, "cannot listen on %s %s, and bindAddressHardFail is set",
                         no_health ? "healthzBindAddress" : "metricsBindAddress",
                         no_health ? healthz : metrics);
    return 0;
}

/* Opens everything that needs privileges, including the listening sockets, then drops them. */
static int open_to_others(struct daemon *d, struct error *err)
{
    if (object_source_prepare(&d->source, err))
        return error_of_configuration(err);
    /* Before the server: a failed bind is reported as an event. */
    object_source_open_writers(&d->source);
    if (open_server(d, err)) {
        server_free(d->server); /* it must not answer without a proxy */
        d->server = NULL;
        object_source_flush(&d->source);
        return -1;
    }
    oom_score_adjust(d->options->oom_score_adj, "");
    privileges_drop(); /* before the first byte of input */
    return 0;
}

/* Owned tables need no monitor: no other program can change them. */
static void watch_tables(struct daemon *d, const struct proxy_config *config)
{
    const struct table_monitor_ops ops = {proxy_foreign_change, proxy_foreign_lost,
                                          proxy_foreign_finished, d->proxy};
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

/* Starts what serves NodePorts on loopback addresses, if any family does. */
static int open_localhost(struct daemon *d, const struct proxy_config *config, struct error *err)
{
    const bool any =
        proxy_serves_localhost(config, FAMILY_IPV4) || proxy_serves_localhost(config, FAMILY_IPV6);
    if (any)
        d->localhost = localhost_new(d->loop, (size_t)d->options->localhost_connections, err);
    return any && !d->localhost ? -1 : 0;
}

/* Starts the flow of objects into the proxy. */
static int open_pipeline(struct daemon *d, struct proxy_config *config, struct error *err)
{
    struct error missing = {0};
    d->flows = flow_cleaner_new(d->loop, &missing);
    if (!d->flows)
        log_warn("daemon", "stale UDP flows are not deleted, and stay on their endpoints: %s",
                 missing.text);
    error_clear(&missing);
    if (open_localhost(d, config, err))
        return -1;
    config->localhost = d->localhost;
    config->node_name = d->node_name;
    config->health = server_health(d->server);
    config->flows = d->flows;
    config->events = d->source.events;
    config->startup = d->source.startup;
    d->proxy = proxy_new(config, err);
    if (!d->proxy || object_source_open(&d->source, d->proxy, MANIFESTS_WHOLE, err))
        return -1;
    watch_tables(d, &d->proxy->config);
    return d->source.manifests ? manifests_follow(d->source.manifests, d->loop, err) : 0;
}

/* Also returns 0 if a signal or an edit of --config ends it early: see is_ending(). */
static int daemon_start(struct daemon *d, struct error *err)
{
    struct proxy_config config = {.options = d->options, .families = {true, host_has_ipv6()}};
    struct rlimit descriptors;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* until the loop runs: nothing to reload yet */
    /* Each healthCheckNodePort takes descriptors: raise the soft limit to the hard one. */
    if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
        descriptors.rlim_cur = descriptors.rlim_max;
        setrlimit(RLIMIT_NOFILE, &descriptors);
    }
    if (!config.families[FAMILY_IPV6])
        log_info("daemon", "IPv6 is disabled on this host: only the IPv4 table is programmed");
    d->socket = nft_socket_open(err);
    if (!d->socket || proxy_check_kernel(d->socket, &config, err) ||
        proxy_check_cluster_cidr(&config, err))
        return -1;
    d->source.node_name = d->node_name = node_name(d->options->hostname_override, err);
    if (!d->node_name)
        return error_of_configuration(err);
    d->loop = d->source.loop = ev_default_loop(EVFLAG_AUTO);
    if (!d->loop)
        return error_set(err, "cannot create an event loop");
    watch_signals(d);
    start_keep_alive(d);
    watch_config(d);
    object_source_wait(&d->source, d->service_manager);
    if (is_ending(d))
        return 0;
    if (open_to_others(d, err) || open_pipeline(d, &config, err))
        return -1;
    /* Host settings last: nothing can fail after this. */
    conntrack_sysctls_apply(&d->options->conntrack, sysconf(_SC_NPROCESSORS_ONLN), "");
    return 0;
}

static void daemon_close(struct daemon *d)
{
    object_source_close(&d->source);
    table_monitor_free(d->tables);
    proxy_free(d->proxy);
    localhost_free(d->localhost);
    flow_cleaner_free(d->flows);
    server_free(d->server);
    nft_socket_close(d->socket);
    free(d->node_name);
    if (d->loop)
        ev_loop_destroy(d->loop);
    if (d->config_fd >= 0)
        close(d->config_fd);
}

int daemon_run(const struct options *options, const struct service_manager *manager,
               struct error *err)
{
    struct daemon d = {.options = options,
                       .service_manager = manager,
                       .started = clock_realtime(),
                       .source.options = options,
                       .config_fd = -1};
    int result = daemon_start(&d, err);
    if (result == 0 && !is_ending(&d)) {
        log_info("daemon", "version=%s node=%s started", KUBE_NFTD_VERSION, d.node_name);
        service_manager_notify(manager, SERVICE_STATUS, "Waiting for Services and EndpointSlices");
        ev_init(&d.wake, on_wake);
        ev_prepare_init(&d.commit, on_commit);
        d.commit.data = &d;
        ev_prepare_start(d.loop, &d.commit);
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
