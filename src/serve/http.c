/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libmicrohttpd on libev. The library has its own epoll set; the loop watches that set's descriptor
 * and has one timer for its next timeout. Nothing here blocks: a slow client occupies a connection
 * slot for a while, but no time of the loop.
 */
#include "http.h"

#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

/* Timeout in seconds for the headers of a request, then again for its body and the answer. */
#define CLIENT_PATIENCE 10.0

#define BACKLOG 128
/* Descriptors that health checks of Services leave: to all else, and to their clients. */
#define RESERVED 64
#define RESERVED_FOR_CLIENTS 64
#define CONNECTION_LIMIT 64
#define CONNECTION_MEMORY ((size_t)16 * 1024)
#define REQUEST_BODY_LIMIT ((size_t)1024 * 1024)
#define STREAM_BLOCK ((size_t)64 * 1024)

struct http_client {
    struct http_client *prev, *next; /* in the list unless ended */
    double since;                    /* time of its last progress; clock_monotonic */
    int fd;
    bool ended;
};

/* ---- arguments and answers ---- */

const char *http_argument(const struct http *http, const char *name)
{
    const char *value = NULL;
    if (MHD_lookup_connection_value_n(http->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name),
                                      &value, NULL) != MHD_YES)
        return NULL;
    return value ? value : "";
}

bool http_argument_is_cut(const struct http *http, const char *name)
{
    const char *value = NULL;
    size_t length = 0;
    return MHD_lookup_connection_value_n(http->connection, MHD_GET_ARGUMENT_KIND, name,
                                         strlen(name), &value, &length) == MHD_YES &&
           value && strlen(value) != length;
}

const char *http_request_header(const struct http *http, const char *name)
{
    return MHD_lookup_connection_value(http->connection, MHD_HEADER_KIND, name);
}

static ssize_t read_stream(void *cls, uint64_t at, char *to, size_t room)
{
    const struct http *http = cls;
    (void)at;
    size_t n = http->more(http->ctx, to, room);
    return n ? (ssize_t)n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void release(void *cls)
{
    struct http *http = cls;
    if (http->end)
        http->end(http->ctx);
    vec_each (&http->headers, header)
        free(header->value);
    vec_free(&http->headers);
    free(http->text);
    free(http);
}

/* Takes @http. */
static enum MHD_Result answer_request(const struct http_port *port, struct http *http)
{
    port->answer(port->ctx, http);
    if (http->length == 0 && http->text)
        http->length = strlen(http->text);
    struct MHD_Response *response =
        alloc_check(http->more ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK,
                                                                   read_stream, http, release)
                               : MHD_create_response_from_buffer_with_free_callback_cls(
                                     http->length, http->text, release, http));
    enum MHD_Result result = MHD_YES;
    vec_each (&http->headers, header)
        if (MHD_add_response_header(response, header->name, header->value) != MHD_YES)
            result = MHD_NO;
    if (result == MHD_YES)
        result = MHD_queue_response(http->connection, http->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- connections ---- */

/*
 * A client without progress within the timeout is ended, even if it sends or reads a byte now and
 * then. If all slots are taken, the one with the oldest progress is ended. That is never a client
 * that sends a request and reads the answer at once, so slow clients cannot starve a load
 * balancer's health checks. Ending one shuts down its socket; the library then closes it.
 */

static void end_first(struct http_port *port)
{
    struct http_client *client = port->clients;
    DL_DELETE(port->clients, client);
    port->n_clients--;
    client->ended = true;
    shutdown(client->fd, SHUT_RDWR);
}

/* The client's headers have arrived, or its answer is sent. */
static void made_progress(struct http_port *port, struct MHD_Connection *connection)
{
    struct http_client *client =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (client->ended)
        return;
    DL_DELETE(port->clients, client);
    client->since = clock_monotonic();
    DL_APPEND(port->clients, client);
}

/* Whether a Service's health check must not take this descriptor, as less than @reserved are left:
 * watches, netlink and the daemon's own addresses need some. The kernel gives out the lowest free
 * one. */
static bool is_scarce(const struct http_port *port, int fd, rlim_t reserved)
{
    struct rlimit limit;
    return port->kind->object == KIND_SERVICE && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           (rlim_t)fd + reserved >= limit.rlim_cur;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_port *port = cls;
    struct http_client *client = *state;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        port->closed = true;
        if (!client->ended) {
            DL_DELETE(port->clients, client);
            port->n_clients--;
        }
        free(client);
        return;
    }
    port->connected = true;
    *state = client = xcalloc(1, sizeof(*client));
    client->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    client->since = clock_monotonic();
    if (port->n_clients >= CONNECTION_LIMIT - 1)
        end_first(port);
    DL_APPEND(port->clients, client);
    port->n_clients++;
    if (is_scarce(port, client->fd, RESERVED))
        end_first(port);
}

/* ---- requests ---- */

/*
 * Called once with the headers, then for each piece of the body, then once more. The answer waits
 * for the end of the body: closing a socket with unread bytes could reset the connection before
 * the client has read the answer.
 */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **state)
{
    struct http *http = *state;
    (void)version;
    if (!http) {
        made_progress(cls, connection);
        *state = xcalloc(1, sizeof(*http));
        return MHD_YES;
    }
    if (*data_size == 0) {
        http->method = method;
        http->path = url;
        http->connection = connection;
        http->status = MHD_HTTP_OK;
        *state = NULL;
        return answer_request(cls, http);
    }
    size_t kept = http->seen < HTTP_BODY_KEPT ? http->seen : HTTP_BODY_KEPT;
    size_t room = HTTP_BODY_KEPT - kept;
    memcpy(http->body + kept, data, *data_size < room ? *data_size : room);
    http->seen += *data_size;
    *data_size = 0;
    return http->seen > REQUEST_BODY_LIMIT ? MHD_NO : MHD_YES;
}

