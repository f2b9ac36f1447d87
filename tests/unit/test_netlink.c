/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages that are not what they should be: the kernel's never are. */
#include "unit.h"

#include "netlink/table_monitor.h"

#include <errno.h>
#include <limits.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIZE ((size_t)256)

static char *messages;

/* Exactly as much memory as there are bytes. */
static void put(const void *bytes, size_t length)
{
    free(messages);
    messages = malloc(length ? length : 1);
    ck_assert_ptr_nonnull(messages);
    memcpy(messages, bytes, length);
}

static void set_up(void)
{
    messages = NULL;
}

static void tear_down(void)
{
    free(messages);
}

/* ---- errors ---- */

/* A message of @type with the first @length bytes of @number. */
static struct nlmsghdr *end_message(void *buffer, uint16_t type, int number, size_t length)
{
    struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
    message->nlmsg_type = type;
    memcpy(mnl_nlmsg_put_extra_header(message, length), &number, length);
    message->nlmsg_len = (uint32_t)(NLMSG_HDRLEN + length);
    return message;
}

static const struct {
    uint16_t type;
    int error;
    size_t length;
    int number;
} ends[] = {{NLMSG_ERROR, 0, 20, 0},
            {NLMSG_ERROR, -ENOENT, 20, ENOENT},
            {NLMSG_ERROR, -4095, 4, 4095},
            {NLMSG_ERROR, -4103, 20, 4103}, /* IPSET_ERR_BUSY */
            {NLMSG_ERROR, -8192, 20, EPROTO},
            {NLMSG_ERROR, INT_MIN, 20, EPROTO},
            {NLMSG_ERROR, 1, 20, EPROTO},
            {NLMSG_ERROR, 0, 3, EPROTO},
            {NLMSG_DONE, 0, 4, 0},
            {NLMSG_DONE, -ENOENT, 4, ENOENT}, /* which libmnl ignores */
            {NLMSG_DONE, 1, 4, EPROTO},
            {NLMSG_DONE, 0, 0, 0}};

TEST_ROWS(errors, ends)
{
    char buffer[SIZE] = {0};
    const size_t length = row->length < sizeof(int) ? row->length : sizeof(int);
    struct nlmsghdr *message = end_message(buffer, row->type, row->error, length);
    message->nlmsg_len = (uint32_t)(NLMSG_HDRLEN + row->length);
    ck_assert_int_eq(netlink_errno(message), row->number);
}

/* ---- replies ---- */

static int count_message(const struct nlmsghdr *message, void *ctx)
{
    ++*(int *)ctx;
    return MNL_CB_OK;
}

/* How a reply ends that consists of an entry, with flags, and an end. */
static const struct {
    uint16_t flags, type;
    uint32_t sequence;
    int error;
    int result, number; /* of netlink_receive() */
    bool interrupted;
} replies[] = {{NLM_F_MULTI, NLMSG_DONE, 7, 0, 0, 0, false},
               {NLM_F_MULTI, NLMSG_DONE, 7, -EINTR, -1, EINTR, false},
               {NLM_F_MULTI, NLMSG_ERROR, 7, -EPERM, -1, EPERM, false},
               {0, NLMSG_ERROR, 7, 0, 0, 0, false},
               {NLM_F_MULTI | NLM_F_DUMP_INTR, NLMSG_DONE, 7, 0, 0, 0, true},
               {NLM_F_MULTI, NLMSG_NOOP, 7, 0, 1, 0, false},
               {NLM_F_MULTI, NLMSG_DONE, 8, 0, -1, EPROTO, false}};

