/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Builds values from libyaml's events, recursively over the nodes (at most DEPTH_MOST deep). Each
 * take_ function starts with its node's first event in yaml.in.event and ends with the last one
 * there.
 */
#include "reader.h"
#include "yaml_events.h"
#include "yaml_scalar.h"

#include <math.h>
#include <stdio.h>
#include <yaml.h>

#define DEPTH_MOST 100

/* A key of an open mapping. */
struct key {
    size_t begin; /* in the text of the values */
    const char *text;
    size_t line;
    size_t at;    /* index of its value */
    size_t order; /* of equal keys, the one with the highest counts */
    bool merged;  /* it comes from a merge key */
};

/* What the next node is. */
enum node_role { NODE_VALUE, NODE_MERGED, NODE_MERGED_ITEM };

struct yaml {
    struct yaml_events in;
    struct value_reader *values;
    struct error *err;
    bool single;          /* only the first document counts, without NUL in its texts */
    bool lenient;         /* allow duplicate keys */
    bool ended;           /* no other document counts */
    VEC(struct key) keys; /* of all open mappings, the innermost last */
    enum node_role role;
    bool merging; /* the mapping being read is the value of a merge key */
    bool merged;  /* the innermost open mapping has a merge key */
};

/* ---- scalars ---- */

/* The type of the current scalar; -1 if it does not fit its tag. */
static int scalar_type(struct yaml *yaml, double *number)
{
    static const struct {
        const char *tag;
        enum json_type type, other;
    } tags[] = {{YAML_INT_TAG, JSON_NUMBER, JSON_NUMBER},
                {YAML_FLOAT_TAG, JSON_NUMBER, JSON_NUMBER},
                {YAML_BOOL_TAG, JSON_TRUE, JSON_FALSE},
                {YAML_NULL_TAG, JSON_NULL, JSON_NULL}};
    const char *tag = (const char *)yaml->in.event.data.scalar.tag;
    bool plain = yaml->in.event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    enum json_type type = yaml_scalar_type((const char *)yaml->in.event.data.scalar.value, number);
    if (!tag)
        return plain ? (int)type : JSON_STRING;
    if (strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0)
        return JSON_STRING;
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        if (strcmp(tags[i].tag, tag) != 0)
            continue;
        return type == tags[i].type || type == tags[i].other
                   ? (int)type
                   : yaml_fail(&yaml->in, "the value does not fit its tag %s", tag);
    }
    return yaml_fail(&yaml->in, "tag %s is not supported", tag);
}

/* Adds @text. A NUL becomes two bytes that are not UTF-8. */
static int add_text(struct yaml *yaml, const char *text, size_t length, bool *has_nul)
{
    struct value_reader *values = yaml->values;
    *has_nul = memchr(text, '\0', length);
    if (*has_nul && yaml->single)
        return yaml_fail(&yaml->in, "a text with a NUL");
    reader_make_room(values, 2 * length + 1);
    for (const char *end = text + length; text < end; text++) {
        if (!*text)
            values->text.v[values->text.n++] = '\xc0';
        values->text.v[values->text.n++] = *text ? *text : '\x80';
    }
    values->text.v[values->text.n++] = '\0';
    return 0;
}

static int take_scalar(struct yaml *yaml)
{
    double number = 0;
    bool has_nul;
    int type = scalar_type(yaml, &number);
    size_t begin = yaml->values->text.n;
    if (type < 0 ||
        (type == JSON_STRING && add_text(yaml, (const char *)yaml->in.event.data.scalar.value,
                                         yaml->in.event.data.scalar.length, &has_nul)))
        return -1;
    struct json_value *value = reader_add(yaml->values, (enum json_type)type, yaml->err);
    if (!value)
        return -1;
    if (type == JSON_STRING) {
        value->type = has_nul ? JSON_BAD_STRING : JSON_STRING;
        value->string = yaml->values->text.v + begin;
    } else if (type == JSON_NUMBER) {
        value->number = number + 0.0; /* not -0 */
        value->integer = floor(number) == number && fabs(number) < 1e15;
    }
    return 0;
}

/* ---- sequences and mappings ---- */

static int take_node(struct yaml *yaml, size_t depth);

