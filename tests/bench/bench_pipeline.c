/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a first programming and a single change cost, beside what the kernel alone takes for the
 * same elements sent by the same writer. Prints figures and ratios; judges nothing.
 *
 *     bench_pipeline SERVICES ENDPOINTS [SAMPLES]
 *     bench_pipeline SERVICES ENDPOINTS --write FILE    writes the objects and does no more
 *
 * Works in a network namespace of its own.
 */
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/model/decode.h"
#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/ruleset/program.h"
#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/source/manifests.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned n_services, n_endpoints, n_samples = 1000;

static void die(const char *what, struct error *err)
{
    fprintf(stderr, "bench_pipeline: %s: %s\n", what,
            err && err->text ? err->text : strerror(errno));
    exit(EXIT_FAILURE);
}

/* ---- the cluster ---- */

static void print_address(FILE *out, unsigned network, unsigned number)
{
    fprintf(out, "%u.%u.%u.%u", network, number >> 16 & 255, number >> 8 & 255, number & 255);
}

static void print_service(FILE *out, unsigned i)
{
    fprintf(out,
            "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"service-%u\","
            "\"namespace\":\"bench\",\"resourceVersion\":\"%u\",\"uid\":\"6f1e0f9a-0000-4000-8000-"
            "%012u\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{\"app\":"
            "\"app-%u\"}},\"spec\":{\"type\":\"ClusterIP\",\"clusterIP\":\"",
            i, i + 1, i, i);
    print_address(out, 10, i);
    fputs("\",\"clusterIPs\":[\"", out);
    print_address(out, 10, i);
    fprintf(out,
            "\"],\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":\"SingleStack\","
            "\"internalTrafficPolicy\":\"Cluster\",\"ports\":[{\"name\":\"http\",\"protocol\":"
            "\"TCP\",\"port\":80,\"targetPort\":8080}],\"selector\":{\"app\":\"app-%u\"},"
            "\"sessionAffinity\":\"None\"},\"status\":{\"loadBalancer\":{}}}",
            i);
}

/* @shift moves the address of the first endpoint: another one in its place. */
static void print_slice(FILE *out, unsigned i, unsigned shift)
{
    fprintf(out,
            "{\"apiVersion\":\"discovery.k8s.io/v1\",\"kind\":\"EndpointSlice\",\"metadata\":{"
            "\"name\":\"service-%u-abcde\",\"namespace\":\"bench\",\"resourceVersion\":\"%u\","
            "\"labels\":{\"kubernetes.io/service-name\":\"service-%u\","
            "\"endpointslice.kubernetes.io/managed-by\":\"endpointslice-controller.k8s.io\"}},"
            "\"addressType\":\"IPv4\",\"ports\":[{\"name\":\"http\",\"protocol\":\"TCP\",\"port\":"
            "8080}],\"endpoints\":[",
            i, i + shift + 1, i);
    for (unsigned e = 0; e < n_endpoints; e++) {
        fputs(e ? ",{\"addresses\":[\"" : "{\"addresses\":[\"", out);
        print_address(out, e == 0 && shift ? 12 : 11, i * n_endpoints + e + shift);
        fprintf(out,
                "\"],\"conditions\":{\"ready\":true,\"serving\":true,\"terminating\":false},"
                "\"nodeName\":\"node-%u\",\"targetRef\":{\"kind\":\"Pod\",\"namespace\":\"bench\","
                "\"name\":\"app-%u-%u\"},\"zone\":\"zone-%u\"}",
                e % 500, i, e, e % 3);
    }
    fputs("]}", out);
}

static size_t write_manifest(const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out)
        die(path, NULL);
    fputs("{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n", out);
    for (unsigned i = 0; i < n_services; i++) {
        print_service(out, i);
        fputs(",\n", out);
        print_slice(out, i, 0);
        fputs(i + 1 < n_services ? ",\n" : "\n", out);
    }
    fputs("]}\n", out);
    long size = ftell(out);
    if (fclose(out) != 0)
        die(path, NULL);
    return (size_t)size;
}

/* ---- the kernel alone ---- */

static struct frontend bare_frontend(unsigned i)
{
    struct frontend frontend = {.port = 80, .protocol = 6, .family = FAMILY_IPV4};
    frontend.address = (struct address){{10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}};
    return frontend;
}

static struct backend bare_backend(unsigned network, unsigned n)
{
    return (struct backend){{{(uint8_t)network, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}},
                            8080};
}

