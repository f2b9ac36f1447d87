/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The netlink socket and the kernel's nf_tables, in a user and network namespace of each test's
 * own: no privileges are needed, and nothing of the machine is touched.
 */
#include "unit.h"

#include "kernel_cases.h"
#include "namespaces.h"

#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/netlink/table_monitor.h"
#include "kube-nftd/ruleset/ruleset.h"

#include <ev.h>
#include <libnftnl/chain.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

static struct nft_socket *sock;
static struct nft_batch batch;
static struct error err;

static void setup(void)
{
    enter_namespaces();
    sock = nft_socket_open(&err);
    ck_assert_msg(sock, "%s", err.text);
}

static void teardown(void)
{
    nft_batch_release(&batch);
    nft_socket_close(sock);
    error_clear(&err);
}

static void commit(void)
{
    int result = nft_socket_commit(sock, &batch, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
    nft_batch_clear(&batch);
}

static void begin(enum family family)
{
    nft_batch_init(&batch, family, RULESET_TABLE);
    case_table(&batch);
    commit();
}

/* ---- reading ---- */

/* What was read of a map: how many elements, a sum over their bytes, the last one. */
struct seen {
    size_t n, n_ends, key_length, data_length;
    uint8_t key[64], data[64];
};

static void see(void *ctx, const struct nft_element *e)
{
    struct seen *seen = ctx;
    ck_assert(e->key_length <= sizeof(seen->key) && e->data_length <= sizeof(seen->data));
    ck_assert(e->data || e->data_length == 0);
    seen->n_ends += (e->flags & NFT_SET_ELEM_INTERVAL_END) != 0;
    seen->n++;
    seen->key_length = e->key_length;
    seen->data_length = e->data_length;
    memcpy(seen->key, e->key, e->key_length);
    if (e->data)
        memcpy(seen->data, e->data, e->data_length);
}

static struct seen look_at(enum family family, const char *set)
{
    struct seen seen = {.n = 0};
    int result = nft_socket_read_elements(sock, family, RULESET_TABLE, set, see, &seen, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
    return seen;
}

static void check_seen(struct seen seen, size_t n, struct key key, const void *data,
                       size_t data_length)
{
    ck_assert_uint_eq(seen.n, n);
    ck_assert_uint_eq(seen.n_ends, 0);
    ck_assert_uint_eq(seen.key_length, key.length);
    ck_assert_mem_eq(seen.key, key.bytes, key.length);
    ck_assert_uint_eq(seen.data_length, data_length);
    if (data)
        ck_assert_mem_eq(seen.data, data, data_length);
}

static struct key port_key(uint8_t number)
{
    struct key key = {.length = 0};
    key_put_number(&key, case_port(number));
    return key;
}

EACH_FAMILY(what_is_committed_is_read_back)
{
    enum family family = (enum family)_i;
    struct backend backend = {{{10, 0, 0, 1}}, 8080};
    const uint32_t count = case_port(1) | 2;
    begin(family);
    ck_assert_uint_eq(look_at(family, set_name(SET_SERVICES)).n, 2);
    check_seen(look_at(family, set_name(SET_PORTS)), 1, port_key(1), &count, sizeof(count));
    check_seen(look_at(family, set_name(SET_REJECTED)), 1, port_key(2), NULL, 0);
    ck_assert_uint_eq(look_at(family, set_name(SET_ENDPOINTS)).n, 2);

    case_slot(&batch, ELEMENT_DELETE, 1, 1, 0);
    commit();
    struct key value = value_of_backend(family, &backend);
    check_seen(look_at(family, set_name(SET_ENDPOINTS)), 1, key_of_slot(case_port(1), 0),
               value.bytes, value.length);
}

/* Verdicts are no data; a number that packets leave behind has more attributes than ours. */
TEST(verdicts_and_timeouts_are_read_back)
{
    const uint32_t learner = 10800, port = 7 << PORT_LOW_BITS, client[2] = {port, 0x0100007f},
                   backend = port | 1;
    begin(FAMILY_IPV4);
    case_shape(&batch, TEMPLATE_LEARN, learner, learner);
    nft_batch_element(&batch, ELEMENT_ADD, "affinity", client, sizeof(client), &backend,
                      sizeof(backend));
    commit();
    struct key key = {.length = 0};
    key_put_number(&key, learner);
    check_seen(look_at(FAMILY_IPV4, "learners"), 1, key, NULL, 0);
    struct seen seen = look_at(FAMILY_IPV4, "affinity");
    ck_assert_uint_eq(seen.n, 1);
    ck_assert_mem_eq(seen.key, client, sizeof(client));
    ck_assert_uint_eq(seen.data_length, sizeof(backend));
    ck_assert_mem_eq(seen.data, &backend, sizeof(backend));
}

/* ---- ranges ---- */

EACH_FAMILY(ranges_are_read_back)
{
    enum family family = (enum family)_i;
    begin(family);
    struct seen seen = look_at(family, "service_cidrs");
    ck_assert_uint_eq(seen.n, 3); /* the highest one has no end */
    ck_assert_uint_eq(seen.n_ends, 1);
    case_range(&batch, ELEMENT_ADD, 20, 29); /* begins where another ends */
    commit();
    seen = look_at(family, "service_cidrs");
    ck_assert_uint_eq(seen.n, 5);
    ck_assert_uint_eq(seen.n_ends, 2);

    case_range(&batch, ELEMENT_DELETE, 10, 19);
    case_range(&batch, ELEMENT_DELETE, 50, CASE_TOP);
    commit();
    seen = look_at(family, "service_cidrs");
    ck_assert_uint_eq(seen.n, 2);
    ck_assert_uint_eq(seen.n_ends, 1);
}

/* ---- single elements ---- */

static struct seen look_for(enum family family, const char *set, struct key key)
{
    struct seen seen = {.n = 0};
    int result = nft_socket_get_element(sock, family, RULESET_TABLE, set, key.bytes, key.length,
                                        see, &seen, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
    return seen;
}

EACH_FAMILY(single_elements)
{
    enum family family = (enum family)_i;
    struct frontend one = case_frontend(family, 1), three = case_frontend(family, 3);
    const uint32_t port = case_port(1), count = port | 2;
    ck_assert_uint_eq(look_for(family, set_name(SET_SERVICES), key_of_frontend(&one)).n,
                      0); /* no table */
    begin(family);
    check_seen(look_for(family, set_name(SET_SERVICES), key_of_frontend(&one)), 1,
               key_of_frontend(&one), &port, sizeof(port));
    check_seen(look_for(family, set_name(SET_REJECTED), port_key(2)), 1, port_key(2), NULL, 0);
    ck_assert_uint_eq(look_for(family, set_name(SET_SERVICES), key_of_frontend(&three)).n, 0);
    ck_assert_uint_eq(look_for(family, "no_such_set", key_of_frontend(&three)).n, 0);
    /* And nothing is left behind that would be taken for the next answer. */
    check_seen(look_at(family, set_name(SET_PORTS)), 1, port_key(1), &count, sizeof(count));
    ck_assert_uint_eq(look_for(family, set_name(SET_ENDPOINTS), key_of_slot(case_port(1), 1)).n, 1);
    ck_assert_uint_eq(look_for(family, set_name(SET_ENDPOINTS), key_of_slot(case_port(1), 7)).n, 0);
}

EACH_FAMILY(several_elements)
{
    enum family family = (enum family)_i;
    struct key first = key_of_slot(case_port(1), 0), second = key_of_slot(case_port(1), 1),
               none = key_of_slot(case_port(1), 7);
    uint8_t bytes[3 * KEY_SIZE];
    struct nft_keys keys = {bytes, first.length, 3};
    struct seen seen = {.n = 0};
    size_t found;
    begin(family);
    memcpy(bytes, first.bytes, first.length);
    memcpy(bytes + first.length, none.bytes, first.length);
    memcpy(bytes + 2 * first.length, second.bytes, first.length);
    ck_assert_int_eq(nft_socket_get_elements(sock, family, RULESET_TABLE, set_name(SET_ENDPOINTS),
                                             &keys, see, &seen, &found, &err),
                     0);
    ck_assert_uint_eq(found, 1);
    memcpy(bytes + first.length, second.bytes, first.length);
    keys.n = 2;
    ck_assert_int_eq(nft_socket_get_elements(sock, family, RULESET_TABLE, set_name(SET_ENDPOINTS),
                                             &keys, see, &seen, &found, &err),
                     0);
    ck_assert_uint_eq(found, 2);
    ck_assert_uint_eq(seen.n, 3);
    ck_assert_mem_eq(seen.key, second.bytes, second.length);
    keys.n = NFT_KEYS_MOST + 1;
    ck_assert_int_eq(nft_socket_get_elements(sock, family, RULESET_TABLE, set_name(SET_ENDPOINTS),
                                             &keys, see, &seen, &found, &err),
                     -1);
    error_clear(&err);
}

/* Older kernels do not tell: nothing is claimed then. */
EACH_FAMILY(how_many_elements)
{
    enum family family = (enum family)_i;
    uint32_t count;
    bool told;
    begin(family);
    ck_assert_int_eq(nft_socket_count_elements(sock, family, RULESET_TABLE, set_name(SET_SERVICES),
                                               &count, &told, &err),
                     0);
    ck_assert_uint_eq(count, told ? look_at(family, set_name(SET_SERVICES)).n : 0);
    ck_assert_int_eq(
        nft_socket_count_elements(sock, family, RULESET_TABLE, "no_such_set", &count, &told, &err),
        0);
    ck_assert(!told);
}

/* An address within a range finds its start; a source is found in its list. */
EACH_FAMILY(single_ranges)
{
    enum family family = (enum family)_i;
    begin(family);
    check_seen(look_for(family, "service_cidrs", case_address(family, 15)), 1,
               case_address(family, 10), NULL, 0);
    check_seen(look_for(family, "service_cidrs", case_address(family, 60)), 1,
               case_address(family, 50), NULL, 0);
    ck_assert_uint_eq(look_for(family, "service_cidrs", case_address(family, 20)).n, 0);
    ck_assert_uint_eq(look_for(family, "service_cidrs", case_address(family, 9)).n, 0);

    struct key source = case_source_key(family, 1, 12, 2);
    check_seen(look_for(family, "allowed_sources", source), 1, source, NULL, 0);
    ck_assert_uint_eq(look_for(family, "allowed_sources", case_source_key(family, 2, 12, 2)).n, 0);
}

/* ---- every template ---- */

/* What shapes a table; see struct layout_vars. */
static const struct {
    const char *from_pod, *not_from_pod, *from_host, *reject, *count;
} configurations[] = {
    {NULL, NULL, "fib saddr type local", "reject", NULL},
    {"iifname \"cni0\"", "iifname != \"cni0\"", "fib saddr type local", "reject", NULL},
    {"iifname \"veth*\"", "iifname != \"veth*\"", NULL, "drop", NULL},
    {NULL, "", "fib saddr type local", "drop", ""},
};
#define CONFIGURATIONS (int)(sizeof(configurations) / sizeof(configurations[0]))

/* The shapes for @n backends and for an affinity of @n seconds. */
static void add_shapes(struct layout_vars vars, unsigned n)
{
    vars.n = vars.key = n;
    case_layout(&batch, TEMPLATE_PICK, &vars);
    case_layout(&batch, TEMPLATE_LOCAL_PICK, &vars);
    case_layout(&batch, TEMPLATE_LEARN, &vars);
}

TESTS(the_kernel_takes_every_template, (FAMILY_COUNT * CONFIGURATIONS))
{
    struct layout_vars vars = {.family = (enum family)(_i / CONFIGURATIONS),
                               .mark = "0x4000",
                               .from_pod = configurations[_i % CONFIGURATIONS].from_pod,
                               .not_from_pod = configurations[_i % CONFIGURATIONS].not_from_pod,
                               .from_host = configurations[_i % CONFIGURATIONS].from_host,
                               .reject = configurations[_i % CONFIGURATIONS].reject,
                               .count_services = configurations[_i % CONFIGURATIONS].count,
                               .count_endpoints = configurations[_i % CONFIGURATIONS].count};
    nft_batch_init(&batch, vars.family, RULESET_TABLE);
    nft_batch_add_table(&batch, "of a test");
    case_layout(&batch, TEMPLATE_BASE, &vars);
    case_layout(&batch, TEMPLATE_SOURCE_RANGES, &vars);
    case_layout(&batch, TEMPLATE_AFFINITY, &vars);
    add_shapes(vars, 2);
    add_shapes(vars, MAX_BACKENDS);
    commit();
    ck_assert_uint_eq(look_at(vars.family, "picks").n, 2);
    ck_assert_uint_eq(look_at(vars.family, "local_picks").n, 2);
    add_shapes(vars, 3); /* and later, too */
    commit();
    ck_assert_uint_eq(look_at(vars.family, "learners").n, 3);
}

EACH_FAMILY(table_is_found_by_its_comment)
{
    enum family family = (enum family)_i, other = 1 - family;
    struct nft_table_state state;
    ck_assert_int_eq(nft_socket_read_table(sock, family, RULESET_TABLE, &state, &err), 0);
    ck_assert(!state.exists);
    ck_assert_ptr_null(state.comment);
    begin(family);
    ck_assert_int_eq(nft_socket_read_table(sock, family, RULESET_TABLE, &state, &err), 0);
    ck_assert(state.exists);
    ck_assert_str_eq(state.comment, "of a test");
    free(state.comment);
    ck_assert_int_eq(nft_socket_read_table(sock, other, RULESET_TABLE, &state, &err), 0);
    ck_assert(!state.exists);
    ck_assert_int_eq(nft_socket_read_table(sock, family, "kube", &state, &err), 0);
    ck_assert(!state.exists);
}

TEST(reading_what_is_not_there)
{
    struct seen seen = {.n = 0};
    begin(FAMILY_IPV4);
    ck_assert_int_eq(
        nft_socket_read_elements(sock, FAMILY_IPV4, RULESET_TABLE, "nothing", see, &seen, &err),
        -1);
    ck_assert_str_eq(err.text, "cannot read the elements of nothing: No such file or directory");
    ck_assert_int_eq(
        nft_socket_read_elements(sock, FAMILY_IPV6, RULESET_TABLE, "services", see, &seen, &err),
        -1);
    error_clear(&err);
    ck_assert_uint_eq(seen.n, 0);
    ck_assert_uint_eq(look_at(FAMILY_IPV4, set_name(SET_SERVICES)).n, 2); /* the socket is fine */
}

/* The names of the chains that have rules, in the order of the rules. */
static void note_chain(void *ctx, struct nftnl_rule *rule)
{
    char *names = ctx;
    ck_assert_uint_lt(strlen(names), 960);
    strcat(strcat(names, nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN)), " ");
    ck_assert_str_eq(nftnl_rule_get_str(rule, NFTNL_RULE_TABLE), RULESET_TABLE);
}

EACH_FAMILY(rules_are_read_back)
{
    enum family family = (enum family)_i, other = 1 - family;
    char names[1024] = "";
    begin(family);
    case_rule(&batch, "dispatch", "reject");
    commit();
    ck_assert_int_eq(nft_socket_read_rules(sock, family, RULESET_TABLE, note_chain, names, &err),
                     0);
    ck_assert_ptr_nonnull(strstr(names, "dispatch dispatch "));
    ck_assert_ptr_nonnull(strstr(names, "nat-prerouting nat-output "));
    ck_assert_str_eq(strrchr(names, ' ') - strlen("pick-2"), "pick-2 ");
    *names = '\0';
    ck_assert_int_eq(nft_socket_read_rules(sock, other, RULESET_TABLE, note_chain, names, &err), 0);
    ck_assert_str_eq(names, "");
}

static void note_hook(void *ctx, struct nftnl_chain *chain)
{
    char *names = ctx;
    ck_assert_uint_lt(strlen(names), 960);
    ck_assert_str_eq(nftnl_chain_get_str(chain, NFTNL_CHAIN_TABLE), RULESET_TABLE);
    if (nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM))
        strcat(strcat(names, nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE)), ":");
    strcat(strcat(names, nftnl_chain_get_str(chain, NFTNL_CHAIN_NAME)), " ");
}

