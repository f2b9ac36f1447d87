/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scanner, not a parser: it knows strings, brackets and depth, finds where values end, and
 * leaves what is inside them to whoever parses them.
 *
 * Outside of values and in a top-level object (state TOP to NEXT_ITEM) it goes byte by byte,
 * through explicit states. A nested value is passed over in bulk (IN_VALUE), with a table that
 * says which bytes may be skipped. Both can be left and entered again at any byte.
 *
 * One buffer: an item grows behind the envelope of its list and is cut off when it was given out.
 * So the memory is bounded by one envelope and one item, each of at most the limit.
 *
 * Values inside a value are counted as it passes, so that a short text cannot become a huge tree.
 */
#include "kube-nftd/source/json_cutter.h"

#include "kube-nftd/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Objects of the API nest some 10 levels deep (a schema's, managedFields'). Parsers follow brackets
 * by recursion. */
#define MAX_DEPTH 128

/* A buffer larger than this is not kept for the next value. */
#define BUFFER_KEPT ((size_t)256 * 1024)

enum state {
    TOP,         /* between top-level values */
    FIRST_KEY,   /* in a top-level object: a key or its end */
    KEY,         /* a key */
    COLON,       /* the colon after it */
    MEMBER,      /* the value of a member */
    NEXT_MEMBER, /* a comma or the end of the object */
    FIRST_ITEM,  /* in "items": an element or the end */
    ITEM,        /* an element */
    NEXT_ITEM,   /* a comma or the end of the array */
    IN_VALUE,    /* inside a value; json_cutter.after says what follows it */
    FAILED,
};

/* What a value in IN_VALUE is; scalars have no end of their own. */
enum form { NESTED, STRING, SCALAR };

struct json_cutter {
    size_t limit;
    size_t value_limit;
    json_value_fn fn;
    void *ctx;

    enum state state;
    enum state after;
    enum form form;
    bool in_string;
    bool escaped; /* a backslash was the last byte */
    size_t depth;
    unsigned char arrays[MAX_DEPTH / 8]; /* a bit for each open bracket: it is [ */

    char *buffer;
    size_t length;
    size_t capacity;
    size_t base; /* where the present value begins: 0, or behind the envelope */
    size_t key;  /* where the last key begins */

    size_t values;          /* JSON values in the present value */
    size_t envelope_values; /* meanwhile, while that is an item: those of its envelope */

    /* For messages: where the bytes are, counted when somebody wants to know. */
    const char *counted;
    size_t line;
    size_t column; /* bytes of the line before counted */
    size_t top_line;
    size_t item_line;
    size_t given_line;
};

/* Bytes that end a run inside a string, and outside of one. */
static const unsigned char string_marks[256] = {[0 ... 31] = 1, ['"'] = 1, ['\\'] = 1};
static const unsigned char nested_marks[256] = {
    [0] = 1, ['"'] = 1, ['['] = 1, [']'] = 1, ['{'] = 1, ['}'] = 1};
