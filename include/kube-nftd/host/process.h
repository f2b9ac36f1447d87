/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Gives up, for the rest of this process's life, what a running daemon has no use for. Whoever
 * takes it over by a fault in it is left with what it does anyway. docs/operating.md lists what
 * stays and what is refused.
 */
#ifndef KUBE_NFTD_HOST_PROCESS_H
#define KUBE_NFTD_HOST_PROCESS_H

#include "kube-nftd/base/error.h"

/**
 * Keeps CAP_NET_ADMIN (if it is there) and no other capability, and no way to get one by starting a
 * program. -1 with an error if the kernel does not let us.
 */
int least_power_keep_net_admin(struct error *err);

/**
 * From now on the kernel refuses (EPERM) system calls that start programs, make or look into
 * processes, mount, enter namespaces, put code into the kernel, or open sockets of families that
 * are not needed here; in all threads, for good. Needs no capability. -1 with an error if the
 * kernel has no such filters.
 */
int least_power_filter_calls(struct error *err);

/** Both; what does not work gets a warning. Before the first byte of others is read. */
void least_power_apply(void);

/**
 * How eagerly the kernel ends this process when memory is short: writes @desired (-1000 to 1000) to
 * /proc/self/oom_score_adj if it has another value. To lower it takes CAP_SYS_RESOURCE, so failure
 * is only logged: as debug output if the present value is negative, as a runtime sets it for
 * critical pods.
 * @root  before the path, for tests; "" for the host's own /proc
 */
void oom_score_adjust(int desired, const char *root);

#endif
