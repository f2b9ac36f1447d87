/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The numbers of service ports and backends: shared, kept, never given twice. */
#include "unit.h"

#include "kube-nftd/base/log.h"
#include "ruleset/affinity.h"

#include <string.h>

#define HOLDS 4 /* frontends */

static struct affinity affinity;
static struct contents contents;
static struct affinity_hold holds[HOLDS];
static int errors_logged;

static void take_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)line;
    errors_logged += level == LOG_LEVEL_ERROR;
}

static void setup(void)
{
    memset(&affinity, 0, sizeof(affinity));
    memset(&contents, 0, sizeof(contents));
    memset(holds, 0, sizeof(holds));
    errors_logged = 0;
    log_set_sink(take_line, NULL);
}

static void teardown(void)
{
    for (int i = 0; i < HOLDS; i++)
        affinity_release(&affinity, &contents, &holds[i]);
    ck_assert_ptr_null(affinity.groups);
    contents_apply(&contents);
    ck_assert_uint_eq(contents.all.n, 0); /* nothing is wanted any more */
    contents_free(&contents);
    log_set_sink(NULL, NULL);
}

/* The first lines of each test. */
static void begin(int family)
{
    affinity.family = (enum family)family;
}

static struct backend backend(unsigned number)
{
    struct backend b = {.port = 8080};
    b.address.bytes[0] = 10;
    b.address.bytes[2] = (uint8_t)(number >> 8);
    b.address.bytes[3] = (uint8_t)number;
    return b;
}

/* The backends named by the digits of a text. */
static size_t backends_of(const char *digits, struct backend out[16])
{
    size_t n = strlen(digits);
    for (size_t i = 0; i < n; i++)
        out[i] = backend((unsigned)(digits[i] - '0'));
    return n;
}

/* A frontend has these backends, and these on this node. Returns P:0. */
static uint32_t hold_as(int frontend, uint32_t group, uint32_t kernel_id, const char *all,
                        const char *local)
{
    struct backend a[16], l[16];
    size_t n = backends_of(all, a), n_local = backends_of(local, l);
    return affinity_hold(&affinity, &contents, &holds[frontend], group, kernel_id, a, n, l,
                         n_local);
}

static uint32_t hold(int frontend, uint32_t group, const char *all, const char *local)
{
    return hold_as(frontend, group, 0, all, local);
}

static struct key number_key(uint32_t id, unsigned number)
{
    struct key key = {.length = 0};
    struct backend b = backend(number);
    key_put_number(&key, id);
    key_put_address(&key, affinity.family, &b.address);
    key_put_port(&key, b.port);
    return key;
}

/* P:B of a backend of the service port P:0; 0 if it has none. */
static uint32_t number_of(uint32_t id, unsigned number)
{
    struct key key = number_key(id, number);
    uint32_t value = 0;
    struct content *found = contents_find(&contents, SET_AFFINITY_NUMBERS, &key);
    if (found && found->wanted)
        memcpy(&value, content_value(found), sizeof(value));
    return value;
}

/* Whether P:B leads to a backend. */
static bool leads(enum table_set set, uint32_t value, unsigned number)
{
    struct key key = {.length = 0};
    struct backend b = backend(number);
    struct key expected = value_of_backend(affinity.family, &b);
    key_put_number(&key, value);
    struct content *found = contents_find(&contents, set, &key);
    if (!found || !found->wanted)
        return false;
    ck_assert_uint_eq(found->value_length, expected.length);
    return memcmp(content_value(found), expected.bytes, expected.length) == 0;
}

/* Which of backends 1 to 9 are known for the service port, and where their numbers lead: as digits;
 * a number that leads nowhere or elsewhere is an error. */
static void check(uint32_t id, const char *all, const char *local)
{
    char got_all[16] = "", got_local[16] = "";
    ck_assert_uint_ne(id, 0);
    ck_assert_uint_eq(id & UINT16_MAX, 0);
    for (unsigned i = 1; i < 10; i++) {
        const char digit[2] = {(char)('0' + i), 0};
        uint32_t value = number_of(id, i);
        bool is_local = value && leads(SET_LOCAL_AFFINITY_BACKENDS, value, i);
        bool is_any = value && leads(SET_AFFINITY_BACKENDS, value, i);
        ck_assert_msg(!value || is_any || is_local, "%u leads nowhere", i);
        ck_assert(!value || (value >> 16 == id >> 16 && (value & UINT16_MAX) != 0));
        strcat(got_all, is_any ? digit : "");
        strcat(got_local, is_local ? digit : "");
    }
    ck_assert_str_eq(got_all, all);
    ck_assert_str_eq(got_local, local);
}

