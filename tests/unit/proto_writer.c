/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto_writer.h"

written_field_vec written_fields;

void put(bytes *out, const void *data, size_t n)
{
    vec_reserve(out, n + 1);
    if (n > 0)
        memcpy(out->v + out->n, data, n);
    out->n += n;
}

static void put_varint(bytes *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put(out, &(char){(char)(value | 0x80)}, 1);
    put(out, &(char){(char)value}, 1);
}

void put_number(bytes *out, uint32_t number, uint64_t value)
{
    put_varint(out, (uint64_t)number << 3);
    put_varint(out, value);
}

void put_data(bytes *out, uint32_t number, const void *data, size_t n)
{
    put_varint(out, (uint64_t)number << 3 | 2);
    put_varint(out, n);
    put(out, data, n);
}

void put_text(bytes *out, uint32_t number, const char *text)
{
    put_data(out, number, text, strlen(text));
}

void put_bytes(bytes *out, uint32_t number, bytes *data)
{
    put_data(out, number, data->v, data->n);
    vec_free(data);
}

/* ---- which fields there are ---- */

static bool ends_with(char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    bool ends = n >= m && strcmp(text + n - m, end) == 0;
    if (ends)
        text[n - m] = '\0';
    return ends;
}

/* "Name: 1 key type, 2 key type[], 3 key type?" */
static void add_written_message(char *line)
{
    char *rest, *message = strtok_r(line, ":", &rest);
    for (char *field; (field = strtok_r(NULL, ",", &rest)) != NULL;) {
        char key[64], type[64];
        unsigned number;
        if (sscanf(field, " %u %63s %63s", &number, key, type) != 3)
            must(false, field);
        bool many = ends_with(type, "[]"), pointer = ends_with(type, "?");
        vec_push(&written_fields, (struct written_field){xstrdup(message), xstrdup(key),
                                                         xstrdup(type), number, many, pointer});
    }
}

static char *read_whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "r");
    must(file != NULL, path);
    bytes data = {0};
    for (size_t n = 1; n > 0;) {
        vec_reserve(&data, 4096);
        n = fread(data.v + data.n, 1, 4095, file);
        data.n += n;
    }
    fclose(file);
    data.v[data.n] = '\0';
    if (size)
        *size = data.n;
    return data.v;
}

char *read_recorded(const char *name, const char *part, size_t *size)
{
    char *path = xasprintf(SOURCE_DIR "/tests/recordings-protobuf/%s.http", name);
    size_t length, part_size = 0;
    char *all = read_whole(path, &length), *at = all, found[64] = "";
    while (at < all + length && strcmp(found, part) != 0) {
        at += part_size + (at > all);
        must(sscanf(at, "--- %63s %zu", found, &part_size) == 2, path);
        at = strchr(at, '\n') + 1;
    }
    must(strcmp(found, part) == 0, part);
    memmove(all, at, part_size);
    all[part_size] = '\0';
    *size = part_size;
    free(path);
    return all;
}

