/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "refusals.h"

#include "kube-nftd/base.h"
#include "record.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Waits before what was refused is tried again: doubled each time. */
#define WAIT_FIRST 30.0
#define WAIT_MOST 600.0
/* So many are tried again together, and the next so many after a pause in seconds: a refusal is
 * found by sending each element alone. */
#define PORTION 256
#define PORTION_PAUSE 0.5

/* ---- putting aside ---- */

struct isolation {
    struct ruleset *ruleset;
    double now;
    size_t n; /* put aside */
};

/* The frontend that says best what a record is about; NULL if there is none. */
static const struct frontend *frontend_of(const struct ruleset *rs, const struct record *record)
{
    const struct frontend_record *frontend =
        record->is_port ? ruleset_frontend_of(rs, as_port(record)) : as_frontend(record);
    return frontend ? &frontend->frontend : NULL;
}

static void say_refused(const struct ruleset *rs, const struct refusal *refusal, int why)
{
    char text[FRONTEND_TEXT_SIZE];
    const struct frontend *frontend = frontend_of(rs, refusal->record);
    char *owner = rs->owner && frontend ? rs->owner(rs->ctx, frontend) : NULL;
    log_error(
        "ruleset",
        "frontend=%s%s%s was rejected by the kernel and keeps its previous rules, retrying in "
        "seconds=%.0f: %s",
        frontend ? frontend_format(frontend, text) : "", owner ? " service=" : "",
        owner ? owner : "", refusal->wait, strerror(why));
    free(owner);
}

static double longer(double wait)
{
    return fmin(fmax(2 * wait, WAIT_FIRST), WAIT_MOST);
}

/* The refusal of @record, made if there is none. */
static struct refusal *get_refusal(struct refusals *refusals, struct record *record)
{
    if (!record->refusal) {
        vec_push(&refusals->all, (struct refusal){.record = record});
        record->refusal = (uint32_t)refusals->all.n;
    }
    return &refusals->all.v[record->refusal - 1];
}

/* Its backends in force keep the numbers that they have in the kernel; what was planned is given
 * back first. */
static void hold_affinity_in_force(struct ruleset *rs, struct port_record *port)
{
    struct affinity *affinity = port->affinity;
    struct backends in_force[PARTS] = {{NULL, 0}};
    if (!affinity)
        return;
    affinity_release(affinity, rs->family, &rs->contents);
    if (!affinity->timeout.held)
        return;
    for (enum port_part which = 0; which < PARTS; which++) {
        const struct part *part = port_part(port, which);
        uint32_t n = part ? low_of_value(part->value.held) : 0;
        if (part)
            in_force[which] = (struct backends){part->slots, n < part->n_slots ? n : part->n_slots};
    }
    affinity_hold(affinity, rs->family, &rs->contents, port->number, &in_force[PART_ALL],
                  &in_force[PART_LOCAL]);
}

/* The wish stays a wish, by a list that does not depend on what is in force. */
static void keep_wish(struct ruleset *rs, struct record *record)
{
    if (!record->is_port) {
        struct restriction *restriction = as_frontend(record)->restriction;
        if (restriction)
            source_lists_park(&rs->lists, &rs->contents, restriction->sources, rs->portion);
        return;
    }
    if (!record->pending) /* a trim was refused: all that is wanted is in force */
        port_want_in_force(as_port(record));
    port_list_wishes(as_port(record));
    hold_affinity_in_force(rs, as_port(record));
}

static void hold_back(struct isolation *i, struct record *record, int why)
{
    struct ruleset *rs = i->ruleset;
    if (record->held_back)
        return; /* another of its elements, in the same answer */
    bool first = !record->refusal;
    struct refusal *refusal = get_refusal(&rs->refusals, record);
    keep_wish(rs, record);
    record_settle(record);
    record->held_back = true;
    refusal->wait = longer(refusal->wait);
    refusal->retry_time = i->now + refusal->wait;
    rs->figures.refusals++;
    i->n++;
    if (first)
        say_refused(rs, refusal, why);
}

