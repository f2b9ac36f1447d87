/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"

#include <stdarg.h>
#include <stdlib.h>

int error_set(struct error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    error_clear(err);
    err->text = text;
    return -1;
}

int error_prefix(struct error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *where = xvasprintf(format, args);
    va_end(args);
    char *text = xasprintf("%s: %s", where, err->text ? err->text : "failed");
    free(where);
    free(err->text);
    err->text = text;
    return -1;
}

int error_of_configuration(struct error *err)
{
    err->configuration = true;
    return -1;
}

void error_clear(struct error *err)
{
    free(err->text);
    *err = (struct error){0};
}
