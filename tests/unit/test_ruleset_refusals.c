/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel refuses does not stop the rest: it is found, said and tried again, what was in
 * force of it stays, and all else is in force after the same commit.
 */
#include "unit.h"

#include "ruleset_fixture.h"

#include <errno.h>
#include <math.h>

static const struct world world = {.cluster_ip = false};
static const struct wish nothing = {.wanted = false};

/* Each test runs with a kernel that points at elements and with one that does not. */
#define KERNELS (2 * FAMILY_COUNT)

static void begin_kernel(int which)
{
    begin(which % FAMILY_COUNT);
    fake_kernel_point(which < FAMILY_COUNT);
}

/* P of the service port of a frontend: the one that it has, or the next commit gives it. */
static uint32_t port_to_refuse(unsigned number)
{
    const struct frontend f = frontend(number);
    const struct frontend_record *record = ruleset_find_frontend(ruleset, &f);
    const struct port_record *port = record ? record->port : NULL;
    uint32_t last = ruleset->last_number;
    if (!port || !ruleset_knows_kernel(ruleset))
        if (fake_kernel_port(&f))
            return fake_kernel_port(&f);
    ck_assert_ptr_nonnull(port);
    if (port->number)
        return port->number;
    vec_each (&ruleset->pending, it) {
        last += (*it)->is_port && !as_port(*it)->number;
        if (*it == &port->record)
            break;
    }
    return last << PORT_LOW_BITS;
}

static bool is_any_of(const char *name, const char *const names[])
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names;
}

static void refuse_number(const char *set, uint32_t number, int why)
{
    fake_kernel_refuse(set, &number, sizeof(number), why);
}

/* What the service port of a frontend has in @set, or in all of them. */
static void refuse_port(const char *set, unsigned number, int why)
{
    static const char *const by_backend[] = {"affinity_backends", "local_affinity_backends", NULL};
    const uint32_t port = port_to_refuse(number);
    if (!set || strcmp(set, "dropped_ports") == 0)
        refuse_number("dropped_ports", port | CLASS_LOCAL, why);
    for (uint32_t i = 1; set && is_any_of(set, by_backend) && i <= MOST_BACKENDS; i++)
        refuse_number(set, port | i, why);
    if (!set || strcmp(set, "dropped_ports") != 0)
        refuse_number(set, port, why);
}

/* What a frontend has in @set, or its service port; of NULL, both in all of them. */
static void refuse(const char *set, unsigned number, int why)
{
    static const char *const by_frontend[] = {"services", "restricted", NULL};
    const uint8_t any_client = 12;
    struct frontend f = frontend(number);
    if (set && strcmp(set, "allowed_sources") == 0)
        fake_kernel_refuse(set, &any_client, sizeof(any_client), why);
    else if (!set || is_any_of(set, by_frontend))
        fake_kernel_refuse_frontend(set, &f, why);
    if (!set || (strcmp(set, "allowed_sources") != 0 && !is_any_of(set, by_frontend)))
        refuse_port(set, number, why);
}

static void forgive(int which)
{
    fake_kernel_forgive();
    fake_kernel_point(which < FAMILY_COUNT);
}

static void check(unsigned number, const struct wish *wish)
{
    check_wish(number, wish, &world);
}

/* CHECK(1, .external = true, .all = "123") */
#define CHECK(number, ...) check(number, &(const struct wish){.wanted = true, __VA_ARGS__})

static void check_refused(size_t refused, size_t left_out)
{
    const struct ruleset_figures *figures = ruleset_figures(ruleset);
    ck_assert_uint_eq(figures->refused, refused);
    ck_assert_uint_eq(figures->left_out, left_out);
    ck_assert((ruleset_retry_time(ruleset) != 0) == (refused + left_out > 0));
    if (refused + left_out > 0)
        ck_assert(ruleset_retry_time(ruleset) > now);
}

/* When it is time to try again. */
static void wait_for_retry(void)
{
    ck_assert(ruleset_retry_time(ruleset) != 0);
    now = ruleset_retry_time(ruleset);
    ck_assert(ruleset_needs_commit(ruleset, now));
}

/* Commits; the kernel is asked at most so many times. */
static void commit_within(size_t attempts)
{
    fake_kernel_forget_counts();
    commit();
    ck_assert_uint_le(fake_kernel_counts()->attempts, attempts);
}

/* ---- frontends and service ports ---- */

#define SETS_OF_ONE 14

/* In each set that a frontend or its service port may be in: it is left out, all others are there.
 */
