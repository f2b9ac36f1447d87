/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "namespaces.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
                  strerror(errno));
    close(fd);
}

void enter_user_namespace(int more)
{
    char uids[64], gids[64];
    snprintf(uids, sizeof(uids), "0 %u 1\n", getuid());
    snprintf(gids, sizeof(gids), "0 %u 1\n", getgid());
    if (unshare(CLONE_NEWUSER | more) < 0)
        ck_abort_msg("this test needs user namespaces and a network namespace, and the kernel "
                     "refuses them: %s (see user.max_user_namespaces and "
                     "kernel.unprivileged_userns_clone)",
                     strerror(errno));
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", uids);
    write_file("/proc/self/gid_map", gids);
}

void enter_namespaces(void)
{
    enter_user_namespace(CLONE_NEWNET);
}

void enter_network(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    enter_namespaces();
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_msg(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0, "lo: %s", strerror(errno));
    close(fd);
}
