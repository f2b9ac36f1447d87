/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each test gives its rights up in a child process, whose exit status says what was wrong. */
#include "kube-nftd/host.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child ends with: 0, or the number of the first thing that is not so. */
static int in_child(int (*test)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(test());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The line of /proc/thread-self/status that begins with @name, behind its colon; 0 without one. */
static unsigned long long status_of(const char *name, int base)
{
    char line[256];
    unsigned long long value = 0;
    FILE *file = fopen("/proc/thread-self/status", "re");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            value = strtoull(line + strlen(name) + 1, NULL, base);
    if (file)
        fclose(file);
    return value;
}

/* ---- capabilities ---- */

static int keep_net_admin(void)
{
    const unsigned long long allowed = 1ULL << CAP_NET_ADMIN;
    struct error err = {0};
    const unsigned long long had = status_of("CapPrm", 16) & allowed;
    const unsigned long long bound =
        status_of("CapEff", 16) & 1ULL << CAP_SETPCAP ? allowed : status_of("CapBnd", 16) | allowed;
    if (privileges_keep_net_admin(&err))
        return 1;
    if (status_of("CapPrm", 16) != had || status_of("CapEff", 16) & ~had ||
        status_of("CapInh", 16) || status_of("CapAmb", 16))
        return 2;
    if (status_of("CapBnd", 16) & ~bound)
        return 3;
    if (status_of("NoNewPrivs", 10) != 1)
        return 4;
    return privileges_keep_net_admin(&err) ? 5 : 0; /* again */
}

TEST(one_capability_is_kept)
{
    ck_assert_int_eq(in_child(keep_net_admin), 0);
}

/* ---- system calls ---- */

static bool is_refused(long result)
{
    return result < 0 && errno == EPERM;
}

static int start_program(void)
{
    char *const nothing[] = {NULL};
    struct error err = {0};
    if (privileges_filter_calls(&err))
        return 1;
    if (!is_refused(execve("/bin/true", nothing, nothing)))
        return 2;
    return is_refused(syscall(SYS_execveat, AT_FDCWD, "/bin/true", nothing, nothing, 0)) ? 0 : 3;
}

TEST(no_program_is_started)
{
    ck_assert_int_eq(in_child(start_program), 0);
}

static int make_process(void)
{
    struct error err = {0};
    if (privileges_filter_calls(&err))
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (!is_refused(child))
        return 2;
    return is_refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)) ? 0 : 3;
}

/* Sanitizers find leaks by such means, so there they are left alone. */
TEST(no_process_is_made)
{
#ifndef KUBE_NFTD_SANITIZED
    ck_assert_int_eq(in_child(make_process), 0);
#else
    ck_assert_int_eq(in_child(make_process), 2);
#endif
}

/* Most of these are denied to unprivileged users anyway, but not to root. */
static int use_kernel(void)
{
    struct error err = {0};
    if (privileges_filter_calls(&err))
        return 1;
    if (!is_refused(mount("none", "/proc", "tmpfs", 0, NULL)) || !is_refused(umount2("/no", 0)))
        return 2;
    if (!is_refused(unshare(CLONE_NEWUTS)) || !is_refused(setns(-1, 0)))
        return 3;
    if (!is_refused(syscall(SYS_init_module, NULL, 0UL, "")) ||
        !is_refused(syscall(SYS_bpf, 0, NULL, 0)))
        return 4;
    return is_refused(syscall(SYS_io_uring_setup, 1, NULL)) ? 0 : 5;
}

TEST(the_kernel_is_left_alone)
{
    ck_assert_int_eq(in_child(use_kernel), 0);
}

static int open_sockets(void)
{
    static const int needed[] = {AF_UNIX, AF_INET, AF_NETLINK};
    static const int others[] = {AF_PACKET, AF_ALG, AF_VSOCK, AF_BLUETOOTH, AF_MAX, 1000, -1};
    struct error err = {0};
    if (privileges_filter_calls(&err))
        return 1;
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        int fd = socket(needed[i], SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return 2;
        close(fd);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (!is_refused(socket(others[i], SOCK_DGRAM | SOCK_CLOEXEC, 0)))
            return 10 + (int)i;
    return 0;
}

TEST(sockets_of_few_families)
{
    ck_assert_int_eq(in_child(open_sockets), 0);
}

/* ---- threads ---- */

static void *filtered_thread(void *result)
{
    char *const nothing[] = {NULL};
    *(bool *)result = status_of("Seccomp", 10) == 2 && status_of("NoNewPrivs", 10) == 1 &&
                      is_refused(execve("/bin/true", nothing, nothing));
    return NULL;
}

static int make_thread(void)
{
    pthread_t thread;
    bool good = false;
    privileges_drop();
    if (pthread_create(&thread, NULL, filtered_thread, &good) || pthread_join(thread, NULL))
        return 1;
    return good ? 0 : 2;
}

TEST(threads_can_be_made_and_are_bound)
{
    ck_assert_int_eq(in_child(make_thread), 0);
}
