/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Batches as bytes: which messages, how elements share them, where they may be cut. */
#include "unit.h"

#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

static struct nft_batch batch;

static void setup(void)
{
    nft_batch_init(&batch, FAMILY_IPV6, "table-of-the-test");
}

static void teardown(void)
{
    nft_batch_release(&batch);
}

static const struct nlmsghdr *message_at(size_t offset)
{
    return (const void *)(batch.buffer + offset);
}

/* Writes the kinds of the messages into @out, a letter each, and checks what all have in common. */
static const char *kinds(void)
{
    static const char letters[] = {[NFT_MSG_NEWTABLE] = 'T',
                                   [NFT_MSG_DELTABLE] = 't',
                                   [NFT_MSG_NEWSETELEM] = 'E',
                                   [NFT_MSG_DELSETELEM] = 'e'};
    static char out[4096];
    size_t n = 0, offset = 0;
    nft_batch_finish(&batch);
    for (uint32_t sequence = message_at(0)->nlmsg_seq; offset < batch.used; sequence++) {
        const struct nlmsghdr *message = message_at(offset);
        const struct nfgenmsg *family = mnl_nlmsg_get_payload(message);
        const struct nlattr *table = mnl_nlmsg_get_payload_offset(message, sizeof(*family));
        ck_assert_uint_eq(message->nlmsg_seq, sequence);
        ck_assert_uint_eq(family->nfgen_family, NFPROTO_IPV6);
        ck_assert_uint_eq(mnl_attr_get_type(table), 1);
        ck_assert_str_eq(mnl_attr_get_str(table), "table-of-the-test");
        ck_assert_uint_lt(n, sizeof(out) - 1);
        out[n++] = letters[NFNL_MSG_TYPE(message->nlmsg_type)];
        offset += MNL_ALIGN(message->nlmsg_len);
    }
    ck_assert_uint_eq(offset, batch.used);
    out[n] = '\0';
    return out;
}

/* The number @i as key and, unless it is to be deleted, twice that as value. */
static void element(enum nft_element_op op, const char *set, uint32_t i)
{
    uint32_t twice = 2 * i;
    nft_batch_element(&batch, op, set, &i, sizeof(i), op == ELEMENT_ADD ? &twice : NULL,
                      op == ELEMENT_ADD ? sizeof(twice) : 0);
}

/* ---- ranges ---- */

static void is_next(void *ctx, const struct nft_element *e)
{
    uint32_t *next = ctx, twice = 2 * *next;
    ck_assert_uint_eq(e->key_length, sizeof(*next));
    ck_assert_mem_eq(e->key, next, sizeof(*next));
    ck_assert_mem_eq(e->data, &twice, sizeof(twice));
    ++*next;
}

/* The list of elements is one attribute of at most 64 KiB. */
TEST(long_lists_are_split)
{
    const uint32_t n = 20000;
    for (uint32_t i = 0; i < n; i++)
        element(ELEMENT_ADD, "a", i);
    ck_assert_uint_eq(batch.cuts.n, 0); /* one transaction */
    nft_batch_clear(&batch);
    batch.piece = NFT_PIECE_FITTING;
    for (uint32_t i = 0; i < n; i++)
        element(ELEMENT_ADD, "a", i);
    ck_assert_uint_gt(strlen(kinds()), 8); /* 28 bytes each: 560,000 bytes */
    ck_assert_uint_lt(strlen(kinds()), 11);
    uint32_t next = 0;
    size_t messages = 0;
    for (size_t offset = 0; offset < batch.used; messages++) {
        nft_element_each(message_at(offset), is_next, &next);
        offset += MNL_ALIGN(message_at(offset)->nlmsg_len);
        /* Between any two of these messages the batch may be cut. */
        if (offset < batch.used)
            ck_assert_uint_eq(batch.cuts.v[messages], offset);
    }
    ck_assert_uint_eq(next, n);
    ck_assert_uint_eq(batch.elements[ELEMENT_ADD], n);
    ck_assert_uint_eq(batch.cuts.n, messages - 1);
}

TEST(memory_of_a_big_batch_is_given_back)
{
    for (uint32_t i = 0; i < 100; i++)
        element(ELEMENT_ADD, "a", i);
    nft_batch_clear(&batch);
    ck_assert_uint_gt(batch.capacity, 0); /* a small one keeps it */
    for (uint32_t i = 0; i < 100000; i++)
        element(ELEMENT_ADD, "a", i);
    nft_batch_finish(&batch);
    ck_assert_uint_gt(batch.used, 2000000);
    nft_batch_clear(&batch);
    ck_assert_uint_eq(batch.capacity, 0);
    element(ELEMENT_ADD, "a", 1);
    ck_assert_str_eq(kinds(), "E");
}

/* One message of each sort, with names that end within a word. */
static void one_of_each(void)
{
    struct nftnl_set *set = nftnl_set_alloc();
    struct nftnl_chain *chain = nftnl_chain_alloc();
    struct nftnl_rule *rule = nftnl_rule_alloc();
    nftnl_set_set_str(set, NFTNL_SET_NAME, "a-set");
    nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, "chain");
    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, "chain");
    batch.sequence = 1;
    nft_batch_add_table(&batch, false, "comment");
    nft_batch_add_set(&batch, set);
    nft_batch_add_chain(&batch, chain);
    nft_batch_add_rule(&batch, rule);
    nft_batch_delete_rule(&batch, "chain", 1);
    nft_batch_delete_chain(&batch, "chain");
    nft_batch_element(&batch, ELEMENT_ADD, "m", "12345", 5, "123456", 6);
    nft_batch_goto_element(&batch, "picks", "1234", 4, "chain");
    nft_batch_finish(&batch);
    nftnl_set_free(set);
    nftnl_chain_free(chain);
    nftnl_rule_free(rule);
}

/* What the memory held before is nothing for the kernel. */
TEST(no_old_bytes_between_attributes)
{
    one_of_each();
    size_t length = batch.used;
    char *first = xcalloc(1, length);
    memcpy(first, batch.buffer, length);
    nft_batch_clear(&batch);
    memset(batch.buffer, 0xa5, batch.capacity);
    one_of_each();
    ck_assert_uint_eq(batch.used, length);
    ck_assert_mem_eq(batch.buffer, first, length);
    free(first);
}

UNIT_FIXTURE(setup, teardown)
