/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Decides which of kube-proxy's chains can be removed, from a graph of references alone. */
#include "cleanup.h"

#include "kube-nftd/base.h"

#include <stdlib.h>

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct iptables_chain *)link)->name);
}

struct iptables_chain *iptables_plan_find(const struct iptables_plan *plan, const char *name)
{
    return name ? hash_table_find(&plan->by_name, key_of, hash_key_of_text(name)) : NULL;
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
    vec_free(&plan->jumps);
}

struct iptables_chain *iptables_plan_add(struct iptables_plan *plan, const char *name, int kind)
{
    struct iptables_chain *chain = iptables_plan_find(plan, name);
    if (chain)
        return chain;
    chain = xcalloc(1, sizeof(*chain));
    chain->name = xstrdup(name);
    chain->kind =
        kind == OTHER_CHAIN && kube_proxy_has_chain(plan->table, name) ? KUBE_PROXY_CHAIN : kind;
    hash_table_add(&plan->by_name, key_of, &chain->link);
    vec_push(&plan->chains, chain);
    return chain;
}

static bool is_kube_proxys(const struct iptables_chain *chain)
{
    return chain && chain->kind == KUBE_PROXY_CHAIN;
}

void iptables_plan_add_element(struct iptables_plan *plan, const char *map, const char *to)
{
    struct iptables_chain *from = iptables_plan_find(plan, map),
                          *chain = iptables_plan_find(plan, to);
    if (from && is_kube_proxys(chain))
        vec_push(&from->leads_to, chain);
}

/* A linear search: a table has about a dozen such jumps. */
static bool has_jump(const struct iptables_plan *plan, uint64_t handle)
{
    vec_each (&plan->jumps, jump)
        if (jump->handle == handle)
            return true;
    return false;
}

void iptables_plan_add_rule(struct iptables_plan *plan, const struct iptables_rule *rule)
{
    struct iptables_chain *from = iptables_plan_find(plan, rule->chain),
                          *to = iptables_plan_find(plan, rule->to);
    struct iptables_chain *map = iptables_plan_find(plan, rule->map);
    if (!from)
        return;
    from->rules++;
    if (map && map->kind == ANONYMOUS_MAP)
        vec_push(&from->leads_to, map);
    if (!is_kube_proxys(to))
        return;
    if (from->kind != BASE_CHAIN || !rule->comment || !kube_proxy_has_comment(rule->comment))
        vec_push(&from->leads_to, to);
    else if (!has_jump(plan, rule->handle))
        vec_push(&plan->jumps, (struct iptables_jump){from, to, rule->handle});
}

/* Records that @by needs @to; appends @to to @found if it was not needed before. */
static void need(struct iptables_chain *to, const struct iptables_chain *by, bool directly,
                 iptables_chain_vec *found)
{
    if (to->kind == ANONYMOUS_MAP) {
        vec_each (&to->leads_to, behind)
            need(*behind, by, directly, found);
        return;
    }
    if (!to->needed_by)
        vec_push(found, to);
    if (!to->needed_by || directly)
        to->needed_by = by; /* easier for the user to find than an indirect one */
    to->needed_directly = to->needed_directly || directly;
}

void iptables_plan_finish(struct iptables_plan *plan)
{
    iptables_chain_vec todo = {0};
    vec_each (&plan->chains, it)
        if ((*it)->kind != KUBE_PROXY_CHAIN && (*it)->kind != ANONYMOUS_MAP)
            vec_each (&(*it)->leads_to, to)
                need(*to, *it, true, &todo);
    while (todo.n > 0) {
        const struct iptables_chain *chain = todo.v[--todo.n];
        vec_each (&chain->leads_to, to)
            need(*to, chain->needed_by, false, &todo);
    }
    vec_free(&todo);
}

bool iptables_chain_goes(const struct iptables_chain *chain)
{
    return is_kube_proxys(chain) && !chain->needed_by;
}
