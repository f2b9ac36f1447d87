/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table as text, in nft syntax: the templates with their elements filled in. */
#include "record.h"

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

/* ---- what records have ---- */

static void print_key(const struct ruleset *rs, enum table_set set, const struct record *record,
                      uint32_t slot, FILE *out, size_t *n)
{
    struct key key = set_key(set, record, slot);
    next_element(out, n);
    print_fields(out, rs->family, set_key_fields(set), key.bytes);
}

static void print_numbers(const struct ruleset *rs, enum table_set set, FILE *out, size_t *n)
{
    vec_each (&rs->pending, it) {
        uint32_t number = set_is_of(set, *it) ? set_number(set, *it).wanted : 0;
        if (!number)
            continue;
        print_key(rs, set, *it, 0, out, n);
        if (*set_value_fields(set)) {
            fputs(" : ", out);
            print_classid(out, number);
        }
    }
}

static void print_slots(const struct ruleset *rs, enum table_set set, FILE *out, size_t *n)
{
    vec_each (&rs->pending, it) {
        const struct part *part = (*it)->is_port ? set_part(set, *it) : NULL;
        for (uint32_t i = 0; part && i < part->n_wanted; i++) {
            print_key(rs, set, *it, i, out, n);
            fputs(" : ", out);
            print_address(out, rs->family, &part->wanted[i].address);
            fprintf(out, " . %u", part->wanted[i].port);
        }
    }
}

/* ---- contents ---- */

static int compare_contents(const void *a, const void *b)
{
    const struct content *p = *(struct content *const *)a, *q = *(struct content *const *)b;
    if (content_set_of(p) != content_set_of(q))
        return content_set_of(p) < content_set_of(q) ? -1 : 1;
    return memcmp(content_key(p), content_key(q), p->key_length);
}

static void print_contents(const struct ruleset *rs, enum table_set set, FILE *out, size_t *n)
{
    vec_each (&rs->contents.pending, it) {
        struct content *content = *it;
        if (!content->wanted || content_set_of(content) != set)
            continue;
        next_element(out, n);
        print_fields(out, rs->family, set_key_fields(set), content_key(content));
        if (*set_value_fields(set)) {
            fputs(" : ", out);
            print_fields(out, rs->family, set_value_fields(set), content_value(content));
        }
    }
}

static void print_elements(const struct ruleset *rs, enum table_set set, FILE *out, size_t *n)
{
    if (set == TABLE_SETS)
        return; /* packets write it, or it has verdicts alone */
    if (set_has_contents(set))
        print_contents(rs, set, out, n);
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

static void sort_contents(struct ruleset *rs)
{
    if (rs->contents.pending.n)
        qsort(rs->contents.pending.v, rs->contents.pending.n, sizeof(*rs->contents.pending.v),
              compare_contents);
}

void ruleset_dump(struct ruleset *rs, FILE *out)
{
    size_t n_shapes;
    bool learns;
    const char *family = nft_family_name(rs->family);
    ruleset_sort_pending(rs); /* before planning: affinity gives numbers in this order */
    size_t all = SIZE_MAX;
    ruleset_fill_lists(rs, &all);
    ruleset_plan(rs);
    ruleset_sort_pending(rs); /* service ports have numbers now */
    sort_contents(rs);
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
