/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One transaction, and what is believed of the kernel after it; or some more, without what the
 * kernel refused. */
#include "hand_over.h"
#include "kube-nftd/base.h"
#include "record.h"

#include <math.h>
#include <string.h>

/* A frontend with no more slots than this part of a portion gets them all at once. */
#define PORTION_OF_FEW 8
/* Bytes of a transaction. The kernel makes its hash tables larger between transactions only: in a
 * single one, tables that begin empty get ever slower to fill. */
#define PIECE_OF_NEW ((size_t)256 * 1024)
/* What is refused shows one transaction after the other; the rest waits for the next commit. */
#define MOST_TRIES 8

bool ruleset_is_filling(const struct ruleset *rs)
{
    return rs->filling;
}

double ruleset_trim_time(const struct ruleset *rs)
{
    return clock_earlier(rs->trims.n ? rs->trim_time : 0,
                         rs->lists.unused.n ? rs->lists.trim_time : 0);
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
    if (rs->refusals.all.n == 0)
        return false;
    const struct frontend_record *record = ruleset_find_frontend(rs, frontend);
    return record && (record->record.held_back || (record->port && record->port->record.held_back));
}

bool ruleset_is_waiting(const struct ruleset *rs, const struct frontend *frontend)
{
    if (!rs->kernel_known || rs->pending.n == 0)
        return !rs->kernel_known;
    const struct frontend_record *record = ruleset_find_frontend(rs, frontend);
    return record && (record->record.pending || (record->port && record->port->record.pending));
}

bool ruleset_port_is_waiting(const struct ruleset *rs, uint32_t id)
{
    if (!rs->kernel_known || rs->pending.n == 0)
        return !rs->kernel_known;
    const struct port_record *port = ruleset_find_port(rs, id);
    return port && (port->record.pending || port->n_pending > 0);
}

bool ruleset_needs_commit(const struct ruleset *rs, double now)
{
    return !rs->kernel_known || rs->rules_wrong || rs->pending.n > 0 ||
           rs->contents.pending.n > 0 || (rs->trims.n > 0 && now >= rs->trim_time) ||
           (rs->lists.unused.n > 0 && now >= rs->lists.trim_time) ||
           (rs->collect_time > 0 && now >= rs->collect_time) ||
           (rs->refusals.next > 0 && now >= rs->refusals.next);
}

static void queue_trim(struct ruleset *rs, struct port_record *port, double now)
{
    port->shrunk_at = now;
    if (port->record.trimming)
        return;
    if (rs->trims.n == 0)
        rs->trim_time = now + RULESET_TRIM_DELAY;
    port->record.trimming = true;
    vec_push(&rs->trims, port);
}

/* What was unreachable is gone from the kernel. */
static void apply_trim(struct ruleset *rs, struct port_record *port)
{
    static const enum table_set sets[PARTS] = {SET_PORTS, SET_LOCAL_PORTS};
    port->flags &= (uint8_t)~port_left_flags(port);
    for (enum port_part which = 0; which < PARTS; which++) {
        struct part *part = port_part(port, which);
        if (!part)
            continue;
        uint32_t keeps = trim_keeps(rs, port, which);
        if (part->n_slots > keeps)
            part->n_slots = keeps;
        if (port_is_left(port, which))
            set_hold_number(rs, sets[which], &port->record, part->value.wanted = 0);
    }
}

static bool is_in_use(const struct port_record *port)
{
    return port->record.wanted || port->refs > 0 || port->led[PART_ALL] > 0 ||
           port->led[PART_LOCAL] > 0;
}

static void finish_port(struct ruleset *rs, struct port_record *port, double now)
{
    if (port->record.held_back)
        return; /* it stays as it is */
    if (port_has_leftovers(rs, port))
        queue_trim(rs, port, now);
    else if (!is_in_use(port) && !port->record.trimming)
        ruleset_free_record(rs, &port->record);
}

static void apply_trims(struct ruleset *rs, double now)
{
    size_t n = rs->trims.n, waiting = 0, due = rs->due_trims;
    bool more = false;
    for (size_t i = 0; i < n; i++) {
        struct port_record *port = rs->trims.v[i];
        if (i >= due) {
            more = more || now >= port->shrunk_at + RULESET_TRIM_DELAY;
            rs->trims.v[waiting++] = port;
            continue;
        }
        apply_trim(rs, port);
        port->record.trimming = false;
        if (port->record.pending)
            continue; /* apply() looks at it */
        if (port_has_leftovers(rs, port)) {
            port->record.trimming = true;
            port->shrunk_at = now;
            rs->trims.v[waiting++] = port;
        } else if (!is_in_use(port)) {
            ruleset_free_record(rs, &port->record);
        }
    }
    rs->trims.n = waiting;
    rs->due_trims = 0;
    rs->trim_time = more ? now : now + RULESET_TRIM_DELAY;
}

