/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/ruleset.h"

#include "kube-nftd/base/log.h"
#include "record.h"

#include <inttypes.h>
#include <string.h>

/* So many elements of lists of sources come or go in one transaction, and so many slots of
 * frontends with many. */
#define PORTION 4096

/* One more whenever elements come to mean something else in maps and sets that are declared as
 * before: tables of other meanings are made anew, of this one only the rules that differ. */
#define MEANING 2

/* ---- configuration ---- */

/* The match for packets of pods, and with @reverse for all others; NULL without a detector. */
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

static void set_vars(struct ruleset *rs, const struct ruleset_config *config)
{
    snprintf(rs->mark, sizeof(rs->mark), "0x%x", config->mark);
    rs->from_pod = detector_text(rs->family, config, false);
    rs->not_from_pod =
        config->masquerade_all ? xstrdup("") : detector_text(rs->family, config, true);
    rs->vars = (struct layout_vars){.family = rs->family,
                                    .mark = rs->mark,
                                    .from_pod = rs->from_pod,
                                    .not_from_pod = rs->not_from_pod,
                                    .from_host = config->no_fib ? NULL : "fib saddr type local",
                                    .reject = config->no_reject ? "drop" : "reject"};
}

struct ruleset *ruleset_new(enum family family, const struct ruleset_config *config,
                            struct error *err)
{
    struct ruleset *rs = xcalloc(1, sizeof(*rs));
    rs->family = rs->lists.family = family;
    rs->by_number = xcalloc(MOST_PORTS + 1, sizeof(struct port_record *));
    rs->owned = config->owned;
    rs->dump_most = config->dump_most;
    rs->portion = config->portion ? config->portion : PORTION;
    rs->detector = config->detector;
    rs->abandoned = config->abandoned;
    rs->owner = config->owner;
    rs->ctx = config->ctx;
    set_vars(rs, config);
    nft_batch_init(&rs->batch, family, RULESET_TABLE);
    if (layout_parse(&templates[TEMPLATE_BASE], &rs->vars, &rs->base, err)) {
        ruleset_free(rs);
        return NULL;
    }
    snprintf(rs->comment, sizeof(rs->comment), "kube-nftd layout %016" PRIx64,
             layout_fingerprint(&rs->base, MEANING));
    return rs;
}

/* ---- records ---- */

static struct hash_key key_of_frontend_record(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct frontend_record *)link)->frontend);
}

static struct hash_key key_of_id(const uint32_t *id)
{
    return (struct hash_key){id, sizeof(*id)};
}

static struct hash_key key_of_port_record(const struct hash_link *link)
{
    return key_of_id(&((const struct port_record *)link)->id);
}

static void free_frontend(struct ruleset *rs, struct frontend_record *frontend)
{
    hash_table_remove(&rs->frontends, &frontend->record.link);
    refusals_stop_waiting(rs, frontend);
    frontend_release_list(rs, frontend, 0);
    if (frontend->restriction)
        source_lists_release(&rs->lists, frontend->restriction->sources, 0);
    free(frontend->restriction);
    free(frontend);
}

static void free_port(struct ruleset *rs, struct port_record *port)
{
    hash_table_remove(&rs->ports, &port->record.link);
    if (port->affinity)
        affinity_release(port->affinity, rs->family, &rs->contents);
    free(port->affinity);
    ruleset_number_port(rs, port, 0);
    for (enum port_part which = 0; which < PARTS; which++)
        if (port_part(port, which))
            part_clear(port_part(port, which));
    free(port->local);
    free(port);
}

void ruleset_free_record(struct ruleset *rs, struct record *record)
{
    if (record->is_port)
        free_port(rs, as_port(record));
    else
        free_frontend(rs, as_frontend(record));
}

