/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model/decode.h"

#include "json_read.h"
#include "kube-nftd/base/intern.h"
#include "kube-nftd/base/json_reader.h"
#include "kube-nftd/model/messages.h"
#include "object_text.h"
#include "proto_writer.h"
#include "unit.h"

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
#define SERVICE_TEXT "shop/web created=1795280617 IPv4=10.111.4.220 IPv6=fd00:10:96::d62d"
#define SERVICE_PORTS " http/TCP:80 quic/UDP:443"
#define SERVICE_CHECK " check=31234"

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
#define NODE_PORTS "+30080+30080+0"
#define EXTERNAL4 " external=192.0.2.7"
#define BALANCER4 " balancer=203.0.113.10"
#define FROM4 " from=198.51.100.0-198.51.100.255"
#define EXTERNAL6 " external=2001:db8::7"
#define BALANCER6 " balancer=2001:db8::10"
#define FROM6 " from=2001:db8:1::-2001:db8:1::1"
#define ADDRESSES EXTERNAL4 BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6
#define POLICIES " external-local internal-local"
#define AFFINITY " affinity=600"

#define SLICE                                                                                      \
    "{'kind':'EndpointSlice','apiVersion':'discovery.k8s.io/v1','metadata':{'name':'web-x1',"      \
    "'generateName':'web-','namespace':'shop','labels':{"                                          \
    "'endpointslice.kubernetes.io/managed-by':'endpointslice-controller.k8s.io',"                  \
    "'kubernetes.io/service-name':'web'}},'addressType':'IPv4','endpoints':["                      \
    "{'addresses':['10.244.3.19'],'conditions':{'ready':true,'serving':true,'terminating':false}," \
    "'targetRef':{'kind':'Pod','namespace':'shop','name':'v3-3'},'nodeName':'node-c',"             \
    "'zone':'zone-3'},{'addresses':['10.244.2.18'],'conditions':{}}],'ports':["                    \
    "{'name':'http','protocol':'TCP','port':8081},{'name':'quic','protocol':'UDP','port':7000}]}"
#define SLICE_TEXT "shop/web-x1 of=shop/web IPv4"
#define SLICE_PORTS " http/TCP:8081 quic/UDP:7000"
#define SLICE_ENDPOINTS " 10.244.3.19@node-c/zone-3 10.244.2.18"

#define NODE                                                                                       \
    "{'kind':'Node','apiVersion':'v1','metadata':{'name':'node-a','labels':{"                      \
    "'topology.kubernetes.io/zone':'zone-1'}},'spec':{'podCIDRs':['10.244.1.0/24'],'taints':["     \
    "{'key':'node.kubernetes.io/unreachable','effect':'NoExecute'}]},'status':{'addresses':["      \
    "{'type':'Hostname','address':'node-a'},{'type':'InternalIP','address':'192.0.2.1'}]}}"
#define NODE_TEXT NODE_ADDRESSES NODE_PODS
#define NODE_ADDRESSES "node-a zone=zone-1 IPv4=192.0.2.1"
#define NODE_PODS " pods=10.244.1.0/24"

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

/* What is written of a Service. */
static void (*service_writer)(FILE *out, const struct service *service) = write_service;

