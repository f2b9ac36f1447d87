/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Compares the kernel's state of one frontend with the desired one: for explain. */
#include "state.h"

#include <linux/netfilter/nf_tables.h>
#include <stdarg.h>
#include <string.h>

struct prober {
    const struct ruleset *rs;
    struct nft_socket *socket;
    const struct probe_subject *subject;
    size_t *lookups;
    struct probe *probe;
    struct error *err;
};

/* ---- single elements ---- */

/* The relevant fields of one element. */
struct found {
    bool there;
    bool is_end;            /* of a range */
    uint32_t number;        /* value in a number map; 1 in a set */
    struct backend backend; /* value in a backend map; else empty */
    enum family family;
};

static void probe_element(void *ctx, const struct nft_element *element)
{
    struct found *found = ctx;
    found->there = true;
    found->is_end = element->flags & NFT_SET_ELEM_INTERVAL_END;
    found->number = element->data_length == 0;
    if (element->data_length == sizeof(found->number))
        memcpy(&found->number, element->data, sizeof(found->number));
    if (!backend_of_value(found->family, element->data, element->data_length, &found->backend))
        found->backend.port = 0;
}

static int look_up(const struct prober *p, const char *set, const struct key *key,
                   struct found *found)
{
    *found = (struct found){.family = p->rs->family};
    return nft_socket_get_element(p->socket, p->rs->family, RULESET_TABLE, set, key->bytes,
                                  key->length, probe_element, found, p->err);
}

/* Reads the value of the frontend or its service port in a number set; 0: none. */
static int look_up_number(const struct prober *p, enum table_set set, uint32_t *number)
{
    struct found found;
    const struct key key =
        set_owner(set) == OWNER_FRONTEND
            ? key_of_frontend(p->subject->frontend)
            : key_of_number(port_of_value(p->probe->service) | set_schema[set].low);
    const int result = look_up(p, set_name(set), &key, &found);
    *number = found.number;
    return result;
}

/* Takes up to @n of the remaining lookups; returns how many. */
static size_t take_lookups(const struct prober *p, size_t n)
{
    size_t left = *p->lookups < n ? *p->lookups : n;
    *p->lookups -= left;
    p->probe->skipped += n - left;
    return left;
}

/* ---- differences ---- */

__attribute__((format(printf, 3, 4))) static void differ(const struct prober *p, const char *set,
                                                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct probe_difference difference = {set, xvasprintf(format, args)};
    va_end(args);
    vec_push(&p->probe->differences, difference);
}

/* For sets. */
static void check_membership(const struct prober *p, enum table_set set, bool is, bool should)
{
    if (is != should)
        differ(p, set_name(set), should ? "it is missing" : "it exists, but should not");
}

/* "2:8004", as nft prints a classid. */
static const char *format_value(uint32_t value, char out[16])
{
    snprintf(out, 16, "%x:%x", value >> 16, value & UINT16_MAX);
    return out;
}

/* For maps. */
static void check_value(const struct prober *p, enum table_set map, uint32_t is, uint32_t should)
{
    char text[16], other[16];
    if (is == should)
        return;
    if (!is)
        differ(p, set_name(map), "it is missing, and should be %s", format_value(should, text));
    else if (!should)
        differ(p, set_name(map), "it is %s, and should not exist", format_value(is, text));
    else
        differ(p, set_name(map), "it is %s, and should be %s", format_value(is, text),
               format_value(should, other));
}

/* ---- slots ---- */

static int read_slots(const struct prober *p, enum table_set map, struct probe_part *part)
{
    const size_t n = take_lookups(p, low_of_value(part->value));
    vec_reserve(&part->found, n);
    for (uint32_t slot = 0; slot < n; slot++) {
        const struct key key = key_of_slot(port_of_value(part->value), slot);
        struct found found;
        if (look_up(p, set_name(map), &key, &found))
            return -1;
        part->looked_at++;
        if (!slot_is_empty(&found.backend))
            vec_push(&part->found, found.backend);
        else
            differ(p, set_name(map), found.there ? "slot %u holds no endpoint" : "slot %u is empty",
                   slot);
    }
    vec_sort(&part->found, backend_compare);
    return 0;
}

