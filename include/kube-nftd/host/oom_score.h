/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How eagerly the kernel ends this process when memory is short. */
#ifndef KUBE_NFTD_HOST_OOM_SCORE_H
#define KUBE_NFTD_HOST_OOM_SCORE_H

/**
 * Writes @value (-1000 to 1000) to /proc/self/oom_score_adj if it has another. What fails is only
 * logged: to lower the value takes CAP_SYS_RESOURCE.
 * @root  before the path, for tests; "" for the host's own /proc
 */
void oom_score_adjust(int value, const char *root);

#endif