TEST_ROWS(a_reply_ends, replies)
{
    int sockets[2], n = 0;
    _Alignas(struct nlmsghdr) char sent[SIZE] = {0}, received[SIZE];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    struct nlmsghdr *entry = end_message(sent, NLMSG_MIN_TYPE, 0, 4);
    entry->nlmsg_flags = row->flags;
    entry->nlmsg_seq = 7;
    struct nlmsghdr *end = end_message(sent + entry->nlmsg_len, row->type, row->error, 4);
    end->nlmsg_seq = row->sequence;
    struct netlink_reply reply = {.nl = mnl_socket_fdopen(sockets[0]),
                                  .buffer = received,
                                  .size = SIZE,
                                  .sequence = 7,
                                  .fn = count_message,
                                  .ctx = &n};
    ck_assert_int_eq(netlink_receive(&reply), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_gt(send(sockets[1], sent, entry->nlmsg_len + end->nlmsg_len, 0), 0);
    ck_assert_int_eq(netlink_receive(&reply), row->result);
    ck_assert(row->result >= 0 || errno == row->number);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(reply.interrupted, row->interrupted);
    ck_assert_int_gt(send(sockets[1], sent, sizeof(sent), 0), 0);
    reply.size = entry->nlmsg_len;
    ck_assert_int_eq(netlink_receive(&reply), -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    mnl_socket_close(reply.nl);
    close(sockets[1]);
}

/* ---- how much is whole ---- */

/* So many bytes are there, of messages that claim to be so long; so many of them are whole. */
static const struct {
    uint32_t first, second;
    size_t length, whole;
} lengths[] = {
    {20, 0, 20, 20},        {20, 16, 36, 36},       {20, 32, 36, 20}, /* cut off */
    {21, 0, 21, 21}, /* without what aligns the next one */
    {20, 16, 35, 20},       {20, 15, 40, 20},       {0, 0, 64, 0},
    {15, 0, 64, 0},         {65, 0, 64, 0},         {16, 0, 15, 0},
    {16, 0, 0, 0},          {0x80000000, 0, 64, 0}, /* which libmnl takes for a negative one */
    {UINT32_MAX, 0, 64, 0},
};

TEST_ROWS(whole_messages_count, lengths)
{
    const uint32_t first = row->first;
    char bytes[SIZE] = {0};
    memcpy(bytes, &first, sizeof(first));
    if (first >= NLMSG_HDRLEN && MNL_ALIGN((size_t)first) + NLMSG_HDRLEN <= SIZE)
        memcpy(bytes + MNL_ALIGN((size_t)first), &row->second, sizeof(row->second));
    put(bytes, row->length);
    size_t whole = 0;
    netlink_each (message, messages, row->length)
        whole += MNL_ALIGN(message->nlmsg_len);
    ck_assert_uint_eq(whole < row->length ? whole : row->length, row->whole);
}

/* ---- texts ---- */

static bool is_text(const char *bytes, size_t length)
{
    char attribute[SIZE] = {0};
    const struct nlattr header = {.nla_len = (uint16_t)(sizeof(header) + length), .nla_type = 1};
    memcpy(attribute, &header, sizeof(header));
    memcpy(attribute + sizeof(header), bytes, length);
    put(attribute, sizeof(header) + length);
    const char *text = netlink_text((const void *)messages);
    ck_assert(!text || strcmp(text, bytes) == 0);
    return text != NULL;
}

TEST(texts_end)
{
    ck_assert(is_text("nat", 4));
    ck_assert(is_text("", 1));
    ck_assert(!is_text("nat", 3));
    ck_assert(!is_text("", 0));
    ck_assert_ptr_null(netlink_text(NULL));
}

/* ---- a reader ---- */

static int changes;

static void on_changed(void *ctx, const struct table_change *change)
{
    changes++;
}

static void on_finished(void *ctx, enum family family, const struct table_program *program)
{
}

/* An event, then one that claims to have nearly 4 GiB. */
TEST(a_monitor_stops_at_a_length_without_end)
{
    const struct table_monitor_ops ops = {.changed = on_changed, .finished = on_finished};
    struct table_monitor *monitor = table_monitor_detached("kube-nftd", 7, &ops);
    char bytes[SIZE] = {0};
    struct nlmsghdr *event = mnl_nlmsg_put_header(bytes);
    event->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN;
    struct nfgenmsg *about = mnl_nlmsg_put_extra_header(event, sizeof(*about));
    about->nfgen_family = NFPROTO_IPV4;
    mnl_attr_put_strz(event, NFTA_CHAIN_TABLE, "kube-nftd");
    struct nlmsghdr endless = *event;
    endless.nlmsg_len = 0xfffffff0;
    memcpy(bytes + event->nlmsg_len, &endless, sizeof(endless));
    put(bytes, event->nlmsg_len + sizeof(endless));
    table_monitor_take(monitor, messages, event->nlmsg_len + sizeof(endless));
    table_monitor_finish(monitor);
    table_monitor_finish(monitor); /* it was waited for the end of the transaction */
    ck_assert_int_eq(changes, 1);
    table_monitor_free(monitor);
}

UNIT_FIXTURE(set_up, tear_down)
