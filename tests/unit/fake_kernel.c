/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Transactions, the socket's functions, and what tests ask for. */
#include "fake_kernel_state.h"

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"
#include "table/element.h"

#include <check.h>
#include <errno.h>
#include <libnftnl/chain.h>
#include <libnftnl/set.h>
#include <limits.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

static struct fake_kernel {
    struct fake_table tables[FAMILY_COUNT];
    struct fake_counts counts;
    double now;
    bool cuts;
    unsigned fail_in; /* transactions; 0: none fails */
    enum fake_fault fault;
    struct fake_grudges grudges;
    bool rejects; /* it has some, or had: what they hit is tried again after some time */
    bool half_told;
    unsigned reads_before, reads_fail;
    bool tables_fail;
    int reads_errno;
    unsigned reads_whole, reads_torn;
    size_t piece; /* of a dump; 0: all of a set is one */
    bool churns;
    uint32_t others; /* transactions that are not about our tables */
    bool counts_untold;
    void (*intrude)(void);
    bool tolerant;
    const char *violation;
} kernel, other_kernel;

/* A rule of fake_kernel.h is broken. */
static void violated(const char *what, const struct fake_element *by)
{
    char hex[2 * FAKE_BYTES + 1] = "";
    for (size_t i = 0; by && i < by->key_length; i++)
        snprintf(hex + 2 * i, 3, "%02x", by->key[i]);
    if (!kernel.tolerant)
        ck_abort_msg("%s: key %s at %f", what, hex, kernel.now);
    kernel.violation = what;
}

/* ---- transactions ---- */

static struct fake_table *table_of(enum family family)
{
    return &kernel.tables[family];
}

static struct fake_table *table_of_batch(const struct nft_batch *batch)
{
    return table_of(batch->nf_family == NFPROTO_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6);
}

static bool fault_is_due(void)
{
    return kernel.fail_in > 0 && --kernel.fail_in == 0;
}

/* Of a request. */
static struct fake_table *asked(const struct nft_socket *s, enum family family, const char *table)
{
    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(table, RULESET_TABLE);
    return table_of(family);
}

static int rejected(int why, struct error *err)
{
    return error_set(err, "the fake kernel rejected: %s", why ? strerror(why) : "as told");
}

/* Packets on their way keep to the old rules, by which a new chain is empty. */
static void check_chains(const struct fake_table *before, const struct fake_counts *counts)
{
    if (before->exists && kernel.counts.tables == counts->tables &&
        kernel.counts.chains > counts->chains && kernel.counts.added > counts->added)
        violated("a chain came with what may lead to it", NULL);
}

/* Whether elements were sent since. What sends new chains alone mends nothing that was broken. */
static bool has_elements(const struct fake_counts *since)
{
    return kernel.counts.added + kernel.counts.deleted > since->added + since->deleted;
}

/* Whether all is rejected now. */
static bool fault_rejects(struct nft_batch *batch, size_t from)
{
    const enum fake_fault fault = kernel.fault;
    if (fault == FAKE_LOSES_ANSWER)
        return false;
    if (fault == FAKE_BUSY || fault == FAKE_OUT_OF_MEMORY)
        vec_push(&batch->rejections,
                 (struct nft_rejection){from, fault == FAKE_BUSY ? EBUSY : ENOMEM});
    batch->short_of_memory = from == 0 && (fault == FAKE_OUT_OF_MEMORY || fault == FAKE_NO_BUFFERS);
    return true;
}

