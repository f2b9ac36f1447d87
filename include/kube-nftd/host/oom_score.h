/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How eagerly the kernel ends this process when memory is short. */
#ifndef KUBE_NFTD_HOST_OOM_SCORE_H
#define KUBE_NFTD_HOST_OOM_SCORE_H

/**
 * Writes @desired (-1000 to 1000) to /proc/self/oom_score_adj if it has another value. To lower it
 * takes CAP_SYS_RESOURCE, so failure is only logged: as debug output if the present value is
 * negative, as a runtime sets it for critical pods.
 * @root  before the path, for tests; "" for the host's own /proc
 */
void oom_score_adjust(int desired, const char *root);

#endif
