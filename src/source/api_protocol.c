/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api_protocol.h"

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "messages.h"
#include "server_backoff.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_SIZE "500"
/* Bytes of a message in a log line. */
#define MESSAGE_LIMIT 500

#define BACKOFF_FIRST 0.8
#define BACKOFF_FACTOR 2.0
#define BACKOFF_MOST 30.0
#define BACKOFF_START_OVER 120.0
/* A role is changed by people, so retries are rare. */
#define FORBIDDEN_FIRST 30.0
#define FORBIDDEN_MOST 300.0
/* Upper limit for waits requested by a server. */
#define RETRY_AFTER_MAX 300.0

/* ---- paths ---- */

static const struct {
    struct api_resource resource;
    const char *excluding_label;
    const char *field_selector; /* the node name is appended */
} collections[KIND_COUNT] = {
    [KIND_SERVICE] = {{"services", "services", "", "v1"},
                      "service.kubernetes.io/service-proxy-name",
                      "spec.clusterIP!=None"},
    [KIND_ENDPOINTSLICE] = {{"endpointslices.discovery.k8s.io", "endpointslices",
                             "discovery.k8s.io", "discovery.k8s.io/v1"},
                            "service.kubernetes.io/headless",
                            NULL},
    [KIND_SERVICECIDR] = {{"servicecidrs.networking.k8s.io", "servicecidrs", "networking.k8s.io",
                           "networking.k8s.io/v1"},
                          NULL,
                          NULL},
    [KIND_NODE] = {{"nodes", "nodes", "", "v1"}, NULL, "metadata.name="},
};

const struct api_resource *collection_resource(enum object_kind kind)
{
    return &collections[kind].resource;
}

const char *collection_excluding_label(enum object_kind kind)
{
    return collections[kind].excluding_label;
}

/* The length of @text if it is a decimal number without leading zeros, else 0. */
static size_t decimal_length(const char *text)
{
    size_t length = strspn(text, "0123456789");
    return text[length] || (*text == '0' && length > 1) ? 0 : length;
}

enum version_order version_order(const char *version, const char *other)
{
    size_t length = decimal_length(version), other_length = decimal_length(other);
    int order = strcmp(version, other);
    if (order == 0)
        return VERSION_REACHED;
    if (length == 0 || other_length == 0)
        return VERSION_UNKNOWN;
    if (length != other_length)
        return length < other_length ? VERSION_BEFORE : VERSION_REACHED;
    return order < 0 ? VERSION_BEFORE : VERSION_REACHED;
}

static char *selected_path(const struct collection *collection)
{
    const struct api_resource *resource = collection_resource(collection->kind);
    char *path = xasprintf("/%s/%s/%s", *resource->group ? "apis" : "api", resource->api_version,
                           resource->plural);
    const char *label = collection_excluding_label(collection->kind);
    const char *field = collections[collection->kind].field_selector;
    if (label) {
        char *without = xasprintf("!%s", label);
        url_add_argument(&path, "labelSelector", without);
        free(without);
    }
    if (field) {
        char *name = xasprintf("%s%s", field, collection->node_name ? collection->node_name : "");
        url_add_argument(&path, "fieldSelector", name);
        free(name);
    }
    return path;
}

char *collection_list_path(const struct collection *collection, const char *version, bool limited,
                           const char *token)
{
    char *path = selected_path(collection);
    if (version)
        url_add_argument(&path, "resourceVersion", version);
    if (limited || token)
        url_add_argument(&path, "limit", PAGE_SIZE);
    if (token)
        url_add_argument(&path, "continue", token);
    return path;
}

char *collection_version_path(const struct collection *collection)
{
    char *path = selected_path(collection);
    url_add_argument(&path, "limit", "1");
    return path;
}

char *collection_watch_path(const struct collection *collection, const char *version,
                            unsigned seconds, bool initial)
{
    char *path = selected_path(collection);
    char *length = xasprintf("%u", seconds);
    url_add_argument(&path, "watch", "true");
    url_add_argument(&path, "allowWatchBookmarks", "true");
    if (initial) {
        url_add_argument(&path, "sendInitialEvents", "true");
        url_add_argument(&path, "resourceVersionMatch", "NotOlderThan");
    }
    if (version)
        url_add_argument(&path, "resourceVersion", version);
    url_add_argument(&path, "timeoutSeconds", length);
    free(length);
    return path;
}

/* ---- encodings ---- */

#define JSON "application/json"
#define PROTOBUF "application/vnd.kubernetes.protobuf"

const char *encoding_name(enum encoding encoding)
{
    return encoding == ENCODING_PROTOBUF ? "protobuf" : "json";
}

