/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Plans slots from the desired state, and what is left of them for later steps. */
#include "state.h"
#include "template.h"

#include <stdlib.h>
#include <string.h>

/* ---- desired values of an entry ---- */

unsigned route_class(const struct route *route)
{
    return (route->external ? CLASS_EXTERNAL : 0u) | (route->local ? CLASS_LOCAL : 0u) |
           (route->affine ? CLASS_AFFINE : 0u) | (route->restricted ? CLASS_RESTRICTED : 0u);
}

uint32_t route_rejects(const struct port_route *route)
{
    return !route->has_any;
}

uint32_t route_drops(const struct port_route *route)
{
    return route->has_any && route->needs_local && route->n_local == 0;
}

static uint32_t port_applied(const struct port_entry *port, enum table_set set)
{
    return port->applied[set - FRONTEND_SETS];
}

static uint32_t element_count(const struct port_entry *port, enum port_part which)
{
    return low_of_value(port_applied(port, set_of_count(which)));
}

/* Whether the applied state of its service port forwards or refuses packets from @frontend. */
static bool serves(const struct port_entry *port, const struct frontend_entry *frontend)
{
    if ((frontend->class & CLASS_AFFINE && !port_applied(port, SET_AFFINITY_TIMEOUTS)) ||
        (frontend->class & CLASS_RESTRICTED && !port_applied(port, SET_SOURCE_LISTS)))
        return false;
    if (port_applied(port, SET_REJECTED) || frontend_wants_count(frontend))
        return port_applied(port, SET_REJECTED) || port_count(port, PART_ALL);
    for (enum port_part which = 0; which < PARTS; which++)
        if (class_leads_to(frontend->class, which) && !element_count(port, which) &&
            !(which == PART_LOCAL && port_applied(port, SET_DROPPED)))
            return false;
    return true;
}

static uint32_t count_desired(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    return port_needs(port, which) && slots ? slots_count(slots) : 0;
}

/* A frontend keeps its applied value if its service port is quarantined and the port's applied
 * state does not suffice for it; and its count while the part is unneeded, which is the case until
 * policy has decided it, too. */
static uint32_t desired_service(const struct frontend_entry *frontend)
{
    const struct port_entry *port = frontend->port;
    if (port && port->entry.quarantined &&
        (frontend_has_count(frontend, port) || !serves(port, frontend)))
        return frontend->applied;
    if (!port || !port->number)
        return 0;
    if (!frontend_wants_count(frontend))
        return port->number | CLASS_BASE | frontend->class;
    const bool changes = !port->entry.quarantined && port_needs(port, PART_ALL);
    return port->number | (changes ? count_desired(port, PART_ALL) : port_count(port, PART_ALL));
}

/* Whether frontends without the count in their own value desire to lead to a part. */
static bool needs_element(const struct port_entry *port, enum port_part which)
{
    const bool counts = port->counted && port->counted->port == port && port->counted->class == 0;
    return port_needs(port, which) && (which == PART_LOCAL || port->refs > (uint32_t)counts);
}

/* And whether they lead there in the kernel. */
static bool leads_by_element(const struct port_entry *port, enum port_part which)
{
    return port->led[which] > (which == PART_ALL ? port->led_counted : 0);
}

/* Whether some lead there in the kernel without a backend. */
static bool is_led_in_vain(const struct port_entry *port, enum port_part which)
{
    return leads_by_element(port, which) ? !element_count(port, which)
                                         : port->led[which] > 0 && !port_count(port, which);
}

/* Nobody asks for it any more. */
static bool element_is_left(const struct port_entry *port, enum port_part which)
{
    return element_count(port, which) && !needs_element(port, which) &&
           !leads_by_element(port, which);
}

/* An unneeded element stays until nothing leads to it; while the part is needed, it says how many
 * backends it has. */
static uint32_t desired_count(const struct port_entry *port, enum port_part which)
{
    const uint32_t n = count_desired(port, which), applied = element_count(port, which);
    if (port->entry.trim && element_is_left(port, which))
        return 0;
    if (needs_element(port, which) ||
        (port_needs(port, which) && (applied || leads_by_element(port, which))))
        return n && port->number ? port->number | n : 0;
    return port_applied(port, set_of_count(which));
}

