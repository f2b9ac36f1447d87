/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is said in JSON and in protobuf leads to the same objects. */
#include "kube-nftd/model.h"

#include "json_read.h"
#include "kube-nftd/values.h"
#include "object_text.h"
#include "objects.h"
#include "proto_writer.h"
#include "unit.h"

#include "source/messages.h"

#define LIMIT ((size_t)1024 * 1024)

/* ---- from bytes to a text of all that they say ---- */

struct run {
    FILE *out;
    int kind;
    size_t values;
};

static void write_decoded(FILE *out, const struct json_value *value, int kind)
{
    struct object object = {0};
    struct error err = {0};
    enum decode_result result = object_decode(value, kind, &object, &err);
    fprintf(out, "%d ", (int)result);
    if (result != DECODE_OTHER)
        write_whole_object(out, &object);
    fprintf(out, " %s\n", err.text ? err.text : "");
    object_clear(&object);
    error_clear(&err);
}

static void write_member(FILE *out, const struct json_value *value, const char *key)
{
    const struct json_value *member = json_member(value, key);
    if (json_is(member, JSON_NUMBER))
        fprintf(out, " %s=%.0f%s", key, member->number, member->integer ? "" : "?");
    else
        fprintf(out, " %s=%s", key, json_string(member) ? json_string(member) : "");
}

static void write_status(FILE *out, const struct json_value *value)
{
    const struct json_value *details = json_member(value, "details");
    const struct json_value *causes = json_member(details, "causes");
    write_member(out, value, "kind");
    write_member(out, value, "message");
    write_member(out, value, "reason");
    write_member(out, value, "code");
    write_member(out, details, "retryAfterSeconds");
    json_each (causes, cause)
        write_member(out, cause, "reason");
}

static int take(void *ctx, const struct json_value *value, const struct json_value *list,
                struct error *err)
{
    struct run *run = ctx;
    const struct json_value *object = json_member(value, "object");
    run->values++;
    if (list || json_string(json_member(json_member(value, "metadata"), "name"))) {
        write_decoded(run->out, value, run->kind);
    } else if (object) {
        write_member(run->out, value, "type");
        write_status(run->out, object);
        write_decoded(run->out, object, run->kind);
        const struct json_value *metadata = json_member(object, "metadata");
        write_member(run->out, metadata, "resourceVersion");
        write_member(run->out, json_member(metadata, "annotations"), "k8s.io/initial-events-end");
    } else {
        write_status(run->out, value);
        write_member(run->out, json_member(value, "metadata"), "resourceVersion");
        fprintf(run->out, " more=%d\n",
                json_string(json_member(json_member(value, "metadata"), "continue")) != NULL);
    }
    return 0;
}

/* How to cut: into pieces of @size bytes; 0: of random ones. */
static size_t piece(size_t size, size_t left, uint64_t *chance)
{
    size_t n = size ? size : 1 + dice(chance, 1 + dice(chance, 3000));
    return n < left ? n : left;
}

static char *finish_run(struct run *run, char **text, int result, struct error *err)
{
    fprintf(run->out, "%d %s", result, err->text ? err->text : "");
    error_clear(err);
    fclose(run->out);
    return *text;
}

static char *read_json(const char *bytes_, size_t n, int kind)
{
    char *text;
    size_t length;
    struct error err = {0};
    struct run run = {open_memstream(&text, &length), kind, 0};
    int result = json_read(bytes_, n, take, &run, &err);
    return finish_run(&run, &text, result, &err);
}

/* Each piece is a copy, so that a look too far is found. */
static char *read_proto(const bytes *all, bool watch, int kind, size_t size, uint64_t *chance)
{
    char *text;
    size_t length;
    struct error err = {0};
    struct run run = {open_memstream(&text, &length), kind, 0};
    struct value_reader *reader =
        proto_reader_new(watch ? &message_watch : &message_body, LIMIT, take, &run);
    int result = 0;
    for (size_t at = 0, n; at < all->n && result == 0; at += n) {
        n = piece(size, all->n - at, chance);
        char *copy = malloc(n);
        memcpy(copy, all->v + at, n);
        result = value_reader_feed(reader, copy, n, &err);
        free(copy);
    }
    if (result == 0)
        result = value_reader_finish(reader, &err);
    value_reader_free(reader);
    return finish_run(&run, &text, result, &err);
}

