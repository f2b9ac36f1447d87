/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/leftovers/iptables_plan.h"

#include "kube-nftd/leftovers/kube_proxy.h"

#include <string.h>

void iptables_plan_init(struct iptables_plan *plan, const char *table)
{
    memset(plan, 0, sizeof(*plan));
    plan->table = table;
}

void iptables_plan_clear(struct iptables_plan *plan)
{
    struct iptables_chain *chain, *next;
    HASH_ITER(hh, plan->chains, chain, next)
    {
        HASH_DELETE(hh, plan->chains, chain);
        vec_free(&chain->leads_to);
        free(chain->name);
        free(chain);
    }
    vec_free(&plan->jumps);
}

static struct iptables_chain *find(const struct iptables_plan *plan, const char *name)
{
    struct iptables_chain *chain;
    HASH_FIND_STR(plan->chains, name, chain);
    return chain;
}

void iptables_plan_add_chain(struct iptables_plan *plan, const char *name, bool base)
{
    if (find(plan, name))
        return;
    struct iptables_chain *chain = xcalloc(1, sizeof(*chain));
    chain->name = xstrdup(name);
    chain->base = base;
    chain->kube_proxys = !base && kube_proxy_has_chain(plan->table, name);
    HASH_ADD_KEYPTR(hh, plan->chains, chain->name, strlen(chain->name), chain);
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

void iptables_plan_add_rule(struct iptables_plan *plan, const struct iptables_rule *rule)
{
    struct iptables_chain *from = find(plan, rule->chain);
    struct iptables_chain *to = rule->to ? find(plan, rule->to) : NULL;
    if (!from)
        return;
    from->rules++;
    if (!to || !to->kube_proxys)
        return;
    if (from->kube_proxys) {
        vec_push(&from->leads_to, to);
        if (from->holder)
            hold(to, from->holder);
    } else if (from->base && rule->comment && kube_proxy_has_comment(rule->comment)) {
        vec_push(&plan->jumps, (struct iptables_jump){from, to, rule->handle});
    } else {
        hold(to, from);
        to->holder = from; /* easier to find than one that needs it by way of others */
        to->held_at_once = true;
    }
}

bool iptables_plan_is_empty(const struct iptables_plan *plan)
{
    for (const struct iptables_chain *chain = plan->chains; chain; chain = chain->hh.next)
        if (chain->kube_proxys)
            return false;
    return true;
}

bool iptables_chain_goes(const struct iptables_chain *chain)
{
    return chain->kube_proxys && !chain->holder;
}
