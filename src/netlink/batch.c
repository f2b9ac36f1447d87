/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink.h"

#include <arpa/inet.h>
#include <endian.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <libnftnl/udata.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

/* libnftnl does not check for room when it encodes a set, chain or rule; ours are far smaller. */
#define OBJECT_ROOM 16384
/* One element: keys and data are at most 64 bytes each, a chain's name some more. */
#define ELEMENT_ROOM 512
/* The element list is one attribute, with a 16-bit length. */
#define ELEMENTS_LIMIT (UINT16_MAX - ELEMENT_ROOM)
/* Larger buffers are freed after use. */
#define KEPT_CAPACITY ((size_t)64 * 1024)
/* After a larger batch, the heap's free memory is returned to the system. */
#define BURST_CAPACITY ((size_t)256 * 1024)

void nft_batch_init(struct nft_batch *batch, enum family family, const char *table)
{
    memset(batch, 0, sizeof(*batch));
    nft_batch_set_family(batch, family);
    batch->table = xstrdup(table);
    batch->sequence = 1;
}

void nft_batch_set_family(struct nft_batch *batch, enum family family)
{
    nft_batch_finish(batch);
    batch->nf_family = netlink_family(family);
}

void nft_batch_release(struct nft_batch *batch)
{
    vec_free(&batch->cuts);
    vec_free(&batch->rejections);
    free(batch->buffer);
    free(batch->table);
    memset(batch, 0, sizeof(*batch));
}

void nft_batch_clear(struct nft_batch *batch)
{
    if (batch->capacity > KEPT_CAPACITY) {
        bool burst = batch->capacity > BURST_CAPACITY;
        free(batch->buffer);
        batch->buffer = NULL;
        batch->capacity = 0;
        vec_free(&batch->cuts);
        vec_free(&batch->rejections);
        if (burst)
            alloc_trim();
    }
    vec_clear(&batch->cuts);
    vec_clear(&batch->rejections);
    batch->singly = false;
    batch->used = 0;
    batch->elements[ELEMENT_ADD] = batch->elements[ELEMENT_DELETE] = 0;
    batch->current.open = false;
}

static void make_room(struct nft_batch *batch, size_t room)
{
    if (batch->capacity - batch->used >= room)
        return;
    size_t capacity = batch->capacity + batch->capacity / 2;
    if (capacity < batch->used + room)
        capacity = batch->used + room;
    batch->buffer = xreallocarray(batch->buffer, capacity, 1);
    batch->capacity = capacity;
}

static struct nlmsghdr *new_message(struct nft_batch *batch, uint16_t type, uint16_t flags)
{
    nft_batch_finish(batch);
    make_room(batch, OBJECT_ROOM);
    return nftnl_nlmsg_build_hdr(batch->buffer + batch->used, type, batch->nf_family, flags,
                                 batch->sequence++);
}

/* For messages that libnftnl encodes: it does not zero the padding between attributes. */
static struct nlmsghdr *new_object(struct nft_batch *batch, uint16_t type, uint16_t flags)
{
    make_room(batch, OBJECT_ROOM);
    memset(batch->buffer + batch->used, 0, OBJECT_ROOM);
    return new_message(batch, type, flags);
}

/* A batch has about a dozen attributes per endpoint. libmnl's functions would cost a library call
 * each, and do not zero the padding. */

static struct nlattr *next_attribute(struct nlmsghdr *message)
{
    return (struct nlattr *)(void *)((char *)message + MNL_ALIGN(message->nlmsg_len));
}

static struct nlattr *begin_nest(struct nlmsghdr *message, uint16_t attribute)
{
    struct nlattr *nest = next_attribute(message);
    nest->nla_type = NLA_F_NESTED | attribute;
    message->nlmsg_len = MNL_ALIGN(message->nlmsg_len) + MNL_ATTR_HDRLEN;
    return nest;
}

static void end_nest(const struct nlmsghdr *message, struct nlattr *nest)
{
    nest->nla_len = (uint16_t)((const char *)message + message->nlmsg_len - (char *)nest);
}

static void put_bytes(struct nlmsghdr *message, uint16_t type, const void *bytes, size_t length)
{
    struct nlattr *attribute = next_attribute(message);
    char *at = (char *)attribute + MNL_ATTR_HDRLEN;
    memset(at + MNL_ALIGN(length) - MNL_ALIGNTO, 0, MNL_ALIGNTO); /* the padding */
    attribute->nla_type = type;
    attribute->nla_len = (uint16_t)(MNL_ATTR_HDRLEN + length);
    memcpy(at, bytes, length);
    message->nlmsg_len =
        (uint32_t)(MNL_ALIGN(message->nlmsg_len) + MNL_ATTR_HDRLEN + MNL_ALIGN(length));
}