static void apply_restriction(struct ruleset *rs, struct frontend_record *frontend, double now)
{
    const struct set_number number = frontend->restriction->number;
    if (number.held == number.wanted)
        return;
    source_list_hold(source_lists_find(&rs->lists, number.wanted));
    frontend_release_list(rs, frontend, now);
}

static void apply_parts(struct port_record *port)
{
    part_apply(&port->all);
    if (port->local)
        part_apply(port->local);
}

static void apply_record(struct ruleset *rs, struct record *record, double now)
{
    if (record->is_port)
        apply_parts(as_port(record));
    else if (as_frontend(record)->restriction)
        apply_restriction(rs, as_frontend(record), now);
    for (enum table_set set = 0; set < NUMBER_SETS; set++)
        if (set_is_of(set, record))
            set_hold_number(rs, set, record, set_number(set, record).wanted);
    record_settle(record);
    refusals_end(rs, record);
}

/* Where it led up to now, something may be left behind. */
static void apply_frontend(struct ruleset *rs, struct frontend_record *frontend, double now)
{
    uint32_t before = frontend->service.held;
    apply_record(rs, &frontend->record, now);
    struct port_record *port =
        before == frontend->service.held ? NULL : ruleset_port_of_number(rs, port_of_value(before));
    if (port && !port->record.pending)
        finish_port(rs, port, now);
    if (!frontend->record.wanted)
        ruleset_free_record(rs, &frontend->record);
}

static void apply_port(struct ruleset *rs, struct port_record *port, double now)
{
    apply_record(rs, &port->record, now);
    port->renumbered = false;
    if (!port->record.trimming)
        finish_port(rs, port, now);
    else if (port_has_leftovers(rs, port))
        port->shrunk_at = now;
}

/* The slots that went ahead. What is left behind of them, if they are not wanted any more, goes as
 * late as what was in use. */
static void apply_stage(struct record *record, double now)
{
    if (!record->is_port)
        return;
    as_port(record)->shrunk_at = now;
    apply_parts(as_port(record));
}

static void have_new_shapes(struct ruleset *rs)
{
    vec_each (&rs->new_shapes, it)
        shapes_add(&rs->shapes, it->shape);
    vec_clear(&rs->new_shapes);
}

static void apply(struct ruleset *rs, double now)
{
    size_t n_staged = 0;
    if (rs->trims.n > 0 && now >= rs->trim_time)
        apply_trims(rs, now);
    vec_each (&rs->pending, it) {
        if ((*it)->staged) {
            apply_stage(*it, now);
            rs->pending.v[n_staged++] = *it;
            continue;
        }
        if ((*it)->is_port)
            apply_port(rs, as_port(*it), now);
        else
            apply_frontend(rs, as_frontend(*it), now);
    }
    rs->pending.n = n_staged;
    contents_apply(&rs->contents);
    refusals_settled(rs);
    have_new_shapes(rs);
    rs->figures.replaced += rs->table_replaced;
    rs->table_missing = rs->table_replaced = false;
}