static void write_object(FILE *out, const struct object *object)
{
    if (object->kind == KIND_SERVICE)
        service_writer(out, object->service);
    else if (object->kind == KIND_ENDPOINTSLICE)
        write_slice(out, object->slice);
    else if (object->kind == KIND_SERVICECIDR)
        write_service_cidr(out, object->service_cidr);
    else
        write_node(out, object->node);
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

/* A change of an object, and what comes of it. Two changes have "; " between paths and values. */
struct variant {
    const char *path, *value, *expected;
};

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

static void expect_variant(const char *base, const struct variant *variant, const char *id)
{
    cJSON *json = parse(base);
    const char *path2 = strstr(variant->path, "; "), *value2 = strstr(variant->value, "; ");
    char *path = xstrndup(variant->path, strcspn(variant->path, ";"));
    char *value = xstrndup(variant->value, strcspn(variant->value, ";"));
    change(json, path, value);
    if (path2)
        change(json, path2 + 2, value2 + 2);
    free(path);
    free(value);
    char *actual = decoded_as(json, -1, id);
    ck_assert_msg(strcmp(actual, variant->expected) == 0, "%s: %s\n is %s\n not %s", variant->path,
                  variant->value, actual, variant->expected);
    free(actual);
    in_protobuf = can_be_protobuf(json);
    actual = decoded_as(json, -1, id);
    ck_assert_msg(strcmp(actual, variant->expected) == 0, "%s: %s\n is in protobuf %s\n not %s",
                  variant->path, variant->value, actual, variant->expected);
    in_protobuf = false;
    free(actual);
    cJSON_Delete(json);
}

static void expect_json(const char *text, int expected_kind, const char *id, const char *expected)
{
    cJSON *json = parse(text);
    expect_text(decoded_as(json, expected_kind, id), expected);
    cJSON_Delete(json);
}

/* ---------------------------------------------------------- Service */

TEST(service_whole)
{
    expect_json(SERVICE, -1, NULL, SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK);
}

#define S "bad: Service shop/web: "
#define NO_IPS "shop/web created=1795280617"

static const struct variant service_addresses[] = {
    /* The families in either order, absent ones, and what the lists do not agree on. */
    {"spec>ipFamilies; spec>clusterIPs", "['IPv6','IPv4']; ['fd00:10:96::d62d','10.111.4.220']",
     SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"spec>ipFamilies", "['IPv4']", NO_IPS " IPv4=10.111.4.220" SERVICE_PORTS SERVICE_CHECK},
    {"spec>ipFamilies; spec>clusterIPs", "['IPv6']; ['fd00::1','10.111.4.220']",
     NO_IPS " IPv6=fd00::1" SERVICE_PORTS SERVICE_CHECK},
    {"spec>ipFamilies", "['IPv6','IPv4']", NO_IPS SERVICE_PORTS SERVICE_CHECK},
    {"spec>clusterIPs", "['10.111.4.220']",
     NO_IPS " IPv4=10.111.4.220" SERVICE_PORTS SERVICE_CHECK},
    {"spec>clusterIPs", "absent", NO_IPS " IPv4=10.111.4.220" SERVICE_PORTS SERVICE_CHECK},
    {"spec>clusterIPs", "null", NO_IPS " IPv4=10.111.4.220" SERVICE_PORTS SERVICE_CHECK},
    {"spec>clusterIPs", "[]", NO_IPS " IPv4=10.111.4.220" SERVICE_PORTS SERVICE_CHECK},
    {"spec>clusterIPs; spec>ipFamilies", "absent; ['IPv6','IPv4']",
     NO_IPS SERVICE_PORTS SERVICE_CHECK},
    {"spec>ipFamilies", "absent", NO_IPS " IPv4=10.111.4.220" SERVICE_PORTS SERVICE_CHECK},
    {"spec>ipFamilies", "[]", NO_IPS " IPv4=10.111.4.220" SERVICE_PORTS SERVICE_CHECK},
    {"spec>ipFamilies; spec>clusterIP", "null; 'fd00::5'",
     NO_IPS " IPv6=fd00::5" SERVICE_PORTS SERVICE_CHECK},
    {"spec>clusterIPs>0", "'010.111.004.220'", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"spec>clusterIPs>0", "'::ffff:10.111.4.220'", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"spec>clusterIPs>1", "'::ffff:10.0.0.9'",
     NO_IPS " IPv4=10.111.4.220" SERVICE_PORTS SERVICE_CHECK},
    /* Not proxied at all. */
    {"spec>type", "'ExternalName'", NO_IPS " skipped" SERVICE_PORTS},
    {"spec>clusterIP; spec>clusterIPs", "'None'; ['None']", NO_IPS " skipped" SERVICE_PORTS},
    {"spec>clusterIP", "''", NO_IPS " skipped" SERVICE_PORTS},
    {"spec>clusterIP", "absent", NO_IPS " skipped" SERVICE_PORTS},
    {"spec>clusterIP", "null", NO_IPS " skipped" SERVICE_PORTS},
    {"spec>clusterIP; spec>ports", "'None'; absent", NO_IPS " skipped"},
    {"spec>clusterIP; spec>ports", "'None'; []", NO_IPS " skipped"},
    /* Wrong ones. */
    {"spec>clusterIP", "10", S "spec.clusterIP: 10 is not a string"},
    {"spec>clusterIP", "['10.111.4.220']", S "spec.clusterIP: a list is not a string"},
    {"spec>ipFamilies; spec>clusterIP", "absent; '10.111.4'",
     S "spec.clusterIP: \"10.111.4\" is not an IP address"},
    {"spec>clusterIPs; spec>clusterIP", "absent; '10.111.4'",
     S "spec.clusterIP: \"10.111.4\" is not an IP address"},
    {"spec>clusterIPs", "'10.111.4.220'", S "spec.clusterIPs: \"10.111.4.220\" is not a list"},
    {"spec>clusterIPs>1", "null", S "spec.clusterIPs[1]: null is not a string"},
    {"spec>clusterIPs>0", "4", S "spec.clusterIPs[0]: 4 is not a string"},
    {"spec>clusterIPs>1", "'fd00::x'", S "spec.clusterIPs[1]: \"fd00::x\" is not an IP address"},
    {"spec>ipFamilies", "'IPv4'", S "spec.ipFamilies: \"IPv4\" is not a list"},
    {"spec>ipFamilies>1", "6", S "spec.ipFamilies[1]: 6 is not a string"},
    {"spec>ipFamilies>1", "null", S "spec.ipFamilies[1]: null is not a string"},
    {"spec>ipFamilies>1", "'ipv6'", S "spec.ipFamilies[1]: \"ipv6\" is not IPv4 or IPv6"},
};

TEST_ROWS(service_address, service_addresses)
{
    expect_variant(SERVICE, row, "shop/web");
}

#define PORT_0 " http/TCP:80"
#define PORT_1 " quic/UDP:443"

static const struct variant service_ports[] = {
    {"spec>ports>0>name", "absent", SERVICE_TEXT " /TCP:80" PORT_1 SERVICE_CHECK},
    {"spec>ports>0>name", "null", SERVICE_TEXT " /TCP:80" PORT_1 SERVICE_CHECK},
    {"spec>ports>0>name", "''", SERVICE_TEXT " /TCP:80" PORT_1 SERVICE_CHECK},
    {"spec>ports>1>protocol", "absent", SERVICE_TEXT PORT_0 " quic/TCP:443" SERVICE_CHECK},
    {"spec>ports>1>protocol", "null", SERVICE_TEXT PORT_0 " quic/TCP:443" SERVICE_CHECK},
    {"spec>ports>1>protocol", "'SCTP'", SERVICE_TEXT PORT_0 " quic/SCTP:443" SERVICE_CHECK},
    {"spec>ports>0>port", "1", SERVICE_TEXT " http/TCP:1" PORT_1 SERVICE_CHECK},
    {"spec>ports>0>port", "65535", SERVICE_TEXT " http/TCP:65535" PORT_1 SERVICE_CHECK},
    {"spec>ports>0>port", "443", SERVICE_TEXT " http/TCP:443" PORT_1 SERVICE_CHECK},
    {"spec>ports>1", "absent", SERVICE_TEXT PORT_0 SERVICE_CHECK},
    /* Backend ports come from slices only. */
    {"spec>ports>0>targetPort", "{}", SERVICE_TEXT PORT_0 PORT_1 SERVICE_CHECK},
    {"spec>ports>0>appProtocol", "7", SERVICE_TEXT PORT_0 PORT_1 SERVICE_CHECK},
    {"spec>ports", "absent", S "spec.ports: missing"},
    {"spec>ports", "null", S "spec.ports: missing"},
    {"spec>ports", "[]", S "spec.ports: missing"},
    {"spec>ports", "{}", S "spec.ports: an object is not a list"},
    {"spec>ports>1", "443", S "spec.ports[1]: 443 is not an object"},
    {"spec>ports>1", "null", S "spec.ports[1]: null is not an object"},
    {"spec>ports>0>name", "80", S "spec.ports[0].name: 80 is not a string"},
    {"spec>ports>1>protocol", "17", S "spec.ports[1].protocol: 17 is not a string"},
    {"spec>ports>1>protocol", "'udp'", S "spec.ports[1].protocol: \"udp\" is not TCP, UDP or SCTP"},
    {"spec>ports>0>port", "absent", S "spec.ports[0].port: missing"},
    {"spec>ports>0>port", "null", S "spec.ports[0].port: missing"},
    {"spec>ports>0>port", "'80'", S "spec.ports[0].port: \"80\" is not a number"},
    {"spec>ports>0>port", "true", S "spec.ports[0].port: true is not a number"},
    {"spec>ports>1>port", "0", S "spec.ports[1].port: 0 is not within 1..65535"},
    {"spec>ports>1>port", "-443", S "spec.ports[1].port: -443 is not within 1..65535"},
    {"spec>ports>1>port", "65536", S "spec.ports[1].port: 65536 is not within 1..65535"},
    {"spec>ports>1>port", "443.5", S "spec.ports[1].port: 443.5 is not an integer"},
    {"spec>ports>1>port", "4294967739", S "spec.ports[1].port: 4294967739 is not within 1..65535"},
    {"spec>ports>1>port", "1e300", S "spec.ports[1].port: 1e+300 is not an integer"},
    {"spec>ports>1>port; spec>ports>1>protocol", "80; 'TCP'",
     S "spec.ports[1]: TCP port 80 is a duplicate"},
    {"spec>ports>1>nodePort; spec>ports>1>protocol", "32656; 'TCP'",
     S "spec.ports[1]: TCP node port 32656 is a duplicate"},
    {"spec>ports>1>nodePort", "32656", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"spec>ports>1>nodePort; spec>ports>1>protocol", "80; 'TCP'",
     SERVICE_TEXT PORT_0 " quic/TCP:443" SERVICE_CHECK},
    /* The first one that is too many. */
    {"spec>ports>2; spec>ports>3", "{'port':79,'nodePort':32656}; {'port':80}",
     S "spec.ports[2]: TCP node port 32656 is a duplicate"},
    {"spec>ports>2; spec>ports>3", "{'port':80,'nodePort':32656}; {'port':80}",
     S "spec.ports[2]: TCP port 80 is a duplicate"},
};

TEST_ROWS(service_port, service_ports)
{
    expect_variant(SERVICE, row, "shop/web");
}

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

/* A value may be of megabytes: what an error says of it is cut, where a character begins. */
TEST(long_values_are_cut)
{
    char letters[201], *expected;
    memset(letters, 'x', 200);
    letters[200] = '\0';
    char *exact = xasprintf("'%.83s'", letters), *longer = xasprintf("'%.84s'", letters);
    char *wide = xasprintf("'%.78s\xe2\x82\xac%s'", letters, letters);
    struct variant variant = {"spec>ports>1>protocol", exact, NULL};
    variant.expected = expected =
        xasprintf(S "spec.ports[1].protocol: \"%.83s\" is not TCP, UDP or SCTP", letters);
    expect_variant(SERVICE, &variant, "shop/web");
    free(expected);
    variant.value = longer;
    variant.expected = expected =
        xasprintf(S "spec.ports[1].protocol: \"%.80s...\" is not TCP, UDP or SCTP", letters);
    expect_variant(SERVICE, &variant, "shop/web");
    free(expected);
    variant.value = wide;
    variant.expected = expected =
        xasprintf(S "spec.ports[1].protocol: \"%.78s...\" is not TCP, UDP or SCTP", letters);
    expect_variant(SERVICE, &variant, "shop/web");
    free(expected);
    free(exact);
    free(longer);
    free(wide);
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

static const struct variant service_fields[] = {
    /* The health check node port counts for LoadBalancer and Local only. */
    {"spec>type", "'NodePort'", SERVICE_TEXT SERVICE_PORTS},
    {"spec>type", "'ClusterIP'", SERVICE_TEXT SERVICE_PORTS},
    {"spec>type", "absent", SERVICE_TEXT SERVICE_PORTS},
    {"spec>type", "null", SERVICE_TEXT SERVICE_PORTS},
    {"spec>externalTrafficPolicy", "'Cluster'", SERVICE_TEXT SERVICE_PORTS},
    {"spec>externalTrafficPolicy", "absent", SERVICE_TEXT SERVICE_PORTS},
    {"spec>externalTrafficPolicy", "null", SERVICE_TEXT SERVICE_PORTS},
    {"spec>healthCheckNodePort", "absent", SERVICE_TEXT SERVICE_PORTS},
    {"spec>healthCheckNodePort", "null", SERVICE_TEXT SERVICE_PORTS},
    {"spec>healthCheckNodePort", "0", SERVICE_TEXT SERVICE_PORTS},
    {"spec>healthCheckNodePort", "65535", SERVICE_TEXT SERVICE_PORTS " check=65535"},
    {"spec>type", "1", S "spec.type: 1 is not a string"},
    {"spec>externalTrafficPolicy", "{}", S "spec.externalTrafficPolicy: an object is not a string"},
    {"spec>healthCheckNodePort", "'31234'",
     S "spec.healthCheckNodePort: \"31234\" is not a number"},
    {"spec>healthCheckNodePort", "-1", S "spec.healthCheckNodePort: -1 is not within 0..65535"},
    {"spec>healthCheckNodePort; spec>type", "65536; 'ClusterIP'",
     S "spec.healthCheckNodePort: 65536 is not within 0..65535"},
    {"spec", "absent", S "spec: missing"},
    {"spec", "null", S "spec: missing"},
    {"spec", "[]", S "spec: a list is not an object"},
    {"spec", "'x'", S "spec: \"x\" is not an object"},
    {"metadata>creationTimestamp", "absent",
     "shop/web created=never IPv4=10.111.4.220 IPv6=fd00:10:96::d62d" SERVICE_PORTS SERVICE_CHECK},
    {"metadata>creationTimestamp", "null",
     "shop/web created=never IPv4=10.111.4.220 IPv6=fd00:10:96::d62d" SERVICE_PORTS SERVICE_CHECK},
    {"metadata>creationTimestamp", "'1970-01-01T00:00:01Z'",
     "shop/web created=1 IPv4=10.111.4.220 IPv6=fd00:10:96::d62d" SERVICE_PORTS SERVICE_CHECK},
    {"metadata>creationTimestamp", "'1970-01-01T02:00:01+02:00'",
     "shop/web created=1 IPv4=10.111.4.220 IPv6=fd00:10:96::d62d" SERVICE_PORTS SERVICE_CHECK},
    {"metadata>creationTimestamp", "5", S "metadata.creationTimestamp: 5 is not a string"},
    {"metadata>creationTimestamp", "'yesterday'",
     S "metadata.creationTimestamp: \"yesterday\" is not a time of RFC 3339 in whole seconds"},
    {"metadata>creationTimestamp", "'2026-11-21T17:03:37Zz'",
     S "metadata.creationTimestamp: \"2026-11-21T17:03:37Zz\" is not a time of RFC 3339 in whole "
       "seconds"},
    /* What only other programs read may look like anything. */
    {"metadata>labels", "[1]", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"metadata>annotations", "7", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"status", "absent", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"status", "null", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"spec>selector", "9", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"spec>publishNotReadyAddresses", "true", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
    {"unknown", "{'a':[]}", SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK},
};

TEST_ROWS(service_field, service_fields)
{
    expect_variant(SERVICE, row, "shop/web");
}

/* What is bad about an address costs just that address. */
static const struct variant traffic_addresses[] = {
    {"unknown", "1", NODE_PORTS ADDRESSES POLICIES AFFINITY SERVICE_CHECK},
    /* In any order, each once. */
    {"spec>externalIPs", "['2001:db8::7','192.0.2.7','192.0.2.007','::ffff:192.0.2.7']",
     NODE_PORTS ADDRESSES POLICIES AFFINITY SERVICE_CHECK},
    {"spec>externalIPs", "['192.0.2.8','2001:db8::7','192.0.2.7']",
     NODE_PORTS EXTERNAL4 " external=192.0.2.8" BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES
         AFFINITY SERVICE_CHECK},
    {"spec>externalIPs", "['','192.0.2.7','']",
     NODE_PORTS EXTERNAL4 BALANCER4 FROM4 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"spec>externalIPs>0", "'192.0.2'",
     NODE_PORTS BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.externalIPs[0]: \"192.0.2\" is not an IP address)"},
    {"spec>externalIPs>0", "'127.0.0.2'",
     NODE_PORTS BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.externalIPs[0]: \"127.0.0.2\" is a loopback address)"},
    {"spec>externalIPs>0", "'::1'",
     NODE_PORTS BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.externalIPs[0]: \"::1\" is a loopback address)"},
    {"spec>externalIPs>0", "'0.0.0.0'",
     NODE_PORTS BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.externalIPs[0]: \"0.0.0.0\" is the unspecified address)"},
    {"spec>externalIPs>0", "'169.254.169.254'",
     NODE_PORTS BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.externalIPs[0]: \"169.254.169.254\" is a link-local address)"},
    {"spec>externalIPs>0", "'fe80::1'",
     NODE_PORTS BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.externalIPs[0]: \"fe80::1\" is a link-local address)"},
    {"spec>externalIPs>0", "'224.0.0.1'",
     NODE_PORTS BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.externalIPs[0]: \"224.0.0.1\" is a multicast address)"},
    {"spec>externalIPs>0", "'ff02::1'",
     NODE_PORTS BALANCER4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.externalIPs[0]: \"ff02::1\" is a multicast address)"},
    {"spec>externalIPs", "null",
     NODE_PORTS BALANCER4 FROM4 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"spec>externalIPs", "'192.0.2.7'", S "spec.externalIPs: \"192.0.2.7\" is not a list"},
    {"spec>externalIPs>1", "7", S "spec.externalIPs[1]: 7 is not a string"},
    {"spec>externalIPs>1", "null", S "spec.externalIPs[1]: null is not a string"},
    /* Only families with a cluster IP. */
    {"spec>ipFamilies", "['IPv4']",
     NODE_PORTS EXTERNAL4 BALANCER4 FROM4 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"spec>ipFamilies; spec>clusterIPs", "['IPv6']; ['fd00::1']",
     NODE_PORTS FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"spec>clusterIP", "'None'", NODE_PORTS},
    {"spec>type", "'ExternalName'", NODE_PORTS},
    /* Only ingress of mode VIP. */
    {"status>loadBalancer>ingress>0>ipMode", "'Proxy'",
     NODE_PORTS EXTERNAL4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"status>loadBalancer>ingress>1>ipMode", "'Later'",
     NODE_PORTS EXTERNAL4 BALANCER4 FROM4 EXTERNAL6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"status>loadBalancer>ingress>0>ip", "absent",
     NODE_PORTS EXTERNAL4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"status>loadBalancer>ingress>0>ip", "''",
     NODE_PORTS EXTERNAL4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"status>loadBalancer>ingress>0", "{'hostname':'lb.example.com'}",
     NODE_PORTS EXTERNAL4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"status>loadBalancer>ingress>0>ip", "'lb.example.com'",
     NODE_PORTS EXTERNAL4 FROM4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (status.loadBalancer.ingress[0].ip: \"lb.example.com\" is not an IP address)"},
    {"status>loadBalancer>ingress", "null",
     NODE_PORTS EXTERNAL4 FROM4 EXTERNAL6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"status", "absent",
     NODE_PORTS EXTERNAL4 FROM4 EXTERNAL6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"status", "'odd'", S "status: \"odd\" is not an object"},
    {"status>loadBalancer", "[]", S "status.loadBalancer: a list is not an object"},
    {"status>loadBalancer>ingress", "{}", S "status.loadBalancer.ingress: an object is not a list"},
    {"status>loadBalancer>ingress>1", "'203.0.113.10'",
     S "status.loadBalancer.ingress[1]: \"203.0.113.10\" is not an object"},
    {"status>loadBalancer>ingress>1>ip", "7",
     S "status.loadBalancer.ingress[1].ip: 7 is not a string"},
    {"status>loadBalancer>ingress>1>ipMode", "{}",
     S "status.loadBalancer.ingress[1].ipMode: an object is not a string"},
    /* Source ranges. */
    {"spec>loadBalancerSourceRanges",
     "[' 198.51.100.128/25\\n','198.51.100.0/25','','2001:db8:1::1/127']",
     NODE_PORTS ADDRESSES POLICIES AFFINITY SERVICE_CHECK},
    {"spec>loadBalancerSourceRanges", "['192.0.2.5/24','2001:db8:1::/127','0.0.0.0/0']",
     NODE_PORTS EXTERNAL4 BALANCER4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK},
    {"spec>loadBalancerSourceRanges", "['::/0','198.51.100.0/24','2001:db8::/64']",
     NODE_PORTS EXTERNAL4 BALANCER4 FROM4 EXTERNAL6 BALANCER6 POLICIES AFFINITY SERVICE_CHECK},
    {"spec>loadBalancerSourceRanges>0", "' 198.51.100.0 '",
     NODE_PORTS EXTERNAL4 BALANCER4 EXTERNAL6 BALANCER6 FROM6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.loadBalancerSourceRanges[0]: \"198.51.100.0\" is not a CIDR)"},
    {"spec>loadBalancerSourceRanges", "null",
     NODE_PORTS EXTERNAL4 BALANCER4 EXTERNAL6 BALANCER6 POLICIES AFFINITY SERVICE_CHECK},
    {"spec>loadBalancerSourceRanges", "'all'",
     S "spec.loadBalancerSourceRanges: \"all\" is not a list"},
    {"spec>loadBalancerSourceRanges>0", "24",
     S "spec.loadBalancerSourceRanges[0]: 24 is not a string"},
    /* Of many, some are named. */
    {"spec>externalIPs; spec>loadBalancerSourceRanges", "['a','b','c']; ['d','e','f','g']",
     NODE_PORTS BALANCER4 BALANCER6 POLICIES AFFINITY SERVICE_CHECK
     " (spec.externalIPs[0]: \"a\" is not an IP address; spec.externalIPs[1]: \"b\" is not an IP "
     "address; spec.externalIPs[2]: \"c\" is not an IP address; "
     "spec.loadBalancerSourceRanges[0]: \"d\" is not a CIDR; spec.loadBalancerSourceRanges[1]: "
     "\"e\" is not a CIDR; and 2 more)"},
};

static void expect_traffic(const struct variant *variant)
{
    service_writer = write_traffic;
    expect_variant(TRAFFIC, variant, "shop/web");
    service_writer = write_service;
}

TEST_ROWS(traffic_address, traffic_addresses)
{
    expect_traffic(row);
}

#define UNTIL_POLICIES NODE_PORTS ADDRESSES

static const struct variant traffic_fields[] = {
    {"spec>ports>2>nodePort", "30080", S "spec.ports[2]: TCP node port 30080 is a duplicate"},
    {"spec>ports>2>nodePort", "30081",
     "+30080+30080+30081" ADDRESSES POLICIES AFFINITY SERVICE_CHECK},
    {"spec>ports>0>nodePort", "0", "+0+30080+0" ADDRESSES POLICIES AFFINITY SERVICE_CHECK},
    {"spec>ports>0>nodePort", "null", "+0+30080+0" ADDRESSES POLICIES AFFINITY SERVICE_CHECK},
    {"spec>ports>0>nodePort", "65535", "+65535+30080+0" ADDRESSES POLICIES AFFINITY SERVICE_CHECK},
    {"spec>ports>0>nodePort", "65536", S "spec.ports[0].nodePort: 65536 is not within 0..65535"},
    {"spec>ports>0>nodePort", "'30080'", S "spec.ports[0].nodePort: \"30080\" is not a number"},
    /* When externalTrafficPolicy counts, and when the health check. */
    {"spec>type", "'NodePort'", UNTIL_POLICIES POLICIES AFFINITY},
    {"spec>type", "'ClusterIP'", UNTIL_POLICIES POLICIES AFFINITY},
    {"spec>type", "null", UNTIL_POLICIES POLICIES AFFINITY},
    {"spec>type; spec>externalIPs", "'NodePort'; null",
     NODE_PORTS BALANCER4 FROM4 BALANCER6 FROM6 POLICIES AFFINITY},
    {"spec>type; spec>externalIPs", "'ClusterIP'; []",
     NODE_PORTS BALANCER4 FROM4 BALANCER6 FROM6 " internal-local" AFFINITY},
    {"spec>type", "'FutureType'",
     UNTIL_POLICIES POLICIES AFFINITY
     " (spec.type: \"FutureType\" is unknown, taken for ClusterIP)"},
    {"spec>externalTrafficPolicy", "'Cluster'", UNTIL_POLICIES " internal-local" AFFINITY},
    {"spec>externalTrafficPolicy", "null", UNTIL_POLICIES " internal-local" AFFINITY},
    {"spec>externalTrafficPolicy", "'local'",
     UNTIL_POLICIES
     " internal-local" AFFINITY
     " (spec.externalTrafficPolicy: \"local\" is not Cluster or Local, taken for Cluster)"},
    {"spec>internalTrafficPolicy", "'Cluster'",
     UNTIL_POLICIES " external-local" AFFINITY SERVICE_CHECK},
    {"spec>internalTrafficPolicy", "null", UNTIL_POLICIES " external-local" AFFINITY SERVICE_CHECK},
    {"spec>internalTrafficPolicy", "''",
     UNTIL_POLICIES
     " external-local" AFFINITY SERVICE_CHECK
     " (spec.internalTrafficPolicy: \"\" is not Cluster or Local, taken for Cluster)"},
    {"spec>internalTrafficPolicy", "7", S "spec.internalTrafficPolicy: 7 is not a string"},
    {"spec>healthCheckNodePort", "0",
     UNTIL_POLICIES POLICIES AFFINITY
     " (spec.healthCheckNodePort: missing, so no health check is answered)"},
    {"spec>healthCheckNodePort; spec>type", "0; 'NodePort'", UNTIL_POLICIES POLICIES AFFINITY},
    /* Session affinity. */
    {"spec>sessionAffinity", "'None'", UNTIL_POLICIES POLICIES SERVICE_CHECK},
    {"spec>sessionAffinity", "null", UNTIL_POLICIES POLICIES SERVICE_CHECK},
    {"spec>sessionAffinity", "'Cookie'",
     UNTIL_POLICIES POLICIES SERVICE_CHECK
     " (spec.sessionAffinity: \"Cookie\" is not None or ClientIP, taken for None)"},
    {"spec>sessionAffinity", "[]", S "spec.sessionAffinity: a list is not a string"},
    {"spec>sessionAffinityConfig", "absent",
     UNTIL_POLICIES POLICIES " affinity=10800" SERVICE_CHECK},
    {"spec>sessionAffinityConfig>clientIP", "null",
     UNTIL_POLICIES POLICIES " affinity=10800" SERVICE_CHECK},
    {"spec>sessionAffinityConfig>clientIP>timeoutSeconds", "null",
     UNTIL_POLICIES POLICIES " affinity=10800" SERVICE_CHECK},
    {"spec>sessionAffinityConfig>clientIP>timeoutSeconds", "1",
     UNTIL_POLICIES POLICIES " affinity=1" SERVICE_CHECK},
    {"spec>sessionAffinityConfig>clientIP>timeoutSeconds", "86400",
     UNTIL_POLICIES POLICIES " affinity=86400" SERVICE_CHECK},
    {"spec>sessionAffinityConfig>clientIP>timeoutSeconds", "0",
     S "spec.sessionAffinityConfig.clientIP.timeoutSeconds: 0 is not within 1..86400"},
    {"spec>sessionAffinityConfig>clientIP>timeoutSeconds", "86401",
     S "spec.sessionAffinityConfig.clientIP.timeoutSeconds: 86401 is not within 1..86400"},
    {"spec>sessionAffinityConfig>clientIP>timeoutSeconds", "'5'",
     S "spec.sessionAffinityConfig.clientIP.timeoutSeconds: \"5\" is not a number"},
    {"spec>sessionAffinityConfig>clientIP", "600",
     S "spec.sessionAffinityConfig.clientIP: 600 is not an object"},
    {"spec>sessionAffinityConfig", "[]", S "spec.sessionAffinityConfig: a list is not an object"},
};

TEST_ROWS(traffic_field, traffic_fields)
{
    expect_traffic(row);
}

/* An ExternalName Service has neither clusterIP nor ipFamilies, and ports only if written. */
TEST(service_external_name)
{
    expect_json("{'apiVersion':'v1','kind':'Service','metadata':{'name':'external-name',"
                "'namespace':'shop','creationTimestamp':'2026-11-21T17:03:37Z'},'spec':{"
                "'type':'ExternalName','sessionAffinity':'None','externalName':'www.example.com'},"
                "'status':{'loadBalancer':{}}}",
                -1, NULL, "shop/external-name created=1795280617 skipped");
}

/* ---------------------------------------------------------- EndpointSlice */

TEST(slice_whole)
{
    expect_json(SLICE, -1, NULL, SLICE_TEXT SLICE_PORTS SLICE_ENDPOINTS);
}

#undef S
#define S "bad: EndpointSlice shop/web-x1: "
#define LABEL "metadata>labels>kubernetes.io/service-name"
#define NOTHING "shop/web-x1 of=nothing IPv4" SLICE_PORTS SLICE_ENDPOINTS

static const struct variant slice_fields[] = {
    {LABEL, "absent", NOTHING},
    {LABEL, "null", NOTHING},
    {LABEL, "''", NOTHING},
    {"metadata>labels", "absent", NOTHING},
    {"metadata>labels", "null", NOTHING},
    {"metadata>labels", "{}", NOTHING},
    {"metadata>labels", "{'kubernetes.io/service':'web'}", NOTHING},
    {"metadata>namespace", "'other'", "other/web-x1 of=other/web IPv4" SLICE_PORTS SLICE_ENDPOINTS},
    {"metadata>namespace", "absent",
     "default/web-x1 of=default/web IPv4" SLICE_PORTS SLICE_ENDPOINTS},
    {LABEL, "1", S "metadata.labels.kubernetes.io/service-name: 1 is not a string"},
    {"metadata>labels", "[]", S "metadata.labels: a list is not an object"},
    {"addressType", "'IPv6'", "shop/web-x1 of=shop/web IPv6" SLICE_PORTS},
    {"addressType; endpoints>1>addresses>0", "'IPv6'; 'fd00::1'",
     "shop/web-x1 of=shop/web IPv6" SLICE_PORTS " fd00::1"},
    {"addressType; endpoints>0>addresses>0", "'FQDN'; 'backend.example.com'",
     "shop/web-x1 of=shop/web no family" SLICE_PORTS},
    {"addressType", "'IPv5'", "shop/web-x1 of=shop/web no family" SLICE_PORTS},
    {"addressType", "absent", S "addressType: missing"},
    {"addressType", "null", S "addressType: missing"},
    {"addressType", "4", S "addressType: 4 is not a string"},
};

TEST_ROWS(slice_field, slice_fields)
{
    expect_variant(SLICE, row, "shop/web-x1");
}

static const struct variant slice_ports[] = {
    {"ports", "absent", SLICE_TEXT SLICE_ENDPOINTS},
    {"ports", "null", SLICE_TEXT SLICE_ENDPOINTS},
    {"ports", "[]", SLICE_TEXT SLICE_ENDPOINTS},
    {"ports>0>port", "absent", SLICE_TEXT " quic/UDP:7000" SLICE_ENDPOINTS},
    {"ports>0>port", "null", SLICE_TEXT " quic/UDP:7000" SLICE_ENDPOINTS},
    {"ports>0>port", "0", SLICE_TEXT " quic/UDP:7000" SLICE_ENDPOINTS},
    {"ports>0>port", "65535", SLICE_TEXT " http/TCP:65535 quic/UDP:7000" SLICE_ENDPOINTS},
    /* In an order of their own, and once. */
    {"ports",
     "[{'name':'b','port':2},{'name':'a','protocol':'UDP','port':1},{'name':'b','port':1},"
     "{'name':'b','port':2},{'name':'a','port':3}]",
     SLICE_TEXT " a/TCP:3 b/TCP:1 b/TCP:2 a/UDP:1" SLICE_ENDPOINTS},
    {"ports>0>name", "absent", SLICE_TEXT " /TCP:8081 quic/UDP:7000" SLICE_ENDPOINTS},
    {"ports>0>name", "null", SLICE_TEXT " /TCP:8081 quic/UDP:7000" SLICE_ENDPOINTS},
    {"ports>0>name", "''", SLICE_TEXT " /TCP:8081 quic/UDP:7000" SLICE_ENDPOINTS},
    {"ports>1>protocol", "absent", SLICE_TEXT " http/TCP:8081 quic/TCP:7000" SLICE_ENDPOINTS},
    {"ports>1>protocol", "null", SLICE_TEXT " http/TCP:8081 quic/TCP:7000" SLICE_ENDPOINTS},
    {"ports>1>protocol", "'SCTP'", SLICE_TEXT " http/TCP:8081 quic/SCTP:7000" SLICE_ENDPOINTS},
    {"ports>0>appProtocol", "1", SLICE_TEXT SLICE_PORTS SLICE_ENDPOINTS},
    {"ports", "8081", S "ports: 8081 is not a list"},
    {"ports>1", "7000", S "ports[1]: 7000 is not an object"},
    {"ports>1", "null", S "ports[1]: null is not an object"},
    {"ports>0>port", "'http'", S "ports[0].port: \"http\" is not a number"},
    {"ports>0>port", "65536", S "ports[0].port: 65536 is not within 0..65535"},
    {"ports>0>port", "-1", S "ports[0].port: -1 is not within 0..65535"},
    {"ports>0>port", "0.5", S "ports[0].port: 0.5 is not an integer"},
    {"ports>1>name", "[]", S "ports[1].name: a list is not a string"},
    {"ports>1>protocol", "6", S "ports[1].protocol: 6 is not a string"},
    {"ports>1>protocol", "'DCCP'", S "ports[1].protocol: \"DCCP\" is not TCP, UDP or SCTP"},
};

TEST_ROWS(slice_port, slice_ports)
{
    expect_variant(SLICE, row, "shop/web-x1");
}

#define FIRST " 10.244.3.19@node-c/zone-3"
#define SECOND " 10.244.2.18"

static const struct variant slice_endpoints[] = {
    {"endpoints", "absent", SLICE_TEXT SLICE_PORTS},
    {"endpoints", "null", SLICE_TEXT SLICE_PORTS},
    {"endpoints", "[]", SLICE_TEXT SLICE_PORTS},
    {"endpoints>0>addresses", "absent", SLICE_TEXT SLICE_PORTS SECOND},
    {"endpoints>0>addresses", "null", SLICE_TEXT SLICE_PORTS SECOND},
    {"endpoints>0>addresses", "[]", SLICE_TEXT SLICE_PORTS SECOND},
    {"endpoints>0>addresses", "['10.0.0.1','10.0.0.2',7,'junk']",
     SLICE_TEXT SLICE_PORTS " 10.0.0.1@node-c/zone-3" SECOND},
    {"endpoints>0>addresses>0", "'010.244.003.019'", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>addresses>0", "'::ffff:10.244.3.19'", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>addresses>0", "'fd00::1'", SLICE_TEXT SLICE_PORTS SECOND},
    {"endpoints>0>nodeName", "absent", SLICE_TEXT SLICE_PORTS " 10.244.3.19/zone-3" SECOND},
    {"endpoints>0>nodeName", "null", SLICE_TEXT SLICE_PORTS " 10.244.3.19/zone-3" SECOND},
    {"endpoints>0>zone", "absent", SLICE_TEXT SLICE_PORTS " 10.244.3.19@node-c" SECOND},
    {"endpoints>0>zone", "''", SLICE_TEXT SLICE_PORTS " 10.244.3.19@node-c" SECOND},
    {"endpoints>1>zone", "'zone-1'", SLICE_TEXT SLICE_PORTS FIRST SECOND "/zone-1"},
    {"endpoints>0>conditions", "absent", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>conditions", "null", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>conditions", "{'ready':null,'serving':null,'terminating':null}",
     SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>conditions", "{'ready':true}", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>hostname", "[]", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>targetRef", "false", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>hints", "null", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>hints", "{}", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>hints", "{'forZones':null,'forNodes':[]}", SLICE_TEXT SLICE_PORTS FIRST SECOND},
    {"endpoints>0>hints", "{'forZones':[{'name':'z1'},{'name':'z2'}]}",
     SLICE_TEXT SLICE_PORTS FIRST "^z1,z2" SECOND},
    {"endpoints>0>hints", "{'forNodes':[{'name':'n1'}]}",
     SLICE_TEXT SLICE_PORTS FIRST "~n1" SECOND},
    {"endpoints>1>hints", "{'forZones':[{'name':'z1'}],'forNodes':[{'name':'n1'},{'name':'n2'}]}",
     SLICE_TEXT SLICE_PORTS FIRST SECOND "~n1,n2^z1"},
    {"endpoints>0>hints", "{'forZones':[{},{'name':null},{'name':''}]}",
     SLICE_TEXT SLICE_PORTS FIRST "^,," SECOND},
    {"endpoints", "{}", S "endpoints: an object is not a list"},
    {"endpoints>0>hints", "[]", S "endpoints[0].hints: a list is not an object"},
    {"endpoints>0>hints", "{'forZones':'z1'}",
     S "endpoints[0].hints.forZones: \"z1\" is not a list"},
    {"endpoints>0>hints", "{'forNodes':['n1']}",
     S "endpoints[0].hints.forNodes[0]: \"n1\" is not an object"},
    {"endpoints>1>hints", "{'forNodes':[{'name':'n1'}],'forZones':[{'name':'z1'},{'name':1}]}",
     S "endpoints[1].hints.forZones[1].name: 1 is not a string"},
    {"endpoints>1", "'10.0.0.1'", S "endpoints[1]: \"10.0.0.1\" is not an object"},
    {"endpoints>1", "null", S "endpoints[1]: null is not an object"},
    {"endpoints>1>addresses", "'10.0.0.1'", S "endpoints[1].addresses: \"10.0.0.1\" is not a list"},
    {"endpoints>1>addresses>0", "10", S "endpoints[1].addresses[0]: 10 is not a string"},
    {"endpoints>1>addresses>0", "null", S "endpoints[1].addresses[0]: null is not a string"},
    {"endpoints>1>addresses>0", "'10.0.0.1:80'",
     S "endpoints[1].addresses[0]: \"10.0.0.1:80\" is not an IP address"},
    {"endpoints>0>nodeName", "5", S "endpoints[0].nodeName: 5 is not a string"},
    {"endpoints>0>zone", "7", S "endpoints[0].zone: 7 is not a string"},
    {"endpoints>0>conditions", "[]", S "endpoints[0].conditions: a list is not an object"},
    {"endpoints>1>conditions>ready", "'true'",
     S "endpoints[1].conditions.ready: \"true\" is not true or false"},
    {"endpoints>1>conditions>serving", "1",
     S "endpoints[1].conditions.serving: 1 is not true or false"},
    {"endpoints>1>conditions>terminating", "{}",
     S "endpoints[1].conditions.terminating: an object is not true or false"},
};

TEST_ROWS(slice_endpoint, slice_endpoints)
{
    expect_variant(SLICE, row, "shop/web-x1");
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
                S "endpoints[1].hints.forZones[65535]: more than 65535 hints");
    cJSON_DeleteItemFromArray(zones, 0);
    char *text = decoded_as(json, -1, "shop/web-x1");
    ck_assert_uint_eq(strncmp(text, "shop/web-x1", strlen("shop/web-x1")), 0);
    free(text);
    cJSON_Delete(json);
}

/* ---------------------------------------------------------- ServiceCIDR */

#undef S
#define S "bad: ServiceCIDR kubernetes: "

static const struct variant service_cidrs[] = {
    {"unknown", "1", "kubernetes 10.96.0.0/12 fd00:10:96::/112"},
    {"status", "'odd'", "kubernetes 10.96.0.0/12 fd00:10:96::/112"},
    {"metadata>namespace", "'shop'", "kubernetes 10.96.0.0/12 fd00:10:96::/112"},
    {"spec>cidrs", "['fd00:10:96::/112','10.96.0.0/12']",
     "kubernetes 10.96.0.0/12 fd00:10:96::/112"},
    {"spec>cidrs>1", "absent", "kubernetes 10.96.0.0/12"},
    {"spec>cidrs>0", "absent", "kubernetes fd00:10:96::/112"},
    /* The first of a family counts. */
    {"spec>cidrs", "['10.96.0.0/16','10.97.0.0/16','10.98.0.0/16']", "kubernetes 10.96.0.0/16"},
    {"spec>cidrs", "absent", S "spec.cidrs: missing"},
    {"spec>cidrs", "[]", S "spec.cidrs: missing"},
    {"spec", "absent", S "spec.cidrs: missing"},
    {"spec", "[]", S "spec: a list is not an object"},
    {"spec>cidrs", "'10.96.0.0/12'", S "spec.cidrs: \"10.96.0.0/12\" is not a list"},
    {"spec>cidrs>1", "96", S "spec.cidrs[1]: 96 is not a string"},
    {"spec>cidrs>1", "'10.96.0.0/33'", S "spec.cidrs[1]: \"10.96.0.0/33\" is not a CIDR"},
    {"apiVersion", "'networking.k8s.io/v1beta1'", "other"},
};

TEST_ROWS(service_cidr, service_cidrs)
{
    expect_variant(CIDR, row, "kubernetes");
}

/* ---------------------------------------------------------- Node */

#undef S
#define S "bad: Node node-a: "

static const struct variant nodes[] = {
    {"metadata>namespace", "'x'", NODE_TEXT},
    {"metadata>deletionTimestamp", "null", NODE_TEXT},
    {"metadata>deletionTimestamp", "'2026-11-21T17:03:37Z'", NODE_TEXT " deleting"},
    {"metadata>deletionTimestamp", "12", S "metadata.deletionTimestamp: 12 is not a string"},
    {"spec>taints>1", "{'key':'ToBeDeletedByClusterAutoscaler','value':'1'}",
     NODE_TEXT " to_be_deleted"},
    {"spec>taints>0>key; metadata>deletionTimestamp",
     "'ToBeDeletedByClusterAutoscaler'; '2026-11-21T17:03:37Z'",
     NODE_TEXT " deleting to_be_deleted"},
    {"spec>taints>0>key", "'ToBeDeletedByClusterAutoscalerSoon'", NODE_TEXT},
    {"spec>taints>0>key", "absent", NODE_TEXT},
    {"spec>taints>0", "{}", NODE_TEXT},
    {"spec>taints", "[]", NODE_TEXT},
    {"spec>taints", "null", NODE_TEXT},
    {"spec>taints", "absent", NODE_TEXT},
    {"spec", "absent", NODE_ADDRESSES},
    {"spec", "null", NODE_ADDRESSES},
    {"spec", "7", S "spec: 7 is not an object"},
    {"spec>taints", "'x'", S "spec.taints: \"x\" is not a list"},
    {"spec>taints>1", "'ToBeDeletedByClusterAutoscaler'",
     S "spec.taints[1]: \"ToBeDeletedByClusterAutoscaler\" is not an object"},
    {"spec>taints>0", "null", S "spec.taints[0]: null is not an object"},
    {"spec>taints>0>key", "7", S "spec.taints[0].key: 7 is not a string"},
    /* The zone. */
    {"metadata>labels", "absent", "node-a IPv4=192.0.2.1" NODE_PODS},
    {"metadata>labels>topology.kubernetes.io/zone", "null", "node-a IPv4=192.0.2.1" NODE_PODS},
    {"metadata>labels>topology.kubernetes.io/zone", "''", "node-a IPv4=192.0.2.1" NODE_PODS},
    {"metadata>labels>topology.kubernetes.io/zone", "1",
     S "metadata.labels.topology.kubernetes.io/zone: 1 is not a string"},
    {"metadata>labels", "'zone-1'", S "metadata.labels: \"zone-1\" is not an object"},
    /* Addresses: all internal ones come before the external ones. */
    {"status", "absent", "node-a zone=zone-1" NODE_PODS},
    {"status", "{}", "node-a zone=zone-1" NODE_PODS},
    {"status>addresses", "[]", "node-a zone=zone-1" NODE_PODS},
    {"status>addresses>2", "{'type':'InternalIP','address':'192.0.2.2'}", NODE_TEXT},
    {"status>addresses",
     "[{'type':'ExternalIP','address':'203.0.113.1'},{'type':'ExternalIP','address':'2001:db8::2'},"
     "{'type':'InternalIP','address':'192.0.2.1'}]",
     NODE_ADDRESSES " IPv6=2001:db8::2" NODE_PODS},
    {"status>addresses",
     "[{'type':'InternalIP','address':'junk'},{'type':'InternalIP','address':'fd00::1'},"
     "{'type':'InternalIP','address':'192.0.2.1'},{'type':'InternalIP','address':'fd00::2'}]",
     NODE_ADDRESSES " IPv6=fd00::1" NODE_PODS},
    {"status>addresses>1>type", "'InternalDNS'", "node-a zone=zone-1" NODE_PODS},
    {"status>addresses>1>type", "null", "node-a zone=zone-1" NODE_PODS},
    {"status>addresses>1>address", "null", "node-a zone=zone-1" NODE_PODS},
    {"status>addresses>1>address", "'192.0.2'", "node-a zone=zone-1" NODE_PODS},
    {"status", "[]", S "status: a list is not an object"},
    {"status>addresses", "{}", S "status.addresses: an object is not a list"},
    {"status>addresses>0", "'192.0.2.1'", S "status.addresses[0]: \"192.0.2.1\" is not an object"},
    {"status>addresses>1>type", "1", S "status.addresses[1].type: 1 is not a string"},
    {"status>addresses>1>address", "1", S "status.addresses[1].address: 1 is not a string"},
    /* Pod CIDRs. */
    {"spec>podCIDRs", "absent", NODE_ADDRESSES},
    {"spec>podCIDRs; spec>podCIDR", "absent; '10.244.7.0/24'", NODE_ADDRESSES},
    {"spec>podCIDRs", "['fd00:244::/64','10.244.1.0/24','10.244.2.0/24','fd00:245::/64']",
     NODE_TEXT " pods=fd00:244::/64"},
    {"spec>podCIDRs", "{}", S "spec.podCIDRs: an object is not a list"},
    {"spec>podCIDRs>0", "10", S "spec.podCIDRs[0]: 10 is not a string"},
    {"spec>podCIDRs>0", "'10.244.1.0'", S "spec.podCIDRs[0]: \"10.244.1.0\" is not a CIDR"},
};

TEST_ROWS(node, nodes)
{
    expect_variant(NODE, row, "node-a");
}

/* ---------------------------------------------------------- kinds and names */

#undef S
#define S "bad: Service (no name): "
#define WHOLE SERVICE_TEXT SERVICE_PORTS SERVICE_CHECK

static const struct variant names[] = {
    {"metadata", "absent", S "metadata.name: missing"},
    {"metadata", "null", S "metadata.name: missing"},
    {"metadata", "[]", S "metadata: a list is not an object"},
    {"metadata>name", "absent", S "metadata.name: missing"},
    {"metadata>name", "null", S "metadata.name: missing"},
    {"metadata>name", "''", S "metadata.name: missing"},
    {"metadata>name", "1", S "metadata.name: 1 is not a string"},
    {"metadata>name", "'a/b'", S "metadata.name: \"a/b\" has a slash"},
    {"metadata>namespace", "1", S "metadata.namespace: 1 is not a string"},
    {"metadata>namespace", "'a/b'", S "metadata.namespace: \"a/b\" has a slash"},
    /* Kinds and versions that are not ours. */
    {"kind", "'Pod'", "other"},
    {"kind", "'service'", "other"},
    {"kind", "'Endpoints'", "other"},
    {"kind", "absent", "other"},
    {"kind", "7", "other"},
    {"apiVersion", "absent", "other"},
    {"apiVersion", "7", "other"},
    {"apiVersion", "'v2'", "other"},
    {"apiVersion", "'discovery.k8s.io/v1'", "other"},
    {"kind; apiVersion", "'Service'; 'serving.knative.dev/v1'", "other"},
};

TEST_ROWS(name, names)
{
    expect_variant(SERVICE, row, NULL);
}

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
    expect_json(NODE, KIND_SERVICE, NULL, NODE_TEXT);
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
        {"80", "default/a created=never IPv4=10.96.0.1 /TCP:80"},
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

static bool same(struct object *a, struct object *b)
{
    bool equal = a->kind == KIND_SERVICE ? service_equal(a->service, b->service)
                                         : endpoint_slice_equal(a->slice, b->slice);
    object_clear(b);
    return equal;
}

/* A field that is kept makes a difference, one that is not makes none. */
TEST(service_equality)
{
    static const struct {
        const char *path, *value;
        bool same;
    } changes[] = {
        {"metadata>resourceVersion", "'237'", true},
        {"metadata>annotations", "{'other':'text'}", true},
        {"metadata>labels", "{}", true},
        {"status>loadBalancer>ingress>0>hostname", "'lb.example.com'", true},
        {"spec>ports>0>targetPort", "8081", true},
        {"spec>externalTrafficPolicy", "'Local'", true},
        {"metadata>name", "'web2'", false},
        {"metadata>namespace", "'shop2'", false},
        {"metadata>creationTimestamp", "'2026-11-21T17:03:38Z'", false},
        {"spec>type", "'ExternalName'", false},
        {"spec>ipFamilies", "['IPv4']", false},
        {"spec>clusterIPs>0", "'10.111.4.221'", false},
        {"spec>clusterIPs>1", "'fd00:10:96::d62e'", false},
        {"spec>healthCheckNodePort", "31235", false},
        {"spec>externalTrafficPolicy", "'Cluster'", false},
        {"spec>ports>1", "absent", false},
        {"spec>ports>2", "{'name':'more','port':81}", false},
        {"spec>ports>1>name", "'quic2'", false},
        {"spec>ports>1>port", "444", false},
        {"spec>ports>1>protocol", "'SCTP'", false},
        {"spec>ports>1>nodePort", "32657", false},
        {"spec>externalIPs", "['192.0.2.7']", false},
        {"spec>externalIPs", "['2001:db8::7']", false},
        {"spec>externalIPs", "['no address']", true},
        {"status>loadBalancer>ingress>0>ip", "'203.0.113.11'", false},
        {"status>loadBalancer>ingress>1", "{'ip':'2001:db8::9'}", false},
        {"status>loadBalancer>ingress>0>ipMode", "'Proxy'", false},
        {"status>loadBalancer", "{}", false},
        {"spec>loadBalancerSourceRanges", "['192.0.2.0/24']", false},
        {"spec>loadBalancerSourceRanges", "['2001:db8::/32']", false},
        {"spec>internalTrafficPolicy", "'Local'", false},
        {"spec>sessionAffinity", "'ClientIP'", false},
    };
    struct object whole = decode(SERVICE, "unknown", "1");
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct object other = decode(SERVICE, changes[i].path, changes[i].value);
        ck_assert_msg(same(&whole, &other) == changes[i].same, "%s", changes[i].path);
    }
    object_clear(&whole);
}

TEST(slice_equality)
{
    static const struct {
        const char *path, *value;
        bool same;
    } changes[] = {
        {"metadata>resourceVersion", "'237'", true},
        {"metadata>annotations", "{'endpoints.kubernetes.io/last-change-trigger-time':'x'}", true},
        {"endpoints>0>zone", "'zone-9'", false},
        {"endpoints>0>targetRef", "null", true},
        {"endpoints>1>conditions>serving", "true", true},
        {"metadata>name", "'web-x2'", false},
        {LABEL, "'web2'", false},
        {LABEL, "absent", false},
        {"addressType", "'FQDN'", false},
        {"addressType", "'IPv6'", false},
        {"ports", "null", false},
        {"ports>1>name", "'quic2'", false},
        {"ports>1>port", "7001", false},
        {"ports>1>protocol", "'SCTP'", false},
        {"endpoints", "null", false},
        {"endpoints>1>addresses>0", "'10.244.2.19'", false},
        {"endpoints>1>nodeName", "'node-b'", false},
        {"endpoints>0>nodeName", "'node-b'", false},
        {"endpoints>1>conditions>ready", "false", false},
        {"endpoints>1>conditions>serving", "false", false},
        {"endpoints>1>conditions>terminating", "true", false},
        {"endpoints>1>hints", "{'forZones':[]}", true},
        {"endpoints>1>hints", "{'forZones':[{'name':'z'}]}", false},
        {"endpoints>1>hints", "{'forNodes':[{'name':'z'}]}", false},
    };
    struct object whole = decode(SLICE, "unknown", "1");
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct object other = decode(SLICE, changes[i].path, changes[i].value);
        ck_assert_msg(same(&whole, &other) == changes[i].same, "%s", changes[i].path);
    }
    object_clear(&whole);
}

/* Hints as they are; then others, which differ in one thing each. */
TEST(hint_equality)
{
    static const char *const hints[] = {
        "{'forNodes':[{'name':'a'},{'name':'b'}]}",
        "{'forNodes':[{'name':'b'},{'name':'a'}]}",
        "{'forNodes':[{'name':'a'}]}",
        "{'forZones':[{'name':'a'},{'name':'b'}]}",
        "{'forNodes':[{'name':'a'}],'forZones':[{'name':'b'}]}",
        "null",
    };
    for (size_t i = 0; i < COUNT(hints); i++) {
        struct object one = decode(SLICE, "endpoints>0>hints", hints[i]);
        for (size_t j = 0; j < COUNT(hints); j++) {
            struct object other = decode(SLICE, "endpoints>0>hints", hints[j]);
            ck_assert_msg(same(&one, &other) == (i == j), "%s and %s", hints[i], hints[j]);
        }
        object_clear(&one);
    }
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
