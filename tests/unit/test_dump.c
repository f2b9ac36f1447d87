/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table as text. That nft loads it, and makes of it what the daemon programs, is for the netns
 * tests; here it is what stands where. */
#include "unit.h"

#include "kube-nftd/ruleset/ruleset.h"
#include "ruleset/record.h"

#include <netinet/in.h>
#include <string.h>

static const struct ruleset_config plain = {.mark = 0x4000};

static struct ruleset *new_ruleset(enum family family, const struct ruleset_config *config)
{
    struct error err = {0};
    struct ruleset *ruleset = ruleset_new(family, config, &err);
    ck_assert_msg(ruleset, "%s", err.text);
    return ruleset;
}

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

static struct address_range range(const char *first, const char *last)
{
    return (struct address_range){backend(first, 0).address, backend(last, 0).address};
}

/* Each frontend has a service port of its own, the ids in another order than the frontends. */
static uint32_t id_of(const struct frontend *f)
{
    const size_t last = address_length((enum family)f->family) - 1;
    return 1u << 28 | (uint32_t)f->protocol << 16 | (f->port & 0xffu) << 8 |
           (uint8_t)~f->address.bytes[last];
}

static void want_backends(struct ruleset *ruleset, const struct frontend *f,
                          const struct backend *backends, size_t n)
{
    const struct port_route port = {
        .has_any = n > 0, .needs_cluster = true, .backends = backends, .n_backends = n};
    const struct route route = {.port = id_of(f)};
    ruleset_set_port(ruleset, route.port, &port);
    ruleset_set(ruleset, f, &route);
}

static void want(struct ruleset *ruleset, const char *address, uint16_t port, uint8_t protocol,
                 const char *const *backends, size_t n)
{
    struct frontend f = frontend(address, port, protocol);
    struct backend sorted[4];
    for (size_t i = 0; i < n; i++)
        sorted[i] = backend(backends[i], (uint16_t)(8000 + i));
    want_backends(ruleset, &f, sorted, n);
}

/* The dump, which the caller frees. The ruleset is freed here. */
static char *dump(struct ruleset *ruleset)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    ruleset_dump(ruleset, out);
    fclose(out);
    ruleset_free(ruleset);
    return text;
}

/* The block of a map, set or chain, from its name to the brace that ends it. */
static char *block(const char *text, const char *begin)
{
    const char *from = strstr(text, begin);
    ck_assert_msg(from, "no %s", begin);
    const char *end = strstr(from, "\n    }\n");
    ck_assert_ptr_nonnull(end);
    return xstrndup(from, (size_t)(end - from) + strlen("\n    }\n"));
}

static void check_block(const char *text, const char *begin, const char *expected)
{
    char *got = block(text, begin);
    ck_assert_str_eq(got, expected);
    free(got);
}

static const char *const v4[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};
static const char *const v6[] = {"fd01::1", "fd01::2", "fd01::3"};

