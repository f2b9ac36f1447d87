/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy.h"

#include "change_log.h"
#include "health_checks.h"
#include "kube-nftd/base.h"
#include "turns.h"

#include <linux/in.h>
#include <string.h>

/* A Service whose frontends cost more than this part of what is settled in one go lets others go
 * first. */
#define PORTION_OF_MANY 8
/* So many frontends are claimed, endpoints looked at, or source ranges handed on, in the time in
 * which a backend is handed on and programmed. */
#define CLAIMS_A_BACKEND 8
#define ENDPOINTS_A_BACKEND 16
#define RANGES_A_BACKEND 32

/* Addresses that a service port claims with one port number. */
#define ADDRESS_LISTS 4
struct addresses {
    const struct address *v;
    size_t n;
    uint16_t number;
    enum claim_kind kind;
};

/* How far the claims of a service port are renewed. */
struct renewal {
    const struct port_state *port; /* NULL: none is under way */
    size_t list, next;
};

struct policy {
    const struct endpoint_slice_cache *slices;
    struct policy_ops ops;
    struct surroundings here; /* its names are interned */
    address_vec node_port_addresses[FAMILY_COUNT];
    struct port_states ports;
    struct reserved *reserved;
    struct claims *claims;
    struct health_checks *health_checks;
    struct change_log changes;
    struct decision decision;
    struct difference difference;           /* scratch */
    struct renewal renewals[CLAIMS_QUEUES]; /* of noted ports, and of late ones */
    size_t few;  /* what a Service's frontends may cost and it need not let others go first */
    size_t left; /* what the settlement that runs may still cost, in backends handed on */
    bool some_node_named, own_node_named;
    struct ports_without_local without_local[FAMILY_COUNT];
};

void policy_set_events(struct policy *policy, const struct event_sink *events)
{
    claims_set_events(policy->claims, events);
}

void policy_free(struct policy *policy)
{
    claims_free(policy->claims);
    reserved_free(policy->reserved);
    port_states_clear(&policy->ports);
    health_checks_free(policy->health_checks);
    change_log_clear(&policy->changes);
    decision_free(&policy->decision);
    difference_free(&policy->difference);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&policy->node_port_addresses[family]);
    intern_release(policy->here.location.node_name);
    intern_release(policy->here.location.zone);
    free(policy);
}

/* ---- the frontends of a service port ---- */

static void claim(struct policy *policy, struct port_state *port, const struct address *address,
                  uint16_t number, enum claim_kind kind)
{
    struct frontend frontend = {*address, number, port->protocol, port->family};
    claims_add(policy->claims, port, &frontend, kind);
}

/* What settling may cost goes down to 0. */
static void spend(struct policy *policy, size_t cost)
{
    policy->left -= cost < policy->left ? cost : policy->left;
}

/* What the frontends of @spec, a port of @service, may cost, in backends handed on. */
static size_t cost_of_frontends(const struct policy *policy, const struct service *service,
                                const struct service_port *spec)
{
    const struct outside *outside = service_outside(service);
    size_t n = 0;
    for (int family = 0; family < FAMILY_COUNT; family++)
        n += 1 + outside->external_ips[family].n +
             outside->load_balancer_ips[family].n *
                 (1 + outside->source_ranges[family].n / RANGES_A_BACKEND) +
             (spec->node_port ? policy->node_port_addresses[family].n : 0);
    return n;
}

static enum claims_queue queue_of(const struct policy *policy, const struct service *service)
{
    size_t n = service->ports.n;
    if (policy->few == SIZE_MAX)
        return CLAIMS_FEW;
    for (size_t i = 0; i < service->ports.n && n <= policy->few; i++)
        n += cost_of_frontends(policy, service, &service->ports.v[i]);
    return n <= policy->few ? CLAIMS_FEW : CLAIMS_MANY;
}

