/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cleanup.h"

#include <endian.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <time.h>

/* The type of a comment in a rule's user data, in nft and newer versions of iptables. */
#define USERDATA_COMMENT 0

/* ---- the plan ---- */

static struct hash_key chain_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct iptables_chain *)link)->name);
}

static struct iptables_chain *find_chain(const struct iptables_plan *plan, const char *name)
{
    return name ? hash_table_find(&plan->by_name, chain_key, hash_key_of_text(name)) : NULL;
}

void iptables_plan_clear(struct iptables_plan *plan)
{
    vec_each (&plan->chains, it) {
        struct iptables_chain *chain = *it;
        hash_table_remove(&plan->by_name, &chain->link);
        vec_free(&chain->leads_to);
        free(chain->name);
        free(chain);
    }
    vec_free(&plan->chains);
    vec_free(&plan->needed);
    vec_free(&plan->jumps);
}

struct iptables_chain *iptables_plan_add(struct iptables_plan *plan, const char *name, bool base)
{
    struct iptables_chain *chain = find_chain(plan, name);
    if (chain)
        return chain;
    chain = xcalloc(1, sizeof(*chain));
    chain->name = xstrdup(name);
    chain->base = base;
    chain->kube_proxys = !base && kube_proxy_has_chain(plan->table, name);
    hash_table_add(&plan->by_name, chain_key, &chain->link);
    vec_push(&plan->chains, chain);
    return chain;
}

bool iptables_chain_goes(const struct iptables_chain *chain)
{
    return chain->kube_proxys && !chain->needed_by;
}

void iptables_plan_add_rule(struct iptables_plan *plan, const struct iptables_rule *rule)
{
    struct iptables_chain *from = find_chain(plan, rule->chain), *to = find_chain(plan, rule->to);
    if (!from)
        return;
    from->rules++;
    if (!to || !to->kube_proxys)
        return;
    if (!from->base || !rule->commented) {
        vec_push(&from->leads_to, to);
        return;
    }
    vec_each (&plan->jumps, jump) /* few: a table has about a dozen */
        if (jump->handle == rule->handle)
            return;
    vec_push(&plan->jumps, (struct iptables_jump){from, to, rule->handle});
}

static void need(struct iptables_plan *plan, struct iptables_chain *chain,
                 const struct iptables_chain *by)
{
    if (chain->needed_by)
        return;
    chain->needed_by = by;
    vec_push(&plan->needed, chain);
}

/* What a needed chain jumps to is needed as well. */
static void follow_needed(struct iptables_plan *plan)
{
    for (; plan->followed < plan->needed.n; plan->followed++) {
        const struct iptables_chain *chain = plan->needed.v[plan->followed];
        vec_each (&chain->leads_to, to)
            need(plan, *to, chain->needed_by);
    }
}

/* Breadth first: of several chains that need another, one that jumps to it itself is easier to find
 * for the user. */
void iptables_plan_finish(struct iptables_plan *plan)
{
    vec_each (&plan->chains, chain)
        if (!(*chain)->kube_proxys)
            vec_each (&(*chain)->leads_to, to)
                need(plan, *to, *chain);
    follow_needed(plan);
}

/* ---- reading a table ---- */

static int on_iptables_chain(const struct nlmsghdr *header, void *data)
{
    struct iptables_plan *plan = data;
    const char *name = netlink_text(nfnl_attribute(header, NFTA_CHAIN_NAME));
    const char *table = netlink_text(nfnl_attribute(header, NFTA_CHAIN_TABLE));
    bool base = nfnl_attribute(header, NFTA_CHAIN_HOOK) != NULL;
    if (!name || !table || strcmp(table, plan->table) != 0) /* the dump includes all tables */
        return MNL_CB_OK;
    struct iptables_chain *chain = iptables_plan_add(plan, name, base);
    chain->drops = netlink_number(nfnl_attribute(header, NFTA_CHAIN_POLICY), NF_ACCEPT) == NF_DROP;
    return MNL_CB_OK;
}

