/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "state.h"
#include "template.h"

#include <inttypes.h>
#include <string.h>
#include <utlist.h>

/* Incremented when elements change their meaning in maps and sets with unchanged declarations:
 * tables with another value are recreated, else only differing rules are rewritten. */
#define MEANING 3

/* ---- configuration ---- */

/* The match for packets from pods, with @reverse for all others; NULL without a detector. */
static char *detector_text(enum family family, const struct ruleset_config *config, bool reverse)
{
    const char *no = reverse ? "!= " : "";
    switch (config->detector) {
    case DETECT_CIDRS:
        return xasprintf("%s saddr %s@pod_cidrs", nft_family_name(family), no);
    case DETECT_INTERFACE:
        return xasprintf("iifname %s\"%s\"", no, config->interface);
    case DETECT_INTERFACE_PREFIX:
        return xasprintf("iifname %s\"%s*\"", no, config->interface);
    default:
        return NULL;
    }
}

static const char *to_localhost(enum family family, const struct ruleset_config *config)
{
    return !config->localhost || config->no_counters ? NULL
           : family == FAMILY_IPV4                   ? "ip daddr and 255.0.0.0 == 127.0.0.0"
                                                     : "ip6 daddr == ::1";
}

int ruleset_add_base(const struct ruleset *rs, struct layout *layout, struct error *err)
{
    if (layout_parse(&templates[TEMPLATE_BASE], &rs->vars, layout, err))
        return -1;
    return rs->config.flowtable ? layout_parse(&flowtable_template, &rs->vars, layout, err) : 0;
}

struct ruleset *ruleset_new(enum family family, const struct ruleset_config *config,
                            struct error *err)
{
    struct ruleset *rs = xcalloc(1, sizeof(*rs));
    rs->family = rs->lists.family = family;
    numbers_init(&rs->numbers, config->most_numbers);
    rs->config = *config;
    snprintf(rs->mark, sizeof(rs->mark), "0x%x", config->mark);
    rs->from_pod = detector_text(family, config, false);
    rs->not_from_pod = config->masquerade_all ? xstrdup("") : detector_text(family, config, true);
    rs->vars =
        (struct layout_vars){.family = family,
                             .mark = rs->mark,
                             .from_pod = rs->from_pod,
                             .not_from_pod = rs->not_from_pod,
                             .from_host = config->no_fib ? NULL : "fib saddr type local",
                             .to_others = config->no_fib ? "" : "fib daddr type != local",
                             .reject = config->no_reject ? "drop" : "reject",
                             .to_localhost = to_localhost(family, config),
                             .count_services = config->counting >= COUNT_SERVICES ? "" : NULL,
                             .count_endpoints = config->counting >= COUNT_ENDPOINTS ? "" : NULL};
    nft_batch_init(&rs->batch, family, RULESET_TABLE);
    if (ruleset_add_base(rs, &rs->base, err)) {
        ruleset_free(rs);
        return NULL;
    }
    snprintf(rs->comment, sizeof(rs->comment), "kube-nftd layout %016" PRIx64,
             layout_fingerprint(&rs->base, MEANING));
    return rs;
}

void ruleset_free(struct ruleset *rs)
{
    if (!rs)
        return;
    reading_stop(rs);
    quarantine_free(rs);
    hash_table_each (&rs->frontends, struct entry, frontend)
        ruleset_free_entry(rs, frontend);
    hash_table_each (&rs->ports, struct entry, port)
        ruleset_free_entry(rs, port);
    source_lists_forget(&rs->lists, &rs->plain);
    vec_free(&rs->lists.unused);
    vec_free(&rs->dirty);
    vec_free(&rs->portions.entries);
    vec_free(&rs->differences);
    vec_free(&rs->steps);
    vec_free(&rs->rechecks);
    vec_free(&rs->service_cidrs);
    vec_free(&rs->service_ranges);
    vec_free(&rs->pod_cidrs);
    connections_clear(&rs->connections);
    flowtable_free(&rs->flowtable);
    plain_free(&rs->plain);
    instances_clear(&rs->instances);
    vec_free(&rs->new_instances);
    nft_batch_release(&rs->batch);
    layout_free(&rs->base);
    free(rs->from_pod);
    free(rs->not_from_pod);
    numbers_free(&rs->numbers);
    free(rs);
}

/* ---- entries ---- */

static struct hash_key key_of_frontend_entry(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct frontend_entry *)link)->frontend);
}

