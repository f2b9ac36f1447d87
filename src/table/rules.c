/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rules.h"

#include "state.h"
#include "template.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <string.h>

#define READ_TRIES 4

/* A chain, or an element of a verdict map. */
struct item {
    char *name;      /* "pick"; for an element, "@picks 5" */
    const char *map; /* static string; NULL: a chain */
    uint32_t key;
    char *text; /* equal texts act alike: a line for the hook, one per rule; an element's target */
    char *anonymous; /* name of the anonymous set in a rule of a chain; NULL: none */
};

/* The kernel's version, or that of the templates: sorted by name. */
typedef VEC(struct item) item_vec;

static void free_items(item_vec *items)
{
    vec_each (items, item) {
        free(item->name);
        free(item->text);
        free(item->anonymous);
    }
    vec_free(items);
}

/* ---- items ---- */

static int compare_items(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

static void sort_items(item_vec *items)
{
    vec_sort(items, compare_items);
}

static struct item *find_item(const item_vec *items, const char *name)
{
    const struct item key = {.name = (char *)name};
    return items->n ? bsearch(&key, items->v, items->n, sizeof(key), compare_items) : NULL;
}

static bool have(const item_vec *items, const struct item *item)
{
    const struct item *other = find_item(items, item->name);
    return other && strcmp(item->text, other->text) == 0;
}

static bool same(const item_vec *a, const item_vec *b)
{
    if (a->n != b->n)
        return false;
    vec_each (a, item)
        if (!have(b, item))
            return false;
    return true;
}

static bool has_hook(const struct item *chain)
{
    return *chain->text != '\n';
}

static bool same_hook(const struct item *a, const struct item *b)
{
    const size_t length = strcspn(a->text, "\n") + 1;
    return strncmp(a->text, b->text, length) == 0;
}

/* ---- what the kernel has ---- */

static void add_chain(void *ctx, struct nftnl_chain *chain)
{
    item_vec *items = ctx;
    struct item item = {.name = xstrdup(nftnl_chain_get_str(chain, NFTNL_CHAIN_NAME))};
    if (nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM))
        item.text = xasprintf("%s hook %u priority %d policy %u\n",
                              nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE),
                              nftnl_chain_get_u32(chain, NFTNL_CHAIN_HOOKNUM),
                              nftnl_chain_get_s32(chain, NFTNL_CHAIN_PRIO),
                              nftnl_chain_is_set(chain, NFTNL_CHAIN_POLICY)
                                  ? nftnl_chain_get_u32(chain, NFTNL_CHAIN_POLICY)
                                  : NF_ACCEPT);
    else
        item.text = xstrdup("\n");
    vec_push(items, item);
}

/* A missing chain was created meanwhile, so the next read will differ. */
static void on_rule(void *ctx, struct nftnl_rule *rule)
{
    struct item *chain = find_item(ctx, nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN));
    if (chain)
        rule_text_append(&chain->text, &chain->anonymous, rule);
}

const char *rules_map(const struct ruleset *rs, const char *name)
{
    vec_each (&rs->base.sets, set)
        if (set->has_verdicts && strcmp(set->name, name) == 0)
            return set->name;
    return NULL;
}

static void add_verdict(item_vec *items, const char *map, uint32_t key, const char *chain)
{
    vec_push(items, ((struct item){.name = xasprintf("@%s %x", map, key),
                                   .map = map,
                                   .key = key,
                                   .text = xstrdup(chain ? chain : "")}));
}

struct map_reading {
    item_vec *items;
    const char *map;
};

static void on_verdict(void *ctx, const struct nft_element *element)
{
    const struct map_reading *reading = ctx;
    uint32_t key = 0;
    if (element->key_length == sizeof(key))
        memcpy(&key, element->key, sizeof(key));
    add_verdict(reading->items, reading->map, key, element->chain);
}

