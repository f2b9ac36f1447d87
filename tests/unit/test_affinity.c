/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The numbers of the backends of a service port: kept, not given twice. */
#include "unit.h"

#include "ruleset/record.h"

#include <string.h>

#define PORT (7u << PORT_LOW_BITS)
#define OTHER (8u << PORT_LOW_BITS)

static struct affinity affinity, other; /* of PORT and OTHER */
static struct contents contents;
static enum family family;

static void setup(void)
{
    memset(&affinity, 0, sizeof(affinity));
    memset(&other, 0, sizeof(other));
    memset(&contents, 0, sizeof(contents));
}

static void teardown(void)
{
    affinity_release(&affinity, family, &contents);
    affinity_release(&other, family, &contents);
    contents_apply(&contents);
    ck_assert_uint_eq(contents.all.n, 0); /* nothing is wanted any more */
    contents_free(&contents);
}

/* The first lines of each test. */
static void begin(int which)
{
    family = (enum family)which;
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

/* A service port has these backends, and these on this node. */
static void hold_of(struct affinity *which, const char *all, const char *local)
{
    struct backend a[16], l[16];
    const struct backends all_of = {a, backends_of(all, a)}, local_of = {l, backends_of(local, l)};
    affinity_hold(which, family, &contents, which == &affinity ? PORT : OTHER, &all_of, &local_of);
}

static void hold(const char *all, const char *local)
{
    hold_of(&affinity, all, local);
}

static struct key number_key(uint32_t port, unsigned number)
{
    struct key key = {.length = 0};
    struct backend b = backend(number);
    key_put_number(&key, port);
    key_put_address(&key, family, &b.address);
    key_put_port(&key, b.port);
    return key;
}

/* P:B of a backend of service port P; 0 if it has none. */
static uint32_t number_of(uint32_t port, unsigned number)
{
    struct key key = number_key(port, number);
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
    struct key expected = value_of_backend(family, &b);
    key_put_number(&key, value);
    struct content *found = contents_find(&contents, set, &key);
    if (!found || !found->wanted)
        return false;
    ck_assert_uint_eq(found->value_length, expected.length);
    return memcmp(content_value(found), expected.bytes, expected.length) == 0;
}

/* Which of backends 1 to 9 are known for the service port, and where their numbers lead: as digits;
 * a number that leads nowhere or elsewhere is an error. */
static void check(uint32_t port, const char *all, const char *local)
{
    char got_all[16] = "", got_local[16] = "";
    for (unsigned i = 1; i < 10; i++) {
        const char digit[2] = {(char)('0' + i), 0};
        uint32_t value = number_of(port, i);
        bool is_local = value && leads(SET_LOCAL_AFFINITY_BACKENDS, value, i);
        bool is_any = value && leads(SET_AFFINITY_BACKENDS, value, i);
        ck_assert_msg(!value || is_any || is_local, "%u leads nowhere", i);
        ck_assert(!value || (port_of_value(value) == port && low_of_value(value) != 0));
        strcat(got_all, is_any ? digit : "");
        strcat(got_local, is_local ? digit : "");
    }
    ck_assert_str_eq(got_all, all);
    ck_assert_str_eq(got_local, local);
}

/* Records of the one that is gone must not come to life. */
EACH_FAMILY(a_backend_that_comes_back_has_another_number)
{
    begin(_i);
    uint32_t seen[8];
    hold("12", "");
    for (int i = 0; i < 8; i++) {
        seen[i] = number_of(PORT, 2);
        for (int k = 0; k < i; k++)
            ck_assert_uint_ne(seen[i], seen[k]);
        contents_apply(&contents);
        hold("1", "");
        contents_apply(&contents);
        hold("12", "");
    }
    check(PORT, "12", "");
}

/* ---- what the kernel has already ---- */

static void found(unsigned number, uint32_t value)
{
    struct key key = number_key(PORT, number), as_key = {.length = 0};
    key_put_number(&as_key, value);
    ck_assert(contents_adopt(&contents, SET_AFFINITY_NUMBERS, &key, &as_key));
}

/* That a number in the kernel leads to a backend. */
static void found_backend(enum table_set set, uint32_t value, unsigned number)
{
    struct key key = {.length = 0};
    struct backend b = backend(number);
    struct key as_value = value_of_backend(family, &b);
    key_put_number(&key, value);
    ck_assert(contents_adopt(&contents, set, &key, &as_value));
}

/* Numbers that somebody else put there. */
EACH_FAMILY(nonsense_in_the_kernel)
{
    begin(_i);
    found(1, PORT);      /* not a number */
    found(2, OTHER | 2); /* of another service port */
    found(3, PORT | 3);  /* of two backends */
    found(4, PORT | 3);  /* of two backends */
    found(5, PORT | 5);  /* leads to another one */
    found(6, PORT | 6);  /* leads to another one on this node */
    found_backend(SET_AFFINITY_BACKENDS, PORT | 5, 9);
    found_backend(SET_LOCAL_AFFINITY_BACKENDS, PORT | 6, 9);
    hold("123456", "6");
    check(PORT, "123456", "6");
    for (unsigned a = 1; a <= 6; a++)
        for (unsigned b = 1; b < a; b++)
            ck_assert_uint_ne(number_of(PORT, a), number_of(PORT, b));
}

/* ---- no number left ---- */

static size_t count_numbers(bool local)
{
    size_t n = 0;
    vec_each (&affinity.numbers, number)
        n += number->local == local;
    return n;
}

/* One that has none is balanced without memory; all others are remembered. */
EACH_FAMILY(more_backends_than_numbers)
{
    const size_t n = MAX_BACKENDS + 1;
    struct backend *many = xcalloc(n, sizeof(*many));
    const struct backends all = {many, n}, last_two = {many + n - 2, 2}, none = {NULL, 0},
                          but_nine = {many + 9, n - 9};
    begin(_i);
    for (size_t i = 0; i < n; i++)
        many[i] = backend((unsigned)i);
    affinity_hold(&affinity, family, &contents, PORT, &all, &last_two);
    ck_assert_uint_eq(count_numbers(false), MAX_BACKENDS);
    ck_assert_uint_eq(count_numbers(true), 1);
    ck_assert_uint_eq(contents.all.n, 2 * MAX_BACKENDS + 1);
    contents_apply(&contents);
    affinity_hold(&affinity, family, &contents, PORT, &but_nine, &none);
    ck_assert_uint_eq(count_numbers(false), MAX_BACKENDS - 9); /* numbers are free from now on */
    contents_apply(&contents);
    affinity_hold(&affinity, family, &contents, PORT, &but_nine, &none);
    ck_assert_uint_eq(count_numbers(false), n - 9);
    free(many);
}

UNIT_FIXTURE(setup, teardown)
