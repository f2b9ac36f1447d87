/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The health servers over real sockets, step by step in cases/health. */
#include "http_script.h"
#include "objects.h"
#include "serve/pages.h"

#include <sys/syscall.h>

static struct server *server;
static struct health *health; /* of the server */
static struct snapshot state;

static void read_state(void *ctx, struct snapshot *now)
{
    ck_assert_ptr_eq(ctx, &state);
    *now = state;
}

static bool show_events;

static void on_event(void *ctx, const struct object_event *event)
{
    if (show_events)
        fprintf(script_out(), "event %s\n", event->reason);
}

static const struct event_sink events = {.report = on_event};

static void open_server(void)
{
    server = server_new(&(struct server_config){
        .loop = loop, .node_name = "node-a", .events = &events, .read = read_state, .ctx = &state});
    health = server_health(server);
}

static void setup(void)
{
    state = (struct snapshot){.node_eligible = true};
    for (int f = 0; f < FAMILY_COUNT; f++) {
        state.family[f].in_use = true;
        state.family[f].last_updated = 1000 + f;
    }
    begin_ports();
    show_events = false;
    script_show_log(LOG_LEVEL_INFO);
    loop = ev_loop_new(EVFLAG_AUTO);
    open_server();
    for (int f = 0; f < FAMILY_COUNT; f++)
        health_set_addresses(health, (enum family)f, true, NULL, 0);
}

static void teardown(void)
{
    server_free(server);
    ev_loop_destroy(loop);
}

static uint16_t open_health(const char *host)
{
    struct error err = {0};
    uint16_t port = free_port();
    char *bind_to = xasprintf("%s:%u", host, port);
    ck_assert_int_eq(server_listen(server, ADDRESS_HEALTH, bind_to, &err), 0);
    free(bind_to);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
    return port;
}

/* ---- cases ---- */

/* "HOST:PORT", of a letter or not; or why that is none. */
COMMAND(listen)
{
    struct error err = {0};
    size_t length = strlen(words);
    bool is_letter = length > 0 && words[length - 1] >= 'A' && words[length - 1] <= 'Z';
    char *bind_to = is_letter
                        ? xasprintf("%.*s%u", (int)length - 1, words, port_of(words[length - 1]))
                        : xstrdup(words);
    if (server_listen(server, ADDRESS_HEALTH, bind_to, &err) != 0)
        fprintf(out, "%s\n", err.text);
    error_clear(&err);
    free(bind_to);
}

/* "FAMILIES": + healthy, - unhealthy, . not reported; "eligible" or "not-eligible", "programmed".
 */
COMMAND(status)
{
    const char *families = script_word(&words);
    state.overdue = false;
    for (int f = 0; f < FAMILY_COUNT; f++) {
        state.family[f].in_use = families[f] != '.';
        state.family[f].overdue = families[f] == '-';
        state.overdue |= state.family[f].overdue;
    }
    state.node_eligible = !strstr(words, "not-eligible");
    state.programmed = strstr(words, "programmed");
}

/* "a/b IPv4 PORT N": so many endpoints of it are ready here; port "-": it is checked no more. Of
 * the id, "_" is a quote and "^" a line's end. More Services of the family may follow. */
COMMAND(service)
{
    VEC(struct health_check) checks = {0};
    enum family family = FAMILY_IPV4;
    for (char *id; *(id = script_word(&words));) {
        family = strcmp(script_word(&words), "IPv6") == 0 ? FAMILY_IPV6 : FAMILY_IPV4;
        const char *port = script_word(&words);
        for (char *c = id; *c; c++)
            *c = *c == '_' ? '"' : *c == '^' ? '\n' : *c;
        vec_push(&checks, ((struct health_check){id, *port == '-' ? 0 : port_of(*port),
                                                 (size_t)atoi(script_word(&words))}));
    }
    health_set_checks(health, family, checks.v, checks.n);
    vec_free(&checks);
}

/* Where services listen, of IPv4; "all": everywhere. */
COMMAND(addresses)
{
    address_vec addresses = {0};
    enum family family;
    bool all = strcmp(words, "all") == 0;
    each_word(all ? "" : words, word) vec_push(&addresses, make_address(word, &family));
    health_set_addresses(health, FAMILY_IPV4, all, addresses.v, addresses.n);
    vec_free(&addresses);
}

