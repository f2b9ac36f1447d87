/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "report.h"

#include "kube-nftd/base/alloc.h"

#include <stdlib.h>

/* Takes @text over. */
static void print(struct leftovers_report *report, const char *what, char *text)
{
    fprintf(report->out, "%s: %s\n", what, text);
    free(text);
}

void report_removed(struct leftovers_report *report, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(report, report->dry_run ? "would remove" : "removed", xvasprintf(format, args));
    va_end(args);
    report->removed++;
}

void report_left(struct leftovers_report *report, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(report, "left", xvasprintf(format, args));
    va_end(args);
    report->left++;
}

void report_others(struct leftovers_report *report, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(report, "not kube-proxy's", xvasprintf(format, args));
    va_end(args);
}

void report_warning(struct leftovers_report *report, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(report, "warning", xvasprintf(format, args));
    va_end(args);
}
