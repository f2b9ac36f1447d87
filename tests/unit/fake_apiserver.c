/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake_apiserver.h"

#include <ev.h>

struct ev_timer *timer; /* the one that runs */

/* In place of libev's two. */
void ev_timer_start(struct ev_loop *loop, struct ev_timer *w)
{
    ck_assert_ptr_null(timer);
    timer = w;
}

void ev_timer_stop(struct ev_loop *loop, struct ev_timer *w)
{
    if (timer == w)
        timer = NULL;
}

struct apiserver server;

struct api_request *request; /* the one that is open */

unsigned requests; /* so many were sent */

struct apiserver *apiserver_new(struct ev_loop *loop, const struct client_config *config,
                                struct error *err)
{
    return &server;
}

void apiserver_free(struct apiserver *apiserver)
{
}

struct api_request *apiserver_send(struct apiserver *apiserver, const char *path,
                                   const struct api_write *write, double timeout,
                                   const struct api_request_ops *ops, void *ctx, struct error *err)
{
    ck_assert_ptr_eq(apiserver, &server);
    ck_assert_ptr_null(request);
    if (server.fault) {
        error_set(err, "%s", server.fault);
        return NULL;
    }
    requests++;
    request = xcalloc(1, sizeof(*request));
    *request =
        (struct api_request){.path = xstrdup(path), .timeout = timeout, .ops = *ops, .ctx = ctx};
    if (write) {
        request->method = xstrdup(write->method);
        request->content_type = xstrdup(write->content_type);
        request->body = xstrdup(write->body);
    }
    return request;
}

void apiserver_cancel(struct api_request *open)
{
    ck_assert_ptr_eq(open, request);
    request = NULL;
    free(open->path);
    free(open->method);
    free(open->content_type);
    free(open->body);
    free(open);
}

void end_answer(long status, double retry_after, const char *transport, const char *body,
                size_t length)
{
    ck_assert_ptr_nonnull(request);
    struct api_request_ops ops = request->ops;
    void *ctx = request->ctx;
    struct api_status answer;
    api_status_from_answer(status, body, length, retry_after, &answer);
    answer.transport = transport;
    if (status)
        server_backoff_answered(&server.backoff);
    else
        answer.wait = server_backoff_no_answer(&server.backoff, now, retry_spread());
    if (status && transport && strcmp(transport, "stopped") != 0)
        server_backoff_interrupted(&server.backoff, now);
    answer.starting = server_backoff_is_starting(&server.backoff, now);
    apiserver_cancel(request);
    ops.done(ctx, &answer);
    api_status_clear(&answer);
}

void set_fault(const char *text)
{
    free(server.fault);
    server.fault = *text ? xstrdup(text) : NULL;
}

void end_server(void)
{
    set_fault("");
    server.backoff = (struct server_backoff){0};
    requests = 0;
    ck_assert_ptr_null(request);
    ck_assert_ptr_null(timer);
}

void let_time_come(void)
{
    ck_assert_ptr_nonnull(timer);
    struct ev_timer *due = timer;
    timer = NULL;
    now += due->at;
    due->cb(NULL, due, EV_TIMER);
}

void pass_time(char *words)
{
    double low = atof(script_word(&words)), high = *words ? atof(words) : low;
    ck_assert_ptr_nonnull(timer);
    ck_assert_msg(timer->at >= low - 1e-9 && timer->at <= high + 1e-9,
                  "waits for %g s, not %g to %g", timer->at, low, high);
    let_time_come();
}
