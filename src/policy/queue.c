/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dirty service ports wait for one stage of work after the other. In a sync the ports of each stage
 * have their turns, within a budget that counts what is really walked and passed on.
 *
 * Whatever is marked is among the first. A Service that has cost more than a small portion of a
 * sync goes on behind the others, for as many syncs as the portions that it had; there the budget
 * is another, and ports take turns until it is used up. So those that cost little do not wait for
 * those that cost much, not even for one of their ports after the other. Nobody has to estimate
 * what they will cost; but a decision of very many endpoints is known to cost much before it is
 * made.
 */
#include "state.h"

/* Of a sync's budget: what a Service may cost among the first; what a turn behind them may. */
#define PORTION_OF_FIRST 64
#define PORTION_OF_TURN 8

size_t *service_spent(const struct policy *policy, struct service_state *state)
{
    if (state->sync != policy->syncs)
        state->spent = 0;
    state->sync = policy->syncs;
    return &state->spent;
}

void policy_spend(struct policy *policy, size_t n, enum cost cost)
{
    policy->spent += n * cost;
}

bool policy_turn_is_over(const struct policy *policy)
{
    return policy->spent >= policy->turn;
}

/* ---- what waits ---- */

static void enlist(struct policy *policy, struct port_state *port, enum level level)
{
    if (!port->work)
        return;
    const int stage = __builtin_ctz(port->work);
    const unsigned bit = 1U << stage & WORK_ALL;
    if (!(port->listed & bit))
        vec_push(&policy->queues[level][stage], port);
    port->listed |= bit & WORK_ALL;
}

void port_mark(struct policy *policy, struct port_state *port, unsigned work)
{
    const unsigned claim = 1U << STAGE_CLAIM, frontends = 1U << STAGE_FRONTENDS;
    if (work & claim || (work & frontends && !(port->work & claim)))
        port->cursor = 0; /* the stage begins anew */
    port->work |= work & WORK_ALL;
    enlist(policy, port, LEVEL_FIRST);
}

void port_mark_whole(struct policy *policy, struct port_state *port)
{
    port->whole = true;
    port_mark(policy, port, 1U << STAGE_ENDPOINTS);
}

bool queue_has(const struct policy *policy, enum stage stage)
{
    return policy->queues[LEVEL_FIRST][stage].n + policy->queues[LEVEL_LATER][stage].n > 0;
}

bool queue_is_empty(const struct policy *policy)
{
    bool any = false;
    for (enum stage stage = 0; stage < STAGES; stage++)
        any = any || queue_has(policy, stage);
    return !any;
}

void queue_clear(struct policy *policy)
{
    for (int level = 0; level < LEVELS; level++)
        for (int stage = 0; stage < STAGES; stage++)
            vec_free(&policy->queues[level][stage]);
}

/* ---- turns ---- */

static size_t portion(size_t budget, size_t of)
{
    return budget / of > COST_BACKEND ? budget / of : COST_BACKEND;
}

/* Slices that are looked at; a Service with more of them is a large one. */
#define MOST_SLICES 64

/* Whether a whole decision looks at so many endpoints that it takes more than @most. */
static bool is_large(const struct policy *policy, const struct port_state *port, size_t most)
{
    const struct endpoint_slice_cache *cache = policy->config.caches->slices;
    const struct endpoint_slice *slice;
    size_t n = 0, i = 0;
    if (!port->whole || port->removed)
        return false;
    for (; i < MOST_SLICES && n < most; i++) {
        slice = endpoint_slice_cache_at(cache, port->owner->service->id, i);
        if (!slice)
            return false;
        n += slice->endpoints.n;
    }
    return true;
}

/* Works on @port, which waits for @stage, for a turn. Returns what that cost. */
static size_t take_turn(struct policy *policy, struct port_state *port, enum level level,
                        enum stage stage, size_t budget, const struct stage_work *work)
{
    struct service_state *service = port->owner;
    size_t *of_service = service_spent(policy, service);
    const size_t most = portion(budget, PORTION_OF_FIRST);
    if (level == LEVEL_FIRST && (*of_service >= most || policy->syncs < service->behind ||
                                 (stage == STAGE_ENDPOINTS && is_large(policy, port, most)))) {
        enlist(policy, port, LEVEL_LATER);
        return 0;
    }
    policy->turn = level == LEVEL_FIRST ? most - *of_service : portion(budget, PORTION_OF_TURN);
    policy->spent = 0;
    port->work &= ~(1U << stage) & WORK_ALL;
    const bool complete = work->work(policy, port);
    if (!complete)
        port->work |= 1U << stage & WORK_ALL;
    *of_service += policy->spent;
    if (*of_service >= most)
        service->behind = policy->syncs + *of_service / most;
    enlist(policy, port, complete ? level : LEVEL_LATER);
    return policy->spent;
}

void queue_run(struct policy *policy, enum level level, enum stage stage, size_t budget,
               const struct stage_work *work)
{
    port_state_vec *ports = &policy->queues[level][stage];
    size_t i = 0, left = budget, before;
    do {
        before = left;
        for (const size_t n = ports->n; i < n && left > 0; i++) {
            struct port_state *port = ports->v[i];
            port->listed &= ~(1U << stage) & WORK_ALL;
            if (port->work && __builtin_ctz(port->work) == (int)stage) {
                const size_t cost = take_turn(policy, port, level, stage, budget, work);
                left -= cost < left ? cost : left;
            }
            if (!port->work && !port->listed)
                work->complete(policy, port);
        }
    } while (left > 0 && left < before && i < ports->n);
    vec_drop_first(ports, i);
}
