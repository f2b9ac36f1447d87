/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From libyaml's events to JSON text, by recursion over the nodes (at most MAX_DEPTH deep). Each
 * write_ function is entered with the first event of its node in reader.event and left with the
 * last one.
 *
 * A file cannot make us hold much more than it says itself: of a document, MAX_COPIED bytes are
 * copied for its anchors and aliases.
 */
#include "kube-nftd/values.h"

#include "kube-nftd/base.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define MAX_DEPTH 100
#define MAX_COPIED ((size_t)16 * 1024 * 1024)

struct anchor {
    struct hash_link link; /* by name */
    char *name;
    char *json; /* of its node, in one line */
    size_t length;
};

/* A key of a mapping that is being read. */
struct key {
    size_t at, length; /* in names; it may have a NUL */
    size_t line;
};

struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    struct error *err;
    yaml_input_fn input;
    yaml_output_fn output; /* NULL: one document is wanted, whole, in out */
    void *ctx;
    bool lenient;     /* a mapping may have a key twice */
    VEC(char) out;    /* what was not given out yet */
    size_t line;      /* of the end of the text, from 1 */
    size_t documents; /* that were begun */
    struct hash_table anchors;
    size_t open_anchors;  /* whose nodes are not over: their text stays in out */
    VEC(struct key) keys; /* of all open mappings, the innermost last */
    VEC(char) names;
    size_t copied; /* bytes, in the present document */
};

static int write_node(struct reader *reader, size_t depth);

/* ---- errors and events ---- */

__attribute__((format(printf, 3, 4))) static int
fail(struct reader *reader, const yaml_mark_t *mark, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    error_set(reader->err, "line %zu column %zu: %s", mark->line + 1, mark->column + 1, text);
    free(text);
    return -1;
}

static int fail_here(struct reader *reader, const char *what)
{
    return fail(reader, &reader->event.start_mark, "%s", what);
}

/* libyaml's decoder runs ahead of its scanner: the bad byte follows the decoded characters that
 * the scanner has not seen. */
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
    return fail(reader, &mark, "%s", parser->problem);
}

static int fail_syntax(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    switch (parser->error) {
    case YAML_MEMORY_ERROR:
        alloc_failed();
    case YAML_READER_ERROR:
        if (reader->err->text) /* of the input callback */
            return -1;
        return fail_encoding(reader);
    default:
        if (!parser->context)
            return fail(reader, &parser->problem_mark, "%s", parser->problem);
        return fail(reader, &parser->problem_mark, "%s, %s", parser->problem, parser->context);
    }
}

static int next(struct reader *reader)
{
    yaml_event_delete(&reader->event);
    return yaml_parser_parse(&reader->parser, &reader->event) ? 0 : fail_syntax(reader);
}

/* ---- the text ---- */

static void put(struct reader *reader, const char *text, size_t length)
{
    vec_reserve(&reader->out, length);
    memcpy(reader->out.v + reader->out.n, text, length);
    reader->out.n += length;
}

static int put_word(struct reader *reader, const char *word)
{
    put(reader, word, strlen(word));
    return 0;
}

/* What the present event begins stands in the line of the YAML that it comes from. */
static void reach_line(struct reader *reader)
{
    for (; reader->line < reader->event.start_mark.line + 1; reader->line++)
        put(reader, "\n", 1);
}

/* Gives out what is there, if nobody needs it any more. */
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

static int put_string(struct reader *reader, const char *text, size_t length)
{
    size_t done = 0;
    put(reader, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        char escaped[8];
        if (c >= ' ' && c != '"' && c != '\\')
            continue;
        put(reader, text + done, i - done);
        put(reader, escaped, (size_t)snprintf(escaped, sizeof(escaped), "\\u%04x", c));
        done = i + 1;
    }
    put(reader, text + done, length - done);
    put(reader, "\"", 1);
    return 0;
}

/* As 80.0 becomes 80 where Kubernetes' tools turn YAML into JSON. */
static int put_number(struct reader *reader, double number)
{
    char text[32];
    if (number == trunc(number) && fabs(number) < 1e21)
        snprintf(text, sizeof(text), "%.0f", number + 0.0);
    else if (snprintf(text, sizeof(text), "%.15g", number), strtod(text, NULL) != number)
        snprintf(text, sizeof(text), "%.17g", number);
    return put_word(reader, text);
}

