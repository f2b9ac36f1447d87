/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pacing. For requests that are retried: how long to wait, and logging of errors when they change
 * rather than at each try. For reads: when to wait for more bytes.
 */
#ifndef KUBE_NFTD_SOURCE_PACE_H
#define KUBE_NFTD_SOURCE_PACE_H

#include "api_protocol.h"
#include "kube-nftd/base.h"

#include <stdbool.h>
#include <stddef.h>

/* Upper limit in seconds for waits requested by a server. */
#define RETRY_AFTER_MAX 300.0

/* The back-off of docs/behaviour.md 10.5. Reads no clock. */
struct backoff {
    double base;  /* the next wait, without jitter */
    double start; /* when it last started over */
};

/** Starts over at time @now. */
void backoff_init(struct backoff *backoff, double now);

/**
 * The seconds to wait after a failure at time @now: 0.8, doubled each time up to 30, multiplied by
 * 1 + @spread (random, 0 to 1, so that clients do not retry in step). Starts over more than two
 * minutes after it last did.
 */
double backoff_next(struct backoff *backoff, double now, double spread);

/** A random number from 0 to 1. */
double retry_spread(void);

struct retry {
    const char *subsystem;               /* of log lines; static */
    const struct api_resource *resource; /* borrowed */
    struct backoff backoff;
    double forbidden_wait; /* the last one, in seconds; 0: none */
    char *logged;          /* the last error, owned; NULL: none */
};

/** Starts without an error at time @now (clock_monotonic). Borrows the strings for good. */
void retry_init(struct retry *retry, const char *subsystem, const struct api_resource *resource,
                double now);

/** Clears the error. Returns whether one was set. */
bool retry_clear(struct retry *retry);

/** Takes @text and logs it unless it equals the last one logged. @detail is logged too and may vary
 * between tries; "" for none. */
void retry_log(struct retry *retry, enum log_level level, char *text, const char *detail);

/** Warns that we cannot @verb ("list") the resource. */
void retry_log_failed(struct retry *retry, const char *verb, const char *why, const char *detail);

/** The same, explained by the @status that the server answered. */
void retry_log_refused(struct retry *retry, const char *verb, const struct api_status *status);

/** The seconds to wait when the server requests @retry_after, with jitter. */
double retry_after_wait(double retry_after);

/**
 * A write (@verb "create", say) failed with @status and is worth a retry. Code 0 means no answer,
 * which the reflectors log. Returns the seconds to wait at time @now: what the server requested;
 * else 30, doubled up to 300, for a missing permission; else the back-off; with jitter.
 */
double retry_write_wait(struct retry *retry, const char *verb, const struct api_status *status,
                        double now);

/** A write succeeded. Logs that if the last one failed. */
void retry_write_done(struct retry *retry, double now);

/*
 * Whether to wait a moment for more bytes before the next read. The API server flushes each event
 * by itself: during a streamed list, thousands per second, most CPU time would go into waking up
 * for single events. Nothing can be done with them before the last one arrives. Everything else is
 * read at once: changes are applied as they come.
 */

/* Starts zeroed. */
struct gathering {
    size_t contents, others; /* bytes since the last wake-up: of incomplete contents, of the rest */
    unsigned wakes;          /* in a row that brought only contents */
};

/** A wake-up has read its bytes. Returns the seconds to wait before the next read, 0 for none. */
double gathering_woken(struct gathering *gathering);

#endif
