/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the API server is asked for, at which addresses it is, and what it means when it refuses:
 * cases/api_protocol. */
#include "json_read.h"
#include "kube-nftd/source.h"
#include "proto_writer.h"
#include "script.h"
#include "source/api_connection.h"
#include "source/api_protocol.h"

/* ---- what it says ---- */

static void write_status(FILE *out, struct api_status *status)
{
    fprintf(out, "%ld%s%s", status->code, status->expired ? " expired" : "",
            status->too_large ? " too-large" : "");
    if (status->retry_after != -1)
        fprintf(out, " retry-after=%g", status->retry_after);
    fprintf(out, " \"%s\"\n", status->message);
    api_status_clear(status);
}

static void read_body(long code, const char *body, size_t length, struct api_status *status)
{
    api_status_from_answer(code, body, length, -1, status);
}

/* "CODE BODY" */
COMMAND(body)
{
    struct api_status status;
    long code = atol(script_word(&words));
    size_t length = script_bytes(words);
    read_body(code, words, length, &status);
    write_status(out, &status);
}

static int take_status(void *ctx, const struct json_value *json, const struct json_value *list,
                       struct error *err)
{
    ck_assert_ptr_null(list);
    api_status_from_json(json, 0, ctx);
    return 0;
}

/* The object of an ERROR event. */
COMMAND(event)
{
    struct api_status status = {0};
    struct error err = {0};
    ck_assert_int_eq(json_read(words, strlen(words), take_status, &status, &err), 0);
    ck_assert_ptr_nonnull(status.message); /* it was given out */
    write_status(out, &status);
}

/* "CODE MESSAGE" for somebody who creates events. */
COMMAND(explain)
{
    static const struct api_resource events = {"events", "events", "events.k8s.io",
                                               "events.k8s.io/v1"};
    struct api_status status;
    long code = atol(script_word(&words));
    char *body = xasprintf("{\"kind\":\"Status\",\"message\":\"%s\"}", words);
    read_body(code, body, strlen(body), &status);
    char *text = api_status_explain(&status, "create", &events);
    fprintf(out, "%s\n", text);
    free(text);
    free(body);
    api_status_clear(&status);
}

/* "CODE NAME PART...": the same in each of these parts of a recording. */
COMMAND(recorded)
{
    long code = atol(script_word(&words));
    const char *name = script_word(&words);
    char *first = NULL, *text;
    for (char *part; *(part = script_word(&words));) {
        size_t length;
        struct api_status status;
        char *body = read_recorded(name, part, &length);
        read_body(code, body, length, &status);
        FILE *written = open_memstream(&text, &length);
        write_status(written, &status);
        fclose(written);
        ck_assert_msg(!first || strcmp(first, text) == 0, "%s", text);
        free(first);
        first = text;
        free(body);
    }
    fputs(first, out);
    free(first);
}

TEST(long_messages_are_cut_between_characters)
{
    char *body = xcalloc(2001, 1);
    for (size_t i = 0; i < 2000; i += 2)
        memcpy(body + i, "\xc3\xa4", 2);
    body[0] = body[1] = 'x';
    for (int i = 0; i < 2; i++) { /* the second time 500 is inside a character */
        struct api_status status;
        read_body(500, body + i, strlen(body + i), &status);
        ck_assert_uint_eq(strlen(status.message), i ? 499 : 500);
        api_status_clear(&status);
    }
    free(body);
}

/* ---- where it is ---- */

static struct api_peers peers;
static FILE *seen;

static void write_peers(const char *what, const struct frontend *frontends, size_t n)
{
    char text[FRONTEND_TEXT_SIZE];
    fputs(what, seen);
    for (size_t i = 0; i < n; i++)
        fprintf(seen, " %s", frontend_format(&frontends[i], text));
    fputs("\n", seen);
}

static void on_changed(void *ctx, const struct frontend *all, size_t n)
{
    ck_assert_ptr_eq(ctx, &peers);
    write_peers("known", all, n);
}

static void on_unreachable(void *ctx, const struct frontend *peer)
{
    ck_assert_ptr_eq(ctx, &peers);
    write_peers("lost", peer, 1);
}

static void note_peer(char *words, bool reached, FILE *out)
{
    const char *address = script_word(&words);
    seen = out;
    api_peers_use(&peers, strcmp(address, "''") == 0 ? "" : address, 6443, reached, atof(words));
}

/* "ADDRESS NOW" */
COMMAND(try)
{
    note_peer(words, false, out);
}

COMMAND(reach)
{
    note_peer(words, true, out);
}

COMMAND(failed)
{
    seen = out;
    api_peers_failed(&peers);
}

COMMAND(nobody)
{
    peers.ops = (struct api_peers_ops){0};
}

