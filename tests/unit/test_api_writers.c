/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writers to the API server: events, and the patch that removes a taint from the Node. The test
 * is the server, with one open request at most, and its clock and loop are fake_clock.h's. Cases
 * are in cases/events and cases/startup_taint. A command writes what is logged and the request that
 * it led to.
 */
#include "fake_apiserver.h"
#include "model/decode.h"

#include <cjson/cJSON.h>
#include <string.h>

/* ---- the server ---- */

/* What a command has led to, if there were @before requests. */
static void write_request(FILE *out, unsigned before)
{
    write_logged(out, LOG_LEVEL_INFO);
    if (requests == before || !request)
        return;
    fprintf(out, "%s %s", request->method, request->path);
    ck_assert_double_eq(request->timeout, 10);
    if (strcmp(request->method, "PATCH") == 0)
        fprintf(out, " %s\n%s", request->content_type, request->body);
    fputs("\n", out);
}

/* "STATUS[,RETRY-AFTER] BODY" */
COMMAND(answer)
{
    const char *code = script_word(&words), *retry_after = strchr(code, ',');
    unsigned before = requests;
    long status = atol(code);
    end_answer(status, retry_after ? atof(retry_after + 1) : -1,
               status ? NULL : "no answer in time", words, strlen(words));
    write_request(out, before);
}

COMMAND(time)
{
    unsigned before = requests;
    pass_time(words);
    write_request(out, before);
}

/* "LOW HIGH": the next request comes within that time, perhaps in several steps. */
COMMAND(wait)
{
    double low = atof(script_word(&words)), begin = now;
    unsigned before = requests;
    while (!request)
        let_time_come();
    ck_assert_msg(now - begin >= low && now - begin <= atof(words), "in %g s", now - begin);
    write_request(out, before);
}

/* Time passes, with all that is due in it, up to the next request. */
static void pass(double seconds)
{
    double end = now + seconds;
    while (!request && timer && now + timer->at <= end)
        let_time_come();
    if (!request)
        now = end;
}

COMMAND(pass)
{
    unsigned before = requests;
    pass(atof(words));
    write_request(out, before);
}

/* Time alone. */
COMMAND(later)
{
    now += atof(words);
}

COMMAND(due)
{
    fputs(timer ? "something\n" : "nothing\n", out);
}

/* Whether a request can be sent at all. */
COMMAND(can_ask)
{
    set_fault(strcmp(words, "yes") == 0 ? "" : "no token");
}

/* ---- events ---- */

static struct event_recorder *recorder;

static void make_recorder(double qps, double burst)
{
    event_recorder_free(recorder);
    recorder = event_recorder_new(NULL, &server, "node-a", "host-a", qps, burst);
}

COMMAND(recorder)
{
    double qps = atof(script_word(&words));
    make_recorder(qps, atof(words));
}

static enum object_kind kind_of(const char *name)
{
    int kind = 0;
    while (kind < KIND_COUNT && strcmp(object_kind_name((enum object_kind)kind), name) != 0)
        kind++;
    return (enum object_kind)kind;
}

/* "[everywhere] [KEY=VALUE ...] ID NOTE" */
COMMAND(report)
{
    struct object_event event = {.kind = KIND_SERVICE,
                                 .type = EVENT_WARNING,
                                 .reason = "FailedToStartServiceHealthcheck",
                                 .action = "Listen"};
    unsigned before = requests;
    for (char *word; !event.id;) {
        char *value;
        word = script_word(&words);
        if (strcmp(word, "everywhere") == 0)
            event.everywhere = true;
        else if (script_option(word, "kind", &value))
            event.kind = kind_of(value);
        else if (script_option(word, "uid", &value))
            ck_assert(uid_parse(value, &event.uid));
        else if (script_option(word, "type", &value))
            event.type = strcmp(value, "Normal") == 0 ? EVENT_NORMAL : EVENT_WARNING;
        else if (script_option(word, "reason", &value))
            event.reason = value;
        else if (script_option(word, "action", &value))
            event.action = value;
        else
            event.id = word;
    }
    event.note = words;
    event_recorder_report(recorder, &event);
    write_request(out, before);
}

static FILE *nowhere;

static void report(const char *id, const char *note)
{
    char *words = xasprintf("%s %s", id, note);
    run_report(words, nowhere);
    free(words);
}

/* "FIRST N": events of so many objects. */
COMMAND(report_many)
{
    int first = atoi(script_word(&words));
    for (int i = first; i < first + atoi(words); i++) {
        char *id = xasprintf("shop-%d/web-%d", i / 50, i);
        report(id, "in use");
        free(id);
    }
}

/* "ID N": so many of one. */
COMMAND(report_of)
{
    const char *id = script_word(&words);
    for (int i = 0; i < atoi(words); i++) {
        char *note = xasprintf("bad %d", i);
        report(id, note);
        free(note);
    }
}

COMMAND(stats)
{
    struct event_stats f = event_recorder_stats(recorder);
    fprintf(out, "requests=%u posted=%u repeated=%u failed=%u dropped=%u%s\n", requests,
            (unsigned)f.posted, (unsigned)f.repeated, (unsigned)f.failed, (unsigned)f.dropped,
            event_recorder_is_idle(recorder) ? " idle" : "");
}

