/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What beside our tables decides whether a connection arrives: forwarding, and chains of others. */
#include "explain.h"

#include <linux/netfilter.h>
#include <string.h>

/* So many chains, and rules of a table, are looked at: some milliseconds. */
#define CHAINS_MOST 4096
#define RULES_MOST 8192
/* The priority of our chains that translate (nft-templates/base.nft). Of chains with the same one,
 * the one that was made last sees a packet first. */
#define OUR_PRIORITY (-100)

static bool is_ours(const struct base_chain *chain)
{
    return strcmp(chain->table, RULESET_TABLE) == 0;
}

static const char *nfproto_name(uint8_t family)
{
    return family == NFPROTO_IPV4 ? "ip" : family == NFPROTO_IPV6 ? "ip6" : "inet";
}

/* Whether a chain of @nfproto sees packets of @family. */
static bool sees(uint8_t nfproto, enum family family)
{
    return nfproto == NFPROTO_INET || nfproto == netlink_family(family);
}

/* ---- forwarding ---- */

struct search {
    const bool *families;
    cJSON *to;
};

static void find_drop(void *ctx, const struct base_chain *chain)
{
    const struct search *search = ctx;
    bool seen = false;
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        seen = seen || (search->families[i] && sees(chain->family, i));
    if (seen && chain->drops && chain->hook == NF_INET_FORWARD && !is_ours(chain))
        facts_append_text(search->to,
                          "chain %s of table %s %s drops what it forwards unless a rule accepts it "
                          "(policy drop): does one accept the traffic of Services?",
                          chain->name, nfproto_name(chain->family), chain->table);
}

void obstacles_find(const bool families[FAMILY_COUNT], cJSON *to)
{
    static const struct {
        enum family family;
        const char *path, *name, *text;
    } settings[] = {
        {FAMILY_IPV4, "ipv4/ip_forward", "net.ipv4.ip_forward",
         "this host forwards no IPv4 packets, so clients reach no endpoint in a pod or on another "
         "node"},
        {FAMILY_IPV6, "ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding",
         "this host forwards no IPv6 packets, so clients reach no endpoint in a pod or on another "
         "node"},
        {FAMILY_IPV4, "bridge/bridge-nf-call-iptables", "net.bridge.bridge-nf-call-iptables",
         "between pods of one bridge replies are not translated back, so a pod does not get the "
         "answer of another one on this node that a Service led to"},
        {FAMILY_IPV6, "bridge/bridge-nf-call-ip6tables", "net.bridge.bridge-nf-call-ip6tables",
         "the same over IPv6"}};
    struct search search = {families, to};
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (families[settings[i].family] && host_net_setting(settings[i].path) == 0)
            facts_append_text(to, "%s is 0: %s", settings[i].name, settings[i].text);
    base_chains_each(CHAINS_MOST, find_drop, &search);
}

/* ---- other programs that translate ---- */

struct translator {
    uint8_t family;
    char *table, *text; /* "ip nat", its chains as text */
};

struct translators {
    const struct explainer *e;
    VEC(struct translator) tables;
};

static void find_translator(void *ctx, const struct base_chain *chain)
{
    struct translators *all = ctx;
    struct translator *its = NULL;
    bool first = (chain->hook == NF_INET_PRE_ROUTING || chain->hook == NF_INET_LOCAL_OUT) &&
                 chain->priority <= OUR_PRIORITY && strcmp(chain->type, "nat") == 0;
    bool seen = all->e->by_address
                    ? sees(chain->family, all->e->asked.family)
                    : sees(chain->family, FAMILY_IPV4) || sees(chain->family, FAMILY_IPV6);
    if (!first || !seen || is_ours(chain))
        return;
    vec_each (&all->tables, it)
        if (it->family == chain->family && strcmp(it->table, chain->table) == 0)
            its = it;
    if (!its) {
        vec_push(&all->tables, (struct translator){chain->family, xstrdup(chain->table), NULL});
        its = &all->tables.v[all->tables.n - 1];
    }
    xjoin(&its->text, "%s at %d", chain->name, chain->priority);
}

/* Names the tables. One whose rules have the address is the first suspect, then one that has its
 * port: a hostPort is for all addresses of the host. */
static void add_translator(struct explainer *e, const struct translator *it, cJSON *array)
{
    const struct frontend *asked = &e->asked;
    const char *family = nfproto_name(it->family);
    char *address = NULL, *port = NULL;
    if (e->by_address)
        address = rules_find_bytes(it->family, it->table, asked->address.bytes,
                                   address_length(asked->family), RULES_MOST);
    if (e->by_address && !address && asked->port)
        port = rules_find_port(it->family, it->table, asked->port, RULES_MOST);
    facts_add(facts_append(array), fact_text("family", family), fact_text("table", it->table),
              fact_text("chains", it->text), fact_text("chainWithAddress", address),
              fact_text("chainWithPort", port));
    if (address || port)
        explain_note(e,
                     "a rule in chain %s of table %s %s has this %s: if it translates new "
                     "connections, they do not come to kube-nftd's chains",
                     address ? address : port, family, it->table, address ? "address" : "port");
    else
        explain_note(e,
                     "table %s %s has nat chains that see new connections first (%s): what they "
                     "translate does not come to kube-nftd's chains",
                     family, it->table, it->text);
    free(address);
    free(port);
}

void explain_surroundings(struct explainer *e)
{
    struct translators all = {.e = e};
    bool families[FAMILY_COUNT];
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        families[i] = e->now->family[i].in_use && (!e->by_address || i == e->asked.family);
    obstacles_find(families, e->notes);
    base_chains_each(CHAINS_MOST, find_translator, &all);
    cJSON *array = cJSON_AddArrayToObject(e->root, "translators");
    vec_each (&all.tables, it) {
        add_translator(e, it, array);
        free(it->table);
        free(it->text);
    }
    vec_free(&all.tables);
}
