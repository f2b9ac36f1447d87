/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Passes decisions on: to the tables, the listeners on loopback addresses and the flow cleaner. */
#include "state.h"

#include "kube-nftd/conntrack.h"
#include "kube-nftd/localhost.h"
#include "kube-nftd/table.h"

#include <linux/in.h>
#include <stdlib.h>
#include <string.h>

/* The ruleset of a family, for changing it; NULL if the family is not in use. */
static struct ruleset *changing(const struct policy *policy, int family)
{
    return policy->config.tables[family] ? table_changing(policy->config.tables[family]) : NULL;
}

/* ---- frontends ---- */

static const struct address *cluster_ip_of(const struct service *service, int family)
{
    bool has = service && !service->skipped && service->has_cluster_ip[family];
    return has ? &service->cluster_ip[family] : NULL;
}

void routes_change_cluster_ips(const struct policy *policy, const struct service *before,
                               const struct service *after)
{
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const struct address *was = cluster_ip_of(before, family),
                             *is = cluster_ip_of(after, family);
        if (!policy->config.tables[family] || (was && is && address_compare(was, is) == 0))
            continue;
        if (is) {
            ruleset_use_cluster_ip(changing(policy, family), is, true);
            service_addresses_change(policy, (enum family)family, is);
        }
        if (was) {
            ruleset_use_cluster_ip(changing(policy, family), was, false);
            service_addresses_change(policy, (enum family)family, was);
        }
    }
}

/* ---- loopback addresses ---- */

/* Refuses the NodePorts of @service, or no longer, except those that are served. */
static void refuse_localhost_ports(const struct policy *policy, const struct service *service,
                                   enum family family, bool refused)
{
    vec_each (&service->ports, port)
        if (port->node_port != 0 &&
            !(port->protocol == IPPROTO_TCP && policy->config.serves_localhost[family]))
            ruleset_refuse_localhost(changing(policy, family), port->protocol, port->node_port,
                                     refused);
}

void routes_change_localhost_ports(const struct policy *policy, const struct service *before,
                                   const struct service *after)
{
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        if (!policy->config.counts_localhost || !policy->config.tables[family])
            continue;
        if (cluster_ip_of(after, family))
            refuse_localhost_ports(policy, after, family, true);
        if (cluster_ip_of(before, family))
            refuse_localhost_ports(policy, before, family, false);
    }
}

/* What serves @frontend, if its family's loopback address is served; else NULL. */
static struct localhost *localhost_of(const struct policy *policy, const struct frontend *frontend)
{
    const enum family family = (enum family)frontend->family;
    bool concerned = policy->config.serves_localhost[family] && frontend->protocol == IPPROTO_TCP &&
                     localhost_is_address(family, &frontend->address);
    return concerned ? policy->config.localhost : NULL;
}

/* Whether a loopback address is of no concern for the table: somebody listens there. As a cluster
 * IP, which others may be, too, it is. */
static bool is_served(const struct claim *claim)
{
    const struct frontend *frontend = &claim->target->frontend;
    return claim->kinds == CLAIM_NODE_PORT &&
           localhost_is_address((enum family)frontend->family, &frontend->address);
}

static void listen_at(const struct policy *policy, const struct claim *claim)
{
    const struct frontend *frontend = &claim->target->frontend;
    const enum family family = (enum family)frontend->family;
    struct localhost *localhost = localhost_of(policy, frontend);
    if (localhost && is_served(claim))
        localhost_listen(localhost, family, frontend->port, claim->port->id);
    else if (localhost)
        localhost_close(localhost, family, frontend->port);
}

/* Passes on the endpoints of a decided port: those for connections from outside. */
static void set_localhost_port(const struct policy *policy, struct port_state *port,
                               const struct port_route *route)
{
    struct localhost *localhost = policy->config.localhost;
    const bool serves = localhost && policy_serves_localhost(policy, port);
    const bool local = only_local_endpoints(port, true);
    if (serves)
        localhost_set_port(localhost, port->id, local ? route->local_backends : route->backends,
                           local ? route->n_local : route->n_backends, route->affinity_timeout);
    else if (port->localhost)
        localhost_remove_port(localhost, port->id);
    port->localhost = serves;
}

