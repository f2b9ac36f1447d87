/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What policy makes of objects, step by step in cases/policy. That any history ends as if all
 * objects had come at once is a matter of test_pipeline_history.c. */
#include "kube-nftd/policy.h"
#include "kube-nftd/table.h"

#include "cache_script.h"
#include "facts.h"
#include "fake_flows.h"

#include <linux/in.h>

typedef VEC(char *) text_vec;
typedef VEC(struct frontend) frontend_vec;

/* What the operations add up to: service ports and frontends that lead to them. */
struct received_port {
    const struct port_state *port;
    uint32_t id;
    char *name;
    struct port_route route; /* its pointers are not used, but: */
    backend_vec backends, local;
    range_vec sources;
    unsigned times; /* passed since the last time */
};

struct received {
    struct frontend frontend;
    struct route route;
    unsigned times;
    bool concerned; /* or where it leads */
};

/* As the proxy wires it with the caches, for the node "here". In place of the tables there are
 * these; what it calls of theirs and of the flow cleaner's is below. */
static struct policy *policy;
static char tables[FAMILY_COUNT];

/* What it has passed on: operations on service ports and frontends since the last time, in their
 * order; what is to be sorted. What they all add up to, with flows, cluster IPs and hairpins in use
 * and health checks as facts. */
static FILE *passed;
static char *passed_text;
static size_t passed_length;
static text_vec ops;
static VEC(struct received_port) ports;
static VEC(uint32_t) gone_ids;
static VEC(struct received) state;
static struct facts facts;
static struct fake_flows flows;
static bool with_flowtable;

/* Every so many changes of service ports are not taken; then the whole route must follow. */
static unsigned changes_taken, reject_every;

static bool show_events;
static unsigned n_events;

/* The service port whose changes are not applied yet; NULL: none. */
static char *in_portions;

/* ---- what is received ---- */

struct ruleset *table_changing(struct table *table)
{
    return (struct ruleset *)table;
}

const struct ruleset *table_ruleset(const struct table *table)
{
    return (const struct ruleset *)table;
}

static enum family family_of(const struct ruleset *ruleset)
{
    return (enum family)((const char *)ruleset - tables);
}

static const struct port_state *port_of(const struct ruleset *ruleset, uint32_t id)
{
    hash_table_each (policy_services(policy), const struct service_state, it)
        for (const struct port_state *port = it->ports; port; port = port->next)
            if (port->id == id && port->family == family_of(ruleset))
                return port;
    ck_abort_msg("no service port %u", id);
}

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
    vec_each (&ports, it)
        if (it->id == id)
            return it;
    return NULL;
}

static void check_order(const struct backend *backends, size_t n)
{
    for (size_t i = 1; i < n; i++)
        ck_assert_int_lt(backend_compare(&backends[i - 1], &backends[i]), 0);
}

static void copy_backends(backend_vec *to, const struct backend *from, size_t n)
{
    check_order(from, n);
    vec_clear(to);
    for (size_t i = 0; i < n; i++)
        vec_push(to, from[i]);
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
    fprintf(out, "%s%s", frontend_format(&it->frontend, address),
            it->route.class & CLASS_EXTERNAL ? " ext" : "");
    if (it->route.class & CLASS_EXTERNAL || !(it->route.class & CLASS_LOCAL))
        write_backends(out, family, port->backends.v, port->backends.n);
    if (it->route.class & CLASS_LOCAL) {
        fputs(port->route.has_any && port->local.n == 0 ? " | dropped" : " |", out);
        write_backends(out, family, port->local.v, port->local.n);
    }
    if (it->route.class & CLASS_AFFINE)
        fprintf(out, " sticky=%u", port->route.affinity_timeout);
    if (it->route.class & CLASS_RESTRICTED) {
        fputs(" from ", out);
        write_ranges(out, family, &port->sources);
    }
    fclose(out);
    return text;
}

/* Nothing is passed on that the service port has no use for, and nothing contradicts has_any. */
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
    char *text = xasprintf("%s%s", name, port->family == FAMILY_IPV6 ? " IPv6" : "");
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
        vec_push(&ports, (struct received_port){.port = port, .id = port->id});
        received = find_port(port->id);
    }
    received->name = port_text(port);
    received->times++;
    vec_each (&state, it)
        it->concerned = it->concerned || it->route.port == port->id;
    return received;
}

