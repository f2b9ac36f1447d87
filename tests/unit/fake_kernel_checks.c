/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rules of fake_kernel.h for each transaction. */
#include "fake_kernel_state.h"

#include "kube-nftd/base.h"
#include "kube-nftd/table.h"
#include "table/element.h"

#include <string.h>

const struct fake_part fake_parts[FAKE_PARTS] = {
    {"ports", "endpoints", "picks", "affinity_backends"},
    {"local_ports", "local_endpoints", "local_picks", "local_affinity_backends"},
};

uint32_t fake_port(const uint8_t *bytes)
{
    return port_of_value(fake_u32(bytes));
}

uint32_t fake_low(const uint8_t *bytes)
{
    return low_of_value(fake_u32(bytes));
}

uint32_t fake_class(const uint8_t *bytes)
{
    return class_of_value(fake_u32(bytes));
}

static bool is_counted(const struct fake_element *service)
{
    return value_is_counted(fake_u32(service->data));
}

uint32_t fake_count(const struct fake_element *port)
{
    return port ? fake_low(port->data) : 0;
}

bool fake_leads_to(const struct fake_element *service, const struct fake_part *part)
{
    const uint32_t class = fake_class(service->data);
    if (part == &fake_parts[1])
        return class & CLASS_LOCAL;
    return !(class & CLASS_LOCAL) || class & CLASS_EXTERNAL; /* by the short-circuit */
}

const struct fake_element *fake_find_like(const struct fake_table *table, const char *set,
                                          const struct fake_element *like)
{
    return fake_find(table, set, like->key, like->key_length);
}

const struct fake_element *fake_find_port(const struct fake_table *table, const char *set,
                                          uint32_t key)
{
    return fake_find(table, set, &key, sizeof(key));
}

const struct fake_element *fake_find_slot(const struct fake_table *table, const char *endpoints,
                                          uint32_t port, uint32_t slot)
{
    struct fake_key key = fake_join(&port, sizeof(port), &slot, sizeof(slot));
    return fake_find(table, endpoints, key.bytes, key.length);
}

uint32_t fake_reaches(const struct fake_table *table, const struct fake_element *service,
                      const struct fake_part *part)
{
    if (is_counted(service))
        return part == &fake_parts[0] ? fake_low(service->data) : 0;
    return fake_count(fake_find_port(table, part->ports, fake_port(service->data)));
}

/* ---- what leads where ---- */

/* By P: a bit for each part that frontends in services lead to by its count, and one for restricted
 * ones; the highest count that they have themselves. */
#define LED_RESTRICTED (1u << FAKE_PARTS)
struct leads {
    uint8_t parts[MOST_PORTS + 1];
    uint16_t counts[MOST_PORTS + 1];
};

static void note_lead(struct leads *leads, const struct fake_element *service)
{
    const uint32_t p = fake_port(service->data) >> PORT_LOW_BITS, n = fake_low(service->data);
    if (is_counted(service)) {
        leads->counts[p] = (uint16_t)(n > leads->counts[p] ? n : leads->counts[p]);
        return;
    }
    for (unsigned i = 0; i < FAKE_PARTS; i++)
        if (fake_leads_to(service, &fake_parts[i]))
            leads->parts[p] |= (uint8_t)(1u << i);
    if (fake_class(service->data) & CLASS_RESTRICTED)
        leads->parts[p] |= LED_RESTRICTED;
}

static struct leads *find_leads(const struct fake_table *table)
{
    struct leads *leads = xcalloc(1, sizeof(*leads));
    hash_table_each (fake_elements(table, "services"), const struct fake_element, e)
        note_lead(leads, e);
    return leads;
}

static bool is_led_to(const struct leads *leads, const struct fake_part *part, uint32_t port)
{
    return leads->parts[port >> PORT_LOW_BITS] & 1u << (part - fake_parts);
}

