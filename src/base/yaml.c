/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From libyaml's events to cJSON trees, by recursion over the nodes (at most MAX_DEPTH deep). Each
 * build_ function is entered with the first event of its node in reader.event and left with the
 * last one.
 *
 * What a file can make us hold is bounded: MAX_NODES nodes for a document or item with its aliases
 * resolved, and as many again for the copies of anchored nodes, which live as long as their
 * document.
 */
#include "kube-nftd/base/yaml.h"

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/vec.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <yaml.h>

#define MAX_DEPTH 100
#define MAX_NODES 1000000

struct anchor {
    char *name;
    cJSON *tree; /* a copy */
    size_t nodes;
    size_t height;
    UT_hash_handle hh;
};

/* A key of a mapping that is being read. */
struct key {
    const char *name; /* in the cJSON tree */
    size_t line;
};

struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    struct error *err;
    yaml_input_fn input;
    yaml_value_fn fn; /* NULL: one document is wanted, whole */
    void *ctx;
    cJSON *document; /* that one */
    bool lenient;    /* a mapping may have a key twice */
    struct anchor *anchors;
    VEC(char) text;       /* of the present scalar, if it has a NUL */
    VEC(struct key) keys; /* of all open mappings, the innermost last */
    size_t nodes;         /* of the present document or item */
    size_t anchor_nodes;  /* in the copies of the present document */
};

static cJSON *build_node(struct reader *reader, size_t depth);

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

static int count_nodes(struct reader *reader, size_t n)
{
    reader->nodes += n;
    if (reader->nodes <= MAX_NODES)
        return 0;
    return fail_here(reader, "the value is too large, with its aliases in place");
}

/* ---- scalars ---- */

/* The text of the scalar that is the present event. A NUL, which would end it, becomes two bytes
 * that are not UTF-8: who reads the field sees that it is bad, and a key is none that is looked
 * for. Of a document that is read whole it is an error. NULL on error. */
static const char *scalar_text(struct reader *reader)
{
    const char *text = (const char *)reader->event.data.scalar.value;
    size_t length = reader->event.data.scalar.length;
    if (!memchr(text, '\0', length))
        return text;
    if (!reader->fn) {
        fail_here(reader, "a text with a NUL");
        return NULL;
    }
    vec_clear(&reader->text);
    for (size_t i = 0; i < length; i++) {
        if (!text[i])
            vec_push(&reader->text, '\xc0');
        vec_push(&reader->text, text[i] ? text[i] : '\x80');
    }
    vec_push(&reader->text, '\0');
    return reader->text.v;
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

static cJSON *resolve_plain(const char *text)
{
    double number;
    if (is_one_of(text, null_words))
        return cJSON_CreateNull();
    if (is_one_of(text, true_words))
        return cJSON_CreateTrue();
    if (is_one_of(text, false_words))
        return cJSON_CreateFalse();
    if (resolve_number(text, &number))
        return cJSON_CreateNumber(number);
    return cJSON_CreateString(text);
}

/* What an explicit tag asks for; 0 for one that means nothing here. */
static int tagged_type(const char *tag)
{
    static const struct {
        const char *tag;
        int type;
    } types[] = {
        {YAML_STR_TAG, cJSON_String},   {YAML_INT_TAG, cJSON_Number},
        {YAML_FLOAT_TAG, cJSON_Number}, {YAML_BOOL_TAG, cJSON_True | cJSON_False},
        {YAML_NULL_TAG, cJSON_NULL},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].tag, tag) == 0)
            return types[i].type;
    }
    return 0;
}

static cJSON *build_tagged(struct reader *reader, const char *tag, const char *text)
{
    int type = tagged_type(tag);
    if (type == cJSON_String)
        return cJSON_CreateString(text);
    if (type == 0) {
        fail(reader, &reader->event.start_mark, "tag %s is not supported", tag);
        return NULL;
    }
    cJSON *json = resolve_plain(text);
    if (json->type & type)
        return json;
    cJSON_Delete(json);
    fail(reader, &reader->event.start_mark, "the value does not fit its tag %s", tag);
    return NULL;
}

