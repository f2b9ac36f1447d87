/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Values of JSON as text, for comparisons. */
#ifndef KUBE_NFTD_TESTS_JSON_PRINT_H
#define KUBE_NFTD_TESTS_JSON_PRINT_H

#include "unit.h"

#include "kube-nftd/base/json.h"

#include <stdio.h>

static inline void write_value(FILE *out, const struct json_value *value);

static inline void write_all(FILE *out, const struct json_value *container, const char *brackets)
{
    bool first = true;
    fputc(brackets[0], out);
    json_each (container, value) {
        if (!first)
            fputc(',', out);
        first = false;
        ck_assert_int_eq(value->key != NULL, container->type == JSON_OBJECT);
        ck_assert_uint_eq(value->key_length, value->key ? json_key_length(strlen(value->key)) : 0);
        if (value->key)
            fprintf(out, "\"%s\":", value->key);
        write_value(out, value);
    }
    fputc(brackets[1], out);
}

/* As JSON without blanks; what was an escape is written as it is. */
static inline void write_value(FILE *out, const struct json_value *value)
{
    static const char *const words[] = {
        [JSON_NULL] = "null", [JSON_FALSE] = "false", [JSON_TRUE] = "true"};
    if (value->type == JSON_OBJECT || value->type == JSON_ARRAY)
        write_all(out, value, value->type == JSON_OBJECT ? "{}" : "[]");
    else if (value->type == JSON_STRING)
        fprintf(out, "\"%s\"", value->string);
    else if (value->type == JSON_BAD_STRING)
        fprintf(out, "bad \"%s\"", value->string);
    else if (value->type == JSON_NUMBER)
        fprintf(out, "%.17g", value->number);
    else
        fputs(words[value->type], out);
}

#endif
