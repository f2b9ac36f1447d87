/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server that falls silent. This file defines the functions of apiserver.h itself, and clock and
 * loop are fake_clock.h's, so that the test plays server and time.
 */
#include "kube-nftd/source/sign_of_life.h"

#include "fake_clock.h"
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/apiserver.h"
#include "unit.h"

#include <string.h>

struct api_request {
    char *path;
    double timeout;
    struct api_request_ops ops;
    void *ctx;
};

static struct api_request *request; /* the one that is open */
static bool can_ask;
static double heard_at; /* the last byte of the server */
static bool has_open_answer;
static int cuts;
static int doubts, warnings; /* lines before connections are cut, and then */
static struct sign_of_life *sign;

struct api_request *apiserver_get(struct apiserver *apiserver, const char *path, double timeout,
                                  const struct api_request_ops *ops, void *ctx, struct error *err)
{
    (void)apiserver;
    ck_assert_ptr_null(request);
    if (!can_ask) {
        error_set(err, "no token");
        return NULL;
    }
    request = xcalloc(1, sizeof(*request));
    *request = (struct api_request){xstrdup(path), timeout, *ops, ctx};
    return request;
}

void apiserver_cancel(struct api_request *open)
{
    ck_assert_ptr_eq(open, request);
    free(open->path);
    free(open);
    request = NULL;
}

const char *apiserver_server(const struct apiserver *apiserver)
{
    (void)apiserver;
    return "https://10.0.0.1:6443";
}

double apiserver_heard_at(const struct apiserver *apiserver)
{
    (void)apiserver;
    return heard_at;
}

bool apiserver_has_open_answer(const struct apiserver *apiserver)
{
    (void)apiserver;
    return has_open_answer;
}

void apiserver_cut(struct apiserver *apiserver)
{
    (void)apiserver;
    cuts++;
}

static void take_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    ck_assert_int_eq(level, LOG_LEVEL_WARN);
    ck_assert_ptr_nonnull(strstr(line, " server=https://10.0.0.1:6443"));
    bool doubt = strstr(
        line, "the server has sent nothing for 35 s and does not answer; reconnecting in 15 s");
    ck_assert(
        doubt ||
        strstr(line, "the server has sent nothing for 50 s and does not answer: reconnecting now"));
    doubts += doubt;
    warnings += !doubt;
}

static void setup(void)
{
    log_set_sink(take_line, NULL);
    heard_at = now;
    can_ask = has_open_answer = true;
    cuts = doubts = warnings = 0;
    sign = sign_of_life_new(NULL, NULL);
}

static void teardown(void)
{
    sign_of_life_free(sign);
    ck_assert_ptr_null(request);
    ck_assert_ptr_null(timer);
    log_set_sink(NULL, NULL);
}

/* Ends the open request the way apiserver.c does: it is gone when done is called. */
static void answer(long status)
{
    struct api_request_ops ops = request->ops;
    void *ctx = request->ctx;
    struct api_result result = {status, -1, status ? NULL : "no answer in time", 0};
    apiserver_cancel(request);
    ops.done(ctx, &result, "");
}

/* Lets the time come that is waited for: in @seconds. */
static void wait_for(double seconds)
{
    ck_assert_double_eq(timer->at, seconds);
    struct ev_timer *due = timer;
    now += seconds;
    timer = NULL;
    due->cb(NULL, due, EV_TIMER);
}

START_TEST(who_speaks_is_not_asked)
{
    now += 10;
    heard_at = now;
    now -= 10;
    wait_for(30); /* 20 s after the last byte */
    ck_assert_ptr_null(request);
    heard_at = now;
    wait_for(10);
    ck_assert_ptr_null(request);
    wait_for(20);
    ck_assert_ptr_nonnull(request);
}
END_TEST

START_TEST(an_answer_of_any_kind_is_a_sign)
{
    static const long statuses[] = {200, 401, 403, 404, 429, 500};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        wait_for(30);
        ck_assert_str_eq(request->path, "/version");
        ck_assert_double_eq(request->timeout, 20);
        heard_at = now += 1;
        answer(statuses[i]);
    }
    ck_assert_int_eq(cuts + doubts + warnings, 0);
}
END_TEST

START_TEST(something_else_that_comes_is_one_too)
{
    wait_for(30);
    heard_at = now + 4;
    wait_for(5);
    now += 15;
    answer(0);
    ck_assert_int_eq(cuts + doubts + warnings, 0);
    wait_for(30);
    ck_assert_ptr_nonnull(request); /* 46 s after that */
}
END_TEST

START_TEST(silence_cuts_the_connections)
{
    wait_for(30);
    ck_assert(sign_of_life_silence(sign) == 0);
    ck_assert_int_eq(doubts, 0);
    wait_for(5);
    ck_assert_int_eq(doubts, 1); /* long before */
    ck_assert(sign_of_life_silence(sign) == 35);
    ck_assert_ptr_null(timer);
    now += 15;
    answer(0);
    ck_assert_int_eq(cuts, 1);
    ck_assert_int_eq(doubts, 1);
    ck_assert_int_eq(warnings, 1);
    heard_at = now + 1;
    wait_for(30);
    ck_assert_ptr_null(request);
}
END_TEST

START_TEST(nobody_is_asked_while_nothing_is_open)
{
    has_open_answer = false;
    wait_for(30);
    wait_for(30);
    ck_assert_ptr_null(request);
    has_open_answer = true;
    can_ask = false;
    wait_for(30);
    can_ask = true;
    wait_for(30);
    ck_assert_ptr_nonnull(request);
    ck_assert_int_eq(cuts, 0);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, who_speaks_is_not_asked);
    tcase_add_test(tcase, an_answer_of_any_kind_is_a_sign);
    tcase_add_test(tcase, something_else_that_comes_is_one_too);
    tcase_add_test(tcase, silence_cuts_the_connections);
    tcase_add_test(tcase, nobody_is_asked_while_nothing_is_open);
}

UNIT_MAIN("sign_of_life", add_tests)
