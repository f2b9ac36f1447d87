/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve.h"

#include <stdarg.h>
#include <string.h>

/* Fits most items of a list; larger texts grow by copying. */
#define FIRST_BYTES 1024

void facts_add_all(cJSON *to, const struct fact *facts, size_t n)
{
    for (const struct fact *it = facts; it < facts + n; it++) {
        if (it->type == FACT_TEXT)
            cJSON_AddStringToObject(to, it->key, it->text);
        else if (it->type == FACT_NUMBER)
            cJSON_AddNumberToObject(to, it->key, it->number);
        else if (it->type == FACT_FLAG)
            cJSON_AddBoolToObject(to, it->key, it->number != 0);
        else
            cJSON_AddNullToObject(to, it->key);
    }
}

void facts_format(cJSON *to, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    if (key)
        cJSON_AddStringToObject(to, key, text);
    else
        cJSON_AddItemToArray(to, cJSON_CreateString(text));
    free(text);
}

void facts_add_id(cJSON *to, const char *id)
{
    const char *slash = strchr(id, '/');
    facts_format(to, "namespace", "%.*s", (int)(slash - id), id);
    facts_add(to, fact_text("name", slash + 1));
}

cJSON *facts_append(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(array, object);
    return object;
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
