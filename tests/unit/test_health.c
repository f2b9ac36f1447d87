/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The health servers over real sockets. */
#include "unit.h"

#include "http_client.h"

#include "kube-nftd/serve/health.h"
#include "kube-nftd/serve/http_listener.h"

#include <cjson/cJSON.h>

static struct health *health;
static struct health_status now_status;

static void give_status(void *ctx, struct health_status *status)
{
    ck_assert_ptr_eq(ctx, &now_status);
    *status = now_status;
}

static void setup(void)
{
    now_status = (struct health_status){.node_eligible = true};
    for (int f = 0; f < FAMILY_COUNT; f++) {
        now_status.family[f].reported = now_status.family[f].healthy = true;
        now_status.family[f].last_updated = 1000 + f;
    }
    loop = ev_loop_new(EVFLAG_AUTO);
    health = health_new(loop, give_status, &now_status);
    for (int f = 0; f < FAMILY_COUNT; f++)
        health_set_addresses(health, (enum family)f, true, NULL, 0);
}

static void teardown(void)
{
    health_free(health);
    ev_loop_destroy(loop);
}

static cJSON *get_json(uint16_t port, const char *path)
{
    struct reply reply = GET(port, path);
    cJSON *json = cJSON_Parse(body_of(&reply));
    ck_assert_ptr_nonnull(json);
    return json;
}

static uint16_t open_health(const char *host)
{
    struct error err = {0};
    uint16_t port = free_port();
    char *bind_to = xasprintf("%s:%u", host, port);
    ck_assert_int_eq(health_listen(health, bind_to, &err), 0);
    free(bind_to);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
    return port;
}

static const char *json_text(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    ck_assert_ptr_nonnull(text);
    return text;
}

static bool json_bool(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    ck_assert_msg(cJSON_IsBool(item), "%s is no bool", key);
    return cJSON_IsTrue(item);
}

/* Each row: what the families and the node are like, and what is answered then. */
TEST(healthz_and_livez_status)
{
    static const struct {
        const char *families; /* per family: + healthy, - unhealthy, . not reported */
        bool eligible;
        int healthz, livez;
        bool healthy;
    } rows[] = {
        {"++", true, 200, 200, true},   {"++", false, 503, 200, true},
        {"+-", true, 503, 503, false},  {"-+", true, 503, 503, false},
        {"--", false, 503, 503, false}, {"+.", true, 200, 200, true},
        {".+", true, 200, 200, true},   {"-.", true, 503, 503, false},
        {".-", true, 503, 503, false},  {"..", true, 200, 200, true},
        {"..", false, 503, 200, true},
    };
    uint16_t port = open_health("127.0.0.1");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        now_status.node_eligible = rows[i].eligible;
        for (int f = 0; f < FAMILY_COUNT; f++) {
            now_status.family[f].reported = rows[i].families[f] != '.';
            now_status.family[f].healthy = rows[i].families[f] == '+';
        }
        struct reply healthz = GET(port, "/healthz"), livez = GET(port, "/livez");
        ck_assert_msg(healthz.status == rows[i].healthz, "row %zu: %d", i, healthz.status);
        ck_assert_msg(livez.status == rows[i].livez, "row %zu: %d", i, livez.status);
        cJSON *body = cJSON_Parse(body_of(&healthz));
        ck_assert_int_eq(json_bool(body, "healthy"), rows[i].healthy);
        ck_assert_int_eq(json_bool(body, "nodeEligible"), rows[i].eligible);
        cJSON_Delete(body);
    }
}

/* It says that the tables were programmed, and nothing of how they do since. */
TEST(readyz)
{
    uint16_t port = open_health("127.0.0.1");
    now_status = (struct health_status){.node_eligible = true};
    struct reply reply = GET(port, "/readyz");
    ck_assert_int_eq(reply.status, 503);
    ck_assert_str_eq(body_of(&reply), "the tables are not fully programmed yet\n");
    now_status = (struct health_status){.programmed = true, .family[0].reported = true};
    reply = GET(port, "/readyz");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(body_of(&reply), "ok");
    ck_assert_str_eq(header(&reply, "Content-Type"), "text/plain; charset=utf-8");
    ck_assert_uint_eq(health_figures(health).healthz.bad, 0);
}

