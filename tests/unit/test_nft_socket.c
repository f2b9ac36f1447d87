/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The netlink socket and the kernel's nf_tables, in a user and network namespace of each test's
 * own: no privileges are needed, and nothing of the machine is touched.
 */
#include "unit.h"

#include "kernel_cases.h"
#include "namespaces.h"

#include "kube-nftd/table.h"
#include "netlink/table_monitor.h"

#include <ev.h>
#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

static void setup(void)
{
    enter_namespaces();
    case_open();
}

CASE_TRANSACTIONS

TEST(too_many_keys)
{
    const struct nft_keys keys = {NULL, 4, NFT_KEYS_MOST + 1};
    size_t found;
    begin(FAMILY_IPV4);
    ck_assert_int_eq(nft_socket_get_elements(sock, FAMILY_IPV4, RULESET_TABLE, "ports", &keys,
                                             case_see, NULL, &found, &err),
                     -1);
}

/* Older kernels do not tell: nothing is claimed then. */
EACH_FAMILY(how_many_elements)
{
    enum family family = (enum family)_i;
    uint32_t count;
    bool known;
    begin(family);
    ck_assert_int_eq(
        nft_socket_count_elements(sock, family, RULESET_TABLE, "services", &count, &known, &err),
        0);
    ck_assert_uint_eq(count, known ? size_of("services") : 0);
    ck_assert_int_eq(
        nft_socket_count_elements(sock, family, RULESET_TABLE, "no_such_set", &count, &known, &err),
        0);
    ck_assert(!known);
}

/* ---- every template ---- */

/* What shapes a table; see struct layout_vars. */
static const struct layout_vars configurations[] = {
    {.from_host = "fib saddr type local", .reject = "reject"},
    {.from_pod = "iifname \"cni0\"",
     .not_from_pod = "iifname != \"cni0\"",
     .from_host = "fib saddr type local",
     .reject = "reject"},
    {.from_pod = "iifname \"veth*\"", .not_from_pod = "iifname != \"veth*\"", .reject = "drop"},
    {.not_from_pod = "",
     .from_host = "fib saddr type local",
     .reject = "drop",
     .count_services = "",
     .count_endpoints = ""},
};

/* The instances for @n backends and for an affinity of @n seconds. */
static void add_instances(struct layout_vars vars, unsigned n)
{
    vars.n = octave_of(n);
    if (vars.n) {
        case_layout(TEMPLATE_PICK_FROM, &vars);
        case_layout(TEMPLATE_LOCAL_PICK_FROM, &vars);
    }
    vars.n = n;
    case_layout(TEMPLATE_PICK, &vars);
    case_layout(TEMPLATE_LOCAL_PICK, &vars);
    case_layout(TEMPLATE_LEARN, &vars);
}

TESTS(the_kernel_takes_every_template, (FAMILY_COUNT * COUNT(configurations)))
{
    struct layout_vars vars = configurations[_i / FAMILY_COUNT];
    vars.family = (enum family)(_i % FAMILY_COUNT);
    vars.mark = "0x4000";
    if (vars.count_services)
        vars.to_localhost =
            vars.family == FAMILY_IPV4 ? "ip daddr and 255.0.0.0 == 127.0.0.0" : "ip6 daddr == ::1";
    nft_batch_init(&batch, vars.family, RULESET_TABLE);
    nft_batch_add_table(&batch, false, "of a test");
    case_layout(TEMPLATE_BASE, &vars);
    case_layout(TEMPLATE_SOURCE_RANGES, &vars);
    case_layout(TEMPLATE_AFFINITY, &vars);
    add_instances(vars, 2);
    add_instances(vars, MAX_BACKENDS);
    commit();
    ck_assert_uint_eq(size_of("picks"), 2);
    ck_assert_uint_eq(size_of("local_picks"), 2);
    add_instances(vars, 3); /* and later, too */
    commit();
    ck_assert_uint_eq(size_of("learners"), 3);
}

/* ---- reading; most is in tests/unit/cases/kernel ---- */

TEST(a_table_of_another_name)
{
    struct nft_table_state state;
    begin(FAMILY_IPV4);
    ck_assert_int_eq(nft_socket_read_table(sock, FAMILY_IPV4, "kube", &state, &err), 0);
    ck_assert(!state.exists);
}