/* A frontend that has no backends by its own count stays so: the kernel rejected what would change
 * it, or the service port that it waits for. */
static bool none_is_kept(const struct port_entry *port)
{
    const struct frontend_entry *counted = port->counted;
    return counted && frontend_has_count(counted, port) && low_of_value(counted->applied) == 0 &&
           entry_desired(SET_SERVICES, &counted->entry) == counted->applied;
}

/* The value that refuses new connections. It also stays while it replaces the backends of an
 * unneeded part, until nothing leads there. */
static uint32_t desired_reject(const struct port_entry *port, enum table_set set)
{
    const struct port_route route = {.has_any = port->has_any,
                                     .needs_local = port->needs_local,
                                     .n_local = port->local ? port->local->n_desired : 0};
    if (port->entry.desired && port->number &&
        (set == SET_REJECTED ? route_rejects(&route) : route_drops(&route)))
        return 1;
    if (set == SET_REJECTED && none_is_kept(port))
        return port_applied(port, set);
    for (enum port_part which = 0; which < PARTS; which++)
        if (is_led_in_vain(port, which) && !port_needs(port, which) &&
            (set == SET_REJECTED || which == PART_LOCAL))
            return port_applied(port, set);
    return 0;
}

/* Whether a trim deletes what @port has in SET_SOURCE_LISTS. */
static bool list_is_left(const struct port_entry *port)
{
    return port_applied(port, SET_SOURCE_LISTS) && !port->sources && port->led_restricted == 0;
}

/* An undesired list stays until no frontend is restricted by it. */
static uint32_t desired_list(const struct port_entry *port)
{
    if (port->sources && port->number)
        return source_list_value(port->sources);
    return port->entry.trim && list_is_left(port) ? 0 : port_applied(port, SET_SOURCE_LISTS);
}

bool port_is_affine(const struct port_entry *port)
{
    return port->affinity && port->affinity->timeout && port->entry.desired && port->number;
}

uint32_t entry_desired(enum table_set set, const struct entry *entry)
{
    if (entry->quarantined)
        return entry_applied(set, entry);
    switch (set) {
    case SET_SERVICES:
        return desired_service(as_frontend(entry));
    case SET_SOURCE_LISTS:
        return desired_list(as_port(entry));
    case SET_PORTS:
        return desired_count(as_port(entry), PART_ALL);
    case SET_LOCAL_PORTS:
        return desired_count(as_port(entry), PART_LOCAL);
    case SET_AFFINITY_TIMEOUTS:
        return port_is_affine(as_port(entry)) ? affinity_value(as_port(entry)->affinity) : 0;
    default:
        return desired_reject(as_port(entry), set);
    }
}

/* ---- numbers of service ports ---- */

/* Whether affinity records under the number of @found, if any, are those of @port. */
static bool inherits_records(const struct port_entry *port, const struct port_entry *found)
{
    const uint32_t before = identity_of_value(port_applied(found, SET_AFFINITY_TIMEOUTS));
    return !port->affinity || !port->affinity->timeout || before == 0 ||
           before == identity_of_value(affinity_value(port->affinity));
}

/* Other frontends that lead there may have been found before, and its timeout. */
void ruleset_adopt_number(struct ruleset *rs, struct frontend_entry *frontend, uint32_t number)
{
    struct port_entry *port = frontend->port, *found = ruleset_port_of_number(rs, number);
    if (!port || port->number || (found && (found->id < FOUND_ID || found->refs > 0)))
        return;
    if (found) {
        const uint32_t timeout = port_applied(found, SET_AFFINITY_TIMEOUTS);
        for (enum table_set set = FRONTEND_SETS; set < NUMBER_SETS; set++)
            if (set != SET_AFFINITY_TIMEOUTS && port_applied(found, set))
                return;
        if (!inherits_records(port, found))
            return;
        entry_set_applied(rs, SET_AFFINITY_TIMEOUTS, &port->entry, timeout);
        entry_set_applied(rs, SET_AFFINITY_TIMEOUTS, &found->entry, 0);
        memcpy(port->led, found->led, sizeof(port->led));
        memset(found->led, 0, sizeof(found->led));
        port->led_affine = found->led_affine;
        port->led_restricted = found->led_restricted;
        port->led_counted = found->led_counted;
        found->led_affine = found->led_restricted = found->led_counted = 0;
        port->counted = found->counted;
        found->counted = NULL;
        ruleset_number_port(rs, found, 0);
    }
    port->adopted = true;
    ruleset_number_port(rs, port, number);
    ruleset_mark_dirty(rs, &port->entry);
}