TESTS(the_rest_is_in_force, (SETS_OF_ONE * KERNELS))
{
    static const struct wish full = {.wanted = true,
                                     .external = true,
                                     .local = true,
                                     .all = "34",
                                     .here = "3",
                                     .timeout = 100,
                                     .sources = "0-90"},
                             dropped = {.wanted = true,
                                        .external = true,
                                        .local = true,
                                        .all = "3"},
                             rejected = {.wanted = true};
    static const struct {
        const char *set;
        const struct wish *wish;
    } cases[] = {{"services", &full},
                 {"restricted", &full},
                 {"allowed_sources", &full},
                 {"ports", &full},
                 {"local_ports", &full},
                 {"endpoints", &full},
                 {"local_endpoints", &full},
                 {"affinity_timeouts", &full},
                 {"affinity_numbers", &full},
                 {"affinity_backends", &full},
                 {"local_affinity_backends", &full},
                 {"rejected_ports", &rejected},
                 {"dropped_ports", &dropped},
                 {NULL, &full}};
    const char *set = cases[_i / KERNELS].set;
    const struct wish *wish = cases[_i / KERNELS].wish;
    const size_t refused = set ? 1 : 2; /* the frontend, its service port, or both */
    begin_kernel(_i % KERNELS);
    SET(1, .all = "12");
    tell(2, wish);
    SET(3, .all = "56");
    refuse(set, 2, EINVAL);
    commit_within(3);
    CHECK(1, .all = "12");
    check(2, &nothing);
    CHECK(3, .all = "56");
    check_refused(refused, 0);
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), (int)refused);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 2);

    SET(1, .all = "123"); /* and all goes on */
    commit_within(2);     /* the new chain first */
    CHECK(1, .all = "123");
    check_refused(refused, 0);
    forgive(_i % KERNELS);
    wait_for_retry();
    settle();
    check_refused(0, 0);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 3);
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), (int)refused);
    check(2, wish);
}

/* Whether the elements of a frontend, not of its service port, change with its wish. */
static bool frontend_changes(const struct wish *a, const struct wish *b)
{
    const char *before = a->sources ? a->sources : "", *after = b->sources ? b->sources : "";
    return a->external != b->external || a->local != b->local ||
           (a->timeout > 0) != (b->timeout > 0) || a->group != b->group ||
           strcmp(before, after) != 0;
}

static const struct wish *of_group(uint32_t group, const struct wish *wish,
                                   const struct wish *otherwise)
{
    return wish->group == group ? wish : otherwise;
}

/* Each change is one of the service port too. */
TESTS(what_was_in_force_stays, 9 * 5 * KERNELS)
{
    static const struct wish before[] = {
        {.wanted = true, .all = "123"},
        {.wanted = true, .external = true, .all = "123"},
        {.wanted = true, .external = true, .local = true, .all = "123", .here = "2"},
        {.wanted = true, .external = true, .local = true, .all = "123"},
        {.wanted = true, .local = true, .all = "123", .here = "12"},
        {.wanted = true, .all = "123", .timeout = 100, .group = 2},
        {.wanted = true, .external = true, .all = "12", .sources = "0-40 60-top"},
        {.wanted = true},
        {.wanted = true, .all = "123", .timeout = 100},
    };
    static const struct wish after[] = {
        {.wanted = true, .all = "1245"},
        {.wanted = true, .external = true, .local = true, .all = "45", .here = "4"},
        {.wanted = true,
         .external = true,
         .all = "4",
         .timeout = 100,
         .group = 3,
         .sources = "10-19"},
        {.wanted = true, .local = true, .all = "12", .here = "1"},
        {.wanted = true, .all = "3", .timeout = 200, .group = 2},
    };
    enum { BEFORE = sizeof(before) / sizeof(before[0]), AFTER = sizeof(after) / sizeof(after[0]) };
    const struct wish *was = &before[_i / KERNELS % BEFORE], *shall = &after[_i / KERNELS / BEFORE];
    const size_t refused = frontend_changes(was, shall) ? 2 : 1;
    begin_kernel(_i % KERNELS);
    /* Frontend 1 has the same service port as the others of the group. */
    const struct wish alone = {.wanted = true, .all = "12", .timeout = 100, .group = 2};
    const struct wish *other = of_group(2, was, &alone);
    tell(1, other);
    tell(2, was);
    SET(3, .all = "12");
    commit();
    settle();
    struct sizes sizes = sizes_now(family);

    tell(2, shall);
    SET(3, .all = "13");
    refuse(NULL, 2, ENOSPC);
    commit_within(3);
    check(2, was);
    check(1, other);
    CHECK(3, .all = "13");
    check_refused(refused, 0);
    struct sizes same = sizes_now(family);
    if (was->timeout == 0 || was->group == shall->group || was->group == 2)
        check_same_sizes(&same, &sizes); /* else nobody has the affine service port any more */

    /* A read-back does not change that. */
    SET(3, .all = "23");
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    commit_fails();
    commit();
    check(2, was);
    CHECK(3, .all = "23");
    check_refused(refused, 0);

    forgive(_i % KERNELS);
    wait_for_retry();
    commit();
    settle();
    check(2, shall);
    check(1, of_group(2, shall, other));
    check_refused(0, 0);
    drop(1);
    drop(2);
    drop(3);
    settle();
    ck_assert_uint_eq(ruleset->frontends.n + ruleset->ports.n, 0);
}

