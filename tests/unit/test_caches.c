/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What caches report and keep of objects, step by step in cases/caches. */
#include "kube-nftd/cache.h"

#include "cache_script.h"

#include <linux/in.h>
#include <malloc.h>

/* Reads both versions, so that the sanitizers see one that is freed already. */
static void on_service(void *ctx, const struct service *before, const struct service *after)
{
    ck_assert_ptr_eq(ctx, &caches);
    fprintf(script_out(), "%s:", (before ? before : after)->id);
    if (before)
        fprintf(script_out(), " -%zu ports", before->ports.n);
    if (after)
        fprintf(script_out(), " +%zu ports", after->ports.n);
    fputc('\n', script_out());
    /* The cache holds the new state already. */
    ck_assert_ptr_eq(object_store_get(caches.stores[KIND_SERVICE], (before ? before : after)->id),
                     after);
}

static void write_copy(FILE *out, char sign, enum family family, const struct endpoint_delta *delta,
                       const struct slice_endpoint *copy)
{
    struct endpoint endpoint = {delta->backend.address, .port = delta->backend.port};
    if (!copy)
        return;
    endpoint.node_name = copy->node_name;
    endpoint.hints = copy->hints;
    endpoint.flags = copy->flags;
    endpoint_vec one = {&endpoint, 1, 1};
    fprintf(out, " %c", sign);
    write_endpoints(out, family, &one);
}

/* Writes the deltas of each service port that the cases use. */
static void on_slice(void *ctx, const struct slice_change *change)
{
    static const struct {
        const char *name;
        uint8_t protocol;
    } ports[] = {{"", IPPROTO_TCP}, {"http", IPPROTO_TCP}, {"http", IPPROTO_UDP}};
    FILE *out = script_out();
    ck_assert_ptr_eq(ctx, &caches);
    for (size_t p = 0; p < sizeof(ports) / sizeof(*ports); p++) {
        const struct service_port_ref ref = {change->service_id, change->family, ports[p].name,
                                             ports[p].protocol};
        const endpoint_delta_vec *deltas = slice_change_deltas(change, &ref);
        if (!out || (deltas && deltas->n == 0))
            continue;
        fprintf(out, "%s %s %s/%s:%s", ref.service_id, family_name(ref.family), ref.port_name,
                protocol_name(ref.protocol), deltas ? "" : " has copies\n");
        if (!deltas)
            continue;
        vec_each (deltas, it) {
            ck_assert(it->before || it->after);
            write_copy(out, '-', ref.family, it, it->before);
            write_copy(out, '+', ref.family, it, it->after);
        }
        fputc('\n', out);
    }
}

static void set_up(void)
{
    caches_init(&caches, &cache_ops);
    caches.ops.service_changed = on_service;
    caches.ops.slice_changed = on_slice;
    script_show_log(LOG_LEVEL_INFO);
}

static void tear_down(void)
{
    caches_clear(&caches);
}

/* "a/web IPv4 http/TCP": its endpoints. */
COMMAND(merged)
{
    struct service_port_ref ref = {.service_id = script_word(&words)};
    endpoint_vec merged = {0};
    ref.family = strcmp(script_word(&words), "IPv6") == 0 ? FAMILY_IPV6 : FAMILY_IPV4;
    char *slash = strchr(words, '/');
    *slash = '\0';
    ref.port_name = words;
    ref.protocol = protocol_parse(slash + 1);
    vec_push(&merged, (struct endpoint){.port = 9}); /* what is in there goes */
    endpoint_slice_cache_merge(caches.slices, &ref, &merged);
    write_endpoints(out, ref.family, &merged);
    fputs(merged.n ? "\n" : "none\n", out);
    vec_free(&merged);
}

COMMAND(changes)
{
    struct object_counts ours = object_store_counts(caches.stores[KIND_SERVICE]);
    struct object_counts theirs = object_store_counts(caches.stores[KIND_ENDPOINTSLICE]);
    fprintf(out, "%zu services, seen=%d pending=%zu; ", ours.known, (int)ours.seen[FAMILY_IPV4],
            ours.pending);
    fprintf(out, "%zu slices, seen=%d+%d pending=%zu\n", theirs.known,
            (int)theirs.seen[FAMILY_IPV4], (int)theirs.seen[FAMILY_IPV6], theirs.pending);
}

COMMAND(versions)
{
    struct object_versions versions;
    if (object_store_versions(caches.stores[KIND_SERVICE], words, NULL, &versions))
        write_versions(out, &versions);
    else
        fputs("unknown\n", out);
}

/* Of the slices of a Service. */
COMMAND(slice_versions)
{
    object_versions_vec all = {0};
    endpoint_slice_cache_versions(caches.slices, words, NULL, &all);
    vec_each (&all, it) {
        fprintf(out, "%s ", it->id);
        write_versions(out, it);
    }
    vec_free(&all);
}

CASES("caches")

static unsigned count_versions(const char *service_id)
{
    object_versions_vec all = {0};
    endpoint_slice_cache_versions(caches.slices, service_id, NULL, &all);
    unsigned n = (unsigned)all.n;
    vec_free(&all);
    return n;
}

/* One family fails for ever while objects of the other come and go: they take no memory for ever.
 */
