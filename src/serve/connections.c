/* SPDX-License-Identifier: GPL-2.0-or-later */
/* New connections to Services, as counted in the tables (kube-nftd/table.h). */
#include "pages.h"

#include <stdio.h>
#include <string.h>

bool connections_read(const struct snapshot *now, double since)
{
    bool done = true;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (now->tables[i])
            done = table_read_connections(now->tables[i], since) && done;
    return done;
}

#define ALL_PORTS UINT32_MAX

/* Sums all ports of a Service, or the one with @index, over both families. */
static uint64_t connections_of(const struct snapshot *now, const struct service_state *state,
                               uint32_t index)
{
    uint64_t total = 0;
    for (const struct port_state *port = state->ports; port; port = port->next) {
        const struct ruleset *ruleset = now->family[port->family].ruleset;
        if (ruleset && (index == ALL_PORTS || port->index == index))
            total += ruleset_connections(ruleset, port->id);
    }
    return total;
}

uint64_t service_connections(const struct snapshot *now, const struct service_state *state)
{
    return connections_of(now, state, ALL_PORTS);
}

/* ---- the metric ---- */

/* A scrape refreshes connection counts older than COUNTED_SECONDS for READ_SECONDS at most. If that
 * does not suffice, it shows the previous counts, and the next scrape gets the new ones. */
#define COUNTED_SECONDS 5.0
#define READ_SECONDS 0.001
#define CONNECTIONS_MOST 1000

struct port_connections {
    const char *service_id;
    const struct service_port *port;
    uint64_t total; /* of both families */
};

typedef VEC(struct port_connections) port_connections_vec;

/* The largest first. */
static int compare_totals(const void *a, const void *b)
{
    const struct port_connections *p = a, *q = b;
    if (p->total != q->total)
        return p->total < q->total ? 1 : -1;
    int order = strcmp(p->service_id, q->service_id);
    return order ? order : (p->port > q->port) - (p->port < q->port);
}

static void find_busy_ports(const struct snapshot *now, port_connections_vec *out)
{
    hash_table_each (policy_services(now->policy), const struct service_state, it) {
        const struct service *service = it->service;
        bool some = service_connections(now, it) > 0;
        for (uint32_t i = 0; some && i < service->ports.n; i++) {
            uint64_t total = connections_of(now, it, i);
            if (total > 0)
                vec_push(out, (struct port_connections){service->id, &service->ports.v[i], total});
        }
    }
    vec_sort(out, compare_totals);
}

void metrics_connections(const struct snapshot *now, struct metrics_page *page)
{
    double begun = clock_monotonic();
    port_connections_vec busy = {0};
    if (now->counting == COUNT_NOTHING)
        return;
    while (!connections_read(now, begun - COUNTED_SECONDS) &&
           clock_monotonic() < begun + READ_SECONDS)
        continue;
    find_busy_ports(now, &busy);
    for (size_t i = 0; i < busy.n && i < CONNECTIONS_MOST; i++) {
        const struct port_connections *it = &busy.v[i];
        size_t length = strcspn(it->service_id, "/");
        char *namespace = xstrndup(it->service_id, length), number[8];
        snprintf(number, sizeof(number), "%u", it->port->port);
        const struct metrics_label labels[] = {{"namespace", namespace},
                                               {"service", it->service_id + length + 1},
                                               {"port", *it->port->name ? it->port->name : number}};
        metrics_sample(page, labels, 3, (double)it->total);
        free(namespace);
    }
    metrics_family(page, "kube_nftd_service_connections_omitted", "gauge",
                   "Service ports with connections that are not among those.");
    metrics_sample(page, NULL, 0,
                   busy.n > CONNECTIONS_MOST ? (double)busy.n - CONNECTIONS_MOST : 0);
    vec_free(&busy);
}