/* One whose new class the service port cannot answer, as it is in force, stays as it is; others of
 * the port come, change and go. */
TESTS(frontends_wait_for_their_port, KERNELS)
{
    begin_kernel(_i);
    SET(1, .external = true, .all = "123", .group = 1);
    SET(2, .all = "123", .group = 1);
    SET(3, .all = "123", .group = 1);
    commit();
    refuse("local_endpoints", 1, EINVAL);
    SET(1, .external = true, .local = true, .all = "12", .here = "2", .group = 1);
    SET(2, .external = true, .all = "12", .here = "2", .group = 1);
    SET(4, .all = "12", .here = "2", .group = 1);
    SET(5, .local = true, .all = "12", .here = "2", .group = 1);
    drop(3);
    commit_within(3);
    check_refused(1, 0);
    CHECK(1, .external = true, .all = "123");
    CHECK(2, .external = true, .all = "123");
    check(3, &nothing);
    CHECK(4, .all = "123");
    check(5, &nothing);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 3);
    for (unsigned i = 1; i <= 5; i++) {
        const struct frontend f = frontend(i);
        ck_assert_int_eq(ruleset_is_refused(ruleset, &f), i != 3);
        ck_assert(!ruleset_is_waiting(ruleset, &f));
    }
    wait_for_retry();
    commit_within(3);
    CHECK(1, .external = true, .all = "123");
    drop(5); /* it does not come any more */
    forgive(_i);
    wait_for_retry();
    commit_within(2); /* the new chain first */
    check_refused(0, 0);
    CHECK(1, .external = true, .local = true, .all = "12", .here = "2");
    CHECK(2, .external = true, .all = "12");
    CHECK(4, .all = "12");
    check(5, &nothing);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 3);
    for (unsigned i = 1; i <= 4; i++)
        if (i != 3)
            drop(i);
    settle();
    ck_assert_uint_eq(ruleset->frontends.n + ruleset->ports.n, 0);
}

/* A frontend that stays as it was does not hold back the backends. */
TESTS(ports_do_not_wait_for_frontends, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "123", .group = 1);
    SET(2, .all = "123", .group = 1);
    commit();
    refuse("services", 1, EINVAL);
    SET(1, .external = true, .all = "12", .group = 1);
    SET(2, .external = true, .all = "12", .group = 1);
    commit_within(4); /* the new chain first */
    check_refused(1, 0);
    CHECK(1, .all = "12");
    CHECK(2, .external = true, .all = "12");
    SET(1, .external = true, .local = true, .all = "45", .here = "4", .group = 1);
    SET(2, .external = true, .local = true, .all = "45", .here = "4", .group = 1);
    commit_within(4); /* the new chain first */
    check_refused(1, 0);
    CHECK(1, .all = "45");
    CHECK(2, .external = true, .local = true, .all = "45", .here = "4");
    forgive(_i);
    wait_for_retry();
    commit_within(1);
    check_refused(0, 0);
    CHECK(1, .external = true, .local = true, .all = "45", .here = "4");
}

/* All bad ones are found with a few attempts. */
TESTS(many_are_refused_at_once, KERNELS)
{
    const unsigned n = 300;
    begin_kernel(_i);
    for (unsigned i = 1; i <= n; i++) {
        SET(i, .all = "12");
        if (i % 3 == 0)
            refuse(i % 2 ? "services" : "endpoints", i, EINVAL);
    }
    commit_within(4);
    for (unsigned i = 1; i <= n; i += 7)
        check(i, i % 3 == 0 ? &nothing : &(const struct wish){.wanted = true, .all = "12"});
    check_refused(n / 3, 0);
    log_flush(INFINITY);
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 11); /* the last one speaks for the others */
    wait_for_retry();
    commit_within(4);
    check_refused(n / 3, 0);
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 11);
    forgive(_i);
    wait_for_retry();
    commit_within(1);
    check_refused(0, 0);
    CHECK(n, .all = "12");
}

