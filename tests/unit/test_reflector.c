/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reflector against a scripted server (docs/behaviour.md 10.2), with the clock and the loop of
 * fake_clock.h. Cases are in cases/reflector and come in both encodings; what one of them reads
 * otherwise is in cases/reflector_json and cases/reflector_protobuf.
 *
 * A command writes what the sink is given, what is logged and the request that it led to. What the
 * server sends is written as reflector_server.h says.
 */
#include "reflector_server.h"
#include "source/reflector_state.h"

/* ---- what is seen ---- */

static struct reflector *reflector;
static FILE *seen;

static void on_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    fprintf(seen, "replace %s:", object_kind_name(kind));
    vec_each (objects, object)
        fprintf(seen, " %s%s", object->id, object->payload ? "" : "?");
    fputs("\n", seen);
    object_vec_clear(objects);
}

static void on_put(void *ctx, struct object *object)
{
    fprintf(seen, "put %s%s\n", object->id, object->payload ? "" : "?");
    object_clear(object);
}

static void on_remove(void *ctx, enum object_kind kind, const char *id)
{
    fprintf(seen, "remove %s %s\n", object_kind_name(kind), id);
}

static const struct object_sink sink = {.replace = on_replace, .put = on_put, .remove = on_remove};

/* The encoding must be the present one, and is left out. */
static void write_log(void)
{
    char *text, *encoded_as = xasprintf(" encoding=%s\n", encoding_name(encoding));
    size_t length;
    FILE *out = open_memstream(&text, &length);
    write_logged(out, LOG_LEVEL_INFO);
    fclose(out);
    for (char *at; (at = strstr(text, encoded_as));)
        memmove(at, at + strlen(encoded_as) - 1, strlen(at + strlen(encoded_as) - 1) + 1);
    fputs(text, seen);
    free(encoded_as);
    free(text);
}

/* A line that comes several times in a row once, with their number. */
static void write_squashed(FILE *out, const char *text)
{
    for (size_t n, same; *text; text += same * n) {
        n = strcspn(text, "\n") + 1;
        for (same = 1; strncmp(text, text + same * n, n) == 0; same++)
            ;
        if (same > 1)
            fprintf(out, "%zu times ", same);
        fprintf(out, "%.*s", (int)n, text);
    }
}

/* The value of a query parameter of the open request, "" if it has none; in static memory. */
static const char *parameter(const char *name)
{
    static char value[100];
    size_t length = strlen(name);
    const char *at = strchr(request->path, '?');
    while (at && (strncmp(at + 1, name, length) != 0 || at[1 + length] != '='))
        at = strchr(at + 1, '&');
    at = at ? at + length + 2 : "";
    snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "&"), at);
    return value;
}

/* The open request in short: "stream", "stream 10", "list 0 limit=500", "watch 10". */
static void write_request(void)
{
    static const char *const names[][2] = {
        {"resourceVersion", " "}, {"limit", " limit="}, {"continue", " continue="}};
    bool stream = *parameter("sendInitialEvents"), watch = *parameter("watch");
    fprintf(seen, "request: %s", stream ? "stream" : watch ? "watch" : "list");
    for (int i = 0; i < COUNT(names); i++)
        if (*parameter(names[i][0]))
            fprintf(seen, "%s%s", names[i][1], parameter(names[i][0]));
}

/* ---- what is done ---- */

static void start(enum object_kind kind)
{
    reflector = reflector_start(NULL, &server, kind, "node-1", &sink, NULL);
}

static void stop(void)
{
    reflector_free(reflector);
    end_server();
}

/* The time that comes is that between two requests. */
static void do_wait(char *words)
{
    ck_assert_ptr_null(request);
    pass_time(words);
}

static void do_pass(char *words)
{
    now += atof(words);
}

static void do_start(char *words)
{
    reflector_free(reflector);
    start(strcmp(words, "Node") == 0 ? KIND_NODE : KIND_SERVICECIDR);
}

static void do_open(char *words)
{
    ck_assert_ptr_nonnull(request);
    request->ops.opened(request->ctx, encoding);
}

static void do_send(char *words)
{
    bytes all = sent_bytes(words);
    send_bytes(all.v, all.n);
    vec_free(&all);
}

/* "BEGIN/END/PIECES ...": of so many pieces of that those from the one to before the other. */
static void do_part(char *words)
{
    size_t begin, end, pieces;
    ck_assert_int_eq(sscanf(script_word(&words), "%zu/%zu/%zu", &begin, &end, &pieces), 3);
    bytes all = sent_bytes(words);
    begin = all.n * begin / pieces;
    send_bytes(all.v + begin, all.n * end / pieces - begin);
    vec_free(&all);
}

