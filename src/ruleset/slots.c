/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/slots.h"

#include "kube-nftd/base/alloc.h"

#include <stdlib.h>
#include <string.h>

bool slot_is_empty(const struct backend *slot)
{
    return slot->port == 0;
}

void slots_arrange(const struct backend *old, size_t n_old, const struct backend *wanted, size_t n,
                   struct backend *out)
{
    if (n == 0)
        return;
    bool *placed = xcalloc(n, sizeof(*placed));
    memset(out, 0, n * sizeof(*out));
    for (size_t i = 0; i < n_old && i < n; i++) {
        const struct backend *found =
            slot_is_empty(&old[i]) ? NULL
                                   : bsearch(&old[i], wanted, n, sizeof(*wanted), backend_compare);
        if (found && !placed[found - wanted]) {
            placed[found - wanted] = true;
            out[i] = old[i];
        }
    }
    size_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (!slot_is_empty(&out[i]))
            continue;
        while (placed[next])
            next++;
        out[i] = wanted[next++];
    }
    free(placed);
}
