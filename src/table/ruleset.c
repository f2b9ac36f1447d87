/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/table.h"

#include "kube-nftd/base.h"
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
    rs->vars =
        (struct layout_vars){.family = rs->family,
                             .mark = rs->mark,
                             .from_pod = rs->from_pod,
                             .not_from_pod = rs->not_from_pod,
                             .from_host = config->no_fib ? NULL : "fib saddr type local",
                             .reject = config->no_reject ? "drop" : "reject",
                             .count_services = config->counting >= COUNT_SERVICES ? "" : NULL,
                             .count_endpoints = config->counting >= COUNT_ENDPOINTS ? "" : NULL};
}

struct ruleset *ruleset_new(enum family family, const struct ruleset_config *config,
                            struct error *err)
{
    struct ruleset *rs = xcalloc(1, sizeof(*rs));
    rs->family = rs->lists.family = family;
    rs->by_number = xcalloc(MOST_PORTS + 1, sizeof(struct port_record *));
    rs->owned = config->owned;
    rs->counting = config->counting;
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

enum connection_counting ruleset_counting(const struct ruleset *rs)
{
    return rs->counting;
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
    connections_clear(&rs->connections);
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

struct frontend_record *ruleset_get_frontend(struct ruleset *rs, const struct frontend *frontend)
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

struct port_record *ruleset_get_port(struct ruleset *rs, uint32_t id)
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
        port = ruleset_get_port(rs, FOUND_ID | number >> PORT_LOW_BITS);
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
                            : &ruleset_get_frontend(rs, &subject->frontend)->record;
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
    if (record->pending || record->held_back)
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

void ruleset_lead(struct ruleset *rs, uint32_t value, bool more)
{
    if (value == 0)
        return;
    struct port_record *port = get_port_of_number(rs, port_of_value(value));
    for (enum port_part which = 0; which < PARTS; which++)
        if (class_leads_to(low_of_value(value), which))
            port->led[which] += more ? 1 : -1u;
}

/* ---- what it says ---- */

size_t ruleset_frontends(const struct ruleset *rs)
{
    size_t n = rs->n_wanted;
    vec_each (&rs->refusals.all, it)
        if (!it->record->is_port && it->record->held_back)
            n += (size_t)(as_frontend(it->record)->service.held != 0) - it->record->wanted;
    vec_each (&rs->refusals.frontends, it) /* not in force, for their service port's sake */
        n -= (*it)->record.wanted && !(*it)->service.held;
    return n;
}

const struct ruleset_figures *ruleset_figures(const struct ruleset *rs)
{
    return &rs->figures;
}

struct ruleset_senders ruleset_senders(const struct ruleset *rs)
{
    return (struct ruleset_senders){.host = rs->vars.from_host != NULL,
                                    .pods = rs->detector,
                                    .pod_cidrs = &rs->pod_cidrs,
                                    .pod_match = rs->from_pod,
                                    .rejects = strcmp(rs->vars.reject, "reject") == 0};
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
