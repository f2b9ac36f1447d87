/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of one family against a kernel in memory, which checks after each transaction what
 * packets rely on (fake_kernel.h). Here: that it holds what is wanted, that no more is sent than
 * the difference, and what happens when a commit fails or another table is found.
 */
#include "unit.h"

#include "ruleset_fixture.h"

/* Wants backends @first to @first + @n - 1 for a service port. */
static void set_port(unsigned number, unsigned first, unsigned n)
{
    struct backend *backends = xcalloc(n, sizeof(*backends));
    for (unsigned i = 0; i < n; i++)
        backends[i] = backend(first + i);
    const struct port_route port = {
        .has_any = n > 0, .needs_cluster = true, .backends = backends, .n_backends = n};
    ruleset_set_port(ruleset, number + 1, &port);
    free(backends);
}

static void lead(unsigned number, unsigned port)
{
    const struct frontend f = frontend(number);
    const struct route route = {.port = port + 1};
    ruleset_set(ruleset, &f, &route);
}

/* A frontend with a service port of its own. */
static void set(unsigned number, unsigned first, unsigned n)
{
    set_port(number, first, n);
    lead(number, number);
}

/* The same for one that wants @n_before from @before on, as a difference. */
static bool change(unsigned number, unsigned before, unsigned n_before, unsigned first, unsigned n)
{
    struct backend_change *changes = xcalloc(n_before + n, sizeof(*changes));
    struct port_route_change difference = {.backends = changes};
    for (unsigned i = first; i < first + n; i++)
        if (i < before || i >= before + n_before)
            changes[difference.n_backends++] = (struct backend_change){backend(i), true};
    for (unsigned i = before; i < before + n_before; i++)
        if (i < first || i >= first + n)
            changes[difference.n_backends++] = (struct backend_change){backend(i), false};
    bool taken = ruleset_change_port(ruleset, number + 1, &difference);
    free(changes);
    return taken;
}

/* ---- what the kernel holds ---- */

/* A frontend reaches exactly the backends @first to @first + @n - 1; or is rejected. */
static void check(unsigned number, unsigned first, unsigned n)
{
    struct frontend f = frontend(number);
    struct backend *reached = xcalloc(n, sizeof(*reached));
    ck_assert_uint_eq(fake_kernel_backends(&f, reached, n), n);
    qsort(reached, n, sizeof(*reached), compare_backends);
    for (unsigned i = 0; i < n; i++) {
        struct backend expected = backend(first + i);
        ck_assert_int_eq(backend_compare(&reached[i], &expected), 0);
    }
    ck_assert_int_eq(fake_kernel_rejects(&f), n == 0);
    free(reached);
}

static void check_gone(unsigned number)
{
    struct frontend f = frontend(number);
    ck_assert_uint_eq(fake_kernel_backends(&f, NULL, 0), 0);
    ck_assert(!fake_kernel_rejects(&f));
}

static void check_sizes(size_t ports, size_t endpoints, size_t picks, size_t rejects)
{
    ck_assert_uint_eq(fake_kernel_size(family, "ports"), ports);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), endpoints);
    ck_assert_uint_eq(fake_kernel_size(family, "picks"), picks);
    ck_assert_uint_eq(fake_kernel_size(family, "rejected_ports"), rejects);
}

/* ---- programming ---- */

EACH_FAMILY(first_commit_programs_everything)
{
    begin(_i);
    set(1, 0, 3);
    set(2, 10, 3);
    set(3, 20, 1);
    set(4, 0, 0);
    ck_assert(ruleset_needs_commit(ruleset, now));
    ck_assert_uint_eq(ruleset_frontends(ruleset), 4);
    struct ruleset_stats stats = commit();
    check(1, 0, 3);
    check(2, 10, 3);
    check(3, 20, 1);
    check(4, 0, 0);
    check_sizes(3, 7, 2, 1);
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 1);
    ck_assert_uint_eq(fake_kernel_counts()->tables, 1);
    ck_assert_uint_eq(stats.elements_added, 4 + 3 + 7 + 2 + 1);
    ck_assert_uint_eq(stats.elements_deleted, 0);
    ck_assert_uint_gt(stats.bytes, 1000);

    ck_assert_str_eq(fake_kernel_comment(family), ruleset->comment);
    ck_assert_ptr_null(fake_kernel_comment(family == FAMILY_IPV4 ? FAMILY_IPV6 : FAMILY_IPV4));
    commit_sends(0, 0);
}

EACH_FAMILY(an_empty_ruleset_makes_an_empty_table)
{
    begin(_i);
    ck_assert(ruleset_needs_commit(ruleset, now));
    commit();
    check_sizes(0, 0, 0, 0);
    commit_sends(0, 0);
}

EACH_FAMILY(the_first_slots_are_in_order)
{
    begin(_i);
    set(1, 5, 4);
    commit();
    struct frontend f = frontend(1);
    struct backend reached[4];
    ck_assert_uint_eq(fake_kernel_backends(&f, reached, 4), 4);
    for (unsigned i = 0; i < 4; i++) {
        struct backend expected = backend(5 + i);
        ck_assert_int_eq(backend_compare(&reached[i], &expected), 0);
    }
}

/* One endpoint changes of a frontend that has @n, beside others: what is sent does not depend on
 * @n. */
static void check_lone_changes(unsigned n)
{
    set(1, 100, n);
    set(2, 100, n - 1); /* so that no pick chain is new */
    set(3, 100, n + 1);
    commit();
    set(1, 101, n); /* one replaced by another: 100 by 100 + n */
    commit_sends(1, 1);
    check(1, 101, n);
    set(1, 102, n - 1); /* one less: its slot gets the last one; the count */
    commit_sends(2, 2);
    check(1, 102, n - 1);
    wait_for_trims();
    commit_sends(0, 1);
    set(1, 102, n); /* one more: a slot and the count */
    commit_sends(2, 1);
    check(1, 102, n);
    set(1, 102, n + 1);
    commit_sends(2, 1);
    check(1, 102, n + 1);
    set(1, 102, n); /* the last one goes: the count alone */
    commit_sends(1, 1);
    check(1, 102, n);
    wait_for_trims();
    commit_sends(0, 1);
}

EACH_FAMILY(a_change_sends_a_handful_of_elements)
{
    begin(_i);
    check_lone_changes(3);
    check_lone_changes(10);
    check_lone_changes(1000);
}

static void check_lone_differences(unsigned n)
{
    set(1, 100, n);
    set(2, 100, n - 1);
    set(3, 100, n + 1);
    commit();
    ck_assert(change(1, 100, n, 101, n));
    commit_sends(1, 1);
    check(1, 101, n);
    ck_assert(change(1, 101, n, 102, n - 1));
    commit_sends(2, 2);
    check(1, 102, n - 1);
    ck_assert(change(1, 102, n - 1, 102, n)); /* into the slot that is not trimmed yet */
    commit_sends(2, 2);
    check(1, 102, n);
    ck_assert(change(1, 102, n, 102, n + 1));
    commit_sends(2, 1);
    check(1, 102, n + 1);
    ck_assert(change(1, 102, n + 1, 102, n));
    commit_sends(1, 1);
    wait_for_trims();
    commit_sends(0, 1);
    ck_assert(change(1, 102, n, 103, n)); /* there and back */
    ck_assert(change(1, 103, n, 102, n));
    commit_sends(0, 0);
    check(1, 102, n);
}

