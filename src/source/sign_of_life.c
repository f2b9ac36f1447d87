/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/sign_of_life.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/apiserver.h"

#include <ev.h>
#include <stdlib.h>

struct sign_of_life {
    struct ev_loop *loop;
    struct apiserver *apiserver;
    struct api_request *question; /* NULL: none is open */
    double asked_at;
    ev_timer timer;
};

static void look_again(struct sign_of_life *sign, double seconds)
{
    ev_timer_stop(sign->loop, &sign->timer);
    ev_timer_set(&sign->timer, seconds, 0);
    ev_timer_start(sign->loop, &sign->timer);
}

static double silence(const struct sign_of_life *sign)
{
    return clock_monotonic() - apiserver_heard_at(sign->apiserver);
}

/* Whatever came meanwhile, on whatever request, came from somebody alive. */
static bool is_unanswered(const struct sign_of_life *sign)
{
    return apiserver_heard_at(sign->apiserver) < sign->asked_at;
}

static int on_data(void *ctx, const char *bytes, size_t length)
{
    (void)ctx;
    (void)bytes;
    (void)length;
    return 0;
}

static void on_done(void *ctx, const struct api_result *result, const char *body)
{
    struct sign_of_life *sign = ctx;
    (void)result;
    (void)body;
    sign->question = NULL;
    if (is_unanswered(sign)) {
        log_warn("apiserver",
                 "the server has sent nothing for %.0f s and does not answer: "
                 "reconnecting now server=%s",
                 silence(sign), apiserver_server(sign->apiserver));
        apiserver_cut(sign->apiserver);
    }
    look_again(sign, SIGN_OF_LIFE_SILENCE);
}

static const struct api_request_ops ops = {.data = on_data, .done = on_done};

static void ask(struct sign_of_life *sign)
{
    struct error err = {0};
    sign->asked_at = clock_monotonic();
    sign->question =
        apiserver_get(sign->apiserver, "/version", SIGN_OF_LIFE_PATIENCE, &ops, sign, &err);
    if (!sign->question) /* no credentials: the others will say so */
        error_clear(&err);
    look_again(sign, sign->question ? SIGN_OF_LIFE_DOUBT : SIGN_OF_LIFE_SILENCE);
}

static void doubt(const struct sign_of_life *sign)
{
    if (is_unanswered(sign))
        log_warn("apiserver",
                 "the server has sent nothing for %.0f s and does not answer; reconnecting in %.0f "
                 "s server=%s",
                 silence(sign), SIGN_OF_LIFE_PATIENCE - SIGN_OF_LIFE_DOUBT,
                 apiserver_server(sign->apiserver));
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct sign_of_life *sign = timer->data;
    (void)loop;
    (void)events;
    double silent = silence(sign);
    if (sign->question)
        doubt(sign); /* on_done() goes on */
    else if (silent < SIGN_OF_LIFE_SILENCE)
        look_again(sign, SIGN_OF_LIFE_SILENCE - silent);
    else if (apiserver_has_open_answer(sign->apiserver))
        ask(sign);
    else
        look_again(sign, SIGN_OF_LIFE_SILENCE);
}

struct sign_of_life *sign_of_life_new(struct ev_loop *loop, struct apiserver *apiserver)
{
    struct sign_of_life *sign = xcalloc(1, sizeof(*sign));
    sign->loop = loop;
    sign->apiserver = apiserver;
    ev_init(&sign->timer, on_timer);
    /* Behind what has come meanwhile: a pause of our own is no silence of the server. */
    ev_set_priority(&sign->timer, EV_MINPRI);
    sign->timer.data = sign;
    look_again(sign, SIGN_OF_LIFE_SILENCE);
    return sign;
}

double sign_of_life_silence(const struct sign_of_life *sign)
{
    double seconds = sign ? silence(sign) : 0;
    return seconds > SIGN_OF_LIFE_SILENCE ? seconds : 0;
}

void sign_of_life_free(struct sign_of_life *sign)
{
    if (!sign)
        return;
    if (sign->question)
        apiserver_cancel(sign->question);
    ev_timer_stop(sign->loop, &sign->timer);
    free(sign);
}
