/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "commands.h"

#include <curl/curl.h>
#include <string.h>
#include <time.h>

/* A large sync keeps the daemon busy for seconds. */
#define CONNECT_SECONDS 5L
#define ANSWER_SECONDS 30L
/* What does not begin as an answer of the daemon is a line for people, or not from it. */
#define ANSWER_MAX ((size_t)256 << 20)
#define OTHER_MAX ((size_t)64 << 10)
/* How long to retry while the daemon answers "busy", and the interval. */
#define BUSY_SECONDS 10.0
#define BUSY_MILLISECONDS 50

struct reply {
    long status;
    const char *begin; /* of the expected answer */
    VEC(char) body;    /* NUL-terminated once data came */
    bool too_long;
};

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
    struct reply *reply = ctx;
    size_t length = size * n, known = strlen(reply->begin);
    bool expected = reply->body.n >= known && strncmp(reply->body.v, reply->begin, known) == 0;
    size_t limit = expected ? ANSWER_MAX : OTHER_MAX;
    reply->too_long = reply->body.n > limit || length > limit - reply->body.n;
    if (reply->too_long)
        return 0;
    vec_append(&reply->body, data, length);
    vec_reserve(&reply->body, 1);
    reply->body.v[reply->body.n] = '\0';
    return length;
}

/* The address to connect to, owned by the caller: loopback if the daemon listens everywhere. */
static char *daemon_address(const char *bind, struct error *err)
{
    struct listen_address address;
    if (listen_address_parse(bind, 10249, &address, err))
        return NULL;
    if (address.both_families)
        return xasprintf(address.family == FAMILY_IPV4 ? "127.0.0.1:%u" : "[::1]:%u", address.port);
    return listen_address_format(&address);
}

/* Retries while the daemon is busy. */
static CURLcode fetch(CURL *curl, struct reply *reply)
{
    const struct timespec wait = {.tv_nsec = BUSY_MILLISECONDS * 1000000L};
    double end = clock_monotonic() + BUSY_SECONDS;
    for (;;) {
        vec_clear(&reply->body);
        CURLcode code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply->status);
        bool busy = code == CURLE_OK && reply->status == 503 && reply->body.n &&
                    strncmp(reply->body.v, HTTP_BUSY, strlen(HTTP_BUSY)) == 0;
        if (!busy || clock_monotonic() >= end)
            return code;
        nanosleep(&wait, NULL);
    }
}

/* Parses the answer, which must be of @kind. NULL with an error. */
static cJSON *read_reply(const struct reply *reply, const char *address, const char *kind,
                         struct error *err)
{
    const char *text = reply->body.n ? reply->body.v : "";
    cJSON *json = reply->status == 200 ? cJSON_ParseWithLength(text, reply->body.n) : NULL;
    if (strcmp(facts_text_at(json, "kind"), kind) == 0)
        return json;
    cJSON_Delete(json);
    size_t length = strcspn(text, "\n");
    char *line = xstrndup(text, length < 200 ? length : 200);
    for (char *s = line; *s; s++)
        *s = (char)((unsigned char)*s < ' ' || (unsigned char)*s >= 0x7f ? '?' : *s);
    if (reply->status == 400 || reply->status == 503)
        error_set(err, "the daemon at %s: %s", address, line);
    else
        error_set(err,
                  "the server at %s is not a kube-nftd that knows this (status %ld: %s): "
                  "kube-proxy, or an older version?",
                  address, reply->status, line);
    free(line);
    return NULL;
}

/* Sets the error for a failed transfer. Returns whether the daemon is unreachable. */
static bool fail(CURL *curl, CURLcode code, const char *address, bool too_long, struct error *err)
{
    long number = 0;
    const char *reason = curl_easy_strerror(code);
    if (too_long) {
        error_set(err, "the answer of %s is too long", address);
        return false;
    }
    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY) {
        error_set(err, "the server at %s is not kube-nftd: %s", address, reason);
        return false;
    }
    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &number);
    if (code == CURLE_COULDNT_CONNECT && number)
        reason = strerror((int)number);
    error_set(err,
              "no kube-nftd answers at %s (%s): is it running? --metrics-bind-address or --config "
              "sets the address; --manifests PATH needs no daemon",
              address, reason);
    return true;
}

static char *make_url(const char *address, const char *path, const char *const (*query)[2])
{
    char *url = xasprintf("http://%s%s", address, path);
    for (; (*query)[0]; query++)
        if ((*query)[1])
            url_add_argument(&url, (*query)[0], (*query)[1]);
    return url;
}

cJSON *ask_daemon(const char *bind, const char *kind, const char *path,
                  const char *const (*query)[2], bool *unreachable, struct error *err)
{
    char *begin = xasprintf("{\"kind\":\"%s\",", kind);
    struct reply reply = {.begin = begin};
    cJSON *answer = NULL;
    char *address = daemon_address(bind, err);
    bool no_server = false;
    if (!address) {
        free(begin);
        return NULL;
    }
    CURL *curl = alloc_check(curl_easy_init());
    char *url = make_url(address, path, query);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, ANSWER_SECONDS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply);
    CURLcode code = fetch(curl, &reply);
    if (code == CURLE_OK)
        answer = read_reply(&reply, address, kind, err);
    else
        no_server = fail(curl, code, address, reply.too_long, err);
    if (unreachable)
        *unreachable = no_server;
    curl_easy_cleanup(curl);
    vec_free(&reply.body);
    free(begin);
    free(url);
    free(address);
    return answer;
}