/* Sets a bit for each protocol, the lowest for anything else. */
static void on_protocol(void *ctx, const struct nft_element *element)
{
    unsigned i = ANONYMOUS_PROTOCOLS;
    while (i > 0 && *element->key != anonymous_protocols[i - 1])
        i--;
    *(unsigned *)ctx |= 1u << (element->key_length == 1 ? i : 0);
}

/* Adds differences to the chain's text. */
static int read_anonymous(enum family family, struct nft_socket *socket, item_vec *items,
                          struct error *err)
{
    const unsigned all = (1u << (ANONYMOUS_PROTOCOLS + 1)) - 2;
    vec_each (items, chain) {
        unsigned protocols = 0;
        if (!chain->anonymous)
            continue;
        if (nft_socket_read_elements(socket, family, RULESET_TABLE, chain->anonymous, on_protocol,
                                     &protocols, err))
            return -1;
        if (protocols != all)
            xjoin(&chain->text, "with other protocols");
    }
    return 0;
}

/* Also -1 if an element came twice: the kernel was resizing the table and may have skipped others.
 */
static int read_rules(const struct ruleset *rs, struct nft_socket *socket, item_vec *items,
                      struct error *err)
{
    if (nft_socket_read_chains(socket, rs->family, RULESET_TABLE, add_chain, items, err))
        return -1;
    vec_each (&rs->base.sets, set) {
        struct map_reading reading = {items, set->name};
        if (set->has_verdicts && nft_socket_read_elements(socket, rs->family, RULESET_TABLE,
                                                          set->name, on_verdict, &reading, err))
            return -1;
    }
    sort_items(items);
    for (size_t i = 1; i < items->n; i++)
        if (compare_items(&items->v[i - 1], &items->v[i]) == 0)
            return error_set(err, "the kernel returned elements twice");
    return nft_socket_read_rules(socket, rs->family, RULESET_TABLE, on_rule, items, err) ||
                   read_anonymous(rs->family, socket, items, err)
               ? -1
               : 0;
}

/* ---- what is expected ---- */

struct repair {
    const struct ruleset *ruleset;
    bool has_flowtable;
    instance_vec instances; /* in use, or found in the kernel */
    struct layout layout;   /* the base and these instances */
    item_vec found, expected;
};

static void free_repair(struct repair *r)
{
    vec_free(&r->instances);
    layout_free(&r->layout);
    free_items(&r->expected);
    free_items(&r->found);
}

static void expect_instance(struct repair *r, const struct item *found)
{
    struct instance instance;
    bool is_one = found->map ? instance_of_verdict(found->key, found->text, &instance)
                             : instance_of_chain(found->name, &instance);
    while (is_one) {
        vec_push(&r->instances, instance);
        is_one = instance_needs(instance, &instance);
    }
}

/* Chain names identify instances; so do verdicts, if the chain was deleted. */
static void expect(struct repair *r)
{
    vec_each (&r->found, item)
        expect_instance(r, item);
    instances_sort(&r->instances);
    layout_free(&r->layout);
    free_items(&r->expected);
    ruleset_add_templates(r->ruleset, &r->instances, &r->layout);
    vec_each (&r->layout.chains, chain) {
        add_chain(&r->expected, chain->chain);
        struct item *item = &r->expected.v[r->expected.n - 1];
        vec_each (&chain->rules, rule)
            rule_text_append(&item->text, &item->anonymous, rule->rule);
    }
    vec_each (&r->layout.sets, set)
        vec_each (&set->verdicts, verdict)
            add_verdict(&r->expected, rules_map(r->ruleset, set->name), verdict->key,
                        verdict->chain);
    sort_items(&r->expected);
}

/* ---- repair ---- */

/* Ignores unreachable chains of other programs that cannot be deleted, since a foreign map leads to
 * them. Returns whether any exist. */
