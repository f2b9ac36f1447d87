/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each kind of traffic against a kernel in memory: where packets go, on every way from one kind to
 * another, and that nothing is left behind in the end. Then source ranges, session affinity and the
 * sets that have no frontends in them, and the configurations.
 */
#include "unit.h"

#include "ruleset_fixture.h"

#define PODS "0-30"
static const struct world world = {.pods = PODS};

/* A table that knows pods by their addresses. */
static void begin_with_pods(int which)
{
    config.detector = DETECT_CIDRS;
    begin(which);
    set_pod_cidrs(PODS);
}

static void restart_with_pods(void)
{
    restart();
    set_pod_cidrs(PODS);
}

/* ---- kinds ---- */

#define HALF "0-40 60-top"
#define SOME "12 20-50"

static const struct wish kinds[] = {
    {.wanted = false},
    {.wanted = true, .all = "123"},
    {.wanted = true, .all = "1"},
    {.wanted = true}, /* rejected */
    {.wanted = true, .local = true, .all = "1234", .here = "23"},
    {.wanted = true, .local = true, .all = "1234", .here = "14"},
    {.wanted = true, .local = true, .all = "1234"},
    {.wanted = true, .local = true},
    {.wanted = true, .external = true, .all = "1234"},
    {.wanted = true, .external = true},
    {.wanted = true, .external = true, .local = true, .all = "1234", .here = "2"},
    {.wanted = true, .external = true, .local = true, .all = "12", .here = "12"},
    {.wanted = true, .external = true, .local = true, .all = "1234"},
    {.wanted = true, .external = true, .local = true},
    {.wanted = true, .all = "123", .timeout = 100},
    {.wanted = true, .all = "23", .timeout = 200},
    {.wanted = true, .local = true, .all = "1234", .timeout = 100},
    {.wanted = true, .external = true, .timeout = 100},
    {.wanted = true, .external = true, .local = true, .all = "1234", .timeout = 100},
    /* Of one service port. */
    {.wanted = true, .all = "1234", .here = "23", .timeout = 100, .group = 7},
    {.wanted = true, .external = true, .all = "1234", .here = "23", .timeout = 100, .group = 7},
    {.wanted = true, .local = true, .all = "1234", .here = "23", .timeout = 100, .group = 7},
    {.wanted = true,
     .external = true,
     .local = true,
     .all = "1234",
     .here = "23",
     .timeout = 100,
     .group = 7},
    /* Of another one, without affinity. */
    {.wanted = true, .all = "12", .here = "1", .group = 8},
    {.wanted = true, .external = true, .all = "12", .here = "1", .group = 8},
    {.wanted = true,
     .external = true,
     .local = true,
     .all = "12",
     .here = "1",
     .group = 8,
     .sources = HALF},
    /* Of one that has no endpoints on this node; and none at all. */
    {.wanted = true, .all = "12", .group = 9},
    {.wanted = true, .external = true, .local = true, .all = "12", .group = 9},
    {.wanted = true, .group = 10},
    {.wanted = true, .external = true, .local = true, .group = 10},
    {.wanted = true, .external = true, .all = "1234", .sources = HALF},
    {.wanted = true, .external = true, .all = "1234", .sources = SOME},
    {.wanted = true, .external = true, .all = "1234", .sources = ""}, /* nobody */
    {.wanted = true, .external = true, .sources = HALF},
    {.wanted = true, .external = true, .local = true, .all = "12", .here = "1", .sources = HALF},
    {.wanted = true, .external = true, .local = true, .all = "12", .sources = SOME},
    {.wanted = true,
     .external = true,
     .local = true,
     .all = "12",
     .here = "1",
     .timeout = 100,
     .sources = SOME},
};
#define KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))
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
#define CONFIGS (int)(sizeof(configs) / sizeof(configs[0]))

/* Everything at once, by each configuration. */
TESTS(packets_go_where_they_shall, (CONFIGS * FAMILY_COUNT))
{
    config = configs[_i / FAMILY_COUNT];
    fake_kernel_lack(config.no_fib ? "fib" : config.no_reject ? "reject" : NULL);
    begin(_i % FAMILY_COUNT);
    set_pod_cidrs(PODS);
    for (int kind = 0; kind < KINDS; kind++)
        tell((unsigned)kind, &kinds[kind]);
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 1);
    for (int kind = 0; kind < KINDS; kind++)
        check_wish((unsigned)kind, &kinds[kind], &world);
    ck_assert_uint_eq(ruleset_frontends(ruleset), KINDS - 1);
    commit_sends(0, 0);
    ck_assert(ruleset_trim_time(ruleset) == 0);

    restart(); /* in another order */
    set_pod_cidrs(PODS);
    for (int kind = KINDS; kind-- > 0;)
        tell((unsigned)kind, &kinds[kind]);
    commit_sends(0, 0);
    for (int kind = 0; kind < KINDS; kind++)
        check_wish((unsigned)kind, &kinds[kind], &world);
}

