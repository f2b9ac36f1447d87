/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model.h"

#include "json_read.h"
#include "kube-nftd/values.h"
#include "object_text.h"
#include "proto_writer.h"
#include "script.h"

#include "source/messages.h"

#include <cjson/cJSON.h>
#include <math.h>

/* ---- JSON ---- */

/* @text with ' for ". */
static cJSON *parse(const char *text)
{
    char *copy = xstrdup(text);
    for (char *s = copy; *s; s++)
        if (*s == '\'')
            *s = '"';
    cJSON *json = cJSON_Parse(copy);
    ck_assert_msg(json != NULL, "no JSON: %s", text);
    free(copy);
    return json;
}

/* The object that most cases are about, as an API server writes it: cases/objects/NAME.json. */
static cJSON *base_of(const char *name)
{
    struct error err = {0};
    char *path = xasprintf("%s/tests/unit/cases/objects/%s.json", SOURCE_DIR, name);
    char *text = file_read(path, 1 << 16, &err);
    ck_assert_msg(text, "%s", err.text);
    cJSON *json = cJSON_Parse(text);
    ck_assert_ptr_nonnull(json);
    free(text);
    free(path);
    return json;
}

static void change_member(cJSON *json, const char *key, cJSON *value)
{
    if (cJSON_IsArray(json)) {
        int index = atoi(key);
        if (!value)
            cJSON_DeleteItemFromArray(json, index);
        else if (index < cJSON_GetArraySize(json))
            ck_assert(cJSON_ReplaceItemInArray(json, index, value));
        else
            cJSON_AddItemToArray(json, value);
        return;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(json, key);
    if (value)
        cJSON_AddItemToObject(json, key, value);
}

/* Puts the JSON text @value at @path, as "spec>ports>1>port"; "absent" takes away what is there. */
static void change(cJSON *json, const char *path, const char *value)
{
    char *copy = xstrdup(path), *key = copy;
    for (char *next; (next = strchr(key, '>')); key = next + 1) {
        *next = '\0';
        json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, atoi(key))
                                   : cJSON_GetObjectItemCaseSensitive(json, key);
        ck_assert_msg(json != NULL, "no %s in %s", key, path);
    }
    change_member(json, key, strcmp(value, "absent") == 0 ? NULL : parse(value));
    free(copy);
}

struct decoding {
    int expected;
    struct object *object;
    struct error *err;
    enum decode_result result;
    size_t values;
};

static int decode_value(void *ctx, const struct json_value *value, const struct json_value *list,
                        struct error *err)
{
    struct decoding *decoding = ctx;
    ck_assert_ptr_null(list);
    decoding->values++;
    decoding->result = object_decode(value, decoding->expected, decoding->object, decoding->err);
    return 0;
}

/* From the same in protobuf, too. */
static bool in_protobuf;

static int read_protobuf(const char *text, struct decoding *decoding, struct error *err)
{
    bytes body = {0};
    cJSON *json = cJSON_Parse(text);
    ck_assert(put_body(&body, json));
    struct value_reader *reader = proto_reader_new(&message_body, body.n, decode_value, decoding);
    int result = value_reader_feed(reader, body.v, body.n, err);
    if (result == 0)
        result = value_reader_finish(reader, err);
    value_reader_free(reader);
    vec_free(&body);
    cJSON_Delete(json);
    return result;
}

/* As the daemon does it: from the text. */
static enum decode_result decode_text(const char *text, int expected, struct object *object,
                                      struct error *err)
{
    struct decoding decoding = {.expected = expected, .object = object, .err = err};
    struct error bad = {0};
    int result = in_protobuf ? read_protobuf(text, &decoding, &bad)
                             : json_read(text, strlen(text), decode_value, &decoding, &bad);
    ck_assert_msg(result == 0, "%s", bad.text);
    ck_assert_uint_eq(decoding.values, 1);
    return decoding.result;
}

static enum decode_result decode_tree(const cJSON *tree, int expected, struct object *object,
                                      struct error *err)
{
    char *text = cJSON_PrintUnformatted(tree);
    enum decode_result result = decode_text(text, expected, object, err);
    cJSON_free(text);
    return result;
}

/* ---- objects as text ---- */

static void write_version_of(FILE *out, const struct object_version *version)
{
    char number[OBJECT_VERSION_SIZE];
    const char *text = object_version_text(version, number);
    ck_assert_ptr_nonnull(text);
    if (*text)
        fprintf(out, " version=%s", text);
}

