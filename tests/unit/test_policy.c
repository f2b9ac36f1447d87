/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/policy.h"

#include "kube-nftd/policy/port_states.h"
#include "kube-nftd/policy/selection.h"
#include "random_objects.h"
#include "script_objects.h"

#include <arpa/inet.h>
#include <string.h>

#define V4 FAMILY_IPV4
#define V6 FAMILY_IPV6
#define UDP 17
#ifndef HISTORIES
#define HISTORIES 4
#endif

typedef VEC(char *) text_vec;
typedef VEC(struct backend) backend_vec;
typedef VEC(struct frontend) frontend_vec;

/* Caches and policy as the daemon wires them, for the node "here". */
static struct service_cache *services;
static struct endpoint_slice_cache *slices;
static struct policy *policy;

/* The operations received since the last time: those on service ports and frontends one by one, in
 * their order; each sort for itself, as sorted below; and the log lines. */
static text_vec told, ops;
static text_vec lines;

/* What the operations add up to: service ports and frontends that lead to them. */
struct received_port {
    const struct port_state *port;
    uint32_t id;
    char *name;
    struct port_route route; /* its pointers are not used, but: */
    backend_vec backends, local;
    unsigned times; /* handed on since the last time */
};
static VEC(struct received_port) told_ports;
static VEC(uint32_t) gone_ids;

struct received {
    struct frontend frontend;
    struct route route; /* its pointer is not used, but: */
    range_vec sources;
    unsigned times;
    bool concerned; /* or where it leads */
};
static VEC(struct received) state;

struct received_flows {
    struct frontend frontend;
    backend_vec serving;
};
static VEC(struct received_flows) flows;

/* As frontends, with zeros for what they do not have. */
static frontend_vec cluster_ips, hairpins;

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

static struct received_port *find_port(uint32_t id)
{
    vec_each (&told_ports, it)
        if (it->id == id)
            return it;
    return NULL;
}

static struct received_flows *find_flows(const struct frontend *frontend)
{
    vec_each (&flows, it) {
        if (memcmp(&it->frontend, frontend, sizeof(*frontend)) == 0)
            return it;
    }
    return NULL;
}

static void copy_backends(backend_vec *to, const struct backend *from, size_t n)
{
    vec_clear(to);
    for (size_t i = 0; i < n; i++) {
        vec_push(to, from[i]);
        if (i > 0)
            ck_assert_int_lt(backend_compare(&from[i - 1], &from[i]), 0);
    }
}

static void copy_sources(range_vec *to, const struct address_range *from, size_t n)
{
    vec_clear(to);
    for (size_t i = 0; i < n; i++) {
        vec_push(to, from[i]);
        ck_assert_int_le(memcmp(&from[i].first, &from[i].last, sizeof(from[i].first)), 0);
        if (i > 0)
            ck_assert_int_lt(memcmp(&from[i - 1].last, &from[i].first, sizeof(from[i].last)), 0);
    }
}

static void write_backends(FILE *out, enum family family, const backend_vec *backends)
{
    vec_each (backends, it) {
        fputc(' ', out);
        write_address(out, family, &it->address);
        fprintf(out, ":%u", it->port);
    }
}

/* "10.96.0.1:80/TCP ext 10.0.0.1:80 | 10.0.0.2:80 sticky=5 from 10.0.0.0-10.0.0.255": the Cluster
 * set, the Local set where it is asked for; "dropped" where it is empty, but another is not. */
static char *route_text(const struct received *it)
{
    char *text, address[FRONTEND_TEXT_SIZE];
    size_t length;
    FILE *out = open_memstream(&text, &length);
    enum family family = (enum family)it->frontend.family;
    const struct received_port *port = find_port(it->route.port);
    ck_assert_ptr_nonnull(port);
    fprintf(out, "%s%s", frontend_format(&it->frontend, address), it->route.external ? " ext" : "");
    if (it->route.external || !it->route.local)
        write_backends(out, family, &port->backends);
    if (it->route.local) {
        fputs(port->route.has_any && port->local.n == 0 ? " | dropped" : " |", out);
        write_backends(out, family, &port->local);
    }
    if (it->route.affine)
        fprintf(out, " sticky=%u", port->route.affinity_timeout);
    if (it->route.sources) {
        fputs(" from ", out);
        write_ranges(out, family, &it->sources);
    }
    fclose(out);
    return text;
}

/* Nothing is handed on that the service port has no use for, and nothing contradicts has_any. */
static void check_sense(const struct port_route *route)
{
    ck_assert(route->needs_cluster || route->needs_local);
    ck_assert_int_eq(route->n_backends > 0, route->needs_cluster && route->has_any);
    if (!route->needs_local || !route->has_any)
        ck_assert_uint_eq(route->n_local, 0);
}

/* "a/web:http", with its family if that is not the first. */
static char *port_text(const struct port_state *port)
{
    char *name = port_state_name(port);
    char *text = xasprintf("%s%s", name, port->family == V6 ? " IPv6" : "");
    free(name);
    return text;
}

/* Each has an id that nobody had before. */
static struct received_port *receive_port(const struct port_state *port)
{
    struct received_port *received = find_port(port->id);
    if (received) {
        ck_assert_ptr_eq(received->port, port);
        free(received->name);
    } else {
        vec_each (&gone_ids, it)
            ck_assert_uint_ne(*it, port->id);
        vec_push(&told_ports, (struct received_port){.port = port, .id = port->id});
        received = find_port(port->id);
    }
    received->name = port_text(port);
    received->times++;
    vec_each (&state, it)
        it->concerned = it->concerned || it->route.port == port->id;
    return received;
}

static void on_set_port(void *ctx, const struct port_state *port, const struct port_route *route)
{
    char *text;
    size_t length;
    ck_assert_ptr_eq(ctx, &ops);
    check_sense(route);
    struct received_port *received = receive_port(port);
    received->route = *route;
    copy_backends(&received->backends, route->backends, route->n_backends);
    copy_backends(&received->local, route->local_backends, route->n_local);
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "%s:", received->name);
    write_backends(out, (enum family)port->family, &received->backends);
    fputs(route->needs_local ? " |" : "", out);
    write_backends(out, (enum family)port->family, &received->local);
    fclose(out);
    vec_push(&told, text);
}

static void free_port(struct received_port *received)
{
    free(received->name);
    vec_free(&received->backends);
    vec_free(&received->local);
}

/* What still leads there is to go, or elsewhere, before all is settled. */
static void on_remove_port(void *ctx, const struct port_state *port)
{
    ck_assert_ptr_eq(ctx, &ops);
    struct received_port *received = find_port(port->id);
    ck_assert_ptr_nonnull(received);
    vec_push(&told, xasprintf("-%s", received->name));
    vec_push(&gone_ids, port->id);
    free_port(received);
    *received = told_ports.v[--told_ports.n];
}