void ruleset_free(struct ruleset *rs)
{
    if (!rs)
        return;
    refusals_free(rs);
    hash_table_each (&rs->frontends, struct record, frontend)
        ruleset_free_record(rs, frontend);
    hash_table_each (&rs->ports, struct record, port)
        ruleset_free_record(rs, port);
    source_lists_forget(&rs->lists, &rs->contents);
    vec_free(&rs->lists.unused);
    vec_free(&rs->pending);
    vec_free(&rs->waiting);
    vec_free(&rs->trims);
    vec_free(&rs->suspects);
    boundaries_clear(&rs->boundaries);
    vec_free(&rs->seen);
    vec_free(&rs->service_cidrs);
    vec_free(&rs->pod_cidrs);
    contents_free(&rs->contents);
    shapes_clear(&rs->shapes);
    vec_free(&rs->new_shapes);
    nft_batch_release(&rs->batch);
    layout_free(&rs->base);
    free(rs->from_pod);
    free(rs->not_from_pod);
    free(rs->by_number);
    free(rs);
}

struct frontend_record *ruleset_find_frontend(const struct ruleset *rs,
                                              const struct frontend *frontend)
{
    return hash_table_find(&rs->frontends, key_of_frontend_record, hash_key_of_frontend(frontend));
}

static struct frontend_record *get_frontend(struct ruleset *rs, const struct frontend *frontend)
{
    struct frontend_record *record = ruleset_find_frontend(rs, frontend);
    if (!record) {
        record = xcalloc(1, sizeof(*record));
        record->frontend = *frontend;
        hash_table_add(&rs->frontends, key_of_frontend_record, &record->record.link);
    }
    return record;
}

struct port_record *ruleset_find_port(const struct ruleset *rs, uint32_t id)
{
    return hash_table_find(&rs->ports, key_of_port_record, key_of_id(&id));
}

static struct port_record *get_port(struct ruleset *rs, uint32_t id)
{
    struct port_record *port = ruleset_find_port(rs, id);
    if (!port) {
        port = xcalloc(1, sizeof(*port));
        port->record.is_port = true;
        port->id = id;
        hash_table_add(&rs->ports, key_of_port_record, &port->record.link);
    }
    return port;
}

struct port_record *ruleset_port_of_number(const struct ruleset *rs, uint32_t number)
{
    return rs->by_number[number >> PORT_LOW_BITS];
}

void ruleset_number_port(struct ruleset *rs, struct port_record *port, uint32_t number)
{
    if (port->number)
        rs->by_number[port->number >> PORT_LOW_BITS] = NULL;
    port->number = number;
    if (number)
        rs->by_number[number >> PORT_LOW_BITS] = port;
}

/* One that is not known was found in the kernel, and is nobody's. */
static struct port_record *get_port_of_number(struct ruleset *rs, uint32_t number)
{
    struct port_record *port = ruleset_port_of_number(rs, number);
    if (!port) {
        port = get_port(rs, FOUND_ID | number >> PORT_LOW_BITS);
        port->adopted = true;
        ruleset_number_port(rs, port, number);
        ruleset_mark_pending(rs, &port->record);
    }
    return port;
}

struct record *ruleset_find_subject(const struct ruleset *rs, const struct set_subject *subject)
{
    if (subject->is_port) {
        struct port_record *port = ruleset_port_of_number(rs, subject->port);
        return port ? &port->record : NULL;
    }
    struct frontend_record *frontend = ruleset_find_frontend(rs, &subject->frontend);
    return frontend ? &frontend->record : NULL;
}

struct record *ruleset_subject(struct ruleset *rs, const struct set_subject *subject)
{
    return subject->is_port ? &get_port_of_number(rs, subject->port)->record
                            : &get_frontend(rs, &subject->frontend)->record;
}

const struct hash_table *ruleset_records_of(const struct ruleset *rs, enum table_set set)
{
    return set_owner(set) == OWNER_FRONTEND ? &rs->frontends : &rs->ports;
}

struct part *port_local(struct port_record *port)
{
    if (!port->local)
        port->local = xcalloc(1, sizeof(*port->local));
    return port->local;
}

struct affinity *port_affinity(struct port_record *port)
{
    if (!port->affinity)
        port->affinity = xcalloc(1, sizeof(*port->affinity));
    return port->affinity;
}