/* Which of 127.0.0.1 to 127.0.0.4 answer at these ports: their last numbers. */
COMMAND(answering)
{
    for (char *word; *(word = script_word(&words));) {
        bool any = false;
        for (char i = '1'; i <= '4'; i++) {
            char host[] = "127.0.0.0";
            host[8] = i;
            if (ask_at(host, port_of(*word), "GET", "/").status != 200)
                continue;
            fputc(i, out);
            any = true;
        }
        fprintf(out, "%s%s", any ? "" : "nowhere", *words ? " " : "\n");
    }
}

COMMAND(end)
{
    server_free(server);
    server = NULL;
    ev_run(loop, EVRUN_NOWAIT); /* does not touch what is freed */
}

/* A server without addresses for health checks, except those of IPv6 if that is the word. */
COMMAND(begin)
{
    server_free(server);
    open_server();
    if (strcmp(words, "IPv6") == 0)
        health_set_addresses(health, FAMILY_IPV6, true, NULL, 0);
}

COMMAND(counts)
{
    struct health_counts counted = server->counts;
    fprintf(out, "healthz %d good %d bad, livez %d good %d bad\n", (int)counted.healthz.good,
            (int)counted.healthz.bad, (int)counted.livez.good, (int)counted.livez.bad);
}

COMMAND(events)
{
    show_events = true;
}

/* Those of IPv6 are at the end. */
TESTS(cases, script_cases("health") - (have_ipv6() ? 0 : 1))
{
    script_run("health", _i);
}

/* ---- what is much, or slow ---- */

TEST(endless_body_is_cut_off)
{
    static char block[16384];
    uint16_t port = open_health("127.0.0.1");
    int fd = dial(port);
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

TEST(too_long_headers_are_rejected)
{
    uint16_t port = open_health("127.0.0.1");
    int fd = dial(port);
    char *text = xasprintf("GET /livez HTTP/1.1\r\nHost: node\r\nX: %0*d\r\n\r\n", 40000, 0);
    say(fd, text);
    free(text);
    int status = hear(fd, true, 5).status;
    ck_assert_msg(status == 0 || status == 431, "%d", status);
    close(fd);
    ck_assert_int_eq(GET(port, "/livez").status, 200);
}

static char early; /* who connects as soon as there is a listener; 0: nobody */

/* In place of the C library's. */
int listen(int fd, int backlog)
{
    int result = (int)syscall(SYS_listen, fd, backlog);
    if (early) {
        *connection(&early) = dial(port_of('A'));
        say(*connection(&early), "GET /livez HTTP/1.1\r\nHost: node\r\n\r\n");
    }
    early = 0;
    return result;
}

COMMAND(early)
{
    port_of('A'); /* it takes a listener to find one that is free */
    early = *words;
}

/* A turn of the loop, and who of these has something to hear then. */
COMMAND(once)
{
    ev_run(loop, EVRUN_NOWAIT);
    for (char *name; *(name = script_word(&words));) {
        char answer[1024];
        bool any = recv(*connection(name), answer, sizeof(answer), MSG_DONTWAIT) > 0;
        fprintf(out, "%s%s", any ? "yes" : "no", *words ? " " : "\n");
    }
}

/* Whether this one has something to hear before any turn. */
COMMAND(silent)
{
    char answer[1024];
    ck_assert_int_lt(recv(*connection(words), answer, sizeof(answer), MSG_DONTWAIT), 0);
}

/* More than there are places for, and none of them gets on: the first ones make room. */
TEST(a_flood_keeps_nobody_out)
{
    int clients[200], before = count_fds(), last = COUNT(clients) - 1;
    uint16_t port = open_health("127.0.0.1"), service = free_port();
    health_set_checks(health, FAMILY_IPV4, &(struct health_check){"a/b", service, 1}, 1);
    for (int i = 0; i <= last; i++) {
        clients[i] = dial(i % 2 ? port : service);
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
        clients[i] = dial(port);
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

UNIT_FIXTURE(setup, teardown)
