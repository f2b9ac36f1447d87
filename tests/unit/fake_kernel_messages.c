/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Netlink messages taken apart and applied to a table. */
#include "fake_kernel_state.h"

#include "kube-nftd/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/set.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <string.h>

#define TYPE_VERDICT 0xffffff00u
#define TABLE_ATTRIBUTE 1 /* the table's name, in each kind of message */
_Static_assert(NFTA_TABLE_NAME == TABLE_ATTRIBUTE && NFTA_SET_TABLE == TABLE_ATTRIBUTE &&
                   NFTA_CHAIN_TABLE == TABLE_ATTRIBUTE && NFTA_RULE_TABLE == TABLE_ATTRIBUTE &&
                   NFTA_SET_ELEM_LIST_TABLE == TABLE_ATTRIBUTE,
               "the table's name has one number");

struct application {
    struct fake_table *table;
    struct fake_counts *counts;
    const char *table_name;
    const struct fake_grudges *grudges;
    struct fake_rule *rule; /* the one that is being judged */
    int why;                /* of an expression that is rejected */
};

/* ---- attributes ---- */

/* The attribute of type @type in @message, or NULL. All of the message must be attributes. */
static const struct nlattr *attribute(const struct nlmsghdr *message, uint16_t type)
{
    const struct nlattr *at, *found = NULL;
    mnl_attr_for_each(at, message, sizeof(struct nfgenmsg)) if (mnl_attr_get_type(at) == type)
        found = at;
    FAKE_ASSERT(at == mnl_nlmsg_get_payload_tail(message));
    return found;
}

static const char *string(const struct nlmsghdr *message, uint16_t type)
{
    const struct nlattr *found = attribute(message, type);
    ck_assert_msg(found && mnl_attr_validate(found, MNL_TYPE_NUL_STRING) == 0, "no attribute %u",
                  type);
    return mnl_attr_get_str(found);
}

static const struct nlattr *nested(const struct nlattr *nest, uint16_t type)
{
    const struct nlattr *at, *found = NULL;
    if (!nest)
        return NULL;
    mnl_attr_for_each_nested(at, nest) if (mnl_attr_get_type(at) == type) found = at;
    return found;
}

/* ---- tables, sets, chains ---- */

/* A table may be claimed that was made to be and has no owner. */
static int claim_table(struct fake_table *table, uint32_t flags)
{
    if ((flags ^ table->flags) & NFT_TABLE_PERSISTENT)
        return EOPNOTSUPP;
    table->flags = (table->flags & ~NFT_TABLE_DORMANT) | flags;
    return 0;
}

static int new_table(struct application *a, const struct nlmsghdr *message)
{
    struct fake_table *table = a->table;
    const struct nlattr *attributes = attribute(message, NFTA_TABLE_FLAGS);
    ck_assert_ptr_nonnull(attributes);
    uint32_t flags = ntohl(mnl_attr_get_u32(attributes));
    if (table->owned_elsewhere)
        return EPERM;
    if (table->exists)
        return claim_table(table, flags);
    table->exists = table->anew = true;
    table->flags = flags;
    a->counts->tables++;
    const struct nlattr *data = attribute(message, NFTA_TABLE_USERDATA);
    ck_assert_ptr_nonnull(data);
    const uint8_t *bytes = mnl_attr_get_payload(data); /* type, length, text with its NUL */
    ck_assert_uint_eq(bytes[0], 0);
    ck_assert_uint_eq(bytes[1] + 2, mnl_attr_get_payload_len(data));
    ck_assert_uint_eq(bytes[bytes[1] + 1], 0);
    table->comment = xstrdup((const char *)bytes + 2);
    return 0;
}

static int delete_table(struct application *a)
{
    if (!a->table->exists)
        return ENOENT;
    if (a->table->owned_elsewhere)
        return EPERM;
    fake_free_table(a->table);
    return 0;
}

