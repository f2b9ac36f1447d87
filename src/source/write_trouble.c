/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "write_trouble.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Nobody may ask us to wait longer. */
#define RETRY_AFTER_MAX 300.0
/* A role is changed by people, not by time. */
#define FORBIDDEN_FIRST 30.0
#define FORBIDDEN_MOST 300.0

void write_trouble_init(struct write_trouble *trouble, const char *subsystem,
                        const struct api_resource *resource, double now)
{
    *trouble = (struct write_trouble){.subsystem = subsystem, .resource = *resource};
    backoff_init(&trouble->backoff, now);
}

void write_trouble_clear(struct write_trouble *trouble)
{
    free(trouble->said);
    trouble->said = NULL;
}

static void say(struct write_trouble *trouble, const char *verb, const struct api_status *status)
{
    char *why = api_status_explain(status, verb, &trouble->resource);
    char *text = xasprintf("cannot %s %s: %s", verb, trouble->resource.plural, why);
    free(why);
    if (trouble->said && strcmp(trouble->said, text) == 0) {
        log_debug(2, trouble->subsystem, "still: %s", text);
        free(text);
        return;
    }
    log_warn(trouble->subsystem, "%s message=\"%s\"", text, status->message);
    free(trouble->said);
    trouble->said = text;
}

/* A number from 0 to 1. */
static double spread(void)
{
    return (double)arc4random() / UINT32_MAX;
}

double write_trouble_wait(struct write_trouble *trouble, const char *verb,
                          const struct api_status *status, double now)
{
    if (status->code == 0)
        log_debug(2, trouble->subsystem, "cannot %s %s: no answer", verb, trouble->resource.plural);
    else
        say(trouble, verb, status);
    if (status->retry_after > 0) {
        double wait = fmin(status->retry_after, RETRY_AFTER_MAX);
        return wait + spread() * fmax(wait / 10, 1);
    }
    if (status->code != 403)
        return backoff_next(&trouble->backoff, now, spread());
    trouble->forbidden_wait =
        fmin(fmax(2 * trouble->forbidden_wait, FORBIDDEN_FIRST), FORBIDDEN_MOST);
    return trouble->forbidden_wait * (1 + spread() / 10);
}

void write_trouble_refused(struct write_trouble *trouble, const char *verb,
                           const struct api_status *status)
{
    say(trouble, verb, status);
}

void write_trouble_over(struct write_trouble *trouble, double now)
{
    backoff_init(&trouble->backoff, now);
    trouble->forbidden_wait = 0;
    if (!trouble->said)
        return;
    log_info(trouble->subsystem, "the server accepts %s again", trouble->resource.plural);
    write_trouble_clear(trouble);
}

void write_status(const struct api_result *result, const char *body, struct api_status *out)
{
    api_status_from_body(result->status, body, result->length, out);
    if (result->retry_after >= 0)
        out->retry_after = result->retry_after;
}

bool write_concerns_all(const struct api_status *status)
{
    switch (status->code) {
    case 0: /* no answer */
    case 401:
    case 429:
    case 502:
    case 503:
    case 504:
        return true;
    default:
        return api_status_lacks_right(status);
    }
}

bool write_may_go_well_later(long code)
{
    return code == 0 || code == 401 || code == 403 || code == 429 || code >= 500;
}