/* Bytes of numbers, true, false and null. */
static const unsigned char scalar_bytes[256] = {
    ['0' ... '9'] = 1, ['a' ... 'z'] = 1, ['E'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,
};

struct json_cutter *json_cutter_new(size_t limit, json_value_fn fn, void *ctx)
{
    struct json_cutter *cutter = xcalloc(1, sizeof(*cutter));
    cutter->limit = limit;
    cutter->value_limit = JSON_CUTTER_VALUES;
    cutter->fn = fn;
    cutter->ctx = ctx;
    cutter->line = 1;
    return cutter;
}

void json_cutter_free(struct json_cutter *cutter)
{
    if (!cutter)
        return;
    free(cutter->buffer);
    free(cutter);
}

void json_cutter_limit_values(struct json_cutter *cutter, size_t limit)
{
    cutter->value_limit = limit;
}

size_t json_cutter_line(const struct json_cutter *cutter)
{
    return cutter->given_line;
}

char *json_cutter_envelope(const struct json_cutter *cutter)
{
    if (cutter->base == 0)
        return NULL;
    char *text = xcalloc(cutter->base + sizeof("]}"), 1);
    memcpy(text, cutter->buffer, cutter->base);
    memcpy(text + cutter->base, "]}", sizeof("]}"));
    return text;
}

/* Moves the position forward to @p, a place in the bytes that are being fed. */
static void count_to(struct json_cutter *cutter, const char *p)
{
    const char *from = cutter->counted;
    const char *newline;
    while ((newline = memchr(from, '\n', (size_t)(p - from))) != NULL) {
        cutter->line++;
        cutter->column = 0;
        from = newline + 1;
    }
    cutter->column += (size_t)(p - from);
    cutter->counted = p;
}

static int fail(struct json_cutter *cutter, struct error *err, const char *what)
{
    cutter->state = FAILED;
    return error_set(err, "line %zu column %zu: %s", cutter->line, cutter->column + 1, what);
}

static int fail_at(struct json_cutter *cutter, const char *p, struct error *err, const char *what)
{
    count_to(cutter, p);
    return fail(cutter, err, what);
}

/* The present value is over a limit. */
static int too_big(struct json_cutter *cutter, struct error *err, const char *than, size_t limit,
                   const char *unit)
{
    size_t line = cutter->base ? cutter->item_line : cutter->top_line;
    cutter->state = FAILED;
    return error_set(err, "line %zu: a value %s than %zu %s", line, than, limit, unit);
}

static int check_values(struct json_cutter *cutter, struct error *err)
{
    if (cutter->values <= cutter->value_limit)
        return 0;
    return too_big(cutter, err, "holds more", cutter->value_limit, "JSON values");
}

static int count_value(struct json_cutter *cutter, struct error *err)
{
    cutter->values++;
    return check_values(cutter, err);
}

static int append(struct json_cutter *cutter, const char *bytes, size_t n, struct error *err)
{
    if (n > cutter->limit - (cutter->length - cutter->base))
        return too_big(cutter, err, "is longer", cutter->limit, "bytes");
    if (n >= cutter->capacity - cutter->length) {
        size_t capacity = cutter->capacity ? cutter->capacity * 2 : 1024;
        while (n >= capacity - cutter->length)
            capacity *= 2;
        cutter->buffer = xreallocarray(cutter->buffer, capacity, 1);
        cutter->capacity = capacity;
    }
    memcpy(cutter->buffer + cutter->length, bytes, n);
    cutter->length += n;
    return 0;
}

/* Gives the value at the end of the buffer out and cuts it off. */
static int give(struct json_cutter *cutter, bool is_item, struct error *err)
{
    size_t base = cutter->base;
    cutter->buffer[cutter->length] = '\0';
    cutter->given_line = is_item ? cutter->item_line : cutter->top_line;
    cutter->state = is_item ? NEXT_ITEM : TOP;
    bool more = cutter->fn(cutter->ctx, cutter->buffer + base, cutter->length - base, is_item);
    cutter->length = base;
    cutter->base = 0;
    cutter->values = cutter->envelope_values;
    if (!is_item && cutter->capacity > BUFFER_KEPT) {
        free(cutter->buffer);
        cutter->buffer = NULL;
        cutter->capacity = 0;
    }
    if (more)
        return 0;
    cutter->state = FAILED;
    return err->text ? -1 : error_set(err, "stopped by the reader of the values");
}

static bool is_number_start(char c)
{
    return c == '-' || (c >= '0' && c <= '9');
}

/* A scalar that nobody inside a bigger value will parse must be whole and known. */
static bool scalar_ok(const char *text, size_t n)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i]) == n && memcmp(text, words[i], n) == 0)
            return true;
    }
    return n > 0 && is_number_start(text[0]) && strspn(text, "0123456789+-.eE") == n;
}

/* A value ended before @p; goes on with what follows it. */
static int end_value(struct json_cutter *cutter, const char *p, struct error *err)
{
    if (cutter->form == SCALAR && cutter->after != NEXT_MEMBER) {
        cutter->buffer[cutter->length] = '\0';
        if (!scalar_ok(cutter->buffer + cutter->base, cutter->length - cutter->base))
            return fail_at(cutter, p, err, "not a JSON value");
    }
    if (cutter->after == TOP || cutter->after == NEXT_ITEM)
        return give(cutter, cutter->after == NEXT_ITEM, err);
    cutter->state = cutter->after;
    return 0;
}

static int open_bracket(struct json_cutter *cutter, char c)
{
    if (cutter->depth == MAX_DEPTH)
        return -1;
    unsigned char bit = (unsigned char)(1u << (cutter->depth % 8));
    if (c == '[')
        cutter->arrays[cutter->depth / 8] |= bit;
    else
        cutter->arrays[cutter->depth / 8] &= (unsigned char)~bit;
    cutter->depth++;
    cutter->values++; /* its first element; the others are known by their commas */
    return 0;
}

