/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The netlink socket and the kernel's nf_tables, in a user and network namespace of each test's
 * own: no privileges are needed, and nothing of the machine is touched.
 */
#include "unit.h"

#include "kernel_cases.h"

#include "kube-nftd/base/log.h"
#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/ruleset/ruleset.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

static struct nft_socket *sock;
static struct nft_batch batch;
static struct error err;
static int cuts_logged;

static void take_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    cuts_logged += strstr(line, "goes in several transactions") != NULL;
}

/* ---- a namespace ---- */

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
                  strerror(errno));
    close(fd);
}

static void enter_namespaces(void)
{
    char uids[64], gids[64];
    snprintf(uids, sizeof(uids), "0 %u 1\n", getuid());
    snprintf(gids, sizeof(gids), "0 %u 1\n", getgid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        ck_abort_msg("this test needs user namespaces and a network namespace, and the kernel "
                     "refuses them: %s (see user.max_user_namespaces and "
                     "kernel.unprivileged_userns_clone)",
                     strerror(errno));
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", uids);
    write_file("/proc/self/gid_map", gids);
}

static void setup(void)
{
    enter_namespaces();
    log_set_sink(take_line, NULL);
    cuts_logged = 0;
    sock = nft_socket_open(&err);
    ck_assert_msg(sock, "%s", err.text);
}

static void teardown(void)
{
    nft_batch_release(&batch);
    nft_socket_close(sock);
    error_clear(&err);
    log_set_sink(NULL, NULL);
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
    size_t n, key_length, data_length;
    uint8_t key[64], data[64];
};

static void see(void *ctx, const uint8_t *key, size_t key_length, const uint8_t *data,
                size_t data_length)
{
    struct seen *seen = ctx;
    ck_assert(key_length <= sizeof(seen->key) && data_length <= sizeof(seen->data));
    ck_assert(data || data_length == 0);
    seen->n++;
    seen->key_length = key_length;
    seen->data_length = data_length;
    memcpy(seen->key, key, key_length);
    if (data)
        memcpy(seen->data, data, data_length);
}

static struct seen look_at(enum family family, const char *set)
{
    struct seen seen = {.n = 0};
    int result = nft_socket_read_elements(sock, family, RULESET_TABLE, set, see, &seen, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
    return seen;
}

static void check_seen(struct seen seen, size_t n, const uint8_t *key, size_t key_length,
                       const void *data, size_t data_length)
{
    ck_assert_uint_eq(seen.n, n);
    ck_assert_uint_eq(seen.key_length, key_length);
    ck_assert_mem_eq(seen.key, key, key_length);
    ck_assert_uint_eq(seen.data_length, data_length);
    if (data)
        ck_assert_mem_eq(seen.data, data, data_length);
}

START_TEST(what_is_committed_is_read_back)
{
    enum family family = (enum family)_i;
    struct frontend one = case_frontend(family, 1), two = case_frontend(family, 2);
    struct backend backend = {{{10, 0, 0, 1}}, 8080};
    uint8_t key[KEY_SIZE], value[KEY_SIZE];
    const uint32_t n = 2;
    begin(family);
    size_t length = key_of_frontend(&one, key);
    check_seen(look_at(family, MAP_SERVICES), 1, key, length, &n, sizeof(n));
    length = key_of_frontend(&two, key);
    check_seen(look_at(family, SET_REJECTS), 1, key, length, NULL, 0);
    check_seen(look_at(family, MAP_PICKS), 1, (const uint8_t *)&n, sizeof(n), NULL, 0);
    ck_assert_uint_eq(look_at(family, MAP_ENDPOINTS).n, 2);

    case_slot(&batch, ELEMENT_DELETE, 1, 1, 0);
    commit();
    length = key_of_slot(&one, 0, key);
    size_t value_length = value_of_backend(family, &backend, value);
    check_seen(look_at(family, MAP_ENDPOINTS), 1, key, length, value, value_length);
}
END_TEST

START_TEST(table_is_found_by_its_comment)
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
END_TEST

START_TEST(reading_what_is_not_there)
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
    ck_assert_uint_eq(look_at(FAMILY_IPV4, MAP_SERVICES).n, 1); /* the socket is fine */
}
END_TEST

/* The names of the chains that have rules, in the order of the rules. */
static void note_chain(void *ctx, struct nftnl_rule *rule)
{
    char *names = ctx;
    strcat(strcat(names, nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN)), " ");
    ck_assert_str_eq(nftnl_rule_get_str(rule, NFTNL_RULE_TABLE), RULESET_TABLE);
}