/* One transaction. */
struct step {
    const struct fake_table *before;
    struct fake_table *after;
    struct leads *leads_before, *leads_after;
    double now;
    bool cuts, stays; /* what was broken may stay so */
    fake_violated_fn violated;
};

/* ---- rules for single elements: what is wrong, or NULL ---- */

struct rule {
    const char *set;
    const char *(*judge)(const struct fake_table *table, const struct fake_element *e,
                         const struct fake_part *part);
    const struct fake_part *part;
};

static bool leads_somewhere(const struct fake_table *table, const char *map, uint32_t key)
{
    const struct fake_element *verdict = fake_find(table, map, &key, sizeof(key));
    return verdict && fake_has_rules(table, verdict->chain);
}

/* What a packet meets that a frontend sends to a part: backends, or a refusal. */
static bool is_answered(const struct fake_table *table, const struct fake_part *part, uint32_t port)
{
    return fake_find_port(table, part->ports, port) ||
           fake_find_port(table, "rejected_ports", port) ||
           (part == &fake_parts[1] && fake_find_port(table, "dropped_ports", port | CLASS_LOCAL));
}

#define NO_TIMEOUT "no affinity timeout"

static const char *judge_affinity(const struct fake_table *table, uint32_t port)
{
    const struct fake_element *timeout = fake_find_port(table, "affinity_timeouts", port);
    const uint32_t seconds = timeout ? timeout_of_value(fake_u32(timeout->data)) : 0;
    if (seconds == 0)
        return NO_TIMEOUT;
    return leads_somewhere(table, "learners", seconds) ? NULL : "no learner";
}

static const char *judge_restriction(const struct fake_table *table, uint32_t port)
{
    if (!fake_find_port(table, "source_lists", port))
        return "no source list";
    return leads_somewhere(table, "checks", CLASS_RESTRICTED) ? NULL : "no check";
}

static const char *judge_service(const struct fake_table *table, const struct fake_element *e,
                                 const struct fake_part *part)
{
    const uint32_t port = fake_port(e->data), class = fake_class(e->data), n = fake_low(e->data);
    if (port == 0)
        return "no service port";
    if (is_counted(e) && n > 0)
        return leads_somewhere(table, "picks", n) ? NULL : "no pick chain";
    if (is_counted(e))
        return fake_find_port(table, "rejected_ports", port) ? NULL
                                                             : "neither backends nor a reject";
    for (unsigned i = 0; i < FAKE_PARTS; i++)
        if (fake_leads_to(e, &fake_parts[i]) && !is_answered(table, &fake_parts[i], port))
            return i == 0 ? "neither backends nor a reject" : "neither local backends nor a drop";
    const char *why = class & CLASS_RESTRICTED ? judge_restriction(table, port) : NULL;
    return !why && class & CLASS_AFFINE ? judge_affinity(table, port) : why;
}

static const char *judge_count(const struct fake_table *table, const struct fake_element *e,
                               const struct fake_part *part)
{
    if (fake_low(e->key) != 0 || fake_port(e->key) != fake_port(e->data))
        return "the number of another service port";
    return fake_count(e) && leads_somewhere(table, part->picks, fake_count(e)) ? NULL
                                                                               : "no pick chain";
}

/* P:B -> backend, if it is there, is the reverse of (P, backend) -> P:B. */
static bool agrees(const struct fake_table *table, const char *backends,
                   const struct fake_element *number)
{
    const struct fake_element *e = fake_find(table, backends, number->data, sizeof(uint32_t));
    size_t length = number->key_length - sizeof(uint32_t);
    return !e || (e->data_length == length &&
                  memcmp(e->data, number->key + sizeof(uint32_t), length) == 0);
}