/* Not all of very many are tried again at the same time. */
TESTS(many_are_tried_again_in_portions, KERNELS)
{
    enum { PORTION = 256, MANY = 2 * PORTION + 10 };
    begin_kernel(_i);
    for (unsigned i = 1; i <= MANY; i++) {
        SET(i, .all = "1");
        refuse("services", i, EINVAL);
    }
    commit_within(4);
    check_refused(MANY, 0);
    ck_assert_uint_eq(ruleset_figures(ruleset)->refusals, MANY);
    wait_for_retry();
    commit_within(4);
    check_refused(MANY, 0);
    ck_assert_uint_eq(ruleset_figures(ruleset)->refusals, MANY + PORTION);
    forgive(_i);
    for (size_t left = MANY - PORTION; left > PORTION; left -= PORTION) {
        wait_for_retry();
        commit_within(1);
        check_refused(left, 0); /* with those that were refused twice */
    }
    wait_for_retry();
    commit_within(1);
    check_refused(PORTION, 0);
    wait_for_retry();
    commit_within(1);
    check_refused(0, 0);
    CHECK(1, .all = "1");
    CHECK(MANY, .all = "1");
}

TESTS(it_is_tried_again_later_and_later, (2 * KERNELS))
{
    const bool port = _i / KERNELS; /* or the frontend */
    const char *set = port ? "ports" : "services";
    begin_kernel(_i % KERNELS);
    SET(1, .all = "12");
    SET(2, .all = "3");
    refuse(set, 1, EINVAL);
    double waits[] = {30, 60, 120, 240, 480, 600, 600};
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        commit_within(3);
        ck_assert_double_eq(ruleset_retry_time(ruleset), now + waits[i]);
        now += waits[i];
        ck_assert(ruleset_needs_commit(ruleset, now));
    }
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 1);
    ck_assert_uint_eq(ruleset_figures(ruleset)->refusals, 7);
    forgive(_i % KERNELS);
    commit();
    CHECK(1, .all = "12");
    refuse(set, 1, EINVAL); /* from the start again */
    SET(1, .external = true, .all = "1");
    commit();
    ck_assert_double_eq(ruleset_retry_time(ruleset), now + 30);
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 2);
    if (port)
        CHECK(1, .external = true, .all = "12");
    else
        CHECK(1, .all = "1");
}

/* Who changes is tried at once; the wait goes on growing while it is refused. */
TESTS(a_change_is_tried_at_once, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12");
    SET(2, .all = "3");
    refuse("endpoints", 1, EINVAL);
    commit();
    SET(1, .all = "123");
    ck_assert(ruleset_needs_commit(ruleset, now));
    commit_within(3);
    check_refused(1, 0);
    ck_assert_double_eq(ruleset_retry_time(ruleset), now + 60);
    SET(1); /* nothing of it is refused now */
    commit_within(1);
    check_refused(0, 0);
    CHECK(1, .all = NULL);
    SET(1, .all = "1");
    commit();
    check_refused(1, 0);
    CHECK(1, .all = NULL);
    drop(1);
    commit();
    check(1, &nothing);
    check_refused(0, 0);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 1);
}

/* What nobody wants any more and the kernel keeps. */
TESTS(a_deletion_is_refused, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12");
    SET(2, .all = "3");
    commit();
    drop(1);
    drop(2);
    refuse("services", 1, EINVAL);
    commit_within(3);
    check_refused(1, 0);
    CHECK(1, .all = "12");
    check(2, &nothing);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 1);
    settle();
    CHECK(1, .all = "12");
    forgive(_i);
    wait_for_retry();
    commit();
    settle();
    check(1, &nothing);
    ck_assert_uint_eq(ruleset->frontends.n + ruleset->ports.n, 0);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 0);
}