/* The lists of addresses that a service port claims, one behind the other. */
static void list_addresses(const struct policy *policy, const struct port_state *port,
                           struct addresses lists[ADDRESS_LISTS])
{
    const struct service *service = port->owner->service;
    const struct service_port *spec = port_state_spec(port);
    const struct outside *outside = service_outside(service);
    const address_vec *node_ports = &policy->node_port_addresses[port->family];
    lists[0] =
        (struct addresses){&service->cluster_ip[port->family], 1, spec->port, CLAIM_CLUSTER_IP};
    lists[1] =
        (struct addresses){outside->external_ips[port->family].v,
                           outside->external_ips[port->family].n, spec->port, CLAIM_EXTERNAL_IP};
    lists[2] = (struct addresses){outside->load_balancer_ips[port->family].v,
                                  outside->load_balancer_ips[port->family].n, spec->port,
                                  CLAIM_LOAD_BALANCER_IP};
    lists[3] = (struct addresses){node_ports->v, spec->node_port ? node_ports->n : 0,
                                  spec->node_port, CLAIM_NODE_PORT};
}

/* Goes on where it stopped, as long as that may cost something. Returns whether that was all. */
static bool renew_claims(struct policy *policy, struct renewal *renewal, struct port_state *port)
{
    struct addresses lists[ADDRESS_LISTS];
    if (renewal->port != port) {
        claims_begin(port);
        *renewal = (struct renewal){.port = port};
    }
    list_addresses(policy, port, lists);
    for (; renewal->list < ADDRESS_LISTS; renewal->list++, renewal->next = 0) {
        const struct addresses *list = &lists[renewal->list];
        for (; renewal->next < list->n; renewal->next++) {
            if (policy->left == 0)
                return false;
            claim(policy, port, &list->v[renewal->next], list->number, list->kind);
            spend(policy, renewal->next % CLAIMS_A_BACKEND == 0);
        }
    }
    claims_end(policy->claims, port, queue_of(policy, port->owner->service));
    port->renew = false;
    renewal->port = NULL;
    return true;
}

/* The addresses of @service are others, or those of the node (NULL): what is under way begins anew.
 */
static void forget_renewals(struct policy *policy, const struct service *service)
{
    for (int queue = 0; queue < CLAIMS_QUEUES; queue++) {
        const struct port_state *port = policy->renewals[queue].port;
        if (port && (!service || !port->owner || port->owner->service == service))
            policy->renewals[queue].port = NULL;
    }
}

/* ---- changes of Services and endpoints ---- */

static const struct address *cluster_ip_of(const struct service *service, enum family family)
{
    bool has = service && !service->skipped && service->has_cluster_ip[family];
    return has ? &service->cluster_ip[family] : NULL;
}

static void tell_cluster_ip(const struct policy *policy, enum family family,
                            const struct service *before, const struct service *after)
{
    const struct address *was = cluster_ip_of(before, family), *is = cluster_ip_of(after, family);
    if (was && is && address_compare(was, is) == 0)
        return;
    if (is)
        policy->ops.cluster_ip(policy->ops.ctx, family, is, true);
    if (was)
        policy->ops.cluster_ip(policy->ops.ctx, family, was, false);
}

static bool has_health_check(const struct service *service)
{
    return service && service->health_check_node_port != 0;
}

static void on_service_changed(void *ctx, const struct service *before, const struct service *after)
{
    struct policy *policy = ctx;
    change_log_service(&policy->changes, (after ? after : before)->id);
    struct port_state *port = port_states_change(&policy->ports, before, after);
    forget_renewals(policy, after ? after : before);
    enum claims_queue queue = port ? queue_of(policy, before) : CLAIMS_FEW;
    for (; port; port = port->next) {
        claims_begin(port);
        claims_end(policy->claims, port, queue);
    }
    tell_cluster_ip(policy, FAMILY_IPV4, before, after);
    tell_cluster_ip(policy, FAMILY_IPV6, before, after);
    if (has_health_check(before) || has_health_check(after))
        health_checks_note(policy->health_checks, (after ? after : before)->id);
}

/* Returns whether the number of ready endpoints on this node may be another. */
static bool note_changes(struct policy *policy, struct port_state *port,
                         const struct endpoint_delta *changes, size_t n)
{
    if (!changes) {
        port_states_note(&policy->ports, port);
        return true;
    }
    port_states_note_turns(&policy->ports, port);
    return turns_add(port, changes, n, &policy->here.location);
}