/* "N ...": so many times, as long as the reflector takes it. */
static void do_many(char *words)
{
    int n = atoi(script_word(&words));
    bytes all = sent_bytes(words);
    while (n-- > 0 && request)
        send_bytes(all.v, all.n);
    vec_free(&all);
}

/* "STATUS[,RETRY-AFTER] BODY"; with the status 0 or 200 the words are how the transfer failed. */
static void do_answer(char *words)
{
    char *code = script_word(&words), *retry_after = strchr(code, ',');
    long status = atol(code);
    bool transfer = status == 0 || status == 200;
    bytes body = {0};
    if (strncmp(words, "STATUS", 6) == 0)
        body = sent_bytes(words);
    else if (!transfer)
        body = encoded(words);
    put(&body, "", 1); /* a NUL behind it */
    end_answer(status, retry_after ? atof(retry_after + 1) : -1, transfer && *words ? words : NULL,
               body.v, body.n - 1);
    vec_free(&body);
}

/* A whole answer with a list, to its clean end. */
static void do_list(char *words)
{
    do_open(words);
    do_send(words);
    if (request)
        end_answer(200, -1, NULL, "", 0);
}

/* "N": empty pages, each of which leads on. */
static void do_pages(char *words)
{
    for (int page = 0; page < atoi(words); page++) {
        char *list = xasprintf("LIST 10,%d", page);
        do_list(list);
        free(list);
    }
}

static void do_fault(char *words)
{
    set_fault(words);
}

/* A million objects and a GiB take long to send: for the test, some are enough. */
static void do_limit(char *words)
{
    ck_assert_uint_eq(reflector->contents.limit, 1000000);
    reflector->contents.limit = (size_t)atol(words);
}

static void do_fill(char *words)
{
    ck_assert_uint_eq(CONTENTS_BYTES, 1024 * 1024 * 1024);
    reflector->contents.bytes = CONTENTS_BYTES - (size_t)atol(words);
}

/* ---- places ---- */

/* Where the reflector is when something comes, and the ways there. */
static const struct {
    const char *name;
    const char *way[4];
} places[] = {
    {"stream", {NULL}},                            /* no 200 yet, no version known */
    {"open-stream", {"open"}},                     /* 200, no event */
    {"begun-stream", {"open", "send ADDED b 11"}}, /* an initial event */
    {"again-stream", {"at open-watch", "send ERROR 410 Expired"}}, /* asked with version 10 */
    {"list", {"answer 422 STATUS 422 Invalid"}},                   /* the first list */
    {"again-list", {"at again-stream", "answer 422"}},             /* asked with version 10 */
    {"page", {"at list", "list LIST 10,t"}},                       /* the second page */
    {"open-list", {"at list", "open"}},                            /* 200, nothing of the list */
    {"begun-list", {"at open-list", "part 0/3/4 LIST 11 b"}},      /* half of it */
    {"watch", {"at list", "list LIST 10"}},                 /* from version 10, after a list */
    {"open-watch", {"at list", "list LIST 10 a", "open"}},  /* 200, no event */
    {"proven-watch", {"at open-watch", "send ADDED b 11"}}, /* version 11, by an event */
    {"streamed-watch", {"open", "send END 10"}},            /* the stream goes on behind its end */
};

static void act(char *words);

/* What is seen on the way there is what other cases show. */
static void do_at(char *words)
{
    FILE *out = seen;
    seen = fopen("/dev/null", "we");
    for (int i = 0; i < COUNT(places); i++)
        for (int j = 0; strcmp(places[i].name, words) == 0 && places[i].way[j]; j++) {
            char *step = xstrdup(places[i].way[j]);
            act(step);
            free(step);
        }
    fclose(seen);
    seen = out;
}

/* Anew, to that place. */
static void begin_at(char *place)
{
    stop();
    start(KIND_SERVICE);
    do_at(place);
}

/* "PLACE ...": the same is seen however the bytes are cut, at first byte by byte; then the answer
 * ends. */
static void do_cut_anywhere(char *words)
{
    char *text, *first = NULL, *place = script_word(&words);
    size_t length;
    FILE *out = seen;
    bytes all = sent_bytes(words);
    for (size_t i = 0; i <= all.n; i++) {
        begin_at(place);
        seen = open_memstream(&text, &length);
        send_bytes(all.v, i);
        for (size_t at = i, step = i ? all.n - i : 1; at < all.n; at += step)
            send_bytes(all.v + at, step);
        end_answer(200, -1, NULL, "", 0);
        write_log();
        write_request();
        fclose(seen);
        ck_assert_msg(!first || strcmp(first, text) == 0, "cut at %zu: %s", i, text);
        free(first);
        first = text;
    }
    seen = out;
    fprintf(seen, "%.*s", (int)(strstr(first, "request:") - first), first);
    free(first);
    vec_free(&all);
}

