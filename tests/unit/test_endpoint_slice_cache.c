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

/* ---------------------------------------------------------- retain */

static void retain(const char *ids)
{
    object_vec keep = make_ids(KIND_ENDPOINTSLICE, ids);
    endpoint_slice_cache_retain(cache, &keep);
    object_vec_clear(&keep);
}

/* ---------------------------------------------------------- any history */

#define N_SLICES 6
#define N_REFS (2 * 2 * 4)
#define STEPS 1000

/* What the cache should hold, by slice number; NULL for none. */
static struct endpoint_slice *model[N_SLICES];

static const char *const port_names[] = {"http", ""};
static const uint8_t port_protocols[] = {6, 17};

static const char *pick(uint64_t *chance, const char *const *words, unsigned n)
{
    return words[dice(chance, n)];
}

/* Few addresses, ports and names, so that slices meet. Twice from the same state, two equal ones.
 */
static struct endpoint_slice *random_slice(unsigned number, uint64_t *chance)
{
    static const char *const services[] = {"a/web", "a/web", "a/db", NULL};
    static const char *const ports[] = {"http/TCP:80", "http/TCP:81", "/TCP:80", "http/UDP:80",
                                        "/UDP:9"};
    static const char *const flags[] = {"", "=st", "=t", "=rst", "=-", "=s", "@node-a", "@node-b"};
    static const char *const hints[] = {"", "", "", "^z1", "~node-a", "~node-b^z1,z2"};
    char id[8], text[256] = "", list[64] = "";
    snprintf(id, sizeof(id), "a/s%u", number);
    for (unsigned n = dice(chance, 3); n > 0; n--)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), " %s", pick(chance, ports, 5));
    enum family family = dice(chance, 4) ? V4 : V6;
    for (unsigned n = dice(chance, 4); n > 0; n--)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s%u%s%s",
                 family == V4 ? "10.0.0." : "fd00::", dice(chance, 4), pick(chance, flags, 8),
                 pick(chance, hints, 6));
    struct endpoint_slice *slice = make_slice(id, pick(chance, services, 4), family, list, text);
    slice->has_family = dice(chance, 10) > 0;
    return slice;
}

/* The rule of docs/behaviour.md 2.5, word for word: a copy that is not terminating replaces one
 * that is; any other copy only fills an empty place. Slices come in the order of their names. */
static void naive_add(endpoint_vec *out, const struct endpoint *copy)
{
    vec_each (out, it) {
        if (memcmp(&it->address, &copy->address, sizeof(it->address)) != 0 ||
            it->port != copy->port)
            continue;
        if (it->flags & ENDPOINT_TERMINATING && !(copy->flags & ENDPOINT_TERMINATING))
            *it = *copy;
        return;
    }
    vec_push(out, *copy);
}

static int compare_endpoints(const void *a, const void *b)
{
    const struct endpoint *p = a, *q = b;
    int order = memcmp(&p->address, &q->address, sizeof(p->address));
    return order ? order : (int)p->port - (int)q->port;
}

static void naive_merge(const struct service_port_ref *ref, endpoint_vec *out)
{
    vec_clear(out);
    for (unsigned i = 0; i < N_SLICES; i++) {
        const struct endpoint_slice *slice = model[i];
        if (!slice || !slice->has_family || slice->family != ref->family || !slice->service_id ||
            strcmp(slice->service_id, ref->service_id) != 0)
            continue;
        vec_each (&slice->ports, port) {
            if (strcmp(port->name, ref->port_name) != 0 || port->protocol != ref->protocol)
                continue;
            vec_each (&slice->endpoints, it) {
                struct endpoint copy = {it->address, it->node_name, it->hints, port->port,
                                        it->flags,   it->zone,      0};
                naive_add(out, &copy);
            }
        }
    }
    if (out->n)
        qsort(out->v, out->n, sizeof(*out->v), compare_endpoints);
}

static struct service_port_ref ref_number(unsigned i)
{
    return (struct service_port_ref){i & 1 ? "a/web" : "a/db", i & 2 ? V4 : V6,
                                     port_names[i / 4 % 2], port_protocols[i / 8]};
}

static bool was_told(const struct service_port_ref *ref)
{
    bool found = false;
    char *text = ref_text(ref);
    vec_each (&told, it)
        found = found || strcmp(*it, text) == 0;
    free(text);
    return found;
}

/* What was told adds up to @merged. */
static void check_mirror(const struct service_port_ref *ref, const endpoint_vec *merged)
{
    struct mirror *mirror = mirror_of(ref);
    text_vec texts = {0};
    vec_each (merged, it) {
        endpoint_vec one = {it, 1, 1};
        vec_push(&texts, merged_text(ref->family, &one));
    }
    if (mirror->stale) {
        forget_texts(&mirror->texts);
        mirror->texts = texts;
        mirror->stale = false;
        return;
    }
    ck_assert_uint_eq(mirror->texts.n, texts.n);
    if (texts.n) {
        qsort(mirror->texts.v, texts.n, sizeof(*texts.v), compare_texts);
        qsort(texts.v, texts.n, sizeof(*texts.v), compare_texts);
    }
    for (size_t i = 0; i < texts.n; i++)
        ck_assert_str_eq(mirror->texts.v[i], texts.v[i]);
    forget_texts(&texts);
}