struct restriction *frontend_restriction(struct frontend_record *frontend)
{
    if (!frontend->restriction)
        frontend->restriction = xcalloc(1, sizeof(*frontend->restriction));
    return frontend->restriction;
}

struct part *port_part(const struct port_record *port, enum port_part which)
{
    return which == PART_LOCAL ? port->local : (struct part *)&port->all;
}

bool port_needs(const struct port_record *port, enum port_part which)
{
    return port->record.wanted && (which == PART_LOCAL ? port->needs_local : port->needs_cluster);
}

void port_list_wishes(struct port_record *port)
{
    part_list(&port->all);
    if (port->local)
        part_list(port->local);
}

static void want_part_in_force(const struct port_record *port, enum port_part which,
                               struct part *part)
{
    part_want_slots(part, port_needs(port, which) ? low_of_value(part->value.held) : 0);
}

void port_want_in_force(struct port_record *port)
{
    want_part_in_force(port, PART_ALL, &port->all);
    if (port->local)
        want_part_in_force(port, PART_LOCAL, port->local);
}

void ruleset_mark_pending(struct ruleset *rs, struct record *record)
{
    if (record->pending)
        return;
    record->pending = true;
    if (!record->is_port && as_frontend(record)->port)
        as_frontend(record)->port->n_pending++;
    vec_push(&rs->pending, record);
}

void record_settle(struct record *record)
{
    if (record->pending && !record->is_port && as_frontend(record)->port)
        as_frontend(record)->port->n_pending--;
    record->pending = false;
}

/* ---- what leads where ---- */

static void want_no_port(struct ruleset *rs, struct port_record *port);

struct port_record *port_hold(struct port_record *port)
{
    if (port)
        port->refs++;
    return port;
}

void port_release(struct ruleset *rs, struct port_record *port)
{
    if (!port || --port->refs > 0)
        return;
    if (port->removed)
        want_no_port(rs, port);
    else if (!port->record.wanted)
        ruleset_mark_pending(rs, &port->record); /* that commit frees it, if nothing is left */
}

void frontend_lead_to(struct ruleset *rs, struct frontend_record *frontend,
                      struct port_record *port)
{
    struct port_record *before = frontend->port;
    const bool pending = frontend->record.pending;
    if (before == port)
        return;
    port_hold(port);
    if (port)
        port->n_pending += pending;
    if (before)
        before->n_pending -= pending;
    frontend->port = port;
    port_release(rs, before);
}

void ruleset_lead(struct ruleset *rs, uint32_t value, bool more)
{
    if (value == 0)
        return;
    struct port_record *port = get_port_of_number(rs, port_of_value(value));
    for (enum port_part which = 0; which < PARTS; which++)
        if (class_leads_to(low_of_value(value), which))
            port->led[which] += more ? 1 : -1u;
}

/* ---- wanted: service ports ---- */

uint8_t route_flags(const struct port_route *route)
{
    if (!route->has_any)
        return FLAG_REJECTED;
    return route->needs_local && route->n_local == 0 ? FLAG_DROPPED : 0;
}

/* The same for both parts: the Cluster set has all of the local one, or there is none. */
static void want_backends(struct port_record *port, struct part *part,
                          const struct backend *backends, size_t n)
{
    if (n > MAX_BACKENDS)
        port->n_offered = (uint32_t)n;
    part_want(part, backends, n < MAX_BACKENDS ? n : MAX_BACKENDS);
}

static void want_port(struct ruleset *rs, struct port_record *port, const struct port_route *route,
                      bool wanted)
{
    refusals_forget_wish(rs, &port->record);
    port->record.wanted = wanted;
    port->removed = false;
    port->has_any = route->has_any;
    port->needs_cluster = route->needs_cluster;
    port->needs_local = route->needs_local;
    port->n_offered = 0;
    want_backends(port, &port->all, route->backends, route->n_backends);
    if (route->n_local > 0 || port->local)
        want_backends(port, port_local(port), route->local_backends, route->n_local);
    if (route->affinity_timeout || port->affinity)
        port_affinity(port)->wanted_timeout = route->affinity_timeout;
    ruleset_mark_pending(rs, &port->record);
}

