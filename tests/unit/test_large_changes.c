/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A large change of one service port goes to the kernel in steps, against a kernel in memory: what
 * packets meet after each transaction, while another service port changes all the time.
 */
#include "unit.h"

#include "ruleset_fixture.h"

#include <errno.h>

#define MOST_ADDED 16
#define PORTION 40
#define OTHER 2 /* the frontend of the other service port */
#define FEW 12  /* elements of it, and of the ports themselves, in a commit */

/* By traffic policy Cluster, Local, and with affinity. */
enum kind { KIND_CLUSTER, KIND_LOCAL, KIND_AFFINE, KINDS };

/* Backends @first to @first + @n - 1. */
struct span {
    unsigned first, n;
};

static const struct change {
    struct span before, after;
} changes[] = {
    {{0, 0}, {0, 200}},    /* the first ones come */
    {{0, 3}, {0, 200}},    /* it grows, */
    {{0, 33}, {0, 60}},    /* among slots that are drawn, */
    {{0, 100}, {50, 200}}, /* and some go */
    {{0, 200}, {100, 3}},  /* it shrinks, to some that are new */
    {{0, 200}, {500, 190}} /* all are replaced */
};

static const enum fake_fault faults[] = {FAKE_REJECTS, FAKE_BUSY, FAKE_OUT_OF_MEMORY,
                                         FAKE_NO_BUFFERS, FAKE_LOSES_ANSWER};

static enum kind kind;
static unsigned others; /* how often the other one changed */

static bool is_in(const struct span *span, unsigned number)
{
    return number >= span->first && number < span->first + span->n;
}

static unsigned stayers(const struct change *change)
{
    unsigned n = 0;
    for (unsigned i = change->before.first; i < change->before.first + change->before.n; i++)
        n += is_in(&change->after, i);
    return n;
}

/* ---- what is desired ---- */

static void set(unsigned number, enum kind of_kind, const struct span *span)
{
    struct backend backends[MOST_BACKENDS];
    const bool local = of_kind == KIND_LOCAL;
    const struct port_route port = {.has_any = span->n > 0,
                                    .needs_cluster = !local,
                                    .needs_local = local,
                                    .backends = backends,
                                    .n_backends = local ? 0 : span->n,
                                    .local_backends = backends,
                                    .n_local = local ? span->n : 0,
                                    .affinity_timeout = of_kind == KIND_AFFINE ? 60 : 0};
    const struct route route = {number + 1, (local ? CLASS_LOCAL : 0u) |
                                                (of_kind == KIND_AFFINE ? CLASS_AFFINE : 0u)};
    const struct frontend f = frontend(number);
    for (unsigned i = 0; i < span->n; i++)
        backends[i] = backend(span->first + i);
    ruleset_set_port(ruleset, number + 1, &port);
    ruleset_set(ruleset, &f, &route);
}

static void change_other(void)
{
    set(OTHER, KIND_CLUSTER, &(struct span){900 + ++others % 5, 3});
}

/* ---- what packets meet ---- */

static unsigned number_of(const struct fake_destination *to)
{
    return to->backend.address.bytes[2] << 8 | to->backend.address.bytes[3];
}

static void check_other(void)
{
    const struct frontend f = frontend(OTHER);
    const struct span span = {900 + others % 5, 3};
    struct fake_route route = fake_kernel_route(&f, &(struct fake_client){.interface = "eth0"});
    ck_assert_uint_eq(route.n, span.n);
    for (size_t i = 0; i < route.n; i++)
        ck_assert(is_in(&span, number_of(&route.to[i])));
    fake_route_free(&route);
    ck_assert(!ruleset_port_is_waiting(ruleset, OTHER + 1));
}

/* All those that stay are met, and no others but those that are desired; or were, if @perhaps
 * nothing is applied yet. Returns how many are met. */