START_TEST(rules_are_read_back)
{
    enum family family = (enum family)_i, other = 1 - family;
    char names[512] = "";
    begin(family);
    case_rule(&batch, "dispatch", "reject");
    commit();
    ck_assert_int_eq(nft_socket_read_rules(sock, family, RULESET_TABLE, note_chain, names, &err),
                     0);
    ck_assert_str_eq(names, "dispatch dispatch no-endpoints nat-prerouting nat-output filter-input "
                            "filter-forward filter-output pick-2 ");
    *names = '\0';
    ck_assert_int_eq(nft_socket_read_rules(sock, other, RULESET_TABLE, note_chain, names, &err), 0);
    ck_assert_str_eq(names, "");
}
END_TEST

/* ---- refusals ---- */

START_TEST(the_kernel_is_as_the_fake_one)
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
    ck_assert_uint_eq(look_at(family, SET_REJECTS).n, which->why ? 1 : 2);
    ck_assert_uint_eq(look_at(family, MAP_ENDPOINTS).n, 2);
    struct nft_table_state state;
    ck_assert_int_eq(nft_socket_read_table(sock, family, RULESET_TABLE, &state, &err), 0);
    ck_assert_str_eq(state.comment, "of a test");
    free(state.comment);
}
END_TEST

START_TEST(the_first_refusal_is_told)
{
    begin(FAMILY_IPV4);
    add_another_count(&batch);
    delete_what_is_not_there(&batch);
    goto_nowhere(&batch);
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_str_eq(err.text, "the kernel refused to add elements to services: File exists");
    nft_batch_clear(&batch);
    error_clear(&err);
    case_reject(&batch, 9, 0); /* and the next transaction is its own */
    commit();
}
END_TEST

/* More refusals than their answers' buffer holds. */
START_TEST(very_many_refusals)
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
    ck_assert_uint_eq(look_at(FAMILY_IPV4, MAP_SERVICES).n, 1);
    case_reject(&batch, 9, 0);
    commit();
    ck_assert_uint_eq(look_at(FAMILY_IPV4, SET_REJECTS).n, 2);
}
END_TEST

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
    uint8_t key[KEY_SIZE], value[KEY_SIZE];
    struct frontend f = case_frontend(FAMILY_IPV6, 200);
    struct backend b = {{{10}}, 8080};
    memcpy(b.address.bytes + 4, &number, sizeof(number));
    memcpy(f.address.bytes + 4, &number, sizeof(number));
    size_t length = key_of_slot(&f, 0, key);
    size_t value_length = value_of_backend(FAMILY_IPV6, &b, value);
    nft_batch_element(&batch, ELEMENT_ADD, MAP_ENDPOINTS, key, length, value, value_length);
}

static void mark(void *ctx, const uint8_t *key, size_t key_length, const uint8_t *data,
                 size_t data_length)
{
    uint8_t *marks = ctx;
    uint32_t number;
    if (key[3] != 200)
        return;
    ck_assert_uint_eq(key_length, 28);
    ck_assert_uint_eq(data_length, 20);
    memcpy(&number, key + 4, sizeof(number));
    ck_assert_mem_eq(key + 4, data + 4, sizeof(number));
    marks[number] = 1;
}

START_TEST(a_batch_larger_than_the_send_buffer_is_cut)
{
    size_t limit = send_limit();
    uint32_t n = 0;
    begin(FAMILY_IPV6);
    while (batch.used < limit + limit / 4)
        big_slot(n++);
    ck_assert_uint_ge(n, 5000);
    nft_batch_finish(&batch);
    commit();
    ck_assert_int_eq(cuts_logged, 1);
    /* While the kernel moves so many elements to a larger hash table, an answer may have some
     * twice and lack others. */
    uint8_t *marks = xcalloc(n, 1);
    for (int tries = 0; tries < 20 && memchr(marks, 0, n); tries++)
        ck_assert_int_eq(nft_socket_read_elements(sock, FAMILY_IPV6, RULESET_TABLE, MAP_ENDPOINTS,
                                                  mark, marks, &err),
                         0);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(marks[i], "element %u did not arrive", i);
    free(marks);
}
END_TEST

START_TEST(what_cannot_be_cut_is_not_sent)
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
    ck_assert_uint_eq(look_at(FAMILY_IPV6, SET_REJECTS).n, 1);
    case_reject(&batch, 99, 0);
    commit();
}
END_TEST

/* ---- a set that changes while it is read ---- */

struct intrusion {
    struct nft_socket *other;
    size_t n;
};

static void intrude(void *ctx, const uint8_t *key, size_t key_length, const uint8_t *data,
                    size_t data_length)
{
    struct intrusion *intrusion = ctx;
    (void)key;
    (void)key_length;
    (void)data;
    (void)data_length;
    if (intrusion->n++ > 0)
        return;
    case_reject(&batch, 99, 0);
    ck_assert_int_eq(nft_socket_commit(intrusion->other, &batch, &err), 0);
    nft_batch_clear(&batch);
}

