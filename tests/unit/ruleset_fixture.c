/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ruleset_fixture.h"

#include "table/audit.h"
#include "table/previous_table.h"

#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

struct ruleset *ruleset;
struct ruleset_config config;
struct nft_socket *sock;
enum family family;
double now;

struct ruleset *new_ruleset(void)
{
    struct error err = {0};
    struct ruleset *fresh = ruleset_new(family, &config, &err);
    ck_assert_msg(fresh, "%s", err.text);
    return fresh;
}

void setup(void)
{
    now = 1000;
    config = (struct ruleset_config){.mark = 0x4000};
    fake_kernel_reset();
    sock = nft_socket_open(NULL);
}

void teardown(void)
{
    ruleset_free(ruleset);
    ruleset = NULL;
    nft_socket_close(sock);
    fake_kernel_reset();
}

void begin(int which)
{
    family = (enum family)which;
    ruleset = new_ruleset();
}

void restart(void)
{
    ruleset_free(ruleset);
    ruleset = new_ruleset();
    fake_kernel_forget_counts();
}

/* ---- by number ---- */

static struct address numbered(uint8_t first, unsigned number)
{
    struct address address = {
        {first, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number}};
    if (family == FAMILY_IPV6)
        address.bytes[15] = 1;
    return address;
}

struct frontend frontend(unsigned number)
{
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};
    return (struct frontend){.address = numbered(11, number),
                             .port = (uint16_t)(80 + number % 2),
                             .protocol = protocols[number % 3],
                             .family = (uint8_t)family};
}

struct backend backend(unsigned number)
{
    return (struct backend){numbered(10, number), (uint16_t)(8000 + number % 2)};
}

struct address client(unsigned number)
{
    return numbered(12, number);
}

int compare_backends(const void *a, const void *b)
{
    return backend_compare(a, b);
}

void ranges_of(const char *text, range_vec *out)
{
    unsigned first, last;
    int length;
    vec_clear(out);
    while (sscanf(text, " %u%n", &first, &length) == 1) {
        struct address_range range = {client(first), {{0}}};
        range.first.bytes[15] = 0;
        memset(range.last.bytes, 0xff, address_length(family));
        text += length;
        last = first;
        if (sscanf(text, "-%u%n", &last, &length) == 1)
            text += length;
        if (strncmp(text, "-top", 4) == 0)
            text += 4;
        else
            memcpy(range.last.bytes, client(last).bytes, 4);
        vec_push(out, range);
    }
}

void set_service_cidrs(const char *text)
{
    range_vec ranges = {0};
    ranges_of(text, &ranges);
    ruleset_set_service_cidrs(ruleset, &ranges);
    vec_free(&ranges);
}

void set_pod_cidrs(const char *text)
{
    range_vec ranges = {0};
    ranges_of(text, &ranges);
    ruleset_set_pod_cidrs(ruleset, &ranges);
    vec_free(&ranges);
}

/* ---- routes ---- */

