/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What caches tell and know of objects, step by step in cases/caches. */
#include "kube-nftd/cache.h"

#include "cache/address_index.h"
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

static void write_copy(FILE *out, char sign, enum family family,
                       const struct endpoint_change *change, const struct slice_endpoint *copy)
{
    struct endpoint endpoint = {change->address, .port = change->port};
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
                         const struct endpoint_change *changes, size_t n)
{
    FILE *out = script_out();
    ck_assert_ptr_eq(ctx, &slices);
    ck_assert_int_eq(changes != NULL, n > 0);
    if (!out)
        return;
    fprintf(out, "%s %s %s/%s:%s", ref->service_id, family_name(ref->family), ref->port_name,
            protocol_name(ref->protocol), changes ? "" : " all");
    for (size_t i = 0; i < n; i++) {
        ck_assert(changes[i].before || changes[i].after);
        write_copy(out, '-', ref->family, &changes[i], changes[i].before);
        write_copy(out, '+', ref->family, &changes[i], changes[i].after);
    }
    fputc('\n', out);
}

static void set_up(void)
{
    services = service_cache_new(on_service, &services);
    slices = endpoint_slice_cache_new(on_endpoints, &slices);
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
    struct cache_changes ours = service_cache_changes(services);
    struct slice_changes theirs = endpoint_slice_cache_changes(slices);
    fprintf(out, "%zu services, seen=%d pending=%zu; ", service_cache_count(services),
            (int)ours.seen, ours.pending);
    fprintf(out, "%zu slices, seen=%d+%d pending=%zu\n", endpoint_slice_cache_count(slices),
            (int)theirs.seen[FAMILY_IPV4], (int)theirs.seen[FAMILY_IPV6], theirs.pending);
}

COMMAND(receipt)
{
    struct receipt receipt;
    if (service_cache_receipt(services, words, &receipt))
        write_receipt(out, &receipt);
    else
        fputs("unknown\n", out);
}

static void take_receipt(void *ctx, const struct receipt *receipt)
{
    fprintf(ctx, "%s ", receipt->id);
    write_receipt(ctx, receipt);
}

/* Of the slices of a Service. */
COMMAND(receipts)
{
    endpoint_slice_cache_receipts(slices, words, take_receipt, out);
}

CASES("caches")

static void count_receipt(void *ctx, const struct receipt *receipt)
{
    ++*(unsigned *)ctx;
}

static unsigned count_receipts(const char *service_id)
{
    unsigned n = 0;
    endpoint_slice_cache_receipts(slices, service_id, count_receipt, &n);
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
        endpoint_slice_cache_turn_over(slices, no_ipv6);
        endpoint_slice_cache_remove(slices, id);
        ck_assert_uint_eq(count_receipts("a/web"), 1);
        endpoint_slice_cache_turn_over(slices, no_ipv6);
        ck_assert_uint_eq(count_receipts("a/web"), 0);
        if (i == 10)
            in_use = mallinfo2().uordblks;
    }
    ck_assert_uint_lt(mallinfo2().uordblks, in_use + 1024 * 1024);
}

/* Of the copies of 10.0.0.1, @wanted is the one of its slice. */
static size_t count_copies(const struct address_index *index, const struct endpoint_slice *of,
                           const struct slice_endpoint *wanted)
{
    enum family family;
    struct address address = make_address("10.0.0.1", &family);
    struct indexed_copies copies = address_index_find(index, &address);
    vec_each (&copies, it) {
        const struct endpoint_slice *slice = index->slices.v[it->slice].slice;
        ck_assert(slice != of || &slice->endpoints.v[it->place] == wanted);
    }
    return copies.n;
}

/* Else the cost of very many copies is their square. */
TEST(copies_in_one_slice_are_one_to_others)
{
    struct address_index index = {0};
    struct endpoint_slice *of[3];
    static const char *const endpoints[] = {"10.0.0.1=st 10.0.0.1 10.0.0.1 10.0.0.2", "10.0.0.1",
                                            "10.0.0.1=st 10.0.0.3 10.0.0.1=st 10.0.0.2"};
    for (int i = 0; i < 3; i++)
        of[i] = make_slice(i == 1 ? "a/2" : "a/1", "a/web", FAMILY_IPV4, "/TCP:80", endpoints[i]);
    uint32_t number = address_index_add(&index, of[0]);
    address_index_add(&index, of[1]);
    ck_assert_uint_eq(index.n, 2);
    ck_assert_uint_eq(count_copies(&index, of[0], &of[0]->endpoints.v[1]), 2);
    address_index_replace(&index, number, of[2]);
    ck_assert_uint_eq(index.n, 3);
    ck_assert_uint_eq(count_copies(&index, of[2], &of[2]->endpoints.v[0]), 2);
    address_index_remove(&index, number);
    ck_assert_uint_eq(index.n, 1);
    for (int i = 0; i < 3; i++)
        endpoint_slice_free(of[i]);
    address_index_clear(&index);
}

UNIT_FIXTURE(set_up, tear_down)
