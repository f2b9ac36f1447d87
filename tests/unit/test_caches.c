/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What caches tell and know of objects, step by step in cases/caches. */
#include "kube-nftd/cache.h"

#include "cache/endpoint_merge.h"
#include "cache_script.h"

#include <malloc.h>

/* Reads both versions, so that the sanitizers see one that is freed already. */
static void on_service(void *ctx, const struct service *before, const struct service *after)
{
    ck_assert_ptr_eq(ctx, &services);
    fprintf(script_out(), "%s:", (before ? before : after)->id);
    if (before)
        fprintf(script_out(), " -%zu ports", before->ports.n);
    if (after)
        fprintf(script_out(), " +%zu ports", after->ports.n);
    fputc('\n', script_out());
    /* The cache holds the new state already. */
    ck_assert_ptr_eq(service_cache_get(services, (before ? before : after)->id), after);
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

static void on_endpoints(void *ctx, const struct service_port_ref *ref,
                         const struct endpoint_delta *deltas, size_t n)
{
    FILE *out = script_out();
    ck_assert_ptr_eq(ctx, &slices);
    ck_assert_int_eq(deltas != NULL, n > 0);
    if (!out)
        return;
    fprintf(out, "%s %s %s/%s:%s", ref->service_id, family_name(ref->family), ref->port_name,
            protocol_name(ref->protocol), deltas ? "" : " all");
    for (size_t i = 0; i < n; i++) {
        ck_assert(deltas[i].before || deltas[i].after);
        write_copy(out, '-', ref->family, &deltas[i], deltas[i].before);
        write_copy(out, '+', ref->family, &deltas[i], deltas[i].after);
    }
    fputc('\n', out);
}

static void set_up(void)
{
    services = service_cache_new();
    slices = endpoint_slice_cache_new();
    service_cache_follow(services, on_service, &services);
    endpoint_slice_cache_follow(slices, on_endpoints, &slices);
    script_show_log(LOG_LEVEL_INFO);
}

static void tear_down(void)
{
    service_cache_free(services);
    endpoint_slice_cache_free(slices);
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
    endpoint_slice_cache_merge(slices, &ref, &merged);
    write_endpoints(out, ref.family, &merged);
    fputs(merged.n ? "\n" : "none\n", out);
    vec_free(&merged);
}

COMMAND(changes)
{
    struct service_counts ours = service_cache_counts(services);
    struct slice_counts theirs = endpoint_slice_cache_counts(slices);
    fprintf(out, "%zu services, seen=%d pending=%zu; ", ours.known, (int)ours.seen, ours.pending);
    fprintf(out, "%zu slices, seen=%d+%d pending=%zu\n", theirs.known,
            (int)theirs.seen[FAMILY_IPV4], (int)theirs.seen[FAMILY_IPV6], theirs.pending);
}

COMMAND(versions)
{
    struct object_versions versions;
    if (service_cache_versions(services, words, &versions))
        write_versions(out, &versions);
    else
        fputs("unknown\n", out);
}

/* Of the slices of a Service. */
COMMAND(slice_versions)
{
    object_versions_vec all = {0};
    endpoint_slice_cache_versions(slices, words, &all);
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
    endpoint_slice_cache_versions(slices, service_id, &all);
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
    endpoint_slice_cache_put(slices,
                             make_slice("a/other", "a/other", FAMILY_IPV6, "/TCP:80", "fd00::1"));
    for (int i = 0; i < 20000; i++) {
        char id[16];
        snprintf(id, sizeof(id), "a/s%d", i);
        struct endpoint_slice *slice = make_slice(id, "a/web", FAMILY_IPV4, "/TCP:80", "10.0.0.1");
        object_version_set(&slice->version, "1");
        endpoint_slice_cache_put(slices, slice);
        endpoint_slice_cache_applied(slices, no_ipv6);
        endpoint_slice_cache_remove(slices, id);
        ck_assert_uint_eq(count_versions("a/web"), 1);
        endpoint_slice_cache_applied(slices, no_ipv6);
        ck_assert_uint_eq(count_versions("a/web"), 0);
        if (i == 10)
            in_use = mallinfo2().uordblks;
    }
    ck_assert_uint_lt(mallinfo2().uordblks, in_use + 1024 * 1024);
}

/* Else the cost of very many copies is their square. */
TEST(copies_in_one_slice_are_one_to_others)
{
    struct endpoint_merge merge = {0};
    struct address_index index = {0};
    struct endpoint_slice *of[3];
    static const char *const endpoints[] = {"10.0.0.1=st 10.0.0.1 10.0.0.1 10.0.0.2", "10.0.0.1",
                                            "10.0.0.1=st 10.0.0.3 10.0.0.1=st 10.0.0.2"};
    for (int i = 0; i < 3; i++)
        of[i] = make_slice(i == 1 ? "a/2" : "a/1", "a/web", FAMILY_IPV4, "/TCP:80", endpoints[i]);
    const struct {
        int before, after; /* of the slices, or -1 */
        int place;
        size_t indexed;
    } steps[] = {{-1, 0, 0, 2}, {-1, 1, 1, 3}, {0, 2, 0, 4}, {2, -1, 0, 1}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        struct endpoint_slice *after = steps[i].after < 0 ? NULL : of[steps[i].after];
        struct endpoint_slice *before = steps[i].before < 0 ? NULL : of[steps[i].before];
        endpoint_merge_begin(&merge, before, after);
        endpoint_merge_index(&merge, &index, &of[steps[i].place]);
        ck_assert_uint_eq(index.n, steps[i].indexed);
    }
    for (int i = 0; i < 3; i++)
        endpoint_slice_free(of[i]);
    address_index_clear(&index);
    endpoint_merge_clear(&merge);
}

UNIT_FIXTURE(set_up, tear_down)
