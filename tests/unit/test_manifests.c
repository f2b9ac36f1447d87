/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files in a folder of their own and a sink that writes down what it is told. inotify queues an
 * event before the call that made it returns, so running the loop without waiting sees everything.
 */
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/source/manifests.h"
#include "unit.h"

#include <ev.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *told; /* what the sink was told, a line each */
static struct ev_loop *loop;
static struct manifests *manifests;

__attribute__((format(printf, 2, 3))) static void add_line(char **text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *line = xvasprintf(format, args);
    va_end(args);
    char *more = xasprintf("%s%s\n", *text, line);
    free(line);
    free(*text);
    *text = more;
}

static void clear_text(char **text)
{
    free(*text);
    *text = xstrdup("");
}

/* ---- the sink ---- */

/* "Service default/a:80": a Service with its first port, a slice with its number of endpoints. */
static char *describe(const struct object *object)
{
    int value = -1;
    if (object->kind == KIND_SERVICE && object->service)
        value = object->service->ports.n ? object->service->ports.v[0].port : 0;
    else if (object->kind == KIND_ENDPOINTSLICE && object->slice)
        value = (int)object->slice->endpoints.n;
    else if (object->payload)
        value = 0;
    return xasprintf("%s %s:%d", object_kind_name(object->kind), object->id, value);
}

static void tell(const char *what, struct object *object)
{
    char *text = describe(object);
    add_line(&told, "%s %s", what, text);
    free(text);
    object_clear(object);
}

static void on_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    add_line(&told, "replace %s %zu", object_kind_name(kind), objects->n);
    vec_each (objects, object)
        tell(" with", object);
    object_vec_clear(objects);
}

static void on_put(void *ctx, struct object *object)
{
    tell("put", object);
}

static void on_remove(void *ctx, enum object_kind kind, const char *id)
{
    add_line(&told, "remove %s %s", object_kind_name(kind), id);
}

static const struct object_sink sink = {NULL, on_replace, on_put, on_remove};

/* ---- files ---- */

static void setup(void)
{
    told = xstrdup("");
    loop = ev_loop_new(EVFLAG_AUTO);
}

static void teardown(void)
{
    manifests_free(manifests);
    manifests = NULL;
    ev_loop_destroy(loop);
    free(told);
}

static void write_fd(int fd, const char *text)
{
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

#define SERVICE(name, port)                                                                        \
    "---\napiVersion: v1\nkind: Service\nmetadata: {name: " name "}\nspec: {clusterIP: "           \
    "10.96.0.1, ports: [{port: " #port "}]}\n"

static void rename_file(const char *from, const char *to)
{
    ck_assert_int_eq(rename(in_folder(from), in_folder(to)), 0);
}

/* ---- steps ---- */

static void open_path(const char *path)
{
    struct error err = {0};
    manifests = manifests_open(path, &sink, false, &err);
    ck_assert_msg(manifests != NULL, "%s", err.text);
}

static void expect_open_error(const char *path, bool strict, const char *message)
{
    struct error err = {0};
    ck_assert_ptr_null(manifests_open(path, &sink, strict, &err));
    ck_assert_msg(strstr(err.text, message) != NULL, "%s", err.text);
    ck_assert_str_eq(told, "");
    error_clear(&err);
}

static void expect_told(const char *expected)
{
    ck_assert_str_eq(told, expected);
    clear_text(&told);
}

static void expect_logged(const char *part)
{
    log_flush(INFINITY);
    ck_assert_msg(part ? logged_with(part) > 0 : *last_logged(LOG_LEVEL_WARN) == '\0', "log: %s",
                  last_logged(LOG_LEVEL_WARN));
    forget_logged();
}

/* Runs the loop on what is there; the sink must be told just @expected. */
static void expect_change(const char *expected)
{
    ev_run(loop, EVRUN_NOWAIT);
    ev_run(loop, EVRUN_NOWAIT);
    expect_told(expected);
}

/* Opens @path and follows it; what the sink is told first is taken for granted. */
static void follow(const char *path)
{
    struct error err = {0};
    open_path(path);
    clear_text(&told);
    ck_assert_msg(manifests_follow(manifests, loop, &err) == 0, "%s", err.text);
    expect_change("");
    expect_logged(NULL);
}

/* Opens the folder with the one file @text. */
static void expect_loaded(const char *text, const char *expected)
{
    put_file("a.yaml", text);
    open_path(in_folder("a.yaml"));
    expect_told(expected);
    manifests_free(manifests);
    manifests = NULL;
}

static void expect_broken(const char *text, const char *message)
{
    put_file("a.yaml", text);
    expect_open_error(in_folder("a.yaml"), false, message);
}

/* ---- forms of files ---- */

TEST(test_yaml_list)
{
    expect_loaded("apiVersion: v1\nitems:\n"
                  "- apiVersion: v1\n  kind: Service\n  metadata:\n    name: web\n    namespace: "
                  "shop\n  spec:\n    clusterIP: 10.96.0.9\n    ports:\n    - port: 80\n"
                  "- apiVersion: discovery.k8s.io/v1\n  kind: EndpointSlice\n  addressType: IPv4\n"
                  "  metadata:\n    name: web-1\n    namespace: shop\n    labels:\n      "
                  "kubernetes.io/service-name: web\n  endpoints:\n  - addresses:\n    - 10.0.0.1\n"
                  "  - addresses:\n    - 10.0.0.2\n  ports:\n  - port: 8080\n"
                  "- apiVersion: v1\n  kind: Node\n  metadata:\n    name: node-1\n"
                  "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: other\n"
                  "kind: List\nmetadata:\n  resourceVersion: \"\"\n",
                  "replace Service 1\n with Service shop/web:80\n"
                  "replace EndpointSlice 1\n with EndpointSlice shop/web-1:2\n"
                  "replace ServiceCIDR 0\nreplace Node 1\n with Node node-1:0\n");
    expect_logged(NULL);
}

TEST(test_json_list)
{
    expect_loaded("{\n \"apiVersion\": \"v1\",\n \"items\": [\n  {\"apiVersion\": \"v1\", "
                  "\"kind\": \"Service\", \"metadata\": {\"name\": \"web\"}, \"spec\": "
                  "{\"clusterIP\": \"10.96.0.1\", \"ports\": [{\"port\": 81}]}},\n  "
                  "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"}}\n "
                  "],\n \"kind\": \"List\"\n}\n",
                  "replace Service 1\n with Service default/web:81\nreplace EndpointSlice 0\n"
                  "replace ServiceCIDR 0\nreplace Node 0\n");
}

