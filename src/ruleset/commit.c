/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One transaction, and what is believed of the kernel after it; or some more, without what the
 * kernel refused. */
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/ruleset/hand_over.h"
#include "kube-nftd/ruleset/record.h"

#include <math.h>
#include <string.h>

/* What is refused shows one transaction after the other; the rest waits for the next commit. */
#define MOST_TRIES 8

double ruleset_trim_time(const struct ruleset *rs)
{
    return rs->trims.n ? rs->trim_time : 0;
}

double ruleset_retry_time(const struct ruleset *rs)
{
    return rs->refusals.next;
}

bool ruleset_knows_kernel(const struct ruleset *rs)
{
    return rs->kernel_known;
}

bool ruleset_is_owned_elsewhere(const struct ruleset *rs)
{
    return rs->owned_elsewhere;
}

bool ruleset_is_lost(const struct ruleset *rs)
{
    return rs->owned_elsewhere || rs->table_missing;
}

bool ruleset_is_refused(const struct ruleset *rs, const struct frontend *frontend)
{
    if (rs->refusals.records.n == 0)
        return false;
    const struct record *record = ruleset_find_record(rs, frontend);
    return record && refusals_holds_back(record);
}

bool ruleset_needs_commit(const struct ruleset *rs, double now)
{
    return !rs->kernel_known || rs->pending.n > 0 || rs->contents.pending.n > 0 ||
           (rs->trims.n > 0 && now >= rs->trim_time) ||
           (rs->refusals.next > 0 && now >= rs->refusals.next);
}

static void queue_trim(struct ruleset *rs, struct record *record, double now)
{
    record->shrunk_at = now;
    if (record->trimming)
        return;
    if (rs->trims.n == 0)
        rs->trim_time = now + RULESET_TRIM_DELAY;
    record->trimming = true;
    vec_push(&rs->trims, record);
}

static void trim_part(const struct record *record, struct part *part)
{
    uint32_t keeps = trim_keeps(record, part);
    if (part->n_slots > keeps)
        part->n_slots = keeps;
}

/* What was unreachable is gone from the kernel. */
static void apply_trim(struct record *record)
{
    trim_part(record, &record->all);
    if (record->local && local_is_unreachable(record))
        record->local->service = 0;
    else if (record->local)
        trim_part(record, record->local);
    if (sources_are_unreachable(record))
        vec_clear(&record->extras->sources);
}

static void finish_record(struct ruleset *rs, struct record *record, double now)
{
    if (refusals_holds_back(record))
        return; /* what it wants decides */
    if (record_has_leftovers(record))
        queue_trim(rs, record, now);
    else if (!record->wanted)
        ruleset_free_record(rs, record);
}

static void apply_trims(struct ruleset *rs, double now)
{
    size_t n = rs->trims.n, waiting = 0;
    for (size_t i = 0; i < n; i++) {
        struct record *record = rs->trims.v[i];
        if (!trim_is_due(rs, record, now)) {
            rs->trims.v[waiting++] = record;
            continue;
        }
        apply_trim(record);
        record->trimming = false;
        if (record->pending)
            continue; /* apply() looks at it */
        if (record_has_leftovers(record)) {
            record->trimming = true;
            record->shrunk_at = now;
            rs->trims.v[waiting++] = record;
        } else if (!record->wanted) {
            ruleset_free_record(rs, record);
        }
    }
    rs->trims.n = waiting;
    rs->trim_time = now + RULESET_TRIM_DELAY;
}

static void apply_extras(struct extras *extras)
{
    extras->affinity_id = extras->wants_id;
    extras->group_in_force = extras->wants_id ? extras->group : 0;
    extras->affinity_timeout = extras->wants_timeout;
}

static void apply_record(struct record *record)
{
    record->flags = record->wanted_flags & (FLAG_REJECTED | FLAG_DROPPED | FLAG_RESTRICTED);
    part_apply(&record->all);
    record->all.service = record->all.wants;
    if (record->local) {
        part_apply(record->local);
        if (!local_is_unreachable(record))
            record->local->service = record->local->wants;
    }
    if (record->extras) {
        apply_extras(record->extras);
        if (!sources_are_unreachable(record)) {
            vec_clear(&record->extras->sources);
            vec_each (&record->extras->wanted_sources, range)
                vec_push(&record->extras->sources, *range);
        }
    }
    record->pending = false;
}

static void have_new_shapes(struct ruleset *rs)
{
    vec_each (&rs->new_shapes, it)
        shapes_add(&rs->shapes, it->shape);
    vec_clear(&rs->new_shapes);
}

