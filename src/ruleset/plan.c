/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From what is wanted to values and slots, and what is left behind by it. */
#include "kube-nftd/base/log.h"
#include "record.h"

#include <stdlib.h>
#include <string.h>

uint32_t service_count(uint32_t value)
{
    return value & UINT16_MAX;
}

bool service_leads_to_local(uint32_t value)
{
    unsigned class_id = value >> 16 & ~(unsigned)CLASS_AFFINE;
    return class_id == CLASS_EXTERNAL_LOCAL || class_id == CLASS_CLUSTER_LOCAL;
}

/* ---- planning ---- */

static unsigned class_of(const struct ruleset *rs, uint8_t flags)
{
    if (flags & FLAG_EXTERNAL)
        return flags & FLAG_LOCAL ? CLASS_EXTERNAL_LOCAL : CLASS_MASQUERADE;
    return rs->vars.not_from_pod ? CLASS_CLUSTER : CLASS_PLAIN;
}

/* The service values for what is in @plan already; @affine is what the class gets for session
 * affinity. */
static void plan_values(const struct ruleset *rs, unsigned affine, struct frontend_plan *plan)
{
    bool cluster_local = (plan->flags & (FLAG_EXTERNAL | FLAG_LOCAL)) == FLAG_LOCAL;
    plan->all = plan->n ? service_value(class_of(rs, plan->flags) | affine, plan->n) : 0;
    plan->local = plan->n_local ? service_value(CLASS_LOCAL | affine, plan->n_local) : 0;
    if (plan->local && cluster_local)
        plan->all = service_value(CLASS_CLUSTER_LOCAL, 0);
}

static uint8_t flags_of_route(const struct route *route)
{
    unsigned flags = (route->external ? FLAG_EXTERNAL : 0) | (route->local ? FLAG_LOCAL : 0);
    if (!route->has_any)
        flags |= FLAG_REJECTED;
    else if (route->local && route->n_local == 0)
        flags |= FLAG_DROPPED;
    return (uint8_t)flags;
}

static size_t at_most_max(size_t n)
{
    return n < MAX_BACKENDS ? n : MAX_BACKENDS;
}

struct frontend_plan ruleset_plan_frontend(const struct ruleset *rs, const struct route *route,
                                           unsigned affine)
{
    struct frontend_plan plan = {.flags = flags_of_route(route)};
    if (route->has_any && (route->external || !route->local))
        plan.n = at_most_max(route->n_backends);
    if (route->has_any && route->local)
        plan.n_local = at_most_max(route->n_local);
    plan_values(rs, affine, &plan);
    return plan;
}

/* Returns what the class gets for it. */
static unsigned plan_affinity(struct ruleset *rs, struct record *record)
{
    struct extras *extras = record->extras;
    if (!extras)
        return 0;
    const struct part *local = record->local;
    if (extras->group)
        record_list_wishes(record);
    extras->affinity_id.wanted =
        affinity_hold(&rs->affinity, &rs->contents, &extras->hold, extras->group,
                      extras->affinity_id.held, record->all.wanted, record->all.n_wanted,
                      local ? local->wanted : NULL, local ? local->n_wanted : 0);
    extras->affinity_timeout.wanted = extras->affinity_id.wanted ? extras->timeout : 0;
    return extras->affinity_id.wanted ? CLASS_AFFINE : 0;
}

static void plan_restriction(struct extras *extras)
{
    if (extras)
        extras->restriction.wanted = source_list_value(extras->sources);
}

/* Changes say what is to go by what shall be in force, and it is not. */
static void say_mistake(struct ruleset *rs, const struct record *record, struct part *part)
{
    char text[FRONTEND_TEXT_SIZE];
    if (!part->mistaken)
        return;
    part->mistaken = false;
    rs->figures.mistakes++;
    log_error(
        "ruleset",
        "frontend=%s is computed from scratch: a removed endpoint is not among the applied ones",
        frontend_format(&record->frontend, text));
}

static void plan_part(struct ruleset *rs, const struct record *record, struct part *part)
{
    part_plan(part);
    say_mistake(rs, record, part);
}

static void plan_record(struct ruleset *rs, struct record *record)
{
    unsigned affine = plan_affinity(rs, record);
    plan_restriction(record->extras);
    struct part *local = record->local;
    plan_part(rs, record, &record->all);
    if (local)
        plan_part(rs, record, local);
    struct frontend_plan plan = {.flags = record->wanted_flags,
                                 .n = record->all.n_wanted,
                                 .n_local = local ? local->n_wanted : 0};
    plan_values(rs, affine, &plan);
    record->all.value.wanted = plan.all;
    if (!local)
        return;
    local->value.wanted = plan.local;
    if (!plan.local && !service_leads_to_local(plan.all)) /* packets may be on their way to it */
        local->value.wanted = local->value.held;
}

static int compare_records(const void *a, const void *b)
{
    const struct record *p = *(struct record *const *)a, *q = *(struct record *const *)b;
    int order = memcmp(&p->frontend.address, &q->frontend.address, sizeof(p->frontend.address));
    if (order == 0)
        order = (int)p->frontend.port - (int)q->frontend.port;
    return order ? order : (int)p->frontend.protocol - (int)q->frontend.protocol;
}

