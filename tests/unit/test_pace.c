/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long to wait: between tries, for more events of a stream. Cases are in
 * cases/pace, in seconds. */
#include "source/api_connection.h"
#include "source/api_protocol.h"

#include "script.h"

/* ---- between tries ---- */

static struct retry retry;

COMMAND(backoff)
{
    retry_init(&retry, "test", NULL, atof(words));
}

/* "NOW SPREAD" */
COMMAND(next)
{
    double now = atof(script_word(&words));
    fprintf(out, "%g\n", retry_backoff(&retry, now, atof(words)));
}

/* ---- events ---- */

static struct gathering gathering;

COMMAND(gathering)
{
    gathering = (struct gathering){0};
}

/* "N CONTENTS OTHERS": so many wake-ups, each with so many bytes, and how many of them end with a
 * wait. */
COMMAND(wakes)
{
    int wakes = atoi(script_word(&words)), waits = 0;
    size_t contents = (size_t)atoi(script_word(&words)), others = (size_t)atoi(words);
    for (int i = 0; i < wakes; i++) {
        gathering.contents = contents;
        gathering.others = others;
        waits += gathering_woken(&gathering) > 0;
    }
    fprintf(out, "%d wait\n", waits);
}

CASES("pace")
