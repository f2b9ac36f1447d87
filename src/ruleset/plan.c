/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From what is wanted to values and slots, and what is left behind by it. */
#include "kube-nftd/ruleset/record.h"

#include <string.h>

int compare_sources(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct address_range));
}

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
    if (route->sources)
        flags |= FLAG_RESTRICTED;
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
    extras->wants_id = affinity_hold(&rs->affinity, &rs->contents, &extras->hold, extras->group,
                                     extras->affinity_id, record->all.wanted, record->all.n_wanted,
                                     local ? local->wanted : NULL, local ? local->n_wanted : 0);
    extras->wants_timeout = extras->wants_id ? extras->timeout : 0;
    return extras->wants_id ? CLASS_AFFINE : 0;
}

static void plan_record(struct ruleset *rs, struct record *record)
{
    unsigned affine = plan_affinity(rs, record);
    struct part *local = record->local;
    struct frontend_plan plan = {.flags = record->wanted_flags,
                                 .n = record->all.n_wanted,
                                 .n_local = local ? local->n_wanted : 0};
    plan_values(rs, affine, &plan);
    record->all.wants = plan.all;
    part_plan(&record->all);
    if (!local)
        return;
    local->wants = plan.local;
    part_plan(local);
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

/* Frontends with an id in the kernel come first, so that all of their service port get that one. */
void ruleset_plan(struct ruleset *rs)
{
    for (int known = 1; known >= 0; known--)
        vec_each (&rs->pending, it) {
            const struct extras *extras = (*it)->extras;
            if ((extras && extras->affinity_id) == known)
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

static void need_service(const struct ruleset *rs, struct shapes *seen, uint32_t value,
                         shape_vec *out)
{
    struct shape shape;
    if (shape_of_service(value, &shape))
        need_shape(rs, seen, shape, out);
}

void ruleset_new_shapes(const struct ruleset *rs, shape_vec *out)
{
    struct shapes seen = {0};
    vec_clear(out);
    vec_each (&rs->pending, it) {
        const struct record *record = *it;
        need_service(rs, &seen, record->all.wants, out);
        if (record->local)
            need_service(rs, &seen, record->local->wants, out);
        if (record->extras && record->extras->wants_timeout)
            need_shape(rs, &seen, shape_of_timeout(record->extras->wants_timeout), out);
        if (record->wanted_flags & FLAG_RESTRICTED)
            need_shape(rs, &seen, shape_of_source_ranges(), out);
    }
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

bool trim_is_due(const struct ruleset *rs, const struct record *record, double now)
{
    return now >= rs->trim_time && now >= record->shrunk_at + RULESET_TRIM_DELAY;
}

uint32_t trim_keeps(const struct record *record, const struct part *part)
{
    uint32_t count = service_count(part->service);
    return record->pending && part->n_wanted > count ? part->n_wanted : count;
}

bool local_is_unreachable(const struct record *record)
{
    return record->local && record->local->service &&
           !service_leads_to_local(record->all.service) &&
           !(record->pending && service_leads_to_local(record->all.wants));
}

bool sources_are_unreachable(const struct record *record)
{
    return record->extras && record->extras->sources.n > 0 &&
           !((record->flags | record->wanted_flags) & FLAG_RESTRICTED);
}

static bool has_more_slots(const struct record *record, const struct part *part)
{
    return part->n_slots > trim_keeps(record, part);
}

bool record_has_leftovers(const struct record *record)
{
    return has_more_slots(record, &record->all) || local_is_unreachable(record) ||
           (record->local && has_more_slots(record, record->local)) ||
           sources_are_unreachable(record);
}
