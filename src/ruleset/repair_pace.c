/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "repair_pace.h"

#include <math.h>

/* Repairs take no more than one part in so many of the time. */
#define SHARE 10

/* A wait that passed so many times over without a repair was the end of it. */
#define CALM 10

double repair_pace_due(const struct repair_pace *pace)
{
    return pace->last + pace->wait;
}

void repair_pace_done(struct repair_pace *pace, double now, double seconds)
{
    if (now - pace->last > CALM * fmax(pace->wait, REPAIR_FIRST_WAIT))
        pace->wait = 0;
    pace->wait = fmax(REPAIR_FIRST_WAIT, fmin(2 * pace->wait, REPAIR_LONGEST_WAIT));
    pace->wait = fmax(pace->wait, SHARE * seconds);
    pace->last = now;
}
