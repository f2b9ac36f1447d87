/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/endpoint_slice_cache.h"

#include "cache/address_index.h"
#include "objects.h"
#include "unit.h"

#include <string.h>

#define V4 FAMILY_IPV4
#define V6 FAMILY_IPV6

/* The cache under test, and the service ports it has told of, each once. */
static struct endpoint_slice_cache *cache;
typedef VEC(char *) text_vec;
static text_vec told;

static char *ref_text(const struct service_port_ref *ref)
{
    return xasprintf("%s %s %s/%s", ref->service_id, family_name(ref->family), ref->port_name,
                     protocol_name(ref->protocol));
}

/* What the changes told of add up to, of each service port. */
struct mirror {
    char *ref;
    bool stale;     /* everything may be another */
    text_vec texts; /* one an endpoint */
};
static VEC(struct mirror) mirrors;

static struct mirror *mirror_of(const struct service_port_ref *ref)
{
    char *text = ref_text(ref);
    vec_each (&mirrors, it) {
        if (strcmp(it->ref, text) == 0) {
            free(text);
            return it;
        }
    }
    vec_push(&mirrors, (struct mirror){.ref = text});
    return &mirrors.v[mirrors.n - 1];
}

static char *copy_text(enum family family, const struct endpoint_change *change,
                       const struct slice_endpoint *copy)
{
    struct endpoint endpoint = {
        change->address, copy->node_name, copy->hints, change->port, copy->flags, copy->zone, 0};
    endpoint_vec one = {&endpoint, 1, 1};
    return merged_text(family, &one);
}

static void take_text(struct mirror *mirror, char *text)
{
    size_t at = 0;
    while (at < mirror->texts.n && strcmp(mirror->texts.v[at], text) != 0)
        at++;
    ck_assert_msg(at < mirror->texts.n, "%s has no %s", mirror->ref, text);
    free(mirror->texts.v[at]);
    mirror->texts.v[at] = mirror->texts.v[--mirror->texts.n];
    free(text);
}

static void mirror_changes(const struct service_port_ref *ref,
                           const struct endpoint_change *changes, size_t n)
{
    struct mirror *mirror = mirror_of(ref);
    mirror->stale = mirror->stale || !changes;
    ck_assert_int_eq(changes != NULL, n > 0);
    for (size_t i = 0; i < n && !mirror->stale; i++) {
        const struct endpoint_change *change = &changes[i];
        ck_assert(change->before || change->after);
        if (change->before)
            take_text(mirror, copy_text(ref->family, change, change->before));
        if (change->after)
            vec_push(&mirror->texts, copy_text(ref->family, change, change->after));
    }
}

static void on_changed(void *ctx, const struct service_port_ref *ref,
                       const struct endpoint_change *changes, size_t n)
{
    mirror_changes(ref, changes, n);
    ck_assert_ptr_eq(ctx, &told);
    char *text = ref_text(ref);
    vec_each (&told, it) {
        if (strcmp(*it, text) == 0) {
            free(text);
            return;
        }
    }
    vec_push(&told, text);
}

