/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "layout.h"

#include <string.h>

/* Between two columns. */
#define GAP 2
/* Where the last cell of a line goes that has no room beside the others. */
#define BELOW_INDENT 4
/* The least room for the last cell of a line without titles. */
#define TAIL_LEAST 24
#define CUT "..."

/* ---- characters ---- */

/* Whether @byte begins a character that occupies a column of the terminal. */
static bool takes_place(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80 && (unsigned char)byte >= ' ';
}

static size_t width_of(const char *text, size_t length)
{
    size_t width = 0;
    for (size_t i = 0; i < length; i++)
        width += takes_place(text[i]);
    return width;
}

static bool is_style(char byte)
{
    return byte > 0 && byte <= *VIEW_PLAIN;
}

static void put_byte(char byte, const struct view_style *style, FILE *out)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[32m",
                                        "\033[33m", "\033[31m", "\033[0m"};
    if (is_style(byte))
        fputs(style->colours ? codes[(int)byte] : "", out);
    else
        fputc(byte, out);
}

static void put_spaces(size_t n, FILE *out)
{
    while (n-- > 0)
        fputc(' ', out);
}

/* ---- cells ---- */

static const char *cell_end(const char *cell)
{
    return cell + strcspn(cell, "\t");
}

static const struct column *column_at(const struct layout *layout, size_t i)
{
    return layout->columns && i < layout->n_columns ? layout->columns[i] : NULL;
}

/* Whether cells at @i are the last ones, which go on below; the least room they need beside. */
static bool is_tail(const struct layout *layout, size_t i, size_t *least)
{
    const struct column *column = column_at(layout, i);
    *least = column ? column->least : TAIL_LEAST;
    return i + 1 == (layout->columns ? layout->n_columns : layout->places.n) && *least;
}

/* Prints a cell in @width columns, and returns how many it took. Styles beyond a cut are kept. */
static size_t put_cell(const char *cell, const char *end, size_t width,
                       const struct view_style *style, FILE *out)
{
    size_t all = width_of(cell, (size_t)(end - cell)), place = 0;
    size_t most = all <= width ? all : width > strlen(CUT) ? width - strlen(CUT) : 0;
    bool inside = true;
    for (const char *s = cell; s < end; s++) {
        place += takes_place(*s);
        inside = inside && place <= most;
        if (inside || is_style(*s))
            put_byte(*s, style, out);
    }
    if (all > width)
        fputs(CUT, out);
    return all <= width ? all : most + strlen(CUT);
}

/* Prints text from column @place on, and goes on at @indent of the next line where a word does not
 * fit. */
static void put_words(const char *text, size_t place, size_t indent, const struct view_style *style,
                      FILE *out)
{
    while (*text) {
        size_t spaces = strspn(text, " "), length = strcspn(text + spaces, " ");
        size_t width = width_of(text + spaces, length);
        bool begin =
            style->width && spaces && place > indent && place + spaces + width > style->width;
        if (begin) {
            fputc('\n', out);
            place = indent;
        }
        put_spaces(begin ? indent : spaces, out);
        for (size_t i = 0; i < length; i++)
            put_byte(text[spaces + i], style, out);
        place += width + (begin ? 0 : spaces);
        text += spaces + length;
    }
}

/* Where further lines of a line without cells begin: below its second word if that is set off by
 * blanks, as in "name   value". */
static size_t indent_of(const char *line, const struct view_style *style)
{
    size_t leading = strspn(line, " ");
    const char *gap = strstr(line + leading, "  ");
    size_t at = gap ? width_of(line, (size_t)(gap - line)) + strspn(gap, " ") : 0;
    return at && at <= style->width / 2 ? at : leading + GAP;
}

/* ---- the table ---- */

void layout_measure(struct layout *layout, const char *line, bool title)
{
    if (!strchr(line, '\t'))
        return;
    layout->n_lines += !title;
    for (size_t i = 0;; i++) {
        const char *end = cell_end(line);
        size_t width = width_of(line, (size_t)(end - line));
        if (i == layout->places.n)
            vec_push(&layout->places, (struct place){0});
        struct place *place = &layout->places.v[i];
        place->natural = place->width = width > place->natural ? width : place->natural;
        place->filled += !title && width > 0;
        if (!*end)
            return;
        line = end + 1;
    }
}

/* The width of all columns, with the room that the last needs if all lines have text there. Text
 * that only some have goes below. */
