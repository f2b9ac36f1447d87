/* SPDX-License-Identifier: GPL-2.0-or-later */
/* That the fake kernel refuses what the kernel refuses, and ends tests that break its rules. */
#include "unit.h"

#include "fake_kernel.h"
#include "kernel_cases.h"

#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/ruleset/ruleset.h"

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
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), 0);
    nft_batch_clear(&batch);
    fake_kernel_forget_counts();
}

START_TEST(is_like_the_kernel)
{
    enum family family = (enum family)(_i / KERNEL_CASES);
    const struct kernel_case *which = &kernel_cases[_i % KERNEL_CASES];
    struct frontend harmless = case_frontend(family, 99);
    struct backend reached[2];
    begin(family);
    make_case(which, &batch);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), which->why ? -1 : 0);
    if (which->why) {
        ck_assert_ptr_nonnull(strstr(err.text, strerror(which->why)));
        ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
        ck_assert_uint_eq(fake_kernel_counts()->added, 0);
    }
    ck_assert_int_eq(fake_kernel_rejects(&harmless), which->why == 0);
    ck_assert_str_eq(fake_kernel_comment(family), "of a test");
    struct frontend one = case_frontend(family, 1);
    ck_assert_uint_eq(fake_kernel_backends(&one, reached, 2), 2);
    ck_assert_uint_eq(reached[0].address.bytes[3], 1);
    ck_assert_uint_eq(reached[1].address.bytes[3], which->make == replace_a_backend ? 9 : 2);
}
END_TEST

START_TEST(an_anonymous_set_that_no_rule_uses)
{
    enum family family = (enum family)_i;
    begin(family);
    struct nftnl_rule *rule = nftnl_rule_alloc();
    ck_assert_int_eq(phrases_add("meta l4proto { tcp, udp, sctp }", family, rule, &batch, &err), 0);
    nftnl_rule_free(rule);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
}
END_TEST

START_TEST(faults)
{
    const struct frontend harmless = case_frontend(FAMILY_IPV4, 99);
    begin(FAMILY_IPV4);
    case_reject(&batch, 99, 0);
    fake_kernel_fail(2, FAKE_REFUSES);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), 0);
    ck_assert(fake_kernel_rejects(&harmless));
    nft_batch_clear(&batch);
    case_service(&batch, 1, NULL);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "services"), 1);
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "services"), 0);
    ck_assert(!fake_kernel_spare());
}
END_TEST

/* ---- what ends a test ---- */

static void count_without_pick(void)
{
    const uint32_t value = 1 << 16 | 2;
    case_service(&batch, 1, NULL);
    case_service(&batch, 1, &value);
}

static void count_without_slot(void)
{
    const uint32_t value = 2;
    case_slot(&batch, ELEMENT_ADD, 3, 0, 1);
    case_service(&batch, 3, &value);
}

static void slot_with_its_count(void)
{
    case_service(&batch, 1, NULL);
    case_slot(&batch, ELEMENT_DELETE, 1, 0, 0);
}

static void slot_too_early(void)
{
    case_service(&batch, 1, NULL);
    nft_socket_commit(sock, &batch, &err);
    nft_batch_clear(&batch);
    fake_kernel_set_time(0.9 * RULESET_TRIM_DELAY);
    case_slot(&batch, ELEMENT_DELETE, 1, 0, 0);
}

static void slot_in_time(void)
{
    case_service(&batch, 1, NULL);
    nft_socket_commit(sock, &batch, &err);
    nft_batch_clear(&batch);
    fake_kernel_set_time(RULESET_TRIM_DELAY);
    case_slot(&batch, ELEMENT_DELETE, 1, 0, 0);
}

static void frontend_away_between_pieces(void)
{
    const uint32_t value = 2;
    fake_kernel_cut(true);
    case_service(&batch, 1, NULL);
    nft_batch_may_cut(&batch);
    case_service(&batch, 1, &value);
}

static const struct {
    void (*make)(void);
    const char *violation;
} rules[] = {
    {count_without_pick, "no pick chain"},
    {count_without_slot, "no slot"},
    {slot_with_its_count, "a slot went with its count"},
    {slot_too_early, "a slot went too early"},
    {slot_in_time, NULL},
    {frontend_away_between_pieces, "a frontend went and came"},
};
#define RULES (int)(sizeof(rules) / sizeof(rules[0]))

START_TEST(watches_what_packets_rely_on)
{
    begin((enum family)(_i / RULES));
    fake_kernel_tolerate();
    rules[_i % RULES].make();
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), 0);
    ck_assert_pstr_eq(fake_kernel_violation(), rules[_i % RULES].violation);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, is_like_the_kernel, 0, FAMILY_COUNT * KERNEL_CASES);
    tcase_add_loop_test(tcase, an_anonymous_set_that_no_rule_uses, 0, FAMILY_COUNT);
    tcase_add_test(tcase, faults);
    tcase_add_loop_test(tcase, watches_what_packets_rely_on, 0, FAMILY_COUNT * RULES);
}

UNIT_MAIN("fake_kernel", add_tests)
