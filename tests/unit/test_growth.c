/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Objects so large that each of these tests takes minutes, and fails by that, where anything grows
 * with the square of their size, and a second where nothing does. */
#include "kube-nftd/policy.h"
#include "kube-nftd/table.h"

#include "objects.h"
#include "unit.h"

#include <unistd.h>

#define TIMEOUT 60
#define PORTS 130000
/* Endpoints of ports that a change of a slice is compared for; the other ports are decided as a
 * whole. */
#define AT_ONCE 20000
#define ADDRESSES 200000
#define MANY_SLICES 1000
#define MANY_ENDPOINTS 500
#define MANY_PORTS 10
#define MANY_OBJECTS 100000
#define MANY_SERVICES 50000

/* Caches and policy as the daemon wires them. */
static struct caches caches;
static struct policy *policy;

/* How often policy passed on service ports, and frontends, since the last time. */
struct passed {
    size_t ports, changed, gone;
    size_t frontends, removed;
};
static struct passed passed;

void ruleset_set_port(struct ruleset *ruleset, uint32_t id, const struct port_route *route)
{
    passed.ports++;
}

bool ruleset_change_port(struct ruleset *ruleset, uint32_t id, const backend_change_vec *changes)
{
    passed.changed++;
    return true;
}

void ruleset_remove_port(struct ruleset *ruleset, uint32_t id)
{
    passed.gone++;
}

void ruleset_set(struct ruleset *ruleset, const struct frontend *frontend,
                 const struct route *route)
{
    passed.frontends++;
}

void ruleset_remove(struct ruleset *ruleset, const struct frontend *frontend)
{
    passed.removed++;
}

void ruleset_use_cluster_ip(struct ruleset *ruleset, const struct address *address, bool in_use)
{
}

/* There are none that an endpoint could be. */
bool ruleset_has_cluster_ip(const struct ruleset *ruleset, const struct address *address)
{
    return false;
}

void ruleset_refuse_localhost(struct ruleset *ruleset, uint8_t protocol, uint16_t port,
                              bool refused)
{
}

void ruleset_use_hairpin(struct ruleset *ruleset, const struct address *address, bool in_use)
{
}

bool ruleset_port_is_waiting(const struct ruleset *ruleset, uint32_t id)
{
    return false;
}

struct ruleset *table_changing(struct table *table)
{
    return (struct ruleset *)table;
}

const struct ruleset *table_ruleset(const struct table *table)
{
    return (const struct ruleset *)table;
}

static void on_service(void *ctx, const struct service *before, const struct service *after)
{
    policy_change_service(policy, before, after);
}

static void on_slice(void *ctx, const struct slice_change *change)
{
    policy_change_slice(policy, change);
}

static void set_up(void)
{
    alarm(TIMEOUT);
    caches_init(&caches,
                &(struct caches_ops){.service_changed = on_service, .slice_changed = on_slice});
    policy = policy_new(&(struct policy_config){
        .node_name = "here", .caches = &caches, .tables = {(struct table *)&passed}});
}

static void tear_down(void)
{
    policy_free(policy);
    caches_clear(&caches);
}

/* What policy passes on now. */
static void expect(struct passed expected)
{
    passed = (struct passed){0};
    policy_sync(policy);
    ck_assert_uint_eq(passed.ports, expected.ports);
    ck_assert_uint_eq(passed.changed, expected.changed);
    ck_assert_uint_eq(passed.gone, expected.gone);
    ck_assert_uint_eq(passed.frontends, expected.frontends);
    ck_assert_uint_eq(passed.removed, expected.removed);
}

/* ---- objects ---- */

/* Number @i of very many ports, in one of several names. */
static struct service_port make_numbered(const char *prefix, unsigned i)
{
    static const uint8_t protocols[] = {6, 132};
    char name[24];
    snprintf(name, sizeof(name), "%s%u", prefix, i);
    return (struct service_port){
        .name = intern(name), .protocol = protocols[i >> 16], .port = (uint16_t)i};
}

static void put(enum object_kind kind, void *payload)
{
    struct object object = {.kind = kind, .payload = payload};
    caches.sink.put(&caches, &object);
}

