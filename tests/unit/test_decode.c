/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model/decode.h"

#include "json_read.h"
#include "kube-nftd/base/intern.h"
#include "kube-nftd/base/json_reader.h"
#include "kube-nftd/model/messages.h"
#include "object_text.h"
#include "proto_writer.h"
#include "script.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

/* As an API server writes them. */
#define SERVICE                                                                                    \
    "{'kind':'Service','apiVersion':'v1','metadata':{'name':'web','namespace':'shop',"             \
    "'uid':'c93f411a-6b18-4ce5-8a6d-183d719884ae','resourceVersion':'236',"                        \
    "'creationTimestamp':'2026-11-21T17:03:37Z','labels':{'tier':'front'},'annotations':{'a':'b'}" \
    "},"                                                                                           \
    "'spec':{'ports':[{'name':'http','protocol':'TCP','port':80,'targetPort':8080,"                \
    "'nodePort':32656},{'name':'quic','protocol':'UDP','port':443,'targetPort':'quic'}],"          \
    "'selector':{'app':'web'},'clusterIP':'10.111.4.220','clusterIPs':['10.111.4.220',"            \
    "'fd00:10:96::d62d'],'type':'LoadBalancer','sessionAffinity':'None',"                          \
    "'externalTrafficPolicy':'Local','healthCheckNodePort':31234,'ipFamilies':['IPv4','IPv6'],"    \
    "'ipFamilyPolicy':'PreferDualStack','internalTrafficPolicy':'Cluster'},"                       \
    "'status':{'loadBalancer':{'ingress':[{'ip':'203.0.113.10','ipMode':'VIP'}]}}}"
/* One of which it is told how each kind of traffic is treated. */
#define TRAFFIC                                                                                    \
    "{'kind':'Service','apiVersion':'v1','metadata':{'name':'web','namespace':'shop'},'spec':{"    \
    "'type':'LoadBalancer','clusterIP':'10.96.0.1','clusterIPs':['10.96.0.1','fd00::1'],"          \
    "'ipFamilies':['IPv4','IPv6'],'ports':[{'name':'http','port':80,'nodePort':30080},"            \
    "{'name':'dns','protocol':'UDP','port':53,'nodePort':30080},{'name':'no','port':81}],"         \
    "'externalIPs':['192.0.2.7','2001:db8::7'],'loadBalancerSourceRanges':['198.51.100.0/24',"     \
    "'2001:db8:1::/127'],'externalTrafficPolicy':'Local','internalTrafficPolicy':'Local',"         \
    "'healthCheckNodePort':31234,'sessionAffinity':'ClientIP','sessionAffinityConfig':{"           \
    "'clientIP':{'timeoutSeconds':600}}},'status':{'loadBalancer':{'ingress':["                    \
    "{'ip':'203.0.113.10','ipMode':'VIP'},{'ip':'2001:db8::10'}]}}}"
#define SLICE                                                                                      \
    "{'kind':'EndpointSlice','apiVersion':'discovery.k8s.io/v1','metadata':{'name':'web-x1',"      \
    "'generateName':'web-','namespace':'shop','labels':{"                                          \
    "'endpointslice.kubernetes.io/managed-by':'endpointslice-controller.k8s.io',"                  \
    "'kubernetes.io/service-name':'web'}},'addressType':'IPv4','endpoints':["                      \
    "{'addresses':['10.244.3.19'],'conditions':{'ready':true,'serving':true,'terminating':false}," \
    "'targetRef':{'kind':'Pod','namespace':'shop','name':'v3-3'},'nodeName':'node-c',"             \
    "'zone':'zone-3'},{'addresses':['10.244.2.18'],'conditions':{}}],'ports':["                    \
    "{'name':'http','protocol':'TCP','port':8081},{'name':'quic','protocol':'UDP','port':7000}]}"