static void on_endpoints_changed(void *ctx, const struct service_port_ref *ref,
                                 const struct endpoint_delta *changes, size_t n)
{
    struct policy *policy = ctx;
    change_log_endpoints(&policy->changes, ref, changes, n);
    const struct service_state *state = port_states_find(&policy->ports, ref->service_id);
    bool local_ready = false;
    reserved_slices_changed(policy->reserved, ref->service_id);
    if (!state)
        return;
    for (struct port_state *port =
             port_states_seek(&policy->ports, state, ref->family, ref->protocol, ref->port_name);
         port; port = port_state_twin(port))
        local_ready = note_changes(policy, port, changes, n) || local_ready;
    if (local_ready && has_health_check(state->service))
        health_checks_note(policy->health_checks, state->service->id);
}

struct policy *policy_new(struct service_cache *services, struct endpoint_slice_cache *slices,
                          const char *node_name, const struct policy_ops *ops)
{
    struct policy *policy = xcalloc(1, sizeof(*policy));
    policy->slices = slices;
    policy->few = SIZE_MAX;
    policy->ops = *ops;
    policy->here.location.node_name = intern(node_name);
    policy->reserved = reserved_new(slices);
    policy->claims = claims_new(policy->reserved);
    policy->health_checks = health_checks_new(services, slices);
    service_cache_follow(services, on_service_changed, policy);
    endpoint_slice_cache_follow(slices, on_endpoints_changed, policy);
    return policy;
}

/* ---- changes of the node ---- */

void policy_set_zone(struct policy *policy, const char *zone)
{
    zone = intern(zone);
    bool same = zone == policy->here.location.zone;
    intern_release(policy->here.location.zone);
    policy->here.location.zone = zone;
    if (same)
        return;
    hash_table_each (&policy->ports.services, struct service_state, it)
        for (struct port_state *port = it->ports; port; port = port->next)
            if (port->has_endpoints)
                port_states_note(&policy->ports, port);
}

void policy_set_node_ip(struct policy *policy, enum family family, const struct address *address)
{
    struct surroundings *here = &policy->here;
    if (here->has_ip[family] == (address != NULL) &&
        (!address || memcmp(&here->ip[family], address, sizeof(*address)) == 0))
        return;
    here->has_ip[family] = address != NULL;
    if (address)
        here->ip[family] = *address;
    vec_each (&policy->ports.lists[LIST_SOURCE_RANGES], port)
        if ((*port)->family == family)
            port_states_note(&policy->ports, *port);
}

void policy_set_node_port_addresses(struct policy *policy, enum family family,
                                    const struct address *addresses, size_t n)
{
    address_vec *known = &policy->node_port_addresses[family];
    if (known->n == n && (n == 0 || memcmp(known->v, addresses, n * sizeof(*addresses)) == 0))
        return;
    vec_clear(known);
    for (size_t i = 0; i < n; i++)
        vec_push(known, addresses[i]);
    forget_renewals(policy, NULL);
    vec_each (&policy->ports.lists[LIST_NODE_PORTS], port) {
        if ((*port)->family == family)
            port_states_note_claims(&policy->ports, *port);
    }
}

void policy_set_api_server(struct policy *policy, const struct frontend *peers, size_t n)
{
    reserved_set_peers(policy->reserved, peers, n);
}

/* ---- decisions ---- */

static void decide(struct policy *policy, const struct port_state *port)
{
    policy_decide(policy, port, &policy->decision);
    spend(policy, policy->decision.endpoints.n / ENDPOINTS_A_BACKEND);
}

static void tell_flows(struct policy *policy, struct frontend_state *target)
{
    const backend_vec *serving = &policy->decision.serving;
    uint64_t fingerprint = backends_fingerprint(serving);
    if (target->told && target->serving == fingerprint)
        return;
    target->serving = fingerprint;
    spend(policy, serving->n);
    policy->ops.flows(policy->ops.ctx, &target->frontend, true, serving->v, serving->n);
}

/* Hands on the backends of the decided @port. */
static void tell_port(struct policy *policy, struct port_state *port)
{
    struct port_route route = decision_port_route(&policy->decision);
    spend(policy, 1 + route.n_backends + route.n_local);
    change_log_port(port, &route);
    policy->ops.set_port(policy->ops.ctx, port, &route);
    port->told = true;
}

/* Hands on the frontend of the decided port's @claim, which has it. */
static void hand_on(struct policy *policy, const struct claim *claim)
{
    struct frontend_state *target = claim->target;
    struct route route = decision_route(&policy->decision, claim);
    spend(policy, 1 + route.n_sources / RANGES_A_BACKEND);
    change_log_route(target, &route);
    policy->ops.set(policy->ops.ctx, &target->frontend, &route);
    if (target->frontend.protocol == IPPROTO_UDP)
        tell_flows(policy, target);
    target->told = true;
}

