/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/leftovers/nf_tables.h"

#include "kube-nftd/leftovers/iptables_plan.h"
#include "kube-nftd/leftovers/kube_proxy.h"
#include "kube-nftd/netlink/request.h"
#include "kube-nftd/ruleset/template.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <time.h>

/* The table of mode nftables. */
#define KUBE_PROXY_TABLE "kube-proxy"

/* The kernel does not list a table in one piece, so a change by anybody meanwhile spoils it. How
 * often a table is read, and how long others get in between to come to an end. */
#define TRIES 30
#define PAUSE_NANOSECONDS 20000000

/* What nft and newer versions of iptables put before a comment in a rule's user data. */
#define USERDATA_COMMENT 0

/* ---- mode nftables ---- */

static int delete_table(struct nft_socket *socket, enum family family, struct error *err)
{
    struct nft_batch batch;
    nft_batch_init(&batch, family, KUBE_PROXY_TABLE);
    nft_batch_delete_table(&batch);
    int result = nft_socket_commit(socket, &batch, err);
    nft_batch_release(&batch);
    return result;
}

int leftovers_remove_table(struct nft_socket *socket, enum family family,
                           struct leftovers_report *report, struct error *err)
{
    const char *ip = nft_family_name(family);
    struct nft_table_state state;
    if (nft_socket_read_table(socket, family, KUBE_PROXY_TABLE, &state, err))
        return -1;
    free(state.comment);
    if (!state.exists)
        return 0;
    if (state.owned_elsewhere) {
        report_left(report, "table %s %s: a process owns it, so kube-proxy still runs: stop it", ip,
                    KUBE_PROXY_TABLE);
        return 0;
    }
    if (!report->dry_run && delete_table(socket, family, err)) {
        report_left(report, "table %s %s: %s", ip, KUBE_PROXY_TABLE, err->text);
        error_clear(err);
        return 0;
    }
    report_removed(report, "table %s %s", ip, KUBE_PROXY_TABLE);
    return 0;
}

/* ---- reading a table of iptables-nft ---- */

