/*
 * Files in a folder of their own and a sink that writes down what it is told. inotify queues an
 * event before the call that made it returns, so running the loop without waiting sees everything.
 */
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/manifests.h"
#include "unit.h"

#include <ev.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;
static char *told;   /* what the sink was told, a line each */
static char *logged; /* errors and warnings */
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
    (void)ctx;
    add_line(&told, "replace %s %zu", object_kind_name(kind), objects->n);
    vec_each (objects, object)
        tell(" with", object);
    object_vec_clear(objects);
}

static void on_put(void *ctx, struct object *object)
{
    (void)ctx;
    tell("put", object);
}

static void on_remove(void *ctx, enum object_kind kind, const char *id)
{
    (void)ctx;
    add_line(&told, "remove %s %s", object_kind_name(kind), id);
}

static const struct object_sink sink = {NULL, on_replace, on_put, on_remove};

static void on_log(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    if (level <= LOG_LEVEL_WARN)
        add_line(&logged, "%s", line);
}

/* ---- files ---- */

static void setup(void)
{
    const char *tmp = getenv("TMPDIR");
    folder = xasprintf("%s/test-manifests-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    told = xstrdup("");
    logged = xstrdup("");
    loop = ev_loop_new(EVFLAG_AUTO);
    log_set_sink(on_log, NULL);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void teardown(void)
{
    manifests_free(manifests);
    manifests = NULL;
    log_set_sink(NULL, NULL);
    ev_loop_destroy(loop);
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
    free(told);
    free(logged);
}

/* The path of @name in the folder; kept until the next eight calls. */
static const char *in_folder(const char *name)
{
    static char *paths[8];
    static unsigned turn;
    turn = (turn + 1) % 8;
    free(paths[turn]);
    paths[turn] = xasprintf("%s/%s", folder, name);
    return paths[turn];
}

static void write_fd(int fd, const char *text)
{
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void write_file(const char *name, const char *text)
{
    int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    write_fd(fd, text);
    close(fd);
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
    ck_assert_msg(part ? strstr(logged, part) != NULL : !*logged, "log: %s", logged);
    clear_text(&logged);
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
    write_file("a.yaml", text);
    open_path(in_folder("a.yaml"));
    expect_told(expected);
    manifests_free(manifests);
    manifests = NULL;
}

static void expect_broken(const char *text, const char *message)
{
    write_file("a.yaml", text);
    expect_open_error(in_folder("a.yaml"), false, message);
}

/* ---- forms of files ---- */

START_TEST(test_yaml_list)
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
                  "replace Node 1\n with Node node-1:0\n");
    expect_logged(NULL);
}
END_TEST

START_TEST(test_json_list)
{
    expect_loaded("{\n \"apiVersion\": \"v1\",\n \"items\": [\n  {\"apiVersion\": \"v1\", "
                  "\"kind\": \"Service\", \"metadata\": {\"name\": \"web\"}, \"spec\": "
                  "{\"clusterIP\": \"10.96.0.1\", \"ports\": [{\"port\": 81}]}},\n  "
                  "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"}}\n "
                  "],\n \"kind\": \"List\"\n}\n",
                  "replace Service 1\n with Service default/web:81\nreplace EndpointSlice 0\n"
                  "replace Node 0\n");
}
END_TEST

