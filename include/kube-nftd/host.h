/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host side of the daemon: sysctls, NodePort addresses, privileges, resource usage of this
 * process, the service manager.
 */
#ifndef KUBE_NFTD_HOST_H
#define KUBE_NFTD_HOST_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
 * @root  prefix of each path, for tests; "" for the host's /proc and /sys
 * Returns the number of failed settings.
 */
size_t conntrack_sysctls_apply(const struct conntrack_settings *settings, const char *root);

/** Whether IPv6 is available and enabled on this host (docs/behaviour.md 9.1). */
bool host_has_ipv6(void);

/*
 * Selects the addresses that serve NodePorts (docs/behaviour.md 4.7) from the setting, the host's
 * current addresses and the node's own. A pure function.
 *
 * With "primary", a family serves no NodePorts until the node's own address is known. kube-proxy
 * would serve them on every address of the family meanwhile; the difference is deliberate
 * (docs/behaviour.md 11, row 12).
 *
 * "All" IPv6 addresses exclude link-local ones (fe80::/10): every pod interface on the host has
 * one, and no client uses them for NodePorts.
 */

/* The setting nodePortAddresses. */
struct node_port_addresses {
    bool primary; /* the default: the node's own address of each family; cidrs are empty */
    cidr_vec cidrs[FAMILY_COUNT];
};

struct node_port_selection {
    address_vec addresses; /* sorted, without duplicates, no loopback addresses */
    bool all;              /* every address of the family, present or future */
};

/**
 * Fills @out, to be cleared by the caller.
 * @host  the addresses of @family on this host's interfaces, sorted, without duplicates
 * @own   the node's own address of @family; NULL: none, or not known yet
 */
void node_port_addresses_select(const struct node_port_addresses *setting, enum family family,
                                const address_vec *host, const struct address *own,
                                struct node_port_selection *out);

void node_port_selection_clear(struct node_port_selection *selection);

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
 * Notifies systemd (the protocol of sd_notify(3)): readiness, stopping, a status line, watchdog
 * keep-alives. Without a service manager all of these are no-ops.
 */

struct ev_loop;
struct service_manager;

/** Reads and unsets NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Never NULL. */
struct service_manager *service_manager_new(void);
void service_manager_free(struct service_manager *manager);

/**
 * Starts a timer on @loop that sends keep-alives at half the watchdog's timeout, until
 * service_manager_detach(); none if no watchdog is set. Logs a warning if NOTIFY_SOCKET is
 * unusable.
 */
void service_manager_attach(struct service_manager *manager, struct ev_loop *loop);
void service_manager_detach(struct service_manager *manager);

/** Sets the status line of 'systemctl status'. Characters other than printable ASCII become '?'. */
void service_manager_status(struct service_manager *manager, const char *status);

/** Reports readiness, on the first call only. */
void service_manager_ready(struct service_manager *manager, const char *status);

/** Reports that the daemon is shutting down. */
void service_manager_stopping(struct service_manager *manager, const char *status);

#endif