static void on_set(void *ctx, const struct frontend *frontend, const struct route *route)
{
    char text[FRONTEND_TEXT_SIZE];
    ck_assert_ptr_eq(ctx, &ops);
    const struct received_port *port = find_port(route->port);
    ck_assert_ptr_nonnull(port);
    ck_assert(route->local ? port->route.needs_local : port->route.needs_cluster);
    ck_assert(!route->external || port->route.needs_cluster);
    ck_assert_int_eq(route->affine, port->route.affinity_timeout > 0);
    ck_assert_int_eq(route->sources != NULL, route->n_sources > 0);
    if (!find_received(frontend))
        vec_push(&state, (struct received){.frontend = *frontend});
    struct received *received = find_received(frontend);
    received->route = *route;
    received->times++;
    received->concerned = true;
    copy_sources(&received->sources, route->sources, route->n_sources);
    vec_push(&told, xasprintf("%s > %s", frontend_format(frontend, text), port->name));
}

/* One after the other: each comes that is not there, or goes that is. */
static void change_backends(backend_vec *to, const struct backend_change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < to->n && backend_compare(&to->v[at], &changes[i].backend) != 0)
            at++;
        ck_assert_int_eq(at < to->n, !changes[i].comes);
        if (changes[i].comes)
            vec_push(to, changes[i].backend);
        else
            to->v[at] = to->v[--to->n];
    }
    if (to->n)
        qsort(to->v, to->n, sizeof(*to->v), backend_compare);
}

/* Every so many are not taken; then the whole route must follow. */
static unsigned changes_taken, refuse_every;

static void write_changes(FILE *out, enum family family, const struct backend_change *changes,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fputs(changes[i].comes ? " +" : " -", out);
        write_address(out, family, &changes[i].backend.address);
        fprintf(out, ":%u", changes[i].backend.port);
    }
}

static char *change_text(const struct received_port *received,
                         const struct port_route_change *change)
{
    char *text;
    size_t length;
    enum family family = (enum family)received->port->family;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "%s:", received->name);
    write_changes(out, family, change->backends, change->n_backends);
    fputs(change->n_local ? " |" : "", out);
    write_changes(out, family, change->local_backends, change->n_local);
    fclose(out);
    return text;
}

static bool on_change_port(void *ctx, const struct port_state *port,
                           const struct port_route_change *change)
{
    ck_assert_ptr_eq(ctx, &ops);
    ck_assert_ptr_nonnull(find_port(port->id));
    ck_assert_uint_gt(change->n_backends + change->n_local, 0);
    changes_taken++;
    if (refuse_every && changes_taken % refuse_every == 0)
        return false;
    struct received_port *received = receive_port(port);
    change_backends(&received->backends, change->backends, change->n_backends);
    change_backends(&received->local, change->local_backends, change->n_local);
    received->route.n_backends = received->backends.n;
    received->route.n_local = received->local.n;
    check_sense(&received->route);
    vec_push(&told, change_text(received, change));
    return true;
}

static void on_remove(void *ctx, const struct frontend *frontend)
{
    ck_assert_ptr_eq(ctx, &ops);
    char text[FRONTEND_TEXT_SIZE];
    struct received *received = find_received(frontend);
    ck_assert_ptr_nonnull(received);
    vec_free(&received->sources);
    *received = state.v[--state.n];
    vec_push(&ops, xasprintf("-%s", frontend_format(frontend, text)));
    vec_push(&told, xasprintf("-%s", frontend_format(frontend, text)));
}

static void on_flows(void *ctx, const struct frontend *frontend, bool claimed,
                     const struct backend *serving, size_t n)
{
    ck_assert_ptr_eq(ctx, &ops);
    ck_assert_uint_eq(frontend->protocol, UDP);
    struct received_flows *received = find_flows(frontend);
    if (claimed && !received) {
        vec_push(&flows, (struct received_flows){.frontend = *frontend});
        received = find_flows(frontend);
    }
    ck_assert_ptr_nonnull(received);
    copy_backends(&received->serving, serving, n);
    if (claimed)
        return;
    ck_assert_uint_eq(n, 0);
    vec_free(&received->serving);
    *received = flows.v[--flows.n];
}

/* Each op of use is a transition. */
static void receive_use(frontend_vec *used, const struct frontend *thing, bool in_use)
{
    vec_each (used, it) {
        if (memcmp(it, thing, sizeof(*thing)) == 0) {
            ck_assert_msg(!in_use, "said to be used twice");
            *it = used->v[--used->n];
            return;
        }
    }
    ck_assert_msg(in_use, "said to be unused twice");
    vec_push(used, *thing);
}

static void on_cluster_ip(void *ctx, enum family family, const struct address *address, bool in_use)
{
    ck_assert_ptr_eq(ctx, &ops);
    receive_use(&cluster_ips, &(struct frontend){*address, 0, 0, (uint8_t)family}, in_use);
}