/* The value of @text if it is nothing but digits of @base, else -1. */
static double digits(const char *text, int base)
{
    double value = 0;
    if (!*text)
        return -1;
    for (; *text; text++) {
        int digit = *text >= '0' && *text <= '9'   ? *text - '0'
                    : *text >= 'a' && *text <= 'f' ? *text - 'a' + 10
                    : *text >= 'A' && *text <= 'F' ? *text - 'A' + 10
                                                   : 16;
        if (digit >= base)
            return -1;
        value = value * base + digit;
    }
    return value;
}

/* [0-9]+ or [0-9]*.[0-9]* with a digit, then perhaps an exponent: what strtod() may see. */
static bool is_decimal(const char *text)
{
    const char *decimals = "0123456789";
    size_t whole = strspn(text, decimals);
    size_t part = 0;
    text += whole;
    if (*text == '.') {
        part = strspn(text + 1, decimals);
        text += part + 1;
    }
    if (whole + part == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        size_t exponent = strspn(text, decimals);
        return exponent > 0 && text[exponent] == '\0';
    }
    return *text == '\0';
}

/* Whether @text is a number, as Kubernetes' own tools read it: so 010 is octal, like 0o10. What
 * JSON cannot say (infinite, not a number) is none. */
static bool resolve_number(const char *text, double *value)
{
    bool negative = *text == '-';
    text += *text == '-' || *text == '+';
    double number = -1;
    if (text[0] == '0' && text[1] == 'x')
        number = digits(text + 2, 16);
    else if (text[0] == '0' && text[1] == 'o')
        number = digits(text + 2, 8);
    else if (text[0] == '0' && text[1])
        number = digits(text + 1, 8);
    if (number < 0 && is_decimal(text))
        number = strtod(text, NULL);
    if (number < 0 || !isfinite(number))
        return false;
    *value = negative ? -number : number;
    return true;
}

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words && strcmp(*words, text) != 0)
        words++;
    return *words != NULL;
}

static const char *const null_words[] = {"", "~", "null", "Null", "NULL", NULL};
static const char *const true_words[] = {"true", "True", "TRUE", NULL};
static const char *const false_words[] = {"false", "False", "FALSE", NULL};

enum plain { PLAIN_TEXT, PLAIN_NULL, PLAIN_BOOL, PLAIN_NUMBER };

/* Writes what @text means where it is not quoted. A text is written only if @text_too. */
static enum plain put_plain(struct reader *reader, const char *text, bool text_too)
{
    double number;
    bool is_true = is_one_of(text, true_words);
    if (is_one_of(text, null_words)) {
        put_word(reader, "null");
        return PLAIN_NULL;
    }
    if (is_true || is_one_of(text, false_words)) {
        put_word(reader, is_true ? "true" : "false");
        return PLAIN_BOOL;
    }
    if (resolve_number(text, &number)) {
        put_number(reader, number);
        return PLAIN_NUMBER;
    }
    if (text_too)
        put_string(reader, text, strlen(text));
    return PLAIN_TEXT;
}

static int put_tagged(struct reader *reader, const char *tag, const char *text, size_t length)
{
    static const struct {
        const char *tag;
        enum plain type;
    } types[] = {{YAML_INT_TAG, PLAIN_NUMBER},
                 {YAML_FLOAT_TAG, PLAIN_NUMBER},
                 {YAML_BOOL_TAG, PLAIN_BOOL},
                 {YAML_NULL_TAG, PLAIN_NULL}};
    if (strcmp(tag, YAML_STR_TAG) == 0)
        return put_string(reader, text, length);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].tag, tag) == 0)
            return put_plain(reader, text, false) == types[i].type
                       ? 0
                       : fail(reader, &reader->event.start_mark,
                              "the value does not fit its tag %s", tag);
    }
    return fail(reader, &reader->event.start_mark, "tag %s is not supported", tag);
}

/* A NUL is for whoever reads the JSON to judge; a document that is read whole must have none. */
static int check_nul(struct reader *reader)
{
    const yaml_event_t *event = &reader->event;
    if (reader->output || !memchr(event->data.scalar.value, '\0', event->data.scalar.length))
        return 0;
    return fail_here(reader, "a text with a NUL");
}