START_TEST(one_frontend)
{
    begin(_i);
    uint32_t id = hold(0, 77, "123", "2");
    check(id, "123", "2");
    ck_assert_uint_ne(number_of(id, 1), number_of(id, 2));
    ck_assert_uint_ne(number_of(id, 1), number_of(id, 3));
    ck_assert_uint_ne(number_of(id, 2), number_of(id, 3));
    ck_assert_uint_eq(hold(0, 0, "123", "2"), 0);
    check(id, "", "");
}
END_TEST

/* A cluster IP with traffic policy Local knows no others. */
START_TEST(local_backends_alone)
{
    begin(_i);
    uint32_t id = hold(0, 77, "", "12");
    check(id, "", "12");
    ck_assert_uint_eq(hold(0, 77, "", ""), id); /* none at the moment */
    check(id, "", "");
}
END_TEST

START_TEST(frontends_of_a_service_port_share_numbers)
{
    begin(_i);
    uint32_t id = hold(0, 77, "12", "");
    uint32_t one = number_of(id, 1);
    ck_assert_uint_eq(hold(1, 77, "123", "1"), id);
    ck_assert_uint_eq(hold(2, 77, "", "34"), id);
    ck_assert_uint_eq(number_of(id, 1), one);
    check(id, "123", "134");
    ck_assert_uint_eq(hold(1, 0, "", ""), 0);
    check(id, "12", "34");
    affinity_release(&affinity, &contents, &holds[0]);
    check(id, "", "34");
    ck_assert_uint_eq(hold(0, 77, "3", ""), id);
    check(id, "3", "34");
}
END_TEST

START_TEST(service_ports_have_numbers_of_their_own)
{
    begin(_i);
    uint32_t a = hold(0, 77, "12", ""), b = hold(1, 78, "12", "");
    ck_assert_uint_ne(a, b);
    check(a, "12", "");
    check(b, "12", "");
    uint32_t one = number_of(b, 1);
    ck_assert_uint_eq(hold(0, 78, "12", ""), b); /* a frontend moves from one to the other */
    check(a, "", "");
    check(b, "12", "");
    ck_assert_uint_eq(number_of(b, 1), one);
}
END_TEST

START_TEST(numbers_are_kept_over_scaling)
{
    begin(_i);
    uint32_t id = hold(0, 77, "135", "3");
    uint32_t one = number_of(id, 1), three = number_of(id, 3), five = number_of(id, 5);
    ck_assert_uint_eq(hold(0, 77, "123456", "356"), id);
    ck_assert_uint_eq(number_of(id, 1), one);
    ck_assert_uint_eq(number_of(id, 3), three);
    ck_assert_uint_eq(number_of(id, 5), five);
    contents_apply(&contents);
    ck_assert_uint_eq(hold(0, 77, "13", ""), id);
    contents_apply(&contents);
    ck_assert_uint_eq(number_of(id, 1), one);
    ck_assert_uint_eq(number_of(id, 3), three);
    check(id, "13", "");
}
END_TEST

/* Records of the one that is gone must not come to life. */
START_TEST(a_backend_that_comes_back_has_another_number)
{
    begin(_i);
    uint32_t id = hold(0, 77, "12", ""), seen[8];
    for (int i = 0; i < 8; i++) {
        seen[i] = number_of(id, 2);
        for (int k = 0; k < i; k++)
            ck_assert_uint_ne(seen[i], seen[k]);
        contents_apply(&contents);
        ck_assert_uint_eq(hold(0, 77, "1", ""), id);
        contents_apply(&contents);
        ck_assert_uint_eq(hold(0, 77, "12", ""), id);
    }
    check(id, "12", "");
}
END_TEST