static const char *judge_number(const struct fake_table *table, const struct fake_element *e,
                                const struct fake_part *part)
{
    if (fake_low(e->key) != 0 || fake_low(e->data) == 0 || fake_port(e->key) != fake_port(e->data))
        return "an affinity number of another service port";
    for (int i = 0; i < FAKE_PARTS; i++)
        if (!agrees(table, fake_parts[i].backends, e))
            return "an affinity number of another backend";
    return NULL;
}

/* What nothing leads to any more is deleted soon: what somebody else made of it may stay so. */
static bool is_out_of_use(const struct step *step, const char *set, const struct fake_element *e)
{
    for (unsigned i = 0; i < FAKE_PARTS; i++)
        if (strcmp(set, fake_parts[i].ports) == 0)
            return !is_led_to(step->leads_after, &fake_parts[i], fake_port(e->key));
    return false;
}

/* A service port may lose its affinity before the frontends that were told to have it: those that
 * are applied, and new ones of a commit that failed meanwhile. */
static bool just_lost_affinity(const struct step *step, const char *set,
                               const struct fake_element *e)
{
    const struct fake_element *old = fake_find_like(step->before, set, e);
    return strcmp(set, "services") == 0 && (!old || fake_u32(old->data) == fake_u32(e->data)) &&
           !fake_find_port(step->after, "affinity_timeouts", fake_port(e->data));
}

/* What was wrong before may stay so for some pieces of a batch. */
static bool was_wrong(const struct fake_table *before, const struct rule *rule,
                      const struct fake_element *e, const char *why)
{
    const struct fake_element *old = fake_find_like(before, rule->set, e);
    const char *old_why = old ? rule->judge(before, old, rule->part) : NULL;
    return old_why && strcmp(old_why, why) == 0;
}

static void check_elements(const struct step *step, const struct rule *rule)
{
    hash_table_each (fake_elements(step->after, rule->set), const struct fake_element, e) {
        const char *why = rule->judge(step->after, e, rule->part);
        bool may_stay = step->stays || (why && is_out_of_use(step, rule->set, e));
        if (why && strcmp(why, NO_TIMEOUT) == 0 && just_lost_affinity(step, rule->set, e))
            continue;
        if (why && !(may_stay && was_wrong(step->before, rule, e, why)))
            step->violated(why, e);
    }
}

/* ---- slots, and how many there are ---- */

/* A hole that somebody made before may stay for some pieces of a batch. */
static bool was_hole(const struct step *step, const struct fake_part *part, uint32_t port,
                     uint32_t slot)
{
    const uint32_t own =
        part == &fake_parts[0] ? step->leads_before->counts[port >> PORT_LOW_BITS] : 0;
    return (slot < fake_count(fake_find_port(step->before, part->ports, port)) || slot < own) &&
           !fake_find_slot(step->before, part->endpoints, port, slot);
}

static void check_slots_of(const struct step *step, const struct fake_part *part,
                           const struct fake_element *e, uint32_t port, bool may_stay)
{
    for (uint32_t i = 0; i < fake_low(e->data); i++)
        if (!fake_find_slot(step->after, part->endpoints, port, i) &&
            !(may_stay && was_hole(step, part, port, i)))
            step->violated("no slot", e);
}

static void check_counts(const struct step *step, const struct fake_part *part)
{
    hash_table_each (fake_elements(step->after, part->ports), const struct fake_element, e)
        if (fake_low(e->key) == 0) /* others are somebody's, that no rule looks for */
            check_slots_of(step, part, e, fake_port(e->key),
                           step->stays || is_out_of_use(step, part->ports, e));
    if (part == &fake_parts[0])
        hash_table_each (fake_elements(step->after, "services"), const struct fake_element, e)
            if (is_counted(e))
                check_slots_of(step, part, e, fake_port(e->data), step->stays);
}

static bool is_drawn_in_vain(uint32_t slot, uint32_t count)
{
    return slot >= count && slot < drawn_slots(count);
}

