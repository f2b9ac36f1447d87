/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Objects of the API by chance, as JSON has them, with all fields that the stand-in API server
 * knows. Many are good; of what is wrong with the others, JSON and protobuf can say the same. */
#ifndef KUBE_NFTD_TESTS_RANDOM_JSON_H
#define KUBE_NFTD_TESTS_RANDOM_JSON_H

#include "objects.h"
#include "proto_writer.h"

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

static inline cJSON *random_text(const char *key, uint64_t *chance)
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

static inline cJSON *random_message(const char *message, uint64_t *chance);

static inline cJSON *random_one(const struct written_field *field, uint64_t *chance)
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
    clock_rfc3339_seconds((double)dice(chance, 2000000000) * (dice(chance, 4) ? 1 : -20), text);
    return cJSON_CreateString(text);
}

static inline cJSON *random_many(const struct written_field *field, uint64_t *chance)
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
static inline cJSON *random_message(const char *message, uint64_t *chance)
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

#endif