void ruleset_set_port(struct ruleset *ruleset, uint32_t id, const struct port_route *route)
{
    enum family family = family_of(ruleset);
    check_sense(route);
    struct received_port *received = receive_port(port_of(ruleset, id));
    received->route = *route;
    copy_backends(&received->backends, route->backends, route->n_backends);
    copy_backends(&received->local, route->local_backends, route->n_local);
    ck_assert_int_eq(route->sources != NULL, route->n_sources > 0);
    copy_sources(&received->sources, route->sources, route->n_sources);
    fprintf(passed, "%s:", received->name);
    write_backends(passed, family, route->backends, route->n_backends);
    fputs(route->needs_local ? " |" : "", passed);
    write_backends(passed, family, route->local_backends, route->n_local);
    fputc('\n', passed);
}

static void free_port(struct received_port *received)
{
    free(received->name);
    vec_free(&received->backends);
    vec_free(&received->local);
    vec_free(&received->sources);
}

/* What still leads there is to go, or elsewhere, before the sync ends. */
void ruleset_remove_port(struct ruleset *ruleset, uint32_t id)
{
    struct received_port *received = find_port(id);
    ck_assert_ptr_nonnull(received);
    fprintf(passed, "-%s\n", received->name);
    vec_push(&gone_ids, id);
    free_port(received);
    *received = ports.v[--ports.n];
}

void ruleset_set(struct ruleset *ruleset, const struct frontend *frontend,
                 const struct route *route)
{
    char text[FRONTEND_TEXT_SIZE];
    ck_assert_int_eq(frontend->family, family_of(ruleset));
    const struct received_port *port = find_port(route->port);
    ck_assert_ptr_nonnull(port);
    ck_assert(route->class & CLASS_LOCAL ? port->route.needs_local : port->route.needs_cluster);
    ck_assert(!(route->class & CLASS_EXTERNAL) || port->route.needs_cluster);
    ck_assert_int_eq((route->class & CLASS_AFFINE) != 0, port->route.affinity_timeout > 0);
    ck_assert(!(route->class & CLASS_RESTRICTED) || port->sources.n > 0);
    if (!find_received(frontend))
        vec_push(&state, (struct received){.frontend = *frontend});
    struct received *received = find_received(frontend);
    received->route = *route;
    received->times++;
    received->concerned = true;
    fprintf(passed, "%s > %s\n", frontend_format(frontend, text), port->name);
}

/* One that is not there comes, one that is goes. */
static void change_backends(backend_vec *to, const backend_change_vec *changes,
                            enum backend_set set)
{
    vec_each (changes, change) {
        const bool comes = backend_comes(change, set);
        size_t at = 0;
        if (!comes && !backend_goes(change, set))
            continue;
        while (at < to->n && backend_compare(&to->v[at], &change->backend) != 0)
            at++;
        ck_assert_int_eq(at < to->n, !comes);
        if (comes)
            vec_push(to, change->backend);
        else
            to->v[at] = to->v[--to->n];
    }
    if (to->n)
        qsort(to->v, to->n, sizeof(*to->v), backend_compare);
}

static void write_changes(FILE *out, enum family family, const backend_change_vec *changes,
                          enum backend_set set)
{
    vec_each (changes, change) {
        if (!backend_comes(change, set) && !backend_goes(change, set))
            continue;
        fputs(backend_comes(change, set) ? " +" : " -", out);
        write_address(out, family, &change->backend.address);
        fprintf(out, ":%u", change->backend.port);
    }
}

static size_t count_changes(const backend_change_vec *changes, enum backend_set set)
{
    return backends_coming(changes, set) + backends_going(changes, set);
}

bool ruleset_change_port(struct ruleset *ruleset, uint32_t id, const backend_change_vec *changes)
{
    enum family family = family_of(ruleset);
    const size_t n_local = count_changes(changes, BACKENDS_LOCAL);
    ck_assert_ptr_nonnull(find_port(id));
    ck_assert_uint_gt(changes->n, 0);
    for (size_t i = 1; i < changes->n; i++)
        ck_assert_int_lt(backend_compare(&changes->v[i - 1].backend, &changes->v[i].backend), 0);
    changes_taken++;
    if (reject_every && changes_taken % reject_every == 0)
        return false;
    struct received_port *received = receive_port(port_of(ruleset, id));
    change_backends(&received->backends, changes, BACKENDS_CLUSTER);
    change_backends(&received->local, changes, BACKENDS_LOCAL);
    received->route.n_backends = received->backends.n;
    received->route.n_local = received->local.n;
    check_sense(&received->route);
    fprintf(passed, "%s:", received->name);
    write_changes(passed, family, changes, BACKENDS_CLUSTER);
    fputs(n_local ? " |" : "", passed);
    write_changes(passed, family, changes, BACKENDS_LOCAL);
    fputc('\n', passed);
    return true;
}

