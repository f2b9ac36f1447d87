/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/table.h"

#include "record.h"

#include <linux/netfilter/nf_tables.h>
#include <stdarg.h>
#include <string.h>

struct auditor {
    const struct ruleset *rs;
    struct nft_socket *socket;
    const struct audit_subject *subject;
    size_t *lookups;
    struct audit *audit;
    struct error *err;
};

/* One element, as far as it matters. */
struct found {
    bool there;
    bool is_end; /* of a range */
    struct key value;
};

/* ---- single elements ---- */

static void copy_bytes(struct key *to, const uint8_t *from, size_t length)
{
    to->length = from && length <= KEY_SIZE ? length : 0;
    if (to->length)
        memcpy(to->bytes, from, to->length);
}

static void on_element(void *ctx, const struct nft_element *element)
{
    struct found *found = ctx;
    found->there = true;
    found->is_end = element->flags & NFT_SET_ELEM_INTERVAL_END;
    copy_bytes(&found->value, element->data, element->data_length);
}

static int look_up(const struct auditor *a, const char *set, const struct key *key,
                   struct found *found)
{
    memset(found, 0, sizeof(*found));
    return nft_socket_get_element(a->socket, a->rs->family, RULESET_TABLE, set, key->bytes,
                                  key->length, on_element, found, a->err);
}

static int look_up_frontend(const struct auditor *a, enum table_set set, struct found *found)
{
    struct key key = key_of_frontend(a->subject->frontend);
    return look_up(a, set_name(set), &key, found);
}

/* What the service port of the frontend has; @low is what stands below its number in the key. */
static int look_up_port(const struct auditor *a, enum table_set set, uint32_t low,
                        struct found *found)
{
    struct key key = {.length = 0};
    key_put_number(&key, port_of_value(a->audit->service) | low);
    return look_up(a, set_name(set), &key, found);
}

/* The value of a map of numbers; 0 if it is not there. */
static uint32_t number_in(const struct found *found)
{
    uint32_t number = 0;
    if (found->value.length == sizeof(number))
        memcpy(&number, found->value.bytes, sizeof(number));
    return number;
}

/* How many of @n lookups there are left; takes them. */
static size_t take_lookups(const struct auditor *a, size_t n)
{
    size_t left = *a->lookups < n ? *a->lookups : n;
    *a->lookups -= left;
    a->audit->skipped += n - left;
    return left;
}

/* ---- differences ---- */

__attribute__((format(printf, 3, 4))) static void differ(const struct auditor *a, const char *set,
                                                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct audit_difference difference = {set, xvasprintf(format, args)};
    va_end(args);
    vec_push(&a->audit->differences, difference);
}

static void check_membership(const struct auditor *a, enum table_set set, bool held, bool wanted)
{
    if (held != wanted)
        differ(a, set_name(set), wanted ? "it is missing" : "it exists, but should not");
}

/* "2:8004", as nft prints a classid. */
static const char *format_value(uint32_t value, char out[16])
{
    snprintf(out, 16, "%x:%x", value >> 16, value & UINT16_MAX);
    return out;
}

static void check_value(const struct auditor *a, enum table_set map, uint32_t held, uint32_t wanted)
{
    char is[16], should[16];
    if (held == wanted)
        return;
    if (!held)
        differ(a, set_name(map), "it is missing, and should be %s", format_value(wanted, should));
    else if (!wanted)
        differ(a, set_name(map), "it is %s, and should not exist", format_value(held, is));
    else
        differ(a, set_name(map), "it is %s, and should be %s", format_value(held, is),
               format_value(wanted, should));
}

/* ---- slots ---- */

static int read_slots(const struct auditor *a, enum table_set map, struct audit_part *part)
{
    enum family family = a->rs->family;
    size_t n = take_lookups(a, low_of_value(part->value));
    vec_reserve(&part->found, n);
    for (uint32_t slot = 0; slot < n; slot++) {
        struct key key = key_of_slot(port_of_value(part->value), slot);
        struct found found;
        struct backend backend;
        if (look_up(a, set_name(map), &key, &found))
            return -1;
        part->looked_at++;
        if (backend_of_value(family, found.value.bytes, found.value.length, &backend))
            vec_push(&part->found, backend);
        else
            differ(a, set_name(map), found.there ? "slot %u holds no endpoint" : "slot %u is empty",
                   slot);
    }
    if (part->found.n)
        qsort(part->found.v, part->found.n, sizeof(*part->found.v), backend_compare);
    return 0;
}

