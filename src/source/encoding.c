/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/encoding.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

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