/* What a table holds that never held anything but this kind: as many elements in either family. */
static struct sizes fresh_sizes(int kind)
{
    static struct sizes known[KINDS];
    static bool is_known[KINDS];
    struct ruleset *kept = ruleset;
    if (is_known[kind])
        return known[kind];
    begin_with_pods(1 - (int)family);
    tell(1, &kinds[kind]);
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
    tell(1, &kinds[kind]);
    commit();
    check_wish(1, &kinds[kind], &world);
}

/* Nothing of what was before stays for ever. */
static void settle_as(int kind)
{
    settle();
    check_wish(1, &kinds[kind], &world);
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
        settle_as(to);
        change_to(from);
        change_to(to);
        change_to(from);
        settle_as(from);
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
        settle_as(then);
    }
}

/* A change fails, for one reason or the other, and is tried again. */
TESTS(any_change_may_fail, (FAMILY_COUNT * KINDS))
{
    begin_with_pods(_i / KINDS);
    const int from = _i % KINDS;
    for (int to = from % 3; to < KINDS; to += 3 * STRIDE) {
        change_to(from);
        tell(1, &kinds[to]);
        fake_kernel_fail(1, to % 2 ? FAKE_REFUSES : FAKE_LOSES_ANSWER);
        fake_kernel_forget_counts();
        if (try_commit(NULL)) {
            bool chains_alone = fake_kernel_counts()->chains > 0;
            check_wish(1, &kinds[to % 2 || chains_alone ? from : to], &world);
        }
        fake_kernel_spare();
        change_to(to);
        settle_as(to);
    }
}

/* ---- the order of things ---- */

static size_t records(void)
{
    return ruleset->frontends.n + ruleset->ports.n;
}

/* When no frontend leads to the local part any more, it goes all at once. */
EACH_FAMILY(local_leftovers_go_in_one_step)
{
    begin_with_pods(_i);
    SET(1, .external = true, .local = true, .all = "123", .here = "12");
    SET(2, .external = true, .all = "123");
    commit();
    const uint32_t port = port_of(1);
    SET(1, .external = true, .all = "123");
    commit_sends(1, 1); /* the class */
    ck_assert_uint_eq(fake_kernel_number(family, "local_ports", port), port | 2);
    wait_for_trims();
    commit_sends(0, 1 + 2);
    ck_assert_uint_eq(fake_kernel_size(family, "local_ports"), 0);
    ck_assert_uint_eq(fake_kernel_size(family, "local_endpoints"), 0);
    ck_assert(ruleset_trim_time(ruleset) == 0);
    drop(1);
    drop(2);
    commit_sends(0, 2);
    wait_for_trims();
    commit_sends(0, 2 * (1 + 3));
    ck_assert_uint_eq(records(), 0);
}

/* Local again before that step, or after it. */
EACH_FAMILY(local_again_before_the_leftovers_are_gone)
{
    begin_with_pods(_i);
    for (int steps = 0; steps < 2; steps++) {
        SET(1, .external = true, .local = true, .all = "123", .here = "12");
        commit();
        SET(1, .external = true, .all = "123");
        commit();
        for (int i = 0; i < steps; i++) {
            wait_for_trims();
            commit();
        }
        SET(1, .external = true, .local = true, .all = "123", .here = "12");
        commit_sends((const size_t[]){1, 1 + 1 + 2}[steps], 1);
    }
}

/* Some of its slots were left over before it all was. */
EACH_FAMILY(local_leftovers_of_two_kinds)
{
    begin_with_pods(_i);
    SET(1, .external = true, .local = true, .all = "123", .here = "12");
    SET(2, .local = true, .all = "1", .here = "1");
    commit();
    SET(1, .external = true, .local = true, .all = "123", .here = "1");
    commit();
    SET(1, .external = true, .all = "123");
    commit();
    wait_for_trims();
    commit_sends(0, 1 + 2);
    ck_assert(ruleset_trim_time(ruleset) == 0);
    ck_assert_uint_eq(fake_kernel_size(family, "local_endpoints"), 1);
}