static struct fake_set take_set(const struct nftnl_set *from)
{
    uint32_t flags = nftnl_set_get_u32(from, NFTNL_SET_FLAGS);
    struct fake_set set = {.id = nftnl_set_get_u32(from, NFTNL_SET_ID),
                           .flags = flags,
                           .is_map = flags & NFT_SET_MAP,
                           .anonymous = flags & NFT_SET_ANONYMOUS,
                           .interval = flags & NFT_SET_INTERVAL,
                           .key_length = nftnl_set_get_u32(from, NFTNL_SET_KEY_LEN)};
    fake_copy_name(set.name, nftnl_set_get_str(from, NFTNL_SET_NAME));
    if (set.is_map) {
        set.verdicts = nftnl_set_get_u32(from, NFTNL_SET_DATA_TYPE) == TYPE_VERDICT;
        set.data_length = set.verdicts ? 0 : nftnl_set_get_u32(from, NFTNL_SET_DATA_LEN);
    }
    return set;
}

static bool is_sane(const struct fake_set *set)
{
    bool data_fits =
        !set->is_map || set->verdicts || (set->data_length > 0 && set->data_length <= FAKE_BYTES);
    return set->key_length > 0 && set->key_length <= FAKE_BYTES && set->id != 0 && data_fits;
}

/* By the lowest number that is free. */
static void name_set(const struct fake_table *table, struct fake_set *set)
{
    size_t n = 0;
    do
        snprintf(set->name, sizeof(set->name), "__set%zu", n++);
    while (fake_find_set(table, set->name));
}

static int new_set(struct application *a, const struct nlmsghdr *message)
{
    struct nftnl_set *from = nftnl_set_alloc();
    ck_assert_int_ge(nftnl_set_nlmsg_parse(message, from), 0);
    struct fake_set set = take_set(from);
    nftnl_set_free(from);
    if (!is_sane(&set))
        return EINVAL;
    if (!set.anonymous && fake_find_set(a->table, set.name))
        return EEXIST;
    if (set.anonymous)
        name_set(a->table, &set);
    set.declaration = fake_copy_message(message);
    vec_push(&a->table->sets, set);
    a->counts->sets++;
    return 0;
}

static int new_chain(struct application *a, const struct nlmsghdr *message)
{
    struct fake_chain chain = {.hook = FAKE_NO_HOOK};
    struct nftnl_chain *from = nftnl_chain_alloc();
    ck_assert_int_ge(nftnl_chain_nlmsg_parse(message, from), 0);
    fake_copy_name(chain.name, nftnl_chain_get_str(from, NFTNL_CHAIN_NAME));
    if (nftnl_chain_is_set(from, NFTNL_CHAIN_HOOKNUM)) {
        chain.hook = (int)nftnl_chain_get_u32(from, NFTNL_CHAIN_HOOKNUM);
        chain.priority = nftnl_chain_get_s32(from, NFTNL_CHAIN_PRIO);
        fake_copy_name(chain.type, nftnl_chain_get_str(from, NFTNL_CHAIN_TYPE));
    }
    nftnl_chain_free(from);
    if (strcmp(chain.type, "nat") == 0 && chain.priority <= NF_IP_PRI_CONNTRACK)
        return EOPNOTSUPP;
    if (fake_find_chain(a->table, chain.name))
        return message->nlmsg_flags & NLM_F_EXCL ? EEXIST : 0;
    if (a->grudges->chain && strcmp(a->grudges->chain, chain.name) == 0)
        return a->grudges->chain_why;
    vec_push(&a->table->chains, chain);
    a->counts->chains++;
    return 0;
}

/* Whether a rule or an element leads to it. */
static bool is_led_to(const struct fake_table *table, const char *name)
{
    vec_each (&table->sets, set)
        hash_table_each (&set->elements, const struct fake_element, e)
            if (strcmp(e->chain, name) == 0)
                return true;
    return false;
}

static int delete_chain(struct application *a, const struct nlmsghdr *message)
{
    struct fake_chain *chain = fake_find_chain(a->table, string(message, NFTA_CHAIN_NAME));
    if (!chain)
        return ENOENT;
    if (a->grudges->chain && strcmp(a->grudges->chain, chain->name) == 0)
        return a->grudges->chain_why;
    if (fake_has_rules(a->table, chain->name) || is_led_to(a->table, chain->name))
        return EBUSY;
    *chain = a->table->chains.v[--a->table->chains.n];
    return 0;
}

/* ---- rules ---- */