void ruleset_remove(struct ruleset *ruleset, const struct frontend *frontend)
{
    char text[FRONTEND_TEXT_SIZE];
    struct received *received = find_received(frontend);
    ck_assert_ptr_nonnull(received);
    *received = state.v[--state.n];
    vec_push(&ops, xasprintf("-%s", frontend_format(frontend, text)));
    fprintf(passed, "-%s\n", frontend_format(frontend, text));
}

void receive_flows(const struct frontend *frontend, char *text)
{
    char name[FRONTEND_TEXT_SIZE];
    ck_assert(frontend->protocol == IPPROTO_UDP ||
              (frontend->protocol == IPPROTO_TCP && with_flowtable));
    const bool gone = !text;
    bool known = facts_set(&facts, xstrdup(frontend_format(frontend, name)), text);
    ck_assert(known || !gone);
}

/* How many use a thing so far: "cluster IP", or "cluster IP of 2". */
static int users_of(const char *thing)
{
    int n = 0;
    vec_each (&facts.all, it)
        if (strcmp(it->about, thing) == 0 && sscanf(it->what, "%*[^0-9]%d", &n) != 1)
            n = 1;
    return n;
}

static void receive_use(const char *what, char *thing, bool in_use)
{
    int n = users_of(thing) + (in_use ? 1 : -1);
    ck_assert_int_ge(n, 0);
    facts_set(&facts, thing,
              n == 0   ? NULL
              : n == 1 ? xstrdup(what)
                       : xasprintf("%s of %d", what, n));
}

void ruleset_use_cluster_ip(struct ruleset *ruleset, const struct address *address, bool in_use)
{
    char text[ADDRESS_TEXT_SIZE];
    receive_use("cluster IP", xstrdup(address_format(family_of(ruleset), address, text)), in_use);
}

bool ruleset_has_cluster_ip(const struct ruleset *ruleset, const struct address *address)
{
    char text[ADDRESS_TEXT_SIZE];
    return users_of(address_format(family_of(ruleset), address, text)) > 0;
}

void ruleset_refuse_localhost(struct ruleset *ruleset, uint8_t protocol, uint16_t port,
                              bool refused)
{
}

void ruleset_use_hairpin(struct ruleset *ruleset, const struct address *address, bool in_use)
{
    char text[ADDRESS_TEXT_SIZE];
    receive_use("hairpin", xasprintf("from %s", address_format(family_of(ruleset), address, text)),
                in_use);
}

static void on_health_check(enum family family, const struct health_check *check)
{
    char *about = xasprintf("%s %s check", check->service_id, family_name(family));
    char *what = xasprintf("%u: %zu", check->port, check->local_ready);
    char *op = xasprintf("%s %s", about, what);
    const bool known = facts_set(&facts, about, check->port ? xstrdup(what) : NULL);
    if (check->port || known)
        vec_push(&ops, op);
    else
        free(op);
    free(what);
}

static void on_health_checks(struct health *health, enum family family,
                             const struct health_check *checks, size_t n)
{
    ck_assert_ptr_eq(health, &facts);
    for (size_t i = 0; i < n; i++)
        on_health_check(family, &checks[i]);
}

bool ruleset_port_is_waiting(const struct ruleset *ruleset, uint32_t id)
{
    char *name = port_text(port_of(ruleset, id));
    bool waits = in_portions && strcmp(name, in_portions) == 0;
    free(name);
    return waits;
}

