/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "iptables_reading.h"

#include "kube-nftd/netlink/request.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

/* What nft and newer versions of iptables put before a comment in a rule's user data. */
#define USERDATA_COMMENT 0

/* 0 if there is no room for a number. */
static uint32_t number(const struct nlattr *attribute)
{
    bool fits = mnl_attr_get_payload_len(attribute) >= sizeof(uint32_t);
    return fits ? ntohl(mnl_attr_get_u32(attribute)) : 0;
}

static int on_chain(const struct nlmsghdr *header, void *data)
{
    struct iptables_plan *plan = data;
    struct iptables_chain_facts facts = {.name = NULL};
    const char *table = NULL;
    const struct nlattr *attribute;
    mnl_attr_for_each(attribute, header, sizeof(struct nfgenmsg))
    {
        switch (mnl_attr_get_type(attribute)) {
        case NFTA_CHAIN_TABLE:
            table = netlink_text(attribute);
            break;
        case NFTA_CHAIN_NAME:
            facts.name = netlink_text(attribute);
            break;
        case NFTA_CHAIN_HOOK:
            facts.base = true;
            break;
        case NFTA_CHAIN_POLICY:
            facts.drops = number(attribute) == NF_DROP;
            break;
        default:
            break;
        }
    }
    if (table && facts.name && strcmp(table, plan->table) == 0)
        iptables_plan_add_chain(plan, &facts);
    return MNL_CB_OK;
}

/* The first attribute of @type in @nest; NULL if there is none or @nest is NULL. */
static const struct nlattr *inside(const struct nlattr *nest, uint16_t type)
{
    const struct nlattr *attribute;
    if (!nest)
        return NULL;
    mnl_attr_for_each_nested(attribute, nest)
    {
        if (mnl_attr_get_type(attribute) == type)
            return attribute;
    }
    return NULL;
}

