/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pipeline as a whole: objects in at the sink, transactions out at a kernel in memory. */
#include "kube-nftd/proxy.h"

#include "fake_kernel.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/netlink/flow_cleaner.h"
#include "nodes.h"
#include "unit.h"

#include <errno.h>
#include <linux/in.h>
#include <math.h>
#include <stdarg.h>

#define VIP4 "10.96.0.1"
#define VIP6 "fd00:96::1"

static struct proxy *proxy;
static struct proxy_config config; /* of the proxy */
static struct nft_socket *kernel;
static double now; /* of the turns */

static char checks[512];                         /* what health was told, a line each */
static char flows[32768];                        /* what the flow cleaner was told, likewise */
static VEC(struct frontend) noted[FAMILY_COUNT]; /* in no run yet, or held back by all of them */
static flow_held_back_fn held_back[FAMILY_COUNT];
static const void *held_back_ctx[FAMILY_COUNT];

static void append(char *text, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t room, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text + used, room - used, format, args);
    va_end(args);
    ck_assert(n >= 0 && (size_t)n < room - used);
}

/* In place of src/serve/health.c. */
void health_service(struct health *health, const char *service_id, enum family family,
                    uint16_t port, size_t local_ready)
{
    ck_assert(health && health == config.health);
    append(checks, sizeof(checks), "%s %s %u %zu\n", service_id, family_name(family), port,
           local_ready);
}

void health_set_addresses(struct health *health, enum family family, bool all,
                          const struct address *addresses, size_t n)
{
    char text[ADDRESS_TEXT_SIZE];
    ck_assert(health && health == config.health);
    append(checks, sizeof(checks), "%s on%s", family_name(family), all ? " all" : "");
    for (size_t i = 0; i < n; i++)
        append(checks, sizeof(checks), " %s", address_format(family, &addresses[i], text));
    append(checks, sizeof(checks), "\n");
}

bool health_service_is_listening(const struct health *health, const char *service_id,
                                 enum family family)
{
    return health == config.health;
}

/* In place of src/netlink/flow_cleaner.c. Runs without a note before them are not told. */
void flow_cleaner_note(struct flow_cleaner *cleaner, const struct frontend *frontend, bool claimed,
                       const struct backend *serving, size_t n)
{
    char text[FRONTEND_TEXT_SIZE];
    ck_assert(cleaner && cleaner == config.flows);
    append(flows, sizeof(flows), "%s%s", frontend_format(frontend, text), claimed ? "" : " gone");
    for (size_t i = 0; i < n; i++)
        append(flows, sizeof(flows), " %s:%u",
               address_format((enum family)frontend->family, &serving[i].address, text),
               serving[i].port);
    append(flows, sizeof(flows), "\n");
    vec_push(&noted[frontend->family], *frontend);
}

void flow_cleaner_hold_back(struct flow_cleaner *cleaner, enum family family,
                            flow_held_back_fn held_back_by, const void *ctx)
{
    ck_assert(cleaner && cleaner == config.flows);
    ck_assert(config.families[family]);
    ck_assert(held_back_by && ctx);
    held_back[family] = held_back_by;
    held_back_ctx[family] = ctx;
}

void flow_cleaner_run(struct flow_cleaner *cleaner, enum family family)
{
    ck_assert(cleaner && cleaner == config.flows);
    ck_assert(config.families[family]);
    size_t waiting = 0, n = noted[family].n;
    vec_each (&noted[family], it)
        if (held_back[family](held_back_ctx[family], it))
            noted[family].v[waiting++] = *it;
    if (waiting < n)
        append(flows, sizeof(flows), "run %s\n", family_name(family));
    noted[family].n = waiting;
}

/* A proxy as @config says; the kernel stays as it is. */
static void start(void)
{
    struct error err = {0};
    proxy = proxy_new(&config, &err);
    ck_assert_msg(proxy, "%s", err.text);
    checks[0] = flows[0] = '\0';
    for (int i = 0; i < FAMILY_COUNT; i++)
        vec_free(&noted[i]);
    forget_logged();
}

static void stop(void)
{
    proxy_free(proxy);
    proxy = NULL;
}

/* To be changed before a restart(). */
static void set_up(void)
{
    struct error err = {0};
    fake_kernel_reset();
    config = (struct proxy_config){
        .node = {.name = "n1", .required = true, .node_port_addresses.primary = true},
        .families = {true, true},
        .rulesets = {{.mark = 0x4000}, {.mark = 0x4000}},
        .health = (struct health *)(void *)checks,
        .flows = (struct flow_cleaner *)(void *)flows};
    kernel = nft_socket_open(&err);
    ck_assert_ptr_nonnull(kernel);
    now = 1000;
    start();
}

static void restart(void)
{
    stop();
    start();
}

static void tear_down(void)
{
    stop();
    for (int i = 0; i < FAMILY_COUNT; i++)
        vec_free(&noted[i]);
    nft_socket_close(kernel);
}

/* ---- what goes in ---- */

static void put(enum object_kind kind, const char *id, void *payload)
{
    struct object object = {.kind = kind, .id = xstrdup(id), .payload = payload};
    const struct object_sink *sink = proxy_sink(proxy);
    sink->put(sink->ctx, &object);
    ck_assert_ptr_null(object.id);
}

static void put_made(struct service *service)
{
    char *id = xstrdup(service->id);
    put(KIND_SERVICE, id, service);
    free(id);
}

static void put_service(uint16_t health_port)
{
    struct service *service = make_service("shop/web", VIP4 " " VIP6, "/TCP:80+30080");
    service->health_check_node_port = health_port;
    put_made(service);
}

/* One over UDP, with endpoints. */
static void put_dns(const char *v4, const char *v6)
{
    put_made(make_service("shop/dns", "10.96.0.53 fd00:96::53", "/UDP:53"));
    put(KIND_ENDPOINTSLICE, "shop/dns-4",
        make_slice("shop/dns-4", "shop/dns", FAMILY_IPV4, "/UDP:5353", v4));
    put(KIND_ENDPOINTSLICE, "shop/dns-6",
        make_slice("shop/dns-6", "shop/dns", FAMILY_IPV6, "/UDP:5353", v6));
}

static void put_slices(const char *v4, const char *v6)
{
    put(KIND_ENDPOINTSLICE, "shop/web-4",
        make_slice("shop/web-4", "shop/web", FAMILY_IPV4, "/TCP:8080", v4));
    put(KIND_ENDPOINTSLICE, "shop/web-6",
        make_slice("shop/web-6", "shop/web", FAMILY_IPV6, "/TCP:8080", v6));
}

