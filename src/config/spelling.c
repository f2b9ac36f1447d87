/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The edit distance of two words, with transpositions. */
#include "spelling.h"

#include "kube-nftd/base.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ERRORS 2
#define LETTERS_AN_ERROR 3

static bool same_letter(char typed, char meant)
{
    return (typed == '_' ? '-' : typed) == meant;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* @cell: of the first @i letters of @text and the first @j of @word, in a matrix with rows of
 * @stride. */
static size_t errors_at(const size_t *cell, size_t stride, const char *text, size_t i,
                        const char *word, size_t j)
{
    if (i == 0 || j == 0)
        return i + j;
    const bool same = same_letter(text[i - 1], word[j - 1]);
    const bool swapped = i > 1 && j > 1 && same_letter(text[i - 1], word[j - 2]) &&
                         same_letter(text[i - 2], word[j - 1]);
    size_t errors = least(*(cell - 1), *(cell - stride)) + 1;
    errors = least(errors, *(cell - stride - 1) + (same ? 0 : 1));
    return swapped ? least(errors, *(cell - 2 * stride - 2) + 1) : errors;
}

size_t spelling_errors(const char *text, size_t length, const char *word)
{
    const size_t width = strlen(word), most = least(MOST_ERRORS, length / LETTERS_AN_ERROR);
    if (length > width + most || width > length + most)
        return SPELLING_FAR;
    const size_t stride = width + 1;
    size_t *cells = xcalloc((length + 1) * stride, sizeof(*cells));
    for (size_t i = 0; i <= length; i++)
        for (size_t j = 0; j <= width; j++)
            cells[i * stride + j] = errors_at(&cells[i * stride + j], stride, text, i, word, j);
    const size_t errors = cells[length * stride + width];
    free(cells);
    return errors <= most ? errors : SPELLING_FAR;
}