static void put_text(struct nlmsghdr *message, uint16_t attribute, const char *text)
{
    put_bytes(message, attribute, text, strlen(text) + 1);
}

/* @number is big-endian. */
static void put_number(struct nlmsghdr *message, uint16_t attribute, uint32_t number)
{
    put_bytes(message, attribute, &number, sizeof(number));
}

static void end_message(struct nft_batch *batch, const struct nlmsghdr *message)
{
    batch->used += MNL_ALIGN(message->nlmsg_len);
}

/* ---- tables, sets, chains, rules ---- */

/* All messages begin with the table's name. */
static struct nlmsghdr *new_in_table(struct nft_batch *batch, uint16_t type, uint16_t flags)
{
    struct nlmsghdr *message = new_message(batch, type, flags);
    put_text(message, NFTA_TABLE_NAME, batch->table);
    return message;
}

static struct nlmsghdr *new_table(struct nft_batch *batch, uint32_t flags)
{
    struct nlmsghdr *message = new_in_table(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE);
    put_number(message, NFTA_TABLE_FLAGS, htonl(flags));
    return message;
}

void nft_batch_add_table(struct nft_batch *batch, bool owned, const char *comment)
{
    struct nlmsghdr *message = new_table(batch, owned ? NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT : 0);
    struct nftnl_udata_buf *udata =
        alloc_check(nftnl_udata_buf_alloc(NFTNL_UDATA_COMMENT_MAXLEN + 8));
    nftnl_udata_put_strz(udata, NFTNL_UDATA_TABLE_COMMENT, comment);
    put_bytes(message, NFTA_TABLE_USERDATA, nftnl_udata_buf_data(udata),
              nftnl_udata_buf_len(udata));
    nftnl_udata_buf_free(udata);
    end_message(batch, message);
}

void nft_batch_set_table_flags(struct nft_batch *batch, uint32_t flags)
{
    end_message(batch, new_table(batch, flags));
}

void nft_batch_delete_table(struct nft_batch *batch)
{
    end_message(batch, new_in_table(batch, NFT_MSG_DELTABLE, 0));
}

/* Begins the deletion of the object @name, named by @attribute, or of its contents. */
static struct nlmsghdr *new_deletion(struct nft_batch *batch, uint16_t type, uint16_t attribute,
                                     const char *name)
{
    struct nlmsghdr *message = new_in_table(batch, type, 0);
    put_text(message, attribute, name);
    return message;
}

void nft_batch_flush_set(struct nft_batch *batch, const char *set)
{
    end_message(batch, new_deletion(batch, NFT_MSG_DELSETELEM, NFTA_SET_ELEM_LIST_SET, set));
}

void nft_batch_delete_rule(struct nft_batch *batch, const char *chain, uint64_t handle)
{
    struct nlmsghdr *message = new_deletion(batch, NFT_MSG_DELRULE, NFTA_RULE_CHAIN, chain);
    mnl_attr_put_u64(message, NFTA_RULE_HANDLE, htobe64(handle));
    end_message(batch, message);
}

void nft_batch_flush_chain(struct nft_batch *batch, const char *chain)
{
    end_message(batch, new_deletion(batch, NFT_MSG_DELRULE, NFTA_RULE_CHAIN, chain));
}

void nft_batch_delete_chain(struct nft_batch *batch, const char *chain)
{
    end_message(batch, new_deletion(batch, NFT_MSG_DELCHAIN, NFTA_CHAIN_NAME, chain));
}

void nft_batch_add_set(struct nft_batch *batch, struct nftnl_set *set)
{
    struct nlmsghdr *message = new_object(batch, NFT_MSG_NEWSET, NLM_F_CREATE);
    nftnl_set_set_str(set, NFTNL_SET_TABLE, batch->table);
    nftnl_set_nlmsg_build_payload(message, set);
    end_message(batch, message);
}