static int transaction(struct nft_batch *batch, size_t from, size_t to, struct error *err)
{
    kernel.counts.attempts++;
    struct fake_counts counts = kernel.counts;
    struct fake_table *table = table_of_batch(batch), next;
    bool faulty = fault_is_due();
    kernel.rejects = kernel.rejects || fake_rejects(&kernel.grudges);
    batch->short_of_memory = false;
    fake_copy_table(&next, table);
    int why = fake_apply(&next, batch, from, to, &kernel.counts, &kernel.grudges);
    if (why || (faulty && fault_rejects(batch, from))) {
        fake_free_table(&next);
        batch->nothing_applied = from == 0;
        kernel.counts = counts;
        return rejected(why, err);
    }
    check_chains(table, &counts);
    fake_check_transaction(table, &next, kernel.now, kernel.cuts || !has_elements(&counts),
                           kernel.rejects, kernel.half_told, violated);
    kernel.counts.transactions++;
    fake_free_table(table);
    *table = next;
    batch->nothing_applied = false;
    return faulty ? error_set(err, "the fake kernel's answer was lost") : 0;
}

static int cut_batch(struct nft_batch *batch, struct error *err)
{
    struct fake_table *table = table_of_batch(batch);
    struct fake_watch watch;
    size_t from = 0;
    int result = 0;
    fake_watch_begin(&watch, table);
    for (size_t i = 0; result == 0 && from < batch->used; i++) {
        size_t to = i < batch->cuts.n ? batch->cuts.v[i] : batch->used;
        result = transaction(batch, from, to, err);
        if (result == 0)
            fake_watch_piece(&watch, table, to - from == batch->used, violated);
        from = to;
    }
    fake_watch_end(&watch, table, result == 0, violated);
    return result;
}

struct nft_socket {
    char something;
};

struct nft_socket *nft_socket_open(struct error *err)
{
    return xcalloc(1, sizeof(struct nft_socket));
}

void nft_socket_close(struct nft_socket *s)
{
    free(s);
}

uint32_t nft_socket_port(const struct nft_socket *s)
{
    ck_assert_ptr_nonnull(s);
    return 1;
}

/* Nobody listens to it. */
void nft_socket_set_monitor(struct nft_socket *s, struct table_monitor *monitor)
{
    ck_assert_ptr_nonnull(s);
}

int nft_socket_generation(struct nft_socket *s, uint32_t *number, struct error *err)
{
    ck_assert_ptr_nonnull(s);
    kernel.others += kernel.churns;
    *number = (uint32_t)kernel.counts.transactions + kernel.others;
    return 0;
}

int nft_socket_commit(struct nft_socket *s, struct nft_batch *batch, struct error *err)
{
    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(batch->table, RULESET_TABLE);
    nft_batch_finish(batch);
    if (batch->used == 0)
        return 0;
    struct fake_counts counts = kernel.counts;
    const bool cut =
        kernel.cuts && batch->piece != NFT_PIECE_FITTING; /* the send buffer fits all */
    int result = cut ? cut_batch(batch, err) : transaction(batch, 0, batch->used, err);
    if (result == 0 && has_elements(&counts)) /* others are about rules */
        fake_check_batch(table_of_batch(batch), violated);
    return result;
}

/* The table may be another one, which is not there. */
int nft_socket_check(struct nft_socket *s, struct nft_batch *batch, int *why, struct error *err)
{
    struct fake_table scratch = {.exists = false};
    struct fake_counts none = {0};
    ck_assert_ptr_nonnull(s);
    nft_batch_finish(batch);
    if (strcmp(batch->table, RULESET_TABLE) == 0)
        fake_copy_table(&scratch, table_of_batch(batch));
    int number = fake_apply(&scratch, batch, 0, batch->used, &none, &kernel.grudges);
    fake_free_table(&scratch);
    if (why)
        *why = number;
    return number ? rejected(number, err) : 0;
}

/* ---- reading ---- */

static bool read_fails(void)
{
    if (kernel.reads_before > 0) {
        kernel.reads_before--;
        return false;
    }
    if (kernel.reads_fail == 0)
        return false;
    kernel.reads_fail--;
    return true;
}

int nft_socket_read_table(struct nft_socket *s, enum family family, const char *table,
                          struct nft_table_state *state, struct error *err)
{
    const struct fake_table *held = asked(s, family, table);
    memset(state, 0, sizeof(*state));
    if (kernel.tables_fail && read_fails())
        return error_set(err, "the fake kernel cannot read the table: %s",
                         strerror(kernel.reads_errno));
    state->exists = held->exists;
    state->comment = xstrdup(held->comment);
    state->flags = held->flags;
    state->owned_elsewhere = held->owned_elsewhere;
    state->owner = state->owned_elsewhere ? 4711 : state->flags & NFT_TABLE_OWNED ? 1 : 0;
    return 0;
}

