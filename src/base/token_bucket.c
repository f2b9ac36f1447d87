/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/token_bucket.h"

#include <math.h>

/* What sums of fractions may lack of a whole token. */
#define SLACK 1e-9

void token_bucket_init(struct token_bucket *bucket, double rate, double burst, double now)
{
    *bucket = (struct token_bucket){rate, fmax(burst, 1), fmax(burst, 1), now};
}

double token_bucket_wait(struct token_bucket *bucket, double now)
{
    if (bucket->rate <= 0)
        return 0;
    bucket->tokens = fmin(bucket->tokens + (now - bucket->at) * bucket->rate, bucket->burst);
    bucket->at = now;
    return bucket->tokens >= 1 - SLACK ? 0 : (1 - bucket->tokens) / bucket->rate;
}

bool token_bucket_take(struct token_bucket *bucket, double now)
{
    if (token_bucket_wait(bucket, now) > 0)
        return false;
    bucket->tokens -= 1;
    return true;
}
