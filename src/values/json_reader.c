/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two passes over the bytes. The first tracks brackets and quotes and gathers the text of a value
 * until it is complete or clearly invalid. The second parses it recursively (RFC 8259) and reports
 * errors. Strings are unescaped and NUL-terminated in place, so values need no allocation.
 *
 * Items of a list are gathered apart from the enclosing object, which has an empty array in their
 * place: memory is bounded by that object and one item. In the value array, an item follows the
 * values of the object and is removed after the callback.
 */
#include "kube-nftd/values.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <stdlib.h>

/* API objects nest about 10 levels deep (schemas, managedFields). */
#define MAX_DEPTH 128

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
/* Larger buffers are not kept for the next value. */
#define BYTES_KEPT ((size_t)128 * 1024)
#else /* small enough for a fuzzer to exceed */
#define BYTES_KEPT ((size_t)64)
#endif

/* The token that the next byte belongs to. */
enum token { TOKEN_NONE, TOKEN_STRING, TOKEN_ESCAPE, TOKEN_SCALAR };

/* A value whose text is being gathered. */
struct unit {
    VEC(char) text;
    size_t depth;  /* open brackets */
    size_t commas; /* lower bound of the number of values */
    size_t line;   /* first line, from 1 */
    /* For error messages: byte @mark of the text (its first, or the first after its items) is at
     * @column of its line in the stream. @first_line plus the newlines of the text before a byte is
     * the line of that byte. */
    size_t mark, column, first_line;
};

struct json_reader {
    size_t limit;
    size_t value_limit;
    json_value_fn fn;
    void *ctx;
    bool failed;

    struct unit top, item;
    struct unit *open; /* the one being gathered; NULL: between values */
    enum token token;
    size_t key; /* offset of the last string directly in the top object */
    bool in_items;
    enum { ITEM_FIRST, ITEM_NEXT, ITEM_OVER } state; /* an item may, must, or cannot begin */

    VEC(char) list; /* the top's text before its items, closed as an object */
    VEC(struct json_value) values;
    size_t base; /* first value of the current unit */

    size_t gone;             /* stream offset of the current piece */
    size_t line, line_begin; /* of the next byte: its line, from 1, and that line's offset */
};

struct json_reader *json_reader_new(size_t limit, json_value_fn fn, void *ctx)
{
    struct json_reader *reader = xcalloc(1, sizeof(*reader));
    reader->limit = limit < UINT32_MAX ? limit : UINT32_MAX;
    reader->value_limit = JSON_READER_VALUES;
    reader->fn = fn;
    reader->ctx = ctx;
    reader->line = 1;
    return reader;
}

static void free_texts(struct json_reader *reader)
{
    vec_free(&reader->top.text);
    vec_free(&reader->item.text);
    vec_free(&reader->list);
    vec_free(&reader->values);
}

void json_reader_free(struct json_reader *reader)
{
    if (!reader)
        return;
    free_texts(reader);
    free(reader);
}

void json_reader_limit_values(struct json_reader *reader, size_t limit)
{
    reader->value_limit = limit < UINT32_MAX ? limit : UINT32_MAX;
}

size_t json_reader_line(const struct json_reader *reader)
{
    return reader->in_items ? reader->item.line : reader->top.line;
}

const struct json_value *json_reader_envelope(const struct json_reader *reader)
{
    return reader->in_items ? reader->values.v : NULL;
}

/* ---- tokens of a complete text ---- */

struct parser {
    struct json_reader *reader;
    char *begin, *p; /* the text, NUL-terminated, and its next byte */
    const char *end;
    size_t lines; /* newlines before @p */
    const char *line_begin;
    const char *fault; /* the error at @p; NULL with -1: too many values */
};

static int wrong(struct parser *in, char *at, const char *what)
{
    in->p = at;
    in->fault = at == in->end ? "the text ends inside a value" : what;
    return -1;
}

