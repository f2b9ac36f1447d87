/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one repair of rules: rules.h. */
#include "rules.h"
#include "state.h"
#include "template.h"

#include <string.h>

#define READ_TRIES 4

struct repair {
    const struct ruleset *ruleset;
    struct shapes shapes; /* those that are in use, and others that the kernel's chains tell of */
    struct rules found, expected;
    struct nft_batch batch;
};

/* Chains of others that no packet gets to, where they cannot go: a map of others leads to them.
 * Whether there are any. */
static bool drop_strangers(struct repair *r)
{
    size_t n = 0, all = r->found.chains.n;
    vec_each (&r->found.chains, chain) {
        if (rules_find_chain(&r->expected, chain->name) || *chain->hook) {
            r->found.chains.v[n++] = *chain;
            continue;
        }
        free(chain->name);
        free(chain->hook);
        free(chain->rules);
    }
    r->found.chains.n = n;
    return n < all;
}

static void note_shape(struct repair *r, const char *chain)
{
    struct shape shape;
    bool is_one = shape_of_chain(chain, &shape);
    while (is_one && shapes_add(&r->shapes, shape))
        is_one = shape_needs(shape, &shape);
}

/* Chains tell of shapes, and verdicts if the chain was deleted. */
static int expect(struct repair *r, struct error *err)
{
    vec_each (&r->found.chains, chain)
        note_shape(r, chain->name);
    vec_each (&r->found.verdicts, verdict)
        note_shape(r, verdict->chain);
    rules_free(&r->expected);
    return rules_expect(r->ruleset, &r->shapes, &r->expected, err);
}

/* @steady: whether it did not change while it was read, or is what was read before. Each
 * transaction in the network namespace makes a generation, whatever it is about. */
static int read_once(struct repair *r, struct nft_socket *socket, bool *steady, struct error *err)
{
    uint32_t before, after;
    struct rules last = r->found;
    memset(&r->found, 0, sizeof(r->found));
    int result = nft_socket_generation(socket, &before, err) ||
                         rules_read(r->ruleset, socket, &r->found, err) ||
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

/* Another daemon may be making a chain just now. */
static int read_both(struct repair *r, struct nft_socket *socket, struct error *err)
{
    bool steady = false;
    for (int tries = 0; tries < READ_TRIES && !steady; tries++)
        if (read_once(r, socket, &steady, err))
            return -1;
    return steady ? 0 : error_set(err, "it changed while it was read");
}

/* Whether a chain is to be deleted, to be made anew or not. */
static bool goes(const struct repair *r, const struct rules_chain *found)
{
    const struct rules_chain *expected = rules_find_chain(&r->expected, found->name);
    return !expected || strcmp(expected->hook, found->hook) != 0;
}

static bool comes(const struct repair *r, const struct rules_chain *expected)
{
    const struct rules_chain *found = rules_find_chain(&r->found, expected->name);
    return !found || goes(r, found);
}

static void encode_going(struct repair *r)
{
    vec_each (&r->found.verdicts, verdict)
        if (!rules_have_verdict(&r->expected, verdict))
            nft_batch_element(&r->batch, ELEMENT_DELETE, verdict->map, &verdict->key,
                              sizeof(verdict->key), NULL, 0);
    vec_each (&r->found.chains, chain)
        if (*chain->rules && !rules_same_chain(chain, rules_find_chain(&r->expected, chain->name)))
            nft_batch_flush_chain(&r->batch, chain->name);
    vec_each (&r->found.chains, chain)
        if (goes(r, chain))
            nft_batch_delete_chain(&r->batch, chain->name);
}

static int encode_chains(void *ctx, const struct layout *layout, struct error *err)
{
    struct repair *r = ctx;
    vec_each (&layout->chains, chain)
        if (comes(r, rules_find_chain(&r->expected, chain->name)))
            program_chain(chain, &r->batch);
    (void)err;
    return 0;
}

static int encode_rules(void *ctx, const struct layout *layout, struct error *err)
{
    struct repair *r = ctx;
    vec_each (&layout->chains, chain)
        if (!rules_same_chain(rules_find_chain(&r->found, chain->name),
                              rules_find_chain(&r->expected, chain->name)) &&
            program_rules(layout, chain, &r->batch, err))
            return -1;
    return 0;
}

/* All chains come before any rule: rules name chains that may be declared later. */
static int encode(struct repair *r, struct error *err)
{
    encode_going(r);
    if (rules_each_layout(r->ruleset, &r->shapes, encode_chains, r, err) ||
        rules_each_layout(r->ruleset, &r->shapes, encode_rules, r, err))
        return -1;
    vec_each (&r->expected.verdicts, verdict)
        if (!rules_have_verdict(&r->found, verdict))
            nft_batch_goto_element(&r->batch, verdict->map, &verdict->key, sizeof(verdict->key),
                                   verdict->chain);
    nft_batch_finish(&r->batch);
    return 0;
}

static int write_anew(struct repair *r, struct nft_socket *socket, struct rules_repaired *done,
                      struct error *err)
{
    nft_batch_init(&r->batch, r->ruleset->family, RULESET_TABLE);
    int result = encode(r, err);
    result = result ? result : nft_socket_commit(socket, &r->batch, err);
    done->bytes = result ? 0 : r->batch.used;
    nft_batch_release(&r->batch);
    return result;
}

static void free_repair(struct repair *r)
{
    rules_free(&r->found);
    rules_free(&r->expected);
    shapes_clear(&r->shapes);
}

/* @strangers_stay: whether chains of others could not be deleted. */
static int repair(struct repair *r, struct nft_socket *socket, struct rules_repaired *done,
                  bool *strangers_stay, struct error *err)
{
    if (read_both(r, socket, err))
        return -1;
    done->verdicts = r->expected.verdicts.n;
    if (rules_same(&r->found, &r->expected))
        return 0;
    if (write_anew(r, socket, done, err) == 0)
        return 0;
    if (!drop_strangers(r))
        return -1;
    error_clear(err);
    int result = write_anew(r, socket, done, err);
    *strangers_stay = result == 0;
    return result;
}

int rules_repair(struct ruleset *rs, struct nft_socket *socket, struct rules_repaired *done,
                 struct error *err)
{
    struct repair r = {.ruleset = rs};
    *done = (struct rules_repaired){.bytes = 0};
    shapes_copy_used(&r.shapes, &rs->shapes);
    int result = repair(&r, socket, done, &rs->strangers_stay, err);
    if (result == 0)
        shapes_become(&rs->shapes, &r.shapes);
    rs->figures.rewritten += done->bytes > 0;
    free_repair(&r);
    return result;
}

int rules_check(const struct ruleset *rs, struct nft_socket *socket, bool *same, struct error *err)
{
    struct repair r = {.ruleset = rs};
    shapes_copy_used(&r.shapes, &rs->shapes);
    int result = read_both(&r, socket, err);
    *same =
        result == 0 && rules_same(&r.found, &r.expected) && shapes_contain(&r.shapes, &rs->shapes);
    free_repair(&r);
    return result;
}
