/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pages over a real socket, /programmed with real caches. */
#include "script_objects.h"

#include "http_client.h"

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

/* ---- cases ---- */

static void run_service(char *words, FILE *out)
{
    service_cache_put(services, script_service(words));
}

static void run_no_service(char *words, FILE *out)
{
    service_cache_remove(services, words);
}

static void run_slice(char *words, FILE *out)
{
    endpoint_slice_cache_put(slices, script_slice(words));
}

static void run_no_slice(char *words, FILE *out)
{
    endpoint_slice_cache_remove(slices, words);
}

/* One that cannot be read, and its version. */
static struct object bad_object(enum object_kind kind, char *words)
{
    struct object object = {
        .kind = kind, .id = xstrdup(script_word(&words)), .owner = xstrdup("shop/web")};
    object_version_set(&object.version, words);
    return object;
}

static void run_bad_service(char *words, FILE *out)
{
    struct object object = bad_object(KIND_SERVICE, words);
    service_cache_leave_out(services, &object);
    object_clear(&object);
}

static void run_bad_slice(char *words, FILE *out)
{
    struct object object = bad_object(KIND_ENDPOINTSLICE, words);
    endpoint_slice_cache_leave_out(slices, &object);
    object_clear(&object);
}

static void run_turn(char *words, FILE *out)
{
    const bool in_force[FAMILY_COUNT] = {strstr(words, "IPv4"), strstr(words, "IPv6")};
    service_cache_turn_over(services, in_force);
    endpoint_slice_cache_turn_over(slices, in_force);
}

static void run_without_ipv6(char *words, FILE *out)
{
    ipv6 = false;
}

static void run_refused(char *words, FILE *out)
{
    refused = true;
}

static void run_lost(char *words, FILE *out)
{
    lost = true;
}

static void run_incomplete(char *words, FILE *out)
{
    complete_ = false;
}

static void run_get(char *words, FILE *out)
{
    struct reply reply = GET(port, words);
    ck_assert_str_eq(header(&reply, "Content-Type"), "application/json");
    fprintf(out, "%d %s\n", reply.status, body_of(&reply));
}

/* Without what is the same in each answer; the objects on lines of their own. */
static void run_ask(char *words, FILE *out)
{
    static const char head[] = "{\"namespace\":\"shop\",\"name\":\"web\",";
    struct reply reply = GET(port, "/programmed?namespace=shop&service=web");
    const char *body = body_of(&reply);
    ck_assert_int_eq(strncmp(body, head, strlen(head)), 0);
    fprintf(out, "%d ", reply.status);
    for (const char *at = body + strlen(head); *at; at++) {
        bool begins = strncmp(at, "\"programmed\"", 12) == 0 || strncmp(at, "{\"name\"", 7) == 0;
        fprintf(out, "%s%c", begins && at > body + strlen(head) ? "\n" : "", *at);
    }
    fputs("\n", out);
}

static const struct script_command commands[] = {
    {"service", run_service},
    {"no-service", run_no_service},
    {"slice", run_slice},
    {"no-slice", run_no_slice},
    {"bad-service", run_bad_service},
    {"bad-slice", run_bad_slice},
    {"turn", run_turn},
    {"without", run_without_ipv6},
    {"refused", run_refused},
    {"lost", run_lost},
    {"incomplete", run_incomplete},
    {"get", run_get},
    {"ask", run_ask},
    {NULL, NULL},
};

SCRIPT("pages", commands)

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