/* What is left of a service port when no frontend leads there any more. */
TESTS(the_deletion_of_a_port_is_refused, (4 * KERNELS))
{
    static const char *const sets[] = {"ports", "local_ports", "endpoints", "local_endpoints"};
    const char *set = sets[_i / KERNELS];
    begin_kernel(_i % KERNELS);
    SET(1, .external = true, .local = true, .all = "12", .here = "1");
    SET(2, .all = "3");
    commit();
    refuse(set, 1, EINVAL);
    drop(1);
    commit_within(1); /* the frontend goes */
    check(1, &nothing);
    check_refused(0, 0);
    wait_for_trims();
    commit_within(3);
    check_refused(1, 0);
    ck_assert_uint_gt(fake_kernel_size(family, set), 0);
    SET(1, .all = "45"); /* with the same id: nothing of it is refused, or all */
    SET(2, .all = "4");
    commit_within(4);
    CHECK(2, .all = "4");
    drop(1);
    commit();
    forgive(_i % KERNELS);
    while (ruleset_retry_time(ruleset)) {
        wait_for_retry();
        commit();
    }
    settle();
    check_refused(0, 0);
    check(1, &nothing);
    CHECK(2, .all = "4");
    ck_assert_uint_eq(fake_kernel_size(family, "ports"), 1);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 1);
    ck_assert_uint_eq(fake_kernel_size(family, "local_ports"), 0);
    ck_assert_uint_eq(fake_kernel_size(family, "local_endpoints"), 0);
    ck_assert_uint_eq(ruleset->frontends.n, 1);
    ck_assert_uint_eq(ruleset->ports.n, 1);
}

/* Slots that nothing leads to are in nobody's way: no hot loop for them. */
TESTS(a_trim_is_refused, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "123");
    SET(2, .all = "456");
    commit();
    SET(1, .all = "1");
    SET(2, .all = "4");
    commit();
    refuse("endpoints", 1, EINVAL);
    wait_for_trims();
    commit_within(3);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 3 + 1);
    check_refused(1, 0);
    ck_assert(ruleset_trim_time(ruleset) == 0);
    CHECK(1, .all = "1");
    forgive(_i);
    wait_for_retry();
    commit();
    settle();
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 2);
    CHECK(1, .all = "1");
}

/* Somebody put something there, and now it cannot be taken away: it is nobody else's trouble. */
TESTS(what_cannot_be_wanted_is_left_alone, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12");
    SET(2, .all = "3");
    commit();
    const uint32_t port = port_of(1), drops = port | CLASS_LOCAL;
    fake_kernel_put(family, "rejected_ports", &port, sizeof(port), NULL, 0);
    fake_kernel_put(family, "dropped_ports", &drops, sizeof(drops), NULL, 0); /* never both */
    restart();
    SET(1, .all = "1");
    SET(2, .all = "34");
    refuse(NULL, 1, EINVAL);
    commit_within(4);
    CHECK(1, .all = "12");
    CHECK(2, .all = "34");
    check_refused(1, 0);
    SET(2, .all = "3");
    commit_within(1);
    SET(2, .all = "4");
    fake_kernel_fail(1, FAKE_LOSES_ANSWER); /* it is read back, and left alone again */
    commit_fails();
    commit();
    CHECK(2, .all = "4");
    check_refused(1, 0);
    forgive(_i);
    wait_for_retry();
    commit();
    CHECK(1, .all = "1");
    ck_assert_uint_eq(fake_kernel_size(family, "rejected_ports"), 0);
    ck_assert_uint_eq(fake_kernel_size(family, "dropped_ports"), 0);
    settle();
}

/* ---- full sets ---- */

TESTS(a_set_is_full, (2 * KERNELS))
{
    const char *set = _i / KERNELS ? "ports" : "services";
    const unsigned room = 20;
    begin_kernel(_i % KERNELS);
    for (unsigned i = 1; i <= room / 2; i++)
        SET(i, .all = "12");
    commit();
    fake_kernel_limit(set, room);
    /* Those that are there change, and more come than there is room for. */
    for (unsigned i = room + 10; i > room / 2; i--)
        SET(i, .all = "12");
    for (unsigned i = 1; i <= room / 2; i++)
        SET(i, .all = "123");
    commit_within(4);
    check_refused(10, 0);
    ck_assert_uint_eq(fake_kernel_size(family, set), room);
    for (unsigned i = 1; i <= room / 2; i++)
        CHECK(i, .all = "123");
    /* A change of one that is there goes on while it is full; one more does not fit. */
    SET(1, .external = true, .all = "1");
    SET(100, .all = "4");
    commit_within(4);
    CHECK(1, .external = true, .all = "1");
    check(100, &nothing);
    check_refused(11, 0);
    for (unsigned i = 1; i <= 5; i++)
        drop(i);
    settle(); /* what they had makes room */
    wait_for_retry();
    commit_within(4);
    ck_assert_uint_eq(fake_kernel_size(family, set), room);
    wait_for_retry();
    fake_kernel_forgive();
    commit();
    while (ruleset_retry_time(ruleset)) {
        wait_for_retry();
        commit();
    }
    check_refused(0, 0);
    ck_assert_uint_eq(fake_kernel_size(family, set), room + 11 - 5);
    CHECK(100, .all = "4");
    settle();
}