/* Whether @text begins with @type, perhaps with parameters. */
static bool is_type(const char *text, const char *type)
{
    size_t length = strlen(type);
    return strncasecmp(text, type, length) == 0 && strchr("; \t,", text[length]);
}

enum encoding encoding_of(const char *content_type)
{
    return content_type && is_type(content_type, PROTOBUF) ? ENCODING_PROTOBUF : ENCODING_JSON;
}

/* Whether the Accept header is valid and contains a supported type. */
static bool can_be_read(const char *accepted)
{
    bool known = false, begins = true;
    for (const char *s = accepted; *s; s++) {
        if (!isprint((unsigned char)*s))
            return false;
        known |= begins && (is_type(s, JSON) || is_type(s, PROTOBUF) || is_type(s, "*/*") ||
                            is_type(s, "application/*"));
        begins = *s == ',' || (begins && *s == ' ');
    }
    return known;
}

char *encoding_accept(const char *preferred, const char *accepted)
{
    if (accepted && can_be_read(accepted))
        return xstrdup(accepted);
    if (accepted && *accepted)
        log_warn("source", "ignoring acceptContentTypes: it has no supported encoding");
    return xstrdup(preferred && is_type(preferred, PROTOBUF) ? PROTOBUF "," JSON : JSON);
}

/* ---- error statuses ---- */

static const char *string_of(const struct json_value *json, const char *key)
{
    const char *text = json_string(json_member(json, key));
    return text ? text : "";
}

/* The number at @key, or @fallback if missing or outside @low to @high. */
static double number_of(const struct json_value *json, const char *key, double low, double high,
                        double fallback)
{
    const struct json_value *number = json_member(json, key);
    if (!json_is(number, JSON_NUMBER) || !(number->number >= low && number->number <= high))
        return fallback;
    return number->number;
}

/* The first line of @text, trimmed. */
static char *first_line(const char *text)
{
    text += strspn(text, " \t\r\n");
    char *line = xstrndup(text, utf8_cut(text, strcspn(text, "\r\n"), MESSAGE_LIMIT));
    text_trim(line);
    return line;
}

static bool has_cause(const struct json_value *details, const char *reason)
{
    const struct json_value *causes = json_member(details, "causes");
    json_each (causes, cause) {
        if (strcmp(string_of(cause, "reason"), reason) == 0)
            return true;
    }
    return false;
}

void api_status_from_json(const struct json_value *json, long code, struct api_status *out)
{
    const struct json_value *details = json_member(json, "details");
    const char *reason = string_of(json, "reason");
    *out = (struct api_status){
        .code = (long)number_of(json, "code", 100, 999, (double)code),
        .message = first_line(string_of(json, "message")),
        .retry_after = number_of(details, "retryAfterSeconds", 0, 1e6, -1),
    };
    out->expired = out->code == 410 || strcmp(reason, "Expired") == 0;
    out->exists = strcmp(reason, "AlreadyExists") == 0;
    out->too_large = out->code == 504 && has_cause(details, "ResourceVersionTooLarge");
}

/* Stops after the first object. */
static int take_status(void *ctx, const struct json_value *json, const struct json_value *list,
                       struct error *err)
{
    struct api_status *status = ctx;
    (void)err;
    if (list || !json_is(json, JSON_OBJECT))
        return 0;
    api_status_from_json(json, status->code, status);
    return -1;
}

void api_status_from_answer(long code, const char *body, size_t length, double retry_after,
                            struct api_status *out)
{
    struct error err = {0};
    bool proto = length >= 4 && memcmp(body, "k8s", 4) == 0;
    struct value_reader *reader = proto ? proto_reader_new(&message_body, length, take_status, out)
                                        : json_reader_new(length, take_status, out);
    *out = (struct api_status){.code = code, .retry_after = -1};
    if (value_reader_feed(reader, body, length, &err) == 0)
        value_reader_finish(reader, &err);
    value_reader_free(reader);
    error_clear(&err);
    if (!out->message)
        out->message = first_line(proto ? "" : body);
    /* The HTTP status takes precedence; a Status that differs is not about this request. */
    out->code = code;
    out->expired |= code == 410;
    if (retry_after >= 0)
        out->retry_after = retry_after;
}

/* RBAC messages name the user and the verb, admission messages the fault of the object. */
bool api_status_lacks_right(const struct api_status *status)
{
    static const char forbidden[] = "is forbidden: ", who[] = "User ";
    if (status->code != 403)
        return false;
    const char *why = strstr(status->message, forbidden);
    if (why)
        return strncmp(why + strlen(forbidden), who, strlen(who)) == 0;
    return !strstr(status->message, "denied the request") &&
           !strstr(status->message, "because it is being terminated");
}