TEST(ipv4)
{
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV4, &plain);
    want(ruleset, "10.96.0.2", 53, IPPROTO_UDP, v4, 2);
    want(ruleset, "10.96.0.2", 53, IPPROTO_TCP, v4, 1);
    want(ruleset, "10.96.0.10", 80, IPPROTO_SCTP, NULL, 0);
    want(ruleset, "10.96.0.1", 443, IPPROTO_TCP, v4, 1);
    want(ruleset, "10.96.0.9", 80, IPPROTO_TCP, NULL, 0);
    char *head = xasprintf("add table ip kube-nftd\n"
                           "delete table ip kube-nftd\n"
                           "table ip kube-nftd {\n"
                           "    comment \"%s\"\n\n",
                           ruleset->comment);
    char *text = dump(ruleset);
    ck_assert_int_eq(strncmp(text, head, strlen(head)), 0);
    free(head);
    check_block(text, "map services {",
                "map services {\n"
                "        type ipv4_addr . inet_proto . inet_service : classid\n"
                "        elements = {\n"
                "            10.96.0.1 . tcp . 443 : 0:8000,\n"
                "            10.96.0.2 . tcp . 53 : 1:0,\n"
                "            10.96.0.2 . udp . 53 : 1:8000,\n"
                "            10.96.0.9 . tcp . 80 : 2:0,\n"
                "            10.96.0.10 . sctp . 80 : 2:8000\n"
                "        }\n"
                "    }\n");
    check_block(text, "map ports {",
                "map ports {\n"
                "        type classid : classid\n"
                "        elements = {\n"
                "            0:8000 : 0:8001,\n"
                "            1:0 : 1:1,\n"
                "            1:8000 : 1:8002\n"
                "        }\n"
                "    }\n");
    check_block(text, "map endpoints {",
                "map endpoints {\n"
                "        typeof meta priority . numgen random mod 1 : ip daddr . th dport\n"
                "        elements = {\n"
                "            0:8000 . 0 : 10.0.0.1 . 8000,\n"
                "            1:0 . 0 : 10.0.0.1 . 8000,\n"
                "            1:8000 . 0 : 10.0.0.1 . 8000,\n"
                "            1:8000 . 1 : 10.0.0.2 . 8001\n"
                "        }\n"
                "    }\n");
    check_block(text, "map picks {",
                "map picks {\n"
                "        type classid : verdict\n"
                "        elements = {\n"
                "            0:1 : goto pick-1,\n"
                "            0:2 : goto pick-2\n"
                "        }\n"
                "    }\n");
    check_block(text, "set rejected_ports {",
                "set rejected_ports {\n"
                "        type classid\n"
                "        elements = {\n"
                "            2:0,\n"
                "            2:8000\n"
                "        }\n"
                "    }\n");
    check_block(text, "chain pick-2 {",
                "chain pick-2 {\n"
                "        meta l4proto { tcp, udp, sctp } dnat ip to meta priority and ffff:8000 . "
                "numgen random mod 2 map @endpoints\n"
                "    }\n");
    ck_assert_ptr_null(strstr(text, "pick-3"));
    free(text);
}

TEST(ipv6)
{
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV6, &plain);
    want(ruleset, "fd00::2", 53, IPPROTO_UDP, v6, 3);
    char *text = dump(ruleset);
    check_block(text, "map endpoints {",
                "map endpoints {\n"
                "        typeof meta priority . numgen random mod 1 : ip6 daddr . th dport\n"
                "        elements = {\n"
                "            0:8000 . 0 : fd01::1 . 8000,\n"
                "            0:8000 . 1 : fd01::2 . 8001,\n"
                "            0:8000 . 2 : fd01::3 . 8002\n"
                "        }\n"
                "    }\n");
    check_block(text, "set rejected_ports {",
                "set rejected_ports {\n"
                "        type classid\n"
                "    }\n");
    ck_assert_ptr_nonnull(strstr(text, "chain pick-3 {"));
    free(text);
}

/* nft writes classids in hexadecimal. */
TEST(many_backends)
{
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV4, &plain);
    struct frontend f = {.port = 80, .protocol = IPPROTO_TCP, .family = FAMILY_IPV4};
    struct backend backends[26];
    for (uint8_t i = 0; i < 26; i++)
        backends[i] = (struct backend){{{10, 0, 0, i}}, 80};
    want_backends(ruleset, &f, backends, 26);
    char *text = dump(ruleset);
    ck_assert_ptr_nonnull(strstr(text, " 0.0.0.0 . tcp . 80 : 0:8000\n"));
    ck_assert_ptr_nonnull(strstr(text, " 0:8000 : 0:801a\n"));
    ck_assert_ptr_nonnull(strstr(text, " 0:8000 . 25 : 10.0.0.25 . 80\n"));
    ck_assert_ptr_nonnull(strstr(text, " 0:1a : goto pick-26\n"));
    ck_assert_ptr_nonnull(strstr(text, " numgen random mod 26 map @endpoints\n"));
    free(text);
}

/* ---- a table with everything ---- */

static const struct ruleset_config with_pods = {.detector = DETECT_CIDRS, .mark = 0x4000};

