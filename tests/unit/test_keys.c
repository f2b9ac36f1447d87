/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keys and values of the maps, as bytes. */
#include "unit.h"

#include "kube-nftd/ruleset/record.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static struct frontend frontend(const char *address, uint16_t port, uint8_t protocol)
{
    struct frontend f = {.port = port, .protocol = protocol};
    enum family family;
    ck_assert(address_parse(address, &family, &f.address));
    f.family = (uint8_t)family;
    return f;
}

static struct backend backend(const char *address, uint16_t port)
{
    struct backend b = {.port = port};
    enum family family;
    ck_assert(address_parse(address, &family, &b.address));
    return b;
}

static void check_bytes(const uint8_t *got, size_t length, const char *hex)
{
    char text[2 * KEY_SIZE + 1] = "";
    for (size_t i = 0; i < length; i++)
        snprintf(text + 2 * i, 3, "%02x", got[i]);
    ck_assert_str_eq(text, hex);
}

START_TEST(bytes_are_those_of_the_kernel)
{
    uint8_t bytes[KEY_SIZE];
    struct frontend v4 = frontend("10.96.0.1", 443, IPPROTO_TCP);
    struct frontend v6 = frontend("fd00::1", 53, IPPROTO_UDP);
    struct backend b4 = backend("10.244.1.2", 8080), b6 = backend("fd01::a", 5353);

    check_bytes(bytes, key_of_frontend(&v4, bytes),
                "0a600001"
                "06000000"
                "01bb0000");
    check_bytes(bytes, key_of_frontend(&v6, bytes),
                "fd000000000000000000000000000001"
                "11000000"
                "00350000");
    check_bytes(bytes, value_of_backend(FAMILY_IPV4, &b4, bytes),
                "0af40102"
                "1f900000");
    check_bytes(bytes, value_of_backend(FAMILY_IPV6, &b6, bytes),
                "fd01000000000000000000000000000a"
                "14e90000");

    uint32_t slot = 0x01020304; /* in the order of this host, as numgen gives it */
    ck_assert_uint_eq(key_of_slot(&v4, slot, bytes), 16);
    ck_assert_mem_eq(bytes + 12, &slot, sizeof(slot));
    ck_assert_uint_eq(key_of_slot(&v6, slot, bytes), 28);
    ck_assert_mem_eq(bytes + 24, &slot, sizeof(slot));
}
END_TEST

static const char *const addresses[FAMILY_COUNT][3] = {
    {"10.96.0.1", "255.255.255.255", "0.0.0.1"},
    {"fd00::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "1::"}};
static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};
static const uint16_t ports[] = {1, 256, 443, 65535};
static const uint32_t slots[] = {0, 1, 255, 256, MAX_BACKENDS - 1};

static void check_round_trip(const struct frontend *f)
{
    enum family family = (enum family)f->family;
    uint8_t bytes[KEY_SIZE];
    struct frontend again;
    memset(&again, 0xaa, sizeof(again)); /* each byte must be written */
    size_t length = key_of_frontend(f, bytes);
    ck_assert(frontend_of_key(family, bytes, length, &again));
    ck_assert_mem_eq(&again, f, sizeof(again));

    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        uint32_t slot = UINT32_MAX;
        memset(&again, 0xaa, sizeof(again));
        length = key_of_slot(f, slots[i], bytes);
        ck_assert(slot_of_key(family, bytes, length, &again, &slot));
        ck_assert_mem_eq(&again, f, sizeof(again));
        ck_assert_uint_eq(slot, slots[i]);
    }

    struct backend b = {f->address, f->port}, b_again;
    memset(&b_again, 0xaa, sizeof(b_again));
    length = value_of_backend(family, &b, bytes);
    ck_assert(backend_of_value(family, bytes, length, &b_again));
    ck_assert_int_eq(backend_compare(&b, &b_again), 0);
}

START_TEST(round_trip)
{
    for (size_t a = 0; a < 3; a++)
        for (size_t p = 0; p < sizeof(protocols); p++)
            for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
                struct frontend f = frontend(addresses[_i][a], ports[i], protocols[p]);
                check_round_trip(&f);
            }
}
END_TEST

START_TEST(other_lengths_are_refused)
{
    enum family family = (enum family)_i;
    struct frontend f = frontend(addresses[family][0], 80, IPPROTO_TCP), f_out;
    struct backend b = {f.address, 80}, b_out;
    uint32_t slot;
    for (size_t length = 0; length <= 2 * KEY_SIZE; length++) {
        uint8_t key[2 * KEY_SIZE] = {0};
        bool right = length == key_of_frontend(&f, key);
        ck_assert_int_eq(frontend_of_key(family, key, length, &f_out), right);

        memset(key, 0, sizeof(key));
        right = length == key_of_slot(&f, 0, key);
        ck_assert_int_eq(slot_of_key(family, key, length, &f_out, &slot), right);

        memset(key, 0, sizeof(key));
        right = length == value_of_backend(family, &b, key);
        ck_assert_int_eq(backend_of_value(family, key, length, &b_out), right);
    }
}
END_TEST

/* Bytes of the right length that no message of ours can have made. */
START_TEST(other_contents_are_refused)
{
    enum family family = (enum family)_i;
    struct frontend f = frontend(addresses[family][0], 80, IPPROTO_TCP), f_out;
    struct backend b = {f.address, 80}, b_out;
    size_t a = address_length(family);
    uint32_t slot;
    const size_t padding[] = {a + 1, a + 2, a + 3, a + 6, a + 7};
    for (size_t i = 0; i < sizeof(padding) / sizeof(padding[0]); i++) {
        uint8_t key[KEY_SIZE];
        size_t length = key_of_frontend(&f, key);
        key[padding[i]] = 1;
        ck_assert(!frontend_of_key(family, key, length, &f_out));
        length = key_of_slot(&f, 0, key);
        key[padding[i]] = 1;
        ck_assert(!slot_of_key(family, key, length, &f_out, &slot));
    }
    for (size_t i = a + 2; i < a + 4; i++) {
        uint8_t value[KEY_SIZE];
        size_t length = value_of_backend(family, &b, value);
        value[i] = 1;
        ck_assert(!backend_of_value(family, value, length, &b_out));
    }
    uint8_t bytes[KEY_SIZE];
    f.protocol = IPPROTO_ICMP;
    ck_assert(!frontend_of_key(family, bytes, key_of_frontend(&f, bytes), &f_out));
    f.protocol = IPPROTO_TCP;
    f.port = b.port = 0;
    ck_assert(!frontend_of_key(family, bytes, key_of_frontend(&f, bytes), &f_out));
    ck_assert(!backend_of_value(family, bytes, value_of_backend(family, &b, bytes), &b_out));
    f.port = 80;
    ck_assert(!slot_of_key(family, bytes, key_of_slot(&f, MAX_BACKENDS, bytes), &f_out, &slot));
    ck_assert(slot_of_key(family, bytes, key_of_slot(&f, 0, bytes), &f_out, &slot));
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, bytes_are_those_of_the_kernel);
    tcase_add_loop_test(tcase, round_trip, 0, FAMILY_COUNT);
    tcase_add_loop_test(tcase, other_lengths_are_refused, 0, FAMILY_COUNT);
    tcase_add_loop_test(tcase, other_contents_are_refused, 0, FAMILY_COUNT);
}

UNIT_MAIN("element", add_tests)
