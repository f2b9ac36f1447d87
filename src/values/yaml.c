/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Builds values from libyaml's events, recursively over the nodes (at most DEPTH_MOST deep), and
 * writes trees with its emitter. Each take_ function starts with its node's first event in
 * yaml.event and ends with the last one there.
 *
 * Expansion is bounded: the aliases of a document copy at most COPIED_MOST bytes.
 */
#include "reader.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <strings.h>
#include <yaml.h>

#define DEPTH_MOST 100
#define COPIED_MOST ((size_t)16 * 1024 * 1024)

/* A node, as a range of the recorded events. */
struct anchor {
    const char *name; /* in its first event */
    size_t begin, end;
};

/* A key of an open mapping. */
struct key {
    size_t begin; /* in the text of the values */
    const char *text;
    size_t line;
};

struct yaml {
    yaml_parser_t parser;
    yaml_event_t event;
    struct value_reader *values;
    struct error *err;
    yaml_input_fn input;
    void *ctx;
    bool single;      /* one document, without NUL in its texts */
    bool lenient;     /* allow duplicate keys */
    size_t documents; /* begun */
    /* Anchored nodes are recorded, and an alias replays its node. */
    VEC(yaml_event_t) events; /* recorded in this document */
    VEC(struct anchor) anchors;
    size_t open_anchors;        /* anchored nodes in progress */
    bool recorded;              /* the current event is the last one of @events */
    const yaml_event_t *replay; /* the current event, if it is replayed; else NULL */
    size_t copied;              /* bytes of replayed events in this document */
    VEC(struct key) keys;       /* of all open mappings, the innermost last */
};

/* ---- errors and events ---- */

static int fail_at(struct yaml *yaml, const yaml_mark_t *mark, const char *what)
{
    return error_set(yaml->err, "line %zu column %zu: %s", mark->line + 1, mark->column + 1, what);
}

/* Reports an error at the current event. */
__attribute__((format(printf, 2, 3))) static int fail(struct yaml *yaml, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    fail_at(yaml, &yaml->event.start_mark, text);
    free(text);
    return -1;
}

/* libyaml decodes ahead of its scanner: the bad byte follows the decoded characters that were not
 * scanned yet. */
