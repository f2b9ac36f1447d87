/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve.h"

#include "kube-nftd/base.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Size of a printed number. */
#define NUMBER_SIZE 32

struct metrics_page {
    FILE *out;
    /* The current family. */
    const char *name, *type, *help;
    bool headed; /* its HELP and TYPE are written */
};

/* ---- texts and numbers ---- */

/* HELP lines do not escape quotes. */
static void put_escaped(FILE *out, const char *text, bool quoted)
{
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '\\' || (quoted && *text == '"'))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

/* The fewest digits that parse to the same number. */
static const char *format_number(double value, char text[NUMBER_SIZE])
{
    if (isnan(value))
        return "NaN";
    if (isinf(value))
        return value > 0 ? "+Inf" : "-Inf";
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, NUMBER_SIZE, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

/* Writes a sample, after the family's head if it is the first; @suffix extends the name. */
static void put_line(struct metrics_page *page, const char *suffix,
                     const struct metrics_label *labels, size_t n, double value)
{
    char text[NUMBER_SIZE];
    if (!page->headed) {
        fprintf(page->out, "# HELP %s ", page->name);
        put_escaped(page->out, page->help, false);
        fprintf(page->out, "\n# TYPE %s %s\n", page->name, page->type);
        page->headed = true;
    }
    fprintf(page->out, "%s%s", page->name, suffix);
    for (size_t i = 0; i < n; i++) {
        fprintf(page->out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
        put_escaped(page->out, labels[i].value, true);
        fputc('"', page->out);
    }
    fprintf(page->out, "%s %s\n", n > 0 ? "}" : "", format_number(value, text));
}

/* ---- the page ---- */

char *metrics_print(metrics_fn write, void *ctx, size_t *length)
{
    char *text = NULL;
    struct metrics_page page = {.out = open_memstream(&text, length)};
    if (!page.out)
        alloc_failed();
    write(ctx, &page);
    bool failed = ferror(page.out);
    if (fclose(page.out) != 0 || failed)
        alloc_failed();
    return text;
}

void metrics_family(struct metrics_page *page, const char *name, const char *type, const char *help)
{
    page->name = name;
    page->type = type;
    page->help = help;
    page->headed = false;
}

void metrics_sample(struct metrics_page *page, const struct metrics_label *labels, size_t n,
                    double value)
{
    put_line(page, "", labels, n, value);
}

void metrics_histogram(struct metrics_page *page, const struct metrics_label *labels, size_t n,
                       const struct histogram *histogram)
{
    char bound[NUMBER_SIZE];
    struct metrics_label with_bound[METRICS_LABELS_MOST + 2];
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        with_bound[i] = labels[i];
    with_bound[n].name = "le";
    for (size_t i = 0; i <= histogram->buckets->n; i++) {
        bool last = i == histogram->buckets->n;
        count += histogram->counts[i];
        with_bound[n].value = format_number(last ? INFINITY : histogram->buckets->bounds[i], bound);
        put_line(page, "_bucket", with_bound, n + 1, (double)count);
    }
    put_line(page, "_sum", labels, n, histogram->sum);
    put_line(page, "_count", labels, n, (double)count);
}
