/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What others may know of the proxy: health, status, figures, explanations. It changes nothing. */
#include "kube-nftd/base.h"
#include "kube-nftd/policy.h"
#include "kube-nftd/table.h"
#include "proxy_state.h"

#include <string.h>

bool proxy_is_synced(const struct proxy *proxy)
{
    return caches_are_synced(&proxy->caches);
}

struct uid proxy_service_uid(const struct proxy *proxy, const char *id)
{
    static const struct uid unknown;
    const struct service *service = service_cache_get(proxy->caches.services, id);
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
    struct programmed facts = {.services = proxy->caches.services,
                               .slices = proxy->caches.slices,
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
                                        .slices = proxy->caches.slices,
                                        .service_cidrs = proxy->caches.service_cidrs,
                                        .services = proxy->caches.services,
                                        .policy = proxy->policy,
                                        .health = proxy->health,
                                        .no_external_ips = proxy->caches.no_external_ips};
    for (int i = 0; i < FAMILY_COUNT; i++) {
        table_view(proxy->tables[i], now, &sources->family[i]);
        sources->unhealthy = sources->unhealthy || sources->family[i].overdue;
    }
}

void proxy_figures(const struct proxy *proxy, struct proxy_figures *figures)
{
    const struct service_counts services = service_cache_counts(proxy->caches.services);
    const struct slice_counts slices = endpoint_slice_cache_counts(proxy->caches.slices);
    const double now = clock_monotonic();
    bool any = false;
    *figures = (struct proxy_figures){
        .complete = proxy_is_synced(proxy),
        .zone = policy_surroundings(proxy->policy)->location.zone,
        .external_ips = !proxy->caches.no_external_ips,
        .conflicts = policy_conflicts(proxy->policy),
        .reserved = policy_reserved(proxy->policy),
        .services = services.known,
        .slices = slices.known,
        .services_pending = services.pending,
        .slices_pending = slices.pending,
    };
    memcpy(figures->left_out, proxy->caches.rejected, sizeof(figures->left_out));
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct table_view *view = &figures->family[i];
        table_view(proxy->tables[i], now, view);
        if (!view->in_use)
            continue;
        figures->service_changes += services.seen;
        figures->slice_changes += slices.seen[i];
        /* Of the table that has the fewest. */
        if (!any || view->audits < figures->audits)
            figures->audits = view->audits;
        any = true;
    }
}

void proxy_health_status(void *ctx, struct health_status *status)
{
    const struct proxy *proxy = ctx;
    double now = clock_monotonic();
    memset(status, 0, sizeof(*status));
    status->programmed = proxy_is_programmed(proxy);
    status->node_eligible = node_info_is_eligible(proxy->node);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct table_view view;
        table_view(proxy->tables[i], now, &view);
        status->family[i].reported = view.in_use;
        status->family[i].healthy = !view.overdue;
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
