/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * That the fake kernel refuses what the kernel refuses, ends tests that break its rules, and sends
 * packets where the rules send them.
 */
#include "unit.h"

#include "fake_kernel.h"
#include "kernel_cases.h"

#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/ruleset/ruleset.h"

#include <linux/netfilter/nf_tables.h>

static struct nft_socket *sock;
static struct nft_batch batch;
static struct error err;

static void setup(void)
{
    fake_kernel_reset();
    sock = nft_socket_open(NULL);
}

static void teardown(void)
{
    nft_batch_release(&batch);
    nft_socket_close(sock);
    error_clear(&err);
    fake_kernel_reset();
}

static void begin(enum family family)
{
    nft_batch_init(&batch, family, RULESET_TABLE);
    case_table(&batch);
    ck_assert_msg(nft_socket_commit(sock, &batch, &err) == 0, "%s", err.text);
    nft_batch_clear(&batch);
    fake_kernel_forget_counts();
}

static void commit(void)
{
    int result = nft_socket_commit(sock, &batch, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    nft_batch_clear(&batch);
}

/* ---- refusals ---- */

static bool rejects(enum family family, uint8_t number)
{
    return fake_kernel_number(family, "rejected_ports", case_port(number));
}

TESTS(is_like_the_kernel, (FAMILY_COUNT * KERNEL_CASES))
{
    enum family family = (enum family)(_i / KERNEL_CASES);
    const struct kernel_case *which = &kernel_cases[_i % KERNEL_CASES];
    struct backend reached[2];
    int why = -1;
    begin(family);
    make_case(which, &batch);
    ck_assert_int_eq(nft_socket_check(sock, &batch, &why, &err), which->why ? -1 : 0);
    ck_assert_int_eq(why, which->why);
    ck_assert(!rejects(family, 99));
    error_clear(&err);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), which->why ? -1 : 0);
    if (which->why) {
        ck_assert_ptr_nonnull(strstr(err.text, strerror(which->why)));
        ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
        ck_assert_uint_eq(fake_kernel_counts()->added, 0);
    }
    ck_assert_int_eq(rejects(family, 99), which->why == 0);
    ck_assert_str_eq(fake_kernel_comment(family), "of a test");
    struct frontend one = case_frontend(family, 1);
    ck_assert_uint_eq(fake_kernel_backends(&one, reached, 2), 2);
    ck_assert_uint_eq(reached[0].address.bytes[3], 1);
    ck_assert_uint_eq(reached[1].address.bytes[3], which->make == replace_a_backend ? 9 : 2);
}

EACH_FAMILY(an_anonymous_set_that_no_rule_uses)
{
    enum family family = (enum family)_i;
    begin(family);
    struct nftnl_rule *rule = nftnl_rule_alloc();
    ck_assert_int_eq(phrases_add("meta l4proto { tcp, udp, sctp }", family, rule, &batch, &err), 0);
    nftnl_rule_free(rule);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
}

TEST(faults)
{
    begin(FAMILY_IPV4);
    case_reject(&batch, 99, 0);
    fake_kernel_fail(2, FAKE_REFUSES);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), 0);
    ck_assert(rejects(FAMILY_IPV4, 99));
    nft_batch_clear(&batch);
    case_service(&batch, 1, NULL);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "services"), 2);
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "services"), 1);
    ck_assert(!fake_kernel_spare());
}

/* Preflight asks about a table that there is not. */
EACH_FAMILY(a_check_leaves_nothing_behind)
{
    enum family family = (enum family)_i;
    int why = 0;
    nft_batch_init(&batch, family, "kube-nftd-probe");
    case_table(&batch);
    ck_assert_int_eq(nft_socket_check(sock, &batch, &why, &err), 0);
    ck_assert_int_eq(nft_socket_check(sock, &batch, NULL, &err), 0);
    ck_assert_uint_eq(fake_kernel_size(family, "services"), SIZE_MAX);
    ck_assert_uint_eq(fake_kernel_counts()->messages, 0);
    fake_kernel_lack("masq");
    ck_assert_int_eq(nft_socket_check(sock, &batch, &why, &err), -1);
    ck_assert_int_eq(why, ENOENT);
    ck_assert_ptr_nonnull(err.text);
    fake_kernel_lack("quota");
    ck_assert_int_eq(nft_socket_check(sock, &batch, &why, NULL), 0);
}

/* ---- reading ---- */

struct seen {
    size_t n, n_ends;
    struct nft_element elements[8];
};