/* As the API server writes lists: the items do not say what they are. */
TEST(test_typed_lists)
{
    const char *expected =
        "replace Service 0\nreplace EndpointSlice 0\n"
        "replace ServiceCIDR 0\nreplace Node 2\n with Node a:0\n with Node b:0\n";
    expect_loaded("{\"kind\":\"NodeList\",\"apiVersion\":\"v1\",\"items\":[{\"metadata\":{\"name\":"
                  "\"a\"}},{\"metadata\":{\"name\":\"b\"}}]}\n{\"kind\":\"PodList\",\"items\":[{"
                  "\"metadata\":{\"name\":\"c\"}}],\"apiVersion\":\"v1\"}",
                  expected);
    expect_loaded("kind: NodeList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n"
                  "apiVersion: v1\n---\nkind: PodList\nitems:\n- metadata: {name: c}\n"
                  "apiVersion: v1\n",
                  expected);
    expect_loaded("\xef\xbb\xbf \n{\"kind\":\"NodeList\",\"items\":[{\"metadata\":{\"name\":\"a\"}}"
                  ",{\"metadata\":{\"name\":\"b\"}}],\"apiVersion\":\"v1\"}",
                  expected);
    expect_broken("{\"items\":[\n{\"metadata\":{\"name\":\"a\"}}],\"kind\":\"NodeList\"}",
                  "a.yaml: line 2: item 1 has no kind, and its list has none before it");
    expect_broken("items:\n- kind: Node\n  apiVersion: v1\n  metadata: {name: a}\n- metadata: "
                  "{name: b}\nkind: NodeList\n",
                  "a.yaml: line 5: item 2 has no kind, and its list has none before it");
    expect_broken("kind: List\nitems:\n- metadata: {name: a}\n",
                  "a.yaml: line 3: item 1 of the List has no kind");
}

TEST(test_documents)
{
    const char *expected =
        "replace Service 2\n with Service default/a:1\n with Service "
        "default/b:2\nreplace EndpointSlice 0\nreplace ServiceCIDR 0\nreplace Node 0\n";
    expect_loaded(SERVICE("a", 1) "---\n# nothing here\n" SERVICE("b", 2) "---\n", expected);
    expect_loaded("[{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"a\"},"
                  "\"spec\":{\"clusterIP\":\"1.1.1.1\",\"ports\":[{\"port\":1}]}},null,\n"
                  "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"b\"},"
                  "\"spec\":{\"clusterIP\":\"1.1.1.2\",\"ports\":[{\"port\":2}]}}]",
                  expected);
}

/* They have no namespace; whatever they carry as one. */
TEST(test_service_cidrs)
{
    const char *expected = "replace Service 0\nreplace EndpointSlice 0\nreplace ServiceCIDR 2\n"
                           " with ServiceCIDR kubernetes:0\n with ServiceCIDR more:0\n"
                           "replace Node 0\n";
    expect_loaded("apiVersion: v1\nkind: List\nitems:\n- apiVersion: networking.k8s.io/v1\n"
                  "  kind: ServiceCIDR\n  metadata: {name: kubernetes, namespace: x}\n"
                  "  spec: {cidrs: [10.96.0.0/12, 'fd00::/112']}\n"
                  "- apiVersion: networking.k8s.io/v1\n  kind: ServiceCIDR\n"
                  "  metadata: {name: more}\n  spec: {cidrs: [10.112.0.0/16]}\n",
                  expected);
    expect_loaded(
        "{\"kind\":\"ServiceCIDRList\",\"apiVersion\":\"networking.k8s.io/v1\",\"items\":["
        "{\"metadata\":{\"name\":\"kubernetes\"},\"spec\":{\"cidrs\":[\"10.96.0.0/12\"]}},"
        "{\"metadata\":{\"name\":\"more\"},\"spec\":{\"cidrs\":[\"10.112.0.0/16\"]}}]}",
        expected);
    expect_logged(NULL);
    expect_loaded("apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: bad}\n"
                  "spec: {cidrs: [10.96.0.0]}\n",
                  "replace Service 0\nreplace EndpointSlice 0\nreplace ServiceCIDR 1\n"
                  " with ServiceCIDR bad:-1\nreplace Node 0\n");
    expect_logged("ServiceCIDR bad: spec.cidrs[0]: \"10.96.0.0\" is not a CIDR");
}

/* Nothing to be had is something that a list says. */
TEST(test_nothing)
{
    const char *nothing =
        "replace Service 0\nreplace EndpointSlice 0\nreplace ServiceCIDR 0\nreplace Node 0\n";
    expect_loaded("apiVersion: v1\nitems: []\nkind: List\n", nothing);
    expect_loaded("apiVersion: v1\nitems: null\nkind: ServiceList\n", nothing);
    expect_loaded("{\"apiVersion\":\"v1\",\"items\":[],\"kind\":\"List\"}", nothing);
    expect_loaded("[]", nothing);
    expect_broken("", "a.yaml: the file is empty");
    expect_broken(" \n\n", "a.yaml: the file is empty");
    expect_broken("# Services of the shop\n", "a.yaml: the file is empty");
    expect_broken("---\n# later\n---\n", "a.yaml: the file is empty");
    expect_broken("\xef\xbb\xbf", "a.yaml: the file is empty");
}

/* What is missing in the first part of a file. */
TEST(test_incomplete)
{
    expect_broken("metadata: {name: a}\n", "a.yaml: line 1: no kind: the file looks cut off");
    expect_broken("---\nkind: Service\nmetadata: {name: a}\n---\n" SERVICE("b", 2),
                  "a.yaml: line 2: no apiVersion: the file looks cut off");
    expect_broken("kind: 1\napiVersion: v1\n", "a.yaml: line 1: no kind");
    expect_broken("apiVersion: v1\nitems:\n", "a.yaml: line 1: no kind");
    expect_broken("apiVersion: v1\nitems: []\n", "a.yaml: line 1: no kind");
    expect_broken("items: []\nkind: List\n", "a.yaml: line 1: no apiVersion");
    expect_broken("apiVersion: v1\nitems: []\nkind: Li\n",
                  "a.yaml: line 1: items, but its kind is not a list: the file looks cut off");
    expect_broken("apiVersion: v1\nitems:\n- kind: Node\n  metadata: {name: a}\nkind: List\n",
                  "a.yaml: line 3: no apiVersion");
    expect_broken("\n{\"items\": [], \"apiVersion\": \"v1\"}", "a.yaml: line 2: no kind");
    expect_broken("[{\"kind\": \"Service\"}]", "a.yaml: line 1: no apiVersion");
    expect_broken(SERVICE("a", 1) "---\napiVersion: v1\nkind: Service\nmetadata:\n",
                  "a.yaml: line 7: the last object has no name: the file looks cut off");
}

