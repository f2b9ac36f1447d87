/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <errno.h>
#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct service_manager {
    int socket;           /* -1: no manager, or not reachable */
    char *error;          /* why it is not reachable; owned; NULL: it is */
    bool ready;           /* READY=1 was sent */
    double interval;      /* seconds between keep-alives; 0: no watchdog */
    struct ev_loop *loop; /* NULL: not attached */
    ev_timer watchdog;
};

/* ---- the socket ---- */

/* Connects to @text, the value of NOTIFY_SOCKET; a leading "@" means an abstract address. -1 with
 * errno. */
static int open_socket(const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(text);
    errno = EINVAL;
    if (!strchr("/@", text[0]) || length < 2 || length >= sizeof(address.sun_path))
        return -1;
    memcpy(address.sun_path, text, length);
    if (text[0] == '@')
        address.sun_path[0] = '\0';
    /* the length of an abstract address excludes the final NUL */
    length += offsetof(struct sockaddr_un, sun_path) + (text[0] == '/');
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, (socklen_t)length) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Sends @assignment, then "STATUS=@status" if it is not NULL. Failure is only logged: the manager
 * is gone or busy, and the next keep-alive follows soon. */
static void notify(const struct service_manager *manager, const char *assignment,
                   const char *status)
{
    char *text = xasprintf("%s%s%s", assignment, status ? "STATUS=" : "", status ? status : "");
    for (char *at = text + strlen(assignment); *at; at++)
        if (*at < ' ' || *at > '~') /* a newline would begin another assignment */
            *at = '?';
    if (manager->socket >= 0 && send(manager->socket, text, strlen(text), MSG_NOSIGNAL) < 0)
        log_debug(1, "service-manager", "cannot send a notification: %s", strerror(errno));
    free(text);
}

/* ---- the watchdog ---- */

static void on_watchdog(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    notify(timer->data, "WATCHDOG=1", NULL);
}

/* Parses @text; 0 if it is not a number. */
static unsigned long long number_of(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    return isdigit((unsigned char)*text) && *end == '\0' && errno == 0 ? number : 0;
}

/* Seconds between keep-alives; 0: this process has no watchdog. */
static double watchdog_interval(void)
{
    const char *pid = getenv("WATCHDOG_PID"), *microseconds = getenv("WATCHDOG_USEC");
    bool is_ours = !pid || number_of(pid) == (unsigned long long)getpid();
    return is_ours && microseconds ? (double)number_of(microseconds) / 1e6 / 2 : 0;
}

/* ---- making and freeing ---- */

struct service_manager *service_manager_new(void)
{
    struct service_manager *manager = xcalloc(1, sizeof(*manager));
    const char *address = getenv("NOTIFY_SOCKET");
    manager->interval = watchdog_interval();
    manager->socket = address ? open_socket(address) : -1;
    if (address && manager->socket < 0)
        manager->error =
            xasprintf("NOTIFY_SOCKET=%s cannot be used, so readiness is not reported: %s", address,
                      strerror(errno));
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return manager;
}

void service_manager_free(struct service_manager *manager)
{
    if (!manager)
        return;
    service_manager_detach(manager);
    if (manager->socket >= 0)
        close(manager->socket);
    free(manager->error);
    free(manager);
}

void service_manager_attach(struct service_manager *manager, struct ev_loop *loop)
{
    manager->loop = loop;
    if (manager->error)
        log_warn("service-manager", "%s", manager->error);
    if (manager->socket < 0 || manager->interval <= 0)
        return;
    ev_now_update(loop); /* startup may have taken long */
    ev_timer_init(&manager->watchdog, on_watchdog, manager->interval, manager->interval);
    manager->watchdog.data = manager;
    ev_timer_start(loop, &manager->watchdog);
}

void service_manager_detach(struct service_manager *manager)
{
    if (manager->loop)
        ev_timer_stop(manager->loop, &manager->watchdog);
    manager->loop = NULL;
}

void service_manager_status(struct service_manager *manager, const char *status)
{
    notify(manager, "", status);
}

void service_manager_ready(struct service_manager *manager, const char *status)
{
    if (manager->ready)
        return;
    manager->ready = true;
    notify(manager, "READY=1\n", status);
}

void service_manager_stopping(struct service_manager *manager, const char *status)
{
    notify(manager, "STOPPING=1\n", status);
}
