/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From what is wanted to numbers and slots, and what is left behind by it. */
#include "kube-nftd/base.h"
#include "record.h"

#include <stdlib.h>
#include <string.h>

/* ---- numbers of service ports ---- */

/* A wanted port that has no number yet takes that of one which was found: the frontend leads there.
 * All that is in force of the found one is then in force of the other. */
static void take_found(struct ruleset *rs, struct port_record *port, struct port_record *found)
{
    const uint32_t number = found->number;
    for (enum port_part which = 0; which < PARTS; which++) {
        struct part *from = port_part(found, which);
        if (!from)
            continue;
        struct part *to = which == PART_LOCAL ? port_local(port) : &port->all;
        to->value.held = from->value.held;
        to->slots = from->slots;
        to->n_slots = from->n_slots;
        from->value.held = 0;
        from->slots = NULL;
        from->n_slots = 0;
    }
    if (found->affinity) {
        port_affinity(port)->timeout.held = found->affinity->timeout.held;
        found->affinity->timeout.held = 0;
    }
    memcpy(port->led, found->led, sizeof(port->led));
    memset(found->led, 0, sizeof(found->led));
    port->flags = found->flags;
    found->flags = 0;
    port->adopted = true;
    ruleset_number_port(rs, found, 0);
    ruleset_number_port(rs, port, number);
    ruleset_mark_pending(rs, &port->record);
}

static void find_number(struct ruleset *rs, const struct frontend_record *frontend)
{
    struct port_record *port = frontend->port, *found;
    if (!port || port->number || !frontend->service.held)
        return;
    found = ruleset_port_of_number(rs, port_of_value(frontend->service.held));
    if (found && found->id >= FOUND_ID && found->refs == 0 && !found->record.refusal)
        take_found(rs, port, found);
}

/* The next one that no port has; 0 if there is none. */
static uint32_t new_number(struct ruleset *rs)
{
    for (uint32_t tries = 0; tries < MOST_PORTS; tries++) {
        rs->last_number = rs->last_number % MOST_PORTS + 1;
        if (!rs->by_number[rs->last_number])
            return rs->last_number << PORT_LOW_BITS;
    }
    return 0;
}

static void give_number(struct ruleset *rs, struct port_record *port)
{
    if (port->number || !port->record.wanted)
        return;
    uint32_t number = new_number(rs);
    if (number == 0)
        log_error("ruleset", "a service port is not programmed: there are %u others already",
                  MOST_PORTS);
    ruleset_number_port(rs, port, number);
    connections_forget(&rs->connections, number);
    port->renumbered = true;
}

/* ---- planning ---- */

/* Whether packets that frontends of a class send to @port get somewhere, or are refused. */
static bool serves_in_force(const struct port_record *port, unsigned class)
{
    if (class & CLASS_AFFINE && !(port->affinity && port->affinity->timeout.held))
        return false;
    if (port->flags & FLAG_REJECTED)
        return true;
    for (enum port_part which = 0; which < PARTS; which++) {
        const struct part *part = port_part(port, which);
        if (class_leads_to(class, which) && !(part && part->value.held) &&
            !(which == PART_LOCAL && port->flags & FLAG_DROPPED))
            return false;
    }
    return true;
}

/* A frontend of a service port that the kernel refused stays as it is, if what is in force of the
 * port is not enough for it. */
static void plan_frontend(struct ruleset *rs, struct frontend_record *frontend)
{
    const struct port_record *port = frontend->port;
    frontend->service.wanted = port && port->number ? port->number | frontend->class_wanted : 0;
    if (port && port->record.held_back && !serves_in_force(port, frontend->class_wanted)) {
        frontend->service.wanted = frontend->service.held;
        refusals_wait_for_port(rs, frontend);
    }
    if (frontend->restriction)
        frontend->restriction->number.wanted = source_list_value(frontend->restriction->sources);
}

static void plan_affinity(struct ruleset *rs, struct port_record *port)
{
    struct affinity *affinity = port->affinity;
    if (!affinity)
        return;
    const struct part *local = port->local;
    bool affine = port->record.wanted && port->number && affinity->wanted_timeout;
    if (affine)
        port_list_wishes(port);
    if (affine && port->adopted && affinity->last == 0) /* there may be records of any of them */
        affinity->last = arc4random() & PORT_LOW_MASK;
    if (affine)
        affinity_hold(
            affinity, rs->family, &rs->contents, port->number,
            &(struct backends){port->all.wanted, port->all.n_wanted},
            &(struct backends){local ? local->wanted : NULL, local ? local->n_wanted : 0});
    else
        affinity_release(affinity, rs->family, &rs->contents);
    affinity->timeout.wanted = affine ? affinity->wanted_timeout : 0;
}