TEST(test_twice_in_a_file)
{
    expect_loaded(SERVICE("a", 1) SERVICE("b", 2) SERVICE("a", 3) SERVICE("a", 4),
                  "replace Service 2\n with Service default/a:4\n with Service default/b:2\n"
                  "replace EndpointSlice 0\nreplace ServiceCIDR 0\nreplace Node 0\n");
    expect_logged("Service default/a is a duplicate");
}

TEST(test_bad_object)
{
    expect_loaded(SERVICE("a", 70000) SERVICE("b", 2),
                  "replace Service 2\n with Service default/a:-1\n with Service default/b:2\n"
                  "replace EndpointSlice 0\nreplace ServiceCIDR 0\nreplace Node 0\n");
    expect_logged("a.yaml: Service default/a: spec.ports[0].port");
    /* Kubernetes' tools turn YAML into JSON, and 80.0 into 80. */
    expect_loaded(SERVICE("a", 80.0), "replace Service 1\n with Service default/a:80\n"
                                      "replace EndpointSlice 0\nreplace ServiceCIDR 0\n"
                                      "replace Node 0\n");
    expect_loaded(SERVICE("a", 80.5), "replace Service 1\n with Service default/a:-1\n"
                                      "replace EndpointSlice 0\nreplace ServiceCIDR 0\n"
                                      "replace Node 0\n");
    expect_logged("spec.ports[0].port: 80.5 is not an integer");
    /* A NUL ends no text, and a key with one is another one. */
    expect_loaded(SERVICE("\"a\\0b\"", 1) SERVICE("b", 2) SERVICE("c, \"name\\0\": d", 3),
                  "replace Service 2\n with Service default/b:2\n with Service default/c:3\n"
                  "replace EndpointSlice 0\nreplace ServiceCIDR 0\nreplace Node 0\n");
    expect_logged("Service (no name): metadata.name: \"a\\xc0\\x80b\" has a NUL");
    expect_loaded("apiVersion: v1\nkind: Service\n---\n" SERVICE("b", 2),
                  "replace Service 1\n with Service default/b:2\n"
                  "replace EndpointSlice 0\nreplace ServiceCIDR 0\nreplace Node 0\n");
    expect_logged("a.yaml: Service (no name): metadata");
}

/* The API server keeps these from kube-proxy by its selectors. */
TEST(test_selectors)
{
    expect_loaded("kind: ServiceList\nitems:\n- metadata: {name: a, labels: "
                  "{service.kubernetes.io/service-proxy-name: ''}}\n  spec: {clusterIP: 10.0.0.1, "
                  "ports: [{port: 1}]}\n- metadata: {name: b, labels: "
                  "{service.kubernetes.io/headless: ''}}\n  spec: {clusterIP: 10.0.0.1, ports: "
                  "[{port: 1}]}\napiVersion: v1\n---\napiVersion: discovery.k8s.io/v1\nkind: "
                  "EndpointSliceList\nitems:\n- metadata: {name: c, "
                  "labels: {service.kubernetes.io/headless: ''}}\n  addressType: IPv4\n- metadata: "
                  "{name: d, labels: {service.kubernetes.io/service-proxy-name: ''}}\n  "
                  "addressType: IPv4\n",
                  "replace Service 1\n with Service default/b:1\nreplace EndpointSlice 1\n with "
                  "EndpointSlice default/d:0\nreplace ServiceCIDR 0\nreplace Node 0\n");
}

TEST(test_errors)
{
    expect_broken("a: 1\nb: [\n", "a.yaml: line 3 column 1: did not find expected node content");
    expect_broken("{\"a\": 1,\n \"b\" 2}", "a.yaml: line 2 column 6: no colon after a key");
    expect_broken("{\"a\": 1,\n \"b\": {\"c\" 2}}",
                  "a.yaml: line 2 column 12: no colon after a key");
    expect_broken("{\"kind\":\"PodList\",\"items\":[\n  {\"a\":1},\n  {\"b\":x}]}",
                  "a.yaml: line 3 column 8: not a JSON value");
    expect_broken("{\"a\": 1", "a.yaml: line 1 column 8: the text ends inside a value");
    expect_broken("hello", "a.yaml: line 1: not an object");
    expect_broken("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":\"oops\"}",
                  "a.yaml: line 1: the list's items are not an array");
    expect_broken("apiVersion: v1\nitems: {a: 1}\nkind: ServiceList\n",
                  "a.yaml: line 1: the list's items are not an array");
    expect_broken("\n{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"items\":[{\"metadata\":"
                  "{\"name\":\"a\"}}],\"items\":null}{\"kind\":\"NodeList\",\"apiVersion\":"
                  "\"v1\",\"items\":[{\"metadata\":{\"name\":\"x\"}}]}",
                  "a.yaml: line 2: the list has items twice");
    expect_broken("items: [1]", "a.yaml: line 1: item 1 is not an object");
    expect_open_error(in_folder("b.yaml"), false, "b.yaml: No such file");
    ck_assert_int_eq(mkfifo(in_folder("f.yaml"), 0600), 0);
    expect_open_error(in_folder("f.yaml"), false, "f.yaml: is not a regular file");
}

TEST(test_folder)
{
    put_file("b.yml", SERVICE("b", 2));
    put_file("a.yaml", SERVICE("a", 1));
    put_file("c.json", "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\"}}");
    put_file("d.txt", SERVICE("d", 4));
    put_file(".e.yaml", SERVICE("e", 5));
    put_file(".yaml", SERVICE("f", 6));
    ck_assert_int_eq(mkdir(in_folder("sub"), 0700), 0);
    put_file("sub/g.yaml", SERVICE("g", 7));
    char *path = xasprintf("%s//", test_folder());
    open_path(path);
    free(path);
    expect_told("replace Service 2\n with Service default/a:1\n with Service default/b:2\n"
                "replace EndpointSlice 0\nreplace ServiceCIDR 0\nreplace Node 1\n with Node n:0\n");
    expect_logged(NULL);
}