/* Sources: 10.1.0.0 to 10.1.255.255 and two addresses; the lowest and highest halves for IPv6. */
static const struct {
    const char *address[4], *backends[3], *ranges[3][2];
} names[FAMILY_COUNT] = {
    {{"10.96.0.1", "10.96.0.2", "1.2.3.4", "1.2.3.5"},
     {"10.0.0.1", "10.0.0.2", "10.0.0.3"},
     {{"10.1.0.0", "10.1.255.255"}, {"10.2.0.7", "10.2.0.7"}, {"10.3.0.1", "10.3.0.2"}}},
    {{"fd00::1", "fd00::2", "2001:db8::4", "2001:db8::5"},
     {"fd01::1", "fd01::2", "fd01::3"},
     {{"::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
      {"fd02::7", "fd02::7"},
      {"fd03::1", "fd03::2"}}}};

#define SHARED 5 /* the service port of two frontends */

/* Of the frontends of a service port that has both parts. */
static void want_port(struct ruleset *ruleset, uint32_t id, uint32_t timeout, size_t n,
                      size_t n_local)
{
    struct backend all[3];
    for (size_t i = 0; i < 3; i++)
        all[i] = backend(names[ruleset->family].backends[i], 8080);
    const struct port_route port = {.has_any = true,
                                    .needs_cluster = n > 0,
                                    .needs_local = n_local > 0 || n == 0,
                                    .backends = all,
                                    .n_backends = n,
                                    .local_backends = all + 1,
                                    .n_local = n_local,
                                    .affinity_timeout = timeout};
    ruleset_set_port(ruleset, id, &port);
}

static void want_route(struct ruleset *ruleset, int address, const struct route *route)
{
    const struct frontend f = frontend(names[ruleset->family].address[address], 80, IPPROTO_TCP);
    ruleset_set(ruleset, &f, route);
}

static void want_contents(struct ruleset *ruleset, bool backwards)
{
    enum family family = ruleset->family;
    range_vec ranges = {0};
    for (int i = 0; i < 3; i++)
        vec_push(&ranges, range(names[family].ranges[i][0], names[family].ranges[i][1]));
    ruleset_set_service_cidrs(ruleset, &ranges);
    ranges.n = 1;
    ruleset_set_pod_cidrs(ruleset, &ranges);
    vec_free(&ranges);
    for (int i = 0; i < 2; i++) {
        int which = backwards ? 1 - i : i;
        struct address address = backend(names[family].address[which], 0).address;
        struct backend b = backend(names[family].backends[which], 8080);
        ruleset_set_cluster_ip(ruleset, &address, true);
        ruleset_set_hairpin(ruleset, IPPROTO_SCTP, &b, true);
    }
}

static void want_everything(struct ruleset *ruleset, bool backwards)
{
    enum family family = ruleset->family;
    struct address_range sources[3];
    for (int i = 0; i < 3; i++)
        sources[i] = range(names[family].ranges[i][0], names[family].ranges[i][1]);
    const struct route routes[] = {
        {.port = SHARED, .affine = true},
        {.port = 1, .local = true},
        {.port = SHARED, .external = true, .local = true, .affine = true},
        {.port = 9, .external = true, .sources = sources, .n_sources = 3},
    };
    want_contents(ruleset, backwards);
    want_port(ruleset, backwards ? SHARED : 1, backwards ? 10800 : 0, backwards ? 3 : 0,
              backwards ? 2 : 0);
    want_port(ruleset, 9, 0, 3, 0);
    want_port(ruleset, backwards ? 1 : SHARED, backwards ? 0 : 10800, backwards ? 0 : 3,
              backwards ? 0 : 2);
    for (int i = 0; i < 4; i++)
        want_route(ruleset, backwards ? 3 - i : i, &routes[backwards ? 3 - i : i]);
}

static const struct {
    const char *begin, *text;
} blocks_ipv4[] = {
    {"map services {", "map services {\n"
                       "        type ipv4_addr . inet_proto . inet_service : classid\n"
                       "        elements = {\n"
                       "            1.2.3.4 . tcp . 80 : 0:8007,\n"
                       "            1.2.3.5 . tcp . 80 : 1:1,\n"
                       "            10.96.0.1 . tcp . 80 : 0:8004,\n"
                       "            10.96.0.2 . tcp . 80 : 1:8002\n"
                       "        }\n"
                       "    }\n"},
    {"map ports {", "map ports {\n"
                    "        type classid : classid\n"
                    "        elements = {\n"
                    "            0:8000 : 0:8003,\n"
                    "            1:0 : 1:3\n"
                    "        }\n"
                    "    }\n"},
    {"map local_ports {", "map local_ports {\n"
                          "        type classid : classid\n"
                          "        elements = {\n"
                          "            0:8000 : 0:8002\n"
                          "        }\n"
                          "    }\n"},
    {"map local_endpoints {",
     "map local_endpoints {\n"
     "        typeof meta priority . numgen random mod 1 : ip daddr . th dport\n"
     "        elements = {\n"
     "            0:8000 . 0 : 10.0.0.2 . 8080,\n"
     "            0:8000 . 1 : 10.0.0.3 . 8080\n"
     "        }\n"
     "    }\n"},
    {"map local_picks {", "map local_picks {\n"
                          "        type classid : verdict\n"
                          "        elements = {\n"
                          "            0:2 : goto local-pick-2\n"
                          "        }\n"
                          "    }\n"},
    {"map picks {", "map picks {\n"
                    "        type classid : verdict\n"
                    "        elements = {\n"
                    "            0:3 : goto pick-3\n"
                    "        }\n"
                    "    }\n"},
    {"map affinity {", "map affinity {\n"
                       "        type classid . ipv4_addr : classid\n"
                       "        size 1048576\n"
                       "        flags dynamic,timeout\n"
                       "    }\n"},
    {"map affinity_backends {", "map affinity_backends {\n"
                                "        type classid : ipv4_addr . inet_service\n"
                                "        elements = {\n"
                                "            0:8001 : 10.0.0.1 . 8080,\n"
                                "            0:8002 : 10.0.0.2 . 8080,\n"
                                "            0:8003 : 10.0.0.3 . 8080\n"
                                "        }\n"
                                "    }\n"},
    {"map local_affinity_backends {", "map local_affinity_backends {\n"
                                      "        type classid : ipv4_addr . inet_service\n"
                                      "        elements = {\n"
                                      "            0:8002 : 10.0.0.2 . 8080,\n"
                                      "            0:8003 : 10.0.0.3 . 8080\n"
                                      "        }\n"
                                      "    }\n"},
    {"map affinity_numbers {", "map affinity_numbers {\n"
                               "        type classid . ipv4_addr . inet_service : classid\n"
                               "        elements = {\n"
                               "            0:8000 . 10.0.0.1 . 8080 : 0:8001,\n"
                               "            0:8000 . 10.0.0.2 . 8080 : 0:8002,\n"
                               "            0:8000 . 10.0.0.3 . 8080 : 0:8003\n"
                               "        }\n"
                               "    }\n"},
    {"map affinity_timeouts {", "map affinity_timeouts {\n"
                                "        type classid : classid\n"
                                "        elements = {\n"
                                "            0:8000 : 0:2a30\n"
                                "        }\n"
                                "    }\n"},
    {"map learners {", "map learners {\n"
                       "        type classid : verdict\n"
                       "        elements = {\n"
                       "            0:2a30 : goto learn-10800\n"
                       "        }\n"
                       "    }\n"},
    {"set dropped_ports {", "set dropped_ports {\n"
                            "        type classid\n"
                            "        elements = {\n"
                            "            1:8002\n"
                            "        }\n"
                            "    }\n"},
    {"map restricted {", "map restricted {\n"
                         "        type ipv4_addr . inet_proto . inet_service : classid\n"
                         "        elements = {\n"
                         "            1.2.3.5 . tcp . 80 : 0:100\n"
                         "        }\n"
                         "    }\n"},
    {"set allowed_sources {", "set allowed_sources {\n"
                              "        type ipv4_addr . classid\n"
                              "        elements = {\n"
                              "            10.1.0.0 . 0:110,\n"
                              "            10.2.0.7 . 0:120,\n"
                              "            10.3.0.1 . 0:120,\n"
                              "            10.3.0.2 . 0:120\n"
                              "        }\n"
                              "    }\n"},
    {"set hairpin {", "set hairpin {\n"
                      "        type ipv4_addr . ipv4_addr . inet_proto . inet_service\n"
                      "        elements = {\n"
                      "            10.0.0.1 . 10.0.0.1 . sctp . 8080,\n"
                      "            10.0.0.2 . 10.0.0.2 . sctp . 8080\n"
                      "        }\n"
                      "    }\n"},
    {"set cluster_ips {", "set cluster_ips {\n"
                          "        type ipv4_addr\n"
                          "        elements = {\n"
                          "            10.96.0.1,\n"
                          "            10.96.0.2\n"
                          "        }\n"
                          "    }\n"},
    {"set service_cidrs {", "set service_cidrs {\n"
                            "        type ipv4_addr\n"
                            "        flags interval\n"
                            "        elements = {\n"
                            "            10.1.0.0/16,\n"
                            "            10.2.0.7,\n"
                            "            10.3.0.1-10.3.0.2\n"
                            "        }\n"
                            "    }\n"},
    {"set pod_cidrs {", "set pod_cidrs {\n"
                        "        type ipv4_addr\n"
                        "        flags interval\n"
                        "        elements = {\n"
                        "            10.1.0.0/16\n"
                        "        }\n"
                        "    }\n"},
};

TEST(everything)
{
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV4, &with_pods);
    want_everything(ruleset, false);
    char *text = dump(ruleset);
    for (size_t i = 0; i < sizeof(blocks_ipv4) / sizeof(blocks_ipv4[0]); i++)
        check_block(text, blocks_ipv4[i].begin, blocks_ipv4[i].text);
    ck_assert_int_eq(strncmp(text, "add table ", 10), 0);
    free(text);
}

