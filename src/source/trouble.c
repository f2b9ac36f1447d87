/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trouble.h"

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
        log_at(level, LOG, "%s message=\"%s\"", text, detail);
    else
        log_at(level, LOG, "%s", text);
    free(trouble->said);
    trouble->said = text;
}

void trouble_say(struct trouble *trouble, const char *verb, const struct collection *collection,
                 const char *what, const char *detail)
{
    char *text = xasprintf("cannot %s %s: %s", verb, collection_resource(collection), what);
    say(trouble, LOG_LEVEL_WARN, text, detail);
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
            xasprintf("the server has no %s of %s, which Kubernetes has since 1.33: traffic to "
                      "unallocated cluster IPs is not dropped",
                      collection_plural(collection), collection_api_version(collection)),
            "");
        return;
    }
    const struct api_resource resource = {collection_plural(collection),
                                          collection_group(collection),
                                          collection_api_version(collection)};
    char *what = api_status_explain(status, verb, &resource);
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