void ruleset_set_port(struct ruleset *rs, uint32_t id, const struct port_route *route)
{
    want_port(rs, get_port(rs, id), route, true);
}

static void want_no_port(struct ruleset *rs, struct port_record *port)
{
    const struct port_route nothing = {.has_any = false};
    want_port(rs, port, &nothing, false);
}

void ruleset_remove_port(struct ruleset *rs, uint32_t id)
{
    struct port_record *port = ruleset_find_port(rs, id);
    if (port && port->refs > 0)
        port->removed = true;
    else if (port)
        want_no_port(rs, port);
}

/* Whether what is wanted of @port is known as a list or difference that changes can be put on.
 * Session affinity gives each backend a number, so it wants to see them all. */
static bool can_change(const struct port_record *port, const struct port_route_change *change)
{
    return port && port->record.wanted && !port->record.refusal &&
           !(port->affinity && port->affinity->wanted_timeout) &&
           part_can_change(&port->all, change->backends, change->n_backends) &&
           (port->local ? part_can_change(port->local, change->local_backends, change->n_local)
                        : change->n_local == 0);
}

bool ruleset_change_port(struct ruleset *rs, uint32_t id, const struct port_route_change *change)
{
    struct port_record *port = ruleset_find_port(rs, id);
    if (!can_change(port, change))
        return false;
    part_change(&port->all, change->backends, change->n_backends);
    if (port->local)
        part_change(port->local, change->local_backends, change->n_local);
    ruleset_mark_pending(rs, &port->record);
    return true;
}

/* ---- wanted: frontends ---- */

unsigned route_class(const struct route *route)
{
    return (route->external ? CLASS_EXTERNAL : 0u) | (route->local ? CLASS_LOCAL : 0u) |
           (route->affine ? CLASS_AFFINE : 0u);
}

/* The list is held. */
static struct source_list *hold_sources(struct ruleset *rs, const struct route *route)
{
    return route->sources ? source_lists_hold(&rs->lists, route->sources, route->n_sources) : NULL;
}

static struct source_list *sources_of(const struct frontend_record *frontend)
{
    return frontend->restriction ? frontend->restriction->sources : NULL;
}

static bool is_wanted_so(const struct frontend_record *frontend, const struct port_record *port,
                         unsigned class_wanted, const struct source_list *sources)
{
    return frontend->record.wanted && !frontend->record.refusal && frontend->port == port &&
           frontend->class_wanted == class_wanted && sources_of(frontend) == sources;
}

void ruleset_set(struct ruleset *rs, const struct frontend *frontend, const struct route *route)
{
    struct frontend_record *record = get_frontend(rs, frontend);
    struct port_record *port = get_port(rs, route->port);
    struct source_list *sources = hold_sources(rs, route), *before = sources_of(record);
    if (is_wanted_so(record, port, route_class(route), sources)) {
        source_lists_release(&rs->lists, sources, 0);
        return;
    }
    rs->n_wanted += !refusals_is_wanted(&record->record);
    refusals_forget_wish(rs, &record->record);
    record->record.wanted = true;
    record->class_wanted = (uint8_t)route_class(route);
    frontend_lead_to(rs, record, port);
    if (sources || record->restriction)
        frontend_restriction(record)->sources = sources;
    source_lists_release(&rs->lists, before, 0);
    ruleset_mark_pending(rs, &record->record);
}

void ruleset_remove(struct ruleset *rs, const struct frontend *frontend)
{
    struct frontend_record *record = ruleset_find_frontend(rs, frontend);
    if (!record)
        return;
    rs->n_wanted -= refusals_is_wanted(&record->record);
    refusals_forget_wish(rs, &record->record);
    record->record.wanted = false;
    frontend_lead_to(rs, record, NULL);
    if (record->restriction) {
        source_lists_release(&rs->lists, record->restriction->sources, 0);
        record->restriction->sources = NULL;
    }
    ruleset_mark_pending(rs, &record->record);
}

