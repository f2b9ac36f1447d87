/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/explain_command.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/utf8.h"
#include "kube-nftd/daemon.h"
#include "kube-nftd/serve/explain_text.h"

#include <curl/curl.h>
#include <string.h>
#include <time.h>

/* A daemon is busy for seconds when it programs very much. */
#define CONNECT_SECONDS 5L
#define ANSWER_SECONDS 30L
#define ANSWER_MAX ((size_t)256 << 20)
/* How long a daemon that is busy with other questions is asked again, and how often. */
#define BUSY_SECONDS 10.0
#define BUSY_MILLISECONDS 50
#define BUSY "busy"

/* An answer that took more is followed by a pause of so many times as long: so questions take a
 * quarter of the loop's time at most. */
#define CHEAP_SECONDS 0.002
#define PAUSE 3
/* While so many bytes of answers wait for somebody to read them, there are no new ones. */
#define UNREAD_MAX ((size_t)8 << 20)

/* ---- the daemon's side ---- */

static bool is_reading(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

bool explain_gate_is_open(const struct explain_gate *gate)
{
    return clock_monotonic() >= gate->closed_until && gate->unread <= UNREAD_MAX;
}

static double cpu_seconds(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void on_released(void *ctx, size_t length)
{
    ((struct explain_gate *)ctx)->unread -= length;
}

static void answer_with(const struct explain_sources *sources, const struct explain_query *query,
                        struct explain_gate *gate, struct http_answer *answer)
{
    double before = cpu_seconds();
    cJSON *json = explain(sources, query);
    char *text = cJSON_PrintUnformatted(json);
    if (!text)
        alloc_failed();
    cJSON_Delete(json);
    http_answer_json(answer, 200, text);
    answer->released = on_released;
    answer->released_ctx = gate;
    gate->unread += strlen(text);
    double cost = cpu_seconds() - before;
    if (cost > CHEAP_SECONDS)
        gate->closed_until = clock_monotonic() + PAUSE * cost;
}

/* "true" and what others write for it. False if it is none of the forms. */
static bool read_all(const struct http_request *request, bool *all)
{
    const char *text = http_request_argument(request, "all");
    *all = text && (!*text || strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
    return *all || !text || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

static void answer_query(const struct explain_sources *sources, const struct explain_query *query,
                         struct explain_gate *gate, struct http_answer *answer)
{
    if (!sources->complete) {
        http_answer_text(answer, 503,
                         "Services and EndpointSlices are not all known yet: nothing is "
                         "decided, and the kernel holds what it held before\n");
    } else if (!explain_gate_is_open(gate)) {
        http_answer_header(answer, "Retry-After", "1");
        http_answer_text(answer, 503, BUSY " with what others asked: ask again\n");
    } else {
        answer_with(sources, query, gate, answer);
    }
}

void explain_answer(const struct explain_sources *sources, struct explain_gate *gate,
                    const struct http_request *request, struct http_answer *answer)
{
    const char *what = http_request_argument(request, "what");
    struct explain_query query;
    struct error err = {0};
    bool all;
    if (!is_reading(request->method)) {
        http_answer_header(answer, "Allow", "GET, HEAD");
        http_answer_text(answer, 405, "only GET is answered\n");
    } else if (!what) {
        http_answer_text(answer, 400,
                         "?what= is missing: ADDRESS:PORT[/PROTOCOL] or "
                         "NAMESPACE/SERVICE[:PORT]\n");
    } else if (!read_all(request, &all)) {
        http_answer_text(answer, 400, "all: it is neither true nor false\n");
    } else if (http_request_argument_is_cut(request, "what")) {
        http_answer_text(answer, 400, "what: there is a NUL in it\n");
    } else if (explain_query_parse(what, &query, &err)) {
        http_answer_text(answer, 400, "what: %s\n", err.text);
        error_clear(&err);
    } else {
        query.all = all;
        answer_query(sources, &query, gate, answer);
        explain_query_clear(&query);
    }
}

/* ---- the other side ---- */

struct body {
    char *text;
    size_t length;
    bool too_long;
};

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
    struct body *body = ctx;
    size_t length = size * n;
    if (length > ANSWER_MAX - body->length) {
        body->too_long = true;
        return 0;
    }
    body->text = xreallocarray(body->text, body->length + length + 1, 1);
    memcpy(body->text + body->length, data, length);
    body->length += length;
    body->text[body->length] = '\0';
    return length;
}

/* Where the daemon answers, asked from this host: one that listens everywhere is on loopback, too.
 */
static char *daemon_address(const char *bind, struct error *err)
{
    struct http_address address;
    char text[BACKEND_TEXT_SIZE];
    if (http_address_parse(bind, 10249, &address, err))
        return NULL;
    struct backend place = {address.address, address.port};
    if (address.both_families)
        return xasprintf(address.family == FAMILY_IPV4 ? "127.0.0.1:%u" : "[::1]:%u", address.port);
    return xstrdup(backend_format(address.family, &place, text));
}

static char *make_url(CURL *curl, const char *address, const struct options *options)
{
    char *what = curl_easy_escape(curl, options->explain, 0);
    if (!what)
        alloc_failed();
    char *url = xasprintf("http://%s/explain?what=%s%s", address, what,
                          options->explain_all ? "&all=true" : "");
    curl_free(what);
    return url;
}

static CURLcode fetch(CURL *curl, const char *url, struct body *body, long *status)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, ANSWER_SECONDS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    return code;
}

static bool is_busy(const struct body *body, long status)
{
    return status == 503 && body->text && strncmp(body->text, BUSY, strlen(BUSY)) == 0;
}

static CURLcode fetch_when_free(CURL *curl, const char *url, struct body *body, long *status)
{
    const struct timespec wait = {.tv_nsec = BUSY_MILLISECONDS * 1000000L};
    double end = clock_monotonic() + BUSY_SECONDS;
    CURLcode code = fetch(curl, url, body, status);
    while (code == CURLE_OK && is_busy(body, *status) && clock_monotonic() < end) {
        nanosleep(&wait, NULL);
        body->length = 0;
        code = fetch(curl, url, body, status);
    }
    return code;
}

/* The first line of what somebody answered, for an error. */
static char *first_line(const struct body *body)
{
    char *line =
        xstrndup(body->text ? body->text : "", strcspn(body->text ? body->text : "", "\n"));
    for (char *s = line; *s; s++)
        *s = (char)((unsigned char)*s < ' ' || (unsigned char)*s >= 0x7f ? '?' : *s);
    if (strlen(line) > 200)
        line[200] = '\0';
    return line;
}

static int fail_to_ask(CURL *curl, CURLcode code, const char *address, struct error *err)
{
    long number = 0;
    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &number);
    const char *reason =
        code == CURLE_COULDNT_CONNECT && number ? strerror((int)number) : curl_easy_strerror(code);
    return error_set(err,
                     "no kube-nftd answers at %s (%s): is it running? Where it answers says "
                     "--metrics-bind-address, or --config; --manifests PATH needs no daemon",
                     address, reason);
}

/* What is no explanation is an error, or not from us. */
static cJSON *read_answer(const struct body *body, long status, const char *address,
                          struct error *err)
{
    cJSON *json =
        status == 200 && body->text ? cJSON_ParseWithLength(body->text, body->length) : NULL;
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "kind"));
    if (kind && strcmp(kind, EXPLAIN_KIND) == 0)
        return json;
    cJSON_Delete(json);
    char *line = first_line(body);
    if (status == 400 || status == 503)
        error_set(err, "the daemon at %s: %s", address, line);
    else
        error_set(err,
                  "what answers at %s is no kube-nftd that can explain (status %ld: %s): "
                  "kube-proxy, or an older version?",
                  address, status, line);
    free(line);
    return NULL;
}