static int on_chain(const struct nlmsghdr *header, void *data)
{
    struct iptables_plan *plan = data;
    const char *table = NULL, *name = NULL;
    bool base = false;
    const struct nlattr *attribute;
    mnl_attr_for_each(attribute, header, sizeof(struct nfgenmsg))
    {
        switch (mnl_attr_get_type(attribute)) {
        case NFTA_CHAIN_TABLE:
            table = netlink_text(attribute);
            break;
        case NFTA_CHAIN_NAME:
            name = netlink_text(attribute);
            break;
        case NFTA_CHAIN_HOOK:
            base = true;
            break;
        default:
            break;
        }
    }
    if (table && name && strcmp(table, plan->table) == 0)
        iptables_plan_add_chain(plan, name, base);
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

/* Where the data of an expression "immediate" says to jump or go to; NULL if nowhere. */
static const char *jump_target(const struct nlattr *data)
{
    const struct nlattr *value = inside(data, NFTA_IMMEDIATE_DATA);
    const struct nlattr *verdict = inside(value, NFTA_DATA_VERDICT);
    return netlink_text(inside(verdict, NFTA_VERDICT_CHAIN));
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
        const char *to = jump_target(data);
        rule->to = to ? to : rule->to;
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
            if (mnl_attr_validate(attribute, MNL_TYPE_U64) == 0)
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

static int read_plan(struct nft_socket *socket, enum family family, const char *table,
                     struct iptables_plan *plan, struct error *err)
{
    iptables_plan_init(plan, table);
    if (nft_socket_dump(socket, family, NFT_MSG_GETCHAIN, NFTA_CHAIN_TABLE, table, on_chain, plan,
                        err) == 0 &&
        (iptables_plan_is_empty(plan) ||
         nft_socket_dump(socket, family, NFT_MSG_GETRULE, NFTA_RULE_TABLE, table, on_rule, plan,
                         err) == 0))
        return 0;
    iptables_plan_clear(plan);
    return -1;
}

/* ---- removing ---- */

/* Rules first: a chain goes when it has none and none leads to it. */
static int commit_plan(struct nft_socket *socket, enum family family,
                       const struct iptables_plan *plan, struct error *err)
{
    struct nft_batch batch;
    const struct iptables_chain *chain;
    nft_batch_init(&batch, family, plan->table);
    vec_each (&plan->jumps, jump)
        nft_batch_delete_rule(&batch, jump->from->name, jump->handle);
    for (chain = plan->chains; chain; chain = chain->hh.next)
        if (iptables_chain_goes(chain))
            nft_batch_flush_chain(&batch, chain->name);
    for (chain = plan->chains; chain; chain = chain->hh.next)
        if (iptables_chain_goes(chain))
            nft_batch_delete_chain(&batch, chain->name);
    int result = nft_socket_commit(socket, &batch, err);
    nft_batch_release(&batch);
    return result;
}

/* Chains that share a line: those that are made for each service and endpoint, by their kind, and
 * those that stay, by who needs them. */
struct group {
    const char *name, *first; /* borrowed */
    size_t chains, rules;
};

typedef VEC(struct group) group_vec;

/* Counts @chain to the group @name, which is told by its address: it is one string. */
static void count_chain(group_vec *groups, const char *name, const struct iptables_chain *chain)
{
    vec_each (groups, group) {
        if (group->name == name) {
            group->chains++;
            group->rules += chain->rules;
            return;
        }
    }
    vec_push(groups, (struct group){name, chain->name, 1, chain->rules});
}

static void report_removal(struct leftovers_report *report, const char *ip,
                           const struct iptables_plan *plan)
{
    group_vec kinds = {0};
    vec_each (&plan->jumps, jump)
        report_removed(report, "table %s %s: rule of chain %s that leads to %s", ip, plan->table,
                       jump->from->name, jump->to->name);
    for (const struct iptables_chain *chain = plan->chains; chain; chain = chain->hh.next) {
        if (!iptables_chain_goes(chain))
            continue;
        const char *kind = kube_proxy_chain_kind(chain->name);
        if (kind)
            count_chain(&kinds, kind, chain);
        else
            report_removed(report, "table %s %s: chain %s (rules: %zu)", ip, plan->table,
                           chain->name, chain->rules);
    }
    vec_each (&kinds, kind)
        report_removed(report, "table %s %s: chains %s... (chains: %zu, rules: %zu)", ip,
                       plan->table, kind->name, kind->chains, kind->rules);
    vec_free(&kinds);
}

static void report_held(struct leftovers_report *report, const char *ip,
                        const struct iptables_plan *plan)
{
    group_vec holders = {0};
    const struct iptables_chain *chain;
    for (chain = plan->chains; chain; chain = chain->hh.next)
        if (chain->held_at_once)
            count_chain(&holders, chain->holder->name, chain);
    for (chain = plan->chains; chain; chain = chain->hh.next)
        if (chain->holder && !chain->held_at_once)
            count_chain(&holders, chain->holder->name, chain);
    vec_each (&holders, holder)
        report_left(report,
                    "table %s %s: chain %s, and those that it leads to (chains: %zu): a rule of "
                    "chain %s that is not kube-proxy's needs it: delete that rule, then run this "
                    "again",
                    ip, plan->table, holder->first, holder->chains, holder->name);
    vec_free(&holders);
}

static bool has_something_to_remove(const struct iptables_plan *plan)
{
    if (plan->jumps.n > 0)
        return true;
    for (const struct iptables_chain *chain = plan->chains; chain; chain = chain->hh.next)
        if (iptables_chain_goes(chain))
            return true;
    return false;
}

/* 0: done and said. -1: to be tried again, or given up with @err. */
static int try_table(struct nft_socket *socket, enum family family, const char *table,
                     struct leftovers_report *report, struct error *err)
{
    struct iptables_plan plan;
    if (read_plan(socket, family, table, &plan, err))
        return -1;
    int result = 0;
    bool remove = has_something_to_remove(&plan);
    if (remove && !report->dry_run)
        result = commit_plan(socket, family, &plan, err);
    if (result == 0) {
        report_removal(report, nft_family_name(family), &plan);
        report_held(report, nft_family_name(family), &plan);
    }
    iptables_plan_clear(&plan);
    return result;
}

void leftovers_remove_chains(struct nft_socket *socket, enum family family,
                             struct leftovers_report *report)
{
    struct error err = {0};
    for (size_t i = 0; i < kube_proxy_tables_count; i++) {
        int result = -1;
        for (int tries = 0; tries < TRIES && result; tries++) {
            if (tries > 0)
                nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL);
            result = try_table(socket, family, kube_proxy_tables[i], report, &err);
        }
        if (result)
            report_left(report, "table %s %s: kube-proxy's chains: %s", nft_family_name(family),
                        kube_proxy_tables[i], err.text);
    }
    error_clear(&err);
}