static void leave_out(struct isolation *i, struct content *content, int why)
{
    struct ruleset *rs = i->ruleset;
    struct address address = {{0}};
    char text[ADDRESS_TEXT_SIZE];
    if (!content_goes(content) && !content_comes(content))
        return; /* not any more: it is out, or its service port is held back */
    contents_leave_out(&rs->contents, content);
    if (rs->refusals.retry_time <= i->now) {
        rs->refusals.wait = longer(rs->refusals.wait);
        rs->refusals.retry_time = i->now + rs->refusals.wait;
    }
    rs->figures.refusals++;
    i->n++;
    if (*set_key_fields(content_set_of(content)) == FIELD_CLASSID)
        return; /* of a service port that was said to be refused */
    memcpy(address.bytes, content_key(content), address_length(rs->family));
    log_error("ruleset", "set=%s address=%s was rejected by the kernel and is quarantined: %s",
              set_name(content_set_of(content)), address_format(rs->family, &address, text),
              strerror(why));
}

/* ---- whose it is ---- */

void refusals_note_owner(struct ruleset *rs, struct record *record, struct content *content)
{
    if (!rs->batch.singly)
        return;
    nft_batch_finish(&rs->batch);
    vec_push(&rs->refusals.owners, (struct message_owner){rs->batch.used, record, content});
}

/* Messages without an owner of their own are those of the one before, or come before all. */
static const struct message_owner *owner_of(const struct refusals *refusals, size_t message)
{
    size_t from = 0, to = refusals->owners.n;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (refusals->owners.v[middle].begin <= message)
            from = middle + 1;
        else
            to = middle;
    }
    return from > 0 ? &refusals->owners.v[from - 1] : NULL;
}

static bool lacks_list(const struct record *record, uint32_t value)
{
    const struct restriction *restriction =
        record->is_port ? NULL : as_frontend(record)->restriction;
    return restriction && restriction->number.held != value && !record->held_back &&
           source_list_value(restriction->sources) == value;
}

/* A list that lacks something is none that a frontend can be led to. */
static void blame_list(struct isolation *i, struct content *content, int why)
{
    struct ruleset *rs = i->ruleset;
    uint32_t list;
    struct cidr prefix;
    if (!source_of_key(rs->family, content_key(content), content->key_length, &list, &prefix))
        return;
    for (size_t at = 0; at < rs->pending.n; at++)
        if (lacks_list(rs->pending.v[at], value_of_list(list)))
            hold_back(i, rs->pending.v[at], why);
    vec_each (&rs->waiting, it)
        if (lacks_list(*it, value_of_list(list)))
            hold_back(i, *it, why);
    if (content->wanted)
        leave_out(i, content, why);
}

/* The service port that a content is a number of affinity of, or NULL. */
static struct record *port_of_content(const struct ruleset *rs, const struct content *content)
{
    uint32_t number;
    if (*set_key_fields(content_set_of(content)) != FIELD_CLASSID)
        return NULL;
    memcpy(&number, content_key(content), sizeof(number));
    struct port_record *port = ruleset_port_of_number(rs, port_of_value(number));
    return port ? &port->record : NULL;
}

static void blame_content(struct isolation *i, struct content *content, int why)
{
    struct record *port = port_of_content(i->ruleset, content);
    if (port && port->pending) {
        hold_back(i, port, why);
    } else if (content_set_of(content) == SET_ALLOWED_SOURCES) {
        blame_list(i, content, why);
    } else {
        leave_out(i, content, why);
    }
}

/* Whether a shape, or what it builds on, is @which, or if that is NULL a new one. */
static bool is_built_on(const struct ruleset *rs, struct shape shape, const struct shape *which)
{
    struct shape base;
    if (which ? memcmp(&shape, which, sizeof(shape)) == 0 : !shapes_have(&rs->shapes, shape))
        return true;
    return shape_needs(shape, &base) && is_built_on(rs, base, which);
}

/* Whether a planned record needs a shape; any new one if that is NULL. */
static bool needs_shape(const struct ruleset *rs, const struct record *record,
                        const struct shape *which)
{
    struct shape shape;
    for (enum table_set set = 0; set < NUMBER_SETS; set++)
        if (set_is_of(set, record) && set_shape(set, set_number(set, record).wanted, &shape) &&
            is_built_on(rs, shape, which))
            return true;
    return false;
}

