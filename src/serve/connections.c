/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve/connections.h"

#include "kube-nftd/ruleset/connections.h"
#include "kube-nftd/serve/facts.h"

#include <string.h>

bool connections_are_counted(const struct explain_sources *sources)
{
    for (int i = 0; i < FAMILY_COUNT && !sources->from_manifests; i++)
        if (sources->family[i].ruleset &&
            ruleset_counting(sources->family[i].ruleset) != COUNT_NOTHING)
            return true;
    return false;
}

static uint64_t of_port(const struct explain_sources *sources, const struct port_state *port)
{
    const struct ruleset *ruleset = sources->family[port->family].ruleset;
    return ruleset ? ruleset_connections(ruleset, port->id) : 0;
}

uint64_t connections_of_service(const struct explain_sources *sources,
                                const struct service_state *state)
{
    uint64_t total = 0;
    for (const struct port_state *port = state->ports; port; port = port->next)
        total += of_port(sources, port);
    return total;
}

cJSON *connections_describe(const struct explain_sources *sources,
                            const struct service_state *state)
{
    uint64_t total = connections_of_service(sources, state);
    if (total == 0)
        return NULL;
    cJSON *item = facts_new();
    facts_add_id(item, state->service->id);
    facts_add(item, fact_number("connections", (double)total));
    return item;
}

/* ---- the most ---- */

/* The families of a port stand apart in the list of a Service's ports. */
static uint64_t of_both_families(const struct explain_sources *sources,
                                 const struct service_state *state, uint32_t index)
{
    uint64_t total = 0;
    for (const struct port_state *port = state->ports; port; port = port->next)
        if (port->index == index)
            total += of_port(sources, port);
    return total;
}

static void add_service(const struct explain_sources *sources, const struct service_state *state,
                        port_connections_vec *out)
{
    if (connections_of_service(sources, state) == 0)
        return;
    for (uint32_t i = 0; i < state->service->ports.n; i++) {
        uint64_t total = of_both_families(sources, state, i);
        if (total > 0)
            vec_push(out, ((struct port_connections){state->service->id,
                                                     &state->service->ports.v[i], total}));
    }
}

static int compare_totals(const void *a, const void *b)
{
    const struct port_connections *p = a, *q = b;
    if (p->total != q->total)
        return p->total < q->total ? 1 : -1;
    int order = strcmp(p->service_id, q->service_id);
    return order ? order : (p->port > q->port) - (p->port < q->port);
}

size_t connections_most(const struct explain_sources *sources, size_t most,
                        port_connections_vec *out)
{
    hash_table_each (policy_services(sources->policy), const struct service_state, it)
        add_service(sources, it, out);
    size_t all = out->n;
    if (all > 1)
        qsort(out->v, all, sizeof(*out->v), compare_totals);
    out->n = all < most ? all : most;
    return all - out->n;
}
