/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rules of fake_kernel.h for each transaction. */
#include "fake_kernel_parts.h"

#include "kube-nftd/ruleset/ruleset.h"

#include <string.h>

#define CLASS_EXTERNAL_LOCAL 2
#define CLASS_LOCAL 3
#define CLASS_CLUSTER_LOCAL 5

const struct fake_part fake_parts[FAKE_PARTS] = {
    {"services", "endpoints", "picks", "affinity_backends"},
    {"local_services", "local_endpoints", "local_picks", "local_affinity_backends"},
};

uint32_t fake_class(const struct fake_element *service)
{
    return fake_u32(service->data) >> 16;
}

uint32_t fake_count(const struct fake_element *service)
{
    return service ? fake_u32(service->data) & UINT16_MAX : 0;
}

const struct fake_element *fake_find_like(const struct fake_table *table, const char *set,
                                          const struct fake_element *like)
{
    return fake_find(table, set, like->key, like->key_length);
}

const struct fake_element *fake_find_slot(const struct fake_table *table, const char *endpoints,
                                          const struct fake_element *service, uint32_t slot)
{
    struct fake_key key = fake_join(service->key, service->key_length, &slot, sizeof(slot));
    return fake_find(table, endpoints, key.bytes, key.length);
}

/* ---- rules for single elements: what is wrong, or NULL ---- */

typedef const char *(*rule_fn)(const struct fake_table *table, const struct fake_element *e);

static bool leads_somewhere(const struct fake_table *table, const char *picks, const uint8_t *value)
{
    const struct fake_element *pick = fake_find(table, picks, value, sizeof(uint32_t));
    return pick && fake_has_rules(table, pick->chain);
}

static const char *judge_affinity(const struct fake_table *table, const struct fake_element *e)
{
    if (!(fake_class(e) & FAKE_AFFINITY))
        return NULL;
    const struct fake_element *id = fake_find_like(table, "affinity_ids", e);
    const struct fake_element *timeout = fake_find_like(table, "affinity_timeouts", e);
    if (!id || fake_u32(id->data) == 0 || fake_count(id) != 0)
        return "no affinity id";
    if (!timeout || fake_u32(timeout->data) == 0)
        return "no affinity timeout";
    return leads_somewhere(table, "learners", timeout->data) ? NULL : "no learner";
}

static bool is_cluster_local(const struct fake_element *service)
{
    return fake_u32(service->data) == CLASS_CLUSTER_LOCAL << 16;
}

/* Whether a value of services has packets looked up in local_services too. */
static bool is_for_local(const struct fake_element *service)
{
    return is_cluster_local(service) ||
           (fake_class(service) & ~(uint32_t)FAKE_AFFINITY) == CLASS_EXTERNAL_LOCAL;
}

static const char *judge_service(const struct fake_table *table, const struct fake_element *e)
{
    uint32_t plain = fake_class(e) & ~(uint32_t)FAKE_AFFINITY;
    if (!is_cluster_local(e) && plain != 0 && plain != 1 && plain != 2 && plain != 4)
        return "an unknown class";
    if (!leads_somewhere(table, "picks", e->data))
        return "no pick chain";
    if (is_for_local(e) && !fake_find_like(table, "local_services", e) &&
        !fake_find_like(table, "drop_frontends", e))
        return "neither local backends nor a drop";
    return judge_affinity(table, e);
}

bool fake_is_led_to(const struct fake_table *table, const struct fake_element *local_service)
{
    const struct fake_element *service = fake_find_like(table, "services", local_service);
    return service && is_for_local(service);
}

static const char *judge_local_service(const struct fake_table *table, const struct fake_element *e)
{
    if ((fake_class(e) & ~(uint32_t)FAKE_AFFINITY) != CLASS_LOCAL)
        return "an unknown class";
    if (!leads_somewhere(table, "local_picks", e->data))
        return "no pick chain";
    return fake_is_led_to(table, e) ? judge_affinity(table, e) : NULL;
}

