/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "setting.h"

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/if.h>
#include <math.h>
#include <string.h>

#define NANOSECONDS 1000000000

static cJSON *text_value(const char *text)
{
    return cJSON_CreateString(text);
}

/* ---- texts ---- */

static int check_interface(const char *text, struct error *err)
{
    if (strlen(text) >= IFNAMSIZ)
        return error_set(err, "\"%s\" is longer than %d bytes, the most for an interface name",
                         text, IFNAMSIZ - 1);
    for (const char *s = text; *s; s++)
        if (!isgraph((unsigned char)*s) || strchr("\"'\\/*:", *s))
            return error_set(err,
                             "\"%s\" is not an interface name: blanks, quotes, '\\', '/', '*', ':' "
                             "and non-ASCII characters are not allowed",
                             text);
    return 0;
}

static int check_address(const char *text, struct error *err)
{
    enum family family;
    struct address address;
    if (!address_parse(text, &family, &address))
        return error_set(err, "\"%s\" is not an IP address", text);
    return 0;
}

static int check_cidr(const char *text, struct error *err)
{
    enum family family;
    struct cidr cidr;
    if (!cidr_parse(text, &family, &cidr))
        return error_set(err, "\"%s\" is not a CIDR like 192.0.2.0/24 or 2001:db8::/64", text);
    return 0;
}

static int check_cidrs_text(const char *text, struct error *err)
{
    char *copy = xstrdup(text), *rest = copy, *entry;
    int result = 0;
    while (result == 0 && (entry = strsep(&rest, ",")))
        result = check_cidr(entry, err);
    free(copy);
    return result;
}

static int check_name(const char *text, struct error *err)
{
    while (isspace((unsigned char)*text))
        text++;
    return *text ? 0 : error_set(err, "the name is empty");
}

/* The place of @word among @words, or -1. */
static int choice_of(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (int i = 0; *words; i++) {
        size_t n = strcspn(words, " ");
        if (n == length && memcmp(words, word, n) == 0)
            return i;
        words += n + (words[n] == ' ');
    }
    return -1;
}

/* "\"x\" is none of a, b and c" */
static int fail_choice(const char *words, const char *text, struct error *err)
{
    char *list = NULL;
    while (*words) {
        size_t n = strcspn(words, " ");
        char *longer = xasprintf("%s%s%.*s", list ? list : "",
                                 !list      ? ""
                                 : words[n] ? ", "
                                            : " and ",
                                 (int)n, words);
        free(list);
        list = longer;
        words += n + (words[n] == ' ');
    }
    error_set(err, "\"%s\" is none of %s", text, list);
    free(list);
    return -1;
}

static int check_listen(const struct setting *s, const char *text, struct error *err)
{
    struct listen_address address;
    return listen_address_parse(text, (uint16_t)s->high, &address, err);
}

static int check_taint(const char *text, struct error *err)
{
    struct taint pattern;
    int result = taint_parse(text, &pattern, err);
    taint_clear(&pattern);
    return result;
}

/* A text that is not empty. */
static int check_text(const struct setting *s, const char *text, struct error *err)
{
    switch (s->type) {
    case SETTING_NAME:
        return check_name(text, err);
    case SETTING_INTERFACE:
        return check_interface(text, err);
    case SETTING_ADDRESS:
        return check_address(text, err);
    case SETTING_TAINT:
        return check_taint(text, err);
    case SETTING_LISTEN:
        return check_listen(s, text, err);
    case SETTING_CLUSTER_CIDR:
        return check_cidrs_text(text, err);
    case SETTING_CHOICE:
        return choice_of(s->choices, text) >= 0 ? 0 : fail_choice(s->choices, text, err);
    default:
        return 0;
    }
}

static cJSON *read_text(const struct setting *s, const char *text, struct error *err)
{
    if (!*text)
        return cJSON_CreateNull();
    return check_text(s, text, err) ? NULL : text_value(text);
}

/* ---- switches and numbers ---- */