/* Service ports that wait for a number take no part in the commit: without one, the elements of all
 * of them would have the same keys. */
static void request_numbers(struct ruleset *rs)
{
    size_t n = 0;
    for (size_t i = 0; i < rs->dirty.n; i++) {
        struct entry *entry = rs->dirty.v[i];
        struct port_entry *port = entry->is_port ? as_port(entry) : as_frontend(entry)->port;
        if (port)
            numbers_request(rs, port);
    }
    vec_each (&rs->dirty, it) {
        if ((*it)->is_port && as_port(*it)->waits)
            entry_clean(*it);
        else
            rs->dirty.v[n++] = *it;
    }
    rs->dirty.n = n;
}

/* ---- planning ---- */

/* Adds up to @most of the missing slots, in this commit. Returns how many elements that takes. */
static size_t add_slots(struct ruleset *rs, struct port_entry *port, enum port_part which,
                        size_t most)
{
    struct slot_table *slots = port_slots(port, which);
    const size_t missing = slots && slots->change ? slots_missing(slots) : 0;
    if (missing == 0 || most == 0 || !slots->change->planned || slots->n_added > 0)
        return 0;
    slots->n_added = (uint32_t)(missing < most ? missing : most);
    const struct backends added = {slots->change->plan.added, slots->n_added};
    if (port_is_affine(port) && port->affinity->current) {
        affinity_add(port->affinity, rs->family, &rs->plain, port->number, &added,
                     which == PART_LOCAL);
        port->affinity->current = !port->affinity->full;
    }
    return added.n * port_slot_elements(port);
}

static void plan_slots(struct ruleset *rs, struct port_entry *port, size_t most_added)
{
    for (enum port_part which = 0; which < PARTS; which++) {
        struct slot_table *slots = port_slots(port, which);
        if (slots)
            slots_make_plan(slots);
        add_slots(rs, port, which, most_added);
    }
}

static void plan_affinity(struct ruleset *rs, struct port_entry *port)
{
    struct affinity *affinity = port->affinity;
    backend_vec planned[PARTS] = {{0}};
    if (!affinity || !port_is_affine(port) || affinity->current)
        return;
    if (port->adopted && affinity->last == 0) /* records with any B may exist */
        affinity->last = arc4random() & PORT_LOW_MASK;
    for (enum port_part which = 0; which < PARTS; which++)
        if (port_slots(port, which))
            planned[which] = slots_planned(port_slots(port, which));
    const struct backends all = {planned[PART_ALL].v, planned[PART_ALL].n},
                          local = {planned[PART_LOCAL].v, planned[PART_LOCAL].n};
    affinity_hold(affinity, rs->family, &rs->plain, port->number, &all, &local);
    vec_free(&planned[PART_ALL]);
    vec_free(&planned[PART_LOCAL]);
}

static bool backends_change(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    return slots && slots->change &&
           (slots->change->plan.moves.n > 0 || slots->n_desired != port_count(port, which));
}

/* Numbers that are not needed any more wait for trims; but while frontends still ask for them, each
 * backend has one, or none has. */
static void give_up_affinity(struct ruleset *rs, struct port_entry *port)
{
    if (port->affinity && !port_is_affine(port) && port->led_affine > 0 && port->entry.desired &&
        (backends_change(port, PART_ALL) || backends_change(port, PART_LOCAL)))
        affinity_release(port->affinity, rs->family, &rs->plain, SIZE_MAX);
}

