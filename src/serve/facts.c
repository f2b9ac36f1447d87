/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Facts, and how they are printed. */
#include "kube-nftd/serve.h"
#include "layout.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- facts ---- */

/* Fits most items of a list; larger texts grow by copying. */
#define FIRST_BYTES 1024

void facts_add_all(cJSON *to, const struct fact *facts, size_t n)
{
    for (const struct fact *it = facts; it < facts + n; it++) {
        if (it->type == FACT_TEXT)
            cJSON_AddStringToObject(to, it->key, it->text);
        else if (it->type == FACT_NUMBER)
            cJSON_AddNumberToObject(to, it->key, it->number);
        else if (it->type == FACT_FLAG)
            cJSON_AddBoolToObject(to, it->key, it->number != 0);
        else
            cJSON_AddNullToObject(to, it->key);
    }
}

void facts_format(cJSON *to, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    if (key)
        cJSON_AddStringToObject(to, key, text);
    else
        cJSON_AddItemToArray(to, cJSON_CreateString(text));
    free(text);
}

void facts_add_id(cJSON *to, const char *id)
{
    const char *slash = strchr(id, '/');
    facts_format(to, "namespace", "%.*s", (int)(slash - id), id);
    facts_add(to, fact_text("name", slash + 1));
}

void facts_add_time(cJSON *to, const char *key, double time)
{
    char text[CLOCK_RFC3339_SIZE];
    if (time > 0)
        clock_format(time, 3, text);
    facts_add(to, fact_text(key, time > 0 ? text : NULL));
}

cJSON *facts_append(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(array, object);
    return object;
}