/* All that kube-proxy's own reader of flags takes. */
static cJSON *read_switch(const char *text, struct error *err)
{
    if (!text || choice_of("true True TRUE t T 1", text) >= 0)
        return cJSON_CreateTrue();
    if (choice_of("false False FALSE f F 0", text) >= 0)
        return cJSON_CreateFalse();
    error_set(err, "\"%s\" is neither true nor false", text);
    return NULL;
}

static int fail_number(const struct setting *s, const char *text, struct error *err)
{
    return error_set(err, "\"%s\" is not a number from %" PRId64 " to %" PRId64, text, s->low,
                     s->high);
}

static cJSON *read_number(const struct setting *s, const char *text, struct error *err)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)text[*text == '-']) || *end || errno ||
        llabs(number) > UINT32_MAX) {
        fail_number(s, text, err);
        return NULL;
    }
    return cJSON_CreateNumber((double)number);
}

static cJSON *read_fraction(const char *text, struct error *err)
{
    char *end;
    double number = strtod(text, &end);
    if (!isdigit((unsigned char)text[*text == '-']) || *end || !isfinite(number)) {
        error_set(err, "\"%s\" is not a number", text);
        return NULL;
    }
    return cJSON_CreateNumber(number);
}

static int64_t nanoseconds_of(const cJSON *value)
{
    int64_t nanoseconds = 0;
    duration_parse(value->valuestring, &nanoseconds);
    return nanoseconds;
}

static cJSON *read_duration(const char *text, struct error *err)
{
    int64_t nanoseconds;
    if (duration_parse(text, &nanoseconds))
        return text_value(text);
    error_set(err, "\"%s\" is not a duration like 30s, 1h30m or 0s", text);
    return NULL;
}

/* ---- lists ---- */

/* Has @add put each entry between the commas of @text into a copy of @before, or into @empty. */
static cJSON *read_entries(const char *text, const cJSON *before, cJSON *empty,
                           int (*add)(cJSON *list, char *entry, struct error *err),
                           struct error *err)
{
    cJSON *list = before && !cJSON_IsNull(before) ? cJSON_Duplicate(before, true) : empty;
    if (list != empty)
        cJSON_Delete(empty);
    char *copy = xstrdup(text), *rest = *text ? copy : NULL, *entry;
    int result = 0;
    while (result == 0 && (entry = strsep(&rest, ",")))
        result = add(list, entry, err);
    free(copy);
    if (result == 0)
        return list;
    cJSON_Delete(list);
    return NULL;
}

static int add_entry(cJSON *list, char *entry, struct error *err)
{
    (void)err;
    cJSON_AddItemToArray(list, text_value(entry));
    return 0;
}

static int add_node_port_entry(cJSON *list, char *entry, struct error *err)
{
    static const char primary[] = "primary";
    const cJSON *first = cJSON_GetArrayItem(list, 0);
    bool is_primary = strcmp(entry, primary) == 0;
    if (first && (is_primary || strcmp(first->valuestring, primary) == 0))
        return error_set(err, "\"%s\" is an additional entry, but \"primary\" must be the only one",
                         entry);
    if (!is_primary && check_cidr(entry, err))
        return -1;
    return add_entry(list, entry, err);
}

/* Later ones win. */
static void set_gate(cJSON *gates, const char *name, bool value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(gates, name);
    cJSON_AddBoolToObject(gates, name, value);
}

static int add_gate(cJSON *gates, char *entry, struct error *err)
{
    char *equals = strchr(entry, '=');
    cJSON *value = equals && equals > entry ? read_switch(equals + 1, err) : NULL;
    if (!value)
        return error_set(err, "\"%s\" is not NAME=true or NAME=false", entry);
    *equals = '\0';
    set_gate(gates, entry, cJSON_IsTrue(value));
    cJSON_Delete(value);
    return 0;
}

static const struct setting verbosity_range = {.high = INT_MAX};

static int add_vmodule(cJSON *list, char *entry, struct error *err)
{
    char *equals = strrchr(entry, '=');
    cJSON *value = equals && equals > entry ? read_number(&verbosity_range, equals + 1, err) : NULL;
    if (!value || value->valuedouble < 0) {
        cJSON_Delete(value);
        return error_set(err, "\"%s\" is not PATTERN=N", entry);
    }
    *equals = '\0';
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "filePattern", entry);
    cJSON_AddItemToObject(item, "verbosity", value);
    cJSON_AddItemToArray(list, item);
    return 0;
}