static void write_object(FILE *out, const struct object *object)
{
    char number[OBJECT_VERSION_SIZE];
    ck_assert_ptr_null(object_version_text(&object->version, number));
    ck_assert_ptr_null(object->owner);
    if (object->kind == KIND_SERVICE) {
        write_service(out, object->service);
        write_version_of(out, &object->service->version);
        write_traffic(out, object->service);
    } else if (object->kind == KIND_ENDPOINTSLICE) {
        write_slice(out, object->slice);
        write_version_of(out, &object->slice->version);
    } else if (object->kind == KIND_SERVICECIDR) {
        write_service_cidr(out, object->service_cidr);
    } else {
        write_node(out, object->node);
    }
    if (object->trigger_time > 0)
        fprintf(out, " since=%.3f", object->trigger_time);
}

static char *base_name;
static struct object whole; /* the base as it is */
static char *whole_text;
static int expected_kind = -1; /* of a list that the object is in */

static void write_if_other(FILE *out, const char *what, const char *text, const char *expected)
{
    if (strcmp(text ? text : "not there", expected ? expected : "not there") != 0)
        fprintf(out, " [%s is %s]", what, text ? text : "not there");
}

/* A bad object has no payload; what it carries is written where it is not that of the base. */
static void write_bad(FILE *out, const struct object *object, const char *why)
{
    char number[OBJECT_VERSION_SIZE], base_number[OBJECT_VERSION_SIZE];
    const char *version = object_version_text(&object->version, number), *base = "";
    bool is_slice = whole.payload && whole.kind == KIND_ENDPOINTSLICE;
    if (whole.payload && whole.kind == KIND_SERVICE)
        base = object_version_text(&whole.service->version, base_number);
    ck_assert_ptr_null(object->payload);
    fprintf(out, "bad: %s", why);
    write_if_other(out, "id", object->id, whole.id);
    write_if_other(out, "version", version, base);
    write_if_other(out, "owner", object->owner, is_slice ? whole.slice->service_id : NULL);
}

/* What comes of the JSON @source: the object as text, "other", or "bad: " and why. */
static char *read_as(const char *source)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    struct object object;
    struct error err = {0};
    memset(&object, 0xee, sizeof(object));
    enum decode_result result = decode_text(source, expected_kind, &object, &err);
    ck_assert_int_eq(result == DECODE_BAD, err.text != NULL);
    if (result == DECODE_OK)
        write_object(out, &object);
    else if (result == DECODE_OTHER)
        fputs("other", out);
    else
        write_bad(out, &object, err.text);
    fclose(out);
    for (int i = 0; i < 2 && result != DECODE_OTHER; i++) { /* twice does no harm */
        object_clear(&object);
        ck_assert(!object.id && !object.payload);
    }
    error_clear(&err);
    return text;
}

static char *decoded(const cJSON *json)
{
    char *source = cJSON_PrintUnformatted(json);
    char *text = read_as(source);
    cJSON_free(source);
    return text;
}

/* Not what a server could not mean. */
static bool can_be_protobuf(const cJSON *json)
{
    bytes body = {0};
    bool known = false;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        known |= strcmp(text_of(json, "kind"), object_kind_name((enum object_kind)kind)) == 0;
    bool can = known && put_body(&body, json);
    vec_free(&body);
    return can;
}

/* @text with "<x*9>" written out. The caller frees it. */
static char *expand(const char *text)
{
    char *out_text;
    size_t length;
    FILE *out = open_memstream(&out_text, &length);
    while (*text) {
        const char *star = *text == '<' ? strchr(text, '*') : NULL;
        const char *end = star ? strchr(star, '>') : NULL;
        int n = end ? atoi(star + 1) : 1;
        for (int i = 0; i < n; i++)
            fprintf(out, "%.*s", end ? (int)(star - text - 1) : 1, end ? text + 1 : text);
        text = end ? end + 1 : text + 1;
    }
    fclose(out);
    return out_text;
}

/* Writes many times the same character that way, and what is no ASCII as write_bytes(). */
static void write_short(FILE *out, const char *text)
{
    while (*text) {
        const char same[] = {*text, '\0'};
        size_t n = strspn(text, same);
        if (n > 20)
            fprintf(out, "<%c*%zu>", *text, n);
        else
            write_bytes(out, text, n);
        text += n;
    }
    fputc('\n', out);
}

/* ---- cases ---- */

static void forget_base(void)
{
    object_clear(&whole);
    free(whole_text);
    free(base_name);
    whole_text = base_name = NULL;
    expected_kind = -1;
}

COMMAND(base)
{
    struct error err = {0};
    cJSON *json = base_of(words);
    forget_base();
    base_name = xstrdup(words);
    ck_assert_int_eq(decode_tree(json, -1, &whole, &err), DECODE_OK);
    whole_text = decoded(json);
    fprintf(out, "%s\n", whole_text);
    cJSON_Delete(json);
}

/* The next word of @text, which ends at a blank; what is in parentheses is one. */
static size_t word_length(const char *text)
{
    return *text == '(' ? strlen(text) : strcspn(text, " ");
}

