/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long to wait: between tries, for more events of a stream. Cases are in
 * cases/pace, in seconds. */
#include "source/pace.h"

#include "script.h"

/* ---- between tries ---- */

static struct backoff backoff;

COMMAND(backoff)
{
    backoff_init(&backoff, atof(words));
}

/* "NOW SPREAD" */
COMMAND(next)
{
    double now = atof(script_word(&words));
    fprintf(out, "%g\n", backoff_next(&backoff, now, atof(words)));
}

/* ---- events ---- */

static struct gathering gathering;
static double now;

COMMAND(gathering)
{
    gathering = (struct gathering){0};
    now = 1000;
}

COMMAND(pass)
{
    now += atof(words);
}

/* "N SECONDS BYTES": so many wake-ups, each so much later than the one before, and how many ended
 * with a wait. That takes its time, and lets the bytes of each moment add up. */
COMMAND(wakes)
{
    int wakes = atoi(script_word(&words)), waits = 0;
    double apart = atof(script_word(&words)), wait = 0;
    for (int i = 0; i < wakes; i++) {
        double passed = wait > apart ? wait : apart;
        now += passed;
        gathering.bytes += (size_t)(passed / apart + 0.5) * (size_t)atoi(words);
        wait = gathering_woken(&gathering, now);
        waits += wait > 0;
    }
    fprintf(out, "%d wait\n", waits);
}

CASES("pace")
