/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of one family with as much in it as there may be, against a kernel in memory. */
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
    backend_change_vec changes = {0};
    for (unsigned i = first; i < first + n; i++)
        if (i < before || i >= before + n_before)
            vec_push(&changes, (struct backend_change){backend(i), 0, BACKENDS_CLUSTER});
    for (unsigned i = before; i < before + n_before; i++)
        if (i < first || i >= first + n)
            vec_push(&changes, (struct backend_change){backend(i), BACKENDS_CLUSTER, 0});
    backend_changes_sum(&changes);
    bool taken = ruleset_change_port(ruleset, number + 1, &changes);
    vec_free(&changes);
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

TESTS(more_backends_than_fit, unit_long(FAMILY_COUNT))
{
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
    ck_assert(!change(2, 2, MAX_BACKENDS - 1, 1, MAX_BACKENDS - 1)); /* not before a commit */
    commit();
    ck_assert(change(2, 2, MAX_BACKENDS - 1, 1, MAX_BACKENDS - 1));
    commit();
    ck_assert(!change(2, 1, MAX_BACKENDS - 1, 1, MAX_BACKENDS + 1));
    ck_assert(change(2, 1, MAX_BACKENDS - 1, 0, MAX_BACKENDS));
    commit_sends(2, 1); /* into the one that is empty */
    check(2, 0, MAX_BACKENDS);
}

/* One more backend than numbers of affinity, since those on this node are others: it is balanced
 * without memory, all others are remembered. */
TESTS(more_backends_than_numbers, unit_long(FAMILY_COUNT))
{
    const size_t n = MAX_BACKENDS + 1;
    struct backend *many = xcalloc(n, sizeof(*many));
    struct port_route port = {.has_any = true,
                              .needs_cluster = true,
                              .needs_local = true,
                              .affinity_timeout = 60,
                              .backends = many,
                              .n_backends = n - 1,
                              .local_backends = many + n - 2,
                              .n_local = 2};
    const struct route route = {1, CLASS_EXTERNAL | CLASS_LOCAL | CLASS_AFFINE};
    begin(_i);
    fake_kernel_tolerate(); /* that one has no number */
    const struct frontend f = frontend(1);
    for (size_t i = 0; i < n; i++)
        many[i] = backend((unsigned)i);
    ruleset_set_port(ruleset, 1, &port);
    ruleset_set(ruleset, &f, &route);
    commit();
    ck_assert_uint_eq(fake_kernel_size(family, "affinity_numbers"), MAX_BACKENDS);
    ck_assert_uint_eq(fake_kernel_size(family, "local_affinity_backends"), 2);
    for (size_t times = 0; times < 2; times++) { /* numbers are free after the first */
        port.backends = many + 9;
        port.n_backends = n - 10 - times;
        ruleset_set_port(ruleset, 1, &port);
        commit();
        ck_assert_uint_eq(fake_kernel_size(family, "affinity_numbers"), n - 10 + times);
        ck_assert_uint_eq(fake_kernel_size(family, "local_affinity_backends"), 2);
    }
    free(many);
}

/* ---- an octave of numbers shares a chain ---- */

/* By traffic policy Cluster, Local, and with affinity. */
enum kind { KIND_CLUSTER, KIND_LOCAL, KIND_AFFINE, KINDS };

static void set_kind(enum kind kind, unsigned first, unsigned n)
{
    struct backend *backends = xcalloc(n, sizeof(*backends));
    const bool local = kind == KIND_LOCAL;
    const struct port_route port = {.has_any = true,
                                    .needs_cluster = !local,
                                    .needs_local = local,
                                    .backends = backends,
                                    .n_backends = local ? 0 : n,
                                    .local_backends = local ? backends : NULL,
                                    .n_local = local ? n : 0,
                                    .affinity_timeout = kind == KIND_AFFINE ? 60 : 0};
    const struct route route = {1, (local ? CLASS_LOCAL : 0u) |
                                       (kind == KIND_AFFINE ? CLASS_AFFINE : 0u)};
    const struct frontend f = frontend(1);
    for (unsigned i = 0; i < n; i++)
        backends[i] = backend(first + i);
    ruleset_set_port(ruleset, 1, &port);
    ruleset_set(ruleset, &f, &route);
    free(backends);
}

