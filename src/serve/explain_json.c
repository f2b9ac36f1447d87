/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/utf8.h"
#include "kube-nftd/serve/explain_parts.h"

#include <stdarg.h>

static cJSON *need(cJSON *json)
{
    if (!json)
        alloc_failed();
    return json;
}

cJSON *json_new_object(void)
{
    return need(cJSON_CreateObject());
}

cJSON *json_add_object(cJSON *to, const char *key)
{
    return need(cJSON_AddObjectToObject(to, key));
}

cJSON *json_add_array(cJSON *to, const char *key)
{
    return need(cJSON_AddArrayToObject(to, key));
}

cJSON *json_append_object(cJSON *array)
{
    cJSON *object = json_new_object();
    cJSON_AddItemToArray(array, object);
    return object;
}

void json_add_text(cJSON *to, const char *key, const char *text)
{
    if (!text) {
        json_add_null(to, key);
        return;
    }
    /* Objects may hold any bytes; JSON is UTF-8. */
    char *whole = utf8_repair(text);
    need(cJSON_AddStringToObject(to, key, whole));
    free(whole);
}

void json_add_format(cJSON *to, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    json_add_text(to, key, text);
    free(text);
}

void json_append_format(cJSON *array, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    char *whole = utf8_repair(text);
    cJSON_AddItemToArray(array, need(cJSON_CreateString(whole)));
    free(whole);
    free(text);
}

void json_add_number(cJSON *to, const char *key, double number)
{
    need(cJSON_AddNumberToObject(to, key, number));
}

void json_add_bool(cJSON *to, const char *key, bool value)
{
    need(cJSON_AddBoolToObject(to, key, value));
}

void json_add_null(cJSON *to, const char *key)
{
    need(cJSON_AddNullToObject(to, key));
}