static void skip_blanks(struct parser *in)
{
    for (; *in->p == ' ' || *in->p == '\n' || *in->p == '\t' || *in->p == '\r'; in->p++)
        if (*in->p == '\n') {
            in->lines++;
            in->line_begin = in->p + 1;
        }
}

/* Parses four hexadecimal digits; -1 if invalid. */
static int hex4(const char *p)
{
    char digits[5] = "";
    strncpy(digits, p, 4);
    return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (int)strtoul(digits, NULL, 16) : -1;
}

/* U+0000 becomes two bytes that are not UTF-8, since a NUL would end the text. */
static char *put_utf8(char *out, int c)
{
    static const int first[] = {0, 0xc0, 0xe0, 0xf0};
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    if (c > 0 && c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    *out++ = (char)(first[more] | c >> 6 * more);
    while (more-- > 0)
        *out++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    return out;
}

/* Unescapes @text in place. Half a surrogate pair becomes bytes that are not UTF-8. False for an
 * unknown escape. */
static bool unescape(char *text)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char *out = text;
    for (const char *in = text; *in;) {
        if (*in != '\\') {
            *out++ = *in++;
            continue;
        }
        const char *name = in[1] ? strchr(names, in[1]) : NULL;
        if (name) {
            *out++ = meanings[name - names];
            in += 2;
            continue;
        }
        int c = in[1] == 'u' ? hex4(in + 2) : -1;
        if (c < 0)
            return false;
        in += 6;
        bool is_high = c >= 0xd800 && c <= 0xdbff;
        int low = is_high && in[0] == '\\' && in[1] == 'u' ? hex4(in + 2) : -1;
        if (low >= 0xdc00 && low <= 0xdfff) {
            c = 0x10000 + (c - 0xd800) * 0x400 + low - 0xdc00;
            in += 6;
        }
        out = put_utf8(out, c);
    }
    *out = '\0';
    return true;
}

/* Parses a string and NUL-terminates it in place. */
static int take_string(struct parser *in, struct json_value *value, size_t *length)
{
    /* bytes to stop at; non-ASCII is checked afterwards */
    static const bool special[256] = {
        [0 ... 31] = true, ['"'] = true, ['\\'] = true, [128 ... 255] = true};
    char *text = in->p + 1, *p = text;
    bool escaped = false, ascii = true;
    for (;; p++) {
        while (!special[(unsigned char)*p])
            p++;
        if (*p == '"')
            break;
        if ((unsigned char)*p < ' ')
            return wrong(in, p, "a control character in a string");
        if (*p == '\\') {
            escaped = true;
            p += (unsigned char)p[1] >= ' ';
        } else {
            ascii = false;
        }
    }
    *p = '\0';
    if (escaped && !unescape(text))
        return wrong(in, in->p, "a string with an unknown escape");
    bool good = (ascii && !escaped) || utf8_is_valid(text);
    value->type = good ? JSON_STRING : JSON_BAD_STRING;
    value->string = text;
    *length = escaped ? strlen(text) : (size_t)(p - text);
    in->p = p + 1;
    return 0;
}

