/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages that are not what they should be: the kernel's never are. */
#include "unit.h"

#include "kube-nftd/netlink.h"

#include <errno.h>
#include <limits.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

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

/* ---- what was answered ---- */

static const struct {
    int error, number;
} answers[] = {{0, 0},          {-ENOENT, ENOENT}, {-4095, 4095},
               {-4096, EPROTO}, {INT_MIN, EPROTO}, {1, EPROTO}};

TEST_ROWS(an_answer_is_an_errno, answers)
{
    const struct nlmsgerr answer = {.error = row->error};
    ck_assert_int_eq(netlink_errno(&answer), row->number);
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
    ck_assert_uint_eq(netlink_whole(messages, row->length), row->whole);
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

static void on_settled(void *ctx, const struct table_program *program)
{
}

/* An event, then one that claims to have nearly 4 GiB. */
TEST(a_monitor_stops_at_a_length_without_end)
{
    const struct table_monitor_ops ops = {.changed = on_changed, .settled = on_settled};
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
    table_monitor_settle(monitor);
    table_monitor_settle(monitor); /* it was waited for the end of the transaction */
    ck_assert_int_eq(changes, 1);
    table_monitor_free(monitor);
}

UNIT_FIXTURE(set_up, tear_down)
