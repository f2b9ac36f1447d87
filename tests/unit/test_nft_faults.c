/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The netlink socket when sending and receiving go wrong. Below it are the kernel's nf_tables, in
 * namespaces of each test's own; between the two, send and receive calls that fail on demand, in
 * place of the C library's. Cases are in tests/unit/cases/nft_faults.
 */
#include "kernel_cases.h"
#include "namespaces.h"

#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- calls that fail on demand ---- */

static struct {
    unsigned sends, receives;
    unsigned nth_send; /* this one and the @n_sends - 1 after it fail; 0: none does */
    unsigned n_sends;
    size_t fits; /* longer ones are what fails; 0: any */
    int send_errno;
    unsigned nth_receive; /* this one fails */
    int receive_errno;
    unsigned cut_receive; /* what this one brings is longer than the buffer */
    bool swallow;         /* what is received before it fails is thrown away */
} calls;

static size_t length_of(const struct msghdr *message)
{
    size_t length = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        length += message->msg_iov[i].iov_len;
    return length;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    unsigned nth = ++calls.sends;
    if (calls.nth_send > 0 && nth >= calls.nth_send && nth < calls.nth_send + calls.n_sends &&
        length_of(message) > calls.fits) {
        errno = calls.send_errno;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    unsigned nth = ++calls.receives;
    if (nth == calls.nth_receive) {
        while (calls.swallow && recvfrom(fd, buffer, size, flags, NULL, NULL) > 0)
            ;
        errno = calls.receive_errno;
        return -1;
    }
    ssize_t n = recvfrom(fd, buffer, size, flags, NULL, NULL);
    return nth == calls.cut_receive && n > 0 ? (ssize_t)size + n : n;
}

/* ---- fixture ---- */

static void setup(void)
{
    enter_namespaces();
    case_open();
    begin(FAMILY_IPV4);
    memset(&calls, 0, sizeof(calls));
}

/* How many service ports are rejected, read without faults; 1 at the beginning. */
static size_t rejected(void)
{
    memset(&calls, 0, sizeof(calls));
    return size_of("rejected_ports");
}

/* ---- commands ---- */

static int errno_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } all[] = {{"ENOMEM", ENOMEM}, {"ENOBUFS", ENOBUFS}, {"EPERM", EPERM},
               {"EINTR", EINTR},   {"EAGAIN", EAGAIN},   {"EIO", EIO}};
    int i = 0;
    while (strcmp(all[i].name, name) != 0)
        i++;
    return all[i].number;
}

/* pieces FIRST: 40 elements that may go one by one; in "whole FIRST" they may not. */
static void put_forty(const char *words, size_t piece)
{
    batch.piece = piece;
    for (int i = 0, first = atoi(words); i < 40; i++) {
        put("+ rejected_ports p%d", first + i);
        nft_batch_may_cut(&batch);
    }
}

COMMAND(pieces)
{
    put_forty(words, 1 << 20);
}

COMMAND(whole)
{
    put_forty(words, 0);
}

/* 1 and 2 are there: adding 1 with another value and deleting 40 and 50 is rejected. */
COMMAND(mixed)
{
    for (int i = 10; i < 20; i++)
        put("+ services f%1$d : p%1$d/2", i);
    put("+ services f1 : p1/7\n"
        "+ services f20 : p20/2\n"
        "+ rejected_ports p30\n"
        "- services f40\n"
        "- services f50\n"
        "+ rejected_ports p31");
}

COMMAND(singly)
{
    batch.singly = true;
}

/* fail-send ERRNO TIMES: from the next one on; "long" fails alone, of more than a quarter. */
COMMAND(fail_send)
{
    calls.send_errno = errno_of(script_word(&words));
    calls.n_sends = (unsigned)atoi(script_word(&words));
    calls.nth_send = 1;
    calls.fits = *words ? batch.used / 4 : 0;
}

/* fail-receive NTH ERRNO: with "lost", what there is is lost, too. */
COMMAND(fail_receive)
{
    calls.nth_receive = (unsigned)atoi(script_word(&words));
    calls.receive_errno = errno_of(script_word(&words));
    calls.swallow = *words;
}

COMMAND(cut_receive)
{
    calls.cut_receive = (unsigned)atoi(words);
}

/* The elements of a message; NULL if it is about something else. */
static const struct nlattr *elements_of(const struct nft_rejection *rejection)
{
    const struct nlmsghdr *message = (const void *)(batch.buffer + rejection->message);
    return rejection->message == NFT_NO_MESSAGE ||
                   NFNL_MSG_TYPE(message->nlmsg_type) < NFT_MSG_NEWSETELEM
               ? NULL
               : nfnl_attribute(message, NFTA_SET_ELEM_LIST_ELEMENTS);
}

/* What a rejected message is about: the number of a frontend, if it is a single one. */
static void write_rejected(FILE *out, const struct nft_rejection *rejection)
{
    const struct nlattr *list = elements_of(rejection), *element, *value = NULL;
    unsigned n = 0;
    if (list)
        mnl_attr_for_each_nested(element, list)
        {
            value = mnl_attr_get_payload(mnl_attr_get_payload(element));
            n++;
        }
    if (n == 1 && mnl_attr_get_payload_len(value) >= 8)
        fprintf(out, "f%u", ((const uint8_t *)mnl_attr_get_payload(value))[3]);
    else
        fprintf(out, "%u elements", n);
}

/* What comes of the batch, how many calls it takes to send it, and what is rejected. */
COMMAND(send)
{
    calls.sends = calls.receives = 0;
    int result = nft_socket_commit(sock, &batch, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    fprintf(out, "%s; sends %u\n", err.text ? err.text : "done", calls.sends);
    if (result)
        fprintf(out, batch.nothing_applied ? "nothing applied\n" : "open\n");
    vec_each (&batch.rejections, rejection) {
        fprintf(out, "%s: ", strerror(rejection->why));
        write_rejected(out, rejection);
        fprintf(out, "\n");
    }
    error_clear(&err);
    nft_batch_clear(&batch);
}

static void write_error(FILE *out)
{
    fprintf(out, "%s\n", err.text);
    error_clear(&err);
    calls.receives = 0;
}

/* Reads elements, and the table, with the calls set to fail. */
COMMAND(read)
{
    struct case_lines seen = {.set = "services"};
    struct nft_table_state state;
    calls.receives = 0;
    ck_assert_int_eq(
        nft_socket_read_elements(sock, FAMILY_IPV4, RULESET_TABLE, seen.set, case_see, &seen, &err),
        -1);
    ck_assert_uint_eq(seen.lines.n, 0);
    write_error(out);
    ck_assert_int_eq(nft_socket_read_table(sock, FAMILY_IPV4, RULESET_TABLE, &state, &err), -1);
    ck_assert_ptr_null(state.comment);
    write_error(out);
}

/* How many are rejected, read with the calls set to fail; a call more than without it. */
COMMAND(read_again)
{
    calls.receives = 0;
    fprintf(out, "%zu rejected\n", size_of("rejected_ports"));
    ck_assert_uint_gt(calls.receives, 1);
}

/* Nothing fails any more: how many are rejected, and the socket works as if nothing had been. */
COMMAND(well)
{
    size_t before = rejected();
    fprintf(out, "%zu rejected\n", before);
    put("+ rejected_ports p250");
    commit();
    ck_assert_uint_eq(rejected(), before + 1);
    ck_assert_uint_eq(batch.rejections.n, 0);
    put("- rejected_ports p250");
    commit();
}

CASES("nft_faults")

UNIT_FIXTURE(setup, case_close)
