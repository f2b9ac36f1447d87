/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api_status.h"

#include "body_reader.h"
#include "kube-nftd/base.h"

#include <stdlib.h>
#include <string.h>

/* What of a message goes into a log line. */
#define MESSAGE_LIMIT 500

static const char *string_of(const struct json_value *json, const char *key)
{
    const char *text = json_string(json_member(json, key));
    return text ? text : "";
}

/* The number under @key, or @fallback where there is none in @low to @high. */
static double number_of(const struct json_value *json, const char *key, double low, double high,
                        double fallback)
{
    const struct json_value *number = json_member(json, key);
    if (!json_is(number, JSON_NUMBER) || !(number->number >= low && number->number <= high))
        return fallback;
    return number->number;
}

/* The first line of @text without blanks around it, cut where a character begins. */
static char *first_line(const char *text)
{
    text += strspn(text, " \t\r\n");
    size_t length = strcspn(text, "\r\n");
    if (length > MESSAGE_LIMIT) {
        length = MESSAGE_LIMIT;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
            length--;
    }
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    return xstrndup(text, length);
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

static void read_status(const struct json_value *json, long code, struct api_status *out)
{
    const struct json_value *details = json_member(json, "details");
    const char *reason = string_of(json, "reason");
    const char *message = string_of(json, "message");
    *out = (struct api_status){
        .code = (long)number_of(json, "code", 100, 999, (double)code),
        .message = first_line(message),
        .retry_after = number_of(details, "retryAfterSeconds", 0, 1e6, -1),
    };
    /* "Gone" is what servers before 1.9 say. */
    out->expired =
        out->code == 410 || strcmp(reason, "Expired") == 0 || strcmp(reason, "Gone") == 0;
    out->exists = strcmp(reason, "AlreadyExists") == 0;
    /* Servers before 1.16 give no cause, just the message. */
    out->too_large = out->code == 504 && (has_cause(details, "ResourceVersionTooLarge") ||
                                          strstr(message, "Too large resource version"));
}

void api_status_from_json(const struct json_value *json, struct api_status *out)
{
    read_status(json, 0, out);
}

struct body_reading {
    long code;
    struct api_status *out;
    bool is_status;
};

/* Of what is behind the first object, nothing is read. */
static bool take_body(void *ctx, const struct json_value *json, bool is_item)
{
    struct body_reading *reading = ctx;
    reading->is_status = !is_item && json_is(json, JSON_OBJECT);
    if (reading->is_status)
        read_status(json, reading->code, reading->out);
    return !reading->is_status;
}

void api_status_from_body(long code, const char *body, size_t length, struct api_status *out)
{
    struct body_reading reading = {.code = code, .out = out};
    struct body_reader reader = {0};
    struct error err = {0};
    bool proto = length >= 4 && memcmp(body, "k8s", 4) == 0;
    body_reader_begin(&reader, proto ? ENCODING_PROTOBUF : ENCODING_JSON, false, length, take_body,
                      &reading);
    if (body_reader_feed(&reader, body, length, &err) == 0)
        body_reader_finish(&reader, &err);
    body_reader_clear(&reader);
    error_clear(&err);
    if (!reading.is_status) {
        read_status(NULL, code, out);
        free(out->message);
        out->message = first_line(proto ? "" : body);
    }
    /* What counts is what HTTP said; a Status that differs is not about this request. */
    out->code = code;
    out->expired |= code == 410;
}

void api_status_from_result(const struct api_result *result, const char *body,
                            struct api_status *out)
{
    api_status_from_body(result->status, body, result->length, out);
    if (result->retry_after >= 0)
        out->retry_after = result->retry_after;
}

/* RBAC says who may not do what, admission what is wrong with the object. */
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

/* What a role must grant; or nobody knows who we are, which comes as 403 too. */
static char *explain_forbidden(const struct api_status *status, const char *verb,
                               const struct api_resource *resource)
{
    if (!api_status_lacks_right(status))
        return xasprintf("the server refused, but not for a missing permission status=403");
    if (strstr(status->message, "system:anonymous"))
        return xasprintf("the server got no credentials, or did not accept them status=403");
    return xasprintf(
        "the RBAC permission is missing status=403 verb=%s resource=%s apiGroup=\"%s\"", verb,
        resource->plural, resource->group);
}

char *api_status_explain(const struct api_status *status, const char *verb,
                         const struct api_resource *resource)
{
    switch (status->code) {
    case 401:
        return xasprintf("the server rejected the token or the client certificate (each try reads "
                         "the token file again) status=401");
    case 403:
        return explain_forbidden(status, verb, resource);
    case 404:
        if (strstr(status->message, "\" not found"))
            return xasprintf("the object does not exist status=404");
        return xasprintf("the server does not have this API status=404 apiVersion=%s resource=%s",
                         resource->api_version, resource->plural);
    case 410:
        return xasprintf("the requested resource version is too old for the server "
                         "status=410");
    case 429:
        return xasprintf("the server is busy status=429");
    default:
        return xasprintf("%s status=%ld",
                         status->too_large ? "the server does not have this resource version yet"
                         : status->code >= 500 ? "the server failed"
                                               : "the server refused",
                         status->code);
    }
}

void api_status_clear(struct api_status *status)
{
    free(status->message);
    *status = (struct api_status){0};
}
