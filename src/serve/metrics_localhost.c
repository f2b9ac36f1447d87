/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Metrics of NodePorts on loopback addresses. */
#include "pages.h"

#include "kube-nftd/localhost.h"

#include <linux/in.h>

/* A sample for each family in use: the number at @values. */
static void write_by_family(const struct snapshot *now, struct metrics_page *page,
                            const uint64_t values[FAMILY_COUNT])
{
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        const struct metrics_label label = {"ip_family", family_name(family)};
        if (now->counts_localhost && now->family[family].in_use)
            metrics_sample(page, &label, 1, (double)values[family]);
    }
}

void metrics_localhost_listeners(const struct snapshot *now, struct metrics_page *page)
{
    write_by_family(now, page, localhost_stats(now->localhost).listeners);
}

void metrics_localhost_failures(const struct snapshot *now, struct metrics_page *page)
{
    write_by_family(now, page, localhost_stats(now->localhost).listener_failures);
}

/* Those that are refused in @family; TCP only where it is not served. */
static void write_rejected(const struct snapshot *now, struct nft_socket *socket,
                           enum family family, struct metrics_page *page)
{
    static const uint8_t protocols[] = {IPPROTO_SCTP, IPPROTO_TCP, IPPROTO_UDP};
    for (size_t i = 0; i < sizeof(protocols); i++) {
        const struct metrics_label labels[] = {{"ip_family", family_name(family)},
                                               {"protocol", protocol_name(protocols[i])}};
        struct error err = {0};
        uint64_t total;
        if (protocols[i] == IPPROTO_TCP && now->serves_localhost[family])
            continue;
        if (ruleset_localhost_connections(now->family[family].ruleset, socket, protocols[i], &total,
                                          &err) == 0)
            metrics_sample(page, labels, 2, (double)total);
        error_clear(&err);
    }
}

void metrics_localhost_rejected(const struct snapshot *now, struct metrics_page *page)
{
    struct error err = {0};
    struct nft_socket *socket = now->counts_localhost ? nft_socket_open(&err) : NULL;
    for (enum family family = 0; socket && family < FAMILY_COUNT; family++)
        if (now->family[family].in_use)
            write_rejected(now, socket, family, page);
    nft_socket_close(socket);
    error_clear(&err);
}

void metrics_localhost_connections(const struct snapshot *now, struct metrics_page *page)
{
    const struct localhost_stats stats = localhost_stats(now->localhost);
    if (!now->localhost)
        return;
    metrics_sample(page, NULL, 0, (double)stats.connections);
    metrics_family(page, "kube_nftd_localhost_connections_total", "counter",
                   "Connections to NodePorts on loopback addresses.");
    metrics_sample(page, NULL, 0, (double)stats.accepted);
    metrics_family(page, "kube_nftd_localhost_failures_total", "counter",
                   "Endpoints of such connections that refused or did not answer; connections "
                   "closed beyond --localhost-connections.");
    metrics_sample(page, &(struct metrics_label){"reason", "endpoint"}, 1,
                   (double)stats.endpoint_failures);
    metrics_sample(page, &(struct metrics_label){"reason", "limit"}, 1, (double)stats.refused);
}