static bool has_word(const char *text, const char *word, size_t length)
{
    for (; *text; text += strspn(text, " ")) {
        if (word_length(text) == length && strncmp(text, word, length) == 0)
            return true;
        text += word_length(text);
    }
    return false;
}

static bool write_missing(FILE *out, char sign, const char *from, const char *in)
{
    bool any = false;
    for (const char *word = from; *word; word += strspn(word, " ")) {
        size_t length = word_length(word);
        if (!has_word(in, word, length)) {
            fprintf(out, "%c%.*s ", sign, (int)length, word);
            any = true;
        }
        word += length;
    }
    return any;
}

/* What goes and what comes, or that nothing does. */
static char *difference(const char *text)
{
    char *differs;
    size_t length;
    if (strncmp(text, "bad: ", 5) == 0 || strcmp(text, "other") == 0)
        return xstrdup(text);
    FILE *out = open_memstream(&differs, &length);
    bool goes = write_missing(out, '-', whole_text, text),
         comes = write_missing(out, '+', text, whole_text);
    if (!goes && !comes)
        fputs("same ", out);
    fclose(out);
    differs[length - 1] = '\0';
    return differs;
}

/* Whether two objects are equal that differ so: what is ignored, or of the object around them, is
 * no difference. */
static bool is_equal(const char *differs)
{
    static const char *const ignored[] = {"same", "+(", "+since=", "-version=", "+version="};
    for (const char *word = differs; *word; word += strspn(word, " ")) {
        bool is_ignored = false;
        for (int i = 0; i < COUNT(ignored); i++)
            is_ignored |= strncmp(word, ignored[i], strlen(ignored[i])) == 0;
        if (!is_ignored)
            return false;
        word += word[1] == '(' ? strlen(word) : word_length(word);
    }
    return true;
}

/* Those that read the same are equal, and no others. */
static void check_equality(const cJSON *json, const char *differs)
{
    struct object object;
    struct error err = {0};
    bool same = is_equal(differs);
    if (whole.kind != KIND_SERVICE && whole.kind != KIND_ENDPOINTSLICE)
        return;
    enum decode_result result = decode_tree(json, -1, &object, &err);
    if (result == DECODE_OK) {
        bool equal = whole.kind == KIND_SERVICE ? service_equal(whole.service, object.service)
                                                : endpoint_slice_equal(whole.slice, object.slice);
        ck_assert_msg(equal == same, "%s, but %sequal", differs, equal ? "" : "not ");
    }
    if (result != DECODE_OTHER)
        object_clear(&object);
    error_clear(&err);
}

static char *read_change(const cJSON *json)
{
    char *text = decoded(json), *differs = difference(text);
    free(text);
    return differs;
}

/* The base with "PATH VALUE; PATH VALUE". */
static cJSON *changed_base(char *words)
{
    cJSON *json = base_of(base_name);
    char *all = expand(words), *next;
    for (char *rest = all; rest; rest = next) {
        next = strstr(rest, "; ");
        if (next) {
            *next = '\0';
            next += 2;
        }
        const char *path = script_word(&rest);
        change(json, path, rest);
    }
    free(all);
    return json;
}

/* The base with these changes, in JSON and in protobuf. */
COMMAND(set)
{
    cJSON *json = changed_base(words);
    char *differs = read_change(json);
    if (expected_kind < 0)
        check_equality(json, differs);
    in_protobuf = can_be_protobuf(json);
    char *again = read_change(json);
    in_protobuf = false;
    ck_assert_msg(strcmp(differs, again) == 0, "in protobuf: %s", again);
    write_short(out, differs);
    free(again);
    free(differs);
    cJSON_Delete(json);
}

/* What comes of the base with @text, as it is, at @path. */
static char *read_with(const char *path, const char *text)
{
    static const char here[] = "\"HERE\"";
    cJSON *json = base_of(base_name);
    change(json, path, "'HERE'");
    char *source = cJSON_PrintUnformatted(json), *at = strstr(source, here);
    char *changed = xasprintf("%.*s%s%s", (int)(at - source), source, text, at + strlen(here));
    char *read = read_as(changed), *differs = difference(read);
    free(read);
    free(changed);
    cJSON_free(source);
    cJSON_Delete(json);
    return differs;
}

/* "PATH TEXT": what cJSON would write otherwise. */
COMMAND(raw)
{
    const char *path = script_word(&words);
    char *text = expand(words);
    char *differs = read_with(path, text);
    write_short(out, differs);
    free(differs);
    free(text);
}