static void put_service(const char *prefix, unsigned n, bool reversed)
{
    struct service *service = make_service("a/web", "10.96.0.1", "");
    for (unsigned i = 0; i < n; i++)
        vec_push(&service->ports, make_numbered(prefix, reversed ? n - 1 - i : i));
    put(KIND_SERVICE, service);
}

/* The numbers of its ports are those of the Service's, and @more. */
static struct endpoint_slice *make_numbered_slice(const char *id, const char *endpoints, unsigned n,
                                                  bool reversed, unsigned more)
{
    struct endpoint_slice *slice = make_slice(id, "a/web", FAMILY_IPV4, "", endpoints);
    for (unsigned i = 0; i < n; i++) {
        struct service_port port = make_numbered("p", reversed ? n - 1 - i : i);
        vec_push(&slice->ports,
                 (struct slice_port){port.name, port.protocol, (uint16_t)(port.port + more)});
    }
    endpoint_slice_sort_ports(slice);
    return slice;
}

static void put_slice(const char *id, const char *endpoints, bool reversed, unsigned more)
{
    put(KIND_ENDPOINTSLICE, make_numbered_slice(id, endpoints, PORTS, reversed, more));
}

/* ---- tests ---- */

LONG_TEST(a_slice_of_many_ports)
{
    put_service("p", PORTS, false);
    expect((struct passed){.ports = PORTS, .frontends = PORTS});
    put_slice("a/1", "10.0.0.1", false, 0);
    expect((struct passed){.ports = PORTS});
    put_slice("a/1", "10.0.0.1", true, 0);
    expect((struct passed){0});
    put_slice("a/1", "10.0.0.1 10.0.0.2", true, 0);
    expect((struct passed){.ports = PORTS - AT_ONCE, .changed = AT_ONCE});
    put_slice("a/2", "10.0.0.3", false, 0);
    expect((struct passed){.ports = PORTS - AT_ONCE, .changed = AT_ONCE});
    put_slice("a/2", "10.0.0.3", false, 1);
    expect((struct passed){.ports = PORTS - AT_ONCE / 2, .changed = AT_ONCE / 2});
    caches.sink.remove(&caches, KIND_ENDPOINTSLICE, "a/1");
    expect((struct passed){.ports = PORTS - AT_ONCE / 2, .changed = AT_ONCE / 2});
}

LONG_TEST(a_service_of_many_ports)
{
    put_slice("a/1", "10.0.0.1", false, 0);
    put_service("p", PORTS, false);
    expect((struct passed){.ports = PORTS, .frontends = PORTS});
    put_service("p", PORTS, true);
    expect((struct passed){.ports = PORTS});
    put_service("q", PORTS, true); /* who claims the frontends is gone, another one is there */
    expect((struct passed){.ports = PORTS, .gone = PORTS, .frontends = PORTS});
    caches.sink.remove(&caches, KIND_SERVICE, "a/web");
    expect((struct passed){.gone = PORTS, .removed = PORTS});
}

static void put_same(unsigned number, unsigned left_out)
{
    char id[16], text[ADDRESS_TEXT_SIZE];
    snprintf(id, sizeof(id), "a/%u", number);
    struct endpoint_slice *slice = make_numbered_slice(id, "", MANY_PORTS, false, 0);
    for (unsigned i = 0; i < MANY_ENDPOINTS - left_out; i++) {
        snprintf(text, sizeof(text), "10.0.%u.%u", i >> 8, i & 255);
        vec_push(&slice->endpoints, make_endpoint(text, FAMILY_IPV4));
    }
    put(KIND_ENDPOINTSLICE, slice);
}

/* Whatever changes many of them is decided once. */
LONG_TEST(many_slices_of_the_same_endpoints)
{
    put_service("p", MANY_PORTS, false);
    for (unsigned i = 0; i < MANY_SLICES; i++)
        put_same(i, 1);
    expect((struct passed){.ports = MANY_PORTS, .frontends = MANY_PORTS});
    put_same(0, 0);
    expect((struct passed){.changed = MANY_PORTS});
    for (unsigned i = 0; i < MANY_SLICES; i++)
        put_same(i, 0);
    expect((struct passed){.ports = MANY_PORTS});
    caches.sink.remove(&caches, KIND_ENDPOINTSLICE, "a/0");
    expect((struct passed){.ports = MANY_PORTS});
}