static bool drop_strangers(struct repair *r)
{
    item_vec kept = {0}, strangers = {0};
    vec_each (&r->found, item)
        if (item->map || has_hook(item) || find_item(&r->expected, item->name))
            vec_push(&kept, *item);
        else
            vec_push(&strangers, *item);
    vec_free(&r->found);
    r->found = kept;
    const bool some = strangers.n > 0;
    free_items(&strangers);
    return some;
}

static void ignore_device(void *ctx, const char *device)
{
    (void)ctx;
    (void)device;
}

/* Without one of our own, it is looked for only where there is the chain that uses it: a previous
 * process with other settings made both. */
static int read_flowtable(struct repair *r, struct nft_socket *socket, struct error *err)
{
    r->has_flowtable = false;
    if (!r->ruleset->config.flowtable && !find_item(&r->found, FLOWTABLE_CHAIN))
        return 0;
    return nft_socket_read_flowtable(socket, r->ruleset->family, RULESET_TABLE, FLOWTABLE,
                                     &r->has_flowtable, ignore_device, NULL, err);
}

static bool is_right(const struct repair *r)
{
    return same(&r->found, &r->expected) && r->has_flowtable == r->ruleset->config.flowtable;
}

/* Reads until the rules are the expected ones, or equal those of the last read: another daemon may
 * be creating a chain. */
static int read_both(struct repair *r, struct nft_socket *socket, struct error *err)
{
    instances_list(&r->ruleset->instances, true, &r->instances);
    for (int tries = 0; tries < READ_TRIES; tries++) {
        item_vec last = r->found;
        memset(&r->found, 0, sizeof(r->found));
        const int result =
            read_rules(r->ruleset, socket, &r->found, err) || read_flowtable(r, socket, err) ? -1
                                                                                             : 0;
        expect(r);
        if (r->ruleset->strangers_stay)
            drop_strangers(r);
        const bool steady = same(&r->found, &r->expected) || (tries > 0 && same(&r->found, &last));
        free_items(&last);
        if (result || steady)
            return result;
    }
    return error_set(err, "it changed while it was read");
}

/* Whether a chain must be deleted, even if it is then recreated. */
static bool goes(const struct repair *r, const struct item *found)
{
    const struct item *expected = find_item(&r->expected, found->name);
    return !expected || !same_hook(expected, found);
}

static void encode_going(const struct repair *r, struct nft_batch *batch)
{
    vec_each (&r->found, item)
        if (item->map && !have(&r->expected, item))
            nft_batch_element(batch, ELEMENT_DELETE, item->map, &item->key, sizeof(item->key), NULL,
                              0);
    vec_each (&r->found, item)
        if (!item->map && !have(&r->expected, item))
            nft_batch_flush_chain(batch, item->name);
    vec_each (&r->found, item)
        if (!item->map && goes(r, item))
            nft_batch_delete_chain(batch, item->name);
    if (r->has_flowtable && !r->layout.flowtable.name)
        nft_batch_delete_flowtable(batch, FLOWTABLE);
}

static void encode_coming(const struct repair *r, struct nft_batch *batch)
{
    const struct layout_flowtable *flowtable = &r->layout.flowtable;
    if (flowtable->name && !r->has_flowtable)
        nft_batch_add_flowtable(batch, flowtable->name, flowtable->priority);
    /* All chains before any rule: rules may name later chains. */
    vec_each (&r->layout.chains, chain) {
        const struct item *found = find_item(&r->found, chain->name);
        if (!found || goes(r, found))
            nft_batch_add_chain(batch, chain->chain);
    }
    vec_each (&r->layout.chains, chain)
        if (!have(&r->found, find_item(&r->expected, chain->name)))
            program_rules(chain, batch);
    vec_each (&r->expected, item)
        if (item->map && !have(&r->found, item))
            nft_batch_goto_element(batch, item->map, &item->key, sizeof(item->key), item->text);
    nft_batch_finish(batch);
}

