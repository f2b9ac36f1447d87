/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table as text, in nft syntax: the templates with their elements filled in. */
#include "state.h"

#include <ctype.h>
#include <string.h>

static void print_protocol(FILE *out, uint8_t protocol)
{
    for (const char *s = protocol_name(protocol); *s; s++)
        fputc(tolower((unsigned char)*s), out);
}

/* Begins the list of elements before the first one, a new line before the others. */
static void next_element(FILE *out, size_t *n)
{
    fputs((*n)++ ? ",\n            " : "        elements = {\n            ", out);
}

static void print_classid(FILE *out, uint32_t value)
{
    fprintf(out, "%x:%x", value >> 16, value & UINT16_MAX);
}

static void print_address(FILE *out, enum family family, const struct address *address)
{
    char text[ADDRESS_TEXT_SIZE];
    fputs(address_format(family, address, text), out);
}

/* Whether a range is all that has the first @length bits of it. */
static bool is_prefix(enum family family, const struct address_range *range, unsigned *length)
{
    unsigned bits = 8 * (unsigned)address_length(family);
    for (*length = 0; *length < bits; ++*length) {
        unsigned bit = 0x80u >> *length % 8;
        if ((range->first.bytes[*length / 8] ^ range->last.bytes[*length / 8]) & bit)
            break;
    }
    for (unsigned i = *length; i < bits; i++) {
        unsigned bit = 0x80u >> i % 8;
        if (range->first.bytes[i / 8] & bit || !(range->last.bytes[i / 8] & bit))
            return false;
    }
    return true;
}

/* As a prefix where it is one: nft loads both. */
static void print_range(FILE *out, enum family family, const struct address_range *range)
{
    unsigned length;
    print_address(out, family, &range->first);
    if (is_prefix(family, range, &length)) {
        if (length < 8 * address_length(family))
            fprintf(out, "/%u", length);
        return;
    }
    fputc('-', out);
    print_address(out, family, &range->last);
}

/* ---- fields ---- */

static const uint8_t *take_address(enum family family, const uint8_t *bytes,
                                   struct address *address)
{
    memset(address, 0, sizeof(*address));
    memcpy(address->bytes, bytes, address_length(family));
    return bytes + address_length(family);
}

/* Prints one field; the bytes behind it. */
static const uint8_t *print_field(FILE *out, enum family family, char field, const uint8_t *bytes)
{
    struct address_range range;
    uint32_t number;
    switch (field) {
    case FIELD_ADDRESS:
        bytes = take_address(family, bytes, &range.first);
        print_address(out, family, &range.first);
        return bytes;
    case FIELD_RANGE:
        bytes = take_address(family, take_address(family, bytes, &range.first), &range.last);
        print_range(out, family, &range);
        return bytes;
    case FIELD_PROTOCOL:
        print_protocol(out, *bytes);
        break;
    case FIELD_PORT:
        fprintf(out, "%u", bytes[0] << 8 | bytes[1]);
        break;
    case FIELD_NUMBER:
        memcpy(&number, bytes, sizeof(number));
        fprintf(out, "%u", number);
        break;
    default:
        memcpy(&number, bytes, sizeof(number));
        print_classid(out, number);
        break;
    }
    return bytes + sizeof(number);
}

static void print_fields(FILE *out, enum family family, const char *format, const uint8_t *bytes)
{
    for (const char *field = format; *field; field++) {
        if (field != format)
            fputs(" . ", out);
        bytes = print_field(out, family, *field, bytes);
    }
}

/* ---- what entries have ---- */

static void print_key(const struct ruleset *rs, enum table_set set, const struct entry *entry,
                      uint32_t slot, FILE *out, size_t *n)
{
    struct key key = entry_key(set, entry, slot);
    next_element(out, n);
    print_fields(out, rs->family, set_schema[set].key, key.bytes);
}

static void print_numbers(const struct ruleset *rs, enum table_set set, FILE *out, size_t *n)
{
    vec_each (&rs->dirty, it) {
        uint32_t number = set_is_of(set, *it) ? entry_desired(rs, set, *it) : 0;
        if (!number)
            continue;
        print_key(rs, set, *it, 0, out, n);
        if (*set_schema[set].value) {
            fputs(" : ", out);
            print_classid(out, number);
        }
    }
}

static void print_slots(const struct ruleset *rs, enum table_set set, FILE *out, size_t *n)
{
    vec_each (&rs->dirty, it) {
        const struct slot_table *slots =
            (*it)->is_port ? port_slots(as_port(*it), part_of_set(set)) : NULL;
        const struct slot_steps steps = slots ? slots_steps(slots) : (struct slot_steps){0};
        for (uint32_t i = 0; i < steps.n_added; i++) {
            print_key(rs, set, *it, i, out, n);
            fputs(" : ", out);
            print_address(out, rs->family, &steps.added[i].address);
            fprintf(out, " . %u", steps.added[i].port);
        }
    }
}

/* ---- plain elements ---- */

static int compare_plain(const void *a, const void *b)
{
    const struct plain *p = *(struct plain *const *)a, *q = *(struct plain *const *)b;
    if (plain_set(p) != plain_set(q))
        return plain_set(p) < plain_set(q) ? -1 : 1;
    return memcmp(plain_key(p), plain_key(q), p->key_length);
}