TEST(everything_of_ipv6)
{
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV6, &with_pods);
    want_everything(ruleset, false);
    char *text = dump(ruleset);
    ck_assert_int_eq(strncmp(text, "# Session affinity over IPv6", 28), 0); /* not for any nft */
    check_block(text, "set allowed_sources {",
                "set allowed_sources {\n"
                "        type ipv6_addr . classid\n"
                "        elements = {\n"
                "            :: . 0:101,\n"
                "            fd02::7 . 0:180,\n"
                "            fd03::1 . 0:180,\n"
                "            fd03::2 . 0:180\n"
                "        }\n"
                "    }\n");
    check_block(text, "map affinity_numbers {",
                "map affinity_numbers {\n"
                "        type classid . ipv6_addr . inet_service : classid\n"
                "        elements = {\n"
                "            0:8000 . fd01::1 . 8080 : 0:8001,\n"
                "            0:8000 . fd01::2 . 8080 : 0:8002,\n"
                "            0:8000 . fd01::3 . 8080 : 0:8003\n"
                "        }\n"
                "    }\n");
    check_block(text, "set hairpin {",
                "set hairpin {\n"
                "        type ipv6_addr . ipv6_addr . inet_proto . inet_service\n"
                "        elements = {\n"
                "            fd01::1 . fd01::1 . sctp . 8080,\n"
                "            fd01::2 . fd01::2 . sctp . 8080\n"
                "        }\n"
                "    }\n");
    free(text);
    text = dump(new_ruleset(FAMILY_IPV6, &with_pods));
    ck_assert_int_eq(strncmp(text, "add table ", 10), 0);
    free(text);
}

