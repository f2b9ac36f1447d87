/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink/nft_element.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/netlink/request.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/socket.h>

/* The bytes of a NFTA_DATA_VALUE in @nest; no bytes for a verdict. */
static const uint8_t *value_of(const struct nlattr *nest, size_t *length)
{
    const struct nlattr *attribute;
    *length = 0;
    mnl_attr_for_each_nested(attribute, nest)
    {
        if (mnl_attr_get_type(attribute) == NFTA_DATA_VALUE) {
            *length = mnl_attr_get_payload_len(attribute);
            return mnl_attr_get_payload(attribute);
        }
    }
    return NULL;
}

/* The chain of a goto in @nest. */
static const char *chain_of(const struct nlattr *nest)
{
    const struct nlattr *attribute, *part;
    const char *chain = NULL;
    bool goes = false;
    mnl_attr_for_each_nested(attribute, nest)
    {
        if (mnl_attr_get_type(attribute) != NFTA_DATA_VERDICT)
            continue;
        mnl_attr_for_each_nested(part, attribute)
        {
            if (mnl_attr_get_type(part) == NFTA_VERDICT_CODE)
                goes = mnl_attr_validate(part, MNL_TYPE_U32) == 0 &&
                       ntohl(mnl_attr_get_u32(part)) == (uint32_t)NFT_GOTO;
            else if (mnl_attr_get_type(part) == NFTA_VERDICT_CHAIN &&
                     mnl_attr_validate(part, MNL_TYPE_NUL_STRING) == 0)
                chain = mnl_attr_get_str(part);
        }
    }
    return goes ? chain : NULL;
}

static uint32_t flags_of(const struct nlattr *attribute)
{
    return mnl_attr_get_payload_len(attribute) < sizeof(uint32_t)
               ? 0
               : ntohl(mnl_attr_get_u32(attribute));
}

static uint64_t packets_of_counter(const struct nlattr *data)
{
    const struct nlattr *attribute;
    mnl_attr_for_each_nested(attribute, data)
    {
        if (mnl_attr_get_type(attribute) == NFTA_COUNTER_PACKETS &&
            mnl_attr_get_payload_len(attribute) >= sizeof(uint64_t))
            return be64toh(mnl_attr_get_u64(attribute));
    }
    return 0;
}

/* The kernel names an expression before its data. */
static uint64_t packets_of(const struct nlattr *expression)
{
    const struct nlattr *attribute;
    bool is_counter = false;
    mnl_attr_for_each_nested(attribute, expression)
    {
        if (mnl_attr_get_type(attribute) == NFTA_EXPR_NAME)
            is_counter = mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) == 0 &&
                         strcmp(mnl_attr_get_str(attribute), "counter") == 0;
        else if (mnl_attr_get_type(attribute) == NFTA_EXPR_DATA && is_counter)
            return packets_of_counter(attribute);
    }
    return 0;
}

static bool nft_element_read(const struct nlattr *from, struct nft_element *out)
{
    struct nft_element element = {.key = NULL};
    const struct nlattr *attribute;
    mnl_attr_for_each_nested(attribute, from)
    {
        switch (mnl_attr_get_type(attribute)) {
        case NFTA_SET_ELEM_KEY:
            element.key = value_of(attribute, &element.key_length);
            break;
        case NFTA_SET_ELEM_DATA:
            element.data = value_of(attribute, &element.data_length);
            element.chain = element.data ? NULL : chain_of(attribute);
            break;
        case NFTA_SET_ELEM_FLAGS:
            element.flags = flags_of(attribute);
            break;
        case NFTA_SET_ELEM_EXPR:
            element.packets = packets_of(attribute);
            break;
        default: /* timeouts */
            break;
        }
    }
    *out = element;
    return element.key || element.flags & NFT_SET_ELEM_CATCHALL;
}

size_t nft_element_each(const struct nlmsghdr *message, nft_element_fn fn, void *ctx)
{
    const struct nlattr *attribute, *at;
    size_t n = 0;
    mnl_attr_for_each(attribute, message, sizeof(struct nfgenmsg))
    {
        if (mnl_attr_get_type(attribute) != NFTA_SET_ELEM_LIST_ELEMENTS)
            continue;
        mnl_attr_for_each_nested(at, attribute)
        {
            struct nft_element element;
            if (!nft_element_read(at, &element))
                continue;
            fn(ctx, &element);
            n++;
        }
    }
    return n;
}