static void put_node(const char *id, const char *words)
{
    put(KIND_NODE, id, make_node(id, words));
}

static void put_cidrs(const char *id, const char *cidrs)
{
    put(KIND_SERVICECIDR, id, make_service_cidr(id, cidrs));
}

static void remove_object(enum object_kind kind, const char *id)
{
    const struct object_sink *sink = proxy_sink(proxy);
    sink->remove(sink->ctx, kind, id);
}

/* The addresses of this host. */
static void hold(enum family family, const char *words)
{
    address_vec addresses = make_addresses(words);
    proxy_set_host_addresses(proxy, family, &addresses);
    vec_free(&addresses);
}

static void complete(enum object_kind kind)
{
    object_vec none = {0};
    const struct object_sink *sink = proxy_sink(proxy);
    sink->replace(sink->ctx, kind, &none);
}

static void complete_all(void)
{
    complete(KIND_SERVICE);
    complete(KIND_ENDPOINTSLICE);
}

/* In place of clock_monotonic(), by the linker (tests/CMakeLists.txt). What is done takes some
 * time. */
double __wrap_clock_monotonic(void);
double __wrap_clock_monotonic(void)
{
    static double spent;
    return now + (spent += 1e-9);
}

static double turn(double seconds_later)
{
    now += seconds_later;
    fake_kernel_set_time(now);
    return proxy_turn(proxy, kernel, now);
}

/* ---- what comes out ---- */

static struct frontend frontend_at(const char *address, uint16_t port)
{
    enum family family;
    struct frontend frontend = {.port = port, .protocol = IPPROTO_TCP};
    frontend.address = make_address(address, &family);
    frontend.family = (uint8_t)family;
    return frontend;
}

static size_t backends(enum family family)
{
    struct frontend frontend = frontend_at(family == FAMILY_IPV4 ? VIP4 : VIP6, 80);
    return fake_kernel_backends(&frontend, NULL, 0);
}

/* On which addresses the node port answers. */
static void expect_node_ports(const char *expected)
{
    char *text = xstrdup("");
    each_word("10.0.0.1 192.0.2.7 192.0.2.8 fd00::7 fd00::8", word)
    {
        struct frontend frontend = frontend_at(word, 30080);
        if (!fake_kernel_has("services", &frontend))
            continue;
        char *longer = xasprintf("%s%s%s", text, *text ? " " : "", word);
        free(text);
        text = longer;
    }
    expect_text(text, expected);
}

static void expect_ranges(enum family family, const range_vec *ranges, const char *expected)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    write_ranges(out, family, ranges);
    fclose(out);
    expect_text(text, expected);
}

/* The ranges in a set. */
static void expect_set(enum family family, const char *set, const char *expected)
{
    range_vec ranges = {0};
    fake_kernel_ranges(family, set, &ranges);
    expect_ranges(family, &ranges, expected);
    vec_free(&ranges);
}

/* Whether what @source sends to the cluster IP is masqueraded. */
static bool masquerades(const char *source)
{
    enum family family;
    struct fake_client client = {.address = make_address(source, &family)};
    struct frontend frontend = frontend_at(family == FAMILY_IPV4 ? VIP4 : VIP6, 80);
    struct fake_route route = fake_kernel_route(&frontend, &client);
    ck_assert_int_eq(route.fate, FAKE_BALANCED);
    bool masqueraded = route.to[0].masqueraded;
    fake_route_free(&route);
    return masqueraded;
}

static void expect_flows(const char *expected)
{
    ck_assert_str_eq(flows, expected);
    flows[0] = '\0';
}

static struct proxy_figures figures(void)
{
    struct proxy_figures figures_;
    proxy_figures(proxy, &figures_);
    return figures_;
}

static char *dump(void)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    proxy_dump(proxy, out);
    fclose(out);
    return text;
}

static void expect_checks(const char *expected)
{
    ck_assert_str_eq(checks, expected);
    checks[0] = '\0';
}

static struct health_status status(void)
{
    struct health_status status_;
    proxy_health_status(proxy, &status_);
    return status_;
}

/* ---- commits ---- */

TESTS(nothing_before_both_are_complete, 2)
{
    put_service(0);
    ck_assert(turn(0) == 0);
    complete(_i ? KIND_ENDPOINTSLICE : KIND_SERVICE);
    complete(KIND_SERVICECIDR);
    ck_assert(!proxy_is_synced(proxy));
    turn(1);
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
    complete(_i ? KIND_SERVICE : KIND_ENDPOINTSLICE);
    ck_assert(proxy_is_synced(proxy));
    put_service(0);
    put_slices("10.0.0.1 10.0.0.2", "fd00::1");
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 2);
    ck_assert_uint_eq(backends(FAMILY_IPV6), 1);
}

TEST(a_lone_change_waits_for_nothing_and_trims_later)
{
    complete_all();
    put_service(0);
    put_slices("10.0.0.1 10.0.0.2", "fd00::1");
    ck_assert(turn(0) == 0);
    put_slices("10.0.0.1", "fd00::1");
    double trim = turn(0.001);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "endpoints"), 2);
    ck_assert_double_gt(trim, now);
    double collect = turn(trim - now);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "endpoints"), 1);
    ck_assert_double_gt(collect, now); /* the chain for two is not in use any more */
    for (int i = 0; i < 2; i++)
        collect = turn(collect - now);
    ck_assert(collect == 0);
}

static void expect_health_and_flows(enum family family)
{
    expect_checks(family == FAMILY_IPV4 ? "shop/web IPv4 30000 1\n" : "shop/web IPv6 30000 1\n");
    ck_assert_ptr_nonnull(strstr(flows, family == FAMILY_IPV4 ? "run IPv4\n" : "run IPv6\n"));
    ck_assert_ptr_null(strstr(flows, family == FAMILY_IPV4 ? "run IPv6\n" : "run IPv4\n"));
    flows[0] = '\0';
}