TEST(reading_what_is_not_there)
{
    struct case_lines seen = {.set = "services"};
    begin(FAMILY_IPV4);
    ck_assert_int_eq(nft_socket_read_elements(sock, FAMILY_IPV4, RULESET_TABLE, "nothing", case_see,
                                              &seen, &err),
                     -1);
    ck_assert_str_eq(err.text, "cannot read the elements of nothing: No such file or directory");
    ck_assert_int_eq(nft_socket_read_elements(sock, FAMILY_IPV6, RULESET_TABLE, "services",
                                              case_see, &seen, &err),
                     -1);
    error_clear(&err);
    ck_assert_uint_eq(seen.lines.n, 0);
    ck_assert_uint_eq(size_of("services"), 2); /* the socket is fine */
}

static char names[1024];

/* The names of the chains that have rules, in the order of the rules. */
static void note_rule(void *ctx, struct nftnl_rule *rule)
{
    ck_assert_str_eq(nftnl_rule_get_str(rule, NFTNL_RULE_TABLE), RULESET_TABLE);
    ck_assert_uint_lt(strlen(names), 960);
    strcat(strcat(names, nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN)), " ");
}

/* "TYPE:" before the name of a chain that has a hook. */
static void note_chain(void *ctx, struct nftnl_chain *chain)
{
    ck_assert_str_eq(nftnl_chain_get_str(chain, NFTNL_CHAIN_TABLE), RULESET_TABLE);
    ck_assert_uint_lt(strlen(names), 960);
    if (nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM))
        strcat(strcat(names, nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE)), ":");
    strcat(strcat(names, nftnl_chain_get_str(chain, NFTNL_CHAIN_NAME)), " ");
}

static const char *read_names(enum family family, bool rules)
{
    names[0] = '\0';
    int result = rules
                     ? nft_socket_read_rules(sock, family, RULESET_TABLE, note_rule, NULL, &err)
                     : nft_socket_read_chains(sock, family, RULESET_TABLE, note_chain, NULL, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    return names;
}

EACH_FAMILY(rules_and_chains_are_read_back)
{
    enum family family = (enum family)_i, other = 1 - family;
    begin(family);
    put("rule port reject");
    commit();
    ck_assert_ptr_nonnull(strstr(read_names(family, true), "port port "));
    ck_assert_ptr_nonnull(strstr(names, "nat-prerouting nat-output "));
    ck_assert_str_eq(strrchr(names, ' ') - strlen("pick-2"), "pick-2 ");
    ck_assert_ptr_nonnull(strstr(read_names(family, false), " nat:nat-prerouting "));
    ck_assert_ptr_nonnull(strstr(names, "port "));
    ck_assert_str_eq(read_names(other, true), "");
    ck_assert_str_eq(read_names(other, false), "");
}

/* ---- rejections ---- */

TEST(the_first_rejection_is_named)
{
    begin(FAMILY_IPV4);
    put("+ ports p1 : p1/1\n"
        "- endpoints p1 2\n"
        "+ picks 77 goto pick-77");
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_str_eq(err.text, "the kernel refused to add elements to ports: File exists");
    nft_batch_clear(&batch);
    error_clear(&err);
    put("+ rejected_ports p9"); /* and the next transaction is its own */
    commit();
}

/* More rejections than their answers' buffer holds. */
TEST(very_many_rejections)
{
    const unsigned most = 250;
    begin(FAMILY_IPV4);
    for (int round = 0; round < 100; round++)
        for (unsigned i = 10; i < most; i++) /* a message each */
            put("- services f%u\n- endpoints p%u 0", i, i);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_str_eq(err.text, "the kernel refused to delete elements of services: No such file or "
                               "directory");
    nft_batch_clear(&batch);
    error_clear(&err);
    ck_assert_uint_eq(size_of("services"), 2);
    put("+ rejected_ports p9");
    commit();
    ck_assert_uint_eq(size_of("rejected_ports"), 2);
}

/* ---- asking without doing ---- */

static int check(void)
{
    int why = 0, result = nft_socket_check(sock, &batch, &why, &err);
    nft_batch_clear(&batch);
    ck_assert_int_eq(result, why ? -1 : 0);
    ck_assert((err.text != NULL) == (why != 0));
    return why;
}

EACH_FAMILY(what_is_checked_is_not_applied)
{
    enum family family = (enum family)_i;
    struct nft_table_state state;
    nft_batch_init(&batch, family, RULESET_TABLE);
    ck_assert_int_eq(check(), 0); /* of nothing */
    put("table");
    ck_assert_int_eq(check(), 0);
    ck_assert_int_eq(nft_socket_read_table(sock, family, RULESET_TABLE, &state, &err), 0);
    ck_assert(!state.exists);
    nft_batch_release(&batch);
    begin(family); /* nor is anything left of it */
    put("+ rejected_ports p9");
    ck_assert_int_eq(check(), 0);
    ck_assert_uint_eq(size_of("rejected_ports"), 1);
    put("no-table");
    ck_assert_int_eq(check(), 0);
    ck_assert_uint_eq(size_of("rejected_ports"), 1);
}

/* Chains that lead to each other: the kernel has to look at all of them. */
TEST(a_check_finds_loops)
{
    begin(FAMILY_IPV4);
    put("rule pick-2 jump port");
    ck_assert_int_ne(check(), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "the kernel "));
    error_clear(&err);
    put("rule pick-2 jump affine");
    ck_assert_int_eq(check(), 0);
    put("rule pick-2 jump port");
    ck_assert_int_eq(nft_socket_check(sock, &batch, NULL, &err), -1); /* who does not ask why */
}

