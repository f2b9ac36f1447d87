/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pipeline as a whole: objects in at the sink, transactions out at a kernel in memory. */
#include "kube-nftd/proxy.h"

#include "fake_kernel.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "objects.h"
#include "unit.h"

#define VIP4 "10.96.0.1"
#define VIP6 "fd00:96::1"

static struct proxy *proxy;
static struct nft_socket *kernel;
static double now; /* of the turns */

static char checks[512]; /* the health checks told, a line each */
static unsigned errors;  /* lines of level error */

/* In place of src/serve/health.c. */
void health_service(struct health *health, const char *service_id, enum family family,
                    uint16_t port, size_t local_ready)
{
    (void)health;
    size_t used = strlen(checks);
    snprintf(checks + used, sizeof(checks) - used, "%s %s %u %zu\n", service_id,
             family_name(family), port, local_ready);
}

static void count_errors(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)line;
    errors += level == LOG_LEVEL_ERROR;
}

static void set_up_with(bool node_required)
{
    struct error err = {0};
    fake_kernel_reset();
    log_set_sink(count_errors, NULL);
    const struct proxy_config config = {.node_name = "n1",
                                        .node_required = node_required,
                                        .families = {true, true},
                                        .health = (struct health *)(void *)checks};
    proxy = proxy_new(&config, &err);
    kernel = nft_socket_open(&err);
    ck_assert_ptr_nonnull(proxy);
    ck_assert_ptr_nonnull(kernel);
    now = clock_monotonic();
    checks[0] = '\0';
    errors = 0;
}

static void set_up(void)
{
    set_up_with(true);
}

static void tear_down(void)
{
    proxy_free(proxy);
    nft_socket_close(kernel);
    log_set_sink(NULL, NULL);
}

/* ---- what goes in ---- */

static void put(enum object_kind kind, const char *id, void *payload)
{
    struct object object = {.kind = kind, .id = xstrdup(id), .payload = payload};
    const struct object_sink *sink = proxy_sink(proxy);
    sink->put(sink->ctx, &object);
    ck_assert_ptr_null(object.id);
}

static void put_service(uint16_t health_port)
{
    struct service *service = make_service("shop/web", VIP4 " " VIP6, "/TCP:80");
    service->health_check_node_port = health_port;
    put(KIND_SERVICE, "shop/web", service);
}

static void put_slices(const char *v4, const char *v6)
{
    put(KIND_ENDPOINTSLICE, "shop/web-4",
        make_slice("shop/web-4", "shop/web", FAMILY_IPV4, "/TCP:8080", v4));
    put(KIND_ENDPOINTSLICE, "shop/web-6",
        make_slice("shop/web-6", "shop/web", FAMILY_IPV6, "/TCP:8080", v6));
}

static void put_node(const char *id, bool deleting, bool to_be_deleted)
{
    struct node *node = xcalloc(1, sizeof(*node));
    *node = (struct node){xstrdup(id), deleting, to_be_deleted};
    put(KIND_NODE, id, node);
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

static double turn(double seconds_later)
{
    now += seconds_later;
    fake_kernel_set_time(now);
    return proxy_turn(proxy, kernel, now);
}

/* ---- what comes out ---- */

static size_t backends(enum family family)
{
    enum family parsed;
    struct frontend frontend = {.port = 80, .protocol = 6, .family = (uint8_t)family};
    frontend.address = make_address(family == FAMILY_IPV4 ? VIP4 : VIP6, &parsed);
    return fake_kernel_backends(&frontend, NULL, 0);
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

START_TEST(nothing_before_both_are_complete)
{
    put_service(0);
    ck_assert(turn(0) == 0);
    complete(KIND_SERVICE);
    ck_assert(!proxy_is_synced(proxy));
    turn(1);
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
    complete(KIND_ENDPOINTSLICE);
    ck_assert(proxy_is_synced(proxy));
    put_service(0);
    put_slices("10.0.0.1 10.0.0.2", "fd00::1");
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 2);
    ck_assert_uint_eq(backends(FAMILY_IPV6), 1);
}
END_TEST

START_TEST(replace_removes_what_it_does_not_name)
{
    complete_all();
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    turn(0);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
    complete(KIND_ENDPOINTSLICE);
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 0);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "reject_frontends"), 1);
    complete(KIND_SERVICE);
    turn(1);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "reject_frontends"), 0);
}
END_TEST

START_TEST(an_unreadable_object_keeps_what_was_known)
{
    complete_all();
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    turn(0);
    put(KIND_SERVICE, "shop/web", NULL);
    object_vec unreadable = make_ids(KIND_ENDPOINTSLICE, "shop/web-4");
    const struct object_sink *sink = proxy_sink(proxy);
    sink->replace(sink->ctx, KIND_ENDPOINTSLICE, &unreadable);
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
    ck_assert_uint_eq(backends(FAMILY_IPV6), 0);
}
END_TEST

START_TEST(a_lone_change_waits_for_nothing_and_trims_later)
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
    ck_assert(turn(trim - now) == 0);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "endpoints"), 1);
}
END_TEST