/* Whether a slot is beyond a count, where packets would draw it nevertheless. */
static bool is_beyond(const struct fake_table *table, const struct leads *leads,
                      const struct fake_part *part, const struct fake_element *slot)
{
    const uint32_t port = fake_port(slot->key), at = fake_u32(slot->key + sizeof(port));
    const uint32_t own = part == &fake_parts[0] ? leads->counts[port >> PORT_LOW_BITS] : 0;
    return is_drawn_in_vain(at, own) ||
           (is_led_to(leads, part, port) &&
            is_drawn_in_vain(at, fake_count(fake_find_port(table, part->ports, port))));
}

static void check_drawn(const struct step *step, const struct fake_part *part)
{
    hash_table_each (fake_elements(step->after, part->endpoints), const struct fake_element, e)
        if (!e->foreign && !step->cuts && is_beyond(step->after, step->leads_after, part, e))
            step->violated("a slot beyond its count is drawn", e);
}

/* No packet gets to a count that nothing leads to. */
static bool is_reached(const struct fake_table *table, const struct leads *leads,
                       const struct fake_part *part, const struct fake_element *slot)
{
    const uint32_t port = fake_port(slot->key), number = fake_u32(slot->key + sizeof(port));
    if (part == &fake_parts[0] && number < leads->counts[port >> PORT_LOW_BITS])
        return true;
    return number < fake_count(fake_find_port(table, part->ports, port)) &&
           is_led_to(leads, part, port);
}

static bool is_led_somehow(const struct leads *leads, const struct fake_part *part, uint32_t port)
{
    return is_led_to(leads, part, port) || leads->counts[port >> PORT_LOW_BITS] > 0;
}

/* Nothing leads to its service port, and packets on their way there go by a count whose chain draws
 * again where it finds no slot. */
static bool is_drawn_again(const struct step *step, const struct fake_part *part,
                           const struct fake_element *slot)
{
    const uint32_t port = fake_port(slot->key), at = fake_u32(slot->key + sizeof(port));
    return at >= EXACT_COUNTS && !is_led_somehow(step->leads_before, part, port) &&
           !is_led_somehow(step->leads_after, part, port);
}

static void check_slots_outlive(const struct step *step, const struct fake_part *part)
{
    hash_table_each (fake_elements(step->before, part->endpoints), const struct fake_element, e) {
        if (fake_find_like(step->after, part->endpoints, e) ||
            is_beyond(step->after, step->leads_after, part, e))
            continue;
        if (is_reached(step->before, step->leads_before, part, e))
            step->violated("a slot went with its count", e);
        else if (step->now < e->unused_since + RULESET_TRIM_DELAY && !is_drawn_again(step, part, e))
            step->violated("a slot went too early", e);
    }
}

/* Somebody gets to the refusal that takes its place. */
static void check_counts_outlive(const struct step *step, const struct fake_part *part)
{
    hash_table_each (fake_elements(step->before, part->ports), const struct fake_element, e) {
        const uint32_t port = fake_port(e->key);
        if (fake_low(e->key) != 0) /* somebody else's, that no rule looks for */
            continue;
        if (is_answered(step->after, part, port))
            continue;
        if (is_led_to(step->leads_before, part, port))
            step->violated("a count went with its frontends", e);
        else if (step->now < e->unused_since + RULESET_TRIM_DELAY)
            step->violated("a count went too early", e);
    }
}