#define NODE                                                                                       \
    "{'kind':'Node','apiVersion':'v1','metadata':{'name':'node-a','labels':{"                      \
    "'topology.kubernetes.io/zone':'zone-1'}},'spec':{'podCIDRs':['10.244.1.0/24'],'taints':["     \
    "{'key':'node.kubernetes.io/unreachable','effect':'NoExecute'}]},'status':{'addresses':["      \
    "{'type':'Hostname','address':'node-a'},{'type':'InternalIP','address':'192.0.2.1'}]}}"
#define CIDR                                                                                       \
    "{'kind':'ServiceCIDR','apiVersion':'networking.k8s.io/v1','metadata':{'name':'kubernetes'},"  \
    "'spec':{'cidrs':['10.96.0.0/12','fd00:10:96::/112']},'status':{'conditions':[{"               \
    "'type':'Ready','status':'False'}]}}"

/* ---------------------------------------------------------- JSON */

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

static bool decode_value(void *ctx, const struct json_value *value, bool is_item)
{
    struct decoding *decoding = ctx;
    ck_assert(!is_item);
    decoding->values++;
    decoding->result = object_decode(value, decoding->expected, decoding->object, decoding->err);
    return true;
}

/* From the same in protobuf, too. */
static bool in_protobuf;

static int read_protobuf(const char *text, struct decoding *decoding, struct error *err)
{
    bytes body = {0};
    cJSON *json = cJSON_Parse(text);
    ck_assert(put_body(&body, json));
    struct proto_reader *reader = proto_reader_new(&message_body, body.n, decode_value, decoding);
    int result = proto_reader_feed(reader, body.v, body.n, err);
    if (result == 0)
        result = proto_reader_finish(reader, err);
    proto_reader_free(reader);
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

/* ---------------------------------------------------------- objects as text */

static void write_object(FILE *out, const struct object *object)
{
    if (object->kind == KIND_SERVICE) {
        write_service(out, object->service);
        write_traffic(out, object->service);
    } else if (object->kind == KIND_ENDPOINTSLICE) {
        write_slice(out, object->slice);
    } else if (object->kind == KIND_SERVICECIDR) {
        write_service_cidr(out, object->service_cidr);
    } else {
        write_node(out, object->node);
    }
}

/* What comes of the JSON @source: the object as text, "other", or "bad: " and why. A bad object has
 * no payload; the id that it carries is written behind the reason if it is not @id. */
static char *read_as(const char *source, int expected, const char *id)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    struct object object;
    struct error err = {0};
    memset(&object, 0xee, sizeof(object));
    switch (decode_text(source, expected, &object, &err)) {
    case DECODE_OK:
        ck_assert_ptr_null(err.text);
        write_object(out, &object);
        break;
    case DECODE_OTHER:
        ck_assert_ptr_null(err.text);
        fputs("other", out);
        break;
    case DECODE_BAD:
        ck_assert_ptr_null(object.payload);
        fprintf(out, "bad: %s", err.text);
        if (object.id ? !id || strcmp(object.id, id) != 0 : id != NULL)
            fprintf(out, " [id is %s]", object.id ? object.id : "not there");
        break;
    }
    fclose(out);
    if (strcmp(text, "other") != 0)
        object_clear(&object);
    error_clear(&err);
    return text;
}