EACH_FAMILY(a_difference_sends_a_handful_of_elements)
{
    begin(_i);
    check_lone_differences(3);
    check_lone_differences(10);
    check_lone_differences(1000);
}

/* That would be a mistake of whoever says so; it costs one look at all of the frontend. */
EACH_FAMILY(differences_to_something_else)
{
    begin(_i);
    set(1, 0, 10);
    set(2, 0, 10);
    commit();
    forget_logged();
    ck_assert(change(1, 50, 1, 10, 1)); /* 50 goes, and was never there */
    ck_assert(change(2, 3, 0, 3, 2));   /* 3 and 4 come, and are there */
    ck_assert(change(2, 50, 3, 0, 0));  /* and more go than there are of these */
    commit();
    check(1, 0, 11);
    check(2, 0, 10);
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 2);
    ck_assert_uint_eq(ruleset_figures(ruleset)->mistakes, 2);
    ck_assert(change(1, 0, 11, 1, 10));
    ck_assert(change(2, 0, 10, 1, 10));
    commit();
    check(1, 1, 10);
    check(2, 1, 10);
    ck_assert_uint_eq(ruleset_figures(ruleset)->mistakes, 2);
}

/* A difference to something that is not known, or not in force. */
EACH_FAMILY(differences_that_are_not_taken)
{
    begin(_i);
    ck_assert(!change(1, 0, 0, 0, 1)); /* there is no such service port */
    set(1, 0, 2);
    ck_assert(!change(1, 0, 2, 0, 3)); /* it is not in force yet */
    commit();
    fake_kernel_fail(2, FAKE_REFUSES);
    ck_assert(change(1, 0, 2, 0, 3));
    ck_assert(try_commit(NULL) != 0);
    fake_kernel_spare();
    ck_assert(!change(1, 0, 3, 0, 4)); /* it is not known what is in force */
    commit();
    check(1, 0, 3);
    ck_assert(change(1, 0, 3, 0, 4));
    drop(1);
    ck_assert(!change(1, 0, 4, 0, 5));
    commit();
    ck_assert(!change(1, 0, 4, 0, 5));
    check_gone(1);
}

/* It goes ahead of the counts that lead to it: packets on their way would find it empty. */
EACH_FAMILY(a_new_number_of_backends_adds_one_chain)
{
    begin(_i);
    set(1, 0, 2);
    set(2, 0, 2);
    commit();
    fake_kernel_forget_counts();
    set(1, 0, 3);
    set(2, 0, 3);
    set(3, 0, 3);
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 2);
    ck_assert_uint_eq(fake_kernel_counts()->chains, 1);
    ck_assert_uint_eq(fake_kernel_counts()->rules, 1);
    ck_assert_uint_eq(fake_kernel_counts()->verdicts, 1);
    check(3, 0, 3);
    set(1, 0, 2); /* the old one is known still */
    commit_sends(1, 1);
    fake_kernel_forget_counts();
    set(1, 0, 4);
    fake_kernel_fail(2, FAKE_REFUSES);
    ck_assert(try_commit(NULL) != 0);
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 1);
    ck_assert_uint_eq(fake_kernel_counts()->chains, 1);
    check(1, 0, 2);
    fake_kernel_spare();
    commit(); /* finds the chain */
    ck_assert_uint_eq(fake_kernel_counts()->chains, 1);
    check(1, 0, 4);
}

EACH_FAMILY(changes_before_a_commit_coalesce)
{
    begin(_i);
    set(1, 0, 3);
    commit();

    set(2, 0, 3);
    drop(2);
    ck_assert(ruleset_needs_commit(ruleset, now));
    ck_assert_uint_eq(ruleset_frontends(ruleset), 1);
    commit_sends(0, 0);
    check_gone(2);

    drop(1);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 0);
    set(1, 0, 3);
    commit_sends(0, 0);

    set(1, 5, 7);
    set(1, 0, 0);
    set(1, 0, 3);
    commit_sends(0, 0);
    check(1, 0, 3);

    drop(3); /* one that never was */
    commit_sends(0, 0);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 1);
}

EACH_FAMILY(balanced_rejected_balanced)
{
    begin(_i);
    set(1, 0, 3);
    commit();
    set(1, 0, 0);
    commit_sends(1, 1); /* not its slots, yet */
    check(1, 0, 0);
    check_sizes(0, 3, 1, 1);
    set(1, 0, 3);
    commit_sends(1, 1); /* the slots are there still */
    check(1, 0, 3);
    set(1, 0, 0);
    commit_sends(1, 1);
    wait_for_trims();
    commit_sends(0, 3);
    check_sizes(0, 0, 1, 1);
    set(1, 0, 3);
    commit_sends(4, 1);
    check(1, 0, 3);
    check_sizes(1, 3, 1, 0);
}

EACH_FAMILY(removal)
{
    begin(_i);
    set(1, 0, 3);
    set(2, 0, 0);
    set(3, 0, 3);
    commit();
    drop(1);
    drop(2);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 1);
    commit_sends(0, 2);
    check_gone(1);
    check_gone(2);
    check(3, 0, 3);
    check_sizes(2, 6, 1, 1);
    wait_for_trims();
    commit_sends(0, 1 + 3 + 1);
    check_sizes(1, 3, 1, 0);
    drop(1);
    commit_sends(0, 0);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 1);
    ck_assert_uint_eq(ruleset->frontends.n, 1); /* no memory of what is gone */
    ck_assert_uint_eq(ruleset->ports.n, 1);
}

/* ---- trims ---- */

EACH_FAMILY(trims_wait_for_their_time)
{
    begin(_i);
    set(1, 0, 5);
    set(2, 0, 2);
    commit();
    ck_assert(ruleset_trim_time(ruleset) == 0);
    set(1, 0, 2);
    commit_sends(1, 1);
    double due = ruleset_trim_time(ruleset);
    ck_assert(due == now + RULESET_TRIM_DELAY);
    check_sizes(2, 7, 2, 0);

    now = due - 0.01;
    ck_assert(!ruleset_needs_commit(ruleset, now));
    commit_sends(0, 0);
    set(2, 1, 2); /* another change does not bring it forward */
    commit_sends(1, 1);
    check_sizes(2, 7, 2, 0);
    ck_assert(ruleset_trim_time(ruleset) == due);

    now = due;
    ck_assert(ruleset_needs_commit(ruleset, now));
    commit_sends(0, 3);
    check_sizes(2, 4, 2, 0);
    ck_assert(ruleset_trim_time(ruleset) == 0);
    check(1, 0, 2);
}

