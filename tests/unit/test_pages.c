/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics server and its pages over a real socket, step by step in cases/pages; /programmed
 * with real caches. It listens on port A. */
#include "cache_script.h"
#include "fake_kernel.h"
#include "http_script.h"
#include "serve/pages.h"

#include "kube-nftd/policy.h"
#include "kube-nftd/table.h"

#include <math.h>
#include <zlib.h>

static struct server *server;
static char *page;  /* the one at /metrics, as run_metrics() takes it */
static int scrapes; /* of it */
static struct snapshot state;
static struct nft_socket *kernel;
static struct table *tables[FAMILY_COUNT];
static struct policy *policy;
static struct http_ports echo_ports; /* of COMMAND(echo) */
static struct http_port *echo_port;

/* ---- pages ---- */

/* The words of a label, "NAME=VALUE" with bytes as in script_bytes(); NULL: none. */
static const char *label_of(char *word, char **value)
{
    *value = strchr(word, '=');
    if (!*value)
        return *value = NULL;
    *(*value)++ = '\0';
    script_bytes(*value);
    return word;
}

static void write_histogram(struct metrics_page *out, const struct metrics_label *labels, size_t n,
                            char *words)
{
    static const struct histogram_buckets buckets = {.n = 2, .bounds = {0.5, 60}};
    struct histogram histogram = {.buckets = &buckets};
    for (char *word; *(word = script_word(&words));)
        histogram_add(&histogram, strtod(word, NULL));
    metrics_histogram(out, labels, n, &histogram);
}

/* "family NAME TYPE HELP", "sample LABEL NUMBER", "histogram LABEL NUMBERS", "many LABEL". */
static void write_line(struct metrics_page *out, char *line)
{
    const char *what = script_word(&line), *name = script_word(&line);
    char *value;
    if (strcmp(what, "family") == 0) {
        const char *type = script_word(&line);
        script_bytes(line);
        metrics_family(out, name, type, line);
        return;
    }
    const char *label = label_of((char *)name, &value);
    const struct metrics_label labels[] = {{label, value}};
    if (strcmp(what, "sample") == 0)
        metrics_sample(out, labels, label != NULL, strtod(line, NULL));
    else if (strcmp(what, "histogram") == 0)
        write_histogram(out, labels, label != NULL, line);
    else
        for (int i = 0; i < 7000; i++)
            metrics_sample(out, labels, label != NULL, i);
}

/* In place of src/serve/metrics.c. */
void metrics_write(const struct snapshot *now, struct metrics_page *out)
{
    char *text = xstrdup(page ? page : ""), *rest = text;
    scrapes++;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line)
            write_line(out, line);
    free(text);
}

static void read_state(void *ctx, struct snapshot *now)
{
    ck_assert_ptr_eq(ctx, &state);
    *now = state;
}

static void answer_with_query(void *ctx, struct http *http)
{
    const char *name = http_argument(http, "name"), *flag = http_argument(http, "flag"),
               *none = http_argument(http, "none");
    ck_assert_ptr_eq(ctx, &scrapes);
    http_json(http, 503,
              xasprintf("[\"%s\", \"%s\", %s, \"%s\"]", name ? name : "NULL", flag ? flag : "NULL",
                        none ? "" : "null", http->body));
}

static void on_service(void *ctx, const struct service *before, const struct service *after)
{
    policy_change_service(policy, before, after);
}

static void on_slice(void *ctx, const struct slice_change *change)
{
    policy_change_slice(policy, change);
}

static void open_server(char letter)
{
    static const struct options options = {.flags = (char *)"a=b\nc=\n", .profiling = true};
    struct error err = {0};
    char *address = xasprintf("127.0.0.1:%u", port_of(letter));
    server = server_new(&(struct server_config){.loop = loop,
                                                .options = &options,
                                                .node_name = "node-a",
                                                .read = read_state,
                                                .ctx = &state});
    ck_assert_int_eq(server_listen(server, ADDRESS_METRICS, address, &err), 0);
    free(address);
}

static void set_up(void)
{
    struct error err = {0};
    scrapes = 0;
    fake_kernel_reset();
    kernel = nft_socket_open(&err);
    for (int f = 0; f < FAMILY_COUNT; f++) {
        const struct table_config config = {.family = (enum family)f, .ruleset = {.mark = 0x4000}};
        tables[f] = table_new(&config, &err);
        ck_assert_msg(tables[f], "%s", err.text);
    }
    begin_ports();
    script_show_log(LOG_LEVEL_WARN);
    loop = ev_loop_new(EVFLAG_AUTO);
    caches_init(&caches, &cache_ops);
    caches.ops.service_changed = on_service;
    caches.ops.slice_changed = on_slice;
    policy =
        policy_new(&(struct policy_config){.caches = &caches, .tables = {tables[0], tables[1]}});
    state = (struct snapshot){.policy = policy,
                              .services = caches.stores[KIND_SERVICE],
                              .slices = caches.slices,
                              .complete = true};
    state.family[FAMILY_IPV4].in_use = state.family[FAMILY_IPV6].in_use = true;
    open_server('A');
}

