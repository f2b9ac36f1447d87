/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints the table in nft syntax: the templates with their elements. */
#include "state.h"
#include "template.h"

#include <ctype.h>
#include <string.h>

struct dump {
    struct ruleset *rs;
    FILE *out;
    struct layout layout;
    size_t n; /* elements printed in the current set */
};

static void print_classid(FILE *out, uint32_t value)
{
    fprintf(out, "%x:%x", value >> 16, value & UINT16_MAX);
}

/* Prints an address, a prefix if the range is one, or a range: nft loads them all. */
static void print_range(FILE *out, enum family family, const struct address_range *range)
{
    char text[RANGE_TEXT_SIZE];
    fputs(memcmp(&range->first, &range->last, sizeof(range->first)) == 0
              ? address_format(family, &range->first, text)
              : range_format(family, range, text),
          out);
}

/* Prints one field; returns the bytes after it. */
static const uint8_t *print_field(FILE *out, enum family family, char field, const uint8_t *bytes)
{
    struct address_range range = {.first = {.bytes = {0}}};
    uint32_t number;
    switch (field) {
    case FIELD_ADDRESS:
        memcpy(range.first.bytes, bytes, address_length(family));
        range.last = range.first;
        print_range(out, family, &range);
        return bytes + address_length(family);
    case FIELD_RANGE:
        range = range_of_key(family, bytes);
        print_range(out, family, &range);
        return bytes + 2 * address_length(family);
    case FIELD_PROTOCOL:
        for (const char *s = protocol_name(*bytes); *s; s++)
            fputc(tolower((unsigned char)*s), out);
        break;
    case FIELD_PORT:
        fprintf(out, "%u", bytes[0] << 8 | bytes[1]);
        break;
    default:
        memcpy(&number, bytes, sizeof(number));
        if (field == FIELD_NUMBER)
            fprintf(out, "%u", number);
        else
            print_classid(out, number);
        break;
    }
    return bytes + sizeof(number);
}

static void print_fields(FILE *out, enum family family, const char *fields, const uint8_t *bytes)
{
    for (const char *field = fields; *field; field++) {
        if (field != fields)
            fputs(" . ", out);
        bytes = print_field(out, family, *field, bytes);
    }
}

/* ---- elements ---- */

/* Opens the element list before the first element, begins a new line before others. */
static void next_element(struct dump *d)
{
    fputs(d->n++ ? ",\n            " : "        elements = {\n            ", d->out);
}

static void print_element(struct dump *d, enum table_set set, const uint8_t *key,
                          const uint8_t *value)
{
    const struct set_schema *schema = &set_schema[set];
    next_element(d);
    print_fields(d->out, d->rs->family, schema->key, key);
    if (*schema->value) {
        fputs(" : ", d->out);
        print_fields(d->out, d->rs->family, schema->value, value);
    }
}

/* Prints the elements of an entry in a set where it has some. */
static void print_entry(struct dump *d, enum table_set set, struct entry *entry)
{
    if (set_owner(set) == OWNER_SLOTS) {
        const struct slot_table *slots = port_slots(as_port(entry), part_of_set(set));
        for (uint32_t i = 0; slots && i < slots->n_added; i++) {
            const struct key key = entry_key(set, entry, i);
            const struct key value = value_of_backend(d->rs->family, &slots->change->plan.added[i]);
            print_element(d, set, key.bytes, value.bytes);
        }
    } else if (entry_desired(set, entry)) {
        const struct key key = entry_key(set, entry, 0);
        const struct key number = key_of_number(entry_desired(set, entry));
        print_element(d, set, key.bytes,
                      entry->kind == ENTRY_PLAIN ? plain_value(as_plain(entry)) : number.bytes);
    }
}

static bool is_in_set(enum table_set set, const struct entry *entry)
{
    return set_owner(set) == OWNER_SLOTS ? entry->kind == ENTRY_PORT
                                         : set >= first_set(entry) && set < end_of_sets(entry);
}

