/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/figures_parts.h"

#include "kube-nftd/proxy.h"
#include "kube-nftd/serve/metrics_page.h"

void figures_by_family(struct metrics_page *page, const struct proxy_figures *figures,
                       const char *name, const char *type, const char *help,
                       const double values[FAMILY_COUNT])
{
    metrics_family(page, name, type, help);
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (figures->family[i].in_use)
            metrics_sample(page, "ip_family", family_name((enum family)i), values[i]);
}

/* One figure of a family in use. */
struct table_metric {
    const char *name, *type, *help;
    double (*value)(const struct sync_figures *syncs, const struct ruleset_figures *table);
};

#define VALUE(name, expression)                                                                    \
    static double name(const struct sync_figures *syncs, const struct ruleset_figures *table)      \
    {                                                                                              \
        (void)syncs;                                                                               \
        (void)table;                                                                               \
        return (double)(expression);                                                               \
    }

VALUE(transactions, syncs->transactions)
VALUE(elements, table->elements)
VALUE(elements_added, syncs->elements_added)
VALUE(elements_deleted, syncs->elements_deleted)
VALUE(last_bytes, syncs->last_bytes)
VALUE(last_seconds, syncs->last_seconds)
VALUE(bytes, syncs->bytes)
VALUE(seconds, syncs->seconds)
VALUE(read_backs, table->read_backs)
VALUE(replaced, table->replaced)
VALUE(refused, table->refused)
VALUE(left_out, table->left_out)
VALUE(refusals, table->refusals)

static const struct table_metric table_metrics[] = {
    {"kube_nftd_transactions_total", "counter", "Transactions that the kernel took.", transactions},
    {"kube_nftd_transaction_bytes_total", "counter", "Their bytes.", bytes},
    {"kube_nftd_transaction_seconds_total", "counter", "Their time inside the kernel.", seconds},
    {"kube_nftd_last_transaction_bytes", "gauge", "Bytes of the last one.", last_bytes},
    {"kube_nftd_last_transaction_seconds", "gauge", "Time of the last one inside the kernel.",
     last_seconds},
    {"kube_nftd_elements", "gauge",
     "Elements of maps and sets that were put into the table, two for a range of addresses.",
     elements},
    {"kube_nftd_elements_added_total", "counter", "Elements added to maps and sets.",
     elements_added},
    {"kube_nftd_elements_deleted_total", "counter", "Elements deleted from maps and sets.",
     elements_deleted},
    {"kube_nftd_table_read_backs_total", "counter",
     "Times that the table was read back after a failure, to repair it.", read_backs},
    {"kube_nftd_tables_replaced_total", "counter",
     "Tables with other maps or sets that were made anew.", replaced},
    {"kube_nftd_frontends_refused", "gauge",
     "Addresses and ports that are not as they shall be: the kernel refused that.", refused},
    {"kube_nftd_elements_refused", "gauge",
     "Cluster IPs, ranges and the like that the kernel refused.", left_out},
    {"kube_nftd_refusals_total", "counter",
     "Times that something was put aside since the kernel refused it.", refusals},
};

static void write_audits(const struct proxy_figures *figures, struct metrics_page *page)
{
    figures_by_family(page, figures, "kube_nftd_drift_elements", "gauge",
                      "Elements that audits found changed, missing or strange and put right, since "
                      "the start.",
                      (const double[]){(double)figures->family[FAMILY_IPV4].drift,
                                       (double)figures->family[FAMILY_IPV6].drift});
    metrics_family(page, "kube_nftd_audits_total", "counter",
                   "Times that all tables were looked through.");
    metrics_sample(page, NULL, NULL, (double)figures->audits);
}

/* Where a kernel does not count, there is no sample until there is no room. */
static void write_records(const struct proxy_figures *figures, struct metrics_page *page)
{
    double most[FAMILY_COUNT] = {0};
    metrics_family(page, "kube_nftd_affinity_records", "gauge",
                   "Clients that session affinity remembers an endpoint for, by the last audit.");
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct ruleset_figures *table = figures->family[i].table;
        if (!figures->family[i].in_use)
            continue;
        most[i] = table->most_records;
        if (table->records_known)
            metrics_sample(page, "ip_family", family_name((enum family)i), table->records);
    }
    figures_by_family(page, figures, "kube_nftd_affinity_records_most", "gauge",
                      "As many of them as there is room for, 0 before the first audit.", most);
}

static void write_repairs(const struct proxy_figures *figures, struct metrics_page *page)
{
    figures_by_family(page, figures, "kube_nftd_repairs_total", "counter",
                      "Times that something was put right that another program had changed in the "
                      "table.",
                      (const double[]){(double)figures->family[FAMILY_IPV4].repairs,
                                       (double)figures->family[FAMILY_IPV6].repairs});
}

static void write_objects(const struct proxy_figures *figures, struct metrics_page *page)
{
    metrics_family(page, "kube_nftd_services", "gauge", "Services that are known.");
    metrics_sample(page, NULL, NULL, (double)figures->services);
    metrics_family(page, "kube_nftd_endpoint_slices", "gauge", "EndpointSlices that are known.");
    metrics_sample(page, NULL, NULL, (double)figures->slices);
    metrics_family(page, "kube_nftd_objects_left_out_total", "counter",
                   "Objects that came and could not be read; what was known of them stays in "
                   "force.");
    for (int kind = 0; kind < KIND_COUNT; kind++)
        metrics_sample(page, "kind", object_kind_name((enum object_kind)kind),
                       (double)figures->left_out[kind]);
    metrics_family(page, "kube_nftd_frontends_claimed_twice", "gauge",
                   "Addresses and ports that more than one service port claims; one has them.");
    metrics_sample(page, NULL, NULL, (double)figures->conflicts);
    metrics_family(page, "kube_nftd_frontends_reserved", "gauge",
                   "Addresses and ports of the API server that Services name as external or "
                   "load-balancer addresses; none has them.");
    metrics_sample(page, NULL, NULL, (double)figures->reserved);
}

void figures_write_tables(const struct proxy_figures *figures, struct metrics_page *page)
{
    figures_by_family(page, figures, "kube_nftd_frontends", "gauge",
                      "Addresses and ports that are proxied or rejected.",
                      (const double[]){(double)figures->family[FAMILY_IPV4].frontends,
                                       (double)figures->family[FAMILY_IPV6].frontends});
    write_objects(figures, page);
    write_repairs(figures, page);
    write_audits(figures, page);
    write_records(figures, page);
    for (size_t i = 0; i < sizeof(table_metrics) / sizeof(*table_metrics); i++) {
        double values[FAMILY_COUNT] = {0};
        for (int f = 0; f < FAMILY_COUNT; f++)
            if (figures->family[f].in_use)
                values[f] =
                    table_metrics[i].value(figures->family[f].syncs, figures->family[f].table);
        figures_by_family(page, figures, table_metrics[i].name, table_metrics[i].type,
                          table_metrics[i].help, values);
    }
}