TESTS(the_local_set_empties_and_fills, 2 * FAMILY_COUNT)
{
    begin_with_pods(_i % FAMILY_COUNT);
    const bool external = _i / FAMILY_COUNT;
    SET(1, .external = external, .local = true, .all = "1234", .here = "12");
    SET(2, .local = true, .all = "1", .here = "1");
    commit();
    const uint32_t drops = port_of(1) | CLASS_LOCAL;
    SET(1, .external = external, .local = true, .all = "1234", .here = "");
    commit_sends(1, 1); /* from local_ports to the drops; the frontend leads there as before */
    ck_assert(fake_kernel_number(family, "dropped_ports", drops));
    SET(1, .external = external, .local = true, .all = "1234", .here = "12");
    commit_sends(1, 1);
    SET(1, .external = external, .local = true, .all = "1234", .here = "1");
    commit_sends(1, 1); /* the count alone */
    ck_assert(!fake_kernel_number(family, "dropped_ports", drops));
    check_wish(1, &(struct wish){true, external, true, "1234", "1", .timeout = 0}, &world);
}

/* ---- source ranges ---- */

static void check_sources(unsigned number, const char *expected)
{
    struct frontend f = frontend(number);
    range_vec got = {0}, ranges = {0};
    ranges_of(expected, &ranges);
    ranges_normalize(family, &ranges);
    fake_kernel_sources(&f, &got);
    ck_assert_uint_eq(got.n, ranges.n);
    for (size_t i = 0; i < got.n; i++)
        ck_assert_mem_eq(&got.v[i], &ranges.v[i], sizeof(got.v[i]));
    vec_free(&got);
    vec_free(&ranges);
}

static void restrict_to(const char *sources)
{
    const struct wish wish = {.wanted = true, .external = true, .all = "12", .sources = sources};
    tell(1, &wish);
}

static uint32_t list_of(unsigned number)
{
    struct frontend f = frontend(number);
    return fake_kernel_source_list(&f);
}

/* Another list each time, and the frontend leads to it. */
static void another_list(const char *sources, size_t prefixes)
{
    uint32_t before = list_of(1);
    restrict_to(sources);
    commit_sends(prefixes + 1, 1);
    check_sources(1, sources);
    ck_assert_uint_ne(list_of(1), before);
}

EACH_FAMILY(source_ranges_change)
{
    begin_with_pods(_i);
    restrict_to("10-19");
    commit();
    check_sources(1, "10-19");
    another_list("10-19 32-39", 3 + 1);
    another_list("32-39", 1);
    restrict_to("32-39");
    commit_sends(0, 0);
    another_list("32-47", 1);
    another_list("16-63", 2);
    another_list("0-top", 5);
    another_list("0-7 8-top", 1 + 27);
    another_list("", 0);
    check_wish(1, &(struct wish){true, true, .all = "12", .sources = ""}, &world);
    ck_assert_uint_gt(fake_kernel_size(family, "allowed_sources"), 20);
    settle();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 0);
}

/* Those that no frontend leads to any more go later, so that packets do not find the one and not
 * the others. */
EACH_FAMILY(source_ranges_go_by_a_trim)
{
    begin_with_pods(_i);
    restrict_to("8-15 32-39");
    commit();
    restrict_to(NULL);
    commit_sends(0, 1);
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 2);
    wait_for_trims();
    commit_sends(0, 2);
    restrict_to("8-15");
    commit_sends(2, 0);
    drop(1);
    commit_sends(0, 2);
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 1);
    wait_for_trims();
    commit_sends(0, 1 + 1 + 2);
    ck_assert_uint_eq(records(), 0);
}

EACH_FAMILY(restricted_again_before_the_trim)
{
    begin_with_pods(_i);
    restrict_to("8-15 32-39");
    commit();
    uint32_t list = list_of(1);
    restrict_to(NULL);
    commit();
    restrict_to("8-15 32-39");
    commit_sends(1, 0);
    ck_assert_uint_eq(list_of(1), list);
    restrict_to(NULL);
    commit();
    wait_for_trims();
    restrict_to("8-15 32-39"); /* in the very commit that would trim them */
    commit_sends(1, 0);
    restrict_to(NULL);
    commit();
    wait_for_trims();
    restrict_to("0-63");
    commit_sends(1 + 1, 2);
    check_sources(1, "0-63");
    settle();
    check_sources(1, "0-63");
    restrict_to(NULL);
    commit();
    restart_with_pods(); /* while they wait */
    restrict_to(NULL);
    settle();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 0);
}

/* A list that shrank between two commits was wanted by nobody in force. */
EACH_FAMILY(a_list_that_was_never_in_force_is_not_sent)
{
    begin_with_pods(_i);
    restrict_to("8-15");
    restrict_to("32-39 48-49");
    restrict_to("16-23");
    commit();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 1);
}

#define PORTS 30u

static void restrict_many(const char *sources)
{
    for (unsigned i = 0; i < PORTS; i++)
        SET(i, .external = true, .all = "12", .sources = sources);
}

