/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink.h"

#include "kube-nftd/base.h"

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
    const struct nlattr *value = netlink_inside(nest, NFTA_DATA_VALUE);
    *length = value ? mnl_attr_get_payload_len(value) : 0;
    return value ? mnl_attr_get_payload(value) : NULL;
}

/* The chain of a goto in @nest. */
static const char *chain_of(const struct nlattr *nest)
{
    const struct nlattr *verdict = netlink_inside(nest, NFTA_DATA_VERDICT);
    uint32_t code = netlink_number(netlink_inside(verdict, NFTA_VERDICT_CODE), 0);
    return code == (uint32_t)NFT_GOTO ? netlink_text(netlink_inside(verdict, NFTA_VERDICT_CHAIN))
                                      : NULL;
}

static uint64_t packets_of(const struct nlattr *expression)
{
    const char *name = netlink_text(netlink_inside(expression, NFTA_EXPR_NAME));
    const struct nlattr *packets =
        netlink_inside(netlink_inside(expression, NFTA_EXPR_DATA), NFTA_COUNTER_PACKETS);
    return name && strcmp(name, "counter") == 0 && packets &&
                   mnl_attr_get_payload_len(packets) >= sizeof(uint64_t)
               ? be64toh(mnl_attr_get_u64(packets))
               : 0;
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
            element.flags = netlink_number(attribute, 0);
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
    const struct nlattr *at,
        *list = netlink_attribute(message, sizeof(struct nfgenmsg), NFTA_SET_ELEM_LIST_ELEMENTS);
    size_t n = 0;
    if (!list)
        return 0;
    mnl_attr_for_each_nested(at, list)
    {
        struct nft_element element;
        if (!nft_element_read(at, &element))
            continue;
        fn(ctx, &element);
        n++;
    }
    return n;
}