static void apply(struct ruleset *rs, double now)
{
    if (rs->trims.n > 0 && now >= rs->trim_time)
        apply_trims(rs, now);
    vec_each (&rs->pending, it) {
        apply_record(*it);
        if (!refusals_holds_back(*it))
            refusals_end(rs, *it);
        if (!(*it)->trimming)
            finish_record(rs, *it, now);
        else if (record_has_leftovers(*it))
            (*it)->shrunk_at = now;
    }
    vec_clear(&rs->pending);
    contents_apply(&rs->contents);
    refusals_settled(rs);
    have_new_shapes(rs);
    rs->figures.replaced += rs->table_replaced;
    rs->table_missing = rs->table_replaced = rs->damaged = false;
}

/* @singly: each element in a message of its own, so that the kernel names all that it refuses. */
static void begin_batch(struct ruleset *rs, bool singly)
{
    nft_batch_clear(&rs->batch);
    nft_batch_singly(&rs->batch, singly);
    rs->batch.nothing_in_force = false;
}

static int send_batch(struct ruleset *rs, struct nft_socket *socket, struct ruleset_stats *stats,
                      struct error *err)
{
    nft_batch_finish(&rs->batch);
    if (nft_batch_is_empty(&rs->batch))
        return 0;
    double start = clock_monotonic();
    int result = nft_socket_commit(socket, &rs->batch, err);
    if (stats) {
        stats->elements_added += rs->batch.elements[ELEMENT_ADD];
        stats->elements_deleted += rs->batch.elements[ELEMENT_DELETE];
        stats->bytes += rs->batch.used;
        stats->seconds += clock_monotonic() - start;
    }
    return result;
}

/* What is in the batch is in force. */
static void count_elements(struct ruleset *rs)
{
    rs->figures.elements += rs->batch.elements[ELEMENT_ADD] - rs->batch.elements[ELEMENT_DELETE];
}

/*
 * New chains go ahead in a transaction of their own. A packet keeps to the rules of the generation
 * that it met first, but sees the elements of the newest one: by a count that came together with
 * its chain it would get into that chain while it is still empty.
 */
static int commit_shapes(struct ruleset *rs, struct nft_socket *socket, struct ruleset_stats *stats,
                         struct error *err)
{
    if (ruleset_encode_shapes(rs, err) || send_batch(rs, socket, stats, err))
        return -1;
    have_new_shapes(rs);
    count_elements(rs);
    return 0;
}

static int try_commit(struct ruleset *rs, struct nft_socket *socket, double now, bool singly,
                      struct ruleset_stats *stats, struct error *err)
{
    ruleset_plan(rs);
    if (singly)
        refusals_sort_pending(rs);
    begin_batch(rs, singly);
    if (!rs->table_missing && commit_shapes(rs, socket, stats, err))
        return -1;
    begin_batch(rs, singly);
    if (ruleset_encode(rs, now, err))
        return -1;
    return send_batch(rs, socket, stats, err);
}

/* Tries until the rest of it is in force, or nothing can be told from it. */
static int commit_the_rest(struct ruleset *rs, struct nft_socket *socket, double now,
                           struct ruleset_stats *stats, struct error *err)
{
    for (unsigned tries = 1;; tries++) {
        bool singly = tries > 1;
        int result = try_commit(rs, socket, now, singly, stats, err);
        if (result == 0 || !rs->batch.nothing_in_force || tries == MOST_TRIES ||
            !refusals_isolate(rs, now, singly))
            return result;
        log_debug(1, "ruleset", "family=%s going on without what is refused: %s",
                  nft_family_name(rs->family), err->text);
        error_clear(err);
    }
}

/* Just before the first try to replace it, so that the time between is short. */
static void prepare(struct ruleset *rs, struct nft_socket *socket)
{
    if (rs->table_replaced && !rs->handed_over)
        ruleset_hand_over(rs, socket);
    rs->handed_over = rs->table_replaced;
}

int ruleset_commit(struct ruleset *rs, struct nft_socket *socket, double now,
                   struct ruleset_stats *stats, struct error *err)
{
    bool missed_before = rs->table_missing; /* and was not made: what is refused was offered */
    if (stats)
        memset(stats, 0, sizeof(*stats));
    if (!rs->kernel_known && ruleset_adopt(rs, socket, err))
        return -1;
    /* What a table refused that is gone, a new one may take. */
    refusals_release(rs, rs->table_missing && !missed_before ? INFINITY : now);
    if (rs->table_missing)
        ruleset_sort_pending(rs);
    prepare(rs, socket);
    int result = commit_the_rest(rs, socket, now, stats, err);
    if (result) {
        rs->kernel_known = false; /* what is in force now is read back before the next try */
    } else {
        count_elements(rs);
        apply(rs, now);
    }
    rs->figures.refused = rs->refusals.records.n;
    rs->figures.left_out = rs->contents.left_out.n;
    nft_batch_clear(&rs->batch);
    return result;
}
