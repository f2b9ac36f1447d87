/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each kind of traffic against a kernel in memory: where packets go, on every way from one kind to
 * another and by each configuration, and that nothing is left behind in the end. What is sent for
 * it: tests/unit/cases/table_traffic.
 */
#include "unit.h"

#include "table_model.h"

#define PODS "0-30"

/* A table that knows pods by their addresses. */
static void begin_with_pods(int which)
{
    config.detector = DETECT_CIDRS;
    begin(which);
    want_pods(PODS);
}

/* ---- kinds ---- */

static const char *const kinds[] = {
    "gone",
    "123",
    "1..1",
    "-", /* rejected */
    "1234 here=23 local",
    "1234 here=14 local",
    "1234 local",
    "- local",
    "1234 external",
    "- external",
    "1234 here=2 external local",
    "12 here=12 external local",
    "1234 external local",
    "- external local",
    "123 timeout=100",
    "23 timeout=200",
    "1234 local timeout=100",
    "- external timeout=100",
    "1234 external local timeout=100",
    /* Of one service port. */
    "1234 here=23 timeout=100 port=107",
    "1234 here=23 external timeout=100 port=107",
    "1234 here=23 local timeout=100 port=107",
    "1234 here=23 external local timeout=100 port=107",
    /* Of another one, without affinity. */
    "12 here=1 port=108",
    "12 here=1 external port=108",
    "12 here=1 external local port=108 from=0-40,60-top",
    /* Of one that has no endpoints on this node; and none at all. */
    "12 port=109",
    "12 external local port=109",
    "- port=110",
    "- external local port=110",
    "1234 external from=0-40,60-top",
    "1234 external from=12,20-50",
    "1234 external from=", /* nobody */
    "- external from=0-40,60-top",
    "12 here=1 external local from=0-40,60-top",
    "12 external local from=12,20-50",
    "12 here=1 external local timeout=100 from=12,20-50",
};
#define KINDS COUNT(kinds)
/* Each kind is tried with all others, or just with some where time is short. */
#define STRIDE (KINDS / unit_steps(KINDS))

static const struct ruleset_config configs[] = {
    {.detector = DETECT_NONE, .mark = 0x4000},
    {.detector = DETECT_CIDRS, .mark = 0x4000},
    {.detector = DETECT_CIDRS, .mark = 0x80000000},
    {.detector = DETECT_CIDRS, .masquerade_all = true, .mark = 1},
    {.detector = DETECT_NONE, .masquerade_all = true, .mark = 0x4000},
    {.detector = DETECT_INTERFACE, .interface = "cni0", .mark = 0x4000},
    {.detector = DETECT_INTERFACE_PREFIX, .interface = "cni", .mark = 0x4000},
    {.detector = DETECT_CIDRS, .no_fib = true, .mark = 0x4000},
    {.detector = DETECT_NONE, .no_fib = true, .mark = 0x4000},
    {.detector = DETECT_CIDRS, .no_reject = true, .mark = 0x4000},
};
#define CONFIGS COUNT(configs)

static void want_all(void)
{
    want_pods(PODS);
    for (int kind = 0; kind < KINDS; kind++)
        set_desired((unsigned)kind, kinds[kind]);
}

static void check_all(void)
{
    for (unsigned kind = 0; kind < KINDS; kind++)
        ck_assert_msg(does(kind), "%u", kind);
}

/* Everything at once, by each configuration. */
TESTS(packets_go_where_they_shall, (CONFIGS * FAMILY_COUNT))
{
    config = configs[_i / FAMILY_COUNT];
    fake_kernel_lack(config.no_fib ? "fib" : config.no_reject ? "reject" : NULL);
    begin(_i % FAMILY_COUNT);
    want_all();
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 1);
    check_all();
    ck_assert_uint_eq(ruleset_frontends(ruleset), KINDS - 1);
    commit_sends(0, 0);
    ck_assert(trim_time() == 0);
    restart(); /* in another order */
    tell_desired();
    commit_sends(0, 0);
    check_all();
}

/* What a table holds that never held anything but this kind: as many elements in either family. */
static struct sizes fresh_sizes(int kind)
{
    static struct sizes known[KINDS];
    static bool is_known[KINDS];
    struct ruleset *kept = ruleset;
    if (is_known[kind])
        return known[kind];
    begin(1 - (int)family);
    tell_desired();
    commit();
    known[kind] = sizes_now(family);
    is_known[kind] = true;
    ruleset_free(ruleset);
    fake_kernel_drop_table(family);
    ruleset = kept;
    family = (enum family)(1 - family);
    return known[kind];
}

