/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Converts libyaml's events to JSON text, recursively over the nodes (at most MAX_DEPTH deep), and
 * writes trees with its emitter. Each write_ function of the reader starts with its node's first
 * event in reader.event and ends with the last one there.
 *
 * Expansion is bounded: anchors and aliases copy at most MAX_COPIED bytes per document.
 */
#include "kube-nftd/values.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#define MAX_DEPTH 100
#define MAX_COPIED ((size_t)16 * 1024 * 1024)

struct anchor {
    struct hash_link link; /* by name */
    char *name;
    char *json; /* the node, on one line */
};

/* A key of an open mapping. */
struct key {
    char *json;
    size_t line;
};

struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    struct error *err;
    yaml_input_fn input;
    yaml_output_fn output; /* NULL: keep the single document in out */
    void *ctx;
    bool lenient;     /* allow duplicate keys */
    VEC(char) out;    /* pending output */
    size_t line;      /* current output line, from 1 */
    size_t documents; /* documents begun */
    struct hash_table anchors;
    size_t open_anchors;  /* anchored nodes in progress: their text stays in out */
    size_t copied;        /* bytes copied in this document */
    VEC(struct key) keys; /* of all open mappings, the innermost last */
};

static int write_node(struct reader *reader, size_t depth);

/* ---- errors and events ---- */

static int fail_at(struct reader *reader, const yaml_mark_t *mark, const char *what)
{
    return error_set(reader->err, "line %zu column %zu: %s", mark->line + 1, mark->column + 1,
                     what);
}

/* Reports an error at the current event. */
__attribute__((format(printf, 2, 3))) static int fail(struct reader *reader, const char *format,
                                                      ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    fail_at(reader, &reader->event.start_mark, text);
    free(text);
    return -1;
}

/* libyaml decodes ahead of its scanner: the bad byte follows the decoded characters that were not
 * scanned yet. */
