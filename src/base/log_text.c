/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "log_text.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef VEC(char) text_vec;

#define KEY_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

static void put(text_vec *out, const char *text)
{
    vec_append(out, text, strlen(text));
}

/* ---- the message ---- */

/* In quotes, with those inside escaped. */
static void put_quoted(text_vec *out, const char *text)
{
    vec_push(out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            vec_push(out, '\\');
        vec_push(out, *text);
    }
    vec_push(out, '"');
}

/* Whether what was written last is a key with its '='. */
static bool ends_with_key(const text_vec *out)
{
    size_t n = out->n;
    if (n < 2 || out->v[n - 1] != '=')
        return false;
    for (n--; n > 0 && strchr(KEY_LETTERS, out->v[n - 1]); n--)
        ;
    return n + 1 < out->n && (n == 0 || out->v[n - 1] == ' ' || out->v[n - 1] == '(');
}

/* clang-tidy does not see that log_text() begins the list.
 * NOLINTBEGIN(clang-analyzer-valist.Uninitialized) */

/* @spec with the numbers that its stars stand for. */
static char *without_stars(const char *spec, va_list *args)
{
    text_vec out = {0};
    char number[16];
    for (; *spec; spec++) {
        if (*spec == '*') {
            snprintf(number, sizeof(number), "%d", va_arg(*args, int));
            put(&out, number);
        } else {
            vec_push(&out, *spec);
        }
    }
    vec_push(&out, '\0');
    return out.v;
}

/* @spec is "%.3f" or the like, of which the last letter is the conversion. */
static char *format_one(const char *spec, va_list *args)
{
    char letter = spec[strlen(spec) - 1];
    if (letter == 's')
        return xasprintf(spec, va_arg(*args, const char *));
    if (strchr("fgeFGE", letter))
        return xasprintf(spec, va_arg(*args, double));
    if (strstr(spec, "ll"))
        return xasprintf(spec, va_arg(*args, long long));
    if (strchr(spec, 'l'))
        return xasprintf(spec, va_arg(*args, long));
    if (strchr(spec, 'z'))
        return xasprintf(spec, va_arg(*args, size_t));
    return xasprintf(spec, va_arg(*args, int));
}

/* NOLINTEND(clang-analyzer-valist.Uninitialized) */

static void put_one(text_vec *out, const char *spec, va_list *args)
{
    char *whole = without_stars(spec, args), *text = format_one(whole, args);
    bool quoted = spec[strlen(spec) - 1] == 's' && ends_with_key(out) &&
                  (!*text || strpbrk(text, " \t\n\"="));
    if (quoted)
        put_quoted(out, text);
    else
        put(out, text);
    free(text);
    free(whole);
}

char *log_text(const char *format, va_list args)
{
    va_list copy;
    text_vec out = {0};
    va_copy(copy, args);
    while (*format) {
        size_t plain = strcspn(format, "%");
        vec_append(&out, format, plain);
        format += plain;
        if (!*format)
            break;
        size_t n = 1 + strspn(format + 1, "-+ #0123456789.*hlz");
        char *spec = xstrndup(format, n + (format[n] != '\0'));
        if (format[n] == '%')
            vec_push(&out, '%');
        else
            put_one(&out, spec, &copy);
        format += strlen(spec);
        free(spec);
    }
    va_end(copy);
    vec_push(&out, '\0');
    return out.v;
}

/* ---- its pairs ---- */

struct pair {
    const char *key, *value; /* in the message */
    size_t key_length, length;
    bool quoted; /* the value, of which the quotes are no part */
};

/* The end of a text in quotes that begins at @s: the other quote, or the end of all. */
static const char *quote_end(const char *s)
{
    for (s++; *s && *s != '"'; s++)
        s += *s == '\\' && s[1];
    return s;
}

/* Reads the word at *@at, and goes behind it. Returns whether it is a pair. */
static bool take_word(const char **at, struct pair *pair)
{
    const char *s = *at + (**at == '(');
    size_t n = strspn(s, KEY_LETTERS);
    bool is_pair = n > 0 && s[n] == '=', quoted = s[is_pair ? n + 1 : 0] == '"';
    const char *value = is_pair ? s + n + 1 + quoted : s;
    const char *end = quoted ? quote_end(is_pair ? s + n + 1 : s) : value + strcspn(value, " ");
    *at = end + (quoted && *end);
    while (!quoted && end > value && strchr(".,:;)", end[-1]))
        end--;
    *pair = (struct pair){s, value, n, (size_t)(end - value), quoted};
    return is_pair;
}

/* As JSON has them: no leading zeros, signs or dots. */
static bool is_number(const char *text, size_t length)
{
    static const char digits[] = "0123456789";
    size_t sign = length > 0 && *text == '-', whole = strspn(text + sign, digits), n = sign + whole;
    if (whole == 0 || (whole > 1 && text[sign] == '0'))
        return false;
    if (n < length && text[n] == '.') {
        size_t fraction = strspn(text + n + 1, digits);
        n += fraction ? fraction + 1 : 0;
    }
    return n == length;
}

static void put_value(text_vec *out, const struct pair *pair)
{
    if (!pair->quoted && is_number(pair->value, pair->length)) {
        vec_append(out, pair->value, pair->length);
        return;
    }
    vec_push(out, '"');
    for (size_t i = 0; i < pair->length; i++) {
        char byte = pair->value[i];
        bool escaped = pair->quoted && byte == '\\' && i + 1 < pair->length &&
                       strchr("\"\\", pair->value[i + 1]);
        if (escaped)
            byte = pair->value[++i];
        if (byte == '"' || byte == '\\')
            vec_push(out, '\\');
        vec_push(out, byte);
    }
    vec_push(out, '"');
}

static bool has_key(const struct pair *pair, const char *key)
{
    return strlen(key) == pair->key_length && memcmp(pair->key, key, pair->key_length) == 0;
}

/* How often a pair before this one has its key. */
static unsigned count_before(const struct pair *first, const struct pair *pair)
{
    unsigned n = 0;
    for (; first < pair; first++)
        n += first->key_length == pair->key_length &&
             memcmp(first->key, pair->key, pair->key_length) == 0;
    return n;
}

char *log_text_members(const char *message)
{
    VEC(struct pair) pairs = {0};
    text_vec out = {0};
    struct pair pair;
    for (const char *at = message; *at;) {
        if (take_word(&at, &pair) && !has_key(&pair, "ts") && !has_key(&pair, "level") &&
            !has_key(&pair, "logger") && !has_key(&pair, "msg"))
            vec_push(&pairs, pair);
        at += strspn(at, " ");
    }
    vec_each (&pairs, it) {
        unsigned before = count_before(pairs.v, it);
        put(&out, ",\"");
        vec_append(&out, it->key, it->key_length);
        if (before) {
            char number[16];
            snprintf(number, sizeof(number), "%u", before + 1);
            put(&out, number);
        }
        put(&out, "\":");
        put_value(&out, it);
    }
    vec_free(&pairs);
    vec_push(&out, '\0');
    return out.v;
}
