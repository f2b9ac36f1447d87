/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cleanup.h"

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The type of a comment in a rule's user data, in nft and newer versions of iptables. */
#define USERDATA_COMMENT 0

/* ---- reading a table ---- */

static int on_chain(const struct nlmsghdr *header, void *data)
{
    struct iptables_plan *plan = data;
    const char *name = netlink_text(nfnl_attribute(header, NFTA_CHAIN_NAME));
    const char *table = netlink_text(nfnl_attribute(header, NFTA_CHAIN_TABLE));
    bool base = nfnl_attribute(header, NFTA_CHAIN_HOOK) != NULL;
    if (!name || !table || strcmp(table, plan->table) != 0) /* the dump includes all tables */
        return MNL_CB_OK;
    struct iptables_chain *chain = iptables_plan_add(plan, name, base ? BASE_CHAIN : OTHER_CHAIN);
    chain->drops = netlink_number(nfnl_attribute(header, NFTA_CHAIN_POLICY), NF_ACCEPT) == NF_DROP;
    return MNL_CB_OK;
}

static int on_set(const struct nlmsghdr *header, void *data)
{
    struct iptables_plan *plan = data;
    const char *name = netlink_text(nfnl_attribute(header, NFTA_SET_NAME));
    bool verdicts =
             netlink_number(nfnl_attribute(header, NFTA_SET_DATA_TYPE), 0) == NFT_DATA_VERDICT,
         anonymous = netlink_number(nfnl_attribute(header, NFTA_SET_FLAGS), 0) & NFT_SET_ANONYMOUS;
    if (name && verdicts) {
        char *map = xasprintf("@%s", name);
        iptables_plan_add(plan, map, anonymous ? ANONYMOUS_MAP : MAP);
        free(map);
    }
    return MNL_CB_OK;
}