/* But one that the kernel never saw leave keeps its own. */
START_TEST(gone_and_back_within_a_commit)
{
    begin(_i);
    uint32_t id = hold(0, 77, "12", ""), two = number_of(id, 2);
    contents_apply(&contents);
    hold(0, 77, "1", "");
    hold(0, 77, "12", "");
    ck_assert_uint_eq(number_of(id, 2), two);
    vec_each (&contents.pending, content)
        ck_assert(!content_goes(*content) && !content_comes(*content));
}
END_TEST

START_TEST(a_service_port_that_comes_back_has_another_number)
{
    begin(_i);
    uint32_t first = hold(0, 77, "1", "");
    affinity_release(&affinity, &contents, &holds[0]);
    affinity_release(&affinity, &contents, &holds[0]); /* once more does nothing */
    ck_assert_uint_ne(hold(0, 77, "1", ""), first);
}
END_TEST

/* ---- what the kernel has already ---- */

static void found(uint32_t id, unsigned number, uint32_t value)
{
    struct key key = number_key(id, number), as_key = {.length = 0};
    key_put_number(&as_key, value);
    affinity_note_kernel_id(&affinity, id);
    ck_assert(contents_adopt(&contents, SET_AFFINITY_NUMBERS, &key, &as_key));
}

/* That a number in the kernel leads to a backend. */
static void found_backend(enum table_set set, uint32_t value, unsigned number)
{
    struct key key = {.length = 0};
    struct backend b = backend(number);
    struct key as_value = value_of_backend(affinity.family, &b);
    key_put_number(&key, value);
    ck_assert(contents_adopt(&contents, set, &key, &as_value));
}

#define FOUND (5u << 16)

START_TEST(numbers_of_the_kernel_are_kept)
{
    begin(_i);
    found(FOUND, 1, FOUND | 9);
    found(FOUND, 2, FOUND | 4);
    ck_assert_uint_eq(hold_as(0, 77, FOUND, "123", "2"), FOUND);
    check(FOUND, "123", "2");
    ck_assert_uint_eq(number_of(FOUND, 1), FOUND | 9);
    ck_assert_uint_eq(number_of(FOUND, 2), FOUND | 4);
    ck_assert_uint_ne(number_of(FOUND, 3), FOUND | 9);
    ck_assert_uint_ne(number_of(FOUND, 3), FOUND | 4);
    ck_assert_uint_eq(hold_as(1, 77, 0, "4", ""), FOUND); /* another frontend, a new one */
    check(FOUND, "1234", "2");
}
END_TEST

/* Numbers of backends that left before the daemon ended: nothing says which, but the kernel's
 * records may still have them. They are given again by chance only. */
START_TEST(numbers_from_before_are_not_given_again)
{
    struct affinity_hold many[50];
    struct backend backends[4] = {backend(1), backend(2), backend(3), backend(4)};
    size_t again = 0;
    begin(_i);
    memset(many, 0, sizeof(many));
    for (uint32_t i = 0; i < 50; i++) {
        uint32_t id = (100 + i) << 16;
        found(id, 1, id | 4); /* 1 to 3 have left */
        affinity_hold(&affinity, &contents, &many[i], i + 1, id, backends, 4, NULL, 0);
        ck_assert_uint_eq(number_of(id, 1), id | 4);
        for (unsigned k = 2; k <= 4; k++)
            again += (number_of(id, k) & UINT16_MAX) < 4;
    }
    ck_assert_uint_lt(again, 10);
    for (uint32_t i = 0; i < 50; i++)
        affinity_release(&affinity, &contents, &many[i]);
}
END_TEST

START_TEST(ids_of_the_kernel_go_to_their_frontends_alone)
{
    begin(_i);
    for (uint32_t i = 1; i < 100; i++)
        affinity_note_kernel_id(&affinity, i << 16);
    uint32_t other = hold(0, 77, "1", "");
    ck_assert_uint_ge(other, 100u << 16);
    ck_assert_uint_eq(hold_as(1, 78, 7u << 16, "1", ""), 7u << 16);
    /* Somebody gave two service ports the same: only one can have it. */
    uint32_t third = hold_as(2, 79, 7u << 16, "1", "");
    ck_assert_uint_ne(third, 7u << 16);
    ck_assert_uint_ge(third, 100u << 16);
}
END_TEST

