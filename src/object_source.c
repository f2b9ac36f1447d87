/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/object_source.h"

#include "kube-nftd/base/log.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/source/apiserver.h"
#include "kube-nftd/source/manifests.h"
#include "kube-nftd/source/reflector.h"
#include "kube-nftd/writers.h"

int object_source_prepare(struct object_source *source, struct ev_loop *loop,
                          const struct options *options, struct error *err)
{
    if (options->manifests)
        return manifests_check(options->manifests, err) ? error_prefix(err, "--manifests") : 0;
    if (client_config_load(options->kubeconfig, options->master, &source->client, err))
        return options->kubeconfig ? error_prefix(err, "--kubeconfig") : -1;
    source->client.accept = encoding_accept(options->content_type, options->accept_content_types);
    source->apiserver = apiserver_new(loop, &source->client, err);
    return source->apiserver ? 0 : -1;
}

static void reflect(struct object_source *source, struct ev_loop *loop, const char *node_name,
                    struct proxy *proxy)
{
    const struct api_peers_ops peers = {proxy_set_api_server, proxy_api_server_unreachable, proxy};
    log_info("source", "server=%s node=%s", source->client.server, node_name);
    apiserver_watch_peers(source->apiserver, &peers);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        source->reflectors[kind] = reflector_start(loop, source->apiserver, (enum object_kind)kind,
                                                   node_name, proxy_sink(proxy));
        reflector_set_events(source->reflectors[kind], writers_events(source->writers));
    }
}

int object_source_open(struct object_source *source, struct ev_loop *loop,
                       const struct options *options, const char *node_name, struct proxy *proxy,
                       bool strict, struct error *err)
{
    if (!options->manifests) {
        reflect(source, loop, node_name, proxy);
        return 0;
    }
    source->manifests = manifests_open(options->manifests, proxy_sink(proxy), strict, err);
    if (source->manifests)
        return 0;
    error_prefix(err, "--manifests");
    return error_of_configuration(err);
}

void object_source_close(struct object_source *source)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        reflector_free(source->reflectors[kind]);
    writers_free(source->writers);
    apiserver_free(source->apiserver);
    client_config_clear(&source->client);
    manifests_free(source->manifests);
}

bool object_source_is_exhausted(const struct object_source *source, const struct proxy *proxy)
{
    if (!proxy_is_synced(proxy))
        return false;
    for (int kind = 0; source->apiserver && kind < KIND_COUNT; kind++)
        if (!reflector_has_answer(source->reflectors[kind]))
            return false;
    return true;
}

void object_source_encodings(const struct object_source *source, const char *encodings[KIND_COUNT])
{
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct reflector_figures figures = {0};
        if (source->reflectors[kind])
            reflector_figures(source->reflectors[kind], &figures);
        encodings[kind] = figures.has_encoding ? encoding_name(figures.encoding) : NULL;
    }
}

void object_source_status(const struct object_source *source, struct daemon_status *status)
{
    object_source_encodings(source, status->encodings);
    status->heard = source->apiserver ? apiserver_silence(source->apiserver) : -1;
    status->silence = status->heard > APISERVER_SILENCE ? status->heard : 0;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct reflector_figures figures = {0};
        if (source->reflectors[kind])
            reflector_figures(source->reflectors[kind], &figures);
        status->watch[kind].resource = figures.resource;
        status->watch[kind].state = figures.state;
        status->watch[kind].trouble = figures.trouble;
        status->watch[kind].events = figures.events;
        status->watch[kind].failures = figures.failures;
        status->watch[kind].lists = figures.lists;
    }
}