/* Frontends that shrink one after the other are each trimmed in time, and soon after it. */
EACH_FAMILY(each_trim_has_its_own_time)
{
    begin(_i);
    for (unsigned i = 0; i < 20; i++)
        set(i, 0, 2);
    set(99, 0, 1);
    commit();
    for (unsigned i = 0; i < 20; i++) {
        set(i, 0, 1);
        commit();
        now += RULESET_TRIM_DELAY / 5;
    }
    /* The fake kernel checks that none was early. These were done in time: */
    ck_assert_uint_le(fake_kernel_size(family, "endpoints"), 1 + 20 + 15);
    for (int turns = 0; ruleset_trim_time(ruleset) != 0; turns++) {
        ck_assert_int_lt(turns, 5);
        now = ruleset_trim_time(ruleset);
        commit();
    }
    check_sizes(21, 21, 2, 0);
}

EACH_FAMILY(a_trim_goes_with_other_changes)
{
    begin(_i);
    set(1, 0, 4);
    set(2, 0, 2);
    commit();
    set(1, 0, 2);
    commit();
    wait_for_trims();
    set(2, 1, 2);
    commit_sends(1, 1 + 2);
    check_sizes(2, 4, 2, 0);
}

EACH_FAMILY(regrown_before_the_trim)
{
    begin(_i);
    set(1, 0, 5);
    set(2, 0, 2);
    set(3, 0, 4);
    commit();
    set(1, 0, 2);
    commit();
    set(1, 0, 4); /* slots 2 and 3 hold the right ones still */
    commit_sends(1, 1);
    check(1, 0, 4);
    wait_for_trims();
    commit_sends(0, 1); /* slot 4 only */
    check(1, 0, 4);
    check_sizes(3, 4 + 2 + 4, 3, 0);

    set(1, 0, 2);
    commit();
    set(1, 50, 4); /* others: all four are replaced */
    commit_sends(1 + 4, 1 + 4);
    check(1, 50, 4);
    wait_for_trims();
    commit_sends(0, 0);
    check(1, 50, 4);
}

/* It grows again in the very commit in which its slots would be deleted. */
EACH_FAMILY(regrown_with_the_trim)
{
    begin(_i);
    set(1, 0, 6);
    set(2, 0, 2);
    set(3, 0, 4);
    commit();
    set(1, 0, 2);
    commit();
    wait_for_trims();
    set(1, 0, 4);
    commit_sends(1, 1 + 2); /* the count; slots 4 and 5 */
    check(1, 0, 4);
    check_sizes(3, 4 + 2 + 4, 3, 0);

    set(1, 0, 2);
    commit();
    wait_for_trims();
    set(1, 0, 0); /* or shrinks further */
    commit_sends(1, 1 + 2);
    wait_for_trims();
    commit_sends(0, 2);
    check(1, 0, 0);
    check_sizes(2, 6, 3, 1);
}

EACH_FAMILY(shrunk_twice)
{
    begin(_i);
    set(1, 0, 4);
    set(2, 0, 3);
    set(3, 0, 2);
    commit();
    set(1, 0, 3);
    commit();
    now += RULESET_TRIM_DELAY * 0.9;
    set(1, 0, 2);
    commit();
    now += RULESET_TRIM_DELAY * 0.2;
    commit(); /* the fake kernel sees to it that slot 2 is not deleted now */
    check(1, 0, 2);
    wait_for_trims();
    commit();
    check_sizes(3, 2 + 3 + 2, 3, 0);
}

EACH_FAMILY(gone_and_back_while_its_slots_wait)
{
    begin(_i);
    set(1, 0, 3);
    set(2, 0, 2);
    commit();
    drop(1);
    commit();
    set(1, 0, 2);
    commit_sends(1 + 1, 1);
    drop(1);
    commit_sends(0, 1);
    wait_for_trims();
    commit_sends(0, 1 + 3);
    check_sizes(1, 2, 2, 0);
    drop(1);
    commit_sends(0, 0);
}

/* ---- several frontends of a service port ---- */

#define SHARERS 5u

/* Frontends 1 to 5 of service port 1. */
static void set_shared(unsigned first, unsigned n)
{
    set_port(1, first, n);
    for (unsigned i = 1; i <= SHARERS; i++)
        lead(i, 1);
}

static void check_shared(unsigned first, unsigned n)
{
    for (unsigned i = 1; i <= SHARERS; i++)
        check(i, first, n);
}

/* Its service port stays. */
static void drop_frontend(unsigned number)
{
    const struct frontend f = frontend(number);
    ruleset_remove(ruleset, &f);
}

static void drop_port(unsigned number)
{
    ruleset_remove_port(ruleset, number + 1);
}

EACH_FAMILY(frontends_share_the_slots_of_their_port)
{
    begin(_i);
    set_shared(0, 7);
    struct ruleset_stats stats = commit();
    ck_assert_uint_eq(stats.elements_added, SHARERS + 7 + 1 + 1); /* its number, and the chain's */
    ck_assert_uint_eq(fake_kernel_size(family, "services"), SHARERS);
    check_sizes(1, 7, 1, 0);
    check_shared(0, 7);
    lead(6, 1);
    commit_sends(1, 0);
    check(6, 0, 7);
    drop_frontend(6);
    commit_sends(0, 1);
    check_gone(6);
    check_shared(0, 7);
    ck_assert(ruleset_trim_time(ruleset) == 0);
}

/* What one of its endpoints costs does not depend on how many frontends lead to it. */
EACH_FAMILY(an_endpoint_changes_for_all_frontends_at_once)
{
    begin(_i);
    set_shared(0, 7);
    set(8, 0, 6); /* so that no pick chain is new */
    set(9, 0, 8);
    commit();
    ck_assert(change(1, 0, 7, 1, 7)); /* one replaced: a slot */
    commit_sends(1, 1);
    check_shared(1, 7);
    ck_assert(change(1, 1, 7, 1, 8)); /* one more: a slot and the count */
    commit_sends(2, 1);
    check_shared(1, 8);
    ck_assert(change(1, 1, 8, 2, 7)); /* one less: its slot gets the last one; the count */
    commit_sends(2, 2);
    check_shared(2, 7);
    wait_for_trims();
    commit_sends(0, 1);
    set_port(1, 0, 0); /* none: the rejection of all, and its number */
    commit_sends(1, 1);
    check_shared(0, 0);
    wait_for_trims();
    commit_sends(0, 7);
    set_port(1, 0, 6);
    commit_sends(1 + 6, 1);
    check_shared(0, 6);
}

/* From no endpoint at all to traffic policy Local with endpoints elsewhere: what rejected stays for
 * a moment, and drops at once. */
EACH_FAMILY(a_rejection_becomes_a_drop)
{
    static const struct wish local = {.wanted = true, .local = true, .all = "12"};
    const struct world nothing = {0};
    begin(_i);
    SET(1, .all = "");
    commit();
    tell(1, &local);
    commit();
    check_wish(1, &local, &nothing);
    settle();
    check_wish(1, &local, &nothing);
    ck_assert_uint_eq(fake_kernel_size(family, "rejected_ports"), 0);
}

