/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/trouble.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"

#include <stdlib.h>
#include <string.h>

void trouble_say(struct trouble *trouble, const char *verb, const char *resource, const char *what,
                 const char *detail)
{
    char *text = xasprintf("cannot %s %s: %s", verb, resource, what);
    if (trouble->said && strcmp(trouble->said, text) == 0) {
        log_debug(2, "reflector", "still: %s", text);
        free(text);
        return;
    }
    if (*detail)
        log_warn("reflector", "%s message=\"%s\"", text, detail);
    else
        log_warn("reflector", "%s", text);
    free(trouble->said);
    trouble->said = text;
}

static const char *explain(long code)
{
    switch (code) {
    case 401:
        return "the server refused the token or the client certificate";
    case 403:
        return "the RBAC permission is missing";
    case 404:
        return "the server does not have this API";
    case 429:
        return "the server is busy";
    default:
        return code >= 500 ? "the server is in trouble" : "the server refused";
    }
}

void trouble_say_refused(struct trouble *trouble, const char *verb, const char *resource,
                         const struct api_status *status)
{
    char *what;
    if (status->code == 403)
        what = xasprintf("%s status=403 verb=%s resource=%s", explain(403), verb, resource);
    else
        what = xasprintf("%s status=%ld", explain(status->code), status->code);
    trouble_say(trouble, verb, resource, what, status->message);
    free(what);
}

bool trouble_over(struct trouble *trouble)
{
    bool was = trouble->said != NULL;
    free(trouble->said);
    trouble->said = NULL;
    return was;
}