/* By code; only of these two paths, whatever the method. */
TEST(answers_are_counted)
{
    uint16_t port = open_health("127.0.0.1");
    GET(port, "/healthz");
    GET(port, "/healthz?verbose");
    GET(port, "/livez");
    GET(port, "/metrics");
    GET(port, "/");
    now_status.node_eligible = false;
    GET(port, "/healthz");
    ask(FAMILY_IPV4, port, "HEAD", "/livez");
    now_status.family[FAMILY_IPV6].healthy = false;
    GET(port, "/livez");
    struct health_figures counted = health_figures(health);
    ck_assert_uint_eq(counted.healthz.good, 2);
    ck_assert_uint_eq(counted.healthz.bad, 1);
    ck_assert_uint_eq(counted.livez.good, 2);
    ck_assert_uint_eq(counted.livez.bad, 1);
}

TEST(endless_body_is_cut_off)
{
    static char block[16384];
    uint16_t port = open_health("127.0.0.1");
    int fd = dial(FAMILY_IPV4, port);
    say(fd, "POST /livez HTTP/1.1\r\nHost: node\r\nContent-Length: 1000000000\r\n\r\n");
    size_t sent = 0;
    double end = clock_monotonic() + 10;
    while (sent < 100000000 && clock_monotonic() < end) {
        ssize_t n = send(fd, block, sizeof(block), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            break;
        sent += n > 0 ? (size_t)n : 0;
        ev_run(loop, EVRUN_NOWAIT);
    }
    ck_assert_msg(sent > 1000000 && sent < 50000000, "%zu bytes taken", sent);
    close(fd);
    ck_assert_int_eq(GET(port, "/livez").status, 200);
}

TEST(too_long_headers_are_refused)
{
    uint16_t port = open_health("127.0.0.1");
    int fd = dial(FAMILY_IPV4, port);
    char *text = xasprintf("GET /livez HTTP/1.1\r\nHost: node\r\nX: %0*d\r\n\r\n", 40000, 0);
    say(fd, text);
    free(text);
    int status = hear(fd, true, 5).status;
    ck_assert_msg(status == 0 || status == 431, "%d", status);
    close(fd);
    ck_assert_int_eq(GET(port, "/livez").status, 200);
}

TEST(service_answer)
{
    uint16_t port = free_port();
    health_service(health, "shop/front-end", FAMILY_IPV4, port, 2);
    struct reply reply = GET(port, "/");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(header(&reply, "Content-Type"), "application/json");
    ck_assert_str_eq(header(&reply, "X-Content-Type-Options"), "nosniff");
    ck_assert_str_eq(header(&reply, "X-Load-Balancing-Endpoint-Weight"), "2");
    ck_assert_str_eq(body_of(&reply), "{\n"
                                      "\t\"service\": {\n"
                                      "\t\t\"namespace\": \"shop\",\n"
                                      "\t\t\"name\": \"front-end\"\n"
                                      "\t},\n"
                                      "\t\"localEndpoints\": 2,\n"
                                      "\t\"serviceProxyHealthy\": true\n"
                                      "}");
}

TEST(service_status)
{
    static const struct {
        size_t local_ready;
        bool healthy, eligible;
        int status;
        const char *weight;
    } rows[] = {
        {1, true, true, 200, "1"},  {0, true, true, 503, "0"},   {7, false, true, 503, "7"},
        {5, true, false, 200, "5"}, {0, false, false, 503, "0"},
    };
    uint16_t port = free_port();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        /* The IPv6 loop's health counts for an IPv4 listener too. */
        now_status.family[FAMILY_IPV6].healthy = rows[i].healthy;
        now_status.node_eligible = rows[i].eligible;
        health_service(health, "a/b", FAMILY_IPV4, port, rows[i].local_ready);
        struct reply reply = GET(port, "/");
        ck_assert_msg(reply.status == rows[i].status, "row %zu: %d", i, reply.status);
        ck_assert_str_eq(header(&reply, "X-Load-Balancing-Endpoint-Weight"), rows[i].weight);
        cJSON *body = cJSON_Parse(body_of(&reply));
        ck_assert_int_eq(json_bool(body, "serviceProxyHealthy"), rows[i].healthy);
        cJSON_Delete(body);
    }
}

