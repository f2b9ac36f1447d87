/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Time, in seconds as double. */
#ifndef KUBE_NFTD_BASE_CLOCK_H
#define KUBE_NFTD_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Room for 2026-11-21T18:14:44.123Z and its NUL. */
#define CLOCK_RFC3339_SIZE 40

/** Seconds since some fixed point; never goes back. */
double clock_monotonic(void);

/** Seconds of CPU that this thread has had. */
double clock_cpu(void);

/** Seconds since 1970-01-01 UTC. */
double clock_realtime(void);

/** Nanoseconds since 1970-01-01 UTC, all of them exact. */
uint64_t clock_nanoseconds(void);

/** The earlier of two times, of which 0 is never. */
double clock_earlier(double a, double b);

/** Writes @realtime (seconds since 1970) as RFC 3339 in UTC with milliseconds into @out. */
void clock_rfc3339(double realtime, char out[CLOCK_RFC3339_SIZE]);

/** The same with microseconds, of which there are always six digits: what the API calls a
 * MicroTime. */
void clock_micro_time(double realtime, char out[CLOCK_RFC3339_SIZE]);

/** The same in whole seconds. False, with nothing written, for a year that RFC 3339 does not have.
 */
bool clock_rfc3339_seconds(double realtime, char out[CLOCK_RFC3339_SIZE]);

/** Reads a time of RFC 3339, fractions of seconds allowed, as seconds since 1970. False, with
 * @realtime left alone, if @text is none. */
bool clock_parse_rfc3339(const char *text, double *realtime);

/** The same of a time without a fraction. */
bool clock_parse_seconds(const char *text, int64_t *realtime);

#endif
