/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The endpoints of service ports, and which one a new connection goes to. */
#include "state.h"

#include <sys/random.h>

static struct hash_key target_port_key(const struct hash_link *link)
{
    return (struct hash_key){&((const struct target *)link)->id, sizeof(uint32_t)};
}

struct target *target_find(const struct targets *targets, uint32_t id)
{
    return hash_table_find(&targets->by_id, target_port_key, (struct hash_key){&id, sizeof(id)});
}

struct target *target_get(struct targets *targets, uint32_t id)
{
    struct target *target = target_find(targets, id);
    if (target)
        return target;
    target = xcalloc(1, sizeof(*target));
    target->id = id;
    hash_table_add(&targets->by_id, target_port_key, &target->link);
    return target;
}

void target_free(struct targets *targets, struct target *target)
{
    hash_table_remove(&targets->by_id, &target->link);
    vec_free(&target->backends);
    free(target);
}

/* ---- changes ---- */

static bool contains(const backend_vec *backends, const struct backend *backend)
{
    vec_each (backends, it)
        if (backend_equal(it, backend))
            return true;
    return false;
}

void target_set(struct target *target, backend_vec backends, uint32_t affinity_timeout)
{
    vec_free(&target->backends);
    target->backends = backends;
    target->pinned = target->pinned && target->affinity_timeout == affinity_timeout &&
                     contains(&backends, &target->pin);
    target->affinity_timeout = affinity_timeout;
}

/* One pass over the endpoints, however many changes there are. */
void target_change(struct target *target, const backend_change_vec *changes)
{
    backend_vec *backends = &target->backends;
    size_t left = 0;
    vec_each (backends, it)
        if (!bsearch(it, changes->v, changes->n, sizeof(*changes->v), backend_compare))
            backends->v[left++] = *it;
    backends->n = left;
    vec_each (changes, change) {
        if (change->after)
            vec_push(backends, change->backend);
        else if (target->pinned && backend_equal(&target->pin, &change->backend))
            target->pinned = false;
    }
}

/* ---- choosing ---- */

/* xorshift64: the choice need not be hard to guess. */
static uint64_t next_random(struct targets *targets)
{
    uint64_t x = targets->random;
    while (x == 0)
        if (getrandom(&x, sizeof(x), 0) < 0)
            x = clock_nanoseconds();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return targets->random = x;
}

bool target_pick(struct targets *targets, struct target *target, const struct backend *failed,
                 double now, struct backend *out)
{
    const size_t n = target->backends.n;
    if (n == 0 || (failed && n == 1 && backend_equal(&target->backends.v[0], failed)))
        return false;
    const bool fresh = target->pinned && now - target->pinned_at <= target->affinity_timeout;
    if (fresh && !failed) {
        *out = target->pin;
    } else {
        size_t i = (size_t)(next_random(targets) % n);
        if (failed && n > 1 && backend_equal(&target->backends.v[i], failed))
            i = (i + 1 + (size_t)(next_random(targets) % (n - 1))) % n;
        *out = target->backends.v[i];
    }
    target->pinned = target->affinity_timeout > 0;
    target->pin = *out;
    target->pinned_at = now;
    return true;
}
