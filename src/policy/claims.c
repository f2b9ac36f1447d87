/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Assigns frontends to the service ports that claim them. If several ports claim one frontend, the
 * losers are logged and reported as events on their Services, and the conflict is counted. The same
 * goes for external and load-balancer addresses that claim a frontend of the API server: a Service
 * that took it would cut off this node, and with it the way to repair that Service.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

/* The number of frontends that cost as much to claim as one backend to pass on and program. */
#define CLAIMS_A_BACKEND 8

void claims_mark(struct policy *policy, struct frontend_state *target, enum queue queue)
{
    target->dirty = true;
    if (target->queued & 1U << queue)
        return;
    target->queued |= 1U << queue;
    vec_push(&policy->dirty[queue].frontends, target);
}

/* ---- adding and dropping claims ---- */

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct frontend_state *)link)->frontend);
}

static struct frontend_state *find(const struct policy *policy, const struct frontend *frontend)
{
    return hash_table_find(&policy->frontends, key_of, hash_key_of_frontend(frontend));
}

const struct frontend_state *policy_find_frontend(const struct policy *policy,
                                                  const struct frontend *frontend)
{
    struct frontend_state *target = find(policy, frontend);
    return target && target->claims ? target : NULL;
}

/* Walks both chains at once, as usually one is short: a port may have very many addresses, or very
 * many ports may claim the same one. */
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

static void begin(struct port_state *port)
{
    for (struct claim *claim = port->claims; claim; claim = claim->next_of_port)
        claim->renewed = 0;
}

static void add(struct policy *policy, struct port_state *port, const struct frontend *frontend,
                enum claim_kind kind)
{
    struct frontend_state *target = find(policy, frontend);
    if (!target) {
        target = xcalloc(1, sizeof(*target));
        target->frontend = *frontend;
        hash_table_add(&policy->frontends, key_of, &target->link);
    }
    struct claim *claim = claim_of_port(port, target);
    if (!claim) {
        claim = xcalloc(1, sizeof(*claim));
        *claim = (struct claim){.port = port,
                                .target = target,
                                .next_of_port = port->claims,
                                .next_of_target = target->claims};
        port->claims = target->claims = claim;
        policy->conflicts += ++target->n_claims == 2;
    }
    claim->renewed |= (uint8_t)kind;
}

/* The @i-th frontend that @port claims; false past the last one. */
static bool nth_claim(const struct port_state *port, const address_vec *node_ports, size_t i,
                      struct frontend *frontend, enum claim_kind *kind)
{
    const struct service *service = port->owner->service;
    const struct service_port *spec = port_state_spec(port);
    const struct outside *outside = service_outside(service);
    const address_vec *external = &outside->external_ips[port->family],
                      *balancer = &outside->load_balancer_ips[port->family];
    const struct {
        const struct address *v;
        size_t n;
        uint16_t number;
        enum claim_kind kind;
    } lists[] = {
        {&service->cluster_ip[port->family], 1, spec->port, CLAIM_CLUSTER_IP},
        {external->v, external->n, spec->port, CLAIM_EXTERNAL_IP},
        {balancer->v, balancer->n, spec->port, CLAIM_LOAD_BALANCER_IP},
        {node_ports->v, spec->node_port ? node_ports->n : 0, spec->node_port, CLAIM_NODE_PORT}};
    for (size_t list = 0; list < sizeof(lists) / sizeof(*lists); i -= lists[list++].n) {
        if (i >= lists[list].n)
            continue;
        *frontend =
            (struct frontend){lists[list].v[i], lists[list].number, port->protocol, port->family};
        *kind = lists[list].kind;
        return true;
    }
    return false;
}

static void drop(struct policy *policy, struct claim *claim, enum queue queue)
{
    struct frontend_state *target = claim->target;
    struct claim **at = &target->claims;
    while (*at != claim)
        at = &(*at)->next_of_target;
    *at = claim->next_of_target;
    policy->conflicts -= --target->n_claims == 1;
    if (target->winner == claim->port)
        target->winner = NULL;
    claims_mark(policy, target, queue);
    free(claim);
}

static void end(struct policy *policy, struct port_state *port, enum queue queue)
{
    for (struct claim **at = &port->claims; *at;) {
        struct claim *claim = *at;
        if (claim->renewed) {
            if (port->whole ? claim->target->n_claims > 1 : claim->kinds != claim->renewed)
                claims_mark(policy, claim->target, queue); /* its rank may have changed */
            claim->kinds = claim->renewed;
            at = &claim->next_of_port;
            continue;
        }
        *at = claim->next_of_port;
        drop(policy, claim, queue);
    }
}

void claims_renew(struct policy *policy, struct port_state *port)
{
    const address_vec *node_ports = &policy->node_port_addresses[port->family];
    struct frontend frontend;
    enum claim_kind kind;
    if (port->renewed == 0)
        begin(port);
    while (nth_claim(port, node_ports, port->renewed, &frontend, &kind)) {
        if (policy->left == 0)
            return;
        add(policy, port, &frontend, kind);
        policy->left -= port->renewed++ % CLAIMS_A_BACKEND == 0;
    }
    port->renew = false;
    end(policy, port, policy_queue(policy, port->owner->service));
}

