/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host side of the daemon: sysctls, privileges, resource usage of this process, the service
 * manager, files that others write.
 */
#ifndef KUBE_NFTD_HOST_H
#define KUBE_NFTD_HOST_H

#include "kube-nftd/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* The conntrack sysctls that kube-proxy sets at startup (docs/behaviour.md 5.2). Unlike kube-proxy,
 * a default limit never lowers a larger one of the host. */

/* Timeouts in seconds; 0 leaves the sysctl unchanged. */
struct conntrack_settings {
    uint32_t max_per_core; /* 0: nf_conntrack_max is unchanged, min is ignored */
    uint32_t min;
    uint32_t tcp_established_timeout, tcp_close_wait_timeout;
    bool tcp_be_liberal; /* false: unchanged */
    uint32_t udp_timeout, udp_stream_timeout;
    bool max_given; /* set by the user: may lower a larger limit of the host */
};

/**
 * Writes the values that differ. Failure to read or write one logs a warning with the file, the
 * desired value and the consequence; the others are still set.
 * @cpus  those online; -1: unknown
 * @root  prefix of each path, for tests; "" for the host's /proc and /sys
 * Returns the number of failed settings.
 */
size_t conntrack_sysctls_apply(const struct conntrack_settings *settings, long cpus,
                               const char *root);

/** The number in the file @path below /proc/sys/net; -1 if it cannot be read. */
long long host_net_setting(const char *path);

/** Whether IPv6 is available and enabled on this host (docs/behaviour.md 9.1). */
bool host_has_ipv6(void);

/*
 * Least privilege: the daemon irrevocably drops what it does not need, which limits an attacker
 * after a compromise. docs/operating.md lists what remains and what is denied.
 */

/**
 * Drops all capabilities but CAP_NET_ADMIN and sets no_new_privs, so that exec cannot regain any.
 * -1 with an error if the kernel denies it.
 */
int privileges_keep_net_admin(struct error *err);

/**
 * Installs a seccomp filter for all threads. It denies (EPERM) system calls that execute programs,
 * create or inspect processes, mount, enter namespaces, load code into the kernel, or open sockets
 * of unneeded families. Needs no capability. -1 with an error if the kernel lacks seccomp.
 */
int privileges_filter_calls(struct error *err);

/** Does both and logs a warning for each failure. Call it before reading any input. */
void privileges_drop(void);

/**
 * Sets /proc/self/oom_score_adj to @desired (-1000 to 1000). Lowering it needs CAP_SYS_RESOURCE, so
 * failure is only logged; at debug level if the current value is negative, as container runtimes
 * set it for critical pods.
 * @root  prefix of the path, for tests; "" for the host's /proc
 */
void oom_score_adjust(int desired, const char *root);

/* Resource usage of this process; NAN: not available. */
struct process_usage {
    double cpu_seconds;
    double resident, virtual; /* bytes of memory */
    double started;           /* seconds since the epoch */
    double descriptors, descriptor_limit;
};

void process_usage_read(struct process_usage *usage);

/*
 * Notifies systemd by the protocol of sd_notify(3). Without a service manager nothing is sent.
 */

struct service_manager {
    int socket;        /* -1: no manager, or not reachable */
    char *error;       /* why it is not reachable; owned; NULL: it is */
    double keep_alive; /* seconds between keep-alives for the watchdog; 0: none */
};

/* What to notify it of. */
#define SERVICE_STATUS ""
#define SERVICE_READY "READY=1\n"
#define SERVICE_STOPPING "STOPPING=1\n"
#define SERVICE_KEEP_ALIVE "WATCHDOG=1"

/** Reads and unsets NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. */
void service_manager_open(struct service_manager *manager);
void service_manager_close(struct service_manager *manager);

/** Sends one of these, with the line that 'systemctl status' shows; NULL: unchanged. Characters
 * other than printable ASCII become '?'. Failure is only logged: the manager is gone or busy, and
 * the next keep-alive follows soon. */
void service_manager_notify(const struct service_manager *manager, const char *assignment,
                            const char *status);

/* ---- files that others write ---- */

/**
 * Watches the file @path; returns a descriptor that is readable after events, -1 with an error. As
 * in kube-proxy (docs/behaviour.md 8.1), a replacement at the same path, such as a ConfigMap
 * update, is not noticed: whoever replaces the file restarts the daemon.
 */
int edits_open(const char *path, struct error *err);

/** Reads all events; how the file was edited, "written to" or "renamed away", or NULL. */
const char *edits_read(int fd);

/** Whether the file @path is not empty and did not change since the last call, which left its
 * status in @seen (zeroed at first): programs write files piece by piece. */
bool file_is_complete(const char *path, struct stat *seen);

#endif