EACH_FAMILY(a_shared_port_goes_by_a_trim)
{
    begin(_i);
    set_shared(0, 3);
    set(9, 0, 3);
    commit();
    for (unsigned i = 1; i <= SHARERS; i++)
        drop_frontend(i);
    drop_port(1);
    commit_sends(0, SHARERS);
    check_gone(1);
    check_sizes(2, 3 + 3, 1, 0);
    ck_assert(ruleset_trim_time(ruleset) == now + RULESET_TRIM_DELAY);
    now += RULESET_TRIM_DELAY / 2;
    commit_sends(0, 0);
    now = ruleset_trim_time(ruleset);
    commit_sends(0, 1 + 3);
    check_sizes(1, 3, 1, 0);
    ck_assert(ruleset_trim_time(ruleset) == 0);
    ck_assert_uint_eq(ruleset->frontends.n, 1);
    ck_assert_uint_eq(ruleset->ports.n, 1);
    check(9, 0, 3);
}

/* It is nobody's any more, but packets get there by the frontends that are left. */
EACH_FAMILY(a_port_stays_for_its_last_frontend)
{
    begin(_i);
    set_shared(0, 3);
    set(9, 0, 3);
    commit();
    drop_port(1);
    commit_sends(0, 0);
    fake_kernel_drop_table(family);
    set(9, 1, 3);
    commit_fails();
    commit(); /* makes all of it anew */
    for (unsigned i = 1; i <= SHARERS; i++) {
        check(i, 0, 3);
        drop_frontend(i);
        commit_sends(0, 1);
        ck_assert_int_eq(ruleset_trim_time(ruleset) > 0, i == SHARERS);
        now += RULESET_TRIM_DELAY / 2;
    }
    wait_for_trims();
    commit_sends(0, 1 + 3);
    check_sizes(1, 3, 1, 0);
}

EACH_FAMILY(a_port_that_is_wanted_waits_for_frontends)
{
    begin(_i);
    set(1, 0, 3);
    commit();
    drop_frontend(1);
    commit_sends(0, 1);
    wait_for_trims();
    commit_sends(0, 0);
    lead(2, 1);
    commit_sends(1, 0);
    check(2, 0, 3);
}

EACH_FAMILY(a_frontend_moves_to_another_port)
{
    begin(_i);
    set_shared(0, 3);
    set(9, 10, 3);
    commit();
    lead(2, 9);
    commit_sends(1, 1);
    check(2, 10, 3);
    check(1, 0, 3);
    ck_assert(ruleset_trim_time(ruleset) == 0);
    set_port(8, 20, 3); /* one that is new */
    lead(2, 8);
    commit_sends(1 + 1 + 3, 1);
    check(2, 20, 3);
    lead(2, 9); /* the last one leaves its port */
    drop_port(8);
    commit_sends(1, 1);
    check(2, 10, 3);
    set_port(8, 20, 3);
    lead(2, 8); /* and is back before that is trimmed */
    commit_sends(1, 1);
    check(2, 20, 3);
    lead(2, 1);
    drop_port(8);
    commit_sends(1, 1);
    wait_for_trims();
    commit_sends(0, 1 + 3);
    check_shared(0, 3);
    check(9, 10, 3);
}

/* It leads to its old port until the list of its sources is complete. */
EACH_FAMILY(a_port_stays_for_a_frontend_that_waits)
{
    config.portion = 3;
    begin(_i);
    set(1, 0, 2);
    set(9, 10, 2);
    commit();
    range_vec sources = {0};
    ranges_of("1 3 5 7 9 11 13", &sources);
    const struct frontend f = frontend(1);
    const struct route route = {.port = 9 + 1, .sources = sources.v, .n_sources = sources.n};
    ruleset_set(ruleset, &f, &route);
    vec_free(&sources);
    drop_port(1);
    for (int portions = 0; portions < 2; portions++) {
        ck_assert_int_eq(try_commit(NULL), 0);
        ck_assert(ruleset_is_filling(ruleset));
        check(1, 0, 2);
        check_sizes(2, 4, 1, 0);
        wait_for_trims();
    }
    const struct ruleset_stats stats = commit();
    ck_assert_uint_eq(stats.elements_added, 1 + 1 + 1); /* prefix, the list, where it leads */
    ck_assert_uint_eq(stats.elements_deleted, 1);
    check(1, 10, 2);
    wait_for_trims();
    commit_sends(0, 1 + 2);
    check_sizes(1, 2, 1, 0);
}

/* Ids are the policy's: the next daemon may give others. */
EACH_FAMILY(restart_adopts_a_shared_port)
{
    begin(_i);
    set_shared(0, 3);
    set(9, 10, 1);
    commit();
    restart();
    set_port(9, 0, 3);
    set_port(1, 10, 1);
    for (unsigned i = SHARERS; i > 0; i--)
        lead(i, 9);
    lead(9, 1);
    commit_sends(0, 0);
    check_shared(0, 3);
    check(9, 10, 1);
    ck_assert(ruleset_trim_time(ruleset) == 0);
    set_port(9, 1, 3);
    commit_sends(1, 1);
    check_shared(1, 3);
}

/* The first one keeps what there is. */
EACH_FAMILY(restart_parts_what_was_shared)
{
    begin(_i);
    set_port(1, 0, 3);
    lead(1, 1);
    lead(2, 1);
    commit();
    restart();
    set(1, 0, 3);
    set(2, 0, 3);
    commit_sends(1 + 1 + 3, 1);
    check(1, 0, 3);
    check(2, 0, 3);
    restart();
    set_port(1, 0, 3); /* and one again */
    lead(1, 1);
    lead(2, 1);
    commit_sends(1, 1);
    wait_for_trims();
    commit_sends(0, 1 + 3);
    check_sizes(1, 3, 1, 0);
    check(2, 0, 3);
}

/* ---- adoption ---- */

static void want_some(void)
{
    set(1, 0, 3);
    set(2, 10, 1);
    set(3, 0, 0);
}

static void check_some(void)
{
    check(1, 0, 3);
    check(2, 10, 1);
    check(3, 0, 0);
    check_sizes(2, 4, 2, 1);
}

EACH_FAMILY(restart_with_equal_contents_sends_nothing)
{
    begin(_i);
    want_some();
    commit();
    restart();
    want_some();
    ck_assert(ruleset_needs_commit(ruleset, now));
    commit_sends(0, 0);
    check_some();
    ck_assert_uint_eq(ruleset_frontends(ruleset), 3);
    /* And it knows what is there. */
    set(1, 0, 1);
    commit_sends(1, 1);
    set(1, 0, 3);
    commit_sends(1, 1);
    check_some();
}

/* Slots may be in another order than a first programming would choose. */
EACH_FAMILY(restart_keeps_places)
{
    begin(_i);
    set(2, 0, 4);
    set(1, 0, 5);
    commit();
    set(1, 1, 4); /* 4 1 2 3 */
    commit();
    wait_for_trims();
    commit();
    restart();
    set(1, 1, 4);
    set(2, 0, 4);
    commit_sends(0, 0);
    check(1, 1, 4);
}

EACH_FAMILY(restart_with_differences_sends_just_these)
{
    begin(_i);
    set(1, 0, 3);
    set(2, 10, 1);
    set(3, 0, 0);
    set(4, 0, 3);
    set(5, 0, 0);
    commit();
    restart();
    set(1, 1, 3);  /* one replaced: 2 */
    set(2, 10, 1); /* the same: 0 */
    set(3, 30, 1); /* rejected before: 3 */
    set(6, 0, 0);  /* new: 2 */
    /* 4 and 5 are gone: 2, and their service ports a moment later */
    commit_sends(1 + 2 + 2, 1 + 1 + 2);
    check(1, 1, 3);
    check(2, 10, 1);
    check(3, 30, 1);
    check_gone(4);
    check_gone(5);
    check(6, 0, 0);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 4);
    wait_for_trims();
    commit_sends(0, 1 + 3 + 1);
    check_sizes(3, 5, 2, 1);
}