/* Texts that are none: of a field that is read they cost the object, of any other nothing. */
COMMAND(no_text)
{
    static const char *const bad[][2] = {{"\"a\xff\"", "\"a\xff\" is not UTF-8"},
                                         {"\"a\\u0000b\"", "\"a\xc0\x80\x62\" has a NUL"},
                                         {"\"\\ud800\"", "\"\xed\xa0\x80\" is not UTF-8"}};
    char *first = NULL;
    for (int i = 0; i < COUNT(bad); i++) {
        char *differs = read_with(words, bad[i][0]), *why = strstr(differs, bad[i][1]);
        char *text =
            why ? xasprintf("%.*sno text%s", (int)(why - differs), differs, why + strlen(bad[i][1]))
                : xstrdup(differs);
        if (first)
            ck_assert_str_eq(text, first);
        free(first);
        free(differs);
        first = text;
    }
    fprintf(out, "%s\n", first);
    free(first);
}

/* What is decoded is in a list of this kind; none: by itself. */
COMMAND(in_list)
{
    expected_kind = -1;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (strcmp(words, object_kind_name((enum object_kind)kind)) == 0)
            expected_kind = kind;
}

/* Where there is no base. */
COMMAND(decode)
{
    char *text = read_as(words);
    fprintf(out, "%s\n", text);
    free(text);
}

CASES("decode")

/* Of which kind a list of this kind is. */
COMMAND(list)
{
    int kind = object_kind_of_list(words);
    fprintf(out, "%s\n", kind < 0 ? "none" : object_kind_name((enum object_kind)kind));
}

/* ---- what is much, or the same ---- */

/* All the ports that there are, of all protocols, which must not take long; then one of them again.
 */
TEST(service_of_all_ports)
{
    static const char *const protocols[] = {"TCP", "UDP", "SCTP"};
    for (int again = 0; again < 2; again++) {
        char *text;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        fputs("{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},\"spec\":"
              "{\"clusterIP\":\"10.96.0.1\",\"ports\":[",
              out);
        for (size_t i = 0; i < COUNT(protocols); i++)
            for (int port = 1; port <= UINT16_MAX; port++)
                fprintf(out, "{\"protocol\":\"%s\",\"port\":%d},", protocols[i], port);
        fprintf(out, "{\"port\":%s,\"protocol\":\"UDP\"}]}}", again ? "7" : "0");
        fclose(out);
        expect_text(read_as(text), again ? "bad: Service default/a: spec.ports[196605]: UDP port "
                                           "7 is a duplicate [id is default/a]"
                                         : "bad: Service default/a: spec.ports[196605].port: 0 "
                                           "is not within 1..65535 [id is default/a]");
        free(text);
    }
}

/* All that ready, serving and terminating can be: absent, null, false, true. */
TESTS(slice_conditions, 4 * 4 * 4)
{
    static const char *const values[] = {"absent", "null", "false", "true"};
    static const char *const keys[] = {"endpoints>1>conditions>ready",
                                       "endpoints>1>conditions>serving",
                                       "endpoints>1>conditions>terminating"};
    static const bool when_absent[] = {true, true, false};
    static const uint8_t flags[] = {ENDPOINT_READY, ENDPOINT_SERVING, ENDPOINT_TERMINATING};
    cJSON *json = base_of("slice");
    uint8_t expected = 0;
    for (int i = 0, rest = _i; i < 3; i++, rest /= 4) {
        change(json, keys[i], values[rest % 4]);
        if (rest % 4 == 3 || (rest % 4 < 2 && when_absent[i]))
            expected |= flags[i];
    }
    struct object object;
    struct error err = {0};
    ck_assert_int_eq(decode_tree(json, -1, &object, &err), DECODE_OK);
    ck_assert_uint_eq(object.slice->endpoints.v[1].flags, expected);
    object_clear(&object);
    cJSON_Delete(json);
}

/* Names of nodes and in hints are interned, so that a comparison of pointers tells them. */
TEST(interned_names)
{
    const char *local = intern("node-c"), *node = intern("n1"), *zone = intern("z1");
    struct object object;
    struct error err = {0};
    cJSON *json = base_of("slice");
    change(json, "endpoints>1>hints", "{'forNodes':[{'name':'n1'}],'forZones':[{'name':'z1'}]}");
    ck_assert_int_eq(decode_tree(json, -1, &object, &err), DECODE_OK);
    const struct slice_endpoint *endpoints = object.slice->endpoints.v;
    ck_assert_ptr_eq(endpoints[0].node_name, local);
    ck_assert_ptr_null(endpoints[1].node_name);
    ck_assert_ptr_null(endpoints[0].hints);
    ck_assert_ptr_eq(endpoints[1].hints->names[0], node);
    ck_assert_ptr_eq(endpoints[1].hints->names[1], zone);
    object_clear(&object);
    cJSON_Delete(json);
    intern_release(local);
    intern_release(node);
    intern_release(zone);
}

UNIT_FIXTURE(NULL, forget_base)
