/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ask.h"

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/serve.h"

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

/* One question. */
struct question {
    CURL *curl;
    const char *address;
    VEC(char) body;
    bool too_long;
    long status;
};

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
    struct question *q = ctx;
    size_t length = size * n;
    q->too_long = length > ANSWER_MAX - q->body.n;
    if (q->too_long)
        return 0;
    vec_append(&q->body, data, length);
    vec_reserve(&q->body, 1);
    q->body.v[q->body.n] = '\0';
    return length;
}

/* One that listens everywhere is on loopback, too. */
static char *daemon_address(const char *bind, struct error *err)
{
    struct listen_address address;
    if (listen_address_parse(bind, 10249, &address, err))
        return NULL;
    if (address.both_families)
        return xasprintf(address.family == FAMILY_IPV4 ? "127.0.0.1:%u" : "[::1]:%u", address.port);
    return listen_address_format(&address);
}

static CURLcode fetch(struct question *q, const char *url)
{
    CURL *curl = q->curl;
    vec_clear(&q->body);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, ANSWER_SECONDS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, q);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &q->status);
    return code;
}

static bool is_busy(const struct question *q)
{
    return q->status == 503 && q->body.n && strncmp(q->body.v, HTTP_BUSY, strlen(HTTP_BUSY)) == 0;
}

static CURLcode fetch_when_free(struct question *q, const char *url)
{
    const struct timespec wait = {.tv_nsec = BUSY_MILLISECONDS * 1000000L};
    double end = clock_monotonic() + BUSY_SECONDS;
    CURLcode code = fetch(q, url);
    while (code == CURLE_OK && is_busy(q) && clock_monotonic() < end) {
        nanosleep(&wait, NULL);
        code = fetch(q, url);
    }
    return code;
}

/* The first line of what somebody answered, for an error. */
static char *first_line(const struct question *q)
{
    const char *text = q->body.n ? q->body.v : "";
    size_t length = strcspn(text, "\n");
    char *line = xstrndup(text, length < 200 ? length : 200);
    for (char *s = line; *s; s++)
        *s = (char)((unsigned char)*s < ' ' || (unsigned char)*s >= 0x7f ? '?' : *s);
    return line;
}

static void fail_to_ask(const struct question *q, CURLcode code, struct error *err)
{
    long number = 0;
    curl_easy_getinfo(q->curl, CURLINFO_OS_ERRNO, &number);
    const char *reason =
        code == CURLE_COULDNT_CONNECT && number ? strerror((int)number) : curl_easy_strerror(code);
    error_set(err,
              "no kube-nftd answers at %s (%s): is it running? --metrics-bind-address or --config "
              "sets the address; --manifests PATH needs no daemon",
              q->address, reason);
}

/* What is of another kind is an error, or not from us. */
static cJSON *read_answer(const struct question *q, const char *kind, struct error *err)
{
    cJSON *json =
        q->status == 200 && q->body.n ? cJSON_ParseWithLength(q->body.v, q->body.n) : NULL;
    const char *is = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "kind"));
    if (is && strcmp(is, kind) == 0)
        return json;
    cJSON_Delete(json);
    char *line = first_line(q);
    if (q->status == 400 || q->status == 503)
        error_set(err, "the daemon at %s: %s", q->address, line);
    else
        error_set(
            err,
            "the server at %s is not a kube-nftd that knows this (status %ld: %s): kube-proxy, "
            "or an older version?",
            q->address, q->status, line);
    free(line);
    return NULL;
}

static cJSON *ask(struct question *q, const char *path, const char *kind, bool *unreachable,
                  struct error *err)
{
    char *url = xasprintf("http://%s%s", q->address, path);
    CURLcode code = fetch_when_free(q, url);
    free(url);
    *unreachable = false;
    if (code == CURLE_OK)
        return read_answer(q, kind, err);
    if (q->too_long) {
        error_set(err, "the answer of %s is too long", q->address);
    } else if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY) {
        error_set(err, "the server at %s is not kube-nftd: %s", q->address,
                  curl_easy_strerror(code));
    } else {
        *unreachable = true;
        fail_to_ask(q, code, err);
    }
    return NULL;
}

cJSON *ask_daemon(const char *bind, const char *path, const char *kind, bool *unreachable,
                  struct error *err)
{
    char *address = daemon_address(bind, err);
    if (!address)
        return NULL;
    struct question q = {.curl = curl_easy_init(), .address = address};
    if (!q.curl)
        alloc_failed();
    cJSON *answer = ask(&q, path, kind, unreachable, err);
    curl_easy_cleanup(q.curl);
    vec_free(&q.body);
    free(address);
    return answer;
}