size_t ruleset_frontends(const struct ruleset *rs)
{
    size_t n = rs->n_wanted;
    vec_each (&rs->refusals.records, it)
        if (!(*it)->is_port && refusals_holds_back(*it))
            n += (size_t)(*it)->wanted - (size_t)refusals_is_wanted(*it);
    vec_each (&rs->refusals.frontends, it) /* not in force, for their service port's sake */
        n -= (*it)->record.wanted && !(*it)->service.held;
    return n;
}

const struct ruleset_figures *ruleset_figures(const struct ruleset *rs)
{
    return &rs->figures;
}

static void want_or_drop(struct ruleset *rs, enum table_set set, const struct key *key, bool want)
{
    if (want)
        contents_want(&rs->contents, set, key, NULL);
    else
        contents_drop(&rs->contents, set, key);
}

static void want_once(struct ruleset *rs, enum table_set set, const struct key *key, bool want)
{
    const struct content *known = contents_find(&rs->contents, set, key);
    if (want != (known && known->wanted))
        want_or_drop(rs, set, key, want);
}

void ruleset_set_cluster_ip(struct ruleset *rs, const struct address *address, bool in_use)
{
    struct key key = {.length = 0};
    key_put_address(&key, rs->family, address);
    want_once(rs, SET_CLUSTER_IPS, &key, in_use);
}

void ruleset_set_hairpin(struct ruleset *rs, uint8_t protocol, const struct backend *backend,
                         bool in_use)
{
    struct key key = {.length = 0};
    key_put_address(&key, rs->family, &backend->address);
    key_put_address(&key, rs->family, &backend->address);
    key_put_protocol(&key, protocol);
    key_put_port(&key, backend->port);
    want_once(rs, SET_HAIRPIN, &key, in_use);
}

static void want_ranges(struct ruleset *rs, enum table_set set, const range_vec *ranges,
                        bool wanted)
{
    vec_each (ranges, range) {
        struct key key = key_of_range(rs->family, range);
        want_or_drop(rs, set, &key, wanted);
    }
}

static void set_ranges(struct ruleset *rs, enum table_set set, range_vec *held,
                       const range_vec *ranges)
{
    want_ranges(rs, set, ranges, true);
    want_ranges(rs, set, held, false);
    vec_clear(held);
    vec_each (ranges, range)
        vec_push(held, *range);
}

void ruleset_set_service_cidrs(struct ruleset *rs, const range_vec *ranges)
{
    set_ranges(rs, SET_SERVICE_CIDRS, &rs->service_cidrs, ranges);
}

struct ruleset_senders ruleset_senders(const struct ruleset *rs)
{
    return (struct ruleset_senders){.host = rs->vars.from_host != NULL,
                                    .pods = rs->detector,
                                    .pod_cidrs = &rs->pod_cidrs,
                                    .pod_match = rs->from_pod,
                                    .rejects = strcmp(rs->vars.reject, "reject") == 0};
}

void ruleset_set_pod_cidrs(struct ruleset *rs, const range_vec *ranges)
{
    set_ranges(rs, SET_POD_CIDRS, &rs->pod_cidrs, ranges);
}

int ruleset_say_owner(enum family family, const struct nft_table_state *state, struct error *err)
{
    return error_set(err,
                     "table %s " RULESET_TABLE
                     " is owned by a running program, most likely another kube-nftd; its netlink "
                     "port, often its process ID, is %" PRIu32,
                     nft_family_name(family), state->owner);
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
    if (state.owned_elsewhere)
        return ruleset_say_owner(family, &state, err);
    struct nft_batch batch;
    nft_batch_init(&batch, family, RULESET_TABLE);
    nft_batch_delete_table(&batch);
    int result = nft_socket_commit(socket, &batch, err);
    nft_batch_release(&batch);
    return result;
}