/* On success or failure. */
static void on_completed(void *cls, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)why;
    free(*state);
    *state = NULL;
    made_progress(cls, connection);
}

/* ---- the loop ---- */

/*
 * At its connection limit the library removes the listening socket from the epoll set, and restores
 * it only at the beginning of a run. So a run that closed a connection is followed by another, or
 * new clients might wait forever. A run that accepted a connection has not read from it; another
 * run does so now, since the loop's next iteration may be long.
 */
static void run_http(struct http_port *port)
{
    port->connected = port->closed = false;
    MHD_run(port->daemon);
    if (port->connected)
        MHD_run(port->daemon);
    ev_timer_stop(port->ports->loop, &port->timer);
    double now = clock_monotonic();
    while (port->clients && port->clients->since + CLIENT_PATIENCE <= now)
        end_first(port);
    double wait = port->clients ? port->clients->since + CLIENT_PATIENCE - now : INFINITY;
    MHD_UNSIGNED_LONG_LONG milliseconds = 0;
    if (port->closed || MHD_get_timeout(port->daemon, &milliseconds) == MHD_YES)
        wait = fmin(wait, (double)milliseconds / 1e3);
    if (isinf(wait))
        return;
    ev_timer_set(&port->timer, wait, 0);
    ev_timer_start(port->ports->loop, &port->timer);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
    (void)loop;
    (void)events;
    run_http(io->data);
}

static void on_http_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    run_http(timer->data);
}

/* ---- listening ---- */

/* Opens a listening socket; -1 with an error. Not left to the library: whether it is dual-stack
 * must not depend on its defaults or on the sysctl bindv6only. */
static int open_listener(const struct listen_address *address, struct error *err)
{
    const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, on = 1;
    const int v6only = !address->both_families;
    enum family family = address->both_families ? FAMILY_IPV6 : address->family;
    struct sockaddr_storage name;
    int fd = socket(family == FAMILY_IPV6 ? AF_INET6 : AF_INET, type, 0);
    if (fd < 0 && address->both_families && errno == EAFNOSUPPORT) {
        family = FAMILY_IPV4;
        fd = socket(AF_INET, type, 0);
    }
    if (fd < 0)
        return error_set(err, "socket: %s", strerror(errno));
    const socklen_t length = socket_address(family, &address->address, address->port, &name);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        (family == FAMILY_IPV6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) < 0) ||
        bind(fd, (const struct sockaddr *)&name, length) < 0 || listen(fd, BACKLOG) < 0) {
        error_set(err, "%s", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

int http_port_start(struct http_port *port, struct error *err)
{
    int fd = open_listener(&port->address, err);
    if (fd < 0)
        return -1;
    if (is_scarce(port, fd, RESERVED + RESERVED_FOR_CLIENTS)) {
        close(fd);
        return error_set(err, "all but %d file descriptors are in use",
                         RESERVED + RESERVED_FOR_CLIENTS);
    }
    /* Tolerant: probes of balancers come without a Host header, which libmicrohttpd 1.0 rejects. */
    port->daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, port,
                                    MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                                    (unsigned)CONNECTION_LIMIT, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                    CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
                                    port, MHD_OPTION_NOTIFY_CONNECTION, on_connection, port,
                                    MHD_OPTION_STRICT_FOR_CLIENT, -1, MHD_OPTION_END);
    if (!port->daemon) {
        error_set(err, "the HTTP server does not start: %s", strerror(errno));
        close(fd);
        return -1;
    }
    int epoll_fd = MHD_get_daemon_info(port->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    ev_io_init(&port->io, on_io, epoll_fd, EV_READ);
    ev_timer_init(&port->timer, on_http_timer, 0, 0);
    port->io.data = port->timer.data = port;
    ev_io_start(port->ports->loop, &port->io);
    /* The first run adds the listening socket to the epoll set. Deferred to the loop: it also
     * answers clients, and the data for that may not exist yet. */
    ev_timer_start(port->ports->loop, &port->timer);
    return 0;
}

void http_port_stop(struct http_port *port)
{
    ev_io_stop(port->ports->loop, &port->io);
    ev_timer_stop(port->ports->loop, &port->timer);
    MHD_stop_daemon(port->daemon); /* closes the sockets, the listening one too */
}
