/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The body of a watch or a list, from bytes to events and objects. However it is cut, the same
 * comes out, and what comes out keeps the promises of its headers.
 *
 * An input is a line and the body: the line's first byte picks the kind and the encoding ('0' +
 * kind: JSON; '8' + kind: protobuf), the second the reader ('w' or another odd byte: a watch), and
 * the others are lengths of pieces, in turn.
 */
#include "kube-nftd/base.h"
#include "source/object_reader.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OBJECT_LIMIT 50

struct input {
    enum object_kind kind;
    bool is_watch;
    enum encoding encoding;
    const uint8_t *pieces; /* their lengths */
    size_t n_pieces;
    const uint8_t *body;
    size_t size;
};

/* What one way of cutting led to. */
struct run {
    enum object_kind kind;
    VEC(char) seen; /* all that came out, as text */
    size_t bad;
    size_t items;
};

static void expect(bool holds)
{
    if (!holds)
        abort();
}

static void note(struct run *run, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    vec_reserve(&run->seen, n + 1);
    memcpy(run->seen.v + run->seen.n, text ? text : "", n);
    run->seen.v[run->seen.n + n] = text ? '\n' : '-';
    run->seen.n += n + 1;
}

static void note_object(struct run *run, const struct object *object)
{
    note(run, object->id);
    note(run, object->payload ? "whole" : "bad");
}

/* ---- a watch ---- */

static void check_event(const struct watch_event *event, enum object_kind kind)
{
    const struct object *object = &event->object;
    expect(object->kind == kind);
    expect((event->type == WATCH_BAD) == (event->problem.text != NULL));
    expect(!event->version || *event->version);
    expect(!event->initial_end || event->type == WATCH_BOOKMARK);
    if (event->type == WATCH_PUT)
        expect(object->id && object->payload);
    if (event->type == WATCH_REMOVE)
        expect(object->id != NULL);
    if (event->type == WATCH_BAD)
        expect(!object->payload);
}

static int take(void *ctx, struct watch_event *event, struct error *err)
{
    struct run *run = ctx;
    if (event->type != WATCH_BOOKMARK)
        check_event(event, run->kind);
    run->bad += event->type == WATCH_BAD;
    note(run, (const char[]){(char)('a' + event->type), '\0'});
    note(run, event->version);
    note(run, event->problem.text);
    note_object(run, &event->object);
    return ++run->items > OBJECT_LIMIT ? error_set(err, "too many") : 0;
}

/* ---- pieces ---- */

/* Pieces are copies without a byte behind them, so that a look too far is an error. */
static int feed_pieces(const struct input *input, bool whole, struct object_reader *reader,
                       struct error *err)
{
    size_t n;
    int result = 0;
    for (size_t at = 0, i = 0; at < input->size && result == 0; at += n, i++) {
        n = input->size - at;
        if (!whole && input->n_pieces > 0) {
            size_t length = input->pieces[i % input->n_pieces];
            n = length == 0 ? 1 : length < n ? length : n;
        }
        char *copy = xcalloc(n, 1);
        memcpy(copy, input->body + at, n);
        result = object_reader_feed(reader, copy, n, err);
        free(copy);
    }
    return result;
}

static void run_watch(const struct input *input, bool whole, struct run *run)
{
    struct error err = {0};
    struct object_reader reader = {.kind = input->kind, .take = take, .ctx = run};
    object_reader_begin(&reader, input->encoding, false);
    int result = feed_pieces(input, whole, &reader, &err);
    expect((result != 0) == (err.text != NULL || reader.rejected));
    note(run, result ? "given up" : "open");
    note(run, err.text);
    if (reader.rejected)
        note(run, reader.status.message);
    error_clear(&err);
    object_reader_reset(&reader);
}

/* ---- a list ---- */

static int read_page(const struct input *input, bool whole, struct object_reader *reader,
                     struct run *run)
{
    struct error err = {0};
    object_reader_begin(reader, input->encoding, true);
    int result = feed_pieces(input, whole, reader, &err);
    if (result == 0)
        result = object_reader_end_page(reader, &err);
    expect((result != 0) == (err.text != NULL) && !reader->rejected);
    note(run, err.text);
    note(run, reader->version);
    note(run, reader->token);
    error_clear(&err);
    return result;
}

/* The same page twice: the second one adds as much as the first, or is refused because it leads to
 * itself. */
static void run_list(const struct input *input, bool whole, struct run *run)
{
    struct object_reader reader = {.kind = input->kind, .take = take, .ctx = run};
    if (read_page(input, whole, &reader, run) == 0) {
        size_t n = run->items;
        bool last = reader.token == NULL;
        expect(reader.version != NULL);
        int result = read_page(input, whole, &reader, run);
        expect((result == 0) == (last && 2 * n <= OBJECT_LIMIT));
        expect(result != 0 || run->items == 2 * n);
    }
    object_reader_reset(&reader);
}

/* ---- both ---- */

static void run_once(const struct input *input, bool whole, struct run *run)
{
    run->kind = input->kind;
    if (input->is_watch)
        run_watch(input, whole, run);
    else
        run_list(input, whole, run);
}

static bool read_header(const uint8_t *data, size_t size, struct input *input)
{
    const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
    if (!newline || newline < data + 2)
        return false;
    *input = (struct input){.kind = (enum object_kind)((data[0] - '0') & 3),
                            .is_watch = data[1] & 1,
                            .encoding = data[0] & 8 ? ENCODING_PROTOBUF : ENCODING_JSON,
                            .pieces = data + 2,
                            .n_pieces = (size_t)(newline - data) - 2,
                            .body = newline + 1};
    input->size = size - (size_t)(input->body - data);
    return input->kind < KIND_COUNT;
}

static void drop_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input;
    struct run whole = {0}, cut = {0};
    log_set_sink(drop_line, NULL);
    if (!read_header(data, size, &input))
        return 0;
    run_once(&input, true, &whole);
    run_once(&input, false, &cut);
    expect(whole.seen.n == cut.seen.n && whole.bad == cut.bad);
    expect(memcmp(whole.seen.v, cut.seen.v, cut.seen.n) == 0);
    vec_free(&whole.seen);
    vec_free(&cut.seen);
    return 0;
}