static int close_bracket(struct json_cutter *cutter, char c)
{
    cutter->depth--;
    bool is_array = cutter->arrays[cutter->depth / 8] & (1u << (cutter->depth % 8));
    return is_array == (c == ']') ? 0 : -1;
}

/* A byte that is no plain part of a string. NULL, or what is wrong with it. */
static const char *string_mark(struct json_cutter *cutter, char c)
{
    if (c == '\\')
        cutter->escaped = true;
    else if (c == '"')
        cutter->in_string = false;
    else
        return "a control character in a string";
    return NULL;
}

static const char *nested_mark(struct json_cutter *cutter, char c)
{
    if (c == '"')
        cutter->in_string = true;
    else if (c == '{' || c == '[')
        return open_bracket(cutter, c) ? "nested too deep" : NULL;
    else if (c == '}' || c == ']')
        return close_bracket(cutter, c) ? "a bracket is closed by one of another kind" : NULL;
    else
        return "a NUL byte";
    return NULL;
}

static const char *skip_string(const char *p, const char *end)
{
    while (p < end && !string_marks[(unsigned char)*p])
        p++;
    return p;
}

static const char *skip_nested(struct json_cutter *cutter, const char *p, const char *end)
{
    size_t commas = 0;
    while (p < end && !nested_marks[(unsigned char)*p])
        commas += *p++ == ',';
    cutter->values += commas;
    return p;
}

/* Passes over the bytes of a nested value or a string. Returns where it ends, or @end; sets @over
 * if it ended, @wrong if it cannot be one. */
static const char *scan(struct json_cutter *cutter, const char *p, const char *end, bool *over,
                        const char **wrong)
{
    while (p < end) {
        if (cutter->escaped) {
            cutter->escaped = false;
            p += (unsigned char)*p >= 32;
            continue;
        }
        p = cutter->in_string ? skip_string(p, end) : skip_nested(cutter, p, end);
        if (p == end)
            break;
        *wrong = cutter->in_string ? string_mark(cutter, *p) : nested_mark(cutter, *p);
        if (*wrong)
            return p;
        p++;
        if (cutter->depth == 0 && !cutter->in_string) {
            *over = true;
            return p;
        }
    }
    return p;
}

static const char *scan_scalar(const char *p, const char *end, bool *over)
{
    while (p < end && scalar_bytes[(unsigned char)*p])
        p++;
    *over = p < end;
    return p;
}

static int take_value(struct json_cutter *cutter, const char **at, const char *end,
                      struct error *err)
{
    const char *from = *at;
    const char *wrong = NULL;
    bool over = false;
    *at = cutter->form == SCALAR ? scan_scalar(from, end, &over)
                                 : scan(cutter, from, end, &over, &wrong);
    if (wrong)
        return fail_at(cutter, *at, err, wrong);
    if (check_values(cutter, err) || append(cutter, from, (size_t)(*at - from), err))
        return -1;
    return over ? end_value(cutter, *at, err) : 0;
}

/* Takes the first byte of a value, at @p. */
static int begin_value(struct json_cutter *cutter, const char *p, enum state after,
                       struct error *err)
{
    bool bracket = *p == '{' || *p == '[';
    cutter->after = after;
    cutter->depth = 0;
    cutter->in_string = *p == '"';
    cutter->escaped = false;
    if (bracket)
        open_bracket(cutter, *p);
    else if (!cutter->in_string && !is_number_start(*p) && !(*p >= 'a' && *p <= 'z'))
        return fail_at(cutter, p, err, "a value should begin here");
    cutter->form = bracket ? NESTED : cutter->in_string ? STRING : SCALAR;
    cutter->state = IN_VALUE;
    if (after != COLON && count_value(cutter, err))
        return -1;
    return append(cutter, p, 1, err);
}

static bool key_is_items(const struct json_cutter *cutter)
{
    static const char items[] = "\"items\"";
    const char *key = cutter->buffer + cutter->key;
    return strncmp(key, items, strlen(items)) == 0;
}

static int begin_top(struct json_cutter *cutter, const char *p, struct error *err)
{
    count_to(cutter, p);
    cutter->top_line = cutter->line;
    cutter->values = 0;
    if (*p != '{')
        return begin_value(cutter, p, TOP, err);
    cutter->state = FIRST_KEY;
    return count_value(cutter, err) ? -1 : append(cutter, p, 1, err);
}

