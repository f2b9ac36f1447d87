/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "http_script.h"

#include "namespaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define FEWEST_TURNS 10
#define MOST_TURNS 5000 /* of 2 ms at least */

struct ev_loop *loop;

/* ---- sockets ---- */

bool have_ipv6(void)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0;
    if (fd >= 0)
        close(fd);
    if (!have)
        printf("SKIPPED: no IPv6 here (::1 cannot be bound), the IPv6 part is not tested\n");
    return have;
}

static socklen_t socket_name(struct sockaddr_storage *out, const char *host, uint16_t port)
{
    memset(out, 0, sizeof(*out));
    if (strchr(host, ':')) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)out;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        ck_assert_int_eq(inet_pton(AF_INET6, host, &in6->sin6_addr), 1);
        return sizeof(*in6);
    }
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    ck_assert_int_eq(inet_pton(AF_INET, host, &in->sin_addr), 1);
    return sizeof(*in);
}

/* A foreign listener at an IPv4 address; @port 0 picks one, which is returned. */
static int foreign_listener_at(const char *host, uint16_t *port)
{
    struct sockaddr_storage name;
    struct sockaddr_in bound = {.sin_family = AF_INET};
    socklen_t length = socket_name(&name, host, *port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, length), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    length = sizeof(bound);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&bound, &length), 0);
    *port = ntohs(bound.sin_port);
    return fd;
}

uint16_t free_port(void)
{
    uint16_t port = 0;
    close(foreign_listener_at("0.0.0.0", &port));
    return port;
}

/* -1 if refused. */
static int dial_to(const char *host, uint16_t port)
{
    struct sockaddr_storage name;
    socklen_t length = socket_name(&name, host, port);
    int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (struct sockaddr *)&name, length) == 0)
        return fd;
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fd);
    return -1;
}

int dial(uint16_t port)
{
    return dial_to("127.0.0.1", port);
}

void say(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

void turn(int fd)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    ev_run(loop, EVRUN_NOWAIT);
    poll(&pollfd, 1, 2);
}

/* A pause of the machine takes time, but no turns. */
void turn_for(double seconds)
{
    const double end = clock_monotonic() + seconds;
    for (int turns = 0; turns < FEWEST_TURNS || clock_monotonic() < end; turns++)
        turn(-1);
}

/* ---- answers ---- */

const char *body_of(const struct reply *reply)
{
    return reply->text + reply->body;
}

const char *header(const struct reply *reply, const char *name)
{
    static char value[256];
    char *key = xasprintf("\r\n%s: ", name);
    const char *at = strcasestr(reply->text, key);
    size_t length = strlen(key);
    free(key);
    if (!at || at > body_of(reply))
        return NULL;
    snprintf(value, sizeof(value), "%.*s", (int)strcspn(at + length, "\r"), at + length);
    return value;
}

bool complete(struct reply *reply, bool with_body)
{
    const char *end = strstr(reply->text, "\r\n\r\n");
    if (!end)
        return false;
    reply->body = (size_t)(end + 4 - reply->text);
    if (!with_body)
        return true;
    const char *length = header(reply, "Content-Length");
    ck_assert_ptr_nonnull(length);
    return strlen(body_of(reply)) >= (size_t)atoi(length);
}