TEST(a_long_failure)
{
    const bool no_ipv6[] = {true, false};
    size_t in_use = 0;
    put_object(KIND_ENDPOINTSLICE,
               make_slice("a/other", "a/other", FAMILY_IPV6, "/TCP:80", "fd00::1"));
    for (int i = 0; i < 20000; i++) {
        char id[16];
        snprintf(id, sizeof(id), "a/s%d", i);
        struct endpoint_slice *slice = make_slice(id, "a/web", FAMILY_IPV4, "/TCP:80", "10.0.0.1");
        object_version_set(&slice->version, "1");
        put_object(KIND_ENDPOINTSLICE, slice);
        caches_applied(&caches, no_ipv6);
        remove_object(KIND_ENDPOINTSLICE, id);
        ck_assert_uint_eq(count_versions("a/web"), 1);
        caches_applied(&caches, no_ipv6);
        ck_assert_uint_eq(count_versions("a/web"), 0);
        if (i == 10)
            in_use = mallinfo2().uordblks;
    }
    ck_assert_uint_lt(mallinfo2().uordblks, in_use + 1024 * 1024);
}

/* ---- random changes of slices ---- */

#define N_SLICES 7
#define N_CHANGES 3000

static uint64_t chance = 1;

static unsigned below(unsigned n)
{
    chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(chance >> 33) % n;
}

/* What all deltas so far make of the endpoints of each port. */
static endpoint_vec followed[2];
static const struct service_port_ref followed_refs[] = {{"a/web", FAMILY_IPV4, "http", IPPROTO_TCP},
                                                        {"a/web", FAMILY_IPV4, "dns", IPPROTO_UDP}};

static struct endpoint endpoint_of(const struct backend *backend, const struct slice_endpoint *copy)
{
    return (struct endpoint){.address = backend->address,
                             .node_name = copy->node_name,
                             .hints = copy->hints,
                             .port = backend->port,
                             .flags = copy->flags};
}

/* Names are interned, and no hints are used, so that copies can be compared by their bytes. */
static void follow(endpoint_vec *endpoints, const struct endpoint_delta *delta)
{
    struct endpoint *known = NULL;
    vec_each (endpoints, it)
        if (it->port == delta->backend.port &&
            memcmp(&it->address, &delta->backend.address, sizeof(it->address)) == 0)
            known = it;
    ck_assert_int_eq(known != NULL, delta->before != NULL);
    if (known) {
        ck_assert_uint_eq(known->flags, delta->before->flags);
        ck_assert_ptr_eq(known->node_name, delta->before->node_name);
        *known = endpoints->v[--endpoints->n];
    }
    if (delta->after)
        vec_push(endpoints, endpoint_of(&delta->backend, delta->after));
}

static bool asks[2]; /* for the deltas; what they give was followed */

static void on_random_slice(void *ctx, const struct slice_change *change)
{
    for (int i = 0; i < 2; i++) {
        if (!asks[i] || change->family != FAMILY_IPV4 || strcmp(change->service_id, "a/web") != 0)
            continue;
        const endpoint_delta_vec *deltas = slice_change_deltas(change, &followed_refs[i]);
        asks[i] = deltas != NULL;
        if (deltas)
            vec_each (deltas, it)
                follow(&followed[i], it);
    }
}

static int compare_endpoints(const void *a, const void *b)
{
    const struct endpoint *p = a, *q = b;
    int order = memcmp(&p->address, &q->address, sizeof(p->address));
    return order ? order : p->port - q->port;
}

static size_t n_followed;

static void compare_with_merged(void)
{
    for (int i = 0; i < 2; i++) {
        endpoint_vec merged = {0};
        endpoint_slice_cache_merge(caches.slices, &followed_refs[i], &merged);
        n_followed += asks[i];
        if (!asks[i]) { /* nobody followed: go on from here */
            vec_clear(&followed[i]);
            vec_append(&followed[i], merged.v, merged.n);
        }
        ck_assert_uint_eq(followed[i].n, merged.n);
        if (merged.n)
            qsort(followed[i].v, merged.n, sizeof(*merged.v), compare_endpoints);
        for (size_t k = 0; k < merged.n; k++) {
            const struct endpoint *p = &followed[i].v[k], *q = &merged.v[k];
            ck_assert_int_eq(compare_endpoints(p, q), 0);
            ck_assert_uint_eq(p->flags, q->flags);
            ck_assert_ptr_eq(p->node_name, q->node_name);
        }
        vec_free(&merged);
    }
}

static struct endpoint_slice *any_slice(const char *id)
{
    static const char *const ports[] = {"http/TCP:80", "http/TCP:80 dns/UDP:53",
                                        "http/TCP:80 http/TCP:81 dns/UDP:53",
                                        "http/TCP:81 dns/UDP:53 dns/UDP:54", ""};
    static const char *const flags[] = {"", "=-", "=st", "=t", "=s", "=rst", "=rt", "=r"};
    char endpoints[512] = "";
    for (unsigned n = below(9); n > 0; n--)
        snprintf(endpoints + strlen(endpoints), 64, "10.0.0.%u%s@%u ", below(below(2) ? 8 : 250),
                 flags[below(COUNT(flags))], below(3));
    bool other = below(12) == 0;
    return make_slice(id, other ? "a/other" : "a/web", FAMILY_IPV4, ports[below(COUNT(ports))],
                      endpoints);
}

/* The deltas of all changes sum up to what all slices make, whoever asks for them in between, and
 * except for changes of copies. */
TEST(deltas_sum_up)
{
    caches.ops.slice_changed = on_random_slice;
    for (int i = 0; i < N_CHANGES; i++) {
        char id[8];
        snprintf(id, sizeof(id), "a/s%u", below(N_SLICES));
        asks[0] = asks[1] = below(16) > 0;
        if (below(8) == 0)
            remove_object(KIND_ENDPOINTSLICE, id);
        else
            put_object(KIND_ENDPOINTSLICE, any_slice(id));
        compare_with_merged();
    }
    ck_assert_uint_gt(n_followed, N_CHANGES / 4);
    ck_assert_uint_lt(n_followed, N_CHANGES);
    for (int i = 0; i < 2; i++)
        vec_free(&followed[i]);
}

UNIT_FIXTURE(set_up, tear_down)