EACH_FAMILY(equal_source_ranges_are_one_list)
{
    begin_with_pods(_i);
    restrict_many("8-15 32-39");
    commit();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 2);
    restrict_many("8-15 40-47");
    commit_sends(2 + PORTS, PORTS);
    wait_for_trims();
    commit_sends(0, 2);
    SET(3, .external = true, .all = "12", .sources = "0-7"); /* and the others keep theirs */
    commit_sends(2, 1);
    settle();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 2 + 1);
    restart_with_pods();
    restrict_many("8-15 40-47");
    SET(3, .external = true, .all = "12", .sources = "0-7");
    commit_sends(0, 0);
}

/* ---- in portions ---- */

/* Commits until nothing is left to be filled; how many there were. Each sends @most at most. */
static unsigned fill(size_t most)
{
    unsigned commits = 0;
    do {
        struct ruleset_stats stats;
        ck_assert_int_eq(try_commit(&stats), 0);
        ck_assert_uint_le(stats.elements_added + stats.elements_deleted, most);
        commits++;
    } while (ruleset_is_filling(ruleset));
    return commits;
}

EACH_FAMILY(long_lists_go_in_portions)
{
    const char *const old = "1 3 5 7 9 11 13", *const new = "1 4 6 8 10 12 14 16";
    config.portion = 3;
    begin_with_pods(_i);
    restrict_many(old);
    commit(); /* a table that is not there yet gets all at once */
    restrict_many(new);
    SET(PORTS, .external = true, .all = "12", .sources = new);
    SET(PORTS + 1, .all = "12");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(try_commit(NULL), 0);
        ck_assert(ruleset_is_filling(ruleset));
        check_sources(1, old); /* nobody is led to it yet; the rest does not wait */
        check_wish(PORTS, &(struct wish){.wanted = false}, &world);
        check_wish(PORTS + 1, &(struct wish){true, .all = "12"}, &world);
    }
    ck_assert_uint_eq(fill(2 + 2 * PORTS + 2), 1);
    check_sources(0, new);
    check_sources(PORTS, new);
    wait_for_trims();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 7 + 8);
    for (size_t left = 7; left > 0; left -= left < 3 ? left : 3) {
        ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), left + 8);
        ck_assert(ruleset_needs_commit(ruleset, now));
        ck_assert_int_eq(try_commit(NULL), 0);
    }
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 8);
    ck_assert(!ruleset_needs_commit(ruleset, now));
    commit_sends(0, 0);
}

static void settle_in_portions(void)
{
    fill(SIZE_MAX);
    while (ruleset_trim_time(ruleset) != 0) {
        now = fmax(now, ruleset_trim_time(ruleset));
        ck_assert_int_eq(try_commit(NULL), 0);
    }
}

/* What changes while a list is filled: the wish; the kernel; the daemon. */
EACH_FAMILY(a_list_that_is_half_full)
{
    const char *const old = "1 3 5", *const new = "1 4 6 8 10 12 14 16";
    config.portion = 3;
    begin_with_pods(_i);
    restrict_to(old);
    commit();
    restrict_to(new);
    ck_assert_int_eq(try_commit(NULL), 0);
    restrict_to(old);
    ck_assert_int_eq(try_commit(NULL), 0);
    ck_assert(!ruleset_is_filling(ruleset));
    settle_in_portions();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 3);

    restrict_to(new);
    ck_assert_int_eq(try_commit(NULL), 0);
    drop(1);
    settle_in_portions();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 0);

    restrict_to(new);
    ck_assert_int_eq(try_commit(NULL), 0);
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    commit_fails();
    fill(SIZE_MAX);
    check_sources(1, new);
    settle_in_portions();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 8);

    restrict_to(old);
    commit();
    restrict_to(new);
    wait_for_trims();
    ck_assert_int_eq(try_commit(NULL), 0);
    restart_with_pods();
    restrict_to(new);
    fill(SIZE_MAX);
    check_sources(1, new);
    settle_in_portions();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 8);
}

/* What the first of a kind adds stays when the last one is gone, and the next daemon knows it. */
static void check_that_it_stays(const struct wish *wish)
{
    const struct wish plain = {.wanted = true, .external = true, .all = "12"};
    tell(1, wish);
    commit();
    tell(1, &plain);
    settle();
    restart_with_pods();
    tell(1, &plain);
    commit_sends(0, 0);
    tell(1, wish);
    commit();
    check_wish(1, wish, &world);
    restart_with_pods();
    tell(1, wish);
    commit_sends(0, 0);
    ck_assert_uint_eq(ruleset_figures(ruleset)->replaced, 0);
}

EACH_FAMILY(chains_stay_when_their_last_service_goes)
{
    begin_with_pods(_i);
    check_that_it_stays(&(struct wish){true, true, .all = "12", .sources = "10-19"});
    check_that_it_stays(&(struct wish){true, true, .all = "12", .timeout = 30});
}