static void on_hairpin(void *ctx, enum family family, uint8_t protocol,
                       const struct backend *backend, bool in_use)
{
    ck_assert_ptr_eq(ctx, &ops);
    struct frontend thing = {backend->address, backend->port, protocol, (uint8_t)family};
    receive_use(&hairpins, &thing, in_use);
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

/* The service port of what was handed on that is not in force yet; NULL: none. */
static char *in_portions;

static bool on_waits(const void *ctx, const struct port_state *port)
{
    ck_assert_ptr_eq(ctx, &ops);
    char *name = port_text(port);
    bool waits = in_portions && strcmp(name, in_portions) == 0;
    free(name);
    return waits;
}

static void on_line(void *ctx, enum log_level level, const char *line)
{
    static const char subsystem[] = " policy: ";
    ck_assert_ptr_nonnull(strstr(line, subsystem));
    if (level == LOG_LEVEL_INFO && strstr(line, " now belongs to service="))
        return; /* an event says the same */
    ck_assert_int_eq(level, LOG_LEVEL_WARN);
    vec_push(&lines, xstrdup(strstr(line, subsystem) + strlen(subsystem)));
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The texts, with ", " between; they are forgotten. */
static char *join_in_order(text_vec *texts)
{
    char *all = xstrdup("");
    for (size_t i = 0; i < texts->n; i++) {
        char *longer = xasprintf("%s%s%s", all, i ? ", " : "", texts->v[i]);
        free(all);
        free(texts->v[i]);
        all = longer;
    }
    vec_clear(texts);
    return all;
}

/* The same, sorted. */
static char *join(text_vec *texts)
{
    if (texts->n)
        qsort(texts->v, texts->n, sizeof(*texts->v), compare_texts);
    return join_in_order(texts);
}

static void forget_times(void)
{
    vec_each (&state, it) {
        it->times = 0;
        it->concerned = false;
    }
    vec_each (&told_ports, it)
        it->times = 0;
}

static void forget_texts(void)
{
    forget_times();
    free(join(&told));
    free(join(&ops));
    free(join(&lines));
}

/* ---------------------------------------------------------- set-up */

static void service_changed(void *ctx, const struct service *before, const struct service *after)
{
    policy_service_changed(policy, before, after);
}

static void endpoints_changed(void *ctx, const struct service_port_ref *ref,
                              const struct endpoint_change *changes, size_t n)
{
    policy_endpoints_changed(policy, ref, changes, n);
}

static void set_up(void)
{
    services = service_cache_new(service_changed, NULL);
    slices = endpoint_slice_cache_new(endpoints_changed, NULL);
    const struct policy_ops receiver = {.set_port = on_set_port,
                                        .change_port = on_change_port,
                                        .remove_port = on_remove_port,
                                        .set = on_set,
                                        .remove = on_remove,
                                        .cluster_ip = on_cluster_ip,
                                        .hairpin = on_hairpin,
                                        .flows = on_flows,
                                        .health_check = on_health_check,
                                        .waits = on_waits,
                                        .ctx = &ops};
    policy = policy_new(services, slices, "here", &receiver);
    log_set_sink(on_line, NULL);
}

static void tear_down(void)
{
    log_set_sink(NULL, NULL);
    free(in_portions);
    in_portions = NULL;
    policy_free(policy);
    service_cache_free(services);
    endpoint_slice_cache_free(slices);
    forget_texts();
    vec_free(&told);
    vec_free(&ops);
    vec_free(&lines);
    vec_each (&state, it)
        vec_free(&it->sources);
    vec_free(&state);
    vec_each (&told_ports, it)
        free_port(it);
    vec_free(&told_ports);
    vec_free(&gone_ids);
    vec_each (&flows, it)
        vec_free(&it->serving);
    vec_free(&flows);
    vec_free(&cluster_ips);
    vec_free(&hairpins);
    vec_each (&checks, it)
        free(it->service_id);
    vec_free(&checks);
}

/* ---------------------------------------------------------- words */

static void put(struct service *service)
{
    service_cache_put(services, service);
}

static void put_service(const char *id, const char *addresses, const char *ports)
{
    put(make_service(id, addresses, ports));
}

/* One with external IPs and load-balancer IPs too. */
static struct service *make_reachable(const char *id, const char *addresses, const char *external,
                                      const char *balanced, const char *ports)
{
    struct service *service = make_service(id, addresses, ports);
    add_external_ips(service, external);
    add_load_balancer_ips(service, balanced);
    return service;
}

static void put_slice(const char *id, const char *service_id, const char *ports,
                      const char *endpoints)
{
    enum family family = strstr(endpoints, "::") ? V6 : V4;
    endpoint_slice_cache_put(slices, make_slice(id, service_id, family, ports, endpoints));
}

/* Node ports answer on just these addresses. */
static void set_node_port_addresses(const char *words)
{
    VEC(struct address) addresses[FAMILY_COUNT] = {0};
    each_word(words, word)
    {
        enum family family;
        struct address address = make_address(word, &family);
        vec_push(&addresses[family], address);
    }
    for (int i = 0; i < FAMILY_COUNT; i++) {
        policy_set_node_port_addresses(policy, (enum family)i, addresses[i].v, addresses[i].n);
        vec_free(&addresses[i]);
    }
}

/* What comes of the changes so far: nothing is handed on twice. */
static void settle_into_ops(void)
{
    policy_settle(policy);
    vec_each (&state, it) {
        ck_assert_uint_le(it->times, 1);
        if (it->concerned)
            vec_push(&ops, route_text(it));
        ck_assert_ptr_nonnull(find_port(it->route.port));
    }
    vec_each (&told_ports, it)
        ck_assert_msg(it->times <= 1, "%s", it->name);
}

/* Settling changes just these frontends, or where they lead. */
static void expect_ops(const char *expected)
{
    settle_into_ops();
    expect_text(join(&ops), expected);
    forget_times();
    free(join(&told));
    policy_settle(policy);
    ck_assert_uint_eq(told.n, 0);
}

static void settle_health_checks(void)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        policy_settle_health_checks(policy, (enum family)family);
}

/* ---- in portions ---- */

#define MANY 300

static struct service *make_many(void)
{
    char *external;
    size_t length;
    FILE *out = open_memstream(&external, &length);
    for (int i = 0; i < MANY; i++)
        fprintf(out, "198.51.%d.%d ", 100 + i / 200, 1 + i % 200);
    fclose(out);
    struct service *service =
        make_reachable("a/many", "10.96.0.9", external, "", "http/TCP:80 dns/UDP:53");
    free(external);
    return service;
}

/* How many frontends lead to the only backend @address. */
static size_t leading_to(const char *address)
{
    size_t n = 0;
    enum family family;
    const struct address wanted = make_address(address, &family);
    vec_each (&state, it) {
        const struct received_port *port = find_port(it->route.port);
        n += port && port->backends.n == 1 &&
             memcmp(&port->backends.v[0].address, &wanted, sizeof(wanted)) == 0;
    }
    return n;
}

/* One portion, of some frontends with a backend each. */
static bool settle_some(void)
{
    forget_texts();
    bool settled = policy_settle_some(policy, 40);
    ck_assert_uint_le(told.n, (size_t)4 * 40); /* there are four queues */
    return settled;
}

static void settle_in_portions(void)
{
    for (int i = 0; !settle_some(); i++)
        ck_assert_int_lt(i, MANY);
    forget_texts();
    expect_ops("");
}

/* A Service of few frontends passes one of many; whatever happens to that one meanwhile, in the end
 * all of its frontends are as they shall be. */
TEST(many_frontends_are_handed_on_in_portions)
{
    put_slice("a/s", "a/many", "http/TCP:8080 dns/UDP:53", "10.0.0.1");
    put(make_many());
    put_slice("b/s", "b/few", "http/TCP:8080", "10.0.1.1");
    put_service("b/few", "10.96.0.1", "http/TCP:80");
    ck_assert(!settle_some());
    ck_assert_uint_eq(leading_to("10.0.1.1"), 1);
    put_slice("b/s", "b/few", "http/TCP:8080", "10.0.1.2");
    ck_assert(!settle_some());
    ck_assert_uint_eq(leading_to("10.0.1.2"), 1);
    while (leading_to("10.0.0.1") < MANY / 2)
        ck_assert(!settle_some());
    put_slice("a/s", "a/many", "http/TCP:8080 dns/UDP:53", "10.0.0.2");
    settle_in_portions();
    ck_assert_uint_eq(leading_to("10.0.0.1"), 0);
    ck_assert_uint_eq(leading_to("10.0.0.2"), (size_t)2 * (MANY + 1));

    put_slice("a/s", "a/many", "http/TCP:8080 dns/UDP:53", "10.0.0.1");
    ck_assert(!settle_some());
    put_service("a/many", "10.96.0.9", "http/TCP:80 dns/UDP:53"); /* what it had goes */
    ck_assert(!settle_some());
    service_cache_remove(services, "b/few");
    ck_assert(!settle_some());
    ck_assert_uint_eq(leading_to("10.0.1.2"), 0);
    service_cache_remove(services, "a/many");
    settle_in_portions();
    ck_assert_uint_eq(state.n, 0);
}

/* ---- what is handed on ---- */

/* With so many external IPs, from 203.0.0.0 on. */
static struct service *make_vast(unsigned n)
{
    struct service *service = make_service("a/vast", "10.96.0.8", "http/TCP:80");
    for (unsigned i = 0; i < n; i++) {
        struct address address = {{203, 0, (uint8_t)(i >> 8), (uint8_t)i}};
        vec_push(&service_make_outside(service)->external_ips[V4], address);
    }
    return service;
}

/* Until it is known what a Service claims, it has what it had; others do not wait, and if it
 * changes meanwhile, it is asked for anew. */
TEST(claims_are_renewed_in_pieces)
{
    put_slice("a/s", "a/vast", "http/TCP:8080", "10.0.0.1");
    put(make_vast(1000));
    policy_settle(policy);
    ck_assert_uint_eq(leading_to("10.0.0.1"), 1001);
    forget_texts();
    put(make_vast(900));
    ck_assert(!policy_settle_some(policy, 24));
    put(make_vast(500));
    put_service("b/few", "10.96.0.1", "http/TCP:80");
    ck_assert(!policy_settle_some(policy, 24));
    expect_text(join_in_order(&told), "b/few:http:, 10.96.0.1:80/TCP > b/few:http");
    ck_assert_uint_eq(leading_to("10.0.0.1"), 1001);
    settle_in_portions();
    ck_assert_uint_eq(leading_to("10.0.0.1"), 501);
}

/* Claiming and deciding each have their share of a turn. */
TEST(a_turn_renews_so_many_claims_and_no_more)
{
    size_t claimed = 0, most = 24;
    put(make_vast(1000));
    policy_settle_some(policy, most);
    for (unsigned i = 0; i < 1000; i++) {
        const struct frontend frontend = {
            {{203, 0, (uint8_t)(i >> 8), (uint8_t)i}}, 80, IPPROTO_TCP, FAMILY_IPV4};
        claimed += policy_find_frontend(policy, &frontend) != NULL;
    }
    ck_assert_uint_gt(claimed, most);
    ck_assert_uint_le(claimed, 8 * most);
}

/* Each frontend is handed on with them. */
TEST(many_source_ranges_go_in_portions)
{
    struct service *service = make_service("a/web", "10.96.0.1", "a/TCP:1 b/TCP:2 c/TCP:3 d/TCP:4");
    add_load_balancer_ips(service, "203.0.113.1");
    for (unsigned i = 0; i < 4000; i++) {
        struct address address = {{11, 0, (uint8_t)(i >> 7), (uint8_t)(2 * i)}};
        vec_push(&service_make_outside(service)->source_ranges[V4],
                 (struct address_range){address, address});
    }
    put(service);
    for (int i = 0; i < 4; i++) {
        size_t ranges = 0;
        forget_texts();
        ck_assert_int_eq(policy_settle_some(policy, 100), i == 3);
        vec_each (&state, it)
            if (it->concerned)
                ranges += it->sources.n;
        ck_assert_uint_eq(ranges, 4000);
    }
    forget_texts();
    expect_ops("");
}

/* As soon as one has cost much, the others of its Service go behind those of others. */
TEST(ports_with_many_endpoints_let_others_go_first)
{
    const char *ports = "a/TCP:1 b/TCP:2 c/TCP:3 d/TCP:4 e/TCP:5";
    struct endpoint_slice *slice = make_slice("a/s", "a/wide", V4, ports, "");
    for (int i = 0; i < 30; i++) {
        char *word = xasprintf("10.0.0.%d", i);
        vec_push(&slice->endpoints, make_endpoint(word, V4));
        free(word);
    }
    endpoint_slice_cache_put(slices, slice);
    put_service("a/wide", "10.96.0.8", ports);
    put_slice("b/s", "b/few", "http/TCP:8080", "10.0.1.1");
    put_service("b/few", "10.96.0.1", "http/TCP:80");
    policy_settle_some(policy, 120);
    ck_assert_uint_eq(leading_to("10.0.1.1"), 1);
    settle_in_portions();
    ck_assert_uint_eq(state.n, 6);
}

/* ---- the API server's */

static void on_event(void *ctx, const struct object_event *event)
{
    char uid[UID_TEXT_SIZE];
    ck_assert_ptr_eq(ctx, &lines);
    ck_assert_int_eq(event->kind, KIND_SERVICE);
    ck_assert_str_eq(event->action, "AssignFrontend");
    vec_push(&lines,
             xasprintf("%s%s %.8s %s %s: %s", event->everywhere ? "" : "Here: ",
                       event->type == EVENT_WARNING ? "Warning" : "Normal",
                       uid_format(&event->uid, uid), event->id, event->reason, event->note));
}

/* ---------------------------------------------------------- cases */

static void write_texts(FILE *out, text_vec *texts, bool sorted)
{
    if (sorted && texts->n)
        qsort(texts->v, texts->n, sizeof(*texts->v), compare_texts);
    vec_each (texts, text) {
        fprintf(out, "%s\n", *text);
        free(*text);
    }
    vec_clear(texts);
}

static void run_service(char *words, FILE *out)
{
    put(script_service(words));
}

static void run_no_service(char *words, FILE *out)
{
    service_cache_remove(services, words);
}

static void run_slice(char *words, FILE *out)
{
    endpoint_slice_cache_put(slices, script_slice(words));
}

static void run_no_slice(char *words, FILE *out)
{
    endpoint_slice_cache_remove(slices, words);
}

static void run_node_ports(char *words, FILE *out)
{
    set_node_port_addresses(words);
}

static void run_refuse_every(char *words, FILE *out)
{
    refuse_every = (unsigned)atoi(words);
}

static void run_in_portions(char *words, FILE *out)
{
    free(in_portions);
    in_portions = *words ? xstrdup(words) : NULL;
}

/* The client's peers. */
static void run_api_server(char *words, FILE *out)
{
    frontend_vec peers = {0};
    for (char *word; *(word = script_word(&words));) {
        enum family family;
        char *bar = strchr(word, '|');
        *bar = '\0';
        struct frontend peer = {make_address(word, &family), (uint16_t)atoi(bar + 1), 6, 0};
        peer.family = (uint8_t)family;
        vec_push(&peers, peer);
    }
    policy_set_api_server(policy, peers.v, peers.n);
    vec_free(&peers);
}

/* Settling changes just these frontends, or where they lead, and hands on nothing twice. */
static void run_settle(char *words, FILE *out)
{
    settle_into_ops();
    write_texts(out, &ops, true);
    write_texts(out, &lines, true);
    forget_texts();
    policy_settle(policy);
    ck_assert_uint_eq(told.n, 0);
}

/* What is handed on, by a portion of so many if that is given. */
static void run_told(char *words, FILE *out)
{
    bool settled = true;
    if (*words)
        settled = policy_settle_some(policy, (size_t)atoi(words));
    else
        policy_settle(policy);
    write_texts(out, &told, false);
    fputs(settled ? "" : "and more\n", out);
    forget_texts();
}

static void run_checks(char *words, FILE *out)
{
    settle_health_checks();
    write_texts(out, &ops, true);
}

static void run_waits(char *words, FILE *out)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (policy_service_waits(policy, words, (enum family)family))
            fprintf(out, "%s\n", family_name((enum family)family));
}

