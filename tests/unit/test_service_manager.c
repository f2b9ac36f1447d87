/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Against a socket of the test, as systemd has one: tests/unit/cases/service_manager. */
#include "kube-nftd/host.h"

#include "script.h"

#include <errno.h>
#include <ev.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct ev_loop *loop;
static struct service_manager *manager;
static int manager_socket = -1;
static char *path; /* of the socket, or NULL */

static void setup(void)
{
    loop = ev_loop_new(EVFLAG_AUTO);
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
    service_manager_free(manager);
    manager = NULL;
    hang_up();
    ev_loop_destroy(loop);
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

COMMAND(new)
{
    service_manager_free(manager);
    manager = service_manager_new();
    if (strcmp(words, "detached") != 0)
        service_manager_attach(manager, loop);
}

COMMAND(attach)
{
    service_manager_attach(manager, loop);
}

COMMAND(detach)
{
    service_manager_detach(manager);
}

COMMAND(status)
{
    service_manager_status(manager, words);
}

COMMAND(ready)
{
    service_manager_ready(manager, words);
}

COMMAND(stopping)
{
    service_manager_stopping(manager, words);
}

/* What came, and how many warnings there are. */
COMMAND(got)
{
    char text[1000];
    for (ssize_t n; (n = recv(manager_socket, text, sizeof(text), 0)) >= 0;)
        fprintf(out, "%.*s\n", (int)n, text);
    ck_assert(manager_socket < 0 || errno == EAGAIN);
    if (logged(LOG_LEVEL_WARN))
        fprintf(out, "%u warnings\n", logged(LOG_LEVEL_WARN));
    forget_logged();
}

/* Nothing is waited for: the loop returns at once. */
COMMAND(idle)
{
    ck_assert_uint_eq(ev_pending_count(loop), 0);
    ck_assert_int_eq(ev_run(loop, 0), 0);
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

static void expect(const char *expected)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    run_got(NULL, out);
    fclose(out);
    ck_assert_str_eq(text, expected);
    free(text);
}

/* A reason may quote what others wrote, which must not become another assignment. */
TEST(status_is_one_line)
{
    listen_at_path();
    run_new((char[]){"detached"}, NULL);
    service_manager_status(manager, "/x\nMAINPID=1: no \xc3\xa4\x7f");
    expect("STATUS=/x?MAINPID=1: no ???\n");
}

/* ---- the watchdog ---- */

TEST(signs_of_life)
{
    listen_at_path();
    setenv("WATCHDOG_USEC", "200000", 1);
    run_env((char[]){"WATCHDOG_PID self"}, NULL);
    run_new((char[]){""}, NULL);
    expect("");
    ev_tstamp began = ev_time();
    for (int i = 0; i < 3; i++) {
        ev_run(loop, EVRUN_ONCE);
        expect("WATCHDOG=1\n");
    }
    /* half of the time each, and not more often */
    ck_assert_double_ge(ev_time() - began, 0.25);
    /* a loop that does not turn says nothing */
    usleep(150000);
    expect("");
}

UNIT_FIXTURE(setup, teardown)
