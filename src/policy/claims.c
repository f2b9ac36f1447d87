/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The claims of service ports to frontends. Those of a frontend are kept in order, so that the
 * winner of each is known without a look at the others.
 *
 * A port's claims are renewed in pieces: what it claims is added, but does not count until that is
 * complete. Then claims that it has no more do not count, nor do those of a removed port. They are
 * dropped when their frontends are decided anew.
 */
#include "state.h"

#include "kube-nftd/localhost.h"

#include <stdlib.h>
#include <string.h>

/* So many cost as much to settle as one endpoint to look at, if nobody else claims their frontends.
 */
#define CLAIMS_SETTLED 8

/* ---- the order of claims ---- */

static const struct service *service_of(const struct claim *claim)
{
    return claim->port->owner->service;
}

/* Allocated addresses and ports go before those that a Service, or its cloud, merely names: else
 * one tenant could take over another's cluster IP. */
enum claim_rank { RANK_CLUSTER_IP, RANK_NODE_PORT, RANK_NAMED, RANK_NONE };

static enum claim_rank rank_of(const struct claim *claim)
{
    if (claim->kinds & CLAIM_CLUSTER_IP)
        return RANK_CLUSTER_IP;
    if (claim->kinds & CLAIM_NODE_PORT)
        return RANK_NODE_PORT;
    return claim->kinds ? RANK_NAMED : RANK_NONE;
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
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
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

bool frontend_waits(const struct frontend_state *target)
{
    for (size_t i = 0; i < target->n_claims; i++)
        if (frontend_claims(target)[i]->port->work)
            return true;
    return false;
}

/* ---- the sorted claims of a frontend ---- */

/* Moves the last of @n claims to its place among the others. Those that do not count are behind, in
 * any order. */
static void place_last(struct claim **claims, size_t n)
{
    struct claim *claim = claims[n - 1];
    size_t first = 0, end = n - 1;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (compare_claims(claims[middle], claim, NULL) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    memmove(&claims[first + 1], &claims[first], (n - 1 - first) * sizeof(*claims));
    claims[first] = claim;
}

/* Moves a claim to the end, where it may change. */
static void displace(struct claim **claims, size_t n, struct claim *claim)
{
    size_t at = 0, back = n - 1;
    while (claims[at] != claim && claims[back] != claim)
        at++, back--;
    at = claims[at] == claim ? at : back;
    memmove(&claims[at], &claims[at + 1], (n - 1 - at) * sizeof(*claims));
    claims[n - 1] = claim;
}

/* New ones do not count yet. */
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
}

static void take_out(struct policy *policy, struct frontend_state *target, struct claim *claim)
{
    if (target->n_claims-- == 1) {
        target->claim = NULL;
        return;
    }
    struct claim **claims = target->claims;
    displace(claims, target->n_claims + 1, claim);
    if (target->n_claims > 1)
        return;
    target->claim = claims[0];
    free(claims);
    policy->conflicts--;
}

/* What it takes to look at a claim, or to move it among others. */
static void spend_on(struct policy *policy, const struct claim *claim)
{
    const size_t n = claim->target->n_claims;
    policy_spend(policy, n > 1 ? 2 + n / 256 : 1, COST_CLAIMED);
}

/* ---- what a port claims ---- */

static struct hash_key target_key(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct frontend_state *)link)->frontend);
}

struct frontend_state *claims_find(const struct policy *policy, const struct frontend *frontend)
{
    return hash_table_find(&policy->frontends, target_key, hash_key_of_frontend(frontend));
}

const struct frontend_state *policy_find_frontend(const struct policy *policy,
                                                  const struct frontend *frontend)
{
    struct frontend_state *target = claims_find(policy, frontend);
    for (size_t i = 0; target && i < target->n_claims; i++)
        if (!frontend_claims(target)[i]->port->removed)
            return target;
    return NULL;
}

/* Of all that the port has by now, its frontends know that it is "mine": so it is not looked for
 * among those of others. */