TEST(strange_names_are_escaped)
{
    uint16_t port = free_port();
    health_service(health, "a\"\n/b\\c/d", FAMILY_IPV4, port, 1);
    cJSON *body = get_json(port, "/");
    ck_assert_ptr_nonnull(body);
    const cJSON *service = cJSON_GetObjectItemCaseSensitive(body, "service");
    ck_assert_str_eq(json_text(service, "namespace"), "a\"\n");
    ck_assert_str_eq(json_text(service, "name"), "b\\c/d");
    cJSON_Delete(body);
}

TEST(flip_shows_at_once_on_an_open_connection)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: node\r\n\r\n";
    uint16_t port = free_port();
    health_service(health, "a/b", FAMILY_IPV4, port, 1);
    int fd = dial(FAMILY_IPV4, port);
    say(fd, request);
    ck_assert_int_eq(hear(fd, true, 5).status, 200);
    health_service(health, "a/b", FAMILY_IPV4, port, 0);
    say(fd, request);
    ck_assert_int_eq(hear(fd, true, 5).status, 503);
    health_service(health, "a/b", FAMILY_IPV4, port, 1);
    say(fd, request);
    ck_assert_int_eq(hear(fd, true, 5).status, 200);
    close(fd);
}

TEST(moving_and_closing)
{
    uint16_t from = free_port(), to = free_port();
    health_service(health, "a/b", FAMILY_IPV4, from, 1);
    int idle = dial(FAMILY_IPV4, from);
    turn_for(0.05);
    health_service(health, "a/b", FAMILY_IPV4, to, 2);
    ck_assert_msg(ends(idle, 5), "the connection outlives its listener");
    close(idle);
    ck_assert_int_eq(dial(FAMILY_IPV4, from), -1);
    struct reply reply = GET(to, "/");
    ck_assert_str_eq(header(&reply, "X-Load-Balancing-Endpoint-Weight"), "2");
    health_service(health, "a/b", FAMILY_IPV4, 0, 2);
    ck_assert_int_eq(dial(FAMILY_IPV4, to), -1);
    health_service(health, "a/b", FAMILY_IPV4, 0, 0);
    health_service(health, "a/b", FAMILY_IPV4, to, 1);
    ck_assert_int_eq(GET(to, "/").status, 200);
}

TEST(families_are_apart)
{
    if (!have_ipv6())
        return;
    uint16_t port = free_port();
    health_service(health, "a/b", FAMILY_IPV6, port, 1);
    ck_assert_int_eq(dial(FAMILY_IPV4, port), -1);
    health_service(health, "a/b", FAMILY_IPV4, port, 0);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
    ck_assert_int_eq(ask(FAMILY_IPV6, port, "GET", "/").status, 200);
    ck_assert_int_eq(ask(FAMILY_IPV4, port, "GET", "/").status, 503);
    health_service(health, "a/b", FAMILY_IPV6, 0, 0);
    ck_assert_int_eq(dial(FAMILY_IPV6, port), -1);
    ck_assert_int_eq(ask(FAMILY_IPV4, port, "GET", "/").status, 503);
}

TEST(health_address_families)
{
    uint16_t port = open_health("0.0.0.0");
    ck_assert_int_eq(GET(port, "/livez").status, 200);
    if (!have_ipv6())
        return;
    ck_assert_int_eq(ask(FAMILY_IPV6, port, "GET", "/livez").status, 200);
    uint16_t second = open_health("[::]");
    ck_assert_int_eq(dial(FAMILY_IPV4, port), -1); /* a second call moves it */
    ck_assert_int_eq(GET(second, "/livez").status, 200);
    ck_assert_int_eq(ask(FAMILY_IPV6, second, "GET", "/livez").status, 200);
    uint16_t third = open_health("[::1]");
    ck_assert_int_eq(dial(FAMILY_IPV4, third), -1);
    ck_assert_int_eq(ask(FAMILY_IPV6, third, "GET", "/livez").status, 200);
    uint16_t fourth = open_health("127.0.0.1");
    ck_assert_int_eq(dial(FAMILY_IPV6, fourth), -1);
    ck_assert_int_eq(GET(fourth, "/livez").status, 200);
}

