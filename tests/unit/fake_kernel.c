/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake_kernel.h"

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/ruleset/ruleset.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#define NAME_SIZE 64
#define BYTES 64 /* of a key or value; the kernel takes no more either */
#define TYPE_VERDICT 0xffffff00u
#define TABLE_ATTRIBUTE 1 /* the table's name, in each kind of message */
_Static_assert(NFTA_TABLE_NAME == TABLE_ATTRIBUTE && NFTA_SET_TABLE == TABLE_ATTRIBUTE &&
                   NFTA_CHAIN_TABLE == TABLE_ATTRIBUTE && NFTA_RULE_TABLE == TABLE_ATTRIBUTE &&
                   NFTA_SET_ELEM_LIST_TABLE == TABLE_ATTRIBUTE,
               "the table's name has one number");

struct element {
    UT_hash_handle hh; /* by key */
    uint8_t key[BYTES], data[BYTES];
    size_t key_length, data_length;
    char chain[NAME_SIZE]; /* of a verdict */
    double unused_since;   /* of a slot that no count reaches */
};

struct set {
    char name[NAME_SIZE];
    uint32_t id; /* in its transaction */
    bool is_map, verdicts, anonymous, bound;
    size_t key_length, data_length;
    struct element *elements;
};

struct rule {
    char chain[NAME_SIZE];
    struct nlmsghdr *message;
};

struct chain {
    char name[NAME_SIZE];
};

struct table {
    bool exists;
    bool anew; /* made by this transaction */
    char *comment;
    VEC(struct set) sets;
    VEC(struct chain) chains;
    VEC(struct rule) rules;
};

struct key {
    uint8_t bytes[BYTES];
    size_t length;
};

static struct {
    struct table tables[FAMILY_COUNT];
    struct fake_counts counts;
    double now;
    bool cuts;
    unsigned fail_in; /* transactions; 0: none fails */
    enum fake_fault fault;
    unsigned reads_before, reads_refused;
    bool tables_refused;
    unsigned reads_torn;
    void (*intrude)(void);
    bool tolerant;
    const char *violation;
} kernel;

/* ---- tables ---- */

static void copy_name(char to[NAME_SIZE], const char *name)
{
    ck_assert_uint_lt(strlen(name), NAME_SIZE);
    strcpy(to, name);
}

static void free_elements(struct set *set)
{
    struct element *element, *next;
    HASH_ITER(hh, set->elements, element, next)
    {
        HASH_DELETE(hh, set->elements, element);
        free(element);
    }
}

static void free_table(struct table *table)
{
    vec_each (&table->sets, set)
        free_elements(set);
    vec_each (&table->rules, rule)
        free(rule->message);
    vec_free(&table->sets);
    vec_free(&table->chains);
    vec_free(&table->rules);
    free(table->comment);
    memset(table, 0, sizeof(*table));
}

static void insert(struct set *set, const struct element *from)
{
    struct element *element = xcalloc(1, sizeof(*element));
    *element = *from;
    HASH_ADD_KEYPTR(hh, set->elements, element->key, element->key_length, element);
}

static void add_rule(struct table *table, const char *chain, const struct nlmsghdr *message)
{
    struct rule rule = {.message = xcalloc(1, message->nlmsg_len)};
    memcpy(rule.message, message, message->nlmsg_len);
    copy_name(rule.chain, chain);
    vec_push(&table->rules, rule);
}

static void copy_table(struct table *to, const struct table *from)
{
    *to = (struct table){.exists = from->exists, .comment = xstrdup(from->comment)};
    vec_each (&from->chains, chain)
        vec_push(&to->chains, *chain);
    vec_each (&from->rules, rule)
        add_rule(to, rule->chain, rule->message);
    vec_each (&from->sets, set) {
        struct set copy = *set;
        copy.elements = NULL;
        copy.id = 0;
        for (const struct element *e = set->elements; e; e = e->hh.next)
            insert(&copy, e);
        vec_push(&to->sets, copy);
    }
}

static struct set *find_set(const struct table *table, const char *name)
{
    vec_each (&table->sets, set)
        if (strcmp(set->name, name) == 0)
            return set;
    return NULL;
}

static struct set *find_set_id(const struct table *table, uint32_t id)
{
    vec_each (&table->sets, set)
        if (id && set->id == id)
            return set;
    return NULL;
}