/* A timeout may need both halves of a classid. */
TEST(long_timeouts)
{
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV4, &plain);
    want_port(ruleset, SHARED, 86400, 1, 0);
    want_route(ruleset, 0, &(const struct route){.port = SHARED, .affine = true});
    char *text = dump(ruleset);
    ck_assert_ptr_nonnull(strstr(text, " 0:8000 : 1:5180\n"));
    ck_assert_ptr_nonnull(strstr(text, " 1:5180 : goto learn-86400\n"));
    ck_assert_ptr_nonnull(strstr(text, " timeout 86400s : meta priority }\n"));
    free(text);
}

/* All ranges there are; a whole range of one family is no prefix of length 0 that nft would not
 * load. */
TEST(ranges)
{
    static const struct {
        const char *first, *last, *text;
    } cases[] = {
        {"0.0.0.0", "255.255.255.255", " 0.0.0.0/0\n"},
        {"128.0.0.0", "255.255.255.255", " 128.0.0.0/1\n"},
        {"10.0.0.0", "10.0.0.0", " 10.0.0.0\n"},
        {"10.0.0.0", "10.0.0.1", " 10.0.0.0/31\n"},
        {"10.0.0.1", "10.0.0.2", " 10.0.0.1-10.0.0.2\n"},
        {"10.0.0.0", "10.0.0.2", " 10.0.0.0-10.0.0.2\n"},
        {"10.0.0.1", "10.0.0.3", " 10.0.0.1-10.0.0.3\n"},
        {"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", " ::/0\n"},
        {"fd00::", "fd00::ffff:ffff:ffff:ffff", " fd00::/64\n"},
        {"fd00::1", "fd00::1", " fd00::1\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        range_vec one = {0};
        enum family family = strchr(cases[i].first, ':') ? FAMILY_IPV6 : FAMILY_IPV4;
        struct ruleset *ruleset = new_ruleset(family, &plain);
        vec_push(&one, range(cases[i].first, cases[i].last));
        ruleset_set_service_cidrs(ruleset, &one);
        char *text = dump(ruleset);
        ck_assert_msg(strstr(text, cases[i].text), "no%s", cases[i].text);
        vec_free(&one);
        free(text);
    }
}

/* ---- the templates ---- */

static const struct ruleset_config configs[] = {
    {.mark = 0x4000},
    {.detector = DETECT_CIDRS, .mark = 0x80000000},
    {.detector = DETECT_INTERFACE, .interface = "cni0", .mark = 1},
    {.detector = DETECT_INTERFACE_PREFIX, .interface = "cali", .mark = 1},
    {.masquerade_all = true, .no_fib = true, .mark = 1},
    {.detector = DETECT_CIDRS, .masquerade_all = true, .no_reject = true, .mark = 1},
    {.counting = COUNT_SERVICES, .mark = 1},
    {.counting = COUNT_ENDPOINTS, .mark = 1},
};
#define CONFIGS (int)(sizeof(configs) / sizeof(configs[0]))

/* What stands for a variable in a table of such a configuration; NULL: its line is left out. */
static const char *value_of(const struct ruleset *ruleset, const char *name)
{
    const struct layout_vars *vars = &ruleset->vars;
    const bool is_v4 = ruleset->family == FAMILY_IPV4;
    const struct {
        const char *name, *value;
    } variables[] = {{"ip", is_v4 ? "ip" : "ip6"},
                     {"ip_addr", is_v4 ? "ipv4_addr" : "ipv6_addr"},
                     {"mark", vars->mark},
                     {"from_pod", vars->from_pod},
                     {"not_from_pod", vars->not_from_pod},
                     {"from_host", vars->from_host},
                     {"reject", vars->reject},
                     {"count_services", vars->count_services},
                     {"count_endpoints", vars->count_endpoints}};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if (strcmp(name, variables[i].name) == 0)
            return variables[i].value;
    ck_abort_msg("unknown variable %s", name);
    return NULL;
}

/* A line with values in place of variables, to be freed; NULL if it is left out. */
static char *fill_in(const struct ruleset *ruleset, const char *line)
{
    char *filled = xstrdup(line), *at;
    while (filled && (at = strstr(filled, "${"))) {
        char *name = xstrndup(at + 2, strcspn(at + 2, "}"));
        const char *value = value_of(ruleset, name);
        char *next =
            value ? xasprintf("%.*s%s%s", (int)(at - filled), filled, value, strchr(at, '}') + 1)
                  : NULL;
        free(filled);
        free(name);
        filled = next;
    }
    return filled;
}

/* The fixed part without blocks whose first line is left out, to be freed: they stand between empty
 * lines, with their comments. */
static char *base_template(const struct ruleset *ruleset)
{
    char *base = xstrdup(templates[TEMPLATE_BASE].text), *at = base;
    while ((at = strstr(at, "\n    ${")) != NULL) {
        char *line = xstrndup(at + 1, strcspn(at + 1, "\n")), *filled = fill_in(ruleset, line);
        char *end = strstr(at, "\n\n"), *begin = at;
        while (strncmp(begin, "\n\n", 2) != 0)
            begin--;
        if (!filled)
            memmove(begin, end, strlen(end) + 1);
        at = filled ? at + 1 : begin;
        free(filled);
        free(line);
    }
    return base;
}

/* Nothing of the template is lost on the way: each line that is no brace, blank or header. */
TESTS(the_template_is_in_it, (CONFIGS * FAMILY_COUNT))
{
    const struct ruleset_config *config = &configs[_i / FAMILY_COUNT];
    struct ruleset *ruleset = new_ruleset((enum family)(_i % FAMILY_COUNT), config);
    struct ruleset *dumped = new_ruleset((enum family)(_i % FAMILY_COUNT), config);
    char *text = dump(dumped), *base = base_template(ruleset), line[512];
    FILE *template = fmemopen(base, strlen(base), "r");
    size_t checked = 0;
    while (fgets(line, sizeof(line), template)) {
        char *filled = line[0] == ' ' && !strstr(line, "elements") ? fill_in(ruleset, line) : NULL;
        if (!filled)
            continue;
        ck_assert_msg(strstr(text, filled + strspn(filled, " ")), "no line in the dump: %s",
                      filled);
        checked++;
        free(filled);
    }
    ck_assert_uint_gt(checked, 100);
    ck_assert_ptr_null(strstr(text, "${"));
    fclose(template);
    ruleset_free(ruleset);
    free(base);
    free(text);
}

static void check_configuration(const char *text, const struct ruleset_config *config)
{
    ck_assert_int_eq(strstr(text, "@pod_cidrs") != NULL, config->detector == DETECT_CIDRS);
    ck_assert_int_eq(strstr(text, " reject\n") != NULL, !config->no_reject);
    ck_assert_int_eq(strstr(text, "fib saddr type local") != NULL, !config->no_fib);
}

TESTS(configurations, CONFIGS)
{
    const struct ruleset_config *config = &configs[_i];
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV4, config);
    want_everything(ruleset, false);
    const char *from_pod = ruleset->from_pod ? ruleset->from_pod : "nothing of that kind";
    char *match = xasprintf("        %s goto pick\n", from_pod);
    char *mark = xasprintf("meta mark set meta mark or 0x%x\n", config->mark);
    char *text = dump(ruleset);
    check_configuration(text, config);
    ck_assert_int_eq(strstr(text, match) != NULL, config->detector != DETECT_NONE);
    ck_assert_ptr_nonnull(strstr(text, mark));
    bool masquerades = config->masquerade_all || config->detector != DETECT_NONE;
    char *port = block(text, "chain port {");
    ck_assert_int_eq(strstr(port, mark) != NULL, masquerades);
    free(port);
    free(match);
    free(mark);
    free(text);
}

