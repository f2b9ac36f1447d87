/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the proxy share: proxy.c (what comes, and turns) and proxy_views.c (what others
 * are told). Not for others.
 */
#ifndef KUBE_NFTD_SRC_PROXY_STATE_H
#define KUBE_NFTD_SRC_PROXY_STATE_H

#include "kube-nftd/cache.h"
#include "kube-nftd/policy.h"
#include "kube-nftd/table.h"
#include "proxy.h"

struct proxy {
    struct caches caches;
    struct node_info *node;
    struct policy *policy;
    struct table *tables[FAMILY_COUNT]; /* NULL: the family is not in use */
    struct health *health;
    struct flow_cleaner *flows;
    void (*node_seen)(void *ctx, const struct node *node); /* NULL: nobody wants to know */
    void *node_seen_ctx;
    size_t portion;     /* how much policy hands on in one sync, */
    bool begun;         /* but the first, in which it hands on all that there is */
    bool all_handed_on; /* that was all */
    /* An earlier run may have given them to Services: the client does not get through. */
    VEC(struct frontend) in_the_way;
    char *node_name;
    bool node_name_checked; /* whether any endpoint names this node */
};

#endif