/* How much more than a fair share the backend in slot @at of @n gets, as a fraction, if numbers are
 * drawn as @route says. */
static double excess(const struct fake_route *route, unsigned n, unsigned at)
{
    double missed = 1;
    for (unsigned i = 1; i < route->most_draws; i++)
        missed *= 1 - (double)n / route->choices;
    const double last = at < route->last_choices ? missed / route->last_choices : 0;
    return ((1 - missed) / n + last) * n - 1;
}

/* Whatever a packet's random numbers are, it gets to one of the backends; and each gets as many. */
static void check_packets(unsigned first, unsigned n)
{
    const struct frontend f = frontend(1);
    struct fake_route route = fake_kernel_route(&f, &(struct fake_client){.interface = "eth0"});
    unsigned char *met = xcalloc(n, 1);
    ck_assert_int_eq(route.fate, FAKE_BALANCED);
    ck_assert_uint_eq(route.n, n);
    ck_assert_uint_eq(route.choices, drawn_slots(n));
    for (unsigned i = 0; i < n; i++) {
        const uint8_t *address = route.to[i].backend.address.bytes;
        const unsigned number = address[2] * 256u + address[3] - first;
        ck_assert(number < n && !met[number]);
        met[number] = 1;
    }
    ck_assert_int_eq(route.most_draws > 0, route.choices > n);
    if (route.most_draws > 0) {
        ck_assert_uint_le(route.last_choices, n); /* so there is always one */
        ck_assert_double_eq_tol(excess(&route, n, 0), 0, 0.002);
        ck_assert_double_eq_tol(excess(&route, n, n - 1), 0, 0.002);
    }
    fake_route_free(&route);
    free(met);
}

static size_t slots_there(enum kind kind)
{
    return fake_kernel_size(family, kind == KIND_LOCAL ? "local_endpoints" : "endpoints");
}

static const unsigned counts[] = {1, 31, 32, 33, 63, 64, 65, 300};

struct step {
    enum kind kind;
    unsigned from, to;
};

#define STEPS (KINDS * COUNT(counts) * COUNT(counts))

static struct step step_of(unsigned i)
{
    begin(i % FAMILY_COUNT);
    return (struct step){(enum kind)(i % KINDS), counts[i / KINDS % COUNT(counts)],
                         counts[i / KINDS / COUNT(counts)]};
}

TESTS(from_one_count_to_another, STEPS)
{
    const struct step it = step_of((unsigned)_i);
    const bool same =
        octave_of(it.from) ? octave_of(it.from) == octave_of(it.to) : it.from == it.to;
    set_kind(it.kind, 0, it.from);
    commit();
    check_packets(0, it.from);
    fake_kernel_forget_counts();
    set_kind(it.kind, 1, it.to);
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->chains, same ? 0 : octave_of(it.to) ? 2 : 1);
    ck_assert_uint_eq(fake_kernel_counts()->verdicts, it.from != it.to);
    check_packets(1, it.to);
    set_kind(it.kind, 0, it.from);
    commit(); /* before what is left is trimmed */
    check_packets(0, it.from);
    set_kind(it.kind, 2, it.to);
    sync_table();
    check_packets(2, it.to);
    ck_assert_uint_eq(slots_there(it.kind), it.to);
    restart();
    set_kind(it.kind, 2, it.to);
    commit_sends(0, 0);
    check_packets(2, it.to);
}