/* The name of some frontend that leads to @port; empty if there is none. */
static const char *name_port(const struct ruleset *rs, const struct port_record *port,
                             char text[FRONTEND_TEXT_SIZE])
{
    const struct frontend_record *frontend = ruleset_frontend_of(rs, port);
    return frontend ? frontend_format(&frontend->frontend, text) : "";
}

/* Changes say what is to go by what shall be in force, and it is not. */
static void say_mistake(struct ruleset *rs, const struct port_record *port, struct part *part)
{
    char text[FRONTEND_TEXT_SIZE];
    if (!part->mistaken)
        return;
    part->mistaken = false;
    rs->figures.mistakes++;
    log_error(
        "ruleset",
        "frontend=%s is computed from scratch: a removed endpoint is not among the applied ones",
        name_port(rs, port, text));
}

static void say_too_many(const struct ruleset *rs, struct port_record *port)
{
    char text[FRONTEND_TEXT_SIZE];
    if (port->n_offered && !port->too_many_said)
        log_error("ruleset", "frontend=%s uses %u of its %u endpoints: more do not fit",
                  name_port(rs, port, text), MAX_BACKENDS, port->n_offered);
    port->too_many_said = port->n_offered != 0;
}

/* A part that is not needed any more stays until nothing leads there. */
static void plan_part(struct ruleset *rs, struct port_record *port, enum port_part which)
{
    struct part *part = port_part(port, which);
    if (!part)
        return;
    part_plan(part);
    say_mistake(rs, port, part);
    part->value.wanted = part->value.held;
    if (port_needs(port, which))
        part->value.wanted = part->n_wanted && port->number ? port->number | part->n_wanted : 0;
}

/* What says that new connections to @port are refused. */
static uint8_t flags_of_wish(const struct port_record *port)
{
    const struct port_route route = {.has_any = port->has_any,
                                     .needs_local = port->needs_local,
                                     .n_local = port->local ? port->local->n_wanted : 0};
    return port->record.wanted && port->number ? route_flags(&route) : 0;
}

/* Flags in force that stand in for the backends of a part which is not needed any more. They stay
 * as well until nothing leads there. */
static uint8_t flags_to_keep(const struct port_record *port)
{
    uint8_t keep = 0;
    for (enum port_part which = 0; which < PARTS; which++) {
        const struct part *part = port_part(port, which);
        if (port->led[which] > 0 && !port_needs(port, which) && !(part && part->value.held))
            keep |= which == PART_LOCAL ? FLAG_REJECTED | FLAG_DROPPED : FLAG_REJECTED;
    }
    return port->flags & keep;
}

static void plan_port(struct ruleset *rs, struct port_record *port)
{
    plan_affinity(rs, port);
    say_too_many(rs, port);
    for (enum port_part which = 0; which < PARTS; which++)
        plan_part(rs, port, which);
    port->wanted_flags = flags_of_wish(port) | flags_to_keep(port);
}

static int compare_frontends(const struct frontend *a, const struct frontend *b)
{
    int order = memcmp(&a->address, &b->address, sizeof(a->address));
    if (order == 0)
        order = (int)a->port - (int)b->port;
    return order ? order : (int)a->protocol - (int)b->protocol;
}

