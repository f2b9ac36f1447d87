/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What values there are: their form and range, as a flag and a file have them, and where they land
 * in struct options. */
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

/* Has @take take each entry of @list, which is between commas, until one is refused. */
static int each_entry(const char *list, int (*take)(void *ctx, char *entry, struct error *err),
                      void *ctx, struct error *err)
{
    char *copy = xstrdup(list), *rest = *copy ? copy : NULL, *entry;
    int result = 0;
    while (result == 0 && (entry = strsep(&rest, ",")))
        result = take(ctx, entry, err);
    free(copy);
    return result;
}

/* ---- words, names and addresses ---- */

int setting_choice(const char *words, const char *word)
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
    char *list = xstrdup("");
    for (const char *before = ""; *words;) {
        size_t n = strcspn(words, " ");
        char *longer = xasprintf("%s%s%.*s", list, before, (int)n, words);
        free(list);
        list = longer;
        words += n + (words[n] == ' ');
        before = strchr(words, ' ') ? ", " : " and ";
    }
    error_set(err, "\"%s\" is none of %s", text, list);
    free(list);
    return -1;
}

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

static int check_taint(const char *text, struct error *err)
{
    struct taint pattern;
    int result = taint_parse(text, &pattern, err);
    taint_clear(&pattern);
    return result;
}

/* ---- switches, numbers and durations ---- */

/* All that kube-proxy's own reader of flags takes; NULL if @text is none of it. */
static const char *switch_value(const char *text)
{
    if (setting_choice("true True TRUE t T 1", text) >= 0)
        return "true";
    return setting_choice("false False FALSE f F 0", text) >= 0 ? "false" : NULL;
}

static bool is_integer(const char *text)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return isdigit((unsigned char)text[*text == '-']) && !*end && !errno &&
           llabs(number) <= UINT32_MAX;
}

static int fail_number(const struct setting *s, const char *text, struct error *err)
{
    return error_set(err, "\"%s\" is not a number from %" PRId64 " to %" PRId64, text, s->low,
                     s->high);
}

static int check_fraction(const char *text, struct error *err)
{
    char *end;
    double number = strtod(text, &end);
    if (isdigit((unsigned char)text[*text == '-']) && !*end && isfinite(number))
        return 0;
    return error_set(err, "\"%s\" is not a number", text);
}

static int64_t nanoseconds_of(const char *value)
{
    int64_t nanoseconds = 0;
    duration_parse(value, &nanoseconds);
    return nanoseconds;
}

static int check_duration(const char *text, struct error *err)
{
    int64_t nanoseconds;
    if (duration_parse(text, &nanoseconds))
        return 0;
    return error_set(err, "\"%s\" is not a duration like 30s, 1h30m or 0s", text);
}

/* ---- lists ---- */

static bool is_list(const struct setting *s)
{
    return s->type >= SETTING_CIDRS;
}

/* A list that is checked. */
struct list {
    const struct setting *setting;
    size_t n;
    bool primary; /* the first one of NodePort addresses */
};

static int check_entry(void *ctx, char *entry, struct error *err)
{
    static const char primary[] = "primary";
    struct list *list = ctx;
    bool is_primary = strcmp(entry, primary) == 0;
    char *equals;
    switch (list->setting->type) {
    case SETTING_CLUSTER_CIDR:
        return check_cidr(entry, err);
    case SETTING_NODE_PORTS:
        if (list->n++ > 0 && (is_primary || list->primary))
            return error_set(
                err, "\"%s\" is an additional entry, but \"primary\" must be the only one", entry);
        list->primary = is_primary;
        return is_primary ? 0 : check_cidr(entry, err);
    case SETTING_GATES:
        equals = strchr(entry, '=');
        if (!equals || equals == entry || !switch_value(equals + 1))
            return error_set(err, "\"%s\" is not NAME=true or NAME=false", entry);
        return 0;
    case SETTING_VMODULE:
        equals = strrchr(entry, '=');
        if (!equals || equals == entry || equals[1] == '-' || !is_integer(equals + 1))
            return error_set(err, "\"%s\" is not PATTERN=N", entry);
        return 0;
    default:
        return 0;
    }
}

