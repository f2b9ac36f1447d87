/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What others may know of the proxy: health, status, figures, explanations. It changes nothing. */
#include "kube-nftd/base/clock.h"
#include "kube-nftd/policy/claims.h"
#include "kube-nftd/policy/decision.h"
#include "kube-nftd/ruleset/connections.h"
#include "proxy_state.h"

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
        if (proxy->tables[i] && !table_is_programmed(proxy->tables[i]))
            return false;
    return true;
}

size_t proxy_refused(const struct proxy *proxy)
{
    size_t refused = 0;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (!proxy->tables[i])
            continue;
        const struct ruleset_figures *figures = ruleset_figures(table_ruleset(proxy->tables[i]));
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
        if (port->family == family && port_is_refused(table_ruleset(proxy->tables[family]), port))
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
        facts.families[i] = proxy->tables[i] != NULL;
        facts.lost[i] = facts.families[i] && ruleset_is_lost(table_ruleset(proxy->tables[i]));
    }
    return facts;
}

void proxy_explain_sources(const struct proxy *proxy, struct explain_sources *sources)
{
    const double now = clock_monotonic();
    *sources = (struct explain_sources){.complete = proxy_is_synced(proxy),
                                        .node_name = proxy->node_name,
                                        .slices = proxy->slices,
                                        .service_cidrs = proxy->service_cidrs,
                                        .services = proxy->services,
                                        .policy = proxy->policy,
                                        .health = proxy->health,
                                        .no_external_ips = proxy->no_external_ips};
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct table *table = proxy->tables[i];
        struct table_view view;
        if (!table)
            continue;
        table_view(table, now, &view);
        sources->family[i].ruleset = table_ruleset(table);
        sources->family[i].programmed = table_is_programmed(table);
        sources->family[i].waiting = view.waiting;
        sources->family[i].failure = view.failure;
        sources->unhealthy = sources->unhealthy || table_is_overdue(table, now);
    }
}

static void family_figures(const struct proxy *proxy, enum family which,
                           struct proxy_figures *figures)
{
    struct table *table = proxy->tables[which];
    struct table_view view;
    if (!table)
        return;
    table_view(table, clock_monotonic(), &view);
    figures->family[which].in_use = true;
    figures->family[which].frontends = ruleset_frontends(table_ruleset(table));
    figures->family[which].syncs = table_syncs(table);
    figures->family[which].repairs = view.repairs;
    figures->family[which].drift = view.drift;
    figures->family[which].table = ruleset_figures(table_ruleset(table));
    figures->service_changes += service_cache_changes(proxy->services).seen;
    figures->slice_changes += endpoint_slice_cache_changes(proxy->slices).seen[which];
}

/* The audits of the table that has the fewest. */
static uint64_t audits_of_all(const struct proxy *proxy)
{
    uint64_t audits = UINT64_MAX;
    struct table_view view;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (!proxy->tables[i])
            continue;
        table_view(proxy->tables[i], clock_monotonic(), &view);
        audits = view.audits < audits ? view.audits : audits;
    }
    return audits == UINT64_MAX ? 0 : audits;
}

void proxy_figures(const struct proxy *proxy, struct proxy_figures *figures)
{
    memset(figures, 0, sizeof(*figures));
    figures->audits = audits_of_all(proxy);
    figures->external_ips = !proxy->no_external_ips;
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

static void family_status(struct table *table, double now, struct family_status *status)
{
    const struct ruleset *ruleset = table_ruleset(table);
    const struct ruleset_figures *figures = ruleset_figures(ruleset);
    const struct sync_figures *syncs = table_syncs(table);
    struct table_view view;
    table_view(table, now, &view);
    status->in_use = true;
    status->programmed = table_is_programmed(table);
    status->last_success = syncs->last_success;
    status->waiting = view.waiting;
    status->frontends = ruleset_frontends(ruleset);
    status->refused = figures->refused + figures->left_out;
    status->lost = ruleset_is_lost(ruleset);
    status->failure = view.failure;
    status->last_seconds = syncs->last_seconds;
    status->transactions = syncs->transactions;
    status->repairs = view.repairs;
    status->drift = view.drift;
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
        if (proxy->tables[i])
            family_status(proxy->tables[i], now, &status->family[i]);
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
        const struct table *table = proxy->tables[i];
        struct table_view view;
        if (!table)
            continue;
        table_view(table, now, &view);
        status->family[i].reported = true;
        status->family[i].healthy = !table_is_overdue(table, now);
        status->family[i].last_updated = view.last_updated;
    }
}

bool proxy_read_connections(struct proxy *proxy, double since)
{
    bool done = true;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (proxy->tables[i])
            done = table_read_connections(proxy->tables[i], since) && done;
    return done;
}

double proxy_connections_read(const struct proxy *proxy)
{
    double first = 0;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (proxy->tables[i])
            first = clock_earlier(first, ruleset_connections_read(table_ruleset(proxy->tables[i])));
    return first;
}