size_t backends_of(const char *text, struct backend out[MOST_BACKENDS])
{
    size_t n = 0;
    const bool digits = !text || !strstr(text, "..");
    for (const char *at = text; digits && at && *at; at++)
        out[n++] = backend((unsigned)(*at - '0'));
    for (unsigned first, last; !digits && sscanf(text, "%u..%u", &first, &last) == 2;) {
        ck_assert_uint_lt(n + last - first, MOST_BACKENDS);
        while (first <= last)
            out[n++] = backend(first++);
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return n;
}

static bool has_any(const struct wish *wish)
{
    return (wish->all && *wish->all) || (wish->here && *wish->here);
}

struct route route_of(unsigned number, const struct wish *wish)
{
    return (struct route){number + 1, (wish->external ? CLASS_EXTERNAL : 0u) |
                                          (wish->local ? CLASS_LOCAL : 0u) |
                                          (wish->timeout > 0 ? CLASS_AFFINE : 0u) |
                                          (wish->sources ? CLASS_RESTRICTED : 0u)};
}

static bool needs_cluster(const struct wish *wish)
{
    return wish->external || !wish->local;
}

struct port_route port_route_of(const struct wish *wish, struct route_memory *memory)
{
    static const struct address_range nobody;
    memory->sources = (range_vec){0};
    if (wish->sources)
        ranges_of(wish->sources, &memory->sources);
    return (struct port_route){.has_any = has_any(wish),
                               .needs_cluster = needs_cluster(wish),
                               .needs_local = wish->local,
                               .backends = memory->all,
                               .n_backends = backends_of(wish->all, memory->all),
                               .local_backends = memory->here,
                               .n_local = backends_of(wish->here, memory->here),
                               .affinity_timeout = wish->timeout,
                               .sources = !wish->sources      ? NULL
                                          : memory->sources.n ? memory->sources.v
                                                              : &nobody,
                               .n_sources = memory->sources.n};
}

/* ---- commits ---- */

int try_commit(struct commit_stats *stats)
{
    struct error err = {0};
    struct commit_stats unused;
    fake_kernel_set_time(now);
    int result = ruleset_commit(ruleset, sock, now, stats ? stats : &unused, &err);
    ck_assert_int_eq(result ? -1 : 0, result);
    ck_assert_int_eq(err.text != NULL, result != 0);
    error_clear(&err);
    return result;
}

struct commit_stats commit(void)
{
    struct commit_stats all = {.bytes = 0}, stats;
    do {
        memset(&stats, 0xaa, sizeof(stats));
        ck_assert_int_eq(try_commit(&stats), 0);
        all.elements_added += stats.elements_added;
        all.elements_deleted += stats.elements_deleted;
        all.bytes += stats.bytes;
    } while (ruleset_is_filling(ruleset) || ruleset->growing);
    ck_assert(!ruleset_needs_commit(ruleset, now));
    return all;
}

void commit_fails(void)
{
    ck_assert_int_eq(try_commit(NULL), -1);
    ck_assert(ruleset_needs_commit(ruleset, now));
}

void commit_sends(size_t added, size_t deleted)
{
    fake_kernel_forget_counts();
    struct commit_stats stats = commit();
    const struct fake_counts *counts = fake_kernel_counts();
    ck_assert_uint_eq(counts->added, added);
    ck_assert_uint_eq(counts->deleted, deleted);
    ck_assert_uint_eq(counts->tables + counts->sets + counts->chains + counts->rules, 0);
    ck_assert_uint_eq(counts->verdicts, 0);
    ck_assert_uint_eq(counts->transactions, added + deleted > 0);
    ck_assert_uint_eq(stats.elements_added, added);
    ck_assert_uint_eq(stats.elements_deleted, deleted);
    ck_assert_int_eq(stats.bytes > 0, added + deleted > 0);
}

void wait_for_trims(void)
{
    now += 2 * RULESET_TRIM_DELAY;
}

/* Whatever else is due before or after: chains that nothing uses, retries of what is rejected. */
double trim_time(void)
{
    return clock_earlier(ruleset->steps.n ? ruleset->step_time : 0,
                         source_lists_due(&ruleset->lists));
}

void sync_table(void)
{
    for (int turns = 0; turns == 0 || trim_time() != 0; turns++) {
        ck_assert_int_lt(turns, 6);
        if (trim_time() > now)
            now = trim_time();
        commit();
    }
}

uint32_t port_of(unsigned number)
{
    struct frontend f = frontend(number);
    const uint32_t port = fake_kernel_port(&f);
    return port ? port : (1000 + number) << PORT_LOW_BITS;
}

bool mend_previous(void)
{
    struct protection since = {.checked = now}; /* an earlier check is one of this process */
    uint64_t repairs = 0;
    protection_step(&since, ruleset, sock, now + 60, &repairs);
    return repairs > 0;
}

bool audit_table(void)
{
    struct audit audit = {.due = 0};
    bool found = false;
    double at = audit_step(&audit, ruleset, sock, 1, now, &found);
    while (audit.ended == 0)
        at = audit_step(&audit, ruleset, sock, 1, at, &found);
    audit_stop(&audit);
    return ruleset_has_rechecks(ruleset);
}

/* ---- what shall become of packets ---- */

static bool in_ranges(const char *text, const struct address *address)
{
    range_vec ranges = {0};
    ranges_of(text, &ranges);
    bool result = ranges_contain(&ranges, address);
    vec_free(&ranges);
    return result;
}

static bool is_pod(const struct world *world, const struct fake_client *from)
{
    switch (config.detector) {
    case DETECT_CIDRS:
        return world->pods && in_ranges(world->pods, &from->address);
    case DETECT_INTERFACE:
        return from->interface && strcmp(from->interface, config.interface) == 0;
    case DETECT_INTERFACE_PREFIX:
        return from->interface &&
               strncmp(from->interface, config.interface, strlen(config.interface)) == 0;
    default:
        return false;
    }
}

static struct expectation rejected(void)
{
    return (struct expectation){config.no_reject ? FAKE_DROPPED : FAKE_REJECTED, NULL, false};
}

static struct expectation expect_nobodys(const struct world *world, const struct address *to)
{
    if (world->cluster_ip)
        return rejected();
    if (world->service_cidrs && in_ranges(world->service_cidrs, to))
        return (struct expectation){FAKE_DROPPED, NULL, false};
    return (struct expectation){FAKE_UNTOUCHED, NULL, false};
}

static struct expectation balanced(const char *backends, bool masqueraded)
{
    if (!backends || !*backends)
        return (struct expectation){FAKE_DROPPED, NULL, false};
    return (struct expectation){FAKE_BALANCED, backends, masqueraded};
}

struct expectation expect(const struct wish *wish, const struct world *world,
                          const struct frontend *to, const struct fake_client *from)
{
    bool pod = is_pod(world, from);
    if (!wish->wanted)
        return expect_nobodys(world, &to->address);
    if (wish->sources && !in_ranges(wish->sources, &from->address))
        return (struct expectation){FAKE_DROPPED, NULL, false};
    if (!has_any(wish))
        return rejected();
    if (!wish->external)
        return balanced(wish->local ? wish->here : wish->all,
                        config.masquerade_all || (config.detector != DETECT_NONE && !pod));
    if (!wish->local)
        return balanced(wish->all, true);
    if (pod)
        return balanced(wish->all, false);
    if (from->is_host && !config.no_fib)
        return balanced(wish->all, true);
    return balanced(wish->here, false);
}

const char *digits_of(const struct fake_route *route, char out[MOST_BACKENDS + 1])
{
    struct backend sorted[MOST_BACKENDS];
    ck_assert_uint_le(route->n, MOST_BACKENDS);
    for (size_t i = 0; i < route->n; i++)
        sorted[i] = route->to[i].backend;
    qsort(sorted, route->n, sizeof(*sorted), compare_backends);
    for (size_t i = 0; i < route->n; i++)
        out[i] = (char)('0' + sorted[i].address.bytes[3]);
    out[route->n] = 0;
    return out;
}

#define OTHER_MARK 0x10 /* of other programs: must survive */

/* Whether a route leads to the backends of @expected, and as they shall be left. */
static bool leads_to(const struct fake_route *route, const struct expectation *expected,
                     uint32_t mark)
{
    struct backend reached[MOST_BACKENDS], backends[MOST_BACKENDS];
    ck_assert_uint_le(route->n, MOST_BACKENDS);
    if (route->n != backends_of(expected->backends, backends))
        return false;
    for (size_t i = 0; i < route->n; i++) {
        reached[i] = route->to[i].backend;
        if (route->to[i].masqueraded != expected->masqueraded || route->to[i].mark != mark)
            return false;
    }
    qsort(reached, route->n, sizeof(*reached), compare_backends);
    for (size_t i = 0; i < route->n; i++)
        if (compare_backends(&reached[i], &backends[i]) != 0)
            return false;
    return true;
}

/* What is wrong with how a packet goes, in a text that lasts until the next one; NULL: nothing. */
static const char *packet_difference(unsigned number, const struct wish *wish,
                                     const struct world *world, const struct fake_client *from)
{
    static char text[128];
    struct frontend to = frontend(number);
    struct expectation expected = expect(wish, world, &to, from);
    struct fake_route route = fake_kernel_route(&to, from);
    snprintf(text, sizeof(text), "frontend %u, client %u%s: fate %d to %zu, not %d to %s", number,
             from->address.bytes[3], from->is_host ? " (host)" : "", route.fate, route.n,
             expected.fate, expected.backends ? expected.backends : "none");
    bool right = route.fate == expected.fate &&
                 (route.fate != FAKE_BALANCED || leads_to(&route, &expected, from->mark));
    fake_route_free(&route);
    return right ? NULL : text;
}

const char *wish_difference(unsigned number, const struct wish *wish, const struct world *world)
{
    static const unsigned clients[] = {12, 48, 72};
    static const char *const interfaces[] = {NULL, "cni0", "cni1"};
    bool named = config.detector == DETECT_INTERFACE || config.detector == DETECT_INTERFACE_PREFIX;
    const char *difference = NULL;
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
        struct fake_client from = {.address = client(clients[i]), .mark = OTHER_MARK};
        for (size_t k = 0; !difference && k < (named ? 3 : 1); k++) {
            from.interface = interfaces[k];
            difference = packet_difference(number, wish, world, &from);
        }
        from.interface = NULL;
        from.is_host = true;
        difference = difference ? difference : packet_difference(number, wish, world, &from);
    }
    return difference;
}