static void forget_told(void)
{
    vec_each (&told, it)
        free(*it);
    vec_free(&told);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What was told since the last time, sorted, with ", " between. */
static void expect_told(const char *expected)
{
    char *text = xstrdup("");
    if (told.n)
        qsort(told.v, told.n, sizeof(*told.v), compare_texts);
    vec_each (&told, it) {
        char *longer = xasprintf("%s%s%s", text, *text ? ", " : "", *it);
        free(text);
        text = longer;
    }
    forget_told();
    expect_text(text, expected);
}

static void set_up(void)
{
    cache = endpoint_slice_cache_new(on_changed, &told);
}

static void forget_texts(text_vec *texts)
{
    vec_each (texts, text)
        free(*text);
    vec_free(texts);
}

static void tear_down(void)
{
    endpoint_slice_cache_free(cache);
    forget_told();
    vec_each (&mirrors, it) {
        forget_texts(&it->texts);
        free(it->ref);
    }
    vec_free(&mirrors);
}

static void put(const char *id, const char *service_id, enum family family, const char *ports,
                const char *endpoints)
{
    endpoint_slice_cache_put(cache, make_slice(id, service_id, family, ports, endpoints));
}

/* The merged endpoints of the port "name/PROTOCOL". */
static void expect_endpoints(const char *service_id, enum family family, const char *port,
                             const char *expected)
{
    const char *slash = strchr(port, '/');
    char *name = xstrndup(port, (size_t)(slash - port));
    struct service_port_ref ref = {service_id, family, name, protocol_parse(slash + 1)};
    endpoint_vec merged = {0};
    vec_push(&merged, (struct endpoint){.port = 9}); /* what is in there goes */
    endpoint_slice_cache_merge(cache, &ref, &merged);
    expect_text(merged_text(family, &merged), expected);
    vec_free(&merged);
    free(name);
}

#define HTTP "http/TCP"
#define WEB_HTTP "a/web IPv4 http/TCP"
#define WEB6_HTTP ", a/web IPv6 http/TCP"
#define WEB_DNS "a/web IPv4 dns/UDP"

/* ---------------------------------------------------------- merging */

/* An FQDN slice, as a whole: kept under its name, said once, used for nothing. */
TEST(no_family)
{
    put("a/s2", "a/web2", V4, "http/TCP:80", "10.0.0.1");
    ck_assert_int_eq(logged_with(""), 0);
    forget_told();
    for (int i = 0; i < 3; i++) {
        struct endpoint_slice *slice = make_slice("a/s", "a/web", V4, "http/TCP:80", "");
        slice->has_family = false;
        endpoint_slice_cache_put(cache, slice);
    }
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 1);
    ck_assert_int_eq(logged_with("slice=a/s:"), 1);
    expect_told("");
    expect_endpoints("a/web", V4, HTTP, "");
    put("a/s", "a/web", V4, "http/TCP:80", "10.0.0.1");
    expect_told(WEB_HTTP);
    expect_endpoints("a/web", V4, HTTP, "10.0.0.1:80");
    struct endpoint_slice *slice = make_slice("a/s", "a/web", V4, "http/TCP:80", "");
    slice->has_family = false;
    endpoint_slice_cache_put(cache, slice);
    expect_told(WEB_HTTP);
    expect_endpoints("a/web", V4, HTTP, "");
    endpoint_slice_cache_remove(cache, "a/s");
    expect_told("");
}

/* ---------------------------------------------------------- what is told */

struct version {
    const char *service_id;
    enum family family;
    const char *ports, *endpoints;
};

#define BOTH "http/TCP:80 dns/UDP:53"
#define SAME "10.0.0.1@node-a 10.0.0.2=st"
#define WEB(ports, endpoints)                                                                      \
    {                                                                                              \
        "a/web", V4, ports, endpoints                                                              \
    }
#define WEB_BOTH WEB_DNS ", " WEB_HTTP

/* ---------------------------------------------------------- any history */

#define N_SLICES 6
#define N_REFS (2 * 2 * 4)
#define STEPS 1000

/* What the cache should hold, by slice number; NULL for none. */
static struct endpoint_slice *model[N_SLICES];

static size_t count_copies(const struct address_index *index, const char *text,
                           const struct slice_endpoint *wanted)
{
    struct address address;
    enum family family;
    ck_assert(address_parse(text, &family, &address));
    struct indexed_copies copies = address_index_find(index, &address);
    vec_each (&copies, it) {
        const struct endpoint_slice *slice = index->slices.v[it->slice].slice;
        ck_assert(slice != model[0] || &slice->endpoints.v[it->place] == wanted);
    }
    return copies.n;
}

