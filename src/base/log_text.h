/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the message of a log line is made of: words and key=value pairs, whose values readers of
 * logfmt understand. For log.c. */
#ifndef KUBE_NFTD_BASE_LOG_TEXT_H
#define KUBE_NFTD_BASE_LOG_TEXT_H

#include <stdarg.h>

/** The message, for the caller to free. The text of a "key=%s" is in double quotes if it has
 * blanks, quotes or '=' in it, or nothing at all. */
char *log_text(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/** The pairs of @message as members of a JSON object, each behind a comma: ,"key":"value",... for
 * the caller to free. What is a number in JSON is one; a key that comes again is "key2". Without
 * what every line has. */
char *log_text_members(const char *message);

#endif
