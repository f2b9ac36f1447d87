/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reflector_server.h"

enum encoding encoding;

static void put_event(bytes *out, const cJSON *event, cJSON *object)
{
    bytes body = {0};
    if (!cJSON_GetObjectItem(object, "kind")) {
        cJSON_AddStringToObject(object, "kind", "Service");
        cJSON_AddStringToObject(object, "apiVersion", "v1");
    }
    put_body(&body, object);
    put_frame(out, text_of(event, "type"), &body);
}

bytes encoded(const char *text)
{
    bytes out = {0};
    while (encoding == ENCODING_PROTOBUF && *text == '{') {
        const char *end;
        cJSON *json = cJSON_ParseWithOpts(text, &end, false);
        if (!json)
            break;
        cJSON *object = cJSON_GetObjectItem(json, "object");
        if (object)
            put_event(&out, json, object);
        else
            put_body(&out, json);
        cJSON_Delete(json);
        text = end + strspn(end, "\n");
    }
    put(&out, text, strlen(text));
    return out;
}

static void write_service(FILE *out, const char *kind, const char *name, const char *version)
{
    bool bad = *name == '?';
    fprintf(out,
            "{%s'metadata':{'name':'%s','namespace':'shop','resourceVersion':'%s'},"
            "'spec':{'clusterIP':'10.96.0.9','clusterIPs':['10.96.0.9'],'type':'ClusterIP',"
            "'ports':[{'protocol':'TCP','port':%s,'targetPort':8080}]}}",
            kind, name + bad, version, bad ? "70000" : "80");
}

static void write_list(FILE *out, char *words)
{
    char *version = script_word(&words), *token = strchr(version, ','), *name;
    fprintf(out,
            "{'kind':'ServiceList','apiVersion':'v1','metadata':{'resourceVersion':'%.*s'"
            "%s%s%s},'items':[",
            (int)strcspn(version, ","), version, token ? ",'continue':'" : "",
            token ? token + 1 : "", token ? "'" : "");
    for (const char *comma = ""; *(name = script_word(&words)); comma = ",") {
        fputs(comma, out);
        write_service(out, "", name, "5");
    }
    fputs("]}\n", out);
}

static void write_status(FILE *out, char *words)
{
    const char *code = script_word(&words), *reason = script_word(&words);
    fprintf(out,
            "{'kind':'Status','apiVersion':'v1','metadata':{},'status':'Failure',"
            "'message':'%s said','reason':'%s','details':{",
            reason, reason);
    if (strcmp(words, "too-large") == 0)
        fputs("'causes':[{'reason':'ResourceVersionTooLarge','message':'x'}]", out);
    else if (*words)
        fprintf(out, "'retryAfterSeconds':%s", strchr(words, '=') + 1);
    fprintf(out, "},'code':%s}", code);
}

static void write_bookmark(FILE *out, const char *type, const char *words)
{
    fputs("{'type':'BOOKMARK','object':{'kind':'Service','apiVersion':'v1','metadata':{", out);
    fprintf(out, *type == 'M' ? "%s" : "'resourceVersion':'%s'", words);
    if (*type == 'E')
        fputs(",'annotations':{'k8s.io/initial-events-end':'true'}", out);
    fputs(",'creationTimestamp':null},'spec':{},'status':{'loadBalancer':{}}}}\n", out);
}

/* With 9,000 digits for "LONG". */
static void write_raw(FILE *out, const char *text)
{
    const char *at = strstr(text, "LONG");
    if (at)
        fprintf(out, "%.*s%09000d%s", (int)(at - text), text, 1, at + 4);
    else
        fputs(text, out);
}

static void write_one(FILE *out, char *words)
{
    if (*words < 'A' || *words > 'Z') {
        write_raw(out, words);
        return;
    }
    const char *type = script_word(&words);
    bool error = strcmp(type, "ERROR") == 0;
    if (strcmp(type, "LIST") == 0) {
        write_list(out, words);
    } else if (strcmp(type, "STATUS") == 0) {
        write_status(out, words);
    } else if (strcmp(type, "END") == 0 || strcmp(type, "BOOKMARK") == 0 ||
               strcmp(type, "MARK") == 0) {
        write_bookmark(out, type, words);
    } else {
        fprintf(out, "{'type':'%s','object':", type);
        const char *name = error ? "" : script_word(&words);
        if (error)
            write_status(out, words);
        else
            write_service(out, "'kind':'Service','apiVersion':'v1',", name, words);
        fputs("}\n", out);
    }
}

bytes sent_bytes(char *words)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    while (words && *words) {
        char *next = strstr(words, "; ");
        if (next)
            *next = '\0';
        write_one(out, words);
        words = next ? next + 2 : NULL;
    }
    fputs(script_text(), out);
    fclose(out);
    for (char *quote = text; (quote = strchr(quote, '\''));)
        *quote = '"';
    script_bytes(text);
    bytes all = encoded(text);
    all.v[all.n] = '\0';
    free(text);
    return all;
}

bool more_needed; /* for the last bytes to be of use */

void send_bytes(const char *data, size_t length)
{
    ck_assert_ptr_nonnull(request);
    int result = request->ops.data(request->ctx, data, length);
    more_needed = result > 0;
    if (result < 0)
        end_answer(200, -1, "stopped", "", 0);
}
