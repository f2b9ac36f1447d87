/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pages over a real socket, /programmed with real caches. */
#include "unit.h"

#include "http_client.h"
#include "objects.h"

#include "kube-nftd/serve/metrics.h"
#include "kube-nftd/serve/programmed.h"
#include "kube-nftd/serve/status.h"

static struct metrics *metrics;
static uint16_t port;
static struct service_cache *services;
static struct endpoint_slice_cache *slices;
static bool complete_; /* the objects */
static bool ipv6;      /* in use */
static bool lost;      /* its table */

static void write_nothing(void *ctx, struct metrics_page *page)
{
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
    programmed_answer(&facts, request, out);
}

static struct daemon_status daemon_facts;

static void answer_statusz(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    diagnostics_statusz(&daemon_facts, answer);
}

static void answer_flagz(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    diagnostics_flagz("a=b\nc=\n", answer);
}

static void on_service(void *ctx, const struct service *before, const struct service *after)
{
}

static void on_endpoints(void *ctx, const struct service_port_ref *ref,
                         const struct endpoint_change *changes, size_t n)
{
}

static void set_up(void)
{
    struct error err = {0};
    complete_ = ipv6 = true;
    lost = refused = false;
    loop = ev_loop_new(EVFLAG_AUTO);
    services = service_cache_new(on_service, NULL);
    slices = endpoint_slice_cache_new(on_endpoints, NULL);
    metrics = metrics_new(loop, write_nothing, NULL);
    metrics_add_page(metrics, "/programmed", answer, NULL);
    metrics_add_page(metrics, "/statusz", answer_statusz, NULL);
    metrics_add_page(metrics, "/flagz", answer_flagz, NULL);
    metrics_add_page(metrics, "/debug/flags/v", diagnostics_verbosity, NULL);
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
    log_set_verbosity(0);
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

TEST(what_came_and_what_is_held)
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

TEST(what_goes)
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

/* It is of another Service from now on; the kernel has it with the old one still. */
TEST(a_slice_that_moves)
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

TEST(what_is_left_out)
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

/* Nothing of a headless Service is ever in the kernel. An object may have no version. */
TEST(what_concerns_no_family)
{
    struct service *service = make_service("shop/web", "10.96.0.1", "http/TCP:80");
    object_version_set(&service->version, "");
    service->skipped = true;
    service_cache_put(services, service);
    expect_at(ASK, 200,
              HEAD "\"service\":{\"received\":\"\",\"inKernel\":{}},\"endpointSlices\":[]" DONE);
}

TEST(a_family_that_is_not_in_use)
{
    ipv6 = false;
    put_service("10", "http/TCP:80");
    turn_over(true, true);
    expect_at(ASK, 200,
              HEAD "\"service\":{\"received\":\"10\",\"inKernel\":{\"IPv4\":\"10\"}},"
                   "\"endpointSlices\":[]" DONE);
}

TEST(a_frontend_that_was_refused)
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

TEST(a_table_that_is_lost)
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

TEST(not_complete_yet)
{
    complete_ = false;
    expect_at(ASK, 503,
              HEAD "\"programmed\":false,"
                   "\"reason\":\"Services and EndpointSlices are not complete yet\"}");
}

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

TEST_ROWS(bad_question, bad_questions)
{
    put_service("10", "http/TCP:80");
    expect_at(*row, 400,
              "{\"programmed\":false,"
              "\"reason\":\"the request is /programmed?namespace=NAMESPACE&service=NAME\"}");
}

/* ---- for people ---- */

TEST(statusz)
{
    daemon_facts =
        (struct daemon_status){.started = clock_realtime() - 3723,
                               .node = "n1",
                               .objects_from = "https://10.0.0.1:6443",
                               .encodings = {[KIND_SERVICE] = "protobuf", [KIND_NODE] = "json"},
                               .services = 12,
                               .slices = 34,
                               .paths = "/metrics /statusz",
                               .family[FAMILY_IPV4] = {.in_use = true,
                                                       .programmed = true,
                                                       .last_success = 1000,
                                                       .frontends = 56},
                               .family[FAMILY_IPV6] = {.in_use = true, .waiting = 2.5}};
    struct reply reply = GET(port, "/statusz");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(header(&reply, "Content-Type"), "text/plain; charset=utf-8");
    const char *up = strstr(body_of(&reply), "\nUp: 1 hr 02 min 0");
    ck_assert_msg(up != NULL, "%s", body_of(&reply));
    ck_assert_str_eq(strchr(up + 1, '\n'),
                     "\nBinary version: " KUBE_NFTD_VERSION "\n"
                     "Node: n1\n"
                     "Objects from: https://10.0.0.1:6443 (not complete yet)\n"
                     "Encodings: Service protobuf, Node json\n"
                     "Services: 12\n"
                     "EndpointSlices: 34\n"
                     "IPv4: programmed, frontends: 56, last: 1970-01-01T00:16:40.000Z\n"
                     "IPv6: not programmed yet, frontends: 0, a change has waited for 3 s\n"
                     "Paths: /metrics /statusz\n");
    daemon_facts.family[FAMILY_IPV6].in_use = false;
    daemon_facts.complete = true;
    daemon_facts.silence = 35.4;
    reply = GET(port, "/statusz");
    ck_assert_ptr_nonnull(strstr(body_of(&reply), "\nIPv6: not in use\n"));
    ck_assert_ptr_nonnull(strstr(body_of(&reply), ":6443, nothing heard for 35 s\n"));
}

TEST(flagz)
{
    struct reply reply = GET(port, "/flagz");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_ptr_nonnull(strstr(body_of(&reply), "\n\na=b\nc=\n"));
}

static struct reply put(const char *body)
{
    int fd = dial(FAMILY_IPV4, port);
    char *text = xasprintf("PUT /debug/flags/v HTTP/1.1\r\nHost: node\r\nContent-Length: %zu"
                           "\r\n\r\n%s",
                           strlen(body), body);
    say(fd, text);
    free(text);
    struct reply reply = hear(fd, true, 5);
    close(fd);
    return reply;
}

static const struct {
    const char *body;
    int status, verbosity; /* afterwards; it was 1 */
} puts_[] = {
    {"4", 200, 4},          {"0", 200, 0},  {"2147483647", 200, 2147483647},
    {"", 400, 1},           {"x", 400, 1},  {"4x", 400, 1},
    {"2147483648", 400, 1}, {"-1", 400, 1}, {"99999999999999999999999", 400, 1},
};

TEST_ROWS(verbosity, puts_)
{
    log_set_verbosity(1);
    struct reply reply = put(row->body);
    ck_assert_int_eq(reply.status, row->status);
    ck_assert(log_enabled(row->verbosity));
    if (row->verbosity < 2147483647)
        ck_assert(!log_enabled(row->verbosity + 1));
}

TEST(verbosity_is_not_read)
{
    log_set_verbosity(1);
    ck_assert_int_eq(GET(port, "/debug/flags/v").status, 406);
    ck_assert_int_eq(ask(FAMILY_IPV4, port, "POST", "/debug/flags/v").status, 406);
    ck_assert(log_enabled(1) && !log_enabled(2));
}

UNIT_FIXTURE(set_up, tear_down)