/* Makes all numbers behind @moment the same. */
static void drop_numbers(char *text, const char *moment)
{
    while (moment && (text = strstr(text, moment)) != NULL)
        for (text += strlen(moment); *text >= '0' && *text <= '9'; text++)
            *text = '0';
}

/* However @all is cut, it says @expected. */
static void expect_however_cut(const bytes *all, bool watch, int kind, const char *moment,
                               const char *expected)
{
    uint64_t chance = 1;
    const size_t sizes[] = {SIZE_MAX, 1, 2, 3, 5, 7, 16, 1000, 0, 0, 0, 0, 0, 0};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        char *actual = read_proto(all, watch, kind, sizes[i], &chance);
        drop_numbers(actual, moment);
        size_t same = 0;
        while (actual[same] && actual[same] == expected[same])
            same++;
        ck_assert_msg(strcmp(actual, expected) == 0, "in pieces of %zu: ...%.400s\nnot %.400s",
                      sizes[i], actual + same, expected + same);
        free(actual);
    }
}

/* ---- recordings ---- */

static const struct recording {
    const char *name;
    int kind;
    bool watch;
    const char *moment; /* behind this stands a number that is not the same in both */
} recordings[] = {
    {"200-list-services", KIND_SERVICE, false, NULL},
    {"201-list-endpointslices", KIND_ENDPOINTSLICE, false, NULL},
    {"202-list-servicecidrs", KIND_SERVICECIDR, false, NULL},
    {"203-list-node", KIND_NODE, false, NULL},
    {"204-list-empty", KIND_SERVICE, false, NULL},
    {"205-list-page", KIND_SERVICE, false, NULL},
    {"206-get-service", KIND_SERVICE, false, NULL},
    {"207-stream-services", KIND_SERVICE, true, NULL},
    {"208-stream-endpointslices", KIND_ENDPOINTSLICE, true, " resourceVersion="},
    {"209-stream-node", KIND_NODE, true, " resourceVersion="},
    {"210-stream-servicecidrs", KIND_SERVICECIDR, true, " resourceVersion="},
    {"216-watch-future", KIND_SERVICE, true, "current: "},
    {"218-not-found-object", -1, false, NULL},
    {"219-forbidden", -1, false, NULL},
    {"220-unauthorized", -1, false, NULL},
    {"221-bad-parameter", -1, false, NULL},
};

static void read_recording(const struct recording *recording, const char *name, bytes *out)
{
    out->v = read_recorded(recording->name, name, &out->n);
}

TEST_ROWS(pair, recordings)
{
    bytes json, proto;
    read_recording(row, row->watch ? "json.body.ndjson" : "json.body.json", &json);
    read_recording(row, "protobuf.body.pb", &proto);
    char *expected = read_json(json.v, json.n, row->kind);
    drop_numbers(expected, row->moment);
    expect_however_cut(&proto, row->watch, row->kind, row->moment, expected);
    free(expected);
    vec_free(&json);
    vec_free(&proto);
}

/* The test's writer knows what a real API server writes. */
TEST_ROWS(written_as_recorded, recordings)
{
    bytes json, proto, written = {0};
    if (row->watch || row->kind < 0)
        return;
    read_recording(row, "json.body.json", &json);
    read_recording(row, "protobuf.body.pb", &proto);
    cJSON *tree = cJSON_Parse(json.v);
    put_body(&written, tree);
    if (strncmp(row->name, "205", 3) != 0 && /* whose tokens differ */
        strncmp(row->name, "200", 3) != 0) { /* with a NUL, which cJSON does not know */
        ck_assert_uint_eq(written.n, proto.n);
        ck_assert_mem_eq(written.v, proto.v, proto.n);
    }
    cJSON_Delete(tree);
    vec_free(&written);
    vec_free(&json);
    vec_free(&proto);
}