void claims_drop(struct policy *policy, struct port_state *port, enum queue queue)
{
    begin(port);
    end(policy, port, queue);
}

/* ---- the winner ---- */

static const struct service *service_of(const struct claim *claim)
{
    return claim->port->owner->service;
}

/* Allocated addresses and ports go before those that a Service, or its cloud, merely names: else
 * one tenant could take over another's cluster IP. */
enum claim_rank { RANK_CLUSTER_IP, RANK_NODE_PORT, RANK_NAMED };

static enum claim_rank rank_of(const struct claim *claim)
{
    if (claim->kinds & CLAIM_CLUSTER_IP)
        return RANK_CLUSTER_IP;
    return claim->kinds & CLAIM_NODE_PORT ? RANK_NODE_PORT : RANK_NAMED;
}

/* Negative if @a goes before @b. Sets @why, if not NULL, to the winner's predicate. */
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

/* Takes @note. Nodes with the same objects report the same event, so one report is enough, except
 * for node ports, which each node has at its own address. */
static void report(const struct policy *policy, const struct claim *claim, unsigned kinds,
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

/* @winner takes the frontend over from another claim. */
static void log_taken_over(const struct policy *policy, const struct claim *winner)
{
    char text[FRONTEND_TEXT_SIZE];
    frontend_format(&winner->target->frontend, text);
    log_info("policy", "frontend=%s now belongs to service=%s", text, service_of(winner)->id);
    report(policy, winner, winner->kinds, EVENT_NORMAL, "FrontendTakenOver",
           xasprintf("%s now belongs to this Service", text));
}

/* Logs the claims that lose to @winner, or to the API server (NULL). */
static void log_losers(const struct policy *policy, const struct frontend_state *target,
                       const struct claim *winner)
{
    static const char reserved[] = "is not programmed: the API server uses that address and port";
    char text[FRONTEND_TEXT_SIZE];
    for (struct claim *claim = target->claims; claim; claim = claim->next_of_target) {
        if (claim->logged || claim == winner || !claim->kinds)
            continue;
        claim->logged = true;
        frontend_format(&target->frontend, text);
        const char *loser = service_of(claim)->id;
        if (!winner) {
            log_warn("policy", "frontend=%s of service=%s %s", text, loser, reserved);
            report(policy, claim, claim->kinds, EVENT_WARNING, "FrontendReserved",
                   xasprintf("%s %s", text, reserved));
            continue;
        }
        const char *other = service_of(winner)->id, *why = claims_reason(winner, claim);
        log_warn("policy", "frontend=%s of service=%s goes to service=%s, which %s", text, loser,
                 other, why);
        report(policy, claim, claim->kinds | winner->kinds, EVENT_WARNING, "FrontendClaimedTwice",
               xasprintf("%s goes to Service %s, which %s", text, other, why));
    }
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

void claims_reserve(struct policy *policy, enum reserved_list which, frontend_vec frontends)
{
    frontend_vec before = policy->reserved[which];
    const frontend_vec *both[] = {&before, &frontends};
    if (frontends.n > 1)
        qsort(frontends.v, frontends.n, sizeof(*frontends.v), compare_frontends);
    policy->reserved[which] = frontends;
    for (int i = 0; i < 2; i++) {
        vec_each (both[i], frontend) {
            struct frontend_state *target = find(policy, frontend);
            if (target && target->reserved != is_reserved(policy, frontend))
                claims_mark(policy, target, QUEUE_FEW);
        }
    }
    vec_free(&before);
}

const struct claim *claims_decide(struct policy *policy, struct frontend_state *target)
{
    const struct claim *first = NULL;
    for (const struct claim *claim = target->claims; claim; claim = claim->next_of_target)
        if (claim->kinds && (!first || compare_claims(claim, first, NULL) < 0))
            first = claim;
    bool reserved = first && rank_of(first) == RANK_NAMED && is_reserved(policy, &target->frontend);
    const struct claim *winner = reserved ? NULL : first;
    const struct port_state *port = winner ? winner->port : NULL;
    if (winner && winner->logged)
        log_taken_over(policy, winner);
    if (target->winner != port || target->reserved != reserved)
        for (struct claim *claim = target->claims; claim; claim = claim->next_of_target)
            claim->logged = false;
    policy->withheld += reserved;
    policy->withheld -= target->reserved;
    target->winner = port;
    target->reserved = reserved;
    log_losers(policy, target, winner);
    return winner;
}

static void forget(struct policy *policy, struct frontend_state *target)
{
    hash_table_remove(&policy->frontends, &target->link);
    free(target);
}

void claims_unmark(struct policy *policy, struct frontend_state *target, enum queue queue)
{
    target->dirty = false;
    target->queued &= ~(1U << queue);
    if (!target->claims && !target->queued)
        forget(policy, target);
}

void claims_clear(struct policy *policy)
{
    hash_table_each (&policy->frontends, struct frontend_state, target) {
        struct claim *claim, *next;
        for (claim = target->claims; claim; claim = next) {
            next = claim->next_of_target;
            free(claim);
        }
        forget(policy, target);
    }
    for (int queue = 0; queue < QUEUES; queue++)
        vec_free(&policy->dirty[queue].frontends);
    for (int i = 0; i < RESERVED_LISTS; i++)
        vec_free(&policy->reserved[i]);
}