static struct hash_key key_of_port_entry(const struct hash_link *link)
{
    return (struct hash_key){&((const struct port_entry *)link)->id, sizeof(uint32_t)};
}

struct frontend_entry *ruleset_find_frontend(const struct ruleset *rs,
                                             const struct frontend *frontend)
{
    return hash_table_find(&rs->frontends, key_of_frontend_entry, hash_key_of_frontend(frontend));
}

struct frontend_entry *ruleset_get_frontend(struct ruleset *rs, const struct frontend *frontend)
{
    struct frontend_entry *entry = ruleset_find_frontend(rs, frontend);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->frontend = *frontend;
        hash_table_add(&rs->frontends, key_of_frontend_entry, &entry->entry.link);
    }
    return entry;
}

struct port_entry *ruleset_find_port(const struct ruleset *rs, uint32_t id)
{
    return hash_table_find(&rs->ports, key_of_port_entry, (struct hash_key){&id, sizeof(id)});
}

struct port_entry *ruleset_get_port(struct ruleset *rs, uint32_t id)
{
    struct port_entry *port = ruleset_find_port(rs, id);
    if (!port) {
        port = xcalloc(1, sizeof(*port));
        port->entry.is_port = true;
        port->id = id;
        hash_table_add(&rs->ports, key_of_port_entry, &port->entry.link);
    }
    return port;
}

struct port_entry *ruleset_port_of_number(const struct ruleset *rs, uint32_t number)
{
    return rs->numbers.ports[number >> PORT_LOW_BITS];
}

struct port_entry *ruleset_get_port_of_number(struct ruleset *rs, uint32_t number)
{
    struct port_entry *port = ruleset_port_of_number(rs, number);
    if (!port) {
        port = ruleset_get_port(rs, FOUND_ID | number >> PORT_LOW_BITS);
        port->adopted = true;
        ruleset_number_port(rs, port, number);
        ruleset_mark_dirty(rs, &port->entry);
    }
    return port;
}

void ruleset_free_entry(struct ruleset *rs, struct entry *entry)
{
    if (entry->is_port) {
        struct port_entry *port = as_port(entry);
        hash_table_remove(&rs->ports, &entry->link);
        if (port->affinity)
            affinity_release(port->affinity, rs->family, &rs->plain, SIZE_MAX);
        free(port->affinity);
        port_release_list(rs, port, 0);
        source_lists_release(&rs->lists, port->sources, 0);
        numbers_leave(rs, port);
        slots_clear(&port->all);
        if (port->local)
            slots_clear(port->local);
        free(port->local);
    } else {
        struct frontend_entry *frontend = as_frontend(entry);
        if (frontend->port)
            DL_DELETE(frontend->port->frontends, frontend);
        hash_table_remove(&rs->frontends, &entry->link);
    }
    free(entry);
}

void ruleset_mark_dirty(struct ruleset *rs, struct entry *entry)
{
    if (entry->dirty || entry->quarantined)
        return;
    entry->dirty = true;
    if (!entry->is_port && as_frontend(entry)->port)
        as_frontend(entry)->port->n_dirty++;
    vec_push(&rs->dirty, entry);
}

void entry_clean(struct entry *entry)
{
    if (entry->dirty && !entry->is_port && as_frontend(entry)->port)
        as_frontend(entry)->port->n_dirty--;
    entry->dirty = entry->trim = false;
}

/* ---- order ---- */

int compare_frontends(const struct frontend *a, const struct frontend *b)
{
    int order = memcmp(&a->address, &b->address, sizeof(a->address));
    if (order == 0)
        order = (int)a->port - (int)b->port;
    return order ? order : (int)a->protocol - (int)b->protocol;
}

/* Ports by number, or, if they have none, by id. */
static int compare_entries(const void *a, const void *b)
{
    const struct entry *p = *(struct entry *const *)a, *q = *(struct entry *const *)b;
    if (p->is_port != q->is_port)
        return p->is_port - q->is_port;
    if (!p->is_port)
        return compare_frontends(&as_frontend(p)->frontend, &as_frontend(q)->frontend);
    const struct port_entry *m = as_port(p), *n = as_port(q);
    if (m->number != n->number)
        return m->number < n->number ? -1 : 1;
    return (m->id > n->id) - (m->id < n->id);
}