/* The daemon ended between a shrink and its trim. */
EACH_FAMILY(restart_deletes_slots_left_over)
{
    begin(_i);
    set(1, 0, 5);
    set(2, 0, 2);
    set(3, 0, 4);
    commit();
    set(1, 0, 2);
    drop(3);
    commit();
    check_sizes(3, 5 + 2 + 4, 3, 0);
    restart();
    set(1, 0, 2);
    set(2, 0, 2);
    commit_sends(0, 0);
    ck_assert(ruleset_trim_time(ruleset) > now);
    wait_for_trims();
    commit_sends(0, 3 + 1 + 4);
    check_sizes(2, 4, 3, 0);
}

static struct key frontend_key(unsigned number)
{
    struct frontend f = frontend(number);
    return key_of_frontend(&f);
}

/* The highest half of all addresses. */
static struct key source_key(uint32_t list)
{
    return key_of_source(family, list, &(struct cidr){{{0x80}}, 1});
}

static struct key slot_key(unsigned number, uint32_t slot)
{
    return key_of_slot(port_of(number), slot);
}

static void take(const char *set_name, struct key key)
{
    fake_kernel_take(family, set_name, key.bytes, key.length);
}

static void put(const char *set_name, struct key key, struct key value)
{
    fake_kernel_put(family, set_name, key.bytes, key.length, value.length ? value.bytes : NULL,
                    value.length);
}

static struct key number_key(uint32_t number)
{
    struct key key = {.length = 0};
    key_put_number(&key, number);
    return key;
}

static struct key address_key(struct address address)
{
    struct key key = {.length = 0};
    key_put_address(&key, family, &address);
    return key;
}

static struct key backend_value(struct backend b)
{
    return value_of_backend(family, &b);
}

/* Other lengths and contents. */
static struct key longer_by(struct key key, int bytes)
{
    key.length = (size_t)((int)key.length + bytes);
    return key;
}

static const struct key nothing;

/* Somebody deleted a slot that a count reaches: it is filled again. */
EACH_FAMILY(restart_fills_holes)
{
    begin(_i);
    want_some();
    commit();
    take("endpoints", slot_key(1, 1));
    restart();
    want_some();
    commit_sends(1, 0);
    check_some();
}

/* Many slots are read by their keys, which what leads to them tells. */
TESTS(restart_reads_many_slots_by_their_keys, 2 * FAMILY_COUNT)
{
    config.dump_most = _i < FAMILY_COUNT ? 3 : 4;
    begin(_i % FAMILY_COUNT);
    want_some();
    commit();
    restart();
    want_some();
    commit_sends(0, 0);
    ck_assert_uint_eq(fake_kernel_counts()->looked_up, config.dump_most == 3 ? 4 : 0);
    check_some();
    set(1, 1, 3);
    commit_sends(1, 1);
}

/* Where the keys are not all that there is, a dump finds the rest. */
TESTS(restart_dumps_what_keys_do_not_tell, 3 * FAMILY_COUNT)
{
    config.dump_most = 1;
    begin(_i % FAMILY_COUNT);
    want_some();
    commit();
    bool hole = _i < 2 * FAMILY_COUNT, stray = _i < FAMILY_COUNT;
    if (hole)
        take("endpoints", slot_key(1, 1));
    if (stray)
        put("endpoints", slot_key(9, 0), backend_value(backend(1)));
    fake_kernel_tell_counts(hole);
    restart();
    want_some();
    commit_sends(hole, 0);
    check(1, 0, 3);
    check(2, 10, 1);
    wait_for_trims();
    commit_sends(0, stray);
    check_sizes(2, 4, 2, 1);
}

/* Elements that another program may have put there, readable ones. */
EACH_FAMILY(restart_repairs_elements)
{
    begin(_i);
    want_some();
    commit();
    const uint32_t port = port_of(1);
    take("services", frontend_key(1));
    put("services", frontend_key(1), number_key(port | CLASS_EXTERNAL)); /* another class */
    put("rejected_ports", number_key(port_of(50)), nothing);
    put("endpoints", slot_key(60, 4), backend_value(backend(77)));
    restart();
    want_some();
    commit_sends(1, 2); /* the right class; the stranger's rejection */
    check(1, 0, 3);
    ck_assert(!fake_kernel_number(family, "rejected_ports", port_of(50)));
    wait_for_trims();
    commit_sends(0, 1); /* the stranger's slot */
    check_some();
}

static struct key join(struct key a, struct key b)
{
    memcpy(a.bytes + a.length, b.bytes, b.length);
    a.length += b.length;
    return a;
}

static struct key hairpin_key(struct backend b)
{
    struct key key = join(address_key(b.address), address_key(b.address));
    key_put_protocol(&key, IPPROTO_TCP);
    key_put_port(&key, b.port);
    return key;
}

static void put_range(const char *set_name, unsigned first, unsigned end)
{
    struct key behind = address_key(client(end));
    put(set_name, address_key(client(first)), nothing);
    fake_kernel_put_end(family, set_name, behind.bytes, behind.length);
}

static void want_contents(void)
{
    const struct backend b = backend(1);
    want_some();
    SET(5, .external = true, .local = true, .all = "12", .here = "1");
    ruleset_set_hairpin(ruleset, IPPROTO_TCP, &b, true);
    ruleset_set_cluster_ip(ruleset, &b.address, true);
    set_service_cidrs("10-19 30-39");
}

/* Elements of the other maps and sets that somebody put there or took away. */
EACH_FAMILY(restart_repairs_other_elements)
{
    const uint32_t port = 700 << PORT_LOW_BITS;
    begin(_i);
    want_contents();
    commit();
    struct sizes before = sizes_now(family);
    take("cluster_ips", address_key(backend(1).address));
    take("hairpin", hairpin_key(backend(1)));
    put("cluster_ips", address_key(backend(2).address), nothing);
    put("hairpin", hairpin_key(backend(2)), nothing);
    put_range("service_cidrs", 50, 60);
    put_range("pod_cidrs", 1, 2);
    put("local_ports", number_key(port_of(1)), number_key(port_of(1) | 1));
    put("local_endpoints", slot_key(1, 0), backend_value(backend(1)));
    put("local_endpoints", slot_key(2, 1), backend_value(backend(1)));
    put("local_ports", number_key(port), number_key(port | 1));
    put("affinity_timeouts", number_key(port_of(3)), number_key(10));
    put("affinity_timeouts", number_key(port), number_key(10));
    put("affinity_numbers", join(number_key(port), backend_value(backend(5))),
        number_key(port | 1));
    put("affinity_backends", number_key(port | 1), backend_value(backend(5)));
    put("local_affinity_backends", number_key(port | 1), backend_value(backend(5)));
    put("dropped_ports", number_key(port_of(1) | CLASS_LOCAL), nothing);
    put("rejected_ports", number_key(port_of(2)), nothing);
    put("rejected_ports", number_key(port), nothing);
    put("restricted", frontend_key(2), number_key(7 << 8));
    put("allowed_sources", source_key(7), nothing);
    put("allowed_sources", source_key(9), nothing);
    restart();
    want_contents();
    settle();
    struct sizes after = sizes_now(family);
    check_same_sizes(&after, &before);
    check(1, 0, 3);
    check(2, 10, 1);
    check(3, 0, 0);
    commit_sends(0, 0);
}