static int write_scalar(struct reader *reader)
{
    const char *text = (const char *)reader->event.data.scalar.value;
    const char *tag = (const char *)reader->event.data.scalar.tag;
    size_t length = reader->event.data.scalar.length;
    if (check_nul(reader))
        return -1;
    if (tag && strcmp(tag, "!") != 0)
        return put_tagged(reader, tag, text, length);
    if (tag || reader->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return put_string(reader, text, length);
    put_plain(reader, text, true);
    return 0;
}

/* ---- anchors ---- */

static struct hash_key anchor_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct anchor *)link)->name);
}

static struct anchor *find_anchor(const struct reader *reader, const char *name)
{
    return hash_table_find(&reader->anchors, anchor_key, hash_key_of_text(name));
}

static void anchor_free(struct reader *reader, struct anchor *anchor)
{
    hash_table_remove(&reader->anchors, &anchor->link);
    free(anchor->name);
    free(anchor->json);
    free(anchor);
}

static void forget_anchors(struct reader *reader)
{
    hash_table_each (&reader->anchors, struct anchor, anchor)
        anchor_free(reader, anchor);
    reader->copied = 0;
}

static int count_copied(struct reader *reader, size_t length)
{
    reader->copied += length;
    if (reader->copied <= MAX_COPIED)
        return 0;
    return fail_here(reader, "the anchors and aliases of the document expand to too much");
}

/* Keeps the text from @begin on for aliases to @name, which is taken. */
static int add_anchor(struct reader *reader, char *name, size_t begin)
{
    struct anchor *anchor = find_anchor(reader, name);
    if (anchor) /* later ones win */
        anchor_free(reader, anchor);
    anchor = xcalloc(1, sizeof(*anchor));
    anchor->name = name;
    anchor->length = reader->out.n - begin;
    anchor->json = xstrndup(reader->out.v + begin, anchor->length);
    for (char *at = anchor->json; (at = strchr(at, '\n'));)
        *at = ' ';
    hash_table_add(&reader->anchors, anchor_key, &anchor->link);
    return count_copied(reader, anchor->length);
}

static int write_alias(struct reader *reader)
{
    const char *name = (const char *)reader->event.data.alias.anchor;
    const struct anchor *anchor = find_anchor(reader, name);
    if (!anchor)
        return fail(reader, &reader->event.start_mark, "no anchor %s ended before this alias",
                    name);
    put(reader, anchor->json, anchor->length);
    return count_copied(reader, anchor->length);
}

/* ---- sequences and mappings ---- */

static int check_collection_tag(struct reader *reader, const yaml_char_t *tag, const char *expected)
{
    if (!tag || strcmp((const char *)tag, "!") == 0 || strcmp((const char *)tag, expected) == 0)
        return 0;
    return fail(reader, &reader->event.start_mark, "tag %s is not supported here", tag);
}

/* With @each, elements are given out one by one. */
static int write_sequence(struct reader *reader, size_t depth, bool each)
{
    if (check_collection_tag(reader, reader->event.data.sequence_start.tag, YAML_SEQ_TAG))
        return -1;
    put(reader, "[", 1);
    for (const char *before = "";; before = ",") {
        if (next(reader))
            return -1;
        if (reader->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        put_word(reader, before);
        if (write_node(reader, depth + 1) || (each && flush(reader)))
            return -1;
    }
    put(reader, "]", 1);
    return 0;
}

/* Writes the key that is the present event. */
static int write_key(struct reader *reader)
{
    const yaml_event_t *event = &reader->event;
    if (event->type != YAML_SCALAR_EVENT)
        return fail_here(reader, "a key must be a simple value");
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (check_nul(reader))
        return -1;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, "<<") == 0)
        return fail_here(reader, "merge keys (<<) are not supported");
    reach_line(reader);
    put_string(reader, text, length);
    put(reader, ":", 1);
    vec_push(&reader->keys, (struct key){reader->names.n, length, event->start_mark.line + 1});
    vec_reserve(&reader->names, length + 1); /* an empty name has a place, too */
    memcpy(reader->names.v + reader->names.n, text, length);
    reader->names.n += length;
    return 0;
}

/* Whether the present event begins what is to be given out one by one. */
static bool begins_items(const struct reader *reader, size_t depth)
{
    static const char items[] = "items";
    const struct key *key = &reader->keys.v[reader->keys.n - 1];
    return depth == 1 && reader->output && reader->event.type == YAML_SEQUENCE_START_EVENT &&
           !reader->event.data.sequence_start.anchor && key->length == strlen(items) &&
           memcmp(reader->names.v + key->at, items, key->length) == 0;
}

