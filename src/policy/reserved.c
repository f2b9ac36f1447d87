/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/reserved.h"

#include "tally.h"

#include <linux/in.h>
#include <string.h>

#define SERVICE "default/kubernetes"

typedef VEC(struct frontend) frontend_vec;

struct reserved {
    const struct endpoint_slice_cache *slices;
    struct tally *tally;
    frontend_vec peers, endpoints; /* as they are counted */
    bool endpoints_changed;
};

struct reserved *reserved_new(const struct endpoint_slice_cache *slices)
{
    struct reserved *reserved = xcalloc(1, sizeof(*reserved));
    reserved->slices = slices;
    reserved->tally = tally_new();
    return reserved;
}

void reserved_free(struct reserved *reserved)
{
    tally_free(reserved->tally);
    vec_free(&reserved->peers);
    vec_free(&reserved->endpoints);
    free(reserved);
}

/* Takes @now. What is in both makes no difference. */
static void replace(struct reserved *reserved, frontend_vec *held, frontend_vec now)
{
    vec_each (&now, it)
        tally_add(reserved->tally, it);
    vec_each (held, it)
        tally_drop(reserved->tally, it);
    vec_free(held);
    *held = now;
}

void reserved_set_peers(struct reserved *reserved, const struct frontend *peers, size_t n)
{
    frontend_vec now = {0};
    for (size_t i = 0; i < n; i++)
        vec_push(&now, peers[i]);
    replace(reserved, &reserved->peers, now);
}

void reserved_slices_changed(struct reserved *reserved, const char *service_id)
{
    if (strcmp(service_id, SERVICE) == 0)
        reserved->endpoints_changed = true;
}

static void add_endpoints(void *ctx, const struct endpoint_slice *slice)
{
    frontend_vec *endpoints = ctx;
    vec_each (&slice->ports, port)
        vec_each (&slice->endpoints, it)
            if (slice->has_family && port->protocol == IPPROTO_TCP)
                vec_push(endpoints, (struct frontend){it->address, port->port, port->protocol,
                                                      (uint8_t)slice->family});
}

/* Those of an API server are a handful, so all of them are looked at. */
void reserved_settle(struct reserved *reserved,
                     void (*changed)(void *ctx, const struct frontend *frontend, bool is_reserved),
                     void *ctx)
{
    if (reserved->endpoints_changed) {
        frontend_vec now = {0};
        endpoint_slice_cache_each(reserved->slices, SERVICE, add_endpoints, &now);
        replace(reserved, &reserved->endpoints, now);
        reserved->endpoints_changed = false;
    }
    tally_settle(reserved->tally, changed, ctx);
}

bool reserved_has(const struct reserved *reserved, const struct frontend *frontend)
{
    return tally_has(reserved->tally, frontend);
}
