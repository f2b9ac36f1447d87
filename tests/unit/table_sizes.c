/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "table_sizes.h"

#include "fake_kernel.h"

#include <check.h>

const char *const sized[SIZED] = {"services",
                                  "ports",
                                  "local_ports",
                                  "endpoints",
                                  "local_endpoints",
                                  "rejected_ports",
                                  "dropped_ports",
                                  "affinity_timeouts",
                                  "affinity_numbers",
                                  "affinity_backends",
                                  "local_affinity_backends",
                                  "source_lists",
                                  "allowed_sources",
                                  "hairpin",
                                  "cluster_ips",
                                  "service_cidrs",
                                  "pod_cidrs"};

struct sizes sizes_now(enum family family)
{
    struct sizes sizes;
    for (size_t i = 0; i < SIZED; i++)
        sizes.v[i] = fake_kernel_size(family, sized[i]);
    return sizes;
}

void check_same_sizes(const struct sizes *a, const struct sizes *b)
{
    for (size_t i = 0; i < SIZED; i++)
        ck_assert_msg(a->v[i] == b->v[i], "%zu %s, not %zu", a->v[i], sized[i], b->v[i]);
}