TEST(test_folder_with_broken_files)
{
    put_file("a.yaml", SERVICE("a", 1));
    put_file("b.yaml", SERVICE("b", 2) "---\nx: [\n");
    ck_assert_int_eq(mkdir(in_folder("c.yaml"), 0700), 0);
    expect_open_error(test_folder(), true, "b.yaml: line 8 column 1: ");
    open_path(test_folder());
    expect_told("replace Service 1\n with Service default/a:1\nreplace EndpointSlice 0\n"
                "replace ServiceCIDR 0\nreplace Node 0\n");
    ck_assert_int_gt(logged_with("b.yaml: line 8 column 1: "), 0);
    expect_logged("c.yaml: is not a regular file");
}

/* ---- one file that changes ---- */

TEST(test_file_rewritten)
{
    put_file("a.yaml", SERVICE("a", 1) SERVICE("b", 2));
    follow(in_folder("a.yaml"));
    put_file("a.yaml", SERVICE("b", 3) SERVICE("c", 4));
    expect_change("remove Service default/a\nput Service default/b:3\nput Service default/c:4\n");
    put_file("b.yaml", SERVICE("x", 1));
    expect_change("");
    put_file("a.yaml", "apiVersion: v1\nitems: []\nkind: List\n");
    expect_change("remove Service default/b\nremove Service default/c\n");
    expect_logged(NULL);
}

TEST(test_file_emptied)
{
    put_file("a.yaml", SERVICE("a", 1));
    follow(in_folder("a.yaml"));
    put_file("a.yaml", "");
    expect_change("");
    expect_logged("a.yaml: the file is empty; its previous objects stay active objects=1");
    put_file("a.yaml", "# nothing but this\n");
    expect_change("");
    expect_logged("a.yaml: the file is empty");
    put_file("a.yaml", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
    expect_logged(NULL);
}

/* A Service and its slice as kubectl writes them, indented by @margin with a dash before each. */
static char *kubectl_pair(int number, int endpoints, const char *margin)
{
    const char *dash = *margin ? "- " : "---\n";
    char *ready = xstrdup("");
    for (int i = 0; i < endpoints; i++) {
        char *more = xasprintf("%s%s- addresses:\n%s  - 10.0.%d.%d\n%s  conditions:\n"
                               "%s    ready: true\n",
                               ready, margin, margin, number, i, margin, margin);
        free(ready);
        ready = more;
    }
    char *text = xasprintf(
        "%sapiVersion: v1\n%skind: Service\n%smetadata:\n%s  name: web-%d\n%s  namespace: shop\n"
        "%sspec:\n%s  clusterIP: 10.96.0.%d\n%s  ports:\n%s  - port: 80\n"
        "%saddressType: IPv4\n%sapiVersion: discovery.k8s.io/v1\n%sendpoints:\n%s"
        "%skind: EndpointSlice\n%smetadata:\n%s  labels:\n"
        "%s    kubernetes.io/service-name: web-%d\n%s  name: web-%d\n%s  namespace: shop\n"
        "%sports:\n%s- port: 8080\n",
        dash, margin, margin, margin, number, margin, margin, margin, number, margin, margin, dash,
        margin, margin, ready, margin, margin, margin, margin, number, margin, number, margin,
        margin, margin);
    free(ready);
    return text;
}

static char *kubectl_list(int services, int endpoints)
{
    char *text = xstrdup("apiVersion: v1\nitems:\n");
    for (int i = 0; i < services; i++) {
        char *pair = kubectl_pair(i, endpoints, "  ");
        char *more = xasprintf("%s%s", text, pair);
        free(pair);
        free(text);
        text = more;
    }
    char *whole = xasprintf("%skind: List\nmetadata:\n  resourceVersion: \"\"\n", text);
    free(text);
    return whole;
}

/* The file a.yaml, which is followed, has just the first @length bytes of @text. */
static void cut_file(const char *text, size_t length)
{
    char *part = xstrndup(text, length);
    put_file("a.yaml", part);
    free(part);
    ev_run(loop, EVRUN_NOWAIT);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part))
        n++;
    return n;
}

/* Cuts @text at @length: nothing changes, or all is there. */
static void expect_cut_harmless(const char *text, size_t length, bool complete)
{
    size_t objects = count(text, "addressType") * 2;
    cut_file(text, length);
    ck_assert_msg(count(told, "\n") == (complete ? objects : 0) &&
                      count(told, "put ") == count(told, "\n"),
                  "cut at %zu: %s", length, told);
    if (complete)
        expect_logged(NULL);
    else
        expect_logged("; its previous objects stay active");
    clear_text(&told);
}

LONG_TEST(test_list_cut_at_lines)
{
    char *text = kubectl_list(10, 4);
    const char *kind = strstr(text, "\nkind: List\n") + strlen("\nkind: List\n");
    size_t cuts = 0;
    put_file("a.yaml", text);
    follow(in_folder("a.yaml"));
    for (const char *p = text; *p; p = strchr(p, '\n') + 1, cuts++)
        expect_cut_harmless(text, (size_t)(p - text), p >= kind);
    ck_assert_uint_gt(cuts, 300);
    free(text);
}

/* Behind the kind of the list a cut may leave what is no YAML, which is as well. */
LONG_TEST(test_list_cut_anywhere)
{
    char *text = kubectl_list(2, 1);
    size_t end = (size_t)(strstr(text, "\nkind: List\n") - text) + strlen("\nkind: List");
    put_file("a.yaml", text);
    follow(in_folder("a.yaml"));
    for (size_t length = 0; length < end; length++)
        expect_cut_harmless(text, length, false);
    expect_cut_harmless(text, end, true);
    free(text);
}

TEST(test_json_cut_anywhere)
{
    const char *text = "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": "
                       "\"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"a\"}}]}";
    put_file("a.yaml", text);
    follow(in_folder("a.yaml"));
    for (size_t length = 0; length < strlen(text); length++)
        expect_cut_harmless(text, length, false);
}

/* The last document is cut where it cannot be an EndpointSlice, or has no name. */
TEST(test_documents_cut)
{
    char *text = kubectl_pair(1, 3, "");
    size_t cuts = 0;
    const char *from = strchr(strstr(text, "addressType"), '\n') + 1;
    const char *to = strstr(from, "  name: ");
    put_file("a.yaml", text);
    follow(in_folder("a.yaml"));
    for (const char *p = from; p <= to; p = strchr(p, '\n') + 1, cuts++)
        expect_cut_harmless(text, (size_t)(p - text), false);
    ck_assert_uint_gt(cuts, 15);
    free(text);
}

