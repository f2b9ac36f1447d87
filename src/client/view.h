/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints trees of facts (kube-nftd/serve.h): as JSON, or as text by views, which are data.
 *
 * A line of a view is text with
 *
 *     {path}           the value there ("a.b"); {} is the item itself; lists get commas
 *     {path|other}     or other, if there is none
 *     [path?text]      text, if there is a value; [!path?text], if there is none;
 *                      [path=word?text], if it is that word
 *
 * where false, 0, "" and empty lists are no values, although {path} prints 0. Sections may be
 * nested. A line that comes out empty is not printed, and nothing of its item. The lines of a list
 * that have tabs are a table; VIEW_... are styles, for terminals. Control characters in values
 * become '?'.
 */
#ifndef KUBE_NFTD_CLIENT_VIEW_H
#define KUBE_NFTD_CLIENT_VIEW_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define VIEW_BOLD "\1"
#define VIEW_GOOD "\2"
#define VIEW_DOUBT "\3"
#define VIEW_BAD "\4"
#define VIEW_PLAIN "\5" /* ends the others */

/* Of a table with titles; an array of them ends with a zeroed one. */
struct column {
    const char *title, *line;
    enum {
        ALWAYS,
        WIDE,    /* only in wide tables */
        COUNTED, /* likewise, and only if the first item has "connections" */
    } when;
};

/* Part of a text; an array of them ends with a zeroed one. */
struct view {
    const char *path;  /* of an object, or of a list for each item of it; NULL: the item itself */
    const char *title; /* a line before all of them; NULL: none */
    const char *line;
    const struct column *columns; /* in place of the line; NULL: that */
    const struct view *inner;     /* printed behind the line of each item; NULL: nothing */
};

struct view_style {
    size_t width; /* of tables in characters; 0: no limit */
    bool colours;
    bool wide;
};

/** What suits @out: a terminal has a width, and colours unless NO_COLOR is set. */
struct view_style view_style(FILE *out);

void view_print(const struct view *views, const cJSON *facts, const struct view_style *style,
                FILE *out);

/** The whole tree, with what would do something to a terminal escaped. */
void view_print_json(const cJSON *facts, FILE *out);

/* What people see of the daemon's answers (views.c): of /explain, /list and /status, and top. */
extern const struct view view_explanation[], view_summary[], view_endpoints[], view_list[],
    view_names[], view_top[], view_top_endpoints[], view_status[];

#endif
