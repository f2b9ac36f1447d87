/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All rules are written anew where one thing is wrong: what differs need not be found out, and a
 * table has some hundred of them at most. Packets meet either the old rules or the new ones, and
 * the same elements.
 */
#include "kube-nftd/ruleset/mend.h"

#include "kube-nftd/ruleset/program.h"
#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/ruleset/rule_image.h"

#include <string.h>

struct mending {
    struct ruleset *ruleset;
    struct rule_image found, expected;
    bool strangers_go; /* chains of others; they cannot if a map of others leads to them */
    struct nft_batch batch;
};

/* ---- what there is ---- */

static void add_shape(struct ruleset *rs, struct shape shape)
{
    struct shape base;
    if (shapes_add(&rs->shapes, shape) && shape_needs(shape, &base))
        add_shape(rs, base);
}

/* Chains tell of them, and verdicts if the chain was deleted. */
static void take_shapes(struct ruleset *rs, const struct rule_image *found)
{
    struct shape shape;
    vec_each (&found->chains, chain)
        if (shape_of_any_chain(chain->name, &shape))
            add_shape(rs, shape);
    vec_each (&found->verdicts, verdict)
        if (shape_of_any_chain(verdict->chain, &shape))
            add_shape(rs, shape);
}

/* -1 also if it changed meanwhile: another daemon may be making a chain. */
static int read_table(struct mending *m, struct nft_socket *socket, struct error *err)
{
    uint32_t before, after;
    if (nft_socket_generation(socket, &before, err) ||
        rule_image_read(m->ruleset, socket, &m->found, err) ||
        nft_socket_generation(socket, &after, err))
        return -1;
    if (before != after)
        return error_set(err, "it changes while it is read");
    take_shapes(m->ruleset, &m->found);
    return rule_image_expect(m->ruleset, &m->expected, err);
}

/* ---- what is to be done ---- */

static bool has_chain(const struct rule_image *image, const struct image_chain *chain)
{
    vec_each (&image->chains, other)
        if (strcmp(other->line, chain->line) == 0)
            return true;
    return false;
}

static bool has_name(const struct rule_image *image, const char *name)
{
    vec_each (&image->chains, other)
        if (strcmp(other->name, name) == 0)
            return true;
    return false;
}

static bool has_verdict(const struct rule_image *image, const struct image_verdict *verdict)
{
    vec_each (&image->verdicts, other)
        if (other->map == verdict->map && other->key == verdict->key &&
            strcmp(other->chain, verdict->chain) == 0)
            return true;
    return false;
}

/* One of others that only other chains lead to does no harm. */
static bool may_stay(const struct mending *m, const struct image_chain *chain)
{
    bool has_hook = strcmp(chain->line, chain->name) != 0;
    return !m->strangers_go && !has_hook && !has_name(&m->expected, chain->name);
}

static void encode_going(struct mending *m)
{
    vec_each (&m->found.verdicts, verdict)
        if (!has_verdict(&m->expected, verdict))
            nft_batch_element(&m->batch, ELEMENT_DELETE, verdict->map, &verdict->key,
                              sizeof(verdict->key), NULL, 0);
    vec_each (&m->found.chains, chain)
        nft_batch_flush_chain(&m->batch, chain->name);
    vec_each (&m->found.chains, chain)
        if (!has_chain(&m->expected, chain) && !may_stay(m, chain))
            nft_batch_delete_chain(&m->batch, chain->name);
}

static int encode_chains(struct mending *m, const struct layout *layout, struct error *err)
{
    vec_each (&layout->chains, chain)
        vec_each (&m->expected.chains, expected)
            if (strcmp(expected->name, chain->name) == 0 && !has_chain(&m->found, expected) &&
                program_chain(layout, chain, &m->batch, err))
                return -1;
    return 0;
}

static int encode_rules(struct mending *m, const struct layout *layout, struct error *err)
{
    vec_each (&layout->chains, chain)
        if (program_rules(layout, chain, &m->batch, err))
            return -1;
    return 0;
}

/* All chains come before any rule: rules name chains that may be declared later. */
static int encode_layouts(struct mending *m,
                          int (*encode)(struct mending *, const struct layout *, struct error *),
                          struct error *err)
{
    shape_vec shapes = {0};
    shapes_list(&m->ruleset->shapes, &shapes);
    int result = encode(m, &m->ruleset->base, err);
    for (size_t i = 0; i < shapes.n && result == 0; i++) {
        struct layout layout;
        result = ruleset_read_shape(m->ruleset, shapes.v[i], &layout, err);
        if (result == 0) {
            result = encode(m, &layout, err);
            layout_free(&layout);
        }
    }
    vec_free(&shapes);
    return result;
}

static int encode(struct mending *m, struct error *err)
{
    encode_going(m);
    if (encode_layouts(m, encode_chains, err) || encode_layouts(m, encode_rules, err))
        return -1;
    vec_each (&m->expected.verdicts, verdict)
        if (!has_verdict(&m->found, verdict))
            nft_batch_goto_element(&m->batch, verdict->map, &verdict->key, sizeof(verdict->key),
                                   verdict->chain);
    nft_batch_finish(&m->batch);
    return 0;
}

static int write_anew(struct mending *m, struct nft_socket *socket, struct error *err)
{
    int result = -1;
    for (int tries = 0; tries < 2 && result; tries++) {
        error_clear(err);
        m->strangers_go = tries == 0;
        nft_batch_init(&m->batch, m->ruleset->family, RULESET_TABLE);
        result = encode(m, err);
        result = result ? result : nft_socket_commit(socket, &m->batch, err);
        nft_batch_release(&m->batch);
    }
    return result;
}

static int mend(struct mending *m, struct nft_socket *socket, bool *mended, struct error *err)
{
    if (read_table(m, socket, err))
        return -1;
    if (rule_image_same(&m->found, &m->expected))
        return 0;
    int result = write_anew(m, socket, err);
    *mended = result == 0;
    return result;
}

int ruleset_mend(struct ruleset *rs, struct nft_socket *socket, bool *mended, struct error *err)
{
    struct mending m = {.ruleset = rs};
    bool ours = false;
    *mended = false;
    int result = ruleset_claim(rs, socket, &ours, err);
    if (rs->owned_elsewhere) {
        error_clear(err);
        return 0;
    }
    if (result || !ours)
        return result;
    result = mend(&m, socket, mended, err);
    rule_image_free(&m.found);
    rule_image_free(&m.expected);
    shapes_clear(&rs->shapes); /* what is in force is read back when it counts */
    return result;
}
