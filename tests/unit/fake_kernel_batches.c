/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rules of fake_kernel.h for whole batches. */
#include "fake_kernel_state.h"

#include "table/element.h"

#include <string.h>

/* ---- batches in pieces ---- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
    return hash;
}

static uint64_t sum_of_range(const struct fake_element *range)
{
    return hash_bytes(0xcbf29ce484222325, range->key, FAKE_BYTES);
}

static uint64_t sum_of_source(const struct fake_element *source)
{
    const unsigned length = fake_prefix_length(source);
    uint64_t sum = hash_bytes(0xcbf29ce484222325, source->key, source->key_length - 4);
    return hash_bytes(sum, &length, sizeof(length));
}

/* 0: it does not serve; 1: everybody may talk to it, 2: nobody, as it has no list; 3: nobody, else
 * a number for each set of prefixes. What it leads to is in @table, the lists in @lists. */
static uint64_t access_by(const struct fake_table *table, const struct fake_table *lists,
                          const struct fake_element *frontend)
{
    const struct fake_element *service = fake_find_like(table, "services", frontend), *list;
    uint64_t sum = 3;
    if (!service)
        return 0;
    if (!(fake_class(service->data) & CLASS_RESTRICTED))
        return 1;
    list = fake_find_port(lists, "source_lists", fake_port(service->data));
    if (!list)
        return 2;
    hash_table_each (fake_elements(lists, "allowed_sources"), const struct fake_element, e)
        if (fake_list_of(e) == fake_u32(list->data))
            sum += sum_of_source(e);
    return sum;
}

static uint64_t access_of(const struct fake_table *table, const struct fake_element *frontend)
{
    return access_by(table, table, frontend);
}

/* What a frontend is now, if that is not what it was at the start. */
static void note_frontend(struct fake_watch *watch, const struct fake_table *now,
                          const struct fake_element *frontend)
{
    const struct fake_access access = {*frontend, access_of(now, frontend)};
    if (access.sum != access_of(&watch->start, frontend))
        vec_push(&watch->accesses, access);
}

/* Frontends that go, and come, and others that are there now. */
static void note_frontends(struct fake_watch *watch, const struct fake_table *now)
{
    const struct fake_table *const tables[] = {&watch->start, now};
    for (int i = 0; i < 2; i++) {
        hash_table_each (fake_elements(tables[i], "services"), const struct fake_element, e)
            if (i || !fake_find_like(now, "services", e))
                note_frontend(watch, now, e);
    }
}

/* All ranges of a set. */
static uint64_t sum_of_set(const struct fake_table *table, const char *name)
{
    const struct fake_set *set = fake_find_set(table, name);
    uint64_t sum = 0;
    if (!set)
        return 0;
    hash_table_each (&set->elements, const struct fake_element, e)
        sum += sum_of_range(e);
    hash_table_each (&set->ends, const struct fake_element, e)
        sum += 3 * sum_of_range(e);
    return sum;
}

static const char *const range_sets[FAKE_RANGE_SETS] = {"service_cidrs", "service_ranges",
                                                        "pod_cidrs"};

static void note_sums(struct fake_watch *watch, const struct fake_table *now)
{
    for (int i = 0; i < FAKE_RANGE_SETS; i++) {
        uint64_t sum = sum_of_set(now, range_sets[i]);
        if (sum != sum_of_set(&watch->start, range_sets[i]))
            vec_push(&watch->sums[i], sum);
    }
}

void fake_watch_begin(struct fake_watch *watch, const struct fake_table *start)
{
    memset(watch, 0, sizeof(*watch));
    fake_copy_table(&watch->start, start);
}

void fake_watch_piece(struct fake_watch *watch, const struct fake_table *now, bool whole,
                      fake_violated_fn violated)
{
    if (watch->start.exists && now->anew && !whole)
        violated("a table was replaced in pieces", NULL);
    watch->anew = watch->anew || now->anew; /* then nothing is there until all of it is */
    if (watch->anew)
        return;
    note_frontends(watch, now);
    note_sums(watch, now);
}

