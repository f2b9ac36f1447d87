/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/writers.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/source/event_recorder.h"
#include "kube-nftd/source/startup_taint.h"

#include <ev.h>
#include <string.h>
#include <sys/utsname.h>

/* How long the end may wait for events to be posted. */
#define FLUSH_SECONDS 3.0

struct writers {
    struct ev_loop *loop;
    const char *node_name;
    const struct proxy *proxy; /* NULL: there is none yet */
    struct event_recorder *recorder;
    struct startup_taint *startup; /* NULL: no taint is to be removed */
    struct event_sink events;
};

static void on_event(void *ctx, const struct object_event *event)
{
    static const struct uid unknown;
    struct writers *writers = ctx;
    struct object_event known = *event;
    if (event->kind == KIND_SERVICE && writers->proxy &&
        memcmp(&event->uid, &unknown, sizeof(unknown)) == 0)
        known.uid = proxy_service_uid(writers->proxy, event->id);
    event_recorder_report(writers->recorder, &known);
}

static struct startup_taint *make_startup_taint(struct ev_loop *loop, struct apiserver *apiserver,
                                                const char *node_name, const char *text)
{
    struct error err = {0};
    struct taint pattern;
    struct startup_taint *startup = NULL;
    if (text && taint_parse(text, &pattern, &err) == 0) { /* it was checked with the options */
        startup = startup_taint_new(loop, apiserver, node_name, &pattern);
        taint_clear(&pattern);
    }
    error_clear(&err);
    return startup;
}

struct writers *writers_new(struct ev_loop *loop, struct apiserver *apiserver,
                            const char *node_name, const struct options *options)
{
    struct writers *writers = xcalloc(1, sizeof(*writers));
    struct utsname host = {0};
    uname(&host);
    const struct event_recorder_config config = {
        .node_name = node_name,
        .host_name = host.nodename,
        .qps = options->kube_api_qps,
        .burst = options->kube_api_burst,
    };
    writers->loop = loop;
    writers->node_name = node_name;
    writers->recorder = event_recorder_new(loop, apiserver, &config);
    writers->startup =
        make_startup_taint(loop, apiserver, node_name, options->remove_startup_taint);
    writers->events = (struct event_sink){writers, on_event};
    return writers;
}

void writers_free(struct writers *writers)
{
    if (!writers)
        return;
    startup_taint_free(writers->startup);
    event_recorder_free(writers->recorder);
    free(writers);
}

const struct event_sink *writers_events(const struct writers *writers)
{
    return writers ? &writers->events : NULL;
}

void writers_set_proxy(struct writers *writers, const struct proxy *proxy)
{
    writers->proxy = proxy;
}

void writers_node_seen(void *ctx, const struct node *node)
{
    struct writers *writers = ctx;
    if (writers->startup)
        startup_taint_node_seen(writers->startup, node);
}

void writers_programmed(struct writers *writers, size_t refused)
{
    if (writers && writers->startup)
        startup_taint_programmed(writers->startup, refused);
}

void writers_started(struct writers *writers)
{
    const struct object_event event = {.kind = KIND_NODE,
                                       .id = writers ? writers->node_name : NULL,
                                       .type = EVENT_NORMAL,
                                       .reason = "Starting",
                                       .action = "StartKubeProxy",
                                       .note = "kube-nftd " KUBE_NFTD_VERSION};
    event_report(writers_events(writers), &event);
}

static void on_patience_over(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    *(bool *)timer->data = true;
    ev_break(loop, EVBREAK_ONE);
}

void writers_flush(struct writers *writers)
{
    bool over = false;
    ev_timer patience;
    if (!writers)
        return;
    ev_now_update(writers->loop);
    ev_timer_init(&patience, on_patience_over, FLUSH_SECONDS, 0.);
    patience.data = &over;
    ev_timer_start(writers->loop, &patience);
    while (!over && !event_recorder_is_settled(writers->recorder))
        ev_run(writers->loop, EVRUN_ONCE);
    ev_timer_stop(writers->loop, &patience);
}

const struct event_recorder *writers_recorder(const struct writers *writers)
{
    return writers ? writers->recorder : NULL;
}