/* As the API server writes lists: the items do not say what they are. */
START_TEST(test_typed_lists)
{
    const char *expected = "replace Service 0\nreplace EndpointSlice 0\n"
                           "replace Node 2\n with Node a:0\n with Node b:0\n";
    expect_loaded("{\"kind\":\"NodeList\",\"apiVersion\":\"v1\",\"items\":[{\"metadata\":{\"name\":"
                  "\"a\"}},{\"metadata\":{\"name\":\"b\"}}]}\n{\"kind\":\"PodList\",\"items\":[{"
                  "\"metadata\":{\"name\":\"c\"}}]}",
                  expected);
    expect_loaded("kind: NodeList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n"
                  "---\nkind: PodList\nitems:\n- metadata: {name: c}\n",
                  expected);
    expect_loaded("\xef\xbb\xbf \n{\"kind\":\"NodeList\",\"items\":[{\"metadata\":{\"name\":\"a\"}}"
                  ",{\"metadata\":{\"name\":\"b\"}}]}",
                  expected);
    expect_broken("{\"items\":[\n{\"metadata\":{\"name\":\"a\"}}],\"kind\":\"NodeList\"}",
                  "a.yaml: line 2: item 1 has no kind, and no kind of its list comes before it");
    expect_broken("items:\n- kind: Node\n  apiVersion: v1\n  metadata: {name: a}\n- metadata: "
                  "{name: b}\nkind: NodeList\n",
                  "a.yaml: line 5: item 2 has no kind, and no kind of its list comes before it");
    expect_broken("kind: List\nitems:\n- metadata: {name: a}\n",
                  "a.yaml: line 3: item 1 of the List has no kind");
}
END_TEST

START_TEST(test_documents)
{
    const char *expected = "replace Service 2\n with Service default/a:1\n with Service "
                           "default/b:2\nreplace EndpointSlice 0\nreplace Node 0\n";
    expect_loaded(SERVICE("a", 1) "---\n# nothing here\n" SERVICE("b", 2) "---\n", expected);
    expect_loaded("[{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"a\"},"
                  "\"spec\":{\"clusterIP\":\"1.1.1.1\",\"ports\":[{\"port\":1}]}},null,\n"
                  "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"b\"},"
                  "\"spec\":{\"clusterIP\":\"1.1.1.2\",\"ports\":[{\"port\":2}]}}]",
                  expected);
    expect_loaded("", "replace Service 0\nreplace EndpointSlice 0\nreplace Node 0\n");
}
END_TEST

START_TEST(test_twice_in_a_file)
{
    expect_loaded(SERVICE("a", 1) SERVICE("b", 2) SERVICE("a", 3) SERVICE("a", 4),
                  "replace Service 2\n with Service default/a:4\n with Service default/b:2\n"
                  "replace EndpointSlice 0\nreplace Node 0\n");
    expect_logged("Service default/a is there twice");
}
END_TEST

START_TEST(test_bad_object)
{
    expect_loaded(SERVICE("a", 70000) SERVICE("b", 2),
                  "replace Service 2\n with Service default/a:-1\n with Service default/b:2\n"
                  "replace EndpointSlice 0\nreplace Node 0\n");
    expect_logged("a.yaml: Service default/a: spec.ports[0].port");
    expect_loaded("kind: Service\nmetadata: {name: a}\n---\n" SERVICE("b", 2),
                  "replace Service 1\n with Service default/b:2\n"
                  "replace EndpointSlice 0\nreplace Node 0\n");
    expect_logged("a.yaml: line 1: an object without kind or apiVersion is left out");
}
END_TEST

/* The API server keeps these from kube-proxy by its selectors. */
START_TEST(test_selectors)
{
    expect_loaded("kind: ServiceList\nitems:\n- metadata: {name: a, labels: "
                  "{service.kubernetes.io/service-proxy-name: ''}}\n  spec: {clusterIP: 10.0.0.1, "
                  "ports: [{port: 1}]}\n- metadata: {name: b, labels: "
                  "{service.kubernetes.io/headless: ''}}\n  spec: {clusterIP: 10.0.0.1, ports: "
                  "[{port: 1}]}\n---\nkind: EndpointSliceList\nitems:\n- metadata: {name: c, "
                  "labels: {service.kubernetes.io/headless: ''}}\n  addressType: IPv4\n- metadata: "
                  "{name: d, labels: {service.kubernetes.io/service-proxy-name: ''}}\n  "
                  "addressType: IPv4\n",
                  "replace Service 1\n with Service default/b:1\nreplace EndpointSlice 1\n with "
                  "EndpointSlice default/d:0\nreplace Node 0\n");
}
END_TEST