static char *decoded_as(const cJSON *json, int expected, const char *id)
{
    char *source = cJSON_PrintUnformatted(json);
    char *text = read_as(source, expected, id);
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

/* ---------------------------------------------------------- cases */

static const char *base_json;
static struct object whole; /* as it is */
static char *whole_text;

static void forget_base(void)
{
    object_clear(&whole);
    free(whole_text);
    whole_text = NULL;
}

static void run_base(char *words, FILE *out)
{
    static const struct {
        const char *name, *json;
    } bases[] = {{"service", SERVICE},
                 {"traffic", TRAFFIC},
                 {"slice", SLICE},
                 {"cidr", CIDR},
                 {"node", NODE}};
    struct error err = {0};
    for (int i = 0; i < COUNT(bases); i++)
        if (strcmp(bases[i].name, words) == 0)
            base_json = bases[i].json;
    cJSON *json = parse(base_json);
    forget_base();
    ck_assert_int_eq(decode_tree(json, -1, &whole, &err), DECODE_OK);
    whole_text = decoded_as(json, -1, NULL);
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

/* Those that read the same are equal, and no others; what is ignored is no difference. */
static void check_equality(const cJSON *json, const char *differs)
{
    struct object object;
    struct error err = {0};
    bool same = strcmp(differs, "same") == 0 || strncmp(differs, "+(", 2) == 0;
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
    char *text = decoded_as(json, -1, whole.id), *differs = difference(text);
    free(text);
    return differs;
}

/* "PATH VALUE; PATH VALUE": the base with these changes, in JSON and in protobuf. */
static void run_set(char *words, FILE *out)
{
    cJSON *json = parse(base_json);
    for (char *next; words; words = next) {
        next = strstr(words, "; ");
        if (next) {
            *next = '\0';
            next += 2;
        }
        const char *path = script_word(&words);
        change(json, path, words);
    }
    char *differs = read_change(json);
    check_equality(json, differs);
    in_protobuf = can_be_protobuf(json);
    char *again = read_change(json);
    in_protobuf = false;
    ck_assert_msg(strcmp(differs, again) == 0, "in protobuf: %s", again);
    fprintf(out, "%s\n", differs);
    free(again);
    free(differs);
    cJSON_Delete(json);
}

static const struct script_command commands[] = {
    {"base", run_base}, {"set", run_set}, {NULL, NULL}};

SCRIPT("decode", commands)

static void expect_json(const char *text, int expected_kind, const char *id, const char *expected)
{
    cJSON *json = parse(text);
    expect_text(decoded_as(json, expected_kind, id), expected);
    cJSON_Delete(json);
}

/* ---------------------------------------------------------- Service */

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
        expect_text(read_as(text, -1, "default/a"),
                    again ? "bad: Service default/a: spec.ports[196605]: UDP port "
                            "7 is a duplicate"
                          : "bad: Service default/a: spec.ports[196605].port: 0 "
                            "is not within 1..65535");
        free(text);
    }
}

static void expect_protocol(const char *value, const char *said)
{
    cJSON *json = parse(SERVICE);
    change(json, "spec>ports>1>protocol", value);
    char *expected = xasprintf(
        "bad: Service shop/web: spec.ports[1].protocol: \"%s\" is not TCP, UDP or SCTP", said);
    expect_text(decoded_as(json, -1, "shop/web"), expected);
    free(expected);
    cJSON_Delete(json);
}

/* A value may be of megabytes: what an error says of it is cut, where a character begins. */
TEST(long_values_are_cut)
{
#define EIGHT "xxxxxxxx"
#define SEVENTY_EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT "xxxxxx"
    expect_protocol("'" SEVENTY_EIGHT "xxxxx'", SEVENTY_EIGHT "xxxxx");
    expect_protocol("'" SEVENTY_EIGHT "xxxxxx'", SEVENTY_EIGHT "xx...");
    expect_protocol("'" SEVENTY_EIGHT "\xe2\x82\xac" SEVENTY_EIGHT "'", SEVENTY_EIGHT "...");
}

/* Nor is the name of an object written out, whatever its length. */
TEST(long_names_are_cut)
{
    char letters[1001];
    memset(letters, 'x', 1000);
    letters[1000] = '\0';
    char *text = xasprintf("{'kind':'Node','apiVersion':'v1','metadata':{'name':'%s'},'spec':{"
                           "'podCIDRs':['x']}}",
                           letters);
    char *expected = xasprintf("bad: Node %.400s: spec.podCIDRs[0]: \"x\" is not a CIDR", letters);
    expect_json(text, -1, letters, expected);
    free(text);
    free(expected);
}

/* ---------------------------------------------------------- EndpointSlice */