/* Many at once, where the socket takes a batch in pieces only: none shows a part of its ranges. */
EACH_FAMILY(many_source_ranges_in_pieces)
{
    const unsigned n = 300;
    const struct wish wishes[] = {
        {true, true, .all = "12", .sources = "1 3 5 7 9 11 13 15"},
        {true, true, .all = "12", .sources = "2 4 6 8 10 12 14 16"},
        {true, true, .all = "12"},
    };
    begin_with_pods(_i);
    fake_kernel_cut(true);
    for (int round = 0; round < 6; round++) {
        for (unsigned i = 0; i < n; i++)
            tell(i, &wishes[(i + (unsigned)round) % 3]);
        commit();
        now += RULESET_TRIM_DELAY / 2;
    }
    for (unsigned i = 0; i < n; i += 50)
        check_wish(i, &wishes[(i + 5) % 3], &world);
    settle();
    ck_assert_uint_eq(fake_kernel_size(family, "allowed_sources"), 2 * 8);
}

/* What many frontends leave behind goes in as many pieces as the socket wants, and not in a message
 * for each of them. */
EACH_FAMILY(leftovers_go_in_pieces)
{
    const unsigned n = 3000;
    config.portion = UINT32_MAX;
    begin_with_pods(_i);
    for (unsigned i = 0; i < n; i++)
        SET(i, .external = true, .local = true, .all = "12", .here = "1");
    commit();
    for (unsigned i = 0; i < n; i++)
        drop(i);
    commit();
    wait_for_trims();
    fake_kernel_cut(true);
    fake_kernel_forget_counts();
    commit();
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 0);
    ck_assert_uint_ge(fake_kernel_counts()->transactions, 4);
    ck_assert_uint_lt(fake_kernel_counts()->messages, n / 10);
    ck_assert_uint_eq(fake_kernel_size(family, "local_endpoints"), 0);
}

/* ---- session affinity ---- */

/* The key of a backend, named by a digit, in affinity_numbers. */
static struct key number_key(uint32_t port, unsigned digit)
{
    struct key key = {.length = 0};
    struct backend b = backend(digit);
    key_put_number(&key, port);
    key_put_address(&key, family, &b.address);
    key_put_port(&key, b.port);
    return key;
}

/* P:B of a backend; 0 if it has none. */
static uint32_t number_of(uint32_t port, unsigned digit)
{
    struct key key = number_key(port, digit);
    size_t length;
    uint32_t value = 0;
    const uint8_t *found =
        fake_kernel_value(family, "affinity_numbers", key.bytes, key.length, &length);
    if (found)
        memcpy(&value, found, sizeof(value));
    return value;
}

#define AFFINE(number, ...) SET(number, .timeout = 100, .group = 7, __VA_ARGS__)

/* What a change costs: an element for each thing that changes. */
EACH_FAMILY(affinity_on_and_off)
{
    begin_with_pods(_i);
    SET(1, .all = "12");
    SET(9, .all = "12", .timeout = 100);
    commit();
    const uint32_t port = port_of(1);
    SET(1, .all = "12", .timeout = 100);
    commit_sends(1 + 1 + 4, 1); /* the class; the timeout; two numbers and where they lead */
    SET(1, .all = "12");
    commit_sends(1, 1 + 1 + 4);
    ck_assert_uint_eq(port_of(1), port);
    ck_assert(ruleset_trim_time(ruleset) == 0);
}

EACH_FAMILY(the_timeout_changes)
{
    begin_with_pods(_i);
    SET(1, .all = "12", .timeout = 100, .group = 7);
    SET(2, .all = "12", .timeout = 70000, .group = 8);
    commit();
    uint32_t id = port_of(1), one = number_of(id, 1);
    SET(1, .all = "12", .timeout = 70000, .group = 7);
    commit_sends(1, 1);
    ck_assert_uint_eq(fake_kernel_number(family, "affinity_timeouts", id), 70000);
    fake_kernel_forget_counts();
    SET(1, .all = "12", .timeout = 86400, .group = 7);
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->chains, 1); /* a new one that learns */
    ck_assert_uint_eq(port_of(1), id);
    ck_assert_uint_eq(number_of(id, 1), one);
}

/* A record of a backend on another node does not count for traffic policy Local. */
static void check_record_on_another_node(const struct fake_client *from)
{
    char digits[MOST_BACKENDS + 1];
    const struct frontend to = frontend(3);
    struct fake_route route = fake_kernel_route(&to, from);
    ck_assert_str_eq(digits_of(&route, digits), "12");
    fake_route_free(&route);
}