static void give(nft_element_fn fn, void *ctx, const struct fake_element *e)
{
    const struct nft_element element = {.key = e->key,
                                        .key_length = e->key_length,
                                        .data = e->data_length ? e->data : NULL,
                                        .data_length = e->data_length,
                                        .chain = *e->chain ? e->chain : NULL,
                                        .packets = e->packets,
                                        .flags = e->is_end ? NFT_SET_ELEM_INTERVAL_END : 0};
    fn(ctx, &element);
}

/* The last one comes first, as in the kernel's interval sets; in others its order is another one
 * than ours, too. */
static void list_elements(const struct fake_set *set, fake_element_refs *out)
{
    if (set->interval)
        fake_sorted(set, out);
    else
        hash_table_each (&set->elements, const struct fake_element, e)
            vec_push(out, e);
    for (size_t i = 0; i < out->n / 2; i++) {
        const struct fake_element *first = out->v[i];
        out->v[i] = out->v[out->n - 1 - i];
        out->v[out->n - 1 - i] = first;
    }
}

int nft_socket_read_elements(struct nft_socket *s, enum family family, const char *table,
                             const char *name, nft_element_fn fn, void *ctx, struct error *err)
{
    const struct fake_set *set = fake_find_set(asked(s, family, table), name);
    fake_element_refs refs = {0};
    if (!set)
        return error_set(err, "the fake kernel cannot read %s: %s", name, strerror(ENOENT));
    list_elements(set, &refs);
    bool fails_now = read_fails();
    size_t shown = fails_now ? refs.n / 2 : refs.n;
    bool torn = kernel.reads_torn > 0 && shown > 0 && !(kernel.reads_whole && kernel.reads_whole--);
    if (torn && shown > 1)
        shown--;
    for (size_t i = 0; i < shown; i++)
        give(fn, ctx, refs.v[i]);
    if (torn) {
        give(fn, ctx, refs.v[0]);
        kernel.reads_torn--;
    }
    vec_free(&refs);
    if (fails_now && kernel.intrude)
        kernel.intrude();
    if (fails_now)
        return error_set(err, "the fake kernel cannot read %s: %s", name,
                         strerror(kernel.reads_errno));
    return 0;
}

struct element_dump {
    size_t given;
};

/* Its place is counted from the start, so a change between two pieces may skip or repeat elements.
 * The first piece comes with the second step. */
static enum element_dump_state dump_piece(struct element_dump **dump, const struct fake_set *set,
                                          nft_element_fn fn, void *ctx)
{
    fake_element_refs refs = {0};
    if (!*dump) {
        *dump = xcalloc(1, sizeof(**dump));
        return DUMP_GOES_ON;
    }
    list_elements(set, &refs);
    const size_t end = (*dump)->given + kernel.piece;
    for (; (*dump)->given < refs.n && (*dump)->given < end; (*dump)->given++)
        give(fn, ctx, refs.v[(*dump)->given]);
    const bool ended = (*dump)->given >= refs.n;
    vec_free(&refs);
    if (ended)
        element_dump_close(dump);
    return ended ? DUMP_ENDED : DUMP_GOES_ON;
}

enum element_dump_state element_dump_step(struct element_dump **dump, enum family family,
                                          const char *table, const char *set, nft_element_fn fn,
                                          void *ctx, struct error *err)
{
    const struct fake_set *there =
        fake_find_set(asked((struct nft_socket *)dump, family, table), set);
    if (there && kernel.piece > 0)
        return dump_piece(dump, there, fn, ctx);
    const int result =
        nft_socket_read_elements((struct nft_socket *)dump, family, table, set, fn, ctx, err);
    return result == 0 ? DUMP_ENDED : there ? DUMP_FAILED : DUMP_MISSING;
}