static int begin_key(struct json_cutter *cutter, const char *p, struct error *err)
{
    if (*p != '"')
        return fail_at(cutter, p, err, "a key should begin here");
    cutter->key = cutter->length;
    return begin_value(cutter, p, COLON, err);
}

static int begin_member(struct json_cutter *cutter, const char *p, struct error *err)
{
    if (*p != '[' || !key_is_items(cutter))
        return begin_value(cutter, p, NEXT_MEMBER, err);
    cutter->state = FIRST_ITEM;
    return count_value(cutter, err) ? -1 : append(cutter, p, 1, err);
}

static int begin_item(struct json_cutter *cutter, const char *p, struct error *err)
{
    count_to(cutter, p);
    cutter->item_line = cutter->line;
    cutter->base = cutter->length;
    cutter->envelope_values = cutter->values;
    cutter->values = 0;
    return begin_value(cutter, p, NEXT_ITEM, err);
}

static int end_items(struct json_cutter *cutter, const char *p, struct error *err)
{
    cutter->state = NEXT_MEMBER;
    return append(cutter, p, 1, err);
}

static int end_object(struct json_cutter *cutter, const char *p, struct error *err)
{
    if (append(cutter, p, 1, err))
        return -1;
    return give(cutter, false, err);
}

/* The mark @mark, then state @next. */
static int take_mark(struct json_cutter *cutter, const char *p, char mark, enum state next,
                     struct error *err)
{
    if (*p != mark)
        return fail_at(cutter, p, err, mark == ':' ? "no colon after a key" : "no comma or end");
    cutter->state = next;
    return next == ITEM ? 0 : append(cutter, p, 1, err);
}

/* One byte, not white space, outside of all values. */
static int take_byte(struct json_cutter *cutter, const char *p, struct error *err)
{
    switch (cutter->state) {
    case TOP:
        return begin_top(cutter, p, err);
    case FIRST_KEY:
        return *p == '}' ? end_object(cutter, p, err) : begin_key(cutter, p, err);
    case KEY:
        return begin_key(cutter, p, err);
    case COLON:
        return take_mark(cutter, p, ':', MEMBER, err);
    case MEMBER:
        return begin_member(cutter, p, err);
    case NEXT_MEMBER:
        return *p == '}' ? end_object(cutter, p, err) : take_mark(cutter, p, ',', KEY, err);
    case FIRST_ITEM:
        return *p == ']' ? end_items(cutter, p, err) : begin_item(cutter, p, err);
    case ITEM:
        return begin_item(cutter, p, err);
    case NEXT_ITEM:
        return *p == ']' ? end_items(cutter, p, err) : take_mark(cutter, p, ',', ITEM, err);
    case IN_VALUE:
    case FAILED:
        break;
    }
    return -1;
}

/* White space is kept inside an object, so that lines in its text are lines of the source, and
 * left out elsewhere. */
static int take_outside(struct json_cutter *cutter, const char **at, const char *end,
                        struct error *err)
{
    const char *from = *at;
    const char *p = from;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    *at = p;
    if (cutter->state >= FIRST_KEY && cutter->state <= NEXT_MEMBER && p > from &&
        append(cutter, from, (size_t)(p - from), err))
        return -1;
    if (p == end)
        return 0;
    *at = p + 1;
    return take_byte(cutter, p, err);
}

/* A scalar whose end is the byte at hand leaves that byte to the next state, so every round takes
 * a byte or changes the state. */
int json_cutter_feed(struct json_cutter *cutter, const char *bytes, size_t length,
                     struct error *err)
{
    if (cutter->state == FAILED)
        return error_set(err, "the text before was not usable");
    const char *p = bytes;
    const char *end = bytes + length;
    cutter->counted = bytes;
    while (p < end) {
        int result = cutter->state == IN_VALUE ? take_value(cutter, &p, end, err)
                                               : take_outside(cutter, &p, end, err);
        if (result)
            return -1;
    }
    count_to(cutter, end);
    return 0;
}

int json_cutter_finish(struct json_cutter *cutter, struct error *err)
{
    if (cutter->state == FAILED)
        return error_set(err, "the text before was not usable");
    cutter->counted = "";
    if (cutter->state == IN_VALUE && cutter->form == SCALAR && cutter->after == TOP &&
        end_value(cutter, cutter->counted, err))
        return -1;
    if (cutter->state != TOP)
        return fail(cutter, err, "the text ends inside a value");
    cutter->state = FAILED;
    return 0;
}