TEST(test_file_renamed_into_place)
{
    put_file("a.yaml", SERVICE("a", 1));
    follow(in_folder("a.yaml"));
    put_file("a.yaml.new", SERVICE("a", 2));
    expect_change("");
    rename_file("a.yaml.new", "a.yaml");
    expect_change("put Service default/a:2\n");
    expect_logged(NULL);
}

TEST(test_file_half_written)
{
    put_file("a.yaml", SERVICE("a", 1) SERVICE("b", 2));
    follow(in_folder("a.yaml"));
    int fd = open(in_folder("a.yaml"), O_WRONLY | O_TRUNC | O_CLOEXEC);
    expect_change("");
    write_fd(fd, SERVICE("a", 3));
    expect_change("");
    write_fd(fd, SERVICE("b", 4));
    expect_change("");
    close(fd);
    expect_change("put Service default/a:3\nput Service default/b:4\n");
    expect_logged(NULL);
}

TEST(test_file_broken)
{
    put_file("a.yaml", SERVICE("a", 1));
    follow(in_folder("a.yaml"));
    put_file("a.yaml", SERVICE("a", 2) "---\nx: 'y\n");
    expect_change("");
    ck_assert_ptr_nonnull(strstr(last_logged(LOG_LEVEL_ERROR), "error"));
    ck_assert_int_gt(logged_with("objects=1"), 0);
    expect_logged("a.yaml: line 8 column 1: found unexpected end of stream");
    put_file("a.yaml", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
    expect_logged(NULL);
}

TEST(test_file_deleted)
{
    put_file("a.yaml", SERVICE("a", 1));
    follow(in_folder("a.yaml"));
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("");
    expect_logged("a.yaml: the file is gone; its objects stay active objects=1");
    put_file("a.yaml", SERVICE("b", 2));
    expect_change("remove Service default/a\nput Service default/b:2\n");
    expect_logged(NULL);
}

TEST(test_file_changed_before_follow)
{
    struct error err = {0};
    put_file("a.yaml", SERVICE("a", 1));
    open_path(in_folder("a.yaml"));
    clear_text(&told);
    put_file("a.yaml", SERVICE("a", 21));
    ck_assert_int_eq(manifests_follow(manifests, loop, &err), 0);
    expect_told("put Service default/a:21\n");
}

TEST(test_file_bad_object)
{
    put_file("a.yaml", SERVICE("a", 1) SERVICE("b", 2));
    follow(in_folder("a.yaml"));
    put_file("a.yaml", SERVICE("a", 70000) SERVICE("b", 3));
    expect_change("put Service default/a:-1\nput Service default/b:3\n");
    expect_logged("70000");
}

/* A relative path without a folder, as one types it. */
TEST(test_file_in_working_directory)
{
    ck_assert_int_eq(chdir(test_folder()), 0);
    put_file("a.yaml", SERVICE("a", 1));
    follow("a.yaml");
    put_file("a.yaml", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
}

/* ---- a folder that changes ---- */

TEST(test_folder_changes)
{
    put_file("a.yaml", SERVICE("a", 1));
    follow(test_folder());
    put_file("b.yaml", SERVICE("b", 2));
    expect_change("put Service default/b:2\n");
    put_file("b.yaml", SERVICE("b", 3));
    expect_change("put Service default/b:3\n");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("remove Service default/a\n");
    rename_file("b.yaml", "c.yaml");
    expect_change("remove Service default/b\nput Service default/b:3\n");
    rename_file("c.yaml", "c.txt");
    expect_change("remove Service default/b\n");
    put_file(".d.yaml", SERVICE("d", 1));
    put_file("d.txt", SERVICE("d", 1));
    ck_assert_int_eq(mkdir(in_folder("sub"), 0700), 0);
    put_file("sub/e.yaml", SERVICE("e", 1));
    expect_change("");
    rename_file("sub/e.yaml", "e.yaml");
    expect_change("put Service default/e:1\n");
    expect_logged(NULL);
}

TEST(test_folder_several_at_once)
{
    put_file("a.yaml", SERVICE("a", 1));
    follow(test_folder());
    put_file("b.yaml", SERVICE("b", 1));
    put_file("b.yaml", SERVICE("b", 2));
    put_file("c.yaml", SERVICE("c", 3));
    ck_assert_int_eq(unlink(in_folder("c.yaml")), 0);
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    put_file("a.yaml", SERVICE("a", 9));
    expect_change("put Service default/a:9\nput Service default/b:2\n");
    expect_logged(NULL);
}

/* Deleted and made again, but not yet closed: the old contents stay until it is. */
TEST(test_folder_file_made_again)
{
    put_file("a.yaml", SERVICE("a", 1) SERVICE("b", 2));
    follow(test_folder());
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    int fd = open(in_folder("a.yaml"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    write_fd(fd, SERVICE("a", 3));
    expect_change("");
    write_fd(fd, SERVICE("b", 4));
    close(fd);
    expect_change("put Service default/a:3\nput Service default/b:4\n");
    expect_logged(NULL);
}

TEST(test_folder_links)
{
    follow(test_folder());
    put_file("a.txt", SERVICE("a", 1));
    ck_assert_int_eq(symlink("a.txt", in_folder("a.yaml")), 0);
    expect_change("put Service default/a:1\n");
    put_file("b.txt", SERVICE("b", 2));
    ck_assert_int_eq(link(in_folder("b.txt"), in_folder("b.yaml")), 0);
    expect_change("put Service default/b:2\n");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("remove Service default/a\n");
}

TEST(test_folder_broken_file)
{
    put_file("a.yaml", SERVICE("a", 1));
    put_file("b.yaml", SERVICE("b", 1));
    follow(test_folder());
    put_file("a.yaml", "{");
    put_file("b.yaml", SERVICE("b", 2));
    expect_change("put Service default/b:2\n");
    expect_logged("a.yaml: line 1 column 2: the text ends inside a value");
}

/* As the kubelet mounts a ConfigMap: NAME -> ..data/NAME, ..data -> ..VERSION. */
static void make_version(const char *version, const char *text)
{
    char *file = xasprintf("%s/a.yaml", version);
    ck_assert_int_eq(mkdir(in_folder(version), 0700), 0);
    put_file(file, text);
    free(file);
    ck_assert_int_eq(symlink(version, in_folder("..data_tmp")), 0);
    rename_file("..data_tmp", "..data");
}

static void expect_configmap_switch(const char *path)
{
    make_version("..1", SERVICE("a", 1));
    ck_assert_int_eq(symlink("..data/a.yaml", in_folder("a.yaml")), 0);
    follow(path);
    make_version("..2", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
    ck_assert_int_eq(unlink(in_folder("..1/a.yaml")), 0);
    ck_assert_int_eq(rmdir(in_folder("..1")), 0);
    expect_change("");
    expect_logged(NULL);
}

TEST(test_configmap_folder)
{
    expect_configmap_switch(test_folder());
}

TEST(test_configmap_file)
{
    expect_configmap_switch(in_folder("a.yaml"));
}

/* Another switch takes a key away. */
TEST(test_configmap_key_goes)
{
    make_version("..1", SERVICE("a", 1));
    ck_assert_int_eq(symlink("..data/a.yaml", in_folder("a.yaml")), 0);
    follow(test_folder());
    ck_assert_int_eq(mkdir(in_folder("..2"), 0700), 0);
    ck_assert_int_eq(symlink("..2", in_folder("..data_tmp")), 0);
    rename_file("..data_tmp", "..data");
    expect_change("");
    expect_logged("a.yaml: the link points to no file; its objects stay active objects=1");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0); /* at last */
    expect_change("remove Service default/a\n");
    expect_logged(NULL);
}

/* ---- links to other folders ---- */

static void make_folder(const char *name)
{
    ck_assert_int_eq(mkdir(in_folder(name), 0700), 0);
}

static void make_link(const char *to, const char *name)
{
    ck_assert_int_eq(symlink(to, in_folder(name)), 0);
}

static void remove_file(const char *name)
{
    ck_assert_int_eq(unlink(in_folder(name)), 0);
}

/* in/a.yaml is a link to out/a.txt, and @path is followed. */
static void follow_link(const char *path)
{
    make_folder("in");
    make_folder("out");
    put_file("out/a.txt", SERVICE("a", 1));
    make_link("../out/a.txt", "in/a.yaml");
    follow(in_folder(path));
}

static void expect_target_followed(void)
{
    put_file("out/a.txt", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
    put_file("out/new", SERVICE("a", 3));
    expect_change("");
    rename_file("out/new", "out/a.txt");
    expect_change("put Service default/a:3\n");
    put_file("out/a.txt", SERVICE("a", 4));
    expect_change("put Service default/a:4\n");
    expect_logged(NULL);
}

static void expect_target_comes_back(void)
{
    remove_file("out/a.txt");
    expect_change("");
    expect_logged("a.yaml: the link points to no file; its objects stay active objects=1");
    put_file("out/other", "");
    expect_change("");
    int fd = open(in_folder("out/a.txt"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    expect_change(""); /* not before it is closed */
    write_fd(fd, SERVICE("a", 5));
    close(fd);
    expect_change("put Service default/a:5\n");
    expect_logged(NULL);
}

TEST(test_link_file)
{
    follow_link("in/a.yaml");
    expect_target_followed();
    expect_target_comes_back();
}

TEST(test_link_in_folder)
{
    follow_link("in");
    expect_target_followed();
    expect_target_comes_back();
    remove_file("in/a.yaml");
    expect_change("remove Service default/a\n");
    put_file("out/a.txt", SERVICE("a", 6));
    expect_change("");
    expect_logged(NULL);
}

/* Deleted and made again, but not yet closed. */
TEST(test_link_target_made_again)
{
    follow_link("in");
    remove_file("out/a.txt");
    int fd = open(in_folder("out/a.txt"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    write_fd(fd, SERVICE("b", 2));
    expect_change("");
    write_fd(fd, SERVICE("a", 2));
    close(fd);
    expect_change("put Service default/b:2\nput Service default/a:2\n");
    expect_logged(NULL);
}

/* A target that was never there, in folders that are not there either. */
TEST(test_link_before_its_target)
{
    make_folder("in");
    follow(in_folder("in"));
    make_link("../later/still/a.txt", "in/a.yaml");
    expect_change("");
    expect_logged("a.yaml: the link points to no file");
    make_folder("later");
    expect_change("");
    make_folder("later/still");
    expect_change("");
    put_file("later/still/a.txt", SERVICE("a", 1));
    expect_change("put Service default/a:1\n");
    put_file("later/still/a.txt", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
    expect_logged(NULL);
}

/* All at once: the folders are found on the way, and what was in them before they were watched. */
TEST(test_link_target_comes_with_folders)
{
    make_folder("in");
    make_link("../later/still/a.txt", "in/a.yaml");
    put_file("in/b.yaml", SERVICE("b", 1));
    struct error err = {0};
    open_path(in_folder("in"));
    clear_text(&told);
    ck_assert_int_eq(manifests_follow(manifests, loop, &err), 0);
    expect_change("");
    expect_logged("a.yaml: the link points to no file");
    make_folder("later");
    make_folder("later/still");
    put_file("later/still/a.txt", SERVICE("a", 1));
    expect_change("put Service default/a:1\n");
    expect_logged(NULL);
}

/* a.yaml -> current/a.yaml, current -> v1: each link of the chain may be switched. */
TEST(test_link_chain)
{
    make_folder("in");
    make_folder("v1");
    make_folder("v2");
    put_file("v1/a.yaml", SERVICE("a", 1));
    put_file("v2/a.yaml", SERVICE("a", 2));
    make_link("v1", "current");
    make_link("../current/a.yaml", "in/a.yaml");
    follow(in_folder("in"));
    make_link("v2", "next");
    rename_file("next", "current");
    expect_change("put Service default/a:2\n");
    put_file("v2/a.yaml", SERVICE("a", 3));
    expect_change("put Service default/a:3\n");
    put_file("v1/a.yaml", SERVICE("a", 4)); /* leads nowhere near any more */
    expect_change("");
    make_link(in_folder("v1/a.yaml"), "in/next");
    rename_file("in/next", "in/a.yaml");
    expect_change("put Service default/a:4\n");
    put_file("v1/a.yaml", SERVICE("a", 5));
    expect_change("put Service default/a:5\n");
    expect_logged(NULL);
}

/* The target's folder is replaced by another one. */
TEST(test_link_target_folder_swapped)
{
    follow_link("in/a.yaml");
    make_folder("new");
    put_file("new/a.txt", SERVICE("a", 2));
    rename_file("out", "old");
    expect_change("");
    expect_logged("a.yaml: the link points to no file; its objects stay active");
    rename_file("new", "out");
    expect_change("put Service default/a:2\n");
    put_file("old/a.txt", SERVICE("a", 3));
    expect_change("");
    expect_target_followed();
}

TEST(test_link_within_the_folder)
{
    put_file("a.txt", SERVICE("a", 1));
    make_link("a.txt", "a.yaml");
    make_link("a.yaml", "b.yaml");
    struct error err = {0};
    open_path(test_folder());
    clear_text(&told);
    ck_assert_int_eq(manifests_follow(manifests, loop, &err), 0);
    put_file("a.txt", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
    remove_file("a.yaml");
    expect_change(""); /* b.yaml leads to nothing now, and has it from a.yaml */
}

TEST(test_link_to_itself)
{
    put_file("b.yaml", SERVICE("b", 1));
    follow(test_folder());
    make_link("a.yaml", "a.yaml");
    put_file("b.yaml", SERVICE("b", 2));
    expect_change("put Service default/b:2\n");
    expect_logged("a.yaml: ");
    put_file("b.yaml", SERVICE("b", 3));
    expect_change("put Service default/b:3\n");
    expect_logged(NULL);
}

/* ---- the folder itself ---- */

static void follow_inner(const char *path)
{
    make_folder("in");
    put_file("in/a.yaml", SERVICE("a", 1));
    put_file("in/b.yaml", SERVICE("b", 1));
    follow(in_folder(path));
}

static void expect_lost(void)
{
    expect_change("");
    expect_logged("in: the folder is gone (No such file or directory); its objects stay active "
                  "until it is back");
}

TEST(test_folder_moved)
{
    follow_inner("in");
    rename_file("in", "old");
    expect_lost();
    put_file("old/a.yaml", SERVICE("a", 2));
    remove_file("old/b.yaml");
    expect_change("");
    rename_file("old", "in");
    expect_change("remove Service default/b\nput Service default/a:2\n");
    put_file("in/c.yaml", SERVICE("c", 1));
    expect_change("put Service default/c:1\n");
    expect_logged(NULL);
}

TEST(test_folder_swapped)
{
    follow_inner("in");
    for (int i = 0; i < 2; i++) {
        make_folder("new");
        put_file("new/a.yaml", SERVICE("a", 2));
        put_file("new/c.yaml", SERVICE("c", 2));
        rename_file("in", i ? "older" : "old");
        if (i == 0)
            expect_lost();
        rename_file("new", "in");
        expect_change(i == 0 ? "remove Service default/b\nput Service default/a:2\n"
                               "put Service default/c:2\n"
                             : "put Service default/a:2\nput Service default/c:2\n");
    }
    put_file("old/a.yaml", SERVICE("a", 3));
    expect_change("");
    put_file("in/a.yaml", SERVICE("a", 4));
    expect_change("put Service default/a:4\n");
    remove_file("in/c.yaml");
    expect_change("remove Service default/c\n");
    expect_logged(NULL);
}

/* What no event tells is found when somebody asks. */
TEST(test_look_again)
{
    struct error err = {0};
    make_folder("far");
    make_folder("far/near");
    make_folder("far/near/in");
    put_file("far/near/in/a.yaml", SERVICE("a", 1));
    follow(in_folder("far/near/in"));
    ck_assert_int_eq(manifests_look_again(manifests, &err), 0);
    expect_change("");
    rename_file("far", "old");
    make_folder("far");
    make_folder("far/near");
    make_folder("far/near/in");
    put_file("far/near/in/a.yaml", SERVICE("a", 2));
    expect_change("");
    ck_assert_int_eq(manifests_look_again(manifests, &err), 0);
    expect_told("put Service default/a:2\n");
    put_file("far/near/in/a.yaml", SERVICE("a", 3));
    expect_change("put Service default/a:3\n");
    expect_logged(NULL);
}

TEST(test_folder_swapped_file)
{
    follow_inner("in/a.yaml");
    make_folder("new");
    put_file("new/a.yaml", SERVICE("a", 2));
    rename_file("in", "old");
    expect_lost();
    rename_file("new", "in");
    expect_change("put Service default/a:2\n");
    put_file("in/a.yaml", SERVICE("a", 3));
    expect_change("put Service default/a:3\n");
    expect_logged(NULL);
}

/* The path is a link to a folder. */
TEST(test_folder_link_switched)
{
    make_folder("v1");
    make_folder("v2");
    put_file("v1/a.yaml", SERVICE("a", 1));
    put_file("v1/b.yaml", SERVICE("b", 1));
    put_file("v2/a.yaml", SERVICE("a", 2));
    make_link("v1", "in");
    follow(in_folder("in"));
    make_link("v2", "new");
    rename_file("new", "in");
    expect_change("remove Service default/b\nput Service default/a:2\n");
    put_file("v1/a.yaml", SERVICE("a", 3));
    expect_change("");
    put_file("v2/a.yaml", SERVICE("a", 4));
    expect_change("put Service default/a:4\n");
    expect_logged(NULL);
    remove_file("in");
    expect_lost();
    put_file("v2/a.yaml", SERVICE("a", 5));
    remove_file("v1/a.yaml");
    expect_change("");
    make_link("v2", "in");
    expect_change("put Service default/a:5\n");
    expect_logged(NULL);
}

/* Runs the loop until the sink is told something. */
static void wait_for_change(void)
{
    while (!*told)
        ev_run(loop, EVRUN_ONCE);
}

static void delete_inner(void)
{
    rename_file("in", "old"); /* files that are deleted one by one would go one by one */
    remove_file("old/a.yaml");
    remove_file("old/b.yaml");
    ck_assert_int_eq(rmdir(in_folder("old")), 0);
    expect_lost();
}

/* Made anew and filled file by file: what has not come yet is kept. */
TEST(test_folder_made_again)
{
    follow_inner("in");
    delete_inner();
    make_folder("in");
    expect_change("");
    put_file("in/b.yaml", SERVICE("b", 2));
    expect_change("put Service default/b:2\n");
    put_file("in/c.yaml", SERVICE("c", 2));
    expect_change("put Service default/c:2\n");
    wait_for_change();
    expect_change("remove Service default/a\n");
    put_file("in/a.yaml", SERVICE("a", 3));
    expect_change("put Service default/a:3\n");
    expect_logged(NULL);
}

/* What was in it before it was watched is taken in the end. */
TEST(test_folder_made_again_with_files)
{
    follow_inner("in");
    delete_inner();
    make_folder("in");
    put_file("in/a.yaml", SERVICE("a", 2));
    expect_change("");
    wait_for_change();
    expect_change("remove Service default/b\nput Service default/a:2\n");
    expect_logged(NULL);
}

/* Deleted and made again before anything of it is seen. */
TEST(test_folder_made_again_at_once)
{
    follow_inner("in");
    remove_file("in/a.yaml");
    remove_file("in/b.yaml");
    ck_assert_int_eq(rmdir(in_folder("in")), 0);
    make_folder("in");
    put_file("in/a.yaml", SERVICE("a", 2));
    expect_change("");
    wait_for_change();
    expect_change("remove Service default/b\nput Service default/a:2\n");
    expect_logged(NULL);
}

/* The folder goes while names of it are looked at: more events than are read at once. */
TEST(test_folder_goes_meanwhile)
{
    follow_inner("in");
    remove_file("in/a.yaml");
    for (int i = 0; i < 3000; i++)
        put_file(i % 2 ? "in/x.txt" : "in/y.txt", "");
    rename_file("in", "old");
    ev_run(loop, EVRUN_NOWAIT);
    expect_told("");
    expect_logged(NULL);
    expect_lost();
}

/* What held the folder goes, too. */
TEST(test_folder_gone_with_its_parent)
{
    make_folder("out");
    make_folder("out/in");
    put_file("out/in/a.yaml", SERVICE("a", 1));
    follow(in_folder("out/in"));
    rename_file("out", "old");
    expect_lost();
    make_folder("new");
    make_folder("new/in");
    put_file("new/in/a.yaml", SERVICE("a", 2));
    rename_file("new", "out");
    expect_change("put Service default/a:2\n");
    rename_file("out/in", "out/elsewhere");
    expect_lost();
    rename_file("out/elsewhere", "out/in");
    put_file("out/in/a.yaml", SERVICE("a", 3));
    expect_change("put Service default/a:3\n");
    expect_logged(NULL);
}

/* Said once, however much happens around the place where it was. */
TEST(test_folder_lost_is_said_once)
{
    follow_inner("in");
    rename_file("in", "old");
    expect_lost();
    put_file("in", "");
    expect_change("");
    remove_file("in");
    expect_change("");
    expect_logged(NULL);
    rename_file("old", "in");
    put_file("in/a.yaml", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
}

/* The names were those of the folder before. */
TEST(test_folder_deletes_and_goes)
{
    follow_inner("in");
    remove_file("in/a.yaml");
    remove_file("in/b.yaml");
    ck_assert_int_eq(rmdir(in_folder("in")), 0);
    expect_lost();
}

/* More events than the kernel queues: the last change has no event of its own. */
TEST(test_overflow)
{
    long limit = 0;
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    if (file) {
        ck_assert_int_eq(fscanf(file, "%ld", &limit), 1);
        fclose(file);
    }
    if (limit <= 0 || limit > 100000)
        return;
    put_file("a.yaml", SERVICE("a", 1));
    put_file("gone.yaml", SERVICE("gone", 1));
    put_file("same.yaml", SERVICE("same", 1));
    follow(test_folder());
    for (long i = 0; i <= limit / 2; i++) {
        close(open(in_folder("x.txt"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        close(open(in_folder("y.txt"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    }
    put_file("a.yaml", SERVICE("a", 22));
    ck_assert_int_eq(unlink(in_folder("gone.yaml")), 0);
    for (long i = 0; i < limit / 100; i++)
        ev_run(loop, EVRUN_NOWAIT);
    expect_told("remove Service default/gone\nput Service default/a:22\n");
}

/* ---- an object in two files ---- */

TEST(test_owner_at_first_load)
{
    put_file("b.yaml", SERVICE("x", 2) SERVICE("b", 2));
    put_file("a.yaml", SERVICE("x", 1));
    open_path(test_folder());
    expect_told("replace Service 2\n with Service default/x:1\n with Service default/b:2\n"
                "replace EndpointSlice 0\nreplace ServiceCIDR 0\nreplace Node 0\n");
    ck_assert_int_gt(logged_with("b.yaml: "), 0);
    expect_logged("objects=1 first=\"Service default/x\" from=");
}

static void follow_two_owners(void)
{
    struct error err = {0};
    put_file("a.yaml", SERVICE("x", 1));
    put_file("b.yaml", SERVICE("x", 2));
    open_path(test_folder());
    clear_text(&told);
    ck_assert_int_eq(manifests_follow(manifests, loop, &err), 0);
    expect_told("");
}

TEST(test_owner_is_deleted)
{
    follow_two_owners();
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("put Service default/x:2\n");
    ck_assert_int_eq(unlink(in_folder("b.yaml")), 0);
    expect_change("remove Service default/x\n");
}

TEST(test_owner_drops_it)
{
    follow_two_owners();
    put_file("a.yaml", SERVICE("y", 1));
    expect_change("put Service default/y:1\nput Service default/x:2\n");
}

TEST(test_other_changes)
{
    follow_two_owners();
    put_file("b.yaml", SERVICE("x", 3) SERVICE("y", 1));
    expect_change("put Service default/y:1\n");
    ck_assert_int_eq(unlink(in_folder("b.yaml")), 0);
    expect_change("remove Service default/y\n");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("remove Service default/x\n");
}

TEST(test_new_owner_sorts_before)
{
    follow_two_owners();
    put_file("0.yaml", SERVICE("x", 9));
    expect_change("put Service default/x:9\n");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("");
    ck_assert_int_eq(unlink(in_folder("0.yaml")), 0);
    expect_change("put Service default/x:2\n");
}

TEST(test_all_owners_go_at_once)
{
    follow_two_owners();
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    ck_assert_int_eq(unlink(in_folder("b.yaml")), 0);
    expect_change("remove Service default/x\n");
}

/* The heir cannot be read now: the version of the old owner stays. */
TEST(test_heir_is_broken)
{
    follow_two_owners();
    put_file("b.yaml", "{");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("");
    put_file("b.yaml", SERVICE("x", 4));
    expect_change("put Service default/x:4\n");
}

UNIT_FIXTURE(setup, teardown)