EACH_FAMILY(one_family_that_fails_does_not_hold_up_the_other)
{
    enum family bad = (enum family)_i, good = bad == FAMILY_IPV4 ? FAMILY_IPV6 : FAMILY_IPV4;
    complete_all();
    put_service(30000);
    put_slices("10.0.0.1@n1 10.0.0.2@n2", "fd00::1@n1 fd00::2@n2");
    put_dns("10.0.0.3", "fd00::3");
    fake_kernel_fail(1 + bad, FAKE_REFUSES); /* the first is that of IPv4 */
    turn(0);
    ck_assert_uint_eq(backends(good), 2);
    ck_assert_uint_eq(backends(bad), 0);
    expect_health_and_flows(good);

    put_slices("10.0.0.2@n1", "fd00::2@n1");
    turn(0.01);
    ck_assert_uint_eq(backends(good), 1);
    ck_assert_uint_eq(backends(bad), 0);
    expect_checks(good == FAMILY_IPV4 ? "shop/web IPv4 30000 1\n" : "shop/web IPv6 30000 1\n");
    expect_flows("");

    turn(1);
    ck_assert_uint_eq(backends(bad), 1);
    expect_health_and_flows(bad);
}

/* What is said of shop/web: "10 IPv4=10 IPv6=9!". */
static void expect_receipt(const char *expected)
{
    char number[OBJECT_VERSION_SIZE], *text;
    size_t length;
    struct receipt receipt;
    FILE *out = open_memstream(&text, &length);
    if (service_cache_receipt(proxy_programmed(proxy).services, "shop/web", &receipt)) {
        fputs(receipt.received ? object_version_text(receipt.received, number) : "gone", out);
        if (receipt.left_out)
            fprintf(out, " out=%s", object_version_text(receipt.left_out, number));
        for (int i = 0; i < FAMILY_COUNT; i++)
            if (receipt.family[i].concerned)
                fprintf(out, " %s=%s%s", family_name((enum family)i),
                        receipt.family[i].held ? object_version_text(receipt.family[i].held, number)
                                               : "nothing",
                        receipt.family[i].in_force ? "" : "!");
    }
    fclose(out);
    expect_text(text, expected);
}

/* As the decoder makes it; without ports, it could not be read. */
static void put_version(const char *version, const char *ports)
{
    struct service *service = ports ? make_service("shop/web", VIP4 " " VIP6, ports) : NULL;
    struct object object = {.kind = KIND_SERVICE, .id = xstrdup("shop/web"), .service = service};
    const struct object_sink *sink = proxy_sink(proxy);
    object_version_set(service ? &service->version : &object.version, version);
    sink->put(sink->ctx, &object);
}

TEST(receipts_follow_what_is_in_force)
{
    put_version("9", "/TCP:80");
    turn(0);
    expect_receipt("9 IPv4=nothing! IPv6=nothing!");
    ck_assert(!proxy_programmed(proxy).complete);
    complete(KIND_ENDPOINTSLICE);
    put_version("9", "/TCP:80");
    complete(KIND_SERVICE);
    expect_receipt("");
    ck_assert(proxy_programmed(proxy).complete);
    put_version("9", "/TCP:80");
    expect_receipt("9 IPv4=nothing! IPv6=nothing!");
    fake_kernel_fail(2, FAKE_REFUSES);
    turn(0);
    expect_receipt("9 IPv4=9 IPv6=nothing!");
    put_version("10", "/TCP:81");
    expect_receipt("10 IPv4=9! IPv6=nothing!");
    turn(0.01);
    expect_receipt("10 IPv4=10 IPv6=nothing!");
    put_version("11", "/TCP:81"); /* says the same */
    put_version("12", NULL);
    expect_receipt("11 out=12 IPv4=11 IPv6=nothing!");
    turn(2);
    expect_receipt("11 out=12 IPv4=11 IPv6=11");
    put_version("13", "/TCP:81");
    expect_receipt("13 IPv4=13 IPv6=13");
    remove_object(KIND_SERVICE, "shop/web");
    expect_receipt("gone IPv4=13! IPv6=13!");
    turn(1);
    expect_receipt("");
}

TEST(a_commit_that_fails_once_goes_through_in_the_same_turn)
{
    complete_all();
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    turn(0);
    fake_kernel_drop_table(FAMILY_IPV4);
    put_slices("10.0.0.1 10.0.0.2", "fd00::1");
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 2);
    ck_assert_uint_eq(logged(LOG_LEVEL_ERROR), 0);
    ck_assert_int_gt(logged_with("family=IPv4 reading the table back"), 0);
}

TEST(failures_are_said_once_and_tried_again_later_and_later)
{
    complete_all();
    put_service(0);
    double waits[] = {0.1, 0.2, 0.4};
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        fake_kernel_refuse_reads(1, 1, true); /* IPv4's table cannot be read */
        double next = turn(i ? waits[i - 1] : 0);
        ck_assert_double_eq_tol(next - now, waits[i], 0.001);
        turn(waits[i] / 2);
        now -= waits[i] / 2;
        ck_assert_ptr_null(fake_kernel_comment(FAMILY_IPV4));
        ck_assert_uint_eq(logged(LOG_LEVEL_ERROR), 1);
    }
    turn(0.4);
    ck_assert_ptr_nonnull(fake_kernel_comment(FAMILY_IPV4));
    ck_assert(status().family[FAMILY_IPV4].healthy);

    /* After a success it begins anew. */
    put_slices("10.0.0.1", "");
    fake_kernel_fail(1, FAKE_REFUSES);
    fake_kernel_refuse_reads(1, 1, true);
    ck_assert_double_eq_tol(turn(1) - now, waits[0], 0.001);
    ck_assert_uint_eq(logged(LOG_LEVEL_ERROR), 2);
}

/* It is no failure of the family: all else is in force, and the loop wakes up for it in time. */
TEST(what_the_kernel_refuses_does_not_stop_the_rest)
{
    struct frontend web = frontend_at(VIP4, 80);
    complete_all();
    fake_kernel_refuse_frontend("services", &web, ENFILE);
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    put_dns("10.0.0.3", "fd00::3");
    double next = turn(0);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 0);
    ck_assert_uint_eq(backends(FAMILY_IPV6), 1);
    ck_assert_uint_ge(fake_kernel_size(FAMILY_IPV4, "services"), 1);
    ck_assert(status().family[FAMILY_IPV4].healthy);
    ck_assert(proxy_is_programmed(proxy));
    ck_assert_uint_eq(logged(LOG_LEVEL_ERROR), 1);
    ck_assert_double_eq_tol(next - now, 30, 0.001);
    struct proxy_figures figures;
    proxy_figures(proxy, &figures);
    ck_assert_uint_eq(figures.family[FAMILY_IPV4].table->refused, 1);
    ck_assert_uint_eq(figures.family[FAMILY_IPV6].table->refused, 0);
    fake_kernel_forgive();
    turn(29.9);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 0);
    ck_assert_double_eq(turn(0.1), 0);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
    ck_assert_uint_eq(logged(LOG_LEVEL_ERROR), 1);
}

