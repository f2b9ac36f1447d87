/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "program.h"

#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

static int program_set(const struct layout *layout, const struct layout_set *from,
                       struct nft_batch *batch, struct error *err)
{
    struct nftnl_set *set = nftnl_set_alloc();
    if (!set)
        alloc_failed();
    nftnl_set_set_str(set, NFTNL_SET_NAME, from->name);
    nftnl_set_set_u32(set, NFTNL_SET_ID, ++batch->last_set_id);
    int result = set_declare(from, set, err);
    if (result)
        error_prefix(err, "%s:%d: %s", layout->file, from->line, from->name);
    else
        nft_batch_add_set(batch, set);
    nftnl_set_free(set);
    return result;
}

int program_hook(const char *name)
{
    static const char *const hooks[] = {[NF_INET_PRE_ROUTING] = "prerouting",
                                        [NF_INET_LOCAL_IN] = "input",
                                        [NF_INET_FORWARD] = "forward",
                                        [NF_INET_LOCAL_OUT] = "output",
                                        [NF_INET_POST_ROUTING] = "postrouting"};
    for (int i = 0; i < (int)(sizeof(hooks) / sizeof(hooks[0])); i++)
        if (strcmp(hooks[i], name) == 0)
            return i;
    return -1;
}

int program_chain(const struct layout *layout, const struct layout_chain *from,
                  struct nft_batch *batch, struct error *err)
{
    int hook = from->hook ? program_hook(from->hook) : 0;
    if (hook < 0)
        return error_set(err, "%s:%d: unknown hook: %s", layout->file, from->line, from->hook);
    struct nftnl_chain *chain = nftnl_chain_alloc();
    if (!chain)
        alloc_failed();
    nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, from->name);
    if (from->hook) {
        nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, from->type);
        nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, (uint32_t)hook);
        nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, from->priority);
    }
    nft_batch_add_chain(batch, chain);
    nftnl_chain_free(chain);
    return 0;
}

int program_rules(const struct layout *layout, const struct layout_chain *chain,
                  struct nft_batch *batch, struct error *err)
{
    vec_each (&chain->rules, from) {
        struct nftnl_rule *rule = nftnl_rule_alloc();
        if (!rule)
            alloc_failed();
        nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain->name);
        int result = statements_add(from->text, layout->family, rule, batch, err);
        if (result)
            error_prefix(err, "%s:%d", layout->file, from->line);
        else
            nft_batch_add_rule(batch, rule);
        nftnl_rule_free(rule);
        if (result)
            return -1;
    }
    return 0;
}

int program_layout(const struct layout *layout, enum program_part part, struct nft_batch *batch,
                   struct error *err)
{
    if (part == PROGRAM_ALL) {
        vec_each (&layout->sets, set)
            if (program_set(layout, set, batch, err))
                return -1;
    }
    /* All chains before any rule: rules and verdicts name chains that may be declared later. */
    vec_each (&layout->chains, chain)
        if (program_chain(layout, chain, batch, err))
            return -1;
    vec_each (&layout->chains, chain)
        if (program_rules(layout, chain, batch, err))
            return -1;
    vec_each (&layout->sets, set) {
        vec_each (&set->verdicts, verdict)
            nft_batch_goto_element(batch, set->name, &verdict->key, sizeof(verdict->key),
                                   verdict->chain);
    }
    nft_batch_finish(batch); /* the names go with the layout */
    return 0;
}
