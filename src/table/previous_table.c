/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "previous_table.h"

#include "state.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <string.h>

/* The kernel refuses chains of type nat with a lower priority. */
#define FIRST_OF_NAT (-199)
/* How often to check the rules, and after an event about them. */
#define KEEP_PERIOD 2.0
#define KEEP_PAUSE 0.1

/* ---- shadow chains ---- */

struct copying {
    struct nft_batch batch;
    VEC(char *) chains; /* with a hook */
};

static char *name_of_shadow(const char *chain)
{
    return xasprintf("%s-early", chain);
}

/* Of two chains with one priority, the one added last runs first. */
static int32_t earlier(int32_t priority)
{
    return priority > FIRST_OF_NAT ? priority - 1 : priority;
}

static void on_previous_chain(void *ctx, struct nftnl_chain *chain)
{
    struct copying *c = ctx;
    if (!nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM))
        return;
    vec_push(&c->chains, xstrdup(nftnl_chain_get_str(chain, NFTNL_CHAIN_NAME)));
    char *early = name_of_shadow(c->chains.v[c->chains.n - 1]);
    nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, early);
    nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO,
                        earlier(nftnl_chain_get_s32(chain, NFTNL_CHAIN_PRIO)));
    nftnl_chain_unset(chain, NFTNL_CHAIN_HANDLE);
    nftnl_chain_unset(chain, NFTNL_CHAIN_USE);
    nftnl_chain_unset(chain, NFTNL_CHAIN_FLAGS);
    nft_batch_add_chain(&c->batch, chain);
    free(early);
}

static void on_previous_rule(void *ctx, struct nftnl_rule *rule)
{
    struct copying *c = ctx;
    const char *name = nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN);
    vec_each (&c->chains, chain) {
        if (strcmp(*chain, name) != 0)
            continue;
        char *early = name_of_shadow(*chain);
        nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, early);
        nftnl_rule_unset(rule, NFTNL_RULE_HANDLE);
        nftnl_rule_unset(rule, NFTNL_RULE_POSITION);
        nft_batch_add_rule(&c->batch, rule);
        free(early);
        return;
    }
}

void ruleset_add_shadow_chains(const struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    struct copying c = {.chains = {0}};
    nft_batch_init(&c.batch, rs->family, RULESET_TABLE);
    if (nft_socket_read_chains(socket, rs->family, RULESET_TABLE, on_previous_chain, &c, &err) ||
        nft_socket_read_rules(socket, rs->family, RULESET_TABLE, on_previous_rule, &c, &err) ||
        nft_socket_commit(socket, &c.batch, &err))
        log_debug(1, "table",
                  "family=%s cannot add shadow chains to the table that is replaced: %s",
                  nft_family_name(rs->family), err.text);
    error_clear(&err);
    vec_each (&c.chains, chain)
        free(*chain);
    vec_free(&c.chains);
    nft_batch_release(&c.batch);
}

/* ---- what it has ---- */

static void on_previous_element(void *ctx, const struct nft_element *element)
{
    (void)element;
    *(bool *)ctx = true;
}

/* Whether the kernel has a table, of any layout, that is not known to be without services. True,
 * too, if the kernel does not answer. */
static bool has_previous(const struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    struct nft_table_state state = {.exists = true};
    const char *services = set_name(SET_SERVICES);
    bool known = nft_socket_read_table(socket, rs->family, RULESET_TABLE, &state, &err) == 0;
    bool counted = false, any = false;
    uint32_t count = 0;
    free(state.comment);
    if (known && state.exists)
        known = nft_socket_count_elements(socket, rs->family, RULESET_TABLE, services, &count,
                                          &counted, &err) == 0;
    if (known && state.exists && !counted)
        known = nft_socket_read_elements(socket, rs->family, RULESET_TABLE, services,
                                         on_previous_element, &any, &err) == 0;
    error_clear(&err);
    return !known || (state.exists && (counted ? count > 0 : any));
}

/* ---- while it stays active ---- */