/* What the open request creates; but for its name behind the object's, and the time. */
COMMAND(body)
{
    cJSON *body = cJSON_Parse(request->body);
    cJSON *name = cJSON_GetObjectItem(cJSON_GetObjectItem(body, "metadata"), "name");
    cJSON *when = cJSON_GetObjectItem(body, "eventTime");
    ck_assert_uint_eq(strlen(when->valuestring), strlen("2026-11-22T04:00:00.123456Z"));
    cJSON_SetValuestring(when, "TIME");
    char *dot = strrchr(name->valuestring, '.');
    ck_assert_ptr_nonnull(dot);
    dot[1] = '\0';
    char *text = cJSON_PrintUnformatted(body);
    fprintf(out, "%s\n%s\n", request->content_type, text);
    free(text);
    cJSON_Delete(body);
}

static const char *name_in(const cJSON *body)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(body, "metadata"), "name"));
}

/* Whether the event of the open request has the name of the last one that was looked at. */
COMMAND(name)
{
    static char last[300];
    cJSON *body = cJSON_Parse(request->body);
    const char *name = name_in(body);
    fputs(strcmp(last, name) == 0 ? "the same\n" : "another\n", out);
    snprintf(last, sizeof(last), "%s", name);
    cJSON_Delete(body);
}

CASES("events")

TEST(texts_are_cut_to_what_the_server_takes)
{
    char id[300] = "shop/", note[2000];
    memset(id + 5, 'x', 253);
    memset(note, '\0', sizeof(note));
    for (size_t i = 0; i + 2 < sizeof(note); i += 2)
        memcpy(note + i, "\xc3\xa4", 2);
    id[5 + 234] = '.';
    report(id, note);
    cJSON *body = cJSON_Parse(request->body);
    const char *name = name_in(body);
    const char *cut = cJSON_GetStringValue(cJSON_GetObjectItem(body, "note"));
    ck_assert_uint_le(strlen(name), 253);
    ck_assert_ptr_null(strstr(name, ".."));
    ck_assert_uint_le(strlen(cut), 1024);
    ck_assert_uint_ge(strlen(cut), 1022);
    ck_assert_int_eq((unsigned char)cut[strlen(cut) - 1], 0xa4);
    cJSON_Delete(body);
}

/* The server forgets events after an hour. */
TEST(what_goes_on_is_posted_now_and_then)
{
    for (int i = 0; i < 700; i++) { /* 70 minutes */
        report("shop/web", "in use");
        if (request)
            end_answer(201, -1, NULL, "", 0);
        pass(6);
    }
    ck_assert_uint_eq(requests, 3);
}

TEST(the_rate_holds_in_sum)
{
    double begin = now;
    run_report_many((char[]){"0 100"}, nowhere);
    for (int i = 0; i < 100; i++) {
        run_wait((char[]){"0 1"}, nowhere);
        end_answer(201, -1, NULL, "", 0);
    }
    ck_assert_double_eq_tol(now - begin, (100 - 10) / 5.0, 0.01);
}

/* A Service that is made again and again by other names. */
TEST(a_namespace_has_few)
{
    make_recorder(-1, 1);
    for (int i = 0; i < EVENTS_PER_NAMESPACE + 20; i++) {
        char *id = xasprintf("shop/web-%d", i);
        report(id, "in use");
        free(id);
        if (request)
            end_answer(201, -1, NULL, "", 0);
    }
    ck_assert_uint_eq(event_recorder_stats(recorder).posted, EVENTS_PER_NAMESPACE);
    ck_assert_uint_eq(event_recorder_stats(recorder).dropped, 20);
    report("other/web", "in use");
    ck_assert_ptr_nonnull(request);
}

/* ---- the startup taint ---- */

static struct startup_taint *startup;
static unsigned char uid; /* of the Node, its last byte */

COMMAND(taint)
{
    struct taint pattern;
    struct error err = {0};
    ck_assert_int_eq(taint_parse(words, &pattern, &err), 0);
    startup_taint_free(startup);
    startup = startup_taint_new(NULL, &server, "node/a", &pattern);
}

/* The Node with taints like "k=v:NoSchedule"; also "deleting", or "added=TIME" for what follows. */
COMMAND(see)
{
    struct node *node = xcalloc(1, sizeof(*node));
    char *added = NULL;
    unsigned before = requests;
    node->uid.bytes[15] = uid;
    for (char *word; *(word = script_word(&words));) {
        struct taint taint;
        struct error err = {0};
        if (strcmp(word, "deleting") == 0) {
            node->deleting = true;
        } else if (!script_option(word, "added", &added)) {
            ck_assert_int_eq(taint_parse(word, &taint, &err), 0);
            taint.value = taint.value ? taint.value : xstrdup("");
            taint.time_added = added ? xstrdup(added) : NULL;
            vec_push(&node->taints, taint);
        }
    }
    startup_taint_node_seen(startup, node);
    object_clear(&(struct object){.kind = KIND_NODE, .node = node});
    write_request(out, before);
}

COMMAND(gone)
{
    startup_taint_node_seen(startup, NULL);
}

/* The Node is made anew. */
COMMAND(anew)
{
    uid++;
}

/* "N": so many frontends are rejected by the kernel. */
COMMAND(programmed)
{
    unsigned before = requests;
    startup_taint_programmed(startup, (size_t)atoi(words));
    write_request(out, before);
}

TESTS(taint_cases, script_cases("startup_taint"))
{
    script_run("startup_taint", _i);
}

static void set_up(void)
{
    uid = 1;
    nowhere = fopen("/dev/null", "we");
    make_recorder(5, 10);
    run_taint((char[]){"k"}, nowhere);
}

static void tear_down(void)
{
    fclose(nowhere);
    event_recorder_free(recorder);
    startup_taint_free(startup);
    recorder = NULL;
    startup = NULL;
    end_server();
}

UNIT_FIXTURE(set_up, tear_down)
