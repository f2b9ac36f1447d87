/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the daemon needs of the machine it runs on: sysctls, addresses for node ports, privileges,
 * what this process uses, the service manager.
 */
#ifndef KUBE_NFTD_HOST_H
#define KUBE_NFTD_HOST_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The settings of conntrack that kube-proxy makes once at start (docs/behaviour.md 5.2); but a
 * limit that is only a default never lowers a larger one of the host. */

/* Seconds; 0 leaves a value alone. */
struct conntrack_settings {
    uint32_t max_per_core; /* 0: nf_conntrack_max is left alone, and min ignored */
    uint32_t min;
    uint32_t tcp_established_timeout, tcp_close_wait_timeout;
    bool tcp_be_liberal; /* false: left alone */
    uint32_t udp_timeout, udp_stream_timeout;
    bool max_given; /* a larger limit of the host is lowered; else it stays */
};

/**
 * Writes what differs. What cannot be read or written gets a warning that names the file, the value
 * desired and what follows from it; nothing else suffers.
 * @root  before each path, for tests; "" for the host's own /proc and /sys
 * Returns how many settings could not be made.
 */
size_t conntrack_sysctls_apply(const struct conntrack_settings *settings, const char *root);

/** Whether this host's kernel has IPv6 and it is not switched off (docs/behaviour.md 9.1). */
bool host_has_ipv6(void);

/*
 * On which addresses of this host node ports answer (docs/behaviour.md 4.7). Pure: says what
 * follows from the setting, the addresses that the host has now and the node's own ones.
 *
 * With "primary", a family of which the node's own address is not known has no node-port addresses.
 * That differs on purpose from kube-proxy, which then opens node ports on all addresses of the
 * family (docs/behaviour.md 11, row 12): what nobody asked for stays closed until the address is
 * known.
 *
 * Where all addresses of IPv6 are meant, link-local ones (fe80::/10) are not: each pod brings one
 * to its interface here, and no client has a service's node port there.
 */

/* On which addresses node ports answer (docs/behaviour.md 4.7). */
struct node_port_addresses {
    bool primary; /* the default: the node's own address of each family; no CIDRs then */
    cidr_vec cidrs[FAMILY_COUNT];
};

struct node_port_selection {
    address_vec addresses; /* sorted, without duplicates, no loopback addresses */
    bool all;              /* whatever addresses the host has */
};

/**
 * Fills in @out, which the caller clears.
 * @host  the addresses of @family on this host's interfaces, sorted, without duplicates
 * @own   the node's own address of @family; NULL if it has none or none is known
 */
void node_port_addresses_select(const struct node_port_addresses *wanted, enum family family,
                                const address_vec *host, const struct address *own,
                                struct node_port_selection *out);

void node_port_selection_clear(struct node_port_selection *selection);

/*
 * Privileges: a running daemon gives up, for good, those that it has no use for, so that whoever
 * takes it over by a fault in it is left with what it does anyway. docs/operating.md lists what
 * remains and what is refused.
 */

/**
 * Keeps CAP_NET_ADMIN (if it is there) and no other capability, and no way to get one by starting a
 * program. -1 with an error if the kernel does not let us.
 */
int privileges_keep_net_admin(struct error *err);

/**
 * From now on the kernel refuses (EPERM) system calls that start programs, make or look into
 * processes, mount, enter namespaces, put code into the kernel, or open sockets of families that
 * are not needed here; in all threads, for good. Needs no capability. -1 with an error if the
 * kernel has no such filters.
 */
int privileges_filter_calls(struct error *err);

/** Both; what does not work gets a warning. To be called before any input is read. */
void privileges_drop(void);

/**
 * How eagerly the kernel ends this process when memory is short: writes @desired (-1000 to 1000) to
 * /proc/self/oom_score_adj if it has another value. To lower it takes CAP_SYS_RESOURCE, so failure
 * is only logged: as debug output if the present value is negative, as a runtime sets it for
 * critical pods.
 * @root  before the path, for tests; "" for the host's own /proc
 */
void oom_score_adjust(int desired, const char *root);

/* What this process uses; NAN: /proc does not tell. */
struct process_usage {
    double cpu_seconds;
    double resident, virtual; /* bytes of memory */
    double started;           /* seconds since 1970 */
    double descriptors, descriptor_limit;
};

void process_usage_read(struct process_usage *usage);

/*
 * What systemd is told about this daemon (the protocol of sd_notify(3)): ready, ending, a line of
 * status, and the watchdog's messages. Without a service manager none of it costs anything.
 */

struct ev_loop;
struct service_manager;

/** Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment. Never NULL. */
struct service_manager *service_manager_new(void);
void service_manager_free(struct service_manager *manager);

/**
 * If the service manager has a watchdog on this process, it gets a message each half of that time,
 * as long as @loop turns, until service_manager_detach(); else no timer runs. If it cannot be
 * reached, that is logged.
 */
void service_manager_attach(struct service_manager *manager, struct ev_loop *loop);
void service_manager_detach(struct service_manager *manager);

/** What the daemon does now, or why it ends, for 'systemctl status'. What is no printable ASCII is
 * replaced: the text is one line. */
void service_manager_status(struct service_manager *manager, const char *status);

/** The daemon does what it is for. Said once, so it may be called each turn. */
void service_manager_ready(struct service_manager *manager, const char *status);

/** The daemon begins to end. */
void service_manager_stopping(struct service_manager *manager, const char *status);

#endif