TESTS(no_room_for_endpoints, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "123");
    SET(2, .all = "456");
    commit();
    fake_kernel_limit("endpoints", 6);
    SET(1, .all = "1237");
    SET(2, .all = "459");
    commit_within(4); /* the new chain first */
    CHECK(1, .all = "123");
    CHECK(2, .all = "459");
    check_refused(1, 0);
}

/* ---- chains ---- */

TESTS(a_chain_is_refused, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12");
    SET(2, .all = "1");
    commit();
    fake_kernel_refuse_chain("pick-3", ENOSPC);
    SET(1, .all = "123");
    SET(2, .all = "1234");
    SET(3, .external = true, .all = "567"); /* picks by it too */
    SET(4, .external = true, .all = "5678");
    commit_within(3);
    CHECK(1, .all = "12");
    CHECK(2, .all = "1234");
    check(3, &nothing);
    CHECK(4, .external = true, .all = "5678");
    check_refused(2, 0);
    forgive(_i);
    wait_for_retry();
    commit();
    CHECK(1, .all = "123");
    CHECK(3, .external = true, .all = "567");
    check_refused(0, 0);
}

/* The kernel counts jumps and gotos when it has taken all of it, and names nothing. */
TESTS(too_many_chains, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12");
    SET(2, .all = "1");
    commit();
    fake_kernel_limit_chains(1);
    SET(1, .all = "1");
    SET(2, .all = "12");
    commit_fails(); /* it has more of them already: nothing helps */
    check_refused(0, 0);
    fake_kernel_forgive();
    commit();
    size_t chains = 0;
    for (size_t most = 1; chains == 0; most++) { /* as many as there are */
        SET(1, .all = most % 2 ? "3" : "4");     /* something to send */
        fake_kernel_forgive();
        fake_kernel_limit_chains(most);
        chains = try_commit(NULL) == 0 ? most : 0;
    }
    SET(1, .all = "123");
    SET(2, .all = "1");
    commit_within(2);
    check_refused(1, 0);
    CHECK(2, .all = "1");
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 1);
    fake_kernel_forgive();
    wait_for_retry();
    commit();
    CHECK(1, .all = "123");
}

/* ---- affinity ---- */

TESTS(numbers_of_affinity_are_refused, (2 * KERNELS))
{
    static const char *const sets[] = {"affinity_numbers", "affinity_backends"};
    begin_kernel(_i % KERNELS);
    SET(1, .all = "12", .timeout = 100, .group = 1);
    SET(2, .external = true, .all = "12", .timeout = 100, .group = 1);
    SET(3, .all = "12", .timeout = 100, .group = 2);
    commit();
    fake_kernel_limit(sets[_i / KERNELS], 4);
    SET(1, .all = "123", .timeout = 100, .group = 1);
    SET(2, .external = true, .all = "123", .timeout = 100, .group = 1);
    SET(3, .all = "13", .timeout = 100, .group = 2); /* frees one, takes one */
    SET(4, .all = "12");
    commit_within(4);
    CHECK(1, .all = "12");
    CHECK(2, .external = true, .all = "12");
    CHECK(4, .all = "12");
    fake_kernel_forgive();
    while (ruleset_retry_time(ruleset)) {
        wait_for_retry();
        commit();
    }
    CHECK(1, .all = "123");
    CHECK(3, .all = "13");
    settle();
}

/* ---- what belongs to no frontend ---- */