START_TEST(a_change_while_reading_is_noticed)
{
    const uint32_t n = 20000; /* many more than one answer holds */
    struct intrusion intrusion = {nft_socket_open(&err), 0};
    begin(FAMILY_IPV6);
    for (uint32_t i = 0; i < n; i++)
        big_slot(i);
    commit();
    ck_assert_int_eq(nft_socket_read_elements(sock, FAMILY_IPV6, RULESET_TABLE, MAP_ENDPOINTS,
                                              intrude, &intrusion, &err),
                     -1);
    ck_assert_str_eq(err.text, "cannot read the elements of endpoints: Interrupted system call");
    error_clear(&err);
    ck_assert_uint_lt(intrusion.n, n);
    /* What was left of that answer is not taken for one to the next request. */
    ck_assert_uint_eq(look_at(FAMILY_IPV6, SET_REJECTS).n, 2);
    ck_assert_uint_eq(look_at(FAMILY_IPV6, MAP_ENDPOINTS).n, n + 2);
    nft_socket_close(intrusion.other);
}
END_TEST

/* ---- a ruleset over it ---- */

static void want(struct ruleset *ruleset, enum family family, uint8_t number, uint8_t n)
{
    struct frontend f = case_frontend(family, number);
    struct backend backends[8] = {{.port = 0}};
    for (uint8_t i = 0; i < n; i++)
        backends[i] = (struct backend){{{10, 0, 0, i}}, 8080};
    ruleset_set(ruleset, &f, backends, n);
}

static struct ruleset_stats commit_ruleset(struct ruleset *ruleset, double now)
{
    struct ruleset_stats stats;
    int result = ruleset_commit(ruleset, sock, now, &stats, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    return stats;
}

START_TEST(a_ruleset_adopts_its_table)
{
    enum family family = (enum family)_i;
    for (int round = 0; round < 2; round++) {
        struct ruleset *ruleset = ruleset_new(family, &err);
        want(ruleset, family, 1, 3);
        want(ruleset, family, 2, 1);
        want(ruleset, family, 3, 0);
        struct ruleset_stats stats = commit_ruleset(ruleset, 1);
        ck_assert_uint_eq(stats.elements_added, round ? 0 : 3 + 1 + 2 + 2 + 1);
        ck_assert_uint_eq(stats.bytes > 0, round == 0);
        ruleset_free(ruleset);
    }
    struct ruleset *ruleset = ruleset_new(family, &err);
    want(ruleset, family, 1, 1);
    want(ruleset, family, 3, 0);
    struct ruleset_stats stats = commit_ruleset(ruleset, 2);
    ck_assert_uint_eq(stats.elements_added, 1);
    ck_assert_uint_eq(stats.elements_deleted, 2);
    ck_assert_uint_eq(look_at(family, MAP_ENDPOINTS).n, 4);
    stats = commit_ruleset(ruleset, 2 + RULESET_TRIM_DELAY);
    ck_assert_uint_eq(stats.elements_deleted, 3);
    ck_assert_uint_eq(look_at(family, MAP_ENDPOINTS).n, 1);
    ck_assert_uint_eq(look_at(family, MAP_SERVICES).n, 1);
    ruleset_free(ruleset);
}
END_TEST

START_TEST(cleanup)
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
    ck_assert_uint_eq(look_at(other, MAP_SERVICES).n, 1);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, what_is_committed_is_read_back, 0, FAMILY_COUNT);
    tcase_add_loop_test(tcase, table_is_found_by_its_comment, 0, FAMILY_COUNT);
    tcase_add_test(tcase, reading_what_is_not_there);
    tcase_add_loop_test(tcase, rules_are_read_back, 0, FAMILY_COUNT);
    tcase_add_loop_test(tcase, the_kernel_is_as_the_fake_one, 0, FAMILY_COUNT * KERNEL_CASES);
    tcase_add_test(tcase, the_first_refusal_is_told);
    tcase_add_test(tcase, very_many_refusals);
    tcase_add_test(tcase, a_batch_larger_than_the_send_buffer_is_cut);
    tcase_add_test(tcase, what_cannot_be_cut_is_not_sent);
    tcase_add_test(tcase, a_change_while_reading_is_noticed);
    tcase_add_loop_test(tcase, a_ruleset_adopts_its_table, 0, FAMILY_COUNT);
    tcase_add_loop_test(tcase, cleanup, 0, FAMILY_COUNT);
}

UNIT_MAIN("nft_socket", add_tests)