static int begin_container(struct yaml *yaml, enum json_type type, const yaml_char_t *tag,
                           const char *expected)
{
    if (tag && strcmp((const char *)tag, "!") != 0 && strcmp((const char *)tag, expected) != 0)
        return yaml_fail(&yaml->in, "tag %s is not supported here", tag);
    return reader_open(yaml->values, type, yaml->err);
}

static int take_sequence(struct yaml *yaml, size_t depth)
{
    if (begin_container(yaml, JSON_ARRAY, yaml->in.event.data.sequence_start.tag, YAML_SEQ_TAG) ||
        yaml_next(&yaml->in))
        return -1;
    while (yaml->in.event.type != YAML_SEQUENCE_END_EVENT)
        if (take_node(yaml, depth + 1) || yaml_next(&yaml->in))
            return -1;
    reader_close(yaml->values);
    return 0;
}

/* Keys are texts in JSON: "true" for yes, "16" for 0x10. */
static int add_key_text(struct yaml *yaml)
{
    const char *text = (const char *)yaml->in.event.data.scalar.value;
    size_t length = yaml->in.event.data.scalar.length;
    double number = 0;
    char digits[32];
    bool has_nul;
    int type = scalar_type(yaml, &number);
    if (type < 0)
        return -1;
    if (type == JSON_NULL)
        return yaml_fail(&yaml->in, "a key must not be null");
    if (type == JSON_NUMBER && floor(number) == number && fabs(number) < 1e15) {
        length = (size_t)snprintf(digits, sizeof(digits), "%.0f", number + 0.0);
        text = digits;
    } else if (type != JSON_STRING && type != JSON_NUMBER) {
        text = type == JSON_TRUE ? "true" : "false";
        length = strlen(text);
    }
    return add_text(yaml, text, length, &has_nul);
}

static int take_key(struct yaml *yaml)
{
    struct value_reader *values = yaml->values;
    size_t begin = values->text.n;
    if (yaml->in.event.type != YAML_SCALAR_EVENT)
        return yaml_fail(&yaml->in, "a key must be a simple value");
    if (add_key_text(yaml))
        return -1;
    vec_push(&yaml->keys, (struct key){.begin = begin,
                                       .line = yaml_line(&yaml->in),
                                       .at = values->values.n,
                                       .order = yaml->keys.n,
                                       .merged = yaml->merging});
    values->key = values->text.v + begin;
    values->key_length = json_key_length(values->text.n - begin - 1);
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    const struct key *first = a, *second = b;
    int order = strcmp(first->text, second->text);
    return order ? order : (first->order > second->order) - (first->order < second->order);
}

/* Of the @n equal @keys the last one counts. Takes the key from other values that come from a merge
 * or give way to one; else they are duplicates. */
static int choose_key(struct yaml *yaml, const struct key *keys, size_t n)
{
    const struct key *winner = &keys[n - 1], *before = NULL;
    for (const struct key *key = keys; key <= winner; key++) {
        if (!key->merged && before && !yaml->lenient)
            return error_set(yaml->err, "line %zu: duplicate key \"%s\", also in line %zu",
                             key->line, key->text, before->line);
        if (!key->merged)
            before = key;
        if (key != winner && (key->merged || winner->merged))
            yaml->values->values.v[key->at].key = NULL;
    }
    return 0;
}

/* Removes the members without a key of the object that begins at @index and ends the values. */
static void drop_members(struct value_reader *values, size_t index)
{
    struct json_value *v = values->values.v;
    size_t kept = index + 1;
    for (size_t from = kept, size; from < values->values.n; from += size) {
        size = v[from].size;
        if (!v[from].key)
            continue;
        memmove(&v[kept], &v[from], size * sizeof(*v));
        kept += size;
    }
    values->values.n = kept;
}

/* Looks for keys of the object at @index that come several times: those from @first on. Sorts, so
 * that many keys cost little. */