START_TEST(test_errors)
{
    expect_broken("a: 1\nb: [\n", "a.yaml: line 3 column 1: did not find expected node content");
    expect_broken("{\"a\": 1,\n \"b\" 2}", "a.yaml: line 2 column 6: no colon after a key");
    expect_broken("{\"a\": 1,\n \"b\": {\"c\" 2}}", "a.yaml: line 2 column 12: not JSON");
    expect_broken("{\"kind\":\"PodList\",\"items\":[\n  {\"a\":1},\n  {\"b\":x}]}",
                  "a.yaml: line 3: not JSON from byte 6 of the value on");
    expect_broken("{\"a\": 1", "a.yaml: line 1 column 8: the text ends inside a value");
    expect_broken("hello", "a.yaml: line 1: not an object");
    expect_broken("items: [1]", "a.yaml: line 1: item 1 is not an object");
    expect_open_error(in_folder("b.yaml"), false, "b.yaml: No such file");
    ck_assert_int_eq(mkfifo(in_folder("f.yaml"), 0600), 0);
    expect_open_error(in_folder("f.yaml"), false, "f.yaml: is not a regular file");
}
END_TEST

START_TEST(test_folder)
{
    write_file("b.yml", SERVICE("b", 2));
    write_file("a.yaml", SERVICE("a", 1));
    write_file("c.json", "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\"}}");
    write_file("d.txt", SERVICE("d", 4));
    write_file(".e.yaml", SERVICE("e", 5));
    write_file(".yaml", SERVICE("f", 6));
    ck_assert_int_eq(mkdir(in_folder("sub"), 0700), 0);
    write_file("sub/g.yaml", SERVICE("g", 7));
    char *path = xasprintf("%s//", folder);
    open_path(path);
    free(path);
    expect_told("replace Service 2\n with Service default/a:1\n with Service default/b:2\n"
                "replace EndpointSlice 0\nreplace Node 1\n with Node n:0\n");
    expect_logged(NULL);
}
END_TEST

START_TEST(test_folder_with_broken_files)
{
    write_file("a.yaml", SERVICE("a", 1));
    write_file("b.yaml", SERVICE("b", 2) "---\nx: [\n");
    ck_assert_int_eq(mkdir(in_folder("c.yaml"), 0700), 0);
    expect_open_error(folder, true, "b.yaml: line 8 column 1: ");
    open_path(folder);
    expect_told("replace Service 1\n with Service default/a:1\nreplace EndpointSlice 0\n"
                "replace Node 0\n");
    ck_assert_ptr_nonnull(strstr(logged, "b.yaml: line 8 column 1: "));
    expect_logged("c.yaml: is not a regular file");
}
END_TEST

/* ---- one file that changes ---- */

START_TEST(test_file_rewritten)
{
    write_file("a.yaml", SERVICE("a", 1) SERVICE("b", 2));
    follow(in_folder("a.yaml"));
    write_file("a.yaml", SERVICE("b", 3) SERVICE("c", 4));
    expect_change("remove Service default/a\nput Service default/b:3\nput Service default/c:4\n");
    write_file("b.yaml", SERVICE("x", 1));
    expect_change("");
    write_file("a.yaml", "");
    expect_change("remove Service default/b\nremove Service default/c\n");
    expect_logged(NULL);
}
END_TEST

START_TEST(test_file_renamed_into_place)
{
    write_file("a.yaml", SERVICE("a", 1));
    follow(in_folder("a.yaml"));
    write_file("a.yaml.new", SERVICE("a", 2));
    expect_change("");
    rename_file("a.yaml.new", "a.yaml");
    expect_change("put Service default/a:2\n");
    expect_logged(NULL);
}
END_TEST

