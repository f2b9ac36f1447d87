/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Assigns frontends to the service ports that claim them. If several ports claim one frontend, the
 * losers are logged and reported as events on their Services, and the conflict is counted. The same
 * goes for external and load-balancer addresses that claim a frontend of the API server: a Service
 * that took it would cut off this node, and with it the way to repair that Service.
 */
#include "state.h"

#include "kube-nftd/localhost.h"

#include <stdlib.h>
#include <string.h>

/* Only the best claims of a frontend are logged if they lose, and only so many conflicts a sync:
 * Services may claim millions of frontends that they do not get. */
#define CLAIMS_LOGGED 8 /* the winner included */
#define LOGGED_A_SYNC 100

static void mark(struct policy *policy, struct frontend_state *target, enum queue queue)
{
    target->dirty = true;
    if (target->queued & 1U << queue)
        return;
    target->queued |= 1U << queue;
    vec_push(&policy->dirty[queue].frontends, target);
}

void claims_mark(struct policy *policy, const struct port_state *port,
                 struct frontend_state *target)
{
    const enum queue queue = port->many ? QUEUE_MANY : QUEUE_FEW;
    mark(policy, target, queue);
    port->owner->marked[queue] =
        policy->dirty[queue].done + policy->dirty[queue].frontends.n; /* at the latest */
}

/* ---- the order of claims ---- */

static const struct service *service_of(const struct claim *claim)
{
    return claim->port->owner->service;
}

/* Allocated addresses and ports go before those that a Service, or its cloud, merely names: else
 * one tenant could take over another's cluster IP. New claims do not count yet. */
enum claim_rank { RANK_CLUSTER_IP, RANK_NODE_PORT, RANK_NAMED, RANK_NEW };

static enum claim_rank rank_of(const struct claim *claim)
{
    if (claim->kinds & CLAIM_CLUSTER_IP)
        return RANK_CLUSTER_IP;
    if (claim->kinds & CLAIM_NODE_PORT)
        return RANK_NODE_PORT;
    return claim->kinds ? RANK_NAMED : RANK_NEW;
}

/* Negative if @a goes before @b; 0 for one and the same. Sets @why, if not NULL, to the winner's
 * predicate. Ids of ports are for Services that have a port twice, which no API server lets in. */
static int compare_claims(const struct claim *a, const struct claim *b, const char **why)
{
    const struct service *p = service_of(a), *q = service_of(b);
    static const char *const ranks[] = {[RANK_CLUSTER_IP] = "has it as its cluster IP",
                                        [RANK_NODE_PORT] = "has it as its node port",
                                        [RANK_NAMED] = "names it"};
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
    int order = p == q ? 0 : strcmp(p->id, q->id);
    if (order)
        return order;
    *why = "has it for an earlier port";
    if (a->port->index != b->port->index)
        return a->port->index < b->port->index ? -1 : 1;
    return (a->port->id > b->port->id) - (a->port->id < b->port->id);
}

const char *claims_reason(const struct claim *winner, const struct claim *loser)
{
    const char *why;
    compare_claims(winner, loser, &why);
    return why;
}

struct claim *const *frontend_claims(const struct frontend_state *target)
{
    return target->n_claims > 1 ? target->claims : &target->claim;
}

const struct claim *frontend_winner(const struct frontend_state *target)
{
    return target->winner && !target->winner->port->removed ? target->winner : NULL;
}

/* The number of the first @n claims that go before @claim. */
static size_t place_of_claim(struct claim *const *claims, size_t n, const struct claim *claim)
{
    size_t first = 0;
    while (first < n) {
        const size_t middle = first + (n - first) / 2;
        if (compare_claims(claims[middle], claim, NULL) < 0)
            first = middle + 1;
        else
            n = middle;
    }
    return first;
}

/* Moves the last of @n claims to its place among the others. */
static void place_last(struct claim **claims, size_t n)
{
    struct claim *claim = claims[n - 1];
    const size_t at = place_of_claim(claims, n - 1, claim);
    memmove(&claims[at + 1], &claims[at], (n - 1 - at) * sizeof(*claims));
    claims[at] = claim;
}

/* Moves a claim to the end, where it may change. */
static void displace(struct claim **claims, size_t n, struct claim *claim)
{
    const size_t at = place_of_claim(claims, n, claim);
    memmove(&claims[at], &claims[at + 1], (n - 1 - at) * sizeof(*claims));
    claims[n - 1] = claim;
}

static void insert(struct policy *policy, struct frontend_state *target, struct claim *claim)
{
    const size_t n = target->n_claims++;
    if (n == 0) {
        target->claim = claim;
        return;
    }
    if (n == 1) {
        struct claim *other = target->claim;
        target->claims = xcalloc(2, sizeof(struct claim *));
        target->claims[0] = other;
        policy->conflicts++;
    } else if ((n & (n - 1)) == 0) {
        target->claims = xreallocarray(target->claims, 2 * n, sizeof(struct claim *));
    }
    target->claims[n] = claim;
    place_last(target->claims, n + 1);
}