TEST(bad_health_addresses)
{
    static const char *const bad[] = {
        "",
        "10256",
        ":10256",
        "1.2.3.4:",
        "1.2.3.4:0",
        "1.2.3.4:65536",
        "1.2.3.4:8o",
        "1.2.3:80",
        "1.2.3.4:-80",
        "::1:10256",
        "[::1]",
        "[::1]10256",
        "[::1:10256",
        "[]:10256",
        "host:10256",
        "1.2.3.4:80:80",
        "1.2.3.4: 8",
        "1.2.3.4:99999999999999999999",
    };
    uint16_t port = open_health("127.0.0.1");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error err = {0};
        ck_assert_msg(health_listen(health, bad[i], &err) == -1, "%s is taken", bad[i]);
        char *quoted = xasprintf("\"%s\"", bad[i]);
        ck_assert_msg(strstr(err.text, quoted) != NULL, "%s: %s", bad[i], err.text);
        free(quoted);
        error_clear(&err);
    }
    ck_assert_int_eq(GET(port, "/livez").status, 200);
}

TEST(taken_port_is_had_later)
{
    uint16_t port = 0, own = 0;
    int first = foreign_listener(&port), second = foreign_listener(&own);
    health_service(health, "a/b", FAMILY_IPV4, port, 1);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    char *expected = xasprintf("service=a/b family=IPv4 port=%u", port);
    ck_assert_msg(strstr(last_logged(LOG_LEVEL_WARN), expected) != NULL, "%s",
                  last_logged(LOG_LEVEL_WARN));
    free(expected);
    struct error err = {0};
    char *bind_to = xasprintf("127.0.0.1:%u", own);
    ck_assert_int_eq(health_listen(health, bind_to, &err), 0);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 2);
    ck_assert_msg(strstr(last_logged(LOG_LEVEL_WARN), bind_to) != NULL, "%s",
                  last_logged(LOG_LEVEL_WARN));
    free(bind_to);

    health_service(health, "a/b", FAMILY_IPV4, port, 4); /* a sync in between */
    turn_for(0.5);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 2);
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 0);
    close(first);
    close(second);
    turn_for(1);
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 2);
    struct reply reply = GET(port, "/");
    ck_assert_str_eq(header(&reply, "X-Load-Balancing-Endpoint-Weight"), "4");
    ck_assert_int_eq(GET(own, "/livez").status, 200);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 2);
}

/* What a daemon finds while the one that it replaces still runs. One port waits for somebody else
 * for ever, and is tried first. */
TEST(what_ends_together_is_had_together)
{
    enum { PORTS = 9 }; /* each has a line of its own */
    uint16_t never = 0, ports[PORTS] = {0};
    int fds[PORTS], other = foreign_listener(&never);
    health_service(health, "a/never", FAMILY_IPV4, never, 1);
    for (int i = 0; i < PORTS; i++) {
        char *name = xasprintf("a/%d", i);
        fds[i] = foreign_listener(&ports[i]);
        health_service(health, name, FAMILY_IPV4, ports[i], 1);
        free(name);
    }
    turn_for(0.5);
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 0);
    for (int i = 0; i < PORTS; i++)
        close(fds[i]);
    turn_for(1);
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), PORTS);
    close(other);
    turn_for(0.5);
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), PORTS + 1);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), PORTS + 1);
}

static int reports;

static void count_report(void *ctx, const struct object_event *event)
{
    ck_assert_str_eq(event->reason, "FailedToStartServiceHealthcheck");
    reports++;
}

TEST(a_taken_port_is_reported_every_5_s)
{
    uint16_t port = 0;
    int foreign = foreign_listener(&port);
    const struct event_sink sink = {.report = count_report};
    reports = 0;
    health_set_events(health, &sink, "node-a");
    health_service(health, "a/b", FAMILY_IPV4, port, 1);
    ck_assert_int_eq(reports, 1);
    turn_for(4.5);
    ck_assert_int_eq(reports, 1);
    turn_for(1);
    ck_assert_int_eq(reports, 2);
    close(foreign);
}

