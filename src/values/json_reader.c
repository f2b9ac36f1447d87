/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A parser that can stop at any byte (RFC 8259): the state between two tokens is what may come
 * next, and a token that a piece cuts off is continued with the next one. Strings are copied to the
 * reader's text and unescaped there.
 */
#include "reader.h"

#include <ctype.h>
#include <endian.h>
#include <inttypes.h>

/* What may come next. */
enum next {
    NEXT_VALUE,
    NEXT_FIRST_VALUE, /* or the end of an array */
    NEXT_KEY,
    NEXT_FIRST_KEY, /* or the end of an object */
    NEXT_COLON,
    NEXT_COMMA, /* or the end of the container */
};

/* The token that the next byte belongs to. */
enum token { TOKEN_NONE, TOKEN_STRING, TOKEN_SCALAR };

struct json_reader {
    struct value_reader base;
    enum next next;
    enum token token;
    size_t token_text;  /* where it begins in the text */
    uint64_t token_at;  /* and in the stream */
    bool after_escape;  /* the last byte of the string was a backslash */
    bool escaped;       /* the string has a backslash */
    bool not_ascii;     /* the string has other bytes than ASCII */
    const char *piece;  /* the current input, */
    uint64_t piece_at;  /* and where it begins in the stream */
    size_t line;        /* of the next byte, from 1, */
    uint64_t line_at;   /* and where it begins in the stream */
    uint64_t begins[2]; /* where the top value and the current item begin in the stream, */
    uint64_t items_at;  /* and the items of the top value */
};

static uint64_t place_in_text(const struct json_reader *json, const char *p)
{
    return json->piece_at + (uint64_t)(p - json->piece);
}

/* Returns NULL, as all functions that advance in the input do on error. */
static const char *fail(const struct json_reader *json, uint64_t at, const char *what,
                        struct error *err)
{
    error_set(err, "line %zu column %" PRIu64 ": %s", json->line, at - json->line_at + 1, what);
    return NULL;
}

/* Whether the value that is being read is within the limit of bytes, so far. */
static int check_length(const struct json_reader *json, const char *p, struct error *err)
{
    bool is_item = json->base.item > 0;
    if (place_in_text(json, p) - json->begins[is_item] <= json->base.limit)
        return 0;
    return error_set(err, "line %zu: a value is longer than %zu bytes", json->base.lines[is_item],
                     json->base.limit);
}

static void begin_token(struct json_reader *json, enum token token, const char *p)
{
    struct value_reader *base = &json->base;
    json->token = token;
    json->token_text = base->text.n;
    json->token_at = place_in_text(json, p);
    if (base->values.n == base->item) {
        base->lines[base->item > 0] = json->line;
        json->begins[base->item > 0] = json->token_at;
    }
}

/* A value ends before @p. */
static const char *end_value(struct json_reader *json, const char *p, struct error *err)
{
    if (reader_is_complete(&json->base) &&
        (check_length(json, p, err) || reader_deliver(&json->base, err)))
        return NULL;
    json->next = json->base.depth > 0 ? NEXT_COMMA : NEXT_VALUE;
    return p;
}

/* ---- strings ---- */

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

/* Copies bytes up to the next quote, backslash, control character or byte that is not ASCII. Looks
 * at eight at once: a subtraction borrows, and so sets the top bit, in the first byte looked for
 * (and perhaps in later ones). */
static const char *copy_plain(const char *p, const char *end, char **to)
{
    static const bool special[256] = {
        [0 ... 31] = true, ['"'] = true, ['\\'] = true, [128 ... 255] = true};
    const uint64_t ones = UINT64_C(0x0101010101010101);
    char *out = *to;
    uint64_t word, found = 0;
    while (end - p >= (ptrdiff_t)sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        memcpy(out, &word, sizeof(word));
        word = le64toh(word);
        found = word | (word - ones * ' ') | ((word ^ ones * '"') - ones) |
                ((word ^ ones * '\\') - ones);
        found &= ones << 7;
        int n = found ? __builtin_ctzll(found) / 8 : (int)sizeof(word);
        p += n;
        out += n;
        if (found)
            break;
    }
    while (!found && p < end && !special[(unsigned char)*p])
        *out++ = *p++;
    *to = out;
    return p;
}

