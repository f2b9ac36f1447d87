/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The netlink socket when sending and receiving go wrong. Below it are the kernel's nf_tables, in
 * namespaces of each test's own; between the two, send and receive calls that fail on demand (the
 * linker puts ours before those of libc).
 */
#include "unit.h"

#include "kernel_cases.h"
#include "namespaces.h"

#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/ruleset/ruleset.h"

#include <libmnl/libmnl.h>
#include <sys/socket.h>

static struct nft_socket *sock;
static struct nft_batch batch;
static struct error err;

/* ---- calls that fail on demand ---- */

static struct {
    unsigned sends, receives;
    unsigned nth_send; /* this one and the @n_sends - 1 after it fail; 0: none does */
    unsigned n_sends;
    size_t fits; /* longer ones are what fails; 0: any */
    int send_errno;
    unsigned nth_receive; /* this one fails, or all from it on */
    bool all_receives;
    int receive_errno;
    unsigned cut_receive; /* what this one brings is longer than the buffer */
    bool swallow;         /* what is received before it fails is thrown away */
} calls;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recv(int fd, void *buffer, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *buffer, size_t size, int flags);

static size_t length_of(const struct msghdr *message)
{
    size_t length = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        length += message->msg_iov[i].iov_len;
    return length;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    unsigned nth = ++calls.sends;
    if (calls.nth_send > 0 && nth >= calls.nth_send && nth < calls.nth_send + calls.n_sends &&
        length_of(message) > calls.fits) {
        errno = calls.send_errno;
        return -1;
    }
    return __real_sendmsg(fd, message, flags);
}

ssize_t __wrap_recv(int fd, void *buffer, size_t size, int flags)
{
    unsigned nth = ++calls.receives;
    if (nth == calls.nth_receive ||
        (calls.all_receives && calls.nth_receive > 0 && nth > calls.nth_receive)) {
        while (calls.swallow && __real_recv(fd, buffer, size, flags) > 0)
            ;
        errno = calls.receive_errno;
        return -1;
    }
    ssize_t n = __real_recv(fd, buffer, size, flags);
    return nth == calls.cut_receive && n > 0 ? (ssize_t)size + n : n;
}

/* ---- fixture ---- */

static void setup(void)
{
    enter_namespaces();
    sock = nft_socket_open(&err);
    ck_assert_msg(sock, "%s", err.text);
    nft_batch_init(&batch, FAMILY_IPV4, RULESET_TABLE);
    case_table(&batch);
    ck_assert_msg(nft_socket_commit(sock, &batch, &err) == 0, "%s", err.text);
    nft_batch_clear(&batch);
    memset(&calls, 0, sizeof(calls));
}

static void teardown(void)
{
    nft_batch_release(&batch);
    nft_socket_close(sock);
    error_clear(&err);
}

static void count(void *ctx, const struct nft_element *element)
{
    ++*(size_t *)ctx;
}

/* How many elements a set has, read without faults. */
static size_t size_of(const char *set)
{
    size_t n = 0;
    memset(&calls, 0, sizeof(calls));
    int result = nft_socket_read_elements(sock, FAMILY_IPV4, RULESET_TABLE, set, count, &n, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    return n;
}

static void commit_fails(const char *text)
{
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), -1);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s", err.text);
    error_clear(&err);
}