static int fail_encoding(struct yaml *yaml)
{
    const yaml_parser_t *parser = &yaml->parser;
    yaml_mark_t mark = parser->mark;
    for (const yaml_char_t *p = parser->buffer.pointer; p < parser->buffer.last; p++) {
        if (*p == '\n') {
            mark.line++;
            mark.column = 0;
        } else if ((*p & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return fail_at(yaml, &mark, parser->problem);
}

static int replay_next(struct yaml *yaml)
{
    yaml->event = *++yaml->replay;
    yaml->copied += sizeof(struct json_value);
    if (yaml->event.type == YAML_SCALAR_EVENT)
        yaml->copied += yaml->event.data.scalar.length;
    return yaml->copied <= COPIED_MOST
               ? 0
               : fail(yaml, "the aliases of the document expand to too much");
}

static int next(struct yaml *yaml)
{
    const yaml_parser_t *parser = &yaml->parser;
    yaml_event_t *event = &yaml->event;
    if (yaml->replay)
        return replay_next(yaml);
    if (!yaml->recorded)
        yaml_event_delete(event);
    if (yaml_parser_parse(&yaml->parser, event)) {
        bool is_node = event->type == YAML_SCALAR_EVENT ||
                       event->type == YAML_SEQUENCE_START_EVENT ||
                       event->type == YAML_MAPPING_START_EVENT;
        /* the anchor is the first member of these */
        yaml->recorded = yaml->open_anchors > 0 || (is_node && event->data.scalar.anchor);
        if (yaml->recorded)
            vec_push(&yaml->events, *event);
        return 0;
    }
    yaml->recorded = false;
    if (parser->error == YAML_MEMORY_ERROR)
        alloc_failed();
    if (parser->error == YAML_READER_ERROR)
        return yaml->err->text ? -1 /* set by the input callback */ : fail_encoding(yaml);
    char *what = xasprintf("%s%s%s", parser->problem, parser->context ? ", " : "",
                           parser->context ? parser->context : "");
    fail_at(yaml, &parser->problem_mark, what);
    free(what);
    return -1;
}

static size_t line_of(const struct yaml *yaml)
{
    return yaml->event.start_mark.line + 1;
}

/* ---- scalars ---- */

/* Parses a number as Kubernetes' tools do: 010 is octal, like 0o10. False for other text, and for
 * infinity and NaN, which JSON lacks. */
static bool read_number(const char *text, double *number)
{
    static const struct {
        const char *prefix, *digits;
        int base;
    } forms[] = {{"0x", "0123456789abcdefABCDEF", 16}, {"0o", "01234567", 8}, {"0", "01234567", 8}};
    double sign = *text == '-' ? -1 : 1;
    text += *text == '-' || *text == '+';
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        size_t prefix = strlen(forms[i].prefix);
        const char *digits = text + prefix;
        if (strncmp(text, forms[i].prefix, prefix) == 0 && *digits &&
            !digits[strspn(digits, forms[i].digits)]) {
            errno = 0;
            *number = sign * (double)strtoull(digits, NULL, forms[i].base);
            if (errno == 0)
                return true;
        }
    }
    char *end;
    if ((!isdigit((unsigned char)*text) && *text != '.') || text[strspn(text, "0123456789.eE+-")])
        return false;
    *number = sign * strtod(text, &end);
    return end > text && !*end && isfinite(*number);
}

/* The type of a plain scalar. */
static enum json_type resolve(const char *text, double *number)
{
    static const struct {
        const char *text;
        enum json_type type;
    } words[] = {
        {"", JSON_NULL},       {"~", JSON_NULL},      {"null", JSON_NULL},   {"Null", JSON_NULL},
        {"NULL", JSON_NULL},   {"true", JSON_TRUE},   {"True", JSON_TRUE},   {"TRUE", JSON_TRUE},
        {"false", JSON_FALSE}, {"False", JSON_FALSE}, {"FALSE", JSON_FALSE},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].text, text) == 0)
            return words[i].type;
    return read_number(text, number) ? JSON_NUMBER : JSON_STRING;
}

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
    const char *tag = (const char *)yaml->event.data.scalar.tag;
    bool is_plain = yaml->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    enum json_type type = resolve((const char *)yaml->event.data.scalar.value, number);
    if (!tag)
        return is_plain ? (int)type : JSON_STRING;
    if (strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0)
        return JSON_STRING;
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        if (strcmp(tags[i].tag, tag) != 0)
            continue;
        return type == tags[i].type || type == tags[i].other
                   ? (int)type
                   : fail(yaml, "the value does not fit its tag %s", tag);
    }
    return fail(yaml, "tag %s is not supported", tag);
}

/* Adds the text of the current scalar. A NUL becomes two bytes that are not UTF-8. */
static int add_text(struct yaml *yaml, bool *has_nul)
{
    struct value_reader *values = yaml->values;
    const char *text = (const char *)yaml->event.data.scalar.value;
    size_t length = yaml->event.data.scalar.length;
    *has_nul = memchr(text, '\0', length);
    if (*has_nul && yaml->single)
        return fail(yaml, "a text with a NUL");
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
    if (type < 0 || (type == JSON_STRING && add_text(yaml, &has_nul)))
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
        return fail(yaml, "tag %s is not supported here", tag);
    return reader_open(yaml->values, type, yaml->err);
}

static int take_sequence(struct yaml *yaml, size_t depth)
{
    if (begin_container(yaml, JSON_ARRAY, yaml->event.data.sequence_start.tag, YAML_SEQ_TAG) ||
        next(yaml))
        return -1;
    while (yaml->event.type != YAML_SEQUENCE_END_EVENT)
        if (take_node(yaml, depth + 1) || next(yaml))
            return -1;
    reader_close(yaml->values);
    return 0;
}

static int take_key(struct yaml *yaml)
{
    struct value_reader *values = yaml->values;
    const yaml_event_t *event = &yaml->event;
    size_t begin = values->text.n;
    bool has_nul;
    if (event->type != YAML_SCALAR_EVENT)
        return fail(yaml, "a key must be a simple value");
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        strcmp((const char *)event->data.scalar.value, "<<") == 0)
        return fail(yaml, "merge keys (<<) are not supported");
    if (add_text(yaml, &has_nul))
        return -1;
    vec_push(&yaml->keys, (struct key){begin, NULL, line_of(yaml)});
    values->key = values->text.v + begin;
    values->key_length = json_key_length(values->text.n - begin - 1);
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    const struct key *first = a, *second = b;
    int order = strcmp(first->text, second->text);
    return order ? order : (first->line > second->line) - (first->line < second->line);
}

