/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics server over a real socket. */
#include "unit.h"

#include "http_client.h"

#include "kube-nftd/serve/metrics.h"

#include <math.h>
#include <zlib.h>

static struct metrics *metrics;
static metrics_fn writer;
static int scrapes;

static void write_page(void *ctx, struct metrics_page *page)
{
    ck_assert_ptr_eq(ctx, &scrapes);
    scrapes++;
    if (writer)
        writer(ctx, page);
}

static void setup(void)
{
    scrapes = 0;
    writer = NULL;
    loop = ev_loop_new(EVFLAG_AUTO);
    metrics = metrics_new(loop, write_page, &scrapes);
}

static void teardown(void)
{
    metrics_free(metrics);
    ev_loop_destroy(loop);
}

static void listen_at(const char *host, uint16_t port)
{
    struct error err = {0};
    char *bind_to = xasprintf("%s:%u", host, port);
    int result = metrics_listen(metrics, bind_to, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    free(bind_to);
}

static uint16_t open_metrics(void)
{
    uint16_t port = free_port();
    listen_at("127.0.0.1", port);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
    return port;
}

/* The page that @write makes. */
static struct reply scrape(metrics_fn write)
{
    writer = write;
    struct reply reply = GET(open_metrics(), "/metrics");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(header(&reply, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
    return reply;
}

/* ---- the page ---- */

static void two_families(void *ctx, struct metrics_page *page)
{
    metrics_family(page, "a_total", "counter", "How many.");
    metrics_sample(page, "ip_family", "IPv4", 3);
    metrics_sample(page, "ip_family", "IPv6", 0);
    metrics_family(page, "b_seconds", "gauge", "When.");
    metrics_sample(page, NULL, NULL, 1763760000.25);
}

TEST(families_and_samples)
{
    struct reply reply = scrape(two_families);
    ck_assert_str_eq(body_of(&reply), "# HELP a_total How many.\n"
                                      "# TYPE a_total counter\n"
                                      "a_total{ip_family=\"IPv4\"} 3\n"
                                      "a_total{ip_family=\"IPv6\"} 0\n"
                                      "# HELP b_seconds When.\n"
                                      "# TYPE b_seconds gauge\n"
                                      "b_seconds 1763760000.25\n");
}

static const struct histogram_buckets two_buckets = {.n = 2, .bounds = {0.5, 60}};

static void one_histogram(void *ctx, struct metrics_page *page)
{
    struct histogram histogram = {.buckets = &two_buckets};
    metrics_family(page, "h_seconds", "histogram", "h");
    metrics_histogram(page, NULL, NULL, &histogram);
    histogram_add(&histogram, 0.25);
    histogram_add(&histogram, 0.25);
    histogram_add(&histogram, 50);
    histogram_add(&histogram, 61);
    metrics_histogram(page, "ip_family", "IPv4", &histogram);
}

TEST(histograms)
{
    struct reply reply = scrape(one_histogram);
    ck_assert_str_eq(body_of(&reply), "# HELP h_seconds h\n"
                                      "# TYPE h_seconds histogram\n"
                                      "h_seconds_bucket{le=\"0.5\"} 0\n"
                                      "h_seconds_bucket{le=\"60\"} 0\n"
                                      "h_seconds_bucket{le=\"+Inf\"} 0\n"
                                      "h_seconds_sum 0\n"
                                      "h_seconds_count 0\n"
                                      "h_seconds_bucket{ip_family=\"IPv4\",le=\"0.5\"} 2\n"
                                      "h_seconds_bucket{ip_family=\"IPv4\",le=\"60\"} 3\n"
                                      "h_seconds_bucket{ip_family=\"IPv4\",le=\"+Inf\"} 4\n"
                                      "h_seconds_sum{ip_family=\"IPv4\"} 111.5\n"
                                      "h_seconds_count{ip_family=\"IPv4\"} 4\n");
}

static void strange_texts(void *ctx, struct metrics_page *page)
{
    metrics_family(page, "a", "gauge", "a \"b\" \\ c\nd");
    metrics_sample(page, "l", "a \"b\" \\ c\nd", 1);
    metrics_sample(page, "l", "", 2);
    metrics_sample(page, "l", "\xc3\xa4{},=", 3);
}

TEST(texts_are_escaped)
{
    struct reply reply = scrape(strange_texts);
    ck_assert_str_eq(body_of(&reply), "# HELP a a \"b\" \\\\ c\\nd\n"
                                      "# TYPE a gauge\n"
                                      "a{l=\"a \\\"b\\\" \\\\ c\\nd\"} 1\n"
                                      "a{l=\"\"} 2\n"
                                      "a{l=\"\xc3\xa4{},=\"} 3\n");
}

static const struct {
    double value;
    const char *text;
} numbers[] = {
    {0, "0"},
    {-1.5, "-1.5"},
    {0.1, "0.1"},
    {1.0 / 3, "0.3333333333333333"},
    {1763760000.123, "1763760000.123"},
    {9007199254740991, "9007199254740991"},
    {18446744073709551615.0, "1.8446744073709552e+19"},
    {1e-300, "1e-300"},
    {INFINITY, "+Inf"},
    {-INFINITY, "-Inf"},
    {NAN, "NaN"},
};

static void all_numbers(void *ctx, struct metrics_page *page)
{
    metrics_family(page, "a", "gauge", "a");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        metrics_sample(page, NULL, NULL, numbers[i].value);
}

TEST(numbers_keep_their_value)
{
    struct reply reply = scrape(all_numbers);
    const char *at = strstr(body_of(&reply), "\na ");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char *line = xasprintf("\na %s\n", numbers[i].text);
        ck_assert_msg(strncmp(at, line, strlen(line)) == 0, "row %zu: %.30s", i, at);
        at += strlen(line) - 1;
        free(line);
    }
    ck_assert_str_eq(at, "\n");
}

/* More than a socket's buffer takes at once. */
static void long_page(void *ctx, struct metrics_page *page)
{
    metrics_family(page, "a", "gauge", "a");
    for (int i = 0; i < 7000; i++)
        metrics_sample(page, "number", "one of very many", i);
}

TEST(long_pages)
{
    struct reply reply = scrape(long_page);
    ck_assert_uint_gt(strlen(body_of(&reply)), 200000);
    ck_assert_ptr_nonnull(strstr(body_of(&reply), "\na{number=\"one of very many\"} 0\n"));
    const char *end = "} 6999\n";
    ck_assert_str_eq(reply.text + reply.length - strlen(end), end);
}

/* ---- paths ---- */

TEST(other_answers)
{
    static const struct {
        const char *path;
        int status;
        const char *body;
    } rows[] = {
        {"/healthz", 200, "ok"},
        {"/healthz/ping", 200, "ok"},
        {"/healthz?timeout=1s", 200, "ok"},
        {"/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n"},
        {"/healthz?verbose=true", 200, "[+]ping ok\nhealthz check passed\n"},
        {"/healthz/ping?verbose", 200, "[+]ping ok\n"},
        {"/proxyMode", 200, "nftables"},
        {"/", 404, "404 page not found\n"},
        {"/livez", 404, "404 page not found\n"},
        {"/readyz", 404, "404 page not found\n"},
        {"/configz", 404, "404 page not found\n"},
        {"/metrics/slis/", 404, "404 page not found\n"},
        {"/healthz/", 404, "404 page not found\n"},
        {"/metrics/", 404, "404 page not found\n"},
        {"/proxymode", 404, "404 page not found\n"},
    };
    uint16_t port = open_metrics();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reply reply = GET(port, rows[i].path);
        ck_assert_msg(reply.status == rows[i].status, "%s: %d", rows[i].path, reply.status);
        ck_assert_str_eq(body_of(&reply), rows[i].body);
        ck_assert_str_eq(header(&reply, "Content-Type"), "text/plain; charset=utf-8");
    }
    ck_assert_int_eq(scrapes, 0);
}

/* Checks of /healthz are counted; /healthz/ping is not one. */
TEST(slis)
{
    uint16_t port = open_metrics();
    struct reply reply = GET(port, "/metrics/slis");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(body_of(&reply), "");
    GET(port, "/healthz");
    GET(port, "/healthz?verbose");
    GET(port, "/healthz/ping");
    reply = GET(port, "/metrics/slis");
    ck_assert_str_eq(header(&reply, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
    const char *samples[] = {
        "\n# TYPE kubernetes_healthcheck gauge\n"
        "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n",
        "\n# TYPE kubernetes_healthchecks_total counter\n"
        "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 2\n"};
    for (size_t i = 0; i < 2; i++)
        ck_assert_msg(strstr(body_of(&reply), samples[i]), "%s", body_of(&reply));
    reply = ask(FAMILY_IPV4, port, "DELETE", "/metrics/slis");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(body_of(&reply), "metrics reset\n");
    reply = GET(port, "/metrics/slis");
    ck_assert_str_eq(body_of(&reply), "");
    ck_assert_int_eq(scrapes, 0);
}

static void answer_with_query(void *ctx, const struct http_request *request,
                              struct http_answer *answer)
{
    const char *name = http_request_argument(request, "name"),
               *flag = http_request_argument(request, "flag"),
               *none = http_request_argument(request, "none");
    ck_assert_ptr_eq(ctx, &scrapes);
    http_answer_json(answer, 503,
                     xasprintf("[\"%s\", \"%s\", %s, \"%s\"]", name ? name : "NULL",
                               flag ? flag : "NULL", none ? "" : "null", request->body));
}

TEST(pages_of_others)
{
    uint16_t port = open_metrics();
    ck_assert_int_eq(GET(port, "/other").status, 404);
    metrics_add_page(metrics, "/other", answer_with_query, &scrapes);
    struct reply reply = GET(port, "/other?name=a%2Fb%20c&flag");
    ck_assert_int_eq(reply.status, 503);
    ck_assert_str_eq(header(&reply, "Content-Type"), "application/json");
    ck_assert_str_eq(body_of(&reply), "[\"a/b c\", \"\", null, \"\"]");
    ck_assert_int_eq(GET(port, "/other/more").status, 404);
}

/* Its beginning is kept, its pieces put together. */
TEST(bodies)
{
    uint16_t port = open_metrics();
    metrics_add_page(metrics, "/other", answer_with_query, &scrapes);
    int fd = dial(FAMILY_IPV4, port);
    say(fd, "PUT /other HTTP/1.1\r\nHost: node\r\nContent-Length: 5\r\n\r\n12");
    turn_for(0.02);
    say(fd, "345");
    struct reply reply = hear(fd, true, 5);
    ck_assert_str_eq(body_of(&reply), "[\"NULL\", \"NULL\", null, \"12345\"]");
    char *text = xasprintf(
        "PUT /other HTTP/1.1\r\nHost: node\r\nContent-Length: 1000\r\n\r\n%01000u", HTTP_BODY_KEPT);
    say(fd, text);
    free(text);
    reply = hear(fd, true, 5);
    char *expected = xasprintf("[\"NULL\", \"NULL\", null, \"%0*u\"]", HTTP_BODY_KEPT, 0U);
    ck_assert_str_eq(body_of(&reply), expected);
    free(expected);
    close(fd);
}

TEST(paths)
{
    metrics_add_page(metrics, "/other", answer_with_query, &scrapes);
    char *text = metrics_paths(metrics);
    ck_assert_str_eq(text, "/healthz /healthz/ping /metrics /metrics/slis /other /proxyMode");
    free(text);
}

/* ---- packed answers ---- */

/* What a scrape with a header Accept-Encoding gets. */
static struct reply scrape_accepting(uint16_t port, const char *accepted)
{
    int fd = dial(FAMILY_IPV4, port);
    char *text =
        xasprintf("GET /metrics HTTP/1.1\r\nHost: node\r\nAccept-Encoding: %s\r\n\r\n", accepted);
    say(fd, text);
    free(text);
    struct reply reply = {0};
    double end = clock_monotonic() + 5;
    /* hear() takes bodies for strings */
    while (clock_monotonic() < end) {
        turn(fd);
        ssize_t n = recv(fd, reply.text + reply.length, sizeof(reply.text) - 1 - reply.length,
                         MSG_DONTWAIT);
        reply.length += n > 0 ? (size_t)n : 0;
        const char *length = complete(&reply, false) ? header(&reply, "Content-Length") : NULL;
        if (length && reply.length - reply.body >= (size_t)atoi(length))
            break;
    }
    close(fd);
    return reply;
}

/* @reply's body, unpacked. */
static char *unpack(const struct reply *reply)
{
    char *text = xcalloc(1024 * 1024, 1);
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)body_of(reply),
                       .avail_in = (uInt)(reply->length - reply->body),
                       .next_out = (Bytef *)text,
                       .avail_out = 1024 * 1024 - 1};
    ck_assert_int_eq(inflateInit2(&stream, 15 + 16), Z_OK); /* gzip's header only */
    ck_assert_int_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
    ck_assert_uint_eq(stream.avail_in, 0);
    inflateEnd(&stream);
    return text;
}

TEST(long_pages_are_packed_if_asked)
{
    uint16_t port = open_metrics();
    writer = long_page;
    struct reply plain = GET(port, "/metrics"), packed = scrape_accepting(port, "br, gzip;q=0.5");
    ck_assert_ptr_null(header(&plain, "Content-Encoding"));
    ck_assert_str_eq(header(&packed, "Content-Encoding"), "gzip");
    ck_assert_str_eq(header(&packed, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
    ck_assert_uint_lt(packed.length, plain.length / 4);
    char *text = unpack(&packed);
    ck_assert_str_eq(text, body_of(&plain));
    free(text);
    packed = scrape_accepting(port, "identity, gzip;q=0");
    ck_assert_ptr_null(header(&packed, "Content-Encoding"));
    ck_assert_str_eq(body_of(&packed), body_of(&plain));
    writer = two_families;
    packed = scrape_accepting(port, "gzip"); /* too short */
    ck_assert_ptr_null(header(&packed, "Content-Encoding"));
    ck_assert_ptr_nonnull(strstr(body_of(&packed), "a_total"));
}

static const struct {
    const char *header;
    bool accepted;
} codings[] = {
    {"", false},
    {"gzip", true},
    {"GZIP", true},
    {"x-gzip", true},
    {"gzip, deflate, br", true},
    {"deflate,gzip", true},
    {" deflate ,\tgzip ; q=1.0 ", true},
    {"gzip;q=0.001", true},
    {"gzip;q=0", false},
    {"gzip;q=0.000, *", false},
    {"*", true},
    {"*;q=0", false},
    {"br;q=1, *;q=0.1", true},
    {"*;q=0, gzip", true},
    {"identity", false},
    {"gzipped", false},
    {"agzip", false},
    {",,gzip", true},
    {",,,", false},
    {";gzip", false},
};

TEST(accepted_codings)
{
    uint16_t port = open_metrics();
    writer = long_page;
    for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++) {
        struct reply reply = scrape_accepting(port, codings[i].header);
        ck_assert_msg((header(&reply, "Content-Encoding") != NULL) == codings[i].accepted, "%s",
                      codings[i].header);
    }
}

/* ---- addresses ---- */

TEST(nothing_is_left_open)
{
    uint16_t taken = 0;
    int foreign = foreign_listener(&taken);
    metrics_free(metrics);
    ev_run(loop, EVRUN_NOWAIT);
    int before = count_fds();
    metrics = metrics_new(loop, write_page, &scrapes);
    uint16_t port = open_metrics();
    int idle = dial(FAMILY_IPV4, port);
    turn_for(0.05);
    metrics_free(metrics);
    close(idle);
    ck_assert_int_eq(dial(FAMILY_IPV4, port), -1);
    metrics = metrics_new(loop, write_page, &scrapes);
    listen_at("127.0.0.1", taken); /* waits, and goes while it does */
    metrics_free(metrics);
    metrics = NULL;
    ev_run(loop, EVRUN_NOWAIT);
    ck_assert_int_eq(count_fds(), before);
    close(foreign);
}

UNIT_FIXTURE(setup, teardown)
