/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * That the fake kernel rejects what the kernel rejects (kernel_cases.h), ends tests that break its
 * rules, and sends packets where the rules send them (tests/unit/cases/fake_kernel).
 */
#include "fake_kernel.h"
#include "kernel_cases.h"

#include <errno.h>
#include <libnftnl/set.h>
#include <linux/netfilter/nf_tables.h>

static void setup(void)
{
    fake_kernel_reset();
    fake_kernel_tolerate();
    case_open();
}

static void teardown(void)
{
    case_close();
    fake_kernel_reset();
}

CASE_TRANSACTIONS

/* ---- a table with a frontend of each class ---- */

/* 1 has a list of sources, 2 is rejected, 3 a cluster IP, 4 external and local, 5 a cluster IP
 * whose policy is Local, 6 with affinity, 7 the same, external and local; 8 is external. Service
 * ports have backends 1 and 2, of which the first is on this node. Pods have addresses 200 to 299.
 */
static void begin_with_classes(enum family family)
{
    static const int with_backends[] = {3, 4, 6, 8}, local[] = {4, 6};
    begin(family);
    put("instance local-pick.nft 1\n"
        "instance source-ranges.nft 0\n"
        "instance affinity.nft 0\n"
        "instance learn.nft 100");
    commit();
    for (int i = 0; i < COUNT(with_backends); i++)
        put("+ endpoints p%1$d 0 : b1\n"
            "+ endpoints p%1$d 1 : b2\n"
            "+ ports p%1$d : p%1$d/2",
            with_backends[i]);
    for (int i = 0; i < COUNT(local); i++)
        put("+ local_endpoints p%1$d 0 : b1\n"
            "+ local_ports p%1$d : p%1$d/1",
            local[i]);
    put("+ dropped_ports p5/2\n"
        "+ affinity_timeouts p6 : 100\n"
        "+ affinity_numbers p6 b1 : p6/1\n"
        "+ affinity_numbers p6 b2 : p6/2\n"
        "+ affinity_backends p6/1 : b1\n"
        "+ affinity_backends p6/2 : b2\n"
        "+ local_affinity_backends p6/1 : b1\n"
        "+ services f3 : p3/2\n"
        "+ services f4 : p4/0x7ff3\n"
        "+ services f5 : p5/0x7ff2\n"
        "+ services f6 : p6/0x7ff4\n"
        "+ services f7 : p6/0x7ff7\n"
        "+ services f8 : p8/0x7ff1\n"
        "- services f1\n"
        "+ services f1 : p1/0x7ff8\n"
        "+ source_lists p1 : l1\n"
        "+ pod_cidrs 200-299");
    commit();
}

/* ---- commands ---- */

/* Batches are cut from now on, wherever there is a "cut". */
COMMAND(pieces)
{
    fake_kernel_cut(true);
    batch.piece = 1 << 20;
}

COMMAND(cut)
{
    nft_batch_may_cut(&batch);
}

/* So many times the delay of trims after the beginning. */
COMMAND(later)
{
    fake_kernel_set_time(atof(words) * RULESET_TRIM_DELAY);
}

/* What another program puts into a set. */
COMMAND(foreign)
{
    const char *set = script_word(&words);
    struct key key = case_words(&words, ":"), value = case_words(&words, "");
    fake_kernel_put(case_family(), set, key.bytes, key.length, value.bytes, value.length);
}

COMMAND(foreign_end)
{
    const char *set = script_word(&words);
    struct key key = case_words(&words, "");
    fake_kernel_put_end(case_family(), set, key.bytes, key.length);
}

/* Which rule of fake_kernel.h the batch breaks, if any. */
COMMAND(judge)
{
    commit();
    if (fake_kernel_violation())
        fprintf(out, "%s\n", fake_kernel_violation());
}

static void write_ranges(range_vec *ranges, FILE *out)
{
    const size_t n = address_length(case_family());
    vec_each (ranges, range) {
        const uint8_t *a = range->first.bytes + n - 2, *b = range->last.bytes + n - 2;
        fprintf(out, "%s%u-%u", range == ranges->v ? "" : " ", a[0] << 8 | a[1], b[0] << 8 | b[1]);
    }
    fprintf(out, "\n");
    vec_free(ranges);
}

COMMAND(ranges)
{
    range_vec ranges = {0};
    fake_kernel_ranges(case_family(), words, &ranges);
    ck_assert_uint_eq(fake_kernel_size(case_family(), words), ranges.n);
    write_ranges(&ranges, out);
}

COMMAND(sources)
{
    const struct frontend to = case_frontend(case_family(), (uint8_t)atoi(words + 1));
    range_vec ranges = {0};
    fake_kernel_sources(&to, &ranges);
    write_ranges(&ranges, out);
}

