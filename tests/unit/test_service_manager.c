/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Against a socket of the test, as systemd has one. */
#include "kube-nftd/host/service_manager.h"

#include "kube-nftd/base/alloc.h"
#include "unit.h"

#include <errno.h>
#include <ev.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
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

static void teardown(void)
{
    service_manager_free(manager);
    manager = NULL;
    if (manager_socket >= 0)
        close(manager_socket);
    manager_socket = -1;
    if (path)
        unlink(path);
    free(path);
    path = NULL;
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

static void expect(const char *message)
{
    char text[1000];
    ssize_t length = recv(manager_socket, text, sizeof(text) - 1, 0);
    ck_assert_msg(length >= 0, "nothing came, not %s", message);
    text[length] = '\0';
    ck_assert_str_eq(text, message);
}

static void expect_nothing(void)
{
    char text[1000];
    ck_assert_int_eq(recv(manager_socket, text, sizeof(text), 0), -1);
    ck_assert_int_eq(errno, EAGAIN);
}

/* ---- what is said ---- */

TEST(ready_and_stopping)
{
    listen_at_path();
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    expect_nothing();
    service_manager_status(manager, "waiting");
    expect("STATUS=waiting");
    service_manager_ready(manager, "in force");
    expect("READY=1\nSTATUS=in force");
    service_manager_ready(manager, "in force");
    expect_nothing();
    service_manager_stopping(manager, "ending");
    expect("STOPPING=1\nSTATUS=ending");
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
}

TEST(abstract_address)
{
    char *name = xasprintf("@test-service-manager-%d", (int)getpid());
    setenv("NOTIFY_SOCKET", name, 1);
    name[0] = '\0';
    bind_to(name, 1 + strlen(name + 1));
    free(name);
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    service_manager_ready(manager, "in force");
    expect("READY=1\nSTATUS=in force");
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
}

/* A reason may quote what others wrote, which must not become another assignment. */
TEST(status_is_one_line)
{
    listen_at_path();
    manager = service_manager_new();
    service_manager_status(manager, "/x\nMAINPID=1: no \xc3\xa4\x7f");
    expect("STATUS=/x?MAINPID=1: no ???");
    service_manager_attach(manager, loop);
    service_manager_detach(manager);
    service_manager_status(manager, "still told");
    expect("STATUS=still told");
}

/* Children must not speak for the daemon. */
TEST(environment_is_taken)
{
    listen_at_path();
    setenv("WATCHDOG_USEC", "60000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    ck_assert_ptr_null(getenv("NOTIFY_SOCKET"));
    ck_assert_ptr_null(getenv("WATCHDOG_USEC"));
    ck_assert_ptr_null(getenv("WATCHDOG_PID"));
}

/* ---- nobody there ---- */

TEST(without_a_manager)
{
    setenv("WATCHDOG_USEC", "1000", 1);
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    service_manager_ready(manager, "in force");
    service_manager_stopping(manager, "ending");
    ck_assert_uint_eq(ev_pending_count(loop), 0);
    ck_assert_int_eq(ev_run(loop, 0), 0); /* returns at once: no watcher is active */
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
}

static const char *const bad_addresses[] = {
    "",
    "/",
    "@",
    "relative",
    "vsock:2:1234",
    "/no/such/socket",
    "/a/name/that/is/longer/than/the/address/of/a/socket/may/be/which/is/one/hundred/and/eight/"
    "bytes/"
    "with/the/NUL/at/the/end",
};

TEST_ROWS(bad_address, bad_addresses)
{
    setenv("NOTIFY_SOCKET", *row, 1);
    setenv("WATCHDOG_USEC", "1000", 1);
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    service_manager_ready(manager, "in force");
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 1);
    ck_assert_int_eq(ev_run(loop, 0), 0);
}

/* A manager that went away is no reason to end. */
TEST(manager_goes)
{
    listen_at_path();
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    close(manager_socket);
    manager_socket = -1;
    service_manager_ready(manager, "in force");
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
}

/* ---- the watchdog ---- */

TEST(signs_of_life)
{
    listen_at_path();
    char *pid = xasprintf("%d", (int)getpid());
    setenv("WATCHDOG_USEC", "200000", 1);
    setenv("WATCHDOG_PID", pid, 1);
    free(pid);
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    expect_nothing();
    ev_tstamp began = ev_time();
    for (int i = 0; i < 3; i++) {
        ev_run(loop, EVRUN_ONCE);
        expect("WATCHDOG=1");
        expect_nothing();
    }
    /* half of the time each, and not more often */
    ck_assert_double_ge(ev_time() - began, 0.25);
    /* a loop that does not turn says nothing */
    usleep(150000);
    expect_nothing();
}

static const struct {
    const char *time, *pid;
} no_watchdog[] = {
    {NULL, NULL},
    {"0", NULL},
    {"", NULL},
    {"soon", NULL},
    {"1000x", NULL},
    {"-1000", NULL},
    {"99999999999999999999999", NULL},
    {"1000", "1"},
    {"1000", ""},
    {"1000", "me"},
};

TEST_ROWS(no_timer, no_watchdog)
{
    listen_at_path();
    if (row->time)
        setenv("WATCHDOG_USEC", row->time, 1);
    if (row->pid)
        setenv("WATCHDOG_PID", row->pid, 1);
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    ck_assert_int_eq(ev_run(loop, 0), 0);
    expect_nothing();
}

UNIT_FIXTURE(setup, teardown)