static void tear_down(void)
{
    server_free(server);
    http_port_close(echo_port);
    echo_port = NULL;
    policy_free(policy);
    caches_clear(&caches);
    for (int f = 0; f < FAMILY_COUNT; f++)
        table_free(tables[f]);
    nft_socket_close(kernel);
    ev_loop_destroy(loop);
    log_set_verbosity(0);
    free(page);
    page = NULL;
}

/* ---- cases ---- */

COMMAND(end)
{
    server_free(server);
    server = NULL;
    ev_run(loop, EVRUN_NOWAIT); /* does not touch what is freed */
}

/* Anew, at this port. */
COMMAND(listen)
{
    open_server(*words);
}

/* "no-ipv6": it is not in use; "lost": its table is; "incomplete": objects are. */
COMMAND(facts)
{
    state.complete = !strstr(words, "incomplete");
    state.family[FAMILY_IPV6].in_use = !strstr(words, "no-ipv6");
    state.family[FAMILY_IPV6].lost = strstr(words, "lost");
}

/* What has come is programmed in IPv4, but the kernel rejects each frontend. */
COMMAND(reject)
{
    fake_kernel_reject("services", NULL, 0, ENFILE);
    policy_sync(policy);
    table_sync(tables[FAMILY_IPV4], false, NULL, kernel, clock_monotonic());
    for (int f = 0; f < FAMILY_COUNT; f++)
        state.family[f].ruleset = table_ruleset(tables[f]);
}

/* What /metrics has is the text below. */
COMMAND(metrics)
{
    free(page);
    page = xstrdup(script_text());
}

/* How often it was asked for. */
COMMAND(scrapes)
{
    fprintf(out, "%d\n", scrapes);
}

/* Another listener, which answers what it was asked. */
COMMAND(echo)
{
    struct error err = {0};
    static const struct http_port_kind kind = {.what = "echo"};
    struct listen_address address;
    char *text = xasprintf("127.0.0.1:%u", port_of(*words));
    ck_assert_int_eq(listen_address_parse(text, 0, &address, &err), 0);
    http_ports_init(&echo_ports, loop, NULL);
    echo_port =
        http_port_open(&echo_ports, &address, &kind, NULL, answer_with_query, &scrapes, "echo");
    free(text);
}

/* Of /programmed, without what is the same in each answer; the objects on lines of their own. */
COMMAND(programmed)
{
    static const char head[] = "{\"namespace\":\"shop\",\"name\":\"web\",";
    struct reply reply = GET(port_of('A'), "/programmed?namespace=shop&service=web");
    const char *body = body_of(&reply);
    ck_assert_int_eq(strncmp(body, head, strlen(head)), 0);
    fprintf(out, "%d ", reply.status);
    for (const char *at = body + strlen(head); *at; at++) {
        bool begins = strncmp(at, "\"programmed\"", 12) == 0 || strncmp(at, "{\"name\"", 7) == 0;
        fprintf(out, "%s%c", begins && at > body + strlen(head) ? "\n" : "", *at);
    }
    fputs("\n", out);
}

/* "in-use" or not, of IPv6; the rest is as it is. */
COMMAND(daemon)
{
    static const struct sync_metrics synced = {.last_success = 1000}, never_synced;
    state = (struct snapshot){.started = clock_realtime() - 3723,
                              .node_name = "n1",
                              .objects_from = "https://10.0.0.1:6443",
                              .watch = {[KIND_SERVICE] = {.resource = "services",
                                                          .state = "watching",
                                                          .encoding = "protobuf"}},
                              .n_services = 12,
                              .n_slices = 34};
    state.family[FAMILY_IPV4] =
        (struct table_view){.in_use = true, .programmed = true, .frontends = 56, .syncs = &synced};
    state.family[FAMILY_IPV6] =
        (struct table_view){.in_use = true, .waiting = 2.5, .syncs = &never_synced};
    if (strstr(words, "complete")) {
        state.family[FAMILY_IPV6].in_use = false;
        state.complete = true;
        state.heard = 35.4;
    }
}

/* In place of src/conntrack/flowtable_flows.c. */
static bool many_flows, no_flows, unknown_flows;

bool flowtable_flows(struct flowtable_flows *flows)
{
    *flows = (struct flowtable_flows){.n = {no_flows ? 0 : 17, 0}, .estimated = many_flows};
    return !unknown_flows;
}