TEST(two_services_want_one_port)
{
    uint16_t port = free_port();
    health_service(health, "a/first", FAMILY_IPV4, port, 1);
    health_service(health, "a/second", FAMILY_IPV4, port, 0);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    ck_assert_msg(strstr(last_logged(LOG_LEVEL_WARN), "service=a/second ") != NULL, "%s",
                  last_logged(LOG_LEVEL_WARN));
    ck_assert_int_eq(GET(port, "/").status, 200);
    health_service(health, "a/first", FAMILY_IPV4, 0, 0);
    turn_for(0.1); /* below the time between tries: the port became free here */
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 1);
    ck_assert_int_eq(GET(port, "/").status, 503);
}

TEST(swapped_ports)
{
    uint16_t x = free_port(), y = free_port();
    health_service(health, "a/first", FAMILY_IPV4, x, 1);
    health_service(health, "a/second", FAMILY_IPV4, y, 2);
    health_service(health, "a/first", FAMILY_IPV4, y, 1);
    health_service(health, "a/second", FAMILY_IPV4, x, 2);
    turn_for(0.1);
    struct reply reply = GET(y, "/");
    ck_assert_str_eq(header(&reply, "X-Load-Balancing-Endpoint-Weight"), "1");
    reply = GET(x, "/");
    ck_assert_str_eq(header(&reply, "X-Load-Balancing-Endpoint-Weight"), "2");
}

/* ---- where services listen ---- */

/* Sets the IPv4 addresses, given with blanks between them. */
static void set_addresses(const char *list)
{
    struct address addresses[8];
    size_t n = 0;
    char *copy = xstrdup(list), *rest = copy;
    for (const char *word; (word = strsep(&rest, " "));) {
        enum family family;
        if (*word)
            ck_assert(address_parse(word, &family, &addresses[n++]));
    }
    free(copy);
    health_set_addresses(health, FAMILY_IPV4, false, addresses, n);
}

/* The last numbers of those addresses from 127.0.0.1 to 127.0.0.4 at which @port answers. */
static const char *answering(uint16_t port)
{
    static char numbers[8];
    size_t n = 0;
    for (char i = '1'; i <= '4'; i++) {
        char host[] = "127.0.0.0";
        host[8] = i;
        if (ask_at(host, port, "GET", "/").status == 200)
            numbers[n++] = i;
    }
    numbers[n] = '\0';
    return numbers;
}

TEST(nowhere_before_the_first_call)
{
    uint16_t port = free_port();
    health_free(health);
    health = health_new(loop, give_status, &now_status);
    health_service(health, "a/b", FAMILY_IPV4, port, 1);
    ck_assert_str_eq(answering(port), "");
    health_set_addresses(health, FAMILY_IPV6, true, NULL, 0);
    ck_assert_str_eq(answering(port), "");
    health_set_addresses(health, FAMILY_IPV4, true, NULL, 0);
    ck_assert_str_eq(answering(port), "1234");
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
}

TEST(listeners_follow_the_addresses)
{
    uint16_t first = free_port(), second = free_port();
    health_service(health, "a/b", FAMILY_IPV4, first, 1);
    set_addresses("127.0.0.2");
    ck_assert_str_eq(answering(first), "2");
    health_service(health, "a/c", FAMILY_IPV4, second, 1); /* comes later */
    ck_assert_str_eq(answering(second), "2");
    set_addresses("127.0.0.3 127.0.0.2");
    ck_assert_str_eq(answering(first), "23");
    set_addresses("127.0.0.1 127.0.0.3 127.0.0.4");
    ck_assert_str_eq(answering(first), "134");
    ck_assert_str_eq(answering(second), "134");
    set_addresses("");
    ck_assert_str_eq(answering(first), "");
    set_addresses("127.0.0.4 127.0.0.4");
    ck_assert_str_eq(answering(second), "4");
    health_set_addresses(health, FAMILY_IPV4, true, NULL, 0);
    ck_assert_str_eq(answering(first), "1234");
    ck_assert_str_eq(answering(second), "1234");
    health_service(health, "a/b", FAMILY_IPV4, 0, 0);
    ck_assert_str_eq(answering(first), "");
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
}