const cJSON *facts_at(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

const char *facts_text_at(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(facts_at(object, key));
    return text ? text : "";
}

char *facts_print(const cJSON *facts)
{
    char *text = cJSON_PrintBuffered(facts, FIRST_BYTES, false);
    if (utf8_is_valid(text))
        return text;
    char *whole = utf8_repair(text);
    free(text);
    return whole;
}

typedef VEC(char) text_vec;

/* ---- values ---- */

/* The value at @path (@length bytes); NULL: none. */
static const cJSON *find_path(const cJSON *item, const char *path, size_t length)
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

/* Puts a value; of a list the first @most, and how many more there are. */
static void put_value(text_vec *out, const cJSON *value, size_t most)
{
    char number[32];
    const cJSON *it;
    if (cJSON_IsString(value)) {
        put_text(out, value->valuestring);
    } else if (cJSON_IsNumber(value)) {
        snprintf(number, sizeof(number), "%.12g", value->valuedouble);
        put_text(out, number);
    } else if (cJSON_IsArray(value)) {
        size_t left = (size_t)cJSON_GetArraySize(value);
        bool cut = left > most;
        cJSON_ArrayForEach (it, value) {
            if (cut && most-- == 0)
                break;
            put_text(out, it == value->child ? "" : ", ");
            put_value(out, it, SIZE_MAX);
            left--;
        }
        snprintf(number, sizeof(number), " and %zu more", left);
        put_text(out, cut ? number : "");
    }
}

static bool list_contains(const cJSON *list, const cJSON *value)
{
    const cJSON *it;
    cJSON_ArrayForEach (it, list)
        if (cJSON_Compare(it, value, true))
            return true;
    return false;
}

/* A list of what is in @first, then of what is in @second alone, for the caller to delete. */
static cJSON *join_lists(const cJSON *first, const cJSON *second)
{
    cJSON *joined = cJSON_CreateArray(), *it;
    cJSON_ArrayForEach (it, first)
        cJSON_AddItemReferenceToArray(joined, it);
    cJSON_ArrayForEach (it, second)
        if (!list_contains(first, it))
            cJSON_AddItemReferenceToArray(joined, it);
    return joined;
}

/* ---- lines ---- */

/* Whether "path", "!path" or "path=word" holds for @item. */
static bool holds(const char *condition, const char *end, const cJSON *item)
{
    bool negated = *condition == '!';
    const char *path = condition + negated;
    const char *equals = memchr(path, '=', (size_t)(end - path));
    const cJSON *value = find_path(item, path, (size_t)((equals ? equals : end) - path));
    if (!equals)
        return is_value(value) != negated;
    const char *word = equals + 1;
    size_t length = (size_t)(end - word);
    text_vec is = {0};
    put_value(&is, value, SIZE_MAX);
    bool same = is.n == length && memcmp(is.v, word, length) == 0;
    vec_free(&is);
    return same != negated;
}

/* Puts the value for what stands between braces, up to @end. */
static void put_place(text_vec *out, const char *place, const char *end, const cJSON *item)
{
    const bool some = *place >= '1' && *place <= '9' && place[1] == ':';
    const char *path = some ? place + 2 : place;
    const char *bar = memchr(path, '|', (size_t)(end - path)), *path_end = bar ? bar : end;
    const char *plus = memchr(path, '+', (size_t)(path_end - path));
    const cJSON *value = find_path(item, path, (size_t)((plus ? plus : path_end) - path));
    cJSON *joined = NULL;
    if (plus)
        value = joined =
            join_lists(value, find_path(item, plus + 1, (size_t)(path_end - plus - 1)));
    if (bar && !is_value(value))
        vec_append(out, bar + 1, (size_t)(end - bar - 1));
    else
        put_value(out, value, some ? (size_t)(*place - '0') : SIZE_MAX);
    cJSON_Delete(joined);
}

/* Expands @t up to its end, or the end of a section, which it returns. @out NULL: the section is
 * left out. */
static const char *expand(text_vec *out, const char *t, const cJSON *item)
{
    for (; *t && *t != ']'; t++) {
        if (*t == '[') {
            const char *mark = strchr(t, '?');
            t = expand(out && holds(t + 1, mark, item) ? out : NULL, mark + 1, item);
        } else if (*t == '{') {
            const char *end = strchr(t, '}');
            if (out)
                put_place(out, t + 1, end, item);
            t = end;
        } else if (out) {
            vec_push(out, *t);
        }
    }
    return t;
}

/* ---- tables ---- */

static void put_string(text_vec *out, const char *text)
{
    vec_append(out, text, strlen(text));
}

typedef VEC(const struct column *) column_vec;

/* Makes the lines of a table with the first item @first: of titles, and to expand for each item. */
static void join_columns(const struct column *columns, const cJSON *first, bool wide,
                         column_vec *used, text_vec *titles, text_vec *line)
{
    for (const struct column *it = columns; it->title; it++) {
        if ((it->when != ALWAYS && !wide) ||
            (it->when == COUNTED && !cJSON_HasObjectItem(first, "connections")))
            continue;
        vec_push(used, it);
        put_string(titles, titles->n ? "\t" : VIEW_BOLD);
        put_string(titles, it->title);
        put_string(line, line->n ? "\t" : "");
        put_string(line, it->line);
    }
    put_string(titles, VIEW_PLAIN);
}

/* ---- views ---- */

static void print_items(const struct view *view, const cJSON *first, bool all,
                        const struct view_style *style, FILE *out)
{
    VEC(char *) lines = {0};
    column_vec columns = {0};
    text_vec titles = {0}, line = {0};
    if (view->columns)
        join_columns(view->columns, first, style->wide, &columns, &titles, &line);
    else
        put_string(&line, view->line);
    struct layout layout = {.columns = columns.v, .n_columns = columns.n, .style = style};
    vec_push(&titles, '\0');
    vec_push(&line, '\0');
    layout_measure(&layout, titles.v, true);
    for (const cJSON *it = first; it; it = all ? it->next : NULL) {
        text_vec text = {0};
        expand(&text, line.v, it);
        vec_push(&text, '\0');
        vec_push(&lines, text.v);
        layout_measure(&layout, text.v, false);
    }
    layout_fit(&layout);
    if (view->title)
        layout_print(&layout, view->title, true, out);
    if (view->columns)
        layout_print(&layout, titles.v, true, out);
    vec_each (&lines, text) {
        if (**text)
            layout_print(&layout, *text, false, out);
        if (**text && view->inner)
            view_print(view->inner, first, style, out);
        free(*text);
        first = first->next;
    }
    layout_print_left_out(&layout, out);
    vec_free(&lines);
    vec_free(&columns);
    vec_free(&layout.places);
    vec_free(&titles);
    vec_free(&line);
}

void view_print(const struct view *views, const cJSON *facts, const struct view_style *style,
                FILE *out)
{
    for (const struct view *view = views; view->line || view->columns; view++) {
        const cJSON *at = view->path ? find_path(facts, view->path, strlen(view->path)) : facts;
        bool list = cJSON_IsArray(at);
        const cJSON *first = at && list ? at->child : at;
        if (first && !cJSON_IsNull(at))
            print_items(view, first, list, style, out);
    }
}

char *view_text(const struct view *views, const cJSON *facts, const struct view_style *style)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        alloc_failed();
    view_print(views, facts, style, out);
    if (fclose(out) != 0)
        alloc_failed();
    return text;
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