void ruleset_plan_entry(struct ruleset *rs, struct entry *entry, size_t most_added)
{
    if (!entry->is_port)
        return;
    struct port_entry *port = as_port(entry);
    source_list_fill(&rs->lists, &rs->plain, port->sources);
    limits_log_excess(rs, port);
    plan_slots(rs, port, most_added);
    plan_affinity(rs, port);
    give_up_affinity(rs, port);
}

/* One frontend of class 0 has the count of its service port in its value: there is one in a family
 * at most, the cluster IP. */
static void choose_counted(struct port_entry *port)
{
    struct frontend_entry *it = port->frontends;
    if (port->counted || port->refs_plain == 0)
        return;
    while (it->class != 0)
        it = it->next;
    port->counted = it;
}

/* A new count of its service port makes a frontend dirty, and a frontend that needs its element
 * makes a service port dirty. */
static void plan_counts(struct ruleset *rs, const struct entry *entry)
{
    struct port_entry *port = entry->is_port ? as_port(entry) : as_frontend(entry)->port;
    if (!port)
        return;
    choose_counted(port);
    if (port->counted &&
        entry_desired(SET_SERVICES, &port->counted->entry) != port->counted->applied)
        ruleset_mark_dirty(rs, &port->counted->entry);
    if (entry_desired(SET_PORTS, &port->entry) != port_applied(port, SET_PORTS))
        ruleset_mark_dirty(rs, &port->entry);
}

void ruleset_plan(struct ruleset *rs, size_t most_added)
{
    request_numbers(rs);
    for (size_t i = 0; i < rs->dirty.n; i++) {
        ruleset_plan_entry(rs, rs->dirty.v[i], most_added);
        plan_counts(rs, rs->dirty.v[i]);
    }
}

void ruleset_find_differences(struct ruleset *rs)
{
    vec_clear_few(&rs->differences);
    vec_each (&rs->dirty, it)
        for (enum table_set set = first_set(*it); set < end_of_sets(*it); set++) {
            const uint32_t applied = entry_applied(set, *it), desired = entry_desired(set, *it);
            if (applied != desired)
                vec_push(&rs->differences, (struct difference){*it, set, applied, desired});
        }
}

/* ---- instances ---- */

bool set_instance(enum table_set set, uint32_t value, struct instance *instance)
{
    if (value == 0)
        return false;
    switch (set) {
    case SET_SERVICES:
        *instance = (struct instance){TEMPLATE_PICK, low_of_value(value)};
        return value_is_counted(value) && instance->key > 0;
    case SET_PORTS:
        *instance = (struct instance){TEMPLATE_PICK, low_of_value(value)};
        return true;
    case SET_LOCAL_PORTS:
        *instance = (struct instance){TEMPLATE_LOCAL_PICK, low_of_value(value)};
        return true;
    case SET_AFFINITY_TIMEOUTS:
        *instance = (struct instance){TEMPLATE_LEARN, timeout_of_value(value)};
        return true;
    case SET_SOURCE_LISTS:
        *instance = (struct instance){TEMPLATE_SOURCE_RANGES, 0};
        return true;
    default:
        return false;
    }
}

static void need_instance(const struct ruleset *rs, struct instances *seen,
                          struct instance instance, instance_vec *out)
{
    struct instance base;
    if (instances_have(&rs->instances, instance) || !instances_add(seen, instance))
        return;
    vec_push(out, instance);
    if (instance_needs(instance, &base))
        need_instance(rs, seen, base, out);
}

void ruleset_new_instances(const struct ruleset *rs, instance_vec *out)
{
    struct instances seen = {0};
    struct instance instance;
    vec_clear(out);
    vec_each (&rs->differences, it)
        if (set_instance(it->set, it->desired, &instance))
            need_instance(rs, &seen, instance, out);
    instances_clear(&seen);
    instances_sort(out);
}

void ruleset_add_template(const struct ruleset *rs, struct instance instance, struct layout *layout)
{
    struct layout_vars vars = rs->vars;
    struct error err = {0};
    vars.n = instance.key;
    if (layout_parse(&templates[instance.template], &vars, layout, &err))
        abort(); /* part of the program, which test_template checks */
}