static void change_localhost_port(const struct policy *policy, const struct port_state *port,
                                  const backend_change_vec *changes)
{
    if (port->localhost)
        localhost_change_port(policy->config.localhost, port->id, changes,
                              only_local_endpoints(port, true) ? BACKENDS_LOCAL : BACKENDS_CLUSTER);
}

/* The cleaner of stale flows, if @port is one for which it has work; else NULL. */
static struct flow_cleaner *flows_of(const struct policy *policy, enum family family,
                                     uint8_t protocol)
{
    bool concerned = policy->config.tables[family] && policy_cleans_flows(policy, family, protocol);
    return concerned ? policy->config.flows : NULL;
}

static void log_frontend(const struct frontend_state *target, const struct route *route)
{
    char text[FRONTEND_TEXT_SIZE];
    if (!log_enabled(4))
        return;
    frontend_format(&target->frontend, text);
    if (!route) {
        log_debug(4, "policy", "frontend=%s belongs to no Service now", text);
        return;
    }
    char *name = port_state_name(target->winner->port);
    log_debug(4, "policy", "frontend=%s service=%s policy=%s", text, name,
              route->class & CLASS_LOCAL ? "Local" : "Cluster");
    free(name);
}

void routes_set_frontend(struct policy *policy, const struct claim *claim)
{
    struct frontend_state *target = claim->target;
    const struct frontend *frontend = &target->frontend;
    const enum family family = (enum family)frontend->family;
    struct ruleset *ruleset = changing(policy, family);
    struct flow_cleaner *flows = flows_of(policy, family, frontend->protocol);
    const struct route route = claim_route(claim);
    const bool served = is_served(claim);
    if (target->current && target->class == route.class && target->served == served)
        return;
    policy_spend(policy, 1, COST_BACKEND);
    log_frontend(target, &route);
    listen_at(policy, claim);
    if (ruleset && served)
        ruleset_remove(ruleset, frontend);
    else if (ruleset)
        ruleset_set(ruleset, frontend, &route);
    if (flows)
        flow_cleaner_set(flows, frontend, claim->port->id);
    target->passed = target->current = true;
    target->class = route.class & (CLASSES - 1);
    target->served = served;
}

void routes_remove_frontend(struct policy *policy, struct frontend_state *target)
{
    const struct frontend *frontend = &target->frontend;
    const enum family family = (enum family)frontend->family;
    struct ruleset *ruleset = changing(policy, family);
    struct flow_cleaner *flows = flows_of(policy, family, frontend->protocol);
    if (!target->passed)
        return;
    policy_spend(policy, 1, COST_BACKEND);
    target->passed = target->current = false;
    log_frontend(target, NULL);
    if (localhost_of(policy, frontend))
        localhost_close(policy->config.localhost, family, frontend->port);
    if (ruleset)
        ruleset_remove(ruleset, frontend);
    if (flows)
        flow_cleaner_set(flows, frontend, 0);
}

/* ---- service ports ---- */

/* Connections of a local backend to itself are masqueraded (docs/behaviour.md 4.5). */
static void use_hairpin(const struct policy *policy, const struct port_state *port,
                        const struct backend *backend, bool in_use)
{
    struct ruleset *ruleset = changing(policy, port->family);
    if (ruleset)
        ruleset_use_hairpin(ruleset, &backend->address, in_use);
}

static void set_hairpins(const struct policy *policy, struct port_state *port,
                         const backend_vec *hairpins)
{
    if (hairpins->n == 0 && !port->details)
        return;
    struct port_details *details = port_make_details(port);
    vec_each (&details->hairpins, backend)
        use_hairpin(policy, port, backend, false);
    vec_clear(&details->hairpins);
    vec_append(&details->hairpins, hairpins->v, hairpins->n);
    vec_trim(&details->hairpins);
    vec_each (&details->hairpins, backend)
        use_hairpin(policy, port, backend, true);
}

/* Linear: a node has few of a port's backends. */
static void drop_backend(backend_vec *backends, const struct backend *backend)
{
    for (size_t i = 0; i < backends->n; i++)
        if (backend_equal(&backends->v[i], backend)) {
            backends->v[i] = backends->v[--backends->n];
            return;
        }
}