static void on_event(void *ctx, const struct object_event *event)
{
    char uid[UID_TEXT_SIZE];
    ck_assert_int_eq(event->kind, KIND_SERVICE);
    ck_assert_str_eq(event->action, strcmp(event->reason, "EndpointIsServiceAddress") == 0
                                        ? "SelectEndpoints"
                                        : "AssignFrontend");
    n_events++;
    if (!show_events)
        return;
    fprintf(script_out(), "%s%s %.8s %s %s: %s\n",
            event->everywhere ? "" : "Here: ", event->type == EVENT_WARNING ? "Warning" : "Normal",
            uid_format(&event->uid, uid), event->id, event->reason, event->note);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void write_sorted(FILE *out, text_vec *texts)
{
    if (texts->n)
        qsort(texts->v, texts->n, sizeof(*texts->v), compare_texts);
    vec_each (texts, text)
        fprintf(out, "%s\n", *text);
}

static void forget_texts(text_vec *texts)
{
    vec_each (texts, text)
        free(*text);
    vec_clear(texts);
}

/* What was passed on so far. */
static void forget_passed(void)
{
    vec_each (&state, it) {
        it->times = 0;
        it->concerned = false;
    }
    vec_each (&ports, it)
        it->times = 0;
    fclose(passed);
    free(passed_text);
    passed = open_memstream(&passed_text, &passed_length);
    forget_texts(&ops);
}

/* In lines. */
static size_t count_passed(void)
{
    size_t n = 0;
    fflush(passed);
    for (const char *c = passed_text; *c; c++)
        n += *c == '\n';
    return n;
}

/* ---- set-up ---- */

static void make_policy(size_t most_endpoints, bool flowtable)
{
    with_flowtable = flowtable;
    static const struct event_sink events = {NULL, on_event};
    const struct policy_config config = {
        .node_name = "here",
        .caches = &caches,
        .tables = {(struct table *)&tables[FAMILY_IPV4], (struct table *)&tables[FAMILY_IPV6]},
        .flows = (struct flow_cleaner *)(void *)&flows,
        .flowtables = {[FAMILY_IPV4] = flowtable},
        .health = (struct health *)(void *)&facts,
        .set_health_checks = on_health_checks,
        .events = &events,
        .most_endpoints = most_endpoints};
    policy = policy_new(&config);
}

static void on_service(void *ctx, const struct service *before, const struct service *after)
{
    policy_change_service(policy, before, after);
}

static void on_slice(void *ctx, const struct slice_change *change)
{
    policy_change_slice(policy, change);
}

static void on_service_cidrs(void *ctx, enum family family, const range_vec *ranges)
{
    policy_set_service_cidrs(policy, family, ranges);
}

static void set_up(void)
{
    struct caches_ops caches_ops = cache_ops;
    caches_ops.service_changed = on_service;
    caches_ops.slice_changed = on_slice;
    caches_ops.covered = on_service_cidrs;
    caches_init(&caches, &caches_ops);
    make_policy(0, false);
    show_events = false;
    n_events = 0;
    passed = open_memstream(&passed_text, &passed_length);
    script_show_log(LOG_LEVEL_WARN);
}

static void tear_down(void)
{
    free(in_portions);
    in_portions = NULL;
    reject_every = 0;
    policy_free(policy);
    caches_clear(&caches);
    forget_passed();
    fclose(passed);
    free(passed_text);
    vec_free(&ops);
    vec_free(&state);
    vec_each (&ports, it)
        free_port(it);
    vec_free(&ports);
    vec_free(&gone_ids);
    facts_clear(&facts);
    fake_flows_clear(&flows);
}

/* Node ports answer on just these addresses. */
static void set_node_port_addresses(const char *words)
{
    address_vec addresses[FAMILY_COUNT] = {0};
    add_addresses(addresses, words);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        policy_set_node_port_addresses(policy, (enum family)i, addresses[i].v, addresses[i].n);
        vec_free(&addresses[i]);
    }
}

static void sync_health_checks(void)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        policy_sync_health_checks(policy, (enum family)family);
}

/* The desired state, in lines. */
static void write_facts(FILE *out)
{
    text_vec texts = {0};
    vec_each (&state, it)
        vec_push(&texts, route_text(it));
    write_sorted(out, &texts);
    forget_texts(&texts);
    vec_free(&texts);
    facts_write(out, &facts);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct ports_without_local without = policy_view(policy).without_local[i];
        if (without.internal + without.external > 0)
            fprintf(out, "%s without local: %zu internal, %zu external\n",
                    family_name((enum family)i), without.internal, without.external);
    }
}

/* ---- cases ---- */