/* Else the cost of very many copies is their square. */
TEST(copies_in_one_slice_are_one_to_others)
{
    struct address_index index = {0};
    model[0] = make_slice("a/1", "a/web", V4, HTTP ":80", "10.0.0.1=st 10.0.0.1 10.0.0.1 10.0.0.2");
    struct endpoint_slice *other = make_slice("a/2", "a/web", V4, HTTP ":80", "10.0.0.1"),
                          *next = make_slice("a/1", "a/web", V4, HTTP ":80",
                                             "10.0.0.1=st 10.0.0.3 10.0.0.1=st 10.0.0.2");
    uint32_t number = address_index_add(&index, model[0]);
    address_index_add(&index, other);
    ck_assert_uint_eq(index.n, 2);
    ck_assert_uint_eq(count_copies(&index, "10.0.0.1", &model[0]->endpoints.v[1]), 2);
    address_index_replace(&index, number, next);
    endpoint_slice_free(model[0]);
    model[0] = next;
    ck_assert_uint_eq(index.n, 3);
    ck_assert_uint_eq(count_copies(&index, "10.0.0.1", &next->endpoints.v[0]), 2);
    address_index_remove(&index, number);
    ck_assert_uint_eq(index.n, 1);
    endpoint_slice_free(next);
    endpoint_slice_free(other);
    model[0] = NULL;
    address_index_clear(&index);
}

/* ---------------------------------------------------------- figures */

static void expect_changes(uint64_t seen4, uint64_t seen6, size_t pending)
{
    struct slice_changes changes = endpoint_slice_cache_changes(cache);
    ck_assert_uint_eq(changes.seen[V4], seen4);
    ck_assert_uint_eq(changes.seen[V6], seen6);
    ck_assert_uint_eq(changes.pending, pending);
}

/* Whether a put says that it made a difference. */
static void expect_put(const char *id, const char *service_id, enum family family,
                       const char *endpoints, bool differs)
{
    struct endpoint_slice *slice = make_slice(id, service_id, family, "http/TCP:80", endpoints);
    ck_assert_int_eq(endpoint_slice_cache_put(cache, slice), differs);
}

TEST(changes_are_counted)
{
    expect_put("a/1", "a/web", V4, "10.0.0.1", true);
    expect_put("a/2", "a/web", V6, "fd00::1", true);
    expect_changes(1, 1, 2);
    expect_put("a/1", "a/web", V4, "10.0.0.1", false);
    expect_changes(2, 1, 2);
    expect_put("a/1", "a/web", V4, "10.0.0.2", true);
    expect_changes(3, 1, 2); /* one slice, however often it changes */
    ck_assert_uint_eq(endpoint_slice_cache_count(cache), 2);
    endpoint_slice_cache_turn_over(cache, (const bool[FAMILY_COUNT]){true, true});
    expect_changes(3, 1, 0);
    endpoint_slice_cache_remove(cache, "a/1");
    expect_changes(4, 1, 1);
    endpoint_slice_cache_remove(cache, "a/1");
    expect_changes(4, 1, 1);
    const object_vec none = {0};
    endpoint_slice_cache_retain(cache, &none);
    expect_changes(4, 2, 2);
    ck_assert_uint_eq(endpoint_slice_cache_count(cache), 0);
}

TEST(slices_of_no_service_are_not_counted)
{
    expect_put("a/1", NULL, V4, "10.0.0.1", false);
    expect_changes(0, 0, 0);
    expect_put("a/1", "a/web", V4, "10.0.0.1", true);
    expect_changes(1, 0, 1);
    endpoint_slice_cache_turn_over(cache, (const bool[FAMILY_COUNT]){true, true});
    expect_put("a/1", NULL, V4, "10.0.0.1", true); /* the label goes: the Service lost a slice */
    expect_changes(2, 0, 1);
    endpoint_slice_cache_turn_over(cache, (const bool[FAMILY_COUNT]){true, true});
    expect_put("a/1", NULL, V4, "10.0.0.9", false);
    endpoint_slice_cache_remove(cache, "a/1");
    expect_changes(2, 0, 0);
}

UNIT_FIXTURE(set_up, tear_down)