/* Elements that cannot be ours: each way to plant one. */
static void plant(int kind)
{
    const uint32_t port = port_of(9);
    struct key f = frontend_key(9), slot = slot_key(9, 0), padded = f, p = number_key(port),
               value = backend_value(backend(1)),
               no_port = backend_value((struct backend){.port = 0});
    switch (kind) {
    case 0: /* a key of another length */
        put("services", longer_by(f, -1), number_key(3));
        break;
    case 1: /* a value of another length */
        put("services", f, longer_by(number_key(3), -1));
        break;
    case 2: /* no count */
        put("ports", p, number_key(port));
        break;
    case 3:
        put("rejected_ports", longer_by(p, -1), nothing);
        break;
    case 4:
        put("endpoints", longer_by(slot, -4), value);
        break;
    case 5:
        put("endpoints", slot, longer_by(value, -4));
        break;
    case 6:
        put("endpoints", slot, no_port);
        break;
    case 7:
        put("picks", longer_by(number_key(3), -2), nothing);
        break;
    case 8: /* padding that no key of ours has: could never be deleted by its name */
        padded.bytes[padded.length - 1] = 1;
        put("restricted", padded, number_key(1 << 8));
        break;
    case 9: /* a table of another version */
        fake_kernel_set_comment(family, "kube-nftd layout 0000000000000000");
        break;
    case 10:
        fake_kernel_set_comment(family, NULL);
        break;
    case 11:
        fake_kernel_drop_set(family, "rejected_ports");
        break;
    case 12:
        put("learners", longer_by(number_key(30), -1), nothing);
        break;
    case 13:
        put("restricted", longer_by(f, 4), number_key(1 << 8));
        break;
    case 14:
        put("local_endpoints", longer_by(slot, 4), value);
        break;
    case 15:
        put("ports", p, longer_by(number_key(port | 1), -1));
        break;
    case 16:
        put("affinity_timeouts", longer_by(p, -1), number_key(1));
        break;
    case 17:
        put("dropped_ports", longer_by(p, -1), nothing);
        break;
    case 18:
        put("restricted", longer_by(f, -4), number_key(1 << 8));
        break;
    case 19: /* a source of nobody */
        put("allowed_sources", f, nothing);
        break;
    case 20:
        put("cluster_ips", longer_by(address_key(client(1)), -1), nothing);
        break;
    case 21:
        put("hairpin", address_key(client(1)), nothing);
        break;
    case 22:
        put("affinity_numbers", number_key(1 << 16), number_key(1 << 16 | 1));
        break;
    case 23:
        put("affinity_backends", number_key(1 << 16 | 1), number_key(1));
        break;
    case 24:
        put("local_affinity_backends", number_key(1 << 16 | 1), longer_by(value, 4));
        break;
    case 25:
        put("service_cidrs", longer_by(address_key(client(1)), -1), nothing);
        break;
    case 26: /* a range in another one, which the kernel would not have taken */
        set_service_cidrs("10-19");
        commit();
        put("service_cidrs", address_key(client(15)), nothing);
        break;
    case 27: /* an end without a start */
        padded = address_key(client(5));
        fake_kernel_put_end(family, "pod_cidrs", padded.bytes, padded.length);
        break;
    case 28: /* the length of a prefix where none can be */
        put("restricted", f, number_key(1 << 8 | 1));
        break;
    case 29:
        put("allowed_sources", join(address_key(client(1)), number_key(1 << 8)), nothing);
        break;
    case 30: /* bits that the length leaves out: no packet would find it */
        put("allowed_sources", join(address_key(client(1)), number_key(1 << 8 | 8)), nothing);
        break;
    case 31:
        put("allowed_sources", join(address_key(client(1)), number_key(1 << 8 | 129)), nothing);
        break;
    case 32: /* of no list */
        put("allowed_sources", source_key(0), nothing);
        break;
    case 33: /* a class that is not ours */
        put("services", f, number_key(port | CLASSES));
        break;
    case 34: /* no service port */
        put("services", f, number_key(CLASS_LOCAL));
        break;
    case 35: /* a count of another one */
        put("ports", p, number_key(port_of(10) | 3));
        break;
    case 36: /* something below the number */
        put("rejected_ports", number_key(port | 1), nothing);
        break;
    case 37: /* and nothing below it */
        put("dropped_ports", p, nothing);
        break;
    case 38:
        put("local_endpoints", key_of_slot(port | 1, 0), value);
        break;
    default:
        ck_abort_msg("no such kind");
    }
}

#define PLANTS 39

TESTS(another_table_is_replaced_in_one_transaction, (PLANTS * FAMILY_COUNT))
{
    begin(_i % FAMILY_COUNT);
    want_some();
    set(4, 0, 2);
    commit();
    plant(_i / FAMILY_COUNT);
    restart();
    want_some();
    commit_replaces_the_table();
    check_some();
    ck_assert_uint_eq(ruleset_frontends(ruleset), 3);
    commit_sends(0, 0);
    restart();
    want_some();
    commit_sends(0, 0);
}

/* What is no element of ours and no set: each way to break it. */
static void break_rules(int kind)
{
    switch (kind) {
    case 0: /* a pick for more than a number of backends */
        put("picks", number_key(6 << 16 | 3), nothing);
        break;
    case 1: /* a pick for no backends */
        put("picks", number_key(0), nothing);
        break;
    case 2: /* rules that are not there any more */
        fake_kernel_flush_chain(family, "dispatch");
        break;
    case 3:
        fake_kernel_flush_chain(family, "pick-3");
        break;
    case 4: /* and one that nobody of us put there */
        fake_kernel_copy_rule(family, "no-endpoints", "dispatch");
        break;
    case 5: /* and a number that leads nowhere */
        take("picks", number_key(3));
        break;
    case 6: /* a pick in the wrong map, whose chain is missing */
        put("local_picks", number_key(3), nothing);
        break;
    case 7:
        put("learners", number_key(30), nothing);
        break;
    default:
        ck_abort_msg("no such kind");
    }
}

#define BREAKS 8

TESTS(broken_rules_are_written_anew, (BREAKS * FAMILY_COUNT))
{
    begin(_i % FAMILY_COUNT);
    want_some();
    commit();
    break_rules(_i / FAMILY_COUNT);
    restart();
    want_some();
    fake_kernel_tolerate();
    commit_sends_rules(5);
    ck_assert_uint_eq(ruleset_figures(ruleset)->rewritten, 1);
    check_some();
    restart();
    want_some();
    commit_sends(0, 0);
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
}

