/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/ruleset.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/ruleset/slots.h"

#include <string.h>

struct ruleset *ruleset_new(enum family family, struct error *err)
{
    struct ruleset *rs = xcalloc(1, sizeof(*rs));
    rs->family = family;
    if (layout_parse(nft_template_base, "base.nft", family, 0, &rs->base, err)) {
        free(rs);
        return NULL;
    }
    nft_batch_init(&rs->batch, family, RULESET_TABLE);
    return rs;
}

static void record_free(struct ruleset *rs, struct record *record)
{
    HASH_DELETE(hh, rs->records, record);
    free(record->slots);
    free(record->wanted);
    free(record->plan);
    free(record);
}

void ruleset_free(struct ruleset *rs)
{
    if (!rs)
        return;
    struct record *record, *next;
    HASH_ITER(hh, rs->records, record, next)
    record_free(rs, record);
    vec_free(&rs->pending);
    vec_free(&rs->trims);
    nft_batch_release(&rs->batch);
    layout_free(&rs->base);
    free(rs);
}

/* ---- records ---- */

struct record *ruleset_record(struct ruleset *rs, const struct frontend *frontend)
{
    struct record *record;
    HASH_FIND(hh, rs->records, frontend, sizeof(*frontend), record);
    if (!record) {
        record = xcalloc(1, sizeof(*record));
        record->frontend = *frontend;
        HASH_ADD(hh, rs->records, frontend, sizeof(record->frontend), record);
    }
    return record;
}

void ruleset_mark_pending(struct ruleset *rs, struct record *record)
{
    if (record->pending)
        return;
    record->pending = true;
    vec_push(&rs->pending, record);
}

uint32_t service_value(size_t n)
{
    return (uint32_t)n; /* class 0 */
}

uint32_t record_count(const struct record *record)
{
    return record->service & UINT16_MAX;
}

static bool is_wanted(const struct record *record)
{
    return record->pending ? record->n_wanted || record->wants_reject
                           : record->service || record->rejected;
}

bool ruleset_knows_pick(const struct ruleset *rs, unsigned n)
{
    return rs->known_picks[n / 8] & 1 << n % 8;
}

void ruleset_note_pick(struct ruleset *rs, unsigned n)
{
    rs->known_picks[n / 8] |= (uint8_t)(1 << n % 8);
}

static int compare_counts(const void *a, const void *b)
{
    const unsigned *p = a, *q = b;
    return (*p > *q) - (*p < *q);
}

void ruleset_new_picks(const struct ruleset *rs, count_vec *out)
{
    uint8_t seen[sizeof(rs->known_picks)];
    memcpy(seen, rs->known_picks, sizeof(seen));
    vec_clear(out);
    vec_each (&rs->pending, it) {
        unsigned n = (*it)->n_wanted;
        if (n == 0 || seen[n / 8] & 1 << n % 8)
            continue;
        seen[n / 8] |= (uint8_t)(1 << n % 8);
        vec_push(out, n);
    }
    if (out->n)
        qsort(out->v, out->n, sizeof(*out->v), compare_counts);
}

/* ---- wanted ---- */

static void want(struct ruleset *rs, const struct frontend *frontend,
                 const struct backend *backends, size_t n, bool reject)
{
    struct record *record = ruleset_record(rs, frontend);
    rs->n_wanted -= is_wanted(record);
    free(record->wanted);
    record->wanted = NULL;
    if (n > 0) {
        record->wanted = xcalloc(n, sizeof(*backends));
        memcpy(record->wanted, backends, n * sizeof(*backends));
    }
    record->n_wanted = (uint32_t)n;
    record->wants_reject = reject;
    ruleset_mark_pending(rs, record);
    rs->n_wanted += is_wanted(record);
}

void ruleset_set(struct ruleset *rs, const struct frontend *frontend,
                 const struct backend *backends, size_t n)
{
    if (n > MAX_BACKENDS) {
        char text[FRONTEND_TEXT_SIZE];
        log_error("ruleset", "frontend=%s uses %u of its %zu endpoints: more do not fit",
                  frontend_format(frontend, text), MAX_BACKENDS, n);
        n = MAX_BACKENDS;
    }
    want(rs, frontend, backends, n, n == 0);
}

void ruleset_remove(struct ruleset *rs, const struct frontend *frontend)
{
    want(rs, frontend, NULL, 0, false);
}

size_t ruleset_frontends(const struct ruleset *rs)
{
    return rs->n_wanted;
}

/* ---- commit ---- */

double ruleset_trim_time(const struct ruleset *rs)
{
    return rs->trims.n ? rs->trim_time : 0;
}