static void hand_back(struct policy *policy, struct frontend_state *target)
{
    spend(policy, 1);
    if (!target->told)
        return;
    target->told = false;
    change_log_route(target, NULL);
    policy->ops.remove(policy->ops.ctx, &target->frontend);
    if (target->frontend.protocol == IPPROTO_UDP)
        policy->ops.flows(policy->ops.ctx, &target->frontend, false, NULL, 0);
}

static void decide_frontend(void *ctx, struct frontend_state *target)
{
    struct policy *policy = ctx;
    const struct claim *winner = claims_decide(policy->claims, target);
    if (!winner) {
        hand_back(policy, target);
        return;
    }
    if (winner->port->whole) { /* its backends may not be those for that; with them this follows */
        spend(policy, 1);
        return;
    }
    if (policy->decision.port != winner->port)
        decide(policy, winner->port);
    hand_on(policy, winner);
}

/* Hands on the frontends that the decided @port alone claims, as long as that may cost something.
 * The others wait until it is known of all ports whether they have endpoints. */
static void settle_frontends(struct policy *policy, struct port_state *port, bool flipped)
{
    enum claims_queue queue = queue_of(policy, port->owner->service);
    for (struct claim *it = port->claims; it; it = it->next_of_port) {
        struct frontend_state *target = it->target;
        if (target->n_claims == 1 && policy->left > 0) {
            target->noted = false;
            decide_frontend(policy, target);
        } else if (target->n_claims == 1 || flipped || target->winner == port) {
            claims_note(policy->claims, target, queue);
        }
    }
}

static void tell_hairpin(const struct policy *policy, const struct port_state *port,
                         const struct backend *backend, bool in_use)
{
    policy->ops.hairpin(policy->ops.ctx, (enum family)port->family, port->protocol, backend,
                        in_use);
}

static void tell_hairpins(const struct policy *policy, const struct port_state *port, bool in_use)
{
    if (port->details)
        vec_each (&port->details->hairpins, backend)
            tell_hairpin(policy, port, backend, in_use);
}

static void settle_hairpins(struct policy *policy, struct port_state *port)
{
    const backend_vec *hairpins = &policy->decision.hairpins;
    if (hairpins->n == 0 && !port->details)
        return;
    struct port_details *details = turns_details(port);
    tell_hairpins(policy, port, false);
    vec_clear(&details->hairpins);
    vec_each (hairpins, backend)
        vec_push(&details->hairpins, *backend);
    vec_trim(&details->hairpins);
    tell_hairpins(policy, port, true);
}

/* Those on one node are few. */
static void change_hairpin(struct policy *policy, struct port_state *port,
                           const struct backend_change *change)
{
    struct port_details *details = port->details;
    tell_hairpin(policy, port, &change->backend, change->comes);
    if (change->comes) {
        vec_push(&details->hairpins, change->backend);
        return;
    }
    for (size_t i = 0; i < details->hairpins.n; i++)
        if (backend_equal(&details->hairpins.v[i], &change->backend)) {
            details->hairpins.v[i] = details->hairpins.v[--details->hairpins.n];
            return;
        }
}

static void look_for_node_names(struct policy *policy)
{
    vec_each (&policy->decision.endpoints, endpoint) {
        if (policy->own_node_named)
            return;
        policy->some_node_named = policy->some_node_named || endpoint->node_name;
        policy->own_node_named = endpoint_is_local(endpoint, &policy->here.location);
    }
}

static void count_as_lacking(struct policy *policy, struct port_state *port, bool internal,
                             bool external)
{
    struct ports_without_local *count = &policy->without_local[port->family];
    count->internal += internal;
    count->internal -= port->lacks_internal;
    count->external += external;
    count->external -= port->lacks_external;
    port->lacks_internal = internal;
    port->lacks_external = external;
}

static void count_local(struct policy *policy, struct port_state *port, bool has_any,
                        const struct selection_counts *counts)
{
    bool lacks = has_any && selection_local_size(counts) == 0;
    count_as_lacking(policy, port, lacks && decision_asks_for_local(port, false),
                     lacks && decision_asks_for_local(port, true));
}

