/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "world.h"

#define N_SERVICES 6

static const char *any_of(const char *const *texts, size_t n, uint64_t *chance)
{
    return texts[dice(chance, (unsigned)n)];
}

#define ANY_OF(texts, chance) any_of(texts, sizeof(texts) / sizeof((texts)[0]), chance)

bool big;

/* Of few addresses and ports, so that Services meet on frontends, and one Service with itself. */
static struct service *random_service(unsigned number, uint64_t *chance)
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
static struct endpoint_slice *random_slice(unsigned number, uint64_t *chance)
{
    static const char *const ports[] = {"http/TCP:80",  "http/TCP:81 dns/UDP:53",
                                        "/TCP:80",      "dns/UDP:53 dns/TCP:53",
                                        "web/TCP:8080", "http/UDP:80 http/TCP:80 /UDP:80"};
    static const char *const flags[] = {"",      "",         "=st",      "=t",      "=-",
                                        "=s",    "=rst",     "=r",       "@here",   "@there",
                                        "@here", "=st@here", "=rt@here", "=s@here", "=t@here"};
    /* Endpoints; cluster IPs and ServiceCIDRs. */
    static const char *const networks[][FAMILY_COUNT] = {{"10.0.0.", "fd00:1::"},
                                                         {"10.96.0.", "fd00::"}};
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
        const char *network = networks[dice(from, 8) == 0][family];
        snprintf(endpoints + strlen(endpoints), sizeof(endpoints) - strlen(endpoints), " %s%u%s%s",
                 network, address, alike ? "" : ANY_OF(flags, from), hint);
    }
    return make_slice(id, dice(&like, 9) ? service_id : NULL, family, ANY_OF(ports, &like),
                      endpoints);
}

/* ---- what there is ---- */

#define N_CIDRS 2

struct world_object world[KIND_COUNT][N_SLICES];

const struct object_sink *world_sink;

void forget_world(void)
{
    memset(world, 0, sizeof(world));
    memset(slice_seeds, 0, sizeof(slice_seeds));
}

unsigned count_of(enum object_kind kind)
{
    static const unsigned counts[KIND_COUNT] = {[KIND_SERVICE] = N_SERVICES,
                                                [KIND_ENDPOINTSLICE] = N_SLICES,
                                                [KIND_SERVICECIDR] = N_CIDRS,
                                                [KIND_NODE] = 1};
    return counts[kind];
}

static char *id_of(enum object_kind kind, unsigned number)
{
    switch (kind) {
    case KIND_SERVICE:
        return xasprintf("a/%c", 'a' + (int)number);
    case KIND_ENDPOINTSLICE:
        return xasprintf("a/s%u", number);
    case KIND_SERVICECIDR:
        return xasprintf("c%u", number);
    default:
        return xstrdup(NODE);
    }
}

static struct object object_of(enum object_kind kind, unsigned number)
{
    struct object object = {.kind = kind};
    char *id = id_of(kind, number);
    uint64_t chance = world[kind][number].chance;
    if (kind == KIND_SERVICE)
        object.service = random_service(number, &chance);
    else if (kind == KIND_ENDPOINTSLICE)
        object.slice = random_slice(number, &chance);
    else if (kind == KIND_SERVICECIDR)
        object.service_cidr = make_service_cidr(id, world[kind][number].words);
    else
        object.node = make_node(id, world[kind][number].words);
    free(id);
    object.id = *(char **)object.payload; /* the first member of each */
    return object;
}

static void put(enum object_kind kind, unsigned number)
{
    struct object object = object_of(kind, number);
    world_sink->put(world_sink->ctx, &object);
}

/* It is there, but cannot be read: what was known of it counts. */
static void put_unreadable(enum object_kind kind, unsigned number)
{
    struct object object = {.kind = kind, .id = id_of(kind, number)};
    world_sink->put(world_sink->ctx, &object);
}

void list_kind(enum object_kind kind)
{
    object_vec objects = {0};
    unsigned n = count_of(kind), first = below(n);
    for (unsigned i = 0; i < n; i++)
        if (world[kind][(first + i) % n].there)
            vec_push(&objects, object_of(kind, (first + i) % n));
    world_sink->replace(world_sink->ctx, kind, &objects);
}

void change_object(enum object_kind kind, unsigned number)
{
    static const char *const cidrs[] = {"10.96.0.0/16", "10.96.0.0/24 fd00::/112", "fd00::/108",
                                        "192.0.2.0/30", "10.96.0.0/12 fd00::/48"};
    static const char *const nodes[] = {
        "zone=z1 192.0.2.7 fd00:9::7 pods=10.244.1.0/24 pods=fd00:244::/64",
        "zone=z2 192.0.2.7 pods=10.244.0.0/16", "192.0.2.1 fd00:9::1",
        "zone=z1 10.1.0.1 fd00:9::7 deleting pods=fd00:244::/56", "tainted zone=z3"};
    world[kind][number].chance = (uint64_t)below(1 << 30);
    if (kind == KIND_SERVICECIDR)
        world[kind][number].words = ONE_OF(cidrs);
    else if (kind == KIND_NODE)
        world[kind][number].words = ONE_OF(nodes);
    world[kind][number].there = true;
}

void forget_object(enum object_kind kind, unsigned number)
{
    if (kind != KIND_NODE) /* what a Node said stays */
        world[kind][number].there = false;
}

enum object_kind any_kind(void)
{
    static const enum object_kind kinds[] = {
        KIND_SERVICE,       KIND_SERVICE,       KIND_SERVICE,       KIND_ENDPOINTSLICE,
        KIND_ENDPOINTSLICE, KIND_ENDPOINTSLICE, KIND_ENDPOINTSLICE, KIND_ENDPOINTSLICE,
        KIND_ENDPOINTSLICE, KIND_ENDPOINTSLICE, KIND_SERVICECIDR,   KIND_NODE};
    return ONE_OF(kinds);
}

static void remove_object(enum object_kind kind, unsigned number)
{
    char *id = id_of(kind, number);
    forget_object(kind, number);
    world_sink->remove(world_sink->ctx, kind, id);
    free(id);
}

/* Some changed, some went, and then all of them are listed. */
static void change_and_list(enum object_kind kind)
{
    for (unsigned i = 0; i < count_of(kind); i++) {
        unsigned what = below(6);
        if (what == 0)
            forget_object(kind, i);
        else if (what == 1)
            change_object(kind, i);
    }
    list_kind(kind);
}

void change_world(enum object_kind kind, unsigned number, unsigned what)
{
    if (what == 0) {
        change_and_list(kind);
    } else if (what > 1 && what < 4 && world[kind][number].there) {
        put_unreadable(kind, number);
    } else if (what > 1 && what < 10) {
        remove_object(kind, number);
    } else if (what > 1) {
        change_object(kind, number);
        put(kind, number);
    }
}