TEST(a_new_change_makes_the_next_try_sooner)
{
    complete_all();
    put_service(0);
    fake_kernel_refuse_reads(1, 12, true); /* of both families */
    double next = turn(0);
    for (int i = 0; i < 5; i++)
        next = turn(next - now);
    ck_assert_double_gt(next - now, 3);
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    double sooner = turn(0.1);
    ck_assert_double_le(sooner - now, 1);
    turn(sooner - now);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
}

TEST(a_change_that_waits_for_a_minute_makes_it_unhealthy)
{
    complete_all();
    put_service(0);
    fake_kernel_refuse_reads(1, 1, true);
    turn(0);
    now += 59;
    ck_assert(status().family[FAMILY_IPV4].healthy);
    now += 2;
    ck_assert(!status().family[FAMILY_IPV4].healthy);
    ck_assert(status().family[FAMILY_IPV6].healthy);
    turn(0);
    ck_assert(status().family[FAMILY_IPV4].healthy);
}

/* Twice as long as the period: one of 5 s is 10 s. */
TEST(the_sync_period_rules_health_and_retries)
{
    config.sync_period = 5;
    restart();
    complete_all();
    put_service(0);
    fake_kernel_refuse_reads(1, 100, true);
    double next = turn(0);
    now += 9;
    ck_assert(status().family[FAMILY_IPV4].healthy);
    now += 2;
    ck_assert(!status().family[FAMILY_IPV4].healthy);
    for (int n = 0; n < 10; n++)
        next = turn(fmax(next - now, 0));
    ck_assert_double_eq_tol(next - now, 5, 0.001);
}

TEST(external_ips_can_be_left_out)
{
    size_t frontends[2];
    for (int left_out = 0; left_out < 2; left_out++) {
        config.no_external_ips = left_out;
        restart();
        complete_all();
        struct service *service = make_service("shop/web", VIP4, "/TCP:80");
        vec_push(&service_make_outside(service)->external_ips[FAMILY_IPV4],
                 (struct address){{192, 0, 2, 1}});
        put_made(service);
        turn(0);
        frontends[left_out] = figures().family[FAMILY_IPV4].frontends;
    }
    ck_assert_uint_eq(frontends[0], 2);
    ck_assert_uint_eq(frontends[1], 1);
}

/* ---- the own node ---- */

TEST(manifests_need_no_node_but_heed_it)
{
    config.node.required = false;
    restart();
    ck_assert(status().node_eligible);
    put_node("n1", "tainted");
    ck_assert(!status().node_eligible);
}

TEST(the_zone_chooses_endpoints)
{
    put_node("n1", "zone=a");
    complete_all();
    put_service(0);
    put_slices("10.0.0.1^a 10.0.0.2^a 10.0.0.3^b", "fd00::1");
    turn(0);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 2);
    put_node("n1", "zone=b");
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
    put_node("n2", "zone=a");
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
    put_node("n1", "");
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 3);
    ck_assert_uint_eq(backends(FAMILY_IPV6), 1);
}

TEST(pods_are_told_by_the_nodes_cidrs)
{
    config.node.follow_pod_cidrs = true;
    config.rulesets[FAMILY_IPV4].detector = config.rulesets[FAMILY_IPV6].detector = DETECT_CIDRS;
    restart();
    complete_all();
    put_service(0);
    put_slices("10.244.1.1", "fd00:1::1");
    put_node("n1", "pods=10.244.1.0/24");
    turn(0);
    expect_set(FAMILY_IPV4, "pod_cidrs", "10.244.1.0-10.244.1.255");
    expect_set(FAMILY_IPV6, "pod_cidrs", "");
    ck_assert(!masquerades("10.244.1.9"));
    ck_assert(masquerades("10.244.2.9"));
    put_node("n1", "pods=10.244.2.0/24 pods=fd00:1::/64");
    turn(1);
    expect_set(FAMILY_IPV4, "pod_cidrs", "10.244.2.0-10.244.2.255");
    expect_set(FAMILY_IPV6, "pod_cidrs", "fd00:1::-fd00:1::ffff:ffff:ffff:ffff");
    ck_assert(masquerades("10.244.1.9"));
    ck_assert(!masquerades("10.244.2.9"));
    ck_assert(!masquerades("fd00:1::9"));
}

TEST(pods_are_told_by_given_cidrs)
{
    enum family family;
    config.node.has_cluster_cidr[FAMILY_IPV4] = true;
    config.node.cluster_cidr[FAMILY_IPV4] = make_cidr("10.244.0.0/16", &family);
    config.rulesets[FAMILY_IPV4].detector = DETECT_CIDRS;
    restart();
    complete_all();
    put_service(0);
    put_slices("10.244.1.1", "fd00:1::1");
    put_node("n1", "pods=10.0.0.0/24 pods=fd00:1::/64");
    turn(0);
    expect_set(FAMILY_IPV4, "pod_cidrs", "10.244.0.0-10.244.255.255");
    expect_set(FAMILY_IPV6, "pod_cidrs", "");
    ck_assert(!masquerades("10.244.7.9"));
    ck_assert(masquerades("10.0.0.9"));
    ck_assert(!masquerades("2001:db8::9")); /* nothing is told apart, so nobody is masqueraded */
}

TEST(source_ranges_with_the_node_in_them_let_its_addresses_in)
{
    struct service *service = make_service("shop/web", VIP4, "/TCP:80");
    struct frontend frontend = frontend_at("203.0.113.1", 80);
    add_load_balancer_ips(service, "203.0.113.1");
    add_source_ranges(service, "192.0.2.0/24");
    complete_all();
    put_made(service);
    static const struct {
        const char *node, *expected;
    } steps[] = {{"", "192.0.2.0-192.0.2.255"},
                 {"192.0.2.7", "192.0.2.0-192.0.2.255 203.0.113.1-203.0.113.1"},
                 {"198.51.100.7", "192.0.2.0-192.0.2.255"}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        range_vec ranges = {0};
        put_node("n1", steps[i].node);
        turn(1);
        fake_kernel_sources(&frontend, &ranges);
        expect_ranges(FAMILY_IPV4, &ranges, steps[i].expected);
        vec_free(&ranges);
    }
}