static void see(void *ctx, const struct nft_element *element)
{
    struct seen *seen = ctx;
    ck_assert_uint_lt(seen->n, 8);
    seen->elements[seen->n++] = *element; /* what it borrows stays while the table does */
    seen->n_ends += element->flags == NFT_SET_ELEM_INTERVAL_END;
}

static struct seen look_at(enum family family, const char *set)
{
    struct seen seen = {.n = 0};
    int result = nft_socket_read_elements(sock, family, RULESET_TABLE, set, see, &seen, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    return seen;
}

EACH_FAMILY(ranges_are_read_as_the_kernel_gives_them)
{
    enum family family = (enum family)_i;
    begin(family);
    struct seen seen = look_at(family, "service_cidrs");
    ck_assert_uint_eq(seen.n, 3);
    ck_assert_uint_eq(seen.n_ends, 1);
    struct key top = case_address(family, 50), end = case_address(family, 20);
    ck_assert_mem_eq(seen.elements[0].key, top.bytes, top.length);
    ck_assert_mem_eq(seen.elements[1].key, end.bytes, end.length);
    ck_assert_uint_eq(seen.elements[1].flags, NFT_SET_ELEM_INTERVAL_END);

    seen = look_at(family, "allowed_sources");
    ck_assert_uint_eq(seen.n, 1);
    ck_assert_uint_eq(seen.n_ends, 0);
    struct key key = case_source_key(family, 1, 12, 2);
    ck_assert_mem_eq(seen.elements[0].key, key.bytes, key.length);
    ck_assert_ptr_null(seen.elements[0].data);
}

/* What leads frontends to a list. */
#define LIST(number) ((number) << 8)

static void check_range(enum family family, const struct address_range *range, uint32_t first,
                        uint32_t last)
{
    struct key a = case_address(family, first), b = case_address(family, last);
    ck_assert_mem_eq(range->first.bytes, a.bytes, sizeof(range->first));
    ck_assert_mem_eq(range->last.bytes, b.bytes, sizeof(range->last));
}

EACH_FAMILY(ranges_for_tests)
{
    enum family family = (enum family)_i;
    struct frontend one = case_frontend(family, 1);
    range_vec ranges = {0};
    begin(family);
    case_range(&batch, ELEMENT_ADD, 20, 49);
    case_source(&batch, ELEMENT_ADD, 1, 16, 4);
    case_source(&batch, ELEMENT_ADD, 1, 5, 0);
    case_source(&batch, ELEMENT_ADD, 3, 6, 0);
    case_number(&batch, "restricted", 1, &(uint32_t){LIST(1)});
    commit();
    fake_kernel_ranges(family, "service_cidrs", &ranges);
    ck_assert_uint_eq(ranges.n, 3);
    check_range(family, &ranges.v[0], 10, 19);
    check_range(family, &ranges.v[1], 20, 49);
    check_range(family, &ranges.v[2], 50, CASE_TOP);
    ck_assert_uint_eq(fake_kernel_size(family, "service_cidrs"), 3);
    vec_clear(&ranges);
    fake_kernel_sources(&one, &ranges);
    ck_assert_uint_eq(ranges.n, 2);
    check_range(family, &ranges.v[0], 5, 5);
    check_range(family, &ranges.v[1], 12, 31);
    vec_free(&ranges);
}

/* ---- a table with a frontend of each class ---- */

#define PLAIN 1
#define REJECTED 2
#define CLUSTER_IP 3
#define EXTERNAL_LOCAL 4
#define CLUSTER_LOCAL 5
#define AFFINE 6
#define AFFINE_LOCAL 7
#define EXTERNAL 8

#define PORT case_port(AFFINE) /* the service port of both with affinity */
#define TIMEOUT 100
#define POD 250
#define OUTSIDE 5
#define ALLOWED 12

static void put_shapes(void)
{
    case_shape(&batch, TEMPLATE_LOCAL_PICK, 1, 1);
    case_shape(&batch, TEMPLATE_SOURCE_RANGES, 0, 0);
    case_shape(&batch, TEMPLATE_AFFINITY, 0, 0);
    case_shape(&batch, TEMPLATE_LEARN, TIMEOUT, TIMEOUT);
}

/* A service port with backends 1 and 2. */
static void put_port(uint8_t number)
{
    const uint32_t two = 2;
    case_slot(&batch, ELEMENT_ADD, number, 0, 1);
    case_slot(&batch, ELEMENT_ADD, number, 1, 2);
    case_count(&batch, number, &two);
}

static void local_slot(enum nft_element_op op, uint8_t number, uint32_t slot, uint8_t backend)
{
    struct backend b = case_backend(backend);
    struct key key = key_of_slot(case_port(number), slot),
               value = value_of_backend(case_family(&batch), &b);
    bool add = op == ELEMENT_ADD;
    nft_batch_element(&batch, op, "local_endpoints", key.bytes, key.length,
                      add ? value.bytes : NULL, add ? value.length : 0);
}

static void local_count(enum nft_element_op op, uint8_t number, uint32_t count)
{
    const uint32_t value = case_port(number) | count;
    case_of_port(&batch, op, "local_ports", case_port(number), op == ELEMENT_ADD ? &value : NULL);
}

/* Of these, backend 1 is on this node. */
static void put_local_port(uint8_t number)
{
    local_slot(ELEMENT_ADD, number, 0, 1);
    local_count(ELEMENT_ADD, number, 1);
}

static void drop_local(enum nft_element_op op, uint8_t number)
{
    case_of_port(&batch, op, "dropped_ports", case_port(number) | CLASS_LOCAL, NULL);
}

static void affinity_backend(enum nft_element_op op, const char *map, uint32_t number,
                             uint8_t backend)
{
    struct backend b = case_backend(backend);
    struct key value = value_of_backend(case_family(&batch), &b);
    bool add = op == ELEMENT_ADD;
    nft_batch_element(&batch, op, map, &number, sizeof(number), add ? value.bytes : NULL,
                      add ? value.length : 0);
}

static void affinity_number(uint32_t port, uint8_t backend, uint32_t number)
{
    struct backend b = case_backend(backend);
    struct key value = value_of_backend(case_family(&batch), &b), key = {.length = sizeof(port)};
    memcpy(key.bytes, &port, sizeof(port));
    memcpy(key.bytes + key.length, value.bytes, value.length);
    nft_batch_element(&batch, ELEMENT_ADD, "affinity_numbers", key.bytes, key.length + value.length,
                      &number, sizeof(number));
}

static void put_affinity(void)
{
    const uint32_t timeout = TIMEOUT;
    case_of_port(&batch, ELEMENT_ADD, "affinity_timeouts", PORT, &timeout);
    affinity_number(PORT, 1, PORT | 1);
    affinity_number(PORT, 2, PORT | 2);
    affinity_backend(ELEMENT_ADD, "affinity_backends", PORT | 1, 1);
    affinity_backend(ELEMENT_ADD, "affinity_backends", PORT | 2, 2);
    affinity_backend(ELEMENT_ADD, "local_affinity_backends", PORT | 1, 1);
}

static void lead_to(uint8_t frontend, uint8_t port, uint32_t class)
{
    const uint32_t value = case_port(port) | class;
    case_number(&batch, "services", frontend, &value);
}

static void begin_with_classes(enum family family)
{
    begin(family);
    put_shapes();
    commit();
    put_port(CLUSTER_IP);
    put_port(EXTERNAL_LOCAL);
    put_local_port(EXTERNAL_LOCAL);
    drop_local(ELEMENT_ADD, CLUSTER_LOCAL);
    put_port(AFFINE);
    put_local_port(AFFINE);
    put_affinity();
    put_port(EXTERNAL);
    lead_to(CLUSTER_IP, CLUSTER_IP, 0);
    lead_to(EXTERNAL_LOCAL, EXTERNAL_LOCAL, CLASS_EXTERNAL | CLASS_LOCAL);
    lead_to(CLUSTER_LOCAL, CLUSTER_LOCAL, CLASS_LOCAL);
    lead_to(AFFINE, AFFINE, CLASS_AFFINE);
    lead_to(AFFINE_LOCAL, AFFINE, CLASS_EXTERNAL | CLASS_LOCAL | CLASS_AFFINE);
    lead_to(EXTERNAL, EXTERNAL, CLASS_EXTERNAL);
    case_number(&batch, "restricted", PLAIN, &(uint32_t){LIST(1)});
    case_range_of(&batch, ELEMENT_ADD, "pod_cidrs", 200, 299);
    commit();
}

/* ---- packets ---- */

static enum family family_now;

static struct fake_route route_from(uint8_t frontend, uint32_t last, bool is_host)
{
    struct frontend to = case_frontend(family_now, frontend);
    struct fake_client from = {.is_host = is_host, .mark = 0x10};
    struct key address = case_address(family_now, last);
    memcpy(from.address.bytes, address.bytes, address.length);
    return fake_kernel_route(&to, &from);
}

/* Packets are balanced over backends @first to @last, all masqueraded or none. */
static void check_balanced(struct fake_route route, uint8_t first, uint8_t last, bool masqueraded)
{
    ck_assert_int_eq(route.fate, FAKE_BALANCED);
    ck_assert_uint_eq(route.n, last - first + 1u);
    for (size_t i = 0; i < route.n; i++) {
        ck_assert_uint_eq(route.to[i].backend.address.bytes[3], first + i);
        ck_assert_uint_eq(route.to[i].backend.port, 8080);
        ck_assert_int_eq(route.to[i].masqueraded, masqueraded);
        ck_assert_uint_eq(route.to[i].mark, 0x10);
    }
    fake_route_free(&route);
}

static void check_fate(struct fake_route route, enum fake_fate fate)
{
    ck_assert_int_eq(route.fate, fate);
    ck_assert_uint_eq(route.n, 0);
    fake_route_free(&route);
}

EACH_FAMILY(packets_by_class_and_source)
{
    family_now = (enum family)_i;
    begin_with_classes(family_now);
    check_balanced(route_from(CLUSTER_IP, POD, false), 1, 2, false);
    check_balanced(route_from(CLUSTER_IP, OUTSIDE, false), 1, 2, true);
    check_balanced(route_from(CLUSTER_IP, OUTSIDE, true), 1, 2, true);
    check_balanced(route_from(EXTERNAL, POD, false), 1, 2, true);
    check_balanced(route_from(EXTERNAL_LOCAL, POD, false), 1, 2, false);
    check_balanced(route_from(EXTERNAL_LOCAL, OUTSIDE, true), 1, 2, true);
    check_balanced(route_from(EXTERNAL_LOCAL, OUTSIDE, false), 1, 1, false);
    check_balanced(route_from(PLAIN, ALLOWED, false), 1, 2, true);
    check_fate(route_from(PLAIN, OUTSIDE, false), FAKE_DROPPED);
    check_fate(route_from(PLAIN, OUTSIDE, true), FAKE_DROPPED);
    check_fate(route_from(REJECTED, POD, false), FAKE_REJECTED);
    check_fate(route_from(CLUSTER_LOCAL, POD, false), FAKE_DROPPED);
}

static void put_record(uint32_t client, uint32_t number)
{
    const uint32_t port = PORT;
    const struct key address = case_address(family_now, client);
    struct key key = {.length = 0};
    key_put_number(&key, port);
    memcpy(key.bytes + key.length, address.bytes, address.length);
    fake_kernel_put(family_now, "affinity", key.bytes, key.length + address.length, &number,
                    sizeof(number));
}

EACH_FAMILY(packets_with_affinity_records)
{
    family_now = (enum family)_i;
    begin_with_classes(family_now);
    check_balanced(route_from(AFFINE, POD, false), 1, 2, false);
    put_record(POD, PORT | 2);
    check_balanced(route_from(AFFINE, POD, false), 2, 2, false);
    check_balanced(route_from(AFFINE_LOCAL, POD, false), 2, 2, false);
    put_record(OUTSIDE, PORT | 2); /* on another node */
    check_balanced(route_from(AFFINE_LOCAL, OUTSIDE, false), 1, 1, false);
    put_record(POD + 1, PORT | 9); /* gone */
    check_balanced(route_from(AFFINE, POD + 1, false), 1, 2, false);
}

EACH_FAMILY(packets_to_oneself)
{
    family_now = (enum family)_i;
    begin_with_classes(family_now);
    struct frontend to = case_frontend(family_now, AFFINE);
    struct backend b = case_backend(1);
    struct fake_client from = {.address = b.address};
    struct address behind = b.address;
    size_t n = address_length(family_now);
    uint8_t key[64] = {0};
    behind.bytes[n - 1]++;
    fake_kernel_put(family_now, "pod_cidrs", b.address.bytes, n, NULL, 0);
    fake_kernel_put_end(family_now, "pod_cidrs", behind.bytes, n);
    memcpy(key, b.address.bytes, n);
    memcpy(key + n, b.address.bytes, n);
    key[2 * n] = IPPROTO_TCP;
    key[2 * n + 4] = 8080 >> 8;
    key[2 * n + 5] = 8080 & 0xff;
    fake_kernel_put(family_now, "hairpin", key, 2 * n + 8, NULL, 0);
    struct fake_route route = fake_kernel_route(&to, &from);
    ck_assert_uint_eq(route.n, 2);
    ck_assert(route.to[0].masqueraded);
    ck_assert(!route.to[1].masqueraded);
    fake_route_free(&route);
}

EACH_FAMILY(packets_to_nobodys_frontend)
{
    enum family family = (enum family)_i;
    struct fake_client from = {.is_host = true};
    struct frontend to = case_frontend(family, CLUSTER_IP);
    begin_with_classes(family);
    fake_kernel_put(family, "cluster_ips", to.address.bytes, address_length(family), NULL, 0);
    to.port = 81;
    check_fate(fake_kernel_route(&to, &from), FAKE_REJECTED);
    struct key key = case_address(family, 15);
    memcpy(to.address.bytes, key.bytes, key.length);
    check_fate(fake_kernel_route(&to, &from), FAKE_DROPPED);
    to.address.bytes[address_length(family) - 1] = 20;
    check_fate(fake_kernel_route(&to, &from), FAKE_UNTOUCHED);
}

/* A table that knows its pods by their interfaces. */
TESTS(packets_by_interface, 2 * FAMILY_COUNT)
{
    static const char *const names[] = {"\"cni0\"", "\"cni*\""};
    enum family family = (enum family)(_i / 2);
    char *not_from_pod = xasprintf("iifname != %s", names[_i % 2]);
    struct layout_vars vars = case_vars(family, 2, 2);
    struct frontend to = case_frontend(family, 1);
    vars.not_from_pod = not_from_pod;
    nft_batch_init(&batch, family, RULESET_TABLE);
    nft_batch_add_table(&batch, "of a test");
    case_layout(&batch, TEMPLATE_BASE, &vars);
    case_layout(&batch, TEMPLATE_PICK, &vars);
    free(not_from_pod);
    put_port(1);
    lead_to(1, 1, 0);
    commit();
    check_balanced(fake_kernel_route(&to, &(struct fake_client){.interface = "cni0", .mark = 16}),
                   1, 2, false);
    check_balanced(fake_kernel_route(&to, &(struct fake_client){.interface = "cni1", .mark = 16}),
                   1, 2, _i % 2 == 0);
    check_balanced(fake_kernel_route(&to, &(struct fake_client){.is_host = true, .mark = 16}), 1, 2,
                   true);
}

/* ---- what ends a test ---- */

static void element_with_a_chain(void)
{
    case_shape(&batch, TEMPLATE_LEARN, TIMEOUT + 1, TIMEOUT + 1);
    drop_local(ELEMENT_ADD, 99);
}

static void replace_count(uint8_t number, uint32_t count)
{
    case_count(&batch, number, NULL);
    case_count(&batch, number, &count);
}

static void count_without_pick(void)
{
    replace_count(PLAIN, 1);
}

static void count_without_slot(void)
{
    const uint32_t two = 2;
    case_slot(&batch, ELEMENT_ADD, 20, 0, 1);
    case_count(&batch, 20, &two);
}

static void count_of_another_port(void)
{
    const uint32_t value = case_port(21) | 2;
    case_slot(&batch, ELEMENT_ADD, 20, 0, 1);
    case_slot(&batch, ELEMENT_ADD, 20, 1, 2);
    case_of_port(&batch, ELEMENT_ADD, "ports", case_port(20), &value);
}

static void slot_with_its_count(void)
{
    case_slot(&batch, ELEMENT_DELETE, PLAIN, 1, 0);
}

/* Backends make way for a rejection. */
static void all_rejected(void)
{
    case_reject(&batch, PLAIN, 0);
    case_count(&batch, PLAIN, NULL);
}

static void slot_with_its_frontends(void)
{
    case_service(&batch, PLAIN, NULL);
    case_count(&batch, PLAIN, NULL);
    case_slot(&batch, ELEMENT_DELETE, PLAIN, 0, 0);
}

static void slot_too_early(void)
{
    all_rejected();
    commit();
    fake_kernel_set_time(0.9 * RULESET_TRIM_DELAY);
    case_slot(&batch, ELEMENT_DELETE, PLAIN, 0, 0);
}

static void slot_in_time(void)
{
    slot_too_early();
    fake_kernel_set_time(RULESET_TRIM_DELAY);
}

static void count_with_its_frontends(void)
{
    case_service(&batch, PLAIN, NULL);
    case_count(&batch, PLAIN, NULL);
}

static void count_too_early(void)
{
    case_service(&batch, PLAIN, NULL);
    commit();
    fake_kernel_set_time(0.9 * RULESET_TRIM_DELAY);
    case_count(&batch, PLAIN, NULL);
}

/* With all of its slots. */
static void count_in_time(void)
{
    count_too_early();
    fake_kernel_set_time(RULESET_TRIM_DELAY);
    case_slot(&batch, ELEMENT_DELETE, PLAIN, 0, 0);
    case_slot(&batch, ELEMENT_DELETE, PLAIN, 1, 0);
}

static void frontend_away_between_pieces(void)
{
    fake_kernel_cut(true);
    case_service(&batch, PLAIN, NULL);
    nft_batch_may_cut(&batch);
    lead_to(PLAIN, PLAIN, 0);
}

static void lead_elsewhere_to(uint8_t frontend, uint8_t port, uint32_t class)
{
    case_service(&batch, frontend, NULL);
    lead_to(frontend, port, class);
}

static void another_class(void)
{
    lead_elsewhere_to(PLAIN, PLAIN, CLASSES);
}

static void no_port(void)
{
    lead_elsewhere_to(PLAIN, 0, CLASS_EXTERNAL);
}

static void port_of_another(void)
{
    lead_elsewhere_to(PLAIN, EXTERNAL, CLASS_EXTERNAL);
}

static void port_with_nothing(void)
{
    lead_elsewhere_to(PLAIN, 20, 0);
}

static void drop_for_all(void)
{
    lead_elsewhere_to(PLAIN, CLUSTER_LOCAL, 0);
}

static void local_without_backends(void)
{
    lead_elsewhere_to(PLAIN, PLAIN, CLASS_LOCAL);
}

static void local_without_pick(void)
{
    local_slot(ELEMENT_ADD, EXTERNAL_LOCAL, 1, 2);
    local_count(ELEMENT_DELETE, EXTERNAL_LOCAL, 1);
    local_count(ELEMENT_ADD, EXTERNAL_LOCAL, 2);
}

static void local_without_slot(void)
{
    local_count(ELEMENT_ADD, CLUSTER_LOCAL, 1);
}

static void local_slot_with_its_count(void)
{
    drop_local(ELEMENT_ADD, EXTERNAL_LOCAL);
    local_count(ELEMENT_DELETE, EXTERNAL_LOCAL, 1);
    local_slot(ELEMENT_DELETE, EXTERNAL_LOCAL, 0, 0);
}

static void local_slot_too_early(void)
{
    drop_local(ELEMENT_ADD, EXTERNAL_LOCAL);
    local_count(ELEMENT_DELETE, EXTERNAL_LOCAL, 1);
    commit();
    fake_kernel_set_time(0.9 * RULESET_TRIM_DELAY);
    local_slot(ELEMENT_DELETE, EXTERNAL_LOCAL, 0, 0);
}

static void local_slot_in_time(void)
{
    local_slot_too_early();
    fake_kernel_set_time(RULESET_TRIM_DELAY);
}

/* Nothing has led to its count for long enough. */
static void local_slot_of_no_use(void)
{
    lead_elsewhere_to(EXTERNAL_LOCAL, EXTERNAL_LOCAL, CLASS_EXTERNAL);
    commit();
    fake_kernel_set_time(RULESET_TRIM_DELAY);
    local_count(ELEMENT_DELETE, EXTERNAL_LOCAL, 1);
    local_slot(ELEMENT_DELETE, EXTERNAL_LOCAL, 0, 0);
}

static void nowhere_to_go(void)
{
    drop_local(ELEMENT_DELETE, CLUSTER_LOCAL);
}

static void local_backends_taken(void)
{
    local_count(ELEMENT_DELETE, EXTERNAL_LOCAL, 1);
}

static void affinity_without_timeout(void)
{
    lead_elsewhere_to(EXTERNAL, EXTERNAL, CLASS_EXTERNAL | CLASS_AFFINE);
}

static void end_affinity(void)
{
    case_of_port(&batch, ELEMENT_DELETE, "affinity_timeouts", PORT, NULL);
}

static void affinity_without_learner(void)
{
    const uint32_t timeout = TIMEOUT + 1;
    end_affinity();
    case_of_port(&batch, ELEMENT_ADD, "affinity_timeouts", PORT, &timeout);
}

/* Frontends still have it that wait for something. */
static void affinity_of_leftovers(void)
{
    end_affinity();
    affinity_backend(ELEMENT_DELETE, "local_affinity_backends", PORT | 1, 1);
}

static void number_of_another_port(void)
{
    affinity_number(PORT, 9, (PORT | 9) + (1 << PORT_LOW_BITS));
}

static void number_of_another_backend(void)
{
    affinity_number(PORT, 9, PORT | 2);
}

static void number_of_another_local_backend(void)
{
    affinity_number(PORT, 9, PORT | 9);
    affinity_backend(ELEMENT_ADD, "local_affinity_backends", PORT | 9, 1);
}

static void backend_without_number(void)
{
    affinity_backend(ELEMENT_DELETE, "affinity_backends", PORT | 2, 2);
}

static void record_to_a_backend_of_old(void)
{
    affinity_number(PORT, 9, PORT | 9);
    affinity_backend(ELEMENT_ADD, "affinity_backends", PORT | 9, 9);
}

static void record_to_a_remote_backend(void)
{
    affinity_backend(ELEMENT_ADD, "local_affinity_backends", PORT | 2, 2);
}

static void number_kept(void)
{
    affinity_number(PORT, 9, PORT | 9);
}

static void ranges_that_share_an_end(void)
{
    case_range(&batch, ELEMENT_ADD, 5, 19);
}

static void range_into_the_top(void)
{
    case_range(&batch, ELEMENT_ADD, 40, 60);
}

static void lead(uint8_t frontend, uint32_t list)
{
    const uint32_t value = LIST(list);
    case_number(&batch, "restricted", frontend, &value);
}

static void lead_elsewhere(uint8_t frontend, uint32_t list)
{
    case_number(&batch, "restricted", frontend, NULL);
    lead(frontend, list);
}

static void sources_with_their_frontend(void)
{
    case_number(&batch, "restricted", PLAIN, NULL);
    case_source(&batch, ELEMENT_DELETE, 1, 12, 2);
}

static void sources_too_early(void)
{
    case_number(&batch, "restricted", PLAIN, NULL);
    commit();
    case_source(&batch, ELEMENT_DELETE, 1, 12, 2);
}

static void sources_in_time(void)
{
    case_number(&batch, "restricted", PLAIN, NULL);
    commit();
    fake_kernel_set_time(1);
    case_source(&batch, ELEMENT_DELETE, 1, 12, 2);
}

static void sources_of_no_use(void)
{
    case_source(&batch, ELEMENT_ADD, 2, 12, 2);
    commit();
    case_source(&batch, ELEMENT_DELETE, 2, 12, 2);
}

static void sources_of_another_program(void)
{
    struct key key = case_source_key(case_family(&batch), 1, 20, 2);
    fake_kernel_put(case_family(&batch), "allowed_sources", key.bytes, key.length, NULL, 0);
    case_number(&batch, "restricted", PLAIN, NULL);
    case_source(&batch, ELEMENT_DELETE, 1, 20, 2);
}

/* Not in another list, but in the one that is in use. */
static void sources_in_pieces(void)
{
    fake_kernel_cut(true);
    case_source(&batch, ELEMENT_DELETE, 1, 12, 2);
    nft_batch_may_cut(&batch);
    case_source(&batch, ELEMENT_ADD, 1, 16, 2);
}

static void list_in_pieces(void)
{
    fake_kernel_cut(true);
    case_source(&batch, ELEMENT_ADD, 2, 20, 2);
    nft_batch_may_cut(&batch);
    lead_elsewhere(PLAIN, 2);
    nft_batch_may_cut(&batch);
    case_source(&batch, ELEMENT_ADD, 2, 16, 2);
}

static void list_before_its_frontend(void)
{
    fake_kernel_cut(true);
    case_source(&batch, ELEMENT_ADD, 2, 12, 2);
    nft_batch_may_cut(&batch);
    case_source(&batch, ELEMENT_ADD, 2, 16, 2);
    nft_batch_may_cut(&batch);
    lead_elsewhere(PLAIN, 2);
}

/* For a while everybody may talk to it. */
static void open_between_pieces(void)
{
    fake_kernel_cut(true);
    case_number(&batch, "restricted", PLAIN, NULL);
    nft_batch_may_cut(&batch);
    lead(PLAIN, 1);
}

static void new_and_open(void)
{
    fake_kernel_cut(true);
    lead_to(20, PLAIN, CLASS_EXTERNAL);
    nft_batch_may_cut(&batch);
    lead(20, 1);
}

static void new_and_closed(void)
{
    fake_kernel_cut(true);
    lead(20, 2);
    nft_batch_may_cut(&batch);
    case_source(&batch, ELEMENT_ADD, 2, 12, 2);
    nft_batch_may_cut(&batch);
    lead_to(20, PLAIN, CLASS_EXTERNAL);
}

static void ranges_in_pieces(void)
{
    fake_kernel_cut(true);
    case_range(&batch, ELEMENT_DELETE, 10, 19);
    nft_batch_may_cut(&batch);
    case_range(&batch, ELEMENT_ADD, 10, 29);
}

static void rejected_in_place_of_served(void)
{
    fake_kernel_cut(true);
    case_reject(&batch, CLUSTER_IP, 0);
    nft_batch_may_cut(&batch);
    case_count(&batch, CLUSTER_IP, NULL);
}

static void served_no_more_before_it_is_rejected(void)
{
    fake_kernel_cut(true);
    case_count(&batch, CLUSTER_IP, NULL);
    nft_batch_may_cut(&batch);
    case_reject(&batch, CLUSTER_IP, 0);
}

static const struct {
    void (*make)(void);
    const char *violation;
} rules[] = {
    {element_with_a_chain, "a chain came with what may lead to it"},
    {count_without_pick, "no pick chain"},
    {count_without_slot, "no slot"},
    {count_of_another_port, "the number of another service port"},
    {slot_with_its_count, "a slot went with its count"},
    {all_rejected, NULL},
    {slot_with_its_frontends, "a count went with its frontends"},
    {slot_too_early, "a slot went too early"},
    {slot_in_time, NULL},
    {count_with_its_frontends, "a count went with its frontends"},
    {count_too_early, "a count went too early"},
    {count_in_time, NULL},
    {frontend_away_between_pieces, "a frontend went and came"},
    {another_class, "an unknown class"},
    {no_port, "no service port"},
    {port_of_another, NULL},
    {port_with_nothing, "neither backends nor a reject"},
    {drop_for_all, "neither backends nor a reject"},
    {local_without_backends, "neither local backends nor a drop"},
    {local_without_pick, "no pick chain"},
    {local_without_slot, "no slot"},
    {local_slot_with_its_count, "a slot went with its count"},
    {local_slot_too_early, "a slot went too early"},
    {local_slot_in_time, NULL},
    {local_slot_of_no_use, NULL},
    {nowhere_to_go, "neither local backends nor a drop"},
    {local_backends_taken, "a count went with its frontends"},
    {affinity_without_timeout, "no affinity timeout"},
    {affinity_without_learner, "no learner"},
    {affinity_of_leftovers, NULL},
    {number_of_another_port, "an affinity number of another service port"},
    {number_of_another_backend, "an affinity number of another backend"},
    {number_of_another_local_backend, "an affinity number of another backend"},
    {backend_without_number, "a backend without affinity number"},
    {record_to_a_backend_of_old, "an affinity backend that is not in use"},
    {record_to_a_remote_backend, "an affinity backend that is not in use"},
    {number_kept, NULL},
    {ranges_that_share_an_end, "ranges overlap or have no end"},
    {range_into_the_top, "ranges overlap or have no end"},
    {sources_with_their_frontend, "sources went with their frontend"},
    {sources_too_early, "sources went too early"},
    {sources_in_time, NULL},
    {sources_of_no_use, NULL},
    {sources_of_another_program, NULL},
    {sources_in_pieces, "source ranges in pieces"},
    {list_in_pieces, "source ranges in pieces"},
    {list_before_its_frontend, NULL},
    {open_between_pieces, "source ranges in pieces"},
    {new_and_open, "source ranges in pieces"},
    {new_and_closed, NULL},
    {ranges_in_pieces, "ranges in pieces"},
    {rejected_in_place_of_served, NULL},
    {served_no_more_before_it_is_rejected, "a count went with its frontends"},
};
#define RULES (int)(sizeof(rules) / sizeof(rules[0]))

TESTS(watches_what_packets_rely_on, (FAMILY_COUNT * RULES))
{
    begin_with_classes((enum family)(_i / RULES));
    fake_kernel_tolerate();
    rules[_i % RULES].make();
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), 0);
    ck_assert_pstr_eq(fake_kernel_violation(), rules[_i % RULES].violation);
}

UNIT_FIXTURE(setup, teardown)
