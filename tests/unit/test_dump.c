/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table as text. That nft loads it, and makes of it what the daemon programs, is for the netns
 * tests; here it is what stands where. */
#include "unit.h"

#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/ruleset/ruleset.h"

#include <netinet/in.h>
#include <string.h>

static void want(struct ruleset *ruleset, const char *address, uint16_t port, uint8_t protocol,
                 const char *const *backends, size_t n)
{
    struct frontend f = {.port = port, .protocol = protocol};
    struct backend sorted[4];
    enum family family;
    ck_assert(address_parse(address, &family, &f.address));
    f.family = (uint8_t)family;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = (struct backend){.port = (uint16_t)(8000 + i)};
        ck_assert(address_parse(backends[i], &family, &sorted[i].address));
    }
    ruleset_set(ruleset, &f, sorted, n);
}

static struct ruleset *new_ruleset(enum family family)
{
    struct error err = {0};
    struct ruleset *ruleset = ruleset_new(family, &err);
    ck_assert_msg(ruleset, "%s", err.text);
    return ruleset;
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

START_TEST(ipv4)
{
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV4);
    want(ruleset, "10.96.0.2", 53, IPPROTO_UDP, v4, 2);
    want(ruleset, "10.96.0.2", 53, IPPROTO_TCP, v4, 1);
    want(ruleset, "10.96.0.10", 80, IPPROTO_SCTP, NULL, 0);
    want(ruleset, "10.96.0.1", 443, IPPROTO_TCP, v4, 1);
    want(ruleset, "10.96.0.9", 80, IPPROTO_TCP, NULL, 0);
    char *text = dump(ruleset), comment[64];
    ruleset_comment(comment);

    char *head = xasprintf("add table ip kube-nftd\n"
                           "delete table ip kube-nftd\n"
                           "table ip kube-nftd {\n"
                           "    comment \"%s\"\n\n",
                           comment);
    ck_assert_int_eq(strncmp(text, head, strlen(head)), 0);
    free(head);
    check_block(text, "map services {",
                "map services {\n"
                "        type ipv4_addr . inet_proto . inet_service : classid\n"
                "        elements = {\n"
                "            10.96.0.1 . tcp . 443 : 0:1,\n"
                "            10.96.0.2 . tcp . 53 : 0:1,\n"
                "            10.96.0.2 . udp . 53 : 0:2\n"
                "        }\n"
                "    }\n");
    check_block(
        text, "map endpoints {",
        "map endpoints {\n"
        "        typeof ip daddr . meta l4proto . th dport . numgen random mod 1 : ip daddr "
        ". th dport\n"
        "        elements = {\n"
        "            10.96.0.1 . tcp . 443 . 0 : 10.0.0.1 . 8000,\n"
        "            10.96.0.2 . tcp . 53 . 0 : 10.0.0.1 . 8000,\n"
        "            10.96.0.2 . udp . 53 . 0 : 10.0.0.1 . 8000,\n"
        "            10.96.0.2 . udp . 53 . 1 : 10.0.0.2 . 8001\n"
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
    check_block(text, "set reject_frontends {",
                "set reject_frontends {\n"
                "        type ipv4_addr . inet_proto . inet_service\n"
                "        elements = {\n"
                "            10.96.0.9 . tcp . 80,\n"
                "            10.96.0.10 . sctp . 80\n"
                "        }\n"
                "    }\n");
    check_block(text, "chain pick-2 {",
                "chain pick-2 {\n"
                "        meta priority set 0 meta l4proto { tcp, udp, sctp } dnat ip to ip daddr . "
                "meta l4proto . th dport . numgen random mod 2 map @endpoints\n"
                "    }\n");
    ck_assert_ptr_null(strstr(text, "pick-3"));
    free(text);
}
END_TEST

START_TEST(ipv6)
{
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV6);
    want(ruleset, "fd00::2", 53, IPPROTO_UDP, v6, 3);
    char *text = dump(ruleset);
    check_block(text, "map endpoints {",
                "map endpoints {\n"
                "        typeof ip6 daddr . meta l4proto . th dport . numgen random mod 1 : ip6 "
                "daddr . th dport\n"
                "        elements = {\n"
                "            fd00::2 . udp . 53 . 0 : fd01::1 . 8000,\n"
                "            fd00::2 . udp . 53 . 1 : fd01::2 . 8001,\n"
                "            fd00::2 . udp . 53 . 2 : fd01::3 . 8002\n"
                "        }\n"
                "    }\n");
    check_block(text, "set reject_frontends {",
                "set reject_frontends {\n"
                "        type ipv6_addr . inet_proto . inet_service\n"
                "    }\n");
    ck_assert_ptr_nonnull(strstr(text, "chain pick-3 {"));
    free(text);
}
END_TEST