/* ---- texts ---- */

static int take_name(void *ctx, const struct json_value *value, const struct json_value *list,
                     struct error *err)
{
    const struct json_value *name = json_member(json_member(value, "metadata"), "name");
    char **read = ctx;
    (void)list;
    (void)err;
    ck_assert_ptr_nonnull(name);
    *read = xasprintf("%d %s", name->type, name->string);
    return 0;
}

/* A name of @n bytes as it is read. */
static char *read_name(const char *name, size_t n)
{
    bytes metadata = {0}, service = {0}, body = {0};
    struct error err = {0};
    char *read = NULL;
    put_data(&metadata, 1, name, n);
    put_bytes(&service, 1, &metadata);
    put_envelope(&body, "v1", "Service", &service);
    struct value_reader *reader = proto_reader_new(&message_body, LIMIT, take_name, &read);
    ck_assert_int_eq(value_reader_feed(reader, body.v, body.n, &err), 0);
    ck_assert_int_eq(value_reader_finish(reader, &err), 0);
    value_reader_free(reader);
    vec_free(&body);
    return read;
}

/* One byte among others that are plain, at each place of texts up to this length. A NUL ends them.
 */
TESTS(odd_byte, 20)
{
    static const struct {
        char byte;
        enum json_type type;
        const char *text;
    } rows[] = {{'\0', JSON_BAD_STRING, "\xc0\x80"},
                {'\x80', JSON_BAD_STRING, "\x80"},
                {'\xff', JSON_BAD_STRING, "\xff"},
                {'\x01', JSON_STRING, "\x01"},
                {'\x7f', JSON_STRING, "\x7f"}};
    const int n = _i + 1;
    const char plain[] = "aaaaaaaaaaaaaaaaaaaa";
    for (int row = 0; row < COUNT(rows); row++)
        for (int at = 0; at < n; at++) {
            const int behind = rows[row].byte ? n - 1 - at : 0;
            char *expected = xasprintf("%d %.*s%s%.*s", rows[row].type, at, plain, rows[row].text,
                                       behind, plain),
                 *name = xstrndup(plain, (size_t)n);
            name[at] = rows[row].byte;
            char *read = read_name(name, (size_t)n);
            ck_assert_str_eq(read, expected);
            free(read);
            free(name);
            free(expected);
        }
}

/* ---- by chance ---- */

/* Objects of the API by chance, as JSON has them, with all fields that the stand-in API server
 * knows. Many are good; of what is wrong with the others, JSON and protobuf can say the same. */

/* What a field of that name may hold; words between '|'. All others hold any text. */
static const struct {
    const char *key, *values;
} random_texts[] = {
    {"name", "web|web|a.b-c|http|dns|||x/y"},
    {"namespace", "shop|shop|default||a/b"},
    {"uid", "c93f411a-6b18-4ce5-8a6d-183d719884ae|1|"},
    {"resourceVersion", "1|2107|18446744073709551615|007|opaque"},
    {"addressType", "IPv4|IPv4|IPv4|IPv6|FQDN|"},
    {"addresses", "10.0.0.1|10.0.0.2|fd00::1|fd00::2|nowhere|"},
    {"nodeName", "node-a|node-b||\xc3\xa9"},
    {"type", "ClusterIP|LoadBalancer|NodePort|ExternalName|InternalIP|ExternalIP|Odd|"},
    {"clusterIP", "10.96.0.1|10.96.0.1|fd00::5|None||10.96"},
    {"clusterIPs", "10.96.0.1|10.96.0.1|fd00::5|None"},
    {"ipFamilies", "IPv4|IPv4|IPv6"},
    {"protocol", "TCP|TCP|UDP|SCTP||ICMP"},
    {"externalIPs", "192.0.2.1|192.0.2.2|2001:db8::1|127.0.0.1|x"},
    {"loadBalancerSourceRanges", "10.0.0.0/8|192.0.2.0/24| fd00::/64 |0.0.0.0/0|10/8"},
    {"sessionAffinity", "None|ClientIP|ClientIP|Odd|"},
    {"externalTrafficPolicy", "Cluster|Local|Odd|"},
    {"internalTrafficPolicy", "Cluster|Local|Odd|"},
    {"ip", "203.0.113.1|203.0.113.2|2001:db8::2|"},
    {"ipMode", "VIP|VIP|Proxy|"},
    {"podCIDRs", "10.244.0.0/24|fd00:244::/64"},
    {"cidrs", "10.96.0.0/12|fd00:96::/112|10.97.0.0/16"},
    {"address", "192.0.2.9|fd00::9|host|"},
    {"effect", "NoSchedule|NoExecute|"},
};