/* Characters of numbers and words. */
static bool is_scalar_part(char c)
{
    static const bool parts[256] = {
        ['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true,
        ['+'] = true,         ['-'] = true,         ['.'] = true,
    };
    return parts[(unsigned char)c];
}

/* Stricter than strtod(): no leading zeros, digits on both sides of the point, decimal only. */
static bool read_number(const char *text, const char *end, struct json_value *value)
{
    const char *digits = text + (*text == '-'), *behind = digits + strspn(digits, "0123456789");
    char *stop;
    if (behind == digits || (*digits == '0' && behind > digits + 1) ||
        (behind < end && !strchr(".eE", *behind)) ||
        (*behind == '.' && !isdigit((unsigned char)behind[1])))
        return false;
    value->type = JSON_NUMBER;
    value->integer = behind == end;
    value->number = strtod(text, &stop);
    return stop == end;
}

static int take_scalar(struct parser *in, struct json_value *value)
{
    static const struct {
        const char *text;
        enum json_type type;
    } words[] = {{"true", JSON_TRUE}, {"false", JSON_FALSE}, {"null", JSON_NULL}};
    char *text = in->p, *end = text;
    while (is_scalar_part(*end))
        end++;
    if (end == text)
        return wrong(in, text, "a value should begin here");
    in->p = end;
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strlen(words[i].text) == (size_t)(end - text) &&
            memcmp(text, words[i].text, (size_t)(end - text)) == 0) {
            value->type = (uint8_t)words[i].type;
            return 0;
        }
    return read_number(text, end, value) ? 0 : wrong(in, text, "not a JSON value");
}

/* ---- values ---- */

static int take_container(struct parser *in, size_t index, size_t depth);

static int take_value(struct parser *in, const char *key, size_t key_length, size_t depth)
{
    struct json_reader *reader = in->reader;
    size_t index = reader->values.n, length;
    if (index - reader->base == reader->value_limit)
        return -1;
    vec_push(&reader->values,
             (struct json_value){.key = key, .size = 1, .key_length = json_key_length(key_length)});
    if (*in->p == '{' || *in->p == '[')
        return take_container(in, index, depth + 1);
    struct json_value *value = &reader->values.v[index];
    return *in->p == '"' ? take_string(in, value, &length) : take_scalar(in, value);
}

/* Parses a key and its colon. A key that is not UTF-8 matches no lookup. */
static int take_key(struct parser *in, struct json_value *key, size_t *length)
{
    if (*in->p != '"')
        return wrong(in, in->p, "a key should begin here");
    if (take_string(in, key, length))
        return -1;
    skip_blanks(in);
    if (*in->p != ':')
        return wrong(in, in->p, "no colon after a key");
    in->p++;
    skip_blanks(in);
    return 0;
}

static int take_container(struct parser *in, size_t index, size_t depth)
{
    struct json_reader *reader = in->reader;
    bool is_object = *in->p == '{';
    char closing = is_object ? '}' : ']';
    struct json_value key = {.string = NULL};
    size_t length = 0;
    if (depth > MAX_DEPTH)
        return wrong(in, in->p, "nested too deep");
    reader->values.v[index].type = is_object ? JSON_OBJECT : JSON_ARRAY;
    in->p++;
    skip_blanks(in);
    for (bool first = true; !first || *in->p != closing; first = false) {
        if ((is_object && take_key(in, &key, &length)) || take_value(in, key.string, length, depth))
            return -1;
        skip_blanks(in);
        if (*in->p == closing)
            break;
        if (*in->p == '}' || *in->p == ']')
            return wrong(in, in->p, "a bracket is closed by one of another kind");
        if (*in->p != ',')
            return wrong(in, in->p, "no comma or end");
        in->p++;
        skip_blanks(in);
    }
    in->p++;
    reader->values.v[index].size = (uint32_t)(reader->values.n - index);
    return 0;
}

static int fail(struct json_reader *reader, size_t line, size_t column, const char *what,
                struct error *err)
{
    reader->failed = true;
    return error_set(err, "line %zu column %zu: %s", line, column, what);
}

static int too_big(struct json_reader *reader, const struct unit *unit, const char *than,
                   size_t limit, const char *what, struct error *err)
{
    reader->failed = true;
    return error_set(err, "line %zu: a value %s than %zu %s", unit->line, than, limit, what);
}

