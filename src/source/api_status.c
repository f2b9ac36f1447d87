/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/api_status.h"

#include "kube-nftd/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* What of a message goes into a log line. */
#define MESSAGE_LIMIT 500

static const char *string_of(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    return text ? text : "";
}

/* The number under @key, or @fallback where there is none in @low to @high. */
static double number_of(const cJSON *json, const char *key, double low, double high,
                        double fallback)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!cJSON_IsNumber(number) || !(number->valuedouble >= low && number->valuedouble <= high))
        return fallback;
    return number->valuedouble;
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

static bool has_cause(const cJSON *details, const char *reason)
{
    const cJSON *cause;
    cJSON_ArrayForEach (cause, cJSON_GetObjectItemCaseSensitive(details, "causes")) {
        if (strcmp(string_of(cause, "reason"), reason) == 0)
            return true;
    }
    return false;
}

static void read_status(const cJSON *json, long code, struct api_status *out)
{
    const cJSON *details = cJSON_GetObjectItemCaseSensitive(json, "details");
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
    /* Servers before 1.16 give no cause, just the message. */
    out->too_large = out->code == 504 && (has_cause(details, "ResourceVersionTooLarge") ||
                                          strstr(message, "Too large resource version"));
}

void api_status_from_json(const cJSON *json, struct api_status *out)
{
    read_status(json, 0, out);
}

void api_status_from_body(long code, const char *body, struct api_status *out)
{
    cJSON *json = cJSON_Parse(body);
    read_status(json, code, out);
    /* What counts is what HTTP said; a Status that differs is not about this request. */
    out->code = code;
    out->expired |= code == 410;
    if (!cJSON_IsObject(json)) {
        free(out->message);
        out->message = first_line(body);
    }
    cJSON_Delete(json);
}

void api_status_clear(struct api_status *status)
{
    free(status->message);
    *status = (struct api_status){0};
}
