/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What it costs to decode objects, JSON beside protobuf: an event of a slice with 100 endpoints,
 * and the lists of 10,000 Services and of their slices with 10 endpoints each. Prints bytes and the
 * CPU time of the best of some rounds; half of it is for what both have in common, the objects. As
 * in a daemon, those of an event are freed, and those of a list stay.
 */
#include "../unit/proto_writer.h"

#include "source/messages.h"
#include "source/object_reader.h"

#include <time.h>

#define ROUNDS 7
#define EVENTS 2000
#define SERVICES 10000
/* As they come from TLS records. */
#define PIECE ((size_t)16 * 1024)

#define MANAGED                                                                                    \
    "\"managedFields\":[{\"manager\":\"kube-controller-manager\",\"operation\":\"Update\","        \
    "\"apiVersion\":\"v1\",\"time\":\"2026-11-21T17:03:37Z\",\"fieldsType\":\"FieldsV1\","         \
    "\"fieldsV1\":{\"f:addressType\":{},\"f:endpoints\":{},\"f:metadata\":{\"f:annotations\":{"    \
    "\".\":{},\"f:endpoints.kubernetes.io/last-change-trigger-time\":{}},\"f:labels\":{\".\":{},"  \
    "\"f:kubernetes.io/service-name\":{}},\"f:ownerReferences\":{\".\":{},\"k:{\\\"uid\\\":"       \
    "\\\"ae4a5bd4\\\"}\":{}}},\"f:ports\":{}}}]"

static char *slice_text(int n, int endpoints)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fprintf(out,
            "{\"kind\":\"EndpointSlice\",\"apiVersion\":\"discovery.k8s.io/v1\",\"metadata\":{"
            "\"name\":\"web-%d-x8k2p\",\"generateName\":\"web-%d-\",\"namespace\":\"shop\","
            "\"uid\":\"c93f411a-6b18-4ce5-8a6d-183d719884ae\",\"resourceVersion\":\"%d\","
            "\"generation\":1,\"creationTimestamp\":\"2026-11-21T17:03:37Z\",\"labels\":{"
            "\"endpointslice.kubernetes.io/managed-by\":\"endpointslice-controller.k8s.io\","
            "\"kubernetes.io/service-name\":\"web-%d\"},\"annotations\":{"
            "\"endpoints.kubernetes.io/last-change-trigger-time\":\"2026-11-21T17:03:37Z\"},"
            "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"name\":\"web-%d\","
            "\"uid\":\"0a3f411a-6b18-4ce5-8a6d-183d719884ae\",\"controller\":true,"
            "\"blockOwnerDeletion\":true}]," MANAGED "},\"endpoints\":[",
            n, n, 1000 + n, n, n);
    for (int i = 0; i < endpoints; i++)
        fprintf(out,
                "%s{\"addresses\":[\"10.%d.%d.%d\"],\"conditions\":{\"ready\":true,"
                "\"serving\":true,\"terminating\":false},\"targetRef\":{\"kind\":\"Pod\","
                "\"namespace\":\"shop\",\"name\":\"web-%d-5d9c7b6f4-%05d\",\"uid\":"
                "\"c93f411a-6b18-4ce5-8a6d-%012d\"},\"nodeName\":\"node-%d\",\"zone\":\"zone-1\"}",
                i ? "," : "", n / 250 % 250, n % 250, i + 1, n, i, i, i % 50);
    fputs("],\"ports\":[{\"name\":\"http\",\"protocol\":\"TCP\",\"port\":8080}],"
          "\"addressType\":\"IPv4\"}",
          out);
    fclose(out);
    return text;
}

static char *service_text(int n)
{
    return xasprintf(
        "{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"web-%d\","
        "\"namespace\":\"shop\",\"uid\":\"c93f411a-6b18-4ce5-8a6d-183d719884ae\","
        "\"resourceVersion\":\"%d\",\"creationTimestamp\":\"2026-11-21T17:03:37Z\",\"labels\":{"
        "\"app\":\"web-%d\"}," MANAGED "},\"spec\":{\"ports\":[{\"name\":\"http\","
        "\"protocol\":\"TCP\",\"port\":80,\"targetPort\":8080}],\"selector\":{\"app\":\"web-%d\"},"
        "\"clusterIP\":\"10.96.%d.%d\",\"clusterIPs\":[\"10.96.%d.%d\"],\"type\":\"ClusterIP\","
        "\"sessionAffinity\":\"None\",\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":\"SingleStack\","
        "\"internalTrafficPolicy\":\"Cluster\"},\"status\":{\"loadBalancer\":{}}}",
        n, n, n, n, n / 250, n % 250, n / 250, n % 250);
}

/* ---- bodies in both encodings ---- */

static void put_events(int n, int endpoints, bytes out[ENCODING_COUNT])
{
    for (int i = 0; i < n; i++) {
        bytes body = {0};
        char *text = slice_text(i, endpoints);
        char *event = xasprintf("{\"type\":\"MODIFIED\",\"object\":%s}\n", text);
        put(&out[ENCODING_JSON], event, strlen(event));
        cJSON *json = cJSON_Parse(text);
        put_body(&body, json);
        put_frame(&out[ENCODING_PROTOBUF], "MODIFIED", &body);
        cJSON_Delete(json);
        free(event);
        free(text);
    }
}

