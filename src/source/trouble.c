/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/trouble.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"

#include <stdlib.h>
#include <string.h>

#define LOG "reflector"

/* Says @text, which it takes, unless it was said last. */
static void say(struct trouble *trouble, enum log_level level, char *text, const char *detail)
{
    if (trouble->said && strcmp(trouble->said, text) == 0) {
        log_debug(2, LOG, "still: %s", text);
        free(text);
        return;
    }
    if (*detail)
        log_write(level, LOG, "%s message=\"%s\"", text, detail);
    else
        log_write(level, LOG, "%s", text);
    free(trouble->said);
    trouble->said = text;
}

void trouble_say(struct trouble *trouble, const char *verb, const struct collection *collection,
                 const char *what, const char *detail)
{
    char *text = xasprintf("cannot %s %s: %s", verb, collection_resource(collection), what);
    say(trouble, LOG_LEVEL_WARN, text, detail);
}

/* What a role must grant; or nobody knows who we are, which comes as 403 too. */
static char *explain_forbidden(const char *verb, const struct collection *collection,
                               const struct api_status *status)
{
    if (strstr(status->message, "system:anonymous"))
        return xasprintf("the server was shown no credentials, or did not take them status=403");
    return xasprintf(
        "the RBAC permission is missing status=403 verb=%s resource=%s apiGroup=\"%s\"", verb,
        collection_plural(collection), collection_group(collection));
}

static char *explain(const char *verb, const struct collection *collection,
                     const struct api_status *status)
{
    switch (status->code) {
    case 401:
        return xasprintf("the server refused the token or the client certificate (a token file is "
                         "read again at each try) status=401");
    case 403:
        return explain_forbidden(verb, collection, status);
    case 404:
        return xasprintf("the server does not have this API status=404 apiVersion=%s resource=%s",
                         collection_api_version(collection), collection_plural(collection));
    case 410:
        return xasprintf("the version asked for is older than what the server remembers "
                         "status=410");
    case 429:
        return xasprintf("the server is busy status=429");
    default:
        return xasprintf("%s status=%ld",
                         status->too_large     ? "the server does not know this version yet"
                         : status->code >= 500 ? "the server is in trouble"
                                               : "the server refused",
                         status->code);
    }
}

bool trouble_is_harmless(const struct collection *collection, const struct api_status *status)
{
    return collection->kind == KIND_SERVICECIDR && status->code == 404;
}

void trouble_say_refused(struct trouble *trouble, const char *verb,
                         const struct collection *collection, const struct api_status *status)
{
    if (trouble_is_harmless(collection, status)) {
        say(trouble, LOG_LEVEL_INFO,
            xasprintf("the server has no %s of %s, which came with Kubernetes 1.33: cluster IPs in "
                      "no use are not dropped",
                      collection_plural(collection), collection_api_version(collection)),
            "");
        return;
    }
    char *what = explain(verb, collection, status);
    trouble_say(trouble, verb, collection, what, status->message);
    free(what);
}

bool trouble_over(struct trouble *trouble)
{
    bool was = trouble->said != NULL;
    free(trouble->said);
    trouble->said = NULL;
    return was;
}
