/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host.h"

#include "kube-nftd/base.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- capabilities ---- */

/* Capabilities are 64 bits in two words. */
#define CAPABILITY_WORDS _LINUX_CAPABILITY_U32S_3

int privileges_keep_net_admin(struct error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[CAPABILITY_WORDS] = {{0}};
    bool changed = false;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set(err, "cannot set no_new_privs: %s", strerror(errno));
    /* The bounding set. Dropping from it needs CAP_SETPCAP; without that, no_new_privs still keeps
     * exec from gaining capabilities. */
    for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        if (i != CAP_NET_ADMIN && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
            break;
    if (syscall(SYS_capget, &header, sets) < 0)
        return error_set(err, "cannot read capabilities: %s", strerror(errno));
    for (unsigned i = 0; i < CAPABILITY_WORDS; i++) {
        uint32_t keep = i == CAP_TO_INDEX(CAP_NET_ADMIN) ? CAP_TO_MASK(CAP_NET_ADMIN) : 0;
        changed = changed || (sets[i].permitted | sets[i].effective) & ~keep || sets[i].inheritable;
        sets[i].permitted &= keep;
        sets[i].effective &= keep;
        sets[i].inheritable = 0;
    }
    /* Only when needed: an outer seccomp filter may deny capset(). */
    if (changed && syscall(SYS_capset, &header, sets) < 0)
        return error_set(err, "cannot drop capabilities: %s", strerror(errno));
    return 0;
}

/* ---- system calls ---- */

/* A deny list: an allow list would have to follow every C library. Calls that need a dropped
 * capability are omitted, unless they have a history of kernel exploits. */
static const char *const denied_calls[] = {
    /* other programs */
    "execve", "execveat", "fork", "vfork",
    /* other processes */
    "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp",
    /* mounts and namespaces, and files outside of them */
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree",
    "mount_setattr", "fsopen", "fsconfig", "fsmount", "fspick", "setns", "unshare",
    "open_by_handle_at",
    /* kernel code: modules, kexec, bpf */
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "bpf",
    /* unneeded, and common entry points of kernel exploits */
    "userfaultfd", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "add_key", "request_key", "keyctl"};

static int deny(scmp_filter_ctx filter, const char *name)
{
    int call = seccomp_syscall_resolve_name(name);
    return call == __NR_SCMP_ERROR ? 0 /* newer than the library */
                                   : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);
}

static int deny_calls(scmp_filter_ctx filter)
{
    int result = 0;
    for (size_t i = 0; i < sizeof(denied_calls) / sizeof(denied_calls[0]) && result == 0; i++)
        result = deny(filter, denied_calls[i]);
    return result;
}

static int deny_sockets(scmp_filter_ctx filter, enum scmp_compare how, int family)
{
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                            SCMP_A0(how, (scmp_datum_t)family, 0));
}

/* Denies all families but AF_UNIX (systemd, name services), AF_INET, AF_INET6 and AF_NETLINK. A
 * rule can compare an argument only once, so each family gets its own. */
static int deny_families(scmp_filter_ctx filter)
{
    int result = deny_sockets(filter, SCMP_CMP_GE, AF_MAX);
    for (int family = 0; family < AF_MAX && result == 0; family++)
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
            result = deny_sockets(filter, SCMP_CMP_EQ, family);
    return result;
}

/* Allows threads (libcurl resolves names in one) but no processes. Filters cannot see the flags of
 * clone3, so it returns ENOSYS and the C library falls back to clone. Sanitizer builds skip this:
 * their leak checker is a process that traces this one. */
static int deny_processes(scmp_filter_ctx filter)
{
#ifdef KUBE_NFTD_SANITIZED
    (void)filter;
    return 0;
#else
#ifdef __s390__
    const struct scmp_arg_cmp no_thread = SCMP_A1(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0);
#else
    const struct scmp_arg_cmp no_thread = SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0);
#endif
    int result = deny(filter, "ptrace");
    if (result == 0)
        result =
            seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, &no_thread);
    return result ? result : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
#endif
}

int privileges_filter_calls(struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    /* Deny foreign ABIs, whose calls the list does not match. */
    int result =
        filter ? seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM)) : -ENOMEM;
    if (result == 0) {
        /* Cover existing threads, and log denials. Both need seccomp(), which an outer filter may
         * deny; failure is harmless. */
        seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
        seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1);
        result = deny_calls(filter);
    }
    result = result ? result : deny_families(filter);
    result = result ? result : deny_processes(filter);
    result = result ? result : seccomp_load(filter); /* sets no_new_privs: needs no capability */
    seccomp_release(filter);
    return result ? error_set(err, "cannot filter system calls: %s", strerror(-result)) : 0;
}

void privileges_drop(void)
{
    struct error err = {0};
    if (privileges_keep_net_admin(&err))
        log_warn("host", "more privileges remain than needed: %s", err.text);
    if (privileges_filter_calls(&err))
        log_warn("host", "more privileges remain than needed: %s", err.text);
    error_clear(&err);
}
