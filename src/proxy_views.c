/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What others may know of the proxy: health, status, figures, explanations. It changes nothing. */
#include "kube-nftd/base/clock.h"
#include "kube-nftd/policy/claims.h"
#include "kube-nftd/policy/decision.h"
#include "kube-nftd/proxy_parts.h"

#include <string.h>

bool proxy_is_synced(const struct proxy *proxy)
{
    return proxy->complete[KIND_SERVICE] && proxy->complete[KIND_ENDPOINTSLICE];
}

struct uid proxy_service_uid(const struct proxy *proxy, const char *id)
{
    static const struct uid unknown;
    const struct service *service = service_cache_get(proxy->services, id);
    return service ? service->uid : unknown;
}

bool proxy_is_programmed(const struct proxy *proxy)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (proxy->families[i].ruleset && !proxy->families[i].programmed)
            return false;
    return true;
}

size_t proxy_refused(const struct proxy *proxy)
{
    size_t refused = 0;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (!proxy->families[i].ruleset)
            continue;
        const struct ruleset_figures *figures = ruleset_figures(proxy->families[i].ruleset);
        refused += figures->refused + figures->left_out;
    }
    return refused;
}

/* Whether the kernel refused a frontend that @port has. */
static bool port_is_refused(const struct ruleset *ruleset, const struct port_state *port)
{
    for (const struct claim *claim = port->claims; claim; claim = claim->next_of_port)
        if (claim->target->winner == port && ruleset_is_refused(ruleset, &claim->target->frontend))
            return true;
    return false;
}

static bool is_refused(const void *ctx, const char *service_id, enum family family)
{
    const struct proxy *proxy = ctx;
    const struct service_state *service = policy_find_service(proxy->policy, service_id);
    const struct port_state *port = service ? service->ports : NULL;
    for (; port; port = port->next)
        if (port->family == family && port_is_refused(proxy->families[family].ruleset, port))
            return true;
    return false;
}

struct programmed proxy_programmed(const struct proxy *proxy)
{
    struct programmed facts = {.services = proxy->services,
                               .slices = proxy->slices,
                               .complete = proxy_is_synced(proxy),
                               .refused = is_refused,
                               .ctx = proxy};
    for (int i = 0; i < FAMILY_COUNT; i++) {
        facts.families[i] = proxy->families[i].ruleset != NULL;
        facts.lost[i] = facts.families[i] && ruleset_is_lost(proxy->families[i].ruleset);
    }
    return facts;
}

void proxy_explain_sources(const struct proxy *proxy, struct explain_sources *sources)
{
    *sources = (struct explain_sources){.complete = proxy_is_synced(proxy),
                                        .node_name = proxy->node_name,
                                        .slices = proxy->slices,
                                        .service_cidrs = proxy->service_cidrs,
                                        .services = proxy->services,
                                        .policy = proxy->policy,
                                        .health = proxy->health,
                                        .no_external_ips = proxy->no_external_ips};
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct family_table *family = &proxy->families[i];
        sources->family[i].ruleset = family->ruleset;
        sources->family[i].programmed = family->programmed;
        sources->family[i].waiting = family_table_waiting(family, clock_monotonic());
        sources->family[i].failure = family_table_is_in_force(family) ? NULL : family->said;
        if (family_table_is_overdue(family, clock_monotonic()))
            sources->unhealthy = true;
    }
}

static void family_figures(const struct proxy *proxy, enum family which,
                           struct proxy_figures *figures)
{
    const struct family_table *family = &proxy->families[which];
    if (!family->ruleset)
        return;
    figures->family[which].in_use = true;
    figures->family[which].frontends = ruleset_frontends(family->ruleset);
    figures->family[which].syncs = &family->syncs;
    figures->family[which].repairs = family->guard.repairs;
    figures->family[which].drift = family->guard.drift;
    figures->family[which].table = ruleset_figures(family->ruleset);
    figures->service_changes += service_cache_changes(proxy->services).seen;
    figures->slice_changes += endpoint_slice_cache_changes(proxy->slices).seen[which];
}

void proxy_figures(const struct proxy *proxy, struct proxy_figures *figures)
{
    memset(figures, 0, sizeof(*figures));
    figures->external_ips = !proxy->no_external_ips;
    figures->audits = proxy->audits;
    figures->conflicts = policy_conflicts(proxy->policy);
    figures->reserved = policy_reserved(proxy->policy);
    figures->services = service_cache_count(proxy->services);
    figures->slices = endpoint_slice_cache_count(proxy->slices);
    figures->services_pending = service_cache_changes(proxy->services).pending;
    figures->slices_pending = endpoint_slice_cache_changes(proxy->slices).pending;
    memcpy(figures->left_out, proxy->left_out, sizeof(figures->left_out));
    for (int i = 0; i < FAMILY_COUNT; i++)
        family_figures(proxy, (enum family)i, figures);
}

void proxy_status(const struct proxy *proxy, struct daemon_status *status)
{
    double now = clock_monotonic();
    status->zone = policy_surroundings(proxy->policy)->location.zone;
    status->conflicts = policy_conflicts(proxy->policy);
    status->reserved = policy_reserved(proxy->policy);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        status->unreadable += proxy->left_out[kind];
    status->complete = proxy_is_synced(proxy);
    status->services = service_cache_count(proxy->services);
    status->slices = endpoint_slice_cache_count(proxy->slices);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct family_table *family = &proxy->families[i];
        if (!family->ruleset)
            continue;
        status->family[i].in_use = true;
        status->family[i].programmed = family->programmed;
        status->family[i].last_success = family->syncs.last_success;
        status->family[i].waiting = family_table_waiting(family, now);
        status->family[i].frontends = ruleset_frontends(family->ruleset);
        status->family[i].refused =
            ruleset_figures(family->ruleset)->refused + ruleset_figures(family->ruleset)->left_out;
        status->family[i].lost = ruleset_is_lost(family->ruleset);
        status->family[i].failure = family_table_is_in_force(family) ? NULL : family->said;
        status->family[i].last_seconds = family->syncs.last_seconds;
        status->family[i].transactions = family->syncs.transactions;
        status->family[i].repairs = family->guard.repairs;
        status->family[i].drift = family->guard.drift;
    }
}

void proxy_health_status(void *ctx, struct health_status *status)
{
    const struct proxy *proxy = ctx;
    double now = clock_monotonic();
    memset(status, 0, sizeof(*status));
    status->programmed = proxy_is_programmed(proxy);
    status->node_eligible =
        own_node_is_seen(proxy->node) ? !own_node_is_leaving(proxy->node) : !proxy->node_required;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct family_table *family = &proxy->families[i];
        status->family[i].reported = family->ruleset != NULL;
        status->family[i].healthy = !family_table_is_overdue(family, now);
        status->family[i].last_updated = family->last_updated;
    }
}