/* Looks for duplicates among the keys from @first on. Sorts, so that many keys cost little. */
static int check_keys(struct yaml *yaml, size_t first)
{
    struct key *keys = yaml->keys.v;
    if (yaml->keys.n - first < 2 || yaml->lenient)
        return 0;
    for (size_t i = first; i < yaml->keys.n; i++)
        keys[i].text = yaml->values->text.v + keys[i].begin;
    qsort(keys + first, yaml->keys.n - first, sizeof(*keys), compare_keys);
    for (size_t i = first + 1; i < yaml->keys.n; i++)
        if (strcmp(keys[i - 1].text, keys[i].text) == 0)
            return error_set(yaml->err, "line %zu: duplicate key \"%s\", also in line %zu",
                             keys[i].line, keys[i].text, keys[i - 1].line);
    return 0;
}

static int take_mapping(struct yaml *yaml, size_t depth)
{
    size_t first = yaml->keys.n;
    if (begin_container(yaml, JSON_OBJECT, yaml->event.data.mapping_start.tag, YAML_MAP_TAG) ||
        next(yaml))
        return -1;
    while (yaml->event.type != YAML_MAPPING_END_EVENT)
        if (take_key(yaml) || next(yaml) || take_node(yaml, depth + 1) || next(yaml))
            return -1;
    if (check_keys(yaml, first))
        return -1;
    yaml->keys.n = first;
    reader_close(yaml->values);
    return 0;
}

/* ---- nodes and documents ---- */

static int take_bare(struct yaml *yaml, size_t depth)
{
    struct value_reader *values = yaml->values;
    int result;
    if (yaml->event.type == YAML_SCALAR_EVENT)
        result = take_scalar(yaml);
    else if (yaml->event.type == YAML_SEQUENCE_START_EVENT)
        result = take_sequence(yaml, depth);
    else
        result = take_mapping(yaml, depth);
    return result == 0 && reader_is_complete(values) ? reader_deliver(values, yaml->err) : result;
}

/* Of several anchors of one name, the last one before the alias counts. */
static int take_alias(struct yaml *yaml, size_t depth)
{
    const char *name = (const char *)yaml->event.data.alias.anchor;
    const struct anchor *anchor = NULL;
    vec_each (&yaml->anchors, it)
        if (strcmp(it->name, name) == 0 &&
            (!yaml->replay || yaml->events.v + it->end <= yaml->replay))
            anchor = it;
    if (!anchor)
        return fail(yaml, "no anchor %s ended before this alias", name);
    yaml_event_t event = yaml->event;
    const yaml_event_t *replay = yaml->replay;
    yaml->replay = yaml->events.v + anchor->begin;
    yaml->event = *yaml->replay;
    int result = take_node(yaml, depth);
    yaml->event = event;
    yaml->replay = replay;
    return result;
}

static int take_anchored(struct yaml *yaml, size_t depth)
{
    const char *name = (const char *)yaml->event.data.scalar.anchor;
    size_t begin = yaml->events.n - 1;
    yaml->open_anchors++;
    int result = take_bare(yaml, depth);
    yaml->open_anchors--;
    vec_push(&yaml->anchors, (struct anchor){name, begin, yaml->events.n});
    return result;
}

static int take_node(struct yaml *yaml, size_t depth)
{
    struct value_reader *values = yaml->values;
    if (values->values.n == values->item && !yaml->replay)
        values->lines[values->item > 0] = line_of(yaml);
    if (depth > DEPTH_MOST)
        return fail(yaml, "nested too deep");
    if (yaml->event.type == YAML_ALIAS_EVENT)
        return take_alias(yaml, depth);
    return yaml->event.data.scalar.anchor && !yaml->replay ? take_anchored(yaml, depth)
                                                           : take_bare(yaml, depth);
}

static int take_document(struct yaml *yaml)
{
    if (next(yaml))
        return -1;
    if (yaml->documents++ > 0 && yaml->single)
        return fail(yaml, "a second document, where one is expected");
    int result = take_node(yaml, 1);
    vec_each (&yaml->events, event)
        yaml_event_delete(event);
    vec_free(&yaml->events);
    vec_free(&yaml->anchors);
    if (yaml->recorded)
        yaml->event = (yaml_event_t){0};
    yaml->recorded = false;
    yaml->copied = 0;
    return result ? -1 : next(yaml); /* the document end event */
}