static int fail_encoding(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    yaml_mark_t mark = parser->mark;
    for (const yaml_char_t *p = parser->buffer.pointer; p < parser->buffer.last; p++) {
        if (*p == '\n') {
            mark.line++;
            mark.column = 0;
        } else if ((*p & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return fail_at(reader, &mark, parser->problem);
}

static int next(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    yaml_event_delete(&reader->event);
    if (yaml_parser_parse(&reader->parser, &reader->event))
        return 0;
    if (parser->error == YAML_MEMORY_ERROR)
        alloc_failed();
    if (parser->error == YAML_READER_ERROR)
        return reader->err->text ? -1 /* set by the input callback */ : fail_encoding(reader);
    char *what = xasprintf("%s%s%s", parser->problem, parser->context ? ", " : "",
                           parser->context ? parser->context : "");
    fail_at(reader, &parser->problem_mark, what);
    free(what);
    return -1;
}

/* ---- the text ---- */

static void put(struct reader *reader, const char *text)
{
    vec_append(&reader->out, text, strlen(text));
}

/* Adds newlines up to the current event's line in the YAML. */
static void reach_line(struct reader *reader)
{
    for (; reader->line < reader->event.start_mark.line + 1; reader->line++)
        put(reader, "\n");
}

/* Passes on the pending output, unless an open anchor needs it. */
static int flush(struct reader *reader)
{
    if (!reader->output || reader->open_anchors > 0)
        return 0;
    int result = reader->output(reader->ctx, reader->out.v, reader->out.n);
    vec_clear(&reader->out);
    return result && !reader->err->text
               ? error_set(reader->err, "stopped by the reader of the values")
               : result;
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

#define NUMBER_SIZE 32

/* Resolves a plain scalar to JSON, with @number as a buffer for numbers; NULL: a string. */
static const char *resolve(const char *text, char number[NUMBER_SIZE])
{
    static const struct {
        const char *text, *json;
    } words[] = {{"", "null"},       {"~", "null"},      {"null", "null"},  {"Null", "null"},
                 {"NULL", "null"},   {"true", "true"},   {"True", "true"},  {"TRUE", "true"},
                 {"false", "false"}, {"False", "false"}, {"FALSE", "false"}};
    double value;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].text, text) == 0)
            return words[i].json;
    if (!read_number(text, &value))
        return NULL;
    snprintf(number, NUMBER_SIZE, "%.15g", value + 0.0); /* 80.0 becomes 80 */
    if (strtod(number, NULL) != value)
        snprintf(number, NUMBER_SIZE, "%.17g", value);
    return number;
}

static void put_string(struct reader *reader, const char *text, size_t length)
{
    put(reader, "\"");
    for (const char *end = text + length; text < end; text++) {
        unsigned char c = (unsigned char)*text;
        char escaped[8];
        if (c >= ' ' && c != '"' && c != '\\') {
            vec_push(&reader->out, *text);
        } else {
            snprintf(escaped, sizeof(escaped), "\\u%04x", c);
            put(reader, escaped);
        }
    }
    put(reader, "\"");
}

/* Rejects NUL for yaml_parse(); else the JSON reader decides. */
static int check_nul(struct reader *reader)
{
    const yaml_event_t *event = &reader->event;
    if (reader->output || !memchr(event->data.scalar.value, '\0', event->data.scalar.length))
        return 0;
    return fail(reader, "a text with a NUL");
}

static int write_scalar(struct reader *reader)
{
    static const struct {
        const char *tag, *begins; /* first characters of its JSON */
    } types[] = {{YAML_INT_TAG, "-0123456789"},
                 {YAML_FLOAT_TAG, "-0123456789"},
                 {YAML_BOOL_TAG, "tf"},
                 {YAML_NULL_TAG, "n"}};
    const yaml_event_t *event = &reader->event;
    const char *text = (const char *)event->data.scalar.value;
    const char *tag = (const char *)event->data.scalar.tag;
    char number[NUMBER_SIZE];
    const char *json = resolve(text, number);
    if (check_nul(reader))
        return -1;
    bool is_text = tag || event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || !json;
    if (tag && strcmp(tag, "!") != 0 && strcmp(tag, YAML_STR_TAG) != 0) {
        size_t i = 0, n = sizeof(types) / sizeof(types[0]);
        while (i < n && strcmp(types[i].tag, tag) != 0)
            i++;
        if (i == n)
            return fail(reader, "tag %s is not supported", tag);
        if (!json || !strchr(types[i].begins, *json))
            return fail(reader, "the value does not fit its tag %s", tag);
        is_text = false;
    }
    if (is_text)
        put_string(reader, text, event->data.scalar.length);
    else
        put(reader, json);
    return 0;
}

/* ---- anchors ---- */

static struct hash_key anchor_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct anchor *)link)->name);
}

static void free_anchor(struct reader *reader, struct anchor *anchor)
{
    hash_table_remove(&reader->anchors, &anchor->link);
    free(anchor->name);
    free(anchor->json);
    free(anchor);
}

static void free_anchors(struct reader *reader)
{
    hash_table_each (&reader->anchors, struct anchor, anchor)
        free_anchor(reader, anchor);
    reader->copied = 0;
}

static struct anchor *find_anchor(const struct reader *reader, const char *name)
{
    return hash_table_find(&reader->anchors, anchor_key, hash_key_of_text(name));
}

static int count_copied(struct reader *reader, size_t length)
{
    reader->copied += length;
    if (reader->copied <= MAX_COPIED)
        return 0;
    return fail(reader, "the anchors and aliases of the document expand to too much");
}

/* Stores the output from @begin for aliases to @name (owned). */
static int add_anchor(struct reader *reader, char *name, size_t begin)
{
    struct anchor *earlier = find_anchor(reader, name), *anchor = xcalloc(1, sizeof(*anchor));
    size_t length = reader->out.n - begin;
    if (earlier)
        free_anchor(reader, earlier);
    anchor->name = name;
    anchor->json = xstrndup(reader->out.v + begin, length);
    for (char *at = anchor->json; (at = strchr(at, '\n'));)
        *at = ' ';
    hash_table_add(&reader->anchors, anchor_key, &anchor->link);
    return count_copied(reader, length);
}