/* ---- more than the send buffer holds ---- */

/* How much the kernel lets a process without privileges send at once. */
static size_t send_limit(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER), size = INT32_MAX / 2;
    socklen_t length = sizeof(size);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length), 0);
    close(fd);
    return (size_t)size;
}

static void big_slot(uint32_t number)
{
    struct backend b = {{{10}}, 8080};
    memcpy(b.address.bytes + 4, &number, sizeof(number));
    struct key key = key_of_slot(case_port(200), number), value = value_of_backend(FAMILY_IPV6, &b);
    nft_batch_element(&batch, ELEMENT_ADD, set_name(SET_ENDPOINTS), key.bytes, key.length,
                      value.bytes, value.length);
}

static void mark(void *ctx, const struct nft_element *e)
{
    uint8_t *marks = ctx;
    const uint32_t port = case_port(200);
    uint32_t number;
    if (memcmp(e->key, &port, sizeof(port)) != 0)
        return;
    ck_assert_uint_eq(e->key_length, 8);
    ck_assert_uint_eq(e->data_length, 20);
    memcpy(&number, e->key + 4, sizeof(number));
    ck_assert_mem_eq(e->key + 4, e->data + 4, sizeof(number));
    marks[number] = 1;
}

TEST(a_batch_larger_than_the_send_buffer_is_cut)
{
    size_t limit = send_limit();
    uint32_t n = 0;
    begin(FAMILY_IPV6);
    batch.piece = NFT_PIECE_FITTING;
    while (batch.used < limit + limit / 4)
        big_slot(n++);
    ck_assert_uint_ge(n, 5000);
    nft_batch_finish(&batch);
    commit();
    ck_assert_int_eq(logged_with("is split into several transactions"), 1);
    /* While the kernel moves so many elements to a larger hash table, an answer may have some
     * twice and lack others. */
    uint8_t *marks = xcalloc(n, 1);
    for (int tries = 0; tries < 20 && memchr(marks, 0, n); tries++)
        ck_assert_int_eq(nft_socket_read_elements(sock, FAMILY_IPV6, RULESET_TABLE,
                                                  set_name(SET_ENDPOINTS), mark, marks, &err),
                         0);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(marks[i], "element %u did not arrive", i);
    free(marks);
}

/* Nor what may not be cut. */
TESTS(what_cannot_be_cut_is_not_sent, 2)
{
    size_t limit = send_limit();
    begin(FAMILY_IPV6);
    batch.piece = _i ? NFT_PIECE_FITTING : 0;
    for (uint32_t n = 0; batch.used < limit; n++) {
        big_slot(n);
        if (_i) /* sets in turn: each element is a message, none may be cut off */
            put("+ rejected_ports p99");
    }
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "send buffer"));
    ck_assert_ptr_nonnull(strstr(err.text, "too small"));
    ck_assert_ptr_nonnull(strstr(err.text, "net.core.wmem_max"));
    ck_assert(batch.nothing_applied && batch.short_of_memory);
    error_clear(&err);
    nft_batch_clear(&batch);
    ck_assert_uint_eq(size_of("rejected_ports"), 1);
    put("+ rejected_ports p99");
    commit();
}