/* @singly: each element in a message of its own, so that the kernel names all that it refuses. */
static void begin_batch(struct ruleset *rs, bool singly)
{
    nft_batch_clear(&rs->batch);
    rs->batch.singly = singly;
    vec_clear(&rs->refusals.owners);
    rs->batch.nothing_in_force = false;
    rs->batch.piece = rs->table_missing && !rs->table_replaced ? PIECE_OF_NEW : 0;
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

/* ---- portions ---- */

static size_t weight_of(const struct port_record *port)
{
    return part_weight(&port->all) + (port->local ? part_weight(port->local) : 0);
}

/* What takes numbers from backends is in one transaction with what takes their slots. */
static bool is_affine(const struct port_record *port)
{
    return port->affinity && (port->affinity->timeout.wanted || port->affinity->timeout.held);
}

/* Returns how many of @most are left. */
static size_t stage_port(struct port_record *port, size_t most)
{
    bool staged = false;
    for (enum port_part which = 0; which < PARTS; which++) {
        struct part *part = port_part(port, which);
        if (!part)
            continue;
        most -= part_stage(part, most);
        staged = staged || part_is_staged(part);
    }
    port->record.staged = staged;
    return most;
}

/* Of service ports with very many slots, some go ahead, those of the newest first; frontends wait
 * until all of them are there. */
static void stage(struct ruleset *rs)
{
    size_t room = rs->read_back ? SIZE_MAX : rs->portion;
    for (size_t i = rs->pending.n; i > 0; i--) {
        if (!rs->pending.v[i - 1]->is_port)
            continue;
        struct port_record *port = as_port(rs->pending.v[i - 1]);
        bool whole = weight_of(port) <= rs->portion / PORTION_OF_FEW || is_affine(port);
        size_t left = stage_port(port, whole ? SIZE_MAX : room);
        room = whole ? room : left;
    }
    vec_each (&rs->pending, it)
        if (!(*it)->is_port)
            (*it)->staged = as_frontend(*it)->port && as_frontend(*it)->port->record.staged;
}

static int try_commit(struct ruleset *rs, struct nft_socket *socket, bool singly,
                      struct ruleset_stats *stats, struct error *err)
{
    ruleset_plan(rs);
    stage(rs);
    if (singly)
        refusals_sort_pending(rs);
    begin_batch(rs, singly);
    if (!rs->table_missing && commit_shapes(rs, socket, stats, err))
        return -1;
    begin_batch(rs, singly);
    if (ruleset_encode(rs, err))
        return -1;
    return send_batch(rs, socket, stats, err);
}

/* Tries until the rest of it is in force, or nothing can be told from it. */
static int commit_the_rest(struct ruleset *rs, struct nft_socket *socket, double now,
                           struct ruleset_stats *stats, struct error *err)
{
    for (unsigned tries = 1;; tries++) {
        bool singly = tries > 1;
        int result = try_commit(rs, socket, singly, stats, err);
        if (result == 0 || !rs->batch.nothing_in_force || tries == MOST_TRIES ||
            !refusals_isolate(rs, now, singly))
            return result;
        log_debug(1, "ruleset", "family=%s retrying without the rejected elements: %s",
                  nft_family_name(rs->family), err->text);
        error_clear(err);
    }
}

/* Nobody waits for a list where the table was just read back or is not there yet: what a frontend
 * has in force would not be held by it (affinity.h). */
static void send_portion(struct ruleset *rs, bool was_known, double now)
{
    size_t most = was_known ? rs->portion : SIZE_MAX;
    ruleset_fill_lists(rs, &most);
    source_lists_trim(&rs->lists, &rs->contents, now, &most);
}

/* Just before the first try to replace it, so that the time between is short. */
static void prepare(struct ruleset *rs, struct nft_socket *socket)
{
    if (rs->table_replaced && !rs->handed_over)
        ruleset_hand_over(rs, socket);
    rs->handed_over = rs->table_replaced;
}

/* What the kernel holds becomes known, and its rules right. */
static int get_ready(struct ruleset *rs, struct nft_socket *socket, double now,
                     struct ruleset_stats *stats, struct error *err)
{
    struct rules_repaired done;
    if (!rs->kernel_known ? ruleset_adopt(rs, socket, now, err)
                          : rs->rules_wrong && ruleset_repair_rules(rs, socket, &done, err)) {
        rs->kernel_known = false;
        return -1;
    }
    rs->rules_wrong = false;
    if (stats)
        stats->bytes += rs->repaired;
    rs->repaired = 0;
    return 0;
}

int ruleset_commit(struct ruleset *rs, struct nft_socket *socket, double now,
                   struct ruleset_stats *stats, struct error *err)
{
    bool was_known = rs->kernel_known;
    bool missed_before = rs->table_missing; /* and was not made: what is refused was offered */
    if (stats)
        memset(stats, 0, sizeof(*stats));
    if (get_ready(rs, socket, now, stats, err))
        return -1;
    rs->read_back = !was_known || rs->table_missing;
    /* What a table refused that is gone, a new one may take. */
    refusals_release(rs, rs->table_missing && !missed_before ? INFINITY : now);
    refusals_wake_frontends(rs);
    bool is_made = rs->table_missing;
    if (is_made)
        ruleset_sort_pending(rs);
    send_portion(rs, was_known, now);
    ruleset_choose_trims(rs, now);
    prepare(rs, socket);
    int result = commit_the_rest(rs, socket, now, stats, err);
    if (result) {
        rs->kernel_known = false; /* what is in force now is read back before the next try */
    } else {
        count_elements(rs);
        apply(rs, now);
        if (is_made)
            connections_restore(rs, socket);
        ruleset_collect(rs, socket, now);
    }
    ruleset_end_waiting(rs);
    rs->figures.refused = rs->refusals.all.n;
    rs->figures.left_out = rs->contents.left_out.n;
    nft_batch_clear(&rs->batch);
    return result;
}
