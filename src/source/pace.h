/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When to do what again. Requests that fail and are tried again: logs why when that changes, not at
 * each try, and says how long to wait before the next one. Bytes that are waited for.
 */
#ifndef KUBE_NFTD_SOURCE_PACE_H
#define KUBE_NFTD_SOURCE_PACE_H

#include "api_protocol.h"
#include "kube-nftd/base.h"

#include <stdbool.h>
#include <stddef.h>

/* Nobody may ask us to wait for more seconds. */
#define RETRY_AFTER_MAX 300.0

/* The waits of docs/behaviour.md 10.5. No clock of its own. */
struct backoff {
    double base;  /* the next wait, before it is spread */
    double start; /* when it last started over */
};

/** Starts over at time @now. */
void backoff_init(struct backoff *backoff, double now);

/**
 * The seconds to wait after a failure at time @now: 0.8, twice as much each time up to 30, each
 * multiplied by 1 + @spread (random, 0 to 1, so that clients do not come back in step). Starts
 * over when more than two minutes have passed since it last did.
 */
double backoff_next(struct backoff *backoff, double now, double spread);

/** A number from 0 to 1. */
double retry_spread(void);

struct retry {
    const char *subsystem;               /* of log lines; static */
    const struct api_resource *resource; /* borrowed */
    struct backoff backoff;
    double forbidden_wait; /* the last one, in seconds; 0: none */
    char *logged;          /* the last error, owned; NULL while all is well */
};

/** All is well, at time @now (clock_monotonic). Strings are borrowed for good. */
void retry_init(struct retry *retry, const char *subsystem, const struct api_resource *resource,
                double now);

/** Forgets the error. Returns whether there was one. */
bool retry_clear(struct retry *retry);

/** Takes @text and logs it, unless it was logged last. @detail is logged too and may differ from
 * try to try; "" for none. */
void retry_log(struct retry *retry, enum log_level level, char *text, const char *detail);

/** Warns that we cannot @verb ("list") the resource. */
void retry_log_failed(struct retry *retry, const char *verb, const char *why, const char *detail);

/** The same, for a request that the server answered with @status: what to do about it. */
void retry_log_refused(struct retry *retry, const char *verb, const struct api_status *status);

/** The seconds to wait where the server asks for @retry_after. */
double retry_after_wait(double retry_after);

/**
 * A write that is worth another try has failed with @status (code 0: no answer came, which those
 * who read from the server log), when asked to @verb ("create"). Returns the seconds to wait at
 * time @now: what the server asks for; or those of the back-off; or for a missing permission 30,
 * doubled up to 300; with jitter.
 */
double retry_write_wait(struct retry *retry, const char *verb, const struct api_status *status,
                        double now);

/** A write succeeded. Logs that if the last one did not. */
void retry_write_done(struct retry *retry, double now);

/*
 * Whether the daemon waits a moment for more bytes before it reads again. The API server flushes
 * each event by itself: where thousands come in a second, most of the CPU time would go into waking
 * up for one of them. What comes alone is never waited for. No clock of its own.
 */

/* All zero at the beginning. */
struct gathering {
    double since;   /* when the wake-ups were counted from */
    unsigned wakes; /* since then */
    size_t bytes;   /* since the last wake-up */
    bool on;        /* they come in a stream */
    bool waited;    /* before the last wake-up */
};

/** Bytes came at time @now, g->bytes of them, and were read. Returns the seconds to wait before the
 * next look, 0 for none. */
double gathering_woken(struct gathering *g, double now);

#endif