/* Parses the first @length bytes of @text, which belongs to @unit. */
static int parse(struct json_reader *reader, const struct unit *unit, char *text, size_t length,
                 struct error *err)
{
    struct parser in = {.reader = reader, .p = text, .end = text + length, .line_begin = text};
    reader->values.n = reader->base;
    text[length] = '\0';
    if (take_value(&in, NULL, 0, 0) == 0)
        return 0;
    if (!in.fault)
        return too_big(reader, unit, "holds more", reader->value_limit, "JSON values", err);
    const char *mark = text + unit->mark;
    size_t column = in.lines > 0 && in.line_begin >= mark ? (size_t)(in.p - in.line_begin) + 1
                                                          : (size_t)(in.p - mark) + unit->column;
    return fail(reader, unit->first_line + in.lines, column, in.fault, err);
}

/* ---- the stream ---- */

/* Parses the open text, which is complete or at the end of input, and passes it on. */
static int give(struct json_reader *reader, struct error *err)
{
    struct unit *unit = reader->open;
    bool is_item = reader->in_items;
    vec_reserve(&unit->text, 1);
    if (parse(reader, unit, unit->text.v, unit->text.n, err))
        return -1;
    if (!reader->fn(reader->ctx, &reader->values.v[reader->base], is_item)) {
        reader->failed = true;
        return err->text ? -1 : error_set(err, "stopped by the reader of the values");
    }
    reader->open = NULL;
    reader->state = ITEM_OVER;
    if (!is_item && reader->top.text.cap + reader->item.text.cap > BYTES_KEPT)
        free_texts(reader);
    return 0;
}

static int append(struct json_reader *reader, const char *begin, const char *end, struct error *err)
{
    struct unit *unit = reader->open;
    vec_append(&unit->text, begin, (size_t)(end - begin));
    return unit->text.n <= reader->limit
               ? 0
               : too_big(reader, unit, "is longer", reader->limit, "bytes", err);
}

/* Whether the text, which ends with '[', has the key "items" before it, for the first time. */
static bool is_before_items(const struct json_reader *reader)
{
    const char *text = reader->top.text.v;
    size_t length = reader->top.text.n - reader->key, key_length;
    struct json_value key;
    if (*text != '{' || reader->key == 0 || reader->top.mark > 0)
        return false;
    char *copy = xstrndup(text + reader->key, length);
    struct parser in = {.p = copy, .end = copy + length};
    bool is = take_key(&in, &key, &key_length) == 0 && in.p + 1 == in.end &&
              strcmp(key.string, "items") == 0;
    free(copy);
    return is;
}

/* Parses the list up to its items, for json_reader_envelope(). */
static int begin_items(struct json_reader *reader, struct error *err)
{
    const struct unit *top = &reader->top;
    reader->base = 0;
    vec_clear(&reader->list);
    vec_append(&reader->list, top->text.v, top->text.n);
    vec_append(&reader->list, "]}", sizeof("]}"));
    if (parse(reader, top, reader->list.v, reader->list.n - 1, err))
        return -1;
    reader->base = reader->values.n;
    reader->in_items = true;
    reader->state = ITEM_FIRST;
    reader->open = NULL;
    return 0;
}

static size_t column_of(const struct json_reader *reader, const char *piece, const char *p)
{
    return reader->gone + (size_t)(p - piece) - reader->line_begin + 1;
}

static void count_line(struct json_reader *reader, const char *piece, const char *newline)
{
    reader->line++;
    reader->line_begin = reader->gone + (size_t)(newline - piece) + 1;
}