static void put_list(enum object_kind kind, bytes out[ENCODING_COUNT])
{
    cJSON *list = cJSON_CreateObject(), *items = cJSON_CreateArray();
    bool services = kind == KIND_SERVICE;
    cJSON_AddStringToObject(list, "kind", services ? "ServiceList" : "EndpointSliceList");
    cJSON_AddStringToObject(list, "apiVersion", services ? "v1" : "discovery.k8s.io/v1");
    cJSON_AddItemToObject(list, "metadata", cJSON_Parse("{\"resourceVersion\":\"2107\"}"));
    cJSON_AddItemToObject(list, "items", items);
    for (int i = 0; i < SERVICES; i++) {
        char *text = services ? service_text(i) : slice_text(i, 10);
        cJSON *item = cJSON_Parse(text);
        cJSON_DeleteItemFromObject(item, "kind");
        cJSON_DeleteItemFromObject(item, "apiVersion");
        cJSON_AddItemToArray(items, item);
        free(text);
    }
    char *text = cJSON_PrintUnformatted(list);
    put(&out[ENCODING_JSON], text, strlen(text));
    put_body(&out[ENCODING_PROTOBUF], list);
    free(text);
    cJSON_Delete(list);
}

/* ---- decoding ---- */

static void expect(bool holds, const struct error *err)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", err->text ? err->text : "not all objects came");
    exit(EXIT_FAILURE);
}

static int count(void *ctx, struct watch_event *event, struct error *err)
{
    (void)err;
    *(size_t *)ctx += event->type == WATCH_PUT;
    return 0;
}

typedef int (*feed_fn)(void *reader, const char *bytes_, size_t length, struct error *err);

static void feed_pieces(const bytes *body, feed_fn feed, void *reader)
{
    struct error err = {0};
    for (size_t at = 0; at < body->n; at += PIECE) {
        size_t n = body->n - at < PIECE ? body->n - at : PIECE;
        expect(feed(reader, body->v + at, n, &err) == 0, &err);
    }
}

static int feed_objects(void *reader, const char *bytes_, size_t length, struct error *err)
{
    return object_reader_feed(reader, bytes_, length, err);
}

static void decode_events(const bytes *body, enum encoding encoding, enum object_kind kind)
{
    size_t seen = 0;
    struct error err = {0};
    struct object_reader reader = {.kind = kind, .take = count, .ctx = &seen};
    object_reader_begin(&reader, encoding, false);
    feed_pieces(body, feed_objects, &reader);
    expect(seen == EVENTS, &err);
    object_reader_reset(&reader);
}

static VEC(object_vec) kept;

static int keep(void *ctx, struct watch_event *event, struct error *err)
{
    (void)err;
    if (event->type == WATCH_PUT) {
        vec_push((object_vec *)ctx, event->object);
        event->object = (struct object){0};
    }
    return 0;
}

static void decode_list(const bytes *body, enum encoding encoding, enum object_kind kind)
{
    object_vec objects = {0};
    struct error err = {0};
    struct object_reader reader = {.kind = kind, .take = keep, .ctx = &objects};
    object_reader_begin(&reader, encoding, true);
    feed_pieces(body, feed_objects, &reader);
    expect(object_reader_end_page(&reader, &err) == 0, &err);
    expect(objects.n == SERVICES, &err);
    vec_push(&kept, objects);
    object_reader_reset(&reader);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* By turns, so that both meet the same machine. */
static void compare(const char *what, int n, bytes body[ENCODING_COUNT], enum object_kind kind,
                    void (*decode)(const bytes *, enum encoding, enum object_kind))
{
    double best[ENCODING_COUNT] = {1e9, 1e9};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ENCODING_COUNT; i++) {
            double begin = cpu_seconds();
            decode(&body[i], (enum encoding)i, kind);
            double took = cpu_seconds() - begin;
            best[i] = took < best[i] ? took : best[i];
        }
    }
    for (int i = 0; i < ENCODING_COUNT; i++) {
        printf("%-36s %-9s %9zu bytes %8.2f us\n", what, encoding_name((enum encoding)i),
               body[i].n / (size_t)n, best[i] * 1e6 / n);
        vec_free(&body[i]);
    }
    printf("%-36s protobuf is %.2f times JSON\n", "",
           best[ENCODING_PROTOBUF] / best[ENCODING_JSON]);
}

static int nothing(void *ctx, const struct json_value *value, const struct json_value *list,
                   struct error *err)
{
    (void)ctx, (void)value, (void)list, (void)err;
    return 0;
}

static int feed_body(void *reader, const char *bytes_, size_t length, struct error *err)
{
    return value_reader_feed(reader, bytes_, length, err);
}

static void read_events(const bytes *body, enum encoding encoding, enum object_kind kind)
{
    struct value_reader *reader =
        encoding == ENCODING_PROTOBUF
            ? proto_reader_new(&message_watch, PIECE * 1024, nothing, NULL)
            : json_reader_new(PIECE * 1024, nothing, NULL);
    (void)kind;
    feed_pieces(body, feed_body, reader);
    value_reader_free(reader);
}

int main(void)
{
    bytes body[ENCODING_COUNT] = {{0}};
    put_events(EVENTS, 100, body);
    compare("only the values of 100 endpoints", EVENTS, body, KIND_ENDPOINTSLICE, read_events);
    put_events(EVENTS, 1, body);
    compare("only the values of 1 endpoint", EVENTS, body, KIND_ENDPOINTSLICE, read_events);
    put_events(EVENTS, 100, body);
    compare("an event of 100 endpoints", EVENTS, body, KIND_ENDPOINTSLICE, decode_events);
    put_events(EVENTS, 1, body);
    compare("an event of 1 endpoint", EVENTS, body, KIND_ENDPOINTSLICE, decode_events);
    put_list(KIND_SERVICE, body);
    compare("the list of 10,000 Services", 1, body, KIND_SERVICE, decode_list);
    put_list(KIND_ENDPOINTSLICE, body);
    compare("the list of 10,000 slices", 1, body, KIND_ENDPOINTSLICE, decode_list);
    return EXIT_SUCCESS;
}