/* A name server may give ever new addresses: who was used longest ago makes room. */
TEST(very_many_addresses)
{
    char *text, *words;
    size_t length;
    for (int i = 0; i < 3 * API_PEERS_MOST; i++) {
        seen = fopen("/dev/null", "we");
        api_peers_use(&peers, "192.0.2.200", 6443, true, 2 * i);
        fclose(seen);
        words = xasprintf("192.0.2.%d %d", i, 2 * i + 1);
        FILE *out = open_memstream(&text, &length);
        run_try(words, out);
        fclose(out);
        free(words);
        if (i + 1 < 3 * API_PEERS_MOST)
            free(text);
    }
    ck_assert_uint_eq(peers.list.n, API_PEERS_MOST);
    ck_assert_ptr_nonnull(strstr(text, " 192.0.2.200:"));
    ck_assert_ptr_nonnull(strstr(text, " 192.0.2.95:"));
    ck_assert_ptr_null(strstr(text, " 192.0.2.64:"));
    ck_assert_ptr_nonnull(strstr(text, " 192.0.2.65:"));
    free(text);
}

/* ---- what it is asked for ---- */

static struct collection collection_of(const char *kind)
{
    struct collection collection = {.kind = KIND_SERVICE};
    while (strcmp(object_kind_name(collection.kind), kind) != 0)
        collection.kind++;
    return collection;
}

/* "KIND [node=NAME] [version=VERSION] [limited] [token=TOKEN]" */
COMMAND(list_path)
{
    struct collection collection = collection_of(script_word(&words));
    char *version = NULL, *token = NULL;
    bool limited = false;
    script_bytes(words);
    for (char *word; *(word = script_word(&words));)
        if (!script_option(word, "node", &collection.node_name) &&
            !script_option(word, "version", &version) && !script_option(word, "token", &token))
            limited = true;
    char *path = collection_list_path(&collection, version, limited, token);
    fprintf(out, "%s\n", path);
    free(path);
}

/* "KIND VERSION SECONDS" */
COMMAND(watch_path)
{
    struct collection collection = collection_of(script_word(&words));
    const char *version = script_word(&words);
    char *path = collection_watch_path(&collection, version, (unsigned)atoi(words), false);
    fprintf(out, "%s\n", path);
    free(path);
}

/* The names that a role must grant. */
COMMAND(resource)
{
    const struct api_resource *resource = collection_resource(collection_of(words).kind);
    fprintf(out, "%s, %s of \"%s\", %s\n", resource->name, resource->plural, resource->group,
            resource->api_version);
}

CASES("api_protocol")

static void set_up(void)
{
    peers = (struct api_peers){.ops = {on_changed, on_unreachable, &peers}};
}

static void tear_down(void)
{
    vec_free(&peers.list);
}

UNIT_FIXTURE(set_up, tear_down)

/* ---- encodings ---- */

#define PROTOBUF "application/vnd.kubernetes.protobuf"
#define BOTH PROTOBUF ",application/json"

/* What kube-proxy's settings mean: contentType, acceptContentTypes, the header, warned of. */
static const struct {
    const char *preferred, *accepted, *header;
    unsigned warnings;
} settings[] = {
    {PROTOBUF, "", BOTH, 0},
    {PROTOBUF, NULL, BOTH, 0},
    {"application/json", "", "application/json", 0},
    {"application/cbor", "", "application/json", 0},
    {NULL, NULL, "application/json", 0},
    {PROTOBUF, "application/json", "application/json", 0},
    {PROTOBUF, "text/x;q=1, application/json;q=0.5", "text/x;q=1, application/json;q=0.5", 0},
    {"application/json", "*/*", "*/*", 0},
    {"application/json", PROTOBUF, PROTOBUF, 0},
    {PROTOBUF, "application/cbor", BOTH, 1},
    {PROTOBUF, "text/application/json", BOTH, 1},
    {PROTOBUF, "application/json\r\nX: y", BOTH, 1},
};

TEST_ROWS(accept_header, settings)
{
    char *header = encoding_accept(row->preferred, row->accepted);
    ck_assert_str_eq(header, row->header);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), row->warnings);
    free(header);
}

static const struct {
    const char *type;
    enum encoding encoding;
} types[] = {
    {NULL, ENCODING_JSON},
    {"", ENCODING_JSON},
    {"application/json", ENCODING_JSON},
    {"application/json;stream=watch", ENCODING_JSON},
    {"text/plain; charset=utf-8", ENCODING_JSON},
    {PROTOBUF, ENCODING_PROTOBUF},
    {PROTOBUF ";stream=watch", ENCODING_PROTOBUF},
    {"Application/Vnd.Kubernetes.Protobuf ; a=b", ENCODING_PROTOBUF},
    {PROTOBUF "2", ENCODING_JSON},
};

TEST_ROWS(content_type, types)
{
    ck_assert_int_eq(encoding_of(row->type), row->encoding);
}
