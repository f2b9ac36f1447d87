/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Texts of others that are to be UTF-8, and to be shown. */
#ifndef KUBE_NFTD_BASE_TEXT_H
#define KUBE_NFTD_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Reads the character that @text, which is not empty, begins with. Returns its length in bytes; 0
 * if it is not UTF-8. */
size_t utf8_decode(const char *text, uint32_t *code);

/** Whether all of @text is UTF-8. */
bool utf8_is_valid(const char *text);

/** Whether a character does something to a terminal or to how text is read: control characters,
 * line separators, marks of direction. */
bool utf8_is_control(uint32_t code);

/** A copy of @text for the caller to free; each byte that is not UTF-8 is U+FFFD. */
char *utf8_repair(const char *text);

/** @text with all but RFC 3986's unreserved characters percent-encoded, for the caller to free: fit
 * for one segment of a path or one value of a query. */
char *url_escape(const char *text);

#endif