TESTS(warned_when_no_endpoint_is_on_this_node, 6)
{
    static const struct {
        const char *v4, *v6;
        bool warned;
    } rows[] = {
        {"10.0.0.1@n2", "fd00::1@n2", true},
        {"10.0.0.1 10.0.0.2@N1", "fd00::1", true},
        {"10.0.0.1@n2 10.0.0.2@n1", "fd00::1@n2", false},
        {"10.0.0.1@n2", "fd00::1@n1", false},
        {"10.0.0.1", "fd00::1", false},
        {"", "", false},
    };
    put_service(0);
    put_slices(rows[_i].v4, rows[_i].v6);
    complete(KIND_SERVICE);
    turn(0);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
    put_service(0);
    put(KIND_ENDPOINTSLICE, "shop/web-4", NULL);
    complete(KIND_ENDPOINTSLICE);
    put_slices(rows[_i].v4, rows[_i].v6);
    turn(0);
    ck_assert_int_eq(logged_with("no endpoint is on node=n1"), rows[_i].warned);
    ck_assert_int_eq(logged_with("--hostname-override"), rows[_i].warned);

    /* once, whatever comes later */
    forget_logged();
    put_slices("10.0.0.9@n9", "fd00::9@n9");
    turn(1);
    ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
}

/* ---- what else reaches the tables ---- */

TEST(service_cidrs_are_followed)
{
    static const struct {
        const char *id, *cidrs; /* NULL: it goes; "?": it cannot be read */
        const char *v4, *v6;    /* NULL: as before, and nothing is sent */
    } steps[] = {
        {"kubernetes", "10.96.0.0/16", "10.96.0.0-10.96.255.255", ""},
        {"kubernetes", "10.96.0.0/16 fd00::/112", "10.96.0.0-10.96.255.255", "fd00::-fd00::ffff"},
        {"kubernetes", "10.96.0.0/16 fd00::/112", NULL, NULL},
        {"more", "10.98.0.0/16", "10.96.0.0-10.96.255.255 10.98.0.0-10.98.255.255",
         "fd00::-fd00::ffff"},
        {"more", "10.97.0.0/16", "10.96.0.0-10.97.255.255", "fd00::-fd00::ffff"},
        {"more", "?", NULL, NULL},
        {"kubernete", NULL, NULL, NULL},
        {"kubernetes", NULL, "10.97.0.0-10.97.255.255", ""},
        /* What several cover is covered until the last of them goes. */
        {"one", "10.96.0.0/12", "10.96.0.0-10.111.255.255", ""},
        {"two", "10.96.0.0/12", NULL, NULL},
        {"one", NULL, NULL, NULL},
        {"two", NULL, "10.97.0.0-10.97.255.255", ""},
        {"more", NULL, "", ""},
    };
    complete_all();
    turn(0);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const char *cidrs = steps[i].cidrs;
        unsigned transactions = (unsigned)fake_kernel_counts()->transactions;
        if (!cidrs)
            remove_object(KIND_SERVICECIDR, steps[i].id);
        else if (*cidrs == '?')
            put(KIND_SERVICECIDR, steps[i].id, NULL);
        else
            put_cidrs(steps[i].id, cidrs);
        turn(1);
        if (!steps[i].v4) {
            ck_assert_uint_eq(fake_kernel_counts()->transactions, transactions);
            continue;
        }
        expect_set(FAMILY_IPV4, "service_cidrs", steps[i].v4);
        expect_set(FAMILY_IPV6, "service_cidrs", steps[i].v6);
    }
}

/* ---- UDP flows ---- */

TEST(flows_are_noted_and_looked_for_when_in_force)
{
    complete_all();
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    turn(0);
    expect_flows(""); /* TCP */
    put_dns("10.0.0.1 10.0.0.2=st", "fd00::1");
    turn(1);
    expect_flows("10.96.0.53:53/UDP 10.0.0.1:5353 10.0.0.2:5353\n"
                 "[fd00:96::53]:53/UDP fd00::1:5353\n"
                 "run IPv4\nrun IPv6\n");
    put_dns("10.0.0.1", "fd00::1");
    turn(1);
    expect_flows("10.96.0.53:53/UDP 10.0.0.1:5353\nrun IPv4\n");
    remove_object(KIND_ENDPOINTSLICE, "shop/dns-6");
    turn(1);
    expect_flows("[fd00:96::53]:53/UDP\nrun IPv6\n");
    remove_object(KIND_SERVICE, "shop/dns");
    turn(1);
    expect_flows("10.96.0.53:53/UDP gone\n[fd00:96::53]:53/UDP gone\nrun IPv4\nrun IPv6\n");
}

TEST(flows_wait_until_their_family_is_in_force)
{
    complete_all();
    put_dns("10.0.0.1", "fd00::1");
    turn(0);
    flows[0] = '\0';
    put_dns("10.0.0.2", "fd00::1");
    fake_kernel_fail(1, FAKE_REFUSES);
    fake_kernel_refuse_reads(1, 1, true); /* so it cannot go through in the same turn */
    turn(1);
    expect_flows("10.96.0.53:53/UDP 10.0.0.2:5353\n");
    turn(0.01);
    expect_flows("");
    turn(1);
    expect_flows("run IPv4\n");
}

/* A table of an earlier run may have frontends that went while nobody looked. */
TEST(flows_to_frontends_of_an_earlier_run_are_stale)
{
    complete_all();
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    put_dns("10.0.0.1", "fd00::1");
    turn(0);
    restart();
    complete_all();
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    turn(1);
    expect_flows("10.96.0.53:53/UDP gone\nrun IPv4\n[fd00:96::53]:53/UDP gone\nrun IPv6\n");

    put_dns("10.0.0.1", "fd00::1");
    turn(1);
    restart();
    complete_all();
    put_dns("10.0.0.2", "fd00::1");
    turn(1);
    expect_flows("10.96.0.53:53/UDP 10.0.0.2:5353\n[fd00:96::53]:53/UDP fd00::1:5353\n"
                 "run IPv4\nrun IPv6\n");
}

/* ---- one Service in portions ---- */

#define MANY 300