EACH_FAMILY(the_other_family_is_left_alone)
{
    begin(_i);
    want_some();
    commit();
    ruleset_free(ruleset);
    begin(1 - _i);
    set(1, 0, 2);
    commit();
    check(1, 0, 2);
    check_sizes(1, 2, 1, 0);
    family = (enum family)_i;
    check_some();
}

/* ---- failures ---- */

EACH_FAMILY(a_refused_commit_keeps_what_was_wanted)
{
    begin(_i);
    want_some();
    fake_kernel_fail(1, FAKE_REFUSES);
    commit_fails();
    ck_assert_ptr_null(fake_kernel_comment(family));
    ck_assert_uint_eq(ruleset_frontends(ruleset), 3);
    commit();
    check_some();

    set(1, 1, 3);
    drop(2);
    fake_kernel_fail(1, FAKE_REFUSES);
    commit_fails();
    check_some(); /* all or nothing */
    set(4, 0, 3);
    ck_assert_uint_eq(ruleset_frontends(ruleset), 3);
    /* The table is read back: just the difference goes out. */
    commit_sends(1 + 5, 1 + 1);
    check(1, 1, 3);
    check_gone(2);
    check(3, 0, 0);
    check(4, 0, 3);
    wait_for_trims();
    commit_sends(0, 1 + 1);
    check_sizes(2, 6, 2, 1);
}

/* Slots that are in no order stay where they are when a commit for others fails. */
EACH_FAMILY(a_failure_keeps_places)
{
    begin(_i);
    set(1, 0, 7);
    set(2, 0, 6);
    commit();
    set(1, 1, 6); /* 6 1 2 3 4 5 */
    commit();
    set(2, 1, 6);
    fake_kernel_fail(1, FAKE_REFUSES);
    commit_fails();
    commit_sends(1, 1);
    check(1, 1, 6);
    check(2, 1, 6);
}

EACH_FAMILY(what_was_wanted_can_change_after_a_failure)
{
    begin(_i);
    want_some();
    commit();
    set(1, 5, 3);
    fake_kernel_fail(1, FAKE_REFUSES);
    commit_fails();
    set(1, 0, 3);
    commit_sends(0, 0);
    check_some();
}

EACH_FAMILY(a_lost_answer)
{
    begin(_i);
    want_some();
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    commit_fails();
    check_some(); /* it is in force */
    commit_sends(0, 0);
    set(1, 0, 1);
    set(2, 10, 3);
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    commit_fails();
    now += 1;
    commit_sends(0, 0);
    check(1, 0, 1);
    check(2, 10, 3);
    wait_for_trims(); /* what the lost transaction left over */
    commit_sends(0, 2);
    check_sizes(2, 4, 2, 1);
}

TESTS(a_failed_trim, 2 * FAMILY_COUNT)
{
    bool refused = _i / FAMILY_COUNT;
    begin(_i % FAMILY_COUNT);
    set(1, 0, 4);
    set(2, 0, 2);
    commit();
    set(1, 0, 2);
    commit();
    wait_for_trims();
    fake_kernel_fail(1, refused ? FAKE_REFUSES : FAKE_LOSES_ANSWER);
    commit_fails();
    commit_sends(0, 0);
    wait_for_trims();
    commit_sends(0, refused ? 2 : 0);
    check(1, 0, 2);
    check_sizes(2, 4, 2, 0);
}

EACH_FAMILY(the_table_goes_away)
{
    begin(_i);
    want_some();
    commit();
    fake_kernel_drop_table(family); /* nft flush ruleset */
    set(1, 1, 3);
    commit_fails();
    fake_kernel_forget_counts();
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->tables, 1);
    check(1, 1, 3);
    check(2, 10, 1);
    check(3, 0, 0);
    check_sizes(2, 4, 2, 1);
}

/* Another program took an element away that the daemon deletes. */
EACH_FAMILY(an_element_goes_away)
{
    begin(_i);
    want_some();
    commit();
    take("services", frontend_key(3));
    drop(3);
    set(1, 0, 1);
    commit_fails();
    check(1, 0, 3);
    commit_sends(1, 1 + 1); /* and its rejection, which nothing leads to */
    check(1, 0, 1);
    check_gone(3);
}

EACH_FAMILY(a_table_that_changes_is_read_again)
{
    begin(_i);
    want_some();
    commit();
    restart();
    want_some();
    fake_kernel_refuse_reads(1 + (unsigned)_i, 2, false);
    commit_sends(0, 0);
    check_some();
    ck_assert(!fake_kernel_spare());
}

/* Services, ports, rejects and endpoints have elements: a try is four reads, and two may be in
 * vain. */
TESTS(a_torn_answer_is_read_again, 8 * FAMILY_COUNT)
{
    begin(_i % FAMILY_COUNT);
    want_some();
    commit();
    restart();
    want_some();
    fake_kernel_tear_reads(1 + (unsigned)_i / FAMILY_COUNT);
    commit_sends(0, 0);
    check_some();
}

static void take_a_slot(void)
{
    take("endpoints", slot_key(1, 2));
}

EACH_FAMILY(only_the_last_reading_counts)
{
    begin(_i);
    want_some();
    commit();
    restart();
    want_some();
    /* The endpoints are the twelfth to be read. The first reading sees all or half of them. */
    fake_kernel_refuse_reads(12, 1, false);
    fake_kernel_while_refusing(take_a_slot);
    commit_sends(1, 0);
    check_some();
}

EACH_FAMILY(a_table_that_cannot_be_read_is_made_anew)
{
    begin(_i);
    want_some();
    commit();
    restart();
    want_some();
    fake_kernel_refuse_reads(3, 1000, false);
    commit_replaces_the_table();
    check_some();
    ck_assert(fake_kernel_spare());
    commit_sends(0, 0);
}

EACH_FAMILY(a_failed_look_at_the_table)
{
    begin(_i);
    want_some();
    fake_kernel_refuse_reads(1, 2, true);
    commit_fails();
    commit_fails();
    ck_assert_uint_eq(ruleset_frontends(ruleset), 3);
    commit();
    check_some();

    set(1, 0, 1); /* the same after a failed commit */
    fake_kernel_fail(1, FAKE_REFUSES);
    commit_fails();
    fake_kernel_refuse_reads(1, 1, true);
    set(4, 0, 0);
    commit_fails();
    commit_sends(1 + 2, 1);
    check(1, 0, 1);
    check(4, 0, 0);
}

/* ---- much at once ---- */

TESTS(more_backends_than_fit, unit_long(FAMILY_COUNT))
{
    config.portion = UINT32_MAX;
    begin(_i);
    set(1, 0, MAX_BACKENDS);
    commit();
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 0);
    check(1, 0, MAX_BACKENDS);
    set(2, 0, MAX_BACKENDS + 2);
    commit();
    ck_assert_int_eq(logged(LOG_LEVEL_ERROR), 1); /* it is said; the first ones are used */
    check(2, 0, MAX_BACKENDS);
    set(2, 1, MAX_BACKENDS);
    commit_sends(1, 1);
    check(2, 1, MAX_BACKENDS);
    ck_assert(!change(2, 1, MAX_BACKENDS, 1, MAX_BACKENDS - 1)); /* there may be more of them */
    set(2, 1, MAX_BACKENDS - 1);
    commit();
    ck_assert(change(2, 1, MAX_BACKENDS - 1, 2, MAX_BACKENDS - 1));
    ck_assert(change(2, 2, MAX_BACKENDS - 1, 1, MAX_BACKENDS - 1));
    ck_assert(!change(2, 1, MAX_BACKENDS - 1, 1, MAX_BACKENDS + 1));
    ck_assert(change(2, 1, MAX_BACKENDS - 1, 0, MAX_BACKENDS));
    commit_sends(2, 2); /* into the one that is to be trimmed */
    check(2, 0, MAX_BACKENDS);
}

