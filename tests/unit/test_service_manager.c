/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Against a socket of the test, as systemd has one: tests/unit/cases/service_manager. */
#include "kube-nftd/host.h"

#include "script.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct service_manager manager = {.socket = -1};
static int manager_socket = -1;
static char *path; /* of the socket, or NULL */

static void setup(void)
{
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static void hang_up(void)
{
    if (manager_socket >= 0)
        close(manager_socket);
    manager_socket = -1;
    if (path)
        unlink(path);
    free(path);
    path = NULL;
}

static void teardown(void)
{
    service_manager_close(&manager);
    manager = (struct service_manager){.socket = -1};
    hang_up();
}

static void bind_to(const char *name, size_t length)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ck_assert_uint_le(length, sizeof(address.sun_path));
    memcpy(address.sun_path, name, length);
    manager_socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(manager_socket, 0);
    ck_assert_int_eq(bind(manager_socket, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                     0);
}

/* A socket with a name in the file system. */
static void listen_at_path(void)
{
    path = xasprintf("/tmp/test-service-manager-%d", (int)getpid());
    unlink(path);
    bind_to(path, strlen(path) + 1);
    setenv("NOTIFY_SOCKET", path, 1);
}

/* ---- commands ---- */

/* listen, and "abstract": a socket without a name in the file system. */
COMMAND(listen)
{
    hang_up();
    if (!*words) {
        listen_at_path();
        return;
    }
    char *name = xasprintf("@test-service-manager-%d", (int)getpid());
    setenv("NOTIFY_SOCKET", name, 1);
    name[0] = '\0';
    bind_to(name, 1 + strlen(name + 1));
    free(name);
}

/* env NAME VALUE; "self" stands for our process. */
COMMAND(env)
{
    const char *name = script_word(&words);
    char *pid = xasprintf("%d", (int)getpid());
    setenv(name, strcmp(words, "self") == 0 ? pid : words, 1);
    free(pid);
}

/* Writes the seconds between keep-alives, or the error. */
COMMAND(open)
{
    service_manager_close(&manager);
    service_manager_open(&manager);
    if (manager.keep_alive > 0)
        fprintf(out, "keep-alive %g\n", manager.keep_alive);
    if (manager.error)
        fprintf(out, "%s\n", manager.error);
}

COMMAND(status)
{
    service_manager_notify(&manager, SERVICE_STATUS, words);
}

COMMAND(ready)
{
    service_manager_notify(&manager, SERVICE_READY, words);
}

COMMAND(stopping)
{
    service_manager_notify(&manager, SERVICE_STOPPING, words);
}

COMMAND(keep_alive)
{
    service_manager_notify(&manager, SERVICE_KEEP_ALIVE, NULL);
}

/* What came. */
COMMAND(got)
{
    char text[1000];
    for (ssize_t n; (n = recv(manager_socket, text, sizeof(text), 0)) >= 0;)
        fprintf(out, "%.*s\n", (int)n, text);
    ck_assert(manager_socket < 0 || errno == EAGAIN);
}

/* The manager ends. */
COMMAND(gone)
{
    hang_up();
}

/* Children must not speak for the daemon. */
COMMAND(show_env)
{
    for (const char *name; *(name = script_word(&words));)
        if (getenv(name))
            fprintf(out, "%s\n", name);
}

CASES("service_manager")

/* A reason may quote what others wrote, which must not become another assignment. */
TEST(status_is_one_line)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    listen_at_path();
    service_manager_open(&manager);
    service_manager_notify(&manager, SERVICE_STATUS, "/x\nMAINPID=1: no \xc3\xa4\x7f");
    run_got(NULL, out);
    fclose(out);
    ck_assert_str_eq(text, "STATUS=/x?MAINPID=1: no ???\n");
    free(text);
}

UNIT_FIXTURE(setup, teardown)