static void bare_slot(struct nft_batch *batch, enum nft_element_op op, unsigned service,
                      unsigned slot, const struct backend *backend)
{
    struct frontend frontend = bare_frontend(service);
    struct key key = key_of_slot(&frontend, slot), value = {.length = 0};
    if (backend)
        value = value_of_backend(FAMILY_IPV4, backend);
    nft_batch_element(batch, op, MAP_ENDPOINTS, key.bytes, key.length, backend ? value.bytes : NULL,
                      value.length);
}

static void bare_layout(struct nft_batch *batch, enum template_id id, enum program_part part)
{
    struct error err = {0};
    struct layout layout;
    struct layout_vars vars = {.family = FAMILY_IPV4,
                               .mark = "0x4000",
                               .from_host = "fib saddr type local",
                               .reject = "reject",
                               .pick = "pick",
                               .n = n_endpoints,
                               .key = service_value(CLASS_PLAIN, n_endpoints)};
    if (layout_parse(&templates[id], &vars, &layout, &err) ||
        program_layout(&layout, part, batch, &err))
        die("template", &err);
    layout_free(&layout);
}

/* Seconds for all elements in one transaction, and how many bytes that is. */
static double bare_programming(struct nft_socket *socket, size_t *bytes)
{
    struct error err = {0};
    struct nft_batch batch;
    nft_batch_init(&batch, FAMILY_IPV4, "bare");
    double start = clock_monotonic();
    nft_batch_add_table(&batch, "bare");
    bare_layout(&batch, TEMPLATE_BASE, PROGRAM_ALL);
    bare_layout(&batch, TEMPLATE_PICK, PROGRAM_WITHOUT_SETS);
    for (unsigned i = 0; i < n_services; i++)
        for (unsigned e = 0; e < n_endpoints; e++) {
            struct backend backend = bare_backend(11, i * n_endpoints + e);
            bare_slot(&batch, ELEMENT_ADD, i, e, &backend);
        }
    for (unsigned i = 0; i < n_services; i++) {
        struct frontend frontend = bare_frontend(i);
        struct key key = key_of_frontend(&frontend);
        uint32_t value = service_value(CLASS_PLAIN, n_endpoints);
        nft_batch_element(&batch, ELEMENT_ADD, MAP_SERVICES, key.bytes, key.length, &value,
                          sizeof(value));
    }
    for (unsigned i = 0; i < n_services; i++) {
        struct frontend frontend = bare_frontend(i);
        nft_batch_element(&batch, ELEMENT_ADD, content_set_name(CONTENT_CLUSTER_IPS),
                          frontend.address.bytes, 4, NULL, 0);
    }
    if (nft_socket_commit(socket, &batch, &err))
        die("bare programming", &err);
    double seconds = clock_monotonic() - start;
    *bytes = batch.used;
    nft_batch_release(&batch);
    return seconds;
}

static double bare_change(struct nft_socket *socket, struct nft_batch *batch, unsigned sample)
{
    struct error err = {0};
    struct backend backend = bare_backend(12, sample + 1);
    double start = clock_monotonic();
    bare_slot(batch, ELEMENT_DELETE, sample % n_services, 0, NULL);
    bare_slot(batch, ELEMENT_ADD, sample % n_services, 0, &backend);
    if (nft_socket_commit(socket, batch, &err))
        die("bare change", &err);
    double seconds = clock_monotonic() - start;
    nft_batch_clear(batch);
    return seconds;
}

static void bare_remove(struct nft_socket *socket)
{
    struct error err = {0};
    struct nft_batch batch;
    nft_batch_init(&batch, FAMILY_IPV4, "bare");
    nft_batch_delete_table(&batch);
    if (nft_socket_commit(socket, &batch, &err))
        die("bare removal", &err);
    nft_batch_release(&batch);
}

/* ---- the pipeline ---- */

/* One event as it comes from a watch: text, decoded, through caches and policy, into the kernel. */
static double pipeline_change(struct proxy *proxy, struct nft_socket *socket, unsigned sample)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    print_slice(out, sample % n_services, sample + 1);
    fclose(out);
    struct error err = {0};
    struct object object;
    double start = clock_monotonic();
    cJSON *json = cJSON_ParseWithLength(text, length);
    if (object_decode(json, -1, &object, &err) != DECODE_OK)
        die("decode", &err);
    cJSON_Delete(json);
    const struct object_sink *sink = proxy_sink(proxy);
    sink->put(sink->ctx, &object);
    proxy_turn(proxy, socket, start);
    double seconds = clock_monotonic() - start;
    free(text);
    return seconds;
}