static int rewrite(const struct repair *r, struct nft_socket *socket, struct rules_repaired *done,
                   struct error *err)
{
    struct nft_batch batch;
    nft_batch_init(&batch, r->ruleset->family, RULESET_TABLE);
    encode_going(r, &batch);
    encode_coming(r, &batch);
    const int result = nft_socket_commit(socket, &batch, err);
    done->bytes = result ? 0 : batch.used;
    done->rejected = batch.rejections.n > 0 && !batch.short_of_memory;
    nft_batch_release(&batch);
    return result;
}

/* Whether a verdict is to lead to a chain that does not exist, where it leads to another one now.
 */
static bool leads_to_new_chains(const struct repair *r)
{
    vec_each (&r->expected, item)
        if (item->map && find_item(&r->found, item->name) && !have(&r->found, item) &&
            !find_item(&r->found, item->text))
            return true;
    return false;
}

/* Adds chains ahead of verdicts that lead to them: see commit_instances(). If the kernel rejects
 * that, the rest adds them. */
static int add_new_chains(struct repair *r, struct nft_socket *socket, struct error *err)
{
    struct nft_batch batch;
    struct error rejected = {0};
    nft_batch_init(&batch, r->ruleset->family, RULESET_TABLE);
    vec_each (&r->layout.chains, chain)
        if (!chain->hook && !find_item(&r->found, chain->name))
            nft_batch_add_chain(&batch, chain->chain);
    vec_each (&r->layout.chains, chain)
        if (!chain->hook && !find_item(&r->found, chain->name))
            program_rules(chain, &batch);
    nft_batch_finish(&batch);
    nft_socket_commit(socket, &batch, &rejected);
    nft_batch_release(&batch);
    error_clear(&rejected);
    return read_both(r, socket, err);
}

/* @strangers_stay: whether foreign chains could not be deleted. */
static int repair(struct repair *r, struct nft_socket *socket, struct rules_repaired *done,
                  bool *strangers_stay, struct error *err)
{
    if (read_both(r, socket, err) || (leads_to_new_chains(r) && add_new_chains(r, socket, err)))
        return -1;
    vec_each (&r->expected, item)
        done->verdicts += item->map != NULL;
    if (is_right(r) || rewrite(r, socket, done, err) == 0)
        return 0;
    if (!drop_strangers(r))
        return -1;
    error_clear(err);
    *strangers_stay = rewrite(r, socket, done, err) == 0;
    return *strangers_stay ? 0 : -1;
}

int rules_repair(struct ruleset *rs, struct nft_socket *socket, struct rules_repaired *done,
                 struct error *err)
{
    struct repair r = {.ruleset = rs};
    *done = (struct rules_repaired){.bytes = 0};
    const int result = repair(&r, socket, done, &rs->strangers_stay, err);
    if (result == 0)
        instances_become(&rs->instances, &r.instances);
    rs->stats.rewritten += done->bytes > 0;
    free_repair(&r);
    return result;
}

int ruleset_repair_rules(struct ruleset *rs, struct nft_socket *socket, struct rules_repaired *done,
                         struct error *err)
{
    static const char text[] = "family=%s rewrote rules that differed from the desired ones";
    const int result = rules_repair(rs, socket, done, err);
    rs->repaired += done->bytes;
    if (done->bytes > 0 && !rs->adopted)
        log_info("table", text, nft_family_name(rs->family));
    else if (done->bytes > 0)
        log_debug(2, "table", text, nft_family_name(rs->family));
    return result;
}

int rules_check(const struct ruleset *rs, struct nft_socket *socket, bool *are_same,
                struct error *err)
{
    struct repair r = {.ruleset = rs};
    const int result = read_both(&r, socket, err);
    const size_t n = r.instances.n;
    instances_list(&rs->instances, false, &r.instances);
    instances_sort(&r.instances);
    *are_same = result == 0 && is_right(&r) && r.instances.n == n;
    free_repair(&r);
    return result;
}