void ruleset_sort_dirty(struct ruleset *rs)
{
    if (rs->dirty.n)
        qsort(rs->dirty.v, rs->dirty.n, sizeof(*rs->dirty.v), compare_entries);
}

const struct frontend_entry *ruleset_frontend_of(const struct port_entry *port)
{
    const struct frontend_entry *first = port->frontends, *it;
    DL_FOREACH(port->frontends, it)
    if (compare_frontends(&it->frontend, &first->frontend) < 0)
        first = it;
    return first;
}

/* ---- parts of entries ---- */

struct slot_table *port_slots(const struct port_entry *port, enum port_part which)
{
    return which == PART_LOCAL ? port->local : (struct slot_table *)&port->all;
}

struct slot_table *port_make_slots(struct port_entry *port, enum port_part which)
{
    if (which == PART_LOCAL && !port->local)
        port->local = xcalloc(1, sizeof(*port->local));
    return port_slots(port, which);
}

struct affinity *port_affinity(struct port_entry *port)
{
    if (!port->affinity)
        port->affinity = xcalloc(1, sizeof(*port->affinity));
    return port->affinity;
}

/* Nothing is desired of an unneeded part; slots sent ahead of their count are. */
void port_list_desired(struct port_entry *port)
{
    const bool changing = port->entry.dirty || port->entry.quarantined || port->waits;
    for (enum port_part which = 0; which < PARTS; which++) {
        struct slot_table *slots = port_slots(port, which);
        if (slots)
            slots_list(slots, changing || port_needs(port, which) ? slots->n_desired : 0);
    }
    if (port->affinity)
        port->affinity->current = false;
}

static void use_instance(struct ruleset *rs, enum table_set set, uint32_t value, bool more)
{
    struct instance instance;
    if (set_instance(set, value, &instance))
        instances_use(&rs->instances, instance, more);
}

bool frontend_has_count(const struct frontend_entry *frontend, const struct port_entry *port)
{
    const uint32_t value = frontend->applied;
    return value_is_counted(value) && port_of_value(value) == port->number;
}

uint32_t port_count(const struct port_entry *port, enum port_part which)
{
    const uint32_t count = low_of_value(entry_applied(set_of_count(which), &port->entry));
    const struct frontend_entry *counted = which == PART_ALL ? port->counted : NULL;
    const uint32_t own =
        counted && frontend_has_count(counted, port) ? low_of_value(counted->applied) : 0;
    return own > count ? own : count;
}

/* A frontend starts or stops leading to its port by @value; 0 leads nowhere. */
static void lead(struct ruleset *rs, uint32_t value, bool more)
{
    if (value == 0)
        return;
    struct port_entry *port = ruleset_get_port_of_number(rs, port_of_value(value));
    for (enum port_part which = 0; which < PARTS; which++)
        if (class_leads_to(class_of_value(value), which))
            port->led[which] += more ? 1 : -1u;
    if (value_is_counted(value))
        port->led_counted += more ? 1 : -1u;
    if (class_of_value(value) & CLASS_AFFINE)
        port->led_affine += more ? 1 : -1u;
    if (class_of_value(value) & CLASS_RESTRICTED)
        port->led_restricted += more ? 1 : -1u;
}

void frontend_renew_counted(struct frontend_entry *frontend, struct port_entry *port)
{
    if (!port)
        return;
    if (!port->counted && frontend_has_count(frontend, port))
        port->counted = frontend; /* found in the kernel */
    else if (port->counted == frontend && !frontend_has_count(frontend, port) &&
             !(frontend->port == port && frontend->class == 0))
        port->counted = NULL;
}

void entry_set_applied(struct ruleset *rs, enum table_set set, struct entry *entry, uint32_t value)
{
    const uint32_t before = entry_applied(set, entry);
    if (before == value)
        return;
    use_instance(rs, set, value, true);
    use_instance(rs, set, before, false);
    if (set == SET_SERVICES) {
        lead(rs, value, true);
        lead(rs, before, false);
    }
    if (entry->is_port) {
        as_port(entry)->applied[set - FRONTEND_SETS] = value;
        return;
    }
    as_frontend(entry)->applied = value;
    if (set == SET_SERVICES) {
        frontend_renew_counted(as_frontend(entry),
                               ruleset_port_of_number(rs, port_of_value(before)));
        frontend_renew_counted(as_frontend(entry),
                               ruleset_port_of_number(rs, port_of_value(value)));
    }
}