/* A client with a record goes to its backend, as long as that one is in use. */
EACH_FAMILY(records_lead_to_their_backend)
{
    begin_with_pods(_i);
    const struct frontend to = frontend(1);
    const struct fake_client from = {.address = client(50)};
    AFFINE(1, .all = "1234");
    AFFINE(2, .external = true, .local = true, .all = "1234", .here = "12");
    AFFINE(3, .local = true, .all = "1234", .here = "12"); /* 3 is on another node */
    commit();
    uint32_t id = port_of(1), three = number_of(id, 3);
    ck_assert_uint_eq(port_of(2), id);
    struct key key = {.length = 0};
    key_put_number(&key, id);
    key_put_address(&key, family, &from.address);
    fake_kernel_put(family, "affinity", key.bytes, key.length, &three, sizeof(three));
    for (int i = 0; i < 6; i++) { /* 3 is there, gone, there again, ... */
        char digits[MOST_BACKENDS + 1];
        struct fake_route route = fake_kernel_route(&to, &from);
        ck_assert_str_eq(digits_of(&route, digits), i == 0 ? "3" : i % 2 ? "124" : "1234");
        fake_route_free(&route);
        check_wish(2, &(struct wish){true, true, true, i % 2 ? "124" : "1234", "12", .timeout = 0},
                   &world);
        check_wish(3, &(struct wish){true, .local = true, .all = "1", .here = "12"}, &world);
        check_record_on_another_node(&from);
        AFFINE(1, .all = i % 2 ? "1234" : "124");
        AFFINE(2, .external = true, .local = true, .all = i % 2 ? "1234" : "124", .here = "12");
        commit();
        settle();
    }
}

EACH_FAMILY(affinity_over_restarts)
{
    begin_with_pods(_i);
    AFFINE(1, .all = "123", .here = "2");
    AFFINE(2, .external = true, .local = true, .all = "123", .here = "2");
    SET(3, .all = "12", .timeout = 100, .group = 8);
    SET(4, .all = "1", .timeout = 100, .group = 9);
    commit();
    AFFINE(1, .all = "23", .here = "2");
    AFFINE(2, .external = true, .local = true, .all = "23", .here = "2");
    drop(4);
    commit();
    settle();
    uint32_t id = port_of(1), other = port_of(3), two = number_of(id, 2), three = number_of(id, 3);
    struct sizes before = sizes_now(family);
    restart_with_pods();
    /* A frontend that the kernel does not have comes first, and groups have other names. */
    SET(5, .external = true, .all = "23", .here = "2", .timeout = 100, .group = 1007);
    SET(6, .all = "45", .timeout = 100, .group = 1010);
    SET(1, .all = "23", .here = "2", .timeout = 100, .group = 1007);
    SET(2, .external = true, .local = true, .all = "23", .here = "2", .timeout = 100,
        .group = 1007);
    SET(3, .all = "12", .timeout = 100, .group = 1008);
    commit();
    ck_assert_uint_eq(port_of(1), id);
    ck_assert_uint_eq(port_of(2), id);
    ck_assert_uint_eq(port_of(5), id);
    ck_assert_uint_eq(port_of(3), other);
    ck_assert_uint_ne(port_of(6), id);
    ck_assert_uint_ne(port_of(6), other);
    ck_assert_uint_eq(number_of(id, 2), two);
    ck_assert_uint_eq(number_of(id, 3), three);
    drop(5);
    drop(6);
    commit();
    settle();
    struct sizes after = sizes_now(family);
    check_same_sizes(&after, &before);
}

/* The fake kernel checks that numbers and backends agree again. */
EACH_FAMILY(numbers_that_somebody_changed)
{
    begin_with_pods(_i);
    AFFINE(1, .all = "123");
    AFFINE(2, .external = true, .local = true, .all = "123", .here = "3");
    commit();
    const struct sizes before = sizes_now(family);
    const uint32_t id = port_of(1), strange = 99 << PORT_LOW_BITS | 1, two = number_of(id, 2);
    const struct backend other = backend(5);
    struct key one = number_key(id, 1), value = value_of_backend(family, &other);
    fake_kernel_take(family, "affinity_numbers", one.bytes, one.length);
    fake_kernel_put(family, "affinity_numbers", one.bytes, one.length, &strange, sizeof(strange));
    fake_kernel_take(family, "affinity_backends", &two, sizeof(two));
    fake_kernel_put(family, "affinity_backends", &two, sizeof(two), value.bytes, value.length);
    restart_with_pods();
    AFFINE(1, .all = "123");
    AFFINE(2, .external = true, .local = true, .all = "123", .here = "3");
    commit();
    ck_assert_uint_eq(port_of_value(number_of(id, 1)), id);
    ck_assert_uint_ne(number_of(id, 2), two);
    const struct sizes after = sizes_now(family);
    check_same_sizes(&after, &before);
    commit_sends(0, 0);
}

/* How many of 20 service ports that come after a restart have numbers of those that were there
 * before and are not any more. */