/* ---- equal contents, equal text ---- */

/* In whatever order they came and whatever was there before. */
TEST(order_does_not_matter)
{
    struct ruleset *one = new_ruleset(FAMILY_IPV4, &plain);
    struct ruleset *other = new_ruleset(FAMILY_IPV4, &plain);
    char address[32];
    for (int i = 0; i < 50; i++) {
        snprintf(address, sizeof(address), "10.96.0.%d", i);
        want(one, address, 80, IPPROTO_TCP, v4, (size_t)i % 4);
    }
    want(other, "10.96.0.99", 80, IPPROTO_TCP, v4, 1);
    for (int i = 49; i >= 0; i--) {
        snprintf(address, sizeof(address), "10.96.0.%d", i);
        want(other, address, 80, IPPROTO_TCP, v4, 2);
        want(other, address, 80, IPPROTO_TCP, v4, (size_t)i % 4);
    }
    const struct frontend gone = frontend("10.96.0.99", 80, IPPROTO_TCP);
    ruleset_remove(other, &gone);
    ruleset_remove_port(other, id_of(&gone));
    char *a = dump(one), *b = dump(other);
    ck_assert_str_eq(a, b);
    ck_assert_ptr_null(strstr(a, "10.96.0.99"));
    free(a);
    free(b);
}

EACH_FAMILY(order_of_everything_does_not_matter)
{
    struct ruleset *one = new_ruleset((enum family)_i, &with_pods);
    struct ruleset *other = new_ruleset((enum family)_i, &with_pods);
    const struct backend gone = backend(names[_i].backends[2], 99);
    want_everything(one, false);
    want_port(other, 7, 10800, 3, 2);
    want_route(other, 1, &(const struct route){.port = 7, .external = true, .local = true});
    ruleset_remove_port(other, 7);
    want_everything(other, true);
    ruleset_set_hairpin(other, IPPROTO_TCP, &gone, true);
    ruleset_set_hairpin(other, IPPROTO_TCP, &gone, false);
    char *a = dump(one), *b = dump(other);
    ck_assert_str_eq(a, b);
    free(a);
    free(b);
}
