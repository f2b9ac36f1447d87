/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel holds, asked by the socket that changes it. */
#include "nft_reading.h"
#include "kube-nftd/netlink.h"

#include <errno.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/rule.h>
#include <libnftnl/udata.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

/* Room for a request with two names. */
#define REQUEST_ROOM 1024

/* The attributes that name the table, and what is of it, are the same in all messages. */
static struct nlmsghdr *begin(struct nft_socket *s, char *buffer, enum family family,
                              uint16_t flags, const struct nft_dump *what)
{
    struct nlmsghdr *request =
        nftnl_nlmsg_build_hdr(buffer, what->type, netlink_family(family), flags, s->sequence++);
    mnl_attr_put_strz(request, NFTA_TABLE_NAME, what->table);
    if (what->set)
        mnl_attr_put_strz(request, NFTA_SET_NAME, what->set);
    return request;
}

/* 0 or an errno. */
static int ask(struct nft_socket *s, enum family family, uint16_t flags,
               const struct nft_dump *what, mnl_cb_t fn, void *ctx)
{
    char buffer[REQUEST_ROOM] = {0};
    return netlink_ask(s->nl, begin(s, buffer, family, flags, what), fn, ctx);
}

static const struct nlattr *in_message(const struct nlmsghdr *header, uint16_t type)
{
    return netlink_attribute(header, sizeof(struct nfgenmsg), type);
}

static void take_comment(struct nft_table_state *state, const struct nlattr *attribute)
{
    const uint8_t *bytes = attribute ? mnl_attr_get_payload(attribute) : NULL;
    size_t length = attribute ? mnl_attr_get_payload_len(attribute) : 0;
    if (length > 2 && bytes[0] == NFTNL_UDATA_TABLE_COMMENT && bytes[1] <= length - 2 &&
        !state->comment)
        state->comment = xstrndup((const char *)bytes + 2, bytes[1]);
}

static int on_table(const struct nlmsghdr *header, void *data)
{
    struct nft_table_state *state = data;
    state->exists = true;
    state->flags = netlink_number(in_message(header, NFTA_TABLE_FLAGS), 0);
    state->owner = netlink_number(in_message(header, NFTA_TABLE_OWNER), 0);
    take_comment(state, in_message(header, NFTA_TABLE_USERDATA));
    return MNL_CB_OK;
}

static int on_generation(const struct nlmsghdr *header, void *data)
{
    *(uint32_t *)data = netlink_number(in_message(header, NFTA_GEN_ID), 0);
    return MNL_CB_OK;
}

int nft_socket_generation(struct nft_socket *s, uint32_t *generation, struct error *err)
{
    char buffer[512] = {0};
    struct nlmsghdr *request =
        nftnl_nlmsg_build_hdr(buffer, NFT_MSG_GETGEN, AF_UNSPEC, NLM_F_ACK, s->sequence++);
    *generation = 0;
    int why = netlink_ask(s->nl, request, on_generation, generation);
    return why ? error_set(err, "cannot read the ruleset's generation: %s", nft_reason(why)) : 0;
}

int nft_socket_read_table(struct nft_socket *s, enum family family, const char *table,
                          struct nft_table_state *state, struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETTABLE, table, NULL};
    memset(state, 0, sizeof(*state));
    int why = ask(s, family, NLM_F_ACK, &what, on_table, state);
    state->owned_elsewhere = state->owner != 0 && state->owner != mnl_socket_get_portid(s->nl);
    if (why == 0 || why == ENOENT)
        return 0;
    free(state->comment);
    state->comment = NULL;
    return error_set(err, "cannot read table %s %s: %s", family == FAMILY_IPV4 ? "ip" : "ip6",
                     table, nft_reason(why));
}

struct element_reading {
    nft_element_fn fn;
    void *ctx;
    bool begun;
    uint16_t generation; /* of the ruleset, when it was begun */
};

