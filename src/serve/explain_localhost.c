/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Explains NodePorts on loopback addresses, which the daemon serves itself
 * (docs/behaviour.md 4.12). */
#include "explain.h"

#include "kube-nftd/localhost.h"

#include <string.h>

bool explain_is_localhost(const struct snapshot *now, const struct claim *claim)
{
    const struct frontend *frontend = &claim->target->frontend;
    const enum family family = (enum family)frontend->family;
    return claim->kinds == CLAIM_NODE_PORT && now->serves_localhost[family] &&
           localhost_is_address(family, &frontend->address);
}

char *explain_localhost(const struct explainer *e, const struct claim *claim, cJSON *array)
{
    const struct frontend *frontend = &claim->target->frontend;
    const struct localhost_status status =
        localhost_status(e->now->localhost, (enum family)frontend->family, frontend->port);
    const bool local = only_local_endpoints(claim->port, true);
    const size_t n = local ? e->decision.local.n : e->decision.cluster.n;
    const bool serves = n > 0 && status.state != LOCALHOST_FAILED;
    facts_add(facts_append(array), fact_text("from", "host"),
              fact_text("action", serves ? "forward" : "none"), fact_number("endpoints", n),
              fact_text("set", local ? "local" : "cluster"));
    if (status.state == LOCALHOST_FAILED)
        return xasprintf("not served, cannot listen: %s; this is tried again",
                         strerror(status.error));
    if (n == 0)
        return xasprintf("nobody listens, as no endpoint%s is ready", local ? " on this node" : "");
    return xasprintf("to %zu endpoint%s%s, by kube-nftd itself (from this node)", n,
                     n == 1 ? "" : "s", local ? " on this node" : "");
}
