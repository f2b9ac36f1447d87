/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "iptables.h"

#include "kinds.h"
#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>

/* What nft and newer versions of iptables put before a comment in a rule's user data. */
#define USERDATA_COMMENT 0

void iptables_plan_init(struct iptables_plan *plan, const char *table)
{
    memset(plan, 0, sizeof(*plan));
    plan->table = table;
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct iptables_chain *)link)->name);
}

static void free_all(struct hash_table *all)
{
    hash_table_each (all, struct iptables_chain, chain) {
        hash_table_remove(all, &chain->link);
        vec_free(&chain->leads_to);
        free(chain->name);
        free(chain);
    }
}

void iptables_plan_clear(struct iptables_plan *plan)
{
    free_all(&plan->by_name);
    free_all(&plan->maps);
    vec_free(&plan->chains);
    vec_free(&plan->jumps);
}

static struct iptables_chain *find(const struct hash_table *all, const char *name)
{
    return name ? hash_table_find(all, key_of, hash_key_of_text(name)) : NULL;
}

const struct iptables_chain *iptables_plan_find(const struct iptables_plan *plan, const char *name)
{
    return find(&plan->by_name, name);
}

static struct iptables_chain *add(struct hash_table *all, const char *name)
{
    struct iptables_chain *chain = xcalloc(1, sizeof(*chain));
    chain->name = xstrdup(name);
    hash_table_add(all, key_of, &chain->link);
    return chain;
}

void iptables_plan_add_chain(struct iptables_plan *plan, const struct iptables_chain_facts *facts)
{
    if (find(&plan->by_name, facts->name))
        return;
    struct iptables_chain *chain = add(&plan->by_name, facts->name);
    vec_push(&plan->chains, chain);
    chain->base = facts->base;
    chain->drops = facts->drops;
    chain->kube_proxys = !facts->base && kube_proxy_has_chain(plan->table, facts->name);
}

/* @chain stays, and so does all that it leads to. */
static void hold(struct iptables_chain *chain, const struct iptables_chain *holder)
{
    VEC(struct iptables_chain *) todo = {0};
    vec_push(&todo, chain);
    while (todo.n > 0) {
        chain = todo.v[--todo.n];
        if (chain->holder)
            continue;
        chain->holder = holder;
        vec_each (&chain->leads_to, to)
            vec_push(&todo, *to);
    }
    vec_free(&todo);
}

static void hold_at_once(struct iptables_chain *chain, const struct iptables_chain *holder)
{
    hold(chain, holder);
    chain->holder = holder; /* easier to find than one that needs it by way of others */
    chain->held_at_once = true;
}

/* @from, which may be kube-proxy's itself, needs @to. */
static void need(struct iptables_chain *from, struct iptables_chain *to)
{
    if (!from->kube_proxys) {
        hold_at_once(to, from);
        return;
    }
    vec_push(&from->leads_to, to);
    if (from->holder)
        hold(to, from->holder);
}

void iptables_plan_add_element(struct iptables_plan *plan, const char *map_name, bool anonymous,
                               const char *to_name)
{
    struct iptables_chain *to = find(&plan->by_name, to_name);
    if (!to || !to->kube_proxys)
        return;
    struct iptables_chain *map = find(&plan->maps, map_name);
    if (!map)
        map = add(&plan->maps, map_name);
    map->map = true;
    if (anonymous)
        vec_push(&map->leads_to, to);
    else
        hold_at_once(to, map);
}

/* Few are kube-proxy's: a dozen in a table. */
static bool has_jump(const struct iptables_plan *plan, uint64_t handle)
{
    vec_each (&plan->jumps, jump)
        if (jump->handle == handle)
            return true;
    return false;
}

void iptables_plan_add_rule(struct iptables_plan *plan, const struct iptables_rule *rule)
{
    struct iptables_chain *from = find(&plan->by_name, rule->chain);
    struct iptables_chain *to = find(&plan->by_name, rule->to);
    const struct iptables_chain *map = find(&plan->maps, rule->map);
    if (!from)
        return;
    from->rules++;
    for (size_t i = 0; map && i < map->leads_to.n; i++)
        need(from, map->leads_to.v[i]);
    if (!to || !to->kube_proxys)
        return;
    if (!from->base || !rule->comment || !kube_proxy_has_comment(rule->comment))
        need(from, to);
    else if (!has_jump(plan, rule->handle))
        vec_push(&plan->jumps, (struct iptables_jump){from, to, rule->handle});
}

bool iptables_plan_is_empty(const struct iptables_plan *plan)
{
    vec_each (&plan->chains, chain)
        if ((*chain)->kube_proxys)
            return false;
    return true;
}

