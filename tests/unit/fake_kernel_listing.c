/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a table does, as text. */
#include "fake_kernel_parts.h"

#include "kube-nftd/base/alloc.h"

#include <stdlib.h>
#include <string.h>

typedef VEC(char *) lines;

static char *hex(const uint8_t *bytes, size_t length)
{
    char *text = xcalloc(2 * length + 1, 1);
    for (size_t i = 0; i < length; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted; the lines are freed. */
static char *joined(lines *all, const char *between)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (all->n > 0)
        qsort(all->v, all->n, sizeof(*all->v), compare_lines);
    vec_each (all, line) {
        fprintf(out, "%s%s", *line, between);
        free(*line);
    }
    vec_free(all);
    fclose(out);
    return text;
}

static char *backends_of(const struct fake_table *table, const struct fake_part *part,
                         const struct fake_element *service)
{
    lines all = {0};
    for (uint32_t i = 0; i < fake_count(service); i++) {
        const struct fake_element *slot = fake_find_slot(table, part->endpoints, service, i);
        vec_push(&all, slot ? hex(slot->data, slot->data_length) : xstrdup("none"));
    }
    return joined(&all, " ");
}

/* The lowest of the frontends that packets learn for together with @service, and for how long. */
static char *affinity_of(const struct fake_table *table, const struct fake_element *service)
{
    const struct fake_element *id = fake_find_like(table, "affinity_ids", service), *lowest = id;
    const struct fake_element *timeout = fake_find_like(table, "affinity_timeouts", service);
    if (!(fake_class(service) & FAKE_AFFINITY) || !id || !timeout)
        return xstrdup("");
    for (const struct fake_element *e = fake_first(table, "affinity_ids"); e; e = e->hh.next) {
        const struct fake_element *with = fake_find_like(table, "services", e);
        if (with && fake_class(with) & FAKE_AFFINITY && fake_u32(e->data) == fake_u32(id->data) &&
            memcmp(e->key, lowest->key, e->key_length) < 0)
            lowest = e;
    }
    char *with = hex(lowest->key, lowest->key_length);
    char *text = xasprintf(" with %s for %u", with, fake_u32(timeout->data) >> 16);
    free(with);
    return text;
}

static void list_services(const struct fake_table *table, const struct fake_part *part, lines *out)
{
    for (const struct fake_element *e = fake_first(table, part->services); e; e = e->hh.next) {
        if (part != fake_parts && !fake_is_led_to(table, e))
            continue;
        char *frontend = hex(e->key, e->key_length), *to = backends_of(table, part, e);
        char *affinity = affinity_of(table, e);
        vec_push(out, xasprintf("%s %s class %u to %s%s", part->services, frontend, fake_class(e),
                                to, affinity));
        free(frontend);
        free(to);
        free(affinity);
    }
}

static void list_set(const struct fake_table *table, const char *name, lines *out)
{
    for (const struct fake_element *e = fake_first(table, name); e; e = e->hh.next) {
        char *key = hex(e->key, e->key_length);
        vec_push(out, xasprintf("%s %s", name, key));
        free(key);
    }
}

/* What each frontend lets in; the numbers of lists do not matter. */
static void list_sources(const struct fake_table *table, lines *out)
{
    for (const struct fake_element *e = fake_first(table, "restricted"); e; e = e->hh.next) {
        char *frontend = hex(e->key, e->key_length);
        vec_push(out, xasprintf("restricted %s", frontend));
        for (const struct fake_element *s = fake_first(table, "allowed_sources"); s;
             s = s->hh.next) {
            if (fake_list_of(s) != fake_u32(e->data))
                continue;
            char *prefix = hex(s->key, s->key_length - sizeof(uint32_t));
            vec_push(out, xasprintf("%s lets in %s/%u", frontend, prefix, fake_prefix_length(s)));
            free(prefix);
        }
        free(frontend);
    }
}

static void list_ranges(const struct fake_table *table, const char *name, lines *out)
{
    const struct fake_set *set = fake_find_set(table, name);
    fake_element_refs refs = {0};
    if (set)
        fake_sorted(set, &refs);
    for (size_t i = 0; i < refs.n; i++) {
        char *key = hex(refs.v[i]->key, refs.v[i]->key_length);
        vec_push(out, xasprintf("%s %s %s", name, key, refs.v[i]->is_end ? "end" : "start"));
        free(key);
    }
    vec_free(&refs);
}

char *fake_list(const struct fake_table *table)
{
    static const char *const sets[] = {"reject_frontends", "drop_frontends", "cluster_ips",
                                       "hairpin"};
    lines all = {0};
    if (!table->exists)
        return xstrdup("no table\n");
    for (int i = 0; i < FAKE_PARTS; i++)
        list_services(table, &fake_parts[i], &all);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        list_set(table, sets[i], &all);
    list_sources(table, &all);
    list_ranges(table, "service_cidrs", &all);
    list_ranges(table, "pod_cidrs", &all);
    return joined(&all, "\n");
}