/* Numbers, for any field that holds one. */
static const int random_numbers[] = {0, 1, 53, 80, 443, 8080, 30080, 65535, 600, 65536, -1, 86401};

/* Keys of maps. */
static const char *const random_labels[] = {
    "kubernetes.io/service-name",
    "topology.kubernetes.io/zone",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "k8s.io/initial-events-end",
    "a",
    "",
};

static const char *const random_words[] = {"web",      "zone-1", "2026-11-21T17:03:37Z",
                                           "true",     "",       "\xe6\x97\xa5\xe6\x9c\xac",
                                           "\xff\xfe", "a b"};

#define RANDOM_OF(list, chance) (list)[dice(chance, sizeof(list) / sizeof((list)[0]))]

static cJSON *random_text(const char *key, uint64_t *chance)
{
    const char *words = NULL;
    for (size_t i = 0; i < sizeof(random_texts) / sizeof(*random_texts); i++)
        if (strcmp(random_texts[i].key, key) == 0)
            words = random_texts[i].values;
    if (!words)
        return cJSON_CreateString(RANDOM_OF(random_words, chance));
    size_t n = 1;
    for (const char *s = words; *s; s++)
        n += *s == '|';
    for (unsigned skipped = dice(chance, (unsigned)n); skipped > 0; skipped--)
        words = strchr(words, '|') + 1;
    char *word = xstrndup(words, strcspn(words, "|"));
    cJSON *json = cJSON_CreateString(word);
    free(word);
    return json;
}

static cJSON *random_message(const char *message, uint64_t *chance);

static cJSON *random_one(const struct written_field *field, uint64_t *chance)
{
    if (strcmp(field->type, "int") == 0)
        return cJSON_CreateNumber(RANDOM_OF(random_numbers, chance));
    if (strcmp(field->type, "bool") == 0)
        return cJSON_CreateBool((cJSON_bool)dice(chance, 2));
    if (strcmp(field->type, "string") == 0)
        return random_text(field->key, chance);
    if (strcmp(field->type, "IntOrString") == 0)
        return dice(chance, 2) ? cJSON_CreateNumber(8080) : cJSON_CreateString("http");
    if (strcmp(field->type, "FieldsV1") == 0)
        return cJSON_Parse("{\"f:spec\":{\"f:ports\":{}}}");
    if (strcmp(field->type, "Time") != 0)
        return random_message(field->type, chance);
    char text[CLOCK_RFC3339_SIZE];
    clock_format((double)dice(chance, 2000000000) * (dice(chance, 4) ? 1 : -20), 0, text);
    return cJSON_CreateString(text);
}

static cJSON *random_many(const struct written_field *field, uint64_t *chance)
{
    bool is_map = strcmp(field->type, "map") == 0 || strcmp(field->type, "quantities") == 0;
    cJSON *list = is_map ? cJSON_CreateObject() : cJSON_CreateArray();
    unsigned n = dice(chance, 30) ? dice(chance, 4) : dice(chance, 100);
    for (unsigned i = 0; i < n; i++) {
        const char *key = RANDOM_OF(random_labels, chance);
        if (!is_map)
            cJSON_AddItemToArray(list, random_one(field, chance));
        else if (!cJSON_HasObjectItem(list, key))
            cJSON_AddStringToObject(list, key, RANDOM_OF(random_words, chance));
    }
    return list;
}