/* The chain that the verdict in @data refers to; NULL if none. */
static const char *verdict_chain(const struct nlattr *data)
{
    return netlink_text(
        netlink_inside(netlink_inside(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN));
}

static bool is_commented(const struct nlattr *userdata)
{
    const char *bytes = mnl_attr_get_payload(userdata);
    size_t left = mnl_attr_get_payload_len(userdata);
    while (left >= 2) {
        size_t length = (uint8_t)bytes[1];
        if (length > left - 2)
            break;
        if (bytes[0] == USERDATA_COMMENT)
            return kube_proxy_has_comment(bytes + 2, length);
        bytes += 2 + length;
        left -= 2 + length;
    }
    return false;
}

static void read_expression(const struct nlattr *expression, struct iptables_rule *rule)
{
    const char *name = netlink_text(netlink_inside(expression, NFTA_EXPR_NAME));
    const struct nlattr *data = netlink_inside(expression, NFTA_EXPR_DATA);
    if (name && strcmp(name, "immediate") == 0) {
        const char *to = verdict_chain(netlink_inside(data, NFTA_IMMEDIATE_DATA));
        rule->to = to ? to : rule->to;
    } else if (name && strcmp(name, "match") == 0) {
        const char *match = netlink_text(netlink_inside(data, NFTA_MATCH_NAME));
        const struct nlattr *info = netlink_inside(data, NFTA_MATCH_INFO);
        if (match && info && strcmp(match, "comment") == 0)
            rule->commented =
                kube_proxy_has_comment(mnl_attr_get_payload(info), mnl_attr_get_payload_len(info));
    }
}

static int on_iptables_rule(const struct nlmsghdr *header, void *data)
{
    struct iptables_rule rule = {.chain = netlink_text(nfnl_attribute(header, NFTA_RULE_CHAIN))};
    const struct nlattr *expression, *expressions = nfnl_attribute(header, NFTA_RULE_EXPRESSIONS),
                                     *userdata = nfnl_attribute(header, NFTA_RULE_USERDATA);
    if (!rule.chain)
        return MNL_CB_OK;
    if (netlink_copy(nfnl_attribute(header, NFTA_RULE_HANDLE), &rule.handle, sizeof(rule.handle)))
        rule.handle = be64toh(rule.handle);
    if (expressions) {
        mnl_attr_for_each_nested(expression, expressions) read_expression(expression, &rule);
    }
    rule.commented = rule.commented || (userdata && is_commented(userdata));
    iptables_plan_add_rule(data, &rule);
    return MNL_CB_OK;
}

static int read_plan(struct iptables_plan *plan, struct nft_socket *socket, struct error *err)
{
    const struct nft_dump chains = {NFT_MSG_GETCHAIN, plan->table, NULL};
    const struct nft_dump rules = {NFT_MSG_GETRULE, plan->table, NULL};
    bool any = false;
    if (nft_socket_dump(socket, plan->family, &chains, on_iptables_chain, plan, &plan->interrupted,
                        err))
        return -1;
    vec_each (&plan->chains, chain)
        any = any || (*chain)->kube_proxys;
    if (any && nft_socket_dump(socket, plan->family, &rules, on_iptables_rule, plan,
                               &plan->interrupted, err))
        return -1;
    iptables_plan_finish(plan);
    return 0;
}

/* ---- the report ---- */

/* Chains that share a line: removed ones of services and endpoints by kind, remaining ones by the
 * chain that needs them. */
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
        cleanup_report(cleanup, FATE_REMOVED, "table %s %s: rule of chain %s that jumps to %s", ip,
                       plan->table, jump->from->name, jump->to->name);
    vec_each (&plan->chains, it) {
        const struct iptables_chain *chain = *it;
        const char *kind = kube_proxy_chain_kind(chain->name);
        if (!iptables_chain_goes(chain))
            continue;
        if (kind)
            count_chain(&kinds, kind, chain);
        else
            cleanup_report(cleanup, FATE_REMOVED, "table %s %s: chain %s (rules: %zu)", ip,
                           plan->table, chain->name, chain->rules);
    }
    vec_each (&kinds, kind)
        cleanup_report(cleanup, FATE_REMOVED, "table %s %s: chains %s... (chains: %zu, rules: %zu)",
                       ip, plan->table, kind->name, kind->chains, kind->rules);
    vec_free(&kinds);
}