static cJSON *build_scalar(struct reader *reader)
{
    const char *text = scalar_text(reader);
    const char *tag = (const char *)reader->event.data.scalar.tag;
    if (!text)
        return NULL;
    if (tag && strcmp(tag, "!") != 0)
        return build_tagged(reader, tag, text);
    if (!tag && reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return resolve_plain(text);
    return cJSON_CreateString(text);
}

/* ---- anchors ---- */

static void anchor_free(struct reader *reader, struct anchor *anchor)
{
    HASH_DEL(reader->anchors, anchor);
    free(anchor->name);
    cJSON_Delete(anchor->tree);
    free(anchor);
}

static void forget_anchors(struct reader *reader)
{
    struct anchor *anchor, *after;
    HASH_ITER(hh, reader->anchors, anchor, after)
    anchor_free(reader, anchor);
    reader->anchor_nodes = 0;
}

static size_t tree_height(const cJSON *tree)
{
    size_t height = 0;
    const cJSON *child;
    cJSON_ArrayForEach (child, tree) {
        size_t below = tree_height(child);
        height = below > height ? below : height;
    }
    return height + 1;
}

/* Keeps a copy of @tree, of @nodes nodes, for aliases to @name. Takes @name. */
static int add_anchor(struct reader *reader, char *name, const cJSON *tree, size_t nodes)
{
    struct anchor *anchor;
    reader->anchor_nodes += nodes;
    if (reader->anchor_nodes > MAX_NODES) {
        free(name);
        return fail_here(reader, "the anchors of the document hold too much");
    }
    HASH_FIND_STR(reader->anchors, name, anchor);
    if (anchor) /* later ones win */
        anchor_free(reader, anchor);
    anchor = xcalloc(1, sizeof(*anchor));
    anchor->name = name;
    anchor->tree = cJSON_Duplicate(tree, true);
    anchor->nodes = nodes;
    anchor->height = tree_height(tree);
    HASH_ADD_KEYPTR(hh, reader->anchors, anchor->name, strlen(anchor->name), anchor);
    return 0;
}

static cJSON *build_alias(struct reader *reader, size_t depth)
{
    struct anchor *anchor;
    const char *name = (const char *)reader->event.data.alias.anchor;
    HASH_FIND_STR(reader->anchors, name, anchor);
    if (!anchor) {
        fail(reader, &reader->event.start_mark, "no anchor %s ended before this alias", name);
        return NULL;
    }
    if (depth - 1 + anchor->height > MAX_DEPTH) {
        fail_here(reader, "nested too deep");
        return NULL;
    }
    if (count_nodes(reader, anchor->nodes))
        return NULL;
    return cJSON_Duplicate(anchor->tree, true);
}

/* ---- sequences and mappings ---- */

static int check_collection_tag(struct reader *reader, const yaml_char_t *tag, const char *expected)
{
    if (!tag || strcmp((const char *)tag, "!") == 0 || strcmp((const char *)tag, expected) == 0)
        return 0;
    return fail(reader, &reader->event.start_mark, "tag %s is not supported here", tag);
}

static int add_elements(struct reader *reader, cJSON *array, size_t depth)
{
    if (check_collection_tag(reader, reader->event.data.sequence_start.tag, YAML_SEQ_TAG))
        return -1;
    for (;;) {
        if (next(reader))
            return -1;
        if (reader->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        cJSON *element = build_node(reader, depth + 1);
        if (!element)
            return -1;
        cJSON_AddItemToArray(array, element);
    }
}

static cJSON *build_sequence(struct reader *reader, size_t depth)
{
    cJSON *array = cJSON_CreateArray();
    if (add_elements(reader, array, depth) == 0)
        return array;
    cJSON_Delete(array);
    return NULL;
}

/* The value is over: gives it to the callback. */
static int deliver(struct reader *reader, const cJSON *json, size_t line, const cJSON *envelope)
{
    struct yaml_value value = {json, line, envelope != NULL, envelope};
    if (reader->fn(reader->ctx, &value))
        return 0;
    return reader->err->text ? -1 : error_set(reader->err, "stopped by the reader of the values");
}

static int stream_elements(struct reader *reader, const cJSON *envelope, size_t depth)
{
    if (check_collection_tag(reader, reader->event.data.sequence_start.tag, YAML_SEQ_TAG))
        return -1;
    for (;;) {
        if (next(reader))
            return -1;
        if (reader->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        size_t line = reader->event.start_mark.line + 1;
        reader->nodes = 0;
        cJSON *element = build_node(reader, depth + 1);
        if (!element)
            return -1;
        int result = deliver(reader, element, line, envelope);
        cJSON_Delete(element);
        if (result)
            return -1;
    }
}

/* Gives the elements out one by one; an empty array takes their place. */
static cJSON *stream_items(struct reader *reader, const cJSON *envelope, size_t depth)
{
    size_t nodes = reader->nodes;
    if (stream_elements(reader, envelope, depth))
        return NULL;
    reader->nodes = nodes;
    return cJSON_CreateArray();
}

/* Takes the key that is the present event; the caller frees it. NULL on error. */
static char *take_key(struct reader *reader)
{
    const yaml_event_t *event = &reader->event;
    if (event->type != YAML_SCALAR_EVENT) {
        fail_here(reader, "a key must be a simple value");
        return NULL;
    }
    const char *text = scalar_text(reader);
    if (!text)
        return NULL;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, "<<") == 0) {
        fail_here(reader, "merge keys (<<) are not supported");
        return NULL;
    }
    return xstrdup(text);
}

static cJSON *build_member(struct reader *reader, const cJSON *object, const char *key,
                           size_t depth)
{
    bool streamed = depth == 1 && reader->fn && reader->event.type == YAML_SEQUENCE_START_EVENT &&
                    strcmp(key, "items") == 0;
    if (streamed)
        return stream_items(reader, object, depth + 1);
    return build_node(reader, depth + 1);
}

static int add_member(struct reader *reader, cJSON *object, size_t depth)
{
    size_t line = reader->event.start_mark.line + 1;
    char *key = take_key(reader);
    if (!key)
        return -1;
    cJSON *value = next(reader) ? NULL : build_member(reader, object, key, depth);
    if (value) {
        cJSON_AddItemToObject(object, key, value);
        vec_push(&reader->keys, (struct key){value->string, line});
    }
    free(key);
    return value ? 0 : -1;
}

static int compare_keys(const void *a, const void *b)
{
    const struct key *first = a, *second = b;
    int order = strcmp(first->name, second->name);
    return order ? order : (first->line > second->line) - (first->line < second->line);
}

/* By sorting, so that a mapping of many keys costs little. */
static int check_keys(struct reader *reader, size_t first)
{
    size_t n = reader->keys.n - first;
    if (n < 2 || reader->lenient)
        return 0;
    struct key *keys = reader->keys.v + first;
    qsort(keys, n, sizeof(*keys), compare_keys);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(keys[i - 1].name, keys[i].name) == 0)
            return error_set(reader->err, "line %zu: key \"%s\" is there twice, also in line %zu",
                             keys[i].line, keys[i].name, keys[i - 1].line);
    }
    return 0;
}