static void begin(struct policy *policy, struct port_state *port)
{
    for (struct claim *claim = port->claims; claim; claim = claim->next_of_port) {
        claim->target->mine = claim;
        if (port->cursor == 0)
            claim->renewed = 0;
    }
    policy->renewing = port;
}

static void add_claim(struct policy *policy, struct port_state *port,
                      const struct frontend *frontend, enum claim_kind kind)
{
    struct frontend_state *target = claims_find(policy, frontend);
    if (!target) {
        target = xcalloc(1, sizeof(*target));
        target->frontend = *frontend;
        hash_table_add(&policy->frontends, target_key, &target->link);
    }
    struct claim *claim = target->mine;
    if (!claim || claim->port != port) {
        claim = xcalloc(1, sizeof(*claim));
        *claim = (struct claim){
            .port = port, .target = target, .next_of_port = port->claims, .index = port->index};
        port->claims = target->mine = claim;
        insert(policy, target, claim);
    }
    claim->renewed |= kind & CLAIM_KINDS;
    spend_on(policy, claim);
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

/* Changes what the place of @claim depends on. */
static void settle(struct policy *policy, struct claim *claim, unsigned kinds)
{
    struct frontend_state *target = claim->target;
    const bool contested = target->n_claims > 1;
    if (contested)
        displace(target->claims, target->n_claims, claim);
    claim->kinds = kinds & CLAIM_KINDS;
    claim->index = claim->port->index;
    if (contested && kinds)
        place_last(target->claims, target->n_claims);
    if (contested)
        spend_on(policy, claim);
}

static void settle_all(struct policy *policy, struct port_state *port)
{
    size_t n = 0;
    for (struct claim *claim = port->claims; claim; claim = claim->next_of_port, n++) {
        if (claim->kinds != claim->renewed || claim->index != port->index)
            settle(policy, claim, claim->renewed);
    }
    policy_spend(policy, n / CLAIMS_SETTLED, COST_WALKED);
}

bool claims_renew(struct policy *policy, struct port_state *port)
{
    struct frontend frontend;
    enum claim_kind kind;
    if (port->cursor == 0 || policy->renewing != port)
        begin(policy, port);
    while (nth_claim(policy, port, port->cursor, &frontend, &kind)) {
        if (policy_turn_is_over(policy))
            return false;
        add_claim(policy, port, &frontend, kind);
        port->cursor++;
    }
    policy->renewing = NULL;
    port->cursor = 0;
    settle_all(policy, port);
    return true;
}

bool claims_reorder(struct policy *policy, struct port_state *port, bool has_any)
{
    const bool same = port->has_any == has_any;
    bool moved = false;
    size_t n = 0;
    port->has_any = has_any;
    if (same || policy->conflicts == 0)
        return false;
    for (struct claim *claim = port->claims; claim; claim = claim->next_of_port, n++) {
        if (claim->target->n_claims < 2)
            continue;
        settle(policy, claim, claim->kinds);
        moved = true;
    }
    policy_spend(policy, n / CLAIMS_SETTLED, COST_WALKED);
    return moved;
}

void claims_drop(struct policy *policy, struct claim *claim)
{
    struct frontend_state *target = claim->target;
    spend_on(policy, claim);
    take_out(policy, target, claim);
    if (target->winner == claim) {
        target->winner = NULL;
        target->current = false;
    }
    if (target->mine == claim)
        target->mine = NULL;
    free(claim);
}

void claims_forget_unclaimed(struct policy *policy, struct frontend_state *target)
{
    if (target->n_claims > 0)
        return;
    hash_table_remove(&policy->frontends, &target->link);
    free(target);
}

void claims_clear(struct policy *policy)
{
    hash_table_each (&policy->frontends, struct frontend_state, target) {
        if (target->n_claims > 1)
            free(target->claims);
        target->n_claims = 0;
        claims_forget_unclaimed(policy, target);
    }
}
