/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/policy.h"

#include "kube-nftd/base/log.h"
#include "objects.h"
#include "unit.h"

#include <string.h>

#define V4 FAMILY_IPV4
#define V6 FAMILY_IPV6

/* Caches and policy as the daemon wires them, for the node "here". */
static struct service_cache *services;
static struct endpoint_slice_cache *slices;
static struct policy *policy;

/* The operations received since the last time, and the log lines. */
static VEC(char *) ops;
static VEC(char *) lines;

/* What the operations add up to. */
struct received {
    struct frontend frontend;
    VEC(struct backend) backends;
};
static VEC(struct received) state;

struct received_check {
    char *service_id;
    enum family family;
    uint16_t port;
    size_t count;
};
static VEC(struct received_check) checks;

/* ---------------------------------------------------------- what is received */

static struct received *find_received(const struct frontend *frontend)
{
    vec_each (&state, it) {
        if (memcmp(&it->frontend, frontend, sizeof(*frontend)) == 0)
            return it;
    }
    return NULL;
}

static void on_set(void *ctx, const struct frontend *frontend, const struct backend *backends,
                   size_t n)
{
    ck_assert_ptr_eq(ctx, &ops);
    char text[FRONTEND_TEXT_SIZE], address[ADDRESS_TEXT_SIZE];
    char *op = xasprintf("%s", frontend_format(frontend, text));
    if (!find_received(frontend))
        vec_push(&state, (struct received){.frontend = *frontend});
    struct received *received = find_received(frontend);
    vec_clear(&received->backends);
    for (size_t i = 0; i < n; i++) {
        vec_push(&received->backends, backends[i]);
        if (i > 0)
            ck_assert_int_lt(backend_compare(&backends[i - 1], &backends[i]), 0);
        address_format((enum family)frontend->family, &backends[i].address, address);
        char *longer = xasprintf("%s %s:%u", op, address, backends[i].port);
        free(op);
        op = longer;
    }
    vec_push(&ops, op);
}

static void on_remove(void *ctx, const struct frontend *frontend)
{
    ck_assert_ptr_eq(ctx, &ops);
    char text[FRONTEND_TEXT_SIZE];
    struct received *received = find_received(frontend);
    if (received) {
        vec_free(&received->backends);
        *received = state.v[--state.n];
    }
    vec_push(&ops, xasprintf("-%s", frontend_format(frontend, text)));
}

static void receive_check(const char *service_id, enum family family, uint16_t port, size_t count)
{
    vec_each (&checks, it) {
        if (it->family == family && strcmp(it->service_id, service_id) == 0) {
            it->port = port;
            it->count = count;
            return;
        }
    }
    vec_push(&checks, (struct received_check){xstrdup(service_id), family, port, count});
}

static void on_health_check(void *ctx, const char *service_id, enum family family, uint16_t port,
                            size_t local_ready)
{
    ck_assert_ptr_eq(ctx, &ops);
    receive_check(service_id, family, port, local_ready);
    vec_push(&ops,
             xasprintf("%s %s check %u: %zu", service_id, family_name(family), port, local_ready));
}

static void on_line(void *ctx, enum log_level level, const char *line)
{
    static const char subsystem[] = " policy: ";
    (void)ctx;
    ck_assert_int_eq(level, LOG_LEVEL_WARN);
    ck_assert_ptr_nonnull(strstr(line, subsystem));
    vec_push(&lines, xstrdup(strstr(line, subsystem) + strlen(subsystem)));
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The texts, sorted, with ", " between; they are forgotten. */
static char *join(char **texts, size_t n)
{
    char *all = xstrdup("");
    if (n)
        qsort(texts, n, sizeof(*texts), compare_texts);
    for (size_t i = 0; i < n; i++) {
        char *longer = xasprintf("%s%s%s", all, i ? ", " : "", texts[i]);
        free(all);
        free(texts[i]);
        all = longer;
    }
    return all;
}

/* ---------------------------------------------------------- set-up */

static void service_changed(void *ctx, const struct service *before, const struct service *after)
{
    (void)ctx;
    policy_service_changed(policy, before, after);
}

static void endpoints_changed(void *ctx, const struct service_port_ref *ref)
{
    (void)ctx;
    policy_endpoints_changed(policy, ref);
}

static void set_up(void)
{
    services = service_cache_new(service_changed, NULL);
    slices = endpoint_slice_cache_new(endpoints_changed, NULL);
    const struct policy_ops receiver = {on_set, on_remove, on_health_check, &ops};
    policy = policy_new(services, slices, "here", &receiver);
    log_set_sink(on_line, NULL);
}

static void tear_down(void)
{
    log_set_sink(NULL, NULL);
    policy_free(policy);
    service_cache_free(services);
    endpoint_slice_cache_free(slices);
    free(join(ops.v, ops.n));
    vec_free(&ops);
    free(join(lines.v, lines.n));
    vec_free(&lines);
    vec_each (&state, it)
        vec_free(&it->backends);
    vec_free(&state);
    vec_each (&checks, it)
        free(it->service_id);
    vec_free(&checks);
}

/* ---------------------------------------------------------- words */

static void put_service(const char *id, const char *addresses, const char *ports)
{
    service_cache_put(services, make_service(id, addresses, ports));
}

/* One created at second @created. */
static void put_created(const char *id, int64_t created, const char *addresses, const char *ports)
{
    struct service *service = make_service(id, addresses, ports);
    service->created = created;
    service_cache_put(services, service);
}

static void put_checked(const char *id, uint16_t port, const char *addresses, const char *ports)
{
    struct service *service = make_service(id, addresses, ports);
    service->health_check_node_port = port;
    service_cache_put(services, service);
}

static void put_slice(const char *id, const char *service_id, const char *ports,
                      const char *endpoints)
{
    enum family family = strstr(endpoints, "::") ? V6 : V4;
    endpoint_slice_cache_put(slices, make_slice(id, service_id, family, ports, endpoints));
}

/* Settling sends just these operations. */
static void expect_ops(const char *expected)
{
    policy_settle(policy);
    char *text = join(ops.v, ops.n);
    vec_clear(&ops);
    expect_text(text, expected);
    policy_settle(policy);
    ck_assert_uint_eq(ops.n, 0);
}

static void settle_health_checks(void)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        policy_settle_health_checks(policy, (enum family)family);
}

