/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When what another program changed may be put right: at once, but if that goes on, ever more
 * seldom, so that two programs cannot keep each other busy. Times are clock_monotonic's. Pure.
 */
#ifndef KUBE_NFTD_REPAIR_PACE_H
#define KUBE_NFTD_REPAIR_PACE_H

#define REPAIR_FIRST_WAIT 0.05
#define REPAIR_LONGEST_WAIT 10.0

/* Starts zeroed. */
struct repair_pace {
    double last; /* repair; 0: none yet */
    double wait; /* after it */
};

/** When the next repair may begin. */
double repair_pace_due(const struct repair_pace *pace);

/** A repair ended at @now and took @seconds. */
void repair_pace_done(struct repair_pace *pace, double now, double seconds);

#endif
