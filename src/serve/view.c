/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

typedef VEC(char) text_vec;

/* ---- values ---- */

/* The value at @path (@length bytes); NULL: none. */
static const cJSON *find(const cJSON *item, const char *path, size_t length)
{
    char *copy = xstrndup(path, length), *rest = copy, *key;
    while (item && (key = strsep(&rest, ".")) && *key)
        item = cJSON_GetObjectItemCaseSensitive(item, key);
    free(copy);
    return item;
}

static bool is_value(const cJSON *value)
{
    if (cJSON_IsString(value))
        return *value->valuestring;
    if (cJSON_IsNumber(value))
        return value->valuedouble != 0;
    return cJSON_IsTrue(value) || (value && value->child);
}

/* Texts come from untrusted objects: keep control characters from the terminal. */
static void put_text(text_vec *out, const char *text)
{
    while (*text) {
        uint32_t code;
        size_t length = utf8_decode(text, &code);
        bool plain = length && !utf8_is_control(code);
        length = length ? length : 1;
        vec_append(out, plain ? text : "?", plain ? length : 1);
        text += length;
    }
}

static void put_value(text_vec *out, const cJSON *value)
{
    char number[32];
    const cJSON *it;
    if (cJSON_IsString(value)) {
        put_text(out, value->valuestring);
    } else if (cJSON_IsNumber(value)) {
        snprintf(number, sizeof(number), "%.12g", value->valuedouble);
        put_text(out, number);
    } else if (cJSON_IsArray(value)) {
        cJSON_ArrayForEach (it, value) {
            put_text(out, it == value->child ? "" : ", ");
            put_value(out, it);
        }
    }
}

/* ---- lines ---- */

/* Whether "path", "!path" or "path=word" holds for @item. */
static bool holds(const char *condition, const char *end, const cJSON *item)
{
    bool negated = *condition == '!';
    const char *path = condition + negated;
    const char *equals = memchr(path, '=', (size_t)(end - path));
    const cJSON *value = find(item, path, (size_t)((equals ? equals : end) - path));
    if (!equals)
        return is_value(value) != negated;
    const char *word = equals + 1, *is = cJSON_GetStringValue(value);
    size_t length = (size_t)(end - word);
    return (is && strlen(is) == length && memcmp(is, word, length) == 0) != negated;
}

static const char *section_end(const char *t)
{
    for (int depth = 1; depth > 0; t++)
        depth += *t == '[' ? 1 : *t == ']' ? -1 : 0;
    return t - 1;
}

static void expand(text_vec *out, const char *t, const char *end, const cJSON *item)
{
    while (t < end) {
        const char *last = t + 1;
        if (*t == '{') {
            last = strchr(t, '}');
            const char *bar = memchr(t, '|', (size_t)(last - t));
            const cJSON *value = find(item, t + 1, (size_t)((bar ? bar : last) - t - 1));
            if (bar && !is_value(value))
                vec_append(out, bar + 1, (size_t)(last - bar - 1));
            else
                put_value(out, value);
            last++;
        } else if (*t == '[') {
            const char *mark = strchr(t, '?');
            last = section_end(t + 1);
            if (holds(t + 1, mark, item))
                expand(out, mark + 1, last, item);
            last++;
        } else {
            vec_push(out, *t);
        }
        t = last;
    }
}

static char *make_line(const char *line, const cJSON *item)
{
    text_vec out = {0};
    expand(&out, line, line + strlen(line), item);
    vec_push(&out, '\0');
    return out.v;
}

/* ---- tables ---- */

typedef VEC(size_t) widths_vec;

/* Whether @byte begins a character that occupies a column. */
static bool takes_place(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80 && (unsigned char)byte >= ' ';
}

static void measure(widths_vec *widths, const char *line)
{
    if (!strchr(line, '\t'))
        return;
    for (size_t column = 0;; column++, line++) {
        size_t width = 0;
        for (; *line && *line != '\t'; line++)
            width += takes_place(*line);
        if (column == widths->n)
            vec_push(widths, 0);
        if (width > widths->v[column])
            widths->v[column] = width;
        if (!*line)
            return;
    }
}