/* Numbers that somebody else put there. */
START_TEST(nonsense_in_the_kernel)
{
    begin(_i);
    found(FOUND, 1, FOUND);          /* not a number */
    found(FOUND, 2, (6u << 16) | 2); /* of another service port */
    found(FOUND, 3, FOUND | 3);      /* of two backends */
    found(FOUND, 4, FOUND | 3);      /* of two backends */
    found(FOUND, 5, FOUND | 5);      /* leads to another one */
    found(FOUND, 6, FOUND | 6);      /* leads to another one on this node */
    found_backend(SET_AFFINITY_BACKENDS, FOUND | 5, 9);
    found_backend(SET_LOCAL_AFFINITY_BACKENDS, FOUND | 6, 9);
    hold_as(0, 77, FOUND, "123456", "6");
    check(FOUND, "123456", "6");
    for (unsigned a = 1; a <= 6; a++)
        for (unsigned b = 1; b < a; b++)
            ck_assert_uint_ne(number_of(FOUND, a), number_of(FOUND, b));
}
END_TEST

/* ---- no number left ---- */

START_TEST(more_service_ports_than_numbers)
{
    struct affinity_hold *many = xcalloc(UINT16_MAX, sizeof(*many));
    struct backend one = backend(1);
    begin(_i);
    for (uint32_t i = 0; i < UINT16_MAX; i++)
        ck_assert_uint_ne(affinity_hold(&affinity, &contents, &many[i], i + 1, 0, &one, 1, NULL, 0),
                          0);
    ck_assert_int_eq(errors_logged, 0);
    ck_assert_uint_eq(hold(0, 77777, "1", ""), 0);
    ck_assert_int_eq(errors_logged, 1);
    affinity_release(&affinity, &contents, &many[1234]);
    ck_assert_uint_ne(hold(0, 77777, "1", ""), 0);
    for (uint32_t i = 0; i < UINT16_MAX; i++)
        affinity_release(&affinity, &contents, &many[i]);
    free(many);
}
END_TEST

/* One that has none is balanced without memory; all others are remembered. */
START_TEST(more_backends_than_numbers)
{
    const size_t n = UINT16_MAX + 1;
    struct backend *many = xcalloc(n, sizeof(*many));
    begin(_i);
    for (size_t i = 0; i < n; i++) {
        many[i] = backend((unsigned)i);
        many[i].address.bytes[1] = (uint8_t)(i >> 16);
    }
    uint32_t id = affinity_hold(&affinity, &contents, &holds[0], 77, 0, many, n, many + n - 2, 2);
    ck_assert_uint_eq(holds[0].backends.n, UINT16_MAX);
    ck_assert_uint_eq(holds[0].local_backends.n, 1);
    ck_assert_uint_eq(contents.all.n, 2 * UINT16_MAX + 1);
    contents_apply(&contents);
    ck_assert_uint_eq(
        affinity_hold(&affinity, &contents, &holds[0], 77, 0, many + 9, n - 9, NULL, 0), id);
    ck_assert_uint_eq(holds[0].backends.n, UINT16_MAX - 9); /* numbers are free from now on */
    contents_apply(&contents);
    affinity_hold(&affinity, &contents, &holds[0], 77, 0, many + 9, n - 9, NULL, 0);
    ck_assert_uint_eq(holds[0].backends.n, n - 9);
    free(many);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
#define EACH_FAMILY(test) tcase_add_loop_test(tcase, test, 0, FAMILY_COUNT)
    EACH_FAMILY(one_frontend);
    EACH_FAMILY(local_backends_alone);
    EACH_FAMILY(frontends_of_a_service_port_share_numbers);
    EACH_FAMILY(service_ports_have_numbers_of_their_own);
    EACH_FAMILY(numbers_are_kept_over_scaling);
    EACH_FAMILY(a_backend_that_comes_back_has_another_number);
    EACH_FAMILY(gone_and_back_within_a_commit);
    EACH_FAMILY(a_service_port_that_comes_back_has_another_number);
    EACH_FAMILY(numbers_of_the_kernel_are_kept);
    EACH_FAMILY(numbers_from_before_are_not_given_again);
    EACH_FAMILY(ids_of_the_kernel_go_to_their_frontends_alone);
    EACH_FAMILY(nonsense_in_the_kernel);
}

static void add_long_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    EACH_FAMILY(more_service_ports_than_numbers);
    EACH_FAMILY(more_backends_than_numbers);
}

UNIT_MAIN_LONG("affinity", add_tests, add_long_tests)