static void run_events(char *words, FILE *out)
{
    static const struct event_sink sink = {&lines, on_event};
    policy_set_events(policy, &sink);
}

/* Who has port 80 there. */
static void run_owner(char *words, FILE *out)
{
    enum family family;
    struct frontend frontend = {.port = 80, .protocol = IPPROTO_TCP};
    frontend.address = make_address(words, &family);
    frontend.family = (uint8_t)family;
    char *owner = policy_owner(policy, &frontend);
    fprintf(out, "%s\n", owner ? owner : "nobody");
    free(owner);
}

static void run_counts(char *words, FILE *out)
{
    fprintf(out, "conflicts=%zu reserved=%zu\n", policy_conflicts(policy), policy_reserved(policy));
}

static const struct script_command commands[] = {
    {"service", run_service},
    {"no-service", run_no_service},
    {"slice", run_slice},
    {"no-slice", run_no_slice},
    {"node-ports", run_node_ports},
    {"refuse-every", run_refuse_every},
    {"in-portions", run_in_portions},
    {"api-server", run_api_server},
    {"settle", run_settle},
    {"told", run_told},
    {"checks", run_checks},
    {"waits", run_waits},
    {"events", run_events},
    {"owner", run_owner},
    {"counts", run_counts},
    {NULL, NULL},
};

