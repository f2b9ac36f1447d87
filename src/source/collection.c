/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_SIZE "500"

static const struct {
    struct api_resource resource;
    const char *path;
    const char *label_selector;
    const char *field_selector; /* a name to select by goes behind it */
} collections[KIND_COUNT] = {
    [KIND_SERVICE] = {{"services", "services", "", "v1"},
                      "/api/v1/services",
                      "!service.kubernetes.io/service-proxy-name",
                      "spec.clusterIP!=None"},
    [KIND_ENDPOINTSLICE] = {{"endpointslices.discovery.k8s.io", "endpointslices",
                             "discovery.k8s.io", "discovery.k8s.io/v1"},
                            "/apis/discovery.k8s.io/v1/endpointslices",
                            "!service.kubernetes.io/headless",
                            NULL},
    [KIND_SERVICECIDR] = {{"servicecidrs.networking.k8s.io", "servicecidrs", "networking.k8s.io",
                           "networking.k8s.io/v1"},
                          "/apis/networking.k8s.io/v1/servicecidrs",
                          NULL,
                          NULL},
    [KIND_NODE] = {{"nodes", "nodes", "", "v1"}, "/api/v1/nodes", NULL, "metadata.name="},
};

const struct api_resource *collection_resource(enum object_kind kind)
{
    return &collections[kind].resource;
}

/* Puts another parameter behind @path. */
static void add(char **path, const char *key, const char *value)
{
    char *escaped = url_escape(value);
    char *longer = xasprintf("%s%c%s=%s", *path, strchr(*path, '?') ? '&' : '?', key, escaped);
    free(escaped);
    free(*path);
    *path = longer;
}

static char *selected_path(const struct collection *collection)
{
    char *path = xstrdup(collections[collection->kind].path);
    const char *label = collections[collection->kind].label_selector;
    const char *field = collections[collection->kind].field_selector;
    if (label)
        add(&path, "labelSelector", label);
    if (field) {
        char *name = xasprintf("%s%s", field, collection->node_name ? collection->node_name : "");
        add(&path, "fieldSelector", name);
        free(name);
    }
    return path;
}

char *collection_list_path(const struct collection *collection, const char *version, bool limited,
                           const char *token)
{
    char *path = selected_path(collection);
    if (version)
        add(&path, "resourceVersion", version);
    if (limited || token)
        add(&path, "limit", PAGE_SIZE);
    if (token)
        add(&path, "continue", token);
    return path;
}

char *collection_watch_path(const struct collection *collection, const char *version,
                            unsigned seconds, bool initial)
{
    char *path = selected_path(collection);
    char *length = xasprintf("%u", seconds);
    add(&path, "watch", "true");
    add(&path, "allowWatchBookmarks", "true");
    if (initial) {
        add(&path, "sendInitialEvents", "true");
        add(&path, "resourceVersionMatch", "NotOlderThan");
    }
    if (version)
        add(&path, "resourceVersion", version);
    add(&path, "timeoutSeconds", length);
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

/* Whether one of the types of an Accept header can be read, and the header is one. */
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
        log_warn("config", "ignoring acceptContentTypes: it has no supported encoding");
    return xstrdup(preferred && is_type(preferred, PROTOBUF) ? PROTOBUF "," JSON : JSON);
}
