/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Services and EndpointSlices by chance, the same from the same chance: for random histories. */
#ifndef KUBE_NFTD_TESTS_RANDOM_OBJECTS_H
#define KUBE_NFTD_TESTS_RANDOM_OBJECTS_H

#include "objects.h"

#define N_SERVICES 6
#define N_SLICES 8

static inline const char *any_of(const char *const *texts, size_t n, uint64_t *chance)
{
    return texts[dice(chance, (unsigned)n)];
}

#define ANY_OF(texts, chance) any_of(texts, sizeof(texts) / sizeof((texts)[0]), chance)

/* Histories with big Services have slices of many endpoints that are mostly alike, and cluster IPs
 * that are theirs alone. */
static bool big;

/* Of few addresses and ports, so that Services meet on frontends, and one Service with itself. */
static inline struct service *random_service(unsigned number, uint64_t *chance)
{
    static const char *const addresses[] = {"10.96.0.1",         "10.96.0.2", "10.96.0.1 fd00::1",
                                            "10.96.0.2 fd00::1", "fd00::2",   ""};
    static const char *const ports[] = {"http/TCP:80",
                                        "http/TCP:80+30080 dns/UDP:53",
                                        "dns/UDP:53+30053",
                                        "web/TCP:80+80",
                                        "http/TCP:81+30080 /TCP:80+30080",
                                        "/TCP:80 http/TCP:443 http/UDP:80",
                                        "dns/UDP:53+53 dns/TCP:53+53",
                                        "http/TCP:80 http/TCP:81",
                                        "dns/UDP:53 /UDP:53"};
    static const char *const others[] = {"",
                                         "",
                                         "",
                                         "192.0.2.1",
                                         "192.0.2.1 192.0.2.2",
                                         "10.96.0.1",
                                         "10.96.0.2",
                                         "fd00:9::1 192.0.2.2",
                                         "192.0.2.1 192.0.2.1 fd00::1"};
    static const char *const ranges[] = {"", "10.0.0.0/8", "192.0.2.0/31 10.1.0.0/16",
                                         "192.0.2.2/32 fd00:9::/64"};
    char id[8];
    snprintf(id, sizeof(id), "a/%c", 'a' + (int)number);
    char own[48];
    snprintf(own, sizeof(own), "10.96.1.%u fd00:1::%u", number, number);
    const char *shared = ANY_OF(addresses, chance);
    struct service *service = make_service(id, big ? own : shared, ANY_OF(ports, chance));
    add_external_ips(service, ANY_OF(others, chance));
    add_load_balancer_ips(service, ANY_OF(others, chance));
    add_source_ranges(service, ANY_OF(ranges, chance));
    service->created = dice(chance, 3) ? (int64_t)dice(chance, 3) : INT64_MAX;
    service->skipped = dice(chance, 8) == 0;
    service->external_local = dice(chance, 2);
    service->internal_local = dice(chance, 3) == 0;
    service->affinity_timeout = dice(chance, 3) ? 0 : 1 + dice(chance, 2);
    service->health_check_node_port = (uint16_t)(dice(chance, 2) ? 31000 + dice(chance, 2) : 0);
    return service;
}

static uint64_t slice_seeds[N_SLICES]; /* what each slice was made from last */

/* Often it is the last one but for one endpoint. */
static inline struct endpoint_slice *random_slice(unsigned number, uint64_t *chance)
{
    static const char *const ports[] = {"http/TCP:80",  "http/TCP:81 dns/UDP:53",
                                        "/TCP:80",      "dns/UDP:53 dns/TCP:53",
                                        "web/TCP:8080", "http/UDP:80 http/TCP:80 /UDP:80"};
    static const char *const flags[] = {"",      "",         "=st",      "=t",      "=-",
                                        "=s",    "=rst",     "=r",       "@here",   "@there",
                                        "@here", "=st@here", "=rt@here", "=s@here", "=t@here"};
    static const char *const hints[] = {"", "", "~here", "~there", "^z1", "^z2", "~there^z1,z2"};
    if (dice(chance, 3) == 0)
        slice_seeds[number] = *chance;
    uint64_t like = slice_seeds[number];
    enum family family = dice(&like, 3) ? FAMILY_IPV4 : FAMILY_IPV6;
    char id[16], service_id[8], endpoints[2048] = "";
    snprintf(id, sizeof(id), "a/s%u", number);
    snprintf(service_id, sizeof(service_id), "a/%c", 'a' + (int)dice(&like, N_SERVICES));
    bool hinted = dice(&like, 2);
    const char *all = ANY_OF(hints, &like);
    unsigned n = big ? 20 + dice(&like, 20) : dice(&like, 4), changed = dice(chance, n + 1);
    for (unsigned i = 0; i < n; i++) {
        uint64_t *from = i == changed ? chance : &like;
        bool alike = big && dice(from, 8);
        const char *hint = !hinted ? "" : alike ? all : ANY_OF(hints, from);
        unsigned address = dice(from, big ? 120 : 5);
        snprintf(endpoints + strlen(endpoints), sizeof(endpoints) - strlen(endpoints), " %s%u%s%s",
                 family == FAMILY_IPV4 ? "10.0.0." : "fd00:1::", address,
                 alike ? "" : ANY_OF(flags, from), hint);
    }
    return make_slice(id, dice(&like, 9) ? service_id : NULL, family, ANY_OF(ports, &like),
                      endpoints);
}

#endif
