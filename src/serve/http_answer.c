/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an answer is made of, whoever sends it. */
#include "http.h"

#include <stdarg.h>

void http_header(struct http *http, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *value = xvasprintf(format, args);
    va_end(args);
    vec_push(&http->headers, (struct http_header){name, value});
}

void http_text(struct http *http, unsigned status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    http->status = status;
    http->text = xvasprintf(format, args);
    va_end(args);
    http_header(http, "Content-Type", "text/plain; charset=utf-8");
    http_header(http, "X-Content-Type-Options", "nosniff");
}

void http_busy(struct http *http)
{
    http_header(http, "Retry-After", "1");
    http_text(http, 503, HTTP_BUSY " with other requests: ask again\n");
}

void http_json(struct http *http, unsigned status, char *text)
{
    http->status = status;
    http->text = text;
    http_header(http, "Content-Type", "application/json");
    http_header(http, "X-Content-Type-Options", "nosniff");
}