static int write_alias(struct reader *reader)
{
    const char *name = (const char *)reader->event.data.alias.anchor;
    const struct anchor *anchor = find_anchor(reader, name);
    if (!anchor)
        return fail(reader, "no anchor %s ended before this alias", name);
    put(reader, anchor->json);
    return count_copied(reader, strlen(anchor->json));
}

/* ---- sequences and mappings ---- */

static int check_tag(struct reader *reader, const yaml_char_t *tag, const char *expected)
{
    if (!tag || strcmp((const char *)tag, "!") == 0 || strcmp((const char *)tag, expected) == 0)
        return 0;
    return fail(reader, "tag %s is not supported here", tag);
}

/* @each: passes elements on one by one. */
static int write_sequence(struct reader *reader, size_t depth, bool each)
{
    if (check_tag(reader, reader->event.data.sequence_start.tag, YAML_SEQ_TAG))
        return -1;
    put(reader, "[");
    for (const char *before = "";; before = ",") {
        if (next(reader))
            return -1;
        if (reader->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        put(reader, before);
        if (write_node(reader, depth + 1) || (each && flush(reader)))
            return -1;
    }
    put(reader, "]");
    return 0;
}

static int write_member(struct reader *reader, size_t depth)
{
    const yaml_event_t *event = &reader->event;
    if (event->type != YAML_SCALAR_EVENT)
        return fail(reader, "a key must be a simple value");
    const char *text = (const char *)event->data.scalar.value;
    if (check_nul(reader))
        return -1;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, "<<") == 0)
        return fail(reader, "merge keys (<<) are not supported");
    reach_line(reader);
    size_t begin = reader->out.n;
    put_string(reader, text, event->data.scalar.length);
    char *key = xstrndup(reader->out.v + begin, reader->out.n - begin);
    vec_push(&reader->keys, (struct key){key, event->start_mark.line + 1});
    put(reader, ":");
    if (next(reader))
        return -1;
    if (depth > 1 || !reader->output || event->type != YAML_SEQUENCE_START_EVENT ||
        event->data.sequence_start.anchor || strcmp(key, "\"items\"") != 0)
        return write_node(reader, depth + 1);
    reach_line(reader);
    return write_sequence(reader, depth + 1, true);
}

static int compare_keys(const void *a, const void *b)
{
    const struct key *first = a, *second = b;
    int order = strcmp(first->json, second->json);
    return order ? order : (first->line > second->line) - (first->line < second->line);
}

/* Sorts, so that many keys cost little. */
static int check_keys(struct reader *reader, size_t first)
{
    const struct key *keys = reader->keys.v;
    if (reader->keys.n - first < 2 || reader->lenient)
        return 0;
    qsort(reader->keys.v + first, reader->keys.n - first, sizeof(*keys), compare_keys);
    for (size_t i = first + 1; i < reader->keys.n; i++)
        if (strcmp(keys[i - 1].json, keys[i].json) == 0)
            return error_set(reader->err, "line %zu: duplicate key %s, also in line %zu",
                             keys[i].line, keys[i].json, keys[i - 1].line);
    return 0;
}

static void free_keys(struct reader *reader, size_t first)
{
    while (reader->keys.n > first)
        free(reader->keys.v[--reader->keys.n].json);
}

static int write_mapping(struct reader *reader, size_t depth)
{
    size_t first = reader->keys.n;
    if (check_tag(reader, reader->event.data.mapping_start.tag, YAML_MAP_TAG))
        return -1;
    put(reader, "{");
    for (const char *before = "";; before = ",") {
        if (next(reader))
            return -1;
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            break;
        put(reader, before);
        if (write_member(reader, depth))
            return -1;
    }
    put(reader, "}");
    if (check_keys(reader, first))
        return -1;
    free_keys(reader, first);
    return 0;
}