TESTS(a_cluster_ip_and_a_hairpin_are_refused, KERNELS)
{
    begin_kernel(_i);
    struct frontend one = frontend(1), two = frontend(2);
    struct backend b = backend(1), c = backend(2);
    fake_kernel_refuse("cluster_ips", one.address.bytes, address_length(family), EINVAL);
    fake_kernel_refuse("hairpin", b.address.bytes, address_length(family), EOVERFLOW);
    ruleset_set_cluster_ip(ruleset, &one.address, true);
    ruleset_set_cluster_ip(ruleset, &two.address, true);
    ruleset_set_hairpin(ruleset, IPPROTO_TCP, &b, true);
    ruleset_set_hairpin(ruleset, IPPROTO_TCP, &c, true);
    SET(3, .all = "12");
    commit_within(3);
    ck_assert_uint_eq(fake_kernel_size(family, "cluster_ips"), 1);
    ck_assert_uint_eq(fake_kernel_size(family, "hairpin"), 1);
    CHECK(3, .all = "12");
    check_refused(0, 2);
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 2);
    ruleset_set_hairpin(ruleset, IPPROTO_TCP, &b, false); /* nobody wants it any more */
    commit_within(1);
    check_refused(0, 1);
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    SET(3, .all = "1");
    commit_fails();
    commit();
    check_refused(0, 1);
    forgive(_i);
    wait_for_retry();
    commit();
    check_refused(0, 0);
    ck_assert_uint_eq(fake_kernel_size(family, "cluster_ips"), 2);
    ruleset_set_cluster_ip(ruleset, &one.address, false);
    ruleset_set_cluster_ip(ruleset, &two.address, false);
    ruleset_set_hairpin(ruleset, IPPROTO_TCP, &c, false);
    commit();
    ck_assert_uint_eq(fake_kernel_size(family, "cluster_ips"), 0);
}

TESTS(a_range_is_refused, (2 * KERNELS))
{
    bool end = _i / KERNELS; /* which of its ends */
    begin_kernel(_i % KERNELS);
    struct address bad = client(end ? 50 : 40);
    bad.bytes[15] = 0;
    fake_kernel_refuse("service_cidrs", bad.bytes, address_length(family), EINVAL);
    set_service_cidrs("10-19 40-49");
    SET(1, .all = "12");
    commit_within(3);
    CHECK(1, .all = "12");
    ck_assert_uint_eq(fake_kernel_size(family, "service_cidrs"), 1);
    check_refused(0, 1);
    set_service_cidrs("10-19 60-69"); /* it is not wanted any more */
    commit_within(1);
    check_refused(0, 0);
    ck_assert_uint_eq(fake_kernel_size(family, "service_cidrs"), 2);
}

/* ---- what is no refusal of something ---- */

/* The table is not as believed, or the kernel is short of something: nothing to put aside. */
TESTS(it_is_nobodys_fault, (7 * KERNELS))
{
    static const int whys[] = {EEXIST, ENOENT, EPERM, ENOMEM, ENOBUFS, EBUSY, EINTR};
    begin_kernel(_i % KERNELS);
    SET(1, .all = "12");
    SET(3, .all = "1");
    commit();
    SET(1, .all = "1");
    SET(2, .all = "1");
    refuse("services", 2, whys[_i / KERNELS]);
    fake_kernel_forget_counts();
    commit_fails();
    ck_assert_uint_eq(fake_kernel_counts()->attempts, 1);
    CHECK(1, .all = "12");
    check_refused(0, 0);
    commit_fails();
    forgive(_i % KERNELS);
    commit();
    CHECK(1, .all = "1");
    CHECK(2, .all = "1");
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 0);
}

/* Others that fail since something is missing that was refused are innocent. */
TESTS(consequences_are_not_blamed, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12");
    SET(2, .all = "12");
    commit();
    SET(1, .all = "123"); /* P:2 goes, which is refused, so P:3 cannot come */
    SET(2, .all = "123");
    refuse("ports", 1, EINVAL);
    commit_within(4); /* the new chain first */
    CHECK(1, .all = "12");
    CHECK(2, .all = "123");
    check_refused(1, 0);
}

/* The table's own parts: nothing can be left out. */
TESTS(the_base_is_refused, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12");
    fake_kernel_refuse_chain("nat-prerouting", EINVAL);
    fake_kernel_forget_counts();
    commit_fails();
    ck_assert_uint_le(fake_kernel_counts()->attempts, 2);
    check_refused(0, 0);
    forgive(_i);
    commit();
    CHECK(1, .all = "12");
}

/* A kernel that refuses whatever it is asked to put into the table: a bounded number of times. */
TESTS(everything_is_refused, KERNELS)
{
    begin_kernel(_i);
    for (unsigned i = 1; i <= 100; i++)
        SET(i, .all = "12");
    for (size_t i = 0; i < SIZED; i++)
        fake_kernel_refuse(sized[i], NULL, 0, EINVAL);
    set_service_cidrs("10-19");
    commit_within(8);
    check_refused(200, 1); /* frontends and their service ports */
    for (int i = 0; i < 5; i++) {
        wait_for_retry();
        fake_kernel_forget_counts();
        try_commit(NULL);
        ck_assert_uint_le(fake_kernel_counts()->attempts, 8);
    }
    forgive(_i);
    now = ruleset_retry_time(ruleset) + 600;
    commit();
    check_refused(0, 0);
    CHECK(100, .all = "12");
}