static void change_to(int kind)
{
    set_desired(1, kinds[kind]);
    commit();
    ck_assert_msg(does(1), "%s", kinds[kind]);
}

/* Nothing of what was before stays for ever. */
static void sync_as(int kind)
{
    sync_table();
    ck_assert_msg(does(1), "%s", kinds[kind]);
    struct sizes sizes = sizes_now(family), fresh = fresh_sizes(kind);
    check_same_sizes(&sizes, &fresh);
    commit_sends(0, 0);
}

/* From one to each other, and back before anything is trimmed. */
TESTS(from_any_kind_to_any_other, (FAMILY_COUNT * KINDS))
{
    begin_with_pods(_i / KINDS);
    const int from = _i % KINDS;
    for (int to = from % STRIDE; to < KINDS; to += STRIDE) {
        fake_kernel_cut((from + to) % 2);
        change_to(from);
        change_to(to);
        sync_as(to);
        change_to(from);
        change_to(to);
        change_to(from);
        sync_as(from);
    }
}

/* A third one comes when what the first one left is due. */
TESTS(on_to_a_third_with_the_trim, (FAMILY_COUNT * KINDS))
{
    begin_with_pods(_i / KINDS);
    const int from = _i % KINDS;
    for (int to = from % 3; to < KINDS; to += 3 * STRIDE) {
        const int then = (from + 7 * to) % KINDS;
        change_to(from);
        change_to(to);
        wait_for_trims();
        change_to(then);
        now += RULESET_TRIM_DELAY / 2;
        change_to(to);
        wait_for_trims();
        change_to(then);
        sync_as(then);
    }
}

/* A change fails, for one reason or the other, and is tried again. */
TESTS(any_change_may_fail, (FAMILY_COUNT * KINDS))
{
    static struct desired before;
    begin_with_pods(_i / KINDS);
    const int from = _i % KINDS;
    for (int to = from % 3; to < KINDS; to += 3 * STRIDE) {
        change_to(from);
        before = desired;
        set_desired(1, kinds[to]);
        fake_kernel_fail(1, to % 2 ? FAKE_REJECTS : FAKE_LOSES_ANSWER);
        fake_kernel_forget_counts();
        if (try_commit(NULL)) {
            bool chains_alone = fake_kernel_counts()->chains > 0;
            const struct wish wish = wish_in(to % 2 || chains_alone ? &before : &desired, 1);
            ck_assert(goes(1, &wish));
        }
        fake_kernel_spare();
        change_to(to);
        sync_as(to);
    }
}

/* ---- session affinity ---- */

/* How many of 20 service ports that come after a restart have numbers of those that were there
 * before and are not any more. */
static size_t count_numbers_again(void)
{
    uint32_t ids[20];
    size_t again = 0;
    want("0..19 1..1 timeout=100");
    commit();
    for (unsigned i = 0; i < 20; i++) {
        ids[i] = port_of(i);
        set_desired(i, "gone");
    }
    sync_table();
    restart();
    tell_desired();
    commit();
    want("0..19 1..1 timeout=100");
    commit();
    for (unsigned i = 0; i < 20; i++)
        for (unsigned k = 0; k < 20; k++)
            again += port_of(i) == ids[k];
    return again;
}

/* Packets may have left records of them. So their numbers are given again by chance only. */
EACH_FAMILY(new_service_ports_after_a_restart)
{
    begin_with_pods(_i);
    size_t again = 0;
    for (int i = 0; i < 3; i++)
        again += count_numbers_again();
    ck_assert_uint_lt(again, 50);
}

/* ---- contents ---- */

/* Each line follows the one before. */
static const struct {
    const char *ranges;
    size_t added, deleted; /* ends of ranges count */
} range_changes[] = {
    {"10-19", 2, 0},       {"10-19", 0, 0},  {"10-19 30-39", 2, 0},
    {"30-39", 0, 2},       {"30-45", 2, 2},  {"20-45", 2, 2},
    {"20-30 31-45", 4, 2}, /* side by side */
    {"20-45", 2, 4},       {"25-30", 2, 2},  {"20-27 29-40", 4, 2},
    {"0-top", 1, 4}, /* no end behind the last address */
    {"0-50 60-top", 3, 1}, {"60-top", 0, 2}, {"60-99", 2, 1},
    {"60-top", 1, 2},      {"", 0, 1},
};
#define RANGE_CHANGES (size_t) COUNT(range_changes)