static int add_members(struct reader *reader, cJSON *object, size_t depth)
{
    if (check_collection_tag(reader, reader->event.data.mapping_start.tag, YAML_MAP_TAG))
        return -1;
    size_t first = reader->keys.n;
    for (;;) {
        if (next(reader))
            return -1;
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (add_member(reader, object, depth))
            return -1;
    }
    if (check_keys(reader, first))
        return -1;
    reader->keys.n = first;
    return 0;
}

static cJSON *build_mapping(struct reader *reader, size_t depth)
{
    cJSON *object = cJSON_CreateObject();
    if (add_members(reader, object, depth) == 0)
        return object;
    cJSON_Delete(object);
    return NULL;
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

static cJSON *build_bare(struct reader *reader, size_t depth)
{
    switch (reader->event.type) {
    case YAML_SCALAR_EVENT:
        return build_scalar(reader);
    case YAML_SEQUENCE_START_EVENT:
        return build_sequence(reader, depth);
    default:
        return build_mapping(reader, depth);
    }
}

static cJSON *build_node(struct reader *reader, size_t depth)
{
    if (depth > MAX_DEPTH) {
        fail_here(reader, "nested too deep");
        return NULL;
    }
    if (reader->event.type == YAML_ALIAS_EVENT)
        return build_alias(reader, depth);
    size_t before = reader->nodes;
    if (count_nodes(reader, 1))
        return NULL;
    char *anchor = xstrdup(anchor_of(&reader->event));
    cJSON *json = build_bare(reader, depth);
    if (!json) {
        free(anchor);
        return NULL;
    }
    if (anchor && add_anchor(reader, anchor, json, reader->nodes - before)) {
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}

static int read_document(struct reader *reader)
{
    if (next(reader))
        return -1;
    size_t line = reader->event.start_mark.line + 1;
    reader->nodes = 0;
    if (reader->document)
        return fail_here(reader, "a second document, where one is expected");
    cJSON *json = build_node(reader, 1);
    if (!json)
        return -1;
    int result = 0;
    if (reader->fn) {
        result = deliver(reader, json, line, NULL);
        cJSON_Delete(json);
    } else {
        reader->document = json;
    }
    forget_anchors(reader);
    return result ? -1 : next(reader); /* the document's end */
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
    if (!yaml_parser_initialize(&reader->parser))
        alloc_failed();
}

static int reader_run(struct reader *reader)
{
    int result = read_stream(reader);
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    forget_anchors(reader);
    vec_free(&reader->keys);
    vec_free(&reader->text);
    return result;
}

int yaml_read(const char *text, size_t length, yaml_value_fn fn, void *ctx, struct error *err)
{
    struct reader reader = {.fn = fn, .ctx = ctx, .err = err};
    reader_init(&reader);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, length);
    return reader_run(&reader);
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

int yaml_read_from(yaml_input_fn input, yaml_value_fn fn, void *ctx, struct error *err)
{
    struct reader reader = {.input = input, .fn = fn, .ctx = ctx, .err = err};
    reader_init(&reader);
    yaml_parser_set_input(&reader.parser, read_input, &reader);
    return reader_run(&reader);
}

static cJSON *parse_one(const char *text, size_t length, bool lenient, struct error *err)
{
    struct reader reader = {.err = err, .lenient = lenient};
    reader_init(&reader);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, length);
    int result = reader_run(&reader);
    if (result == 0 && !reader.document)
        result = error_set(err, "there is no document");
    if (result) {
        cJSON_Delete(reader.document);
        return NULL;
    }
    return reader.document;
}

cJSON *yaml_parse(const char *text, size_t length, struct error *err)
{
    return parse_one(text, length, false, err);
}

cJSON *yaml_parse_lenient(const char *text, size_t length, struct error *err)
{
    return parse_one(text, length, true, err);
}