void nft_batch_add_chain(struct nft_batch *batch, struct nftnl_chain *chain)
{
    struct nlmsghdr *message = new_object(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
    nftnl_chain_set_str(chain, NFTNL_CHAIN_TABLE, batch->table);
    nftnl_chain_nlmsg_build_payload(message, chain);
    end_message(batch, message);
}

void nft_batch_add_rule(struct nft_batch *batch, struct nftnl_rule *rule)
{
    struct nlmsghdr *message = new_object(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
    nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, batch->table);
    nftnl_rule_nlmsg_build_payload(message, rule);
    end_message(batch, message);
}

/* ---- flowtables ---- */

static struct nlmsghdr *new_in_flowtable(struct nft_batch *batch, uint16_t type, uint16_t flags,
                                         const char *flowtable)
{
    struct nlmsghdr *message = new_in_table(batch, type, flags);
    put_text(message, NFTA_FLOWTABLE_NAME, flowtable);
    return message;
}

void nft_batch_add_flowtable(struct nft_batch *batch, const char *flowtable, int32_t priority)
{
    struct nlmsghdr *message =
        new_in_flowtable(batch, NFT_MSG_NEWFLOWTABLE, NLM_F_CREATE, flowtable);
    struct nlattr *hook = begin_nest(message, NFTA_FLOWTABLE_HOOK);
    put_number(message, NFTA_FLOWTABLE_HOOK_NUM, htonl(NF_NETDEV_INGRESS));
    put_number(message, NFTA_FLOWTABLE_HOOK_PRIORITY, htonl((uint32_t)priority));
    end_nest(message, hook);
    end_message(batch, message);
}

void nft_batch_delete_flowtable(struct nft_batch *batch, const char *flowtable)
{
    end_message(batch, new_in_flowtable(batch, NFT_MSG_DELFLOWTABLE, 0, flowtable));
}

/* Without the hook's number and priority: a flowtable that another program made with another one
 * serves as well, and one that is gone is not created. */
void nft_batch_flowtable_device(struct nft_batch *batch, enum nft_element_op op,
                                const char *flowtable, const char *device)
{
    struct nlmsghdr *message =
        op == ELEMENT_ADD ? new_in_flowtable(batch, NFT_MSG_NEWFLOWTABLE, NLM_F_CREATE, flowtable)
                          : new_in_flowtable(batch, NFT_MSG_DELFLOWTABLE, 0, flowtable);
    struct nlattr *hook = begin_nest(message, NFTA_FLOWTABLE_HOOK);
    struct nlattr *devices = begin_nest(message, NFTA_FLOWTABLE_HOOK_DEVS);
    put_text(message, NFTA_DEVICE_NAME, device);
    end_nest(message, devices);
    end_nest(message, hook);
    end_message(batch, message);
}

/* ---- elements ---- */

static struct nlmsghdr *current_message(struct nft_batch *batch)
{
    return (struct nlmsghdr *)(void *)(batch->buffer + batch->current.message);
}

/* Updates all lengths: the message is complete after each element. */
static void end_element(struct nft_batch *batch, struct nlattr *element)
{
    const struct nlmsghdr *message = current_message(batch);
    end_nest(message, element);
    end_nest(message, (struct nlattr *)(void *)(batch->buffer + batch->current.list));
    batch->used = batch->current.message + message->nlmsg_len;
}

void nft_batch_finish(struct nft_batch *batch)
{
    batch->current.open = false;
}

static void open_elements(struct nft_batch *batch, enum nft_element_op op, const char *set,
                          uint32_t set_id)
{
    struct nlmsghdr *message = op == ELEMENT_ADD
                                   ? new_in_table(batch, NFT_MSG_NEWSETELEM, NLM_F_CREATE)
                                   : new_in_table(batch, NFT_MSG_DELSETELEM, 0);
    batch->current.open = true;
    batch->current.op = op;
    batch->current.set = set;
    batch->current.message = (size_t)((char *)message - batch->buffer);
    put_text(message, NFTA_SET_ELEM_LIST_SET, set);
    if (set_id)
        put_number(message, NFTA_SET_ELEM_LIST_SET_ID, htonl(set_id));
    struct nlattr *list = begin_nest(message, NFTA_SET_ELEM_LIST_ELEMENTS);
    batch->current.list = (size_t)((char *)list - batch->buffer);
}

/* The message for the next element: the open one if it is of the same kind and has room. */
static struct nlmsghdr *message_for_element(struct nft_batch *batch, enum nft_element_op op,
                                            const char *set)
{
    if (batch->current.open && batch->current.op == op && batch->current.set == set) {
        if (!batch->singly && batch->used - batch->current.list < ELEMENTS_LIMIT) {
            make_room(batch, ELEMENT_ROOM);
            return current_message(batch);
        }
        if (!batch->together)
            nft_batch_may_cut(batch);
    }
    open_elements(batch, op, set, 0);
    return current_message(batch);
}

static void put_value(struct nlmsghdr *message, uint16_t attribute, const void *value,
                      size_t length)
{
    struct nlattr *nest = begin_nest(message, attribute);
    put_bytes(message, NFTA_DATA_VALUE, value, length);
    end_nest(message, nest);
}

/* Begins an element with its key; other attributes follow, then end_element(). */
static struct nlattr *begin_element(struct nft_batch *batch, enum nft_element_op op,
                                    const char *set, const void *key, size_t key_length)
{
    struct nlmsghdr *message = message_for_element(batch, op, set);
    struct nlattr *element = begin_nest(message, NFTA_LIST_ELEM);
    put_value(message, NFTA_SET_ELEM_KEY, key, key_length);
    return element;
}

void nft_batch_element(struct nft_batch *batch, enum nft_element_op op, const char *set,
                       const void *key, size_t key_length, const void *data, size_t data_length)
{
    struct nlattr *element = begin_element(batch, op, set, key, key_length);
    if (data)
        put_value(current_message(batch), NFTA_SET_ELEM_DATA, data, data_length);
    end_element(batch, element);
    batch->elements[op]++;
}

/* Increments @key, a big-endian number; false on overflow. */
static bool next_key(uint8_t *key, size_t length)
{
    while (length-- > 0)
        if (++key[length] != 0)
            return true;
    return false;
}

void nft_batch_range(struct nft_batch *batch, enum nft_element_op op, const char *set,
                     const void *first, const void *last, size_t key_length)
{
    uint8_t end[NFT_DATA_VALUE_MAXLEN];
    nft_batch_element(batch, op, set, first, key_length, NULL, 0);
    memcpy(end, last, key_length);
    if (!next_key(end, key_length))
        return;
    struct nlattr *element = begin_element(batch, op, set, end, key_length);
    put_number(current_message(batch), NFTA_SET_ELEM_FLAGS, htonl(NFT_SET_ELEM_INTERVAL_END));
    end_element(batch, element);
    batch->elements[op]++;
}

void nft_batch_goto_element(struct nft_batch *batch, const char *set, const void *key,
                            size_t key_length, const char *chain)
{
    struct nlattr *element = begin_element(batch, ELEMENT_ADD, set, key, key_length);
    struct nlmsghdr *message = current_message(batch);
    struct nlattr *data = begin_nest(message, NFTA_SET_ELEM_DATA);
    struct nlattr *verdict = begin_nest(message, NFTA_DATA_VERDICT);
    put_number(message, NFTA_VERDICT_CODE, htonl((uint32_t)NFT_GOTO));
    put_text(message, NFTA_VERDICT_CHAIN, chain);
    end_nest(message, verdict);
    end_nest(message, data);
    end_element(batch, element);
    batch->elements[ELEMENT_ADD]++;
}

void nft_batch_counting_element(struct nft_batch *batch, const char *set, const void *key,
                                size_t key_length, uint64_t packets)
{
    const uint64_t big = htobe64(packets), no_bytes = 0;
    struct nlattr *element = begin_element(batch, ELEMENT_ADD, set, key, key_length);
    struct nlmsghdr *message = current_message(batch);
    struct nlattr *expression = begin_nest(message, NFTA_SET_ELEM_EXPR);
    put_text(message, NFTA_EXPR_NAME, "counter");
    struct nlattr *counter = begin_nest(message, NFTA_EXPR_DATA);
    put_bytes(message, NFTA_COUNTER_PACKETS, &big, sizeof(big));
    put_bytes(message, NFTA_COUNTER_BYTES, &no_bytes, sizeof(no_bytes));
    end_nest(message, counter);
    end_nest(message, expression);
    end_element(batch, element);
}

void nft_batch_anonymous_elements(struct nft_batch *batch, uint32_t set_id, const void *keys,
                                  size_t key_length, size_t n)
{
    open_elements(batch, ELEMENT_ADD, "__set%d", set_id);
    struct nlmsghdr *message = current_message(batch);
    for (size_t i = 0; i < n; i++) {
        struct nlattr *element = begin_nest(message, NFTA_LIST_ELEM);
        put_value(message, NFTA_SET_ELEM_KEY, (const char *)keys + i * key_length, key_length);
        end_element(batch, element);
    }
    nft_batch_finish(batch);
}

void nft_batch_may_cut(struct nft_batch *batch)
{
    nft_batch_finish(batch);
    if (batch->piece > 0 && batch->used > 0 &&
        (batch->cuts.n == 0 || batch->cuts.v[batch->cuts.n - 1] != batch->used))
        vec_push(&batch->cuts, batch->used);
}
