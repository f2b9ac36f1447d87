/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tokens of JSON mean (RFC 8259); for json_reader.c. */
#ifndef KUBE_NFTD_BASE_JSON_TEXT_H
#define KUBE_NFTD_BASE_JSON_TEXT_H

#include "kube-nftd/values.h"

#include <endian.h>

/* Sixteen bytes at once; a comparison makes all bits of a byte 1 where it holds. */
typedef int8_t json_bytes __attribute__((vector_size(16)));

/* Which of the eight bytes from memory is the first one that is not 0. */
static inline size_t json_first_byte(uint64_t marks)
{
    return (size_t)__builtin_ctzll(le64toh(marks)) / 8;
}

/** The first byte of a string's inside, from @p on, that is no plain part of it: a quote, a
 * backslash, one above ASCII, or a control character, which it must not have. There must be one,
 * and 15 bytes behind it that can be read. */
static inline char *json_text_run_end(char *p)
{
    for (;; p += sizeof(json_bytes)) {
        json_bytes bytes;
        uint64_t marks[2];
        memcpy(&bytes, p, sizeof(bytes));
        bytes = (json_bytes)((bytes == '"') | (bytes == '\\') | (bytes < 32)); /* signed */
        memcpy(marks, &bytes, sizeof(marks));
        if (marks[0])
            return p + json_first_byte(marks[0]);
        if (marks[1])
            return p + 8 + json_first_byte(marks[1]);
    }
}

/** The first byte from @p on that cannot be part of a number or a word; @end if there is none. */
char *json_text_scalar_end(char *p, const char *end);

/**
 * Replaces the escapes in the inside of a string (@length bytes) in place, and puts a NUL behind
 * it, where the closing quote was. What stands for no character that text can hold (half a
 * surrogate pair, U+0000) becomes bytes that are not UTF-8. False if an escape is none.
 */
bool json_text_unescape(char *text, size_t length);

/** Reads a number or a word into @value's type, number and integer. False if it is none. */
bool json_text_scalar(const char *text, size_t length, struct json_value *value);

#endif