SCRIPT("policy", commands)

/* ---------------------------------------------------------- external addresses and node ports */

/* Every way in to one service port, for each pair of policies (docs/behaviour.md 3.4). */
static const struct {
    bool external_local, internal_local;
    const char *endpoints, *cluster_ip, *others;
} decisions[] = {
    {false, false, "", "", ""},
    {false, false, "10.0.0.1=s@here", "", ""},
    {false, false, "10.0.0.1@here 10.0.0.2@far", " 10.0.0.1:80 10.0.0.2:80",
     " 10.0.0.1:80 10.0.0.2:80"},
    {false, false, "10.0.0.1=st@here 10.0.0.2@far", " 10.0.0.2:80", " 10.0.0.2:80"},
    {false, true, "", " |", ""},
    {false, true, "10.0.0.1@here 10.0.0.2@far", " | 10.0.0.1:80", " 10.0.0.1:80 10.0.0.2:80"},
    {false, true, "10.0.0.1=st@here 10.0.0.2@far", " | 10.0.0.1:80", " 10.0.0.2:80"},
    {false, true, "10.0.0.1=t@here 10.0.0.2@far", " | dropped", " 10.0.0.2:80"},
    {false, true, "10.0.0.1=t@here 10.0.0.2=st@far", " | dropped", " 10.0.0.2:80"},
    {true, false, "", "", " |"},
    {true, false, "10.0.0.1@here 10.0.0.2@far", " 10.0.0.1:80 10.0.0.2:80",
     " 10.0.0.1:80 10.0.0.2:80 | 10.0.0.1:80"},
    {true, false, "10.0.0.1=st@here 10.0.0.2@far", " 10.0.0.2:80", " 10.0.0.2:80 | 10.0.0.1:80"},
    {true, false, "10.0.0.2=st@far", " 10.0.0.2:80", " 10.0.0.2:80 | dropped"},
    {true, false, "10.0.0.2", " 10.0.0.2:80", " 10.0.0.2:80 | dropped"},
    {true, false, "10.0.0.2=s@here", "", " |"},
    {true, true, "", " |", " |"},
    {true, true, "10.0.0.1@here 10.0.0.2@far", " | 10.0.0.1:80",
     " 10.0.0.1:80 10.0.0.2:80 | 10.0.0.1:80"},
    {true, true, "10.0.0.2@far", " | dropped", " 10.0.0.2:80 | dropped"},
};

TEST_ROWS(traffic_policies, decisions)
{
    set_node_port_addresses("192.0.2.1 192.0.2.2");
    struct service *service =
        make_reachable("a/web", "10.96.0.1", "198.51.100.1", "203.0.113.1", "http/TCP:8080+30080");
    service->external_local = row->external_local;
    service->internal_local = row->internal_local;
    put(service);
    put_slice("a/s", "a/web", "http/TCP:80", row->endpoints);
    const char *others = row->others;
    char *expected =
        xasprintf("10.96.0.1:8080/TCP%s, 192.0.2.1:30080/TCP ext%s, 192.0.2.2:30080/TCP ext%s, "
                  "198.51.100.1:8080/TCP ext%s, 203.0.113.1:8080/TCP ext%s",
                  row->cluster_ip, others, others, others, others);
    expect_ops(expected);
    free(expected);
}

/* ---------------------------------------------------------- any history */

#define STEPS 3000

/* What the caches should hold: made a second time from the same chance. NULL for none. */
static struct service *all_services[N_SERVICES];
static struct endpoint_slice *all_slices[N_SLICES];

/* What is known of the node. */
static VEC(struct address) all_node_port_addresses[FAMILY_COUNT];
static struct address node_ips[FAMILY_COUNT];
static bool has_node_ip[FAMILY_COUNT];
static struct location location;
static frontend_vec all_reserved; /* the API server's */

