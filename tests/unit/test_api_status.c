/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/json_reader.h"
#include "source/api_status.h"

#include "json_read.h"
#include "proto_writer.h"
#include "unit.h"

#include <string.h>

/* Answers of a kube-apiserver 1.36. */
#define TOO_LARGE                                                                                  \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","           \
    "\"message\":\"Timeout: Too large resource version: 99999999, current: 674\","                 \
    "\"reason\":\"Timeout\",\"details\":{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\","     \
    "\"message\":\"Too large resource version\"}],\"retryAfterSeconds\":1},\"code\":504}\n"
#define TIMED_OUT                                                                                  \
    "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete "     \
    "within the allotted timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}"
#define TOO_OLD                                                                                    \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","           \
    "\"message\":\"too old resource version: 1166 (1192)\",\"reason\":\"Expired\",\"code\":410}"

static struct api_status from_body(long code, const char *body)
{
    struct api_status status;
    api_status_from_body(code, body, strlen(body), &status);
    ck_assert_int_eq(status.code, code);
    return status;
}

static bool take(void *ctx, const struct json_value *json, bool is_item)
{
    ck_assert(!is_item);
    api_status_from_json(json, ctx);
    return true;
}

static struct api_status from_json(const char *text)
{
    struct api_status status = {0};
    struct error err = {0};
    ck_assert_int_eq(json_read(text, strlen(text), take, &status, &err), 0);
    ck_assert_ptr_nonnull(status.message); /* it was given out */
    return status;
}

TEST(version_from_the_future)
{
    struct api_status status = from_body(504, TOO_LARGE);
    ck_assert(status.too_large && !status.expired);
    ck_assert_double_eq(status.retry_after, 1);
    api_status_clear(&status);
    status = from_body(504, TIMED_OUT);
    ck_assert(!status.too_large && !status.expired);
    ck_assert_double_eq(status.retry_after, -1);
    ck_assert_ptr_nonnull(strstr(status.message, "did not complete"));
    api_status_clear(&status);
}

TEST(version_from_the_past)
{
    struct api_status status = from_json(TOO_OLD);
    ck_assert(status.expired && !status.too_large);
    ck_assert_int_eq(status.code, 410);
    ck_assert_str_eq(status.message, "too old resource version: 1166 (1192)");
    api_status_clear(&status);
    status = from_json("{\"reason\":\"Gone\"}");
    ck_assert(status.expired);
    ck_assert_int_eq(status.code, 0);
    api_status_clear(&status);
    status = from_body(410, "");
    ck_assert(status.expired);
    api_status_clear(&status);
}

TEST(plain_text)
{
    struct api_status status = from_body(429, " Too many requests, please try again later. \r\nx");
    ck_assert_str_eq(status.message, "Too many requests, please try again later.");
    api_status_clear(&status);
    status = from_body(404, "404 page not found\n"); /* begins like a JSON number */
    ck_assert_str_eq(status.message, "404 page not found");
    api_status_clear(&status);
    status = from_body(502, "");
    ck_assert_str_eq(status.message, "");
    api_status_clear(&status);
}

/* What a real API server sent, in JSON and in protobuf; the other pairs are in test_messages.c. */
TEST(in_either_encoding)
{
    static const struct {
        const char *name;
        long code;
    } pairs[] = {
        {"217-not-found-path", 404}, {"218-not-found-object", 404}, {"219-forbidden", 403},
        {"220-unauthorized", 401},   {"221-bad-parameter", 400},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        struct api_status status[2];
        for (int proto = 0; proto < 2; proto++) {
            bool text = i == 0; /* in both, which never reached what knows objects */
            size_t length;
            char *path = xasprintf(SOURCE_DIR "/tests/recordings-protobuf/%s/%s", pairs[i].name,
                                   !proto ? "json.body.json"
                                   : text ? "protobuf.body.txt"
                                          : "protobuf.body.pb");
            char *body = read_whole(path, &length);
            api_status_from_body(pairs[i].code, body, length, &status[proto]);
            free(body);
            free(path);
        }
        ck_assert_str_eq(status[0].message, status[1].message);
        ck_assert(*status[0].message);
        ck_assert_int_eq(status[0].code, status[1].code);
        ck_assert_double_eq(status[0].retry_after, status[1].retry_after);
        api_status_clear(&status[0]);
        api_status_clear(&status[1]);
    }
}

/* None of its bytes is shown as text. */
TEST(half_of_a_protobuf)
{
    static const char half[] = "k8s\0\x0a\x05";
    struct api_status status;
    api_status_from_body(500, half, sizeof(half) - 1, &status);
    ck_assert_str_eq(status.message, "");
    ck_assert_int_eq(status.code, 500);
    api_status_clear(&status);
}

TEST(what_it_is_about)
{
    static const struct api_resource events = {"events", "events", "events.k8s.io",
                                               "events.k8s.io/v1"};
    static const struct {
        long code;
        const char *message, *expected;
    } cases[] = {
        {403, "events is forbidden: User \\\"x\\\" cannot create resource", "the RBAC permission"},
        {403, "", "the RBAC permission"},
        {403, "events is forbidden: exceeded quota: q", "not for a missing permission"},
        {403, "admission webhook \\\"w\\\" denied the request: no", "not for a missing permission"},
        {403, "nodes is forbidden: node \\\"a\\\" is not allowed to",
         "not for a missing permission"},
        {404, "namespaces \\\"a\\\" not found", "the object does not exist"},
        {404, "the server could not find the requested resource", "does not have this API"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *body = xasprintf("{\"kind\":\"Status\",\"message\":\"%s\"}", cases[i].message);
        struct api_status status = from_body(cases[i].code, body);
        char *text = api_status_explain(&status, "create", &events);
        ck_assert_msg(strstr(text, cases[i].expected), "%s", text);
        free(text);
        free(body);
        api_status_clear(&status);
    }
}

TEST(mistyped_fields)
{
    struct api_status status = from_json("{\"code\":1e300,\"message\":7,\"reason\":[],"
                                         "\"details\":{\"retryAfterSeconds\":-4,\"causes\":[3]}}");
    ck_assert_int_eq(status.code, 0);
    ck_assert_str_eq(status.message, "");
    ck_assert_double_eq(status.retry_after, -1);
    api_status_clear(&status);
    status = from_json("[]");
    ck_assert_int_eq(status.code, 0);
    api_status_clear(&status);
}

TEST(long_messages_are_cut_between_characters)
{
    char *body = calloc(2001, 1);
    for (size_t i = 0; i < 2000; i += 2)
        body[i] = '\xc3', body[i + 1] = '\xa4';
    body[0] = body[1] = 'x';
    struct api_status status = from_body(500, body);
    ck_assert_uint_eq(strlen(status.message), 500);
    api_status_clear(&status);
    memmove(body, body + 1, 2000); /* now 500 is inside a character */
    status = from_body(500, body);
    ck_assert_uint_eq(strlen(status.message), 499);
    api_status_clear(&status);
    free(body);
}