static void expect_checks(const char *expected)
{
    settle_health_checks();
    char *text = join(ops.v, ops.n);
    vec_clear(&ops);
    expect_text(text, expected);
    settle_health_checks();
    ck_assert_uint_eq(ops.n, 0);
}

static void expect_lines(const char *expected)
{
    char *text = join(lines.v, lines.n);
    vec_clear(&lines);
    expect_text(text, expected);
}

/* ---------------------------------------------------------- plain values */

START_TEST(frontend_texts)
{
    static const struct {
        const char *address, *text;
        uint16_t port;
        uint8_t protocol;
    } cases[] = {
        {"10.96.0.1", "10.96.0.1:80/TCP", 80, 6},
        {"fd00::1", "[fd00::1]:53/UDP", 53, 17},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
         "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535/SCTP", 65535, 132},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[FRONTEND_TEXT_SIZE];
        enum family family;
        struct frontend frontend = {.port = cases[i].port, .protocol = cases[i].protocol};
        frontend.address = make_address(cases[i].address, &family);
        frontend.family = (uint8_t)family;
        ck_assert_ptr_eq(frontend_format(&frontend, text), text);
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

START_TEST(backend_order)
{
    static const struct {
        const char *address;
        uint16_t port;
    } sorted[] = {{"9.0.0.1", 2},  {"10.0.0.1", 80},    {"10.0.0.1", 443},
                  {"10.0.0.2", 1}, {"200.0.0.1", 9999}, {"200.0.0.1", 65535}};
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
            enum family family;
            struct backend a = {make_address(sorted[i].address, &family), sorted[i].port};
            struct backend b = {make_address(sorted[j].address, &family), sorted[j].port};
            int order = backend_compare(&a, &b);
            ck_assert_int_eq((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
}
END_TEST

/* ---------------------------------------------------------- services and slices */

START_TEST(service_first)
{
    put_service("a/web", "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP");
    put_slice("a/s", "a/web", "http/TCP:8080", "10.0.0.2 10.0.0.1");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:8080 10.0.0.2:8080");
}
END_TEST

START_TEST(slices_first)
{
    put_slice("a/s", "a/web", "http/TCP:8080", "10.0.0.1");
    expect_ops("");
    put_service("a/web", "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:8080");
}
END_TEST

START_TEST(service_goes_and_returns)
{
    put_slice("a/s", "a/web", "http/TCP:8080 dns/UDP:53", "10.0.0.1");
    put_service("a/web", "10.96.0.1 fd00::1", "http/TCP:80 dns/UDP:53");
    expect_ops("10.96.0.1:53/UDP 10.0.0.1:53, 10.96.0.1:80/TCP 10.0.0.1:8080, [fd00::1]:53/UDP, "
               "[fd00::1]:80/TCP");
    service_cache_remove(services, "a/web");
    expect_ops("-10.96.0.1:53/UDP, -10.96.0.1:80/TCP, -[fd00::1]:53/UDP, -[fd00::1]:80/TCP");
    /* Endpoints of a Service that is gone are harmless, and there when it returns. */
    put_slice("a/s", "a/web", "http/TCP:8080", "10.0.0.2");
    expect_ops("");
    put_service("a/web", "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.2:8080");
}
END_TEST

START_TEST(families_apart)
{
    put_service("a/web", "10.96.0.1 fd00::1", "http/TCP:80");
    put_slice("a/s4", "a/web", "http/TCP:8080", "10.0.0.1");
    put_slice("a/s6", "a/web", "http/TCP:8081", "fd00:1::1");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:8080, [fd00::1]:80/TCP fd00:1::1:8081");
    put_slice("a/s6", "a/web", "http/TCP:8081", "fd00:1::2");
    expect_ops("[fd00::1]:80/TCP fd00:1::2:8081");
    put_service("a/web", "fd00::1", "http/TCP:80");
    expect_ops("-10.96.0.1:80/TCP, [fd00::1]:80/TCP fd00:1::2:8081");
    put_slice("a/s4", "a/web", "http/TCP:8080", "10.0.0.9");
    expect_ops("");
}
END_TEST

/* Name and protocol must both be equal, and only the port that changed is decided again. */
START_TEST(ports_meet_by_name_and_protocol)
{
    put_service("a/web", "10.96.0.1", "http/TCP:80 dns/UDP:53 dns/TCP:53 /TCP:9");
    expect_ops("10.96.0.1:53/TCP, 10.96.0.1:53/UDP, 10.96.0.1:80/TCP, 10.96.0.1:9/TCP");
    put_slice("a/s1", "a/web", "dns/UDP:5353", "10.0.0.1");
    expect_ops("10.96.0.1:53/UDP 10.0.0.1:5353");
    put_slice("a/s2", "a/web", "/TCP:99 other/TCP:7", "10.0.0.1");
    expect_ops("10.96.0.1:9/TCP 10.0.0.1:99");
    put_slice("a/s1", "a/web", "dns/UDP:5353 http/UDP:1", "10.0.0.1");
    expect_ops("");
    put_slice("a/s1", "a/web", "dns/UDP:5353 http/TCP:8080", "10.0.0.1");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:8080");
    put_slice("a/s1", "a/web", "dns/UDP:5354 http/TCP:8080", "10.0.0.1");
    expect_ops("10.96.0.1:53/UDP 10.0.0.1:5354");
}
END_TEST

START_TEST(ports_come_and_go)
{
    put_slice("a/s", "a/web", "http/TCP:8080 dns/UDP:53", "10.0.0.1");
    put_service("a/web", "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:8080");
    put_service("a/web", "10.96.0.1", "http/TCP:80 dns/UDP:53");
    expect_ops("10.96.0.1:53/UDP 10.0.0.1:53, 10.96.0.1:80/TCP 10.0.0.1:8080");
    /* Renamed: the slices know no such name. */
    put_service("a/web", "10.96.0.1", "web/TCP:80 dns/UDP:53");
    expect_ops("10.96.0.1:53/UDP 10.0.0.1:53, 10.96.0.1:80/TCP");
    put_service("a/web", "10.96.0.1", "http/TCP:81");
    expect_ops("-10.96.0.1:53/UDP, -10.96.0.1:80/TCP, 10.96.0.1:81/TCP 10.0.0.1:8080");
    put_service("a/web", "10.96.0.1", "http/SCTP:81");
    expect_ops("-10.96.0.1:81/TCP, 10.96.0.1:81/SCTP");
    put_service("a/web", "10.96.0.1", "");
    expect_ops("-10.96.0.1:81/SCTP");
}
END_TEST

START_TEST(address_moves)
{
    put_slice("a/s", "a/web", "http/TCP:8080", "10.0.0.1");
    put_service("a/web", "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:8080");
    put_service("a/web", "10.96.0.2", "http/TCP:80");
    expect_ops("-10.96.0.1:80/TCP, 10.96.0.2:80/TCP 10.0.0.1:8080");
    put_slice("a/s", "a/web", "http/TCP:8080", "10.0.0.2");
    expect_ops("10.96.0.2:80/TCP 10.0.0.2:8080");
}
END_TEST

START_TEST(skipped)
{
    put_slice("a/s", "a/web", "http/TCP:8080", "10.0.0.1");
    struct service *service = make_service("a/web", "10.96.0.1", "http/TCP:80");
    service->skipped = true;
    service_cache_put(services, service);
    expect_ops("");
    put_slice("a/s", "a/web", "http/TCP:8080", "10.0.0.2");
    expect_ops("");
    put_service("a/web", "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.2:8080");
    service = make_service("a/web", "10.96.0.1", "http/TCP:80");
    service->skipped = true;
    service_cache_put(services, service);
    expect_ops("-10.96.0.1:80/TCP");
}
END_TEST

START_TEST(endpoints_come_and_go)
{
    put_service("a/web", "10.96.0.1", "http/TCP:80");
    put_slice("a/s1", "a/web", "http/TCP:8080", "10.0.0.1 10.0.0.2");
    put_slice("a/s2", "a/web", "http/TCP:9090", "10.0.0.2 10.0.0.3");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:8080 10.0.0.2:8080 10.0.0.2:9090 10.0.0.3:9090");
    endpoint_slice_cache_remove(slices, "a/s1");
    expect_ops("10.96.0.1:80/TCP 10.0.0.2:9090 10.0.0.3:9090");
    put_slice("a/s2", "b/other", "http/TCP:9090", "10.0.0.2 10.0.0.3");
    expect_ops("10.96.0.1:80/TCP");
    put_slice("a/s2", "a/web", "http/TCP:9090", "10.0.0.3");
    expect_ops("10.96.0.1:80/TCP 10.0.0.3:9090");
}
END_TEST

/* The pods of a service end: they serve while they terminate and nobody else is there. */
START_TEST(terminating_fallback)
{
    put_service("a/web", "10.96.0.1", "http/TCP:80");
    put_slice("a/s", "a/web", "http/TCP:80", "10.0.0.1 10.0.0.2=st");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:80");
    put_slice("a/s", "a/web", "http/TCP:80", "10.0.0.1=st 10.0.0.2=t");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:80");
    put_slice("a/s", "a/web", "http/TCP:80", "10.0.0.1=st 10.0.0.2=st 10.0.0.3=s");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:80 10.0.0.2:80");
    put_slice("a/s", "a/web", "http/TCP:80", "10.0.0.1=t 10.0.0.2=- 10.0.0.3=s");
    expect_ops("10.96.0.1:80/TCP");
    /* Another slice has a copy that does not terminate. */
    put_slice("a/s2", "a/web", "http/TCP:80", "10.0.0.1@x");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:80");
}
END_TEST

/* Many changes, one decision for each frontend. */
START_TEST(decided_once)
{
    for (int i = 0; i < 5; i++) {
        put_service("a/web", i % 2 ? "10.96.0.1" : "10.96.0.1 fd00::1", "http/TCP:80");
        put_slice("a/s", "a/web", "http/TCP:80", i % 2 ? "10.0.0.1" : "10.0.0.2");
    }
    expect_ops("10.96.0.1:80/TCP 10.0.0.2:80, [fd00::1]:80/TCP");
    service_cache_remove(services, "a/web");
    put_service("a/web", "10.96.0.1", "http/TCP:80");
    expect_ops("-[fd00::1]:80/TCP, 10.96.0.1:80/TCP 10.0.0.2:80");
}
END_TEST

/* ---------------------------------------------------------- one frontend, two services */

START_TEST(older_wins)
{
    put_slice("a/s1", "a/new", "http/TCP:80", "10.0.0.1");
    put_slice("a/s2", "b/old", "web/TCP:80", "10.0.0.2");
    put_created("a/new", 200, "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:80");
    expect_lines("");
    put_created("b/old", 100, "10.96.0.1", "web/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.2:80");
    expect_lines("frontend=10.96.0.1:80/TCP of service=a/new is left to service=b/old, which is "
                 "older");
    /* The loser's endpoints change nothing, and nothing is said again. */
    put_slice("a/s1", "a/new", "http/TCP:80", "10.0.0.3");
    expect_ops("10.96.0.1:80/TCP 10.0.0.2:80");
    put_slice("a/s2", "b/old", "web/TCP:80", "10.0.0.4");
    expect_ops("10.96.0.1:80/TCP 10.0.0.4:80");
    expect_lines("");
    /* The winner goes: its heir takes over with what it has now; and back again. */
    service_cache_remove(services, "b/old");
    expect_ops("10.96.0.1:80/TCP 10.0.0.3:80");
    expect_lines("");
    put_created("b/old", 100, "10.96.0.1", "web/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.4:80");
    expect_lines("frontend=10.96.0.1:80/TCP of service=a/new is left to service=b/old, which is "
                 "older");
    service_cache_remove(services, "a/new");
    expect_ops("10.96.0.1:80/TCP 10.0.0.4:80");
    service_cache_remove(services, "b/old");
    expect_ops("-10.96.0.1:80/TCP");
}
END_TEST

START_TEST(winner_moves_away)
{
    put_slice("a/s1", "a/new", "http/TCP:80", "10.0.0.1");
    put_slice("a/s2", "a/old", "http/TCP:80", "10.0.0.2");
    put_created("a/old", 100, "10.96.0.1", "http/TCP:80");
    put_created("a/new", 200, "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.2:80");
    put_created("a/old", 100, "10.96.0.9", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:80, 10.96.0.9:80/TCP 10.0.0.2:80");
    put_created("a/old", 100, "10.96.0.1", "http/TCP:80");
    expect_ops("-10.96.0.9:80/TCP, 10.96.0.1:80/TCP 10.0.0.2:80");
    put_created("a/old", 100, "10.96.0.1", "http/TCP:81");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:80, 10.96.0.1:81/TCP 10.0.0.2:80");
    /* Made anew under its name, it is the younger one. */
    put_created("a/old", 300, "10.96.0.1", "http/TCP:80");
    expect_ops("-10.96.0.1:81/TCP, 10.96.0.1:80/TCP 10.0.0.1:80");
}
END_TEST

START_TEST(ties_go_by_name)
{
    put_slice("a/s1", "a/web", "http/TCP:80", "10.0.0.1");
    put_slice("a/s2", "a/web2", "http/TCP:80", "10.0.0.2");
    put_slice("b/s", "b/a", "http/TCP:80", "10.0.0.3");
    put_created("b/a", INT64_MAX, "10.96.0.1", "http/TCP:80");
    put_created("a/web2", INT64_MAX, "10.96.0.1", "http/TCP:80");
    put_created("a/web", INT64_MAX, "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.1:80");
    expect_lines("frontend=10.96.0.1:80/TCP of service=a/web2 is left to service=a/web, which is "
                 "first by name, frontend=10.96.0.1:80/TCP of service=b/a is left to "
                 "service=a/web, which is first by name");
    service_cache_remove(services, "a/web");
    expect_ops("10.96.0.1:80/TCP 10.0.0.2:80");
    /* Any time is older than none. */
    put_created("b/a", 5000000000, "10.96.0.1", "http/TCP:80");
    expect_ops("10.96.0.1:80/TCP 10.0.0.3:80");
}
END_TEST

/* Only the frontend in common is shared: other ports and protocols have one claimant each. */
START_TEST(partly_shared)
{
    put_slice("a/s1", "a/one", "http/TCP:80 dns/UDP:53", "10.0.0.1");
    put_slice("a/s2", "a/two", "http/TCP:80 dns/TCP:53", "10.0.0.2");
    put_created("a/one", 1, "10.96.0.1 fd00::1", "http/TCP:80 dns/UDP:53");
    put_created("a/two", 2, "10.96.0.1 fd00::2", "http/TCP:80 dns/TCP:53");
    expect_ops("10.96.0.1:53/TCP 10.0.0.2:53, 10.96.0.1:53/UDP 10.0.0.1:53, 10.96.0.1:80/TCP "
               "10.0.0.1:80, [fd00::1]:53/UDP, [fd00::1]:80/TCP, [fd00::2]:53/TCP, "
               "[fd00::2]:80/TCP");
    service_cache_remove(services, "a/two");
    expect_ops("-10.96.0.1:53/TCP, -[fd00::2]:53/TCP, -[fd00::2]:80/TCP, 10.96.0.1:80/TCP "
               "10.0.0.1:80");
}
END_TEST

/* ---------------------------------------------------------- health check node ports */

START_TEST(counts_distinct_local_ready_addresses)
{
    put_checked("a/lb", 31000, "10.96.0.1", "http/TCP:80 dns/UDP:53");
    expect_checks("a/lb IPv4 check 31000: 0");
    put_slice("a/s1", "a/lb", "http/TCP:8080 dns/UDP:53", "10.0.0.1@here 10.0.0.2@here");
    expect_checks("a/lb IPv4 check 31000: 2");
    /* The same address under another number is the same; only local and ready ones count. */
    put_slice(
        "a/s2", "a/lb", "http/TCP:9090",
        "10.0.0.1@here 10.0.0.3@here 10.0.0.4@there 10.0.0.5 10.0.0.6=s@here 10.0.0.7=-@here");
    expect_checks("a/lb IPv4 check 31000: 3");
    /* Terminating ones never count, even while they take the traffic. */
    put_slice("a/s1", "a/lb", "http/TCP:8080 dns/UDP:53", "10.0.0.1=st@here 10.0.0.2=st@here");
    put_slice("a/s2", "a/lb", "http/TCP:8080", "");
    expect_checks("a/lb IPv4 check 31000: 0");
    expect_ops("10.96.0.1:53/UDP 10.0.0.1:53 10.0.0.2:53, 10.96.0.1:80/TCP 10.0.0.1:8080 "
               "10.0.0.2:8080");
    /* Ports that the Service does not have bring nothing. */
    put_slice("a/s2", "a/lb", "metrics/TCP:9", "10.0.0.9@here");
    put_slice("a/s1", "a/lb", "dns/UDP:53", "10.0.0.1=rt@here");
    expect_checks("a/lb IPv4 check 31000: 1");
}
END_TEST

START_TEST(counts_the_winning_copy)
{
    put_checked("a/lb", 31000, "10.96.0.1", "http/TCP:80");
    put_slice("a/s1", "a/lb", "http/TCP:80", "10.0.0.1=rst@here");
    expect_checks("a/lb IPv4 check 31000: 1");
    put_slice("a/s2", "a/lb", "http/TCP:80", "10.0.0.1@there");
    expect_checks("a/lb IPv4 check 31000: 0");
}
END_TEST

START_TEST(check_opens_and_closes)
{
    put_slice("a/s", "a/lb", "http/TCP:80", "10.0.0.1@here");
    put_service("a/lb", "10.96.0.1", "http/TCP:80");
    expect_checks("");
    put_checked("a/lb", 31000, "10.96.0.1", "http/TCP:80");
    expect_checks("a/lb IPv4 check 31000: 1");
    put_checked("a/lb", 31001, "10.96.0.1", "http/TCP:80");
    expect_checks("a/lb IPv4 check 31001: 1");
    put_service("a/lb", "10.96.0.1", "http/TCP:80");
    expect_checks("a/lb IPv4 check 0: 0");
    put_slice("a/s", "a/lb", "http/TCP:80", "10.0.0.2@here");
    expect_checks("");
    put_checked("a/lb", 31000, "10.96.0.1", "http/TCP:80");
    expect_checks("a/lb IPv4 check 31000: 1");
    struct service *service = make_service("a/lb", "10.96.0.1", "http/TCP:80");
    service->health_check_node_port = 31000;
    service->skipped = true;
    service_cache_put(services, service);
    expect_checks("a/lb IPv4 check 0: 0");
    put_checked("a/lb", 31000, "10.96.0.1", "http/TCP:80");
    expect_checks("a/lb IPv4 check 31000: 1");
    service_cache_remove(services, "a/lb");
    expect_checks("a/lb IPv4 check 0: 0");
    /* Came and went unseen. */
    put_checked("a/lb", 31000, "10.96.0.1", "http/TCP:80");
    service_cache_remove(services, "a/lb");
    expect_checks("");
}
END_TEST

/* Each family counts for itself (spec 6.1). */
START_TEST(check_by_family)
{
    put_checked("a/lb", 31000, "10.96.0.1 fd00::1", "http/TCP:80");
    put_slice("a/s4", "a/lb", "http/TCP:80", "10.0.0.1@here 10.0.0.2@here");
    put_slice("a/s6", "a/lb", "http/TCP:80", "fd00::a@here");
    expect_checks("a/lb IPv4 check 31000: 2, a/lb IPv6 check 31000: 1");
    put_checked("a/lb", 31000, "fd00::1", "http/TCP:80");
    expect_checks("a/lb IPv4 check 0: 0, a/lb IPv6 check 31000: 1");
    put_checked("a/lb", 31000, "10.96.0.1", "http/TCP:80");
    expect_checks("a/lb IPv4 check 31000: 2, a/lb IPv6 check 0: 0");
}
END_TEST

/* Two Services on one frontend: the one without it still has its own health check. */
START_TEST(check_of_a_loser)
{
    put_slice("a/s1", "a/one", "http/TCP:80", "10.0.0.1@here");
    put_slice("a/s2", "a/two", "http/TCP:80", "10.0.0.1@here 10.0.0.2@here");
    put_checked("a/one", 31000, "10.96.0.1", "http/TCP:80");
    put_checked("a/two", 31001, "10.96.0.1", "http/TCP:80");
    expect_checks("a/one IPv4 check 31000: 1, a/two IPv4 check 31001: 2");
}
END_TEST

/* ---------------------------------------------------------- any history */

#define N_SERVICES 6
#define N_SLICES 8
#define STEPS 2500

/* What the caches should hold: made a second time from the same chance. NULL for none. */
static struct service *all_services[N_SERVICES];
static struct endpoint_slice *all_slices[N_SLICES];

/* Of few addresses and ports, so that Services meet on frontends. */
static struct service *random_service(unsigned number, uint64_t *chance)
{
    static const char *const addresses[] = {"10.96.0.1",         "10.96.0.2", "10.96.0.1 fd00::1",
                                            "10.96.0.2 fd00::1", "fd00::2",   ""};
    static const char *const ports[] = {"http/TCP:80",          "http/TCP:80 dns/UDP:53",
                                        "dns/UDP:53",           "web/TCP:80",
                                        "http/TCP:81 /TCP:80",  "/TCP:80 http/TCP:443 http/UDP:80",
                                        "dns/UDP:53 dns/TCP:53"};
    char id[8];
    snprintf(id, sizeof(id), "a/%c", 'a' + (int)number);
    struct service *service = make_service(id, addresses[dice(chance, 6)], ports[dice(chance, 7)]);
    service->created = dice(chance, 3) ? (int64_t)dice(chance, 3) : INT64_MAX;
    service->skipped = dice(chance, 8) == 0;
    service->health_check_node_port = (uint16_t)(dice(chance, 2) ? 31000 + dice(chance, 2) : 0);
    return service;
}

static struct endpoint_slice *random_slice(unsigned number, uint64_t *chance)
{
    static const char *const ports[] = {"http/TCP:80",  "http/TCP:81 dns/UDP:53",
                                        "/TCP:80",      "dns/UDP:53 dns/TCP:53",
                                        "web/TCP:8080", "http/UDP:80 http/TCP:80"};
    static const char *const flags[] = {"",       "",         "=st",      "=t",
                                        "=-",     "=s",       "=rst",     "@here",
                                        "@there", "=st@here", "=rt@here", "=s@here"};
    enum family family = dice(chance, 3) ? V4 : V6;
    char id[8], service_id[8], endpoints[256] = "";
    snprintf(id, sizeof(id), "a/s%u", number);
    snprintf(service_id, sizeof(service_id), "a/%c", 'a' + (int)dice(chance, N_SERVICES));
    for (unsigned n = dice(chance, 4); n > 0; n--)
        snprintf(endpoints + strlen(endpoints), sizeof(endpoints) - strlen(endpoints), " %s%u%s",
                 family == V4 ? "10.0.0." : "fd00:1::", dice(chance, 5), flags[dice(chance, 12)]);
    return make_slice(id, dice(chance, 9) ? service_id : NULL, family, ports[dice(chance, 6)],
                      endpoints);
}

/* ---- the whole of it once more, from scratch */

static bool in_slice(const struct endpoint_slice *slice, const char *service_id, enum family family)
{
    return slice && slice->service_id && strcmp(slice->service_id, service_id) == 0 &&
           slice->has_family && slice->family == family;
}

/* One endpoint of each address:port (spec 2.5). */
static void add_copy(endpoint_vec *out, const struct endpoint *copy)
{
    vec_each (out, it) {
        if (memcmp(&it->address, &copy->address, sizeof(it->address)) != 0 ||
            it->port != copy->port)
            continue;
        if (it->flags & ENDPOINT_TERMINATING && !(copy->flags & ENDPOINT_TERMINATING))
            *it = *copy;
        return;
    }
    vec_push(out, *copy);
}

static void endpoints_of(const struct service *service, enum family family,
                         const struct service_port *port, endpoint_vec *out)
{
    vec_clear(out);
    for (int i = 0; i < N_SLICES; i++) {
        if (!in_slice(all_slices[i], service->id, family))
            continue;
        vec_each (&all_slices[i]->ports, p) {
            if (p->protocol != port->protocol || strcmp(p->name, port->name) != 0)
                continue;
            vec_each (&all_slices[i]->endpoints, it) {
                struct endpoint copy = {it->address, it->node_name, p->port, it->flags, 0};
                add_copy(out, &copy);
            }
        }
    }
}

static bool is_ready(uint8_t flags)
{
    return flags & ENDPOINT_READY;
}

static bool is_fallback(uint8_t flags)
{
    return flags == (ENDPOINT_SERVING | ENDPOINT_TERMINATING);
}

typedef VEC(struct backend) backend_vec;

static void backends_of(const endpoint_vec *endpoints, backend_vec *out)
{
    bool any_ready = false;
    vec_clear(out);
    vec_each (endpoints, it)
        any_ready = any_ready || is_ready(it->flags);
    vec_each (endpoints, it) {
        if (any_ready ? is_ready(it->flags) : is_fallback(it->flags))
            vec_push(out, (struct backend){it->address, it->port});
    }
    if (out->n)
        qsort(out->v, out->n, sizeof(*out->v), backend_compare);
}

static const struct service_port *claims(const struct service *service,
                                         const struct frontend *frontend)
{
    if (!service || service->skipped || !service->has_cluster_ip[frontend->family] ||
        memcmp(&service->cluster_ip[frontend->family], &frontend->address,
               sizeof(frontend->address)) != 0)
        return NULL;
    vec_each (&service->ports, port) {
        if (port->port == frontend->port && port->protocol == frontend->protocol)
            return port;
    }
    return NULL;
}

/* The Service that has the frontend: the oldest, then the first by name. */
static const struct service *owner_of(const struct frontend *frontend)
{
    const struct service *owner = NULL;
    for (int i = 0; i < N_SERVICES; i++) { /* in the order of their names */
        if (claims(all_services[i], frontend) &&
            (!owner || all_services[i]->created < owner->created))
            owner = all_services[i];
    }
    return owner;
}

static void check_frontend(const struct frontend *frontend)
{
    endpoint_vec endpoints = {0};
    backend_vec backends = {0};
    char text[FRONTEND_TEXT_SIZE];
    const struct service *owner = owner_of(frontend);
    endpoints_of(owner, (enum family)frontend->family, claims(owner, frontend), &endpoints);
    backends_of(&endpoints, &backends);
    const struct received *received = find_received(frontend);
    ck_assert_msg(received != NULL, "%s is missing", frontend_format(frontend, text));
    ck_assert_msg(received->backends.n == backends.n, "%s has %zu backends, not %zu",
                  frontend_format(frontend, text), received->backends.n, backends.n);
    for (size_t i = 0; i < backends.n; i++)
        ck_assert_int_eq(backend_compare(&received->backends.v[i], &backends.v[i]), 0);
    vec_free(&endpoints);
    vec_free(&backends);
}

static void check_frontends(void)
{
    for (int i = 0; i < N_SERVICES; i++) {
        const struct service *service = all_services[i];
        for (int family = 0; service && family < FAMILY_COUNT; family++) {
            vec_each (&service->ports, port) {
                struct frontend frontend = {service->cluster_ip[family], port->port, port->protocol,
                                            (uint8_t)family};
                if (claims(service, &frontend))
                    check_frontend(&frontend);
            }
        }
    }
    vec_each (&state, it)
        ck_assert_msg(owner_of(&it->frontend) != NULL, "a frontend is left behind");
}

static size_t count_local(const struct service *service, enum family family)
{
    endpoint_vec endpoints = {0};
    VEC(struct address) seen = {0};
    vec_each (&service->ports, port) {
        endpoints_of(service, family, port, &endpoints);
        vec_each (&endpoints, it) {
            bool known = false;
            vec_each (&seen, other)
                known = known || memcmp(other, &it->address, sizeof(*other)) == 0;
            if (!known && is_ready(it->flags) && it->node_name &&
                strcmp(it->node_name, "here") == 0)
                vec_push(&seen, it->address);
        }
    }
    size_t n = seen.n;
    vec_free(&endpoints);
    vec_free(&seen);
    return n;
}

static struct received_check find_check(const char *service_id, enum family family)
{
    vec_each (&checks, it) {
        if (it->family == family && strcmp(it->service_id, service_id) == 0)
            return *it;
    }
    return (struct received_check){0};
}

static void check_health_checks(void)
{
    for (int i = 0; i < N_SERVICES; i++) {
        char id[] = {'a', '/', (char)('a' + i), '\0'};
        const struct service *service = all_services[i];
        for (int f = 0; f < FAMILY_COUNT; f++) {
            struct received_check check = find_check(id, (enum family)f);
            bool wanted = service && !service->skipped && service->has_cluster_ip[f];
            uint16_t port = wanted ? service->health_check_node_port : 0;
            ck_assert_uint_eq(check.port, port);
            ck_assert_uint_eq(check.count, port ? count_local(service, (enum family)f) : 0);
        }
    }
}

/* ---- steps */

static void set_service(unsigned number, struct service *service)
{
    service_free(all_services[number]);
    all_services[number] = service;
}

static void set_slice(unsigned number, struct endpoint_slice *slice)
{
    endpoint_slice_free(all_slices[number]);
    all_slices[number] = slice;
}

static void step_put(uint64_t *chance)
{
    uint64_t again;
    if (dice(chance, 3) == 0) {
        unsigned number = dice(chance, N_SERVICES);
        again = *chance;
        set_service(number, random_service(number, chance));
        service_cache_put(services, random_service(number, &again));
    } else {
        unsigned number = dice(chance, N_SLICES);
        again = *chance;
        set_slice(number, random_slice(number, chance));
        endpoint_slice_cache_put(slices, random_slice(number, &again));
    }
}

static void step_remove(uint64_t *chance)
{
    char id[8];
    if (dice(chance, 2)) {
        unsigned number = dice(chance, N_SERVICES);
        set_service(number, NULL);
        snprintf(id, sizeof(id), "a/%c", 'a' + (int)number);
        service_cache_remove(services, id);
    } else {
        unsigned number = dice(chance, N_SLICES);
        set_slice(number, NULL);
        snprintf(id, sizeof(id), "a/s%u", number);
        endpoint_slice_cache_remove(slices, id);
    }
}

/* A list that does not name some of them any more. */
static void step_retain(uint64_t *chance)
{
    object_vec keep = {0};
    bool is_slices = dice(chance, 2);
    for (unsigned i = 0; i < (is_slices ? N_SLICES : N_SERVICES); i++) {
        if (dice(chance, 3))
            vec_push(&keep, (struct object){.id = is_slices ? xasprintf("a/s%u", i)
                                                            : xasprintf("a/%c", 'a' + (int)i)});
        else if (is_slices)
            set_slice(i, NULL);
        else
            set_service(i, NULL);
    }
    if (is_slices)
        endpoint_slice_cache_retain(slices, &keep);
    else
        service_cache_retain(services, &keep);
    object_vec_clear(&keep);
}

static void forget_texts(void)
{
    free(join(ops.v, ops.n));
    vec_clear(&ops);
    free(join(lines.v, lines.n));
    vec_clear(&lines);
}

static void random_step(uint64_t *chance)
{
    unsigned which = dice(chance, 40);
    if (which == 0)
        step_retain(chance);
    else if (which < 10)
        step_remove(chance);
    else
        step_put(chance);
    if (dice(chance, 3) == 0)
        return; /* more changes before they are settled */
    policy_settle(policy);
    check_frontends();
    if (dice(chance, 2)) {
        settle_health_checks();
        check_health_checks();
    }
    forget_texts();
}

START_TEST(any_history)
{
    uint64_t chance = (uint64_t)_i * 104729 + 7;
    for (int step = 0; step < STEPS; step++)
        random_step(&chance);
    for (unsigned i = 0; i < N_SERVICES; i++)
        set_service(i, NULL);
    for (unsigned i = 0; i < N_SLICES; i++)
        set_slice(i, NULL);
    object_vec none = {0};
    service_cache_retain(services, &none);
    policy_settle(policy);
    ck_assert_uint_eq(state.n, 0);
    settle_health_checks();
    check_health_checks();
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, frontend_texts);
    tcase_add_test(tcase, backend_order);
    tcase_add_test(tcase, service_first);
    tcase_add_test(tcase, slices_first);
    tcase_add_test(tcase, service_goes_and_returns);
    tcase_add_test(tcase, families_apart);
    tcase_add_test(tcase, ports_meet_by_name_and_protocol);
    tcase_add_test(tcase, ports_come_and_go);
    tcase_add_test(tcase, address_moves);
    tcase_add_test(tcase, skipped);
    tcase_add_test(tcase, endpoints_come_and_go);
    tcase_add_test(tcase, terminating_fallback);
    tcase_add_test(tcase, decided_once);
    tcase_add_test(tcase, older_wins);
    tcase_add_test(tcase, winner_moves_away);
    tcase_add_test(tcase, ties_go_by_name);
    tcase_add_test(tcase, partly_shared);
    tcase_add_test(tcase, counts_distinct_local_ready_addresses);
    tcase_add_test(tcase, counts_the_winning_copy);
    tcase_add_test(tcase, check_opens_and_closes);
    tcase_add_test(tcase, check_by_family);
    tcase_add_test(tcase, check_of_a_loser);
    tcase_add_loop_test(tcase, any_history, 0, 3);
}

UNIT_MAIN("policy", add_tests)
