/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tokens of JSON mean (RFC 8259); for json_reader.c. */
#ifndef KUBE_NFTD_BASE_JSON_TEXT_H
#define KUBE_NFTD_BASE_JSON_TEXT_H

#include "kube-nftd/base/json.h"

/** The first byte of a string's inside, from @p on, that is no plain part of it: a quote, a
 * backslash, or a control character, which it must not have; @end if there is none. */
char *json_text_plain_end(char *p, const char *end);

/** The first byte from @p on that cannot be part of a number or a word; @end if there is none. */
char *json_text_scalar_end(char *p, const char *end);

/**
 * Replaces the escapes in the inside of a string (@length bytes) in place, and puts a NUL behind
 * it, where the closing quote was. What stands for no character that text can hold (half a
 * surrogate pair, U+0000) becomes U+FFFD. False if an escape is none.
 */
bool json_text_unescape(char *text, size_t length);

/** Reads a number or a word into @value's type, number and integer. False if it is none. */
bool json_text_scalar(const char *text, size_t length, struct json_value *value);

#endif
