/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a table does, as text. */
#include "fake_kernel_state.h"

#include "kube-nftd/base/alloc.h"
#include "ruleset/keys.h"

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
                         uint32_t port)
{
    lines all = {0};
    const uint32_t count = fake_count(fake_find_port(table, part->ports, port));
    for (uint32_t i = 0; i < count; i++) {
        const struct fake_element *slot = fake_find_slot(table, part->endpoints, port, i);
        vec_push(&all, slot ? hex(slot->data, slot->data_length) : xstrdup("none"));
    }
    return joined(&all, " ");
}

/* The lowest of the frontends that packets learn for together with @service, and for how long. */
static char *affinity_of(const struct fake_table *table, const struct fake_element *service)
{
    const uint32_t port = fake_port(service->data);
    const struct fake_element *timeout = fake_find_port(table, "affinity_timeouts", port),
                              *lowest = service;
    if (!(fake_low(service->data) & CLASS_AFFINE) || !timeout)
        return xstrdup("");
    hash_table_each (fake_elements(table, "services"), const struct fake_element, e)
        if (fake_low(e->data) & CLASS_AFFINE && fake_port(e->data) == port &&
            memcmp(e->key, lowest->key, e->key_length) < 0)
            lowest = e;
    char *with = hex(lowest->key, lowest->key_length);
    char *text = xasprintf(" with %s for %u", with, fake_u32(timeout->data));
    free(with);
    return text;
}

static bool has_all_parts(const struct fake_table *table, const struct fake_element *service)
{
    for (int i = 0; i < FAKE_PARTS; i++)
        if (fake_leads_to(service, &fake_parts[i]) &&
            !fake_find_port(table, fake_parts[i].ports, fake_port(service->data)))
            return false;
    return true;
}

/* What refuses packets that are not translated. If all are, it may stay until it is deleted. */
static const char *refusal_of(const struct fake_table *table, const struct fake_element *service)
{
    const uint32_t port = fake_port(service->data);
    if (has_all_parts(table, service))
        return "";
    if (fake_find_port(table, "rejected_ports", port))
        return " rejected";
    return fake_low(service->data) & CLASS_LOCAL &&
                   fake_find_port(table, "dropped_ports", port | CLASS_LOCAL)
               ? " dropped"
               : "";
}

static void list_services(const struct fake_table *table, lines *out)
{
    hash_table_each (fake_elements(table, "services"), const struct fake_element, e) {
        char *frontend = hex(e->key, e->key_length), *affinity = affinity_of(table, e);
        vec_push(out, xasprintf("%s class %u%s%s", frontend, fake_low(e->data),
                                refusal_of(table, e), affinity));
        for (int i = 0; i < FAKE_PARTS; i++) {
            if (!fake_leads_to(e, &fake_parts[i]))
                continue;
            char *to = backends_of(table, &fake_parts[i], fake_port(e->data));
            vec_push(out, xasprintf("%s has %s %s", frontend, fake_parts[i].ports, to));
            free(to);
        }
        free(frontend);
        free(affinity);
    }
}

static void list_set(const struct fake_table *table, const char *name, lines *out)
{
    hash_table_each (fake_elements(table, name), const struct fake_element, e) {
        char *key = hex(e->key, e->key_length);
        vec_push(out, xasprintf("%s %s", name, key));
        free(key);
    }
}

/* What each frontend lets in; the numbers of lists do not matter. */
static void list_sources(const struct fake_table *table, lines *out)
{
    hash_table_each (fake_elements(table, "restricted"), const struct fake_element, e) {
        char *frontend = hex(e->key, e->key_length);
        vec_push(out, xasprintf("restricted %s", frontend));
        hash_table_each (fake_elements(table, "allowed_sources"), const struct fake_element, s) {
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
    static const char *const sets[] = {"cluster_ips", "hairpin"};
    lines all = {0};
    if (!table->exists)
        return xstrdup("no table\n");
    list_services(table, &all);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        list_set(table, sets[i], &all);
    list_sources(table, &all);
    list_ranges(table, "service_cidrs", &all);
    list_ranges(table, "pod_cidrs", &all);
    return joined(&all, "\n");
}
