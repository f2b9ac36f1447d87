/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/claims.h"

#include "kube-nftd/base/log.h"
#include "kube-nftd/model/object.h"

#include <string.h>

struct claims {
    struct hash_table targets;
    VEC(struct frontend_state *) noted;
    size_t conflicts;
    const struct event_sink *events; /* NULL: nobody wants them */
};

struct claims *claims_new(void)
{
    return xcalloc(1, sizeof(struct claims));
}

void claims_set_events(struct claims *claims, const struct event_sink *events)
{
    claims->events = events;
}

size_t claims_conflicts(const struct claims *claims)
{
    return claims->conflicts;
}

void claims_note(struct claims *claims, struct frontend_state *target)
{
    if (target->noted)
        return;
    target->noted = true;
    vec_push(&claims->noted, target);
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

static struct claim *claim_of_port(const struct port_state *port,
                                   const struct frontend_state *target)
{
    struct claim *claim = port->claims;
    while (claim && claim->target != target)
        claim = claim->next_of_port;
    return claim;
}

void claims_begin(struct port_state *port)
{
    for (struct claim *claim = port->claims; claim; claim = claim->next_of_port)
        claim->kinds = 0;
}

void claims_add(struct claims *claims, struct port_state *port, const struct frontend *frontend,
                enum claim_kind kind)
{
    struct frontend_state *target = find_or_add(claims, frontend);
    struct claim *claim = claim_of_port(port, target);
    if (!claim) {
        claim = xcalloc(1, sizeof(*claim));
        *claim = (struct claim){port, target, port->claims, target->claims, 0, false};
        port->claims = target->claims = claim;
        claims->conflicts += ++target->n_claims == 2;
    }
    claim->kinds |= (uint8_t)kind;
}

static void drop(struct claims *claims, struct claim *claim)
{
    struct frontend_state *target = claim->target;
    struct claim **at = &target->claims;
    while (*at != claim)
        at = &(*at)->next_of_target;
    *at = claim->next_of_target;
    claims->conflicts -= --target->n_claims == 1;
    if (target->winner == claim->port)
        target->winner = NULL;
    claims_note(claims, target);
    free(claim);
}

void claims_end(struct claims *claims, struct port_state *port)
{
    for (struct claim **at = &port->claims; *at;) {
        struct claim *claim = *at;
        if (claim->kinds) {
            if (claim->target->n_claims > 1)
                claims_note(claims, claim->target); /* its rank may be another */
            at = &claim->next_of_port;
            continue;
        }
        *at = claim->next_of_port;
        drop(claims, claim);
    }
}

/* ---- who has it ---- */

static const struct service *service_of(const struct claim *claim)
{
    return claim->port->owner->service;
}

/* Below zero if @a goes before @b. @why, if not NULL, is what can be said of the one before. */
static int compare_claims(const struct claim *a, const struct claim *b, const char **why)
{
    const struct service *p = service_of(a), *q = service_of(b);
    const char *unused;
    why = why ? why : &unused;
    *why = "has endpoints";
    if (a->port->has_any != b->port->has_any)
        return a->port->has_any ? -1 : 1;
    *why = "is older";
    if (p->created != q->created)
        return p->created < q->created ? -1 : 1;
    *why = "is first by name";
    if (p != q)
        return strcmp(p->id, q->id);
    *why = "has it for a port before";
    return a->port->index < b->port->index ? -1 : 1;
}

const char *claims_reason(const struct claim *winner, const struct claim *loser)
{
    const char *why;
    compare_claims(winner, loser, &why);
    return why;
}

/* All nodes that know the same objects decide the same; of node ports each at its own address. */
static void report(const struct claims *claims, const struct claim *claim, enum event_type type,
                   const char *reason, const char *note)
{
    const struct service *service = service_of(claim);
    const struct object_event event = {.kind = KIND_SERVICE,
                                       .id = service->id,
                                       .uid = service->uid,
                                       .type = type,
                                       .reason = reason,
                                       .action = "AssignFrontend",
                                       .note = note,
                                       .everywhere = !(claim->kinds & CLAIM_NODE_PORT)};
    event_report(claims->events, &event);
}

static void report_loser(const struct claims *claims, const struct claim *loser,
                         const struct claim *winner)
{
    char text[FRONTEND_TEXT_SIZE];
    if (!claims->events)
        return;
    char *note = xasprintf("%s is left to Service %s, which %s",
                           frontend_format(&loser->target->frontend, text), service_of(winner)->id,
                           claims_reason(winner, loser));
    report(claims, loser, EVENT_WARNING, "FrontendClaimedTwice", note);
    free(note);
}

/* The one that was left out up to now has the frontend. */
static void say_taken_over(const struct claims *claims, const struct claim *winner)
{
    char text[FRONTEND_TEXT_SIZE];
    frontend_format(&winner->target->frontend, text);
    log_info("policy", "frontend=%s is now that of service=%s", text, service_of(winner)->id);
    if (!claims->events)
        return;
    char *note = xasprintf("%s is now that of this Service", text);
    report(claims, winner, EVENT_NORMAL, "FrontendTakenOver", note);
    free(note);
}

static void say_losers(const struct claims *claims, const struct frontend_state *target,
                       const struct claim *winner)
{
    char text[FRONTEND_TEXT_SIZE];
    for (struct claim *claim = target->claims; claim; claim = claim->next_of_target) {
        if (claim->said || claim == winner)
            continue;
        claim->said = true;
        log_warn("policy", "frontend=%s of service=%s is left to service=%s, which %s",
                 frontend_format(&target->frontend, text), service_of(claim)->id,
                 service_of(winner)->id, claims_reason(winner, claim));
        report_loser(claims, claim, winner);
    }
}

const struct claim *claims_decide(const struct claims *claims, struct frontend_state *target)
{
    const struct claim *winner = target->claims;
    for (struct claim *claim = target->claims; claim; claim = claim->next_of_target)
        if (claim != winner && compare_claims(claim, winner, NULL) < 0)
            winner = claim;
    if (!winner)
        return NULL;
    if (winner->said)
        say_taken_over(claims, winner);
    if (target->winner != winner->port)
        for (struct claim *claim = target->claims; claim; claim = claim->next_of_target)
            claim->said = false;
    target->winner = winner->port;
    say_losers(claims, target, winner);
    return winner;
}

static void forget(struct claims *claims, struct frontend_state *target)
{
    hash_table_remove(&claims->targets, &target->link);
    free(target);
}

void claims_settle(struct claims *claims, void (*decide)(void *ctx, struct frontend_state *target),
                   void *ctx)
{
    vec_each (&claims->noted, it) {
        struct frontend_state *target = *it;
        if (target->noted)
            decide(ctx, target);
        target->noted = false;
        if (!target->claims)
            forget(claims, target);
    }
    vec_clear_few(&claims->noted);
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
    vec_free(&claims->noted);
    free(claims);
}