/* Most of what may be left out is there. */
static cJSON *random_message(const char *message, uint64_t *chance)
{
    cJSON *json = cJSON_CreateObject();
    if (written_fields.n == 0)
        read_written_fields();
    vec_each (&written_fields, field) {
        if (strcmp(field->message, message) != 0)
            continue;
        bool always = is_always_there(field);
        if (!always && dice(chance, 4) == 0)
            continue;
        cJSON *value = field->many ? random_many(field, chance) : random_one(field, chance);
        if (is_zero(value) && !always && !field->many && !field->pointer)
            cJSON_Delete(value);
        else
            cJSON_AddItemToObject(json, field->key, value);
    }
    return json;
}

static const struct {
    const char *kind, *list, *api_version;
} names[KIND_COUNT] = {
    [KIND_SERVICE] = {"Service", "ServiceList", "v1"},
    [KIND_ENDPOINTSLICE] = {"EndpointSlice", "EndpointSliceList", "discovery.k8s.io/v1"},
    [KIND_SERVICECIDR] = {"ServiceCIDR", "ServiceCIDRList", "networking.k8s.io/v1"},
    [KIND_NODE] = {"Node", "NodeList", "v1"},
};

static cJSON *named(cJSON *json, const char *kind, int of)
{
    cJSON_AddStringToObject(json, "kind", kind);
    cJSON_AddStringToObject(json, "apiVersion", names[of].api_version);
    return json;
}

static cJSON *random_list(int kind, uint64_t *chance)
{
    cJSON *list = named(cJSON_CreateObject(), names[kind].list, kind);
    cJSON *metadata = cJSON_AddObjectToObject(list, "metadata");
    cJSON_AddStringToObject(metadata, "resourceVersion", "2107");
    if (dice(chance, 2))
        cJSON_AddStringToObject(metadata, "continue", "token");
    cJSON *items = cJSON_AddArrayToObject(list, "items");
    for (unsigned n = dice(chance, 6); n > 0; n--)
        cJSON_AddItemToArray(items, random_message(names[kind].kind, chance));
    return list;
}

static void put_json(bytes *out, const cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    put(out, text, strlen(text));
    cJSON_free(text);
}

static void random_watch(int kind, uint64_t *chance, bytes *json, bytes *proto)
{
    static const char *const types[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"};
    for (unsigned n = 1 + dice(chance, 5); n > 0; n--) {
        bytes body = {0};
        const char *type = RANDOM_OF(types, chance);
        cJSON *event = cJSON_CreateObject();
        cJSON_AddStringToObject(event, "type", type);
        cJSON *object = named(random_message(names[kind].kind, chance), names[kind].kind, kind);
        cJSON_AddItemToObject(event, "object", object);
        put_json(json, event);
        ck_assert(put_body(&body, object));
        put_frame(proto, type, &body);
        cJSON_Delete(event);
    }
}

static void one_by_chance(uint64_t *chance)
{
    bytes json = {0}, proto = {0};
    int kind = (int)dice(chance, KIND_COUNT);
    bool watch = dice(chance, 2);
    if (watch) {
        random_watch(kind, chance, &json, &proto);
    } else {
        cJSON *list = random_list(kind, chance);
        put_json(&json, list);
        ck_assert(put_body(&proto, list));
        cJSON_Delete(list);
    }
    char *expected = read_json(json.v, json.n, kind);
    expect_however_cut(&proto, watch, kind, NULL, expected);
    free(expected);
    vec_free(&json);
    vec_free(&proto);
}

#define SEEDS 20

TESTS(by_chance, SEEDS)
{
    uint64_t chance = (uint64_t)unit_seed(_i) + 1;
    for (int n = unit_steps(100); n > 0; n--)
        one_by_chance(&chance);
}