static void blame_shape(struct isolation *i, const struct shape *shape, int why)
{
    struct ruleset *rs = i->ruleset;
    for (size_t at = 0; at < rs->pending.n; at++)
        if (!rs->pending.v[at]->held_back && needs_shape(rs, rs->pending.v[at], shape))
            hold_back(i, rs->pending.v[at], why);
}

static void blame(struct isolation *i, const struct nft_refusal *refusal)
{
    struct ruleset *rs = i->ruleset;
    if (refusal->message == NFT_NO_MESSAGE) { /* it did not like the table as a whole */
        if (!rs->table_missing)
            blame_shape(i, NULL, refusal->why);
        return;
    }
    if (refusal->message < rs->shapes_begin)
        return; /* what all others build on */
    vec_each (&rs->new_shapes, it)
        if (refusal->message < it->end) {
            blame_shape(i, &it->shape, refusal->why);
            return;
        }
    const struct message_owner *owner = owner_of(&rs->refusals, refusal->message);
    if (owner && owner->record)
        hold_back(i, owner->record, refusal->why);
    else if (owner)
        blame_content(i, owner->content, refusal->why);
}

/* Whether an errno may be about what was sent, and not about the kernel's state. */
static bool is_about_content(int why)
{
    static const int others[] = {EEXIST, ENOENT, EPERM, EACCES,   ENOMEM,   ENOBUFS,
                                 EINTR,  EAGAIN, EBUSY, ERESTART, ETIMEDOUT};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (why == others[i])
            return false;
    return true;
}

/* When the first of all is to be tried again. */
static void note_next(struct refusals *refusals)
{
    double next = refusals->retry_time;
    vec_each (&refusals->all, it)
        if (it->record->held_back && (next == 0 || it->retry_time < next))
            next = it->retry_time;
    refusals->next = next;
}

/* Nor do lists have any more what is held back. */
static void drop_held_back(struct ruleset *rs)
{
    size_t n = 0;
    vec_each (&rs->pending, it)
        if (!(*it)->held_back)
            rs->pending.v[n++] = *it;
    rs->pending.n = n;
    n = 0;
    vec_each (&rs->waiting, it)
        if (!(*it)->held_back)
            rs->waiting.v[n++] = *it;
    rs->waiting.n = n;
}

/* What is held back is not trimmed either. */
static void stop_trims(struct ruleset *rs)
{
    size_t n = 0, due = 0;
    for (size_t i = 0; i < rs->trims.n; i++) {
        struct port_record *port = rs->trims.v[i];
        port->record.trimming = !port->record.held_back;
        due += port->record.trimming && i < rs->due_trims;
        if (port->record.trimming)
            rs->trims.v[n++] = port;
    }
    rs->trims.n = n;
    rs->due_trims = due;
}

/* The numbers that were planned are given back: who keeps those in force is another one now. */
static void release_affinity(struct ruleset *rs)
{
    vec_each (&rs->pending, it) {
        struct affinity *affinity = (*it)->is_port ? as_port(*it)->affinity : NULL;
        if (affinity)
            affinity_release(affinity, rs->family, &rs->contents);
    }
}

bool refusals_isolate(struct ruleset *rs, double now, bool singly)
{
    struct isolation i = {.ruleset = rs, .now = now};
    bool some_about_content = false;
    vec_each (&rs->batch.refusals, refusal) {
        if (!is_about_content(refusal->why))
            continue;
        some_about_content = true;
        if (singly)
            blame(&i, refusal);
    }
    drop_held_back(rs);
    stop_trims(rs);
    release_affinity(rs);
    note_next(&rs->refusals);
    return i.n > 0 || (some_about_content && !singly);
}

/* ---- again ---- */

void refusals_retry(struct record *record)
{
    struct restriction *restriction = record->is_port ? NULL : as_frontend(record)->restriction;
    if (record->held_back && restriction)
        source_lists_unpark(restriction->sources);
    record->held_back = false;
}