/* All that ready, serving and terminating can be: absent, null, false, true. */
TESTS(slice_conditions, 4 * 4 * 4)
{
    static const char *const values[] = {"absent", "null", "false", "true"};
    static const char *const keys[] = {"endpoints>1>conditions>ready",
                                       "endpoints>1>conditions>serving",
                                       "endpoints>1>conditions>terminating"};
    static const bool when_absent[] = {true, true, false};
    static const uint8_t flags[] = {ENDPOINT_READY, ENDPOINT_SERVING, ENDPOINT_TERMINATING};
    cJSON *json = parse(SLICE);
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

/* Node names are interned, so that a comparison of pointers tells a local endpoint. */
TEST(slice_node_names)
{
    const char *name = intern("node-c");
    struct object object;
    struct error err = {0};
    cJSON *json = parse(SLICE);
    ck_assert_int_eq(decode_tree(json, -1, &object, &err), DECODE_OK);
    ck_assert_ptr_eq(object.slice->endpoints.v[0].node_name, name);
    ck_assert_ptr_null(object.slice->endpoints.v[1].node_name);
    object_clear(&object);
    cJSON_Delete(json);
    intern_release(name);
}

/* So are the names in hints. */
TEST(slice_hint_names)
{
    const char *node_name = intern("n1"), *zone = intern("z1");
    struct object object;
    struct error err = {0};
    cJSON *json = parse(SLICE);
    change(json, "endpoints>1>hints", "{'forNodes':[{'name':'n1'}],'forZones':[{'name':'z1'}]}");
    ck_assert_int_eq(decode_tree(json, -1, &object, &err), DECODE_OK);
    const struct endpoint_hints *hints = object.slice->endpoints.v[1].hints;
    ck_assert_uint_eq(hints->n_nodes, 1);
    ck_assert_uint_eq(hints->n_zones, 1);
    ck_assert_ptr_eq(hints->names[0], node_name);
    ck_assert_ptr_eq(hints->names[1], zone);
    ck_assert_ptr_null(object.slice->endpoints.v[0].hints);
    object_clear(&object);
    cJSON_Delete(json);
    intern_release(node_name);
    intern_release(zone);
}

/* The annotation that tells when the change happened: what cannot be read is no error. */
static const struct {
    const char *annotations;
    double expected;
} trigger_times[] = {
    {"absent", 0},
    {"null", 0},
    {"{}", 0},
    {"[]", 0},
    {"'text'", 0},
    {"{'endpoints.kubernetes.io/last-change-trigger-time':'2026-11-21T17:03:37Z'}", 1795280617},
    {"{'a':'b','endpoints.kubernetes.io/last-change-trigger-time':'2026-11-21T17:03:37.5Z'}",
     1795280617.5},
    {"{'endpoints.kubernetes.io/last-change-trigger-time':'yesterday'}", 0},
    {"{'endpoints.kubernetes.io/last-change-trigger-time':null}", 0},
    {"{'endpoints.kubernetes.io/last-change-trigger-time':5}", 0},
};

TEST_ROWS(slice_trigger_times, trigger_times)
{
    struct object object;
    struct error err = {0};
    cJSON *json = parse(SLICE);
    change(json, "metadata>annotations", row->annotations);
    ck_assert_int_eq(decode_tree(json, -1, &object, &err), DECODE_OK);
    ck_assert(object.trigger_time == row->expected);
    object_clear(&object);
    cJSON_Delete(json);
}

/* More than can be counted. */
TEST(slice_too_many_hints)
{
    cJSON *json = parse(SLICE), *zones = cJSON_CreateArray();
    for (int i = 0; i <= UINT16_MAX; i++)
        cJSON_AddItemToArray(zones, cJSON_CreateObject());
    change(json, "endpoints>1>hints", "{'forNodes':[]}");
    cJSON *endpoint = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "endpoints"), 1);
    cJSON_AddItemToObject(cJSON_GetObjectItem(endpoint, "hints"), "forZones", zones);
    expect_text(decoded_as(json, -1, "shop/web-x1"),
                "bad: EndpointSlice shop/web-x1: endpoints[1].hints.forZones[65535]: more than "
                "65535 hints");
    cJSON_DeleteItemFromArray(zones, 0);
    char *text = decoded_as(json, -1, "shop/web-x1");
    ck_assert_uint_eq(strncmp(text, "shop/web-x1", strlen("shop/web-x1")), 0);
    free(text);
    cJSON_Delete(json);
}