/* Every list is as the rule says, and none has changed without being told. */
static void check_all_lists(char *lists[N_REFS])
{
    endpoint_vec expected = {0}, actual = {0};
    for (unsigned i = 0; i < N_REFS; i++) {
        struct service_port_ref ref = ref_number(i);
        naive_merge(&ref, &expected);
        endpoint_slice_cache_merge(cache, &ref, &actual);
        char *text = merged_text(ref.family, &actual);
        check_mirror(&ref, &actual);
        expect_text(merged_text(ref.family, &expected), text);
        ck_assert_msg(was_told(&ref) || strcmp(lists[i], text) == 0, "%s became %s", lists[i],
                      text);
        free(lists[i]);
        lists[i] = text;
    }
    vec_free(&expected);
    vec_free(&actual);
}

static void put_model(unsigned number, uint64_t *chance)
{
    uint64_t again = *chance;
    struct endpoint_slice *slice = random_slice(number, chance);
    bool same = model[number] && endpoint_slice_equal(model[number], slice);
    endpoint_slice_free(model[number]);
    model[number] = slice;
    endpoint_slice_cache_put(cache, random_slice(number, &again));
    ck_assert_msg(!same || told.n == 0, "told of a replay");
}

static struct endpoint_hints *copy_hints(const struct endpoint_hints *hints)
{
    if (!hints)
        return NULL;
    size_t n = (size_t)hints->n_nodes + hints->n_zones;
    struct endpoint_hints *copy = xcalloc(1, sizeof(*copy) + n * sizeof(*copy->names));
    copy->n_nodes = hints->n_nodes;
    copy->n_zones = hints->n_zones;
    for (size_t i = 0; i < n; i++)
        copy->names[i] = intern(hints->names[i]);
    return copy;
}

static void copy_endpoint(struct endpoint_slice *to, const struct slice_endpoint *endpoint,
                          unsigned flipped)
{
    vec_push(&to->endpoints, *endpoint);
    struct slice_endpoint *copy = &to->endpoints.v[to->endpoints.n - 1];
    copy->flags = (uint8_t)(copy->flags ^ flipped);
    copy->hints = copy_hints(endpoint->hints);
    intern(endpoint->node_name);
}

/* But for its endpoints. */
static struct endpoint_slice *copy_frame(const struct endpoint_slice *old)
{
    struct endpoint_slice *copy = make_slice(old->id, old->service_id, old->family, "", "");
    copy->has_family = old->has_family;
    vec_each (&old->ports, port)
        vec_push(&copy->ports, (struct slice_port){intern(port->name), port->protocol, port->port});
    return copy;
}

static struct endpoint_slice *copy_slice(const struct endpoint_slice *old)
{
    struct endpoint_slice *copy = copy_frame(old);
    vec_each (&old->endpoints, it)
        copy_endpoint(copy, it, 0);
    return copy;
}

/* One endpoint goes, is another, or is there once more. */
static struct endpoint_slice *edited_slice(const struct endpoint_slice *old, uint64_t *chance)
{
    struct endpoint_slice *slice = copy_frame(old);
    size_t place = dice(chance, (unsigned)old->endpoints.n + 1);
    unsigned what = dice(chance, 3), flipped = dice(chance, 8);
    for (size_t i = 0; i < old->endpoints.n; i++) {
        const struct slice_endpoint *endpoint = &old->endpoints.v[i];
        if (i != place || what > 0)
            copy_endpoint(slice, endpoint, i == place && what == 1 ? flipped : 0);
        if (i == place && what == 2)
            copy_endpoint(slice, endpoint, flipped);
    }
    if (place == old->endpoints.n && place > 0)
        copy_endpoint(slice, &old->endpoints.v[0], flipped);
    return slice;
}

static void replay_model(unsigned number)
{
    if (!model[number])
        return;
    endpoint_slice_cache_put(cache, copy_slice(model[number]));
    ck_assert_uint_eq(told.n, 0);
}

static void edit_model(unsigned number, uint64_t *chance)
{
    struct endpoint_slice *old = model[number];
    if (!old || old->endpoints.n > 8)
        return;
    model[number] = edited_slice(old, chance);
    endpoint_slice_free(old);
    endpoint_slice_cache_put(cache, copy_slice(model[number]));
}

static void remove_model(unsigned number)
{
    char id[8];
    snprintf(id, sizeof(id), "a/s%u", number);
    endpoint_slice_free(model[number]);
    model[number] = NULL;
    endpoint_slice_cache_remove(cache, id);
}

static void retain_model(uint64_t *chance)
{
    char ids[64] = "";
    for (unsigned i = 0; i < N_SLICES; i++) {
        if (dice(chance, 3)) {
            snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), " a/s%u", i);
        } else {
            endpoint_slice_free(model[i]);
            model[i] = NULL;
        }
    }
    retain(ids);
}

static void random_step(uint64_t *chance)
{
    unsigned number = dice(chance, N_SLICES);
    switch (dice(chance, 20)) {
    case 0:
        retain_model(chance);
        break;
    case 1:
    case 2:
    case 3:
    case 4:
        remove_model(number);
        break;
    case 5:
    case 6:
        replay_model(number);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
        edit_model(number, chance);
        break;
    default:
        put_model(number, chance);
    }
}

TESTS(any_history, unit_histories(3))
{
    uint64_t chance = (uint64_t)unit_seed(_i) * 7919 + 1;
    char *lists[N_REFS];
    for (unsigned i = 0; i < N_REFS; i++)
        lists[i] = xstrdup("");
    for (int step = 0; step < STEPS; step++) {
        random_step(&chance);
        check_all_lists(lists);
        forget_told();
    }
    for (unsigned i = 0; i < N_REFS; i++)
        free(lists[i]);
    for (unsigned i = 0; i < N_SLICES; i++) {
        endpoint_slice_free(model[i]);
        model[i] = NULL;
    }
}

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