/* ---- the endpoints of a service port once more, from scratch */

static bool in_slice(const struct endpoint_slice *slice, const char *service_id, enum family family)
{
    return slice && slice->service_id && strcmp(slice->service_id, service_id) == 0 &&
           slice->has_family && slice->family == family;
}

/* One endpoint of each address:port (docs/behaviour.md 2.5). */
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
                struct endpoint copy = {.address = it->address,
                                        .node_name = it->node_name,
                                        .hints = it->hints,
                                        .port = p->port,
                                        .flags = it->flags};
                add_copy(out, &copy);
            }
        }
    }
}

/* A service port and what becomes of its endpoints. Which are in which set is a matter of
 * test_selection.c; here it is taken as given. */
struct model_port {
    const struct service *service;
    const struct service_port *port;
    enum family family;
    bool has_any;
    backend_vec cluster, local, serving;
    frontend_vec hairpins;
};
static VEC(struct model_port) model;

static void sort_backends(backend_vec *backends)
{
    if (backends->n)
        qsort(backends->v, backends->n, sizeof(*backends->v), backend_compare);
}

static bool is_way_in(const struct model_port *it)
{
    return it->port->node_port || service_outside(it->service)->external_ips[it->family].n ||
           service_outside(it->service)->load_balancer_ips[it->family].n;
}

static bool needs_cluster(const struct model_port *it)
{
    return !it->service->internal_local || is_way_in(it);
}

static bool needs_local(const struct model_port *it)
{
    return it->service->internal_local || (it->service->external_local && is_way_in(it));
}

static void sort_endpoint(struct model_port *out, const struct endpoint *it, uint8_t set)
{
    struct backend backend = {it->address, it->port};
    if (set & SET_CLUSTER)
        vec_push(&out->cluster, backend);
    if (set & SET_LOCAL)
        vec_push(&out->local, backend);
    if (it->flags & ENDPOINT_SERVING)
        vec_push(&out->serving, backend);
    if (it->node_name == location.node_name &&
        ((set & SET_CLUSTER && needs_cluster(out)) || (set & SET_LOCAL && needs_local(out))))
        vec_push(&out->hairpins, (struct frontend){it->address, it->port, out->port->protocol,
                                                   (uint8_t)out->family});
}

static void add_model_port(const struct service *service, enum family family,
                           const struct service_port *port)
{
    endpoint_vec endpoints = {0};
    uint8_t sets[512];
    struct model_port out = {.service = service, .port = port, .family = family};
    endpoints_of(service, family, port, &endpoints);
    ck_assert_uint_le(endpoints.n, sizeof(sets));
    out.has_any = select_endpoints(endpoints.v, endpoints.n, &location, sets).has_any;
    for (size_t i = 0; i < endpoints.n; i++)
        sort_endpoint(&out, &endpoints.v[i], sets[i]);
    sort_backends(&out.cluster);
    sort_backends(&out.local);
    sort_backends(&out.serving);
    vec_free(&endpoints);
    vec_push(&model, out);
}

static bool is_in_family(const struct service *service, int family)
{
    return service && !service->skipped && service->has_cluster_ip[family];
}

static void free_model(void)
{
    vec_each (&model, it) {
        vec_free(&it->cluster);
        vec_free(&it->local);
        vec_free(&it->serving);
        vec_free(&it->hairpins);
    }
    vec_free(&model);
}

static void make_model(void)
{
    free_model();
    for (int i = 0; i < N_SERVICES; i++)
        for (int family = 0; family < FAMILY_COUNT; family++)
            if (is_in_family(all_services[i], family))
                vec_each (&all_services[i]->ports, port)
                    add_model_port(all_services[i], (enum family)family, port);
}

/* ---- who has a frontend, once more */

#define IS_CLUSTER_IP 1
#define IS_EXTERNAL 2
#define IS_GUARDED 4
#define IS_NODE_PORT 8

static bool has_address(const struct address *addresses, size_t n, const struct address *address)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&addresses[i], address, sizeof(*address)) == 0)
            return true;
    return false;
}

/* What @frontend is to a service port; 0: nothing. */
static int meaning(const struct model_port *it, const struct frontend *frontend)
{
    const struct service *service = it->service;
    int means = 0, f = it->family;
    if (frontend->family != f || frontend->protocol != it->port->protocol)
        return 0;
    if (frontend->port == it->port->port) {
        if (has_address(&service->cluster_ip[f], 1, &frontend->address))
            means |= IS_CLUSTER_IP;
        if (has_address(service_outside(service)->external_ips[f].v,
                        service_outside(service)->external_ips[f].n, &frontend->address))
            means |= IS_EXTERNAL;
        if (has_address(service_outside(service)->load_balancer_ips[f].v,
                        service_outside(service)->load_balancer_ips[f].n, &frontend->address))
            means |= IS_EXTERNAL | IS_GUARDED;
    }
    if (frontend->port == it->port->node_port &&
        has_address(all_node_port_addresses[f].v, all_node_port_addresses[f].n, &frontend->address))
        means |= IS_EXTERNAL | IS_NODE_PORT;
    return means;
}

static int rank_of(int means)
{
    return means & IS_CLUSTER_IP ? 0 : means & IS_NODE_PORT ? 1 : 2;
}

/* Below zero if @a goes before @b. */
static int compare_model(const struct model_port *a, const struct model_port *b,
                         const struct frontend *frontend)
{
    int order = rank_of(meaning(a, frontend)) - rank_of(meaning(b, frontend));
    if (order == 0)
        order = (int)b->has_any - (int)a->has_any;
    if (order == 0)
        order = (a->service->created > b->service->created) -
                (a->service->created < b->service->created);
    return order;
}

static bool is_reserved(const struct frontend *frontend)
{
    vec_each (&all_reserved, it)
        if (memcmp(it, frontend, sizeof(*it)) == 0)
            return true;
    return false;
}

/* The model is in the order of names and ports, so of equals the first has it. NULL: nobody. */
static const struct model_port *owner_of(const struct frontend *frontend, size_t *claims)
{
    const struct model_port *owner = NULL;
    *claims = 0;
    vec_each (&model, it) {
        if (!meaning(it, frontend))
            continue;
        ++*claims;
        if (!owner || compare_model(it, owner, frontend) < 0)
            owner = it;
    }
    return owner && rank_of(meaning(owner, frontend)) == 2 && is_reserved(frontend) ? NULL : owner;
}

/* ---- what was received is that, and nothing else */