/* ---------------------------------------------------------- ServiceCIDR */

#define WHOLE                                                                                      \
    "shop/web created=1795280617 IPv4=10.111.4.220 IPv6=fd00:10:96::d62d http/TCP:80 "             \
    "quic/UDP:443 check=31234 node-ports=32656,0 balancer=203.0.113.10 external-local"

/* Texts that are none: of a field that is read they cost the object, of any other nothing. */
static const struct {
    const char *path, *field; /* NULL: nobody reads it */
} texts[] = {
    {"metadata>name", "Service (no name): metadata.name"},
    {"metadata>namespace", "Service (no name): metadata.namespace"},
    {"metadata>creationTimestamp", "Service shop/web: metadata.creationTimestamp"},
    {"spec>type", "Service shop/web: spec.type"},
    {"spec>clusterIP", "Service shop/web: spec.clusterIP"},
    {"spec>ipFamilies>0", "Service shop/web: spec.ipFamilies[0]"},
    {"spec>ports", "Service shop/web: spec.ports"},
    {"spec>ports>1", "Service shop/web: spec.ports[1]"},
    {"spec>ports>0>name", "Service shop/web: spec.ports[0].name"},
    {"spec>ports>0>port", "Service shop/web: spec.ports[0].port"},
    {"spec>ports>1>protocol", "Service shop/web: spec.ports[1].protocol"},
    {"spec>internalTrafficPolicy", "Service shop/web: spec.internalTrafficPolicy"},
    {"metadata>annotations", NULL},
    {"metadata>uid", NULL},
    {"metadata>resourceVersion", NULL},
    {"spec>externalName", NULL},
};

/* @json with @text, as it is, in the place of "HERE". */
static char *with_text(const cJSON *json, const char *text)
{
    static const char here[] = "HERE";
    char *source = cJSON_PrintUnformatted(json), *at = strstr(source, here);
    char *result = xasprintf("%.*s%s%s", (int)(at - source), source, text, at + strlen(here));
    cJSON_free(source);
    return result;
}

TEST_ROWS(no_texts, texts)
{
    static const char *const bad[][2] = {{"a\xff", "\"a\xff\" is not UTF-8"},
                                         {"a\\u0000b", "\"a\xc0\x80\x62\" has a NUL"},
                                         {"\\ud800", "\"\xed\xa0\x80\" is not UTF-8"}};
    const char *field = row->field;
    cJSON *json = parse(SERVICE);
    change(json, row->path, "'HERE'");
    for (size_t i = 0; i < COUNT(bad); i++) {
        char *source = with_text(json, bad[i][0]);
        char *expected =
            field ? xasprintf("bad: %s: %s", field, bad[i][1]) : xasprintf("%s", WHOLE);
        expect_text(read_as(source, -1, field && strstr(field, "no name") ? NULL : "shop/web"),
                    expected);
        free(expected);
        free(source);
    }
    cJSON_Delete(json);
}

/* The items of a list have neither kind nor apiVersion; what they say themselves comes first. */
TEST(kinds)
{
    cJSON *json = parse(SERVICE);
    change(json, "kind", "absent");
    change(json, "apiVersion", "absent");
    expect_text(decoded_as(json, -1, NULL), "other");
    expect_text(decoded_as(json, KIND_SERVICE, NULL), WHOLE);
    expect_text(decoded_as(json, KIND_ENDPOINTSLICE, "shop/web"),
                "bad: EndpointSlice shop/web: addressType: missing");
    change(json, "apiVersion", "'v1'");
    expect_text(decoded_as(json, KIND_SERVICE, NULL), "other");
    change(json, "kind", "null");
    change(json, "apiVersion", "null");
    expect_text(decoded_as(json, KIND_SERVICE, NULL), WHOLE);
    cJSON_Delete(json);
    expect_json(SERVICE, KIND_NODE, NULL, WHOLE);
    expect_json(NODE, KIND_SERVICE, NULL, "node-a zone=zone-1 IPv4=192.0.2.1 pods=10.244.1.0/24");
    expect_json("[]", KIND_SERVICE, NULL, "other");
    expect_json("'Service'", KIND_SERVICE, NULL, "other");
    expect_json("null", KIND_SERVICE, NULL, "other");
    expect_json("{}", -1, NULL, "other");
    expect_json("{}", KIND_NODE, NULL, "bad: Node (no name): metadata.name: missing");
}

