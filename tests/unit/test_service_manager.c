/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Against a socket of the test, as systemd has one. */
#include "kube-nftd/host/service_manager.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
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
static int warnings;

static void count_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)line;
    warnings += level == LOG_LEVEL_WARN;
}

static void setup(void)
{
    loop = ev_loop_new(EVFLAG_AUTO);
    warnings = 0;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    log_set_sink(count_line, NULL);
}

static void teardown(void)
{
    log_set_sink(NULL, NULL);
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

START_TEST(ready_and_stopping)
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
    ck_assert_int_eq(warnings, 0);
}
END_TEST

START_TEST(abstract_address)
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
    ck_assert_int_eq(warnings, 0);
}
END_TEST

/* A reason may quote what others wrote, which must not become another assignment. */
START_TEST(status_is_one_line)
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
END_TEST

/* Children must not speak for the daemon. */
START_TEST(environment_is_taken)
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
END_TEST

/* ---- nobody there ---- */

START_TEST(without_a_manager)
{
    setenv("WATCHDOG_USEC", "1000", 1);
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    service_manager_ready(manager, "in force");
    service_manager_stopping(manager, "ending");
    ck_assert_uint_eq(ev_pending_count(loop), 0);
    ck_assert_int_eq(ev_run(loop, 0), 0); /* returns at once: no watcher is active */
    ck_assert_int_eq(warnings, 0);
}
END_TEST

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

START_TEST(bad_address)
{
    setenv("NOTIFY_SOCKET", bad_addresses[_i], 1);
    setenv("WATCHDOG_USEC", "1000", 1);
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    service_manager_ready(manager, "in force");
    ck_assert_int_eq(warnings, 1);
    ck_assert_int_eq(ev_run(loop, 0), 0);
}
END_TEST

/* A manager that went away is no reason to end. */
START_TEST(manager_goes)
{
    listen_at_path();
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    close(manager_socket);
    manager_socket = -1;
    service_manager_ready(manager, "in force");
    ck_assert_int_eq(warnings, 0);
}
END_TEST

/* ---- the watchdog ---- */

START_TEST(signs_of_life)
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
END_TEST

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

START_TEST(no_timer)
{
    listen_at_path();
    if (no_watchdog[_i].time)
        setenv("WATCHDOG_USEC", no_watchdog[_i].time, 1);
    if (no_watchdog[_i].pid)
        setenv("WATCHDOG_PID", no_watchdog[_i].pid, 1);
    manager = service_manager_new();
    service_manager_attach(manager, loop);
    ck_assert_int_eq(ev_run(loop, 0), 0);
    expect_nothing();
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, ready_and_stopping);
    tcase_add_test(tcase, status_is_one_line);
    tcase_add_test(tcase, abstract_address);
    tcase_add_test(tcase, environment_is_taken);
    tcase_add_test(tcase, without_a_manager);
    tcase_add_loop_test(tcase, bad_address, 0, COUNT(bad_addresses));
    tcase_add_test(tcase, manager_goes);
    tcase_add_test(tcase, signs_of_life);
    tcase_add_loop_test(tcase, no_timer, 0, COUNT(no_watchdog));
}

UNIT_MAIN("service_manager", add_tests)
