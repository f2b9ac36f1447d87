/* SPDX-License-Identifier: GPL-2.0-or-later */
/* JSON: the values that are given out of texts, and what is refused. Cases are in
 * cases/json_reader. */
#include "json_read.h"
#include "value_text.h"

/* What is made of the text in pieces, the first of @cut bytes, the others of @step bytes. They are
 * copies without a byte behind them, so that a look too far is an error under the sanitizer. */
static char *read_cut(const struct text *text, size_t cut, size_t step)
{
    struct seen seen;
    struct error err = {0};
    int result = 0;
    begin_reading(&seen);
    for (size_t at = 0, n = cut; at < text->n && result == 0; at += n, n = step) {
        n = n < text->n - at ? n : text->n - at;
        char *piece = xcalloc(n, 1);
        memcpy(piece, text->v + at, n);
        result = value_reader_feed(seen.reader, piece, n, &err);
        free(piece);
    }
    if (result == 0)
        result = value_reader_finish(seen.reader, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    return end_reading(&seen, &err);
}

/* The same however it is cut: into two pieces, or into many. */
static char *read_text(const struct text *text)
{
    char *expected = read_cut(text, text->n, 1);
    for (size_t cut = 0; cut <= text->n && text->n < 1000; cut++)
        for (int many = 0; many < 2; many++) {
            char *again = read_cut(text, cut, many && cut ? cut : text->n + 1);
            ck_assert_msg(strcmp(again, expected) == 0, "cut at %zu: %s", cut, again);
            free(again);
        }
    return expected;
}

COMMAND(limit)
{
    limit = (size_t)atol(words);
}

COMMAND(json)
{
    struct text text = given_text(words);
    char *seen = read_text(&text);
    fputs(seen, out);
    free(seen);
    free(text.v);
}

/* In an array, behind what is right on the same line and lines before: where that shows, counted
 * from where the words begin, and why. */
COMMAND(wrong)
{
    static const char *const before[] = {"[", "[{\"a\":\n  [[1,\"b\"],{},"};
    int lines[2], columns[2], ends[2];
    char *seen[2];
    for (int i = 0; i < 2; i++) {
        char *whole = xasprintf("%s%s]}]", before[i], words);
        struct text text = given_text(whole);
        seen[i] = read_text(&text);
        ck_assert_int_eq(sscanf(seen[i], "line %d column %d: %n", &lines[i], &columns[i], &ends[i]),
                         2);
        free(text.v);
        free(whole);
    }
    ck_assert_int_eq(lines[0], 1);
    ck_assert_int_eq(lines[1], 2);
    ck_assert_int_eq(columns[0] - 2, columns[1] - 15);
    ck_assert_str_eq(seen[0] + ends[0], seen[1] + ends[1]);
    fprintf(out, "%d %s", columns[0] - 2, seen[0] + ends[0]);
    free(seen[0]);
    free(seen[1]);
}

/* How many values it holds: with a lower limit it is refused. */
COMMAND(values)
{
    struct text text = given_text(words);
    for (limit_values = 1;; limit_values++) {
        char *seen = read_text(&text), *message;
        message = xasprintf("line 1: a value has more than %zu JSON values\n", limit_values);
        bool refused = strcmp(seen, message) == 0;
        ck_assert(refused || !strstr(seen, "line"));
        free(message);
        free(seen);
        if (!refused)
            break;
    }
    fprintf(out, "%zu\n", limit_values);
    limit_values = 0;
    free(text.v);
}

/* How many values come of a text that is too large to be shown. */
COMMAND(count)
{
    struct text text = given_text(words);
    struct seen seen;
    struct error err = {0};
    int result = 0;
    begin_reading(&seen);
    seen.counts = true;
    for (size_t at = 0; at < text.n && result == 0; at += 50)
        result =
            value_reader_feed(seen.reader, text.v + at, text.n - at < 50 ? text.n - at : 50, &err);
    char *why = end_reading(&seen, &err);
    fprintf(out, "%zu%s%s", seen.n, *why ? " " : "\n", why);
    free(why);
    free(text.v);
}

/* "N TEXT": the callback says stop behind so many. */
COMMAND(stop)
{
    stop_after = atoi(script_word(&words));
    run_json(words, out);
    stop_after = -1;
}

/* A value without an end is given up as soon as it is too long. */
COMMAND(endless)
{
    struct seen seen;
    struct error err = {0};
    size_t fed = 0;
    limit = 100;
    begin_reading(&seen);
    ck_assert_int_eq(value_reader_feed(seen.reader, words, strlen(words), &err), 0);
    while (fed < 1000 && value_reader_feed(seen.reader, "1", 1, &err) == 0)
        fed++;
    ck_assert_msg(fed > 60 && fed <= 100, "%s: %zu bytes", words, fed);
    char *text = end_reading(&seen, &err);
    fputs(text, out);
    free(text);
}

/* What the member "a" is for whoever asks for it. */
static int take_member(void *ctx, const struct json_value *value, const struct json_value *list,
                       struct error *err)
{
    const char *text = json_string(json_member(value, "a"));
    fprintf(ctx, "%s\n", text ? text : "none");
    return 0;
}

COMMAND(member)
{
    struct error err = {0};
    ck_assert_int_eq(json_read(words, strlen(words), take_member, out, &err), 0);
}

/* Nor is a control character at any of these places. */
TEST(control_characters_anywhere)
{
    static const char plain[] = "0123456789abcdefghijklm";
    for (const char *mark = "\x01\t\n\x1f"; *mark; mark++)
        for (int before = 0; before < 18; before++) {
            char *line = xasprintf("[\"%.*s%c%s\"]", before, plain, *mark, plain);
            struct text text = {line, strlen(line)};
            char *seen = read_text(&text),
                 *expected =
                     xasprintf("line 1 column %d: a control character in a string\n", before + 3);
            ck_assert_str_eq(seen, expected);
            free(expected);
            free(seen);
            free(line);
        }
}

/* The text with @blanks at each '^'. */
static struct text with_blanks(const char *text, const char *blanks)
{
    struct text spaced;
    FILE *out = open_memstream(&spaced.v, &spaced.n);
    for (; *text; text++)
        if (*text == '^')
            fputs(blanks, out);
        else
            fputc(*text, out);
    fclose(out);
    return spaced;
}

/* Blanks between any two tokens, as indented texts have them, and the lines counted there. */
TEST(blanks)
{
    static const char tokens[] =
        "^{^\"a\"^:^[^1^,^{^\"b\"^:^true^,^\"c\"^:^\"d e\"^}^,^[^]^,^{^}^,^[^null^,^-2^]^]^}^^7^";
    static const char *const all[] = {
        "", " ", "\t", "\r\n", "\n", "\n  ", " \n\t ", "\n\n", "\n                 "};
    for (int i = 0; i < COUNT(all); i++) {
        size_t lines = strcmp(all[i], "\n\n") == 0 ? 2 : strchr(all[i], '\n') != NULL;
        struct text text = with_blanks(tokens, all[i]);
        char *seen = read_text(&text),
             *expected = xasprintf(
                 "value %zu {\"a\":[1,{\"b\":true,\"c\":\"d e\"},[],{},[null,-2]]}\nvalue %zu 7\n",
                 lines + 1, 31 * lines + 1);
        ck_assert_str_eq(seen, expected);
        free(expected);
        free(seen);
        free(text.v);
    }
}

CASES("json_reader")

static void set_up(void)
{
    limit = 10000;
}

UNIT_FIXTURE(set_up, NULL)