COMMAND(node_ports)
{
    set_node_port_addresses(words);
}

COMMAND(zone)
{
    policy_set_zone(policy, *words ? words : NULL);
}

COMMAND(node_ip)
{
    enum family family;
    struct address address = make_address(words, &family);
    policy_set_node_ip(policy, family, &address);
}

/* Of all service ports; before the first object. */
COMMAND(most_endpoints)
{
    policy_free(policy);
    make_policy((size_t)atoi(words), false);
}

/* For IPv4, before anything else. */
COMMAND(flowtable)
{
    policy_free(policy);
    make_policy(0, true);
}

COMMAND(reject_every)
{
    reject_every = (unsigned)atoi(words);
}

COMMAND(in_portions)
{
    free(in_portions);
    in_portions = *words ? xstrdup(words) : NULL;
}

/* The client's peers. */
COMMAND(api_server)
{
    frontend_vec peers = {0};
    for (char *word; *(word = script_word(&words));)
        vec_push(&peers, script_frontend(word));
    policy_set_api_server(policy, peers.v, peers.n);
    vec_free(&peers);
}

/* A sync changes just these frontends, or where they lead, and passes nothing on twice. */
COMMAND(sync)
{
    policy_sync(policy);
    vec_each (&state, it) {
        ck_assert_uint_le(it->times, 1);
        if (it->concerned)
            vec_push(&ops, route_text(it));
        ck_assert_ptr_nonnull(find_port(it->route.port));
    }
    vec_each (&ports, it)
        ck_assert_msg(it->times <= 1, "%s", it->name);
    write_sorted(out, &ops);
    forget_passed();
    policy_sync(policy);
    ck_assert_uint_eq(count_passed(), 0);
}

/* What a sync passes on, limited to a portion if one is given. */
COMMAND(passed)
{
    bool all = true;
    if (*words)
        all = policy_sync_some(policy, (size_t)atoi(words));
    else
        policy_sync(policy);
    fflush(passed);
    fputs(passed_text, out);
    fputs(all ? "" : "and more\n", out);
    forget_passed();
}

/* How many frontends lead to a backend. */
static size_t leading_to(const char *address)
{
    size_t n = 0;
    enum family family;
    const struct address wanted = make_address(address, &family);
    vec_each (&state, it) {
        const struct received_port *port = find_port(it->route.port);
        for (size_t i = 0; port && i < port->backends.n; i++)
            n += memcmp(&port->backends.v[i].address, &wanted, sizeof(wanted)) == 0;
    }
    return n;
}

/* "PORTION TIMES": syncs so much, so often (0: until all is done); how many operations were passed
 * on, never much more than a portion for two stages of each level; with how many source ranges. */
COMMAND(some)
{
    size_t most = (size_t)atoi(script_word(&words)), operations = 0, ranges = 0;
    bool all = false;
    for (int i = 0, times = atoi(words); !all && (!times || i < times); i++) {
        forget_passed();
        all = policy_sync_some(policy, most);
        ck_assert_uint_le(count_passed(), 4 * most);
        operations += count_passed();
        vec_each (&ports, it)
            if (it->times)
                ranges += it->sources.n;
    }
    fprintf(out, "%zu operations", operations);
    if (ranges)
        fprintf(out, " with %zu ranges", ranges);
    fputs(all ? "\n" : " and more\n", out);
    forget_passed();
}

/* "FROM TO": the Services b/r0000... are gone. */
COMMAND(no_rivals)
{
    char id[16];
    int first = atoi(script_word(&words));
    for (int i = first; i < atoi(words); i++) {
        snprintf(id, sizeof(id), "b/r%04d", i);
        caches.sink.remove(caches.sink.ctx, KIND_SERVICE, id);
    }
}

/* "N M": as many Services b/r0000... claim so many addresses, which are the same. */
COMMAND(rivals)
{
    char service[100];
    int n = atoi(script_word(&words));
    script_show_log(LOG_LEVEL_ERROR);
    for (int i = 0; i < n; i++) {
        snprintf(service, sizeof(service), "b/r%04d 10.97.0.%d http/TCP:80 external=203.0.113.0*%s",
                 i, i, words);
        put_object(KIND_SERVICE, script_service(service));
    }
}

