/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "http.h"

#include <ev.h>
#include <utlist.h>

/* Interval between retries of one waiting socket. A retry costs some system calls. */
#define RETRY_SECONDS 0.2
/* Every so many retries, all sockets are retried and failures reported. */
#define ALL_EVERY 25

struct ports {
    struct ev_loop *loop;
    const struct event_sink *events; /* NULL: no events */
    struct port *waiting;            /* the head is retried next */
    unsigned tries;                  /* until all are retried */
    ev_timer retry;
};

static bool try_to_listen(struct port *port, struct error *err)
{
    port->listener =
        http_listener_open(port->ports->loop, &port->address, port->answer, port->ctx, err);
    return port->listener != NULL;
}

static void report(const struct port *port, const char *why)
{
    const struct port_kind *kind = port->kind;
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

static void no_longer_waits(struct port *port)
{
    struct ports *ports = port->ports;
    DL_DELETE(ports->waiting, port);
    if (!ports->waiting)
        ev_timer_stop(ports->loop, &ports->retry);
}

static bool try_again(struct port *port, bool reports)
{
    struct error err = {0};
    bool done = try_to_listen(port, &err);
    if (done) {
        no_longer_waits(port);
        log_info(port->kind->subsystem, "listening after retries %s", port->name);
    } else if (reports) {
        report(port, err.text);
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
    struct ports *ports = timer->data;
    struct port *port = ports->waiting, *next;
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

struct ports *ports_new(struct ev_loop *loop, const struct event_sink *events)
{
    struct ports *ports = xcalloc(1, sizeof(*ports));
    *ports = (struct ports){.loop = loop, .events = events};
    ev_timer_init(&ports->retry, on_retry, RETRY_SECONDS, RETRY_SECONDS);
    ports->retry.data = ports;
    return ports;
}

void ports_free(struct ports *ports)
{
    ev_timer_stop(ports->loop, &ports->retry);
    free(ports);
}

struct port *port_open(struct ports *ports, const struct listen_address *address,
                       const struct port_kind *kind, const char *id, http_answer_fn answer,
                       void *ctx, const char *name, ...)
{
    struct error err = {0};
    struct port *port = xcalloc(1, sizeof(*port));
    *port = (struct port){
        .ports = ports, .address = *address, .kind = kind, .id = id, .answer = answer, .ctx = ctx};
    va_list args;
    va_start(args, name);
    port->name = xvasprintf(name, args);
    va_end(args);
    if (try_to_listen(port, &err)) {
        log_debug(2, kind->subsystem, "listening %s", port->name);
        return port;
    }
    log_warn(kind->subsystem, "cannot listen, retrying every %.1f s %s error=\"%s\"", RETRY_SECONDS,
             port->name, err.text);
    report(port, err.text);
    error_clear(&err);
    if (!ports->waiting) {
        ports->tries = ALL_EVERY - 1;
        ev_timer_again(ports->loop, &ports->retry);
    }
    DL_APPEND(ports->waiting, port);
    return port;
}

void port_close(struct port *port)
{
    if (!port)
        return;
    struct ports *ports = port->ports;
    if (!port->listener) {
        no_longer_waits(port);
    } else if (ports->waiting) {
        ports->tries = 0;
        ev_feed_event(ports->loop, &ports->retry, EV_TIMER);
    }
    http_listener_close(port->listener);
    free(port->name);
    free(port);
}