TEST(namespaces)
{
    static const char *const values[] = {"absent", "null", "''", "'default'"};
    cJSON *json = parse(SERVICE);
    change(json, "spec", "{'clusterIP':'None'}");
    for (size_t i = 0; i < COUNT(values); i++) {
        change(json, "metadata>namespace", values[i]);
        expect_text(decoded_as(json, -1, NULL), "default/web created=1795280617 skipped");
    }
    cJSON_Delete(json);
}

TEST(lists)
{
    ck_assert_int_eq(object_kind_of_list("ServiceList"), KIND_SERVICE);
    ck_assert_int_eq(object_kind_of_list("EndpointSliceList"), KIND_ENDPOINTSLICE);
    ck_assert_int_eq(object_kind_of_list("ServiceCIDRList"), KIND_SERVICECIDR);
    ck_assert_int_eq(object_kind_of_list("NodeList"), KIND_NODE);
    static const char *const others[] = {"", "List", "Service", "PodList", "serviceList"};
    for (size_t i = 0; i < COUNT(others); i++)
        ck_assert_int_eq(object_kind_of_list(others[i]), -1);
    ck_assert_str_eq(object_kind_name(KIND_SERVICE), "Service");
    ck_assert_str_eq(object_kind_name(KIND_ENDPOINTSLICE), "EndpointSlice");
    ck_assert_str_eq(object_kind_name(KIND_SERVICECIDR), "ServiceCIDR");
    ck_assert_str_eq(object_kind_name(KIND_NODE), "Node");
}

/* An integer is written as one: what has a fraction or an exponent is none for the API, whatever
 * its value. */
TEST(odd_numbers)
{
    static const struct {
        const char *number, *expected;
    } ports[] = {
        {"80", "default/a created=never IPv4=10.96.0.1 /TCP:80 node-ports=0"},
        {"80.0", "bad: Service default/a: spec.ports[0].port: 80.0 is not an integer"},
        {"8e1", "bad: Service default/a: spec.ports[0].port: 80.0 is not an integer"},
        {"8E+1", "bad: Service default/a: spec.ports[0].port: 80.0 is not an integer"},
        {"1e400", "bad: Service default/a: spec.ports[0].port: inf is not an integer"},
        {"-1e400", "bad: Service default/a: spec.ports[0].port: -inf is not an integer"},
        {"0.5", "bad: Service default/a: spec.ports[0].port: 0.5 is not an integer"},
        {"-80", "bad: Service default/a: spec.ports[0].port: -80 is not within 1..65535"},
        {"-0", "bad: Service default/a: spec.ports[0].port: -0 is not within 1..65535"},
        {"100000000000000000080",
         "bad: Service default/a: spec.ports[0].port: 1e+20 is not within 1..65535"},
    };
    for (size_t i = 0; i < COUNT(ports); i++) {
        char *text =
            xasprintf("{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":"
                      "\"a\"},\"spec\":{\"clusterIP\":\"10.96.0.1\",\"ports\":[{\"port\":%s}]}}",
                      ports[i].number);
        expect_text(read_as(text, -1, "default/a"), ports[i].expected);
        free(text);
    }
    /* Of more digits than a double takes. */
    char digits[401];
    memset(digits, '9', 400);
    digits[400] = '\0';
    char *text =
        xasprintf("{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},"
                  "\"spec\":{\"clusterIP\":\"10.96.0.1\",\"ports\":[{\"port\":%s}]}}",
                  digits);
    expect_text(read_as(text, -1, "default/a"),
                "bad: Service default/a: spec.ports[0].port: inf is not an integer");
    free(text);
}