/* ---- from flags ---- */

/* The form of a value. */
static int check_form(const struct setting *s, const char *text, struct error *err)
{
    struct listen_address listen;
    struct list list = {.setting = s};
    switch (s->type) {
    case SETTING_TEXT:
        return 0;
    case SETTING_NAME:
        return text[strspn(text, " \t\n\v\f\r")] ? 0 : error_set(err, "the name is empty");
    case SETTING_INTERFACE:
        return check_interface(text, err);
    case SETTING_ADDRESS:
        return check_address(text, err);
    case SETTING_TAINT:
        return check_taint(text, err);
    case SETTING_LISTEN:
        return listen_address_parse(text, 1, &listen, err);
    case SETTING_CHOICE:
        return setting_choice(s->choices, text) >= 0 ? 0 : fail_choice(s->choices, text, err);
    case SETTING_SWITCH:
    case SETTING_VERSION:
        return switch_value(text) ? 0 : error_set(err, "\"%s\" is neither true nor false", text);
    case SETTING_NUMBER:
        return is_integer(text) ? 0 : fail_number(s, text, err);
    case SETTING_FRACTION:
        return check_fraction(text, err);
    case SETTING_DURATION:
    case SETTING_SECONDS:
        return check_duration(text, err);
    default:
        return each_entry(text, check_entry, &list, err);
    }
}

char *setting_read_flag(const struct setting *s, const char *text, const char *before,
                        struct error *err)
{
    bool is_switch = s->type == SETTING_SWITCH || s->type == SETTING_VERSION;
    bool adds = is_list(s) && s->type != SETTING_VMODULE && before && *before;
    text = text ? text : "true";
    if (s->type == SETTING_VERSION && strcmp(text, "raw") == 0)
        return xstrdup(text);
    /* kube-proxy would call itself that version */
    if (s->type == SETTING_VERSION && text[0] == 'v' && isdigit((unsigned char)text[1]))
        return xstrdup("false");
    if (!*text && (s->traits & NOT_EMPTY)) {
        error_set(err, "the value is empty");
        return NULL;
    }
    bool may_be_empty = s->type < SETTING_SWITCH || s->type >= SETTING_CLUSTER_CIDR;
    if (!*text && may_be_empty)
        return xstrdup(adds ? before : "");
    char *value = adds ? xasprintf("%s,%s", before, text) : xstrdup(text);
    if (check_form(s, value, err)) {
        free(value);
        return NULL;
    }
    if (is_switch) {
        free(value);
        value = xstrdup(switch_value(text));
    }
    return value;
}

/* ---- from a file ---- */

int setting_wrong_type(const cJSON *json, const char *wanted, struct error *err)
{
    if (cJSON_IsArray(json) || cJSON_IsObject(json))
        return error_set(err, "%s is not %s", cJSON_IsArray(json) ? "a list" : "a mapping", wanted);
    char *printed = cJSON_PrintUnformatted(json);
    error_set(err, "%s%s is not %s",
              cJSON_IsString(json)   ? "the string "
              : cJSON_IsNumber(json) ? "the number "
                                     : "",
              printed, wanted);
    free(printed);
    return -1;
}

/* A value that is no list or mapping as text. The caller frees it. */
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

/* The member @name of an entry of vmodule as text; "" if there is none. */
static char *module_part(const cJSON *entry, const char *name, int type, const char *type_name,
                         struct error *err)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(entry, name);
    if (!member || cJSON_IsNull(member))
        return xstrdup(type == cJSON_Number ? "0" : "");
    if (check_type(member, type, type_name, err) == 0)
        return text_of(member);
    error_prefix(err, "%s", name);
    return NULL;
}

