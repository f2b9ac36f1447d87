/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The base chains of all tables, and rules of others that have an address. */
#include "kube-nftd/netlink.h"

#include <libnftnl/common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#define PIECE_SIZE ((size_t)32 * 1024)

struct chain_walk {
    base_chain_fn fn;
    void *ctx;
    size_t left; /* messages */
};

static int on_base_chain(const struct nlmsghdr *header, void *data)
{
    struct chain_walk *walk = data;
    if (walk->left-- == 0)
        return MNL_CB_ERROR;
    const struct nfgenmsg *about = mnl_nlmsg_get_payload(header);
    const struct nlattr *hook = nfnl_attribute(header, NFTA_CHAIN_HOOK);
    const struct base_chain chain = {
        .family = about->nfgen_family,
        .table = netlink_text(nfnl_attribute(header, NFTA_CHAIN_TABLE)),
        .name = netlink_text(nfnl_attribute(header, NFTA_CHAIN_NAME)),
        .type = netlink_text(nfnl_attribute(header, NFTA_CHAIN_TYPE)),
        .hook = netlink_number(netlink_inside(hook, NFTA_HOOK_HOOKNUM), UINT32_MAX),
        .priority = (int32_t)netlink_number(netlink_inside(hook, NFTA_HOOK_PRIORITY), 0),
        .drops = netlink_number(nfnl_attribute(header, NFTA_CHAIN_POLICY), 1) == 0,
    };
    if (hook && chain.table && chain.name && chain.type)
        walk->fn(walk->ctx, &chain);
    return MNL_CB_OK;
}

struct rule_walk {
    const char *table;
    const void *bytes;
    size_t length, left;
    char *chain;
};

static int on_hooked_rule(const struct nlmsghdr *header, void *data)
{
    struct rule_walk *walk = data;
    if (walk->left-- == 0)
        return MNL_CB_ERROR;
    const struct nlattr *expressions = nfnl_attribute(header, NFTA_RULE_EXPRESSIONS);
    const char *table = netlink_text(nfnl_attribute(header, NFTA_RULE_TABLE)),
               *chain = netlink_text(nfnl_attribute(header, NFTA_RULE_CHAIN));
    bool has = expressions && table && chain && strcmp(table, walk->table) == 0 &&
               memmem(mnl_attr_get_payload(expressions), mnl_attr_get_payload_len(expressions),
                      walk->bytes, walk->length);
    if (!has)
        return MNL_CB_OK;
    walk->chain = xstrdup(chain);
    return MNL_CB_ERROR;
}

/* Passes the messages of a dump to @fn until it stops. On a socket of its own, so that a dump can
 * be left. */
static void dump(uint16_t type, uint8_t family, const char *table, mnl_cb_t fn, void *ctx)
{
    struct error err = {0};
    struct mnl_socket *nl = netlink_open(NETLINK_NETFILTER, 0, 0, "nf_tables", &err);
    error_clear(&err);
    if (!nl)
        return;
    char *buffer = xcalloc(PIECE_SIZE, 1);
    struct nlmsghdr *request = nftnl_nlmsg_build_hdr(buffer, type, family, NLM_F_DUMP, 1);
    if (table)
        mnl_attr_put_strz(request, NFTA_RULE_TABLE, table);
    struct netlink_reply reply = {
        .nl = nl, .buffer = buffer, .size = PIECE_SIZE, .sequence = 1, .fn = fn, .ctx = ctx};
    if (mnl_socket_sendto(nl, request, request->nlmsg_len) > 0)
        while (netlink_receive(&reply) > 0)
            ;
    mnl_socket_close(nl);
    free(buffer);
}

void base_chains_each(size_t most, base_chain_fn fn, void *ctx)
{
    struct chain_walk walk = {fn, ctx, most};
    dump(NFT_MSG_GETCHAIN, AF_UNSPEC, NULL, on_base_chain, &walk);
}

char *rules_find_bytes(uint8_t family, const char *table, const void *bytes, size_t length,
                       size_t most)
{
    struct rule_walk walk = {.table = table, .bytes = bytes, .length = length, .left = most};
    dump(NFT_MSG_GETRULE, family, table, on_hooked_rule, &walk);
    return walk.chain;
}

char *rules_find_port(uint8_t family, const char *table, uint16_t port, size_t most)
{
    struct {
        struct nlattr head;
        uint8_t port[sizeof(port)];
    } value = {{sizeof(value), NFTA_DATA_VALUE}, {(uint8_t)(port >> 8), (uint8_t)port}};
    return rules_find_bytes(family, table, &value, sizeof(value), most);
}