/* ---- what can be looked at ---- */

static void write_number(const char *name, uint64_t after, uint64_t before)
{
    if (after != before)
        fprintf(seen, " %s=%u", name, (unsigned)(after - before));
}

/* What has been counted since @before. */
static void write_stats(const struct reflector_stats *before)
{
    struct reflector_stats f = reflector_stats(reflector);
    write_number("lists", f.lists, before->lists);
    write_number("resumes", f.resumes, before->resumes);
    write_number("events", f.events, before->events);
    write_number("bad-objects", f.bad_objects, before->bad_objects);
    write_number("bad-answers", f.bad_answers, before->bad_answers);
    write_number("failures", f.failures, before->failures);
    fputs("\n", seen);
}

static void do_stats(char *words)
{
    static const struct reflector_stats nothing;
    fputs("counted", seen);
    write_stats(&nothing);
}

/* The open request, and that it may take that long. */
static void do_path(char *words)
{
    int seconds = atoi(parameter("timeoutSeconds"));
    const char *at = strstr(request->path, "&timeoutSeconds=");
    size_t length = at ? (size_t)(at - request->path) : strlen(request->path);
    fprintf(seen, "%.*s", (int)length, request->path);
    if (at) {
        ck_assert(seconds >= 300 && seconds <= 600);
        ck_assert_double_eq(request->timeout, seconds + 30);
        fputs("&timeoutSeconds=300..600", seen);
    }
    fputs("\n", seen);
}

static void do_due(char *words)
{
    fprintf(seen, timer ? "in %g s\n" : "nothing\n", timer ? timer->at : 0);
}

/* Whether the last bytes were of use at once. */
static void do_used(char *words)
{
    fputs(more_needed ? "not before more come\n" : "at once\n", seen);
}

static void do_answered(char *words)
{
    fputs(reflector_stats(reflector).answered ? "yes\n" : "no\n", seen);
}

static const struct {
    const char *name;
    void (*run)(char *words);
} acts[] = {
    {"time", pass_time},   {"wait", do_wait},
    {"pass", do_pass},     {"start", do_start},
    {"open", do_open},     {"send", do_send},
    {"part", do_part},     {"many", do_many},
    {"answer", do_answer}, {"list", do_list},
    {"pages", do_pages},   {"fault", do_fault},
    {"limit", do_limit},   {"fill", do_fill},
    {"at", do_at},         {"cut-anywhere", do_cut_anywhere},
    {"stats", do_stats},   {"path", do_path},
    {"due", do_due},       {"answered", do_answered},
    {"used", do_used},
};

static void act(char *words)
{
    const char *name = script_word(&words);
    int i = 0;
    while (i < COUNT(acts) && strcmp(acts[i].name, name) != 0)
        i++;
    ck_assert_msg(i < COUNT(acts), "%s is not known", name);
    acts[i].run(words);
    write_log();
}

COMMAND_AS("-", act)
{
    char *text;
    size_t length;
    unsigned before = requests;
    seen = open_memstream(&text, &length);
    act(words);
    if (requests > before && request) {
        write_request();
        fputs("\n", seen);
    }
    fclose(seen);
    write_squashed(out, text);
    free(text);
}

/* "PLACE ...": what comes of it there, when the next request is sent and what was counted. */
COMMAND(from)
{
    struct reflector_stats before;
    const char *when = "";
    seen = out;
    begin_at(script_word(&words));
    before = reflector_stats(reflector);
    act(words);
    if (!request) {
        bool told = timer->at >= 9 && timer->at <= 10; /* by the server */
        bool away = server.backoff.away_since > 0;
        double most = away ? 4 : 1.6;
        ck_assert_msg(told || (timer->at >= 0.8 && timer->at <= most), "waits %g s", timer->at);
        when = told ? " in 9..10 s" : away ? " in 0.8..4 s" : " in 0.8..1.6 s";
        let_time_come();
        write_log();
    }
    write_request();
    fprintf(out, "%s;", when);
    write_stats(&before);
}

static void set_up_json(void)
{
    encoding = ENCODING_JSON;
    start(KIND_SERVICE);
}

static void set_up_protobuf(void)
{
    encoding = ENCODING_PROTOBUF;
    start(KIND_SERVICE);
}

CASES("reflector")

TESTS(json_cases, script_cases("reflector_json"))
{
    if (encoding == ENCODING_JSON)
        script_run("reflector_json", _i);
}

TESTS(protobuf_cases, script_cases("reflector_protobuf"))
{
    if (encoding == ENCODING_PROTOBUF)
        script_run("reflector_protobuf", _i);
}

UNIT_FIXTURE(set_up_json, stop)
UNIT_FIXTURE(set_up_protobuf, stop)