static int write_member(struct reader *reader, size_t depth)
{
    if (write_key(reader) || next(reader))
        return -1;
    if (!begins_items(reader, depth))
        return write_node(reader, depth + 1);
    reach_line(reader);
    return write_sequence(reader, depth + 1, true);
}

static int compare_names(const struct key *first, const struct key *second, const char *names)
{
    return first->length != second->length
               ? (first->length > second->length ? 1 : -1)
               : memcmp(names + first->at, names + second->at, first->length);
}

static int compare_keys(const void *a, const void *b, void *names)
{
    const struct key *first = a, *second = b;
    int order = compare_names(first, second, names);
    return order ? order : (first->line > second->line) - (first->line < second->line);
}

/* By sorting, so that a mapping of many keys costs little. */
static int check_keys(struct reader *reader, size_t first)
{
    size_t n = reader->keys.n - first;
    const char *names = reader->names.v;
    if (n < 2 || reader->lenient)
        return 0;
    struct key *keys = reader->keys.v + first;
    qsort_r(keys, n, sizeof(*keys), compare_keys, reader->names.v);
    for (size_t i = 1; i < n; i++) {
        if (compare_names(&keys[i - 1], &keys[i], names) == 0)
            return error_set(reader->err, "line %zu: duplicate key \"%.*s\", also in line %zu",
                             keys[i].line, (int)keys[i].length, names + keys[i].at,
                             keys[i - 1].line);
    }
    return 0;
}

static int write_mapping(struct reader *reader, size_t depth)
{
    size_t first = reader->keys.n, names = reader->names.n;
    if (check_collection_tag(reader, reader->event.data.mapping_start.tag, YAML_MAP_TAG))
        return -1;
    put(reader, "{", 1);
    for (const char *before = "";; before = ",") {
        if (next(reader))
            return -1;
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            break;
        put_word(reader, before);
        if (write_member(reader, depth))
            return -1;
    }
    if (check_keys(reader, first))
        return -1;
    reader->keys.n = first;
    reader->names.n = names;
    put(reader, "}", 1);
    return 0;
}

/* ---- nodes and documents ---- */

static const char *anchor_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return (const char *)event->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT:
        return (const char *)event->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT:
        return (const char *)event->data.mapping_start.anchor;
    default:
        return NULL;
    }
}

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
        return fail_here(reader, "nested too deep");
    if (reader->event.type == YAML_ALIAS_EVENT)
        return write_alias(reader);
    char *anchor = xstrdup(anchor_of(&reader->event));
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
        return fail_here(reader, "a second document, where one is expected");
    if (write_node(reader, 1))
        return -1;
    put(reader, " ", 1); /* the end of a number */
    forget_anchors(reader);
    return flush(reader) ? -1 : next(reader); /* the document's end */
}

static int read_stream(struct reader *reader)
{
    do {
        if (next(reader))
            return -1;
        if (reader->event.type == YAML_DOCUMENT_START_EVENT && read_document(reader))
            return -1;
    } while (reader->event.type != YAML_STREAM_END_EVENT);
    return 0;
}

static void reader_init(struct reader *reader)
{
    reader->line = 1;
    if (!yaml_parser_initialize(&reader->parser))
        alloc_failed();
}

/* All but the text is over then. */
static int reader_run(struct reader *reader)
{
    int result = read_stream(reader);
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    forget_anchors(reader);
    vec_free(&reader->keys);
    vec_free(&reader->names);
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
    reader_init(&reader);
    yaml_parser_set_input(&reader.parser, read_input, &reader);
    int result = reader_run(&reader);
    vec_free(&reader.out);
    return result;
}

static cJSON *parse_one(const char *text, size_t length, bool lenient, struct error *err)
{
    struct reader reader = {.err = err, .lenient = lenient};
    reader_init(&reader);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, length);
    int result = reader_run(&reader);
    if (result == 0 && reader.documents == 0)
        result = error_set(err, "no document");
    cJSON *json = result ? NULL : cJSON_ParseWithLength(reader.out.v, reader.out.n);
    if (result == 0 && !json)
        error_set(err, "nested too deep");
    vec_free(&reader.out);
    return json;
}

cJSON *yaml_parse(const char *text, size_t length, struct error *err)
{
    return parse_one(text, length, false, err);
}

cJSON *yaml_parse_lenient(const char *text, size_t length, struct error *err)
{
    return parse_one(text, length, true, err);
}