/* A table that knows pods by their interfaces, with frontend 1 alone. */
COMMAND(interface)
{
    char *not_from_pod = xasprintf("iifname != \"%s\"", words);
    struct layout_vars vars = case_vars(2);
    vars.not_from_pod = not_from_pod;
    nft_batch_delete_table(&batch);
    nft_batch_add_table(&batch, false, "of a test");
    case_layout(TEMPLATE_BASE, &vars);
    case_layout(TEMPLATE_PICK, &vars);
    free(not_from_pod);
    put("+ endpoints p1 0 : b1\n"
        "+ endpoints p1 1 : b2\n"
        "+ ports p1 : p1/2\n"
        "+ services f1 : p1/2");
    commit();
}

/* packet TO FROM host in=INTERFACE: where packets go, to each other backend in turn. TO may have a
 * port behind. What they are marked with stays. */
COMMAND(packet)
{
    static const char *const fates[] = {"untouched", NULL, "rejected", "dropped"};
    const char *word = script_word(&words), *port = strchr(word, ':');
    const size_t n = address_length(case_family());
    struct frontend to = case_frontend(case_family(), 0);
    struct fake_client from = {.mark = 0x10};
    char *value;
    memcpy(to.address.bytes, case_word(case_family(), word).bytes, n);
    to.port = port ? (uint16_t)atoi(port + 1) : to.port;
    memcpy(from.address.bytes, case_word(case_family(), script_word(&words)).bytes, n);
    while (*(value = script_word(&words)))
        if (strcmp(value, "host") == 0)
            from.is_host = true;
        else
            from.interface = value + strlen("in=");
    struct fake_route route = fake_kernel_route(&to, &from);
    ck_assert((route.fate == FAKE_BALANCED) == (route.n > 0));
    fprintf(out, "%s", route.n ? "to" : fates[route.fate]);
    for (size_t i = 0; i < route.n; i++) {
        ck_assert_uint_eq(route.to[i].backend.port, 8080);
        ck_assert_uint_eq(route.to[i].mark, 0x10);
        fprintf(out, " b%u%s", route.to[i].backend.address.bytes[3],
                route.to[i].masqueraded ? "m" : "");
    }
    fprintf(out, "\n");
    fake_route_free(&route);
}

TESTS(cases, FAMILY_COUNT *script_cases("fake_kernel"))
{
    begin_with_classes((enum family)(_i / script_cases("fake_kernel")));
    script_run("fake_kernel", _i % script_cases("fake_kernel"));
}

/* ---- rejections ---- */

EACH_FAMILY(what_is_refused_does_not_count)
{
    begin((enum family)_i);
    fake_kernel_forget_counts();
    put("+ rejected_ports p9\n"
        "- endpoints p1 2");
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
    ck_assert_uint_eq(fake_kernel_counts()->added, 0);
}

EACH_FAMILY(an_anonymous_set_that_no_rule_uses)
{
    enum family family = (enum family)_i;
    begin(family);
    char name[] = ANONYMOUS_SET, type[] = "type inet_proto";
    const struct layout_set layout = {.name = name, .declaration = type, .set = nftnl_set_alloc()};
    ck_assert_int_eq(set_declare(&layout, &err), 0);
    nftnl_set_set_u32(layout.set, NFTNL_SET_ID, 1);
    nftnl_set_set_u32(layout.set, NFTNL_SET_FLAGS, NFT_SET_ANONYMOUS | NFT_SET_CONSTANT);
    nft_batch_add_set(&batch, layout.set);
    nftnl_set_free(layout.set);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
}

TEST(faults)
{
    begin(FAMILY_IPV4);
    put("+ rejected_ports p99");
    fake_kernel_fail(2, FAKE_REJECTS);
    commit();
    ck_assert(fake_kernel_number(FAMILY_IPV4, "rejected_ports", case_port(99)));
    put("- services f1");
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "services"), 2);
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_uint_eq(fake_kernel_size(FAMILY_IPV4, "services"), 1);
    ck_assert(!fake_kernel_spare());
}

/* Preflight asks about a table that there is not. */
EACH_FAMILY(a_check_leaves_nothing_behind)
{
    enum family family = (enum family)_i;
    int why = 0;
    nft_batch_init(&batch, family, "kube-nftd-probe");
    put("table");
    ck_assert_int_eq(nft_socket_check(sock, &batch, &why, &err), 0);
    ck_assert_int_eq(nft_socket_check(sock, &batch, NULL, &err), 0);
    ck_assert_uint_eq(fake_kernel_size(family, "services"), SIZE_MAX);
    ck_assert_uint_eq(fake_kernel_counts()->messages, 0);
    fake_kernel_lack("masq");
    ck_assert_int_eq(nft_socket_check(sock, &batch, &why, &err), -1);
    ck_assert_int_eq(why, ENOENT);
    ck_assert_ptr_nonnull(err.text);
    fake_kernel_lack("quota");
    ck_assert_int_eq(nft_socket_check(sock, &batch, &why, NULL), 0);
}

UNIT_FIXTURE(setup, teardown)
