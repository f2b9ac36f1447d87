/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "curl_loop.h"

#include "kube-nftd/base.h"
#include "read_budget.h"

#include <math.h>
#include <sys/socket.h>
#include <utlist.h>

/* Seconds between two nudges while a connection is being made: first interval, growth, maximum. */
#define NUDGE_INTERVAL 0.02
#define NUDGE_GROWTH 1.25
#define NUDGE_MOST 1.0

/* More than so many wake-ups in a row that bring only contents are a flood. */
#define FLOOD 8
/* Seconds to wait: many events at thousands per second. */
#define GATHER 0.01
/* This many bytes at once are worth their own wake-up. Waiting would stall the server with its
 * window full. */
#define MUCH 65536

/* A descriptor that curl polls. */
struct socket_watch {
    struct ev_io io; /* first: see on_ready() */
    struct socket_watch *prev, *next;
    struct curl_loop *curl;
};

double gathering_woken(struct gathering *g)
{
    bool wait = g->others == 0 && g->contents > 0 && g->contents < MUCH && g->wakes >= FLOOD;
    g->wakes = g->others > 0 ? 0 : g->wakes + (g->contents > 0);
    g->contents = g->others = 0;
    return wait ? GATHER : 0;
}

/* ---- calls of curl ---- */

/* Before a call; complete_call() follows it. */
static void begin_call(struct curl_loop *curl)
{
    curl->inside = true;
    read_budget_begin();
}

static void complete_call(struct curl_loop *curl, CURLMcode code)
{
    int left;
    read_budget_end();
    curl->inside = false;
    if (code)
        log_error("source", "libcurl: %s", curl_multi_strerror(code));
    curl->ops.returned(curl->ops.ctx);
    CURLMsg *message;
    while ((message = curl_multi_info_read(curl->multi, &left)) != NULL)
        if (message->msg == CURLMSG_DONE)
            curl->ops.ended(message->easy_handle, message->data.result);
}

static void act(struct curl_loop *curl, curl_socket_t fd, int events)
{
    int left;
    curl->due = false;
    begin_call(curl);
    complete_call(curl, curl_multi_socket_action(curl->multi, fd, events, &left));
}

/*
 * When an address refuses the connection, curl 7.88.1 decides to try the next one but waits for
 * another event on the transfer: it sets no timer, and no descriptor is left to poll. That would
 * cost half of the connect timeout. curl_multi_socket_all() checks every transfer; its replacement,
 * curl_multi_socket_action(), checks only those that are due.
 */
static void on_nudge(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct curl_loop *curl = timer->data;
    int left;
    (void)events;
    if (!curl->ops.nudged(curl->ops.ctx)) {
        ev_timer_stop(loop, timer);
        return;
    }
    timer->repeat = fmin(timer->repeat * NUDGE_GROWTH, NUDGE_MOST);
    ev_timer_again(loop, timer);
    begin_call(curl);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    complete_call(curl, curl_multi_socket_all(curl->multi, &left));
#pragma GCC diagnostic pop
}

/* ---- what curl requests ---- */

static void on_ready(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct socket_watch *watch = (struct socket_watch *)(void *)io;
    struct curl_loop *curl = watch->curl;
    (void)loop;
    int mask =
        (events & EV_READ ? CURL_CSELECT_IN : 0) | (events & EV_WRITE ? CURL_CSELECT_OUT : 0);
    act(curl, io->fd, mask); /* may free the watch */
    /* Data read by one request for another waits in curl for the loop's next iteration. Run curl
     * again, but only once so that others are served too; the timer is still set. */
    if (curl->due)
        act(curl, CURL_SOCKET_TIMEOUT, 0);
    /* Delays the whole loop, not only the socket: timers keep running, and curl needs no notice. */
    ev_set_io_collect_interval(curl->loop, gathering_woken(&curl->gathering));
}

static void on_due(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
    struct curl_loop *curl = ctx;
    struct socket_watch *watch = socket_ctx;
    (void)easy;
    if (watch)
        ev_io_stop(curl->loop, &watch->io);
    if (what == CURL_POLL_REMOVE) {
        if (watch)
            DL_DELETE(curl->watches, watch);
        free(watch);
        curl_multi_assign(curl->multi, fd, NULL);
        return 0;
    }
    if (!watch) {
        watch = xcalloc(1, sizeof(*watch));
        watch->curl = curl;
        DL_APPEND(curl->watches, watch);
        curl_multi_assign(curl->multi, fd, watch);
    }
    int events = (what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0);
    ev_io_init(&watch->io, on_ready, fd, events);
    ev_io_start(curl->loop, &watch->io);
    return 0;
}

static int on_timeout(CURLM *multi, long milliseconds, void *ctx)
{
    struct curl_loop *curl = ctx;
    (void)multi;
    curl->due = milliseconds == 0;
    ev_timer_stop(curl->loop, &curl->timer);
    if (milliseconds >= 0) {
        ev_timer_set(&curl->timer, (double)milliseconds / 1000, 0.);
        ev_timer_start(curl->loop, &curl->timer);
    }
    return 0;
}

/* ---- for who owns the transfers ---- */

void curl_loop_init(struct curl_loop *curl, struct ev_loop *loop, const struct curl_loop_ops *ops)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        alloc_failed();
    curl->loop = loop;
    curl->ops = *ops;
    ev_init(&curl->timer, on_due);
    ev_timer_init(&curl->nudge, on_nudge, 0., NUDGE_INTERVAL);
    curl->timer.data = curl->nudge.data = curl;
    curl->multi = alloc_check(curl_multi_init());
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
}

void curl_loop_clear(struct curl_loop *curl)
{
    curl_multi_cleanup(curl->multi);
    ev_timer_stop(curl->loop, &curl->timer);
    ev_timer_stop(curl->loop, &curl->nudge);
    ev_set_io_collect_interval(curl->loop, 0.);
    curl_global_cleanup();
}

void curl_loop_add(struct curl_loop *curl, CURL *easy)
{
    if (curl_multi_add_handle(curl->multi, easy))
        alloc_failed(); /* no other error is possible */
    curl_loop_nudge(curl);
}

void curl_loop_nudge(struct curl_loop *curl)
{
    curl->nudge.repeat = NUDGE_INTERVAL;
    ev_timer_again(curl->loop, &curl->nudge);
}

void curl_loop_cut(struct curl_loop *curl)
{
    struct socket_watch *watch;
    DL_FOREACH(curl->watches, watch)
    {
        /* Spare the socket pair of curl's resolver thread. */
        int domain = AF_UNIX;
        socklen_t size = sizeof(domain);
        getsockopt(watch->io.fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
        if (domain != AF_UNIX)
            shutdown(watch->io.fd, SHUT_RDWR);
    }
}