/* The kernel marks an answer as overtaken by a change for rules, but not for elements. The number
 * of the generation, which is in each part of it, tells. */
static bool is_overtaken(struct element_reading *reading, const struct nlmsghdr *header)
{
    const struct nfgenmsg *part = mnl_nlmsg_get_payload(header);
    if (!reading->begun)
        reading->generation = part->res_id;
    reading->begun = true;
    return reading->generation != part->res_id;
}

static int on_elements(const struct nlmsghdr *header, void *data)
{
    struct element_reading *reading = data;
    if (is_overtaken(reading, header)) {
        errno = EINTR;
        return MNL_CB_ERROR;
    }
    nft_element_each(header, reading->fn, reading->ctx);
    return MNL_CB_OK;
}

int nft_socket_read_elements(struct nft_socket *s, enum family family, const char *table,
                             const char *set, nft_element_fn fn, void *ctx, struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETSETELEM, table, set};
    struct element_reading reading = {.fn = fn, .ctx = ctx};
    int why = ask(s, family, NLM_F_DUMP, &what, on_elements, &reading);
    if (why)
        return error_set(err, "cannot read the elements of %s: %s", set, nft_reason(why));
    return 0;
}

/* ---- elements by their keys ---- */

#define KEY_LENGTH_MOST 256
/* What an element of a request takes but for its key. */
#define KEY_FRAME ((size_t)32)

/* Keys are given as they are asked for, so it does not matter what else changes meanwhile. */
struct looking_up {
    nft_element_fn fn;
    void *ctx;
    size_t found;
};

static int on_found(const struct nlmsghdr *header, void *data)
{
    struct looking_up *looking = data;
    looking->found += nft_element_each(header, looking->fn, looking->ctx);
    return MNL_CB_OK;
}

static void put_key(struct nlmsghdr *request, const void *key, size_t length)
{
    struct nlattr *element = mnl_attr_nest_start(request, NFTA_LIST_ELEM);
    struct nlattr *data = mnl_attr_nest_start(request, NFTA_SET_ELEM_KEY);
    mnl_attr_put(request, NFTA_DATA_VALUE, length, key);
    mnl_attr_nest_end(request, data);
    mnl_attr_nest_end(request, element);
}

int nft_socket_get_elements(struct nft_socket *s, enum family family, const char *table,
                            const char *set, const struct nft_keys *keys, nft_element_fn fn,
                            void *ctx, size_t *found, struct error *err)
{
    char buffer[REQUEST_ROOM + NFT_KEYS_MOST * (KEY_LENGTH_MOST + KEY_FRAME)] = {0};
    const struct nft_dump what = {NFT_MSG_GETSETELEM, table, set};
    struct looking_up looking = {.fn = fn, .ctx = ctx};
    *found = 0;
    if (keys->length > KEY_LENGTH_MOST || keys->n > NFT_KEYS_MOST)
        return error_set(err, "cannot look up elements of %s: %zu keys of %zu bytes", set, keys->n,
                         keys->length);
    struct nlmsghdr *request = begin(s, buffer, family, NLM_F_ACK, &what);
    struct nlattr *list = mnl_attr_nest_start(request, NFTA_SET_ELEM_LIST_ELEMENTS);
    for (size_t i = 0; i < keys->n; i++)
        put_key(request, keys->bytes + i * keys->length, keys->length);
    mnl_attr_nest_end(request, list);
    int why = netlink_ask(s->nl, request, on_found, &looking);
    *found = looking.found;
    if (why && why != ENOENT)
        return error_set(err, "cannot look up elements of %s: %s", set, nft_reason(why));
    return 0;
}

int nft_socket_get_element(struct nft_socket *s, enum family family, const char *table,
                           const char *set, const void *key, size_t key_length, nft_element_fn fn,
                           void *ctx, struct error *err)
{
    const struct nft_keys one = {key, key_length, 1};
    size_t found;
    return nft_socket_get_elements(s, family, table, set, &one, fn, ctx, &found, err);
}

