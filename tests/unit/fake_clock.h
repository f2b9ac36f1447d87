/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Time that the test makes, in place of src/base/clock.c. */
#ifndef KUBE_NFTD_TESTS_FAKE_CLOCK_H
#define KUBE_NFTD_TESTS_FAKE_CLOCK_H

/* What clock_monotonic() and clock_realtime() return, 1000 at first; and how much later it is each
 * time, for work that takes some. */
extern double now, clock_step;

#endif
