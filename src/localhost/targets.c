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

/* A change and its place among all. */
struct placed {
    struct backend_change change;
    size_t place;
};

static int compare_placed(const void *a, const void *b)
{
    const struct placed *p = a, *q = b;
    const int order = backend_compare(&p->change.backend, &q->change.backend);
    return order ? order : (p->place > q->place) - (p->place < q->place);
}

static int compare_backends(const void *a, const void *b)
{
    return backend_compare(&((const struct placed *)a)->change.backend,
                           &((const struct placed *)b)->change.backend);
}

/* Sorts the changes and keeps the last one of each backend. Returns their number. */
static size_t reduce(struct placed *changes, size_t n)
{
    size_t kept = 0;
    qsort(changes, n, sizeof(*changes), compare_placed);
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || compare_backends(&changes[i], &changes[i + 1]) != 0)
            changes[kept++] = changes[i];
    return kept;
}

/* One pass over the endpoints, however many changes there are. */
void target_change(struct target *target, const struct backend_change *changes, size_t n)
{
    struct placed *placed = xcalloc(n, sizeof(*placed));
    backend_vec *backends = &target->backends;
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        placed[i] = (struct placed){changes[i], i};
    n = reduce(placed, n);
    vec_each (backends, it) {
        const struct placed key = {.change.backend = *it};
        if (!bsearch(&key, placed, n, sizeof(*placed), compare_backends))
            backends->v[left++] = *it;
    }
    backends->n = left;
    for (size_t i = 0; i < n; i++) {
        if (placed[i].change.comes)
            vec_push(backends, placed[i].change.backend);
        else if (target->pinned && backend_equal(&target->pin, &placed[i].change.backend))
            target->pinned = false;
    }
    free(placed);
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
