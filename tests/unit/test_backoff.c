/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long to wait: between tries, of one request and of all nodes, and for more events of a
 * stream. Cases are in cases/backoff, in seconds. */
#include "source/api_protocol.h"
#include "source/curl_loop.h"
#include "source/server_backoff.h"

#include "script.h"

/* ---- between tries ---- */

static struct backoff backoff;

COMMAND(backoff)
{
    backoff_reset(&backoff, atof(words));
}

/* "NOW SPREAD" */
COMMAND(next)
{
    double now = atof(script_word(&words));
    fprintf(out, "%g\n", backoff_next(&backoff, now, atof(words)));
}

static struct server_backoff server;

/* "NOW SPREAD" */
COMMAND(no_answer)
{
    double now = atof(script_word(&words));
    fprintf(out, "%g\n", server_backoff_no_answer(&server, now, atof(words)));
}

COMMAND(answered)
{
    server_backoff_answered(&server);
}

COMMAND(interrupted)
{
    server_backoff_interrupted(&server, atof(words));
}

COMMAND(is_starting)
{
    fprintf(out, "%s\n", server_backoff_is_starting(&server, atof(words)) ? "yes" : "no");
}

/* ---- a server that comes back to many nodes ---- */

#define NODES 5000
/* A server that listens rejects for so many seconds, until it is ready. */
#define UNREADY 1.2
/* Then a node sends these at once: a check and a watch of each kind. */
#define REQUESTS 8

static struct server_backoff nodes[NODES];

/* @node tries until the server, away from @begin to @end, serves it. Returns when; counts what it
 * sends in each second after @end. */
static double try_until_served(struct server_backoff *node, double begin, double end,
                               unsigned *sent)
{
    double now = begin, ready = end + UNREADY;
    while (now < ready) {
        if (now < end) {
            now += server_backoff_no_answer(node, now, retry_spread());
        } else {
            server_backoff_answered(node);
            sent[(int)(now - end)]++;
            ck_assert(server_backoff_is_starting(node, now));
            now += server_backoff_short(retry_spread());
        }
    }
    server_backoff_answered(node);
    sent[(int)(now - end)] += REQUESTS;
    return now;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* After each outage the nodes are served soon, and the requests do not come all at once. With
 * UNIT_LOG=1 it writes figures. */
COMMAND(outages)
{
    static const double lengths[] = {1, 2, 5, 10, 15, 30, 60, 60, 1};
    static double late[NODES];
    double now = 1000;
    memset(nodes, 0, sizeof(nodes));
    for (int i = 0; i < COUNT(lengths); i++) {
        unsigned sent[100] = {0}, most = 0;
        double end = now + lengths[i];
        for (int n = 0; n < NODES; n++)
            late[n] = try_until_served(&nodes[n], now, end, sent) - end - UNREADY;
        for (int second = 0; second < COUNT(sent); second++)
            most = sent[second] > most ? sent[second] : most;
        qsort(late, NODES, sizeof(*late), compare_doubles);
        if (getenv("UNIT_LOG"))
            printf("outage %g s: median %.2f s, all %.2f s; requests a second: %u %u %u %u %u\n",
                   lengths[i], late[NODES / 2], late[NODES - 1], sent[0], sent[1], sent[2], sent[3],
                   sent[4]);
        ck_assert_double_lt(late[NODES / 2], 2);
        ck_assert_double_lt(late[NODES - 1], 5);
        ck_assert_uint_lt(most, NODES * REQUESTS / 2);
        now = end + 10;
    }
    fflush(stdout);
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

static void forget(void)
{
    server = (struct server_backoff){0};
}

CASES("backoff")

UNIT_FIXTURE(forget, forget)
