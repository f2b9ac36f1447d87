/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve/explain_query.h"

#include "unit.h"

#include <linux/in.h>
#include <string.h>

static const struct {
    const char *text, *address;
    uint16_t port;
    uint8_t protocol;
} places[] = {
    {"10.96.0.1:80", "10.96.0.1", 80, 0},
    {"10.96.0.1:80/TCP", "10.96.0.1", 80, IPPROTO_TCP},
    {"10.96.0.1:65535/udp", "10.96.0.1", 65535, IPPROTO_UDP},
    {"[fd00::1]:53/Sctp", "fd00::1", 53, IPPROTO_SCTP},
    {"[fd00::1]:53", "fd00::1", 53, 0},
    {"[::ffff:10.96.0.1]:80", "10.96.0.1", 80, 0},
    {"localhost:30001/tcp", "127.0.0.1", 30001, IPPROTO_TCP},
    {"10.96.0.1", "10.96.0.1", 0, 0},
    {"fd00::1", "fd00::1", 0, 0},
    {"[fd00::1]", "fd00::1", 0, 0},
    {"localhost", "127.0.0.1", 0, 0},
    {"30001", NULL, 30001, 0},
    {"30001/UDP", NULL, 30001, IPPROTO_UDP},
};

TEST_ROWS(an_address, places)
{
    struct explain_query query;
    struct error err = {0};
    char text[ADDRESS_TEXT_SIZE];
    ck_assert_int_eq(explain_query_parse(row->text, &query, &err), 0);
    ck_assert_str_eq(query.text, row->text);
    ck_assert_ptr_null(query.service_id);
    ck_assert_int_eq(query.has_address, row->address != NULL);
    if (query.has_address)
        ck_assert_str_eq(address_format(query.family, &query.address, text), row->address);
    ck_assert_uint_eq(query.port, row->port);
    ck_assert_uint_eq(query.protocol, row->protocol);
    ck_assert(!query.all);
    explain_query_clear(&query);
}

static const struct {
    const char *text, *service, *port;
} services[] = {
    {"default/web", "default/web", NULL},
    {"kube-system/kube-dns:dns-tcp", "kube-system/kube-dns", "dns-tcp"},
    {"default/web:80", "default/web", "80"},
    {"default/10", "default/10", NULL},
    {"80/web", "80/web", NULL},
    {"web.default", "default/web", NULL},
    {"web.default:http", "default/web", "http"},
    {"web.default.svc", "default/web", NULL},
    {"web.default.svc.cluster.local:80", "default/web", "80"},
};

TEST_ROWS(a_service, services)
{
    struct explain_query query;
    struct error err = {0};
    ck_assert_int_eq(explain_query_parse(row->text, &query, &err), 0);
    ck_assert_str_eq(query.service_id, row->service);
    ck_assert_pstr_eq(query.port_name, row->port);
    explain_query_clear(&query);
}

static const char *const bad[][2] = {
    {"", "not one of"},
    {"web", "not one of"},
    {"a/b/c", "not one of"},
    {"Default/web", "not one of"},
    {"default/", "not one of"},
    {"/web", "not one of"},
    {"default/web:", "not one of"},
    {"default/web:a:b", "not one of"},
    {"a:b/c", "not one of"},
    {"default/web\n", "not one of"},
    {"default/\x1b[31m", "not one of"},
    {"10.96.0.1/TCP", "needs a port"},
    {"[fd00::1]80", "not one of"},
    {"0", "from 1 to 65535"},
    {"65536/tcp", "from 1 to 65535"},
    {"web.default.cluster.local", "not one of"},
    {"web.default.svcs", "not one of"},
    {"web..svc", "not one of"},
    {".default", "not one of"},
    {"10.96.0.300:80", "not one of"},
    {"10.96.0.1:", "from 1 to 65535"},
    {"10.96.0.1:0", "from 1 to 65535"},
    {"10.96.0.1:65536", "from 1 to 65535"},
    {"10.96.0.1:99999999999999999999", "from 1 to 65535"},
    {"10.96.0.1:-1", "from 1 to 65535"},
    {"10.96.0.1:80x", "from 1 to 65535"},
    {"10.96.0.1:80/", "the protocol"},
    {"10.96.0.1:80/ICMP", "the protocol"},
    {"10.96.0.1:80/TCPTCPTCPTCP", "the protocol"},
    {"[10.96.0.1:80", "not one of"},
    {"[]:80", "not one of"},
    {"[", "not one of"},
    {"[/", "the protocol"},
    {"10.96.0.1:80:90", "not one of"},
};

TEST_ROWS(what_is_neither, bad)
{
    struct explain_query query;
    struct error err = {0};
    ck_assert_int_eq(explain_query_parse((*row)[0], &query, &err), -1);
    ck_assert_msg(strstr(err.text, (*row)[1]), "%s: %s", (*row)[0], err.text);
    ck_assert_ptr_null(query.text);
    ck_assert_ptr_null(query.service_id);
    error_clear(&err);
}

TEST(too_long)
{
    struct explain_query query;
    struct error err = {0};
    char text[2000];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    text[1] = '/';
    ck_assert_int_eq(explain_query_parse(text, &query, &err), -1);
    ck_assert_str_eq(err.text, "it is too long");
    error_clear(&err);
}