static size_t check_packets(const struct change *change, bool perhaps)
{
    const struct frontend f = frontend(1);
    struct fake_route route = fake_kernel_route(&f, &(struct fake_client){.interface = "eth0"});
    const size_t n = route.n;
    unsigned n_stay = 0;
    ck_assert(change->before.n * change->after.n == 0 || route.fate == FAKE_BALANCED);
    for (size_t i = 0; i < n; i++) {
        const unsigned number = number_of(&route.to[i]);
        const bool was = is_in(&change->before, number), is = is_in(&change->after, number);
        ck_assert(is || (perhaps && was));
        n_stay += is && was;
    }
    ck_assert_uint_eq(n_stay, stayers(change));
    fake_route_free(&route);
    return n;
}

/* ---- a client that session affinity remembers ---- */

/* One of those that stay, or 0. */
static unsigned remembered(const struct change *change)
{
    return kind == KIND_AFFINE && stayers(change) > 0 ? change->after.first : 0;
}

static void remember(unsigned number)
{
    const uint32_t port = port_of(1);
    const struct backend b = backend(number);
    const struct address from = client(1);
    struct key by_backend = key_of_number(port), by_client = key_of_number(port);
    size_t length;
    key_put_address(&by_backend, family, &b.address);
    key_put_port(&by_backend, b.port);
    key_put_address(&by_client, family, &from);
    const uint8_t *value =
        fake_kernel_value(family, "affinity_numbers", by_backend.bytes, by_backend.length, &length);
    ck_assert_ptr_nonnull(value);
    fake_kernel_put(family, "affinity", by_client.bytes, by_client.length, value, length);
}

static void check_remembered(unsigned number)
{
    const struct frontend f = frontend(1);
    struct fake_route route = fake_kernel_route(&f, &(struct fake_client){.address = client(1)});
    ck_assert_uint_eq(route.n, 1);
    ck_assert_uint_eq(number_of(&route.to[0]), number);
    fake_route_free(&route);
}

/* ---- steps ---- */

static void set_up(void)
{
    setup();
    config.most_added = MOST_ADDED;
    config.portion = PORTION;
    others = 0;
}

static void begin_with(int which, enum kind of_kind, const struct change *change)
{
    begin(which);
    kind = of_kind;
    set(1, kind, &change->before);
    change_other();
    commit();
    if (remembered(change))
        remember(remembered(change));
}

/* Commits, after a change of the other one. @n is how many packets met before. */
static bool step(const struct change *change, bool perhaps, size_t *n)
{
    struct commit_stats stats;
    change_other();
    const bool applied = try_commit(&stats) == 0;
    const size_t met = check_packets(change, perhaps && !applied);
    if (remembered(change))
        check_remembered(remembered(change));
    if (applied)
        check_other();
    ck_assert(met <= *n + MOST_ADDED + PORTION || change->before.n == 0);
    ck_assert_uint_le(stats.elements_added,
                      SLOT_ELEMENTS * (MOST_ADDED + change->before.n) + PORTION + FEW);
    *n = met;
    return applied;
}

/* Until all of it is applied; returns in how many commits. */
static unsigned step_through(const struct change *change)
{
    unsigned turns = 0;
    size_t n = check_packets(change, true);
    bool begun = false, waits = true;
    for (; waits; turns++) {
        begun = step(change, !begun, &n) || begun;
        waits = ruleset_port_is_waiting(ruleset, 2);
        ck_assert(waits || n == change->after.n);
        ck_assert(!waits || ruleset_needs_commit(ruleset, now));
        ck_assert_uint_lt(turns, 50);
    }
    return turns;
}

static void wait_for_rest(void)
{
    for (int turns = 0; trim_time() != 0; turns++) {
        ck_assert_int_lt(turns, 50);
        now = now > trim_time() ? now : trim_time();
        ck_assert_int_eq(try_commit(NULL), 0);
    }
}