/* P:B -> backend, if it is there, is the reverse of (P:0, backend) -> P:B. */
static bool agrees(const struct fake_table *table, const char *backends,
                   const struct fake_element *number)
{
    const struct fake_element *e = fake_find(table, backends, number->data, sizeof(uint32_t));
    size_t length = number->key_length - sizeof(uint32_t);
    return !e || (e->data_length == length &&
                  memcmp(e->data, number->key + sizeof(uint32_t), length) == 0);
}

static const char *judge_number(const struct fake_table *table, const struct fake_element *e)
{
    uint32_t port = fake_u32(e->key), number = fake_u32(e->data);
    if ((port & UINT16_MAX) != 0 || (number & UINT16_MAX) == 0 || port >> 16 != number >> 16)
        return "an affinity number of another service port";
    for (int i = 0; i < FAKE_PARTS; i++)
        if (!agrees(table, fake_parts[i].backends, e))
            return "an affinity number of another backend";
    return NULL;
}

/* What nothing leads to any more is deleted soon: what somebody else made of it may stay so. */
static bool is_out_of_use(const struct fake_table *table, const char *set,
                          const struct fake_element *e)
{
    return strcmp(set, fake_parts[1].services) == 0 && !fake_is_led_to(table, e);
}

/* What was wrong before may stay so for some pieces of a batch. */
static bool was_wrong(const struct fake_table *before, const char *set, rule_fn rule,
                      const struct fake_element *e, const char *why)
{
    const struct fake_element *old = fake_find_like(before, set, e);
    const char *old_why = old ? rule(before, old) : NULL;
    return old_why && strcmp(old_why, why) == 0;
}

static void check_elements(const struct fake_table *before, const struct fake_table *after,
                           const char *set, rule_fn rule, bool cuts, fake_violated_fn violated)
{
    for (const struct fake_element *e = fake_first(after, set); e; e = e->hh.next) {
        const char *why = rule(after, e);
        bool may_stay = cuts || is_out_of_use(after, set, e);
        if (why && !(may_stay && was_wrong(before, set, rule, e, why)))
            violated(why, e);
    }
}

/* ---- slots ---- */

/* A hole that somebody made before may stay for some pieces of a batch. */
static bool was_hole(const struct fake_table *before, const struct fake_part *part,
                     const struct fake_element *service, uint32_t slot)
{
    return slot < fake_count(fake_find_like(before, part->services, service)) &&
           !fake_find_slot(before, part->endpoints, service, slot);
}

static void check_counts(const struct fake_table *before, const struct fake_table *after,
                         const struct fake_part *part, bool cuts, fake_violated_fn violated)
{
    for (const struct fake_element *e = fake_first(after, part->services); e; e = e->hh.next) {
        bool may_stay = cuts || is_out_of_use(after, part->services, e);
        for (uint32_t i = 0; i < fake_count(e); i++)
            if (!fake_find_slot(after, part->endpoints, e, i) &&
                !(may_stay && was_hole(before, part, e, i)))
                violated("no slot", e);
    }
}

/* No packet gets to a local count that nothing leads to. */
static bool is_reached(const struct fake_table *table, const struct fake_part *part,
                       const struct fake_element *slot)
{
    size_t length = slot->key_length - sizeof(uint32_t);
    const struct fake_element *service = fake_find(table, part->services, slot->key, length);
    return fake_u32(slot->key + length) < fake_count(service) &&
           (part == &fake_parts[0] || fake_is_led_to(table, service));
}

static void check_slots_outlive(const struct fake_table *before, const struct fake_table *after,
                                const struct fake_part *part, double now, fake_violated_fn violated)
{
    for (const struct fake_element *e = fake_first(before, part->endpoints); e; e = e->hh.next) {
        if (fake_find_like(after, part->endpoints, e))
            continue;
        if (is_reached(before, part, e))
            violated("a slot went with its count", e);
        else if (now < e->unused_since + RULESET_TRIM_DELAY)
            violated("a slot went too early", e);
    }
}