/* So many words, the first "11.78.0.1" if @begin is "11.78"; to be freed. */
static char *many(unsigned n, const char *begin, const char *end)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "%s.%u.%u%s ", begin, i / 200, 1 + i % 200, end);
    fclose(out);
    return text;
}

/* A slice that became another just now. */
static void put_fresh_slice(const char *id, const char *service_id, const char *endpoints)
{
    struct object object = {.kind = KIND_ENDPOINTSLICE,
                            .id = xstrdup(id),
                            .payload =
                                make_slice(id, service_id, FAMILY_IPV4, "/UDP:53", endpoints),
                            .trigger_time = clock_realtime()};
    const struct object_sink *sink = proxy_sink(proxy);
    sink->put(sink->ctx, &object);
}

static void put_balanced(const char *id, const char *addresses, const char *external,
                         const char *ranges, const char *endpoints)
{
    struct service *service = make_service(id, addresses, "/UDP:53");
    char *slice = xasprintf("%s-4", id);
    service->health_check_node_port = 30000;
    add_load_balancer_ips(service, external);
    add_source_ranges(service, ranges);
    put_made(service);
    put_fresh_slice(slice, id, endpoints);
    free(slice);
}

static size_t sampled(void)
{
    return histogram_count(&figures().family[FAMILY_IPV4].syncs->programming);
}

/* Whether it is said of a frontend that a change of it is still on its way. */
static bool is_said_to_wait(const char *what)
{
    struct explain_sources sources;
    struct explain_query query;
    struct error err = {0};
    proxy_explain_sources(proxy, &sources);
    ck_assert_int_eq(explain_query_parse(what, &query, &err), 0);
    cJSON *answer = explain(&sources, &query);
    char *text = cJSON_PrintUnformatted(answer);
    bool waits = strstr(text, "\"pending\":true");
    ck_assert(waits || strstr(text, "\"pending\":false"));
    ck_assert(waits == (strstr(text, "a change of it is not in the kernel yet") != NULL));
    cJSON_free(text);
    cJSON_Delete(answer);
    explain_query_clear(&query);
    return waits;
}

/* Whatever one Service has many of, others are told of as soon as they themselves are in force. */
TESTS(one_service_in_portions_holds_up_no_other, 3)
{
    static const struct {
        unsigned addresses, ranges, endpoints;
        bool waits; /* what was handed on of it, too */
    } rows[] = {{MANY, 1, 1, false}, {1, MANY, 1, true}, {1, 1, MANY, true}};
    char *addresses = many(rows[_i].addresses, "11.78", ""),
         *ranges = many(rows[_i].ranges, "12", ".0/25"),
         *endpoints = many(rows[_i].endpoints, "10.0", "@n1"),
         *check = xasprintf("a/big IPv4 30000 %u\n", rows[_i].endpoints);
    config.portion = config.rulesets[FAMILY_IPV4].portion = 64;
    restart();
    complete_all();
    turn(0);
    put_balanced("b/dns", "10.96.0.53", "11.79.0.1", "12.0.1.0/25", "10.1.0.1@n1 10.1.0.2@n1");
    put_balanced("a/big", "10.96.0.9", addresses, ranges, endpoints);
    ck_assert(turn(0) == now);
    expect_checks("b/dns IPv4 30000 2\n");
    unsigned turns = 0;
    do {
        expect_checks("");
        ck_assert_uint_eq(sampled(), 1);
        ck_assert_int_eq(noted[FAMILY_IPV4].n > 0, rows[_i].waits);
        ck_assert(is_said_to_wait("a/big"));
        ck_assert(!is_said_to_wait("b/dns"));
        turns++;
    } while (turn(0) == now);
    ck_assert_uint_gt(turns, 3);
    expect_checks(check);
    ck_assert_uint_eq(sampled(), 2);
    ck_assert_uint_eq(noted[FAMILY_IPV4].n, 0);
    ck_assert(!is_said_to_wait("a/big"));
    free(addresses);
    free(ranges);
    free(endpoints);
    free(check);
}

/* The first time was no success, and what came since changes nothing. */
TEST(the_last_portion_may_have_nothing_to_commit)
{
    char *addresses = many(MANY, "11.78", "");
    struct service *service = make_service("a/big", "10.96.0.9", "/TCP:80");
    add_external_ips(service, addresses);
    config.portion = config.rulesets[FAMILY_IPV4].portion = 64;
    restart();
    complete_all();
    put_made(service);
    fake_kernel_fail(1, FAKE_REFUSES);
    turn(0);
    service = make_service("a/big", "10.96.0.9", "/TCP:80");
    add_external_ips(service, addresses);
    service->health_check_node_port = 30000;
    put_made(service);
    unsigned turns = 0;
    for (double next = turn(2); next == now; next = turn(0))
        turns++;
    ck_assert_uint_gt(turns, 1);
    ck_assert(proxy_is_programmed(proxy));
    free(addresses);
}

/* Each of its addresses leads to the same endpoints, which are there once. */
TEST(endpoints_cost_the_same_with_many_addresses)
{
    const struct fake_counts *counts = fake_kernel_counts();
    char *addresses = many(MANY, "11.78", "");
    struct service *service = make_service("shop/web", VIP4, "/TCP:80");
    add_external_ips(service, addresses);
    complete_all();
    put_made(service);
    put_slices("10.0.0.1 10.0.0.2 10.0.0.3", "");
    turn(0);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "services"), MANY + 1);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "endpoints"), 3);
    put_slices("10.0.0.1 10.0.0.2 10.0.0.4", "");
    fake_kernel_forget_counts();
    turn(1); /* one slot has another backend */
    ck_assert_uint_eq(counts->added, 1);
    ck_assert_uint_eq(counts->deleted, 1);
    put_slices("10.0.0.1 10.0.0.2 10.0.0.4 10.0.0.5", "");
    fake_kernel_forget_counts();
    turn(1); /* a slot more, and their number */
    ck_assert_uint_eq(counts->added, 2);
    ck_assert_uint_eq(counts->deleted, 1);
    free(addresses);
}

/* ---- in kube-proxy's terms ---- */

static const struct sync_figures *syncs(enum family family)
{
    return figures().family[family].syncs;
}

/* How many syncs there were: full and partial ones. */
static void expect_syncs(enum family family, uint64_t full, uint64_t partial)
{
    const struct sync_figures *counted = syncs(family);
    ck_assert_uint_eq(histogram_count(&counted->full), full);
    ck_assert_uint_eq(histogram_count(&counted->partial), partial);
    ck_assert_uint_eq(histogram_count(&counted->all), full + partial);
    ck_assert(fabs(counted->all.sum - counted->full.sum - counted->partial.sum) < 1e-9);
}