START_TEST(test_file_half_written)
{
    write_file("a.yaml", SERVICE("a", 1) SERVICE("b", 2));
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
END_TEST

START_TEST(test_file_broken)
{
    write_file("a.yaml", SERVICE("a", 1));
    follow(in_folder("a.yaml"));
    write_file("a.yaml", SERVICE("a", 2) "---\nx: 'y\n");
    expect_change("");
    ck_assert_ptr_nonnull(strstr(logged, "error"));
    ck_assert_ptr_nonnull(strstr(logged, "objects=1"));
    expect_logged("a.yaml: line 8 column 1: found unexpected end of stream");
    write_file("a.yaml", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
    expect_logged(NULL);
}
END_TEST

START_TEST(test_file_deleted)
{
    write_file("a.yaml", SERVICE("a", 1));
    follow(in_folder("a.yaml"));
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("");
    expect_logged("a.yaml: the file is gone; what was loaded from it is kept objects=1");
    write_file("a.yaml", SERVICE("b", 2));
    expect_change("remove Service default/a\nput Service default/b:2\n");
    expect_logged(NULL);
}
END_TEST

START_TEST(test_file_changed_before_follow)
{
    struct error err = {0};
    write_file("a.yaml", SERVICE("a", 1));
    open_path(in_folder("a.yaml"));
    clear_text(&told);
    write_file("a.yaml", SERVICE("a", 21));
    ck_assert_int_eq(manifests_follow(manifests, loop, &err), 0);
    expect_told("put Service default/a:21\n");
}
END_TEST

START_TEST(test_file_bad_object)
{
    write_file("a.yaml", SERVICE("a", 1) SERVICE("b", 2));
    follow(in_folder("a.yaml"));
    write_file("a.yaml", SERVICE("a", 70000) SERVICE("b", 3));
    expect_change("put Service default/a:-1\nput Service default/b:3\n");
    expect_logged("70000");
}
END_TEST

/* A relative path without a folder, as one types it. */
START_TEST(test_file_in_working_directory)
{
    ck_assert_int_eq(chdir(folder), 0);
    write_file("a.yaml", SERVICE("a", 1));
    follow("a.yaml");
    write_file("a.yaml", SERVICE("a", 2));
    expect_change("put Service default/a:2\n");
}
END_TEST

/* ---- a folder that changes ---- */

START_TEST(test_folder_changes)
{
    write_file("a.yaml", SERVICE("a", 1));
    follow(folder);
    write_file("b.yaml", SERVICE("b", 2));
    expect_change("put Service default/b:2\n");
    write_file("b.yaml", SERVICE("b", 3));
    expect_change("put Service default/b:3\n");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("remove Service default/a\n");
    rename_file("b.yaml", "c.yaml");
    expect_change("remove Service default/b\nput Service default/b:3\n");
    rename_file("c.yaml", "c.txt");
    expect_change("remove Service default/b\n");
    write_file(".d.yaml", SERVICE("d", 1));
    write_file("d.txt", SERVICE("d", 1));
    ck_assert_int_eq(mkdir(in_folder("sub"), 0700), 0);
    write_file("sub/e.yaml", SERVICE("e", 1));
    expect_change("");
    rename_file("sub/e.yaml", "e.yaml");
    expect_change("put Service default/e:1\n");
    expect_logged(NULL);
}
END_TEST

START_TEST(test_folder_several_at_once)
{
    write_file("a.yaml", SERVICE("a", 1));
    follow(folder);
    write_file("b.yaml", SERVICE("b", 1));
    write_file("b.yaml", SERVICE("b", 2));
    write_file("c.yaml", SERVICE("c", 3));
    ck_assert_int_eq(unlink(in_folder("c.yaml")), 0);
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    write_file("a.yaml", SERVICE("a", 9));
    expect_change("put Service default/b:2\nput Service default/a:9\n");
    expect_logged(NULL);
}
END_TEST

/* Deleted and made again, but not yet closed: the old contents stay until it is. */
START_TEST(test_folder_file_made_again)
{
    write_file("a.yaml", SERVICE("a", 1) SERVICE("b", 2));
    follow(folder);
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    int fd = open(in_folder("a.yaml"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    write_fd(fd, SERVICE("a", 3));
    expect_change("");
    write_fd(fd, SERVICE("b", 4));
    close(fd);
    expect_change("put Service default/a:3\nput Service default/b:4\n");
    expect_logged(NULL);
}
END_TEST

START_TEST(test_folder_links)
{
    follow(folder);
    write_file("a.txt", SERVICE("a", 1));
    ck_assert_int_eq(symlink("a.txt", in_folder("a.yaml")), 0);
    expect_change("put Service default/a:1\n");
    write_file("b.txt", SERVICE("b", 2));
    ck_assert_int_eq(link(in_folder("b.txt"), in_folder("b.yaml")), 0);
    expect_change("put Service default/b:2\n");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("remove Service default/a\n");
}
END_TEST

START_TEST(test_folder_broken_file)
{
    write_file("a.yaml", SERVICE("a", 1));
    write_file("b.yaml", SERVICE("b", 1));
    follow(folder);
    write_file("a.yaml", "{");
    write_file("b.yaml", SERVICE("b", 2));
    expect_change("put Service default/b:2\n");
    expect_logged("a.yaml: line 1 column 2: the text ends inside a value");
}
END_TEST

/* As the kubelet mounts a ConfigMap: NAME -> ..data/NAME, ..data -> ..VERSION. */
static void make_version(const char *version, const char *text)
{
    char *file = xasprintf("%s/a.yaml", version);
    ck_assert_int_eq(mkdir(in_folder(version), 0700), 0);
    write_file(file, text);
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

START_TEST(test_configmap_folder)
{
    expect_configmap_switch(folder);
}
END_TEST

START_TEST(test_configmap_file)
{
    expect_configmap_switch(in_folder("a.yaml"));
}
END_TEST

/* Another switch takes a key away. */
START_TEST(test_configmap_key_goes)
{
    make_version("..1", SERVICE("a", 1));
    ck_assert_int_eq(symlink("..data/a.yaml", in_folder("a.yaml")), 0);
    follow(folder);
    ck_assert_int_eq(mkdir(in_folder("..2"), 0700), 0);
    ck_assert_int_eq(symlink("..2", in_folder("..data_tmp")), 0);
    rename_file("..data_tmp", "..data");
    expect_change("remove Service default/a\n");
}
END_TEST

START_TEST(test_folder_moved)
{
    char *other = xasprintf("%s-moved", folder);
    write_file("a.yaml", SERVICE("a", 1));
    follow(folder);
    ck_assert_int_eq(rename(folder, other), 0);
    expect_change("");
    expect_logged("the folder was deleted or moved");
    ck_assert_int_eq(rename(other, folder), 0);
    write_file("a.yaml", SERVICE("a", 2));
    expect_change("");
    free(other);
}
END_TEST

START_TEST(test_folder_deleted)
{
    write_file("a.yaml", SERVICE("a", 1));
    follow(folder);
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    expect_change("");
    expect_logged("the folder was deleted or moved");
}
END_TEST

/* More events than the kernel queues: the last change has no event of its own. */
START_TEST(test_overflow)
{
    long limit = 0;
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    if (file) {
        ck_assert_int_eq(fscanf(file, "%ld", &limit), 1);
        fclose(file);
    }
    if (limit <= 0 || limit > 100000)
        return;
    write_file("a.yaml", SERVICE("a", 1));
    write_file("gone.yaml", SERVICE("gone", 1));
    write_file("same.yaml", SERVICE("same", 1));
    follow(folder);
    for (long i = 0; i <= limit / 2; i++) {
        close(open(in_folder("x.txt"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        close(open(in_folder("y.txt"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    }
    write_file("a.yaml", SERVICE("a", 22));
    ck_assert_int_eq(unlink(in_folder("gone.yaml")), 0);
    for (long i = 0; i < limit / 100; i++)
        ev_run(loop, EVRUN_NOWAIT);
    expect_told("remove Service default/gone\nput Service default/a:22\n");
}
END_TEST

/* ---- an object in two files ---- */

START_TEST(test_owner_at_first_load)
{
    write_file("b.yaml", SERVICE("x", 2) SERVICE("b", 2));
    write_file("a.yaml", SERVICE("x", 1));
    open_path(folder);
    expect_told("replace Service 2\n with Service default/x:1\n with Service default/b:2\n"
                "replace EndpointSlice 0\nreplace Node 0\n");
    ck_assert_ptr_nonnull(strstr(logged, "b.yaml: "));
    expect_logged("objects=1 first=\"Service default/x\" from=");
}
END_TEST

static void follow_two_owners(void)
{
    struct error err = {0};
    write_file("a.yaml", SERVICE("x", 1));
    write_file("b.yaml", SERVICE("x", 2));
    open_path(folder);
    clear_text(&told);
    ck_assert_int_eq(manifests_follow(manifests, loop, &err), 0);
    expect_told("");
}

START_TEST(test_owner_is_deleted)
{
    follow_two_owners();
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("put Service default/x:2\n");
    ck_assert_int_eq(unlink(in_folder("b.yaml")), 0);
    expect_change("remove Service default/x\n");
}
END_TEST

START_TEST(test_owner_drops_it)
{
    follow_two_owners();
    write_file("a.yaml", SERVICE("y", 1));
    expect_change("put Service default/y:1\nput Service default/x:2\n");
}
END_TEST

START_TEST(test_other_changes)
{
    follow_two_owners();
    write_file("b.yaml", SERVICE("x", 3) SERVICE("y", 1));
    expect_change("put Service default/y:1\n");
    ck_assert_int_eq(unlink(in_folder("b.yaml")), 0);
    expect_change("remove Service default/y\n");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("remove Service default/x\n");
}
END_TEST

START_TEST(test_new_owner_sorts_before)
{
    follow_two_owners();
    write_file("0.yaml", SERVICE("x", 9));
    expect_change("put Service default/x:9\n");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("");
    ck_assert_int_eq(unlink(in_folder("0.yaml")), 0);
    expect_change("put Service default/x:2\n");
}
END_TEST

START_TEST(test_all_owners_go_at_once)
{
    follow_two_owners();
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    ck_assert_int_eq(unlink(in_folder("b.yaml")), 0);
    expect_change("remove Service default/x\n");
}
END_TEST

/* The heir cannot be read now: the version of the old owner stays. */
START_TEST(test_heir_is_broken)
{
    follow_two_owners();
    write_file("b.yaml", "{");
    ck_assert_int_eq(unlink(in_folder("a.yaml")), 0);
    expect_change("");
    write_file("b.yaml", SERVICE("x", 4));
    expect_change("put Service default/x:4\n");
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_yaml_list);
    tcase_add_test(tcase, test_json_list);
    tcase_add_test(tcase, test_typed_lists);
    tcase_add_test(tcase, test_documents);
    tcase_add_test(tcase, test_twice_in_a_file);
    tcase_add_test(tcase, test_bad_object);
    tcase_add_test(tcase, test_selectors);
    tcase_add_test(tcase, test_errors);
    tcase_add_test(tcase, test_folder);
    tcase_add_test(tcase, test_folder_with_broken_files);
    tcase_add_test(tcase, test_file_rewritten);
    tcase_add_test(tcase, test_file_renamed_into_place);
    tcase_add_test(tcase, test_file_half_written);
    tcase_add_test(tcase, test_file_broken);
    tcase_add_test(tcase, test_file_deleted);
    tcase_add_test(tcase, test_file_changed_before_follow);
    tcase_add_test(tcase, test_file_bad_object);
    tcase_add_test(tcase, test_file_in_working_directory);
    tcase_add_test(tcase, test_folder_changes);
    tcase_add_test(tcase, test_folder_several_at_once);
    tcase_add_test(tcase, test_folder_file_made_again);
    tcase_add_test(tcase, test_folder_links);
    tcase_add_test(tcase, test_folder_broken_file);
    tcase_add_test(tcase, test_configmap_folder);
    tcase_add_test(tcase, test_configmap_file);
    tcase_add_test(tcase, test_configmap_key_goes);
    tcase_add_test(tcase, test_folder_moved);
    tcase_add_test(tcase, test_folder_deleted);
    tcase_add_test(tcase, test_overflow);
    tcase_add_test(tcase, test_owner_at_first_load);
    tcase_add_test(tcase, test_owner_is_deleted);
    tcase_add_test(tcase, test_owner_drops_it);
    tcase_add_test(tcase, test_other_changes);
    tcase_add_test(tcase, test_new_owner_sorts_before);
    tcase_add_test(tcase, test_all_owners_go_at_once);
    tcase_add_test(tcase, test_heir_is_broken);
}

UNIT_MAIN("manifests", add_tests)
