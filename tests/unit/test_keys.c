/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keys and values of the maps, as bytes. */
#include "unit.h"

#include "ruleset/record.h"

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

static void check_bytes(struct key got, const char *hex)
{
    char text[2 * KEY_SIZE + 1] = "";
    for (size_t i = 0; i < got.length; i++)
        snprintf(text + 2 * i, 3, "%02x", got.bytes[i]);
    ck_assert_str_eq(text, hex);
}

TEST(bytes_are_those_of_the_kernel)
{
    struct frontend v4 = frontend("10.96.0.1", 443, IPPROTO_TCP);
    struct frontend v6 = frontend("fd00::1", 53, IPPROTO_UDP);
    struct backend b4 = backend("10.244.1.2", 8080), b6 = backend("fd01::a", 5353);

    check_bytes(key_of_frontend(&v4), "0a600001"
                                      "06000000"
                                      "01bb0000");
    check_bytes(key_of_frontend(&v6), "fd000000000000000000000000000001"
                                      "11000000"
                                      "00350000");
    check_bytes(value_of_backend(FAMILY_IPV4, &b4), "0af40102"
                                                    "1f900000");
    check_bytes(value_of_backend(FAMILY_IPV6, &b6), "fd01000000000000000000000000000a"
                                                    "14e90000");

    uint32_t slot = 0x01020304; /* in the order of this host, as numgen gives it */
    const uint32_t port = 0x80018000;
    struct key key = key_of_slot(port, slot);
    ck_assert_uint_eq(key.length, 8);
    ck_assert_mem_eq(key.bytes, &port, sizeof(port));
    ck_assert_mem_eq(key.bytes + 4, &slot, sizeof(slot));

    const struct cidr prefix = {{{10, 244}}, 16};
    const uint32_t value = 3 << 8 | 16; /* in the order of this host, as packets carry it */
    key = key_of_source(FAMILY_IPV4, 3, &prefix);
    ck_assert_uint_eq(key.length, 8);
    ck_assert_mem_eq(key.bytes, prefix.address.bytes, 4);
    ck_assert_mem_eq(key.bytes + 4, &value, sizeof(value));
}

static const char *const addresses[FAMILY_COUNT][3] = {
    {"10.96.0.1", "255.255.255.255", "0.0.0.1"},
    {"fd00::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "1::"}};
static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};
static const uint16_t ports[] = {1, 256, 443, 65535};
static const uint32_t slots[] = {0, 1, 255, 256, MAX_BACKENDS - 1};

static void check_round_trip(const struct frontend *f)
{
    enum family family = (enum family)f->family;
    struct frontend again;
    memset(&again, 0xaa, sizeof(again)); /* each byte must be written */
    struct key key = key_of_frontend(f);
    ck_assert(frontend_of_key(family, key.bytes, key.length, &again));
    ck_assert_mem_eq(&again, f, sizeof(again));

    struct backend b = {f->address, f->port}, b_again;
    memset(&b_again, 0xaa, sizeof(b_again));
    key = value_of_backend(family, &b);
    ck_assert(backend_of_value(family, key.bytes, key.length, &b_again));
    ck_assert_int_eq(backend_compare(&b, &b_again), 0);

    const struct cidr source = {f->address, (uint8_t)(8 * address_length(family))};
    struct cidr source_again;
    uint32_t list;
    memset(&source_again, 0xaa, sizeof(source_again));
    key = key_of_source(family, MOST_LISTS, &source);
    ck_assert(source_of_key(family, key.bytes, key.length, &list, &source_again));
    ck_assert_mem_eq(&source_again, &source, sizeof(source));
    ck_assert_uint_eq(list, MOST_LISTS);
}

TEST(slots_of_service_ports)
{
    static const uint32_t numbers[] = {1, 2, 0x100, MOST_PORTS};
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
        for (size_t p = 0; p < sizeof(numbers) / sizeof(numbers[0]); p++) {
            uint32_t slot = UINT32_MAX, port = 0;
            struct key key = key_of_slot(numbers[p] << PORT_LOW_BITS, slots[i]);
            ck_assert(slot_of_key(key.bytes, key.length, &port, &slot));
            ck_assert_uint_eq(port, numbers[p] << PORT_LOW_BITS);
            ck_assert_uint_eq(slot, slots[i]);
        }
}

TEST(numbers_and_what_is_below_them)
{
    const uint32_t highest = MOST_PORTS << PORT_LOW_BITS;
    uint32_t number;
    ck_assert_uint_eq(port_of_value(highest | MAX_BACKENDS), highest);
    ck_assert_uint_eq(low_of_value(highest | MAX_BACKENDS), MAX_BACKENDS);
    ck_assert_uint_eq(MOST_PORTS, 131071);
    ck_assert_uint_eq(MAX_BACKENDS, 32767);
    struct key key = {.length = 0};
    key_put_number(&key, highest | 1);
    for (size_t length = 0; length <= KEY_SIZE; length++)
        ck_assert_int_eq(number_of_key(key.bytes, length, &number), length == key.length);
    ck_assert(number_of_key(key.bytes, key.length, &number));
    ck_assert_uint_eq(number, highest | 1);
}

EACH_FAMILY(round_trip)
{
    for (size_t a = 0; a < 3; a++)
        for (size_t p = 0; p < sizeof(protocols); p++)
            for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
                struct frontend f = frontend(addresses[_i][a], ports[i], protocols[p]);
                check_round_trip(&f);
            }
}

