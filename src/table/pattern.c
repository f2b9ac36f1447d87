/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pattern.h"

#include "kube-nftd/table.h"

#include <ctype.h>
#include <linux/if.h>
#include <string.h>

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " ");
}

static size_t word_length(const char *s)
{
    return strcspn(s, " ");
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool take_name(const char *text, size_t length, size_t limit, char out[NAME_SIZE])
{
    if (length == 0 || length >= limit)
        return false;
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

/* "cni0" or "cali*": the name without its quotes. */
static bool take_interface(const char *text, size_t length, char out[NAME_SIZE])
{
    if (length < 2 || text[0] != '"' || text[length - 1] != '"' || is_word(text, length, "\"*\""))
        return false;
    return !memchr(text + 1, '"', length - 2) &&
           take_name(text + 1, length - 2, text[length - 2] == '*' ? IFNAMSIZ + 1 : IFNAMSIZ, out);
}

/* @length characters, of which the last @behind do not belong to the number. */
static bool take_number(const char *text, size_t length, size_t behind, uint32_t *out)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 0);
    *out = (uint32_t)number;
    return isdigit((unsigned char)*text) && end == text + length - behind && number <= UINT32_MAX;
}

static bool take_classid(const char *text, size_t length, uint32_t *out)
{
    char *colon, *end;
    unsigned long high = strtoul(text, &colon, 16);
    if (!isxdigit((unsigned char)*text) || *colon != ':' || !isxdigit((unsigned char)colon[1]))
        return false;
    unsigned long low = strtoul(colon + 1, &end, 16);
    *out = (uint32_t)(high << 16 | low);
    return end == text + length && high <= UINT16_MAX && low <= UINT16_MAX;
}

static bool take_mask(const char *text, size_t length, enum family family, struct address *out)
{
    char name[NAME_SIZE];
    enum family of;
    return take_name(text, length, NAME_SIZE, name) && address_parse(name, &of, out) &&
           of == family;
}

/* Whether the word of a pattern fits the word of the text. */
static bool take_word(const char *pattern, size_t pattern_length, const char *text, size_t length,
                      enum family family, struct words *words)
{
    if (is_word(pattern, pattern_length, "IP"))
        return is_word(text, length, nft_family_name(family));
    if (is_word(pattern, pattern_length, "N"))
        return take_number(text, length, 0, &words->number);
    if (is_word(pattern, pattern_length, "Ns"))
        return length > 0 && text[length - 1] == 's' &&
               take_number(text, length, 1, &words->number);
    if (is_word(pattern, pattern_length, "MODULUS"))
        return take_number(text, length, 0, &words->terms.modulus);
    if (is_word(pattern, pattern_length, "MASK"))
        return take_mask(text, length, family, &words->terms.mask);
    if (is_word(pattern, pattern_length, "CLASSID"))
        return take_classid(text, length, &words->number);
    if (is_word(pattern, pattern_length, "BITS"))
        return take_classid(text, length, &words->terms.bits);
    if (is_word(pattern, pattern_length, "@S"))
        return *text == '@' && take_name(text + 1, length - 1, NAME_SIZE, words->name);
    if (is_word(pattern, pattern_length, "C"))
        return take_name(text, length, NAME_SIZE, words->name);
    if (is_word(pattern, pattern_length, "I"))
        return take_interface(text, length, words->name);
    return length == pattern_length && memcmp(text, pattern, length) == 0;
}

/* Takes a term; the rest of the text, or NULL. */
static const char *match_term(const char *text, enum family family, struct words *words)
{
    for (size_t i = 0; i < TERMS; i++) {
        const char *rest = pattern_match(terms[i].pattern, text, family, words);
        if (!rest)
            continue;
        if (words->terms.n == TERM_LIST_LENGTH)
            return NULL;
        words->terms.v[words->terms.n++] = &terms[i];
        return rest;
    }
    return NULL;
}

/* Takes terms with dots between them; the rest of the text, or NULL. */
static const char *match_key(const char *text, enum family family, struct words *words)
{
    const char *rest = match_term(text, family, words);
    while (rest && strncmp(skip_blanks(rest), ". ", 2) == 0)
        rest = match_term(skip_blanks(rest) + 1, family, words);
    return rest;
}

const char *pattern_match(const char *pattern, const char *text, enum family family,
                          struct words *words)
{
    do {
        size_t length = word_length(pattern);
        text = skip_blanks(text);
        if (is_word(pattern, length, "KEY"))
            text = match_key(text, family, words);
        else if (take_word(pattern, length, text, word_length(text), family, words))
            text += word_length(text);
        else
            return NULL;
        pattern = skip_blanks(pattern + length);
    } while (text && *pattern);
    return text;
}
