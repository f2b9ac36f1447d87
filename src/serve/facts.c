/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve.h"

#include "kube-nftd/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Most items of a list fit in; the text of a larger tree is copied as it grows. */
#define FIRST_BYTES 1024

static cJSON *make_text(const char *text)
{
    if (utf8_is_valid(text))
        return cJSON_CreateString(text);
    char *whole = utf8_repair(text);
    cJSON *json = cJSON_CreateString(whole);
    free(whole);
    return json;
}

static cJSON *make(const struct fact *fact)
{
    switch (fact->type) {
    case FACT_TEXT:
        return make_text(fact->text);
    case FACT_NUMBER:
        return cJSON_CreateNumber(fact->number);
    case FACT_FLAG:
        return cJSON_CreateBool(fact->number != 0);
    case FACT_NULL:
        break;
    }
    return cJSON_CreateNull();
}

static cJSON *add(cJSON *to, const char *key, cJSON *item)
{
    cJSON_AddItemToObject(to, key, item);
    return item;
}

void facts_add_all(cJSON *to, const struct fact *facts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(to, facts[i].key, make(&facts[i]));
}

cJSON *facts_new(void)
{
    return cJSON_CreateObject();
}

cJSON *facts_object(cJSON *to, const char *key)
{
    return add(to, key, facts_new());
}

cJSON *facts_array(cJSON *to, const char *key)
{
    return add(to, key, cJSON_CreateArray());
}

cJSON *facts_append(cJSON *array)
{
    cJSON *object = facts_new();
    cJSON_AddItemToArray(array, object);
    return object;
}

void facts_append_text(cJSON *array, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    cJSON_AddItemToArray(array, make_text(text));
    free(text);
}

void facts_format(cJSON *to, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    add(to, key, make_text(text));
    free(text);
}

void facts_add_id(cJSON *to, const char *id)
{
    size_t length = strcspn(id, "/");
    facts_format(to, "namespace", "%.*s", (int)length, id);
    facts_add(to, fact_text("name", id + length + 1));
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
    return cJSON_PrintBuffered(facts, FIRST_BYTES, false);
}