/* The socket works as if nothing had been. */
static void check_well(void)
{
    memset(&calls, 0, sizeof(calls));
    nft_batch_clear(&batch);
    size_t before = size_of(set_name(SET_REJECTED));
    case_reject(&batch, 250, 0);
    ck_assert_msg(nft_socket_commit(sock, &batch, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(size_of(set_name(SET_REJECTED)), before + 1);
}

/* ---- what is refused ---- */

/* The frontend that a refusal is about: its number; 0 if none can be told. */
static unsigned refused(const struct nft_refusal *refusal)
{
    const struct nlattr *element = nft_batch_refused_element(&batch, refusal), *key, *value;
    if (!element)
        return 0;
    key = mnl_attr_get_payload(element);
    ck_assert_uint_eq(mnl_attr_get_type(key), 1); /* NFTA_SET_ELEM_KEY */
    value = mnl_attr_get_payload(key);
    return ((const uint8_t *)mnl_attr_get_payload(value))[3];
}

/* 1 and 2 are there: adding 1 with another value and deleting 40 and 50 is refused. */
static void add_mixed(void)
{
    const uint32_t n = 2, other = 7;
    for (uint8_t i = 10; i < 20; i++)
        case_service(&batch, i, &n);
    case_service(&batch, 1, &other);
    case_service(&batch, 20, &n);
    case_reject(&batch, 30, 0);
    for (uint8_t i = 40; i <= 50; i += 10)
        case_service(&batch, i, NULL);
    case_reject(&batch, 31, 0);
}

/* One fault a message is found, in the middle of others of one set too. */
TEST(the_kernel_points_at_what_it_refuses)
{
    add_mixed();
    commit_fails("add elements to services: File exists");
    ck_assert(batch.nothing_in_force);
    ck_assert_uint_eq(batch.refusals.n, 2);
    ck_assert_int_eq(batch.refusals.v[0].why, EEXIST);
    ck_assert_uint_eq(refused(&batch.refusals.v[0]), 1);
    ck_assert_int_eq(batch.refusals.v[1].why, ENOENT);
    ck_assert_uint_eq(refused(&batch.refusals.v[1]), 40);
    /* Older kernels do not point: then it is one of many. */
    batch.refusals.v[0].at = 0;
    ck_assert_uint_eq(refused(&batch.refusals.v[0]), 0);
    ck_assert_uint_eq(size_of(set_name(SET_REJECTED)), 1);
    check_well();
    ck_assert_uint_eq(batch.refusals.n, 0);
}

/* With a message for each element, all faults are found. */
TEST(elements_sent_singly_are_refused_singly)
{
    nft_batch_singly(&batch, true);
    add_mixed();
    commit_fails("add elements to services: File exists");
    ck_assert_uint_eq(batch.refusals.n, 3);
    for (int pointed = 1; pointed >= 0; pointed--) {
        static const unsigned expected[] = {1, 40, 50};
        for (size_t i = 0; i < 3; i++) {
            ck_assert_uint_eq(refused(&batch.refusals.v[i]), expected[i]);
            batch.refusals.v[i].at = 0;
        }
    }
    check_well();
}

/* What is no element. */
TEST(a_refused_chain_is_no_element)
{
    goto_nowhere(&batch);
    nft_batch_finish(&batch);
    case_rule(&batch, "no-such-chain", "reject");
    commit_fails("No such file or directory");
    ck_assert_uint_eq(batch.refusals.n, 2);
    ck_assert_ptr_null(nft_batch_refused_element(&batch, &batch.refusals.v[1]));
    ck_assert_ptr_null(
        nft_batch_refused_element(&batch, &(struct nft_refusal){NFT_NO_MESSAGE, 0, EINVAL}));
    check_well();
}

/* ---- short of memory ---- */

/* Some messages that may go one by one. */
#define PIECES 40
static void add_pieces(void)
{
    for (uint8_t i = 100; i < 100 + PIECES; i++) {
        case_reject(&batch, i, 0);
        nft_batch_may_cut(&batch);
    }
}

TESTS(what_the_kernel_has_no_memory_for_goes_in_pieces, 2)
{
    const int whys[] = {ENOMEM, ENOBUFS};
    add_pieces();
    calls.nth_send = 1;
    calls.n_sends = 1000;
    calls.fits = batch.used / 4;
    calls.send_errno = whys[_i];
    ck_assert_msg(nft_socket_commit(sock, &batch, &err) == 0, "%s", err.text);
    ck_assert_ptr_null(err.text);
    ck_assert_uint_ge(calls.sends, 5);
    ck_assert_uint_le(calls.sends, 12);
    ck_assert_uint_eq(size_of(set_name(SET_REJECTED)), 1 + PIECES);
    check_well();
}

/* Not even for the smallest ones: a few attempts, no more. */
TEST(no_memory_at_all)
{
    add_pieces();
    calls.nth_send = 1;
    calls.n_sends = 1000;
    calls.send_errno = ENOBUFS;
    commit_fails("No buffer space available");
    ck_assert(batch.nothing_in_force);
    ck_assert_uint_le(calls.sends, 4);
    ck_assert_uint_eq(size_of(set_name(SET_REJECTED)), 1);
    check_well();
}

TEST(memory_that_ends_in_the_middle)
{
    add_pieces();
    calls.nth_send = 1;
    calls.n_sends = 1;
    calls.send_errno = ENOMEM;
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), 0);
    nft_batch_clear(&batch);
    for (uint8_t i = 150; i < 150 + PIECES; i++) {
        case_reject(&batch, i, 0);
        nft_batch_may_cut(&batch);
    }
    memset(&calls, 0, sizeof(calls));
    calls.nth_send = 1;
    calls.n_sends = 1;
    calls.send_errno = ENOMEM;
    /* The first pieces go, then there is none. */
    calls.nth_receive = 3; /* the first piece takes two */
    calls.receive_errno = EAGAIN;
    calls.swallow = true;
    commit_fails("did not acknowledge");
    ck_assert(!batch.nothing_in_force);
    ck_assert_uint_gt(size_of(set_name(SET_REJECTED)), 1 + PIECES);
    ck_assert_uint_lt(size_of(set_name(SET_REJECTED)), 1 + 2 * PIECES);
    check_well();
}