struct key entry_key(enum table_set set, const struct entry *entry, uint32_t slot)
{
    if (!entry->is_port)
        return key_of_frontend(&as_frontend(entry)->frontend);
    const uint32_t number = as_port(entry)->number;
    return set_owner(set) == OWNER_SLOTS ? key_of_slot(number, slot)
                                         : key_of_number(number | set_schema[set].low);
}

void port_release_list(struct ruleset *rs, struct port_entry *port, double now)
{
    const uint32_t value = entry_applied(SET_SOURCE_LISTS, &port->entry);
    if (value == 0)
        return;
    source_lists_release(&rs->lists, source_lists_find(&rs->lists, value), now);
    entry_set_applied(rs, SET_SOURCE_LISTS, &port->entry, 0);
}

/* ---- queries ---- */

size_t ruleset_frontends(const struct ruleset *rs)
{
    size_t n = 0;
    if (rs->quarantine.all.n == 0)
        return rs->n_desired - rs->numbers.n_refused;
    hash_table_each (&rs->frontends, const struct frontend_entry, it)
        n += it->entry.quarantined || (it->port && it->port->entry.quarantined)
                 ? it->applied != 0
                 : it->entry.desired && !(it->port && it->port->waits);
    return n;
}

uint32_t ruleset_port_limited(const struct ruleset *rs, uint32_t id, enum ruleset_limit limit)
{
    const struct port_entry *port = rs->stats.limited[limit] ? ruleset_find_port(rs, id) : NULL;
    return !port ? 0 : limit == LIMIT_NUMBERS ? port->waits : port->excess;
}

const struct ruleset_stats *ruleset_stats(const struct ruleset *rs)
{
    return &rs->stats;
}

enum connection_counting ruleset_counting(const struct ruleset *rs)
{
    return rs->config.counting;
}

struct ruleset_senders ruleset_senders(const struct ruleset *rs)
{
    return (struct ruleset_senders){.host = rs->vars.from_host != NULL,
                                    .pods = rs->config.detector,
                                    .pod_cidrs = &rs->pod_cidrs,
                                    .pod_match = rs->from_pod,
                                    .rejects = !rs->config.no_reject};
}

void ruleset_enter(struct ruleset *rs, enum table_state state)
{
    static const char *const names[] = {"unknown",  "owned elsewhere", "missing",
                                        "replaced", "rules differ",    "ours"};
    if (state != rs->state)
        log_debug(2, "table", "family=%s the table is %s, was %s", family_name(rs->family),
                  names[state], names[rs->state]);
    rs->state = state;
}

bool ruleset_knows_kernel(const struct ruleset *rs)
{
    return rs->state > TABLE_OWNED_ELSEWHERE;
}

bool ruleset_is_lost(const struct ruleset *rs)
{
    return rs->state == TABLE_OWNED_ELSEWHERE || (rs->adopted && !rs->has_applied);
}

bool ruleset_is_rejected(const struct ruleset *rs, const struct frontend *frontend)
{
    if (rs->quarantine.all.n == 0)
        return false;
    const struct frontend_entry *entry = ruleset_find_frontend(rs, frontend);
    return entry && (entry->entry.quarantined || (entry->port && entry->port->entry.quarantined));
}

bool ruleset_port_is_rejected(const struct ruleset *rs, uint32_t id)
{
    const struct port_entry *port = rs->quarantine.all.n == 0 ? NULL : ruleset_find_port(rs, id);
    return port && port->entry.quarantined;
}

/* Or nobody knows. */
static bool nothing_waits(const struct ruleset *rs)
{
    return !ruleset_knows_kernel(rs) || (rs->dirty.n == 0 && !rs->portions.left && !rs->growing);
}

static bool port_waits(const struct port_entry *port)
{
    return port->entry.dirty || port_grows(port);
}

bool ruleset_is_waiting(const struct ruleset *rs, const struct frontend *frontend)
{
    if (nothing_waits(rs))
        return !ruleset_knows_kernel(rs);
    const struct frontend_entry *entry = ruleset_find_frontend(rs, frontend);
    return entry && (entry->entry.dirty || (entry->port && port_waits(entry->port)));
}

bool ruleset_port_is_waiting(const struct ruleset *rs, uint32_t id)
{
    if (nothing_waits(rs))
        return !ruleset_knows_kernel(rs);
    const struct port_entry *port = ruleset_find_port(rs, id);
    return port && (port_waits(port) || port->n_dirty > 0);
}