/* While slots wait for a trim, which the next daemon must not leave where they are drawn. */
TESTS(a_count_changes_at_a_restart, STEPS)
{
    const struct step it = step_of((unsigned)_i);
    set_kind(it.kind, 0, 400);
    commit();
    set_kind(it.kind, 0, it.from);
    commit();
    restart();
    set_kind(it.kind, 0, it.to);
    commit();
    check_packets(0, it.to);
    sync_table();
    check_packets(0, it.to);
    ck_assert_uint_eq(slots_there(it.kind), it.to);
}

static const unsigned large[] = {16383, 16384, 16385, MAX_BACKENDS};

TESTS(large_counts, unit_long(COUNT(large)))
{
    begin(FAMILY_IPV4);
    set_kind(KIND_CLUSTER, 0, large[_i]);
    commit();
    check_packets(0, large[_i]);
    const uint32_t changed = large[_i] == MAX_BACKENDS ? large[_i] - 1 : large[_i] + 1;
    set_kind(KIND_CLUSTER, 0, changed);
    commit();
    check_packets(0, changed);
}

/* What looks into the map of slots stays: to make it again, the kernel would walk all of them. */
EACH_FAMILY(chains_that_draw_are_kept)
{
    begin(_i);
    for (unsigned n = 1; n < 130; n++) {
        set(1, 0, n);
        commit();
    }
    for (int turns = 0; turns < 3 && ruleset->collect_time != 0; turns++) {
        now = ruleset->collect_time;
        commit();
    }
    ck_assert(ruleset->collect_time == 0);
    ck_assert(fake_kernel_has_chain(family, "pick-7") &&
              fake_kernel_has_chain(family, "pick-from-32") &&
              fake_kernel_has_chain(family, "draw-from-64"));
    fake_kernel_forget_counts();
    for (unsigned n = 1; n < 130; n++) {
        set(1, 0, n);
        commit();
    }
    ck_assert_uint_eq(fake_kernel_counts()->chains, 0);
    ck_assert_uint_eq(fake_kernel_counts()->verdicts, 128 - 31); /* but that of 129 */
}

/* ---- what is trimmed goes in pieces ---- */

/* Commits until nothing is left to be trimmed: each time at most one piece, and what belongs to
 * service ports themselves. Returns how many commits that takes. */
static unsigned trim_all(unsigned ports)
{
    unsigned commits = 0;
    struct commit_stats stats;
    now = trim_time();
    for (; trim_time() != 0 && trim_time() <= now; commits++) {
        ck_assert_int_eq(try_commit(&stats), 0);
        ck_assert_uint_le(stats.elements_deleted, COMMIT_PIECE + ports);
    }
    ck_assert(trim_time() == 0);
    return commits;
}

TESTS(slots_are_trimmed_in_pieces, unit_long(FAMILY_COUNT))
{
    const unsigned most = COMMIT_PIECE * 5 / 2;
    begin(_i);
    set(1, 0, most);
    set(2, 0, 3);
    commit();
    set(1, 0, 10);
    commit();
    now = trim_time();
    ck_assert_int_eq(try_commit(NULL), 0); /* the first piece */
    ck_assert(trim_time() == now);
    set(1, 1, COMMIT_PIECE); /* into slots of the others */
    set(2, 1, 3);
    ck_assert_int_eq(try_commit(NULL), 0);
    check(1, 1, COMMIT_PIECE);
    check(2, 1, 3);
    now += RULESET_TRIM_DELAY;
    ck_assert_uint_le(trim_all(1), 2);
    check(1, 1, COMMIT_PIECE);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), COMMIT_PIECE + 3);
}

/* From N - 1 to N + 1: the last piece may be one element. */
TESTS(service_ports_are_trimmed_in_pieces, 3 * unit_long(FAMILY_COUNT))
{
    const unsigned ports = 5, each = (COMMIT_PIECE + (unsigned)_i % 3 - 1) / ports * 2;
    begin(_i / 3);
    for (unsigned i = 0; i < ports; i++)
        set(i, 0, each);
    commit();
    for (unsigned i = 0; i < ports; i++) {
        const struct frontend f = frontend(i);
        ruleset_remove_port(ruleset, i + 1);
        ruleset_remove(ruleset, &f);
    }
    commit_sends(0, ports);
    ck_assert_uint_le(trim_all(ports), ports * each / COMMIT_PIECE + 2);
    ck_assert_uint_eq(ruleset->ports.n, 0);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 0);
}