static int check_keys(struct yaml *yaml, size_t first, size_t index)
{
    struct key *keys = yaml->keys.v;
    const size_t end = yaml->keys.n;
    if (end - first < 2 || (yaml->lenient && !yaml->merged))
        return 0;
    for (size_t i = first; i < end; i++)
        keys[i].text = yaml->values->text.v + keys[i].begin;
    qsort(keys + first, end - first, sizeof(*keys), compare_keys);
    for (size_t i = first, n; i < end; i += n) {
        n = 1;
        while (i + n < end && strcmp(keys[i].text, keys[i + n].text) == 0)
            n++;
        if (n > 1 && choose_key(yaml, &keys[i], n))
            return -1;
    }
    if (yaml->merged)
        drop_members(yaml->values, index);
    return 0;
}

static bool is_merge_key(const yaml_event_t *event)
{
    return event->type == YAML_SCALAR_EVENT &&
           event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag &&
           strcmp((const char *)event->data.scalar.value, "<<") == 0;
}

/* The value of a merge key (<<), from the key on. */
static int take_merge(struct yaml *yaml, size_t depth)
{
    const bool outer = yaml->merging;
    yaml->merged = yaml->merging = true;
    yaml->role = NODE_MERGED;
    const int result = yaml_next(&yaml->in) ? -1 : take_node(yaml, depth + 1);
    yaml->role = NODE_VALUE;
    yaml->merging = outer;
    return result;
}

static int take_members(struct yaml *yaml, size_t depth)
{
    if (yaml_next(&yaml->in))
        return -1;
    while (yaml->in.event.type != YAML_MAPPING_END_EVENT) {
        if (is_merge_key(&yaml->in.event)
                ? take_merge(yaml, depth)
                : take_key(yaml) || yaml_next(&yaml->in) || take_node(yaml, depth + 1))
            return -1;
        if (yaml_next(&yaml->in))
            return -1;
    }
    return 0;
}

static int take_mapping(struct yaml *yaml, size_t depth)
{
    const size_t first = yaml->keys.n, index = yaml->values->values.n;
    const bool merging = yaml->merging, merged = yaml->merged;
    yaml->merging = yaml->merged = false;
    if (begin_container(yaml, JSON_OBJECT, yaml->in.event.data.mapping_start.tag, YAML_MAP_TAG) ||
        take_members(yaml, depth) || check_keys(yaml, first, index))
        return -1;
    yaml->merging = merging;
    yaml->merged = merged;
    yaml->keys.n = first;
    reader_close(yaml->values);
    return 0;
}

/* The first mapping of a sequence counts most: the order of their keys, which begin at @begins, is
 * that of the sequence backwards. */
static void order_backwards(struct yaml *yaml, const size_t *begins, size_t n)
{
    size_t end = yaml->keys.n, order = n ? begins[0] : 0;
    while (n-- > 0) {
        for (size_t i = begins[n]; i < end; i++)
            yaml->keys.v[i].order += order - begins[n];
        order += end - begins[n];
        end = begins[n];
    }
}

static int take_merged_sequence(struct yaml *yaml, size_t depth)
{
    VEC(size_t) begins = {0};
    int result = yaml_next(&yaml->in);
    while (result == 0 && yaml->in.event.type != YAML_SEQUENCE_END_EVENT) {
        vec_push(&begins, yaml->keys.n);
        yaml->role = NODE_MERGED_ITEM;
        result = take_node(yaml, depth + 1) || yaml_next(&yaml->in) ? -1 : 0;
    }
    order_backwards(yaml, begins.v, begins.n);
    vec_free(&begins);
    return result;
}

/* A mapping whose members become those of the innermost open mapping, or a sequence of such. */
static int take_merged(struct yaml *yaml, size_t depth)
{
    const bool is_item = yaml->role == NODE_MERGED_ITEM;
    yaml->role = NODE_VALUE;
    if (yaml->in.event.type == YAML_MAPPING_START_EVENT)
        return take_members(yaml, depth);
    if (yaml->in.event.type == YAML_SEQUENCE_START_EVENT && !is_item)
        return take_merged_sequence(yaml, depth);
    return yaml_fail(&yaml->in, "a merge key (<<) needs a mapping, or a sequence of mappings");
}

/* ---- nodes and documents ---- */

