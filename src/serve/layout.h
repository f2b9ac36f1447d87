/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How lines and tables fit a terminal: cells are cut with a mark or go to lines of their own,
 * columns are left out with a word about it. Nothing disappears silently. */
#ifndef KUBE_NFTD_SRC_SERVE_LAYOUT_H
#define KUBE_NFTD_SRC_SERVE_LAYOUT_H

#include "kube-nftd/serve.h"

struct place {
    size_t natural; /* the widest cell */
    size_t width;   /* what it gets */
    size_t filled;  /* cells below the title that have text */
    bool left_out;
};

/* The cells of a line are separated by tabs. */
struct layout {
    const struct column *const *columns; /* of each cell; NULL: none has a title */
    size_t n_columns;
    const struct view_style *style;
    size_t n_lines; /* measured, without that of titles */
    VEC(struct place) places;
};

/** Takes the widths of @line into account; @title: it is the line of titles. */
void layout_measure(struct layout *layout, const char *line, bool title);

/** Divides the terminal's width among the columns, after all lines were measured. */
void layout_fit(struct layout *layout);

/** Prints a line, or the line of titles. What does not fit of its last cell goes to further lines;
 * a title of cells that do is not printed. */
void layout_print(const struct layout *layout, const char *line, bool title, FILE *out);

/** Names the columns that were left out though they have text, on a line of its own. */
void layout_print_left_out(const struct layout *layout, FILE *out);

#endif
