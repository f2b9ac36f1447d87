/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The page /programmed over a real socket and real caches. */
#include "unit.h"

#include "http_client.h"
#include "objects.h"

#include "kube-nftd/serve/metrics.h"
#include "kube-nftd/serve/programmed.h"

static struct metrics *metrics;
static uint16_t port;
static struct service_cache *services;
static struct endpoint_slice_cache *slices;
static bool complete_; /* the objects */
static bool ipv6;      /* in use */
static bool lost;      /* its table */

static void write_nothing(void *ctx, struct metrics_page *page)
{
    (void)ctx;
    (void)page;
}

static bool refused; /* in IPv4 */

static bool is_refused(const void *ctx, const char *service_id, enum family family)
{
    ck_assert_ptr_eq(ctx, &refused);
    ck_assert_str_eq(service_id, "shop/web");
    return refused && family == FAMILY_IPV4;
}

static void answer(void *ctx, const struct http_request *request, struct http_answer *out)
{
    struct programmed facts = {.services = services,
                               .slices = slices,
                               .families = {true, ipv6},
                               .lost = {false, lost},
                               .refused = is_refused,
                               .ctx = &refused,
                               .complete = complete_};
    (void)ctx;
    programmed_answer(&facts, request, out);
}

static void on_service(void *ctx, const struct service *before, const struct service *after)
{
    (void)ctx;
    (void)before;
    (void)after;
}

static void on_endpoints(void *ctx, const struct service_port_ref *ref,
                         const struct endpoint_change *changes, size_t n)
{
    (void)changes;
    (void)n;
    (void)ctx;
    (void)ref;
}

static void set_up(void)
{
    struct error err = {0};
    warnings = 0;
    complete_ = ipv6 = true;
    lost = refused = false;
    log_set_sink(take_line, NULL);
    loop = ev_loop_new(EVFLAG_AUTO);
    services = service_cache_new(on_service, NULL);
    slices = endpoint_slice_cache_new(on_endpoints, NULL);
    metrics = metrics_new(loop, write_nothing, NULL);
    metrics_add_page(metrics, "/programmed", answer, NULL);
    port = free_port();
    char *address = xasprintf("127.0.0.1:%u", port);
    ck_assert_int_eq(metrics_listen(metrics, address, &err), 0);
    free(address);
}

static void tear_down(void)
{
    metrics_free(metrics);
    endpoint_slice_cache_free(slices);
    service_cache_free(services);
    ev_loop_destroy(loop);
    log_set_sink(NULL, NULL);
}

static void put_service(const char *version, const char *ports)
{
    struct service *service = make_service("shop/web", "10.96.0.1 fd00::1", ports);
    object_version_set(&service->version, version);
    service_cache_put(services, service);
}

static void put_slice(const char *id, const char *service_id, const char *version,
                      const char *endpoints)
{
    struct endpoint_slice *slice =
        make_slice(id, service_id, FAMILY_IPV4, "http/TCP:8080", endpoints);
    object_version_set(&slice->version, version);
    endpoint_slice_cache_put(slices, slice);
}

static void turn_over(bool v4, bool v6)
{
    const bool in_force[FAMILY_COUNT] = {v4, v6};
    service_cache_turn_over(services, in_force);
    endpoint_slice_cache_turn_over(slices, in_force);
}

static void expect_at(const char *path, int status, const char *body)
{
    struct reply reply = GET(port, path);
    ck_assert_str_eq(body_of(&reply), body);
    ck_assert_int_eq(reply.status, status);
    ck_assert_str_eq(header(&reply, "Content-Type"), "application/json");
}

#define ASK "/programmed?namespace=shop&service=web"
#define HEAD "{\"namespace\":\"shop\",\"name\":\"web\","
#define WAITS ",\"programmed\":false,\"reason\":\"a change is not applied yet\"}"
#define LEFT_OUT                                                                                   \
    ",\"programmed\":false,\"reason\":\"an object is invalid, and its last good version "          \
    "stays active; the log says what is wrong with it\"}"
#define DONE ",\"programmed\":true}"