bool iptables_chain_goes(const struct iptables_chain *chain)
{
    return chain->kube_proxys && !chain->holder;
}

/* ---- messages ---- */

static bool is_of_table(const struct nlmsghdr *header, uint16_t type, const char *name)
{
    const char *table = netlink_text(nfnl_attribute(header, type));
    return table && strcmp(table, name) == 0;
}

static int on_chain(const struct nlmsghdr *header, void *data)
{
    struct iptables_plan *plan = data;
    const struct iptables_chain_facts facts = {
        .name = netlink_text(nfnl_attribute(header, NFTA_CHAIN_NAME)),
        .base = nfnl_attribute(header, NFTA_CHAIN_HOOK) != NULL,
        .drops = netlink_number(nfnl_attribute(header, NFTA_CHAIN_POLICY), NF_ACCEPT) == NF_DROP};
    if (facts.name && is_of_table(header, NFTA_CHAIN_TABLE, plan->table))
        iptables_plan_add_chain(plan, &facts);
    return MNL_CB_OK;
}

/* The chain that a verdict in @data, an attribute of values, leads to; NULL if none. */
static const char *verdict_chain(const struct nlattr *data)
{
    return netlink_text(
        netlink_inside(netlink_inside(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN));
}

/* The text of the match "comment" of iptables, copied; NULL if @data is of another match. */
static char *match_comment(const struct nlattr *data)
{
    const char *name = netlink_text(netlink_inside(data, NFTA_MATCH_NAME));
    const struct nlattr *info = netlink_inside(data, NFTA_MATCH_INFO);
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
    const char *name = netlink_text(netlink_inside(expression, NFTA_EXPR_NAME));
    const struct nlattr *data = netlink_inside(expression, NFTA_EXPR_DATA);
    if (!name)
        return;
    if (strcmp(name, "immediate") == 0) {
        const char *to = verdict_chain(netlink_inside(data, NFTA_IMMEDIATE_DATA));
        rule->to = to ? to : rule->to;
    }
    if (strcmp(name, "lookup") == 0) {
        /* A rule has one verdict map at most: what it finds ends the rule. */
        const char *map = netlink_text(netlink_inside(data, NFTA_LOOKUP_SET));
        if (map && netlink_inside(data, NFTA_LOOKUP_DREG))
            rule->map = map;
    }
    if (strcmp(name, "match") == 0 && !*comment)
        *comment = match_comment(data);
}

static int on_rule(const struct nlmsghdr *header, void *data)
{
    struct iptables_plan *plan = data;
    struct iptables_rule rule = {.chain = netlink_text(nfnl_attribute(header, NFTA_RULE_CHAIN))};
    const struct nlattr *handle = nfnl_attribute(header, NFTA_RULE_HANDLE), *expression,
                        *expressions = nfnl_attribute(header, NFTA_RULE_EXPRESSIONS),
                        *userdata = nfnl_attribute(header, NFTA_RULE_USERDATA);
    char *comment = NULL;
    if (!rule.chain || !is_of_table(header, NFTA_RULE_TABLE, plan->table))
        return MNL_CB_OK;
    if (handle && mnl_attr_get_payload_len(handle) >= sizeof(uint64_t))
        rule.handle = be64toh(mnl_attr_get_u64(handle));
    if (expressions) {
        mnl_attr_for_each_nested(expression, expressions)
            read_expression(expression, &rule, &comment);
    }
    if (!comment && userdata)
        comment = userdata_comment(userdata);
    rule.comment = comment;
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
    const char *name = netlink_text(nfnl_attribute(header, NFTA_SET_NAME));
    bool verdicts =
             netlink_number(nfnl_attribute(header, NFTA_SET_DATA_TYPE), 0) == NFT_DATA_VERDICT,
         anonymous = netlink_number(nfnl_attribute(header, NFTA_SET_FLAGS), 0) & NFT_SET_ANONYMOUS;
    if (name && verdicts && is_of_table(header, NFTA_SET_TABLE, list->table))
        vec_push(&list->maps, (struct verdict_map){xstrdup(name), anonymous});
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
    const struct nlattr *element, *all = nfnl_attribute(header, NFTA_SET_ELEM_LIST_ELEMENTS);
    if (!all)
        return MNL_CB_OK;
    mnl_attr_for_each_nested(element, all)
    {
        const char *to = verdict_chain(netlink_inside(element, NFTA_SET_ELEM_DATA));
        if (to)
            iptables_plan_add_element(reading->plan, reading->map->name, reading->map->anonymous,
                                      to);
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
