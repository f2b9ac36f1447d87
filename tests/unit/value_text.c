/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "value_text.h"

#include "values/reader.h"

/* ---- texts ---- */

/* Repeats what begins at @from, behind its number. Returns where it ends. */
static const char *write_repeated(FILE *out, const char *from, long times)
{
    size_t n = *from == '(' ? strcspn(++from, ")") : 1;
    for (; times > 0; times--)
        fwrite(from, 1, n, out);
    return from + n + (from[n] == ')' && from[-1] == '(');
}

struct text given_text(const char *words)
{
    struct text text;
    char *bytes, *all = xasprintf("%s%s", words, script_text());
    FILE *out = open_memstream(&bytes, &text.n);
    for (const char *at = all; *at;) {
        char *end = NULL;
        long times = *at == '~' && isdigit((unsigned char)at[1]) ? strtol(at + 1, &end, 10) : 0;
        if (end)
            at = write_repeated(out, end, times);
        else
            fputc(*at++, out);
    }
    fclose(out);
    free(all);
    text.n = script_bytes(bytes);
    text.v = bytes;
    return text;
}

void write_short(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0, same; i < length; i += same) {
        for (same = 1; i + same < length && text[i + same] == text[i]; same++)
            ;
        if (same > 20)
            fprintf(out, "~%zu%c", same, text[i]);
        else
            write_bytes(out, text + i, same);
    }
}

/* ---- values ---- */

static void write_value(FILE *out, const struct json_value *value);

/* With the length of a key where it is not what it seems to be. */
static void write_all(FILE *out, const struct json_value *container, const char *brackets)
{
    const char *comma = "";
    fputc(brackets[0], out);
    json_each (container, value) {
        ck_assert_int_eq(value->key != NULL, container->type == JSON_OBJECT);
        fputs(comma, out);
        if (value->key)
            fprintf(out, "\"%s\"", value->key);
        if (value->key && strlen(value->key) != value->key_length)
            fprintf(out, "(%u)", value->key_length);
        fputs(value->key ? ":" : "", out);
        write_value(out, value);
        comma = ",";
    }
    fputc(brackets[1], out);
}

/* As JSON without blanks; what was an escape is written as it is. */
static void write_value(FILE *out, const struct json_value *value)
{
    static const char *const words[] = {
        [JSON_NULL] = "null", [JSON_FALSE] = "false", [JSON_TRUE] = "true"};
    if (value->type == JSON_OBJECT || value->type == JSON_ARRAY)
        write_all(out, value, value->type == JSON_OBJECT ? "{}" : "[]");
    else if (value->type == JSON_STRING)
        fprintf(out, "\"%s\"", value->string);
    else if (value->type == JSON_BAD_STRING)
        fprintf(out, "bad \"%s\"", value->string);
    else if (value->type == JSON_NUMBER)
        fprintf(out, "%.17g", value->number);
    else
        fputs(words[value->type], out);
}

size_t limit = 10000, limit_values;
int stop_after = -1;

static int take(void *ctx, const struct json_value *value, const struct json_value *list,
                struct error *err)
{
    struct seen *seen = ctx;
    struct text text;
    seen->n++;
    if (!seen->counts) {
        FILE *out = open_memstream(&text.v, &text.n);
        write_value(out, value);
        fclose(out);
        fprintf(seen->out, "%s %zu ", list ? "item" : "value", value_reader_line(seen->reader));
        write_short(seen->out, text.v, text.n);
        fputs("\n", seen->out);
        free(text.v);
    }
    if (seen->left < 0 || seen->left-- > 0)
        return 0;
    return error_set(err, "stopped by the reader of the values");
}

void begin_reading(struct seen *seen)
{
    *seen = (struct seen){.left = stop_after};
    seen->out = open_memstream(&seen->text, &seen->length);
    seen->reader = json_reader_new(limit, take, seen);
    if (limit_values)
        seen->reader->value_limit = limit_values;
}

char *end_reading(struct seen *seen, struct error *err)
{
    if (err->text) {
        struct error again = {0};
        fprintf(seen->out, "%s\n", err->text);
        ck_assert_int_eq(value_reader_feed(seen->reader, "1 ", 2, &again), -1);
        ck_assert_ptr_nonnull(again.text);
        error_clear(&again);
        error_clear(err);
    }
    value_reader_free(seen->reader);
    fclose(seen->out);
    return seen->text;
}