/* Of NFT_MSG_NEWSET; Debian 12's headers do not have it. */
#define SET_COUNT 20

struct element_count {
    uint32_t count;
    bool told;
};

static int on_count(const struct nlmsghdr *header, void *data)
{
    const struct nlattr *count = in_message(header, SET_COUNT);
    *(struct element_count *)data = (struct element_count){netlink_number(count, 0), count};
    return MNL_CB_OK;
}

int nft_socket_count_elements(struct nft_socket *s, enum family family, const char *table,
                              const char *set, uint32_t *count, bool *told, struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETSET, table, set};
    struct element_count elements = {.count = 0};
    int why = ask(s, family, NLM_F_ACK, &what, on_count, &elements);
    *count = elements.count;
    *told = elements.told;
    if (why && why != ENOENT)
        return error_set(err, "cannot read set %s: %s", set, nft_reason(why));
    return 0;
}

struct rule_reading {
    nft_rule_fn fn;
    void *ctx;
};

static int on_rule(const struct nlmsghdr *header, void *data)
{
    const struct rule_reading *reading = data;
    struct nftnl_rule *rule = nftnl_rule_alloc();
    if (!rule)
        alloc_failed();
    int result = nftnl_rule_nlmsg_parse(header, rule);
    if (result == 0)
        reading->fn(reading->ctx, rule);
    nftnl_rule_free(rule);
    return result == 0 ? MNL_CB_OK : MNL_CB_ERROR;
}

int nft_socket_read_rules(struct nft_socket *s, enum family family, const char *table,
                          nft_rule_fn fn, void *ctx, struct error *err)
{
    const struct nft_dump what = {NFT_MSG_GETRULE, table, NULL};
    struct rule_reading reading = {fn, ctx};
    int why = ask(s, family, NLM_F_DUMP, &what, on_rule, &reading);
    if (why)
        return error_set(err, "cannot read the rules of %s: %s", table, nft_reason(why));
    return 0;
}

struct chain_reading {
    const char *table;
    nft_chain_fn fn;
    void *ctx;
};

static int on_chain(const struct nlmsghdr *header, void *data)
{
    const struct chain_reading *reading = data;
    struct nftnl_chain *chain = nftnl_chain_alloc();
    if (!chain)
        alloc_failed();
    int result = nftnl_chain_nlmsg_parse(header, chain);
    if (result == 0 && strcmp(nftnl_chain_get_str(chain, NFTNL_CHAIN_TABLE), reading->table) == 0)
        reading->fn(reading->ctx, chain);
    nftnl_chain_free(chain);
    return result == 0 ? MNL_CB_OK : MNL_CB_ERROR;
}

int nft_socket_read_chains(struct nft_socket *s, enum family family, const char *table,
                           nft_chain_fn fn, void *ctx, struct error *err)
{
    const struct nft_dump what = {.type = NFT_MSG_GETCHAIN, .table = table};
    struct chain_reading reading = {table, fn, ctx};
    bool overtaken = false;
    if (nft_socket_dump(s, family, &what, on_chain, &reading, &overtaken, err))
        return -1;
    return overtaken ? error_set(err, "cannot read the chains of %s: they changed meanwhile", table)
                     : 0;
}

int nft_socket_dump(struct nft_socket *s, enum family family, const struct nft_dump *what,
                    mnl_cb_t fn, void *ctx, bool *overtaken, struct error *err)
{
    char buffer[REQUEST_ROOM] = {0};
    const struct nlmsghdr *request = begin(s, buffer, family, NLM_F_DUMP, what);
    int why = netlink_ask_overtaken(s->nl, request, fn, ctx, overtaken);
    if (why)
        return error_set(err, "cannot read table %s %s: %s", family == FAMILY_IPV4 ? "ip" : "ip6",
                         what->table, nft_reason(why));
    return 0;
}
