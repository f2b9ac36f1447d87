/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host/node_port_addresses.h"

#include "kube-nftd/base/alloc.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#define HOST4 "10.0.0.5 10.0.1.1 127.0.0.1 172.17.0.1 192.0.2.7"
#define HOST6 "::1 2001:db8::7 fd00::1 fe80::1"
#define ALL4 "all 10.0.0.5 10.0.1.1 172.17.0.1 192.0.2.7"
#define ALL6 "all 2001:db8::7 fd00::1"

static const struct {
    const char *wanted; /* "primary" or CIDRs */
    enum family family;
    const char *host; /* sorted */
    const char *own;  /* NULL: not known */
    const char *expected;
} cases[] = {
    /* the node's own address, if the host holds it */
    {"primary", FAMILY_IPV4, HOST4, "192.0.2.7", "192.0.2.7"},
    {"primary", FAMILY_IPV4, HOST4, "192.0.2.8", ""},
    {"primary", FAMILY_IPV4, HOST4, NULL, ""},
    {"primary", FAMILY_IPV4, HOST4, "127.0.0.1", ""},
    {"primary", FAMILY_IPV4, "", "192.0.2.7", ""},
    {"primary", FAMILY_IPV6, HOST6, "fd00::1", "fd00::1"},
    {"primary", FAMILY_IPV6, HOST6, NULL, ""},
    {"primary", FAMILY_IPV6, HOST6, "::1", ""},

    /* CIDRs */
    {"10.0.0.0/24", FAMILY_IPV4, HOST4, "192.0.2.7", "10.0.0.5"},
    {"10.0.0.0/23", FAMILY_IPV4, HOST4, NULL, "10.0.0.5 10.0.1.1"},
    {"192.0.2.7/32 10.0.0.0/8 10.0.0.0/24", FAMILY_IPV4, HOST4, NULL,
     "10.0.0.5 10.0.1.1 192.0.2.7"},
    {"198.51.100.0/24", FAMILY_IPV4, HOST4, "192.0.2.7", ""},
    {"127.0.0.0/8", FAMILY_IPV4, HOST4, NULL, ""},
    {"126.0.0.0/7 10.0.1.0/24", FAMILY_IPV4, "10.0.1.1 126.0.0.1 127.1.2.3 128.0.0.1", NULL,
     "10.0.1.1 126.0.0.1"},
    {"fd00::/8 fe80::/10", FAMILY_IPV6, HOST6, NULL, "fd00::1 fe80::1"},
    {"::1/128", FAMILY_IPV6, HOST6, NULL, ""},
    {"2001:db8::/32 10.0.0.0/24", FAMILY_IPV4, HOST4, NULL, "10.0.0.5"},
    {"2001:db8::/32 10.0.0.0/24", FAMILY_IPV6, HOST6, NULL, "2001:db8::7"},

    /* everything */
    {"0.0.0.0/0", FAMILY_IPV4, HOST4, "192.0.2.7", ALL4},
    {"10.0.0.0/24 0.0.0.0/0", FAMILY_IPV4, HOST4, NULL, ALL4},
    {"::/0", FAMILY_IPV6, HOST6, NULL, ALL6},
    {"::/0", FAMILY_IPV4, HOST4, NULL, ALL4},
    {"10.0.0.0/24", FAMILY_IPV6, HOST6, NULL, ALL6},
    {"fd00::/64", FAMILY_IPV4, HOST4, NULL, ALL4},
    {"fd00::/64", FAMILY_IPV4, "", NULL, "all"},
    {"0.0.0.0/0", FAMILY_IPV4, "127.0.0.1", NULL, "all"},
};

static void want(struct node_port_addresses *wanted, const char *text)
{
    char *copy = xstrdup(text), *rest;
    wanted->primary = strcmp(text, "primary") == 0;
    for (char *word = strtok_r(copy, " ", &rest); word && !wanted->primary;
         word = strtok_r(NULL, " ", &rest)) {
        enum family family;
        struct cidr cidr;
        ck_assert(cidr_parse(word, &family, &cidr));
        vec_push(&wanted->cidrs[family], cidr);
    }
    free(copy);
}

static struct address address_of(const char *text)
{
    enum family family;
    struct address address;
    ck_assert_msg(address_parse(text, &family, &address), "%s", text);
    return address;
}

static void hold(address_vec *host, const char *text)
{
    char *copy = xstrdup(text), *rest;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        vec_push(host, address_of(word));
    free(copy);
}

static char *selection_text(enum family family, const struct node_port_selection *selection)
{
    char *text = xstrdup(selection->all ? "all" : ""), address_text[ADDRESS_TEXT_SIZE];
    vec_each (&selection->addresses, address) {
        char *longer = xasprintf("%s%s%s", text, *text ? " " : "",
                                 address_format(family, address, address_text));
        free(text);
        text = longer;
    }
    return text;
}

TEST_ROWS(selected, cases)
{
    struct node_port_addresses wanted = {0};
    struct node_port_selection selection;
    address_vec host = {0};
    struct address own;
    want(&wanted, row->wanted);
    hold(&host, row->host);
    if (row->own)
        own = address_of(row->own);
    node_port_addresses_select(&wanted, row->family, &host, row->own ? &own : NULL, &selection);
    char *text = selection_text(row->family, &selection);
    ck_assert_str_eq(text, row->expected);
    free(text);
    node_port_selection_clear(&selection);
    ck_assert_uint_eq(selection.addresses.n, 0);
    vec_free(&host);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&wanted.cidrs[family]);
}
