/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Durations as Go programs write and read them: 300ms, 30s, 1h30m, 24h0m0s, 1.5h, 0. */
#ifndef KUBE_NFTD_BASE_DURATION_H
#define KUBE_NFTD_BASE_DURATION_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Reads numbers, each with a unit (ns, us, ms, s, m, h), behind an optional sign; "0" needs no
 * unit. Returns false and leaves @nanoseconds alone if @text is not that, or too long for the
 * type.
 */
bool duration_parse(const char *text, int64_t *nanoseconds);

/** As Go writes it: "1h30m0s", "1.5s", "300ms". The caller frees it. */
char *duration_format(int64_t nanoseconds);

#endif