static void judge_watch(const struct fake_watch *watch, const struct fake_table *end,
                        fake_violated_fn violated)
{
    vec_each (&watch->accesses, access) {
        const uint64_t last = access_of(end, &access->frontend);
        bool stayed = last && access_of(&watch->start, &access->frontend);
        if (!access->sum && stayed)
            violated("a frontend went and came", &access->frontend);
        else if (access->sum && access->sum != last &&
                 (access->sum == 2 ||
                  access->sum != access_by(&watch->start, end, &access->frontend)))
            violated("source ranges in pieces", &access->frontend);
    }
    for (int i = 0; i < FAKE_RANGE_SETS; i++)
        vec_each (&watch->sums[i], sum)
            if (*sum != sum_of_set(end, range_sets[i]))
                violated("ranges in pieces", NULL);
}

void fake_watch_end(struct fake_watch *watch, const struct fake_table *end, bool done,
                    fake_violated_fn violated)
{
    if (done && !watch->anew)
        judge_watch(watch, end, violated);
    vec_free(&watch->accesses);
    for (int i = 0; i < FAKE_RANGE_SETS; i++)
        vec_free(&watch->sums[i]);
    fake_free_table(&watch->start);
}

/* ---- affinity: what is in use ---- */

/* What frontends with affinity reach: pairs of a service port and a backend; the ports alone. */
struct reached {
    struct fake_set pairs, ports;
};

static bool is_in(const struct fake_set *set, struct fake_key key)
{
    return fake_find_key(&set->elements, key.bytes, key.length);
}

static void add_reached(struct fake_set *set, struct fake_key key)
{
    struct fake_element element = {.key_length = key.length};
    memcpy(element.key, key.bytes, key.length);
    if (!is_in(set, key))
        fake_insert(set, &element);
}

/* A backend that packets are sent to is known by its number, so that a record can be made of it. */
static bool is_numbered(const struct fake_table *table, const struct fake_part *part,
                        struct fake_key pair)
{
    const struct fake_element *number =
        fake_find(table, "affinity_numbers", pair.bytes, pair.length);
    return number && fake_find(table, part->backends, number->data, sizeof(uint32_t));
}

/* What no frontend may ask for any more has no numbers at all, as long as it is still there. */
static bool is_given_up(const struct fake_table *table, const struct fake_part *part, uint32_t port)
{
    hash_table_each (fake_elements(table, part->backends), const struct fake_element, e)
        if (fake_port(e->key) == port)
            return false;
    return true;
}

/* Of a service port in which somebody made a hole, nobody knows what is in use. */
static void note_reached(const struct fake_table *table, const struct fake_part *part,
                         const struct fake_element *service, struct reached *reached,
                         fake_violated_fn violated)
{
    const uint32_t port = fake_port(service->data);
    const uint32_t count = fake_count(fake_find_port(table, part->ports, port));
    bool hole = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct fake_element *slot = fake_find_slot(table, part->endpoints, port, i);
        hole = hole || !slot;
        if (!slot)
            continue;
        struct fake_key pair = fake_join(&port, sizeof(port), slot->data, slot->data_length);
        add_reached(&reached->pairs, pair);
        if (!is_numbered(table, part, pair) && !is_given_up(table, part, port))
            violated("a backend without affinity number", service);
    }
    if (!hole)
        add_reached(&reached->ports, fake_join(&port, sizeof(port), NULL, 0));
}

static void check_numbered(const struct fake_table *table, const struct fake_part *part,
                           struct reached *reached, fake_violated_fn violated)
{
    hash_table_each (fake_elements(table, "services"), const struct fake_element, e) {
        if (fake_class(e->data) & CLASS_AFFINE && fake_leads_to(e, part))
            note_reached(table, part, e, reached, violated);
    }
}

/* A record must not lead to a backend that is not in use any more. */
static void check_in_use(const struct fake_table *table, const struct fake_part *part,
                         const struct reached *reached, fake_violated_fn violated)
{
    hash_table_each (fake_elements(table, part->backends), const struct fake_element, e) {
        uint32_t port = fake_port(e->key);
        struct fake_key pair = fake_join(&port, sizeof(port), e->data, e->data_length);
        if (is_in(&reached->ports, fake_join(&port, sizeof(port), NULL, 0)) &&
            !is_in(&reached->pairs, pair))
            violated("an affinity backend that is not in use", e);
    }
}

void fake_check_batch(const struct fake_table *table, fake_violated_fn violated)
{
    for (int i = 0; i < FAKE_PARTS; i++) {
        struct reached reached = {.pairs = {.id = 0}};
        check_numbered(table, &fake_parts[i], &reached, violated);
        check_in_use(table, &fake_parts[i], &reached, violated);
        fake_free_elements(&reached.pairs);
        fake_free_elements(&reached.ports);
    }
}