EACH_FAMILY(chains_are_read_back)
{
    enum family family = (enum family)_i, other = 1 - family;
    char names[1024] = "";
    begin(family);
    ck_assert_int_eq(nft_socket_read_chains(sock, family, RULESET_TABLE, note_hook, names, &err),
                     0);
    ck_assert_ptr_nonnull(strstr(names, " nat:nat-prerouting "));
    ck_assert_ptr_nonnull(strstr(names, "dispatch "));
    *names = '\0';
    ck_assert_int_eq(nft_socket_read_chains(sock, other, RULESET_TABLE, note_hook, names, &err), 0);
    ck_assert_str_eq(names, "");
}

/* ---- refusals ---- */

TESTS(the_kernel_is_as_the_fake_one, (FAMILY_COUNT * KERNEL_CASES))
{
    enum family family = (enum family)(_i / KERNEL_CASES);
    const struct kernel_case *which = &kernel_cases[_i % KERNEL_CASES];
    begin(family);
    make_case(which, &batch);
    int result = nft_socket_commit(sock, &batch, &err);
    if (which->why) {
        char *text = xasprintf("the kernel refused to %s: %s", which->object, strerror(which->why));
        ck_assert_int_eq(result, -1);
        ck_assert_str_eq(err.text, text);
        free(text);
        error_clear(&err);
    } else {
        ck_assert_msg(result == 0, "%s", err.text);
    }
    /* All or nothing: frontend 99 is rejected or is not. */
    ck_assert_uint_eq(look_at(family, set_name(SET_REJECTED)).n, which->why ? 1 : 2);
    ck_assert_uint_eq(look_at(family, set_name(SET_ENDPOINTS)).n, 2);
    struct nft_table_state state;
    ck_assert_int_eq(nft_socket_read_table(sock, family, RULESET_TABLE, &state, &err), 0);
    ck_assert_str_eq(state.comment, "of a test");
    free(state.comment);
}