/* ---- a set that changes while it is read ---- */

struct intrusion {
    struct nft_socket *other;
    size_t n;
};

static void intrude(void *ctx, const struct nft_element *e)
{
    struct intrusion *intrusion = ctx;
    if (intrusion->n++ > 0)
        return;
    put("+ rejected_ports p99");
    ck_assert_int_eq(nft_socket_commit(intrusion->other, &batch, &err), 0);
    nft_batch_clear(&batch);
}

TEST(a_change_while_reading_is_noticed)
{
    const uint32_t n = 20000; /* many more than one answer holds */
    struct intrusion intrusion = {nft_socket_open(&err), 0};
    begin(FAMILY_IPV6);
    for (uint32_t i = 0; i < n; i++)
        big_slot(i);
    commit();
    ck_assert_int_eq(nft_socket_read_elements(sock, FAMILY_IPV6, RULESET_TABLE,
                                              set_name(SET_ENDPOINTS), intrude, &intrusion, &err),
                     -1);
    ck_assert_str_eq(err.text, "cannot read the elements of endpoints: Interrupted system call");
    error_clear(&err);
    ck_assert_uint_lt(intrusion.n, n);
    /* What was left of that answer is not taken for one to the next request. */
    ck_assert_uint_eq(size_of("rejected_ports"), 2);
    ck_assert_uint_eq(size_of("endpoints"), n + 2);
    nft_socket_close(intrusion.other);
}

/* ---- large batches while a monitor listens ---- */

static char reported[256];

static void on_changed(void *ctx, const struct table_change *change)
{
    snprintf(reported + strlen(reported), sizeof(reported) - strlen(reported), "%s ", change->set);
}

static void on_lost(void *ctx)
{
    snprintf(reported + strlen(reported), sizeof(reported) - strlen(reported), "lost ");
}

static void on_finished(void *ctx, enum family family, const struct table_program *program)
{
    snprintf(reported + strlen(reported), sizeof(reported) - strlen(reported), "%s",
             program->pid ? "finished" : "finished by nobody ");
    if (family == FAMILY_IPV6)
        ev_break(ctx, EVBREAK_ALL);
}

static void commit_of_another(unsigned number)
{
    struct nft_socket *other = nft_socket_open(&err);
    put("+ rejected_ports p%u", number);
    ck_assert_int_eq(nft_socket_commit(other, &batch, &err), 0);
    nft_batch_clear(&batch);
    nft_socket_close(other);
}

static void commit_large(void)
{
    for (uint32_t i = 0; i < 1000; i++)
        big_slot(i);
    commit();
}

static void expect_reported(struct ev_loop *loop, const char *text)
{
    ev_run(loop, 0);
    ck_assert_str_eq(reported, text);
    reported[0] = '\0';
}

TEST(a_large_batch_is_not_listened_to)
{
    struct ev_loop *loop = ev_loop_new(0);
    const struct table_monitor_ops ops = {on_changed, on_lost, on_finished, loop};
    reported[0] = '\0';
    begin(FAMILY_IPV6);
    struct table_monitor *monitor = table_monitor_new(loop, RULESET_TABLE, sock, &ops, &err);
    ck_assert_ptr_nonnull(monitor);

    commit_of_another(90); /* waits in the queue while nobody listens */
    commit_large();
    commit_of_another(91); /* and then the monitor is there again */
    expect_reported(loop, "rejected_ports rejected_ports finished");

    table_monitor_leave(monitor);
    commit_of_another(92);
    table_monitor_rejoin(monitor, 0);
    expect_reported(loop, "lost finished by nobody finished by nobody ");

    table_monitor_leave(monitor);
    commit_of_another(93); /* as if it were our own */
    table_monitor_rejoin(monitor, 1);
    commit_of_another(94);
    expect_reported(loop, "rejected_ports finished"); /* 94 alone */
    table_monitor_free(monitor);
    commit_large(); /* and nothing is reported */
    ev_loop_destroy(loop);
}