char *api_status_explain(const struct api_status *status, const char *verb,
                         const struct api_resource *resource)
{
    switch (status->code) {
    case 401:
        return xstrdup("the server rejected the token or the client certificate (each try reads "
                       "their files again; what is inside the kubeconfig needs a restart) "
                       "status=401");
    case 403: /* a permission is missing, or authentication failed */
        if (!api_status_lacks_right(status))
            return xstrdup("the server rejected this, but not for a missing permission status=403");
        if (strstr(status->message, "system:anonymous"))
            return xstrdup("the server got no credentials, or did not accept them status=403");
        return xasprintf(
            "the RBAC permission is missing status=403 verb=%s resource=%s apiGroup=\"%s\"", verb,
            resource->plural, resource->group);
    case 404:
        if (strstr(status->message, "\" not found"))
            return xstrdup("the object does not exist status=404");
        return xasprintf("the server does not have this API status=404 apiVersion=%s resource=%s",
                         resource->api_version, resource->plural);
    case 410:
        return xstrdup("the requested resource version is too old for the server status=410");
    case 429:
        return xstrdup("the server is busy status=429");
    default:
        return xasprintf("%s status=%ld",
                         status->too_large ? "the server does not have this resource version yet"
                         : status->code >= 500 ? "the server failed"
                                               : "the server rejected the request",
                         status->code);
    }
}

void api_status_clear(struct api_status *status)
{
    free(status->message);
    *status = (struct api_status){0};
}

/* ---- retries ---- */

double retry_spread(void)
{
    return (double)arc4random() / UINT32_MAX;
}

void backoff_reset(struct backoff *backoff, double now)
{
    *backoff = (struct backoff){.wait = BACKOFF_FIRST, .started = now};
}

double backoff_next(struct backoff *backoff, double now, double spread)
{
    if (now - backoff->started > BACKOFF_START_OVER)
        backoff_reset(backoff, now);
    double wait = backoff->wait * (1 + spread);
    backoff->wait = fmin(backoff->wait * BACKOFF_FACTOR, BACKOFF_MOST);
    return wait;
}

void retry_init(struct retry *retry, const struct api_resource *resource, double now)
{
    *retry = (struct retry){.resource = resource};
    backoff_reset(&retry->backoff, now);
}

bool retry_clear(struct retry *retry)
{
    bool failing = retry->logged != NULL;
    free(retry->logged);
    retry->logged = NULL;
    return failing;
}

void retry_log(struct retry *retry, enum log_level level, char *text, const char *detail)
{
    retry->failed_at = clock_monotonic();
    if (retry->logged && strcmp(retry->logged, text) == 0) {
        log_debug(2, "source", "still: %s", text);
        free(text);
        return;
    }
    if (*detail)
        log_at(level, "source", "%s message=\"%s\"", text, detail);
    else
        log_at(level, "source", "%s", text);
    free(retry->logged);
    retry->logged = text;
}

void retry_log_failed(struct retry *retry, const char *verb, const char *why, const char *detail)
{
    char *text = xasprintf("cannot %s %s: %s", verb, retry->resource->name, why);
    retry_log(retry, LOG_LEVEL_WARN, text, detail);
}

void retry_log_rejected(struct retry *retry, const char *verb, const struct api_status *status)
{
    char *why = api_status_explain(status, verb, retry->resource);
    retry_log_failed(retry, verb, why, status->message);
    free(why);
}

double retry_after_wait(double retry_after)
{
    double wait = fmin(retry_after, RETRY_AFTER_MAX);
    return wait + retry_spread() * fmax(wait / 10, 1);
}

double retry_write_wait(struct retry *retry, const char *verb, const struct api_status *status,
                        double now)
{
    if (status->code == 0)
        log_debug(2, "source", "cannot %s %s: no answer", verb, retry->resource->name);
    else
        retry_log_rejected(retry, verb, status);
    if (status->retry_after > 0)
        return retry_after_wait(status->retry_after);
    if (status->wait > 0)
        return status->wait;
    if (status->starting)
        return server_backoff_short(retry_spread());
    if (status->code != 403)
        return backoff_next(&retry->backoff, now, retry_spread());
    retry->forbidden_wait = fmin(fmax(2 * retry->forbidden_wait, FORBIDDEN_FIRST), FORBIDDEN_MOST);
    return retry->forbidden_wait * (1 + retry_spread() / 10);
}

void retry_write_done(struct retry *retry, double now)
{
    backoff_reset(&retry->backoff, now);
    retry->forbidden_wait = 0;
    if (retry_clear(retry))
        log_info("source", "the server accepts %s again", retry->resource->name);
}