/* ---- tables that are not what they were ---- */

TESTS(a_new_table_is_a_new_chance, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12");
    SET(2, .all = "3");
    refuse("services", 1, ENFILE);
    commit();
    check_refused(1, 0);
    forgive(_i);
    fake_kernel_drop_table(family);
    SET(2, .all = "4");
    commit_fails();
    commit();
    check_refused(0, 0);
    CHECK(1, .all = "12");
    CHECK(2, .all = "4");
}

/* One that cannot be made, for whatever reason, is no new chance each time. */
TESTS(a_new_table_is_one_new_chance, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12");
    SET(2, .all = "3");
    refuse("services", 1, EINVAL);
    commit();
    fake_kernel_drop_table(family);
    SET(2, .all = "4");
    refuse("services", 2, ENOMEM); /* too */
    for (int i = 0; i < 4; i++)
        commit_fails();
    ck_assert_uint_eq(ruleset_figures(ruleset)->refusals, 2);
    forgive(_i);
    refuse("services", 1, EINVAL);
    commit();
    check_refused(1, 0);
    CHECK(2, .all = "4");
}

TESTS(a_restart_finds_it_again, KERNELS)
{
    begin_kernel(_i);
    SET(1, .all = "12", .timeout = 100, .group = 1);
    SET(2, .all = "3");
    commit();
    refuse(NULL, 1, EINVAL);
    for (int round = 0; round < 2; round++) {
        SET(1, .all = "123", .timeout = 100, .group = 1);
        SET(2, .all = "45");
        commit_within(4);
        check_refused(1, 0);
        CHECK(1, .all = "12");
        CHECK(2, .all = "45");
        restart();
    }
    SET(1, .all = "123", .timeout = 100, .group = 1);
    SET(2, .all = "45");
    forgive(_i);
    commit();
    CHECK(1, .all = "123");
    settle();
}

/* A batch in pieces: what is refused in a later one. */
TESTS(pieces, KERNELS)
{
    begin_kernel(_i);
    fake_kernel_cut(true);
    for (unsigned i = 1; i <= 20; i++)
        SET(i, .all = "12");
    refuse("services", 7, EINVAL);
    if (try_commit(NULL)) /* some of it is in force */
        commit_within(100);
    check_refused(1, 0);
    for (unsigned i = 1; i <= 20; i++)
        check(i, i == 7 ? &nothing : &(const struct wish){.wanted = true, .all = "12"});
}

/* ---- who it is ---- */

static char *name_owner(void *ctx, const struct frontend *f)
{
    *(int *)ctx += 1;
    return f->port == 80 ? xstrdup("default/web:http") : NULL;
}

TEST(the_log_names_it)
{
    int asked = 0;
    config.owner = name_owner;
    config.ctx = &asked;
    begin(FAMILY_IPV4);
    SET(2, .all = "1");
    refuse("services", 2, ENFILE);
    commit();
    ck_assert_int_eq(asked, 1);
    ck_assert_msg(strstr(last_logged(LOG_LEVEL_ERROR),
                         "frontend=11.0.0.2:80/SCTP service=default/web:http was rejected "
                         "by the kernel") != NULL,
                  "%s", last_logged(LOG_LEVEL_ERROR));
    ck_assert_ptr_nonnull(strstr(last_logged(LOG_LEVEL_ERROR), "Too many open files in system"));
    refuse("services", 3, EINVAL);
    SET(3, .all = "1");
    commit();
    ck_assert_ptr_nonnull(
        strstr(last_logged(LOG_LEVEL_ERROR), "frontend=11.0.0.3:81/TCP was rejected"));
    SET(6, .all = "1", .group = 1);
    SET(4, .all = "1", .group = 1);
    refuse("endpoints", 4, EINVAL); /* a service port is named by its first frontend */
    commit();
    ck_assert_msg(strstr(last_logged(LOG_LEVEL_ERROR),
                         "frontend=11.0.0.4:80/UDP service=default/web:http was "
                         "rejected") != NULL,
                  "%s", last_logged(LOG_LEVEL_ERROR));
}

UNIT_FIXTURE(setup, teardown)
