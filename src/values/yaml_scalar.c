/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "yaml_scalar.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* An integer with a prefix: 017 is octal, too. */
static bool read_integer(const char *text, double *number)
{
    static const struct {
        const char *prefix, *digits;
        int base;
    } forms[] = {{"0x", "0123456789abcdefABCDEF", 16},
                 {"0o", "01234567", 8},
                 {"0b", "01", 2},
                 {"0", "01234567", 8}};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const size_t prefix = strlen(forms[i].prefix);
        const char *digits = text + prefix;
        if (strncasecmp(text, forms[i].prefix, prefix) != 0 || !*digits ||
            digits[strspn(digits, forms[i].digits)])
            continue;
        errno = 0;
        *number = (double)strtoull(digits, NULL, forms[i].base);
        return errno == 0;
    }
    return false;
}

/* False also for infinity and NaN, which JSON lacks. */
static bool read_yaml_number(const char *text, double *number)
{
    const double sign = *text == '-' ? -1 : 1;
    char *end;
    text += *text == '-' || *text == '+';
    if (!read_integer(text, number)) {
        if ((!isdigit((unsigned char)*text) && *text != '.') ||
            text[strspn(text, "0123456789.eE+-")])
            return false;
        *number = strtod(text, &end);
        if (end == text || *end)
            return false;
    }
    *number *= sign;
    return isfinite(*number);
}

/* The same with underscores among the digits. */
static bool read_spaced_number(const char *text, double *number)
{
    size_t n = 0;
    if (!isdigit((unsigned char)*text) && *text != '-' && *text != '+')
        return false;
    char *plain = xstrdup(text);
    for (; *text; text++)
        if (*text != '_')
            plain[n++] = *text;
    plain[n] = '\0';
    const bool is_number = read_yaml_number(plain, number);
    free(plain);
    return is_number;
}

enum json_type yaml_scalar_type(const char *text, double *number)
{
    static const struct {
        const char *text;
        enum json_type type;
    } words[] = {
        {"", JSON_NULL},     {"~", JSON_NULL},      {"null", JSON_NULL},   {"Null", JSON_NULL},
        {"NULL", JSON_NULL}, {"y", JSON_TRUE},      {"Y", JSON_TRUE},      {"yes", JSON_TRUE},
        {"Yes", JSON_TRUE},  {"YES", JSON_TRUE},    {"true", JSON_TRUE},   {"True", JSON_TRUE},
        {"TRUE", JSON_TRUE}, {"on", JSON_TRUE},     {"On", JSON_TRUE},     {"ON", JSON_TRUE},
        {"n", JSON_FALSE},   {"N", JSON_FALSE},     {"no", JSON_FALSE},    {"No", JSON_FALSE},
        {"NO", JSON_FALSE},  {"false", JSON_FALSE}, {"False", JSON_FALSE}, {"FALSE", JSON_FALSE},
        {"off", JSON_FALSE}, {"Off", JSON_FALSE},   {"OFF", JSON_FALSE},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].text, text) == 0)
            return words[i].type;
    const bool is_number =
        strchr(text, '_') ? read_spaced_number(text, number) : read_yaml_number(text, number);
    return is_number ? JSON_NUMBER : JSON_STRING;
}
