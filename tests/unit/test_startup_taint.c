/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Taking a taint from a Node whose server the test plays. */
#include "kube-nftd/source/startup_taint.h"

#include "unit.h"

#include "fake_apiserver.h"
#include "fake_clock.h"

#include <string.h>

static struct startup_taint *startup;
static unsigned char uid; /* of the Node, its last byte */

static void make(const char *text)
{
    struct taint pattern;
    struct error err = {0};
    ck_assert_int_eq(taint_parse(text, &pattern, &err), 0);
    startup_taint_free(startup);
    startup = startup_taint_new(NULL, NULL, "node/a", &pattern);
    taint_clear(&pattern);
}

static void setup(void)
{
    sent = 0;
    uid = 1;
    can_ask = true;
    startup = NULL;
    make("k");
}

static void teardown(void)
{
    startup_taint_free(startup);
    ck_assert_ptr_null(request);
    ck_assert_ptr_null(timer);
}

/* The Node with taints like "k=v:NoSchedule". */
static void see(bool deleting, const char *const *taints)
{
    struct node *node = xcalloc(1, sizeof(*node));
    node->deleting = deleting;
    node->uid.bytes[15] = uid;
    for (; *taints; taints++) {
        struct taint taint;
        struct error err = {0};
        ck_assert_int_eq(taint_parse(*taints, &taint, &err), 0);
        taint.value = taint.value ? taint.value : xstrdup("");
        vec_push(&node->taints, taint);
    }
    startup_taint_node_seen(startup, node);
    node_free(node);
}

#define SEE(...) see(false, (const char *const[]){__VA_ARGS__, NULL})

static void expect_patch(const char *expected)
{
    ck_assert_ptr_nonnull(request);
    char *text = cJSON_PrintUnformatted(request->body);
    ck_assert_str_eq(text, expected);
    free(text);
}

static void let_time_come(double least, double most)
{
    ck_assert_ptr_nonnull(timer);
    struct ev_timer *due = timer;
    ck_assert_double_ge(due->at, least);
    ck_assert_double_le(due->at, most);
    now += due->at;
    timer = NULL;
    due->cb(NULL, due, EV_TIMER);
}

TEST(not_before_all_is_in_force)
{
    SEE("k:NoSchedule");
    ck_assert_ptr_null(request);
    startup_taint_programmed(startup, 0);
    ck_assert_str_eq(request->method, "PATCH");
    ck_assert_str_eq(request->path, "/api/v1/nodes/node%2Fa");
    ck_assert_str_eq(request->content_type, "application/json-patch+json");
    expect_patch("[{\"op\":\"test\",\"path\":\"/spec/taints/0\",\"value\":"
                 "{\"key\":\"k\",\"effect\":\"NoSchedule\"}},"
                 "{\"op\":\"remove\",\"path\":\"/spec/taints/0\"}]");
    answer(200);
    startup_taint_programmed(startup, 0);
    see(false, (const char *const[]){NULL});
    ck_assert_uint_eq(sent, 1);
    uid++; /* the Node is made anew */
    SEE("k:NoSchedule");
    ck_assert_uint_eq(sent, 2);
}

TEST(all_that_are_meant_from_the_last_on)
{
    make("k=v");
    startup_taint_programmed(startup, 0);
    SEE("k=v:NoSchedule", "other:NoExecute", "k=w:PreferNoSchedule", "k=v:NoExecute");
    expect_patch("[{\"op\":\"test\",\"path\":\"/spec/taints/3\",\"value\":"
                 "{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoExecute\"}},"
                 "{\"op\":\"remove\",\"path\":\"/spec/taints/3\"},"
                 "{\"op\":\"test\",\"path\":\"/spec/taints/0\",\"value\":"
                 "{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoSchedule\"}},"
                 "{\"op\":\"remove\",\"path\":\"/spec/taints/0\"}]");
}

TEST(only_what_is_meant)
{
    make("k=v:NoExecute");
    startup_taint_programmed(startup, 0);
    SEE("k:NoExecute", "k=v:NoSchedule", "other=v:NoExecute");
    see(true, (const char *const[]){"k=v:NoExecute", NULL});
    ck_assert_ptr_null(request);
    make("k=");
    startup_taint_programmed(startup, 0);
    SEE("k=v:NoExecute");
    ck_assert_ptr_null(request);
    SEE("k:NoExecute");
    ck_assert_ptr_nonnull(request);
}