/* Both are sorted. Missing backends can only be reported if all slots were read. */
static void compare_backends(const struct prober *p, enum table_set map,
                             const struct probe_part *part, const struct backend *should, size_t n)
{
    char text[BACKEND_TEXT_SIZE];
    const bool all = part->looked_at == low_of_value(part->value);
    size_t i = 0, j = 0;
    while (i < n || j < part->found.n) {
        const struct backend *found = j < part->found.n ? &part->found.v[j] : NULL;
        const int order = i == n ? 1 : !found ? -1 : backend_compare(&should[i], found);
        if (order < 0 && all)
            differ(p, set_name(map), "%s is missing",
                   backend_format(p->rs->family, &should[i], text));
        if (order > 0)
            differ(p, set_name(map), "%s %s", backend_format(p->rs->family, found, text),
                   j > 0 && backend_compare(found - 1, found) == 0 ? "is a duplicate"
                                                                   : "does not belong there");
        i += order <= 0;
        j += order >= 0;
    }
}

static uint32_t backends_offered(const struct port_route *port, enum port_part which)
{
    const size_t offered = which == PART_LOCAL ? port->n_local : port->n_backends;
    return (uint32_t)(offered < MAX_BACKENDS ? offered : MAX_BACKENDS);
}

/* Reads the count of a part and compares it; a counted frontend has it in its own value. */
static int probe_count(const struct prober *p, enum port_part which, struct probe_part *part)
{
    const struct port_route *port = p->subject->port;
    const uint32_t service = p->probe->service, n = backends_offered(port, which);
    if (which == PART_ALL && value_is_counted(service)) {
        part->value = low_of_value(service) ? service : 0;
        return 0;
    }
    if (look_up_number(p, set_of_count(which), &part->value))
        return -1;
    if (which == PART_LOCAL ? port->needs_local : port->needs_cluster)
        check_value(p, set_of_count(which), part->value, n ? port_of_value(service) | n : 0);
    return 0;
}

/* A part that is no longer needed is deleted later. */
static int probe_part(const struct prober *p, enum port_part which, struct probe_part *part)
{
    const struct port_route *port = p->subject->port;
    const bool local = which == PART_LOCAL;
    const uint32_t n = backends_offered(port, which);
    const char *picks = local ? "local_picks" : "picks";
    struct found found;
    char text[16];
    if (probe_count(p, which, part))
        return -1;
    if (!(local ? port->needs_local : port->needs_cluster) || !part->value)
        return 0;
    const struct key key = key_of_number(low_of_value(part->value));
    if (read_slots(p, set_of_slots(which), part) || look_up(p, picks, &key, &found))
        return -1;
    if (!found.there)
        differ(p, picks, "no chain for %s exists", format_value(low_of_value(part->value), text));
    if (n)
        compare_backends(p, set_of_slots(which), part,
                         local ? port->local_backends : port->backends, n);
    return 0;
}

static int probe_port(const struct prober *p)
{
    struct probe *probe = p->probe;
    const struct port_route *port = p->subject->port;
    uint32_t affinity, rejected, dropped;
    if (look_up_number(p, SET_AFFINITY_TIMEOUTS, &affinity))
        return -1;
    probe->affinity_timeout = timeout_of_value(affinity);
    if (probe->affinity_timeout != port->affinity_timeout)
        differ(p, set_name(SET_AFFINITY_TIMEOUTS), "it is %u seconds, and should be %u",
               probe->affinity_timeout, port->affinity_timeout);
    if (probe_part(p, PART_ALL, &probe->all) || probe_part(p, PART_LOCAL, &probe->local) ||
        look_up_number(p, SET_REJECTED, &rejected) || look_up_number(p, SET_DROPPED, &dropped))
        return -1;
    probe->rejected = rejected;
    probe->dropped = dropped;
    check_membership(p, SET_REJECTED, rejected, route_rejects(port));
    check_membership(p, SET_DROPPED, dropped, route_drops(port));
    return 0;
}

/* ---- the frontend ---- */

/* Only the process that programs the table knows the numbers of frontends. */
static const struct frontend_entry *known_entry(const struct prober *p)
{
    const struct frontend_entry *frontend = ruleset_find_frontend(p->rs, p->subject->frontend);
    return ruleset_knows_kernel(p->rs) && frontend && !frontend->entry.dirty ? frontend : NULL;
}

/* In another process it is unknown which number the port has, and which frontend of it is counted,
 * so these are taken from the kernel. */