START_TEST(one_family_that_fails_does_not_hold_up_the_other)
{
    complete_all();
    put_service(30000);
    put_slices("10.0.0.1@n1 10.0.0.2@n2", "fd00::1@n1");
    fake_kernel_fail(2, FAKE_REFUSES); /* the first is that of IPv4 */
    turn(0);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 2);
    ck_assert_uint_eq(backends(FAMILY_IPV6), 0);
    expect_checks("shop/web IPv4 30000 1\n");
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV6), 1);
    expect_checks("shop/web IPv6 30000 1\n");
}
END_TEST

START_TEST(health_checks_follow_what_is_in_force)
{
    complete_all();
    put_service(30000);
    put_slices("10.0.0.1@n1 10.0.0.2@n1", "fd00::1@n2");
    turn(0);
    expect_checks("shop/web IPv4 30000 2\nshop/web IPv6 30000 0\n");
    put_slices("10.0.0.1=st@n1", "fd00::1@n2");
    turn(1);
    expect_checks("shop/web IPv4 30000 0\nshop/web IPv6 30000 0\n");
    ck_assert_uint_eq(backends(FAMILY_IPV4), 1);
    put_service(0);
    turn(1);
    expect_checks("shop/web IPv4 0 0\nshop/web IPv6 0 0\n");
}
END_TEST

START_TEST(a_commit_that_fails_once_goes_through_in_the_same_turn)
{
    complete_all();
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    turn(0);
    fake_kernel_drop_table(FAMILY_IPV4);
    put_slices("10.0.0.1 10.0.0.2", "fd00::1");
    turn(1);
    ck_assert_uint_eq(backends(FAMILY_IPV4), 2);
    ck_assert_uint_eq(errors, 0);
}
END_TEST

START_TEST(failures_are_said_once_and_tried_again_later_and_later)
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
        ck_assert_uint_eq(errors, 1);
    }
    turn(0.4);
    ck_assert_ptr_nonnull(fake_kernel_comment(FAMILY_IPV4));
    ck_assert(status().family[FAMILY_IPV4].healthy);
}
END_TEST

START_TEST(a_new_change_makes_the_next_try_sooner)
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
END_TEST

START_TEST(a_change_that_waits_for_a_minute_makes_it_unhealthy)
{
    complete_all();
    put_service(0);
    now -= 59;
    fake_kernel_refuse_reads(1, 1, true);
    turn(0);
    ck_assert(status().family[FAMILY_IPV4].healthy);
    tear_down();
    set_up();
    complete_all();
    put_service(0);
    now -= 61;
    fake_kernel_refuse_reads(1, 1, true);
    turn(0);
    ck_assert(!status().family[FAMILY_IPV4].healthy);
    ck_assert(status().family[FAMILY_IPV6].healthy);
    turn(1);
    ck_assert(status().family[FAMILY_IPV4].healthy);
}
END_TEST

START_TEST(the_node_decides_eligibility)
{
    ck_assert(!status().node_eligible);
    put_node("n2", false, false);
    ck_assert(!status().node_eligible);
    put_node("n1", false, false);
    ck_assert(status().node_eligible);
    put_node("n1", false, true);
    ck_assert(!status().node_eligible);
    put_node("n2", false, false);
    ck_assert(!status().node_eligible);
    put_node("n1", false, false);
    const struct object_sink *sink = proxy_sink(proxy);
    sink->remove(sink->ctx, KIND_NODE, "n1");
    ck_assert(status().node_eligible); /* the last version counts on */
    put_node("n1", true, false);
    ck_assert(!status().node_eligible);
}
END_TEST

START_TEST(manifests_need_no_node_but_heed_it)
{
    tear_down();
    set_up_with(false);
    ck_assert(status().node_eligible);
    put_node("n1", false, true);
    ck_assert(!status().node_eligible);
}
END_TEST

START_TEST(a_dump_has_both_families)
{
    complete_all();
    put_service(0);
    put_slices("10.0.0.1", "fd00::1");
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    proxy_dump(proxy, out);
    fclose(out);
    ck_assert_ptr_nonnull(strstr(text, "table ip kube-nftd {"));
    ck_assert_ptr_nonnull(strstr(text, "table ip6 kube-nftd {"));
    ck_assert_ptr_nonnull(strstr(text, VIP4 " . tcp . 80 . 0 : 10.0.0.1 . 8080"));
    ck_assert_ptr_nonnull(strstr(text, VIP6 " . tcp . 80 . 0 : fd00::1 . 8080"));
    free(text);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, nothing_before_both_are_complete);
    tcase_add_test(tcase, replace_removes_what_it_does_not_name);
    tcase_add_test(tcase, an_unreadable_object_keeps_what_was_known);
    tcase_add_test(tcase, a_lone_change_waits_for_nothing_and_trims_later);
    tcase_add_test(tcase, one_family_that_fails_does_not_hold_up_the_other);
    tcase_add_test(tcase, health_checks_follow_what_is_in_force);
    tcase_add_test(tcase, a_commit_that_fails_once_goes_through_in_the_same_turn);
    tcase_add_test(tcase, failures_are_said_once_and_tried_again_later_and_later);
    tcase_add_test(tcase, a_new_change_makes_the_next_try_sooner);
    tcase_add_test(tcase, a_change_that_waits_for_a_minute_makes_it_unhealthy);
    tcase_add_test(tcase, the_node_decides_eligibility);
    tcase_add_test(tcase, manifests_need_no_node_but_heed_it);
    tcase_add_test(tcase, a_dump_has_both_families);
}

UNIT_MAIN("proxy", add_tests)