static void put_addresses(unsigned n)
{
    struct service *service = make_service("a/web", "10.96.0.1", "/TCP:80");
    for (unsigned i = 0; i < n; i++) {
        struct address address = {{172, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}};
        vec_push(&service_make_outside(service)->external_ips[FAMILY_IPV4], address);
    }
    put(KIND_SERVICE, service);
}

LONG_TEST(a_service_of_many_addresses)
{
    put_addresses(ADDRESSES);
    expect((struct passed){.ports = 1, .frontends = ADDRESSES + 1});
    put(KIND_ENDPOINTSLICE,
        make_slice("a/1", "a/web", FAMILY_IPV4, "/TCP:80", "10.0.0.1 10.0.0.2"));
    expect((struct passed){.ports = 1});
    put(KIND_ENDPOINTSLICE,
        make_slice("a/1", "a/web", FAMILY_IPV4, "/TCP:80", "10.0.0.1 10.0.0.3"));
    expect((struct passed){.changed = 1});
    put_addresses(ADDRESSES - 1);
    expect((struct passed){.ports = 1, .removed = 1});
    caches.sink.remove(&caches, KIND_SERVICE, "a/web");
    expect((struct passed){.gone = 1, .removed = ADDRESSES});
}

/* No ServiceCIDR is known, and no endpoint is near the cluster IPs: nobody looks for one that is.
 */
LONG_TEST(services_come_and_go_one_by_one)
{
    for (unsigned i = 0; i < MANY_SERVICES; i++) {
        char id[16], ip[ADDRESS_TEXT_SIZE], endpoint[ADDRESS_TEXT_SIZE];
        snprintf(id, sizeof(id), "a/%u", i);
        snprintf(ip, sizeof(ip), "10.96.%u.%u", i >> 8, i & 255);
        snprintf(endpoint, sizeof(endpoint), "10.244.%u.%u", i >> 8, i & 255);
        put(KIND_SERVICE, make_service(id, ip, "/TCP:80"));
        put(KIND_ENDPOINTSLICE, make_slice(id, id, FAMILY_IPV4, "/TCP:80", endpoint));
        expect((struct passed){.ports = 1, .frontends = 1});
    }
    for (unsigned i = 0; i < MANY_SERVICES; i++) {
        char id[16];
        snprintf(id, sizeof(id), "a/%u", i);
        caches.sink.remove(&caches, KIND_SERVICE, id);
        expect((struct passed){.gone = 1, .removed = 1});
    }
}

/* Whose endpoint has the address of a new Service is looked for in pieces. */
LONG_TEST(a_cluster_ip_near_many_endpoints)
{
    const unsigned n = MANY_SERVICES / 2;
    unsigned pieces = 1;
    for (unsigned i = 0; i < n; i++) {
        char id[16], endpoint[ADDRESS_TEXT_SIZE];
        snprintf(id, sizeof(id), "a/%u", i);
        snprintf(endpoint, sizeof(endpoint), "10.96.%u.%u", i >> 8, i & 255);
        put(KIND_SERVICE, make_service(id, "10.97.0.1", "/TCP:80"));
        put(KIND_ENDPOINTSLICE, make_slice(id, id, FAMILY_IPV4, "/TCP:80", endpoint));
    }
    expect((struct passed){.ports = n, .frontends = 1});
    for (int there = 1; there >= 0; there--) {
        if (there)
            put(KIND_SERVICE, make_service("b/web", "10.96.1.1", "/TCP:80"));
        else
            caches.sink.remove(&caches, KIND_SERVICE, "b/web");
        passed = (struct passed){0};
        for (pieces = 1; !policy_sync_some(policy, SIZE_MAX); pieces++)
            ck_assert_uint_lt(pieces, n);
        ck_assert_uint_gt(pieces, 10);
        ck_assert_uint_eq(passed.ports, 1 + (unsigned)there); /* and its own */
    }
}

UNIT_FIXTURE(set_up, tear_down)