/* Gathers bytes from @p to the end of the value, to its items, or to the end of the piece. */
static int gather(struct json_reader *reader, const char *piece, const char **p, const char *end,
                  struct error *err)
{
    struct unit *unit = reader->open;
    const char *begin = *p, *at = begin;
    bool whole = false;
    while (at < end && !whole) {
        if (reader->token == TOKEN_STRING) {
            while (at < end && *at != '"' && *at != '\\')
                at++;
            if (at == end)
                break;
            reader->token = *at++ == '"' ? TOKEN_NONE : TOKEN_ESCAPE;
            whole = unit->depth == 0 && reader->token == TOKEN_NONE;
            continue;
        }
        if (reader->token == TOKEN_ESCAPE) {
            reader->token = TOKEN_STRING;
            at++;
            continue;
        }
        if (reader->token == TOKEN_SCALAR && !is_scalar_part(*at)) {
            whole = true;
            break;
        }
        switch (*at++) {
        case '"':
            reader->token = TOKEN_STRING;
            if (unit == &reader->top && unit->depth == 1)
                reader->key = unit->text.n + (size_t)(at - 1 - begin);
            break;
        case '{':
        case '[':
            unit->depth++;
            if (unit == &reader->top && unit->depth == 2 && at[-1] == '[') {
                *p = at;
                if (append(reader, begin, at, err))
                    return -1;
                if (is_before_items(reader))
                    return begin_items(reader, err);
                reader->key = 0;
                begin = at;
            }
            whole = unit->depth > MAX_DEPTH; /* complete enough for an error */
            break;
        case ',':
            whole = ++unit->commas >= reader->value_limit; /* likewise */
            break;
        case '}':
        case ']':
            whole = --unit->depth == 0;
            break;
        case '\n':
            count_line(reader, piece, at - 1);
            break;
        case ' ':
        case '\t':
        case '\r':
        case ':':
            break;
        default:
            whole = !is_scalar_part(at[-1]); /* likewise */
        }
    }
    *p = at;
    if (append(reader, begin, at, err))
        return -1;
    return whole ? give(reader, err) : 0;
}

/* Processes the byte at @p, between values: a blank, a delimiter of the list, or the first byte of
 * the next value, which is not consumed. */
static int take_between(struct json_reader *reader, const char *piece, const char **p,
                        struct error *err)
{
    struct unit *unit = reader->in_items ? &reader->item : &reader->top;
    char c = **p;
    size_t column = column_of(reader, piece, *p);
    if (c == '\n')
        count_line(reader, piece, *p);
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++*p;
        return 0;
    }
    if (reader->in_items && c == ']' && reader->state != ITEM_NEXT) {
        struct unit *top = reader->open = &reader->top;
        reader->in_items = false;
        reader->base = 0;
        reader->token = TOKEN_NONE;
        top->mark = top->text.n;
        top->column = column;
        top->first_line = reader->line;
        vec_each (&top->text, byte)
            top->first_line -= *byte == '\n';
        return 0;
    }
    if (reader->in_items && reader->state == ITEM_OVER) {
        reader->state = ITEM_NEXT;
        return c == ',' ? ++*p, 0 : fail(reader, reader->line, column, "no comma or end", err);
    }
    if (c != '{' && c != '[' && c != '"' && !is_scalar_part(c))
        return fail(reader, reader->line, column, "a value should begin here", err);
    vec_clear(&unit->text);
    unit->depth = unit->commas = unit->mark = 0;
    unit->line = unit->first_line = reader->line;
    unit->column = column;
    reader->key = 0;
    reader->open = unit;
    reader->token = is_scalar_part(c) ? TOKEN_SCALAR : TOKEN_NONE;
    return 0;
}

int json_reader_feed(struct json_reader *reader, const char *bytes, size_t length,
                     struct error *err)
{
    if (reader->failed)
        return error_set(err, "the text before was not usable");
    for (const char *p = bytes; length > 0 && p < bytes + length;)
        if (reader->open ? gather(reader, bytes, &p, bytes + length, err)
                         : take_between(reader, bytes, &p, err))
            return -1;
    reader->gone += length;
    return 0;
}

int json_reader_finish(struct json_reader *reader, struct error *err)
{
    if (reader->failed)
        return error_set(err, "the text before was not usable");
    if (reader->open && give(reader, err))
        return -1;
    if (reader->in_items)
        return fail(reader, reader->line, reader->gone - reader->line_begin + 1,
                    "the text ends inside a value", err);
    reader->failed = true;
    return 0;
}