void element_dump_close(struct element_dump **dump)
{
    free(*dump);
    *dump = NULL;
}

int nft_socket_get_elements(struct nft_socket *s, enum family family, const char *table,
                            const char *name, const struct nft_keys *keys, nft_element_fn fn,
                            void *ctx, size_t *found, struct error *err)
{
    const struct fake_set *set = fake_find_set(asked(s, family, table), name);
    ck_assert_uint_le(keys->n, NFT_KEYS_MOST);
    *found = 0;
    if (read_fails())
        return error_set(err, "the fake kernel cannot look up elements of %s: %s", name,
                         strerror(kernel.reads_errno));
    for (; set && *found < keys->n; (*found)++) {
        const struct fake_element *element = fake_lookup(set, keys->bytes + *found * keys->length);
        if (!element || element->key_length != keys->length)
            break;
        give(fn, ctx, element);
        kernel.counts.looked_up++;
    }
    return 0;
}

int nft_socket_get_element(struct nft_socket *s, enum family family, const char *table,
                           const char *name, const void *key, size_t key_length, nft_element_fn fn,
                           void *ctx, struct error *err)
{
    const struct nft_keys one = {key, key_length, 1};
    size_t found;
    return nft_socket_get_elements(s, family, table, name, &one, fn, ctx, &found, err);
}

int nft_socket_count_elements(struct nft_socket *s, enum family family, const char *table,
                              const char *name, uint32_t *count, bool *told, struct error *err)
{
    const struct fake_set *set = fake_find_set(asked(s, family, table), name);
    if (read_fails())
        return error_set(err, "the fake kernel cannot count %s: %s", name,
                         strerror(kernel.reads_errno));
    *told = set && !kernel.counts_untold;
    *count = set ? set->elements.n : 0;
    return 0;
}

/* Of the declarations of sets alone. */
int nft_socket_dump(struct nft_socket *s, enum family family, const struct nft_dump *what,
                    mnl_cb_t fn, void *ctx, bool *interrupted, struct error *err)
{
    const struct fake_table *held = asked(s, family, what->table);
    ck_assert_uint_eq(what->type, NFT_MSG_GETSET);
    ck_assert_ptr_null(interrupted);
    if (read_fails() || !held->exists)
        return error_set(err, "the fake kernel cannot read the sets: %s",
                         strerror(held->exists ? kernel.reads_errno : ENOENT));
    vec_each (&held->sets, set)
        ck_assert_int_eq(fn(set->declaration, ctx), MNL_CB_OK);
    return 0;
}

int nft_socket_read_rules(struct nft_socket *s, enum family family, const char *table,
                          nft_rule_fn fn, void *ctx, struct error *err)
{
    const struct fake_table *held = asked(s, family, table);
    if (read_fails())
        return error_set(err, "the fake kernel cannot read the rules: %s",
                         strerror(kernel.reads_errno));
    vec_each (&held->chains, chain)
        vec_each (&held->rules, from) {
            if (strcmp(from->chain, chain->name) != 0)
                continue;
            struct nftnl_rule *rule = fake_give_rule(from);
            fn(ctx, rule);
            nftnl_rule_free(rule);
        }
    return 0;
}

int nft_socket_read_chains(struct nft_socket *s, enum family family, const char *table,
                           nft_chain_fn fn, void *ctx, struct error *err)
{
    const struct fake_table *held = asked(s, family, table);
    if (read_fails())
        return error_set(err, "the fake kernel cannot read the chains: %s",
                         strerror(kernel.reads_errno));
    vec_each (&held->chains, from) {
        struct nftnl_chain *chain = nftnl_chain_alloc();
        nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, from->name);
        if (from->hook != FAKE_NO_HOOK) {
            nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, from->type);
            nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, (uint32_t)from->hook);
            nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, from->priority);
            nftnl_chain_set_u32(chain, NFTNL_CHAIN_POLICY, from->drops ? NF_DROP : NF_ACCEPT);
        }
        fn(ctx, chain);
        nftnl_chain_free(chain);
    }
    return 0;
}