static char *module_text(const cJSON *entry, struct error *err)
{
    if (check_type(entry, cJSON_Object, "a mapping", err))
        return NULL;
    char *pattern = module_part(entry, "filePattern", cJSON_String, "a string", err);
    char *verbosity =
        pattern ? module_part(entry, "verbosity", cJSON_Number, "a number", err) : NULL;
    char *text = verbosity ? xasprintf("%s=%s", pattern, verbosity) : NULL;
    free(pattern);
    free(verbosity);
    return text;
}

/* An entry of a list or mapping as a flag has it. */
static char *entry_text(const struct setting *s, const cJSON *entry, struct error *err)
{
    if (s->type == SETTING_VMODULE)
        return module_text(entry, err);
    if (s->type != SETTING_GATES)
        return check_type(entry, cJSON_String, "a string", err) ? NULL : text_of(entry);
    if (check_type(entry, cJSON_True | cJSON_False, "true or false", err) == 0)
        return xasprintf("%s=%s", entry->string, cJSON_IsTrue(entry) ? "true" : "false");
    return NULL;
}

static char *read_list(const struct setting *s, const cJSON *json, struct error *err)
{
    struct list list = {.setting = s};
    char *value = NULL;
    const cJSON *entry;
    int i = 0;
    cJSON_ArrayForEach (entry, json) {
        char *text = entry_text(s, entry, err);
        i++;
        if (!text || check_entry(&list, text, err)) {
            free(text);
            free(value);
            if (entry->string)
                error_prefix(err, "%s", entry->string);
            else
                error_prefix(err, "entry %d", i);
            return NULL;
        }
        char *longer = value ? xasprintf("%s,%s", value, text) : xstrdup(text);
        free(text);
        free(value);
        value = longer;
    }
    return value ? value : xstrdup("");
}