TEST(what_is_still_wanted_stays_open)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: node\r\n\r\n";
    uint16_t port = free_port();
    set_addresses("127.0.0.2 127.0.0.3");
    health_service(health, "a/b", FAMILY_IPV4, port, 1);
    int stays = dial_to("127.0.0.2", port), goes = dial_to("127.0.0.3", port);
    turn_for(0.05);
    set_addresses("127.0.0.1 127.0.0.2");
    ck_assert(ends(goes, 5));
    say(stays, request);
    ck_assert_int_eq(hear(stays, true, 5).status, 200);
    set_addresses("127.0.0.2 127.0.0.1");
    say(stays, request);
    ck_assert_int_eq(hear(stays, true, 5).status, 200);
    close(stays);
    close(goes);
}

TEST(an_address_that_cannot_be_had_hurts_no_other)
{
    uint16_t port = free_port();
    int foreign = foreign_listener_at("127.0.0.2", &port);
    set_addresses("127.0.0.1 127.0.0.2 127.0.0.3");
    health_service(health, "a/b", FAMILY_IPV4, port, 1);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    char *expected = xasprintf("service=a/b family=IPv4 address=127.0.0.2 port=%u", port);
    ck_assert_msg(strstr(last_logged(LOG_LEVEL_WARN), expected) != NULL, "%s",
                  last_logged(LOG_LEVEL_WARN));
    free(expected);
    ck_assert_int_eq(ask_at("127.0.0.1", port, "GET", "/").status, 200);
    ck_assert_int_eq(ask_at("127.0.0.3", port, "GET", "/").status, 200);
    set_addresses("127.0.0.2 127.0.0.3 127.0.0.4");
    health_service(health, "a/b", FAMILY_IPV4, port, 2);
    turn_for(0.5);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    close(foreign);
    turn_for(1);
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 1);
    ck_assert_str_eq(answering(port), "234");
}

TEST(an_address_of_another_host_is_not_waited_for_when_it_goes)
{
    uint16_t port = free_port();
    set_addresses("127.0.0.1 192.0.2.77");
    health_service(health, "a/b", FAMILY_IPV4, port, 1);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    ck_assert_msg(strstr(last_logged(LOG_LEVEL_WARN), "address=192.0.2.77 ") != NULL, "%s",
                  last_logged(LOG_LEVEL_WARN));
    set_addresses("127.0.0.1");
    ck_assert_str_eq(answering(port), "1");
    set_addresses("");
    turn_for(0.1);
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 0);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
}

TEST(slow_client_delays_nobody)
{
    uint16_t port = open_health("127.0.0.1"), service = free_port();
    health_service(health, "a/b", FAMILY_IPV4, service, 1);
    int slow = dial(FAMILY_IPV4, port);
    say(slow, "GET /livez HT");
    turn_for(0.05);
    ck_assert_int_eq(GET(port, "/livez").status, 200);
    ck_assert_int_eq(GET(service, "/").status, 200);
    say(slow, "TP/1.1\r\nHost: node\r\n\r\n");
    ck_assert_int_eq(hear(slow, true, 5).status, 200);
    close(slow);
}

/* The next turn of the loop may be a long one. */
TEST(a_request_is_answered_in_one_turn)
{
    int clients[5];
    char answer[1024];
    uint16_t port = open_health("127.0.0.1");
    for (int i = 0; i < COUNT(clients); i++)
        clients[i] = dial(FAMILY_IPV4, port);
    for (int i = 0; i < 2; i++) { /* the second one on an open connection */
        for (int j = 0; j < COUNT(clients); j++)
            say(clients[j], "GET /livez HTTP/1.1\r\nHost: node\r\n\r\n");
        ev_run(loop, EVRUN_NOWAIT);
        for (int j = 0; j < COUNT(clients); j++)
            ck_assert_int_gt(recv(clients[j], answer, sizeof(answer), MSG_DONTWAIT), 0);
    }
    for (int i = 0; i < COUNT(clients); i++)
        close(clients[i]);
}

static uint16_t early_port; /* 0: nobody */
static int early = -1;

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog)
{
    int result = __real_listen(fd, backlog);
    if (early_port && early < 0) {
        early = dial(FAMILY_IPV4, early_port);
        say(early, "GET /livez HTTP/1.1\r\nHost: node\r\n\r\n");
    }
    return result;
}

