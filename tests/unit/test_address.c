/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model/address.h"

#include "unit.h"

#include <netinet/in.h>
#include <string.h>

static const struct {
    const char *text, *again;
    enum family family;
} addresses[] = {
    {"10.1.2.3", "10.1.2.3", FAMILY_IPV4},
    {"0.0.0.0", "0.0.0.0", FAMILY_IPV4},
    {"255.255.255.255", "255.255.255.255", FAMILY_IPV4},
    {"010.1.2.3", "10.1.2.3", FAMILY_IPV4},
    {"08.09.010.077", "8.9.10.77", FAMILY_IPV4},
    {"0000000000000000000000010.001.00.03", "10.1.0.3", FAMILY_IPV4},
    {"::ffff:10.1.2.3", "10.1.2.3", FAMILY_IPV4},
    {"::FFFF:0a01:203", "10.1.2.3", FAMILY_IPV4},
    {"0:0:0:0:0:ffff:10.1.2.3", "10.1.2.3", FAMILY_IPV4},
    {"0000:0000:0000:0000:0000:ffff:255.255.255.255", "255.255.255.255", FAMILY_IPV4},
    {"::ffff:010.001.002.003", "10.1.2.3", FAMILY_IPV4},
    {"::", "::", FAMILY_IPV6},
    {"::1", "::1", FAMILY_IPV6},
    {"fd00:0:0:0:0:0:0:1", "fd00::1", FAMILY_IPV6},
    {"2001:DB8::000A", "2001:db8::a", FAMILY_IPV6},
    {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", FAMILY_IPV6},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
     FAMILY_IPV6},
    {"64:ff9b::192.0.2.1", "64:ff9b::c000:201", FAMILY_IPV6},
    {"1:2:3:4:5:6:07.08.09.010", "1:2:3:4:5:6:708:90a", FAMILY_IPV6},
    {"::fffe:10.1.2.3", "::fffe:a01:203", FAMILY_IPV6},
    {"::ffff:0:10.1.2.3", "::ffff:0:a01:203", FAMILY_IPV6},
};

TEST_ROWS(accepted, addresses)
{
    char again[ADDRESS_TEXT_SIZE];
    enum family family = row->family == FAMILY_IPV4 ? FAMILY_IPV6 : FAMILY_IPV4;
    struct address address;
    memset(&address, 0xee, sizeof(address));
    ck_assert_msg(address_parse(row->text, &family, &address), "%s", row->text);
    ck_assert_int_eq(family, row->family);
    ck_assert_ptr_eq(address_format(family, &address, again), again);
    ck_assert_str_eq(again, row->again);
    for (size_t i = address_length(family); i < sizeof(address.bytes); i++)
        ck_assert_uint_eq(address.bytes[i], 0);
}

static const char *const junk[] = {
    "",
    " ",
    "None",
    "localhost",
    "10",
    "10.1.2",
    "10.1.2.3.4",
    "10.1.2.256",
    "256.1.2.3",
    "4294967306.1.2.3",
    "10.1..3",
    ".10.1.2",
    "10.1.2.",
    "10.1.2.3.",
    " 10.1.2.3",
    "10.1.2.3 ",
    "10.1.2.3\n",
    "10,1,2,3",
    "10.1.2.-3",
    "+10.1.2.3",
    "0x0a.1.2.3",
    "10.1.2.3a",
    "10.1.2.3:80",
    "10.1.2.3/32",
    ":",
    ":::",
    "::1::",
    "12345::",
    "::g",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    ":1:2:3:4:5:6:7:8",
    "[::1]",
    "::1%lo",
    "::1/128",
    "fd00::1 ",
    "::10.1.2",
    "::10.1.2.256",
    "::10.1.2.3.4",
    "1:2:3:4:5:6:7:10.1.2.3",
    "10.1.2.3::",
    "ffff:10.1.2.3:",
    "0000:0000:0000:0000:0000:0000:0000:0000:0000:10.1.2.3",
    "::ffff:10.1.2.3:",
};

TEST_ROWS(refused, junk)
{
    enum family family = FAMILY_COUNT;
    struct address address, untouched;
    memset(&address, 0xee, sizeof(address));
    untouched = address;
    ck_assert_msg(!address_parse(*row, &family, &address), "%s", *row);
    ck_assert_int_eq(family, FAMILY_COUNT);
    ck_assert_mem_eq(&address, &untouched, sizeof(address));
}

TEST(network_order)
{
    enum family family;
    struct address address;
    ck_assert(address_parse("10.1.2.3", &family, &address));
    ck_assert_mem_eq(address.bytes, "\x0a\x01\x02\x03\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    ck_assert(address_parse("2001:db8::102", &family, &address));
    ck_assert_mem_eq(address.bytes, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\x01\x02", 16);
}

TEST(families)
{
    ck_assert_uint_eq(address_length(FAMILY_IPV4), 4);
    ck_assert_uint_eq(address_length(FAMILY_IPV6), 16);
    ck_assert_str_eq(family_name(FAMILY_IPV4), "IPv4");
    ck_assert_str_eq(family_name(FAMILY_IPV6), "IPv6");
}

TEST(protocols)
{
    ck_assert_uint_eq(protocol_parse("TCP"), IPPROTO_TCP);
    ck_assert_uint_eq(protocol_parse("UDP"), IPPROTO_UDP);
    ck_assert_uint_eq(protocol_parse("SCTP"), IPPROTO_SCTP);
    static const char *const others[] = {"", "tcp", "TCP ", "TCPX", "TC", "ICMP", "6"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        ck_assert_uint_eq(protocol_parse(others[i]), 0);
    ck_assert_str_eq(protocol_name(IPPROTO_TCP), "TCP");
    ck_assert_str_eq(protocol_name(IPPROTO_UDP), "UDP");
    ck_assert_str_eq(protocol_name(IPPROTO_SCTP), "SCTP");
    ck_assert_ptr_null(protocol_name(0));
    ck_assert_ptr_null(protocol_name(IPPROTO_ICMP));
}
