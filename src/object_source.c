/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object_source.h"

#include "kube-nftd/base.h"
#include "kube-nftd/host.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/source.h"
#include "proxy.h"

#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Between two looks at an incomplete kubeconfig. */
#define KUBECONFIG_SECONDS 1.0
/* Maximum wait for events at shutdown. */
#define FLUSH_SECONDS 3.0

/* ---- the kubeconfig ---- */

struct kubeconfig_wait {
    ev_timer timer;
    const char *path;
    struct stat seen;
};

static void on_kubeconfig_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kubeconfig_wait *wait = timer->data;
    (void)events;
    if (file_is_complete(wait->path, &wait->seen))
        ev_break(loop, EVBREAK_ALL);
}

void object_source_wait(const struct object_source *source, const struct service_manager *manager)
{
    const char *path = source->options->kubeconfig;
    struct kubeconfig_wait wait = {.path = path};
    if (source->options->manifests || !path || access(path, F_OK) == 0 || errno != ENOENT)
        return;
    log_info("source", "waiting for the kubeconfig, which does not exist yet file=%s", path);
    char *status = xasprintf("Waiting for the kubeconfig %s", path);
    service_manager_notify(manager, SERVICE_STATUS, status);
    free(status);
    ev_timer_init(&wait.timer, on_kubeconfig_timer, KUBECONFIG_SECONDS, KUBECONFIG_SECONDS);
    wait.timer.data = &wait;
    ev_timer_start(source->loop, &wait.timer);
    ev_run(source->loop, 0);
    ev_timer_stop(source->loop, &wait.timer);
}

/* ---- objects ---- */

int object_source_prepare(struct object_source *source, struct error *err)
{
    const struct options *options = source->options;
    if (options->manifests && access(options->manifests, R_OK))
        return error_set(err, "--manifests: %s: %s", options->manifests, strerror(errno));
    if (options->manifests)
        return 0;
    if (client_config_load(options->kubeconfig, options->master, NULL, &source->client, err))
        return options->kubeconfig ? error_prefix(err, "--kubeconfig") : -1;
    source->client.accept = encoding_accept(options->content_type, options->accept_content_types);
    source->apiserver = apiserver_new(source->loop, &source->client, err);
    return source->apiserver ? 0 : -1;
}

int object_source_open(struct object_source *source, struct proxy *proxy, enum manifests_mode mode,
                       struct error *err)
{
    const struct api_peers_ops peers = {proxy_set_api_server, proxy_api_server_unreachable, proxy};
    const struct object_sink *sink = &proxy->caches.sink;
    source->proxy = proxy;
    source->addresses =
        address_monitor_new(source->loop, node_info_set_host_addresses, proxy->node, err);
    if (!source->addresses)
        return -1;
    if (source->options->flowtable_devices) {
        source->devices = device_monitor_new(source->loop, source->options->flowtable_devices,
                                             proxy_set_devices, proxy, err);
        if (!source->devices)
            return -1;
    }
    if (source->apiserver) {
        log_info("source", "server=%s node=%s", source->client.server, source->node_name);
        apiserver_watch_peers(source->apiserver, &peers);
        for (int kind = 0; kind < KIND_COUNT; kind++)
            source->reflectors[kind] =
                reflector_start(source->loop, source->apiserver, (enum object_kind)kind,
                                source->node_name, sink, source->events);
        return 0;
    }
    source->manifests = manifests_open(source->options->manifests, sink, mode, source->loop, err);
    if (source->manifests)
        return 0;
    error_prefix(err, "--manifests");
    return error_of_configuration(err);
}

void object_source_close(struct object_source *source)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        reflector_free(source->reflectors[kind]);
    startup_taint_free(source->startup);
    event_recorder_free(source->recorder);
    apiserver_free(source->apiserver);
    client_config_clear(&source->client);
    manifests_free(source->manifests);
    address_monitor_free(source->addresses);
    device_monitor_free(source->devices);
}

bool object_source_is_exhausted(const struct object_source *source)
{
    for (int kind = 0; source->apiserver && kind < KIND_COUNT; kind++)
        if (!reflector_stats(source->reflectors[kind]).answered)
            return false;
    return caches_are_synced(&source->proxy->caches);
}

/* ---- events and the startup taint ---- */