static void set_ranges(bool pods, const char *text)
{
    if (pods)
        set_pod_cidrs(text);
    else
        set_service_cidrs(text);
}

/* Service CIDRs are in two sets. */
static void commit_changes(bool pods, size_t added, size_t deleted)
{
    if (pods)
        commit_sends(added, deleted);
    else
        commit();
}

TESTS(ranges_change, 4 * FAMILY_COUNT)
{
    const bool pods = _i / FAMILY_COUNT % 2, cuts = _i / FAMILY_COUNT / 2;
    const char *set = pods ? "pod_cidrs" : "service_cidrs";
    config.detector = DETECT_CIDRS;
    fake_kernel_cut(cuts);
    begin(_i % FAMILY_COUNT);
    commit();
    for (size_t i = 0; i < RANGE_CHANGES; i++) {
        set_ranges(pods, range_changes[i].ranges);
        commit_changes(pods, range_changes[i].added, range_changes[i].deleted);
        ck_assert(has_ranges(set, range_changes[i].ranges));
        restart();
        set_ranges(pods, range_changes[i].ranges);
        commit_sends(0, 0);
        if (i % 2 == 0)
            continue;
        restart(); /* and while nobody is there to tell */
        set_ranges(pods, range_changes[i - 1].ranges);
        commit_changes(pods, range_changes[i].deleted, range_changes[i].added);
        ck_assert(has_ranges(set, range_changes[i - 1].ranges));
        set_ranges(pods, range_changes[i].ranges);
        commit();
    }
}

/* Addresses in the service CIDRs that nobody has. */
EACH_FAMILY(nobodys_cluster_ips)
{
    const struct fake_client from = {.address = {{1, 1}}};
    begin_with_pods(_i);
    for (int round = 0; round < 2; round++) {
        set_service_cidrs(round ? "15-20" : "10-20");
        commit();
        for (unsigned i = 8; i < 24; i++) {
            struct frontend to = frontend(1);
            to.address = client(i);
            struct fake_route route = fake_kernel_route(&to, &from);
            bool inside = i >= (round ? 15 : 10) && i <= 20;
            ck_assert_int_eq(route.fate, inside ? FAKE_DROPPED : FAKE_UNTOUCHED);
            fake_route_free(&route);
        }
    }
}

/* ---- configurations ---- */

/* A table of another configuration gets other rules, and the elements are the same. */
TESTS(another_configuration, (CONFIGS * FAMILY_COUNT))
{
    config = configs[_i % CONFIGS];
    begin(_i / CONFIGS);
    want_all();
    commit();
    for (int other = 0; other < CONFIGS; other++) {
        config = configs[other];
        restart();
        tell_desired();
        if (other == _i % CONFIGS && other == 0)
            commit_sends(0, 0);
        else
            commit();
        const struct fake_counts *counts = fake_kernel_counts();
        ck_assert_uint_eq(counts->tables + counts->added + counts->deleted, 0);
        check_all();
    }
}

/* Each set has elements, and the reading of one gives one of them twice and leaves one out; then
 * maybe that of the first set, too. A try ends there; two of three may be in vain. */
#define SETS_READ 17
TESTS(torn_answers_of_all_sets, (2 * SETS_READ * FAMILY_COUNT))
{
    begin_with_pods(_i % FAMILY_COUNT);
    for (int round = 0; round < 2; round++) {
        if (round)
            restart();
        want_all();
        want_service_cidrs("10-19 30-39");
        for (unsigned kind = 0; kind < KINDS; kind++) {
            struct frontend f = frontend(kind);
            struct backend b = backend(kind % 10);
            ruleset_use_cluster_ip(ruleset, &f.address, true);
            ruleset_use_hairpin(ruleset, &b.address, true);
        }
        if (round)
            fake_kernel_tear_reads(1 + (unsigned)_i / FAMILY_COUNT % SETS_READ,
                                   1 + (unsigned)_i / FAMILY_COUNT / SETS_READ);
        else
            commit();
    }
    commit_sends(0, 0);
}

UNIT_FIXTURE(set_up_desired, teardown)
