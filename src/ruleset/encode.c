/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The difference between wanted and kernel as messages, in an order that is right even if the
 * batch has to be cut: what a packet is led to is always there.
 */
#include "program.h"
#include "record.h"

#include <string.h>

/* So many elements of contents.h go without a place to cut. */
#define GROUP 500

static int encode_table(struct ruleset *rs, struct error *err)
{
    if (rs->table_replaced)
        nft_batch_delete_table(&rs->batch);
    if (rs->owned)
        nft_batch_add_owned_table(&rs->batch, rs->comment);
    else
        nft_batch_add_table(&rs->batch, rs->comment);
    return program_layout(&rs->base, PROGRAM_ALL, &rs->batch, err);
}

static int encode_shape(struct ruleset *rs, struct shape shape, struct error *err)
{
    struct layout layout;
    if (ruleset_read_shape(rs, shape, &layout, err))
        return -1;
    int result = program_layout(&layout, PROGRAM_WITHOUT_SETS, &rs->batch, err);
    layout_free(&layout);
    return result;
}

int ruleset_encode_shapes(struct ruleset *rs, struct error *err)
{
    shape_vec shapes = {0};
    ruleset_new_shapes(rs, &shapes);
    vec_clear(&rs->new_shapes);
    nft_batch_finish(&rs->batch);
    rs->shapes_begin = rs->batch.used;
    int result = 0;
    for (size_t i = 0; i < shapes.n && result == 0; i++) {
        result = encode_shape(rs, shapes.v[i], err);
        nft_batch_may_cut(&rs->batch);
        vec_push(&rs->new_shapes, (struct new_shape){shapes.v[i], rs->batch.used});
    }
    vec_free(&shapes);
    return result;
}

/* ---- contents ---- */

static void encode_content(struct ruleset *rs, struct content *content, enum nft_element_op op)
{
    enum table_set set = content_set_of(content);
    const uint8_t *key = content_key(content);
    size_t length = content->key_length;
    bool has_value = op == ELEMENT_ADD && content->value_length > 0;
    if (set_is_ranged(set))
        nft_batch_range(&rs->batch, op, set_name(set), key, key + length / 2, length / 2);
    else
        nft_batch_element(&rs->batch, op, set_name(set), key, length,
                          has_value ? content_value(content) : NULL,
                          has_value ? content->value_length : 0);
}

/* Ranges must make room before others take their place, so they go all together. */
static void encode_ranges(struct ruleset *rs)
{
    struct contents *contents = &rs->contents;
    nft_batch_together(&rs->batch, true);
    vec_each (&contents->pending, content)
        if (set_is_ranged(content_set_of(*content)) && content_goes(*content))
            encode_content(rs, *content, ELEMENT_DELETE);
    vec_each (&contents->pending, content)
        if (set_is_ranged(content_set_of(*content)) && content_comes(*content))
            encode_content(rs, *content, ELEMENT_ADD);
    nft_batch_together(&rs->batch, false);
    nft_batch_may_cut(&rs->batch);
}

/* Those of one set that come, or get another value. */
static void encode_coming(struct ruleset *rs, enum table_set set)
{
    size_t n = 0;
    vec_each (&rs->contents.pending, it) {
        struct content *content = *it;
        if (content_set_of(content) != set || !content_comes(content))
            continue;
        if (content_goes(content))
            encode_content(rs, content, ELEMENT_DELETE);
        encode_content(rs, content, ELEMENT_ADD);
        if (++n % GROUP == 0)
            nft_batch_may_cut(&rs->batch);
    }
}

static void encode_going(struct ruleset *rs, enum table_set set)
{
    vec_each (&rs->contents.pending, content)
        if (content_set_of(*content) == set && content_goes(*content) && !content_comes(*content))
            encode_content(rs, *content, ELEMENT_DELETE);
}

/* What is not served at a cluster IP is rejected, so these come behind what is served there and go
 * before it. */
enum which_contents { OTHERS, CLUSTER_IPS };

static void encode_contents(struct ruleset *rs, enum which_contents which,
                            void (*encode)(struct ruleset *, enum table_set))
{
    if (rs->contents.pending.n == 0)
        return;
    for (enum table_set set = 0; set < TABLE_SETS; set++)
        if (set_owner(set) == OWNER_TABLE && (set == SET_CLUSTER_IPS) == (which == CLUSTER_IPS))
            encode(rs, set);
    nft_batch_may_cut(&rs->batch);
}

/* ---- all of it ---- */

int ruleset_encode(struct ruleset *rs, struct error *err)
{
    if (rs->table_missing && (encode_table(rs, err) || ruleset_encode_shapes(rs, err)))
        return -1;
    connections_encode(rs);
    encode_trims(rs);
    encode_ranges(rs);
    encode_contents(rs, CLUSTER_IPS, encode_going);
    encode_contents(rs, OTHERS, encode_coming);
    encode_slots(rs);
    encode_numbers(rs);
    encode_contents(rs, OTHERS, encode_going);
    encode_contents(rs, CLUSTER_IPS, encode_coming);
    return 0;
}
