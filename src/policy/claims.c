/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy.h"

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <string.h>

struct claims {
    struct hash_table targets;
    VEC(struct frontend_state *) noted[CLAIMS_QUEUES];
    size_t conflicts, reserved_claimed;
    const struct reserved *reserved;
    const struct event_sink *events; /* NULL: nobody wants them */
};

struct claims *claims_new(const struct reserved *reserved)
{
    struct claims *claims = xcalloc(1, sizeof(*claims));
    claims->reserved = reserved;
    return claims;
}

void claims_set_events(struct claims *claims, const struct event_sink *events)
{
    claims->events = events;
}

size_t claims_conflicts(const struct claims *claims)
{
    return claims->conflicts;
}

size_t claims_reserved(const struct claims *claims)
{
    return claims->reserved_claimed;
}

void claims_note(struct claims *claims, struct frontend_state *target, enum claims_queue queue)
{
    target->noted = true;
    if (target->queued & 1U << queue)
        return;
    target->queued |= 1U << queue;
    vec_push(&claims->noted[queue], target);
}

/* ---- coming and going ---- */

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct frontend_state *)link)->frontend);
}

static struct frontend_state *find(const struct claims *claims, const struct frontend *frontend)
{
    return hash_table_find(&claims->targets, key_of, hash_key_of_frontend(frontend));
}

static struct frontend_state *find_or_add(struct claims *claims, const struct frontend *frontend)
{
    struct frontend_state *target = find(claims, frontend);
    if (target)
        return target;
    target = xcalloc(1, sizeof(*target));
    target->frontend = *frontend;
    hash_table_add(&claims->targets, key_of, &target->link);
    return target;
}

const struct frontend_state *claims_find(const struct claims *claims,
                                         const struct frontend *frontend)
{
    struct frontend_state *target = find(claims, frontend);
    return target && target->claims ? target : NULL;
}

void claims_note_frontend(struct claims *claims, const struct frontend *frontend)
{
    struct frontend_state *target = find(claims, frontend);
    if (target)
        claims_note(claims, target, CLAIMS_FEW);
}

/* It is in both chains, of which mostly one is short: a port may have very many addresses, and very
 * many ports may name the same one. */
static struct claim *claim_of_port(const struct port_state *port,
                                   const struct frontend_state *target)
{
    struct claim *of_port = port->claims, *of_target = target->claims;
    for (; of_port && of_target;
         of_port = of_port->next_of_port, of_target = of_target->next_of_target) {
        if (of_port->target == target)
            return of_port;
        if (of_target->port == port)
            return of_target;
    }
    return NULL;
}

void claims_begin(struct port_state *port)
{
    for (struct claim *claim = port->claims; claim; claim = claim->next_of_port)
        claim->renewed = 0;
}

void claims_add(struct claims *claims, struct port_state *port, const struct frontend *frontend,
                enum claim_kind kind)
{
    struct frontend_state *target = find_or_add(claims, frontend);
    struct claim *claim = claim_of_port(port, target);
    if (!claim) {
        claim = xcalloc(1, sizeof(*claim));
        *claim = (struct claim){.port = port,
                                .target = target,
                                .next_of_port = port->claims,
                                .next_of_target = target->claims};
        port->claims = target->claims = claim;
        claims->conflicts += ++target->n_claims == 2;
    }
    claim->renewed |= (uint8_t)kind;
}

static void drop(struct claims *claims, struct claim *claim, enum claims_queue queue)
{
    struct frontend_state *target = claim->target;
    struct claim **at = &target->claims;
    while (*at != claim)
        at = &(*at)->next_of_target;
    *at = claim->next_of_target;
    claims->conflicts -= --target->n_claims == 1;
    if (target->winner == claim->port)
        target->winner = NULL;
    claims_note(claims, target, queue);
    free(claim);
}

