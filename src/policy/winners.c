/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which claim to a frontend wins. The losers are logged and reported as events on their Services,
 * and the conflict is counted. The same goes for external and load-balancer addresses that claim a
 * frontend of the API server: a Service that took it would cut off this node, and with it the way
 * to repair that Service.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

/* Only the best claims of a frontend are logged if they lose, and only so many conflicts a sync:
 * Services may claim millions of frontends that they do not get. */
#define CLAIMS_LOGGED 8 /* the winner included */
#define LOGGED_A_SYNC 100

static const struct service *service_of(const struct claim *claim)
{
    return claim->port->owner->service;
}

const struct claim *frontend_winner(const struct frontend_state *target)
{
    return target->winner && !target->winner->port->removed ? target->winner : NULL;
}

/* Takes @note. Nodes with the same objects report the same event, so one report is enough, except
 * for node ports, which each node has at its own address. */
static void report_claim(const struct policy *policy, const struct claim *claim, unsigned kinds,
                         enum event_type type, const char *reason, char *note)
{
    const struct service *service = service_of(claim);
    const struct object_event event = {.kind = KIND_SERVICE,
                                       .id = service->id,
                                       .uid = service->uid,
                                       .type = type,
                                       .reason = reason,
                                       .action = "AssignFrontend",
                                       .note = note,
                                       .everywhere = !(kinds & CLAIM_NODE_PORT)};
    event_report(policy->config.events, &event);
    free(note);
}

/* Whether one more conflict is logged in this sync. */
static bool may_log(struct policy *policy)
{
    const bool may = policy->logged < LOGGED_A_SYNC;
    policy->logged += may;
    policy->unlogged += !may;
    return may;
}

void claims_log_rest(struct policy *policy)
{
    if (policy->unlogged)
        log_warn("policy", "conflicts=%zu of frontends changed, too many to log them",
                 policy->unlogged);
    policy->logged = policy->unlogged = 0;
}

/* @winner takes the frontend over from another claim. */
static void log_taken_over(struct policy *policy, const struct claim *winner)
{
    char text[FRONTEND_TEXT_SIZE];
    if (!may_log(policy))
        return;
    frontend_format(&winner->target->frontend, text);
    log_info("policy", "frontend=%s now belongs to service=%s", text, service_of(winner)->id);
    report_claim(policy, winner, winner->kinds, EVENT_NORMAL, "FrontendTakenOver",
                 xasprintf("%s now belongs to this Service", text));
}

/* Logs that @claim loses to @winner, or to the API server (NULL). */
static void log_loser(const struct policy *policy, const struct claim *claim,
                      const struct claim *winner)
{
    static const char reserved[] = "is not programmed: the API server uses that address and port";
    char text[FRONTEND_TEXT_SIZE];
    const char *loser = service_of(claim)->id;
    frontend_format(&claim->target->frontend, text);
    if (!winner) {
        log_warn("policy", "frontend=%s of service=%s %s", text, loser, reserved);
        report_claim(policy, claim, claim->kinds, EVENT_WARNING, "FrontendReserved",
                     xasprintf("%s %s", text, reserved));
        return;
    }
    const char *other = service_of(winner)->id, *why = claims_reason(winner, claim);
    log_warn("policy", "frontend=%s of service=%s goes to service=%s, which %s", text, loser, other,
             why);
    report_claim(policy, claim, claim->kinds | winner->kinds, EVENT_WARNING, "FrontendClaimedTwice",
                 xasprintf("%s goes to Service %s, which %s", text, other, why));
}

static int compare_frontends(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct frontend));
}

static bool is_reserved(const struct policy *policy, const struct frontend *frontend)
{
    for (int i = 0; i < RESERVED_LISTS; i++) {
        const frontend_vec *list = &policy->reserved[i];
        if (list->n && bsearch(frontend, list->v, list->n, sizeof(*list->v), compare_frontends))
            return true;
    }
    return false;
}

/* Has the frontend decided anew, for the sake of a port that does not drop its claim to it. */
static void mark_target(struct policy *policy, const struct frontend_state *target)
{
    for (size_t i = 0; i < target->n_claims; i++) {
        struct port_state *port = frontend_claims(target)[i]->port;
        if (port->removed)
            continue;
        port_mark(policy, port, 1U << STAGE_FRONTENDS);
        return;
    }
}

void claims_reserve(struct policy *policy, enum reserved_list which, frontend_vec frontends)
{
    frontend_vec before = policy->reserved[which];
    const frontend_vec *both[] = {&before, &frontends};
    vec_sort(&frontends, compare_frontends);
    policy->reserved[which] = frontends;
    for (int i = 0; i < 2; i++) {
        vec_each (both[i], frontend) {
            struct frontend_state *target = claims_find(policy, frontend);
            if (target && target->reserved != is_reserved(policy, frontend))
                mark_target(policy, target);
        }
    }
    vec_free(&before);
}

/* The best claims of a frontend: the only ones whose losing is logged. */
static size_t n_best(const struct frontend_state *target)
{
    return target->n_claims < CLAIMS_LOGGED ? target->n_claims : CLAIMS_LOGGED;
}

static void log_losers(struct policy *policy, const struct frontend_state *target,
                       const struct claim *winner)
{
    for (size_t i = 0; i < n_best(target); i++) {
        struct claim *claim = frontend_claims(target)[i];
        if (claim->logged || claim == winner || !claim->kinds || claim->port->removed)
            continue;
        claim->logged = true;
        if (may_log(policy))
            log_loser(policy, claim, winner);
    }
}

/* The best claim that counts. */
static const struct claim *find_first(struct policy *policy, const struct frontend_state *target)
{
    struct claim *const *claims = frontend_claims(target);
    size_t i = 0;
    while (i < target->n_claims && claims[i]->port->removed)
        i++;
    policy_spend(policy, i, COST_WALKED);
    return i < target->n_claims && claims[i]->kinds ? claims[i] : NULL;
}

const struct claim *claims_decide(struct policy *policy, struct frontend_state *target)
{
    const struct claim *first = find_first(policy, target);
    const bool reserved = first && !(first->kinds & (CLAIM_CLUSTER_IP | CLAIM_NODE_PORT)) &&
                          is_reserved(policy, &target->frontend);
    const struct claim *winner = reserved ? NULL : first;
    if (winner && winner->logged)
        log_taken_over(policy, winner);
    if (target->winner != winner || target->reserved != reserved)
        for (size_t i = 0; i < n_best(target); i++)
            frontend_claims(target)[i]->logged = false;
    target->current = target->current && target->winner == winner;
    policy->withheld += reserved;
    policy->withheld -= target->reserved;
    target->winner = winner;
    target->reserved = reserved;
    log_losers(policy, target, winner);
    return winner;
}
