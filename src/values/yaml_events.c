/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "yaml_events.h"

#include <string.h>

#define COPIED_MOST ((size_t)16 * 1024 * 1024)

/* ---- errors ---- */

static int fail_at(struct yaml_events *in, const yaml_mark_t *mark, const char *what)
{
    return error_set(in->err, "line %zu column %zu: %s", mark->line + 1, mark->column + 1, what);
}

int yaml_fail(struct yaml_events *in, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    fail_at(in, &in->event.start_mark, text);
    free(text);
    return -1;
}

/* libyaml decodes ahead of its scanner: the bad byte follows the decoded characters that were not
 * scanned yet. */
static int fail_encoding(struct yaml_events *in)
{
    const yaml_parser_t *parser = &in->parser;
    yaml_mark_t mark = parser->mark;
    for (const yaml_char_t *p = parser->buffer.pointer; p < parser->buffer.last; p++) {
        if (*p == '\n') {
            mark.line++;
            mark.column = 0;
        } else if ((*p & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return fail_at(in, &mark, parser->problem);
}

/* libyaml cannot read on. */
static int fail_parser(struct yaml_events *in)
{
    const yaml_parser_t *parser = &in->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        alloc_failed();
    if (parser->error == YAML_READER_ERROR)
        return in->err->text ? -1 /* set by the input callback */ : fail_encoding(in);
    char *what = xasprintf("%s%s%s", parser->problem, parser->context ? ", " : "",
                           parser->context ? parser->context : "");
    fail_at(in, &parser->problem_mark, what);
    free(what);
    return -1;
}

size_t yaml_line(const struct yaml_events *in)
{
    return in->event.start_mark.line + 1;
}

/* ---- events ---- */

static int replay_next(struct yaml_events *in)
{
    in->event = *++in->replay;
    in->copied += sizeof(struct json_value);
    if (in->event.type == YAML_SCALAR_EVENT)
        in->copied += in->event.data.scalar.length;
    return in->copied <= COPIED_MOST
               ? 0
               : yaml_fail(in, "the aliases of the document expand to too much");
}

/* The anchor is the first member of all nodes. */
static const char *anchor_of(const yaml_event_t *event)
{
    const bool is_node = event->type == YAML_SCALAR_EVENT ||
                         event->type == YAML_SEQUENCE_START_EVENT ||
                         event->type == YAML_MAPPING_START_EVENT;
    return is_node ? (const char *)event->data.scalar.anchor : NULL;
}

int yaml_next(struct yaml_events *in)
{
    if (in->replay)
        return replay_next(in);
    if (!in->recorded)
        yaml_event_delete(&in->event);
    const bool is_there = yaml_parser_parse(&in->parser, &in->event);
    in->recorded = is_there && (in->open_anchors > 0 || anchor_of(&in->event));
    if (in->recorded)
        vec_push(&in->events, in->event);
    return is_there ? 0 : fail_parser(in);
}

void yaml_end_document(struct yaml_events *in)
{
    vec_each (&in->events, event)
        yaml_event_delete(event);
    vec_free(&in->events);
    vec_free(&in->anchors);
    if (in->recorded)
        in->event = (yaml_event_t){0};
    in->recorded = false;
    in->copied = 0;
}

/* ---- anchors and aliases ---- */

const char *yaml_enter_anchor(struct yaml_events *in, size_t *begin)
{
    const char *name = in->replay ? NULL : anchor_of(&in->event);
    if (name) {
        *begin = in->events.n - 1;
        in->open_anchors++;
    }
    return name;
}

void yaml_leave_anchor(struct yaml_events *in, const char *name, size_t begin)
{
    in->open_anchors--;
    vec_push(&in->anchors, (struct anchor){name, begin, in->events.n});
}

int yaml_enter_alias(struct yaml_events *in, struct yaml_place *place)
{
    const char *name = (const char *)in->event.data.alias.anchor;
    const struct anchor *anchor = NULL;
    /* of several anchors of one name, the last one before the alias counts */
    vec_each (&in->anchors, it)
        if (strcmp(it->name, name) == 0 && (!in->replay || in->events.v + it->end <= in->replay))
            anchor = it;
    if (!anchor)
        return yaml_fail(in, "no anchor %s ended before this alias", name);
    *place = (struct yaml_place){in->event, in->replay};
    in->replay = in->events.v + anchor->begin;
    in->event = *in->replay;
    return 0;
}

void yaml_leave_alias(struct yaml_events *in, const struct yaml_place *place)
{
    in->event = place->event;
    in->replay = place->replay;
}

/* ---- input ---- */

static int read_input(void *data, unsigned char *buffer, size_t size, size_t *n)
{
    struct yaml_events *in = data;
    if (in->input(in->ctx, (char *)buffer, size, n) == 0)
        return 1;
    if (!in->err->text)
        error_set(in->err, "the text could not be read");
    return 0;
}

static void begin(struct yaml_events *in, struct error *err)
{
    *in = (struct yaml_events){.err = err};
    if (!yaml_parser_initialize(&in->parser))
        alloc_failed();
}

void yaml_events_open(struct yaml_events *in, yaml_input_fn input, void *ctx, struct error *err)
{
    begin(in, err);
    in->input = input;
    in->ctx = ctx;
    yaml_parser_set_input(&in->parser, read_input, in);
}

void yaml_events_open_text(struct yaml_events *in, const char *text, size_t length,
                           struct error *err)
{
    begin(in, err);
    yaml_parser_set_input_string(&in->parser, (const unsigned char *)text, length);
}

void yaml_events_close(struct yaml_events *in)
{
    yaml_event_delete(&in->event);
    yaml_parser_delete(&in->parser);
}