static void settle_whole(struct policy *policy, struct port_state *port)
{
    decide(policy, port);
    port->whole = false;
    const struct selection *selection = &policy->decision.selection;
    bool flipped = port->has_any != selection->has_any;
    port->has_any = selection->has_any;
    port->has_endpoints = policy->decision.endpoints.n > 0;
    count_local(policy, port, selection->has_any, &selection->counts);
    turns_keep_counts(port, &selection->counts);
    look_for_node_names(policy);
    settle_hairpins(policy, port);
    tell_port(policy, port);
    settle_frontends(policy, port, flipped);
}

/* ---- by turns ---- */

static void change_port(struct policy *policy, struct port_state *port)
{
    const struct difference *difference = &policy->difference;
    const struct port_route_change change = {difference->cluster.v, difference->cluster.n,
                                             difference->local.v, difference->local.n};
    spend(policy, 1 + change.n_backends + change.n_local);
    if (change.n_backends == 0 && change.n_local == 0)
        return;
    if (policy->ops.change_port(policy->ops.ctx, port, &change)) {
        change_log_port_change(port, &change);
        return;
    }
    if (policy->decision.port != port)
        decide(policy, port);
    tell_port(policy, port);
}

/* False, and nothing is done, if @port is to be settled as a whole: what decides about all of its
 * endpoints is something else now, or the list of serving ones for its flows. */
static bool settle_turns(struct policy *policy, struct port_state *port)
{
    struct difference *difference = &policy->difference;
    struct selection_counts now = turns_counts(port), before = turns_undo(port, &now);
    struct selection_basis basis = selection_basis_of(&now), was = selection_basis_of(&before);
    if (!port->told || !selection_basis_equal(&basis, &was))
        return false;
    turns_sum_up(port, &basis, decision_sets_needed(port), difference);
    if (difference->serving && port->protocol == IPPROTO_UDP)
        return false;
    turns_keep_counts(port, &now);
    port->has_endpoints = now.endpoints > 0;
    count_local(policy, port, port->has_any, &now);
    policy->some_node_named = policy->some_node_named || difference->names_node;
    policy->own_node_named = policy->own_node_named || difference->names_here;
    vec_each (&difference->hairpins, change)
        change_hairpin(policy, port, change);
    change_port(policy, port);
    return true;
}

static void settle_port(struct policy *policy, struct port_state *port)
{
    spend(policy, 1);
    port->noted = false;
    if (!port->owner) {
        count_as_lacking(policy, port, false, false);
        tell_hairpins(policy, port, false);
        if (port->told)
            policy->ops.remove_port(policy->ops.ctx, port);
        port_state_free(port);
        return;
    }
    if (port->whole || (turns_has_some(port) && !settle_turns(policy, port)))
        settle_whole(policy, port);
    port->whole = false;
    turns_forget(port);
}

static void note_reserved(void *ctx, const struct frontend *frontend, bool is_reserved)
{
    (void)is_reserved; /* claims look it up */
    claims_note_frontend(ctx, frontend);
}

/* Those of Services whose frontends cost much go behind others of their sort. */
static void put_off_many(struct policy *policy)
{
    port_state_vec *noted = &policy->ports.noted;
    size_t n = 0;
    vec_each (noted, it) {
        struct port_state *port = *it;
        if (port->owner && queue_of(policy, port->owner->service) == CLAIMS_MANY)
            vec_push(&policy->ports.late, port);
        else
            noted->v[n++] = port;
    }
    noted->n = n;
}

/* What a Service takes of a portion. */
struct share {
    const struct service_state *owner;
    size_t left; /* of the portion, before the Service */
};

/* Whether the Service of @port has cost so much that others go first. Its ports mostly follow one
 * another. */
static bool has_had_much(const struct policy *policy, struct share *share,
                         const struct port_state *port)
{
    if (share->owner != port->owner)
        *share = (struct share){port->owner, policy->left};
    return share->owner && share->left - policy->left > policy->few;
}