static bool is_zero(const struct setting *s, const char *value)
{
    return s->type == SETTING_DURATION ? nanoseconds_of(value) == 0 : strtod(value, NULL) == 0;
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
    if (is_list(s))
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

/* ---- ranges ---- */

int setting_check(const struct setting *s, const char *value, struct error *err)
{
    long long number = strtoll(value, NULL, 10);
    int64_t nanoseconds = nanoseconds_of(value);
    struct list cidrs = {.setting = &(struct setting){.type = SETTING_CLUSTER_CIDR}};
    switch (s->type) {
    case SETTING_NUMBER:
        return number >= s->low && number <= s->high ? 0 : fail_number(s, value, err);
    case SETTING_DURATION:
    case SETTING_SECONDS:
        if (nanoseconds < 0)
            return error_set(err, "\"%s\" is below zero", value);
        if (nanoseconds == 0 && (s->traits & ABOVE_ZERO))
            return error_set(err, "\"%s\" is not above zero", value);
        if (s->type == SETTING_SECONDS && nanoseconds / NANOSECONDS > INT_MAX)
            return error_set(err, "\"%s\" is more than %d seconds", value, INT_MAX);
        return 0;
    case SETTING_CIDRS:
        return each_entry(value, check_entry, &cidrs, err);
    default:
        return 0;
    }
}

/* ---- as a file has them ---- */

static int add_text(void *ctx, char *entry, struct error *err)
{
    (void)err;
    cJSON_AddItemToArray(ctx, cJSON_CreateString(entry));
    return 0;
}

static int add_gate(void *ctx, char *entry, struct error *err)
{
    char *equals = strchr(entry, '=');
    (void)err;
    *equals = '\0';
    cJSON_DeleteItemFromObjectCaseSensitive(ctx, entry);
    cJSON_AddBoolToObject(ctx, entry, strcmp(switch_value(equals + 1), "true") == 0);
    return 0;
}

static int add_module(void *ctx, char *entry, struct error *err)
{
    char *equals = strrchr(entry, '=');
    cJSON *item = cJSON_CreateObject();
    (void)err;
    *equals = '\0';
    cJSON_AddStringToObject(item, "filePattern", entry);
    cJSON_AddNumberToObject(item, "verbosity", strtod(equals + 1, NULL));
    cJSON_AddItemToArray(ctx, item);
    return 0;
}

cJSON *setting_json(const struct setting *s, const char *value)
{
    bool is_gates = s->type == SETTING_GATES;
    value = value ? value : "";
    if (is_list(s) && !is_gates && !*value)
        return cJSON_CreateNull();
    if (is_list(s)) {
        cJSON *list = is_gates ? cJSON_CreateObject() : cJSON_CreateArray();
        each_entry(value,
                   is_gates                     ? add_gate
                   : s->type == SETTING_VMODULE ? add_module
                                                : add_text,
                   list, NULL);
        return list;
    }
    if (s->type == SETTING_SWITCH)
        return cJSON_CreateBool(strcmp(value, "true") == 0);
    if (s->type == SETTING_NUMBER || s->type == SETTING_FRACTION)
        return cJSON_CreateNumber(strtod(value, NULL));
    if ((s->type != SETTING_DURATION && s->type != SETTING_SECONDS) || !*value)
        return cJSON_CreateString(value);
    char *text = duration_format(nanoseconds_of(value));
    cJSON *json = cJSON_CreateString(text);
    free(text);
    return json;
}

/* ---- into options ---- */

static int land_cluster_cidr(void *ctx, char *entry, struct error *err)
{
    struct options *options = ctx;
    enum family family;
    struct cidr cidr;
    (void)err;
    if (cidr_parse(entry, &family, &cidr) && !options->has_cluster_cidr[family]) {
        options->has_cluster_cidr[family] = true;
        options->cluster_cidr[family] = cidr;
    }
    return 0;
}

static int land_node_ports(void *ctx, char *entry, struct error *err)
{
    struct node_port_addresses *addresses = ctx;
    enum family family;
    struct cidr cidr;
    (void)err;
    if (cidr_parse(entry, &family, &cidr))
        vec_push(&addresses->cidrs[family], cidr);
    else
        addresses->primary = true;
    return 0;
}

static int land_gate(void *ctx, char *entry, struct error *err)
{
    static const char gate[] = "AllowServiceExternalIPs=";
    (void)err;
    if (strncmp(entry, gate, strlen(gate)) == 0)
        *(bool *)ctx = strcmp(switch_value(entry + strlen(gate)), "true") != 0;
    return 0;
}

void setting_land(const struct setting *s, const char *value, struct options *options)
{
    void *place = (char *)options + s->offset;
    if (s->offset == 0)
        return;
    switch (s->type) {
    case SETTING_CHOICE:
        *(int *)place = setting_choice(s->choices, value);
        break;
    case SETTING_VERSION:
        *(int *)place = setting_choice("false true raw", value);
        break;
    case SETTING_SWITCH:
        *(bool *)place = strcmp(value, "true") == 0;
        break;
    case SETTING_NUMBER:
        *(int *)place = (int)strtoll(value, NULL, 10);
        break;
    case SETTING_FRACTION:
        *(double *)place = strtod(value, NULL);
        break;
    case SETTING_DURATION:
        *(double *)place = (double)nanoseconds_of(value) / NANOSECONDS;
        break;
    case SETTING_SECONDS:
        *(int *)place = (int)(nanoseconds_of(value) / NANOSECONDS);
        break;
    case SETTING_CLUSTER_CIDR:
        each_entry(value, land_cluster_cidr, options, NULL);
        break;
    case SETTING_NODE_PORTS:
        each_entry(value, land_node_ports, place, NULL);
        break;
    case SETTING_GATES:
        each_entry(value, land_gate, place, NULL);
        break;
    default:
        *(char **)place = xstrdup(value);
    }
}

void setting_clear(const struct setting *s, struct options *options)
{
    if (s->offset != 0 && s->type <= SETTING_LISTEN)
        free(*(char **)(void *)((char *)options + s->offset));
}
