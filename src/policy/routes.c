/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Passes decisions to the tables, and UDP frontends to the flow cleaner. */
#include "state.h"

#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

#include <linux/in.h>
#include <stdlib.h>

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
        if (is)
            ruleset_use_cluster_ip(changing(policy, family), is, true);
        if (was)
            ruleset_use_cluster_ip(changing(policy, family), was, false);
    }
}

/* FNV-1a. */
static uint64_t fingerprint(const backend_vec *backends)
{
    uint64_t hash = 0xcbf29ce484222325;
    _Static_assert(sizeof(struct backend) == 18, "backends are hashed as bytes");
    const uint8_t *bytes = (const uint8_t *)backends->v;
    for (size_t i = 0; i < backends->n * sizeof(struct backend); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash;
}

/* Reports changed serving endpoints of a UDP frontend: flows to any others are stale
 * (docs/behaviour.md 5.1). */
static void update_flows(struct policy *policy, struct frontend_state *target,
                         const backend_vec *serving)
{
    if (target->frontend.protocol != IPPROTO_UDP || !policy->config.flows ||
        !policy->config.tables[target->frontend.family])
        return;
    uint64_t now = fingerprint(serving);
    if (target->passed && target->serving == now)
        return;
    target->serving = now;
    policy_spend(policy, serving->n);
    flow_cleaner_note(policy->config.flows, &target->frontend, true, serving->v, serving->n);
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
    char *name = port_state_name(target->winner);
    log_debug(4, "policy", "frontend=%s service=%s policy=%s", text, name,
              route->local ? "Local" : "Cluster");
    free(name);
}

void routes_set_frontend(struct policy *policy, const struct claim *claim)
{
    const struct decision *decision = &policy->decision;
    struct frontend_state *target = claim->target;
    struct ruleset *ruleset = changing(policy, target->frontend.family);
    struct route route = decision_route(decision, claim);
    policy_spend(policy, 1 + route.n_sources / RANGES_A_BACKEND);
    log_frontend(target, &route);
    if (ruleset)
        ruleset_set(ruleset, &target->frontend, &route);
    update_flows(policy, target, &decision->serving);
    target->passed = true;
}

void routes_remove_frontend(struct policy *policy, struct frontend_state *target)
{
    struct ruleset *ruleset = changing(policy, target->frontend.family);
    policy_spend(policy, 1);
    if (!target->passed)
        return;
    target->passed = false;
    log_frontend(target, NULL);
    if (!ruleset)
        return;
    ruleset_remove(ruleset, &target->frontend);
    if (target->frontend.protocol == IPPROTO_UDP && policy->config.flows)
        flow_cleaner_note(policy->config.flows, &target->frontend, false, NULL, 0);
}

/* ---- service ports ---- */

/* Connections of a local backend to itself are masqueraded (docs/behaviour.md 4.5). */
static void use_hairpin(const struct policy *policy, const struct port_state *port,
                        const struct backend *backend, bool in_use)
{
    struct ruleset *ruleset = changing(policy, port->family);
    if (ruleset)
        ruleset_use_hairpin(ruleset, port->protocol, backend, in_use);
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
static void change_hairpins(const struct policy *policy, struct port_state *port)
{
    backend_vec *hairpins = &port->details->hairpins;
    vec_each (&port->details->hairpin_changes, change) {
        use_hairpin(policy, port, &change->backend, change->comes);
        if (change->comes) {
            vec_push(hairpins, change->backend);
            continue;
        }
        for (size_t i = 0; i < hairpins->n; i++)
            if (backend_equal(&hairpins->v[i], &change->backend)) {
                hairpins->v[i] = hairpins->v[--hairpins->n];
                break;
            }
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

void routes_set_port(struct policy *policy, struct port_state *port)
{
    struct ruleset *ruleset = changing(policy, port->family);
    struct port_route route = decision_port_route(&policy->decision);
    set_hairpins(policy, port, &policy->decision.hairpins);
    policy_spend(policy, 1 + route.n_backends + route.n_local);
    log_port(port, &route);
    if (ruleset)
        ruleset_set_port(ruleset, port->id, &route);
    port->passed = true;
}

static size_t count_coming(const backend_change_vec *changes)
{
    size_t coming = 0;
    vec_each (changes, change)
        coming += change->comes;
    return coming;
}

static void log_port_change(const struct port_state *port)
{
    if (!log_enabled(4))
        return;
    const backend_change_vec *cluster = &port->details->cluster, *local = &port->details->local;
    size_t joined = count_coming(cluster), joined_local = count_coming(local);
    char *name = port_state_name(port);
    log_debug(4, "policy",
              "service=%s family=%s joined=%zu left=%zu joined_local=%zu left_local=%zu", name,
              family_name((enum family)port->family), joined, cluster->n - joined, joined_local,
              local->n - joined_local);
    free(name);
}

bool routes_change_port(struct policy *policy, struct port_state *port)
{
    const struct port_details *details = port->details;
    struct ruleset *ruleset = changing(policy, port->family);
    if (!details)
        return true;
    const struct port_route_change change = {details->cluster.v, details->cluster.n,
                                             details->local.v, details->local.n};
    change_hairpins(policy, port);
    if (change.n_backends + change.n_local == 0)
        return true;
    policy_spend(policy, 1 + change.n_backends + change.n_local);
    if (ruleset && !ruleset_change_port(ruleset, port->id, &change))
        return false;
    log_port_change(port);
    return true;
}

void routes_remove_port(struct policy *policy, struct port_state *port)
{
    static const backend_vec none;
    struct ruleset *ruleset = changing(policy, port->family);
    set_hairpins(policy, port, &none);
    if (port->passed && ruleset)
        ruleset_remove_port(ruleset, port->id);
}