/* The string's text, which ends before @out and its closing quote before @p, is complete. */
static const char *end_string(struct json_reader *json, const char *p, char *out, struct error *err)
{
    struct value_reader *base = &json->base;
    char *text = base->text.v + json->token_text;
    *out = '\0';
    base->text.n = (size_t)(out + 1 - base->text.v);
    json->token = TOKEN_NONE;
    if (json->escaped && !unescape(text))
        return fail(json, json->token_at, "a string with an unknown escape", err);
    if (json->next == NEXT_KEY || json->next == NEXT_FIRST_KEY) {
        /* One that is not UTF-8 matches no lookup. */
        base->key = text;
        base->key_length = json_key_length(json->escaped ? strlen(text) : (size_t)(out - text));
        json->next = NEXT_COLON;
        return p;
    }
    bool good = !(json->escaped || json->not_ascii) || utf8_is_valid(text);
    struct json_value *value = reader_add(base, good ? JSON_STRING : JSON_BAD_STRING, err);
    if (!value)
        return NULL;
    value->string = text;
    return end_value(json, p, err);
}

static const char *take_string(struct json_reader *json, const char *p, const char *end,
                               struct error *err)
{
    char *out = json->base.text.v + json->base.text.n;
    while (p < end) {
        if (json->after_escape && (unsigned char)*p >= ' ')
            *out++ = *p++;
        json->after_escape = false;
        p = copy_plain(p, end, &out);
        if (p == end)
            break;
        if (*p == '"')
            return end_string(json, p + 1, out, err);
        if ((unsigned char)*p < ' ')
            return fail(json, place_in_text(json, p), "a control character in a string", err);
        json->after_escape = *p == '\\';
        json->escaped |= json->after_escape;
        json->not_ascii |= !json->after_escape;
        *out++ = *p++;
    }
    json->base.text.n = (size_t)(out - json->base.text.v);
    return p;
}

/* ---- numbers and words ---- */

