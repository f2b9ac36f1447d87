/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The settings of conntrack that kube-proxy makes once at start (docs/behaviour.md 5.2); but a
 * limit that is only a default never lowers a larger one of the host. */
#ifndef KUBE_NFTD_HOST_CONNTRACK_SYSCTLS_H
#define KUBE_NFTD_HOST_CONNTRACK_SYSCTLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