/* None of these looks as if others had committed. */
TEST(transactions_of_a_large_batch_are_counted)
{
    struct ev_loop *loop = ev_loop_new(0);
    const struct table_monitor_ops ops = {on_changed, on_lost, on_finished, loop};
    uint32_t before, after;
    reported[0] = '\0';
    begin(FAMILY_IPV6);
    struct table_monitor *monitor = table_monitor_new(loop, RULESET_TABLE, sock, &ops, &err);
    ck_assert_int_eq(nft_socket_generation(sock, &before, &err), 0);
    batch.piece = NFT_PIECE_FITTING;
    for (uint32_t i = 1000; i < 9000; i++)
        big_slot(i);
    batch.piece = batch.used / 4; /* cut where it can be, before that */
    commit();
    batch.piece = 0;
    ck_assert_int_eq(nft_socket_generation(sock, &after, &err), 0);
    ck_assert_uint_ge(after - before, 4);
    ck_assert_uint_le(after - before, 8);
    commit_of_another(90);
    expect_reported(loop, "rejected_ports finished");

    put("- endpoints p77 1"); /* is not there */
    for (uint32_t i = 9000; i < 10000; i++)
        big_slot(i);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    error_clear(&err);
    nft_batch_clear(&batch);
    ck_assert_int_eq(nft_socket_generation(sock, &before, &err), 0);
    ck_assert_uint_eq(before, after + 1); /* the other's */
    commit_of_another(91);
    expect_reported(loop, "rejected_ports finished");
    table_monitor_free(monitor);
    ev_loop_destroy(loop);
}

/* ---- preflight; test_preflight.c has what kernels may lack ---- */

/* With IPv4 alone, IPv6 alone, and both. */
#define FAMILIES 3

static struct preflight preflights[FAMILY_COUNT];

static void run_preflight(int which)
{
    const bool families[FAMILY_COUNT] = {
        [FAMILY_IPV4] = which != FAMILY_IPV6, [FAMILY_IPV6] = which != FAMILY_IPV4};
    for (int i = 0; i < FAMILY_COUNT; i++)
        preflight_clear(&preflights[i]);
    preflight_run(sock, families, false, preflights);
    for (int i = 0; i < FAMILY_COUNT; i++)
        ck_assert_int_eq(preflights[i].n > 0, families[i]);
}

static void check_passed(const struct preflight *preflight, bool passed)
{
    if (preflight->n == 0)
        return;
    ck_assert_int_eq(preflight_passed(preflight), passed);
    ck_assert_int_eq(preflight_has(preflight, NEED_FIB), passed);
    ck_assert_int_eq(preflight_has(preflight, NEED_REJECT), passed);
}

/* A table that has preflight's name would be seen, and stays as it is. */
TESTS(this_kernel_can_do_everything, 2 * FAMILIES)
{
    struct nft_table_state state;
    const enum family family = _i % FAMILIES == FAMILY_IPV6 ? FAMILY_IPV6 : FAMILY_IPV4;
    nft_batch_init(&batch, family, PREFLIGHT_TABLE);
    if (_i >= FAMILIES)
        nft_batch_add_table(&batch, false, "of somebody else");
    commit();
    run_preflight(_i % FAMILIES);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        for (size_t k = 0; k < preflights[i].n && _i < FAMILIES; k++)
            ck_assert_msg(preflights[i].results[k].works, "%s", preflights[i].results[k].feature);
        check_passed(&preflights[i], true);
        ck_assert_int_eq(nft_socket_read_table(sock, (enum family)i, PREFLIGHT_TABLE, &state, &err),
                         0);
        ck_assert_int_eq(state.exists, _i >= FAMILIES && i == (int)family);
        free(state.comment);
    }
}

/* The rights over the network namespace stay with the user namespace that made it. */
TESTS(preflight_without_the_right_to, FAMILIES)
{
    enter_user_namespace(0);
    run_preflight(_i);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (preflights[i].n == 0)
            continue;
        char *text = preflight_missing(&preflights[i]);
        check_passed(&preflights[i], false);
        ck_assert_msg(strncmp(text, "nf_tables: ", 11) == 0, "%s", text);
        ck_assert_msg(strstr(text, "CAP_NET_ADMIN") != NULL, "%s", text);
        ck_assert_msg(strstr(text, "CONFIG_") == NULL, "%s", text);
        free(text);
    }
}

static void teardown(void)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        preflight_clear(&preflights[i]);
    case_close();
}

UNIT_FIXTURE(setup, teardown)