static void note_unused(const struct step *step, const struct fake_part *part)
{
    hash_table_each (fake_elements(step->after, part->endpoints), struct fake_element, e) {
        const struct fake_element *old = fake_find_like(step->before, part->endpoints, e);
        bool was_used = !old || is_reached(step->before, step->leads_before, part, old);
        e->unused_since = was_used ? step->now : old->unused_since;
    }
    hash_table_each (fake_elements(step->after, part->ports), struct fake_element, e) {
        const struct fake_element *old = fake_find_like(step->before, part->ports, e);
        bool was_used = !old || is_led_to(step->leads_before, part, fake_port(e->key));
        e->unused_since = was_used ? step->now : old->unused_since;
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

/* Whether a service port has the list of an element of allowed_sources. */
static bool is_in_use(const struct fake_table *table, const struct fake_element *source)
{
    hash_table_each (fake_elements(table, "source_lists"), const struct fake_element, e)
        if (fake_u32(e->data) == fake_list_of(source))
            return true;
    return false;
}

/* What another program put there goes at once. */
static void check_sources_outlive(const struct fake_table *before, const struct fake_table *after,
                                  double now, fake_violated_fn violated)
{
    hash_table_each (fake_elements(before, "allowed_sources"), const struct fake_element, e) {
        if (e->foreign || fake_find_like(after, "allowed_sources", e) || is_in_use(after, e))
            continue;
        if (is_in_use(before, e))
            violated("sources went with their list", e);
        else if (now < e->unused_since + RULESET_TRIM_DELAY)
            violated("sources went too early", e);
    }
}

/* What was never in use was not met by any packet. */
static void note_unused_sources(const struct fake_table *before, struct fake_table *after,
                                double now)
{
    hash_table_each (fake_elements(after, "allowed_sources"), struct fake_element, e) {
        const struct fake_element *old = fake_find_like(before, "allowed_sources", e);
        e->unused_since = old && is_in_use(before, old) ? now : old ? old->unused_since : -1;
    }
}

static bool restricts(const struct leads *leads, const struct fake_element *list)
{
    return leads->parts[fake_port(list->key) >> PORT_LOW_BITS] & LED_RESTRICTED;
}

static void check_lists_outlive(const struct step *step)
{
    hash_table_each (fake_elements(step->before, "source_lists"), const struct fake_element, e) {
        if (e->foreign || fake_find_like(step->after, "source_lists", e))
            continue;
        if (restricts(step->leads_before, e))
            step->violated("a source list went with its frontends", e);
        else if (step->now < e->unused_since + RULESET_TRIM_DELAY)
            step->violated("a source list went too early", e);
    }
}

static void note_unused_lists(const struct step *step)
{
    hash_table_each (fake_elements(step->after, "source_lists"), struct fake_element, e) {
        const struct fake_element *old = fake_find_like(step->before, "source_lists", e);
        e->unused_since = !old || restricts(step->leads_before, e) ? step->now : old->unused_since;
    }
}

/* ---- transactions ---- */

static void check_parts(const struct step *step)
{
    for (int i = 0; i < FAKE_PARTS; i++) {
        check_counts(step, &fake_parts[i]);
        if (step->after->exists && !step->after->anew) {
            check_drawn(step, &fake_parts[i]);
            check_slots_outlive(step, &fake_parts[i]);
            check_counts_outlive(step, &fake_parts[i]);
        }
        note_unused(step, &fake_parts[i]);
    }
}

void fake_check_transaction(const struct fake_table *before, struct fake_table *after, double now,
                            bool cuts, bool rejects, bool half_told, fake_violated_fn violated)
{
    static const struct rule rules[] = {{"services", judge_service, NULL},
                                        {"ports", judge_count, &fake_parts[0]},
                                        {"local_ports", judge_count, &fake_parts[1]},
                                        {"affinity_numbers", judge_number, NULL}};
    struct step step = {before, after, find_leads(before), find_leads(after),
                        now,    cuts,  cuts || rejects,    violated};
    /* Entries of services are the first. */
    for (size_t i = half_told; i < sizeof(rules) / sizeof(rules[0]); i++)
        check_elements(&step, &rules[i]);
    check_ranges(before, after, violated);
    check_parts(&step);
    if (after->exists && !after->anew) {
        check_lists_outlive(&step);
        check_sources_outlive(before, after, now, violated);
    }
    note_unused_lists(&step);
    note_unused_sources(before, after, now);
    free(step.leads_before);
    free(step.leads_after);
}