static void print_elements(struct dump *d, const struct layout_set *from)
{
    const enum table_set set = set_of_name(from->name);
    if (set < TABLE_SETS) { /* else packets write it, or it has only verdicts */
        vec_each (&d->rs->dirty, it)
            if (is_in_set(set, *it))
                print_entry(d, set, *it);
    }
    vec_each (&from->verdicts, verdict) {
        next_element(d);
        print_classid(d->out, verdict->key);
        fprintf(d->out, " : goto %s", verdict->chain);
    }
}

/* ---- the table ---- */

static void print_comment(FILE *out, const char *comment)
{
    while (comment && *comment) {
        size_t length = strcspn(comment, "\n") + 1;
        fprintf(out, "    %.*s", (int)length, comment);
        comment += length;
    }
}

static void print_set(struct dump *d, const struct layout_set *set)
{
    print_comment(d->out, set->comment);
    fprintf(d->out, "    %s %s {\n        %s\n", set->is_map ? "map" : "set", set->name,
            set->declaration);
    if (set->size)
        fprintf(d->out, "        size %u\n", set->size);
    if (set->flags)
        fprintf(d->out, "        flags %s\n", set->flags);
    d->n = 0;
    print_elements(d, set);
    fputs(d->n ? "\n        }\n    }\n\n" : "    }\n\n", d->out);
}

/* nft refuses an empty list of devices, and a device that is not there. */
static void print_flowtable(const struct dump *d)
{
    const struct layout_flowtable *flowtable = &d->layout.flowtable;
    const device_vec *devices = &d->rs->flowtable.desired;
    if (!flowtable->name)
        return;
    print_comment(d->out, flowtable->comment);
    fprintf(d->out, "    flowtable %s {\n        %s\n", flowtable->name, flowtable->hook);
    vec_each (devices, device)
        fprintf(d->out, "%s\"%s\"", device == devices->v ? "        devices = { " : ", ",
                device->name);
    fputs(devices->n ? " };\n    }\n\n" : "    }\n\n", d->out);
}

static void print_chain(FILE *out, const struct layout_chain *chain)
{
    print_comment(out, chain->comment);
    fprintf(out, "    chain %s {\n", chain->name);
    if (chain->hook)
        fprintf(out, "        %s\n", chain->hook);
    vec_each (&chain->rules, rule)
        fprintf(out, "        %s\n", rule->text);
    fputs("    }\n\n", out);
}

/* Plans the desired state, in an order that gives equal contents equal numbers, and returns the
 * instances needed. */
static instance_vec plan(struct ruleset *rs)
{
    instance_vec instances = {0};
    ruleset_sort_dirty(rs); /* before planning: affinity numbers follow this order */
    ruleset_plan(rs, SIZE_MAX);
    ruleset_sort_dirty(rs); /* service ports are now numbered */
    ruleset_find_differences(rs);
    ruleset_new_instances(rs, &instances);
    return instances;
}

void ruleset_dump(struct ruleset *rs, FILE *out)
{
    struct dump d = {.rs = rs, .out = out};
    const char *family = nft_family_name(rs->family);
    instance_vec instances = plan(rs);
    bool learns = false;
    vec_each (&instances, instance)
        learns = learns || instance->template == TEMPLATE_LEARN;
    ruleset_add_templates(rs, &instances, &d.layout);
    if (learns && rs->family == FAMILY_IPV6)
        fputs("# Session affinity over IPv6: nft 1.0 cannot load this, 1.1 and later can.\n", out);
    fprintf(out, "add table %s %s\ndelete table %s %s\n", family, RULESET_TABLE, family,
            RULESET_TABLE);
    fprintf(out, "table %s %s {\n    comment \"%s\"\n\n", family, RULESET_TABLE, rs->comment);
    vec_each (&d.layout.sets, set)
        print_set(&d, set);
    print_flowtable(&d);
    vec_each (&d.layout.chains, chain)
        print_chain(out, chain);
    fputs("}\n", out);
    layout_free(&d.layout);
    vec_free(&instances);
}