static void say_backend(const struct auditor *a, enum table_set map, const struct backend *backend,
                        const char *what)
{
    char text[BACKEND_TEXT_SIZE];
    differ(a, set_name(map), "%s %s", backend_format(a->rs->family, backend, text), what);
}

/* Both are sorted. What is missing can be told only if all slots were looked at. */
static void compare_backends(const struct auditor *a, enum table_set map,
                             const struct audit_part *part, const struct backend *wanted, size_t n)
{
    bool all = part->looked_at == low_of_value(part->value);
    size_t i = 0, j = 0;
    while (i < n || j < part->found.n) {
        const struct backend *found = j < part->found.n ? &part->found.v[j] : NULL;
        int order = i == n ? 1 : !found ? -1 : backend_compare(&wanted[i], found);
        if (order < 0 && all)
            say_backend(a, map, &wanted[i], "is missing");
        if (order > 0) {
            bool again = j > 0 && backend_compare(found - 1, found) == 0;
            say_backend(a, map, found, again ? "is a duplicate" : "does not belong there");
        }
        i += order <= 0;
        j += order >= 0;
    }
}

static int check_pick(const struct auditor *a, const char *picks, uint32_t value)
{
    struct found found;
    struct key key = {.length = 0};
    char text[16];
    key_put_number(&key, low_of_value(value));
    if (look_up(a, picks, &key, &found))
        return -1;
    if (!found.there)
        differ(a, picks, "no chain for %s exists", format_value(low_of_value(value), text));
    return 0;
}

struct part_names {
    enum table_set ports, endpoints;
    const char *picks;
};

/* A part that nobody needs any more goes by and by. */
static int audit_part(const struct auditor *a, const struct part_names *names,
                      struct audit_part *part, bool needed, const struct backend *backends,
                      size_t n)
{
    struct found found;
    if (n > MAX_BACKENDS)
        n = MAX_BACKENDS;
    if (look_up_port(a, names->ports, 0, &found))
        return -1;
    part->value = number_in(&found);
    if (!needed)
        return 0;
    check_value(a, names->ports, part->value,
                n ? port_of_value(a->audit->service) | (uint32_t)n : 0);
    if (!part->value)
        return 0;
    if (read_slots(a, names->endpoints, part) || check_pick(a, names->picks, part->value))
        return -1;
    if (n)
        compare_backends(a, names->endpoints, part, backends, n);
    return 0;
}

static int audit_parts(const struct auditor *a, const struct port_route *port)
{
    static const struct part_names all = {SET_PORTS, SET_ENDPOINTS, "picks"},
                                   local = {SET_LOCAL_PORTS, SET_LOCAL_ENDPOINTS, "local_picks"};
    return audit_part(a, &all, &a->audit->all, port->needs_cluster, port->backends,
                      port->n_backends) ||
                   audit_part(a, &local, &a->audit->local, port->needs_local, port->local_backends,
                              port->n_local)
               ? -1
               : 0;
}

/* ---- sets of service ports ---- */

static int audit_set(const struct auditor *a, enum table_set set, uint32_t low, bool wanted,
                     bool *held)
{
    struct found found;
    if (look_up_port(a, set, low, &found))
        return -1;
    *held = found.there;
    check_membership(a, set, found.there, wanted);
    return 0;
}

static int audit_sets(const struct auditor *a, const struct port_route *port)
{
    struct audit *audit = a->audit;
    uint8_t flags = route_flags(port);
    return audit_set(a, SET_REJECTED, 0, flags & FLAG_REJECTED, &audit->rejected) ||
                   audit_set(a, SET_DROPPED, CLASS_LOCAL, flags & FLAG_DROPPED, &audit->dropped)
               ? -1
               : 0;
}

static int audit_affinity(const struct auditor *a, const struct port_route *port)
{
    struct found found;
    if (look_up_port(a, SET_AFFINITY_TIMEOUTS, 0, &found))
        return -1;
    uint32_t seconds = a->audit->affinity_timeout = number_in(&found);
    if (seconds != port->affinity_timeout)
        differ(a, set_name(SET_AFFINITY_TIMEOUTS), "it is %u seconds, and should be %u", seconds,
               port->affinity_timeout);
    return 0;
}

/* ---- the frontend ---- */

static int audit_cluster_ip(const struct auditor *a)
{
    const struct address *address = &a->subject->frontend->address;
    if (ruleset_audit_address(a->rs, a->socket, set_name(SET_CLUSTER_IPS), address,
                              &a->audit->cluster_ip, a->err))
        return -1;
    check_membership(a, SET_CLUSTER_IPS, a->audit->cluster_ip,
                     ruleset_has_cluster_ip(a->rs, address));
    return 0;
}