/* Ports by their numbers, or if they have none yet by their ids. */
static int compare_ports(const struct port_record *a, const struct port_record *b)
{
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int compare_records(const void *a, const void *b)
{
    const struct record *p = *(struct record *const *)a, *q = *(struct record *const *)b;
    if (p->is_port != q->is_port)
        return p->is_port - q->is_port;
    return p->is_port ? compare_ports(as_port(p), as_port(q))
                      : compare_frontends(&as_frontend(p)->frontend, &as_frontend(q)->frontend);
}

void ruleset_sort_pending(struct ruleset *rs)
{
    if (rs->pending.n)
        qsort(rs->pending.v, rs->pending.n, sizeof(*rs->pending.v), compare_records);
}

const struct frontend_record *ruleset_frontend_of(const struct ruleset *rs,
                                                  const struct port_record *port)
{
    const struct frontend_record *first = NULL;
    hash_table_each (&rs->frontends, struct frontend_record, it)
        if (it->port == port && (!first || compare_frontends(&it->frontend, &first->frontend) < 0))
            first = it;
    return first;
}

/* ---- lists of sources ---- */

void ruleset_fill_lists(struct ruleset *rs, size_t *most)
{
    size_t n = 0;
    vec_each (&rs->pending, it) {
        const struct restriction *restriction =
            (*it)->is_port ? NULL : as_frontend(*it)->restriction;
        if (!restriction || !restriction->sources ||
            source_list_fill(&rs->lists, &rs->contents, restriction->sources, most))
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

void frontend_release_list(struct ruleset *rs, struct frontend_record *frontend, double now)
{
    uint32_t held = frontend->restriction ? frontend->restriction->number.held : 0;
    if (held == 0)
        return;
    source_lists_release(&rs->lists, source_lists_find(&rs->lists, held), now);
    set_hold_number(rs, SET_RESTRICTED, &frontend->record, 0);
}

void ruleset_adopt_lists(struct ruleset *rs, double now)
{
    list_value_vec values = {0};
    hash_table_each (&rs->frontends, struct frontend_record, it)
        if (it->restriction && it->restriction->number.held)
            vec_push(&values, it->restriction->number.held);
    source_lists_adopt(&rs->lists, &rs->contents, &values, now);
    vec_each (&values, value)
        source_list_hold(source_lists_find(&rs->lists, *value));
    vec_free(&values);
}

/* ---- all of it ---- */

/* Frontends say which numbers ports have in the kernel; so they come before all others that get
 * one. More ports may become pending by that. */
void ruleset_plan(struct ruleset *rs)
{
    for (size_t i = 0; i < rs->pending.n; i++)
        if (!rs->pending.v[i]->is_port)
            find_number(rs, as_frontend(rs->pending.v[i]));
    for (size_t i = 0; i < rs->pending.n; i++)
        if (!rs->pending.v[i]->is_port && as_frontend(rs->pending.v[i])->port)
            give_number(rs, as_frontend(rs->pending.v[i])->port);
    vec_each (&rs->pending, it)
        if ((*it)->is_port)
            give_number(rs, as_port(*it));
    vec_each (&rs->pending, it) {
        if ((*it)->is_port)
            plan_port(rs, as_port(*it));
        else
            plan_frontend(rs, as_frontend(*it));
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
        for (enum table_set set = 0; set < NUMBER_SETS; set++)
            if (set_is_of(set, *it) && set_shape(set, set_number(set, *it).wanted, &shape))
                need_shape(rs, &seen, shape, out);
    shapes_clear(&seen);
    shapes_sort(out);
}

int ruleset_read_shape(const struct ruleset *rs, struct shape shape, struct layout *layout,
                       struct error *err)
{
    struct layout_vars vars = rs->vars;
    vars.n = shape.key;
    return layout_parse(&templates[shape.template], &vars, layout, err);
}

/* ---- what is left behind ---- */

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* With a plan, whether the frontends that lead to it are still those in force is not known. */
bool port_is_left(const struct port_record *port, enum port_part which)
{
    const struct part *part = port_part(port, which);
    return part && part->value.held && !port_needs(port, which) && port->led[which] == 0;
}

uint8_t port_left_flags(const struct port_record *port)
{
    const bool planned = port->record.pending;
    return planned ? 0 : port->flags & (uint8_t) ~(flags_of_wish(port) | flags_to_keep(port));
}

uint32_t trim_keeps(const struct ruleset *rs, const struct port_record *port, enum port_part which)
{
    const struct part *part = port_part(port, which);
    uint32_t keeps = port_is_left(port, which) ? 0 : low_of_value(part->value.held);
    if (port->record.pending)
        keeps = most(keeps, part->n_wanted);
    return part->n_slots > rs->portion ? most(keeps, part->n_slots - (uint32_t)rs->portion) : keeps;
}

static size_t trimmed_slots(const struct ruleset *rs, const struct port_record *port,
                            enum port_part which)
{
    const struct part *part = port_part(port, which);
    uint32_t keeps = part ? trim_keeps(rs, port, which) : 0;
    return part && part->n_slots > keeps ? part->n_slots - keeps : 0;
}

/* How many elements of @port a trim deletes; 0: nothing is left behind. */
static size_t count_trimmed(const struct ruleset *rs, const struct port_record *port)
{
    size_t n = port_left_flags(port) != 0;
    for (enum port_part which = 0; which < PARTS; which++)
        n += trimmed_slots(rs, port, which) + port_is_left(port, which);
    return n;
}

bool port_has_leftovers(const struct ruleset *rs, const struct port_record *port)
{
    return count_trimmed(rs, port) > 0;
}

void ruleset_choose_trims(struct ruleset *rs, double now)
{
    struct port_record **trims = rs->trims.v;
    rs->due_trims = 0;
    if (now < rs->trim_time)
        return;
    for (size_t i = 0, n = 0; i < rs->trims.n && n < rs->portion; i++) {
        struct port_record *port = trims[i];
        if (now < port->shrunk_at + RULESET_TRIM_DELAY)
            continue;
        n += 1 + count_trimmed(rs, port);
        trims[i] = trims[rs->due_trims];
        trims[rs->due_trims++] = port;
    }
}
