/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve.h"

#include <stdarg.h>

/* Most items of a list fit in; the text of a larger tree is copied as it grows. */
#define FIRST_BYTES 1024

static cJSON *make(const struct fact *fact)
{
    switch (fact->type) {
    case FACT_TEXT:
        return cJSON_CreateString(fact->text);
    case FACT_NUMBER:
        return cJSON_CreateNumber(fact->number);
    case FACT_FLAG:
        return cJSON_CreateBool(fact->number != 0);
    case FACT_NULL:
        break;
    }
    return cJSON_CreateNull();
}

void facts_add_all(cJSON *to, const struct fact *facts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cJSON_AddItemToObject(to, facts[i].key, make(&facts[i]));
}

void facts_format(cJSON *to, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    cJSON_AddStringToObject(to, key, text);
    free(text);
}

cJSON *facts_append(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(array, object);
    return object;
}

void facts_append_text(cJSON *array, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    cJSON_AddItemToArray(array, cJSON_CreateString(text));
    free(text);
}

const cJSON *facts_at(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

const char *facts_text_at(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(facts_at(object, key));
    return text ? text : "";
}

char *facts_print(const cJSON *facts)
{
    char *text = cJSON_PrintBuffered(facts, FIRST_BYTES, false);
    if (utf8_is_valid(text))
        return text;
    char *whole = utf8_repair(text);
    free(text);
    return whole;
}