static void change_hairpins(const struct policy *policy, struct port_state *port)
{
    backend_vec *hairpins = &port->details->hairpins;
    vec_each (&port->details->changes, change) {
        const bool comes = backend_comes(change, BACKENDS_HAIRPIN);
        if (!comes && !backend_goes(change, BACKENDS_HAIRPIN))
            continue;
        use_hairpin(policy, port, &change->backend, comes);
        if (comes)
            vec_push(hairpins, change->backend);
        else
            drop_backend(hairpins, &change->backend);
    }
}

static void log_port(const struct port_state *port, const struct port_route *route)
{
    if (!log_enabled(4))
        return;
    const char *family = family_name((enum family)port->family);
    char *name = port_state_name(port);
    if (route->has_any)
        log_debug(4, "policy", "service=%s family=%s endpoints=%zu local=%zu", name, family,
                  route->n_backends, route->n_local);
    else
        log_debug(4, "policy", "service=%s family=%s is rejected: no endpoint can serve", name,
                  family);
    free(name);
}

/* The set by which the endpoints of @port are counted: the Cluster set is rarely the smaller one.
 */
static enum backend_set counted_set(const struct port_state *port)
{
    return port_sets_needed(port) & BACKENDS_CLUSTER ? BACKENDS_CLUSTER : BACKENDS_LOCAL;
}

void routes_set_port(struct policy *policy, struct port_state *port)
{
    struct ruleset *ruleset = changing(policy, port->family);
    struct flow_cleaner *flows = flows_of(policy, (enum family)port->family, port->protocol);
    const struct decision *decision = &policy->decision;
    const backend_vec *in_use = &decision->in_use;
    shares_set(policy, port,
               counted_set(port) == BACKENDS_CLUSTER ? decision->cluster.n : decision->local.n);
    struct port_route route = decision_port_route(decision);
    set_hairpins(policy, port, &policy->decision.hairpins);
    policy_spend(policy, route.n_backends + route.n_local, COST_BACKEND);
    policy_spend(policy, route.n_sources / 2, COST_WALKED);
    log_port(port, &route);
    if (ruleset)
        ruleset_set_port(ruleset, port->id, &route);
    set_localhost_port(policy, port, &route);
    if (flows)
        flow_cleaner_set_port(flows, (enum family)port->family, port->id, in_use->v, in_use->n);
    port->passed = true;
}

static void log_port_change(const struct port_state *port)
{
    const backend_change_vec *changes = &port->details->changes;
    if (!log_enabled(4))
        return;
    char *name = port_state_name(port);
    log_debug(4, "policy",
              "service=%s family=%s joined=%zu left=%zu joined_local=%zu left_local=%zu", name,
              family_name((enum family)port->family), backends_coming(changes, BACKENDS_CLUSTER),
              backends_going(changes, BACKENDS_CLUSTER), backends_coming(changes, BACKENDS_LOCAL),
              backends_going(changes, BACKENDS_LOCAL));
    free(name);
}

bool routes_change_port(struct policy *policy, struct port_state *port)
{
    struct ruleset *ruleset = changing(policy, port->family);
    if (!port->details)
        return true;
    backend_change_vec *changes = &port->details->changes;
    backend_changes_sum(changes);
    change_hairpins(policy, port);
    if (changes->n == 0)
        return true;
    policy_spend(policy, changes->n, COST_BACKEND);
    const enum backend_set counted = counted_set(port);
    if (!shares_change(policy, port, backends_coming(changes, counted),
                       backends_going(changes, counted)) ||
        (ruleset && !ruleset_change_port(ruleset, port->id, changes)))
        return false;
    change_localhost_port(policy, port, changes);
    log_port_change(port);
    return true;
}

void routes_remove_port(struct policy *policy, struct port_state *port)
{
    static const backend_vec none;
    struct ruleset *ruleset = changing(policy, port->family);
    struct flow_cleaner *flows = flows_of(policy, (enum family)port->family, port->protocol);
    set_hairpins(policy, port, &none);
    if (port->localhost)
        localhost_remove_port(policy->config.localhost, port->id);
    if (!port->passed)
        return;
    if (ruleset)
        ruleset_remove_port(ruleset, port->id);
    if (flows)
        flow_cleaner_remove_port(flows, (enum family)port->family, port->id);
}