static int delete_rules(struct application *a, const struct nlmsghdr *message)
{
    const struct fake_chain *chain = fake_find_chain(a->table, string(message, NFTA_RULE_CHAIN));
    if (!chain)
        return ENOENT;
    fake_flush_chain(a->table, chain->name);
    return 0;
}

static int judge_lookup(struct application *a, const struct nftnl_expr *expr)
{
    struct fake_set *set = fake_find_set(a->table, nftnl_expr_get_str(expr, NFTNL_EXPR_LOOKUP_SET));
    if (!set && nftnl_expr_is_set(expr, NFTNL_EXPR_LOOKUP_SET_ID))
        set = fake_find_set_id(a->table, nftnl_expr_get_u32(expr, NFTNL_EXPR_LOOKUP_SET_ID));
    if (!set)
        return ENOENT;
    set->bound = true;
    if (set->anonymous)
        fake_copy_name(a->rule->anonymous, set->name);
    if (!nftnl_expr_is_set(expr, NFTNL_EXPR_LOOKUP_DREG))
        return 0;
    bool wants_verdict = nftnl_expr_get_u32(expr, NFTNL_EXPR_LOOKUP_DREG) == NFT_REG_VERDICT;
    return set->is_map && set->verdicts == wants_verdict ? 0 : EINVAL;
}

static int judge_dynset(const struct application *a, const struct nftnl_expr *expr)
{
    const struct fake_set *set =
        fake_find_set(a->table, nftnl_expr_get_str(expr, NFTNL_EXPR_DYNSET_SET_NAME));
    if (!set)
        return ENOENT;
    bool fits =
        !set->interval && !set->verdicts &&
        set->is_map == nftnl_expr_is_set(expr, NFTNL_EXPR_DYNSET_SREG_DATA) &&
        (set->flags & NFT_SET_TIMEOUT || !nftnl_expr_is_set(expr, NFTNL_EXPR_DYNSET_TIMEOUT));
    return fits ? 0 : EOPNOTSUPP;
}

static int judge_flow(const struct application *a, const struct nftnl_expr *expr)
{
    const char *name = nftnl_expr_get_str(expr, NFTNL_EXPR_FLOW_TABLE_NAME);
    return strcmp(a->table->flowtable, name) == 0 ? 0 : ENOENT;
}

static int judge_verdict(const struct application *a, const struct nftnl_expr *expr)
{
    return !nftnl_expr_is_set(expr, NFTNL_EXPR_IMM_CHAIN) ||
                   fake_find_chain(a->table, nftnl_expr_get_str(expr, NFTNL_EXPR_IMM_CHAIN))
               ? 0
               : ENOENT;
}

/* Whether the expression is known, and the set or chain that it names is there. */
static int judge_expression(struct nftnl_expr *expr, void *data)
{
    struct application *a = data;
    const char *name = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    if (strcmp(name, "lookup") == 0)
        a->why = judge_lookup(a, expr);
    else if (strcmp(name, "dynset") == 0)
        a->why = judge_dynset(a, expr);
    else if (strcmp(name, "immediate") == 0)
        a->why = judge_verdict(a, expr);
    else if (strcmp(name, "flow_offload") == 0)
        a->why = judge_flow(a, expr);
    if (a->grudges->lacking && strcmp(name, a->grudges->lacking) == 0)
        a->why = ENOENT;
    return a->why ? -1 : 0;
}

static int new_rule(struct application *a, const struct nlmsghdr *message)
{
    const struct fake_chain *chain = fake_find_chain(a->table, string(message, NFTA_RULE_CHAIN));
    if (!chain)
        return ENOENT;
    struct fake_rule from = {.message = (struct nlmsghdr *)message};
    struct nftnl_rule *rule = nftnl_rule_alloc();
    fake_copy_name(from.chain, chain->name);
    ck_assert_int_ge(nftnl_rule_nlmsg_parse(message, rule), 0);
    a->rule = &from;
    a->why = 0;
    nftnl_expr_foreach(rule, judge_expression, a);
    nftnl_rule_free(rule);
    fake_add_rule(a->table, &from);
    a->counts->rules++;
    return a->why;
}

/* ---- elements ---- */

