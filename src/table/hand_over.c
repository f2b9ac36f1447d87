/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hand_over.h"

#include "kube-nftd/base.h"
#include "state.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <string.h>

struct copying {
    struct nft_batch batch;
    VEC(char *) chains; /* that have a hook */
};

/* What the copy of a chain is called. */
static char *name_of_copy(const char *chain)
{
    return xasprintf("%s-early", chain);
}

static void on_chain(void *ctx, struct nftnl_chain *chain)
{
    struct copying *c = ctx;
    if (!nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM))
        return;
    const char *name = nftnl_chain_get_str(chain, NFTNL_CHAIN_NAME);
    struct nftnl_chain *copy = nftnl_chain_alloc();
    if (!copy)
        alloc_failed();
    char *early = name_of_copy(name);
    nftnl_chain_set_str(copy, NFTNL_CHAIN_NAME, early);
    nftnl_chain_set_str(copy, NFTNL_CHAIN_TYPE, nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE));
    nftnl_chain_set_u32(copy, NFTNL_CHAIN_HOOKNUM, nftnl_chain_get_u32(chain, NFTNL_CHAIN_HOOKNUM));
    nftnl_chain_set_s32(copy, NFTNL_CHAIN_PRIO, nftnl_chain_get_s32(chain, NFTNL_CHAIN_PRIO) - 1);
    nft_batch_add_chain(&c->batch, copy);
    nftnl_chain_free(copy);
    free(early);
    vec_push(&c->chains, xstrdup(name));
}

static void on_rule(void *ctx, struct nftnl_rule *rule)
{
    struct copying *c = ctx;
    const char *name = nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN);
    vec_each (&c->chains, chain) {
        if (strcmp(*chain, name) != 0)
            continue;
        char *early = name_of_copy(*chain);
        nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, early);
        nftnl_rule_unset(rule, NFTNL_RULE_HANDLE);
        nftnl_rule_unset(rule, NFTNL_RULE_POSITION);
        nft_batch_add_rule(&c->batch, rule);
        free(early);
        return;
    }
}

void ruleset_hand_over(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    struct copying c = {.chains = {0}};
    nft_batch_init(&c.batch, rs->family, RULESET_TABLE);
    if (nft_socket_read_chains(socket, rs->family, RULESET_TABLE, on_chain, &c, &err) ||
        nft_socket_read_rules(socket, rs->family, RULESET_TABLE, on_rule, &c, &err) ||
        nft_socket_commit(socket, &c.batch, &err))
        log_debug(1, "ruleset",
                  "family=%s cannot add shadow chains to the table that is replaced: %s",
                  nft_family_name(rs->family), err.text);
    error_clear(&err);
    vec_each (&c.chains, chain)
        free(*chain);
    vec_free(&c.chains);
    nft_batch_release(&c.batch);
}
