/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The values of settings in a file. */
#include "setting_value.h"

#include <math.h>
#include <string.h>

/* ---- from a file ---- */

int setting_wrong_type(const cJSON *json, const char *expected, struct error *err)
{
    if (cJSON_IsArray(json) || cJSON_IsObject(json))
        return error_set(err, "%s is not %s", cJSON_IsArray(json) ? "a list" : "a mapping",
                         expected);
    char *printed = cJSON_PrintUnformatted(json);
    error_set(err, "%s%s is not %s",
              cJSON_IsString(json)   ? "the string "
              : cJSON_IsNumber(json) ? "the number "
                                     : "",
              printed, expected);
    free(printed);
    return -1;
}

/* A scalar as text. The caller frees it. */
static char *text_of(const cJSON *json)
{
    if (cJSON_IsString(json))
        return xstrdup(json->valuestring);
    double number = json->valuedouble;
    if (cJSON_IsNumber(json) && number == trunc(number) && fabs(number) < 1e15)
        return xasprintf("%.0f", number + 0.0);
    return cJSON_PrintUnformatted(json);
}

static int check_type(const cJSON *json, int types, const char *name, struct error *err)
{
    return json->type & types ? 0 : setting_wrong_type(json, name, err);
}

/* "PATTERN=N" */
static char *module_text(const cJSON *entry, struct error *err)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(entry, "filePattern");
    const cJSON *verbosity = cJSON_GetObjectItemCaseSensitive(entry, "verbosity");
    pattern = cJSON_IsNull(pattern) ? NULL : pattern;
    verbosity = cJSON_IsNull(verbosity) ? NULL : verbosity;
    if (check_type(entry, cJSON_Object, "a mapping", err))
        return NULL;
    if (pattern && check_type(pattern, cJSON_String, "a string", err)) {
        error_prefix(err, "filePattern");
        return NULL;
    }
    if (verbosity && check_type(verbosity, cJSON_Number, "a number", err)) {
        error_prefix(err, "verbosity");
        return NULL;
    }
    char *number = verbosity ? text_of(verbosity) : xstrdup("0");
    char *text = xasprintf("%s=%s", pattern ? pattern->valuestring : "", number);
    free(number);
    return text;
}

/* An entry of a list or mapping in flag syntax. */
static char *entry_text(const struct setting *s, const cJSON *entry, struct error *err)
{
    char *text = NULL;
    if (s->type == SETTING_VMODULE)
        text = module_text(entry, err);
    else if (s->type != SETTING_GATES && check_type(entry, cJSON_String, "a string", err) == 0)
        text = text_of(entry);
    else if (s->type == SETTING_GATES &&
             check_type(entry, cJSON_True | cJSON_False, "true or false", err) == 0)
        text = xasprintf("%s=%s", entry->string, cJSON_IsTrue(entry) ? "true" : "false");
    if (!text || s->type == SETTING_CIDRS || setting_check_entry(s->type, text, err) == 0)
        return text;
    free(text);
    return NULL;
}

static char *read_list(const struct setting *s, const cJSON *json, struct error *err)
{
    char *value = xstrdup("");
    const cJSON *entry;
    int i = 0;
    cJSON_ArrayForEach (entry, json) {
        char *text = entry_text(s, entry, err);
        char *longer = text ? xasprintf("%s%s%s", value, i ? "," : "", text) : NULL;
        free(text);
        free(value);
        value = longer;
        i++;
        if (!value) {
            if (entry->string)
                error_prefix(err, "%s", entry->string);
            else
                error_prefix(err, "entry %d", i);
            return NULL;
        }
    }
    if (setting_check_form(s, value, err) == 0)
        return value;
    free(value);
    return NULL;
}

static bool is_zero(const struct setting *s, const char *value)
{
    return s->type == SETTING_DURATION ? setting_nanoseconds(value) == 0 : strtod(value, NULL) == 0;
}

char *setting_read_json(const struct setting *s, const cJSON *json, struct error *err)
{
    static const struct {
        int types; /* of cJSON; 0: a string */
        const char *name;
    } forms[] = {
        [SETTING_SWITCH] = {cJSON_True | cJSON_False, "true or false"},
        [SETTING_NUMBER] = {cJSON_Number, "a number"},
        [SETTING_FRACTION] = {cJSON_Number, "a number"},
        [SETTING_DURATION] = {cJSON_String, "a duration like \"30s\""},
        [SETTING_SECONDS] = {cJSON_String, "a duration like \"30s\""},
        [SETTING_CIDRS] = {cJSON_Array, "a list"},
        [SETTING_DEVICES] = {cJSON_Array, "a list"},
        [SETTING_NODE_PORTS] = {cJSON_Array, "a list"},
        [SETTING_GATES] = {cJSON_Object, "a mapping"},
        [SETTING_VMODULE] = {cJSON_Array, "a list"},
    };
    int types = forms[s->type].types ? forms[s->type].types : cJSON_String;
    if (cJSON_IsNull(json))
        return xstrdup("");
    if (s->traits & MAY_BE_NUMBER)
        types |= cJSON_Number;
    if (check_type(json, types, forms[s->type].name ? forms[s->type].name : "a string", err))
        return NULL;
    if (setting_is_list(s))
        return read_list(s, json, err);
    char *text = text_of(json);
    if (s->type == SETTING_DURATION && cJSON_IsNumber(json)) {
        char *with_unit = xasprintf("%sns", text);
        free(text);
        text = with_unit;
    }
    char *value = setting_read_flag(s, text, NULL, err);
    if (value && (s->traits & ZERO_IS_DEFAULT) && is_zero(s, value))
        *value = '\0';
    free(text);
    return value;
}

/* ---- to a file ---- */

static cJSON *list_json(const struct setting *s, const char *value)
{
    cJSON *list = s->type == SETTING_GATES ? cJSON_CreateObject() : cJSON_CreateArray();
    value = *value ? value : NULL;
    for (char *entry; (entry = setting_next_entry(&value)); free(entry)) {
        char *equals = strrchr(entry, '=');
        if (s->type == SETTING_GATES) {
            equals = strchr(entry, '=');
            *equals = '\0';
            cJSON_DeleteItemFromObjectCaseSensitive(list, entry);
            cJSON_AddBoolToObject(list, entry, strcmp(setting_switch(equals + 1), "true") == 0);
        } else if (s->type == SETTING_VMODULE) {
            cJSON *module = cJSON_CreateObject();
            *equals = '\0';
            cJSON_AddStringToObject(module, "filePattern", entry);
            cJSON_AddNumberToObject(module, "verbosity", strtod(equals + 1, NULL));
            cJSON_AddItemToArray(list, module);
        } else {
            cJSON_AddItemToArray(list, cJSON_CreateString(entry));
        }
    }
    return list;
}

cJSON *setting_json(const struct setting *s, const char *value)
{
    value = value ? value : "";
    if (setting_is_list(s))
        return *value || s->type == SETTING_GATES ? list_json(s, value) : cJSON_CreateNull();
    if (s->type == SETTING_SWITCH)
        return cJSON_CreateBool(strcmp(value, "true") == 0);
    if (s->type == SETTING_NUMBER || s->type == SETTING_FRACTION)
        return cJSON_CreateNumber(strtod(value, NULL));
    if ((s->type != SETTING_DURATION && s->type != SETTING_SECONDS) || !*value)
        return cJSON_CreateString(value);
    char *text = duration_format(setting_nanoseconds(value));
    cJSON *json = cJSON_CreateString(text);
    free(text);
    return json;
}