void ruleset_sort_pending(struct ruleset *rs)
{
    if (rs->pending.n)
        qsort(rs->pending.v, rs->pending.n, sizeof(*rs->pending.v), compare_records);
}

/* ---- lists of sources ---- */

void ruleset_fill_lists(struct ruleset *rs, size_t *most)
{
    size_t n = 0;
    vec_each (&rs->pending, it) {
        const struct extras *extras = (*it)->extras;
        if (!extras || !extras->sources ||
            source_list_fill(&rs->lists, &rs->contents, extras->sources, most))
            rs->pending.v[n++] = *it;
        else
            vec_push(&rs->waiting, *it);
    }
    rs->pending.n = n;
}

void ruleset_end_waiting(struct ruleset *rs)
{
    rs->filling = rs->waiting.n > 0 || (rs->kernel_known && rs->pending.n > 0);
    vec_each (&rs->waiting, it)
        vec_push(&rs->pending, *it);
    vec_clear(&rs->waiting);
}

void record_release_list(struct ruleset *rs, struct record *record, double now)
{
    source_lists_release(&rs->lists,
                         source_lists_find(&rs->lists, record->extras->restriction.held), now);
    set_hold_number(rs, SET_RESTRICTED, record, 0);
}

void ruleset_adopt_lists(struct ruleset *rs, double now)
{
    list_value_vec values = {0};
    hash_table_each (&rs->records, struct record, record)
        if (record->extras && record->extras->restriction.held)
            vec_push(&values, record->extras->restriction.held);
    source_lists_adopt(&rs->lists, &rs->contents, &values, now);
    hash_table_each (&rs->records, struct record, record)
        if (record->extras)
            source_list_hold(source_lists_find(&rs->lists, record->extras->restriction.held));
    vec_free(&values);
}

/* ---- all of it ---- */

/* Frontends with an id in the kernel come first, so that all of their service port get that one. */
void ruleset_plan(struct ruleset *rs)
{
    for (int known = 1; known >= 0; known--)
        vec_each (&rs->pending, it) {
            const struct extras *extras = (*it)->extras;
            if ((extras && extras->affinity_id.held) == known)
                plan_record(rs, *it);
        }
}

/* ---- shapes ---- */

static void need_shape(const struct ruleset *rs, struct shapes *seen, struct shape shape,
                       shape_vec *out)
{
    struct shape base;
    if (shapes_have(&rs->shapes, shape) || !shapes_add(seen, shape))
        return;
    vec_push(out, shape);
    if (shape_needs(shape, &base))
        need_shape(rs, seen, base, out);
}

void ruleset_new_shapes(const struct ruleset *rs, shape_vec *out)
{
    struct shapes seen = {0};
    struct shape shape;
    vec_clear(out);
    vec_each (&rs->pending, it)
        for (enum table_set set = 0; set < FRONTEND_SETS; set++)
            if (set_shape(set, set_number(set, *it).wanted, &shape))
                need_shape(rs, &seen, shape, out);
    shapes_clear(&seen);
    shapes_sort(out);
}

int ruleset_read_shape(const struct ruleset *rs, struct shape shape, struct layout *layout,
                       struct error *err)
{
    struct layout_vars vars = rs->vars;
    bool learns = shape.template == TEMPLATE_LEARN;
    vars.key = shape.key;
    vars.n = learns ? shape.key : service_count(shape.key);
    vars.pick = !learns && shape.key >> 16 & CLASS_AFFINE ? "affine-pick" : "pick";
    return layout_parse(&templates[shape.template], &vars, layout, err);
}

/* ---- what is left behind ---- */

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

uint32_t trim_keeps(const struct ruleset *rs, const struct record *record, const struct part *part)
{
    uint32_t keeps = service_count(part->value.held);
    if (record->pending)
        keeps = most(keeps, part->n_wanted);
    return part->n_slots > rs->portion ? most(keeps, part->n_slots - (uint32_t)rs->portion) : keeps;
}

bool local_is_unreachable(const struct record *record)
{
    return record->local && record->local->value.held &&
           !service_leads_to_local(record->all.value.held) &&
           !(record->pending && service_leads_to_local(record->all.value.wanted));
}

static size_t trimmed_slots(const struct ruleset *rs, const struct record *record,
                            const struct part *part)
{
    uint32_t keeps = part ? trim_keeps(rs, record, part) : 0;
    return part && part->n_slots > keeps ? part->n_slots - keeps : 0;
}

/* How many elements of @record a trim deletes; 0: nothing is left behind. */
static size_t count_trimmed(const struct ruleset *rs, const struct record *record)
{
    return trimmed_slots(rs, record, &record->all) + trimmed_slots(rs, record, record->local) +
           local_is_unreachable(record);
}

bool record_has_leftovers(const struct ruleset *rs, const struct record *record)
{
    return count_trimmed(rs, record) > 0;
}

void ruleset_choose_trims(struct ruleset *rs, double now)
{
    struct record **trims = rs->trims.v;
    rs->due_trims = 0;
    if (now < rs->trim_time)
        return;
    for (size_t i = 0, n = 0; i < rs->trims.n && n < rs->portion; i++) {
        struct record *record = trims[i];
        if (now < record->shrunk_at + RULESET_TRIM_DELAY)
            continue;
        n += 1 + count_trimmed(rs, record);
        trims[i] = trims[rs->due_trims];
        trims[rs->due_trims++] = record;
    }
}
