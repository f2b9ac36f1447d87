/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kinds.h"

#include "iptables.h"
#include "kube-nftd/table.h"

#include <string.h>
#include <time.h>

/* The table of mode nftables. */
#define KUBE_PROXY_TABLE "kube-proxy"

/* The kernel does not list a table in one piece, and a change to any table meanwhile may make it
 * skip something. How often a table is read; how often for a list that nothing overtook, which
 * a large table on a busy node never gives; and how long others get in between to come to an end.
 * A list with gaps does no harm: the kernel refuses to remove what somebody needs. */
#define TRIES 15
#define UNDISTURBED_TRIES 3
#define PAUSE_NANOSECONDS 20000000

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
        leftovers_say(report, FATE_STAYS,
                      "table %s %s: a process owns it, so kube-proxy is still running: stop it", ip,
                      KUBE_PROXY_TABLE);
        return 0;
    }
    if (!report->dry_run && delete_table(socket, family, err)) {
        leftovers_say(report, FATE_STAYS, "table %s %s: %s", ip, KUBE_PROXY_TABLE, err->text);
        error_clear(err);
        return 0;
    }
    leftovers_say(report, FATE_REMOVED, "table %s %s", ip, KUBE_PROXY_TABLE);
    return 0;
}

/* ---- removing ---- */

/* Rules first: a chain goes when it has none and none leads to it. */
static int commit_plan(struct nft_socket *socket, enum family family,
                       const struct iptables_plan *plan, struct error *err)
{
    struct nft_batch batch;
    nft_batch_init(&batch, family, plan->table);
    vec_each (&plan->jumps, jump)
        nft_batch_delete_rule(&batch, jump->from->name, jump->handle);
    vec_each (&plan->chains, chain)
        if (iptables_chain_goes(*chain))
            nft_batch_flush_chain(&batch, (*chain)->name);
    vec_each (&plan->chains, chain)
        if (iptables_chain_goes(*chain))
            nft_batch_delete_chain(&batch, (*chain)->name);
    int result = nft_socket_commit(socket, &batch, err);
    nft_batch_release(&batch);
    return result;
}

/* Chains that share a line: those that are made for each service and endpoint, by their kind, and
 * those that stay, by who needs them. */
struct group {
    const char *name, *first; /* borrowed */
    bool map;                 /* for those that stay: it is a verdict map that needs them */
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
    vec_push(groups, (struct group){.name = name,
                                    .first = chain->name,
                                    .map = chain->holder && chain->holder->map,
                                    .chains = 1,
                                    .rules = chain->rules});
}

static void report_removal(struct leftovers_report *report, const char *ip,
                           const struct iptables_plan *plan)
{
    group_vec kinds = {0};
    vec_each (&plan->jumps, jump)
        leftovers_say(report, FATE_REMOVED, "table %s %s: rule of chain %s that jumps to %s", ip,
                      plan->table, jump->from->name, jump->to->name);
    vec_each (&plan->chains, it) {
        const struct iptables_chain *chain = *it;
        if (!iptables_chain_goes(chain))
            continue;
        const char *kind = kube_proxy_chain_kind(chain->name);
        if (kind)
            count_chain(&kinds, kind, chain);
        else
            leftovers_say(report, FATE_REMOVED, "table %s %s: chain %s (rules: %zu)", ip,
                          plan->table, chain->name, chain->rules);
    }
    vec_each (&kinds, kind)
        leftovers_say(report, FATE_REMOVED, "table %s %s: chains %s... (chains: %zu, rules: %zu)",
                      ip, plan->table, kind->name, kind->chains, kind->rules);
    vec_free(&kinds);
}

static void report_held(struct leftovers_report *report, const char *ip,
                        const struct iptables_plan *plan)
{
    group_vec holders = {0};
    vec_each (&plan->chains, chain)
        if ((*chain)->held_at_once)
            count_chain(&holders, (*chain)->holder->name, *chain);
    vec_each (&plan->chains, chain)
        if ((*chain)->holder && !(*chain)->held_at_once)
            count_chain(&holders, (*chain)->holder->name, *chain);
    vec_each (&holders, holder)
        leftovers_say(report, FATE_STAYS,
                      "table %s %s: chain %s, and those that it jumps to (chains: %zu): %s %s that "
                      "is not kube-proxy's needs it: delete that %s, then run this again",
                      ip, plan->table, holder->first, holder->chains,
                      holder->map ? "an element of map" : "a rule of chain", holder->name,
                      holder->map ? "element" : "rule");
    vec_free(&holders);
}

/* ---- what will be different ---- */