/* So many Services c/s0000... have the endpoint 10.96.0.2. */
COMMAND(many_service_addresses)
{
    char service[60], slice[60];
    int n = atoi(words);
    script_show_log(LOG_LEVEL_ERROR);
    for (int i = 0; i < n; i++) {
        snprintf(service, sizeof(service), "c/s%04d 10.97.%d.%d http/TCP:80", i, i / 250, i % 250);
        snprintf(slice, sizeof(slice), "c/s%04d of=c/s%04d http/TCP:80 10.96.0.2", i, i);
        put_object(KIND_SERVICE, script_service(service));
        put_object(KIND_ENDPOINTSLICE, script_slice(slice));
    }
    policy_sync(policy);
    forget_passed();
}

/* How many events there were since the last time. */
COMMAND(reported)
{
    fprintf(out, "%u\n", n_events);
    n_events = 0;
}

/* How many frontends lead to each address, and how many there are. */
COMMAND(lead)
{
    for (char *word; *(word = script_word(&words));)
        fprintf(out, "%zu to %s, ", leading_to(word), word);
    fprintf(out, "%zu in all\n", state.n);
}

/* How many frontends are claimed at addresses from here on, all of port 80. */
COMMAND(claimed)
{
    size_t n = 0;
    char *many = script_many(words), *rest = many;
    for (char *word; *(word = script_word(&rest));) {
        struct frontend frontend = script_frontend(word);
        n += policy_find_frontend(policy, &frontend) != NULL;
    }
    fprintf(out, "%zu\n", n);
    free(many);
}

COMMAND(checks)
{
    sync_health_checks();
    write_sorted(out, &ops);
    forget_texts(&ops);
}

COMMAND(waits)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (policy_service_waits(policy, words, (enum family)family))
            fprintf(out, "%s\n", family_name((enum family)family));
}

COMMAND(events)
{
    show_events = true;
}

/* Who has port 80 there. */
COMMAND(owner)
{
    struct frontend frontend = script_frontend(words);
    char *owner = policy_owner(policy, &frontend);
    fprintf(out, "%s\n", owner ? owner : "nobody");
    free(owner);
}

COMMAND(counts)
{
    const struct policy_view view = policy_view(policy);
    fprintf(out, "conflicts=%zu reserved=%zu\n", view.conflicts, view.reserved);
}

/* "ID CIDR...": a ServiceCIDR. */
COMMAND(cidrs)
{
    const char *id = script_word(&words);
    put_object(KIND_SERVICECIDR, make_service_cidr(id, words));
}

COMMAND(no_cidrs)
{
    remove_object(KIND_SERVICECIDR, words);
}

COMMAND(service_addresses)
{
    fprintf(out, "%zu\n", policy_view(policy).service_addresses);
}

COMMAND(limited)
{
    fprintf(out, "%zu\n", policy_view(policy).limited);
}

COMMAND(facts)
{
    policy_sync(policy);
    sync_health_checks();
    write_facts(out);
    forget_passed();
}

/* "POLICIES ENDPOINTS": where the cluster IP of a Service leads, and where all other ways in do. */
COMMAND(traffic)
{
    char service[200], slice[200];
    const char *policies = script_word(&words);
    bool external = strstr(policies, "external"), internal = strstr(policies, "internal");
    set_node_port_addresses("192.0.2.1 192.0.2.2");
    snprintf(service, sizeof(service),
             "a/web 10.96.0.1 external=198.51.100.1 balancer=203.0.113.1 http/TCP:8080+30080 %s %s",
             external ? "external-local" : "", internal ? "internal-local" : "");
    snprintf(slice, sizeof(slice), "a/s of=a/web http/TCP:80 %s", words);
    put_object(KIND_SERVICE, script_service(service));
    put_object(KIND_ENDPOINTSLICE, script_slice(slice));
    policy_sync(policy);
    vec_each (&state, it)
        vec_push(&ops, route_text(it));
    ck_assert_uint_eq(ops.n, 5);
    qsort(ops.v, ops.n, sizeof(*ops.v), compare_texts);
    fputs(ops.v[0], out);
    for (size_t i = 1; i < ops.n; i++)
        ck_assert_str_eq(strchr(ops.v[i], ' '), strchr(ops.v[1], ' '));
    fprintf(out, ";%s\n", strchr(ops.v[1], ' '));
    forget_passed();
}

CASES("policy")

UNIT_FIXTURE(set_up, tear_down)