TESTS(affinity_numbers_are_trimmed_in_pieces, unit_long(FAMILY_COUNT))
{
    const unsigned n = COMMIT_PIECE;
    struct backend *many = xcalloc(n, sizeof(*many));
    struct port_route port = {.has_any = true,
                              .needs_cluster = true,
                              .affinity_timeout = 60,
                              .backends = many,
                              .n_backends = n};
    begin(_i);
    const struct frontend f = frontend(1);
    for (unsigned i = 0; i < n; i++)
        many[i] = backend(i);
    for (unsigned times = 0; times < 2; times++) { /* removed; without affinity */
        ruleset_set_port(ruleset, 1, &port);
        ruleset_set(ruleset, &f, &(struct route){1, CLASS_AFFINE});
        commit();
        ck_assert_uint_eq(fake_kernel_size(family, "affinity_numbers"), n);
        if (times == 0) {
            ruleset_remove_port(ruleset, 1);
            ruleset_remove(ruleset, &f);
            commit_sends(0, 2);
        } else {
            port.affinity_timeout = 0;
            ruleset_set_port(ruleset, 1, &port);
            ruleset_set(ruleset, &f, &(struct route){.port = 1});
            commit_sends(1, 2);
        }
        ck_assert_uint_le(trim_all(1), 5);
        ck_assert_uint_eq(fake_kernel_size(family, "affinity_numbers"), 0);
        ck_assert_uint_eq(fake_kernel_size(family, "affinity_backends"), 0);
        ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), times ? n : 0);
    }
    free(many);
}

/* None of which takes long, whatever there is most of. */
EACH_FAMILY(a_new_table_goes_in_portions)
{
    const unsigned services = 2000, n = 10, frontends = 40000;
    const struct port_route port = {.has_any = false};
    struct commit_stats stats;
    unsigned commits = 0;
    begin(_i);
    for (unsigned i = 0; i < services; i++)
        set(i, i, n);
    ruleset_set_port(ruleset, 2 * services, &port);
    for (unsigned i = services; i < services + frontends; i++) {
        const struct frontend f = frontend(i);
        const struct route route = {.port = 2 * services};
        const struct backend b = backend(i);
        ruleset_set(ruleset, &f, &route);
        ruleset_use_hairpin(ruleset, &b.address, true);
    }
    do {
        ck_assert_int_eq(try_commit(&stats), 0);
        ck_assert_uint_le(stats.elements_added, COMMIT_PIECE + n);
        commits++;
    } while (ruleset_is_filling(ruleset));
    ck_assert_uint_eq(fake_kernel_size(family, "services"), services + frontends);
    ck_assert_uint_eq(fake_kernel_size(family, "hairpin"), frontends);
    ck_assert_uint_eq(commits, 18);
}

EACH_FAMILY(a_big_batch_arrives)
{
    const unsigned services = 2000, n = 10;
    begin(_i);
    for (unsigned i = 0; i < services; i++)
        set(i, i, n);
    for (unsigned i = services; i < 2 * services; i++)
        set(i, 0, 0);
    struct commit_stats stats = commit();
    ck_assert_uint_gt(stats.bytes, 900000);
    ck_assert_uint_eq(stats.elements_added, services * (n + 1) + 2 * services + 1);
    for (unsigned i = 0; i < services; i++) {
        check(i, i, n);
        check(services + i, 0, 0);
    }
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), services * n);
    ck_assert_uint_eq(fake_kernel_size(family, "rejected_ports"), services);
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

UNIT_FIXTURE(setup, teardown)