/* Takes out @n claims from the place @at on. */
static void take_out(struct policy *policy, struct frontend_state *target, size_t at, size_t n)
{
    const bool contested = target->n_claims > 1;
    struct claim **claims = contested ? target->claims : &target->claim;
    const size_t left = target->n_claims - n;
    memmove(&claims[at], &claims[at + n], (left - at) * sizeof(*claims));
    target->n_claims = left & 0x7ffffff;
    if (left > 1 || !contested)
        return;
    target->claim = left ? claims[0] : NULL;
    free(claims);
    policy->conflicts--;
}

void claims_reorder(struct policy *policy, struct port_state *port, bool has_any, uint32_t index)
{
    struct claim *claim;
    const bool same = port->has_any == has_any && port->index == index;
    const bool contested = !same && policy->conflicts > 0;
    for (claim = contested ? port->claims : NULL; claim; claim = claim->next_of_port)
        if (claim->target->n_claims > 1)
            displace(claim->target->claims, claim->target->n_claims, claim);
    port->has_any = has_any;
    port->index = index & 0xffffff;
    for (claim = contested ? port->claims : NULL; claim; claim = claim->next_of_port) {
        struct frontend_state *target = claim->target;
        policy_spend(policy, 1, target->n_claims > 1 ? COST_CONTESTED : COST_WALKED);
        if (target->n_claims < 2)
            continue;
        place_last(target->claims, target->n_claims);
        if (target->claims[0] != target->winner)
            claims_mark(policy, port, target);
    }
}

/* ---- adding and dropping claims ---- */

static struct hash_key target_key(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct frontend_state *)link)->frontend);
}

static struct frontend_state *find_target(const struct policy *policy,
                                          const struct frontend *frontend)
{
    return hash_table_find(&policy->frontends, target_key, hash_key_of_frontend(frontend));
}

const struct frontend_state *policy_find_frontend(const struct policy *policy,
                                                  const struct frontend *frontend)
{
    struct frontend_state *target = find_target(policy, frontend);
    for (size_t i = 0; target && i < target->n_claims; i++)
        if (!frontend_claims(target)[i]->port->removed)
            return target;
    return NULL;
}

/* A queue renews the claims of one port after the other, and of each all that it has by then are
 * "mine": so none is looked for among those of others. */
static void begin(struct policy *policy, struct port_state *port, enum queue queue)
{
    for (struct claim *claim = port->claims; claim; claim = claim->next_of_port) {
        claim->renewed = 0;
        claim->target->mine[queue] = claim;
        policy_spend(policy, 1, COST_WALKED);
    }
}

static void add_claim(struct policy *policy, struct port_state *port, enum queue queue,
                      const struct frontend *frontend, enum claim_kind kind)
{
    struct frontend_state *target = find_target(policy, frontend);
    if (!target) {
        target = xcalloc(1, sizeof(*target));
        target->frontend = *frontend;
        hash_table_add(&policy->frontends, target_key, &target->link);
    }
    struct claim *claim = target->mine[queue];
    if (!claim || claim->port != port) {
        claim = xcalloc(1, sizeof(*claim));
        *claim = (struct claim){.port = port, .target = target, .next_of_port = port->claims};
        port->claims = target->mine[queue] = claim;
        insert(policy, target, claim);
    }
    claim->renewed |= (uint8_t)kind;
    policy_spend(policy, 1, target->n_claims > 1 ? COST_CONTESTED : COST_CLAIMED);
}

/* The @i-th frontend that @port claims; false past the last one. */
static bool nth_claim(const struct policy *policy, const struct port_state *port, size_t i,
                      struct frontend *frontend, enum claim_kind *kind)
{
    const address_vec *node_ports = &policy->node_port_addresses[port->family];
    const struct address localhost = localhost_address((enum family)port->family);
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
        {node_ports->v, spec->node_port ? node_ports->n : 0, spec->node_port, CLAIM_NODE_PORT},
        {&localhost, policy_serves_localhost(policy, port), spec->node_port, CLAIM_NODE_PORT}};
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

/* Makes @n claims of @target void, from the place @at on. */
static void make_void(struct policy *policy, struct frontend_state *target, size_t at, size_t n)
{
    for (size_t i = at; i < at + n; i++) {
        struct claim *claim = frontend_claims(target)[i];
        claim->target = NULL;
        if (target->winner == claim)
            target->winner = NULL;
        for (int queue = 0; queue < QUEUES; queue++)
            if (target->mine[queue] == claim)
                target->mine[queue] = NULL;
    }
    take_out(policy, target, at, n);
}

