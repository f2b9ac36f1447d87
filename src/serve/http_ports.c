/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sockets that cannot be bound wait, and are retried. */
#include "http.h"

#include <stdarg.h>
#include <utlist.h>

/* Interval between retries of one waiting socket. A retry costs some system calls. */
#define RETRY_SECONDS 0.2
/* Every so many retries, all sockets are retried and failures reported. */
#define ALL_EVERY 25

static void report_lost_port(const struct http_port *port, const char *why)
{
    const struct http_port_kind *kind = port->kind;
    char *where = listen_address_format(&port->address);
    char *note = xasprintf("%s%s%s: %s", kind->before, where, kind->after, why);
    event_report(port->ports->events, &(struct object_event){.kind = kind->object,
                                                             .id = port->id,
                                                             .type = EVENT_WARNING,
                                                             .reason = kind->reason,
                                                             .action = kind->action,
                                                             .note = note});
    free(note);
    free(where);
}

static void stop_waiting(struct http_port *port)
{
    struct http_ports *ports = port->ports;
    DL_DELETE(ports->waiting, port);
    if (!ports->waiting)
        ev_timer_stop(ports->loop, &ports->retry);
}

static bool try_again(struct http_port *port, bool reports)
{
    struct error err = {0};
    bool done = http_port_start(port, &err) == 0;
    if (done) {
        stop_waiting(port);
        log_info("serve", "listening for %s after retries %s", port->kind->what, port->name);
    } else if (reports) {
        report_lost_port(port, err.text);
    }
    error_clear(&err);
    return done;
}

/* If the head succeeds, the process that blocked it has probably ended, and the others are retried
 * too. If it fails, it moves to the tail, since it may wait forever. */
static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    struct http_ports *ports = timer->data;
    struct http_port *port = ports->waiting, *next;
    bool all = ports->tries == 0;
    ports->tries = all ? ALL_EVERY - 1 : ports->tries - 1;
    if (!all && !try_again(port, false)) {
        DL_DELETE(ports->waiting, port);
        DL_APPEND(ports->waiting, port);
        return;
    }
    DL_FOREACH_SAFE(ports->waiting, port, next)
    {
        /* Always true here; helps the static analyzer. */
        if (ports->waiting)
            try_again(port, all);
    }
}

void http_ports_init(struct http_ports *ports, struct ev_loop *loop,
                     const struct event_sink *events)
{
    *ports = (struct http_ports){.loop = loop, .events = events};
    ev_timer_init(&ports->retry, on_retry, RETRY_SECONDS, RETRY_SECONDS);
    ports->retry.data = ports;
}

struct http_port *http_port_open(struct http_ports *ports, const struct listen_address *address,
                                 const struct http_port_kind *kind, const char *id,
                                 http_answer_fn answer, void *ctx, const char *name, ...)
{
    struct error err = {0};
    struct http_port *port = xcalloc(1, sizeof(*port));
    va_list args;
    va_start(args, name);
    *port = (struct http_port){.ports = ports,
                               .address = *address,
                               .kind = kind,
                               .id = id,
                               .answer = answer,
                               .ctx = ctx,
                               .name = xvasprintf(name, args)};
    va_end(args);
    if (http_port_start(port, &err) == 0) {
        log_debug(2, "serve", "listening for %s %s", kind->what, port->name);
        return port;
    }
    log_warn("serve", "cannot listen for %s, retrying every %.1f s %s error=\"%s\"", kind->what,
             RETRY_SECONDS, port->name, err.text);
    report_lost_port(port, err.text);
    error_clear(&err);
    if (!ports->waiting) {
        ports->tries = ALL_EVERY - 1;
        ev_timer_again(ports->loop, &ports->retry);
    }
    DL_APPEND(ports->waiting, port);
    return port;
}

void http_port_close(struct http_port *port)
{
    if (!port)
        return;
    struct http_ports *ports = port->ports;
    if (!port->daemon) {
        stop_waiting(port);
    } else {
        http_port_stop(port);
        if (ports->waiting) {
            ports->tries = 0;
            ev_feed_event(ports->loop, &ports->retry, EV_TIMER);
        }
    }
    free(port->name);
    free(port);
}