static size_t total_width(const struct layout *layout)
{
    size_t total = 0, least;
    for (size_t i = 0; i < layout->places.n; i++) {
        const struct place *place = &layout->places.v[i];
        bool tail = is_tail(layout, i, &least);
        if (place->left_out || (tail && place->filled < layout->n_lines))
            continue;
        total += (tail && least < place->width ? least : place->width) + (total ? GAP : 0);
    }
    return total;
}

/* Makes the widest column that may be cut narrower by one. */
static bool narrow(struct layout *layout)
{
    struct place *widest = NULL;
    size_t least;
    for (size_t i = 0; i < layout->places.n; i++) {
        struct place *place = &layout->places.v[i];
        const struct column *column = column_at(layout, i);
        if (column && !is_tail(layout, i, &least) && !place->left_out && column->least &&
            place->width > column->least && (!widest || place->width > widest->width))
            widest = place;
    }
    if (widest)
        widest->width--;
    return widest != NULL;
}

/* Leaves a column out: an empty one, or the next in their order. The others begin anew. */
static bool leave_out(struct layout *layout)
{
    size_t found = layout->places.n;
    unsigned order = 0;
    for (size_t i = 0; i < layout->places.n; i++) {
        const struct place *place = &layout->places.v[i];
        const struct column *column = column_at(layout, i);
        if (!column || place->left_out || !column->leaves)
            continue;
        unsigned its = place->filled ? column->leaves : 0;
        if (found == layout->places.n || its < order) {
            found = i;
            order = its;
        }
    }
    if (found == layout->places.n)
        return false;
    layout->places.v[found].left_out = true;
    vec_each (&layout->places, place)
        place->width = place->natural;
    return true;
}

void layout_fit(struct layout *layout)
{
    while (layout->style->width && total_width(layout) > layout->style->width)
        if (!narrow(layout) && !leave_out(layout))
            return;
}

/* Whether the last cell of a line, which begins at @at, has room beside the others. */
static bool fits_beside(const struct layout *layout, const char *cell, size_t at, size_t least)
{
    size_t width = layout->style->width, natural = width_of(cell, strlen(cell));
    return !width || at + (natural < least ? natural : least) <= width;
}

/* Prints the last cell at @at, beside the others, which end at @place, or below them. */
static void put_tail(const struct layout *layout, const char *cell, size_t place, size_t at,
                     size_t least, FILE *out)
{
    if (!fits_beside(layout, cell, at, least)) {
        fputc('\n', out);
        place = 0;
        at = BELOW_INDENT;
    }
    put_spaces(at - place, out);
    put_words(cell, at, at, layout->style, out);
}

static void put_styles(const char *cell, const char *end, const struct view_style *style, FILE *out)
{
    for (const char *s = cell; s < end; s++)
        if (is_style(*s))
            put_byte(*s, style, out);
}

void layout_print(const struct layout *layout, const char *line, bool title, FILE *out)
{
    size_t place = 0, at = 0, least;
    if (!strchr(line, '\t')) {
        put_words(line, 0, indent_of(line, layout->style), layout->style, out);
        line = NULL;
    }
    for (size_t i = 0; line; i++) {
        const struct place *its = &layout->places.v[i];
        const char *end = cell_end(line);
        bool tail = is_tail(layout, i, &least) && !*end;
        bool unused = tail && layout->style->width && !its->filled;
        if (its->left_out || unused || width_of(line, (size_t)(end - line)) == 0 ||
            (title && tail && !fits_beside(layout, line, at, least))) {
            put_styles(line, end, layout->style, out);
        } else if (tail) {
            put_tail(layout, line, place, at, least, out);
        } else {
            put_spaces(at - place, out);
            place = at + put_cell(line, end, its->width, layout->style, out);
        }
        if (!its->left_out)
            at += its->width + GAP;
        line = *end ? end + 1 : NULL;
    }
    fputc('\n', out);
}

void layout_print_left_out(const struct layout *layout, FILE *out)
{
    char *names = NULL;
    for (size_t i = 0; i < layout->places.n; i++)
        if (layout->places.v[i].left_out && layout->places.v[i].filled)
            xjoin(&names, "%s", layout->columns[i]->title);
    if (names) {
        char *text =
            xasprintf("(not shown, %zu columns are too few: %s)", layout->style->width, names);
        put_words(text, 0, GAP, layout->style, out);
        fputc('\n', out);
        free(text);
    }
    free(names);
}