/* Nothing is left over. */
static void check_rest(const struct change *change)
{
    wait_for_rest();
    ck_assert_uint_eq(check_packets(change, false), change->after.n);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints") +
                          fake_kernel_size(family, "local_endpoints"),
                      change->after.n + 3);
    ck_assert_uint_eq(fake_kernel_size(family, "affinity_numbers"),
                      kind == KIND_AFFINE ? change->after.n : 0);
    ck_assert_uint_eq(fake_kernel_size(family, "affinity_backends"),
                      kind == KIND_AFFINE ? change->after.n : 0);
    restart();
    set(1, kind, &change->after);
    set(OTHER, KIND_CLUSTER, &(struct span){900 + others % 5, 3});
    commit_sends(0, 0);
}

#define CASES (COUNT(changes) * KINDS * FAMILY_COUNT)

static const struct change *begin_case(int i)
{
    const struct change *change = &changes[i % COUNT(changes)];
    begin_with(i / COUNT(changes) / KINDS, (enum kind)(i / COUNT(changes) % KINDS), change);
    return change;
}

TESTS(from_one_to_another, CASES)
{
    const struct change *change = begin_case(_i);
    set(1, kind, &change->after);
    const unsigned turns = step_through(change);
    const size_t comes =
        change->after.n > change->before.n ? change->after.n - change->before.n : 0;
    const size_t each = kind == KIND_AFFINE ? PORTION / SLOT_ELEMENTS : PORTION;
    ck_assert_uint_eq(turns, comes <= MOST_ADDED ? 1 : 1 + (comes - MOST_ADDED + each - 1) / each);
    check_rest(change);
}

/* In any way: their number and that of changes have no common divisor. */
TESTS(a_step_fails, CASES)
{
    const struct change *change = begin_case(_i);
    for (int nth = 1; nth <= 5; nth += 2) {
        fake_kernel_fail((unsigned)nth, faults[_i % COUNT(faults)]);
        set(1, kind, &change->after);
        step_through(change);
        fake_kernel_spare();
        wait_for_rest();
        set(1, kind, &change->before);
        step_through(&(struct change){change->after, change->before});
        wait_for_rest();
        if (remembered(change))
            remember(remembered(change));
    }
}

/* It goes on from where the one before it ended. */
TESTS(a_daemon_starts_amid_steps, CASES)
{
    const struct change *change = begin_case(_i);
    size_t n = change->before.n;
    set(1, kind, &change->after);
    step(change, true, &n);
    restart();
    set(1, kind, &change->after);
    set(OTHER, KIND_CLUSTER, &(struct span){900 + others % 5, 3});
    step_through(change);
    check_rest(change);
}

/* What is desired changes before all of it is applied. */
TESTS(another_change_amid_steps, CASES)
{
    const struct change *change = begin_case(_i);
    const struct change back = {change->after, {change->before.first, change->before.n + 1}};
    size_t n = change->before.n;
    set(1, kind, &change->after);
    step(change, true, &n);
    set(1, kind, &back.after);
    while (try_commit(NULL) || ruleset_port_is_waiting(ruleset, 2))
        change_other();
    check_rest(&back);
}

/* It stays with the steps that it has, and all others go on. */
TESTS(a_step_is_rejected, KINDS *FAMILY_COUNT)
{
    static const struct change change = {{0, 3}, {0, 200}};
    begin_with(_i / KINDS, (enum kind)(_i % KINDS), &change);
    const char *set_of_slots = kind == KIND_LOCAL ? "local_endpoints" : "endpoints";
    const struct key slot = key_of_slot(port_of(1), 100);
    fake_kernel_reject(set_of_slots, slot.bytes, slot.length, ENOSPC);
    set(1, kind, &change.after);
    size_t n = 3;
    while (ruleset_port_is_waiting(ruleset, 2))
        ck_assert(step(&change, true, &n));
    ck_assert(ruleset_port_is_rejected(ruleset, 2));
    ck_assert(n > 3 && n <= 100);
    ck_assert(step(&change, false, &n));
    fake_kernel_accept();
    now = ruleset_retry_time(ruleset);
    step_through(&change);
    ck_assert_uint_eq(ruleset_stats(ruleset)->rejected, 0);
    check_rest(&change);
}

UNIT_FIXTURE(set_up, teardown)
