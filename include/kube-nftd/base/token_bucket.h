/* SPDX-License-Identifier: GPL-2.0-or-later */
/* So much at once, and so much a second. No clock of its own: times are seconds that never go back.
 */
#ifndef KUBE_NFTD_BASE_TOKEN_BUCKET_H
#define KUBE_NFTD_BASE_TOKEN_BUCKET_H

#include <stdbool.h>

struct token_bucket {
    double rate;  /* tokens a second; 0 or less: there is no limit */
    double burst; /* the most that it holds */
    double tokens;
    double at; /* when it held that many */
};

/** A full one, at time @now. A @burst below 1 is taken for 1. */
void token_bucket_init(struct token_bucket *bucket, double rate, double burst, double now);

/** How many seconds after @now there is a token; 0: there is one. */
double token_bucket_wait(struct token_bucket *bucket, double now);

/** Takes a token. False if there is none. */
bool token_bucket_take(struct token_bucket *bucket, double now);

#endif
