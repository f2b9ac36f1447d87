/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy.h"

#include <linux/in.h>
#include <string.h>

#define SERVICE "default/kubernetes"

/* A reserved frontend, or one that was until the next reserved_settle(). */
struct reservation {
    struct hash_link link; /* by frontend */
    struct frontend frontend;
    uint32_t users; /* peers and endpoints */
    bool told;      /* as reserved */
};

typedef VEC(struct frontend) frontend_vec;

struct reserved {
    const struct endpoint_slice_cache *slices;
    struct hash_table reservations;
    frontend_vec peers, endpoints; /* as they are counted */
    bool endpoints_changed;
};

struct reserved *reserved_new(const struct endpoint_slice_cache *slices)
{
    struct reserved *reserved = xcalloc(1, sizeof(*reserved));
    reserved->slices = slices;
    return reserved;
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct reservation *)link)->frontend);
}

static struct reservation *find(const struct reserved *reserved, const struct frontend *frontend)
{
    return hash_table_find(&reserved->reservations, key_of, hash_key_of_frontend(frontend));
}

static void forget(struct reserved *reserved, struct reservation *reservation)
{
    hash_table_remove(&reserved->reservations, &reservation->link);
    free(reservation);
}

void reserved_free(struct reserved *reserved)
{
    hash_table_each (&reserved->reservations, struct reservation, it)
        forget(reserved, it);
    vec_free(&reserved->peers);
    vec_free(&reserved->endpoints);
    free(reserved);
}

static void add_user(struct reserved *reserved, const struct frontend *frontend)
{
    struct reservation *it = find(reserved, frontend);
    if (!it) {
        it = xcalloc(1, sizeof(*it));
        it->frontend = *frontend;
        hash_table_add(&reserved->reservations, key_of, &it->link);
    }
    it->users++;
}

/* Takes @now. What is in both makes no difference. */
static void replace(struct reserved *reserved, frontend_vec *held, frontend_vec now)
{
    vec_each (&now, it)
        add_user(reserved, it);
    vec_each (held, it)
        find(reserved, it)->users--;
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

static void add_endpoints(frontend_vec *endpoints, const struct endpoint_slice *slice)
{
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
        const struct endpoint_slice *slice;
        for (size_t i = 0; (slice = endpoint_slice_cache_at(reserved->slices, SERVICE, i)); i++)
            add_endpoints(&now, slice);
        replace(reserved, &reserved->endpoints, now);
        reserved->endpoints_changed = false;
    }
    hash_table_each (&reserved->reservations, struct reservation, it) {
        if (it->told != (it->users > 0))
            changed(ctx, &it->frontend, it->users > 0);
        it->told = it->users > 0;
        if (!it->told)
            forget(reserved, it);
    }
}

bool reserved_has(const struct reserved *reserved, const struct frontend *frontend)
{
    const struct reservation *it = find(reserved, frontend);
    return it && it->users > 0;
}