/* ---- nodes and documents ---- */

static int write_bare(struct reader *reader, size_t depth)
{
    switch (reader->event.type) {
    case YAML_SCALAR_EVENT:
        return write_scalar(reader);
    case YAML_SEQUENCE_START_EVENT:
        return write_sequence(reader, depth, false);
    default:
        return write_mapping(reader, depth);
    }
}

static int write_node(struct reader *reader, size_t depth)
{
    reach_line(reader);
    if (depth > MAX_DEPTH)
        return fail(reader, "nested too deep");
    if (reader->event.type == YAML_ALIAS_EVENT)
        return write_alias(reader);
    /* the anchor is the first member of each event type */
    char *anchor = xstrdup((const char *)reader->event.data.scalar.anchor);
    size_t begin = reader->out.n;
    reader->open_anchors += anchor != NULL;
    int result = write_bare(reader, depth);
    reader->open_anchors -= anchor != NULL;
    if (result == 0 && anchor)
        return add_anchor(reader, anchor, begin);
    free(anchor);
    return result;
}

static int read_document(struct reader *reader)
{
    if (next(reader))
        return -1;
    if (reader->documents++ > 0 && !reader->output)
        return fail(reader, "a second document, where one is expected");
    if (write_node(reader, 1))
        return -1;
    put(reader, " "); /* ends a number */
    free_anchors(reader);
    return flush(reader) ? -1 : next(reader); /* the document end event */
}

/* Reads all documents and frees everything but the output. */
static int read_stream(struct reader *reader)
{
    int result = 0;
    reader->line = 1;
    while (result == 0 && reader->event.type != YAML_STREAM_END_EVENT) {
        result = next(reader);
        if (result == 0 && reader->event.type == YAML_DOCUMENT_START_EVENT)
            result = read_document(reader);
    }
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    free_anchors(reader);
    free_keys(reader, 0);
    vec_free(&reader->keys);
    return result;
}

static int read_input(void *data, unsigned char *buffer, size_t size, size_t *n)
{
    struct reader *reader = data;
    if (reader->input(reader->ctx, (char *)buffer, size, n) == 0)
        return 1;
    if (!reader->err->text)
        error_set(reader->err, "the text could not be read");
    return 0;
}

int yaml_to_json(yaml_input_fn input, yaml_output_fn output, void *ctx, struct error *err)
{
    struct reader reader = {.input = input, .output = output, .ctx = ctx, .err = err};
    if (!yaml_parser_initialize(&reader.parser))
        alloc_failed();
    yaml_parser_set_input(&reader.parser, read_input, &reader);
    int result = read_stream(&reader);
    vec_free(&reader.out);
    return result;
}

cJSON *yaml_parse(const char *text, size_t length, bool lenient, struct error *err)
{
    struct reader reader = {.err = err, .lenient = lenient};
    if (!yaml_parser_initialize(&reader.parser))
        alloc_failed();
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, length);
    int result = read_stream(&reader);
    if (result == 0 && reader.documents == 0)
        result = error_set(err, "no document");
    cJSON *json = result ? NULL : cJSON_ParseWithLength(reader.out.v, reader.out.n);
    if (result == 0 && !json)
        error_set(err, "nested too deep");
    vec_free(&reader.out);
    return json;
}

/* ---- trees as YAML ---- */

/* Whether @text needs no quotes: only letters, digits and a few others, and no YAML reader takes it
 * for anything but a string. */
static bool is_plain(const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off"};
    char number[NUMBER_SIZE];
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(words[i], text) == 0)
            return false;
    bool like_number = strchr("-.", *text) || (isdigit((unsigned char)*text) && strchr(text, '_'));
    return !like_number && !text[strspn(text, safe)] && !resolve(text, number);
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