static int compare_doubles(const void *a, const void *b)
{
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

static double percentile(double *samples, size_t n, double part)
{
    qsort(samples, n, sizeof(*samples), compare_doubles);
    return samples[(size_t)(part * (double)(n - 1))];
}

static void enter_namespace(void)
{
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        die("cannot make a network namespace", NULL);
}

static void first_programming(struct proxy *proxy, struct nft_socket *socket, const char *path,
                              size_t size, double bare, size_t bare_bytes)
{
    struct error err = {0};
    double start = clock_monotonic();
    struct manifests *manifests = manifests_open(path, proxy_sink(proxy), true, &err);
    if (!manifests)
        die("manifest", &err);
    double read = clock_monotonic();
    proxy_turn(proxy, socket, read);
    double end = clock_monotonic();
    struct health_status status;
    proxy_health_status(proxy, &status);
    manifests_free(manifests);
    printf("first programming: %.3f s = read %zu bytes %.3f s + policy, writing, kernel %.3f s\n",
           end - start, size, read - start, end - read);
    printf("bare kernel:       %.3f s for the same elements (%zu bytes of netlink)\n", bare,
           bare_bytes);
    printf("ratios to bare:    %.2f with reading the file, %.2f without\n", (end - start) / bare,
           (end - read) / bare);
}

static void changes(struct proxy *proxy, struct nft_socket *socket)
{
    double *bare = xcalloc(n_samples, sizeof(*bare)), *whole = xcalloc(n_samples, sizeof(*whole));
    struct nft_batch batch;
    nft_batch_init(&batch, FAMILY_IPV4, "bare");
    for (unsigned i = 0; i < n_samples; i++) {
        bare[i] = bare_change(socket, &batch, i);
        whole[i] = pipeline_change(proxy, socket, i);
    }
    nft_batch_release(&batch);
    double bare_median = percentile(bare, n_samples, 0.5);
    double whole_median = percentile(whole, n_samples, 0.5);
    printf("one change:        median %.3f ms, 99%% %.3f ms (event text to acknowledgement)\n",
           whole_median * 1e3, percentile(whole, n_samples, 0.99) * 1e3);
    printf("bare change:       median %.3f ms, 99%% %.3f ms\n", bare_median * 1e3,
           percentile(bare, n_samples, 0.99) * 1e3);
    printf("ratio change/bare: %.2f\n", whole_median / bare_median);
    free(bare);
    free(whole);
}

static void drop_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    if (level <= LOG_LEVEL_WARN)
        fprintf(stderr, "%s\n", line);
}

static void measure(const char *path)
{
    struct error err = {0};
    enter_namespace();
    struct nft_socket *socket = nft_socket_open(&err);
    const struct proxy_config config = {
        .node.name = "node-1", .families = {true, false}, .rulesets[FAMILY_IPV4].mark = 0x4000};
    struct proxy *proxy = proxy_new(&config, &err);
    if (!socket || !proxy)
        die("start", &err);
    printf("%u services x %u endpoints, %u samples\n", n_services, n_endpoints, n_samples);
    size_t bytes, size = write_manifest(path);
    double bare = bare_programming(socket, &bytes);
    first_programming(proxy, socket, path, size, bare, bytes);
    changes(proxy, socket);
    bare_remove(socket);
    proxy_free(proxy);
    nft_socket_close(socket);
}

static int usage(void)
{
    fputs("Usage: bench_pipeline SERVICES ENDPOINTS [SAMPLES | --write FILE]\n", stderr);
    return EXIT_FAILURE;
}

static unsigned number(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    return *end || value > 1000000 ? 0 : (unsigned)value;
}

int main(int argc, char **argv)
{
    if (argc < 3 || !(n_services = number(argv[1])) || !(n_endpoints = number(argv[2])))
        return usage();
    if (argc == 5 && strcmp(argv[3], "--write") == 0) {
        write_manifest(argv[4]);
        return EXIT_SUCCESS;
    }
    if (argc > 4 || (argc == 4 && !(n_samples = number(argv[3]))))
        return usage();
    char path[] = "/tmp/kube-nftd-bench-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        die("temporary file", NULL);
    close(fd);
    log_set_sink(drop_line, NULL);
    measure(path);
    unlink(path);
    return EXIT_SUCCESS;
}
