/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Texts of cases, and the values that a reader of JSON gives out of them as text: "~300x" stands
 * for 300 "x", "~9(, a)" for 9 times what is in the parentheses, and "item 3 {}" for an item that
 * begins in line 3. */
#ifndef KUBE_NFTD_TESTS_VALUE_TEXT_H
#define KUBE_NFTD_TESTS_VALUE_TEXT_H

#include "kube-nftd/values.h"
#include "script.h"

#include <ctype.h>

/* ---- texts ---- */

struct text {
    char *v;
    size_t n;
};

/* The words, then the text below. The caller frees it. */
struct text given_text(const char *words);

/* The same way back: a character that is there more than twenty times in a row. */
void write_short(FILE *out, const char *text, size_t length);

/* ---- values ---- */

/* What a reader gives out: "item" or "value", its line in the source, the text. */
struct seen {
    struct value_reader *reader;
    FILE *out;
    char *text;
    size_t length;
    int left;    /* values until the callback says stop; -1: never */
    bool counts; /* they are not written, they are so many */
    size_t n;
};

/* Of the reader that begin_reading() makes: bytes of a value; values, if not 0; values after which
 * the callback says stop, if not -1. */
extern size_t limit, limit_values;
extern int stop_after;

void begin_reading(struct seen *seen);

/* And why it was given up, behind what was given out; then it is for good. The caller frees it. */
char *end_reading(struct seen *seen, struct error *err);

#endif