/* Repairs the chains, rules and verdicts in one transaction, while the desired elements are
 * unknown: another program's change might block access to the API server. -1: nothing changed. */
static int repair_previous(struct ruleset *rs, struct nft_socket *socket, bool *repaired,
                           struct error *err)
{
    bool ours = false;
    struct rules_repaired done = {.bytes = 0};
    *repaired = false;
    if (ruleset_claim(rs, socket, &ours, err))
        return -1;
    if (!ours)
        return 0;
    const int result = rules_repair(rs, socket, &done, err);
    instances_clear(&rs->instances); /* the applied state is read back later */
    *repaired = done.bytes > 0;
    return result;
}

double protection_step(struct protection *protection, struct ruleset *rs, struct nft_socket *socket,
                       double now, uint64_t *repairs)
{
    struct error err = {0};
    bool repaired;
    const bool first = protection->checked == 0;
    const double due = protection->checked + (protection->look_again ? KEEP_PAUSE : KEEP_PERIOD);
    if (!first && now < due)
        return due;
    if (first || protection->look_again)
        protection->previous = has_previous(rs, socket);
    protection->checked = now;
    protection->look_again = false;
    if (repair_previous(rs, socket, &repaired, &err))
        log_debug(1, "table", "family=%s the rules of the previous process were not checked: %s",
                  family_name(rs->family), err.text);
    error_clear(&err);
    if (repaired && first) {
        log_info("table",
                 "family=%s rewrote rules of the previous process: its settings were others, or "
                 "the rules were changed since",
                 family_name(rs->family));
    } else if (repaired) {
        ++*repairs;
        log_warn("table",
                 "family=%s repaired the rules of the previous process, which had been changed",
                 family_name(rs->family));
    }
    return now + KEEP_PERIOD;
}

/* ---- a frontend of it that is withdrawn ---- */

/* Deletes the element that packets to @frontend look up first. */
static int encode_giving_way(const struct ruleset *rs, struct nft_socket *socket,
                             const struct frontend *frontend, struct nft_batch *batch,
                             struct error *err)
{
    const struct key key = key_of_frontend(frontend);
    const char *services = set_name(SET_SERVICES);
    bool there = false;
    if (nft_socket_get_element(socket, rs->family, RULESET_TABLE, services, key.bytes, key.length,
                               on_previous_element, &there, err))
        return -1;
    if (there)
        nft_batch_element(batch, ELEMENT_DELETE, services, key.bytes, key.length, NULL, 0);
    return 0;
}

/* @gave: whether the table had the frontend. */
static int withdraw(struct ruleset *rs, struct nft_socket *socket, const struct frontend *frontend,
                    bool *gave, struct error *err)
{
    bool ours = false, cluster_ip = false;
    struct nft_batch batch;
    *gave = false;
    if (ruleset_claim(rs, socket, &ours, err) ||
        (ours && ruleset_probe_address(rs, socket, set_name(SET_CLUSTER_IPS), &frontend->address,
                                       &cluster_ip, err)))
        return -1;
    if (!ours || cluster_ip)
        return 0;
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    int result = encode_giving_way(rs, socket, frontend, &batch, err);
    if (result == 0 && batch.used > 0) {
        result = nft_socket_commit(socket, &batch, err);
        *gave = result == 0;
    }
    nft_batch_release(&batch);
    return result;
}

void ruleset_withdraw(struct ruleset *rs, struct nft_socket *socket,
                      const struct frontend *frontend)
{
    struct error err = {0};
    char text[FRONTEND_TEXT_SIZE];
    bool gave;
    if (withdraw(rs, socket, frontend, &gave, &err))
        log_warn("table", "frontend=%s of the previous process cannot be withdrawn: %s",
                 frontend_format(frontend, text), err.text);
    error_clear(&err);
    if (gave)
        log_warn("table",
                 "frontend=%s of the previous process is withdrawn: the API server uses that "
                 "address and port, and is not connected",
                 frontend_format(frontend, text));
}