TEST(syncs_are_full_or_partial)
{
    complete(KIND_SERVICE);
    turn(0);
    expect_syncs(FAMILY_IPV4, 0, 0);
    complete(KIND_ENDPOINTSLICE);
    put_service(0);
    put_slices("10.0.0.1 10.0.0.2", "fd00::1");
    turn(0);
    expect_syncs(FAMILY_IPV4, 1, 0);
    expect_syncs(FAMILY_IPV6, 1, 0);
    turn(1);
    expect_syncs(FAMILY_IPV4, 1, 0);
    put_slices("10.0.0.1", "fd00::1"); /* later the slot is deleted */
    turn(1);
    expect_syncs(FAMILY_IPV4, 1, 1);
    turn(1);
    expect_syncs(FAMILY_IPV4, 1, 2);
    expect_syncs(FAMILY_IPV6, 1, 0);
    /* A refused one is made up for by a full one in the same turn. */
    fake_kernel_fail(1, FAKE_REFUSES);
    put_slices("10.0.0.3", "fd00::1");
    turn(1);
    expect_syncs(FAMILY_IPV4, 2, 3);
    ck_assert_uint_eq(syncs(FAMILY_IPV4)->failures, 1);
    ck_assert_uint_eq(figures().family[FAMILY_IPV4].table->read_backs, 1);
    ck_assert_uint_eq(figures().family[FAMILY_IPV6].table->read_backs, 0);
}

static void put_triggered_version(const char *endpoints, double trigger, const char *version)
{
    struct object object = {
        .kind = KIND_ENDPOINTSLICE,
        .id = xstrdup("shop/web-4"),
        .trigger_time = trigger,
        .slice = make_slice("shop/web-4", "shop/web", FAMILY_IPV4, "/TCP:8080", endpoints)};
    const struct object_sink *sink = proxy_sink(proxy);
    object_version_set(&object.slice->version, version);
    sink->put(sink->ctx, &object);
}

static void put_triggered(const char *endpoints, double trigger)
{
    put_triggered_version(endpoints, trigger, NULL);
}

TEST(sync_times)
{
    double before = clock_realtime();
    restart();
    complete_all();
    double queued = syncs(FAMILY_IPV4)->last_queued;
    ck_assert(queued >= before && queued <= clock_realtime()); /* the loop begins */
    ck_assert(syncs(FAMILY_IPV4)->last_success == 0);
    put_service(0);
    before = clock_realtime();
    turn(0);
    double success = syncs(FAMILY_IPV4)->last_success;
    queued = syncs(FAMILY_IPV4)->last_queued;
    ck_assert(before <= queued && queued <= success && success <= clock_realtime());
    turn(1);
    ck_assert(syncs(FAMILY_IPV4)->last_queued == queued);
    double queued6 = syncs(FAMILY_IPV6)->last_queued;
    put_triggered("10.0.0.1", 0); /* concerns one family; and it fails */
    fake_kernel_fail(1, FAKE_REFUSES);
    fake_kernel_refuse_reads(1, 1, true);
    turn(1);
    ck_assert(syncs(FAMILY_IPV4)->last_queued > queued);
    ck_assert(syncs(FAMILY_IPV4)->last_success == success);
    ck_assert(syncs(FAMILY_IPV6)->last_queued == queued6);
    queued = syncs(FAMILY_IPV4)->last_queued;
    turn(1);
    ck_assert(syncs(FAMILY_IPV4)->last_queued == queued); /* a retry is no request */
    ck_assert(syncs(FAMILY_IPV4)->last_success > success);
}

static void expect_programming(uint64_t count, double sum)
{
    const struct histogram *samples = &syncs(FAMILY_IPV4)->programming;
    ck_assert_uint_eq(histogram_count(samples), count);
    ck_assert_msg(fabs(samples->sum - sum) < 5, "%f", samples->sum);
}

/* An annotation alone is a change to kube-proxy, as is any other resourceVersion. */
TEST(programming_is_timed_where_the_trigger_alone_changes)
{
    complete_all();
    put_service(0);
    double start = clock_realtime();
    put_triggered_version("10.0.0.1", 0, "1");
    turn(0);
    double success = syncs(FAMILY_IPV4)->last_success;
    put_triggered_version("10.0.0.1", start + 0.001, "2");
    expect_programming(0, 0);
    turn(1);
    expect_programming(1, 0);
    ck_assert(syncs(FAMILY_IPV4)->last_success == success); /* there was nothing to send */
    put_triggered_version("10.0.0.2", start + 0.001, "3");
    turn(1);
    expect_programming(2, 0);
    put_triggered_version("10.0.0.2", start + 0.001, "3"); /* a list after a watch says the same */
    turn(1);
    expect_programming(2, 0);
    put_triggered_version("10.0.0.2", start + 0.002, "4");
    put_triggered_version("10.0.0.3", start + 0.002, "5");
    turn(1);
    expect_programming(4, 0);
}

static void expect_changed(uint64_t services, size_t services_pending, uint64_t slices,
                           size_t slices_pending)
{
    struct proxy_figures counted = figures();
    ck_assert_uint_eq(counted.service_changes, services);
    ck_assert_uint_eq(counted.services_pending, services_pending);
    ck_assert_uint_eq(counted.slice_changes, slices);
    ck_assert_uint_eq(counted.slices_pending, slices_pending);
}

/* Services count once for each family, slices in their own. */
TEST(changes_are_pending_until_in_force)
{
    expect_changed(0, 0, 0, 0);
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    expect_changed(2, 1, 2, 2);
    turn(0);
    expect_changed(2, 1, 2, 2); /* not complete */
    complete_all();             /* of nothing: they go */
    expect_changed(4, 1, 4, 2);
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    turn(0);
    expect_changed(6, 0, 6, 0);
    fake_kernel_fail(1, FAKE_REFUSES);
    fake_kernel_refuse_reads(1, 1, true);
    put_slices("10.0.0.2", "fd00::1");
    turn(1);
    expect_changed(6, 0, 8, 1);
    turn(1);
    expect_changed(6, 0, 8, 0);
}