/* Truncates lines of a table; others wrap in the terminal. */
static void put_line(const char *line, const widths_vec *widths, const struct view_style *style,
                     FILE *out)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[32m",
                                        "\033[33m", "\033[31m", "\033[0m"};
    size_t most = strchr(line, '\t') && style->width ? style->width : SIZE_MAX;
    size_t place = 0, column = 0, column_end = 0;
    for (; *line; line++) {
        if (*line == '\t' && column < widths->n) {
            for (column_end += widths->v[column++] + 2; place < column_end; place++)
                if (place < most)
                    fputc(' ', out);
        } else if (*line > 0 && *line <= *VIEW_PLAIN) {
            fputs(style->colours ? codes[(int)*line] : "", out);
        } else {
            place += takes_place(*line);
            if (place <= most)
                fputc(*line, out);
        }
    }
    fputc('\n', out);
}

/* The title line of a table with the first item @first, or its line; owned by the caller. */
static char *join_columns(const struct column *columns, const cJSON *first, bool wide, bool title)
{
    text_vec out = {0};
    for (const struct column *it = columns; it->title; it++) {
        if ((it->when != ALWAYS && !wide) ||
            (it->when == COUNTED && !cJSON_HasObjectItem(first, "connections")))
            continue;
        const char *text = title ? it->title : it->line;
        vec_append(&out, out.n ? "\t" : title ? VIEW_BOLD : "", out.n || title);
        vec_append(&out, text, strlen(text));
    }
    vec_append(&out, VIEW_PLAIN, title);
    vec_push(&out, '\0');
    return out.v;
}

/* ---- views ---- */

static void print_items(const struct view *view, const cJSON *first, bool all,
                        const struct view_style *style, FILE *out)
{
    VEC(char *) lines = {0};
    widths_vec widths = {0};
    const struct column *columns = view->columns;
    char *title = columns ? join_columns(columns, first, style->wide, true) : xstrdup(view->title);
    char *line = columns ? join_columns(columns, first, style->wide, false) : xstrdup(view->line);
    measure(&widths, title ? title : "");
    for (const cJSON *it = first; it; it = all ? it->next : NULL) {
        vec_push(&lines, make_line(line, it));
        measure(&widths, lines.v[lines.n - 1]);
    }
    if (columns && view->title)
        put_line(view->title, &widths, style, out);
    if (title)
        put_line(title, &widths, style, out);
    vec_each (&lines, text) {
        if (**text)
            put_line(*text, &widths, style, out);
        if (**text && view->inner)
            view_print(view->inner, first, style, out);
        free(*text);
        first = first->next;
    }
    vec_free(&lines);
    vec_free(&widths);
    free(title);
    free(line);
}

void view_print(const struct view *views, const cJSON *facts, const struct view_style *style,
                FILE *out)
{
    for (const struct view *view = views; view->line || view->columns; view++) {
        const cJSON *at = view->path ? find(facts, view->path, strlen(view->path)) : facts;
        bool list = cJSON_IsArray(at);
        const cJSON *first = at && list ? at->child : at;
        if (first && !cJSON_IsNull(at))
            print_items(view, first, list, style, out);
    }
}

struct view_style view_style(FILE *out)
{
    struct winsize size = {0};
    const char *no_color = getenv("NO_COLOR");
    bool terminal = isatty(fileno(out));
    if (terminal)
        ioctl(fileno(out), TIOCGWINSZ, &size);
    return (struct view_style){size.ws_col, terminal && (!no_color || !*no_color), false};
}

void view_print_json(const cJSON *facts, FILE *out)
{
    char *text = cJSON_Print(facts);
    for (const char *s = text; *s;) {
        uint32_t code;
        size_t length = utf8_decode(s, &code);
        /* Occurs only inside strings, so it can be escaped. */
        if (length > 1 && utf8_is_control(code))
            fprintf(out, "\\u%04x", code);
        else
            fwrite(length ? s : "?", 1, length ? length : 1, out);
        s += length ? length : 1;
    }
    fputc('\n', out);
    free(text);
}