START_TEST(what_came_and_what_is_held)
{
    put_service("10", "http/TCP:80");
    put_slice("shop/web-a", "shop/web", "11", "10.0.0.1");
    put_slice("shop/web-b", "shop/web", "x1", "10.0.0.2");
    put_slice("shop/other-a", "shop/other", "12", "10.0.0.3");
    expect_at(ASK, 503,
              HEAD "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":null,\"IPv6\":null}},"
                   "\"endpointSlices\":["
                   "{\"name\":\"web-a\",\"received\":\"11\",\"inKernel\":{\"IPv4\":null}},"
                   "{\"name\":\"web-b\",\"received\":\"x1\",\"inKernel\":{\"IPv4\":null}}]" WAITS);
    turn_over(true, true);
    expect_at(ASK, 200,
              HEAD
              "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":\"10\"}},"
              "\"endpointSlices\":["
              "{\"name\":\"web-a\",\"received\":\"11\",\"inKernel\":{\"IPv4\":\"11\"}},"
              "{\"name\":\"web-b\",\"received\":\"x1\",\"inKernel\":{\"IPv4\":\"x1\"}}]" DONE);
    put_slice("shop/web-a", "shop/web", "13", "10.0.0.4");
    put_slice("shop/web-b", "shop/web", "x2", "10.0.0.2"); /* says the same */
    turn_over(false, true);
    expect_at(ASK, 503,
              HEAD
              "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":\"10\"}},"
              "\"endpointSlices\":["
              "{\"name\":\"web-a\",\"received\":\"13\",\"inKernel\":{\"IPv4\":\"11\"}},"
              "{\"name\":\"web-b\",\"received\":\"x2\",\"inKernel\":{\"IPv4\":\"x2\"}}]" WAITS);
    put_service("20", "http/TCP:81");
    turn_over(true, false);
    expect_at(ASK, 503,
              HEAD
              "\"service\":{\"received\":\"20\",\"inKernel\":{\"IPv4\":\"20\",\"IPv6\":\"10\"}},"
              "\"endpointSlices\":["
              "{\"name\":\"web-a\",\"received\":\"13\",\"inKernel\":{\"IPv4\":\"13\"}},"
              "{\"name\":\"web-b\",\"received\":\"x2\",\"inKernel\":{\"IPv4\":\"x2\"}}]" WAITS);
}
END_TEST

START_TEST(what_goes)
{
    put_service("10", "http/TCP:80");
    put_slice("shop/web-a", "shop/web", "11", "10.0.0.1");
    turn_over(true, true);
    endpoint_slice_cache_remove(slices, "shop/web-a");
    expect_at(ASK, 503,
              HEAD
              "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":\"10\"}},"
              "\"endpointSlices\":["
              "{\"name\":\"web-a\",\"received\":null,\"inKernel\":{\"IPv4\":\"11\"}}]" WAITS);
    turn_over(true, true);
    expect_at(ASK, 200,
              HEAD
              "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":\"10\"}},"
              "\"endpointSlices\":[]" DONE);
    service_cache_remove(services, "shop/web");
    expect_at(ASK, 503,
              HEAD "\"service\":{\"received\":null,\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":\"10\"}},"
                   "\"endpointSlices\":[]" WAITS);
    turn_over(true, true);
    expect_at(ASK, 404, HEAD "\"programmed\":false,\"reason\":\"no such Service is known\"}");
}
END_TEST

/* It is of another Service from now on; the kernel has it with the old one still. */
START_TEST(a_slice_that_moves)
{
    put_service("10", "http/TCP:80");
    put_slice("shop/web-a", "shop/web", "11", "10.0.0.1");
    turn_over(true, true);
    put_slice("shop/web-a", "shop/other", "12", "10.0.0.1");
    expect_at(ASK, 503,
              HEAD
              "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":\"10\"}},"
              "\"endpointSlices\":["
              "{\"name\":\"web-a\",\"received\":\"12\",\"inKernel\":{\"IPv4\":\"11\"}}]" WAITS);
    turn_over(true, true);
    expect_at(ASK, 200,
              HEAD
              "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":\"10\"}},"
              "\"endpointSlices\":[]" DONE);
}
END_TEST

static void leave_out(enum object_kind kind, const char *id, const char *version)
{
    struct object object = {.kind = kind, .id = xstrdup(id), .owner = xstrdup("shop/web")};
    object_version_set(&object.version, version);
    if (kind == KIND_SERVICE)
        service_cache_leave_out(services, &object);
    else
        endpoint_slice_cache_leave_out(slices, &object);
    object_clear(&object);
}

START_TEST(what_is_left_out)
{
    leave_out(KIND_SERVICE, "shop/web", "9");
    turn_over(true, true);
    expect_at(ASK, 503,
              HEAD "\"service\":{\"received\":null,\"leftOut\":\"9\",\"inKernel\":{}},"
                   "\"endpointSlices\":[]" LEFT_OUT);
    put_service("10", "http/TCP:80");
    put_slice("shop/web-a", "shop/web", "11", "10.0.0.1");
    leave_out(KIND_ENDPOINTSLICE, "shop/web-a", "12");
    leave_out(KIND_ENDPOINTSLICE, "shop/web-b", "13");
    turn_over(true, true);
    expect_at(
        ASK, 503,
        HEAD "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":\"10\"}},"
             "\"endpointSlices\":["
             "{\"name\":\"web-a\",\"received\":\"11\",\"leftOut\":\"12\","
             "\"inKernel\":{\"IPv4\":\"11\"}},"
             "{\"name\":\"web-b\",\"received\":null,\"leftOut\":\"13\",\"inKernel\":{}}]" LEFT_OUT);
    put_slice("shop/web-a", "shop/web", "14", "10.0.0.1");
    endpoint_slice_cache_remove(slices, "shop/web-b");
    expect_at(ASK, 200,
              HEAD
              "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":\"10\"}},"
              "\"endpointSlices\":["
              "{\"name\":\"web-a\",\"received\":\"14\",\"inKernel\":{\"IPv4\":\"14\"}}]" DONE);
}
END_TEST