static void drop(struct policy *policy, struct claim *claim)
{
    struct frontend_state *target = claim->target;
    if (target) {
        policy_spend(policy, 1, target->n_claims > 1 ? COST_CONTESTED : COST_CLAIMED);
        make_void(policy, target, place_of_claim(frontend_claims(target), target->n_claims, claim),
                  1);
        claims_mark(policy, claim->port, target);
    }
    free(claim);
}

static void renew(struct policy *policy, struct claim *claim)
{
    struct frontend_state *target = claim->target;
    policy_spend(policy, 1, COST_WALKED);
    if (claim->kinds == claim->renewed)
        return;
    if (target->n_claims > 1)
        displace(target->claims, target->n_claims, claim);
    claim->kinds = claim->renewed;
    if (target->n_claims > 1)
        place_last(target->claims, target->n_claims);
    claims_mark(policy, claim->port, target);
}

/* Counts what was renewed, and drops the others. */
static void end(struct policy *policy, struct port_state *port)
{
    port->renew = false;
    for (struct claim **at = &port->claims; *at;) {
        struct claim *claim = *at;
        if (claim->renewed) {
            renew(policy, claim);
            at = &claim->next_of_port;
            continue;
        }
        *at = claim->next_of_port;
        drop(policy, claim);
    }
}

static void drop_all(struct policy *policy, struct port_state *port)
{
    for (struct claim *claim; (claim = port->claims);) {
        if (policy->left == 0)
            return;
        port->claims = claim->next_of_port;
        drop(policy, claim);
    }
    port->renew = false;
}

void claims_renew(struct policy *policy, struct port_state *port)
{
    const enum queue queue = port->many ? QUEUE_MANY : QUEUE_FEW;
    struct frontend frontend;
    enum claim_kind kind;
    if (port->removed) {
        drop_all(policy, port);
        return;
    }
    if (port->renewed == 0)
        begin(policy, port, queue);
    while (nth_claim(policy, port, port->renewed, &frontend, &kind)) {
        add_claim(policy, port, queue, &frontend, kind);
        port->renewed++;
        if (policy->left == 0)
            return;
    }
    end(policy, port);
}

/* ---- the winner ---- */

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

void claims_reserve(struct policy *policy, enum reserved_list which, frontend_vec frontends)
{
    frontend_vec before = policy->reserved[which];
    const frontend_vec *both[] = {&before, &frontends};
    if (frontends.n > 1)
        qsort(frontends.v, frontends.n, sizeof(*frontends.v), compare_frontends);
    policy->reserved[which] = frontends;
    for (int i = 0; i < 2; i++) {
        vec_each (both[i], frontend) {
            struct frontend_state *target = find_target(policy, frontend);
            if (target && target->reserved != is_reserved(policy, frontend))
                mark(policy, target, QUEUE_FEW);
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

/* The best claim of a port that is not removed. Makes those before it void, so each is passed once.
 */
static struct claim *find_first(struct policy *policy, struct frontend_state *target)
{
    size_t n = 0;
    while (n < target->n_claims && frontend_claims(target)[n]->port->removed)
        n++;
    if (n)
        make_void(policy, target, 0, n);
    policy_spend(policy, n, COST_CLAIMED);
    struct claim *first = target->n_claims ? frontend_claims(target)[0] : NULL;
    return first && first->kinds ? first : NULL;
}

const struct claim *claims_decide(struct policy *policy, struct frontend_state *target)
{
    const struct claim *first = find_first(policy, target);
    bool reserved = first && rank_of(first) == RANK_NAMED && is_reserved(policy, &target->frontend);
    const struct claim *winner = reserved ? NULL : first;
    if (winner && winner->logged)
        log_taken_over(policy, winner);
    if (target->winner != winner || target->reserved != reserved)
        for (size_t i = 0; i < n_best(target); i++)
            frontend_claims(target)[i]->logged = false;
    policy->withheld += reserved;
    policy->withheld -= target->reserved;
    target->winner = winner;
    target->reserved = reserved;
    log_losers(policy, target, winner);
    return winner;
}

static void forget_target(struct policy *policy, struct frontend_state *target)
{
    hash_table_remove(&policy->frontends, &target->link);
    free(target);
}

void claims_unmark(struct policy *policy, struct frontend_state *target, enum queue queue)
{
    target->dirty = false;
    target->queued &= ~(1U << queue);
    if (target->n_claims == 0 && !target->queued)
        forget_target(policy, target);
}

void claims_clear(struct policy *policy)
{
    hash_table_each (&policy->frontends, struct frontend_state, target) {
        if (target->n_claims > 1)
            free(target->claims);
        forget_target(policy, target);
    }
    for (int queue = 0; queue < QUEUES; queue++)
        vec_free(&policy->dirty[queue].frontends);
    for (int i = 0; i < RESERVED_LISTS; i++)
        vec_free(&policy->reserved[i]);
}