TEST(a_conflict_is_tried_with_what_is_known_by_then)
{
    startup_taint_programmed(startup, 0);
    SEE("k:NoSchedule");
    answer(422);
    SEE("other:NoExecute", "k:NoSchedule");
    ck_assert_ptr_null(request);
    let_time_come(0.8, 0.8);
    ck_assert_ptr_nonnull(request);
    ck_assert_str_eq(
        cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetArrayItem(request->body, 0), "path")),
        "/spec/taints/1");
    answer(409);
    SEE("other:NoExecute"); /* somebody else took it */
    let_time_come(1.6, 1.6);
    ck_assert_ptr_null(request);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), 0);
}

TEST(the_node_comes_back_while_the_patch_is_on_its_way)
{
    startup_taint_programmed(startup, 0);
    SEE("k:NoSchedule");
    SEE("other:NoExecute", "k:NoSchedule");
    answer(200);
    let_time_come(1, 1);
    ck_assert_ptr_nonnull(request);
    uid++;
    SEE("k:NoSchedule");
    answer(404); /* of the Node before */
    let_time_come(0.8, 0.8);
    ck_assert_ptr_nonnull(request);
    answer(200);
    let_time_come(1, 1);
    ck_assert_ptr_null(request);
}

TEST(a_server_that_does_not_take_it)
{
    startup_taint_programmed(startup, 0);
    SEE("k:NoSchedule");
    answer(403);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), 1);
    let_time_come(30, 33);
    answer(403);
    let_time_come(60, 66);
    answer(0);
    let_time_come(0.8, 61);
    answer_with(429, 5, "");
    let_time_come(5, 7);
    answer(405);
    let_time_come(300, 300);
    can_ask = false;
    answer(500);
    let_time_come(0.8, 61);
    can_ask = true;
    let_time_come(0.8, 61);
    answer(200);
}

/* A whole taint as the server keeps it, when it was added included. */
TEST(the_whole_taint_is_tested)
{
    struct node *node = xcalloc(1, sizeof(*node));
    struct taint taint = {xstrdup("k"), xstrdup(""), xstrdup("NoExecute"),
                          xstrdup("2026-11-22T05:00:00Z")};
    vec_push(&node->taints, taint);
    startup_taint_programmed(startup, 0);
    startup_taint_node_seen(startup, node);
    node_free(node);
    expect_patch("[{\"op\":\"test\",\"path\":\"/spec/taints/0\",\"value\":{\"key\":\"k\","
                 "\"effect\":\"NoExecute\",\"timeAdded\":\"2026-11-22T05:00:00Z\"}},"
                 "{\"op\":\"remove\",\"path\":\"/spec/taints/0\"}]");
}

TEST(not_while_the_kernel_refuses_something)
{
    startup_taint_programmed(startup, 2);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), 0); /* there is no taint yet */
    SEE("k:NoSchedule");
    startup_taint_programmed(startup, 2);
    startup_taint_programmed(startup, 1);
    ck_assert_ptr_null(request);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), 1);
    startup_taint_programmed(startup, 0);
    ck_assert_ptr_nonnull(request);
    answer(200);
    startup_taint_programmed(startup, 1); /* later ones are no reason */
    uid++;
    SEE("k:NoSchedule");
    ck_assert_ptr_nonnull(request);
}

TEST(who_puts_it_back_is_not_raced)
{
    double pause = 1;
    startup_taint_programmed(startup, 0);
    SEE("k:NoSchedule");
    for (int i = 0; i < 12; i++) {
        answer(200);
        SEE("k:NoSchedule");
        ck_assert_ptr_null(request);
        let_time_come(pause, pause);
        ck_assert_ptr_nonnull(request);
        pause = pause * 2 > 300 ? 300 : pause * 2;
    }
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), 1);
    answer(200);
    let_time_come(300, 300);
    now += 600;
    SEE("k:NoSchedule"); /* it stayed away for long */
    answer(200);
    SEE("k:NoSchedule");
    let_time_come(1, 1);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), 1);
}

TEST(a_patch_that_somebody_always_refuses_is_said)
{
    startup_taint_programmed(startup, 0);
    SEE("k:NoSchedule");
    answer(422);
    let_time_come(0.8, 0.8);
    answer(422);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), 0);
    let_time_come(1.6, 1.6);
    answer(422);
    let_time_come(3.2, 3.2);
    answer(422);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), 1);
}

TEST(a_node_made_anew_does_not_wait)
{
    static const long statuses[] = {404, 403, 200};
    startup_taint_programmed(startup, 0);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        SEE("k:NoSchedule");
        ck_assert_ptr_nonnull(request);
        answer(statuses[i]);
        ck_assert_ptr_nonnull(timer);
        startup_taint_node_seen(startup, NULL);
        let_time_come(1, 300);
        ck_assert_ptr_null(request); /* what there is not is not patched */
        SEE("k:NoSchedule");
        answer(403);
        uid++;
    }
}

UNIT_FIXTURE(setup, teardown)