static void print_plain(const struct ruleset *rs, enum table_set set, FILE *out, size_t *n)
{
    vec_each (&rs->plain.dirty, it) {
        struct plain *plain = *it;
        if (!plain->desired || plain_set(plain) != set)
            continue;
        next_element(out, n);
        print_fields(out, rs->family, set_schema[set].key, plain_key(plain));
        if (*set_schema[set].value) {
            fputs(" : ", out);
            print_fields(out, rs->family, set_schema[set].value, plain_value(plain));
        }
    }
}

static void print_elements(const struct ruleset *rs, enum table_set set, FILE *out, size_t *n)
{
    if (set == TABLE_SETS)
        return; /* packets write it, or it has verdicts alone */
    if (set_is_plain(set))
        print_plain(rs, set, out, n);
    else if (set_owner(set) == OWNER_SLOTS)
        print_slots(rs, set, out, n);
    else
        print_numbers(rs, set, out, n);
}

/* ---- the table ---- */

static void print_verdicts(const struct layout_set *set, FILE *out, size_t *n)
{
    vec_each (&set->verdicts, verdict) {
        next_element(out, n);
        print_classid(out, verdict->key);
        fprintf(out, " : goto %s", verdict->chain);
    }
}

static void print_shape_verdicts(const struct layout *shapes, size_t n_shapes, const char *map,
                                 FILE *out, size_t *n)
{
    for (size_t i = 0; i < n_shapes; i++)
        vec_each (&shapes[i].sets, set)
            if (strcmp(set->name, map) == 0)
                print_verdicts(set, out, n);
}

static void print_comment(FILE *out, const char *comment)
{
    while (comment && *comment) {
        size_t length = strcspn(comment, "\n") + 1;
        fprintf(out, "    %.*s", (int)length, comment);
        comment += length;
    }
}

static void print_declaration(const struct layout_set *set, FILE *out)
{
    print_comment(out, set->comment);
    fprintf(out, "    %s %s {\n        %s\n", set->is_map ? "map" : "set", set->name,
            set->declaration);
    if (set->size)
        fprintf(out, "        size %u\n", set->size);
    if (set->flags)
        fprintf(out, "        flags %s\n", set->flags);
}

static void print_set(struct ruleset *rs, const struct layout_set *set, const struct layout *shapes,
                      size_t n_shapes, FILE *out)
{
    size_t n = 0;
    print_declaration(set, out);
    print_verdicts(set, out, &n);
    print_elements(rs, set_of_name(set->name), out, &n);
    print_shape_verdicts(shapes, n_shapes, set->name, out, &n);
    fputs(n ? "\n        }\n    }\n\n" : "    }\n\n", out);
}

static void print_chains(const struct layout *layout, FILE *out)
{
    vec_each (&layout->chains, chain) {
        print_comment(out, chain->comment);
        fprintf(out, "    chain %s {\n", chain->name);
        if (chain->hook_text)
            fprintf(out, "        %s\n", chain->hook_text);
        vec_each (&chain->rules, rule)
            fprintf(out, "        %s\n", rule->text);
        fputs("    }\n\n", out);
    }
}

static struct layout *read_shapes(struct ruleset *rs, size_t *n, bool *learns)
{
    shape_vec shapes = {0};
    ruleset_new_shapes(rs, &shapes);
    struct layout *layouts = xcalloc(shapes.n, sizeof(*layouts));
    struct error err = {0};
    *learns = false;
    for (*n = 0; *n < shapes.n; ++*n) {
        if (ruleset_read_shape(rs, shapes.v[*n], &layouts[*n], &err))
            abort(); /* ruleset_commit() would not have passed either: the binary is broken */
        *learns = *learns || shapes.v[*n].template == TEMPLATE_LEARN;
    }
    vec_free(&shapes);
    return layouts;
}

static void sort_plain(struct ruleset *rs)
{
    if (rs->plain.dirty.n)
        qsort(rs->plain.dirty.v, rs->plain.dirty.n, sizeof(*rs->plain.dirty.v), compare_plain);
}

void ruleset_dump(struct ruleset *rs, FILE *out)
{
    size_t n_shapes;
    bool learns;
    const char *family = nft_family_name(rs->family);
    ruleset_sort_dirty(rs); /* before planning: affinity gives numbers in this order */
    size_t all = SIZE_MAX;
    ruleset_fill_lists(rs, &all);
    ruleset_plan(rs);
    ruleset_sort_dirty(rs); /* service ports have numbers now */
    sort_plain(rs);
    struct layout *shapes = read_shapes(rs, &n_shapes, &learns);

    if (learns && rs->family == FAMILY_IPV6)
        fputs("# Session affinity over IPv6: nft 1.0 cannot load this, 1.1 and later can.\n", out);
    fprintf(out, "add table %s %s\ndelete table %s %s\n", family, RULESET_TABLE, family,
            RULESET_TABLE);
    fprintf(out, "table %s %s {\n    comment \"%s\"\n\n", family, RULESET_TABLE, rs->comment);
    vec_each (&rs->base.sets, set)
        print_set(rs, set, shapes, n_shapes, out);
    print_chains(&rs->base, out);
    for (size_t i = 0; i < n_shapes; i++)
        print_chains(&shapes[i], out);
    fputs("}\n", out);

    for (size_t i = 0; i < n_shapes; i++)
        layout_free(&shapes[i]);
    free(shapes);
}