void claims_end(struct claims *claims, struct port_state *port, enum claims_queue queue)
{
    for (struct claim **at = &port->claims; *at;) {
        struct claim *claim = *at;
        if (claim->renewed) {
            if (port->whole ? claim->target->n_claims > 1 : claim->kinds != claim->renewed)
                claims_note(claims, claim->target, queue); /* its rank may be another */
            claim->kinds = claim->renewed;
            at = &claim->next_of_port;
            continue;
        }
        *at = claim->next_of_port;
        drop(claims, claim, queue);
    }
}

/* ---- who has it ---- */

static const struct service *service_of(const struct claim *claim)
{
    return claim->port->owner->service;
}

/* What a Service was given goes before what it, or its cloud, only names: else one tenant could
 * take over another's cluster IP. */
enum claim_rank { RANK_CLUSTER_IP, RANK_NODE_PORT, RANK_NAMED };

static enum claim_rank rank_of(const struct claim *claim)
{
    if (claim->kinds & CLAIM_CLUSTER_IP)
        return RANK_CLUSTER_IP;
    return claim->kinds & CLAIM_NODE_PORT ? RANK_NODE_PORT : RANK_NAMED;
}

/* Below zero if @a goes before @b. @why, if not NULL, is what can be said of the one before. */
static int compare_claims(const struct claim *a, const struct claim *b, const char **why)
{
    const struct service *p = service_of(a), *q = service_of(b);
    static const char *const ranks[] = {[RANK_CLUSTER_IP] = "has it as its cluster IP",
                                        [RANK_NODE_PORT] = "has it as its node port"};
    enum claim_rank rank = rank_of(a), other = rank_of(b);
    const char *unused;
    why = why ? why : &unused;
    if (rank != other) {
        *why = ranks[rank < other ? rank : other];
        return rank < other ? -1 : 1;
    }
    *why = "has endpoints";
    if (a->port->has_any != b->port->has_any)
        return a->port->has_any ? -1 : 1;
    *why = "is older";
    if (p->created != q->created)
        return p->created < q->created ? -1 : 1;
    *why = "sorts first by name";
    if (p != q)
        return strcmp(p->id, q->id);
    *why = "has it for an earlier port";
    return a->port->index < b->port->index ? -1 : 1;
}

const char *claims_reason(const struct claim *winner, const struct claim *loser)
{
    const char *why;
    compare_claims(winner, loser, &why);
    return why;
}

/* All nodes that know the same objects decide the same; where one of @kinds is a node port, each at
 * its own address. */
static void report(const struct claims *claims, const struct claim *claim, unsigned kinds,
                   enum event_type type, const char *reason, const char *note)
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
    event_report(claims->events, &event);
}

static void report_loser(const struct claims *claims, const struct claim *loser,
                         const struct claim *winner)
{
    char text[FRONTEND_TEXT_SIZE];
    if (!claims->events)
        return;
    char *note = xasprintf("%s goes to Service %s, which %s",
                           frontend_format(&loser->target->frontend, text), service_of(winner)->id,
                           claims_reason(winner, loser));
    report(claims, loser, loser->kinds | winner->kinds, EVENT_WARNING, "FrontendClaimedTwice",
           note);
    free(note);
}

/* The one that was left out up to now has the frontend. */
static void say_taken_over(const struct claims *claims, const struct claim *winner)
{
    const struct frontend *frontend = &winner->target->frontend;
    char text[FRONTEND_TEXT_SIZE];
    log_info("policy", "frontend=%s now belongs to service=%s", frontend_format(frontend, text),
             service_of(winner)->id);
    if (!claims->events)
        return;
    char *note = xasprintf("%s now belongs to this Service", frontend_format(frontend, text));
    report(claims, winner, winner->kinds, EVENT_NORMAL, "FrontendTakenOver", note);
    free(note);
}