static struct chain *find_chain(const struct table *table, const char *name)
{
    vec_each (&table->chains, chain)
        if (strcmp(chain->name, name) == 0)
            return chain;
    return NULL;
}

static struct element *find_element(const struct set *set, const void *key, size_t length)
{
    struct element *found = NULL;
    if (set)
        HASH_FIND(hh, set->elements, key, length, found);
    return found;
}

static bool has_rules(const struct table *table, const char *chain)
{
    vec_each (&table->rules, rule)
        if (strcmp(rule->chain, chain) == 0)
            return true;
    return false;
}

/* ---- what packets rely on ---- */

static uint32_t u32_of(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static uint32_t count_of(const struct element *service)
{
    return service ? u32_of(service->data) & UINT16_MAX : 0;
}

static struct key slot_key(const uint8_t *frontend, size_t length, uint32_t slot)
{
    struct key key = {.length = length + sizeof(slot)};
    memcpy(key.bytes, frontend, length);
    memcpy(key.bytes + length, &slot, sizeof(slot));
    return key;
}

static struct element *find_slot(const struct table *table, const uint8_t *frontend, size_t length,
                                 uint32_t slot)
{
    struct key key = slot_key(frontend, length, slot);
    return find_element(find_set(table, "endpoints"), key.bytes, key.length);
}

static const struct element *elements_of(const struct table *table, const char *name)
{
    const struct set *set = find_set(table, name);
    return set ? set->elements : NULL;
}

static bool is_reached(const struct table *table, const struct element *slot)
{
    size_t length = slot->key_length - sizeof(uint32_t);
    const struct element *service = find_element(find_set(table, "services"), slot->key, length);
    return u32_of(slot->key + length) < count_of(service);
}

/* A rule of fake_kernel.h is broken. */
static void violated(const char *what, const struct element *by)
{
    char hex[2 * BYTES + 1] = "";
    for (size_t i = 0; i < by->key_length; i++)
        snprintf(hex + 2 * i, 3, "%02x", by->key[i]);
    if (!kernel.tolerant)
        ck_abort_msg("%s: key %s at %f", what, hex, kernel.now);
    kernel.violation = what;
}

/* A hole that somebody made before may stay for some pieces of a batch. */
static bool was_hole(const struct table *before, const struct element *service, uint32_t slot)
{
    const struct element *old =
        find_element(find_set(before, "services"), service->key, service->key_length);
    return kernel.cuts && slot < count_of(old) &&
           !find_slot(before, service->key, service->key_length, slot);
}

static void check_counts(const struct table *before, const struct table *after)
{
    for (const struct element *e = elements_of(after, "services"); e; e = e->hh.next) {
        const struct element *pick = find_element(find_set(after, "picks"), e->data, 4);
        if (!pick || !has_rules(after, pick->chain))
            violated("no pick chain", e);
        for (uint32_t i = 0; i < count_of(e); i++)
            if (!find_slot(after, e->key, e->key_length, i) && !was_hole(before, e, i))
                violated("no slot", e);
    }
}

static void check_slots_outlive(const struct table *before, const struct table *after)
{
    const struct set *slots = find_set(after, "endpoints");
    for (const struct element *e = elements_of(before, "endpoints"); e; e = e->hh.next) {
        if (find_element(slots, e->key, e->key_length))
            continue;
        if (is_reached(before, e))
            violated("a slot went with its count", e);
        else if (kernel.now < e->unused_since + RULESET_TRIM_DELAY)
            violated("a slot went too early", e);
    }
}

static void note_unused_slots(const struct table *before, const struct table *after)
{
    const struct set *slots = find_set(after, "endpoints");
    for (struct element *e = slots ? slots->elements : NULL; e; e = e->hh.next) {
        const struct element *old =
            find_element(find_set(before, "endpoints"), e->key, e->key_length);
        bool was_used = !old || is_reached(before, old);
        e->unused_since = was_used ? kernel.now : old->unused_since;
    }
}

static void check_transaction(const struct table *before, const struct table *after)
{
    check_counts(before, after);
    if (after->exists && !after->anew)
        check_slots_outlive(before, after);
    note_unused_slots(before, after);
}

static bool serves(const struct table *table, const struct element *frontend)
{
    return find_element(find_set(table, "services"), frontend->key, frontend->key_length) ||
           find_element(find_set(table, "reject_frontends"), frontend->key, frontend->key_length);
}

/* Frontends of the table before a batch that are missing in between. */
typedef VEC(struct element) element_vec;

static void note_missing(const struct table *start, const struct table *now, element_vec *missing)
{
    static const char *const sets[] = {"services", "reject_frontends"};
    for (size_t i = 0; i < 2; i++)
        for (const struct element *e = elements_of(start, sets[i]); e; e = e->hh.next)
            if (!serves(now, e))
                vec_push(missing, *e);
}

/* ---- messages ---- */

/* The attribute of type @type in @message, or NULL. All of the message must be attributes. */
static const struct nlattr *attribute(const struct nlmsghdr *message, uint16_t type)
{
    const struct nlattr *at, *found = NULL;
    mnl_attr_for_each(at, message, sizeof(struct nfgenmsg)) if (mnl_attr_get_type(at) == type)
        found = at;
    ck_assert_ptr_eq(at, mnl_nlmsg_get_payload_tail(message));
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

static int new_table(struct table *table, const struct nlmsghdr *message)
{
    if (table->exists)
        return 0;
    table->exists = table->anew = true;
    kernel.counts.tables++;
    const struct nlattr *data = attribute(message, NFTA_TABLE_USERDATA);
    ck_assert_ptr_nonnull(data);
    const uint8_t *bytes = mnl_attr_get_payload(data); /* type, length, text with its NUL */
    ck_assert_uint_eq(bytes[0], 0);
    ck_assert_uint_eq(bytes[1] + 2, mnl_attr_get_payload_len(data));
    ck_assert_uint_eq(bytes[bytes[1] + 1], 0);
    table->comment = xstrdup((const char *)bytes + 2);
    return 0;
}

static int delete_table(struct table *table)
{
    if (!table->exists)
        return ENOENT;
    free_table(table);
    return 0;
}

static int new_set(struct table *table, const struct nlmsghdr *message)
{
    struct nftnl_set *from = nftnl_set_alloc();
    ck_assert_int_ge(nftnl_set_nlmsg_parse(message, from), 0);
    uint32_t flags = nftnl_set_get_u32(from, NFTNL_SET_FLAGS);
    struct set set = {.id = nftnl_set_get_u32(from, NFTNL_SET_ID),
                      .is_map = flags & NFT_SET_MAP,
                      .anonymous = flags & NFT_SET_ANONYMOUS,
                      .key_length = nftnl_set_get_u32(from, NFTNL_SET_KEY_LEN)};
    copy_name(set.name, nftnl_set_get_str(from, NFTNL_SET_NAME));
    if (set.is_map) {
        set.verdicts = nftnl_set_get_u32(from, NFTNL_SET_DATA_TYPE) == TYPE_VERDICT;
        set.data_length = set.verdicts ? 0 : nftnl_set_get_u32(from, NFTNL_SET_DATA_LEN);
    }
    nftnl_set_free(from);
    if (set.key_length == 0 || set.key_length > BYTES || set.id == 0 ||
        (set.is_map && !set.verdicts && (set.data_length == 0 || set.data_length > BYTES)))
        return EINVAL;
    if (!set.anonymous && find_set(table, set.name))
        return EEXIST;
    if (set.anonymous)
        snprintf(set.name, sizeof(set.name), "__set%zu", table->sets.n);
    vec_push(&table->sets, set);
    kernel.counts.sets++;
    return 0;
}

static int new_chain(struct table *table, const struct nlmsghdr *message)
{
    struct chain chain;
    copy_name(chain.name, string(message, NFTA_CHAIN_NAME));
    if (find_chain(table, chain.name))
        return 0;
    vec_push(&table->chains, chain);
    kernel.counts.chains++;
    return 0;
}

/* Whether the set or chain that an expression names is there. */
static int check_expression(struct nftnl_expr *expr, void *data)
{
    const struct table *table = data;
    const char *name = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
    if (strcmp(name, "lookup") == 0) {
        struct set *set = find_set(table, nftnl_expr_get_str(expr, NFTNL_EXPR_LOOKUP_SET));
        if (!set && nftnl_expr_is_set(expr, NFTNL_EXPR_LOOKUP_SET_ID))
            set = find_set_id(table, nftnl_expr_get_u32(expr, NFTNL_EXPR_LOOKUP_SET_ID));
        if (!set)
            return -1;
        set->bound = true;
    }
    if (strcmp(name, "immediate") == 0 && nftnl_expr_is_set(expr, NFTNL_EXPR_IMM_CHAIN) &&
        !find_chain(table, nftnl_expr_get_str(expr, NFTNL_EXPR_IMM_CHAIN)))
        return -1;
    return 0;
}

static int new_rule(struct table *table, const struct nlmsghdr *message)
{
    struct chain *chain = find_chain(table, string(message, NFTA_RULE_CHAIN));
    if (!chain)
        return ENOENT;
    struct nftnl_rule *rule = nftnl_rule_alloc();
    ck_assert_int_ge(nftnl_rule_nlmsg_parse(message, rule), 0);
    int result = nftnl_expr_foreach(rule, check_expression, table);
    nftnl_rule_free(rule);
    add_rule(table, chain->name, message);
    kernel.counts.rules++;
    return result ? ENOENT : 0;
}

static size_t take_value(const struct nlattr *nest, uint8_t out[BYTES])
{
    const struct nlattr *value = nested(nest, NFTA_DATA_VALUE);
    size_t length = value ? mnl_attr_get_payload_len(value) : 0;
    if (length > BYTES)
        return SIZE_MAX;
    if (length)
        memcpy(out, mnl_attr_get_payload(value), length);
    return length;
}

static int add_element(struct table *table, struct set *set, const struct element *element)
{
    struct element *old = find_element(set, element->key, element->key_length);
    if (set->verdicts && !find_chain(table, element->chain))
        return ENOENT;
    if (element->data_length != set->data_length)
        return EINVAL;
    if (old)
        return memcmp(old->data, element->data, BYTES) || strcmp(old->chain, element->chain)
                   ? EEXIST
                   : 0;
    insert(set, element);
    if (set->verdicts)
        kernel.counts.verdicts++;
    else if (!set->anonymous)
        kernel.counts.added++;
    return 0;
}

static int delete_element(struct set *set, const struct element *element)
{
    struct element *old = find_element(set, element->key, element->key_length);
    if (!old)
        return ENOENT;
    HASH_DELETE(hh, set->elements, old);
    free(old);
    kernel.counts.deleted++;
    return 0;
}

static int change_element(struct table *table, struct set *set, const struct nlattr *from, bool add)
{
    struct element element = {.key_length = 0};
    const struct nlattr *data = nested(from, NFTA_SET_ELEM_DATA);
    const struct nlattr *chain = nested(nested(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN);
    element.key_length = take_value(nested(from, NFTA_SET_ELEM_KEY), element.key);
    element.data_length = take_value(data, element.data);
    if (chain)
        copy_name(element.chain, mnl_attr_get_str(chain));
    if (element.key_length != set->key_length || (chain && !set->verdicts))
        return EINVAL;
    return add ? add_element(table, set, &element) : delete_element(set, &element);
}

static int change_elements(struct table *table, const struct nlmsghdr *message, bool add)
{
    const struct nlattr *list = attribute(message, NFTA_SET_ELEM_LIST_ELEMENTS), *at;
    const struct nlattr *id = attribute(message, NFTA_SET_ELEM_LIST_SET_ID);
    struct set *set = find_set(table, string(message, NFTA_SET_ELEM_LIST_SET));
    if (!set && id)
        set = find_set_id(table, ntohl(mnl_attr_get_u32(id)));
    if (!set)
        return ENOENT;
    ck_assert_ptr_nonnull(list);
    mnl_attr_for_each_nested(at, list)
    {
        int why = change_element(table, set, at, add);
        if (why)
            return why;
    }
    ck_assert_ptr_eq(at, (const char *)list + MNL_ALIGN(mnl_attr_get_len(list)));
    return 0;
}

static int apply_message(struct table *table, const struct nlmsghdr *message)
{
    ck_assert_uint_eq(NFNL_SUBSYS_ID(message->nlmsg_type), NFNL_SUBSYS_NFTABLES);
    ck_assert_str_eq(string(message, TABLE_ATTRIBUTE), RULESET_TABLE);
    int type = NFNL_MSG_TYPE(message->nlmsg_type);
    kernel.counts.messages++;
    if (type == NFT_MSG_NEWTABLE)
        return new_table(table, message);
    if (!table->exists)
        return ENOENT;
    switch (type) {
    case NFT_MSG_DELTABLE:
        return delete_table(table);
    case NFT_MSG_NEWSET:
        return new_set(table, message);
    case NFT_MSG_NEWCHAIN:
        return new_chain(table, message);
    case NFT_MSG_NEWRULE:
        return new_rule(table, message);
    case NFT_MSG_NEWSETELEM:
    case NFT_MSG_DELSETELEM:
        return change_elements(table, message, type == NFT_MSG_NEWSETELEM);
    default:
        return EOPNOTSUPP;
    }
}

static int apply_messages(struct table *table, const struct nft_batch *batch, size_t from,
                          size_t to)
{
    uint32_t sequence = 0;
    while (from < to) {
        const struct nlmsghdr *message = (const void *)(batch->buffer + from);
        const struct nfgenmsg *family = mnl_nlmsg_get_payload(message);
        ck_assert_uint_le(from + MNL_ALIGN(message->nlmsg_len), to);
        ck_assert_uint_eq(family->nfgen_family, batch->nf_family);
        ck_assert_uint_gt(message->nlmsg_seq, sequence);
        sequence = message->nlmsg_seq;
        int why = apply_message(table, message);
        if (why)
            return why;
        from += MNL_ALIGN(message->nlmsg_len);
    }
    vec_each (&table->sets, set)
        if (set->anonymous && !set->bound)
            return EINVAL;
    return 0;
}

/* ---- transactions ---- */

static struct table *table_of(enum family family)
{
    return &kernel.tables[family];
}

static bool fault_is_due(void)
{
    return kernel.fail_in > 0 && --kernel.fail_in == 0;
}

static int transaction(struct nft_batch *batch, size_t from, size_t to, struct error *err)
{
    enum family family = batch->nf_family == NFPROTO_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
    struct fake_counts counts = kernel.counts;
    struct table *table = table_of(family), next;
    bool faulty = fault_is_due();
    copy_table(&next, table);
    int why = apply_messages(&next, batch, from, to);
    if (why || (faulty && kernel.fault == FAKE_REFUSES)) {
        free_table(&next);
        kernel.counts = counts;
        return error_set(err, "the fake kernel refused: %s", why ? strerror(why) : "as told");
    }
    check_transaction(table, &next);
    kernel.counts.transactions++;
    free_table(table);
    *table = next;
    return faulty ? error_set(err, "the fake kernel's answer was lost") : 0;
}

static int cut_batch(struct nft_batch *batch, struct error *err)
{
    enum family family = batch->nf_family == NFPROTO_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
    struct table start;
    element_vec missing = {0};
    size_t from = 0;
    int result = 0;
    bool anew = false; /* then nothing is there until all of it is */
    copy_table(&start, table_of(family));
    for (size_t i = 0; result == 0 && from < batch->used; i++) {
        size_t to = i < batch->cuts.n ? batch->cuts.v[i] : batch->used;
        result = transaction(batch, from, to, err);
        anew = anew || table_of(family)->anew;
        note_missing(&start, table_of(family), &missing);
        from = to;
    }
    vec_each (&missing, frontend)
        if (!result && !anew && serves(table_of(family), frontend))
            violated("a frontend went and came", frontend);
    vec_free(&missing);
    free_table(&start);
    return result;
}

struct nft_socket {
    char something;
};

struct nft_socket *nft_socket_open(struct error *err)
{
    (void)err;
    return xcalloc(1, sizeof(struct nft_socket));
}

void nft_socket_close(struct nft_socket *s)
{
    free(s);
}

int nft_socket_commit(struct nft_socket *s, struct nft_batch *batch, struct error *err)
{
    ck_assert_ptr_nonnull(s);
    nft_batch_finish(batch);
    return kernel.cuts ? cut_batch(batch, err) : transaction(batch, 0, batch->used, err);
}

static bool read_is_refused(void)
{
    if (kernel.reads_before > 0) {
        kernel.reads_before--;
        return false;
    }
    if (kernel.reads_refused == 0)
        return false;
    kernel.reads_refused--;
    return true;
}

int nft_socket_read_table(struct nft_socket *s, enum family family, const char *table,
                          struct nft_table_state *state, struct error *err)
{
    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(table, RULESET_TABLE);
    memset(state, 0, sizeof(*state));
    if (kernel.tables_refused && read_is_refused())
        return error_set(err, "the fake kernel cannot read the table: %s", strerror(EINTR));
    state->exists = table_of(family)->exists;
    state->comment = xstrdup(table_of(family)->comment);
    return 0;
}

/* The last one added comes first: the kernel's order is another one than ours, too. */
int nft_socket_read_elements(struct nft_socket *s, enum family family, const char *table,
                             const char *name, nft_element_fn fn, void *ctx, struct error *err)
{
    const struct set *set = find_set(table_of(family), name);
    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(table, RULESET_TABLE);
    if (!set)
        return error_set(err, "the fake kernel cannot read %s: %s", name, strerror(ENOENT));
    bool refused = read_is_refused();
    size_t n = HASH_COUNT(set->elements), shown = refused ? n / 2 : n;
    const struct element *e =
        n ? ELMT_FROM_HH(set->elements->hh.tbl, set->elements->hh.tbl->tail) : NULL;
    const struct element *twice = kernel.reads_torn > 0 && shown > 0 ? e : NULL;
    if (twice && shown > 1)
        shown--;
    for (size_t i = 0; i < shown; i++, e = e->hh.prev)
        fn(ctx, e->key, e->key_length, e->data_length ? e->data : NULL, e->data_length);
    if (twice) {
        fn(ctx, twice->key, twice->key_length, twice->data_length ? twice->data : NULL,
           twice->data_length);
        kernel.reads_torn--;
    }
    if (refused && kernel.intrude)
        kernel.intrude();
    if (refused)
        return error_set(err, "the fake kernel cannot read %s: %s", name, strerror(EINTR));
    return 0;
}

int nft_socket_read_rules(struct nft_socket *s, enum family family, const char *table,
                          nft_rule_fn fn, void *ctx, struct error *err)
{
    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(table, RULESET_TABLE);
    if (read_is_refused())
        return error_set(err, "the fake kernel cannot read the rules: %s", strerror(EINTR));
    vec_each (&table_of(family)->chains, chain)
        vec_each (&table_of(family)->rules, from) {
            if (strcmp(from->chain, chain->name) != 0)
                continue;
            struct nftnl_rule *rule = nftnl_rule_alloc();
            ck_assert_int_ge(nftnl_rule_nlmsg_parse(from->message, rule), 0);
            nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, from->chain);
            fn(ctx, rule);
            nftnl_rule_free(rule);
        }
    return 0;
}

/* ---- for tests ---- */

void fake_kernel_reset(void)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        free_table(&kernel.tables[i]);
    memset(&kernel, 0, sizeof(kernel));
}

void fake_kernel_set_time(double now)
{
    kernel.now = now;
}

void fake_kernel_fail(unsigned nth, enum fake_fault fault)
{
    kernel.fail_in = nth;
    kernel.fault = fault;
}

bool fake_kernel_spare(void)
{
    bool due = kernel.fail_in > 0 || kernel.reads_refused > 0;
    kernel.fail_in = kernel.reads_refused = kernel.reads_before = 0;
    return due;
}

void fake_kernel_tear_reads(unsigned n)
{
    kernel.reads_torn = n;
}

void fake_kernel_refuse_reads(unsigned nth, unsigned n, bool tables)
{
    kernel.reads_before = nth - 1;
    kernel.reads_refused = n;
    kernel.tables_refused = tables;
}

void fake_kernel_while_refusing(void (*intrude)(void))
{
    kernel.intrude = intrude;
}

void fake_kernel_cut(bool on)
{
    kernel.cuts = on;
}

void fake_kernel_tolerate(void)
{
    kernel.tolerant = true;
}

const char *fake_kernel_violation(void)
{
    return kernel.violation;
}

const struct fake_counts *fake_kernel_counts(void)
{
    return &kernel.counts;
}

void fake_kernel_forget_counts(void)
{
    memset(&kernel.counts, 0, sizeof(kernel.counts));
}

const char *fake_kernel_comment(enum family family)
{
    return table_of(family)->comment;
}

size_t fake_kernel_size(enum family family, const char *name)
{
    const struct set *set = find_set(table_of(family), name);
    return set ? HASH_COUNT(set->elements) : SIZE_MAX;
}

const uint8_t *fake_kernel_value(enum family family, const char *name, const void *key,
                                 size_t key_length, size_t *length)
{
    const struct element *e = find_element(find_set(table_of(family), name), key, key_length);
    *length = e ? e->data_length : 0;
    return e ? e->data : NULL;
}

/* A frontend as a key, put together here once more: the daemon's way is under test. */
static struct key frontend_key(const struct frontend *frontend)
{
    size_t n = frontend->family == FAMILY_IPV4 ? 4 : 16;
    struct key key = {.length = n + 8};
    memcpy(key.bytes, frontend->address.bytes, n);
    key.bytes[n] = frontend->protocol;
    key.bytes[n + 4] = (uint8_t)(frontend->port >> 8);
    key.bytes[n + 5] = (uint8_t)frontend->port;
    return key;
}

static struct backend backend_of(const struct element *slot)
{
    struct backend backend = {.port = 0};
    size_t n = slot->data_length - 4;
    memcpy(backend.address.bytes, slot->data, n);
    backend.port = (uint16_t)(slot->data[n] << 8 | slot->data[n + 1]);
    return backend;
}

size_t fake_kernel_backends(const struct frontend *frontend, struct backend *out, size_t room)
{
    const struct table *table = table_of((enum family)frontend->family);
    struct key key = frontend_key(frontend);
    uint32_t n = count_of(find_element(find_set(table, "services"), key.bytes, key.length));
    for (uint32_t i = 0; i < n && i < room; i++) {
        const struct element *slot = find_slot(table, key.bytes, key.length, i);
        ck_assert_ptr_nonnull(slot);
        out[i] = backend_of(slot);
    }
    return n;
}

bool fake_kernel_rejects(const struct frontend *frontend)
{
    struct key key = frontend_key(frontend);
    return find_element(find_set(table_of((enum family)frontend->family), "reject_frontends"),
                        key.bytes, key.length);
}

void fake_kernel_put(enum family family, const char *name, const void *key, size_t key_length,
                     const void *data, size_t data_length)
{
    struct element element = {
        .key_length = key_length, .data_length = data_length, .unused_since = kernel.now};
    ck_assert(key_length <= BYTES && data_length <= BYTES);
    memcpy(element.key, key, key_length);
    if (data)
        memcpy(element.data, data, data_length);
    insert(find_set(table_of(family), name), &element);
}

void fake_kernel_take(enum family family, const char *name, const void *key, size_t key_length)
{
    struct set *set = find_set(table_of(family), name);
    struct element *element = find_element(set, key, key_length);
    ck_assert_ptr_nonnull(element);
    HASH_DELETE(hh, set->elements, element);
    free(element);
}

void fake_kernel_set_comment(enum family family, const char *comment)
{
    free(table_of(family)->comment);
    table_of(family)->comment = xstrdup(comment);
}

void fake_kernel_drop_set(enum family family, const char *name)
{
    struct table *table = table_of(family);
    struct set *set = find_set(table, name);
    ck_assert_ptr_nonnull(set);
    free_elements(set);
    *set = table->sets.v[--table->sets.n];
}

void fake_kernel_flush_chain(enum family family, const char *chain)
{
    struct table *table = table_of(family);
    size_t kept = 0;
    ck_assert(has_rules(table, chain));
    vec_each (&table->rules, rule) {
        if (strcmp(rule->chain, chain) == 0)
            free(rule->message);
        else
            table->rules.v[kept++] = *rule;
    }
    table->rules.n = kept;
}

void fake_kernel_copy_rule(enum family family, const char *from, const char *to)
{
    struct table *table = table_of(family);
    vec_each (&table->rules, rule) {
        if (strcmp(rule->chain, from) != 0)
            continue;
        add_rule(table, to, rule->message);
        return;
    }
    ck_abort_msg("no rule in %s", from);
}

void fake_kernel_drop_table(enum family family)
{
    free_table(table_of(family));
}