void ruleset_add_templates(const struct ruleset *rs, const instance_vec *instances,
                           struct layout *layout)
{
    struct error err = {0};
    if (ruleset_add_base(rs, layout, &err))
        abort(); /* likewise */
    vec_each (instances, instance)
        ruleset_add_template(rs, *instance, layout);
}

/* ---- leftovers ---- */

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

bool port_is_left(const struct port_entry *port, enum port_part which)
{
    return port_count(port, which) && !port_needs(port, which) && port->led[which] == 0;
}

/* Slots beyond those that packets can reach, before or after this commit. */
static uint32_t unreached_slots(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    uint32_t reached = port_is_left(port, which) ? 0 : port_count(port, which);
    if (!slots)
        return 0;
    if (slots->change || port_needs(port, which))
        reached = most(reached, slots->n_desired);
    return slots->n_slots > reached ? slots->n_slots - reached : 0;
}

uint32_t port_kept_slots(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    uint32_t trimmed = port->entry.trim ? slots->n_trimmed : 0;
    if (trimmed > 0 && trimmed > unreached_slots(port, which)) /* desired since a failed commit */
        trimmed = unreached_slots(port, which);
    return slots->n_slots - trimmed;
}

struct slot_range port_emptied_slots(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    struct slot_range emptied = {0, 0};
    if (!slots || !slots->change || !port_needs(port, which) || slots->n_desired < EXACT_COUNTS)
        return emptied;
    const uint32_t kept = port_kept_slots(port, which), drawn = drawn_slots(slots->n_desired);
    if (slots->n_desired < kept)
        emptied = (struct slot_range){slots->n_desired, drawn < kept ? drawn : kept};
    return emptied;
}

size_t port_leftovers(const struct port_entry *port)
{
    size_t n =
        unreached_slots(port, PART_ALL) + unreached_slots(port, PART_LOCAL) + list_is_left(port);
    for (enum port_part which = 0; which < PARTS; which++)
        n += element_is_left(port, which);
    n += !port->counted && port->refs_plain > 0;
    for (enum table_set set = SET_REJECTED; set <= SET_DROPPED; set++)
        n += port_applied(port, set) && !desired_reject(port, set);
    if (port->affinity && !port_is_affine(port))
        n += port->affinity->numbers.n * AFFINITY_ELEMENTS;
    return n;
}

/* ---- steps ---- */

size_t port_slot_elements(const struct port_entry *port)
{
    return port_is_affine(port) ? SLOT_ELEMENTS : 1;
}

bool port_grows(const struct port_entry *port)
{
    bool grows = false;
    for (enum port_part which = 0; which < PARTS; which++) {
        const struct slot_table *slots = port_slots(port, which);
        grows = grows || (slots && slots->change && slots->change->planned && slots_missing(slots));
    }
    return grows && !port->entry.quarantined;
}

size_t ruleset_begin_growth(struct ruleset *rs, struct port_entry *port, size_t most)
{
    size_t n = 0;
    for (enum port_part which = 0; which < PARTS; which++)
        n += add_slots(rs, port, which, (most - n) / port_slot_elements(port));
    return n;
}

static uint32_t take(uint32_t *from, size_t most)
{
    const uint32_t n = most < *from ? (uint32_t)most : *from;
    *from -= n;
    return n;
}

size_t ruleset_begin_trim(struct ruleset *rs, struct port_entry *port, uint32_t most)
{
    uint32_t left = most;
    if (port_leftovers(port) > 0 && left > 0)
        left--; /* for the elements of the service port itself */
    for (enum port_part which = 0; which < PARTS; which++) {
        struct slot_table *slots = port_slots(port, which);
        if (slots)
            slots->n_trimmed = take(&left, unreached_slots(port, which));
    }
    if (port->affinity && !port_is_affine(port)) {
        const size_t before = port->affinity->numbers.n;
        affinity_release(port->affinity, rs->family, &rs->plain,
                         port->led_affine > 0 ? SIZE_MAX : left / AFFINITY_ELEMENTS);
        take(&left, (before - port->affinity->numbers.n) * AFFINITY_ELEMENTS);
    }
    return most - left;
}