void read_written_fields(void)
{
    char *text = read_whole(SOURCE_DIR "/tests/apiserver/protobuf.py", NULL);
    char *begin = strstr(text, "MESSAGES = \"\"\"\n"), *rest;
    must(begin != NULL, "no MESSAGES");
    begin = strchr(begin, '\n') + 1;
    char *end = strstr(begin, "\"\"\"");
    must(end != NULL, "no end of MESSAGES");
    *end = '\0';
    for (char *fold; (fold = strstr(begin, "\n    ")) != NULL;)
        *fold = ' ';
    for (char *line = strtok_r(begin, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        add_written_message(line);
    free(text);
}

/* ---- values ---- */

static bool put_message(bytes *out, const char *message, const cJSON *json);

static bool put_time(bytes *out, const cJSON *json)
{
    int64_t seconds;
    if (!json || cJSON_IsNull(json))
        return true;
    if (!cJSON_IsString(json) || !clock_parse(json->valuestring, &seconds, NULL))
        return false;
    put_number(out, 1, (uint64_t)seconds);
    put_number(out, 2, 0);
    return true;
}

static bool put_int_or_string(bytes *out, const cJSON *json)
{
    bool is_string = cJSON_IsString(json);
    put_number(out, 1, is_string);
    put_number(out, 2, cJSON_IsNumber(json) ? (uint64_t)(int64_t)json->valuedouble : 0);
    put_text(out, 3, is_string ? json->valuestring : "");
    return !json || is_string || cJSON_IsNumber(json);
}

static bool is_integer(const cJSON *json)
{
    return cJSON_IsNumber(json) && fabs(json->valuedouble) < 0x1p63 &&
           json->valuedouble == (double)(int64_t)json->valuedouble;
}

static bool put_entry(bytes *out, const cJSON *json, bool of_texts)
{
    bytes entry = {0}, quantity = {0};
    put_text(&entry, 1, json->string ? json->string : "");
    const char *text = cJSON_IsString(json) ? json->valuestring : "";
    if (!of_texts) {
        put_text(&quantity, 1, text);
        put_bytes(&entry, 2, &quantity);
    } else {
        put_text(&entry, 2, text);
    }
    put(out, entry.v, entry.n);
    vec_free(&entry);
    return cJSON_IsString(json);
}

/* One value of @field; NULL: its zero. */
static bool put_one(bytes *out, const struct written_field *field, const cJSON *json)
{
    const char *type = field->type;
    bool fits = true;
    if (strcmp(type, "int") == 0 || strcmp(type, "bool") == 0) {
        bool is_bool = *type == 'b';
        int64_t number = json && is_integer(json) ? (int64_t)json->valuedouble : cJSON_IsTrue(json);
        put_number(out, field->number, (uint64_t)number);
        return !json || (is_bool ? cJSON_IsBool(json) : is_integer(json));
    }
    if (strcmp(type, "string") == 0) {
        put_text(out, field->number, json && cJSON_IsString(json) ? json->valuestring : "");
        return !json || cJSON_IsString(json);
    }
    bytes data = {0};
    if (strcmp(type, "Time") == 0) {
        fits = put_time(&data, json);
    } else if (strcmp(type, "IntOrString") == 0) {
        fits = put_int_or_string(&data, json);
    } else if (strcmp(type, "map") == 0 || strcmp(type, "quantities") == 0) {
        fits = put_entry(&data, json, *type == 'm');
    } else if (strcmp(type, "FieldsV1") == 0) {
        char *text = cJSON_PrintUnformatted(json);
        put_text(&data, 1, text);
        cJSON_free(text);
    } else {
        fits = put_message(&data, type, json);
    }
    put_bytes(out, field->number, &data);
    return fits;
}

bool is_always_there(const struct written_field *field)
{
    static const char *const fields[] = {
        "EndpointSlice.addressType", "ServicePort.port",    "Taint.key",    "Taint.effect",
        "NodeAddress.type",          "NodeAddress.address", "ForZone.name", "ForNode.name"};
    char name[128];
    if (isupper((unsigned char)*field->type) && strcmp(field->type, "Time") != 0 &&
        strcmp(field->type, "IntOrString") != 0)
        return !field->pointer && !field->many;
    snprintf(name, sizeof(name), "%s.%s", field->message, field->key);
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (strcmp(fields[i], name) == 0)
            return true;
    return false;
}

bool is_zero(const cJSON *json)
{
    return cJSON_IsFalse(json) || (cJSON_IsNumber(json) && json->valuedouble == 0) ||
           (cJSON_IsString(json) && !*json->valuestring);
}

/* Whether Go would write it so: what no pointer holds is left out if it is zero, else it is there.
 */
static bool is_as_go_writes(const struct written_field *field, const cJSON *json)
{
    if (field->pointer || field->many)
        return true;
    return is_always_there(field) ? json != NULL : !json || !is_zero(json);
}

static bool put_field(bytes *out, const struct written_field *field, const cJSON *json)
{
    const cJSON *entry;
    bool fits = true;
    if (json && cJSON_IsNull(json))
        json = NULL;
    if (!field->many)
        fits = json || !field->pointer ? put_one(out, field, json) : true;
    if (!field->many)
        return fits && is_as_go_writes(field, json);
    bool is_map = strcmp(field->type, "map") == 0 || strcmp(field->type, "quantities") == 0;
    cJSON_ArrayForEach (entry, json)
        fits &= put_one(out, field, entry) && !cJSON_IsNull(entry);
    return fits && (!json || (is_map ? cJSON_IsObject(json) : cJSON_IsArray(json)));
}

static bool put_message(bytes *out, const char *message, const cJSON *json)
{
    bool fits = !json || cJSON_IsObject(json), known = false;
    if (written_fields.n == 0)
        read_written_fields();
    vec_each (&written_fields, field) {
        if (strcmp(field->message, message) != 0)
            continue;
        known = true;
        fits &= put_field(out, field, cJSON_GetObjectItemCaseSensitive(json, field->key));
    }
    must(known, message);
    return fits;
}

/* ---- what is around objects ---- */

const char *text_of(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    return text ? text : "";
}

void put_envelope(bytes *out, const char *api_version, const char *kind, bytes *raw)
{
    bytes type = {0};
    put(out, "k8s", 4);
    put_text(&type, 1, api_version);
    put_text(&type, 2, kind);
    put_bytes(out, 1, &type);
    put_bytes(out, 2, raw);
    put_text(out, 3, "");
    put_text(out, 4, "");
}

bool put_body(bytes *out, const cJSON *json)
{
    bytes raw = {0};
    const char *kind = text_of(json, "kind");
    bool fits = true;
    char item_kind[64];
    snprintf(item_kind, sizeof(item_kind), "%s", kind);
    if (ends_with(item_kind, "List")) {
        bytes metadata = {0};
        const cJSON *item, *items = cJSON_GetObjectItemCaseSensitive(json, "items");
        fits =
            put_message(&metadata, "ListMeta", cJSON_GetObjectItemCaseSensitive(json, "metadata"));
        put_bytes(&raw, 1, &metadata);
        cJSON_ArrayForEach (item, items) {
            bytes data = {0};
            fits &= put_message(&data, item_kind, item);
            put_bytes(&raw, 2, &data);
        }
    } else {
        fits = put_message(&raw, kind, json);
    }
    put_envelope(out, text_of(json, "apiVersion"), kind, &raw);
    return fits;
}

void put_frame(bytes *out, const char *type, bytes *body)
{
    bytes event = {0}, object = {0};
    put_bytes(&object, 1, body);
    put_text(&event, 1, type);
    put_bytes(&event, 2, &object);
    uint32_t length = htobe32((uint32_t)event.n);
    put(out, &length, sizeof(length));
    put(out, event.v, event.n);
    vec_free(&event);
}