/* What frontends are numbered by is known only to who programs the table. */
static const struct frontend_record *known_record(const struct auditor *a)
{
    const struct frontend_record *frontend = ruleset_find_frontend(a->rs, a->subject->frontend);
    return a->rs->kernel_known && frontend && !frontend->record.pending ? frontend : NULL;
}

/* ---- source ranges ---- */

static void check_list(const struct auditor *a, uint32_t value)
{
    const struct frontend_record *known = known_record(a);
    const struct route *route = a->subject->route;
    bool restricted = route && route->sources;
    uint32_t known_value = known && known->restriction ? known->restriction->number.held : 0;
    check_membership(a, SET_RESTRICTED, value != 0, restricted);
    if (value && restricted && known_value && value != known_value)
        differ(a, set_name(SET_RESTRICTED), "it is list %u, and should be %u", list_of_value(value),
               list_of_value(known_value));
}

static int audit_source(const struct auditor *a, const struct cidr *prefix)
{
    struct key key = key_of_source(a->rs->family, a->audit->source_list, prefix);
    struct found found;
    char text[ADDRESS_TEXT_SIZE];
    if (look_up(a, set_name(SET_ALLOWED_SOURCES), &key, &found))
        return -1;
    if (found.there)
        a->audit->sources++;
    else
        differ(a, set_name(SET_ALLOWED_SOURCES), "%s/%u is missing in list %u",
               address_format(a->rs->family, &prefix->address, text), prefix->length,
               a->audit->source_list);
    return 0;
}

static int audit_prefixes(const struct auditor *a, const struct route *route)
{
    cidr_vec prefixes = {0};
    int result = 0;
    for (size_t i = 0; i < route->n_sources; i++)
        range_prefixes(a->rs->family, &route->sources[i], &prefixes);
    size_t n = take_lookups(a, prefixes.n);
    for (size_t i = 0; i < n && result == 0; i++)
        result = audit_source(a, &prefixes.v[i]);
    vec_free(&prefixes);
    return result;
}

static int audit_sources(const struct auditor *a)
{
    const struct route *route = a->subject->route;
    struct found found;
    if (look_up_frontend(a, SET_RESTRICTED, &found))
        return -1;
    a->audit->source_list = list_of_value(number_in(&found));
    check_list(a, number_in(&found));
    return a->audit->source_list && route && route->sources ? audit_prefixes(a, route) : 0;
}

/* ---- all of it ---- */

/* Without the program that keeps the table, the number of the port is not known, just the class. */
static int audit_service(const struct auditor *a)
{
    const struct frontend_record *known = known_record(a);
    const struct route *route = a->subject->route;
    struct found found;
    if (look_up_frontend(a, SET_SERVICES, &found))
        return -1;
    uint32_t service = a->audit->service = number_in(&found);
    uint32_t port = known ? port_of_value(known->service.held) : port_of_value(service);
    if (route && !port)
        check_membership(a, SET_SERVICES, false, true);
    else
        check_value(a, SET_SERVICES, service, route ? port | route_class(route) : 0);
    return 0;
}

int ruleset_audit(const struct ruleset *rs, struct nft_socket *socket,
                  const struct audit_subject *subject, size_t *lookups, struct audit *audit,
                  struct error *err)
{
    struct auditor a = {.rs = rs,
                        .socket = socket,
                        .subject = subject,
                        .lookups = lookups,
                        .audit = audit,
                        .err = err};
    const struct port_route *port = subject->port;
    if (audit_service(&a) || audit_sources(&a) || audit_cluster_ip(&a))
        return -1;
    if (!audit->service || !port)
        return 0;
    return audit_affinity(&a, port) || audit_parts(&a, port) || audit_sets(&a, port) ? -1 : 0;
}

void audit_clear(struct audit *audit)
{
    vec_free(&audit->all.found);
    vec_free(&audit->local.found);
    vec_each (&audit->differences, difference)
        free(difference->text);
    vec_free(&audit->differences);
    memset(audit, 0, sizeof(*audit));
}

int ruleset_audit_table(const struct ruleset *rs, struct nft_socket *socket, bool *exists,
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

int ruleset_audit_address(const struct ruleset *rs, struct nft_socket *socket, const char *set,
                          const struct address *address, bool *held, struct error *err)
{
    struct found found = {.there = false};
    struct key key = {.length = 0};
    key_put_address(&key, rs->family, address);
    if (nft_socket_get_element(socket, rs->family, RULESET_TABLE, set, key.bytes, key.length,
                               on_element, &found, err))
        return -1;
    *held = found.there && !found.is_end;
    return 0;
}
