/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve/ports.h"

#include "kube-nftd/base/log.h"

#include <ev.h>
#include <utlist.h>

#define RETRY_SECONDS 5.0

struct port {
    struct port *prev, *next; /* in ports->waiting, while there is no listener */
    struct ports *ports;
    struct http_address address;
    struct http_listener *listener;
    http_answer_fn answer;
    void *ctx;
    char *name;
};

struct ports {
    struct ev_loop *loop;
    const char *subsystem;
    ports_failed_fn failed; /* NULL: nobody wants to know */
    void *failed_ctx;
    struct port *waiting; /* who came first is tried first */
    ev_timer retry;
};

static void schedule(struct ports *ports, double seconds)
{
    ev_timer_stop(ports->loop, &ports->retry);
    ev_timer_set(&ports->retry, seconds, RETRY_SECONDS);
    ev_timer_start(ports->loop, &ports->retry);
}

static int try_to_listen(struct port *port, struct error *err)
{
    port->listener =
        http_listener_open(port->ports->loop, &port->address, port->answer, port->ctx, err);
    return port->listener ? 0 : -1;
}

static void report(const struct port *port, const char *why)
{
    const struct ports *ports = port->ports;
    if (ports->failed)
        ports->failed(ports->failed_ctx, port->ctx, &port->address, why);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    struct ports *ports = timer->data;
    struct port *port, *next;
    DL_FOREACH_SAFE(ports->waiting, port, next)
    {
        struct error err = {0};
        /* The list holds what is gone through; the static analyzer does not see that. */
        if (ports->waiting && try_to_listen(port, &err) == 0) {
            DL_DELETE(ports->waiting, port);
            log_info(ports->subsystem, "listening at last %s", port->name);
        } else {
            report(port, err.text);
        }
        error_clear(&err);
    }
    if (!ports->waiting)
        ev_timer_stop(loop, timer);
}

struct ports *ports_new(struct ev_loop *loop, const char *subsystem)
{
    struct ports *ports = xcalloc(1, sizeof(*ports));
    ports->loop = loop;
    ports->subsystem = subsystem;
    ev_timer_init(&ports->retry, on_retry, RETRY_SECONDS, RETRY_SECONDS);
    ports->retry.data = ports;
    return ports;
}

void ports_on_failure(struct ports *ports, ports_failed_fn failed, void *ctx)
{
    ports->failed = failed;
    ports->failed_ctx = ctx;
}

void ports_free(struct ports *ports)
{
    if (!ports)
        return;
    ev_timer_stop(ports->loop, &ports->retry);
    free(ports);
}

static void wait_for(struct port *port)
{
    if (!port->ports->waiting)
        schedule(port->ports, RETRY_SECONDS);
    DL_APPEND(port->ports->waiting, port);
}

struct port *port_open(struct ports *ports, const struct http_address *address,
                       http_answer_fn answer, void *ctx, const char *name, ...)
{
    struct error err = {0};
    struct port *port = xcalloc(1, sizeof(*port));
    *port = (struct port){.ports = ports, .address = *address, .answer = answer, .ctx = ctx};
    va_list args;
    va_start(args, name);
    port->name = xvasprintf(name, args);
    va_end(args);
    if (try_to_listen(port, &err) == 0) {
        log_debug(2, ports->subsystem, "listening %s", port->name);
        return port;
    }
    log_warn(ports->subsystem, "cannot listen, trying again every %.0f s %s error=\"%s\"",
             RETRY_SECONDS, port->name, err.text);
    report(port, err.text);
    error_clear(&err);
    wait_for(port);
    return port;
}

void port_close(struct port *port)
{
    if (!port)
        return;
    struct ports *ports = port->ports;
    if (!port->listener)
        DL_DELETE(ports->waiting, port);
    else if (ports->waiting)
        schedule(ports, 0);
    http_listener_close(port->listener);
    free(port->name);
    free(port);
}

bool port_is_listening(const struct port *port)
{
    return port->listener != NULL;
}

const struct http_address *port_address(const struct port *port)
{
    return &port->address;
}