struct reply hear(int fd, bool with_body, double seconds)
{
    struct reply reply = {0};
    double end = clock_monotonic() + seconds;
    while (clock_monotonic() < end) {
        turn(fd);
        ssize_t n = recv(fd, reply.text + reply.length, sizeof(reply.text) - 1 - reply.length,
                         MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        reply.length += n > 0 ? (size_t)n : 0;
        if (complete(&reply, with_body)) {
            ck_assert_int_eq(sscanf(reply.text, "HTTP/1.1 %d ", &reply.status), 1);
            break;
        }
    }
    return reply;
}

bool ends(int fd, double seconds)
{
    char byte;
    for (double end = clock_monotonic() + seconds; clock_monotonic() < end;) {
        turn(fd);
        ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
        ck_assert_int_le(n, 0);
        if (n == 0 || errno != EAGAIN)
            return true;
    }
    return false;
}

struct reply ask_at(const char *host, uint16_t port, const char *method, const char *path)
{
    struct reply reply = {0};
    int fd = dial_to(host, port);
    if (fd < 0)
        return reply;
    char *text = xasprintf("%s %s HTTP/1.1\r\nHost: node\r\n\r\n", method, path);
    say(fd, text);
    free(text);
    reply = hear(fd, strcmp(method, "HEAD") != 0, 5);
    close(fd);
    return reply;
}

int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* ---- commands ---- */

static struct {
    uint16_t port;
    int foreign;
} ports_by_letter[26];

static int connections[26];

void begin_ports(void)
{
    static bool entered;
    if (!entered)
        enter_network();
    entered = true;
    memset(ports_by_letter, 0, sizeof(ports_by_letter));
}

uint16_t port_of(char letter)
{
    ck_assert_msg(letter >= 'A' && letter <= 'Z', "no port %c", letter);
    uint16_t *port = &ports_by_letter[letter - 'A'].port;
    if (*port == 0) {
        *port = free_port();
        script_name_number(*port, letter);
    }
    return *port;
}

/* Cuts the host off @place; returns the port. */
static uint16_t port_at(char *place, const char **host)
{
    char *last = place + strlen(place) - 1;
    uint16_t port = port_of(*last);
    *host = last > place ? place : "127.0.0.1";
    if (last > place)
        last[-1] = '\0';
    return port;
}

int *connection(const char *name)
{
    return &connections[*name - 'a'];
}

const char *short_type(const char *type)
{
    static const char *const types[][2] = {{"application/json", "json"},
                                           {"text/plain; charset=utf-8", "text"},
                                           {"text/plain; version=0.0.4; charset=utf-8", "metrics"}};
    for (int i = 0; type && i < COUNT(types); i++)
        if (strcmp(type, types[i][0]) == 0)
            return types[i][1];
    return type ? type : "-";
}

/* On one line, with "now" for present times; of JSON without its indents. */
static void write_line_of(FILE *out, const char *body, bool is_json)
{
    fputs(": ", out);
    for (; *body; body++) {
        if (strncmp(body, "\"20", 3) == 0 && strchr(body, 'Z')) {
            fputs("\"now\"", out);
            body = strchr(body, 'Z') + 1;
        } else if (*body == '\n') {
            fputs(is_json ? " " : "<0a>", out);
        } else if (*body != '\t') {
            fputc(*body, out);
        }
    }
    fputc('\n', out);
}

/* As it is; what does not end with a line says so. */
static void write_lines_of(FILE *out, const char *body)
{
    size_t length = strlen(body);
    fprintf(out, "\n%s%s", body, length > 0 && body[length - 1] != '\n' ? "<end>\n" : "");
}

static void write_reply(FILE *out, const struct reply *reply, bool whole)
{
    const char *weight = header(reply, "X-Load-Balancing-Endpoint-Weight");
    if (reply->status == 0) {
        fputs("nothing\n", out);
        return;
    }
    fprintf(out, "%d ", reply->status);
    if (weight) {
        fprintf(out, "weight=%s ", weight);
        ck_assert_str_eq(header(reply, "X-Content-Type-Options"), "nosniff");
    }
    const char *type = short_type(header(reply, "Content-Type"));
    fputs(type, out);
    if (whole || !*body_of(reply))
        write_lines_of(out, body_of(reply));
    else
        write_line_of(out, body_of(reply), strcmp(type, "json") == 0);
}

static struct reply ask_for(char *words, const char *method)
{
    const char *host;
    uint16_t port = port_at(script_word(&words), &host);
    return ask_at(host, port, method, words);
}

COMMAND(get)
{
    struct reply reply = ask_for(words, "GET");
    write_reply(out, &reply, false);
}

COMMAND(page)
{
    struct reply reply = ask_for(words, "GET");
    write_reply(out, &reply, true);
}

COMMAND(ask)
{
    const char *method = script_word(&words);
    struct reply reply = ask_for(words, method);
    write_reply(out, &reply, false);
}

COMMAND(code)
{
    struct reply reply = ask_for(words, "GET");
    const char *weight = header(&reply, "X-Load-Balancing-Endpoint-Weight");
    fprintf(out, "%d%s%s\n", reply.status, weight ? " weight=" : "", weight ? weight : "");
}

COMMAND(refused)
{
    const char *host;
    uint16_t port = port_at(words, &host);
    ck_assert_int_eq(dial_to(host, port), -1);
}

COMMAND(dial)
{
    int *fd = connection(script_word(&words));
    const char *host;
    uint16_t port = port_at(words, &host);
    *fd = dial_to(host, port);
    ck_assert_int_ge(*fd, 0);
    turn_for(0.02);
}

COMMAND(say)
{
    int fd = *connection(script_word(&words));
    script_bytes(words);
    say(fd, words);
    turn_for(0.02);
}

COMMAND(request)
{
    int fd = *connection(script_word(&words));
    char *text = xasprintf("GET %s HTTP/1.1\r\nHost: node\r\n\r\n", words);
    say(fd, text);
    free(text);
}

COMMAND(hear)
{
    struct reply reply = hear(*connection(words), true, 5);
    write_reply(out, &reply, false);
}

COMMAND(ends)
{
    ck_assert(ends(*connection(words), 5));
}

COMMAND(close)
{
    close(*connection(words));
}

COMMAND(foreign)
{
    char *host = strchr(words, '.');
    while (host && host > words && host[-1] != ' ')
        host--;
    for (char *word; *(word = script_word(&words)) && word != host;) {
        uint16_t port = 0;
        int at = *word - 'A';
        ports_by_letter[at].foreign = foreign_listener_at(host ? host : "0.0.0.0", &port);
        ports_by_letter[at].port = port;
        script_name_number(port, *word);
    }
}

COMMAND(leave)
{
    for (char *word; *(word = script_word(&words));)
        close(ports_by_letter[*word - 'A'].foreign);
}

/* So many more files are open than at "fds begin", or the last time. */
COMMAND(fds)
{
    static int before;
    if (!*words)
        fprintf(out, "%+d\n", count_fds() - before);
    before = count_fds();
}

COMMAND(wait)
{
    turn_for(atof(words));
}

static unsigned lines(void)
{
    return logged(LOG_LEVEL_INFO) + logged(LOG_LEVEL_WARN);
}

COMMAND(await)
{
    for (int turns = 0; lines() == 0 && turns < MOST_TURNS; turns++)
        turn(-1);
    turn_for(0);
    fprintf(out, "%u lines\n", lines());
    forget_logged();
}
