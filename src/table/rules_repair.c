/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Repairs rules; see rules.h. */
#include "rules.h"
#include "state.h"

#include <string.h>

#define READ_TRIES 4

struct repair {
    const struct ruleset *ruleset;
    instance_vec instances;     /* in use, or found in the kernel */
    VEC(struct layout) layouts; /* the base (the ruleset's) and those of the instances */
    struct rules found, expected;
    struct nft_batch batch;
};

static void clear_expected(struct repair *r)
{
    for (size_t i = 1; i < r->layouts.n; i++)
        layout_free(&r->layouts.v[i]);
    vec_clear(&r->layouts);
    rules_free(&r->expected);
    memset(&r->expected, 0, sizeof(r->expected));
}

static void note_instance(struct repair *r, const char *chain)
{
    struct instance instance;
    bool is_one = instance_of_chain(chain, &instance);
    while (is_one) {
        vec_push(&r->instances, instance);
        is_one = instance_needs(instance, &instance);
    }
}

/* Chain names identify instances; so do verdicts, if the chain was deleted. */
static int expect(struct repair *r, struct error *err)
{
    vec_each (&r->found.items, item)
        note_instance(r, item->map ? item->rules : item->name);
    instances_sort(&r->instances);
    clear_expected(r);
    vec_push(&r->layouts, r->ruleset->base);
    vec_each (&r->instances, instance) {
        struct layout layout;
        if (ruleset_read_instance(r->ruleset, *instance, &layout, err))
            return -1;
        vec_push(&r->layouts, layout);
    }
    vec_each (&r->layouts, layout)
        if (rules_expect(&r->expected, layout, err))
            return -1;
    rules_sort(&r->expected);
    return 0;
}

/* ---- repair ---- */

/* Ignores unreachable chains of other programs that cannot be deleted, since a foreign map leads to
 * them. Returns whether any exist. */
static bool drop_strangers(struct repair *r)
{
    size_t n = 0, all = r->found.items.n;
    vec_each (&r->found.items, item)
        if (item->map || *item->hook || rules_find(&r->expected, item->name))
            r->found.items.v[n++] = *item;
        else
            rules_free_item(item);
    r->found.items.n = n;
    return n < all;
}

/* Sets @steady if nothing changed during the read, or if it equals the previous read. Any
 * transaction in the network namespace changes the generation. */
static int read_once(struct repair *r, struct nft_socket *socket, bool *steady, struct error *err)
{
    uint32_t before, after;
    struct rules last = r->found;
    memset(&r->found, 0, sizeof(r->found));
    int result = nft_socket_generation(socket, &before, err) ||
                         rules_read(r->ruleset->family, socket, &r->found, err) ||
                         nft_socket_generation(socket, &after, err) || expect(r, err)
                     ? -1
                     : 0;
    if (r->ruleset->strangers_stay)
        drop_strangers(r);
    *steady = result == 0 && (before == after || rules_same(&r->found, &r->expected) ||
                              rules_same(&r->found, &last));
    rules_free(&last);
    return result;
}

/* Another daemon may be creating a chain. */
static int read_both(struct repair *r, struct nft_socket *socket, struct error *err)
{
    bool steady = false;
    instances_list(&r->ruleset->instances, true, &r->instances);
    for (int tries = 0; tries < READ_TRIES && !steady; tries++)
        if (read_once(r, socket, &steady, err))
            return -1;
    return steady ? 0 : error_set(err, "it changed while it was read");
}

/* Whether a chain must be deleted, even if it is then recreated. */
static bool goes(const struct repair *r, const struct rules_item *found)
{
    const struct rules_item *expected = rules_find(&r->expected, found->name);
    return !expected || strcmp(expected->hook, found->hook) != 0;
}

static void encode_going(struct repair *r)
{
    vec_each (&r->found.items, item)
        if (item->map && !rules_have(&r->expected, item))
            nft_batch_element(&r->batch, ELEMENT_DELETE, item->map, &item->key, sizeof(item->key),
                              NULL, 0);
    vec_each (&r->found.items, item)
        if (!item->map && *item->rules && !rules_have(&r->expected, item))
            nft_batch_flush_chain(&r->batch, item->name);
    vec_each (&r->found.items, item)
        if (!item->map && goes(r, item))
            nft_batch_delete_chain(&r->batch, item->name);
}

static int encode_coming(struct repair *r, struct error *err)
{
    /* All chains before any rule: rules may name later chains. */
    vec_each (&r->layouts, layout)
        vec_each (&layout->chains, chain) {
            const struct rules_item *found = rules_find(&r->found, chain->name);
            if (!found || goes(r, found))
                program_chain(chain, &r->batch);
        }
    vec_each (&r->layouts, layout)
        vec_each (&layout->chains, chain)
            if (!rules_have(&r->found, rules_find(&r->expected, chain->name)) &&
                program_rules(layout, chain, &r->batch, err))
                return -1;
    vec_each (&r->expected.items, item)
        if (item->map && !rules_have(&r->found, item))
            nft_batch_goto_element(&r->batch, item->map, &item->key, sizeof(item->key),
                                   item->rules);
    nft_batch_finish(&r->batch);
    return 0;
}

static int rewrite(struct repair *r, struct nft_socket *socket, struct rules_repaired *done,
                   struct error *err)
{
    nft_batch_init(&r->batch, r->ruleset->family, RULESET_TABLE);
    encode_going(r);
    int result = encode_coming(r, err) || nft_socket_commit(socket, &r->batch, err) ? -1 : 0;
    done->bytes = result ? 0 : r->batch.used;
    nft_batch_release(&r->batch);
    return result;
}

static void free_repair(struct repair *r)
{
    clear_expected(r);
    rules_free(&r->found);
    vec_free(&r->layouts);
    vec_free(&r->instances);
}

/* @strangers_stay: whether foreign chains could not be deleted. */
static int repair(struct repair *r, struct nft_socket *socket, struct rules_repaired *done,
                  bool *strangers_stay, struct error *err)
{
    if (read_both(r, socket, err))
        return -1;
    vec_each (&r->expected.items, item)
        done->verdicts += item->map != NULL;
    if (rules_same(&r->found, &r->expected) || rewrite(r, socket, done, err) == 0)
        return 0;
    if (!drop_strangers(r))
        return -1;
    error_clear(err);
    int result = rewrite(r, socket, done, err);
    *strangers_stay = result == 0;
    return result;
}

int rules_repair(struct ruleset *rs, struct nft_socket *socket, struct rules_repaired *done,
                 struct error *err)
{
    struct repair r = {.ruleset = rs};
    *done = (struct rules_repaired){.bytes = 0};
    int result = repair(&r, socket, done, &rs->strangers_stay, err);
    if (result == 0)
        instances_become(&rs->instances, &r.instances);
    rs->figures.rewritten += done->bytes > 0;
    free_repair(&r);
    return result;
}

int rules_check(const struct ruleset *rs, struct nft_socket *socket, bool *same, struct error *err)
{
    struct repair r = {.ruleset = rs};
    int result = read_both(&r, socket, err);
    const size_t n = r.instances.n;
    instances_list(&rs->instances, false, &r.instances);
    instances_sort(&r.instances);
    *same = result == 0 && rules_same(&r.found, &r.expected) && r.instances.n == n;
    free_repair(&r);
    return result;
}