TEST(other_failures_to_send_are_told)
{
    add_pieces();
    calls.nth_send = calls.n_sends = 1;
    calls.send_errno = EPERM;
    commit_fails("CAP_NET_ADMIN");
    ck_assert(batch.nothing_in_force);
    ck_assert_uint_eq(calls.sends, 1);
    ck_assert_uint_eq(size_of(set_name(SET_REJECTED)), 1);
    check_well();
}

TEST(an_interrupted_call_is_made_again)
{
    add_pieces();
    calls.nth_send = calls.n_sends = 1;
    calls.send_errno = EINTR;
    calls.nth_receive = 1;
    calls.receive_errno = EINTR;
    ck_assert_msg(nft_socket_commit(sock, &batch, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(calls.sends, 2);
    ck_assert_uint_eq(size_of(set_name(SET_REJECTED)), 1 + PIECES);
    size_t n = 0;
    calls.receives = 0;
    calls.nth_receive = 1;
    calls.receive_errno = EINTR;
    ck_assert_int_eq(nft_socket_read_elements(sock, FAMILY_IPV4, RULESET_TABLE,
                                              set_name(SET_REJECTED), count, &n, &err),
                     0);
    ck_assert_uint_eq(n, 1 + PIECES);
    check_well();
}

/* ---- answers that do not arrive ---- */

static void lose(unsigned nth, int why)
{
    calls.nth_receive = nth;
    calls.receive_errno = why;
    calls.swallow = true;
}

/* The transaction is in force, but nobody said so. */
TESTS(a_lost_acknowledgement_leaves_it_open, 3)
{
    static const struct {
        int why;
        const char *text;
    } cases[] = {{EAGAIN, "did not acknowledge"},
                 {ENOBUFS, "did not fit the receive buffer"},
                 {EIO, "Input/output error"}};
    add_pieces();
    lose(1, cases[_i].why);
    commit_fails(cases[_i].text);
    ck_assert(!batch.nothing_in_force);
    ck_assert_uint_eq(batch.refusals.n, 0);
    ck_assert_uint_eq(size_of(set_name(SET_REJECTED)), 1 + PIECES);
    check_well();
}

/* No room for more, but the acknowledgement is there. */
TEST(an_acknowledgement_after_an_overrun_counts)
{
    add_pieces();
    calls.nth_receive = 1;
    calls.receive_errno = ENOBUFS;
    ck_assert_msg(nft_socket_commit(sock, &batch, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(size_of(set_name(SET_REJECTED)), 1 + PIECES);
    check_well();
}

/* Some refusals are enough to know that nothing is in force. */
TEST(refusals_after_an_overrun_count)
{
    add_mixed();
    calls.nth_receive = 1;
    calls.receive_errno = ENOBUFS;
    commit_fails("File exists");
    ck_assert(batch.nothing_in_force);
    ck_assert_uint_eq(batch.refusals.n, 2);
    check_well();
}

TESTS(reading_does_not_wait_for_what_is_lost, 3)
{
    static const int whys[] = {EAGAIN, ENOBUFS, EIO};
    struct nft_table_state state;
    size_t n = 0;
    lose(1, whys[_i]);
    ck_assert_int_eq(nft_socket_read_elements(sock, FAMILY_IPV4, RULESET_TABLE,
                                              set_name(SET_SERVICES), count, &n, &err),
                     -1);
    error_clear(&err);
    memset(&calls, 0, sizeof(calls));
    lose(1, whys[_i]);
    ck_assert_int_eq(nft_socket_read_table(sock, FAMILY_IPV4, RULESET_TABLE, &state, &err), -1);
    ck_assert_ptr_null(state.comment);
    error_clear(&err);
    check_well();
}

/* A part that is longer than the buffer is no answer, however much of it is there. */
TEST(answers_that_were_cut_are_not_taken)
{
    struct nft_table_state state;
    size_t n = 0;
    calls.cut_receive = 1;
    ck_assert_int_eq(nft_socket_read_elements(sock, FAMILY_IPV4, RULESET_TABLE,
                                              set_name(SET_SERVICES), count, &n, &err),
                     -1);
    ck_assert_uint_eq(n, 0);
    error_clear(&err);
    calls.receives = 0;
    ck_assert_int_eq(nft_socket_read_table(sock, FAMILY_IPV4, RULESET_TABLE, &state, &err), -1);
    error_clear(&err);
    check_well();
}

UNIT_FIXTURE(setup, teardown)