static void say_losers(const struct claims *claims, const struct frontend_state *target,
                       const struct claim *winner)
{
    char text[FRONTEND_TEXT_SIZE];
    for (struct claim *claim = target->claims; claim; claim = claim->next_of_target) {
        if (claim->said || claim == winner || !claim->kinds)
            continue;
        claim->said = true;
        log_warn("policy", "frontend=%s of service=%s goes to service=%s, which %s",
                 frontend_format(&target->frontend, text), service_of(claim)->id,
                 service_of(winner)->id, claims_reason(winner, claim));
        report_loser(claims, claim, winner);
    }
}

static void say_reserved(const struct claims *claims, const struct frontend_state *target)
{
    char text[FRONTEND_TEXT_SIZE];
    for (struct claim *claim = target->claims; claim; claim = claim->next_of_target) {
        if (claim->said || !claim->kinds)
            continue;
        claim->said = true;
        log_warn(
            "policy",
            "frontend=%s of service=%s is not programmed: the API server uses that address and "
            "port",
            frontend_format(&target->frontend, text), service_of(claim)->id);
        if (!claims->events)
            continue;
        char *note = xasprintf("%s is not programmed: the API server uses that address and port",
                               frontend_format(&target->frontend, text));
        report(claims, claim, claim->kinds, EVENT_WARNING, "FrontendReserved", note);
        free(note);
    }
}

static const struct claim *first_of(const struct frontend_state *target)
{
    const struct claim *first = NULL;
    for (const struct claim *claim = target->claims; claim; claim = claim->next_of_target)
        if (claim->kinds && (!first || compare_claims(claim, first, NULL) < 0))
            first = claim;
    return first;
}

/* What was said holds no longer if somebody else has it now. */
static void set_winner(struct claims *claims, struct frontend_state *target,
                       const struct claim *winner, bool reserved)
{
    const struct port_state *port = winner ? winner->port : NULL;
    if (target->winner != port || target->reserved != reserved)
        for (struct claim *claim = target->claims; claim; claim = claim->next_of_target)
            claim->said = false;
    claims->reserved_claimed += reserved;
    claims->reserved_claimed -= target->reserved;
    target->winner = port;
    target->reserved = reserved;
}

const struct claim *claims_decide(struct claims *claims, struct frontend_state *target)
{
    const struct claim *first = first_of(target);
    bool reserved =
        first && rank_of(first) == RANK_NAMED && reserved_has(claims->reserved, &target->frontend);
    const struct claim *winner = reserved ? NULL : first;
    if (winner && winner->said)
        say_taken_over(claims, winner);
    set_winner(claims, target, winner, reserved);
    if (reserved)
        say_reserved(claims, target);
    else
        say_losers(claims, target, winner);
    return winner;
}

static void forget(struct claims *claims, struct frontend_state *target)
{
    hash_table_remove(&claims->targets, &target->link);
    free(target);
}

bool claims_settle(struct claims *claims, enum claims_queue queue,
                   void (*decide)(void *ctx, struct frontend_state *target), void *ctx,
                   const size_t *left)
{
    size_t n = claims->noted[queue].n, i = 0;
    for (; i<n && * left> 0; i++) {
        struct frontend_state *target = claims->noted[queue].v[i];
        target->queued &= ~(1U << queue);
        if (target->noted)
            decide(ctx, target);
        target->noted = false;
        if (!target->claims && !target->queued)
            forget(claims, target);
    }
    vec_drop_first(&claims->noted[queue], i);
    return claims->noted[queue].n == 0;
}

/* ---- the end ---- */

void claims_free(struct claims *claims)
{
    hash_table_each (&claims->targets, struct frontend_state, target) {
        struct claim *claim, *next;
        for (claim = target->claims; claim; claim = next) {
            next = claim->next_of_target;
            free(claim);
        }
        forget(claims, target);
    }
    for (int queue = 0; queue < CLAIMS_QUEUES; queue++)
        vec_free(&claims->noted[queue]);
    free(claims);
}