/* "flowtable N": with so many devices; "rejected", "failing", "many", "none", "unknown": one device
 * is, a change is, the connections are. */
COMMAND(flowtable)
{
    static device_vec devices;
    static device_rejection_vec none, one;
    vec_clear(&devices);
    vec_clear(&one);
    for (int i = 0, n = atoi(words); i < n; i++) {
        struct device device = {.index = 1};
        snprintf(device.name, sizeof(device.name), "veth%d", i);
        vec_push(&devices, device);
    }
    vec_push(&one, (struct device_rejection){{"odd0", 1}, EOPNOTSUPP});
    many_flows = strstr(words, "many");
    no_flows = strstr(words, "none");
    unknown_flows = strstr(words, "unknown");
    state.family[FAMILY_IPV4].flowtable =
        (struct ruleset_flowtable){.in_use = true,
                                   .devices = &devices,
                                   .rejected = strstr(words, "rejected") ? &one : &none,
                                   .failure = strstr(words, "failing") ? "busy" : NULL};
}

/* Without the version, the time since it is up, and memory and conntrack of here. */
COMMAND(statusz)
{
    struct reply reply = GET(port_of('A'), "/statusz");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(header(&reply, "Content-Type"), "text/plain; charset=utf-8");
    char *rest = xstrdup(body_of(&reply)), *all = rest, *line;
    while ((line = strsep(&rest, "\n")))
        if (strncmp(line, "kube-nftd " KUBE_NFTD_VERSION, strlen("kube-nftd " KUBE_NFTD_VERSION)) &&
            strncmp(line, "Conntrack ", 10) != 0 && strncmp(line, "Memory ", 7) != 0 && *line)
            fprintf(out, "%s\n", line);
    free(all);
}

/* Sets a verbosity, which was 1; then prints it. */
COMMAND(verbosity)
{
    int verbosity = 0;
    log_set_verbosity(1);
    int fd = dial(port_of('A'));
    char *text = xasprintf("PUT /debug/flags/v HTTP/1.1\r\nHost: node\r\nContent-Length: %zu"
                           "\r\n\r\n%s",
                           strlen(words), words);
    say(fd, text);
    free(text);
    struct reply reply = hear(fd, true, 5);
    close(fd);
    while (verbosity < 9 && log_enabled(verbosity + 1))
        verbosity++;
    fprintf(out, "%d, %d%s\n", reply.status, verbosity, log_enabled(INT32_MAX) ? " and all" : "");
}

/* What a scrape with a header Accept-Encoding gets. */
static struct reply scrape_accepting(uint16_t port, const char *accepted)
{
    int fd = dial(port);
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

/* "HEADER" of Accept-Encoding: whether the page was packed. It is the same then. */
COMMAND(accept)
{
    script_bytes(words);
    struct reply plain = GET(port_of('A'), "/metrics");
    struct reply reply = scrape_accepting(port_of('A'), words);
    const char *coding = header(&reply, "Content-Encoding");
    bool packed = coding != NULL;
    ck_assert(!packed || strcmp(coding, "gzip") == 0);
    char *text = packed ? unpack(&reply) : xstrdup(body_of(&reply));
    ck_assert_ptr_null(header(&plain, "Content-Encoding"));
    ck_assert_str_eq(text, body_of(&plain));
    if (packed)
        ck_assert_uint_lt(reply.length, plain.length / 4);
    fprintf(out, "%s %s\n", packed ? "gzip" : "plain", short_type(header(&reply, "Content-Type")));
    free(text);
}

CASES("pages")

/* More than a socket's buffer takes at once. */
TEST(long_pages)
{
    page = xstrdup("family a gauge a\nmany number=one");
    struct reply reply = GET(port_of('A'), "/metrics");
    ck_assert_uint_gt(strlen(body_of(&reply)), 100000);
    ck_assert_ptr_nonnull(strstr(body_of(&reply), "\na{number=\"one\"} 0\n"));
    const char *end = "} 6999\n";
    ck_assert_str_eq(reply.text + reply.length - strlen(end), end);
}

/* Of a body the beginning is kept. */
TEST(long_bodies)
{
    run_echo((char *)"O", NULL);
    int fd = dial(port_of('O'));
    char *text = xasprintf(
        "PUT /other HTTP/1.1\r\nHost: node\r\nContent-Length: 1000\r\n\r\n%01000u", HTTP_BODY_KEPT);
    say(fd, text);
    free(text);
    struct reply reply = hear(fd, true, 5);
    char *expected = xasprintf("[\"NULL\", \"NULL\", null, \"%0*u\"]", HTTP_BODY_KEPT, 0U);
    ck_assert_str_eq(body_of(&reply), expected);
    free(expected);
    close(fd);
}

UNIT_FIXTURE(set_up, tear_down)