TEST(the_first_refusal_is_told)
{
    begin(FAMILY_IPV4);
    add_another_count(&batch);
    delete_what_is_not_there(&batch);
    goto_nowhere(&batch);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_str_eq(err.text, "the kernel refused to add elements to ports: File exists");
    nft_batch_clear(&batch);
    error_clear(&err);
    case_reject(&batch, 9, 0); /* and the next transaction is its own */
    commit();
}

/* More refusals than their answers' buffer holds. */
TEST(very_many_refusals)
{
    const uint8_t most = 250;
    begin(FAMILY_IPV4);
    for (int round = 0; round < 100; round++)
        for (uint8_t i = 10; i < most; i++) { /* a message each */
            case_service(&batch, i, NULL);
            case_slot(&batch, ELEMENT_DELETE, i, 0, 0);
        }
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_str_eq(err.text, "the kernel refused to delete elements of services: No such file or "
                               "directory");
    nft_batch_clear(&batch);
    error_clear(&err);
    ck_assert_uint_eq(look_at(FAMILY_IPV4, set_name(SET_SERVICES)).n, 2);
    case_reject(&batch, 9, 0);
    commit();
    ck_assert_uint_eq(look_at(FAMILY_IPV4, set_name(SET_REJECTED)).n, 2);
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

EACH_FAMILY(what_is_checked_is_not_in_force)
{
    enum family family = (enum family)_i;
    struct nft_table_state state;
    nft_batch_init(&batch, family, RULESET_TABLE);
    ck_assert_int_eq(check(), 0); /* of nothing */
    case_table(&batch);
    ck_assert_int_eq(check(), 0);
    ck_assert_int_eq(nft_socket_read_table(sock, family, RULESET_TABLE, &state, &err), 0);
    ck_assert(!state.exists);
    nft_batch_release(&batch);
    begin(family); /* nor is anything left of it */
    case_reject(&batch, 9, 0);
    ck_assert_int_eq(check(), 0);
    ck_assert_uint_eq(look_at(family, set_name(SET_REJECTED)).n, 1);
    nft_batch_delete_table(&batch);
    ck_assert_int_eq(check(), 0);
    ck_assert_uint_eq(look_at(family, set_name(SET_REJECTED)).n, 1);
}

TESTS(a_check_is_as_a_commit, (FAMILY_COUNT * KERNEL_CASES))
{
    enum family family = (enum family)(_i / KERNEL_CASES);
    const struct kernel_case *which = &kernel_cases[_i % KERNEL_CASES];
    begin(family);
    make_case(which, &batch);
    ck_assert_int_eq(check(), which->why);
    if (which->why) {
        char *text = xasprintf("the kernel refused to %s: %s", which->object, strerror(which->why));
        ck_assert_str_eq(err.text, text);
        free(text);
        error_clear(&err);
    }
    case_reject(&batch, 9, 0); /* and the next transaction is its own */
    commit();
    ck_assert_uint_eq(look_at(family, set_name(SET_REJECTED)).n, 2);
}

/* Chains that lead to each other: the kernel has to look at all of them. */
TEST(a_check_finds_loops)
{
    begin(FAMILY_IPV4);
    case_rule(&batch, "pick-2", "jump dispatch");
    ck_assert_int_ne(check(), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "the kernel "));
    error_clear(&err);
    case_rule(&batch, "pick-2", "jump affine");
    ck_assert_int_eq(check(), 0);
    case_rule(&batch, "pick-2", "jump dispatch");
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

TEST(what_cannot_be_cut_is_not_sent)
{
    size_t limit = send_limit();
    begin(FAMILY_IPV6);
    for (uint32_t n = 0; batch.used < limit; n++) {
        big_slot(n); /* sets in turn: each element is a message, none may be cut off */
        case_reject(&batch, 99, 0);
    }
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "send buffer"));
    ck_assert_ptr_nonnull(strstr(err.text, "too small"));
    error_clear(&err);
    nft_batch_clear(&batch);
    ck_assert_uint_eq(look_at(FAMILY_IPV6, set_name(SET_REJECTED)).n, 1);
    case_reject(&batch, 99, 0);
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
    case_reject(&batch, 99, 0);
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
    ck_assert_uint_eq(look_at(FAMILY_IPV6, set_name(SET_REJECTED)).n, 2);
    ck_assert_uint_eq(look_at(FAMILY_IPV6, set_name(SET_ENDPOINTS)).n, n + 2);
    nft_socket_close(intrusion.other);
}