/* ---------------------------------------------------------- versions */

static const struct {
    const char *value, *text;
} resource_versions[] = {
    {"'236'", "236"}, {"'not a number'", "not a number"}, {"''", ""}, {"absent", ""}, {"null", ""},
    {"236", ""},
};

static void expect_version(const struct object_version *version, const char *expected)
{
    char number[OBJECT_VERSION_SIZE];
    ck_assert_pstr_eq(object_version_text(version, number), expected);
}

/* Decodes @base with a resourceVersion, and with @bad changed to null as well. */
static enum decode_result decode_version_of(const char *base, int i, const char *bad,
                                            struct object *object)
{
    struct error err = {0};
    cJSON *json = parse(base);
    change(json, "metadata>resourceVersion", resource_versions[i].value);
    if (bad)
        change(json, bad, "[1]");
    enum decode_result result = decode_tree(json, -1, object, &err);
    error_clear(&err);
    cJSON_Delete(json);
    return result;
}

/* The payload has it, or the object itself where that is bad. */
TESTS(versions, COUNT(resource_versions))
{
    struct object object;
    const char *text = resource_versions[_i].text;
    ck_assert_int_eq(decode_version_of(SERVICE, _i, NULL, &object), DECODE_OK);
    expect_version(&object.version, NULL);
    expect_version(&object.service->version, text);
    object_clear(&object);
    ck_assert_int_eq(decode_version_of(SLICE, _i, NULL, &object), DECODE_OK);
    expect_version(&object.version, NULL);
    expect_version(&object.slice->version, text);
    ck_assert_ptr_null(object.owner);
    object_clear(&object);
    ck_assert_int_eq(decode_version_of(SERVICE, _i, "spec>type", &object), DECODE_BAD);
    expect_version(&object.version, text);
    ck_assert_ptr_null(object.owner);
    object_clear(&object);
    ck_assert_int_eq(decode_version_of(SLICE, _i, "addressType", &object), DECODE_BAD);
    expect_version(&object.version, text);
    ck_assert_str_eq(object.owner, "shop/web");
    object_clear(&object);
    ck_assert_int_eq(decode_version_of(SLICE, _i, "metadata>labels", &object), DECODE_BAD);
    ck_assert_ptr_null(object.owner);
    object_clear(&object);
    ck_assert_int_eq(decode_version_of(NODE, _i, NULL, &object), DECODE_OK);
    object_clear(&object);
}

/* ---------------------------------------------------------- equality */

static struct object decode(const char *base, const char *path, const char *value)
{
    struct object object;
    struct error err = {0};
    cJSON *json = parse(base);
    change(json, path, value);
    ck_assert_msg(decode_tree(json, -1, &object, &err) == DECODE_OK, "%s", err.text);
    cJSON_Delete(json);
    return object;
}

TEST(clearing)
{
    object_vec objects = {0};
    vec_push(&objects, decode(SERVICE, "unknown", "1"));
    vec_push(&objects, decode(SLICE, "unknown", "1"));
    vec_push(&objects, decode(NODE, "unknown", "1"));
    vec_push(&objects, decode(CIDR, "unknown", "1"));
    vec_push(&objects, decode(TRAFFIC, "spec>externalIPs>0", "'bad'"));
    vec_push(&objects, decode(SLICE, "endpoints>0>hints", "{'forZones':[{'name':'z'}]}"));
    vec_push(&objects, (struct object){.kind = KIND_SERVICE, .id = xstrdup("no/payload")});
    object_vec_clear(&objects);
    ck_assert_uint_eq(objects.n, 0);
    ck_assert_ptr_null(objects.v);
    struct object object = decode(SLICE, "unknown", "1");
    object_clear(&object);
    ck_assert_ptr_null(object.id);
    ck_assert_ptr_null(object.payload);
    object_clear(&object);
}

UNIT_FIXTURE(NULL, forget_base)
