/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Endpoints that are service addresses: cluster IPs, or inside a ServiceCIDR. What is translated to
 * such an address would be refused, or sent to where a router may send it back, so they are not
 * used (docs/behaviour.md 4.3).
 *
 * An endpoint is looked up when it is decided. When service addresses change, the service ports
 * that have them as endpoints must be found. No index leads there, since that is rare: cluster IPs
 * usually lie inside ServiceCIDRs, and no endpoint is near either. So two bits for each area of
 * addresses say what has been there: as long as no area had both, an endpoint costs a look at its
 * area, and a change one at its own. Else a change costs a walk over all endpoints, in pieces.
 */
#include "state.h"

#include "kube-nftd/table.h"

#include <string.h>

/* Endpoints that a sync walks, and how many a Service counts for: some 2 milliseconds. */
#define WALKED_AT_ONCE 20000
#define WALKED_A_SERVICE 10

/* ---- addresses of endpoints ---- */

bool service_addresses_find(const struct policy *policy, enum family family,
                            const struct address *address)
{
    const struct table *table = policy->config.tables[family];
    return ranges_contain(&policy->service_addresses[family].cidrs, address) ||
           (table && ruleset_has_cluster_ip(table_ruleset(table), address));
}

static bool is_between(const struct address_range *range, const struct address *address)
{
    return address_compare(&range->first, address) <= 0 &&
           address_compare(address, &range->last) <= 0;
}

bool service_addresses_find_any(const struct policy *policy, enum family family,
                                const struct address *address)
{
    const struct service_addresses *known = &policy->service_addresses[family];
    return (known->recheck && is_between(&known->changed, address)) ||
           service_addresses_find(policy, family, address);
}

/* ---- changes of service addresses ---- */

static void recheck_range(struct service_addresses *known, const struct address_range *range)
{
    struct address_range *changed = &known->changed;
    if (!known->recheck || address_compare(&range->first, &changed->first) < 0)
        changed->first = range->first;
    if (!known->recheck || address_compare(&range->last, &changed->last) > 0)
        changed->last = range->last;
    known->recheck = true;
    known->again = known->cursor != 0;
}

/* IPv6 ranges of more than a /64 are everywhere. */
static void change_range(struct service_addresses *known, enum family family,
                         const struct address_range *range)
{
    uint32_t first = service_area(family, &range->first), last = service_area(family, &range->last);
    if (family == FAMILY_IPV6 && memcmp(&range->first, &range->last, sizeof(uint64_t)) != 0) {
        first = 0;
        last = AREAS - 1;
    }
    bool near = false;
    for (uint32_t i = first; i <= last; i++) {
        near = near || known->areas[i] & AREA_ENDPOINTS;
        known->areas[i] |= AREA_SERVICES;
    }
    if (near)
        recheck_range(known, range);
}

void service_addresses_change(const struct policy *policy, enum family family,
                              const struct address *address)
{
    struct service_addresses *known = &policy->service_addresses[family];
    if (!ranges_contain(&known->cidrs, address))
        change_range(known, family, &(struct address_range){*address, *address});
}

void policy_set_service_cidrs(struct policy *policy, enum family family, const range_vec *ranges)
{
    struct service_addresses *known = &policy->service_addresses[family];
    const range_vec *both[] = {&known->cidrs, ranges};
    for (int i = 0; i < 2; i++)
        vec_each (both[i], range)
            change_range(known, family, range);
    vec_clear(&known->cidrs);
    vec_append(&known->cidrs, ranges->v, ranges->n);
}

/* In pieces: a walk over the endpoints of all Services. */
struct walk {
    struct policy *policy;
    enum family family;
    size_t walked; /* endpoints; a Service counts as some more */
};

static bool has_endpoint_between(struct walk *walk, const char *service_id,
                                 const struct address_range *range)
{
    const struct endpoint_slice_cache *slices = walk->policy->config.caches->slices;
    const struct endpoint_slice *slice;
    for (size_t i = 0; (slice = endpoint_slice_cache_at(slices, service_id, i)); i++) {
        if (!slice->has_family || slice->family != walk->family)
            continue;
        walk->walked += slice->endpoints.n;
        vec_each (&slice->endpoints, it)
            if (is_between(range, &it->address))
                return true;
    }
    return false;
}

static void recheck(void *ctx, void *item)
{
    struct walk *walk = ctx;
    const struct service_state *state = item;
    const struct service_addresses *known = &walk->policy->service_addresses[walk->family];
    walk->walked += WALKED_A_SERVICE;
    if (!has_endpoint_between(walk, state->service->id, &known->changed))
        return;
    for (struct port_state *port = state->ports; port; port = port->next) {
        if (port->family != walk->family)
            continue;
        port_mark_whole(walk->policy, port);
    }
}

bool service_addresses_sync(struct policy *policy)
{
    bool left = false;
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        struct service_addresses *known = &policy->service_addresses[family];
        struct walk walk = {policy, family, 0};
        if (!known->recheck)
            continue;
        do
            known->cursor = hash_table_scan(&policy->services, known->cursor, recheck, &walk);
        while (known->cursor && walk.walked < WALKED_AT_ONCE);
        if (known->cursor == 0) {
            known->recheck = known->again;
            known->again = false;
        }
        left = left || known->recheck;
    }
    return left;
}

/* ---- who is told ---- */

/* Nodes with the same objects report the same event, so one report is enough. */
static void report_service_addresses(const struct policy *policy, const struct port_state *port,
                                     size_t n, const struct backend *first)
{
    static const char why[] = "is not used: a cluster IP, or inside a ServiceCIDR";
    const enum family family = (enum family)port->family;
    const struct service *service = port->owner->service;
    char text[BACKEND_TEXT_SIZE], address[ADDRESS_TEXT_SIZE], *name = port_state_name(port);
    log_warn("policy", "service=%s endpoint=%s %s (endpoints like that: %zu)", name,
             backend_format(family, first, text), why, n);
    char *note = xasprintf("endpoint %s %s", address_format(family, &first->address, address),
                           why); /* the same for all ports */
    event_report(policy->config.events, &(struct object_event){.kind = KIND_SERVICE,
                                                               .id = service->id,
                                                               .uid = service->uid,
                                                               .type = EVENT_WARNING,
                                                               .reason = "EndpointIsServiceAddress",
                                                               .action = "SelectEndpoints",
                                                               .note = note,
                                                               .everywhere = true});
    free(note);
    free(name);
}

void service_addresses_count(struct policy *policy, struct port_state *port, size_t n,
                             const struct backend *example)
{
    const size_t before = port->details ? port->details->n_service_addresses : 0;
    if (n == before)
        return;
    port_make_details(port)->n_service_addresses = (uint32_t)n;
    policy->n_service_addresses += n - before;
    if (before > 0)
        return;
    policy_spend(policy, 1, COST_BACKEND);
    report_service_addresses(policy, port, n, example);
}

void service_addresses_clear(struct policy *policy)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&policy->service_addresses[family].cidrs);
    free(policy->service_addresses);
}
