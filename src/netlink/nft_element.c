/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink/nft_element.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

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
        default: /* timeouts, counters */
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
