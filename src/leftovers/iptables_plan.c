/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "iptables_plan.h"

#include "kube-nftd/base/alloc.h"
#include "kube_proxy.h"

#include <stdlib.h>
#include <string.h>

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
