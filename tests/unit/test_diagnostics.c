/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pages for people, over a real socket. */
#include "unit.h"

#include "http_client.h"

#include "kube-nftd/serve/metrics.h"
#include "kube-nftd/serve/status.h"

static struct metrics *metrics;
static uint16_t port;
static struct daemon_status status;

static void write_nothing(void *ctx, struct metrics_page *page)
{
    (void)ctx;
    (void)page;
}

static void answer_statusz(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    (void)ctx;
    (void)request;
    diagnostics_statusz(&status, answer);
}

static void answer_flagz(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    (void)ctx;
    (void)request;
    diagnostics_flagz("a=b\nc=\n", answer);
}

static void set_up(void)
{
    struct error err = {0};
    log_set_sink(take_line, NULL);
    loop = ev_loop_new(EVFLAG_AUTO);
    metrics = metrics_new(loop, write_nothing, NULL);
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
    ev_loop_destroy(loop);
    log_set_sink(NULL, NULL);
    log_set_verbosity(0);
}

START_TEST(statusz)
{
    status =
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
    status.family[FAMILY_IPV6].in_use = false;
    status.complete = true;
    status.silence = 35.4;
    reply = GET(port, "/statusz");
    ck_assert_ptr_nonnull(strstr(body_of(&reply), "\nIPv6: not in use\n"));
    ck_assert_ptr_nonnull(strstr(body_of(&reply), ":6443, nothing heard for 35 s\n"));
}
END_TEST

START_TEST(flagz)
{
    struct reply reply = GET(port, "/flagz");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_ptr_nonnull(strstr(body_of(&reply), "\n\na=b\nc=\n"));
}
END_TEST

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

START_TEST(verbosity)
{
    log_set_verbosity(1);
    struct reply reply = put(puts_[_i].body);
    ck_assert_int_eq(reply.status, puts_[_i].status);
    ck_assert(log_enabled(puts_[_i].verbosity));
    if (puts_[_i].verbosity < 2147483647)
        ck_assert(!log_enabled(puts_[_i].verbosity + 1));
}
END_TEST

START_TEST(verbosity_is_not_read)
{
    log_set_verbosity(1);
    ck_assert_int_eq(GET(port, "/debug/flags/v").status, 406);
    ck_assert_int_eq(ask(FAMILY_IPV4, port, "POST", "/debug/flags/v").status, 406);
    ck_assert(log_enabled(1) && !log_enabled(2));
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, statusz);
    tcase_add_test(tcase, flagz);
    tcase_add_loop_test(tcase, verbosity, 0, (int)(sizeof(puts_) / sizeof(*puts_)));
    tcase_add_test(tcase, verbosity_is_not_read);
}

UNIT_MAIN("diagnostics", add_tests)