void refusals_release(struct ruleset *rs, double now)
{
    struct refusals *refusals = &rs->refusals;
    if (refusals->next == 0 || now < refusals->next)
        return;
    size_t n = 0, portion = isinf(now) ? SIZE_MAX : PORTION;
    vec_each (&refusals->all, it) {
        if (!it->record->held_back || now < it->retry_time)
            continue;
        if (n++ < portion) {
            refusals_retry(it->record);
            ruleset_mark_pending(rs, it->record);
        } else {
            it->retry_time = now + PORTION_PAUSE;
        }
    }
    if (refusals->retry_time != 0 && now >= refusals->retry_time) {
        contents_let_in(&rs->contents);
        refusals->retry_time = 0;
    }
    note_next(refusals);
}

void refusals_wait_for_port(struct ruleset *rs, struct frontend_record *frontend)
{
    if (!frontend->waits_for_port)
        vec_push(&rs->refusals.frontends, frontend);
    frontend->waits_for_port = true;
}

void refusals_stop_waiting(struct ruleset *rs, struct frontend_record *frontend)
{
    size_t n = 0;
    if (!frontend->waits_for_port)
        return;
    frontend->waits_for_port = false;
    vec_each (&rs->refusals.frontends, it)
        if ((*it)->waits_for_port)
            rs->refusals.frontends.v[n++] = *it;
    rs->refusals.frontends.n = n;
}

void refusals_wake_frontends(struct ruleset *rs)
{
    size_t n = 0;
    vec_each (&rs->refusals.frontends, it) {
        struct frontend_record *frontend = *it;
        frontend->waits_for_port = frontend->port && frontend->port->record.held_back;
        if (frontend->waits_for_port)
            rs->refusals.frontends.v[n++] = frontend;
        else
            ruleset_mark_pending(rs, &frontend->record);
    }
    rs->refusals.frontends.n = n;
}

void refusals_settled(struct ruleset *rs)
{
    struct refusals *refusals = &rs->refusals;
    if (rs->contents.left_out.n == 0 && refusals->wait != 0) {
        refusals->wait = refusals->retry_time = 0;
        log_info("ruleset", "family=%s no address is quarantined any more",
                 nft_family_name(rs->family));
    }
    if (refusals->next != 0)
        note_next(refusals);
}

static void forget(struct refusals *refusals, struct record *record)
{
    struct refusal last = refusals->all.v[--refusals->all.n];
    refusals_retry(record);
    if (last.record != record) {
        last.record->refusal = record->refusal;
        refusals->all.v[last.record->refusal - 1] = last;
    }
    record->refusal = 0;
}

void refusals_end(struct ruleset *rs, struct record *record)
{
    char text[FRONTEND_TEXT_SIZE];
    if (!record->refusal)
        return;
    const struct frontend *frontend = frontend_of(rs, record);
    log_info("ruleset", "frontend=%s is applied now, after the kernel had rejected it",
             frontend ? frontend_format(frontend, text) : "");
    forget(&rs->refusals, record);
}

void refusals_free(struct ruleset *rs)
{
    while (rs->refusals.all.n > 0)
        forget(&rs->refusals, rs->refusals.all.v[rs->refusals.all.n - 1].record);
    vec_free(&rs->refusals.all);
    vec_free(&rs->refusals.frontends);
    vec_free(&rs->refusals.owners);
}

/* ---- order ---- */

static bool grows(const struct record *record)
{
    bool grows = false;
    for (enum table_set set = 0; set < NUMBER_SETS && !grows; set++) {
        if (!set_is_of(set, record))
            continue;
        struct set_number number = set_number(set, record);
        grows = number.wanted && !number.held;
    }
    return grows;
}

void refusals_sort_pending(struct ruleset *rs)
{
    size_t n = rs->pending.n, at = 0;
    struct record **sorted = xcalloc(n ? n : 1, sizeof(struct record *));
    for (int growing = 0; growing < 2; growing++)
        vec_each (&rs->pending, it)
            if (grows(*it) == growing)
                sorted[at++] = *it;
    if (n)
        memcpy(rs->pending.v, sorted, n * sizeof(struct record *));
    free(sorted);
}