int nft_socket_read_flowtable(struct nft_socket *s, enum family family, const char *table,
                              const char *flowtable, bool *exists,
                              void (*fn)(void *ctx, const char *device), void *ctx,
                              struct error *err)
{
    const struct fake_table *held = asked(s, family, table);
    if (read_fails())
        return error_set(err, "the fake kernel cannot read the flowtable: %s",
                         strerror(kernel.reads_errno));
    *exists = strcmp(held->flowtable, flowtable) == 0;
    vec_each (&held->devices, device)
        fn(ctx, device->name);
    return 0;
}

/* ---- for tests ---- */

void fake_kernel_have_devices(const char *names)
{
    fake_set_host_devices(names);
    for (int i = 0; i < FAMILY_COUNT; i++)
        fake_keep_present(&kernel.tables[i]);
}

char *fake_kernel_devices(enum family family)
{
    const struct fake_table *table = table_of(family);
    return *table->flowtable ? fake_list_devices(table) : NULL;
}

void fake_kernel_drop_device(enum family family, const char *name)
{
    struct fake_table *table = table_of(family);
    size_t n = 0;
    vec_each (&table->devices, device)
        if (strcmp(device->name, name) != 0)
            table->devices.v[n++] = *device;
    table->devices.n = n;
}

void fake_kernel_drop_flowtable(enum family family)
{
    struct fake_table *table = table_of(family);
    fake_flush_chain(table, "flows");
    *table->flowtable = '\0';
    vec_clear(&table->devices);
}

void fake_kernel_set_owner(enum family family, enum fake_owner owner)
{
    struct fake_table *table = table_of(family);
    table->owned_elsewhere = owner == FAKE_OWNER_ELSEWHERE;
    table->flags &= ~NFT_TABLE_OWNED;
    table->flags |= owner == FAKE_OWNER_NONE ? 0 : NFT_TABLE_OWNED;
}

uint32_t fake_kernel_table_flags(enum family family)
{
    return table_of(family)->flags;
}

void fake_kernel_set_flags(enum family family, uint32_t flags)
{
    table_of(family)->flags = flags;
}

static void reset(void)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        fake_free_table(&kernel.tables[i]);
    fake_kernel_accept();
    memset(&kernel, 0, sizeof(kernel));
}

void fake_kernel_reset(void)
{
    fake_reset_devices();
    reset();
    fake_kernel_exchange();
    reset();
}

void fake_kernel_exchange(void)
{
    struct fake_kernel now = kernel;
    kernel = other_kernel;
    other_kernel = now;
}

