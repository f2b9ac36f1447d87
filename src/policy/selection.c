/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/selection.h"

bool endpoint_is_ready(const struct endpoint *endpoint)
{
    return endpoint->flags & ENDPOINT_READY;
}

bool endpoint_is_fallback(const struct endpoint *endpoint)
{
    return !endpoint_is_ready(endpoint) && (endpoint->flags & ENDPOINT_SERVING) &&
           (endpoint->flags & ENDPOINT_TERMINATING);
}

struct selection select_endpoints(const struct endpoint *endpoints, size_t n, uint8_t *sets)
{
    bool any_ready = false;
    for (size_t i = 0; i < n; i++)
        any_ready = any_ready || endpoint_is_ready(&endpoints[i]);

    struct selection selection = {0};
    for (size_t i = 0; i < n; i++) {
        bool used =
            any_ready ? endpoint_is_ready(&endpoints[i]) : endpoint_is_fallback(&endpoints[i]);
        sets[i] = used ? SET_CLUSTER : 0;
        selection.cluster_size += used;
    }
    selection.has_any = selection.cluster_size > 0;
    return selection;
}