static bool take_value(const struct nlattr *nest, uint8_t out[FAKE_BYTES], size_t *length)
{
    const struct nlattr *value = nested(nest, NFTA_DATA_VALUE);
    *length = value ? mnl_attr_get_payload_len(value) : 0;
    if (*length > FAKE_BYTES)
        return false;
    if (*length)
        memcpy(out, mnl_attr_get_payload(value), *length);
    return true;
}

/* False if it is longer than any element can be. */
static bool take_element(const struct nlattr *from, struct fake_element *out)
{
    const struct nlattr *data = nested(from, NFTA_SET_ELEM_DATA);
    const struct nlattr *chain = nested(nested(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN);
    const struct nlattr *flags = nested(from, NFTA_SET_ELEM_FLAGS);
    const struct nlattr *counter = nested(nested(from, NFTA_SET_ELEM_EXPR), NFTA_EXPR_DATA);
    *out = (struct fake_element){.key_length = 0};
    if (!take_value(nested(from, NFTA_SET_ELEM_KEY), out->key, &out->key_length) ||
        !take_value(data, out->data, &out->data_length))
        return false;
    if (chain)
        fake_copy_name(out->chain, mnl_attr_get_str(chain));
    if (counter)
        out->packets = be64toh(mnl_attr_get_u64(nested(counter, NFTA_COUNTER_PACKETS)));
    out->is_end = flags && ntohl(mnl_attr_get_u32(flags)) & NFT_SET_ELEM_INTERVAL_END;
    return true;
}

/* An element that is rejected for itself. */
static int judge_element(const struct application *a, const struct fake_set *set,
                         const struct fake_element *element)
{
    vec_each (&a->grudges->elements, grudge)
        if ((!grudge->set || strcmp(grudge->set, set->name) == 0) &&
            element->key_length >= grudge->key.length && !set->verdicts &&
            memcmp(element->key, grudge->key.bytes, grudge->key.length) == 0)
            return grudge->why;
    return 0;
}

/* What it says to one more; the elements that go in the same transaction make room. */
static int judge_size(const struct application *a, const struct fake_set *set)
{
    vec_each (&a->grudges->limits, limit)
        if (strcmp(limit->set, set->name) == 0 && set->elements.n > limit->most)
            return ENFILE;
    return 0;
}

static int change_element(struct application *a, struct fake_set *set, const struct nlattr *from,
                          bool add)
{
    struct fake_element element;
    if (!take_element(from, &element) || (*element.chain && !set->verdicts))
        return EINVAL;
    int why = judge_element(a, set, &element);
    if (why)
        return why;
    if (!add)
        return fake_delete_element(set, &element);
    if (set->verdicts && !fake_find_chain(a->table, element.chain))
        return ENOENT;
    why = fake_add_element(set, &element);
    if (why)
        return why;
    why = judge_size(a, set);
    if (why)
        fake_delete_element(set, &element);
    return why;
}

/* An element that is there already is not counted. */
static size_t size_of(const struct fake_set *set)
{
    return set->elements.n + set->ends.n;
}

static void count_elements(struct application *a, const struct fake_set *set, size_t before)
{
    size_t after = size_of(set);
    if (after < before && set->verdicts)
        return;
    if (after < before)
        a->counts->deleted += before - after;
    else if (set->verdicts)
        a->counts->verdicts += after - before;
    else if (!set->anonymous)
        a->counts->added += after - before;
}

static int change_elements(struct application *a, const struct nlmsghdr *message, bool add)
{
    const struct nlattr *list = attribute(message, NFTA_SET_ELEM_LIST_ELEMENTS), *at;
    const struct nlattr *id = attribute(message, NFTA_SET_ELEM_LIST_SET_ID);
    struct fake_set *set = fake_find_set(a->table, string(message, NFTA_SET_ELEM_LIST_SET));
    if (!set && id)
        set = fake_find_set_id(a->table, ntohl(mnl_attr_get_u32(id)));
    if (!set)
        return ENOENT;
    ck_assert_ptr_nonnull(list);
    size_t before = size_of(set);
    mnl_attr_for_each_nested(at, list)
    {
        int why = change_element(a, set, at, add);
        if (why)
            return why;
    }
    ck_assert_ptr_eq(at, (const char *)list + MNL_ALIGN(mnl_attr_get_len(list)));
    count_elements(a, set, before);
    return 0;
}

/* ---- the flowtable ---- */

static int note_flow(struct nftnl_expr *expr, void *names_it)
{
    *(bool *)names_it =
        *(bool *)names_it || strcmp(nftnl_expr_get_str(expr, NFTNL_EXPR_NAME), "flow_offload") == 0;
    return 0;
}

static int delete_flowtable(struct application *a, const struct nlmsghdr *message)
{
    bool in_use = false;
    vec_each (&a->table->rules, from) {
        struct nftnl_rule *rule = fake_parse_rule(from);
        nftnl_expr_foreach(rule, note_flow, &in_use);
        nftnl_rule_free(rule);
    }
    return fake_delete_flowtable(a->table, message, in_use);
}

/* ---- batches ---- */

static int apply_message(struct application *a, const struct nlmsghdr *message)
{
    ck_assert_uint_eq(NFNL_SUBSYS_ID(message->nlmsg_type), NFNL_SUBSYS_NFTABLES);
    ck_assert_str_eq(string(message, TABLE_ATTRIBUTE), a->table_name);
    int type = NFNL_MSG_TYPE(message->nlmsg_type);
    a->counts->messages++;
    if (type == NFT_MSG_NEWTABLE)
        return new_table(a, message);
    if (!a->table->exists)
        return ENOENT;
    switch (type) {
    case NFT_MSG_DELTABLE:
        return delete_table(a);
    case NFT_MSG_NEWSET:
        return new_set(a, message);
    case NFT_MSG_NEWCHAIN:
        return new_chain(a, message);
    case NFT_MSG_DELCHAIN:
        return delete_chain(a, message);
    case NFT_MSG_NEWRULE:
        return new_rule(a, message);
    case NFT_MSG_DELRULE:
        return delete_rules(a, message);
    case NFT_MSG_NEWSETELEM:
    case NFT_MSG_DELSETELEM:
        return change_elements(a, message, type == NFT_MSG_NEWSETELEM);
    case NFT_MSG_NEWFLOWTABLE:
        return a->table->owned_elsewhere ? EPERM : fake_new_flowtable(a->table, message);
    case NFT_MSG_DELFLOWTABLE:
        return a->table->owned_elsewhere ? EPERM : delete_flowtable(a, message);
    default:
        return EOPNOTSUPP;
    }
}

static void add_rejection(struct nft_batch *batch, size_t message, int why)
{
    vec_push(&batch->rejections, (struct nft_rejection){message, why});
}

/* What shows only when all messages are taken. */
static int judge_table(const struct application *a)
{
    size_t limit = a->grudges->most_chains;
    vec_each (&a->table->sets, set)
        if (set->anonymous && !set->bound)
            return EINVAL;
    return limit > 0 && a->table->chains.n > limit ? EMLINK : 0;
}

int fake_apply(struct fake_table *table, struct nft_batch *batch, size_t from, size_t to,
               struct fake_counts *counts, const struct fake_grudges *grudges)
{
    struct application a = {
        .table = table, .counts = counts, .table_name = batch->table, .grudges = grudges};
    uint32_t sequence = 0;
    vec_clear(&batch->rejections);
    while (from < to) {
        const struct nlmsghdr *message = (const void *)(batch->buffer + from);
        const struct nfgenmsg *family = mnl_nlmsg_get_payload(message);
        ck_assert_uint_le(from + MNL_ALIGN(message->nlmsg_len), to);
        ck_assert_uint_eq(family->nfgen_family, batch->nf_family);
        ck_assert_uint_gt(message->nlmsg_seq, sequence);
        sequence = message->nlmsg_seq;
        int why = apply_message(&a, message);
        if (why)
            add_rejection(batch, from, why);
        from += MNL_ALIGN(message->nlmsg_len);
    }
    int why = batch->rejections.n > 0 ? 0 : judge_table(&a);
    if (why)
        add_rejection(batch, NFT_NO_MESSAGE, why);
    return batch->rejections.n > 0 ? batch->rejections.v[0].why : 0;
}