static void note_unused_slots(const struct fake_table *before, struct fake_table *after,
                              const struct fake_part *part, double now)
{
    for (struct fake_element *e = fake_first(after, part->endpoints); e; e = e->hh.next) {
        const struct fake_element *old = fake_find_like(before, part->endpoints, e);
        bool was_used = !old || is_reached(before, part, old);
        e->unused_since = was_used ? now : old->unused_since;
    }
}

/* ---- ranges ---- */

/* Starts and ends in turn. The last range may reach to the top. The first
 * element that does not fit, or NULL. */
static const struct fake_element *odd_end(const struct fake_set *set)
{
    fake_element_refs refs = {0};
    const struct fake_element *odd = NULL;
    fake_sorted(set, &refs);
    for (size_t i = 0; i < refs.n && !odd; i++)
        if (refs.v[i]->is_end != (i % 2 == 1))
            odd = refs.v[i];
    vec_free(&refs);
    return odd;
}

/* The kernel takes some ranges that it then does not look up, or delete, as one would think. */
static void check_ranges(const struct fake_table *before, const struct fake_table *after,
                         fake_violated_fn violated)
{
    vec_each (&after->sets, set) {
        const struct fake_set *old = fake_find_set(before, set->name);
        const struct fake_element *odd = NULL;
        if (set->interval && !(old && odd_end(old)))
            odd = odd_end(set);
        if (odd)
            violated("ranges overlap or have no end", odd);
    }
}

/* ---- source ranges ---- */

uint32_t fake_list_of(const struct fake_element *source)
{
    return fake_u32(source->key + source->key_length - sizeof(uint32_t)) & ~0xffu;
}

unsigned fake_prefix_length(const struct fake_element *source)
{
    return fake_u32(source->key + source->key_length - sizeof(uint32_t)) & 0xff;
}

/* Whether a frontend is led to the list of an element of allowed_sources. */
static bool is_in_use(const struct fake_table *table, const struct fake_element *source)
{
    for (const struct fake_element *e = fake_first(table, "restricted"); e; e = e->hh.next)
        if (fake_u32(e->data) == fake_list_of(source))
            return true;
    return false;
}

/* What another program put there goes at once. */
static void check_sources_outlive(const struct fake_table *before, const struct fake_table *after,
                                  double now, fake_violated_fn violated)
{
    for (const struct fake_element *e = fake_first(before, "allowed_sources"); e; e = e->hh.next) {
        if (e->foreign || fake_find_like(after, "allowed_sources", e) || is_in_use(after, e))
            continue;
        if (is_in_use(before, e))
            violated("sources went with their frontend", e);
        else if (now < e->unused_since + RULESET_TRIM_DELAY)
            violated("sources went too early", e);
    }
}

/* What was never in use was not met by any packet. */
static void note_unused_sources(const struct fake_table *before, struct fake_table *after,
                                double now)
{
    for (struct fake_element *e = fake_first(after, "allowed_sources"); e; e = e->hh.next) {
        const struct fake_element *old = fake_find_like(before, "allowed_sources", e);
        e->unused_since = old && is_in_use(before, old) ? now : old ? old->unused_since : -1;
    }
}

/* ---- transactions ---- */

void fake_check_transaction(const struct fake_table *before, struct fake_table *after, double now,
                            bool cuts, fake_violated_fn violated)
{
    check_elements(before, after, "services", judge_service, cuts, violated);
    check_elements(before, after, "local_services", judge_local_service, cuts, violated);
    check_elements(before, after, "affinity_numbers", judge_number, cuts, violated);
    check_ranges(before, after, violated);
    for (int i = 0; i < FAKE_PARTS; i++) {
        check_counts(before, after, &fake_parts[i], cuts, violated);
        if (after->exists && !after->anew)
            check_slots_outlive(before, after, &fake_parts[i], now, violated);
        note_unused_slots(before, after, &fake_parts[i], now);
    }
    if (after->exists && !after->anew)
        check_sources_outlive(before, after, now, violated);
    note_unused_sources(before, after, now);
}