static int probe_service(const struct prober *p)
{
    const struct frontend_entry *known = known_entry(p);
    const struct route *route = p->subject->route;
    uint32_t *service = &p->probe->service;
    if (look_up_number(p, SET_SERVICES, service))
        return -1;
    const uint32_t like = known ? known->applied : *service;
    if (route && !like)
        check_membership(p, SET_SERVICES, false, true);
    else
        check_value(p, SET_SERVICES, *service,
                    !route
                        ? 0
                        : port_of_value(like) | (route->class == 0 && value_is_counted(like)
                                                     ? backends_offered(p->subject->port, PART_ALL)
                                                     : CLASS_BASE | route->class));
    return 0;
}

static int probe_source(const struct prober *p, const struct cidr *prefix)
{
    const struct key key = key_of_source(p->rs->family, p->probe->source_list, prefix);
    struct found found;
    char text[ADDRESS_TEXT_SIZE];
    if (look_up(p, set_name(SET_ALLOWED_SOURCES), &key, &found))
        return -1;
    p->probe->sources += found.there;
    if (!found.there)
        differ(p, set_name(SET_ALLOWED_SOURCES), "%s/%u is missing in list %u",
               address_format(p->rs->family, &prefix->address, text), prefix->length,
               p->probe->source_list);
    return 0;
}

/* The list that the frontend's service port is known to have; 0: unknown. */
static uint32_t known_list(const struct prober *p)
{
    const struct port_entry *port =
        known_entry(p) ? ruleset_port_of_number(p->rs, port_of_value(p->probe->service)) : NULL;
    return port ? entry_applied(SET_SOURCE_LISTS, &port->entry) : 0;
}

static int probe_sources(const struct prober *p)
{
    const struct port_route *port = p->subject->port;
    const uint32_t known = known_list(p);
    cidr_vec prefixes = {0};
    uint32_t value;
    int result = 0;
    p->probe->restricted = class_of_value(p->probe->service) & CLASS_RESTRICTED;
    if (!p->probe->restricted)
        return 0;
    if (look_up_number(p, SET_SOURCE_LISTS, &value))
        return -1;
    p->probe->source_list = list_of_value(value);
    check_membership(p, SET_SOURCE_LISTS, value != 0, true);
    if (!port || !value)
        return 0;
    if (known && value != known)
        differ(p, set_name(SET_SOURCE_LISTS), "it is list %u, and should be %u",
               list_of_value(value), list_of_value(known));
    for (size_t i = 0; i < port->n_sources; i++)
        range_prefixes(p->rs->family, &port->sources[i], &prefixes);
    const size_t n = take_lookups(p, prefixes.n);
    for (size_t i = 0; i < n && result == 0; i++)
        result = probe_source(p, &prefixes.v[i]);
    vec_free(&prefixes);
    return result;
}

/* ---- ruleset_probe() ---- */

int ruleset_probe(const struct ruleset *rs, struct nft_socket *socket,
                  const struct probe_subject *subject, size_t *lookups, struct probe *probe,
                  struct error *err)
{
    const struct prober p = {rs, socket, subject, lookups, probe, err};
    const struct address *address = &subject->frontend->address;
    if (probe_service(&p) || probe_sources(&p) ||
        ruleset_probe_address(rs, socket, set_name(SET_CLUSTER_IPS), address, &probe->cluster_ip,
                              err))
        return -1;
    check_membership(&p, SET_CLUSTER_IPS, probe->cluster_ip, ruleset_has_cluster_ip(rs, address));
    return probe->service && subject->port ? probe_port(&p) : 0;
}

void probe_clear(struct probe *probe)
{
    vec_free(&probe->all.found);
    vec_free(&probe->local.found);
    vec_each (&probe->differences, difference)
        free(difference->text);
    vec_free(&probe->differences);
    memset(probe, 0, sizeof(*probe));
}

int ruleset_probe_table(const struct ruleset *rs, struct nft_socket *socket, bool *exists,
                        bool *same, struct error *err)
{
    struct nft_table_state state;
    if (nft_socket_read_table(socket, rs->family, RULESET_TABLE, &state, err))
        return -1;
    *exists = state.exists;
    *same = state.comment && strcmp(state.comment, rs->comment) == 0;
    free(state.comment);
    return *same ? rules_check(rs, socket, same, err) : 0;
}

int ruleset_probe_address(const struct ruleset *rs, struct nft_socket *socket, const char *set,
                          const struct address *address, bool *there, struct error *err)
{
    struct key key = {.length = 0};
    struct found found = {.family = rs->family};
    key_put_address(&key, rs->family, address);
    if (nft_socket_get_element(socket, rs->family, RULESET_TABLE, set, key.bytes, key.length,
                               probe_element, &found, err))
        return -1;
    *there = found.there && !found.is_end;
    return 0;
}