/* ---- large batches while a monitor listens ---- */

static char told[256];

static void on_changed(void *ctx, const struct table_change *change)
{
    snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s ", change->set);
}

static void on_lost(void *ctx)
{
    snprintf(told + strlen(told), sizeof(told) - strlen(told), "lost ");
}

static void on_settled(void *ctx, const struct table_program *program)
{
    snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s",
             program->pid ? "settled" : "settled by nobody");
    ev_break(ctx, EVBREAK_ALL);
}

static void commit_of_another(unsigned number)
{
    struct nft_socket *other = nft_socket_open(&err);
    case_reject(&batch, (uint8_t)number, 0);
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

static void expect_told(struct ev_loop *loop, const char *text)
{
    ev_run(loop, 0);
    ck_assert_str_eq(told, text);
    told[0] = '\0';
}

TEST(a_large_batch_is_not_listened_to)
{
    struct ev_loop *loop = ev_loop_new(0);
    const struct table_monitor_ops ops = {on_changed, on_lost, on_settled, loop};
    told[0] = '\0';
    begin(FAMILY_IPV6);
    struct table_monitor *monitor = table_monitor_new(loop, RULESET_TABLE, sock, &ops, &err);
    ck_assert_ptr_nonnull(monitor);

    commit_of_another(90); /* waits in the queue while nobody listens */
    commit_large();
    commit_of_another(91); /* and then the monitor is there again */
    expect_told(loop, "rejected_ports rejected_ports settled");

    table_monitor_leave(monitor);
    commit_of_another(92);
    table_monitor_listen_again(monitor, 0);
    expect_told(loop, "lost settled by nobody");

    table_monitor_leave(monitor);
    commit_of_another(93); /* as if it were our own */
    table_monitor_listen_again(monitor, 1);
    commit_of_another(94);
    expect_told(loop, "rejected_ports settled"); /* 94 alone */
    table_monitor_free(monitor);
    commit_large(); /* and nobody is told */
    ev_loop_destroy(loop);
}

struct large {
    unsigned began, ended;
    uint32_t transactions;
};

static void on_large_begins(void *ctx)
{
    ((struct large *)ctx)->began++;
}

static void on_large_ended(void *ctx, uint32_t transactions)
{
    struct large *large = ctx;
    large->ended++;
    large->transactions = transactions;
}

TEST(large_batches_are_told_of)
{
    struct large large = {0};
    const struct nft_large_watch watch = {on_large_begins, on_large_ended, &large};
    uint32_t before, after;
    begin(FAMILY_IPV6);
    nft_socket_watch_large(sock, &watch);
    case_reject(&batch, 90, 0);
    commit();
    ck_assert_uint_eq(large.began + large.ended, 0);
    ck_assert_int_eq(nft_socket_generation(sock, &before, &err), 0);
    commit_large();
    ck_assert_int_eq(nft_socket_generation(sock, &after, &err), 0);
    ck_assert_uint_eq(large.began, 1);
    ck_assert_uint_eq(large.ended, 1);
    ck_assert_uint_eq(large.transactions, 1);
    ck_assert_uint_eq(after - before, 1);

    for (uint32_t i = 1000; i < 9000; i++)
        big_slot(i);
    nft_batch_finish(&batch);
    batch.piece = batch.used / 4; /* cut where it can be, before that */
    commit();
    batch.piece = 0;
    ck_assert_int_eq(nft_socket_generation(sock, &before, &err), 0);
    ck_assert_uint_ge(large.transactions, 4);
    ck_assert_uint_le(large.transactions, 8);
    ck_assert_uint_eq(before - after, large.transactions);
    after = before;

    case_slot(&batch, ELEMENT_DELETE, 77, 1, 0); /* is not there */
    for (uint32_t i = 9000; i < 10000; i++)
        big_slot(i);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    error_clear(&err);
    ck_assert_uint_eq(large.ended, 3);
    ck_assert_uint_eq(large.transactions, 0);
    ck_assert_int_eq(nft_socket_generation(sock, &before, &err), 0);
    ck_assert_uint_eq(before, after);
}

/* ---- a ruleset over it ---- */

static struct ruleset *new_ruleset(enum family family)
{
    const struct ruleset_config config = {.detector = DETECT_NONE, .mark = 0x4000};
    struct ruleset *ruleset = ruleset_new(family, &config, &err);
    ck_assert_msg(ruleset, "%s", err.text);
    return ruleset;
}

static void want(struct ruleset *ruleset, enum family family, uint8_t number, uint8_t n)
{
    struct frontend f = case_frontend(family, number);
    struct backend backends[8] = {{.port = 0}};
    const struct port_route port = {
        .has_any = n > 0, .needs_cluster = true, .backends = backends, .n_backends = n};
    const struct route route = {.port = number};
    for (uint8_t i = 0; i < n; i++)
        backends[i] = (struct backend){{{10, 0, 0, i}}, 8080};
    ruleset_set_port(ruleset, route.port, &port);
    ruleset_set(ruleset, &f, &route);
}

static struct ruleset_stats commit_ruleset(struct ruleset *ruleset, double now)
{
    struct ruleset_stats stats;
    int result = ruleset_commit(ruleset, sock, now, &stats, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    return stats;
}

EACH_FAMILY(a_ruleset_adopts_its_table)
{
    enum family family = (enum family)_i;
    for (int round = 0; round < 2; round++) {
        struct ruleset *ruleset = new_ruleset(family);
        want(ruleset, family, 1, 3);
        want(ruleset, family, 2, 1);
        want(ruleset, family, 3, 0);
        struct ruleset_stats stats = commit_ruleset(ruleset, 1);
        ck_assert_uint_eq(stats.elements_added, round ? 0 : 3 + 1 + 2 + 2 + 3 + 1);
        ck_assert_uint_eq(stats.bytes > 0, round == 0);
        ruleset_free(ruleset);
    }
    struct ruleset *ruleset = new_ruleset(family);
    want(ruleset, family, 1, 1);
    want(ruleset, family, 3, 0);
    struct ruleset_stats stats = commit_ruleset(ruleset, 2);
    ck_assert_uint_eq(stats.elements_added, 1);
    ck_assert_uint_eq(stats.elements_deleted, 2);
    ck_assert_uint_eq(look_at(family, set_name(SET_ENDPOINTS)).n, 4);
    stats = commit_ruleset(ruleset, 2 + RULESET_TRIM_DELAY);
    ck_assert_uint_eq(stats.elements_deleted, 2 + 1 + 1);
    ck_assert_uint_eq(look_at(family, set_name(SET_ENDPOINTS)).n, 1);
    ck_assert_uint_eq(look_at(family, set_name(SET_SERVICES)).n, 2);
    ruleset_free(ruleset);
}

EACH_FAMILY(cleanup)
{
    enum family family = (enum family)_i, other = 1 - family;
    bool existed = true;
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), 0);
    ck_assert(!existed);
    begin(family);
    nft_batch_release(&batch);
    begin(other);
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), 0);
    ck_assert(existed);
    struct nft_table_state state;
    ck_assert_int_eq(nft_socket_read_table(sock, family, RULESET_TABLE, &state, &err), 0);
    ck_assert(!state.exists);
    ck_assert_uint_eq(look_at(other, set_name(SET_SERVICES)).n, 2);
}

UNIT_FIXTURE(setup, teardown)