EACH_FAMILY(other_lengths_are_refused)
{
    enum family family = (enum family)_i;
    struct frontend f = frontend(addresses[family][0], 80, IPPROTO_TCP), f_out;
    struct backend b = {f.address, 80}, b_out;
    const struct cidr all = {f.address, (uint8_t)(8 * address_length(family))};
    struct cidr prefix;
    uint32_t port, slot, list;
    const struct key as_frontend = key_of_frontend(&f),
                     as_slot = key_of_slot(1 << PORT_LOW_BITS, 0),
                     as_source = key_of_source(family, 1, &all),
                     as_value = value_of_backend(family, &b);
    for (size_t length = 0; length <= KEY_SIZE; length++) {
        ck_assert_int_eq(frontend_of_key(family, as_frontend.bytes, length, &f_out),
                         length == as_frontend.length);
        ck_assert_int_eq(slot_of_key(as_slot.bytes, length, &port, &slot),
                         length == as_slot.length);
        ck_assert_int_eq(source_of_key(family, as_source.bytes, length, &list, &prefix),
                         length == as_source.length);
        ck_assert_int_eq(backend_of_value(family, as_value.bytes, length, &b_out),
                         length == as_value.length);
    }
}

/* Bytes of the right length that no message of ours can have made. */
EACH_FAMILY(other_contents_are_refused)
{
    enum family family = (enum family)_i;
    struct frontend f = frontend(addresses[family][0], 80, IPPROTO_TCP), f_out;
    struct backend b = {f.address, 80}, b_out;
    size_t a = address_length(family);
    uint32_t port, slot;
    const size_t padding[] = {a + 1, a + 2, a + 3, a + 6, a + 7};
    struct key key;
    for (size_t i = 0; i < sizeof(padding) / sizeof(padding[0]); i++) {
        key = key_of_frontend(&f);
        key.bytes[padding[i]] = 1;
        ck_assert(!frontend_of_key(family, key.bytes, key.length, &f_out));
    }
    for (size_t i = a + 2; i < a + 4; i++) {
        key = value_of_backend(family, &b);
        key.bytes[i] = 1;
        ck_assert(!backend_of_value(family, key.bytes, key.length, &b_out));
    }
    f.protocol = IPPROTO_ICMP;
    key = key_of_frontend(&f);
    ck_assert(!frontend_of_key(family, key.bytes, key.length, &f_out));
    f.protocol = IPPROTO_TCP;
    f.port = b.port = 0;
    key = key_of_frontend(&f);
    ck_assert(!frontend_of_key(family, key.bytes, key.length, &f_out));
    key = value_of_backend(family, &b);
    ck_assert(!backend_of_value(family, key.bytes, key.length, &b_out));
    f.port = 80;
    key = key_of_slot(1 << PORT_LOW_BITS, MAX_BACKENDS);
    ck_assert(!slot_of_key(key.bytes, key.length, &port, &slot));
    key = key_of_slot(1 << PORT_LOW_BITS | 1, 0); /* something below the number */
    ck_assert(!slot_of_key(key.bytes, key.length, &port, &slot));
    key = key_of_slot(0, 0);
    ck_assert(!slot_of_key(key.bytes, key.length, &port, &slot));
    key = key_of_slot(1 << PORT_LOW_BITS, 0);
    ck_assert(slot_of_key(key.bytes, key.length, &port, &slot));
}