/* Nothing of a headless Service is ever in the kernel. An object may have no version. */
START_TEST(what_concerns_no_family)
{
    struct service *service = make_service("shop/web", "10.96.0.1", "http/TCP:80");
    object_version_set(&service->version, "");
    service->skipped = true;
    service_cache_put(services, service);
    expect_at(ASK, 200,
              HEAD "\"service\":{\"received\":\"\",\"inKernel\":{}},\"endpointSlices\":[]" DONE);
}
END_TEST

START_TEST(a_family_that_is_not_in_use)
{
    ipv6 = false;
    put_service("10", "http/TCP:80");
    turn_over(true, true);
    expect_at(ASK, 200,
              HEAD "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\"}},"
                   "\"endpointSlices\":[]" DONE);
}
END_TEST

START_TEST(a_frontend_that_was_refused)
{
    refused = true;
    put_service("10", "http/TCP:80");
    put_slice("shop/web-a", "shop/web", "11", "10.0.0.1");
    turn_over(true, true);
    expect_at(ASK, 503,
              HEAD "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":null,\"IPv6\":\"10\"}},"
                   "\"endpointSlices\":["
                   "{\"name\":\"web-a\",\"received\":\"11\",\"inKernel\":{\"IPv4\":null}}],"
                   "\"programmed\":false,"
                   "\"reason\":\"the kernel rejected it; the log names the frontend\"}");
}
END_TEST

START_TEST(a_table_that_is_lost)
{
    lost = true;
    put_service("10", "http/TCP:80");
    put_slice("shop/web-a", "shop/web", "11", "10.0.0.1");
    turn_over(true, false);
    put_slice("shop/web-b", "shop/web", "12", "10.0.0.2");
    leave_out(KIND_SERVICE, "shop/web", "13");
    expect_at(
        ASK, 503,
        HEAD "\"service\":{\"received\":\"10\",\"leftOut\":\"13\","
             "\"inKernel\":{\"IPv4\":\"10\",\"IPv6\":null}},\"endpointSlices\":["
             "{\"name\":\"web-a\",\"received\":\"11\",\"inKernel\":{\"IPv4\":\"11\"}},"
             "{\"name\":\"web-b\",\"received\":\"12\",\"inKernel\":{\"IPv4\":null}}],"
             "\"programmed\":false,"
             "\"reason\":\"the table is gone, or belongs to another program; the log says more\"}");
}
END_TEST

START_TEST(not_complete_yet)
{
    complete_ = false;
    expect_at(ASK, 503,
              HEAD "\"programmed\":false,"
                   "\"reason\":\"Services and EndpointSlices are not complete yet\"}");
}
END_TEST

static const char *const bad_questions[] = {
    "/programmed",
    "/programmed?",
    "/programmed?namespace=shop",
    "/programmed?service=web",
    "/programmed?namespace&service=web",
    "/programmed?namespace=shop&service=",
    "/programmed?namespace=shop%2Fweb&service=web",
    "/programmed?namespace=shop&service=we%0Ab",
    "/programmed?namespace=shop&service=w%C3%A9b",
    "/programmed?namespace=shop&service=w%FFb",
};

START_TEST(bad_question)
{
    put_service("10", "http/TCP:80");
    expect_at(bad_questions[_i], 400,
              "{\"programmed\":false,"
              "\"reason\":\"the request is /programmed?namespace=NAMESPACE&service=NAME\"}");
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_came_and_what_is_held);
    tcase_add_test(tcase, what_goes);
    tcase_add_test(tcase, a_slice_that_moves);
    tcase_add_test(tcase, what_is_left_out);
    tcase_add_test(tcase, what_concerns_no_family);
    tcase_add_test(tcase, a_family_that_is_not_in_use);
    tcase_add_test(tcase, a_frontend_that_was_refused);
    tcase_add_test(tcase, a_table_that_is_lost);
    tcase_add_test(tcase, not_complete_yet);
    tcase_add_loop_test(tcase, bad_question, 0,
                        (int)(sizeof(bad_questions) / sizeof(*bad_questions)));
}

UNIT_MAIN("programmed", add_tests)