/* Reads all documents. */
static int read_stream(struct yaml *yaml)
{
    int result = 0;
    while (result == 0 && yaml->event.type != YAML_STREAM_END_EVENT) {
        result = next(yaml);
        if (result == 0 && yaml->event.type == YAML_DOCUMENT_START_EVENT)
            result = take_document(yaml);
    }
    yaml_event_delete(&yaml->event);
    yaml_parser_delete(&yaml->parser);
    vec_free(&yaml->keys);
    return result;
}

static int read_input(void *data, unsigned char *buffer, size_t size, size_t *n)
{
    struct yaml *yaml = data;
    if (yaml->input(yaml->ctx, (char *)buffer, size, n) == 0)
        return 1;
    if (!yaml->err->text)
        error_set(yaml->err, "the text could not be read");
    return 0;
}

int yaml_read(struct value_reader *reader, yaml_input_fn input, void *ctx, struct error *err)
{
    struct yaml yaml = {.values = reader, .input = input, .ctx = ctx, .err = err};
    if (!yaml_parser_initialize(&yaml.parser))
        alloc_failed();
    yaml_parser_set_input(&yaml.parser, read_input, &yaml);
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
    if (!yaml_parser_initialize(&yaml.parser))
        alloc_failed();
    yaml_parser_set_input_string(&yaml.parser, (const unsigned char *)text, length);
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

/* Whether @text needs no quotes: only letters, digits and a few others, and no YAML reader takes it
 * for anything but a string. */
static bool is_plain(const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off"};
    double number;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(words[i], text) == 0)
            return false;
    bool like_number = strchr("-.", *text) || (isdigit((unsigned char)*text) && strchr(text, '_'));
    return !like_number && !text[strspn(text, safe)] && resolve(text, &number) == JSON_STRING;
}

/* Writes @event; @made: its allocation succeeded. The emitter reports errors. */
static bool emit(yaml_emitter_t *emitter, yaml_event_t *event, int made)
{
    if (!made)
        alloc_failed();
    return yaml_emitter_emit(emitter, event);
}

static bool emit_scalar(yaml_emitter_t *emitter, const char *text, bool plain)
{
    yaml_event_t event;
    int style = plain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    return emit(emitter, &event,
                yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                             (int)strlen(text), 1, 1, style));
}

static bool emit_text(yaml_emitter_t *emitter, const char *text, struct error *err)
{
    if (utf8_is_valid(text))
        return emit_scalar(emitter, text, is_plain(text));
    error_set(err, "\"%s\" is not UTF-8", text);
    return false;
}

static bool emit_tree(yaml_emitter_t *emitter, const cJSON *value, struct error *err)
{
    yaml_event_t event;
    const cJSON *child;
    int made;
    if (cJSON_IsString(value))
        return emit_text(emitter, value->valuestring, err);
    bool is_object = cJSON_IsObject(value);
    if (!is_object && !cJSON_IsArray(value)) {
        char *text = cJSON_PrintUnformatted(value);
        bool written = emit_scalar(emitter, text, true);
        free(text);
        return written;
    }
    if (is_object)
        made = yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE);
    else
        made =
            yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE);
    if (!emit(emitter, &event, made))
        return false;
    cJSON_ArrayForEach (child, value)
        if ((is_object && !emit_text(emitter, child->string, err)) ||
            !emit_tree(emitter, child, err))
            return false;
    return emit(emitter, &event,
                is_object ? yaml_mapping_end_event_initialize(&event)
                          : yaml_sequence_end_event_initialize(&event));
}

int yaml_write(FILE *out, const cJSON *tree, struct error *err)
{
    yaml_emitter_t emitter;
    yaml_event_t event;
    if (!yaml_emitter_initialize(&emitter))
        alloc_failed();
    yaml_emitter_set_output_file(&emitter, out);
    yaml_emitter_set_width(&emitter, -1);
    bool written =
        emit(&emitter, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING)) &&
        emit(&emitter, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)) &&
        emit_tree(&emitter, tree, err) &&
        emit(&emitter, &event, yaml_document_end_event_initialize(&event, 1)) &&
        emit(&emitter, &event, yaml_stream_end_event_initialize(&event));
    if (!written && !err->text)
        error_set(err, "%s", emitter.problem ? emitter.problem : "no memory");
    yaml_emitter_delete(&emitter);
    return written ? 0 : -1;
}