/* Rules of kube-proxy's that accept packets; kube-nftd has none (docs/behaviour.md 4.10). */
static const struct {
    const char *from, *to; /* chains of the table filter */
    const char *accepts;
    const char *instead; /* what to put behind iptables' name */
} acceptances[] = {
    {"FORWARD", "KUBE-FORWARD", "replies and packets to masquerade (mark 0x4000)",
     "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT', and the same with '-m mark "
     "--mark 0x4000/0x4000"},
    {"INPUT", "KUBE-NODEPORTS", "health checks of load balancers",
     "-A INPUT -p tcp --dport PORT -j ACCEPT' with each healthCheckNodePort, or '30000:32767"},
    {"INPUT", "KUBE-NODE-PORT", "health checks of load balancers",
     "-A INPUT -p tcp --dport PORT -j ACCEPT' with each healthCheckNodePort, or '30000:32767"},
};

static bool has_jump(const struct iptables_plan *plan, const char *from, const char *to)
{
    vec_each (&plan->jumps, jump)
        if (strcmp(jump->from->name, from) == 0 && strcmp(jump->to->name, to) == 0)
            return true;
    return false;
}

static void warn_of_drops(struct leftovers_report *report, enum family family,
                          const struct iptables_plan *plan)
{
    if (strcmp(plan->table, "filter") != 0)
        return;
    for (size_t i = 0; i < sizeof(acceptances) / sizeof(acceptances[0]); i++) {
        const struct iptables_chain *from = iptables_plan_find(plan, acceptances[i].from);
        const struct iptables_chain *to = iptables_plan_find(plan, acceptances[i].to);
        if (!from || !from->drops || !to || to->rules == 0 || !has_jump(plan, from->name, to->name))
            continue;
        leftovers_say(
            report, FATE_WARNING,
            "table %s filter: the policy of %s is drop, and kube-proxy's rules that accept %s are "
            "removed; kube-nftd adds none. Unless other rules accept them: '%s %s'",
            nft_family_name(family), from->name, acceptances[i].accepts,
            family == FAMILY_IPV4 ? "iptables" : "ip6tables", acceptances[i].instead);
    }
}

/* Somebody else marks by way of kube-proxy's chain, and the one that masquerades goes. */
static void warn_of_marks(struct leftovers_report *report, enum family family,
                          const struct iptables_plan *plan)
{
    const struct iptables_chain *marks = iptables_plan_find(plan, "KUBE-MARK-MASQ");
    const struct iptables_chain *masquerades = iptables_plan_find(plan, "KUBE-POSTROUTING");
    if (marks && marks->holder && masquerades && iptables_chain_goes(masquerades))
        leftovers_say(
            report, FATE_WARNING,
            "table %s %s: chain KUBE-MARK-MASQ stays, but KUBE-POSTROUTING is removed: packets "
            "marked there are masqueraded only while kube-nftd has the same mark "
            "(masqueradeBit 14)",
            nft_family_name(family), plan->table);
}

/* ---- a table ---- */

static bool has_something_to_remove(const struct iptables_plan *plan)
{
    if (plan->jumps.n > 0)
        return true;
    vec_each (&plan->chains, chain)
        if (iptables_chain_goes(*chain))
            return true;
    return false;
}

static void report_plan(struct leftovers_report *report, enum family family,
                        const struct iptables_plan *plan)
{
    report_removal(report, nft_family_name(family), plan);
    warn_of_drops(report, family, plan);
    warn_of_marks(report, family, plan);
}

/* Takes @plan, which has gaps if it was overtaken: what it does not know of may be left. */
static int take_plan(struct nft_socket *socket, enum family family,
                     const struct iptables_plan *plan, bool overtaken,
                     struct leftovers_report *report, struct error *err)
{
    bool remove = has_something_to_remove(plan);
    if (remove && !report->dry_run && commit_plan(socket, family, plan, err))
        return -1;
    if (remove)
        report_plan(report, family, plan);
    if (overtaken && !report->dry_run)
        return error_set(err,
                         "other programs keep changing nf_tables, so some rules may be missed");
    if (overtaken)
        leftovers_say(report, FATE_WARNING,
                      "table %s %s: other programs changed nf_tables while it was read: this may "
                      "be incomplete",
                      nft_family_name(family), plan->table);
    report_held(report, nft_family_name(family), plan);
    return 0;
}

/* 0: done and said. -1: to be tried again, or given up with @err. */
static int try_table(struct nft_socket *socket, enum family family, const char *table,
                     bool take_overtaken, struct leftovers_report *report, struct error *err)
{
    struct iptables_plan plan;
    bool overtaken;
    if (iptables_plan_read(&plan, socket, family, table, &overtaken, err))
        return -1;
    int result = overtaken && !take_overtaken
                     ? error_set(err, "other programs keep changing nf_tables")
                     : take_plan(socket, family, &plan, overtaken, report, err);
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
            result = try_table(socket, family, kube_proxy_tables[i], tries >= UNDISTURBED_TRIES,
                               report, &err);
        }
        if (result)
            leftovers_say(
                report, FATE_STAYS,
                "table %s %s: kube-proxy's chains: %s: run this again; 'nft monitor' shows "
                "who else changes tables",
                nft_family_name(family), kube_proxy_tables[i], err.text);
    }
    error_clear(&err);
}