static void on_event(void *ctx, const struct object_event *event)
{
    static const struct uid unknown;
    const struct object_source *source = ctx;
    struct object_event known = *event;
    const struct service *service = NULL;
    if (event->kind == KIND_SERVICE && source->proxy &&
        memcmp(&event->uid, &unknown, sizeof(unknown)) == 0)
        service = object_store_get(source->proxy->caches.stores[KIND_SERVICE], event->id);
    if (service)
        known.uid = service->uid;
    event_recorder_report(source->recorder, &known);
}

void object_source_open_writers(struct object_source *source)
{
    const struct options *options = source->options;
    struct utsname host = {0};
    struct taint pattern;
    struct error err = {0};
    if (!source->apiserver)
        return;
    uname(&host);
    source->recorder =
        event_recorder_new(source->loop, source->apiserver, source->node_name, host.nodename,
                           options->kube_api_qps, options->kube_api_burst);
    source->sink = (struct event_sink){source, on_event};
    source->events = &source->sink;
    /* already validated with the options */
    if (options->remove_startup_taint &&
        taint_parse(options->remove_startup_taint, &pattern, &err) == 0)
        source->startup =
            startup_taint_new(source->loop, source->apiserver, source->node_name, &pattern);
    error_clear(&err);
}

void object_source_started(const struct object_source *source)
{
    const struct object_event event = {.kind = KIND_NODE,
                                       .id = source->node_name,
                                       .type = EVENT_NORMAL,
                                       .reason = "Starting",
                                       .action = "StartKubeProxy",
                                       .note = "kube-nftd " KUBE_NFTD_VERSION};
    event_report(source->events, &event);
}

static void on_flush_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    *(bool *)timer->data = true;
    ev_break(loop, EVBREAK_ONE);
}

void object_source_flush(const struct object_source *source)
{
    bool over = false;
    ev_timer timeout;
    if (!source->recorder)
        return;
    ev_now_update(source->loop);
    ev_timer_init(&timeout, on_flush_timeout, FLUSH_SECONDS, 0.);
    timeout.data = &over;
    ev_timer_start(source->loop, &timeout);
    while (!over && !event_recorder_is_idle(source->recorder))
        ev_run(source->loop, EVRUN_ONCE);
    ev_timer_stop(source->loop, &timeout);
}

/* ---- SIGHUP ---- */

/* Whether they differ in more than log settings. */
static bool needs_restart(const struct options *before, const struct options *after)
{
    cJSON *a = cJSON_Duplicate(before->configuration, true);
    cJSON *b = cJSON_Duplicate(after->configuration, true);
    cJSON_DeleteItemFromObjectCaseSensitive(a, "logging");
    cJSON_DeleteItemFromObjectCaseSensitive(b, "logging");
    bool same = cJSON_Compare(a, b, true);
    cJSON_Delete(a);
    cJSON_Delete(b);
    return !same;
}

/* Returns the outcome for the log line. The other flags cannot have changed. */
static const char *reload_config(const struct options *options)
{
    struct options now;
    struct error err = {0};
    if (!options->config)
        return "";
    if (options_parse(options->argc, options->argv, &now, &err)) {
        log_error("config", "%s; the previous configuration stays in use", err.text);
        error_clear(&err);
        return "; the previous --config stays in use";
    }
    bool restart = needs_restart(options, &now);
    log_set_verbosity(now.verbosity);
    log_set_json(now.log_format == LOG_FORMAT_JSON);
    options_clear(&now);
    return restart ? "; log settings of --config are applied, its other changes need a restart"
                   : "; log settings of --config are applied";
}

static const char *credentials_reload(const struct client_config *client)
{
    bool fixed = client->ca_data || client->client_cert_data || client->client_key_data ||
                 (client->token && !client->token_file);
    return fixed ? "files of credentials are read for each request; credentials inside the "
                   "kubeconfig need a restart"
                 : "credentials are read for each request";
}

void object_source_reload(const struct object_source *source)
{
    const char *objects = source->apiserver    ? credentials_reload(&source->client)
                          : !source->manifests ? "manifests are compared once they are read"
                          : manifests_rescan(source->manifests) ? "manifests were compared"
                                                                : "manifests were not compared";
    log_info("daemon", "signal=Hangup: %s%s", objects, reload_config(source->options));
}
