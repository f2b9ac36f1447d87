/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Chains that nothing in force leads to any more. They go in a transaction of their own, some
 * seconds after their last use, so no packet is on its way to them; what cannot go, since a rule of
 * somebody else leads there, is left for later.
 */
#include "kube-nftd/base.h"
#include "record.h"

#include <math.h>

/* Seconds from one look to the next: a chain goes when it was not used at two of them. */
#define LOOK_PERIOD 5.0
#define LOOK_PERIOD_MOST 600.0
/* Shapes in one transaction. */
#define MOST_SHAPES 512

/* Verdicts that lead to chains go before these, and rules before the chains that they name. */
static int encode_going(struct ruleset *rs, struct shape shape, struct nft_batch *batch,
                        struct error *err)
{
    struct layout layout;
    if (ruleset_read_shape(rs, shape, &layout, err))
        return -1;
    vec_each (&layout.sets, set)
        vec_each (&set->verdicts, verdict)
            nft_batch_element(batch, ELEMENT_DELETE, rules_map(set->name), &verdict->key,
                              sizeof(verdict->key), NULL, 0);
    vec_each (&layout.chains, chain)
        nft_batch_flush_chain(batch, chain->name);
    vec_each (&layout.chains, chain)
        nft_batch_delete_chain(batch, chain->name);
    layout_free(&layout);
    return 0;
}

/* What a shape builds on comes before it in @shapes, and goes behind it. */
static int delete_shapes(struct ruleset *rs, struct nft_socket *socket, const shape_vec *shapes,
                         struct nft_batch *batch, struct error *err)
{
    for (size_t i = shapes->n; i > 0; i--)
        if (encode_going(rs, shapes->v[i - 1], batch, err))
            return -1;
    nft_batch_finish(batch);
    return nft_socket_commit(socket, batch, err);
}

static void collected(struct ruleset *rs, const shape_vec *shapes, const struct nft_batch *batch)
{
    vec_each (shapes, shape)
        shapes_drop(&rs->shapes, *shape);
    rs->figures.elements -= batch->elements[ELEMENT_DELETE];
    rs->collect_wait = LOOK_PERIOD;
    log_debug(2, "ruleset", "family=%s deleted unused chains of shapes=%zu",
              nft_family_name(rs->family), shapes->n);
}

/* Another daemon may have collected them, or a rule of somebody else leads there. */
static void refused(struct ruleset *rs, const struct nft_batch *batch, const struct error *err)
{
    log_debug(1, "ruleset", "family=%s cannot delete unused chains: %s",
              nft_family_name(rs->family), err->text);
    rs->collect_wait = fmin(2 * rs->collect_wait, LOOK_PERIOD_MOST);
    rs->kernel_known = rs->kernel_known && batch->nothing_in_force;
}

static void collect(struct ruleset *rs, struct nft_socket *socket, shape_vec *shapes)
{
    struct error err = {0};
    struct nft_batch batch;
    if (shapes->n > MOST_SHAPES) /* what others build on waits */
        vec_drop_first(shapes, shapes->n - MOST_SHAPES);
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    if (delete_shapes(rs, socket, shapes, &batch, &err) == 0)
        collected(rs, shapes, &batch);
    else
        refused(rs, &batch, &err);
    error_clear(&err);
    nft_batch_release(&batch);
}

double ruleset_collect_time(const struct ruleset *rs)
{
    return rs->collect_time;
}

void ruleset_collect(struct ruleset *rs, struct nft_socket *socket, double now)
{
    if (shapes_unused(&rs->shapes) == 0)
        rs->collect_time = 0;
    else if (rs->collect_time == 0)
        rs->collect_time = now + LOOK_PERIOD;
    if (rs->collect_time == 0 || now < rs->collect_time)
        return;
    shape_vec idle = {0};
    shapes_look_for_idle(&rs->shapes, &idle);
    rs->collect_wait = fmax(rs->collect_wait, LOOK_PERIOD);
    if (idle.n > 0)
        collect(rs, socket, &idle);
    else
        rs->collect_wait = LOOK_PERIOD;
    rs->collect_time = shapes_unused(&rs->shapes) > 0 ? now + rs->collect_wait : 0;
    vec_free(&idle);
}