/* The chain that the verdict in @data refers to; NULL if none. */
static const char *verdict_chain(const struct nlattr *data)
{
    return netlink_text(
        netlink_inside(netlink_inside(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN));
}

/* A copy of the text if @data is an iptables match "comment"; else NULL. */
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

/* The context of on_elements(). */
struct map_reading {
    struct iptables_plan *plan;
    const char *map;
};

static int on_elements(const struct nlmsghdr *header, void *data)
{
    const struct map_reading *reading = data;
    const struct nlattr *element, *all = nfnl_attribute(header, NFTA_SET_ELEM_LIST_ELEMENTS);
    if (!all)
        return MNL_CB_OK;
    mnl_attr_for_each_nested(element, all) iptables_plan_add_element(
        reading->plan, reading->map, verdict_chain(netlink_inside(element, NFTA_SET_ELEM_DATA)));
    return MNL_CB_OK;
}

static void read_expression(const struct nlattr *expression, struct iptables_rule *rule, char **map,
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
    /* A rule has one verdict map at most: its verdict ends the rule. */
    const char *set = netlink_text(netlink_inside(data, NFTA_LOOKUP_SET));
    if (strcmp(name, "lookup") == 0 && set && netlink_inside(data, NFTA_LOOKUP_DREG) && !*map)
        *map = xasprintf("@%s", set);
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
    char *map = NULL, *comment = NULL;
    if (!rule.chain)
        return MNL_CB_OK;
    if (handle && mnl_attr_get_payload_len(handle) >= sizeof(uint64_t))
        rule.handle = be64toh(mnl_attr_get_u64(handle));
    if (expressions) {
        mnl_attr_for_each_nested(expression, expressions)
            read_expression(expression, &rule, &map, &comment);
    }
    if (!comment && userdata)
        comment = userdata_comment(userdata);
    rule.map = map;
    rule.comment = comment;
    iptables_plan_add_rule(plan, &rule);
    free(map);
    free(comment);
    return MNL_CB_OK;
}

static bool has_kube_proxys(const struct iptables_plan *plan)
{
    vec_each (&plan->chains, chain)
        if ((*chain)->kind == KUBE_PROXY_CHAIN)
            return true;
    return false;
}

/* @interrupted: nf_tables changed during the dump, so the plan may have gaps. */
static int read_plan(struct iptables_plan *plan, struct nft_socket *socket, bool *interrupted,
                     struct error *err)
{
    enum family family = plan->family;
    const struct nft_dump chains = {.type = NFT_MSG_GETCHAIN, .table = plan->table};
    const struct nft_dump sets = {.type = NFT_MSG_GETSET, .table = plan->table};
    const struct nft_dump rules = {.type = NFT_MSG_GETRULE, .table = plan->table};
    *interrupted = false;
    if (nft_socket_dump(socket, family, &chains, on_chain, plan, interrupted, err))
        return -1;
    if (!has_kube_proxys(plan))
        return 0;
    if (nft_socket_dump(socket, family, &sets, on_set, plan, interrupted, err))
        return -1;
    vec_each (&plan->chains, it) {
        struct map_reading reading = {plan, (*it)->name};
        const struct nft_dump elements = {NFT_MSG_GETSETELEM, plan->table, (*it)->name + 1};
        if (((*it)->kind == MAP || (*it)->kind == ANONYMOUS_MAP) &&
            nft_socket_dump(socket, family, &elements, on_elements, &reading, interrupted, err))
            return -1;
    }
    if (nft_socket_dump(socket, family, &rules, on_rule, plan, interrupted, err))
        return -1;
    iptables_plan_finish(plan);
    return 0;
}

/* ---- the report ---- */

/* Chains that share a line: removed ones of services and endpoints by kind, remaining ones by the
 * chain or map that needs them. */
struct group {
    const char *name;                   /* borrowed; compared by address */
    const struct iptables_chain *first; /* of the group */
    size_t chains, rules;
};

typedef VEC(struct group) group_vec;

static void count_chain(group_vec *groups, const char *name, const struct iptables_chain *chain)
{
    vec_each (groups, group) {
        if (group->name == name) {
            group->chains++;
            group->rules += chain->rules;
            return;
        }
    }
    vec_push(groups, (struct group){name, chain, 1, chain->rules});
}

static void report_removal(struct cleanup *cleanup, const struct iptables_plan *plan)
{
    const char *ip = nft_family_name(plan->family);
    group_vec kinds = {0};
    vec_each (&plan->jumps, jump)
        cleanup_say(cleanup, FATE_REMOVED, "table %s %s: rule of chain %s that jumps to %s", ip,
                    plan->table, jump->from->name, jump->to->name);
    vec_each (&plan->chains, it) {
        const struct iptables_chain *chain = *it;
        const char *kind = kube_proxy_chain_kind(chain->name);
        if (!iptables_chain_goes(chain))
            continue;
        if (kind)
            count_chain(&kinds, kind, chain);
        else
            cleanup_say(cleanup, FATE_REMOVED, "table %s %s: chain %s (rules: %zu)", ip,
                        plan->table, chain->name, chain->rules);
    }
    vec_each (&kinds, kind)
        cleanup_say(cleanup, FATE_REMOVED, "table %s %s: chains %s... (chains: %zu, rules: %zu)",
                    ip, plan->table, kind->name, kind->chains, kind->rules);
    vec_free(&kinds);
}

/* Directly needed chains come first, so that each group names one of them. */
static void report_needed(struct cleanup *cleanup, const struct iptables_plan *plan)
{
    group_vec groups = {0};
    for (int directly = 1; directly >= 0; directly--)
        vec_each (&plan->chains, chain)
            if ((*chain)->needed_by && (*chain)->needed_directly == directly)
                count_chain(&groups, (*chain)->needed_by->name, *chain);
    vec_each (&groups, group) {
        bool map = group->first->needed_by->kind == MAP;
        cleanup_say(cleanup, FATE_STAYS,
                    "table %s %s: chain %s, and those that it jumps to (chains: %zu): %s %s that "
                    "is not kube-proxy's needs it: delete that %s, then run this again",
                    nft_family_name(plan->family), plan->table, group->first->name, group->chains,
                    map ? "an element of map" : "a rule of chain", group->name + map,
                    map ? "element" : "rule");
    }
    vec_free(&groups);
}

/* Rules of kube-proxy that accept packets; kube-nftd has none (docs/behaviour.md 4.10). */
static const struct {
    const char *from, *to; /* chains of the table filter */
    const char *accepts;
    const char *instead; /* arguments of iptables */
} acceptances[] = {
    {"FORWARD", "KUBE-FORWARD", "replies and packets to masquerade (mark 0x4000)",
     "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT', and the same with '-m mark "
     "--mark 0x4000/0x4000"},
    {"INPUT", "KUBE-NODEPORTS", "health checks of load balancers",
     "-A INPUT -p tcp --dport PORT -j ACCEPT' with each healthCheckNodePort, or '30000:32767"},
    {"INPUT", "KUBE-NODE-PORT", "health checks of load balancers",
     "-A INPUT -p tcp --dport PORT -j ACCEPT' with each healthCheckNodePort, or '30000:32767"},
};

/* A base chain's drop policy will apply to packets that kube-proxy's rules accepted. */
static void warn_of_drops(struct cleanup *cleanup, const struct iptables_plan *plan)
{
    for (size_t i = 0; i < sizeof(acceptances) / sizeof(acceptances[0]); i++) {
        vec_each (&plan->jumps, jump) {
            const struct iptables_chain *from = jump->from, *to = jump->to;
            if (!from->drops || strcmp(from->name, acceptances[i].from) != 0 || to->rules == 0 ||
                strcmp(to->name, acceptances[i].to) != 0 || strcmp(plan->table, "filter") != 0)
                continue;
            cleanup_say(cleanup, FATE_WARNING,
                        "table %s filter: the policy of %s is drop, and kube-proxy's rules that "
                        "accept %s are removed; kube-nftd adds none. Unless other rules accept "
                        "them: '%s %s'",
                        nft_family_name(plan->family), from->name, acceptances[i].accepts,
                        plan->family == FAMILY_IPV4 ? "iptables" : "ip6tables",
                        acceptances[i].instead);
            break;
        }
    }
}

/* Another program marks packets through KUBE-MARK-MASQ, but the masquerading chain is removed. */
static void warn_of_marks(struct cleanup *cleanup, const struct iptables_plan *plan)
{
    const struct iptables_chain *marks = iptables_plan_find(plan, "KUBE-MARK-MASQ");
    const struct iptables_chain *masquerades = iptables_plan_find(plan, "KUBE-POSTROUTING");
    if (marks && marks->needed_by && masquerades && iptables_chain_goes(masquerades))
        cleanup_say(cleanup, FATE_WARNING,
                    "table %s %s: chain KUBE-MARK-MASQ stays, but KUBE-POSTROUTING is removed: "
                    "packets marked there are masqueraded only while kube-nftd has the same mark "
                    "(masqueradeBit 14)",
                    nft_family_name(plan->family), plan->table);
}

/* ---- removing ---- */

/* A dump takes several reads, and a change to any table in between may leave gaps in it. A large
 * table on a busy node may never yield an undisturbed dump, so only the first UNDISTURBED_TRIES
 * insist on one. Gaps are safe: the kernel rejects the removal of what another program needs. */
#define TRIES 15
#define UNDISTURBED_TRIES 3
#define PAUSE_NANOSECONDS 20000000

/* Rules first: only an empty, unreferenced chain can be deleted. Returns the number of
 * deletions. */
static size_t fill_batch(struct nft_batch *batch, const struct iptables_plan *plan)
{
    size_t n = plan->jumps.n;
    vec_each (&plan->jumps, jump)
        nft_batch_delete_rule(batch, jump->from->name, jump->handle);
    vec_each (&plan->chains, chain)
        if (iptables_chain_goes(*chain))
            nft_batch_flush_chain(batch, (*chain)->name);
    vec_each (&plan->chains, chain) {
        if (iptables_chain_goes(*chain)) {
            nft_batch_delete_chain(batch, (*chain)->name);
            n++;
        }
    }
    return n;
}

/* @interrupted: @plan may have gaps. Returns 0 when all is removed and reported. */
static int carry_out(struct cleanup *cleanup, struct nft_socket *socket,
                     const struct iptables_plan *plan, bool interrupted, struct error *err)
{
    struct nft_batch batch;
    nft_batch_init(&batch, plan->family, plan->table);
    size_t n = fill_batch(&batch, plan);
    int result = n > 0 && !cleanup->dry_run ? nft_socket_commit(socket, &batch, err) : 0;
    nft_batch_release(&batch);
    if (result)
        return -1;
    if (n > 0) {
        report_removal(cleanup, plan);
        warn_of_drops(cleanup, plan);
        warn_of_marks(cleanup, plan);
    }
    if (interrupted && !cleanup->dry_run)
        return error_set(err,
                         "other programs keep changing nf_tables, so some rules may be missed");
    if (interrupted)
        cleanup_say(cleanup, FATE_WARNING,
                    "table %s %s: other programs changed nf_tables while it was read: this may "
                    "be incomplete",
                    nft_family_name(plan->family), plan->table);
    report_needed(cleanup, plan);
    return 0;
}

void cleanup_iptables_nft(struct cleanup *cleanup, struct nft_socket *socket, enum family family)
{
    static const char *const tables[] = {"filter", "mangle", "nat"};
    struct error err = {0};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        int result = -1;
        for (int tries = 0; tries < TRIES && result; tries++) {
            struct iptables_plan plan = {.family = family, .table = tables[i]};
            bool interrupted;
            if (tries > 0)
                nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL);
            result = read_plan(&plan, socket, &interrupted, &err);
            if (result == 0 && interrupted && tries < UNDISTURBED_TRIES)
                result = error_set(&err, "other programs keep changing nf_tables");
            if (result == 0)
                result = carry_out(cleanup, socket, &plan, interrupted, &err);
            iptables_plan_clear(&plan);
        }
        if (result)
            cleanup_say(cleanup, FATE_STAYS,
                        "table %s %s: kube-proxy's chains: %s: run this again; 'nft monitor' shows "
                        "who else changes tables",
                        nft_family_name(family), tables[i], err.text);
    }
    error_clear(&err);
}