static cJSON *ask_at(const char *address, const struct options *options, struct error *err)
{
    CURL *curl = curl_easy_init();
    if (!curl)
        alloc_failed();
    struct body body = {0};
    long status = 0;
    char *url = make_url(curl, address, options);
    CURLcode code = fetch_when_free(curl, url, &body, &status);
    cJSON *answer = NULL;
    if (body.too_long)
        error_set(err, "the answer of %s is too long", address);
    else if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY)
        error_set(err, "what answers at %s is no kube-nftd: %s", address, curl_easy_strerror(code));
    else if (code)
        fail_to_ask(curl, code, address, err);
    else
        answer = read_answer(&body, status, address, err);
    free(body.text);
    free(url);
    curl_easy_cleanup(curl);
    return answer;
}

static cJSON *ask(const struct options *options, struct error *err)
{
    char *address = daemon_address(options->metrics_bind_address, err);
    cJSON *answer = address ? ask_at(address, options, err) : NULL;
    free(address);
    return answer;
}

/* ---- the result ---- */

static enum explain_status status_of(const cJSON *answer)
{
    const cJSON *kernel = cJSON_GetObjectItemCaseSensitive(answer, "kernel");
    const char *found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "found"));
    if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(kernel, "agrees")))
        return EXPLAIN_DIFFERS;
    bool known = found && (strcmp(found, "service") == 0 || strcmp(found, "noFrontends") == 0);
    return known ? EXPLAIN_AGREES : EXPLAIN_UNKNOWN;
}

static void print_json(const cJSON *answer)
{
    char *text = cJSON_Print(answer);
    if (!text)
        alloc_failed();
    /* What would do something to a terminal is in strings only, so it may be escaped. */
    for (const char *s = text; *s;) {
        uint32_t code;
        size_t length = utf8_decode(s, &code);
        if (length > 1 && utf8_is_control(code))
            printf("\\u%04x", code);
        else
            fwrite(s, 1, length ? length : 1, stdout);
        s += length ? length : 1;
    }
    putchar('\n');
    free(text);
}

enum explain_status explain_finish(const struct options *options, cJSON *answer, struct error *err)
{
    enum explain_status status = status_of(answer);
    if (options->output == OUTPUT_JSON)
        print_json(answer);
    else
        explain_print(answer, stdout);
    cJSON_Delete(answer);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    error_set(err, "cannot write to standard output");
    return EXPLAIN_FAILED;
}

enum explain_status explain_command(const struct options *options, struct error *err)
{
    struct explain_query query;
    if (explain_query_parse(options->explain, &query, err)) {
        error_prefix(err, "--explain %s", options->explain);
        error_of_configuration(err);
        return EXPLAIN_FAILED;
    }
    query.all = options->explain_all;
    cJSON *answer = options->manifests ? daemon_explain(options, &query, err) : ask(options, err);
    explain_query_clear(&query);
    return answer ? explain_finish(options, answer, err) : EXPLAIN_FAILED;
}