/* Returns whether that was all of them. */
static bool settle_ports(struct policy *policy, enum claims_queue queue, port_state_vec *ports,
                         size_t most)
{
    struct share share = {0};
    size_t i, n = ports->n;
    policy->left = most; /* who has what goes to and fro less if all have claimed it before */
    for (i = 0; i < n && policy->left > 0; i++)
        if (ports->v[i]->renew)
            renew_claims(policy, &policy->renewals[queue], ports->v[i]);
    policy->left = most;
    for (i = 0; i < n && policy->left > 0 && !ports->v[i]->renew; i++) {
        if (queue == CLAIMS_FEW && has_had_much(policy, &share, ports->v[i]))
            vec_push(&policy->ports.late, ports->v[i]);
        else
            settle_port(policy, ports->v[i]);
    }
    vec_drop_first(ports, i);
    return ports->n == 0;
}

static bool settle_frontends_of(struct policy *policy, enum claims_queue queue, size_t most)
{
    policy->left = most;
    return claims_settle(policy->claims, queue, decide_frontend, policy, &policy->left);
}

bool policy_settle_some(struct policy *policy, size_t most)
{
    struct port_states *ports = &policy->ports;
    reserved_settle(policy->reserved, note_reserved, policy->claims);
    policy->few = most == SIZE_MAX ? SIZE_MAX : most / PORTION_OF_MANY;
    put_off_many(policy);
    bool settled = settle_ports(policy, CLAIMS_FEW, &ports->noted, most);
    settled = settle_ports(policy, CLAIMS_MANY, &ports->late, most) && settled;
    settled = settle_frontends_of(policy, CLAIMS_FEW, most) && settled;
    settled = settle_frontends_of(policy, CLAIMS_MANY, most) && settled;
    policy->decision.port = NULL; /* what it borrows from the caches may go */
    return settled;
}

void policy_settle(struct policy *policy)
{
    policy_settle_some(policy, SIZE_MAX);
}

static bool port_waits(const struct policy *policy, const struct port_state *port)
{
    if (port->noted)
        return true;
    for (const struct claim *claim = port->claims; claim; claim = claim->next_of_port)
        if (claim->target->noted)
            return true;
    return policy->ops.waits(policy->ops.ctx, port);
}

bool policy_service_waits(const void *ctx, const char *service_id, enum family family)
{
    const struct policy *policy = ctx;
    const struct service_state *service = port_states_find(&policy->ports, service_id);
    for (const struct port_state *port = service ? service->ports : NULL; port; port = port->next)
        if (port->family == family && port_waits(policy, port))
            return true;
    return false;
}

void policy_settle_health_checks(struct policy *policy, enum family family)
{
    health_checks_settle(policy->health_checks, family, &policy->here.location,
                         policy_service_waits, policy, &policy->ops);
}

void policy_note_applied(struct policy *policy)
{
    change_log_clear(&policy->changes);
}

/* ---- what can be asked ---- */

char *policy_changed_services(struct policy *policy)
{
    return change_log_services(&policy->changes);
}

const struct frontend_state *policy_find_frontend(const struct policy *policy,
                                                  const struct frontend *frontend)
{
    return claims_find(policy->claims, frontend);
}

const struct service_state *policy_find_service(const struct policy *policy, const char *id)
{
    return port_states_find(&policy->ports, id);
}

const struct hash_table *policy_services(const struct policy *policy)
{
    return &policy->ports.services;
}

void policy_decide(const struct policy *policy, const struct port_state *port,
                   struct decision *decision)
{
    decision_make(decision, policy->slices, &policy->here, port);
}

const struct surroundings *policy_surroundings(const struct policy *policy)
{
    return &policy->here;
}

const address_vec *policy_node_port_addresses(const struct policy *policy, enum family family)
{
    return &policy->node_port_addresses[family];
}

size_t policy_local_ready(const struct policy *policy, const struct service *service,
                          enum family family)
{
    return health_checks_count(policy->health_checks, service, family, &policy->here.location);
}

char *policy_owner(const struct policy *policy, const struct frontend *frontend)
{
    const struct frontend_state *target = claims_find(policy->claims, frontend);
    if (!target || !target->winner || !target->winner->owner)
        return NULL;
    return port_state_name(target->winner);
}

size_t policy_conflicts(const struct policy *policy)
{
    return claims_conflicts(policy->claims);
}

size_t policy_reserved(const struct policy *policy)
{
    return claims_reserved(policy->claims);
}

struct ports_without_local policy_ports_without_local(const struct policy *policy,
                                                      enum family family)
{
    return policy->without_local[family];
}

bool policy_node_never_named(const struct policy *policy)
{
    return policy->some_node_named && !policy->own_node_named;
}
