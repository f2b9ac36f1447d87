/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What several changes of backends come to. */
#include "unit.h"

#include "kube-nftd/net.h"

#define MOST 8 /* backends */
#define ALL (BACKENDS_CLUSTER | BACKENDS_LOCAL | BACKENDS_HAIRPIN)

static unsigned seed;

static uint8_t below(unsigned n)
{
    return (uint8_t)((unsigned)rand_r(&seed) % n);
}

static struct backend backend(uint8_t number)
{
    return (struct backend){.address = {{10, 244, number / 2, 1}}, .port = 80 + number % 2};
}

static uint8_t number_of(const struct backend *backend)
{
    return (uint8_t)(2 * backend->address.bytes[2] + backend->port - 80);
}

/* Each change begins with the sets in which the one before left the backend. */
static void change_somehow(backend_change_vec *changes, uint8_t sets[MOST])
{
    for (unsigned n = below(4) ? below(6) : below(60); n > 0; n--) {
        const uint8_t number = below(MOST), after = below(ALL + 1);
        vec_push(changes, (struct backend_change){backend(number), sets[number], after});
        sets[number] = after;
    }
}

/* One of each backend that changes, sorted, with just the sets that differ. */
TESTS(sum, 8)
{
    seed = (unsigned)_i;
    for (int round = 0; round < 500; round++) {
        uint8_t before[MOST], after[MOST];
        backend_change_vec changes = {0};
        for (int i = 0; i < MOST; i++)
            before[i] = after[i] = below(ALL + 1);
        change_somehow(&changes, after);
        backend_changes_sum(&changes);
        vec_each (&changes, change) {
            const uint8_t number = number_of(&change->backend), was = before[number];
            ck_assert(change == changes.v || backend_compare(change - 1, change) < 0);
            ck_assert_uint_ne(was, after[number]);
            ck_assert_uint_eq(change->before, was & ~after[number]);
            ck_assert_uint_eq(change->after, after[number] & ~was);
            before[number] = after[number];
        }
        ck_assert_mem_eq(before, after, sizeof(after));
        vec_free(&changes);
    }
}

/* Those in both are in neither count. */
TEST(counts)
{
    backend_change_vec changes = {0};
    vec_push(&changes, (struct backend_change){backend(0), 0, BACKENDS_CLUSTER});
    vec_push(&changes, (struct backend_change){backend(1), BACKENDS_CLUSTER,
                                               BACKENDS_CLUSTER | BACKENDS_LOCAL});
    vec_push(&changes, (struct backend_change){backend(2), ALL, 0});
    ck_assert_uint_eq(backends_coming(&changes, BACKENDS_CLUSTER), 1);
    ck_assert_uint_eq(backends_going(&changes, BACKENDS_CLUSTER), 1);
    ck_assert_uint_eq(backends_coming(&changes, BACKENDS_LOCAL), 1);
    ck_assert_uint_eq(backends_going(&changes, BACKENDS_HAIRPIN), 1);
    vec_free(&changes);
}