static void check_backends(const backend_vec *received, const backend_vec *expected,
                           const char *name)
{
    ck_assert_msg(received->n == expected->n, "%s has %zu, not %zu", name, received->n,
                  expected->n);
    for (size_t i = 0; i < expected->n; i++)
        ck_assert_msg(backend_compare(&received->v[i], &expected->v[i]) == 0, "%s", name);
}

static bool in_ranges(const range_vec *ranges, const struct address *address)
{
    vec_each (ranges, it)
        if (memcmp(&it->first, address, sizeof(*address)) <= 0 &&
            memcmp(address, &it->last, sizeof(*address)) <= 0)
            return true;
    return false;
}

/* Of some addresses at the ends of ranges, just the right ones are let in. */
static void check_sources(const struct received *received, const struct model_port *owner,
                          bool guarded)
{
    static const char *const probes[] = {"9.255.255.255",
                                         "10.0.0.0",
                                         "10.1.0.0",
                                         "10.1.255.255",
                                         "10.2.0.0",
                                         "10.96.0.1",
                                         "10.96.0.2",
                                         "10.255.255.255",
                                         "11.0.0.0",
                                         "192.0.1.255",
                                         "192.0.2.0",
                                         "192.0.2.1",
                                         "192.0.2.2",
                                         "192.0.2.3",
                                         "fd00:9::",
                                         "fd00:9::1",
                                         "fd00:8::",
                                         "fd00::1",
                                         "fd00:9::ffff:ffff:ffff:ffff"};
    enum family f = owner->family, family;
    const range_vec *ranges = &service_outside(owner->service)->source_ranges[f];
    ck_assert_int_eq(received->route.sources != NULL, guarded && ranges->n > 0);
    if (!received->route.sources)
        return;
    bool own = has_node_ip[f] && in_ranges(ranges, &node_ips[f]);
    for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
        struct address probe = make_address(probes[i], &family);
        bool is_own = has_address(service_outside(owner->service)->load_balancer_ips[f].v,
                                  service_outside(owner->service)->load_balancer_ips[f].n, &probe);
        if (family == f)
            ck_assert_msg(in_ranges(&received->sources, &probe) ==
                              (in_ranges(ranges, &probe) || (own && is_own)),
                          "%s", probes[i]);
    }
}

static bool is_of(const struct received_port *received, const struct model_port *it)
{
    const struct port_state *port = received->port;
    return port->family == it->family && port->index == it->port - it->service->ports.v &&
           strcmp(port->owner->service->id, it->service->id) == 0;
}

static void check_port(const struct received_port *received, const struct model_port *it)
{
    static const backend_vec none;
    ck_assert_int_eq(received->route.has_any, it->has_any);
    ck_assert_int_eq(received->route.needs_cluster, needs_cluster(it));
    ck_assert_int_eq(received->route.needs_local, needs_local(it));
    ck_assert_uint_eq(received->route.affinity_timeout, it->service->affinity_timeout);
    check_backends(&received->backends, needs_cluster(it) ? &it->cluster : &none, received->name);
    check_backends(&received->local, needs_local(it) ? &it->local : &none, received->name);
}

/* Also those that no frontend leads to. */
static void check_ports(void)
{
    ck_assert_uint_eq(told_ports.n, model.n);
    vec_each (&told_ports, received) {
        size_t n = 0;
        vec_each (&model, it) {
            if (!is_of(received, it))
                continue;
            check_port(received, it);
            n++;
        }
        ck_assert_uint_eq(n, 1);
    }
}

static void check_frontend(const struct frontend *frontend, const struct model_port *owner)
{
    char text[FRONTEND_TEXT_SIZE];
    const struct received *received = find_received(frontend);
    frontend_format(frontend, text);
    ck_assert_msg(received != NULL, "%s is missing", text);
    int means = meaning(owner, frontend);
    bool external = !(means & IS_CLUSTER_IP);
    bool local = external ? owner->service->external_local : owner->service->internal_local;
    ck_assert_int_eq(received->route.external, external);
    ck_assert_int_eq(received->route.local, local);
    ck_assert_int_eq(received->route.affine, owner->service->affinity_timeout > 0);
    const struct received_port *port = find_port(received->route.port);
    ck_assert_msg(port && is_of(port, owner), "%s leads elsewhere", text);
    check_sources(received, owner, means & IS_GUARDED);
    const struct received_flows *said = find_flows(frontend);
    ck_assert_int_eq(said != NULL, frontend->protocol == UDP);
    if (said)
        check_backends(&said->serving, &owner->serving, text);
}

static bool seen(frontend_vec *known, const struct frontend *frontend)
{
    vec_each (known, it)
        if (memcmp(it, frontend, sizeof(*frontend)) == 0)
            return true;
    vec_push(known, *frontend);
    return false;
}

/* What was claimed, how often more than once, and how much of it is the API server's. */
struct checked {
    frontend_vec known;
    size_t conflicts, reserved;
};

static void check_claim(struct checked *checked, const struct model_port *of,
                        const struct address *address, uint16_t number)
{
    size_t claims;
    struct frontend frontend = {*address, number, of->port->protocol, (uint8_t)of->family};
    if (seen(&checked->known, &frontend))
        return;
    const struct model_port *owner = owner_of(&frontend, &claims);
    if (owner)
        check_frontend(&frontend, owner);
    checked->reserved += !owner;
    checked->conflicts += claims > 1;
}

static void check_frontends(void)
{
    struct checked checked = {0};
    vec_each (&model, it) {
        int f = it->family;
        check_claim(&checked, it, &it->service->cluster_ip[f], it->port->port);
        vec_each (&service_outside(it->service)->external_ips[f], address)
            check_claim(&checked, it, address, it->port->port);
        vec_each (&service_outside(it->service)->load_balancer_ips[f], address)
            check_claim(&checked, it, address, it->port->port);
        if (it->port->node_port)
            vec_each (&all_node_port_addresses[f], address)
                check_claim(&checked, it, address, it->port->node_port);
    }
    ck_assert_uint_eq(state.n, checked.known.n - checked.reserved);
    ck_assert_uint_eq(policy_conflicts(policy), checked.conflicts);
    ck_assert_uint_eq(policy_reserved(policy), checked.reserved);
    vec_each (&flows, it)
        ck_assert_ptr_nonnull(find_received(&it->frontend));
    check_ports();
    vec_free(&checked.known);
}