/* ---- from flags ---- */

static cJSON *read_version(const char *text, struct error *err)
{
    if (text && strcmp(text, "raw") == 0)
        return text_value("raw");
    /* kube-proxy would call itself that version */
    if (text && text[0] == 'v' && isdigit((unsigned char)text[1]))
        return cJSON_CreateFalse();
    return read_switch(text, err);
}

cJSON *setting_read_text(const struct setting *s, const char *text, const cJSON *before,
                         struct error *err)
{
    switch (s->type) {
    case SETTING_SWITCH:
        return read_switch(text, err);
    case SETTING_VERSION:
        return read_version(text, err);
    case SETTING_NUMBER:
        return read_number(s, text, err);
    case SETTING_FRACTION:
        return read_fraction(text, err);
    case SETTING_DURATION:
    case SETTING_SECONDS:
    case SETTING_FLUSH:
        return read_duration(text, err);
    case SETTING_CIDRS:
        return read_entries(text, before, cJSON_CreateArray(), add_entry, err);
    case SETTING_NODE_PORTS:
        return read_entries(text, before, cJSON_CreateArray(), add_node_port_entry, err);
    case SETTING_GATES:
        return read_entries(text, before, cJSON_CreateObject(), add_gate, err);
    case SETTING_VMODULE:
        return read_entries(text, NULL, cJSON_CreateArray(), add_vmodule, err);
    case SETTING_PATH:
    case SETTING_TAINT:
        if (!*text) {
            error_set(err, "the value is empty");
            return NULL;
        }
        return check_text(s, text, err) ? NULL : text_value(text);
    default:
        return read_text(s, text, err);
    }
}

/* ---- from a file ---- */

/* "the number 5", for what is not what belongs there. The caller frees it. */
static char *describe(const cJSON *json)
{
    if (cJSON_IsArray(json))
        return xstrdup("a list");
    if (cJSON_IsObject(json))
        return xstrdup("a mapping");
    char *printed = cJSON_PrintUnformatted(json);
    char *text = xasprintf("%s%s",
                           cJSON_IsString(json)   ? "the string "
                           : cJSON_IsNumber(json) ? "the number "
                                                  : "",
                           printed);
    free(printed);
    return text;
}

int setting_wrong_type(const cJSON *json, const char *wanted, struct error *err)
{
    char *text = describe(json);
    error_set(err, "%s is not %s", text, wanted);
    free(text);
    return -1;
}

/* What a file has for each type, and what errors call that. */
static const struct {
    int types; /* of cJSON; 0: a string */
    const char *name;
} forms[] = {
    [SETTING_SWITCH] = {cJSON_True | cJSON_False, "true or false"},
    [SETTING_NUMBER] = {cJSON_Number, "a number"},
    [SETTING_FRACTION] = {cJSON_Number, "a number"},
    [SETTING_DURATION] = {cJSON_String, "a duration like \"30s\""},
    [SETTING_SECONDS] = {cJSON_String, "a duration like \"30s\""},
    [SETTING_FLUSH] = {cJSON_String | cJSON_Number, "a duration like \"30s\""},
    [SETTING_QUANTITY] = {cJSON_String | cJSON_Number, "a quantity"},
    [SETTING_CIDRS] = {cJSON_Array, "a list"},
    [SETTING_NODE_PORTS] = {cJSON_Array, "a list"},
    [SETTING_GATES] = {cJSON_Object, "a mapping"},
    [SETTING_VMODULE] = {cJSON_Array, "a list"},
};

/* Whether @json is what @type has in a file. */
static int check_form(const cJSON *json, enum setting_type type, struct error *err)
{
    int types = forms[type].types ? forms[type].types : cJSON_String;
    const char *name = forms[type].name ? forms[type].name : "a string";
    return json->type & types ? 0 : setting_wrong_type(json, name, err);
}

static char *number_text(const cJSON *json)
{
    if (json->valuedouble == trunc(json->valuedouble) && fabs(json->valuedouble) < 1e15)
        return xasprintf("%.0f", json->valuedouble + 0.0);
    return cJSON_PrintUnformatted(json);
}