/* nft writes classids in hexadecimal. */
START_TEST(many_backends)
{
    struct ruleset *ruleset = new_ruleset(FAMILY_IPV4);
    struct frontend f = {.port = 80, .protocol = IPPROTO_TCP, .family = FAMILY_IPV4};
    struct backend backends[26];
    for (uint8_t i = 0; i < 26; i++)
        backends[i] = (struct backend){{{10, 0, 0, i}}, 80};
    ruleset_set(ruleset, &f, backends, 26);
    char *text = dump(ruleset);
    ck_assert_ptr_nonnull(strstr(text, " 0.0.0.0 . tcp . 80 : 0:1a\n"));
    ck_assert_ptr_nonnull(strstr(text, " 0.0.0.0 . tcp . 80 . 25 : 10.0.0.25 . 80\n"));
    ck_assert_ptr_nonnull(strstr(text, " 0:1a : goto pick-26\n"));
    ck_assert_ptr_nonnull(strstr(text, " numgen random mod 26 map @endpoints\n"));
    free(text);
}
END_TEST

/* Nothing of the templates is lost on the way: each line that is no brace, blank or header. */
START_TEST(the_template_is_in_it)
{
    char *text = dump(new_ruleset((enum family)_i)), *base = xstrdup(nft_template_base), line[512];
    const char *ip = nft_family_name((enum family)_i);
    FILE *template = fmemopen(base, strlen(base), "r");
    size_t checked = 0;
    while (fgets(line, sizeof(line), template)) {
        char *variable;
        while ((variable = strstr(line, "${ip}")) || (variable = strstr(line, "${ip_addr}"))) {
            char *rest = xstrdup(strchr(variable, '}') + 1);
            bool addr = strncmp(variable, "${ip_addr}", 10) == 0;
            snprintf(variable, sizeof(line) - (size_t)(variable - line), "%s%s%s",
                     addr && _i == FAMILY_IPV4 ? "ipv4"
                     : addr                    ? "ipv6"
                                               : ip,
                     addr ? "_addr" : "", rest);
            free(rest);
        }
        if (line[0] != ' ')
            continue;
        ck_assert_msg(strstr(text, line), "no line in the dump: %s", line);
        checked++;
    }
    ck_assert_uint_gt(checked, 20);
    fclose(template);
    free(base);
    free(text);
}
END_TEST

/* Equal contents, equal text: in whatever order they came and whatever was there before. */
START_TEST(order_does_not_matter)
{
    struct ruleset *one = new_ruleset(FAMILY_IPV4), *other = new_ruleset(FAMILY_IPV4);
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
    struct frontend gone = {.port = 80, .protocol = IPPROTO_TCP, .family = FAMILY_IPV4};
    enum family family;
    ck_assert(address_parse("10.96.0.99", &family, &gone.address));
    ruleset_remove(other, &gone);
    char *a = dump(one), *b = dump(other);
    ck_assert_str_eq(a, b);
    ck_assert_ptr_null(strstr(a, "10.96.0.99"));
    free(a);
    free(b);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, ipv4);
    tcase_add_test(tcase, ipv6);
    tcase_add_test(tcase, many_backends);
    tcase_add_loop_test(tcase, the_template_is_in_it, 0, FAMILY_COUNT);
    tcase_add_test(tcase, order_does_not_matter);
}

UNIT_MAIN("dump", add_tests)