static void break_rules(void)
{
    const struct table_program by = {.pid = 4711, .name = "nft"};
    const struct table_change change = {.family = FAMILY_IPV4, .by = &by};
    fake_kernel_flush_chain(FAMILY_IPV4, "dispatch");
    proxy_foreign_change(proxy, &change);
    proxy_foreign_settled(proxy, &by);
}

/* The second of two repairs: what has come meanwhile waits with it. */
TEST(what_waits_for_a_repair_is_not_in_force)
{
    fake_kernel_tolerate();
    complete_all();
    put_service(30000);
    put_slices("10.0.0.1@n1", "fd00::1@n1");
    turn(0);
    break_rules();
    turn(0);
    ck_assert_uint_eq(figures().family[FAMILY_IPV4].table->rewritten, 1);
    break_rules();
    checks[0] = flows[0] = '\0';
    struct proxy_figures counted = figures();
    ck_assert_uint_eq(counted.slices_pending, 0);
    put_slices("10.0.0.2@n2", "fd00::1@n1");
    put_dns("10.0.0.3", "fd00::3");
    turn(0);
    counted = figures();
    ck_assert_uint_eq(counted.family[FAMILY_IPV4].table->rewritten, 1);
    ck_assert_uint_gt(counted.slices_pending, 0);
    ck_assert_ptr_null(strstr(checks, "IPv4"));
    ck_assert_ptr_null(strstr(flows, "run IPv4"));
    turn(2);
    counted = figures();
    ck_assert_uint_eq(counted.family[FAMILY_IPV4].table->rewritten, 2);
    ck_assert_uint_eq(counted.slices_pending, 0);
    ck_assert_ptr_nonnull(strstr(checks, "shop/web IPv4 30000 0\n"));
    ck_assert_ptr_nonnull(strstr(flows, "run IPv4"));
}

/* And nobody to be told of health checks and flows of the other. */
TEST(a_family_may_be_left_out)
{
    config.families[FAMILY_IPV6] = false;
    restart();
    complete_all();
    hold(FAMILY_IPV4, "192.0.2.7");
    hold(FAMILY_IPV6, "fd00::7");
    put_node("n1", "192.0.2.7 fd00::7 pods=fd00:1::/64");
    put_cidrs("kubernetes", "10.96.0.0/16 fd00:96::/112");
    put_service(30000);
    put_slices("10.0.0.1@n1", "fd00::1@n1");
    put_dns("10.0.0.1", "fd00::1");
    turn(0);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
    ck_assert_ptr_null(fake_kernel_comment(FAMILY_IPV6));
    expect_checks("IPv4 on\nIPv4 on 192.0.2.7\nshop/web IPv4 30000 1\n");
    expect_flows("10.96.0.53:53/UDP 10.0.0.1:5353\nrun IPv4\n");
    ck_assert(status().family[FAMILY_IPV4].reported && !status().family[FAMILY_IPV6].reported);
    ck_assert(figures().family[FAMILY_IPV4].in_use && !figures().family[FAMILY_IPV6].in_use);
    ck_assert_uint_eq(figures().family[FAMILY_IPV6].frontends, 0);
    char *text = dump();
    ck_assert_ptr_null(strstr(text, "table ip6"));
    free(text);
}

TEST(nobody_need_be_told)
{
    config.health = NULL;
    config.flows = NULL;
    restart();
    complete_all();
    hold(FAMILY_IPV4, "192.0.2.7");
    put_node("n1", "192.0.2.7");
    put_service(30000);
    put_slices("10.0.0.1@n1", "fd00::1@n1");
    put_dns("10.0.0.1", "fd00::1");
    turn(0);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
    expect_node_ports("192.0.2.7");
}

TEST(a_dump_may_be_that_of_another_host)
{
    config.node.assume_held = true;
    restart();
    hold(FAMILY_IPV4, "10.0.0.1");
    complete_all();
    put_node("n1", "192.0.2.7");
    put_cidrs("kubernetes", "10.96.0.0/16");
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    char *text = dump();
    ck_assert_ptr_nonnull(strstr(text, "192.0.2.7 . tcp . 30080 : 0:8001\n"));
    ck_assert_ptr_null(strstr(text, "10.0.0.1 . tcp . 30080"));
    ck_assert_ptr_nonnull(strstr(text, "10.96.0.0/16"));
    free(text);
}

static void put_reachable(void)
{
    struct service *service = make_service("shop/web", VIP4, "/TCP:80");
    add_external_ips(service, "192.0.2.9 192.0.2.10");
    put_made(service);
}

/* What an earlier run gave away is taken back; a cluster IP is a way to the API server. */
TEST(an_earlier_run_is_in_the_way)
{
    struct frontend vip = frontend_at(VIP4, 80), server = frontend_at("192.0.2.9", 80);
    struct frontend other = frontend_at("192.0.2.10", 80);
    complete_all();
    put_reachable();
    put_slices("10.0.0.1", "");
    turn(0);
    for (int i = 0; i < 2; i++) { /* with endpoints, then without */
        restart();
        ck_assert_int_eq(fake_kernel_rejects(&server), i);
        ck_assert(fake_kernel_has("services", &vip) && fake_kernel_has("services", &server));
        proxy_api_server_unreachable(proxy, &server);
        proxy_api_server_unreachable(proxy, &server);
        proxy_api_server_unreachable(proxy, &vip);
        proxy_keep(proxy, kernel, now);
        ck_assert(fake_kernel_has("services", &vip) && fake_kernel_has("services", &other));
        ck_assert(!fake_kernel_has("services", &server));
        ck_assert_int_gt(logged_with("frontend=192.0.2.9:80/TCP of the previous process"), 0);
        forget_logged();
        proxy_api_server_unreachable(proxy, &server);
        proxy_keep(proxy, kernel, now);
        ck_assert_int_eq(logged(LOG_LEVEL_WARN), 0);
        /* Then policy decides. Here, nobody has said where the server is. */
        complete_all();
        put_reachable();
        turn(1);
        ck_assert(fake_kernel_rejects(&server));
        proxy_set_api_server(proxy, &server, 1);
        turn(1);
        ck_assert(!fake_kernel_has("services", &server));
        ck_assert_uint_eq(figures().reserved, 1);
        proxy_set_api_server(proxy, NULL, 0);
        turn(1);
        ck_assert_uint_eq(logged(LOG_LEVEL_ERROR), 0);
    }
}

UNIT_FIXTURE(set_up, tear_down)