static cJSON *list_from(const cJSON *json, int (*add)(cJSON *, char *, struct error *),
                        struct error *err)
{
    cJSON *list = cJSON_CreateArray();
    const cJSON *entry;
    int result = 0, i = 0;
    cJSON_ArrayForEach (entry, json) {
        result = check_form(entry, SETTING_TEXT, err);
        if (result == 0)
            result = add(list, entry->valuestring, err);
        if (result) {
            error_prefix(err, "entry %d", i + 1);
            break;
        }
        i++;
    }
    if (result == 0)
        return list;
    cJSON_Delete(list);
    return NULL;
}

static cJSON *gates_from(const cJSON *json, struct error *err)
{
    const cJSON *entry;
    cJSON_ArrayForEach (entry, json) {
        if (check_form(entry, SETTING_SWITCH, err)) {
            error_prefix(err, "%s", entry->string);
            return NULL;
        }
    }
    return cJSON_Duplicate(json, true);
}

static int check_vmodule(const cJSON *entry, struct error *err)
{
    const cJSON *pattern, *verbosity;
    if (check_form(entry, SETTING_GATES, err))
        return -1;
    pattern = cJSON_GetObjectItemCaseSensitive(entry, "filePattern");
    verbosity = cJSON_GetObjectItemCaseSensitive(entry, "verbosity");
    if (pattern && !cJSON_IsNull(pattern) && check_form(pattern, SETTING_TEXT, err))
        return error_prefix(err, "filePattern");
    if (verbosity && !cJSON_IsNull(verbosity) && check_form(verbosity, SETTING_NUMBER, err))
        return error_prefix(err, "verbosity");
    return 0;
}

static cJSON *vmodule_from(const cJSON *json, struct error *err)
{
    const cJSON *entry;
    int i = 0;
    cJSON_ArrayForEach (entry, json) {
        i++;
        if (check_vmodule(entry, err)) {
            error_prefix(err, "entry %d", i);
            return NULL;
        }
    }
    return cJSON_Duplicate(json, true);
}

static cJSON *from_number(const struct setting *s, const cJSON *json, struct error *err)
{
    char *text = number_text(json), *with_unit = NULL;
    cJSON *value;
    if (s->type == SETTING_QUANTITY)
        value = text_value(text);
    else if (s->type == SETTING_FRACTION)
        value = cJSON_Duplicate(json, true);
    else if (s->type == SETTING_FLUSH)
        value = read_duration(with_unit = xasprintf("%sns", text), err);
    else
        value = read_number(s, text, err);
    free(with_unit);
    free(text);
    return value;
}

static bool is_zero(const struct setting *s, const cJSON *value)
{
    return cJSON_IsNumber(value) ? value->valuedouble == 0
                                 : s->type == SETTING_DURATION && nanoseconds_of(value) == 0;
}

static cJSON *take_form(const struct setting *s, const cJSON *json, struct error *err)
{
    switch (s->type) {
    case SETTING_CIDRS:
        return list_from(json, add_entry, err);
    case SETTING_NODE_PORTS:
        return list_from(json, add_node_port_entry, err);
    case SETTING_VMODULE:
        return vmodule_from(json, err);
    case SETTING_GATES:
        return gates_from(json, err);
    case SETTING_SWITCH:
        return cJSON_Duplicate(json, true);
    default:
        return cJSON_IsNumber(json) ? from_number(s, json, err)
                                    : setting_read_text(s, json->valuestring, NULL, err);
    }
}

cJSON *setting_read_json(const struct setting *s, const cJSON *json, struct error *err)
{
    if (cJSON_IsNull(json))
        return cJSON_CreateNull();
    if (check_form(json, s->type, err))
        return NULL;
    cJSON *value = take_form(s, json, err);
    if (value && (s->traits & ZERO_IS_DEFAULT) && is_zero(s, value)) {
        cJSON_Delete(value);
        value = cJSON_CreateNull();
    }
    return value;
}

/* ---- ranges ---- */

static int check_number(const struct setting *s, const cJSON *value, struct error *err)
{
    if (value->valuedouble >= (double)s->low && value->valuedouble <= (double)s->high)
        return 0;
    char *text = number_text(value);
    fail_number(s, text, err);
    free(text);
    return -1;
}