static void report_needed(struct cleanup *cleanup, const struct iptables_plan *plan)
{
    group_vec groups = {0};
    vec_each (&plan->needed, chain)
        count_chain(&groups, (*chain)->needed_by->name, *chain);
    vec_each (&groups, group) {
        char *rule = group->name ? xasprintf("a rule of chain %s", group->name) : NULL;
        cleanup_report(cleanup, FATE_LEFT,
                       "table %s %s: chain %s, and those that it jumps to (chains: %zu): %s that "
                       "is not kube-proxy's needs it: delete that %s, then run this again",
                       nft_family_name(plan->family), plan->table, group->first->name,
                       group->chains, rule ? rule : "an element of a verdict map",
                       rule ? "rule" : "element, or the rule that holds the map");
        free(rule);
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
            cleanup_report(cleanup, FATE_WARNING,
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
    const struct iptables_chain *marks = find_chain(plan, "KUBE-MARK-MASQ");
    const struct iptables_chain *masquerades = find_chain(plan, "KUBE-POSTROUTING");
    if (marks && marks->needed_by && masquerades && iptables_chain_goes(masquerades))
        cleanup_report(cleanup, FATE_WARNING,
                       "table %s %s: chain KUBE-MARK-MASQ stays, but KUBE-POSTROUTING is removed: "
                       "packets marked there are masqueraded only while kube-nftd has the same "
                       "mark (masqueradeBit 14)",
                       nft_family_name(plan->family), plan->table);
}

/* ---- removing ---- */

/* A dump takes several reads, and a change to any table in between may leave gaps in it. A large
 * table on a busy node may never yield an undisturbed dump, so only the first UNDISTURBED_TRIES
 * insist on one, and read it again after any rejection. Gaps are safe: the kernel rejects the
 * removal of what another program needs. */
#define TRIES 15
#define UNDISTURBED_TRIES 3
#define PAUSE_NANOSECONDS 20000000

/* Rules first: only an empty, unreferenced chain can be deleted. */
static void fill_batch(struct nft_batch *batch, const struct iptables_plan *plan)
{
    vec_each (&plan->jumps, jump)
        nft_batch_delete_rule(batch, jump->from->name, jump->handle);
    vec_each (&plan->chains, chain)
        if (iptables_chain_goes(*chain))
            nft_batch_flush_chain(batch, (*chain)->name);
    vec_each (&plan->chains, chain)
        if (iptables_chain_goes(*chain))
            nft_batch_delete_chain(batch, (*chain)->name);
}

/* Marks the chains whose removal the kernel rejected because they are referenced: by verdict maps,
 * which are not read. False if there is no such chain. */
static bool mark_busy(struct iptables_plan *plan, const struct nft_batch *batch)
{
    static const struct iptables_chain map;
    const size_t before = plan->needed.n;
    vec_each (&batch->rejections, rejection) {
        if (rejection->why != EBUSY || rejection->message == NFT_NO_MESSAGE)
            continue;
        const struct nlmsghdr *message = (const void *)(batch->buffer + rejection->message);
        struct iptables_chain *chain =
            find_chain(plan, netlink_text(nfnl_attribute(message, NFTA_CHAIN_NAME)));
        if (NFNL_MSG_TYPE(message->nlmsg_type) == NFT_MSG_DELCHAIN && chain)
            need(plan, chain, &map);
    }
    follow_needed(plan);
    return plan->needed.n > before;
}

/* With @retry it fails where reading the table again may help. Returns 0 when all is removed and
 * reported. */
static int carry_out(struct cleanup *cleanup, struct nft_socket *socket, struct iptables_plan *plan,
                     bool retry, struct error *err)
{
    struct nft_batch batch;
    int result;
    nft_batch_init(&batch, plan->family, plan->table);
    do {
        nft_batch_clear(&batch);
        error_clear(err);
        fill_batch(&batch, plan);
        result = cleanup->dry_run ? nft_socket_check(socket, &batch, NULL, err)
                                  : nft_socket_commit(socket, &batch, err);
    } while (result && !retry && mark_busy(plan, &batch));
    bool any = batch.used > 0;
    nft_batch_release(&batch);
    if (result)
        return -1;
    report_removal(cleanup, plan);
    if (any) {
        warn_of_drops(cleanup, plan);
        warn_of_marks(cleanup, plan);
    }
    if (plan->interrupted && !cleanup->dry_run)
        return error_set(err,
                         "other programs keep changing nf_tables, so some rules may be missed");
    if (plan->interrupted)
        cleanup_report(cleanup, FATE_WARNING,
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
            bool retry = tries < UNDISTURBED_TRIES;
            if (tries > 0)
                nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL);
            result = read_plan(&plan, socket, &err);
            if (result == 0 && plan.interrupted && retry)
                result = error_set(&err, "other programs keep changing nf_tables");
            if (result == 0)
                result = carry_out(cleanup, socket, &plan, retry, &err);
            iptables_plan_clear(&plan);
        }
        if (result)
            cleanup_report(cleanup, FATE_LEFT,
                           "table %s %s: kube-proxy's chains: %s: run this again; 'nft monitor' "
                           "shows who else changes tables",
                           nft_family_name(family), tables[i], err.text);
    }
    error_clear(&err);
}