static bool is_scalar_part(char c)
{
    static const bool parts[256] = {
        ['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true,
        ['+'] = true,         ['-'] = true,         ['.'] = true,
    };
    return parts[(unsigned char)c];
}

/* Stricter than strtod(): no leading zeros, digits on both sides of the point, decimal only. */
static bool read_json_number(const char *text, double *number, bool *integer)
{
    const char *digits = text + (*text == '-'), *behind = digits + strspn(digits, "0123456789");
    char *stop;
    if (behind == digits || (*digits == '0' && behind > digits + 1) ||
        (*behind && !strchr(".eE", *behind)) ||
        (*behind == '.' && !isdigit((unsigned char)behind[1])))
        return false;
    *integer = !*behind;
    *number = strtod(text, &stop);
    return !*stop;
}

static const char *end_scalar(struct json_reader *json, const char *p, struct error *err)
{
    struct value_reader *base = &json->base;
    char *text = base->text.v + json->token_text;
    enum json_type type = JSON_NUMBER;
    bool integer = false;
    double number = 0;
    base->text.v[base->text.n] = '\0';
    base->text.n = json->token_text;
    json->token = TOKEN_NONE;
    if (strcmp(text, "true") == 0)
        type = JSON_TRUE;
    else if (strcmp(text, "false") == 0)
        type = JSON_FALSE;
    else if (strcmp(text, "null") == 0)
        type = JSON_NULL;
    else if (!read_json_number(text, &number, &integer))
        return fail(json, json->token_at, "not a JSON value", err);
    struct json_value *value = reader_add(base, type, err);
    if (!value)
        return NULL;
    value->number = number;
    value->integer = integer;
    return end_value(json, p, err);
}

static const char *take_scalar(struct json_reader *json, const char *p, const char *end,
                               struct error *err)
{
    char *out = json->base.text.v + json->base.text.n;
    while (p < end && is_scalar_part(*p))
        *out++ = *p++;
    json->base.text.n = (size_t)(out - json->base.text.v);
    return p < end ? end_scalar(json, p, err) : p;
}

/* ---- the grammar ---- */

static const char *open_container(struct json_reader *json, const char *p, struct error *err)
{
    struct value_reader *base = &json->base;
    bool is_object = *p == '{', among_items = base->item > 0;
    if (reader_is_deep(base))
        return fail(json, place_in_text(json, p), "nested too deep", err);
    begin_token(json, TOKEN_NONE, p);
    if (check_length(json, p + 1, err)) /* before items are passed on */
        return NULL;
    if (reader_open(base, is_object ? JSON_OBJECT : JSON_ARRAY, err))
        return NULL;
    if (base->item > 0 && !among_items)
        json->items_at = place_in_text(json, p + 1);
    json->next = is_object ? NEXT_FIRST_KEY : NEXT_FIRST_VALUE;
    return p + 1;
}

/* Items and what is between them do not count as bytes of their list. */
static const char *close_container(struct json_reader *json, const char *p, struct error *err)
{
    bool among_items = json->base.item > 0;
    if (reader_in_object(&json->base) != (*p == '}'))
        return fail(json, place_in_text(json, p), "a bracket is closed by one of another kind",
                    err);
    reader_close(&json->base);
    if (among_items && json->base.item == 0)
        json->begins[0] += place_in_text(json, p) - json->items_at;
    return end_value(json, p + 1, err);
}

/* Takes a delimiter, or begins a token. */
static const char *take_next(struct json_reader *json, const char *p, struct error *err)
{
    static const char *const expected[] = {
        [NEXT_VALUE] = "a value should begin here",
        [NEXT_FIRST_VALUE] = "a value should begin here",
        [NEXT_KEY] = "a key should begin here",
        [NEXT_FIRST_KEY] = "a key should begin here",
        [NEXT_COLON] = "no colon after a key",
        [NEXT_COMMA] = "no comma or end",
    };
    bool begins = json->next == NEXT_VALUE || json->next == NEXT_FIRST_VALUE;
    switch (*p) {
    case '"':
        if (json->next == NEXT_COLON || json->next == NEXT_COMMA)
            break;
        begin_token(json, TOKEN_STRING, p);
        json->escaped = json->not_ascii = false;
        return p + 1;
    case '{':
    case '[':
        if (!begins)
            break;
        return open_container(json, p, err);
    case '}':
    case ']':
        if (json->next != NEXT_COMMA &&
            json->next != (*p == '}' ? NEXT_FIRST_KEY : NEXT_FIRST_VALUE))
            break;
        return close_container(json, p, err);
    case ',':
        if (json->next != NEXT_COMMA)
            break;
        json->next = reader_in_object(&json->base) ? NEXT_KEY : NEXT_VALUE;
        return p + 1;
    case ':':
        if (json->next != NEXT_COLON)
            break;
        json->next = NEXT_VALUE;
        return p + 1;
    case '\n':
        json->line++;
        json->line_at = place_in_text(json, p + 1);
        return p + 1;
    case ' ':
    case '\t':
    case '\r':
        return p + 1;
    default:
        if (!begins || !is_scalar_part(*p))
            break;
        begin_token(json, TOKEN_SCALAR, p);
        return p;
    }
    return fail(json, place_in_text(json, p), expected[json->next], err);
}

/* ---- the stream ---- */

static int feed(struct value_reader *base, const char *bytes, size_t length, struct error *err)
{
    struct json_reader *json = (struct json_reader *)base;
    const char *p = bytes, *end = bytes + length;
    json->piece = bytes;
    reader_make_room(base, length);
    while (p && p < end) {
        if (json->token == TOKEN_STRING)
            p = take_string(json, p, end, err);
        else if (json->token == TOKEN_SCALAR)
            p = take_scalar(json, p, end, err);
        else
            p = take_next(json, p, err);
    }
    bool inside = json->token != TOKEN_NONE || base->values.n > base->item;
    if (!p || (inside && check_length(json, p, err)))
        return -1;
    json->piece_at += length;
    return 0;
}

static int finish(struct value_reader *base, struct error *err)
{
    struct json_reader *json = (struct json_reader *)base;
    static const char nothing[] = "";
    json->piece = nothing;
    if (json->token == TOKEN_SCALAR && !end_scalar(json, nothing, err))
        return -1;
    if (json->token == TOKEN_STRING || base->depth > 0) {
        fail(json, json->piece_at, "the text ends inside a value", err);
        return -1;
    }
    return 0;
}

struct value_reader *json_reader_new(size_t limit, value_fn fn, void *ctx)
{
    struct json_reader *json = reader_new(sizeof(*json), limit, fn, ctx);
    json->base.feed = feed;
    json->base.finish = finish;
    json->line = 1;
    return &json->base;
}