/* What answers are made of may not be there before the loop runs. */
TEST(who_is_there_before_the_loop_waits_for_it)
{
    char answer[1024];
    struct error err = {0};
    early_port = free_port();
    char *bind_to = xasprintf("127.0.0.1:%u", early_port);
    ck_assert_int_eq(health_listen(health, bind_to, &err), 0);
    ck_assert_int_ge(early, 0);
    ck_assert_int_lt(recv(early, answer, sizeof(answer), MSG_DONTWAIT), 0);
    ck_assert_int_eq(hear(early, true, 5).status, 200);
    close(early);
    free(bind_to);
    early = -1;
    early_port = 0;
}

/* More than there are places for, and none of them gets on: the first ones make room. */
TEST(a_flood_keeps_nobody_out)
{
    int clients[200], before = count_fds(), last = COUNT(clients) - 1;
    uint16_t port = open_health("127.0.0.1"), service = free_port();
    health_service(health, "a/b", FAMILY_IPV4, service, 1);
    for (int i = 0; i <= last; i++) {
        clients[i] = dial(FAMILY_IPV4, i % 2 ? port : service);
        say(clients[i], "GET /livez HT");
        ev_run(loop, EVRUN_NOWAIT);
    }
    ck_assert_int_eq(GET(port, "/livez").status, 200);
    ck_assert_int_eq(GET(service, "/").status, 200);
    ck_assert_int_le(count_fds() - before, COUNT(clients) + 2 * 64 + 10);
    ck_assert(ends(clients[0], 1));
    ck_assert(ends(clients[1], 1));
    say(clients[last], "TP/1.1\r\nHost: node\r\n\r\n");
    ck_assert_int_eq(hear(clients[last], true, 5).status, 200);
    for (int i = 0; i <= last; i++)
        close(clients[i]);
}

static bool is_ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0 || errno != EAGAIN;
}

/* Whether they say nothing more, or a byte now and then. */
TEST(slow_clients_are_dropped)
{
    static const char *const begins[] = {
        "", "GET /livez", "GET /livez HTTP/1.1\r\nX: ", "GET /livez HTTP/1.1\r\nHost: node\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 999\r\n\r\n"};
    int clients[COUNT(begins)], left = COUNT(begins);
    uint16_t port = open_health("127.0.0.1");
    for (int i = 0; i < left; i++) {
        clients[i] = dial(FAMILY_IPV4, port);
        say(clients[i], begins[i]);
    }
    ck_assert_int_eq(hear(clients[3], true, 5).status, 200);
    double begin = clock_monotonic(), first = 0;
    while (left > 0 && clock_monotonic() < begin + 15) {
        left = 0;
        turn_for(0.2);
        for (int i = 0; i < COUNT(begins); i++)
            left += !is_ended(clients[i]);
        if (left < COUNT(begins) && first == 0)
            first = clock_monotonic() - begin;
        for (int i = 2; i < COUNT(begins); i += 2) /* headers, and a body */
            send(clients[i], "x", 1, MSG_NOSIGNAL);
    }
    ck_assert_int_eq(left, 0);
    ck_assert_msg(first > 8, "%f s", first);
    for (int i = 0; i < COUNT(begins); i++)
        close(clients[i]);
}

TEST(nothing_is_left_open)
{
    uint16_t port = open_health("127.0.0.1"), service = free_port();
    health_free(health);
    health = NULL;
    ev_run(loop, EVRUN_NOWAIT);
    int before = count_fds();
    health = health_new(loop, give_status, &now_status);
    set_addresses("127.0.0.1 127.0.0.2");
    struct error err = {0};
    char *bind_to = xasprintf("127.0.0.1:%u", port);
    ck_assert_int_eq(health_listen(health, bind_to, &err), 0);
    free(bind_to);
    health_service(health, "a/b", FAMILY_IPV4, service, 1);
    health_service(health, "a/c", FAMILY_IPV4, service, 1);
    int idle = dial(FAMILY_IPV4, service);
    turn_for(0.05);
    ck_assert_int_gt(count_fds(), before + 6);
    health_free(health);
    health = NULL;
    close(idle);
    ev_run(loop, EVRUN_NOWAIT); /* does not touch what is freed */
    ck_assert_int_eq(count_fds(), before);
    ck_assert_int_eq(dial(FAMILY_IPV4, port), -1);
    ck_assert_int_eq(dial(FAMILY_IPV4, service), -1);
}

UNIT_FIXTURE(setup, teardown)
