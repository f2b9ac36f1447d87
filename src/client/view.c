/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "view.h"

#include "kube-nftd/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

typedef VEC(char) text_vec;

/* ---- values ---- */

static const cJSON *member(const cJSON *object, const char *key, size_t length)
{
    const cJSON *it;
    cJSON_ArrayForEach (it, object)
        if (it->string && strncmp(it->string, key, length) == 0 && !it->string[length])
            return it;
    return NULL;
}

static const cJSON *find(const cJSON *item, const char *path, size_t length)
{
    const char *end = path + length;
    while (item && path < end) {
        const char *dot = memchr(path, '.', (size_t)(end - path));
        size_t n = (size_t)((dot ? dot : end) - path);
        item = member(item, path, n);
        path += n + (dot != NULL);
    }
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

/* Texts come from objects that anybody may have written: no control characters reach a terminal. */
static void put_text(text_vec *out, const char *text)
{
    while (*text) {
        uint32_t code;
        size_t n = 0, length = 1;
        while (text[n] >= ' ' && text[n] < 0x7f)
            n++;
        vec_append(out, text, n);
        text += n;
        if (!*text)
            return;
        length = utf8_decode(text, &code);
        bool plain = length && !utf8_is_control(code);
        vec_append(out, plain ? text : "?", plain ? length : 1);
        text += length ? length : 1;
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

/* The end of the section that begins at @t, or @end. */
static const char *section_end(const char *t, const char *end)
{
    for (int depth = 0; t < end; t++) {
        depth += *t == '[' ? 1 : *t == ']' ? -1 : 0;
        if (depth == 0)
            return t;
    }
    return end;
}

/* Whether the section @t begins with a condition; then its length with the '?', and whether it
 * holds. */
static size_t condition(const char *t, const char *end, const cJSON *item, bool *holds)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.=!";
    size_t n = strspn(t, letters), begin = *t == '!';
    if (t + n >= end || t[n] != '?')
        return 0;
    const char *equals = memchr(t, '=', n);
    const cJSON *value = find(item, t + begin, (equals ? (size_t)(equals - t) : n) - begin);
    const char *text = cJSON_GetStringValue(value);
    if (equals)
        *holds = text && strlen(text) == (size_t)(t + n - equals - 1) &&
                 memcmp(text, equals + 1, strlen(text)) == 0;
    else
        *holds = is_value(value);
    *holds = *holds != (begin > 0);
    return n + 1;
}

static bool expand(text_vec *out, const char *t, const char *end, const cJSON *item);

static void expand_section(text_vec *out, const char *t, const char *end, const cJSON *item)
{
    bool holds = true;
    size_t length = condition(t, end, item, &holds), before = out->n;
    if (!holds)
        return;
    if (!expand(out, t + length, end, item) && !length)
        out->n = before;
}

/* Returns whether there was a value. */
static bool expand_value(text_vec *out, const char *t, const char *end, const cJSON *item)
{
    const char *bar = memchr(t, '|', (size_t)(end - t));
    const cJSON *value = find(item, t, (size_t)((bar ? bar : end) - t));
    if (bar && !is_value(value)) {
        vec_append(out, bar + 1, (size_t)(end - bar - 1));
        return true;
    }
    put_value(out, value);
    return is_value(value);
}

/* Returns whether no value was missing. */
static bool expand(text_vec *out, const char *t, const char *end, const cJSON *item)
{
    bool whole = true;
    while (t < end) {
        const char *last = t;
        if (*t == '{' && (last = memchr(t, '}', (size_t)(end - t)))) {
            whole = expand_value(out, t + 1, last, item) && whole;
        } else if (*t == '[') {
            last = section_end(t, end);
            expand_section(out, t + 1, last, item);
        } else {
            for (last = t; last + 1 < end && last[1] != '{' && last[1] != '[';)
                last++;
            vec_append(out, t, (size_t)(last + 1 - t));
        }
        t = last + 1;
    }
    return whole;
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

/* Bytes that begin a character that takes a place. */
static bool takes_place(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80 && (unsigned char)byte >= ' ';
}

static void measure(widths_vec *widths, const char *line)
{
    size_t column = 0, width = 0;
    if (!strchr(line, '\t'))
        return;
    for (;; line++) {
        if (*line != '\t' && *line) {
            width += takes_place(*line);
            continue;
        }
        if (column == widths->n)
            vec_push(widths, 0);
        if (width > widths->v[column])
            widths->v[column] = width;
        column++;
        width = 0;
        if (!*line)
            return;
    }
}

static void put_style(char byte, const struct view_style *style, FILE *out)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[32m",
                                        "\033[33m", "\033[31m", "\033[0m"};
    if (style->colours)
        fputs(codes[(int)byte], out);
}

/* @line with blanks for its tabs, for the caller to free. */
static char *align(const char *line, const widths_vec *widths)
{
    text_vec out = {0};
    size_t column = 0, width = 0;
    for (; *line; line++) {
        width += takes_place(*line);
        if (*line != '\t') {
            vec_push(&out, *line);
            continue;
        }
        for (; column < widths->n && width < widths->v[column] + 2; width++)
            vec_push(&out, ' ');
        column++;
        width = 0;
    }
    vec_push(&out, '\0');
    return out.v;
}

/* A line of a table is cut, others go on in the terminal's next line. */
static void put_line(const char *line, const widths_vec *widths, const struct view_style *style,
                     FILE *out)
{
    size_t place = 0, most = strchr(line, '\t') && style->width ? style->width : SIZE_MAX;
    char *text = align(line, widths);
    for (const char *s = text; *s; s++) {
        place += takes_place(*s);
        if (*s > 0 && *s <= *VIEW_PLAIN)
            put_style(*s, style, out);
        else if (place <= most)
            fputc(*s, out);
    }
    fputc('\n', out);
    free(text);
}

/* ---- views ---- */

static void print_items(const struct view *view, const cJSON *first, bool all,
                        const struct view_style *style, FILE *out)
{
    VEC(char *) lines = {0};
    widths_vec widths = {0};
    size_t i = 0;
    if (view->title)
        measure(&widths, view->title);
    for (const cJSON *it = first; it; it = all ? it->next : NULL) {
        vec_push(&lines, make_line(view->line, it));
        measure(&widths, lines.v[lines.n - 1]);
    }
    if (view->title && lines.n)
        put_line(view->title, &widths, style, out);
    for (const cJSON *it = first; it; it = all ? it->next : NULL, i++) {
        if (*lines.v[i])
            put_line(lines.v[i], &widths, style, out);
        if (*lines.v[i] && view->inner)
            view_print(view->inner, it, style, out);
        free(lines.v[i]);
    }
    vec_free(&lines);
    vec_free(&widths);
}

void view_print(const struct view *views, const cJSON *facts, const struct view_style *style,
                FILE *out)
{
    for (const struct view *view = views; view->line; view++) {
        const cJSON *at = view->path ? find(facts, view->path, strlen(view->path)) : facts;
        bool list = cJSON_IsArray(at);
        if (at && !cJSON_IsNull(at))
            print_items(view, list ? at->child : at, list, style, out);
    }
}

struct view_style view_style(FILE *out)
{
    struct winsize size = {0};
    const char *no_color = getenv("NO_COLOR");
    bool terminal = isatty(fileno(out));
    if (terminal)
        ioctl(fileno(out), TIOCGWINSZ, &size);
    return (struct view_style){size.ws_col, terminal && (!no_color || !*no_color)};
}

void view_print_json(const cJSON *facts, FILE *out)
{
    char *text = cJSON_Print(facts);
    for (const char *s = text; *s;) {
        uint32_t code;
        size_t length = utf8_decode(s, &code);
        /* In strings only, so it may be escaped. */
        if (length > 1 && utf8_is_control(code))
            fprintf(out, "\\u%04x", code);
        else
            fwrite(s, 1, length ? length : 1, out);
        s += length ? length : 1;
    }
    fputc('\n', out);
    free(text);
}