bool ruleset_knows_kernel(const struct ruleset *rs)
{
    return rs->kernel_known;
}

bool ruleset_needs_commit(const struct ruleset *rs, double now)
{
    return !rs->kernel_known || rs->pending.n > 0 || (rs->trims.n > 0 && now >= rs->trim_time);
}

static void plan_pending(struct ruleset *rs)
{
    vec_each (&rs->pending, it) {
        struct record *record = *it;
        free(record->plan);
        record->plan = record->n_wanted ? xcalloc(record->n_wanted, sizeof(*record->plan)) : NULL;
        slots_arrange(record->slots, record->n_slots, record->wanted, record->n_wanted,
                      record->plan);
    }
}

bool trim_is_due(const struct ruleset *rs, const struct record *record, double now)
{
    return now >= rs->trim_time && now >= record->shrunk_at + RULESET_TRIM_DELAY;
}

uint32_t trim_keeps(const struct record *record)
{
    uint32_t count = record_count(record);
    return record->pending && record->n_wanted > count ? record->n_wanted : count;
}

/* What was due is gone from the kernel; the others wait on. */
static void apply_trims(struct ruleset *rs, double now)
{
    size_t waiting = 0;
    vec_each (&rs->trims, it) {
        struct record *record = *it;
        if (!trim_is_due(rs, record, now)) {
            rs->trims.v[waiting++] = record;
            continue;
        }
        if (record->n_slots > trim_keeps(record))
            record->n_slots = trim_keeps(record);
        record->trimming = false;
        if (!record->pending && record->n_slots == 0 && !is_wanted(record))
            record_free(rs, record);
    }
    rs->trims.n = waiting;
    rs->trim_time = now + RULESET_TRIM_DELAY;
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

/* What was wanted is in force. Slots beyond the new count are still there. */
static void apply_record(struct record *record)
{
    if (record->n_slots > record->n_wanted) {
        if (record->n_wanted)
            memcpy(record->slots, record->plan, record->n_wanted * sizeof(*record->slots));
        free(record->plan);
    } else {
        free(record->slots);
        record->slots = record->plan;
        record->n_slots = record->n_wanted;
    }
    record->plan = NULL;
    record->service = service_value(record->n_wanted);
    record->rejected = record->wants_reject;
    free(record->wanted);
    record->wanted = NULL;
    record->pending = false;
}

static void apply(struct ruleset *rs, double now)
{
    if (rs->trims.n > 0 && now >= rs->trim_time)
        apply_trims(rs, now);
    vec_each (&rs->pending, it) {
        struct record *record = *it;
        apply_record(record);
        if (record->n_slots > record_count(record))
            queue_trim(rs, record, now);
        else if (!is_wanted(record) && !record->trimming)
            record_free(rs, record);
    }
    vec_clear(&rs->pending);
    rs->table_missing = rs->table_replaced = false;
}

static int send_batch(struct ruleset *rs, struct nft_socket *socket, struct ruleset_stats *stats,
                      struct error *err)
{
    nft_batch_finish(&rs->batch);
    if (nft_batch_is_empty(&rs->batch))
        return 0;
    double start = clock_monotonic();
    int result = nft_socket_commit(socket, &rs->batch, err);
    if (stats)
        *stats = (struct ruleset_stats){rs->batch.elements[ELEMENT_ADD],
                                        rs->batch.elements[ELEMENT_DELETE], rs->batch.used,
                                        clock_monotonic() - start};
    return result;
}

int ruleset_commit(struct ruleset *rs, struct nft_socket *socket, double now,
                   struct ruleset_stats *stats, struct error *err)
{
    if (stats)
        memset(stats, 0, sizeof(*stats));
    if (!rs->kernel_known && ruleset_adopt(rs, socket, err))
        return -1;
    plan_pending(rs);
    int result = ruleset_encode(rs, now, err);
    if (result == 0)
        result = send_batch(rs, socket, stats, err);
    nft_batch_clear(&rs->batch);
    if (result)
        rs->kernel_known = false; /* what is in force now is read back before the next try */
    else
        apply(rs, now);
    return result;
}

int ruleset_cleanup(struct nft_socket *socket, enum family family, bool *existed, struct error *err)
{
    struct nft_table_state state;
    if (nft_socket_read_table(socket, family, RULESET_TABLE, &state, err))
        return -1;
    free(state.comment);
    *existed = state.exists;
    if (!state.exists)
        return 0;
    struct nft_batch batch;
    nft_batch_init(&batch, family, RULESET_TABLE);
    nft_batch_delete_table(&batch);
    int result = nft_socket_commit(socket, &batch, err);
    nft_batch_release(&batch);
    return result;
}
