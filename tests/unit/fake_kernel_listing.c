/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a table does, as text. */
#include "fake_kernel_state.h"

#include "kube-nftd/base.h"
#include "table/element.h"

#include <stdlib.h>
#include <string.h>

static void put_hex(FILE *out, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        fprintf(out, "%02x", bytes[i]);
}

/* A line that begins with @what and a key. */
static FILE *begin_line(FILE *out, const char *what, const struct fake_element *e)
{
    fprintf(out, "\n%s ", what);
    put_hex(out, e->key, e->key_length);
    return out;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The lines of @text, which is freed, in order. */
static char *sorted(char *text)
{
    char *all;
    size_t length;
    FILE *out = open_memstream(&all, &length);
    VEC(char *) lines = {0};
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (*line)
            vec_push(&lines, line);
    if (lines.n > 0)
        qsort(lines.v, lines.n, sizeof(*lines.v), compare_lines);
    vec_each (&lines, line)
        fprintf(out, "%s\n", *line);
    fclose(out);
    vec_free(&lines);
    free(text);
    return all;
}

/* A line for each slot of a part. */
static void list_backends(FILE *out, const struct fake_table *table,
                          const struct fake_element *service, const struct fake_part *part)
{
    const uint32_t port = fake_port(service->data);
    const uint32_t count = fake_reaches(table, service, part);
    for (uint32_t i = 0; i < count; i++) {
        const struct fake_element *slot = fake_find_slot(table, part->endpoints, port, i);
        fprintf(begin_line(out, part->ports, service), " has ");
        put_hex(out, slot ? slot->data : NULL, slot ? slot->data_length : 0);
    }
}

/* The lowest of the frontends that packets learn for together with @service, and for how long. */
static void put_affinity(FILE *out, const struct fake_table *table,
                         const struct fake_element *service)
{
    const uint32_t port = fake_port(service->data);
    const struct fake_element *timeout = fake_find_port(table, "affinity_timeouts", port),
                              *lowest = service;
    if (!(fake_class(service->data) & CLASS_AFFINE) || !timeout)
        return;
    hash_table_each (fake_elements(table, "services"), const struct fake_element, e)
        if (fake_class(e->data) & CLASS_AFFINE && fake_port(e->data) == port &&
            memcmp(e->key, lowest->key, e->key_length) < 0)
            lowest = e;
    fprintf(out, " for %u with ", timeout_of_value(fake_u32(timeout->data)));
    put_hex(out, lowest->key, lowest->key_length);
}

static bool has_all_parts(const struct fake_table *table, const struct fake_element *service)
{
    for (int i = 0; i < FAKE_PARTS; i++)
        if (fake_leads_to(service, &fake_parts[i]) && !fake_reaches(table, service, &fake_parts[i]))
            return false;
    return true;
}

/* What rejects packets that are not translated, as the chain refuse-port does. If all are, it may
 * stay until it is deleted. */
static const char *refusal_of(const struct fake_table *table, const struct fake_element *service)
{
    const uint32_t port = fake_port(service->data);
    if (has_all_parts(table, service))
        return "";
    if (fake_class(service->data) & CLASS_LOCAL &&
        fake_find_port(table, "dropped_ports", port | CLASS_LOCAL))
        return " dropped";
    return fake_find_port(table, "rejected_ports", port) ? " rejected" : "";
}

static void list_services(FILE *out, const struct fake_table *table)
{
    hash_table_each (fake_elements(table, "services"), const struct fake_element, e) {
        fprintf(begin_line(out, "services", e), " class %u%s", fake_class(e->data),
                refusal_of(table, e));
        put_affinity(out, table, e);
        for (int i = 0; i < FAKE_PARTS; i++)
            if (fake_leads_to(e, &fake_parts[i]))
                list_backends(out, table, e, &fake_parts[i]);
    }
}

/* What each frontend lets in; the numbers of lists do not matter. */
static void list_sources(FILE *out, const struct fake_table *table)
{
    hash_table_each (fake_elements(table, "services"), const struct fake_element, e) {
        const struct fake_element *list = fake_find_port(table, "source_lists", fake_port(e->data));
        if (!(fake_class(e->data) & CLASS_RESTRICTED))
            continue;
        begin_line(out, "restricted", e);
        hash_table_each (fake_elements(table, "allowed_sources"), const struct fake_element, s) {
            if (!list || fake_list_of(s) != fake_u32(list->data))
                continue;
            fprintf(begin_line(out, "restricted", e), " lets in ");
            put_hex(out, s->key, s->key_length - sizeof(uint32_t));
            fprintf(out, "/%u", fake_prefix_length(s));
        }
    }
}

/* The keys of a set, ranges with their ends. */
static void list_set(FILE *out, const struct fake_table *table, const char *name)
{
    const struct fake_set *set = fake_find_set(table, name);
    hash_table_each (fake_elements(table, name), const struct fake_element, e)
        begin_line(out, name, e);
    if (set)
        hash_table_each (&set->ends, const struct fake_element, e)
            fprintf(begin_line(out, name, e), " end");
}

char *fake_list(const struct fake_table *table)
{
    static const char *const sets[] = {"cluster_ips", "hairpin", "service_cidrs", "pod_cidrs"};
    char *text;
    size_t length;
    if (!table->exists)
        return xstrdup("no table\n");
    FILE *out = open_memstream(&text, &length);
    list_services(out, table);
    list_sources(out, table);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        list_set(out, table, sets[i]);
    fclose(out);
    return sorted(text);
}