EACH_FAMILY(a_big_batch_arrives)
{
    const unsigned services = 2000, n = 10;
    begin(_i);
    for (unsigned i = 0; i < services; i++)
        set(i, i, n);
    for (unsigned i = services; i < 2 * services; i++)
        set(i, 0, 0);
    struct ruleset_stats stats = commit();
    ck_assert_uint_gt(stats.bytes, 900000);
    ck_assert_uint_eq(stats.elements_added, services * (n + 2) + 2 * services + 1);
    for (unsigned i = 0; i < services; i++) {
        check(i, i, n);
        check(services + i, 0, 0);
    }
    check_sizes(services, services * n, 1, services);
    ck_assert_uint_gt(fake_kernel_counts()->messages, stats.bytes / 65536);
    ck_assert_uint_lt(fake_kernel_counts()->messages, 200);

    restart();
    for (unsigned i = 0; i < services; i++)
        set(i, i + 1, n);
    for (unsigned i = services; i < 2 * services; i++)
        set(i, 0, 0);
    commit_sends(services, services);
    for (unsigned i = 0; i < services; i++)
        check(i, i + 1, n);
}

/* ---- portions ---- */

#define PORTION 100

static void begin_with_portions(int which)
{
    config.portion = PORTION;
    begin(which);
    set(0, 0, 1);
    commit();
}

/* One of several. Returns whether it leaves something to be done now. */
static bool commit_portion(void)
{
    struct ruleset_stats stats;
    ck_assert_int_eq(try_commit(&stats), 0);
    ck_assert_uint_le(stats.elements_added, 2 * PORTION);
    ck_assert_uint_le(stats.elements_deleted, 2 * PORTION);
    return ruleset_needs_commit(ruleset, now);
}

static unsigned commit_portions(void)
{
    unsigned n = 1;
    for (; commit_portion(); n++)
        ck_assert_uint_lt(n, 1000);
    return n;
}

EACH_FAMILY(trims_go_in_portions)
{
    const unsigned services = 500;
    begin_with_portions(_i);
    for (unsigned i = 1; i <= services; i++)
        set(i, i, 3);
    commit();
    for (unsigned i = 1; i <= services; i++)
        drop(i);
    commit();
    wait_for_trims();
    ck_assert_uint_gt(commit_portions(), services * 4 / (2 * PORTION));
    settle();
    check_sizes(1, 1, 2, 0);
}

/* Its slots go ahead; when they are all there, the count that leads to them comes. */
EACH_FAMILY(one_frontend_goes_in_portions)
{
    const unsigned n = 10 * PORTION;
    begin_with_portions(_i);
    const struct frontend large = frontend(1);
    set(1, 0, n);
    for (unsigned i = 1; i < 10; i++) {
        set(2, i, 1);
        ck_assert(commit_portion());
        ck_assert(ruleset_is_filling(ruleset));
        check(2, i, 1);
        check_gone(1);
    }
    commit_portions();
    check(1, 0, n);
    set(1, n, n); /* all others: one portion after the other */
    while (commit_portion()) {
        struct backend *reached = xcalloc(n, sizeof(*reached));
        ck_assert_uint_eq(fake_kernel_backends(&large, reached, n), n);
        free(reached);
    }
    check(1, n, n);
    set(1, n, 2 * n); /* another wish while some of it went ahead */
    ck_assert(commit_portion());
    check(1, n, n);
    set(1, n + 7, n);
    commit_portions();
    check(1, n + 7, n);
    drop(1);
    commit();
    check_gone(1);
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_uint_gt(fake_kernel_size(family, "endpoints"), PORTION);
        wait_for_trims();
        commit_portion();
    }
    settle();
    check_sizes(2, 2, 3, 0);
}

/* A batch that does not fit the socket goes in several transactions. The fake kernel checks each
 * of them; none leaves a frontend without its backends. */
EACH_FAMILY(a_batch_in_pieces)
{
    const unsigned services = 1500;
    begin(_i);
    fake_kernel_cut(true);
    for (unsigned i = 0; i < services; i++)
        set(i, i, 2);
    set(9999, 0, 2000);
    commit();
    ck_assert_uint_gt(fake_kernel_counts()->transactions, 5);
    for (unsigned i = 0; i < services; i++)
        set(i, i + 2, 2 + i % 2); /* all slots are replaced, some counts */
    set(9999, 2000, 2000);
    commit();
    for (unsigned i = 0; i < services; i++)
        check(i, i + 2, 2 + i % 2);
    check(9999, 2000, 2000);
    for (unsigned i = 0; i < services; i++)
        set(i, 0, i % 3 ? 0 : 2);
    commit();
    for (unsigned i = 0; i < services; i++)
        check(i, 0, i % 3 ? 0 : 2);
    for (unsigned i = 0; i < services; i++)
        set(i, 0, 3);
    wait_for_trims();
    commit();
    for (unsigned i = 0; i < services; i++)
        check(i, 0, 3);
    wait_for_trims();
    commit();
    check_sizes(services + 1, services * 3 + 2000, 3, 0);
}

/* A middle piece fails: what is in force then is read back. */
EACH_FAMILY(a_batch_in_pieces_that_fails)
{
    begin(_i);
    fake_kernel_cut(true);
    for (unsigned i = 0; i < 1200; i++)
        set(i, i, 2);
    for (unsigned nth = 1; nth <= 9; nth += 2) {
        fake_kernel_fail(nth, nth % 4 == 1 ? FAKE_REFUSES : FAKE_LOSES_ANSWER);
        if (try_commit(NULL) == 0)
            break;
    }
    fake_kernel_spare();
    commit();
    for (unsigned i = 0; i < 1200; i++)
        check(i, i, 2);
    check_sizes(1200, 2400, 1, 0);
}

/* ---- cleanup ---- */

EACH_FAMILY(cleanup)
{
    struct error err = {0};
    bool existed = true;
    begin(_i);
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), 0);
    ck_assert(!existed);
    want_some();
    commit();
    fake_kernel_set_comment(family, "a table of another version");
    ck_assert_int_eq(ruleset_cleanup(sock, 1 - family, &existed, &err), 0);
    ck_assert(!existed);
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), 0);
    ck_assert(existed);
    ck_assert_uint_eq(fake_kernel_size(family, "services"), SIZE_MAX);
    commit();
    restart();
    want_some();
    commit();
    check_some();
    fake_kernel_fail(1, FAKE_REFUSES);
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), -1);
    error_clear(&err);
    fake_kernel_refuse_reads(1, 1, true);
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), -1);
    error_clear(&err);
}

UNIT_FIXTURE(setup, teardown)