char *fake_kernel_list(enum family family)
{
    return fake_list(table_of(family));
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

void fake_kernel_lack(const char *expression)
{
    kernel.grudges.lacking = expression;
}

void fake_kernel_reject(const char *set, const void *key, size_t key_length, int why)
{
    vec_push(&kernel.grudges.elements, (__typeof__(*kernel.grudges.elements.v)){
                                           set, fake_join(key, key_length, NULL, 0), why});
}

void fake_kernel_reject_frontend(const char *set, const struct frontend *frontend, int why)
{
    struct fake_key key = fake_frontend_key(frontend);
    fake_kernel_reject(set, key.bytes, key.length, why);
}

void fake_kernel_limit(const char *set, size_t most)
{
    vec_push(&kernel.grudges.limits, (__typeof__(*kernel.grudges.limits.v)){set, most});
}

void fake_kernel_reject_chain(const char *chain, int why)
{
    kernel.grudges.chain = chain;
    kernel.grudges.chain_why = why;
}

void fake_kernel_limit_chains(size_t most)
{
    kernel.grudges.most_chains = most;
}

void fake_kernel_accept(void)
{
    vec_free(&kernel.grudges.elements);
    vec_free(&kernel.grudges.limits);
    memset(&kernel.grudges, 0, sizeof(kernel.grudges));
}

bool fake_kernel_spare(void)
{
    bool due = kernel.fail_in > 0 || kernel.reads_fail > 0;
    kernel.fail_in = kernel.reads_fail = kernel.reads_before = 0;
    return due;
}

void fake_kernel_tear_reads(unsigned nth, unsigned n)
{
    kernel.reads_whole = nth - 1;
    kernel.reads_torn = n;
}

void fake_kernel_dump_in_pieces(size_t n)
{
    kernel.piece = n;
}

void fake_kernel_fail_reads(unsigned nth, unsigned n, bool tables, int why)
{
    kernel.reads_errno = why;
    kernel.reads_before = nth - 1;
    kernel.reads_fail = n;
    kernel.tables_fail = tables;
}

void fake_kernel_churn(bool on)
{
    kernel.churns = on;
}

void fake_kernel_tell_counts(bool on)
{
    kernel.counts_untold = !on;
}

void fake_kernel_while_failing(void (*intrude)(void))
{
    kernel.intrude = intrude;
}

void fake_kernel_half_told(bool on)
{
    kernel.half_told = on;
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
    const struct fake_set *set = fake_find_set(table_of(family), name);
    return set ? set->elements.n : SIZE_MAX;
}

const uint8_t *fake_kernel_value(enum family family, const char *name, const void *key,
                                 size_t key_length, size_t *length)
{
    const struct fake_element *e = fake_find(table_of(family), name, key, key_length);
    *length = e ? e->data_length : 0;
    return e ? e->data : NULL;
}

bool fake_kernel_has(const char *name, const struct frontend *frontend)
{
    struct fake_key key = fake_frontend_key(frontend);
    return fake_find(table_of((enum family)frontend->family), name, key.bytes, key.length);
}

uint32_t fake_kernel_classid(const char *name, const struct frontend *frontend)
{
    struct fake_key key = fake_frontend_key(frontend);
    const struct fake_element *e =
        fake_find(table_of((enum family)frontend->family), name, key.bytes, key.length);
    FAKE_ASSERT(!e || e->data_length == sizeof(uint32_t));
    return e ? fake_u32(e->data) : 0;
}

/* ---- ranges ---- */

static struct address address_from(const uint8_t *bytes, size_t length)
{
    struct address address = {{0}};
    memcpy(address.bytes, bytes, length);
    return address;
}

/* The address before @end, which is no lowest one. */
static struct address address_before(const uint8_t *end, size_t length)
{
    struct address address = address_from(end, length);
    size_t i = length;
    while (i > 0 && address.bytes[--i]-- == 0)
        ;
    return address;
}

void fake_kernel_ranges(enum family family, const char *name, range_vec *out)
{
    const struct fake_set *set = fake_find_set(table_of(family), name);
    struct address_range range;
    fake_element_refs refs = {0};
    ck_assert(set && set->interval);
    fake_sorted(set, &refs);
    for (size_t i = 0; i < refs.n; i++) {
        if (refs.v[i]->is_end)
            continue;
        range.first = address_from(refs.v[i]->key, set->key_length);
        range.last = (struct address){{0}};
        memset(range.last.bytes, 0xff, set->key_length);
        if (i + 1 < refs.n)
            range.last = address_before(refs.v[i + 1]->key, set->key_length);
        vec_push(out, range);
    }
    vec_free(&refs);
}

uint32_t fake_kernel_source_list(const struct frontend *frontend)
{
    const uint32_t value = fake_kernel_classid("services", frontend);
    if (!(class_of_value(value) & CLASS_RESTRICTED))
        return 0;
    return list_of_value(
        fake_kernel_number((enum family)frontend->family, "source_lists", port_of_value(value)));
}

void fake_kernel_sources(const struct frontend *frontend, range_vec *out)
{
    enum family family = (enum family)frontend->family;
    const uint32_t list = fake_kernel_source_list(frontend);
    size_t length = address_length(family);
    hash_table_each (fake_elements(table_of(family), "allowed_sources"), const struct fake_element,
                     e) {
        const struct cidr prefix = {address_from(e->key, length), (uint8_t)fake_prefix_length(e)};
        struct address_range range = cidr_range(family, &prefix);
        if (fake_list_of(e) == value_of_list(list))
            vec_push(out, range);
    }
    ranges_normalize(family, out);
}

/* ---- where packets go ---- */

uint32_t fake_kernel_port(const struct frontend *frontend)
{
    return port_of_value(fake_kernel_classid("services", frontend));
}

uint32_t fake_kernel_number(enum family family, const char *set, uint32_t key)
{
    const struct fake_element *e = fake_find_port(table_of(family), set, key);
    FAKE_ASSERT(!e || e->data_length == 0 || e->data_length == sizeof(uint32_t));
    return !e ? 0 : e->data_length ? fake_u32(e->data) : 1;
}

static size_t backends_of(const struct frontend *frontend, const struct fake_part *part,
                          struct backend *out, size_t room)
{
    const enum family family = (enum family)frontend->family;
    const uint32_t port = fake_kernel_port(frontend);
    const uint32_t value = fake_kernel_classid("services", frontend);
    const uint32_t n = part == &fake_parts[0] && value_is_counted(value)
                           ? low_of_value(value)
                           : low_of_value(fake_kernel_number(family, part->ports, port));
    for (uint32_t i = 0; i < n && i < room; i++) {
        const struct fake_element *e = fake_find_slot(table_of(family), part->endpoints, port, i);
        FAKE_ASSERT(e);
        out[i] = fake_backend_of(e);
    }
    return n;
}

size_t fake_kernel_backends(const struct frontend *frontend, struct backend *out, size_t room)
{
    return backends_of(frontend, &fake_parts[0], out, room);
}

size_t fake_kernel_local_backends(const struct frontend *frontend, struct backend *out, size_t room)
{
    return backends_of(frontend, &fake_parts[1], out, room);
}

bool fake_kernel_rejects(const struct frontend *frontend)
{
    return fake_kernel_number((enum family)frontend->family, "rejected_ports",
                              fake_kernel_port(frontend));
}

struct fake_route fake_kernel_route(const struct frontend *to, const struct fake_client *from)
{
    return fake_follow(table_of((enum family)to->family), to, from);
}

void fake_route_free(struct fake_route *route)
{
    free(route->to);
    memset(route, 0, sizeof(*route));
}

/* ---- what other programs do ---- */

void fake_kernel_put(enum family family, const char *name, const void *key, size_t key_length,
                     const void *data, size_t data_length)
{
    struct fake_element element = {.key_length = key_length,
                                   .data_length = data_length,
                                   .unused_since = kernel.now,
                                   .foreign = true};
    ck_assert(key_length <= FAKE_BYTES && data_length <= FAKE_BYTES);
    memcpy(element.key, key, key_length);
    if (data)
        memcpy(element.data, data, data_length);
    fake_insert(fake_find_set(table_of(family), name), &element);
}

void fake_kernel_count(enum family family, const char *name, const void *key, size_t key_length,
                       uint64_t packets)
{
    struct fake_set *set = fake_find_set(table_of(family), name);
    if (!fake_find_key(&set->elements, key, key_length))
        fake_kernel_put(family, name, key, key_length, NULL, 0);
    fake_find_key(&set->elements, key, key_length)->packets = packets;
}

void fake_kernel_put_end(enum family family, const char *name, const void *key, size_t key_length)
{
    struct fake_element element = {.key_length = key_length, .is_end = true};
    ck_assert(key_length <= FAKE_BYTES);
    memcpy(element.key, key, key_length);
    fake_insert(fake_find_set(table_of(family), name), &element);
}

void fake_kernel_take(enum family family, const char *name, const void *key, size_t key_length)
{
    struct fake_element *element = fake_find(table_of(family), name, key, key_length);
    ck_assert_ptr_nonnull(element);
    fake_remove(fake_find_set(table_of(family), name), element);
}

void fake_kernel_lead(enum family family, const char *map, uint32_t key, const char *chain)
{
    struct fake_element *element = fake_find(table_of(family), map, &key, sizeof(key));
    ck_assert_ptr_nonnull(element);
    fake_copy_name(element->chain, chain);
}

void fake_kernel_set_comment(enum family family, const char *comment)
{
    free(table_of(family)->comment);
    table_of(family)->comment = xstrdup(comment);
}

void fake_kernel_drop_set(enum family family, const char *name)
{
    struct fake_table *table = table_of(family);
    struct fake_set *set = fake_find_set(table, name);
    ck_assert_ptr_nonnull(set);
    fake_free_set(set);
    *set = table->sets.v[--table->sets.n];
}

void fake_kernel_declare(enum family family, const char *name, uint16_t attribute,
                         const void *value, size_t length)
{
    char buffer[4096] = {0};
    struct fake_set *set = fake_find_set(table_of(family), name);
    struct nftnl_set *declaration = nftnl_set_alloc();
    ck_assert_ptr_nonnull(set);
    ck_assert_int_ge(nftnl_set_nlmsg_parse(set->declaration, declaration), 0);
    ck_assert_int_eq(nftnl_set_set_data(declaration, attribute, value, (uint32_t)length), 0);
    struct nlmsghdr *message = nftnl_nlmsg_build_hdr(buffer, NFT_MSG_NEWSET, AF_UNSPEC, 0, 0);
    nftnl_set_nlmsg_build_payload(message, declaration);
    nftnl_set_free(declaration);
    free(set->declaration);
    set->declaration = fake_copy_message(message);
}

void fake_kernel_flush_chain(enum family family, const char *chain)
{
    struct fake_table *table = table_of(family);
    ck_assert(fake_has_rules(table, chain));
    fake_flush_chain(table, chain);
}

int fake_kernel_priority(enum family family, const char *name)
{
    const struct fake_chain *chain = fake_find_chain(table_of(family), name);
    return chain && chain->hook != FAKE_NO_HOOK ? chain->priority : INT_MAX;
}

void fake_kernel_put_chain(enum family family, const char *name, int hook, bool drops)
{
    struct fake_table *table = table_of(family);
    struct fake_chain *there = fake_find_chain(table, name);
    struct fake_chain chain = {.hook = FAKE_NO_HOOK};
    if (there) {
        there->drops = drops;
        return;
    }
    fake_copy_name(chain.name, name);
    if (hook >= 0) {
        chain.hook = hook;
        chain.drops = drops;
        fake_copy_name(chain.type, "filter");
    }
    vec_push(&table->chains, chain);
}

void fake_kernel_drop_chain(enum family family, const char *name)
{
    struct fake_table *table = table_of(family);
    struct fake_chain *chain = fake_find_chain(table, name);
    ck_assert_ptr_nonnull(chain);
    fake_flush_chain(table, name);
    *chain = table->chains.v[--table->chains.n];
}

bool fake_kernel_has_chain(enum family family, const char *name)
{
    return fake_find_chain(table_of(family), name) != NULL;
}

void fake_kernel_copy_rule(enum family family, const char *from, const char *to)
{
    struct fake_table *table = table_of(family);
    vec_each (&table->rules, rule) {
        if (strcmp(rule->chain, from) != 0)
            continue;
        struct fake_rule copy = *rule;
        fake_copy_name(copy.chain, to);
        fake_add_rule(table, &copy);
        return;
    }
    ck_abort_msg("no rule in %s", from);
}

void fake_kernel_drop_table(enum family family)
{
    fake_free_table(table_of(family));
}

size_t fake_kernel_rules(enum family family)
{
    return table_of(family)->rules.n;
}

char *fake_kernel_change_operand(enum family family, size_t rule, unsigned nth)
{
    return fake_change_operand(&table_of(family)->rules.v[rule], nth);
}

void fake_kernel_undo_change(enum family family, size_t rule)
{
    fake_undo_change(&table_of(family)->rules.v[rule]);
}
