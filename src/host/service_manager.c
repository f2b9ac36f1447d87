/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Connects to @text, the value of NOTIFY_SOCKET; a leading "@" means an abstract address. -1 with
 * errno. */
static int open_notify_socket(const char *text)
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

/* Parses @text; 0 if it is not a number. */
static unsigned long long number_of(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    return isdigit((unsigned char)*text) && *end == '\0' && errno == 0 ? number : 0;
}

void service_manager_open(struct service_manager *manager)
{
    const char *address = getenv("NOTIFY_SOCKET"), *pid = getenv("WATCHDOG_PID");
    const char *microseconds = getenv("WATCHDOG_USEC");
    *manager = (struct service_manager){.socket = address ? open_notify_socket(address) : -1};
    if (address && manager->socket < 0)
        manager->error =
            xasprintf("NOTIFY_SOCKET=%s cannot be used, so readiness is not reported: %s", address,
                      strerror(errno));
    bool is_ours = !pid || number_of(pid) == (unsigned long long)getpid();
    if (manager->socket >= 0 && is_ours && microseconds)
        manager->keep_alive = (double)number_of(microseconds) / 1e6 / 2;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void service_manager_close(struct service_manager *manager)
{
    if (manager->socket >= 0)
        close(manager->socket);
    free(manager->error);
}

void service_manager_notify(const struct service_manager *manager, const char *assignment,
                            const char *status)
{
    char *text = xasprintf("%s%s%s", assignment, status ? "STATUS=" : "", status ? status : "");
    for (char *at = text + strlen(assignment); *at; at++)
        if (*at < ' ' || *at > '~') /* a newline would begin another assignment */
            *at = '?';
    if (manager->socket >= 0 && send(manager->socket, text, strlen(text), MSG_NOSIGNAL) < 0)
        log_debug(1, "host", "cannot notify the service manager: %s", strerror(errno));
    free(text);
}
