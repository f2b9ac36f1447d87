/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "offline.h"

#include "kube-nftd/host.h"
#include "object_source.h"
#include "proxy.h"

#include <ev.h>
#include <signal.h>
#include <stdlib.h>

/* A proxy that never programs the kernel, with its inputs. */
struct offline {
    char *node_name;
    struct proxy *proxy;
    struct object_source source;
};

/* Returns o->proxy, or NULL with an error. @strict: every file must parse. */
static struct proxy *offline_open(struct offline *o, const struct options *options, bool strict,
                                  struct error *err)
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
    return o->proxy && object_source_open(source, o->proxy, strict, err) == 0 ? o->proxy : NULL;
}

static void offline_close(struct offline *o)
{
    object_source_close(&o->source);
    proxy_free(o->proxy);
    free(o->node_name);
    if (o->source.loop)
        ev_loop_destroy(o->source.loop);
}

cJSON *offline_compute(const struct options *options, answer_fn answer, const void *query,
                       struct error *err)
{
    struct offline o = {0};
    cJSON *json = NULL;
    struct proxy *proxy = offline_open(&o, options, false, err);
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

/* ---- dump ---- */

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

int offline_dump_rules(const struct options *options, struct error *err)
{
    struct offline o = {0};
    struct proxy *proxy = offline_open(&o, options, true, err);
    int result = proxy ? wait_for_objects(&o.source, err) : -1;
    if (result == 0) {
        proxy_dump(proxy, stdout);
        if (fflush(stdout) != 0 || ferror(stdout))
            result = error_set(err, "cannot write the rules to standard output");
    }
    offline_close(&o);
    return result;
}

/* ---- the kernel ---- */

int offline_init(const struct options *options, struct error *err)
{
    struct proxy_config config = {.families = {true, host_has_ipv6()}};
    struct nft_socket *socket = nft_socket_open(err);
    int result = socket ? proxy_check_kernel(socket, &config, err) : -1;
    nft_socket_close(socket);
    if (result == 0)
        conntrack_sysctls_apply(&options->conntrack, "");
    return result;
}

int offline_preflight(struct error *err)
{
    static const bool families[FAMILY_COUNT] = {true, true};
    struct preflight preflights[FAMILY_COUNT];
    bool any = false;
    struct nft_socket *socket = nft_socket_open(err);
    if (!socket)
        return -1;
    preflight_run(socket, families, preflights);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        preflight_print(&preflights[i], stdout);
        any = any || preflight_passed(&preflights[i]);
        preflight_clear(&preflights[i]);
    }
    nft_socket_close(socket);
    fflush(stdout); /* before the error on stderr */
    return any ? 0 : error_set(err, "no family can be proxied on this kernel");
}