static size_t count_numbers_again(void)
{
    uint32_t ids[20];
    size_t again = 0;
    for (unsigned i = 0; i < 20; i++)
        SET(i, .all = "1", .timeout = 100, .group = i + 1);
    commit();
    for (unsigned i = 0; i < 20; i++) {
        ids[i] = port_of(i);
        drop(i);
    }
    settle();
    restart_with_pods();
    commit();
    for (unsigned i = 0; i < 20; i++)
        SET(i, .all = "1", .timeout = 100, .group = i + 1);
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

static void check_ranges(const char *set, const char *expected)
{
    range_vec got = {0}, ranges = {0};
    ranges_of(expected, &ranges);
    fake_kernel_ranges(family, set, &got);
    ck_assert_uint_eq(got.n, ranges.n);
    for (size_t i = 0; i < got.n; i++)
        ck_assert_mem_eq(&got.v[i], &ranges.v[i], sizeof(got.v[i]));
    vec_free(&got);
    vec_free(&ranges);
}

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
#define RANGE_CHANGES (sizeof(range_changes) / sizeof(range_changes[0]))

static void set_ranges(bool pods, const char *text)
{
    if (pods)
        set_pod_cidrs(text);
    else
        set_service_cidrs(text);
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
        commit_sends(range_changes[i].added, range_changes[i].deleted);
        check_ranges(set, range_changes[i].ranges);
        restart();
        set_ranges(pods, range_changes[i].ranges);
        commit_sends(0, 0);
        if (i % 2 == 0)
            continue;
        restart(); /* and while nobody is there to tell */
        set_ranges(pods, range_changes[i - 1].ranges);
        commit_sends(range_changes[i].deleted, range_changes[i].added);
        check_ranges(set, range_changes[i - 1].ranges);
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

/* nft writes an end below all ranges when it loads what --dump-rules printed. */
EACH_FAMILY(ranges_that_nft_loaded)
{
    const uint8_t lowest[16] = {0};
    begin_with_pods(_i);
    set_service_cidrs("10-19");
    commit();
    fake_kernel_put_end(family, "service_cidrs", lowest, address_length(family));
    fake_kernel_put_end(family, "pod_cidrs", lowest, address_length(family));
    restart_with_pods();
    set_service_cidrs("10-19 30-39");
    commit_sends(2, 0);
    set_service_cidrs("0-5");
    commit_sends(2, 4);
}

/* They are told once, or twice, and of what nobody has said before. */
EACH_FAMILY(cluster_ips)
{
    begin_with_pods(_i);
    struct address a = frontend(40).address, b = frontend(41).address;
    const struct wish nobodys = {.wanted = false};
    const struct world in_use = {.pods = PODS, .cluster_ip = true};
    ruleset_set_cluster_ip(ruleset, &a, true);
    ruleset_set_cluster_ip(ruleset, &b, false);
    commit();
    check_wish(40, &nobodys, &in_use);
    check_wish(41, &nobodys, &world);
    ruleset_set_cluster_ip(ruleset, &a, true);
    ruleset_set_cluster_ip(ruleset, &b, true);
    commit_sends(1, 0);
    check_wish(41, &nobodys, &in_use);
    restart_with_pods();
    ruleset_set_cluster_ip(ruleset, &b, true);
    commit_sends(0, 1);
    check_wish(40, &nobodys, &world);
    ruleset_set_cluster_ip(ruleset, &b, false);
    ruleset_set_cluster_ip(ruleset, &b, true);
    commit_sends(0, 0);
    ruleset_set_cluster_ip(ruleset, &b, false);
    ruleset_set_cluster_ip(ruleset, &b, false);
    commit_sends(0, 1);
    check_wish(41, &nobodys, &world);
}

/* Whether a backend that reaches itself through frontend 1 is masqueraded. */
static bool is_hairpin(unsigned digit)
{
    struct frontend to = frontend(1);
    struct fake_client from = {.address = backend(digit).address};
    struct fake_route route = fake_kernel_route(&to, &from);
    bool masqueraded = false;
    for (size_t i = 0; i < route.n; i++) {
        bool itself = memcmp(&route.to[i].backend.address, &from.address, 16) == 0;
        ck_assert(itself || !route.to[i].masqueraded);
        masqueraded = masqueraded || route.to[i].masqueraded;
    }
    fake_route_free(&route);
    return masqueraded;
}

EACH_FAMILY(hairpins)
{
    begin(_i);
    const uint8_t protocol = frontend(1).protocol;
    struct backend one = backend(1), two = backend(2), three = backend(3);
    SET(1, .all = "123");
    ruleset_set_hairpin(ruleset, protocol, &one, true);
    ruleset_set_hairpin(ruleset, protocol, &two, true);
    ruleset_set_hairpin(ruleset, (uint8_t)(IPPROTO_TCP + IPPROTO_SCTP - protocol), &three, true);
    commit();
    ck_assert_uint_eq(fake_kernel_size(family, "hairpin"), 3);
    ck_assert(is_hairpin(1) && is_hairpin(2) && !is_hairpin(3));
    ruleset_set_hairpin(ruleset, protocol, &two, false);
    commit_sends(0, 1);
    ck_assert(is_hairpin(1) && !is_hairpin(2));
    restart();
    SET(1, .all = "123");
    ruleset_set_hairpin(ruleset, protocol, &two, true);
    commit_sends(1, 2);
    ck_assert(!is_hairpin(1) && is_hairpin(2));
}

/* ---- what a table from before had ---- */

static unsigned abandoned[16];
static size_t n_abandoned;

static void on_abandoned(void *ctx, const struct frontend *f)
{
    ck_assert_ptr_eq(ctx, abandoned);
    ck_assert_uint_eq(f->family, family);
    ck_assert_uint_lt(n_abandoned, 16);
    for (unsigned i = 0; i < 100; i++) {
        struct frontend other = frontend(i);
        if (memcmp(&other, f, sizeof(other)) == 0)
            abandoned[n_abandoned++] = i;
    }
}

EACH_FAMILY(abandoned_frontends)
{
    config.abandoned = on_abandoned;
    config.ctx = abandoned;
    n_abandoned = 0;
    begin(_i);
    SET(1, .all = "1");                              /* UDP: numbers 1, 4, 7, ... */
    SET(4, .all = "1");                              /* goes */
    SET(7, .local = true, .all = "12", .here = "1"); /* goes */
    SET(10);                                         /* rejected, goes: may have had flows */
    SET(2, .all = "1");                              /* SCTP, TCP */
    SET(3, .all = "1");
    SET(13, .all = "1"); /* rejected from now on */
    commit();
    ck_assert_uint_eq(n_abandoned, 0);
    restart();
    SET(1, .all = "1");
    SET(13);
    SET(16, .all = "1");
    commit();
    ck_assert_uint_eq(n_abandoned, 3);
    ck_assert_uint_eq(abandoned[0] + abandoned[1] + abandoned[2], 4 + 7 + 10);
    drop(1); /* one that was wanted is for those who wanted it */
    commit();
    settle();
    ck_assert_uint_eq(n_abandoned, 3);
    restart(); /* and nothing of it is told again */
    SET(13);
    SET(16, .all = "1");
    commit();
    ck_assert_uint_eq(n_abandoned, 3);
    config.abandoned = NULL;
    restart();
    commit();
}

/* A table of another configuration gets other rules, and the elements are the same. */
TESTS(another_configuration, (CONFIGS * FAMILY_COUNT))
{
    config = configs[_i % CONFIGS];
    begin(_i / CONFIGS);
    set_pod_cidrs(PODS);
    for (int kind = 0; kind < KINDS; kind++)
        tell((unsigned)kind, &kinds[kind]);
    commit();
    for (int other = 0; other < CONFIGS; other++) {
        config = configs[other];
        restart();
        set_pod_cidrs(PODS);
        for (int kind = 0; kind < KINDS; kind++)
            tell((unsigned)kind, &kinds[kind]);
        if (other == _i % CONFIGS && other == 0)
            commit_sends(0, 0);
        else
            commit();
        const struct fake_counts *counts = fake_kernel_counts();
        ck_assert_uint_eq(counts->tables + counts->added + counts->deleted, 0);
        for (int kind = 0; kind < KINDS; kind++)
            check_wish((unsigned)kind, &kinds[kind], &world);
    }
}

/* Each set has elements, and each reading gives one of them twice and leaves one out. A try reads
 * 17 sets; two may be in vain. */
#define MOST_TORN 34
TESTS(torn_answers_of_all_sets, (MOST_TORN * FAMILY_COUNT))
{
    const int torn = 1 + _i / FAMILY_COUNT;
    begin_with_pods(_i % FAMILY_COUNT);
    for (int round = 0; round < 2; round++) {
        if (round)
            restart_with_pods();
        set_service_cidrs("10-19 30-39");
        for (unsigned kind = 0; kind < KINDS; kind++) {
            struct frontend f = frontend(kind);
            struct backend b = backend(kind % 10);
            tell(kind, &kinds[kind]);
            ruleset_set_cluster_ip(ruleset, &f.address, true);
            ruleset_set_hairpin(ruleset, IPPROTO_TCP, &b, true);
        }
        if (round)
            fake_kernel_tear_reads((unsigned)torn);
        else
            commit();
    }
    commit_sends(0, 0);
}

UNIT_FIXTURE(setup, teardown)