static void check_uses(void)
{
    frontend_vec known = {0};
    vec_each (&model, it)
        vec_each (&it->hairpins, hairpin)
            seen(&known, hairpin);
    size_t n = known.n;
    ck_assert_uint_eq(hairpins.n, n);
    vec_each (&hairpins, it)
        ck_assert(seen(&known, it));
    vec_clear(&known);
    for (int i = 0; i < N_SERVICES; i++)
        for (int f = 0; f < FAMILY_COUNT; f++)
            if (is_in_family(all_services[i], f))
                seen(&known, &(struct frontend){all_services[i]->cluster_ip[f], 0, 0, (uint8_t)f});
    n = known.n;
    ck_assert_uint_eq(cluster_ips.n, n);
    vec_each (&cluster_ips, it)
        ck_assert(seen(&known, it));
    vec_free(&known);
}

/* Traffic policy Local, with endpoints that could serve, but none here. */
static void check_without_local(void)
{
    struct ports_without_local expected[FAMILY_COUNT] = {0};
    vec_each (&model, it) {
        if (!it->has_any || it->local.n > 0)
            continue;
        expected[it->family].internal += it->service->internal_local;
        expected[it->family].external += it->service->external_local && is_way_in(it);
    }
    for (int f = 0; f < FAMILY_COUNT; f++) {
        struct ports_without_local counted = policy_ports_without_local(policy, (enum family)f);
        ck_assert_uint_eq(counted.internal, expected[f].internal);
        ck_assert_uint_eq(counted.external, expected[f].external);
    }
}

/* ---- health checks once more */

static size_t count_local(const struct service *service, enum family family)
{
    endpoint_vec endpoints = {0};
    VEC(struct address) known = {0};
    vec_each (&service->ports, port) {
        endpoints_of(service, family, port, &endpoints);
        vec_each (&endpoints, it) {
            if (!has_address(known.v, known.n, &it->address) && it->flags & ENDPOINT_READY &&
                it->node_name && strcmp(it->node_name, "here") == 0)
                vec_push(&known, it->address);
        }
    }
    size_t n = known.n;
    vec_free(&endpoints);
    vec_free(&known);
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
            uint16_t port = is_in_family(service, f) ? service->health_check_node_port : 0;
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
    if (dice(chance, big ? 5 : 3) == 0) {
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

static void step_node_port_addresses(uint64_t *chance)
{
    static const char *const texts[] = {"",
                                        "192.0.2.1",
                                        "192.0.2.2 192.0.2.1",
                                        "192.0.2.2 192.0.2.2 fd00:9::1",
                                        "10.96.0.1 fd00::1",
                                        "192.0.2.3 fd00:9::1 fd00:9::2"};
    const char *text = ANY_OF(texts, chance);
    for (int f = 0; f < FAMILY_COUNT; f++)
        vec_clear(&all_node_port_addresses[f]);
    each_word(text, word)
    {
        enum family family;
        struct address address = make_address(word, &family);
        vec_push(&all_node_port_addresses[family], address);
    }
    set_node_port_addresses(text);
}

static void step_zone(uint64_t *chance)
{
    static const char *const zones[] = {"z1", "z2", "z3", NULL};
    const char *zone = ANY_OF(zones, chance);
    intern_release(location.zone);
    location.zone = intern(zone);
    policy_set_zone(policy, zone);
}

static void step_node_ip(uint64_t *chance)
{
    static const char *const texts[] = {"192.0.2.1", "192.0.2.2", "10.1.0.1", "fd00:9::5",
                                        "fd00:8::5"};
    enum family family;
    struct address address = make_address(ANY_OF(texts, chance), &family);
    has_node_ip[family] = dice(chance, 4);
    node_ips[family] = address;
    policy_set_node_ip(policy, family, has_node_ip[family] ? &address : NULL);
}

static bool portions; /* of what is to be settled, now and then */

/* Some of those that Services have, or none. */
static void step_api_server(uint64_t *chance)
{
    vec_clear(&all_reserved);
    for (unsigned n = state.n > 0 ? dice(chance, 4) : 0; n > 0; n--)
        vec_push(&all_reserved, state.v[dice(chance, (unsigned)state.n)].frontend);
    policy_set_api_server(policy, all_reserved.v, all_reserved.n);
}

static void random_change(uint64_t *chance)
{
    unsigned which = dice(chance, 60);
    if (which == 0)
        step_retain(chance);
    else if (which < 3)
        step_zone(chance);
    else if (which < 5)
        step_node_ip(chance);
    else if (which < 8)
        step_node_port_addresses(chance);
    else if (which < 10)
        step_api_server(chance);
    else if (which < 18)
        step_remove(chance);
    else
        step_put(chance);
}

static void random_step(uint64_t *chance)
{
    random_change(chance);
    if (dice(chance, 3) == 0)
        return; /* more changes before they are settled */
    if (portions && dice(chance, 3) > 0) {
        policy_settle_some(policy, 1 + dice(chance, 60));
        if (dice(chance, 2))
            settle_health_checks();
        return;
    }
    policy_settle(policy);
    make_model();
    check_frontends();
    check_uses();
    check_without_local();
    if (dice(chance, 2)) {
        settle_health_checks();
        check_health_checks();
    }
    forget_texts();
}

static void forget_everything(void)
{
    for (unsigned i = 0; i < N_SERVICES; i++)
        set_service(i, NULL);
    for (unsigned i = 0; i < N_SLICES; i++)
        set_slice(i, NULL);
    for (int f = 0; f < FAMILY_COUNT; f++)
        vec_free(&all_node_port_addresses[f]);
    memset(has_node_ip, 0, sizeof(has_node_ip));
    vec_free(&all_reserved);
    intern_release(location.node_name);
    intern_release(location.zone);
    location = (struct location){0};
    free_model();
}

TESTS(any_history, unit_histories(HISTORIES))
{
    uint64_t chance = (uint64_t)unit_seed(_i) * 104729 + 7;
    location.node_name = intern("here");
    big = _i % 2;
    refuse_every = (unsigned)_i % 3 * 3;
    portions = _i % 4 >= 2;
    memset(slice_seeds, 0, sizeof(slice_seeds));
    for (int step = 0; step < unit_steps(big ? STEPS / 4 : STEPS); step++)
        random_step(&chance);
    if (big && unit_steps(STEPS) == STEPS) /* else it would test little */
        ck_assert_uint_gt(changes_taken, 0);
    forget_everything();
    object_vec none = {0};
    service_cache_retain(services, &none);
    policy_settle(policy);
    ck_assert_uint_eq(state.n, 0);
    ck_assert_uint_eq(told_ports.n, 0);
    ck_assert_uint_eq(flows.n, 0);
    ck_assert_uint_eq(cluster_ips.n, 0);
    ck_assert_uint_eq(hairpins.n, 0);
    ck_assert_uint_eq(policy_conflicts(policy), 0);
    settle_health_checks();
    check_health_checks();
}

UNIT_FIXTURE(set_up, tear_down)