static int check_duration(const struct setting *s, const cJSON *value, struct error *err)
{
    int64_t nanoseconds = nanoseconds_of(value);
    if (nanoseconds < 0)
        return error_set(err, "\"%s\" is below zero", value->valuestring);
    if (nanoseconds == 0 && (s->traits & ABOVE_ZERO))
        return error_set(err, "\"%s\" is not above zero", value->valuestring);
    if (s->type == SETTING_SECONDS && nanoseconds / NANOSECONDS > INT_MAX)
        return error_set(err, "\"%s\" is more than %d seconds", value->valuestring, INT_MAX);
    return 0;
}

static int check_cidrs(const cJSON *list, struct error *err)
{
    const cJSON *entry;
    cJSON_ArrayForEach (entry, list)
        if (check_cidr(entry->valuestring, err))
            return -1;
    return 0;
}

int setting_check(const struct setting *s, const cJSON *value, struct error *err)
{
    if (s->type == SETTING_CIDRS)
        return check_cidrs(value, err);
    if (s->type == SETTING_NUMBER && cJSON_IsNumber(value))
        return check_number(s, value, err);
    bool is_duration = s->type == SETTING_DURATION || s->type == SETTING_SECONDS;
    return is_duration && cJSON_IsString(value) ? check_duration(s, value, err) : 0;
}

/* ---- into options ---- */

static void land_cluster_cidr(const char *text, struct options *options)
{
    char *copy = xstrdup(text), *rest = copy, *entry;
    while ((entry = strsep(&rest, ","))) {
        enum family family;
        struct cidr cidr;
        if (!cidr_parse(entry, &family, &cidr) || options->has_cluster_cidr[family])
            continue;
        options->has_cluster_cidr[family] = true;
        options->cluster_cidr[family] = cidr;
    }
    free(copy);
}

static void land_node_ports(const cJSON *value, struct node_port_addresses *out)
{
    const cJSON *entry;
    cJSON_ArrayForEach (entry, value) {
        enum family family;
        struct cidr cidr;
        if (cidr_parse(entry->valuestring, &family, &cidr))
            vec_push(&out->cidrs[family], cidr);
    }
    out->primary = out->cidrs[FAMILY_IPV4].n + out->cidrs[FAMILY_IPV6].n == 0;
}

static int version_wish(const cJSON *value)
{
    if (cJSON_IsString(value))
        return VERSION_WANTED_RAW;
    return cJSON_IsTrue(value) ? VERSION_WANTED : VERSION_NOT_WANTED;
}

void setting_land(const struct setting *s, const cJSON *value, struct options *options)
{
    if (s->offset == 0 || !value || cJSON_IsNull(value))
        return;
    void *place = (char *)options + s->offset;
    switch (s->type) {
    case SETTING_SWITCH:
        *(bool *)place = cJSON_IsTrue(value);
        break;
    case SETTING_NUMBER:
        *(int *)place = (int)value->valuedouble;
        break;
    case SETTING_FRACTION:
        *(double *)place = value->valuedouble;
        break;
    case SETTING_DURATION:
        *(double *)place = (double)nanoseconds_of(value) / NANOSECONDS;
        break;
    case SETTING_SECONDS:
        *(int *)place = (int)(nanoseconds_of(value) / NANOSECONDS);
        break;
    case SETTING_CHOICE:
        *(int *)place = choice_of(s->choices, value->valuestring);
        break;
    case SETTING_VERSION:
        *(int *)place = version_wish(value);
        break;
    case SETTING_CLUSTER_CIDR:
        land_cluster_cidr(value->valuestring, options);
        break;
    case SETTING_NODE_PORTS:
        land_node_ports(value, place);
        break;
    default:
        *(char **)place = xstrdup(value->valuestring);
    }
}

static bool is_owned(enum setting_type type)
{
    return type <= SETTING_LISTEN;
}

void setting_clear(const struct setting *s, struct options *options)
{
    if (s->offset != 0 && is_owned(s->type))
        free(*(char **)(void *)((char *)options + s->offset));
}