/* The chain that a verdict in @data, an attribute of values, leads to; NULL if none. */
static const char *verdict_chain(const struct nlattr *data)
{
    return netlink_text(inside(inside(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN));
}

/* The text of the match "comment" of iptables, copied; NULL if @data is of another match. */
static char *match_comment(const struct nlattr *data)
{
    const char *name = netlink_text(inside(data, NFTA_MATCH_NAME));
    const struct nlattr *info = inside(data, NFTA_MATCH_INFO);
    if (!name || !info || strcmp(name, "comment") != 0)
        return NULL;
    return xstrndup(mnl_attr_get_payload(info),
                    strnlen(mnl_attr_get_payload(info), mnl_attr_get_payload_len(info)));
}

static char *userdata_comment(const struct nlattr *userdata)
{
    const uint8_t *bytes = mnl_attr_get_payload(userdata);
    size_t left = mnl_attr_get_payload_len(userdata);
    while (left >= 2 && bytes[1] <= left - 2) {
        size_t length = bytes[1];
        if (bytes[0] == USERDATA_COMMENT)
            return xstrndup((const char *)bytes + 2, strnlen((const char *)bytes + 2, length));
        bytes += 2 + length;
        left -= 2 + length;
    }
    return NULL;
}

static void read_expression(const struct nlattr *expression, struct iptables_rule *rule,
                            char **comment)
{
    const char *name = netlink_text(inside(expression, NFTA_EXPR_NAME));
    const struct nlattr *data = inside(expression, NFTA_EXPR_DATA);
    if (!name)
        return;
    if (strcmp(name, "immediate") == 0) {
        const char *to = verdict_chain(inside(data, NFTA_IMMEDIATE_DATA));
        rule->to = to ? to : rule->to;
    }
    if (strcmp(name, "lookup") == 0) {
        /* A rule has one verdict map at most: what it finds ends the rule. */
        const char *map = netlink_text(inside(data, NFTA_LOOKUP_SET));
        if (map && inside(data, NFTA_LOOKUP_DREG))
            rule->map = map;
    }
    if (strcmp(name, "match") == 0 && !*comment)
        *comment = match_comment(data);
}

static int on_rule(const struct nlmsghdr *header, void *data)
{
    struct iptables_plan *plan = data;
    struct iptables_rule rule = {.chain = NULL};
    char *comment = NULL;
    const char *table = NULL;
    const struct nlattr *attribute, *expression;
    mnl_attr_for_each(attribute, header, sizeof(struct nfgenmsg))
    {
        switch (mnl_attr_get_type(attribute)) {
        case NFTA_RULE_TABLE:
            table = netlink_text(attribute);
            break;
        case NFTA_RULE_CHAIN:
            rule.chain = netlink_text(attribute);
            break;
        case NFTA_RULE_HANDLE:
            if (mnl_attr_get_payload_len(attribute) >= sizeof(uint64_t))
                rule.handle = be64toh(mnl_attr_get_u64(attribute));
            break;
        case NFTA_RULE_EXPRESSIONS:
            mnl_attr_for_each_nested(expression, attribute)
                read_expression(expression, &rule, &comment);
            break;
        case NFTA_RULE_USERDATA:
            if (!comment)
                comment = userdata_comment(attribute);
            break;
        default:
            break;
        }
    }
    rule.comment = comment;
    if (table && rule.chain && strcmp(table, plan->table) == 0)
        iptables_plan_add_rule(plan, &rule);
    free(comment);
    return MNL_CB_OK;
}

/* ---- verdict maps ---- */

struct verdict_map {
    char *name;
    bool anonymous;
};

struct map_list {
    const char *table; /* borrowed */
    VEC(struct verdict_map) maps;
};

static int on_set(const struct nlmsghdr *header, void *data)
{
    struct map_list *list = data;
    const char *table = NULL, *name = NULL;
    uint32_t flags = 0, data_type = 0;
    const struct nlattr *attribute;
    mnl_attr_for_each(attribute, header, sizeof(struct nfgenmsg))
    {
        switch (mnl_attr_get_type(attribute)) {
        case NFTA_SET_TABLE:
            table = netlink_text(attribute);
            break;
        case NFTA_SET_NAME:
            name = netlink_text(attribute);
            break;
        case NFTA_SET_FLAGS:
            flags = number(attribute);
            break;
        case NFTA_SET_DATA_TYPE:
            data_type = number(attribute);
            break;
        default:
            break;
        }
    }
    if (table && name && strcmp(table, list->table) == 0 && data_type == NFT_DATA_VERDICT)
        vec_push(&list->maps, (struct verdict_map){xstrdup(name), flags & NFT_SET_ANONYMOUS});
    return MNL_CB_OK;
}

/* What elements of a map are told to. */
struct element_reading {
    struct iptables_plan *plan;
    const struct verdict_map *map;
};

static int on_elements(const struct nlmsghdr *header, void *data)
{
    const struct element_reading *reading = data;
    const struct nlattr *attribute, *element;
    mnl_attr_for_each(attribute, header, sizeof(struct nfgenmsg))
    {
        if (mnl_attr_get_type(attribute) != NFTA_SET_ELEM_LIST_ELEMENTS)
            continue;
        mnl_attr_for_each_nested(element, attribute)
        {
            const char *to = verdict_chain(inside(element, NFTA_SET_ELEM_DATA));
            if (to)
                iptables_plan_add_element(reading->plan, reading->map->name,
                                          reading->map->anonymous, to);
        }
    }
    return MNL_CB_OK;
}

/* ---- all of a table ---- */

static int read_maps(struct iptables_plan *plan, struct nft_socket *socket, enum family family,
                     bool *overtaken, struct error *err)
{
    struct map_list list = {.table = plan->table};
    struct nft_dump what = {.type = NFT_MSG_GETSET, .table = plan->table};
    int result = nft_socket_dump(socket, family, &what, on_set, &list, overtaken, err);
    vec_each (&list.maps, map) {
        struct element_reading reading = {plan, map};
        what = (struct nft_dump){NFT_MSG_GETSETELEM, plan->table, map->name};
        if (result == 0)
            result = nft_socket_dump(socket, family, &what, on_elements, &reading, overtaken, err);
        free(map->name);
    }
    vec_free(&list.maps);
    return result;
}

/* Chains come first, and what may need them, if there are any of kube-proxy's, after them. */
static int read_all(struct iptables_plan *plan, struct nft_socket *socket, enum family family,
                    bool *overtaken, struct error *err)
{
    struct nft_dump chains = {.type = NFT_MSG_GETCHAIN, .table = plan->table};
    struct nft_dump rules = {.type = NFT_MSG_GETRULE, .table = plan->table};
    if (nft_socket_dump(socket, family, &chains, on_chain, plan, overtaken, err))
        return -1;
    if (iptables_plan_is_empty(plan))
        return 0;
    if (read_maps(plan, socket, family, overtaken, err))
        return -1;
    return nft_socket_dump(socket, family, &rules, on_rule, plan, overtaken, err);
}

int iptables_plan_read(struct iptables_plan *plan, struct nft_socket *socket, enum family family,
                       const char *table, bool *overtaken, struct error *err)
{
    *overtaken = false;
    iptables_plan_init(plan, table);
    int result = read_all(plan, socket, family, overtaken, err);
    if (result)
        iptables_plan_clear(plan);
    return result;
}
