/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is said of a kernel that holds what it should, and of one that somebody has changed. */
#include "unit.h"

#include "ruleset_fixture.h"

#include "kube-nftd/ruleset/audit.h"

static struct audit audit;

static void clear(void)
{
    audit_clear(&audit);
    teardown();
}

/* Audits frontend 1, of which @wish is wanted, with so many lookups. */
static void look(const struct wish *wish, size_t lookups)
{
    struct frontend f = frontend(1);
    struct route_memory memory;
    const struct route route = route_of(1, wish, &memory);
    const struct port_route port = port_route_of(wish, &memory);
    const struct audit_subject subject = {&f, wish->wanted ? &route : NULL,
                                          wish->wanted ? &port : NULL, true};
    struct error err = {0};
    audit_clear(&audit);
    int result = ruleset_audit(ruleset, sock, &subject, &lookups, &audit, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    vec_free(&memory.sources);
}

/* "set: text; set: text" */
static void differs(const char *expected)
{
    char *said = xstrdup("");
    vec_each (&audit.differences, difference) {
        char *longer =
            xasprintf("%s%s%s: %s", said, *said ? "; " : "", difference->set, difference->text);
        free(said);
        said = longer;
    }
    ck_assert_str_eq(said, expected);
    free(said);
}

static const struct wish wishes[] = {
    {.wanted = false},
    {.wanted = true, .all = "123"},
    {.wanted = true},
    {.wanted = true, .local = true, .all = "1234", .here = "23"},
    {.wanted = true, .local = true, .all = "1234"},
    {.wanted = true, .external = true, .all = "1234"},
    {.wanted = true, .external = true, .local = true, .all = "1234", .here = "2"},
    {.wanted = true, .external = true, .local = true, .all = "1234"},
    {.wanted = true, .external = true, .all = "1234", .sources = "0-10 20-30"},
    {.wanted = true, .all = "12", .timeout = 100, .group = 7},
    {.wanted = true, .local = true, .all = "12", .here = "1", .timeout = 100, .group = 7},
};
#define WISHES ((int)(sizeof(wishes) / sizeof(wishes[0])))

static void begin_with(const struct wish *wish, int which)
{
    struct address address;
    config.detector = DETECT_CIDRS;
    begin(which);
    address = frontend(1).address;
    ruleset_set_cluster_ip(ruleset, &address, true);
    tell(1, wish);
    settle();
}

TESTS(what_was_programmed_agrees, (WISHES * FAMILY_COUNT))
{
    const struct wish *wish = &wishes[_i / FAMILY_COUNT];
    begin_with(wish, _i % FAMILY_COUNT);
    look(wish, 100);
    differs("");
    ck_assert(audit.cluster_ip);
    ck_assert_uint_eq(audit.skipped, 0);
    ck_assert_uint_eq(audit.source_list, wish->sources ? 1 : 0);
    ck_assert_uint_eq(audit.sources, wish->sources ? 3 + 4 : 0); /* 0-7 8-9 10; 20-23 ... 30 */
    ck_assert_uint_eq(audit.affinity_timeout, wish->timeout);
    bool table_exists, same;
    ck_assert_int_eq(ruleset_audit_table(ruleset, sock, &table_exists, &same, NULL), 0);
    ck_assert(table_exists && same);
    free(fake_kernel_change_operand(family, 3, 0));
    ck_assert_int_eq(ruleset_audit_table(ruleset, sock, &table_exists, &same, NULL), 0);
    ck_assert(table_exists && !same);
}

/* Whoever computes the same from elsewhere does not know the numbers of affinity. */
TESTS(another_ruleset_agrees, (WISHES * FAMILY_COUNT))
{
    const struct wish *wish = &wishes[_i / FAMILY_COUNT];
    begin_with(wish, _i % FAMILY_COUNT);
    struct ruleset *programmed = ruleset;
    ruleset = new_ruleset();
    tell(1, wish);
    look(wish, 100);
    differs("");
    ruleset_free(programmed);
}

/* Each pair: what one wish made of the kernel is seen by another to be different. */
TESTS(what_is_not_wanted_differs, WISHES)
{
    const struct wish *wish = &wishes[_i];
    begin_with(wish, FAMILY_IPV4);
    for (int other = 0; other < WISHES; other++) {
        look(&wishes[other], 100);
        ck_assert_int_eq(audit.differences.n == 0, other == _i);
    }
}

static void take(const char *set, struct key key)
{
    fake_kernel_take(family, set, key.bytes, key.length);
}

TEST(what_is_missing_is_named)
{
    const struct wish *wish = &wishes[1];
    struct frontend f = frontend(1);
    begin_with(wish, FAMILY_IPV4);
    const uint32_t port = fake_kernel_port(&f);
    take("endpoints", key_of_slot(port, 1));
    look(wish, 100);
    differs("endpoints: slot 1 is empty; endpoints: 10.0.0.2:8000 is missing");

    struct backend other = backend(9);
    struct key key = key_of_slot(port, 1), value = value_of_backend(family, &other);
    fake_kernel_put(family, "endpoints", key.bytes, key.length, value.bytes, value.length);
    look(wish, 100);
    differs("endpoints: 10.0.0.2:8000 is missing; endpoints: 10.0.0.9:8001 does not belong there");

    take("services", key_of_frontend(&f));
    take("cluster_ips", (struct key){{11, 0, 0, 1}, 4});
    look(wish, 100);
    differs("services: it is missing, and should be 0:8000; cluster_ips: it is missing");
}

TEST(sources_and_affinity)
{
    const struct wish *guarded = &wishes[8], *affine = &wishes[9];
    begin_with(guarded, FAMILY_IPV4);
    struct frontend f = frontend(1);
    const struct cidr prefix = {{{12}}, 29};
    const uint32_t value = 5 << 8;
    ck_assert_uint_eq(audit.source_list, 0);
    take("allowed_sources", key_of_source(family, 1, &prefix));
    look(guarded, 100);
    ck_assert_uint_eq(audit.source_list, 1);
    differs("allowed_sources: 12.0.0.0/29 is missing in list 1");
    struct key key = key_of_frontend(&f);
    take("restricted", key);
    look(guarded, 0);
    differs("restricted: it is missing");
    fake_kernel_put(family, "restricted", key.bytes, key.length, &value, sizeof(value));
    look(guarded, 0);
    differs("restricted: it is list 5, and should be 1");
    tell(1, affine);
    wait_for_trims();
    fake_kernel_tolerate();
    if (try_commit(NULL))
        commit(); /* the table was not as it was believed to be */
    struct key port = {.length = 0};
    key_put_number(&port, fake_kernel_port(&f));
    take("affinity_timeouts", port);
    look(affine, 100);
    differs("affinity_timeouts: it is 0 seconds, and should be 100");
}

TEST(lookups_are_bounded)
{
    const struct wish *wish = &wishes[1];
    begin_with(wish, FAMILY_IPV4);
    look(wish, 2);
    differs(""); /* what was not looked at is not missing */
    ck_assert_uint_eq(audit.skipped, 1);
    ck_assert_uint_eq(audit.all.found.n, 2);
    fake_kernel_refuse_reads(1, 1, true);
    size_t lookups = 2;
    struct frontend f = frontend(1);
    struct audit_subject subject = {.frontend = &f};
    struct error err = {0};
    ck_assert_int_eq(ruleset_audit(ruleset, sock, &subject, &lookups, &audit, &err), -1);
    ck_assert_ptr_nonnull(err.text);
    error_clear(&err);
}

UNIT_FIXTURE(setup, clear)
