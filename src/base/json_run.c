/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Nearly all tokens of the API's JSON are plain. What a run needs is held in registers (a copy
 * whose address nobody gets), and no byte is compared with the end: a 0 there is part of no token.
 */
#include "kube-nftd/base/json_run.h"

#include "kube-nftd/base/json_text.h"

/* Else it would not be in registers. */
#define INLINE static inline __attribute__((always_inline))

/* Lines that were passed. */
struct lines {
    size_t n;
    const char *last;
};

/* Of an indented text, most bytes are these. */
static __attribute__((noinline)) char *skip_blanks(char *at, struct lines *lines)
{
    for (;; at++) {
        if (*at == '\n') {
            lines->n++;
            lines->last = at + 1;
            at = json_text_spaces_end(at + 1) - 1;
        } else if (*at != ' ' && *at != '\t' && *at != '\r') {
            return at;
        }
    }
}

INLINE char *next_token(char *at, struct lines *lines)
{
    return (unsigned char)*at > ' ' ? at : skip_blanks(at, lines);
}

INLINE bool take_string(struct json_run *run, const char **string, size_t *length)
{
    char *text = run->at + 1, *end = json_text_run_end(text);
    if (*end != '"')
        return false;
    *end = '\0';
    *string = text;
    *length = (size_t)(end - text);
    run->at = end + 1;
    return true;
}

/* A value, but for what it is. */
INLINE void begin_value(struct json_value *place, size_t key_length)
{
    place->size = 1;
    place->type = JSON_NULL;
    place->integer = false;
    place->key_length = json_key_length(key_length);
}

/* The key and its colon, of a value that has a place from now on. */
INLINE bool take_key(struct json_run *run, struct lines *lines)
{
    struct json_value *place = run->end;
    size_t length;
    if (*run->at != '"' || place == run->most || !take_string(run, &place->key, &length))
        return false;
    begin_value(place, length);
    run->end++;
    run->state = JSON_STATE_COLON;
    run->at = next_token(run->at, lines);
    if (*run->at != ':')
        return false;
    run->state = JSON_STATE_VALUE;
    run->at = next_token(run->at + 1, lines);
    return true;
}

INLINE bool take_word(struct json_run *run, struct json_value *place, const char *word,
                      size_t length, enum json_type type)
{
    if (memcmp(run->at, word, length) != 0 || !json_text_ends_scalar(run->at[length]))
        return false;
    place->type = (uint8_t)type;
    run->at += length;
    return true;
}

INLINE bool take_integer(struct json_run *run, struct json_value *place)
{
    uint64_t number = 0;
    char *p = run->at;
    for (; *p >= '0' && *p <= '9'; p++)
        number = number * 10 + (uint64_t)(*p - '0');
    size_t length = (size_t)(p - run->at);
    if (length > JSON_EXACT_DIGITS || (*run->at == '0' && length > 1) || !json_text_ends_scalar(*p))
        return false;
    place->type = JSON_NUMBER;
    place->number = (double)number;
    place->integer = true;
    run->at = p;
    return true;
}

INLINE bool take_text(struct json_run *run, struct json_value *place)
{
    size_t length;
    if (!take_string(run, &place->string, &length))
        return false;
    place->type = JSON_STRING;
    return true;
}

INLINE bool take_scalar(struct json_run *run, struct json_value *place)
{
    switch (*run->at) {
    case '"':
        return take_text(run, place);
    case 't':
        return take_word(run, place, "true", 4, JSON_TRUE);
    case 'f':
        return take_word(run, place, "false", 5, JSON_FALSE);
    case 'n':
        return take_word(run, place, "null", 4, JSON_NULL);
    default:
        return *run->at >= '0' && *run->at <= '9' && take_integer(run, place);
    }
}

/* What is empty ends at once, as much of managedFields does. */
INLINE bool open_container(struct json_run *run, struct json_value *place, struct lines *lines)
{
    bool object = *run->at == '{';
    if (run->depth == run->deepest || (!object && run->depth == run->no_array))
        return false;
    place->type = object ? JSON_OBJECT : JSON_ARRAY;
    run->end = place + 1;
    run->at = next_token(run->at + 1, lines);
    if (*run->at == (object ? '}' : ']')) {
        run->at++;
        run->state = JSON_STATE_NEXT;
        return true;
    }
    run->open[run->depth++] = (size_t)(place - run->values);
    run->around = place;
    run->state = object ? JSON_STATE_FIRST_KEY : JSON_STATE_FIRST_ITEM;
    if (object ? *run->at != '"' : *run->at == '\0')
        return false;
    run->state = object ? JSON_STATE_KEY : JSON_STATE_VALUE;
    return true;
}

INLINE bool take_value(struct json_run *run, struct json_value *place, struct lines *lines)
{
    if (*run->at == '{' || *run->at == '[')
        return open_container(run, place, lines);
    if (!take_scalar(run, place))
        return false;
    run->end = place + 1;
    run->state = JSON_STATE_NEXT;
    return true;
}

/* A value that has no key has its place only when it is taken. */
INLINE bool take_element(struct json_run *run, struct lines *lines)
{
    struct json_value *place = run->end;
    if (place == run->most)
        return false;
    place->key = NULL;
    begin_value(place, 0);
    return take_value(run, place, lines);
}

/* The present array or object ends here. */
INLINE void close_container(struct json_run *run)
{
    run->around->size = (uint32_t)(run->end - run->around);
    run->depth--;
    run->around = run->values + run->open[run->depth - 1];
    run->at++;
}

/* The ends of all that ends here, and the comma behind it. */
INLINE bool take_ends(struct json_run *run, struct lines *lines)
{
    for (;;) {
        run->at = next_token(run->at, lines);
        bool object = run->around->type == JSON_OBJECT;
        if (*run->at == ',') {
            run->at = next_token(run->at + 1, lines);
            run->state = object ? JSON_STATE_KEY : JSON_STATE_VALUE;
            return true;
        }
        if (*run->at != (object ? '}' : ']') || run->depth == run->lowest)
            return false;
        close_container(run);
    }
}

INLINE bool take_next(struct json_run *run, struct lines *lines)
{
    if (run->state == JSON_STATE_NEXT)
        return take_ends(run, lines);
    if (run->state == JSON_STATE_KEY && !take_key(run, lines))
        return false;
    return run->around->type == JSON_OBJECT ? take_value(run, run->end - 1, lines)
                                            : take_element(run, lines);
}

void json_run_take(struct json_run *all)
{
    struct json_run run = *all;
    struct lines lines = {0};
    run.around = run.values + run.open[run.depth - 1];
    run.at = next_token(run.at, &lines);
    while (take_next(&run, &lines)) {
    }
    run.lines = lines.n;
    run.line = lines.last;
    *all = run;
}