static int take_bare(struct yaml *yaml, size_t depth)
{
    struct value_reader *values = yaml->values;
    int result;
    if (yaml->role != NODE_VALUE)
        return take_merged(yaml, depth);
    if (yaml->in.event.type == YAML_SCALAR_EVENT)
        result = take_scalar(yaml);
    else if (yaml->in.event.type == YAML_SEQUENCE_START_EVENT)
        result = take_sequence(yaml, depth);
    else
        result = take_mapping(yaml, depth);
    return result == 0 && reader_is_complete(values) ? reader_deliver(values, yaml->err) : result;
}

static int take_alias(struct yaml *yaml, size_t depth)
{
    struct yaml_place place;
    if (yaml_enter_alias(&yaml->in, &place))
        return -1;
    int result = take_node(yaml, depth);
    yaml_leave_alias(&yaml->in, &place);
    return result;
}

static int take_node(struct yaml *yaml, size_t depth)
{
    struct value_reader *values = yaml->values;
    size_t begin;
    if (values->values.n == values->item && !yaml->in.replay)
        values->lines[values->item > 0] = yaml_line(&yaml->in);
    if (depth > DEPTH_MOST)
        return yaml_fail(&yaml->in, "nested too deep");
    if (yaml->in.event.type == YAML_ALIAS_EVENT)
        return take_alias(yaml, depth);
    const char *anchor = yaml_enter_anchor(&yaml->in, &begin);
    int result = take_bare(yaml, depth);
    if (anchor)
        yaml_leave_anchor(&yaml->in, anchor, begin);
    return result;
}

static int take_document(struct yaml *yaml)
{
    if (yaml_next(&yaml->in))
        return -1;
    int result = take_node(yaml, 1);
    yaml_end_document(&yaml->in);
    yaml->ended = yaml->single;
    return result ? -1 : yaml_next(&yaml->in); /* the document end event */
}

/* Reads all documents. */
static int read_stream(struct yaml *yaml)
{
    int result = 0;
    while (result == 0 && !yaml->ended && yaml->in.event.type != YAML_STREAM_END_EVENT) {
        result = yaml_next(&yaml->in);
        if (result == 0 && yaml->in.event.type == YAML_DOCUMENT_START_EVENT)
            result = take_document(yaml);
    }
    yaml_events_close(&yaml->in);
    vec_free(&yaml->keys);
    return result;
}

int yaml_read(struct value_reader *reader, yaml_input_fn input, void *ctx, struct error *err)
{
    struct yaml yaml = {.values = reader, .err = err};
    yaml_events_open(&yaml.in, input, ctx, err);
    return read_stream(&yaml);
}

/* ---- trees ---- */

static cJSON *tree_of(const struct json_value *value)
{
    if (json_has_string(value))
        return cJSON_CreateString(value->string);
    if (value->type == JSON_NUMBER)
        return cJSON_CreateNumber(value->number);
    if (value->type == JSON_NULL)
        return cJSON_CreateNull();
    if (json_is_bool(value))
        return cJSON_CreateBool(value->type == JSON_TRUE);
    cJSON *tree = value->type == JSON_OBJECT ? cJSON_CreateObject() : cJSON_CreateArray();
    json_each (value, member) {
        if (value->type == JSON_OBJECT)
            cJSON_AddItemToObject(tree, member->key, tree_of(member));
        else
            cJSON_AddItemToArray(tree, tree_of(member));
    }
    return tree;
}

static int keep_tree(void *ctx, const struct json_value *value, const struct json_value *list,
                     struct error *err)
{
    (void)list, (void)err;
    *(cJSON **)ctx = tree_of(value);
    return 0;
}

cJSON *yaml_parse(const char *text, size_t length, bool lenient, struct error *err)
{
    cJSON *tree = NULL;
    struct value_reader *reader = json_reader_new(SIZE_MAX, keep_tree, &tree);
    struct yaml yaml = {.values = reader, .err = err, .lenient = lenient, .single = true};
    yaml_events_open_text(&yaml.in, text, length, err);
    reader->had_items = true; /* "items" are no different here */
    int result = read_stream(&yaml);
    value_reader_free(reader);
    if (result == 0 && !tree)
        error_set(err, "no document");
    if (result < 0) {
        cJSON_Delete(tree);
        tree = NULL;
    }
    return tree;
}
